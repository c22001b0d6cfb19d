//! Measurements of the solver, each in a process of its own: `solver-lab` of `tests/solver`.
use crate::command::Cargo;
use crate::command::Failure;
use crate::command::Run;
use crate::target;
use serde_json::Value;
use std::io::Read;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// What one process found out; `None` where it was not ready in time.
pub type Sample = Option<Value>;

pub fn build() -> Result<(), Failure> {
    Cargo::new("build")
        .args(["--release", "--package", "refrain-solver-lab"])
        .run()
}

/// Runs `solver-lab` with these arguments for at most so long.
pub fn measure(arguments: &[&str], limit: Duration) -> Result<Sample, Failure> {
    eprintln!("xtask: solver-lab {}", arguments.join(" "));
    let mut child = Command::new(target().join("release/solver-lab"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut output = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut output)?;
    }
    if !status.success() {
        return Err(Failure::new(format!(
            "solver-lab {} ended with {status}",
            arguments.join(" ")
        )));
    }
    let figures: Value =
        serde_json::from_str(&output).map_err(|e| Failure::new(format!("solver-lab wrote malformed JSON: {e}")))?;
    // Z3 has been told the limit, too.
    Ok(Some(figures).filter(|figures| figures["answer"] != "Unknown"))
}

pub fn number(sample: &Value, name: &str) -> f64 {
    sample[name].as_f64().unwrap_or(f64::NAN)
}

pub fn word(sample: &Value, name: &str) -> String {
    sample[name].as_str().unwrap_or("?").to_owned()
}
