//! Generated logs are logs: the solver solves them with hints and without, and the checker accepts what it says.
use constraint_solver::Hints;
use constraint_solver::Layer;
use constraint_solver::solve;
use refrain_solver_lab::generate::LogShape;
use refrain_solver_lab::generate::Mix;
use refrain_solver_lab::generate::Recorder;
use refrain_solver_lab::generate::generate_logs;
use run_model::Logs;
use std::collections::BTreeSet;

fn check(logs: &Logs, what: &str) -> BTreeSet<Layer> {
    let mut layers = BTreeSet::new();
    for hints in [Hints::Use, Hints::Ignore] {
        let solution = solve(logs, hints).unwrap_or_else(|why| panic!("{what}, {hints:?}: {why}"));
        if let Err(why) = schedule_checker::check(logs, &solution.schedule) {
            panic!("{what}, {hints:?}: {why}");
        }
        layers.insert(solution.stats.layer);
    }
    layers
}

#[test]
fn generated_logs_are_solved() {
    let mut layers = BTreeSet::new();
    for seed in 0..30 {
        for recorder in [Recorder::Hiding, Recorder::Complete] {
            for (threads, dependences) in [(2, 50), (3, 200), (8, 600), (64, 1000)] {
                let mut shape = LogShape::new(threads, dependences, recorder);
                shape.cells = 1 + seed as usize % 16;
                if seed % 3 == 0 {
                    shape.mix = Mix {
                        reads: 1,
                        blind: 4,
                        updates: 1,
                    };
                }
                let logs = generate_logs(shape, seed);
                layers.extend(check(&logs, &format!("{shape:?}, seed {seed}")));
            }
        }
    }
    assert!(
        layers.contains(&Layer::Collapsed) && layers.contains(&Layer::Hinted),
        "{layers:?}"
    );
    assert!(layers.iter().any(|layer| *layer > Layer::Hinted), "{layers:?}");
}

/// As many as were asked for, and the same for the same seed.
#[test]
fn generated_logs_are_as_ordered() {
    let shape = LogShape::new(8, 10_000, Recorder::Complete);
    let logs = generate_logs(shape, 1);
    let depends = |record: &&run_model::Record| !record.sources.is_empty() || record.kind == run_model::Kind::Seen;
    let dependences = logs.threads.iter().flat_map(|t| &t.records).filter(depends).count();
    assert!((10_000..10_100).contains(&dependences), "{dependences}");
    assert_eq!(logs, generate_logs(shape, 1));
    check(&logs, "10,000 dependences");
}

/// Whoever decides which part, and in which order they are done.
#[test]
fn the_same_logs_give_the_same_schedule() {
    let mut shape = LogShape::new(8, 20_000, Recorder::Complete);
    shape.cells = 4;
    shape.mix = Mix {
        reads: 1,
        blind: 1,
        updates: 0,
    };
    let logs = generate_logs(shape, 3);
    let first = solve(&logs, Hints::Ignore).expect("logs of an execution");
    assert_eq!(first.stats.layer, Layer::Searched, "{:?}", first.stats);
    assert!(first.stats.components > 1, "{:?}", first.stats);
    for _ in 0..5 {
        assert_eq!(first, solve(&logs, Hints::Ignore).expect("logs of an execution"));
    }
}
