//! A speed guest: built three ways, recorded, learned, enforced.
use crate::bench::directive;
use crate::bench::limited;
use crate::bench::measure;
use crate::bench::measure::Sample;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The guest that does next to nothing.
pub const START_UP: &str = "start-up";
/// Guests, their sources, and how much they have to do: as much as can be learned in some seconds.
pub const GUESTS: [(&str, &str, &[&str]); 14] = [
    (START_UP, "bank.c", &["-DSCALE=1/7500000"]),
    ("bank", "bank.c", &["-DSCALE=1/20"]),
    ("buffer_exchange", "buffer_exchange.cpp", &["-DSCALE=1/20"]),
    ("crypt", "crypt.c", &["-DSIZE=(256<<10)"]),
    ("hash_table", "hash_table.c", &["-DSCALE=1/20"]),
    ("lufact", "lufact.c", &["-DSIZE=220"]),
    ("matmul", "matmul.c", &["-DSIZE=140"]),
    ("montecarlo", "montecarlo.cpp", &["-DSCALE=1/4"]),
    ("pipeline", "pipeline.c", &["-DSCALE=1/25"]),
    ("radix", "radix.c", &["-DSIZE=250000"]),
    ("raytracer", "raytracer.cpp", &["-DSCALE=1/6"]),
    ("series", "series.c", &[]),
    ("sor", "sor.c", &["-DSIZE=100"]),
    ("sparsematmult", "sparsematmult.c", &["-DSIZE=1200"]),
];
/// For one run, and for learning.
const LIMIT: Duration = Duration::from_secs(300);

pub struct Guest {
    pub name: &'static str,
    native: PathBuf,
    recordable: PathBuf,
    deterministic: PathBuf,
    /// Where its schedules are.
    store: PathBuf,
}

/// What was learned, and what that took.
pub struct Lesson {
    pub recording_s: f64,
    pub solving_s: f64,
    pub tracing_s: f64,
    pub relaxing_s: f64,
    pub accesses: u64,
    pub steps: u64,
    pub hand_overs: u64,
    pub constraints: u64,
}

pub fn build(name: &'static str, source: &str, size: &[&str], folder: &Path) -> Result<Guest, Failure> {
    let source = root().join("tests/bench").join(source);
    let text = fs::read_to_string(&source)?;
    let flags = directive(&text, "flags").unwrap_or_else(|| "-O2".to_owned());
    let link = directive(&text, "link").unwrap_or_default();
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let compile = |words: &[&str], suffix: &str| {
        let program = folder.join(format!("{name}.{suffix}"));
        let mut compiler = Command::new(words[0]);
        compiler
            .args(&words[1..])
            .args(flags.split_whitespace())
            .args(["-g", "-pthread"])
            .args(size)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .args(link.split_whitespace())
            .arg("-lm");
        compiler.run().map(|()| program)
    };
    let tool = refrain();
    let tool = tool.to_string_lossy();
    let (clang, ours) = if is_cpp {
        ("clang++-22", "c++")
    } else {
        ("clang-22", "cc")
    };
    Ok(Guest {
        name,
        native: compile(&[clang], "native")?,
        recordable: compile(&[&tool, ours], "recordable")?,
        deterministic: compile(&[&tool, ours, "--det"], "det")?,
        store: folder.join(format!("{name}.store")),
    })
}

impl Guest {
    /// As native code, and what it printed.
    pub fn native(&self) -> Result<(Sample, Vec<u8>), Failure> {
        measure::plain(&self.native)
    }

    /// By `refrain record`, built without `--det`.
    pub fn record(&self, expected: &[u8]) -> Result<Sample, Failure> {
        let (sample, output) = measure::recorded(&self.recordable, "memory", &self.store.with_extension("run"))?;
        self.require_same(&output, expected, "refrain record")?;
        Ok(sample)
    }

