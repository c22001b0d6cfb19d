//! Building a guest in all ways, running it, and looking at the runs.
use super::variant::Build;
use super::variant::Variant;
use crate::bench::directive;
use crate::bench::limited;
use crate::bench::limited::Ended;
use crate::bench::limited::shortened;
use crate::command::Failure;
use crate::refrain;
use crate::root;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// More than any recording here should have; a run that is cut there is not counted.
const LOG_BYTES_MAX: &str = "400M";
const RECORDING_S: u64 = 60;
/// For what refrain does to a run: count its records, solve it, replay it.
pub const LOOKING: Duration = Duration::from_secs(180);

/// Why there is no figure.
pub type Reason = String;

/// A guest to be built: its source, and what its size is.
#[derive(Clone)]
pub struct Recipe {
    pub name: String,
    pub source: PathBuf,
    pub defines: Vec<String>,
    /// It says what it took.
    pub measured: bool,
}

/// One guest, built in several ways, or why that failed.
pub type Programs = BTreeMap<Build, Result<PathBuf, Reason>>;

/// What a program said it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    pub cpu_s: f64,
    pub wall_s: f64,
}

/// Builds all of them, several at a time; in their order.
pub fn build_all(recipes: &[Recipe], builds: &[Build], folder: &Path) -> Result<Vec<Programs>, Failure> {
    eprintln!("xtask: {} guests in {} ways", recipes.len(), builds.len());
    let jobs: Vec<(usize, Build)> = (0..recipes.len())
        .flat_map(|recipe| builds.iter().map(move |build| (recipe, *build)))
        .collect();
    let next = Mutex::new(jobs.into_iter());
    let built = Mutex::new(vec![Programs::new(); recipes.len()]);
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((recipe, build)) = locked(&next).next() {
                    match compile(&recipes[recipe], build, folder) {
                        Ok(program) => drop(locked(&built)[recipe].insert(build, program)),
                        Err(failure) => *locked(&failed) = Some(failure),
                    }
                }
            });
        }
    });
    match locked(&failed).take() {
        Some(failure) => Err(failure),
        None => Ok(std::mem::take(&mut *locked(&built))),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn compile(recipe: &Recipe, build: Build, folder: &Path) -> Result<Result<PathBuf, Reason>, Failure> {
    let text = fs::read_to_string(&recipe.source)?;
    let is_cpp = recipe.source.extension().is_some_and(|extension| extension == "cpp");
    let mut compiler = match build {
        Build::Native => Command::new(if is_cpp { "clang++-22" } else { "clang-22" }),
        _ => {
            let mut ours = Command::new(refrain());
            ours.arg(if is_cpp { "c++" } else { "cc" });
            ours
        }
    };
    if build == Build::Everything {
        compiler.env("REFRAIN_O2", "0");
    }
    let program = folder.join(format!("{}.{build:?}", recipe.name).to_lowercase());
    let flags = directive(&text, "flags").unwrap_or_else(|| "-O2".to_owned());
    compiler.arg(if is_cpp { "-std=c++20" } else { "-std=gnu11" });
    compiler.args(flags.split_whitespace()).args(["-g", "-pthread"]);
    if recipe.measured {
        compiler.arg("-include").arg(root().join("tests/methods/measure.h"));
    }
    compiler.args(&recipe.defines).arg(&recipe.source);
    compiler.arg("-o").arg(&program);
    compiler
        .args(directive(&text, "link").unwrap_or_default().split_whitespace())
        .arg("-lm");
    let ended = limited::run(compiler, LOOKING)?;
    Ok(match ended.status {
        Some(0) => Ok(program),
        _ => Err(format!("does not build: {}", ended.reason())),
    })
}

/// A program by itself; `Err` if it did not say what it took.
pub fn native(program: &Path) -> Result<Result<(Taken, Ended), Reason>, Failure> {
    let ended = limited::run(Command::new(program), Duration::from_secs(RECORDING_S))?;
    Ok(match taken(&ended.stderr) {
        Some(taken) => Ok((taken, ended)),
        None => Err(ended.reason()),
    })
}

/// A run of a program that stays until it is dropped.
pub struct Recorded {
    pub run: PathBuf,
    pub ended: Ended,
    pub log_bytes: f64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // If it cannot be removed, the next recording says so.
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// Records a program; `Err` if there is no whole run. How the program ended is for the caller to judge.
pub fn record(
    program: &Path,
    variant: Variant,
    extra: &[&str],
    folder: &Path,
    limit: Duration,
) -> Result<Result<Recorded, Reason>, Failure> {
    let run = folder.join("run");
    if run.exists() {
        fs::remove_dir_all(&run)?;
    }
    let mut command = of_refrain("record", folder);
    command.args(variant.arguments()).args(["--max-size", LOG_BYTES_MAX]);
    command.args(extra).arg("-o").arg(&run).arg("--").arg(program);
    let ended = run_about(command, limit, &run)?;
    let meta = fs::read(run.join("run.json")).ok();
    let mut recorded = Recorded {
        run,
        ended,
        log_bytes: f64::NAN,
    };
    let Some(meta) = meta.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
        return Ok(Err(recorded.ended.reason()));
    };
    let ending = &meta["ending"];
    recorded.log_bytes = ending["log_bytes"].as_f64().unwrap_or(f64::NAN);
    Ok(match &ending["truncated"] {
        _ if recorded.ended.status.is_none() => Err(recorded.ended.reason()),
        Value::Null => Ok(recorded),
        reason => Err(format!("log cut: {}", shortened(&reason.to_string()))),
    })
}

/// What it says does not depend on where the run is.
fn run_about(command: Command, limit: Duration, run: &Path) -> Result<Ended, Failure> {
    let mut ended = limited::run(command, limit)?;
    ended.stderr = ended.stderr.replace(&run.display().to_string(), "the run");
    Ok(ended)
}

/// `refrain` with its runs below the folder.
fn of_refrain(subcommand: &str, folder: &Path) -> Command {
    let mut command = Command::new(refrain());
    command.arg(subcommand).env("REFRAIN_DIR", folder.join("store"));
    command
}

impl Recorded {
    /// A subcommand that answers about the run in JSON; `Err` if it has something else to say.
    pub fn ask(&self, subcommand: &str, arguments: &[&str]) -> Result<Result<Value, Reason>, Failure> {
        let mut command = of_refrain(subcommand, self.folder());
        command.arg("--json").args(arguments).arg(&self.run);
        let ended = run_about(command, LOOKING, &self.run)?;
        // A divergence is an answer, too.
        Ok(serde_json::from_str(&ended.stdout).map_err(|_| ended.reason()))
    }

    /// The formula of the run, in the language that all SMT solvers read.
    pub fn write_formula(&self, file: &Path) -> Result<Result<(), Reason>, Failure> {
        let mut command = of_refrain("solve", self.folder());
        command.arg("--emit-smt2").arg(file).arg(&self.run);
        let ended = run_about(command, LOOKING, &self.run)?;
        Ok(match ended.status {
            Some(0) => Ok(()),
            _ => Err(ended.reason()),
        })
    }

    pub fn count(&self) -> Result<Result<Counted, Reason>, Failure> {
        Ok(self.ask("dump", &["--count"])?.map(|counts| Counted { counts }))
    }

    fn folder(&self) -> &Path {
        self.run.parent().unwrap_or(&self.run)
    }
}

/// How many records of each kind a run has.
pub struct Counted {
    counts: Value,
}

impl Counted {
    /// Long integers, counted as the papers do; ints are halves (Light, §5.2).
    ///
    /// Light: the event of each record, and each of its sources; a dependence has one of each. LEAP: an access vector as
    /// it is kept here, the thread and the length of each run. STRIDE and OREO: of each access the value and, half, the
    /// version; of each synchronisation the record.
    pub fn longs(&self, variant: Variant) -> f64 {
        let versioned = self.records("read") + self.records("write");
        let runs = self.records("vector");
        let other = self.all("records") - versioned - runs;
        let other_sources = self.all("sources") - self.sources("vector");
        match variant {
            Variant::Stride | Variant::Oreo => 1.5 * versioned + other,
            _ => 2.0 * runs + other + other_sources,
        }
    }

    /// The same of LEAP if vectors are not kept as runs: one for each event of any thread.
    pub fn events(&self) -> f64 {
        self.counts["events"].as_f64().unwrap_or(f64::NAN)
    }

    /// Accesses to memory that STRIDE and OREO recorded.
    pub fn accesses(&self) -> f64 {
        self.records("read") + self.records("write")
    }

    fn records(&self, kind: &str) -> f64 {
        self.counts["kinds"][kind]["records"].as_f64().unwrap_or(0.0)
    }

    fn sources(&self, kind: &str) -> f64 {
        self.counts["kinds"][kind]["sources"].as_f64().unwrap_or(0.0)
    }

    fn all(&self, figure: &str) -> f64 {
        let kinds = self.counts["kinds"].as_object().into_iter().flatten();
        kinds.filter_map(|(_, counts)| counts[figure].as_f64()).sum()
    }
}

/// The line of `tests/methods/measure.h`.
pub fn taken(stderr: &str) -> Option<Taken> {
    let line = stderr.lines().rev().find_map(|line| line.strip_prefix("measured: "))?;
    let mut numbers = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
    Some(Taken {
        cpu_s: numbers.next()? / 1e9,
        wall_s: numbers.next()? / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_guest_took_is_in_its_last_words() {
        let words = "a bug\nmeasured: 2500000 ns of processor time, 4000000 ns\nrefrain: kept\n";
        let expected = Taken {
            cpu_s: 0.0025,
            wall_s: 0.004,
        };
        assert_eq!((taken(words), taken("nothing")), (Some(expected), None));
    }

    #[test]
    fn long_integers_are_counted_by_method() {
        let kinds = json!({
            "run": { "records": 10, "sources": 10 }, "sync": { "records": 3, "sources": 2 },
            "vector": { "records": 7, "sources": 6 }, "read": { "records": 4, "sources": 0 },
        });
        let counted = Counted {
            counts: json!({ "events": 99, "kinds": kinds }),
        };
        assert_eq!(counted.longs(Variant::Leap), 2.0 * 7.0 + 13.0 + 12.0);
        assert_eq!(counted.longs(Variant::Oreo), 1.5 * 4.0 + 13.0);
        assert_eq!((counted.events(), counted.accesses()), (99.0, 4.0));
    }
}
