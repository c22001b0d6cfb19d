//! Logs of real runs, kept in `tests/solver/recorded`: `blind_stores` of the guests, six threads, recorded with chaos.
use constraint_solver::Hints;
use constraint_solver::Layer;
use constraint_solver::solve;
use run_model::Logs;
use run_model::Method;
use run_model::Record;
use run_model::ThreadIndex;
use run_model::ThreadLog;
use std::fs;
use std::path::Path;

const THREADS: u32 = 7;

/// The logs, with counts that everything in them fits: those of the run itself were in its control file.
fn load(name: &str) -> Logs {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded").join(name);
    let records = |thread: u32| -> Vec<Record> {
        let file = folder.join(format!("thread-{thread}.log"));
        let bytes = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        log_format::decode(&bytes, ThreadIndex(thread))
            .expect("an intact log")
            .records
    };
    let all: Vec<Vec<Record>> = (0..THREADS).map(records).collect();
    let events = |thread: u32| {
        let own = all[thread as usize].iter().map(|record| record.event + 1);
        let sources = all.iter().flatten().flat_map(|record| &record.sources);
        let seen = sources
            .filter(|source| source.thread.0 == thread)
            .map(|source| source.count);
        own.chain(seen).max().unwrap_or(0)
    };
    let counts: Vec<u64> = (0..THREADS).map(events).collect();
    let log = |(records, events)| ThreadLog {
        records,
        events,
        torn: false,
        inputs: Vec::new(),
    };
    Logs {
        method: Method::Light,
        threads: all.into_iter().zip(counts).map(log).collect(),
    }
}

#[test]
fn recorded_runs_are_solved_with_and_without_hints() {
    for name in ["blind-stores-1", "blind-stores-2"] {
        let logs = load(name);
        for hints in [Hints::Use, Hints::Ignore] {
            let solution = solve(&logs, hints).unwrap_or_else(|why| panic!("{name}, {hints:?}: {why}"));
            assert!(
                solution.stats.intervals > 500,
                "{name}: nothing to decide: {:?}",
                solution.stats
            );
            assert_eq!(solution.stats.layer == Layer::Hinted, hints == Hints::Use, "{name}");
            schedule_checker::check(&logs, &solution.schedule).unwrap_or_else(|why| panic!("{name}, {hints:?}: {why}"));
        }
    }
}
