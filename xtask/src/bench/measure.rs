//! One run of one program: processor time, wall time, memory, and what it printed.
#![allow(unsafe_code, reason = "wait4 is the only way to the resource usage of one child")]

use crate::command::Failure;
use crate::refrain;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub cpu_s: f64,
    pub wall_s: f64,
    pub memory_bytes: f64,
    /// 0 where nothing was logged.
    pub log_bytes: f64,
}

/// A program by itself.
pub fn plain(program: &Path) -> Result<(Sample, Vec<u8>), Failure> {
    plain_with(program, &[], &[])
}

/// A program by itself, with these arguments and variables.
pub fn plain_with(
    program: &Path,
    arguments: &[String],
    variables: &[(&str, &str)],
) -> Result<(Sample, Vec<u8>), Failure> {
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut output)?;
    }
    let sample = usage_of(child.id(), started, &program.display().to_string())?;
    Ok((sample, output))
}

/// Waits for a child that nobody else waits for.
fn usage_of(child: u32, started: Instant, name: &str) -> Result<Sample, Failure> {
    let (mut status, process) = (0, child as libc::pid_t);
    // SAFETY: `process` is our child and nobody else waits for it; both structures are plain old data of our own.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(process, &mut status, 0, &mut usage), usage)
    };
    if waited != process || status != 0 {
        return Err(Failure::new(format!("{name} failed (wait status {status})")));
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(Sample {
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        wall_s: started.elapsed().as_secs_f64(),
        // Linux counts in kilobytes.
        memory_bytes: usage.ru_maxrss as f64 * 1024.0,
        log_bytes: 0.0,
    })
}

/// A program that is running, by itself or under `refrain record`.
pub struct Started {
    child: Child,
    since: Instant,
    name: String,
}

impl Started {
    pub fn new(mut command: Command) -> Result<Started, Failure> {
        let name = format!("{command:?}");
        let since = Instant::now();
        let child = command.stderr(Stdio::null()).spawn()?;
        Ok(Started { child, since, name })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end. `refrain record` passes that on to its program.
    pub fn terminate(&self) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
    }

    /// Waits for its end. The figures are those of the program: of the child, or as the recording has them.
    pub fn finish(self, run: Option<&Path>) -> Result<Sample, Failure> {
        let sample = usage_of(self.child.id(), self.since, &self.name)?;
        match run {
            Some(run) => recorded_sample(run),
            None => Ok(sample),
        }
    }
}

/// Processor time that a running process and those it has started have had.
pub fn cpu_of_family(process: u32) -> Result<f64, Failure> {
    let mut seconds = cpu_of(process)?;
    for child in children_of(process)?.split_whitespace() {
        seconds += child.parse().map_or(Ok(0.0), cpu_of_family)?;
    }
    Ok(seconds)
}

/// Processor time that the threads of a running process have had, those that ended excepted.
fn cpu_of(process: u32) -> Result<f64, Failure> {
    let mut nanoseconds = 0u64;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        // "time on a processor, time waiting for one, slices"; nothing if the thread has just ended.
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0);
    }
    Ok(nanoseconds as f64 / 1e9)
}

fn children_of(process: u32) -> Result<String, Failure> {
    let mut children = String::new();
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        children.push_str(&fs::read_to_string(task?.path().join("children")).unwrap_or_default());
    }
    Ok(children)
}

/// Asks a process that somebody we started has started to end.
pub fn terminate(process: u32) {
    // SAFETY: the child of a child of ours that waits for it.
    unsafe { libc::kill(process as libc::pid_t, libc::SIGTERM) };
}

/// The one child of a process that has one.
pub fn only_child(process: u32) -> Result<u32, Failure> {
    let children = children_of(process)?;
    let children = children.trim();
    children
        .parse()
        .map_err(|_| Failure::new(format!("expected one child of process {process}, found '{children}'")))
}

/// Puts this process on one processor, or on "all".
pub fn pin_to(cpu: &str) -> Result<(), Failure> {
    // SAFETY: a set of processors is plain old data; the kernel reads it.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match cpu.parse() {
            Ok(cpu) => libc::CPU_SET(cpu, &mut set),
            Err(_) => (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut set)),
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match pinned {
        0 => Ok(()),
        _ => Err(Failure::new(format!("there is no processor {cpu}"))),
    }
}

/// A recording; the figures are those of the program, which refrain keeps in the run.
pub fn recorded(program: &Path, scope: &str, run: &Path) -> Result<(Sample, Vec<u8>), Failure> {
    recorded_by(&refrain(), program, &[], &["--scope", scope], run)
}

/// The same by a build of Refrain, with arguments for the program and for `refrain record`.
pub fn recorded_by(
    tool: &Path,
    program: &Path,
    arguments: &[String],
    how: &[&str],
    run: &Path,
) -> Result<(Sample, Vec<u8>), Failure> {
    if run.exists() {
        fs::remove_dir_all(run)?;
    }
    let mut command = Command::new(tool);
    command
        .arg("record")
        .args(how)
        .arg("-o")
        .arg(run)
        .arg("--")
        .arg(program)
        .args(arguments);
    let output = command
        .stdin(Stdio::null())
        .env("REFRAIN_DIR", run.with_extension("store"))
        .output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!(
            "recording {} ({}) failed: {words}",
            program.display(),
            how.join(" ")
        )));
    }
    Ok((recorded_sample(run)?, output.stdout))
}

fn recorded_sample(run: &Path) -> Result<Sample, Failure> {
    let meta: Value = json(&fs::read(run.join("run.json"))?)?;
    let number = |name: &str| meta["ending"][name].as_f64().unwrap_or(f64::NAN);
    Ok(Sample {
        cpu_s: number("cpu_ms") / 1000.0,
        wall_s: number("duration_ms") / 1000.0,
        memory_bytes: number("memory_bytes"),
        log_bytes: number("log_bytes") + number("input_bytes") + log_bytes_of_others(run)?,
    })
}

/// What the processes logged that the first one started.
fn log_bytes_of_others(run: &Path) -> Result<f64, Failure> {
    let mut bytes = 0.0;
    for entry in fs::read_dir(run)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("process-") {
            continue;
        }
        for file in fs::read_dir(entry.path())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("thread-") {
                bytes += file.metadata()?.len() as f64;
            }
        }
    }
    Ok(bytes)
}

/// A replay of the run; only its wall time is known.
pub fn replayed(run: &Path) -> Result<(Sample, Vec<u8>), Failure> {
    replayed_by(&refrain(), run)
}

/// The same by a build of Refrain.
pub fn replayed_by(tool: &Path, run: &Path) -> Result<(Sample, Vec<u8>), Failure> {
    let mut command = Command::new(tool);
    command.args(["replay", "--json"]).arg(run);
    let output = command
        .stdin(Stdio::null())
        .env("REFRAIN_DIR", run.with_extension("store"))
        .output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        return Err(Failure::new(format!("replaying {} failed: {words}", run.display())));
    }
    let elapsed_ms = json(&output.stdout)?["elapsed_ms"].as_f64().unwrap_or(f64::NAN);
    let sample = Sample {
        wall_s: elapsed_ms / 1000.0,
        ..Sample::default()
    };
    // The replay compared its output with the recorded one, which is in the run.
    Ok((sample, fs::read(run.join("stdout"))?))
}

fn json(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes).map_err(|e| Failure::new(format!("refrain wrote malformed JSON: {e}")))
}
