//! Time and memory of one solution. A measurement has a process of its own, so that its memory is its own.
use crate::generate::Family;
use crate::generate::LogShape;
use crate::generate::generate_logs;
use crate::oracle;
use crate::verify;
use constraint_solver::Hints;
use replayer::LoadedRun;
use run_model::Logs;
use run_store::Store;
use rustix::time::ClockId;
use rustix::time::clock_gettime;
use std::fs;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// Names with numbers or words, as one line of JSON.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<(String, String)>);

impl Figures {
    fn number(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    fn word(&mut self, name: &str, value: &str) {
        assert!(!value.contains(['"', '\\']), "{value} would have to be escaped");
        self.0.push((name.to_owned(), format!("\"{value}\"")));
    }

    pub fn json(&self) -> String {
        let fields: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Solves generated logs.
pub fn generated(shape: LogShape, seed: u64, hints: Hints) -> Result<Figures, String> {
    logs(&generate_logs(shape, seed), hints)
}

/// Solves the logs of a recorded run.
pub fn recorded(run: &Path, hints: Hints) -> Result<Figures, String> {
    let store = Store::at(run).map_err(|e| e.to_string())?;
    let run = store.open(Some(run.as_os_str())).map_err(|e| e.to_string())?;
    logs(&LoadedRun::load(run).map_err(|e| e.to_string())?.logs, hints)
}

fn logs(logs: &Logs, hints: Hints) -> Result<Figures, String> {
    let mut figures = Figures::default();
    let records = || logs.threads.iter().flat_map(|thread| &thread.records);
    let depends = |record: &&run_model::Record| !record.sources.is_empty() || record.kind == run_model::Kind::Seen;
    figures.number("threads", logs.threads.len());
    figures.number("dependences", records().filter(depends).count());
    let before = memory_bytes("VmRSS:")?;
    // From here on, the peak is ours. Where the kernel does not allow it, the peak of making the logs counts, too.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (started, cpu) = (Instant::now(), cpu_s());
    let solution = constraint_solver::solve(logs, hints).map_err(|e| e.to_string())?;
    let (solved, cpu) = (started.elapsed(), cpu_s() - cpu);
    figures.number("logs_bytes", before);
    figures.number("peak_bytes", memory_bytes("VmHWM:")?);
    let started = Instant::now();
    schedule_checker::check(logs, &solution.schedule).map_err(|e| format!("the checker rejects the schedule: {e}"))?;
    figures.number("check_s", started.elapsed().as_secs_f64());
    figures.number("solve_s", solved.as_secs_f64());
    figures.number("cpu_s", cpu);
    let stats = &solution.stats;
    figures.word("layer", &format!("{:?}", stats.layer));
    for (name, value) in [
        ("records", stats.records),
        ("nodes", stats.nodes),
        ("edges", stats.edges),
        ("waits", stats.waits),
        ("cells", stats.cells),
        ("intervals", stats.intervals),
        ("forced", stats.forced),
        ("components", stats.components),
        ("decisions", stats.decisions),
        ("conflicts", stats.conflicts),
    ] {
        figures.number(name, value);
    }
    Ok(figures)
}

/// Who decides a generated problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    Solver,
    Z3,
}

/// Decides one instance of a family.
pub fn problem(
    family: Family,
    size: usize,
    seed: u64,
    decider: Decider,
    hints: Hints,
    limit: Duration,
) -> Result<Figures, String> {
    let problem = family.instance(size, seed, hints == Hints::Ignore);
    let mut figures = Figures::default();
    figures.number(
        "nodes",
        problem.chains.iter().map(|length| u64::from(*length)).sum::<u64>(),
    );
    figures.number("intervals", problem.exclusions.iter().map(Vec::len).sum::<usize>());
    figures.number("choices", problem.choices.len());
    figures.number("size", size);
    match decider {
        Decider::Z3 => {
            let verdict = oracle::ask(&problem, limit);
            figures.number("solve_s", verdict.total.as_secs_f64());
            figures.number("check_s", verdict.checking.as_secs_f64());
            figures.word("answer", &format!("{:?}", verdict.answer));
            figures.number("peak_bytes", memory_bytes("VmHWM:")?);
        }
        Decider::Solver => {
            let started = Instant::now();
            let resolved = constraint_solver::resolve(&problem, hints);
            figures.number("solve_s", started.elapsed().as_secs_f64());
            figures.number("peak_bytes", memory_bytes("VmHWM:")?);
            match resolved {
                Ok(resolved) => {
                    verify::verify(&problem, &resolved)?;
                    figures.word("answer", "Satisfiable");
                    figures.word("layer", &format!("{:?}", resolved.layer));
                    figures.number("forced", resolved.forced);
                    figures.number("decisions", resolved.decisions);
                    figures.number("conflicts", resolved.conflicts);
                }
                Err(circle) => {
                    verify::verify_circle(&problem, &circle)?;
                    figures.word("answer", "Unsatisfiable");
                }
            }
        }
    }
    Ok(figures)
}

fn memory_bytes(name: &str) -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| format!("/proc/self/status has no line {name}"))
}

/// Processor time of all threads so far.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