    /// Forgets what was learned, and learns it anew.
    pub fn learn(&self) -> Result<Lesson, Failure> {
        if self.store.exists() {
            fs::remove_dir_all(&self.store)?;
        }
        let (_, report) = self.run(&[])?;
        let all = self.schedules(&["ls"])?;
        let name = all[0]["name"].as_str();
        let name = name.ok_or_else(|| Failure::new(format!("no schedule of {} was learned: {report}", self.name)))?;
        let info = self.schedules(&["info", name])?;
        let learned = &info["meta"]["learned"];
        let seconds = |field: &str| learned[field].as_f64().unwrap_or(f64::NAN) / 1000.0;
        let number = |field: &str| learned[field].as_u64().unwrap_or(0);
        let directory = Path::new(info["directory"].as_str().unwrap_or_default());
        Ok(Lesson {
            recording_s: seconds("recording_ms"),
            solving_s: seconds("solving_ms"),
            tracing_s: seconds("tracing_ms"),
            relaxing_s: seconds("relaxing_ms"),
            accesses: number("accesses"),
            steps: number("steps"),
            hand_overs: hand_overs(&fs::read_to_string(directory.join("steps"))?),
            constraints: number("constraints"),
        })
    }

    /// Seconds that the program took under its schedule.
    pub fn enforce(&self, options: &[&str], expected: &[u8]) -> Result<f64, Failure> {
        let (output, report) = self.run(options)?;
        self.require_same(output.as_bytes(), expected, "refrain run")?;
        enforced_s(&report).ok_or_else(|| Failure::new(format!("no time was reported: {report}")))
    }

    /// A fast wrong answer is no answer.
    fn require_same(&self, output: &[u8], expected: &[u8], how: &str) -> Result<(), Failure> {
        match output == expected {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{} printed something else under `{how}` than natively",
                self.name
            ))),
        }
    }

    /// `refrain run` with these options: what the program printed, and what was reported.
    fn run(&self, options: &[&str]) -> Result<(String, String), Failure> {
        let mut command = Command::new(refrain());
        command
            .args(["run", "--report"])
            .args(options)
            .arg("--")
            .arg(&self.deterministic)
            .env("REFRAIN_DIR", &self.store);
        let ended = limited::run(command, LIMIT)?;
        match ended.status {
            Some(0) => Ok((ended.stdout, ended.stderr)),
            _ => Err(Failure::new(format!(
                "`refrain run` of {}: {}",
                self.name,
                ended.reason()
            ))),
        }
    }

    fn schedules(&self, words: &[&str]) -> Result<Value, Failure> {
        let mut command = Command::new(refrain());
        command
            .args(["schedules", "--json"])
            .args(words)
            .env("REFRAIN_DIR", &self.store);
        let text = Run::output(&mut command)?;
        serde_json::from_str(&text).map_err(|e| Failure::new(format!("refrain wrote malformed JSON: {e}")))
    }
}

/// Steps that are those of another thread than the one before them.
pub fn hand_overs(steps: &str) -> u64 {
    let threads: Vec<&str> = steps
        .lines()
        .take_while(|line| *line != "constraints")
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    threads.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
}

/// The time of the program in the report of an enforced run: "hit: … in 3.1 ms".
pub fn enforced_s(report: &str) -> Option<f64> {
    let line = report.lines().find(|line| line.starts_with("refrain: hit: "))?;
    let ms: f64 = line.strip_suffix(" ms")?.rsplit_once(" in ")?.1.parse().ok()?;
    Some(ms / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_overs_are_counted() {
        let steps = "steps\n     1  t0  Spawn\n     2  t1  Start\n     3  t1  Exit\n     4  t0  Join o1\nconstraints\n    <a.c:1, t1, 2, 0> -> <a.c:2, t0, 1, 1>\n";
        assert_eq!(hand_overs(steps), 2);
    }

    #[test]
    fn reports_have_a_time() {
        let report = "refrain: hit: schedule 3ba8 enforced: 2 threads, 13 synchronisations, 1 constraint in 3.1 ms\n";
        assert_eq!(enforced_s(report), Some(0.0031));
        assert_eq!(enforced_s("refrain: miss: learned"), None);
    }
}
