//! Searches that go on elsewhere.
use crate::kernel::Executor;
use crate::kernel::examples::lost_in_the_end;
use crate::kernel::examples::needs_two;
use crate::kernel::examples::server;
use crate::properties::ATTEMPTS_MAX;
use crate::properties::bounded;
use crate::properties::sample;
use crate::properties::unbounded;
use schedule_search::Attempt;
use schedule_search::Ending;
use schedule_search::EventLog;
use schedule_search::Go;
use schedule_search::Label;
use schedule_search::Layer;
use schedule_search::Outcome;
use schedule_search::Replays;
use schedule_search::Search;
use schedule_search::Tuning;
use schedule_search::Unusable;
use simulated_machine::Random;

/// Goes on with what was saved after every attempt, instead of what it was saved from.
fn run_saved(mut search: Search, log: &EventLog, executor: &mut Executor) -> Search {
    while search.outcome().is_none() && search.statistics().attempts < ATTEMPTS_MAX {
        let outcome = search.run(executor, 1, |_| Go::Stop);
        assert_eq!(outcome == Outcome::Stopped, search.outcome().is_none());
        let restored = Search::restore(&search.save(), log.clone()).expect("just saved");
        assert_eq!(restored, search);
        search = restored;
    }
    search
}

#[test]
fn a_search_goes_on_wherever_it_was_stopped() {
    let mut cases: Vec<_> = vec![server(4), needs_two(2)];
    cases.extend(
        (0..150)
            .filter_map(sample)
            .map(|(_, program, recording)| (program, recording)),
    );
    let scattered = Tuning {
        scattered_max: 100,
        layers: vec![Layer::FirstAccesses, Layer::Accesses],
        ..unbounded()
    };
    let mut cases: Vec<_> = cases.into_iter().map(|case| (case, unbounded())).collect();
    cases.push((lost_in_the_end(8, 2), scattered));
    let mut stops = 0;
    for ((program, recording), tuning) in cases {
        let mut executor = Executor::new(&program, &recording);
        let mut whole = Search::new(recording.log.clone(), tuning.clone());
        whole.run(&mut executor, 1, bounded);
        let in_parts = run_saved(
            Search::new(recording.log.clone(), tuning),
            &recording.log,
            &mut executor,
        );
        assert_eq!(in_parts, whole);
        stops += whole.statistics().attempts;
    }
    assert!(stops > 300, "{stops}");
}

/// A search in the middle of its work, saved.
fn saved() -> (EventLog, Vec<u8>) {
    let (program, recording) = server(3);
    let mut search = Search::new(
        recording.log.clone(),
        Tuning {
            windows_first: 1,
            ..Tuning::default()
        },
    );
    let mut executor = Executor::new(&program, &recording);
    search.run(&mut executor, 1, |progress| {
        if progress.statistics.attempts < 12 {
            Go::On
        } else {
            Go::Stop
        }
    });
    (recording.log, search.save())
}

#[test]
fn other_bytes_are_refused() {
    let (log, bytes) = saved();
    assert_eq!(Search::restore(b"something", log.clone()), Err(Unusable::Magic));
    assert_eq!(Search::restore(&[], log.clone()), Err(Unusable::Magic));
    let mut newer = bytes.clone();
    newer[8] = 99;
    assert_eq!(
        Search::restore(&newer, log.clone()),
        Err(Unusable::Version { found: 99 })
    );
    let other = server(2).1.log;
    assert_eq!(Search::restore(&bytes, other), Err(Unusable::OtherLog));
    for cut in 8..bytes.len() {
        let result = Search::restore(&bytes[..cut], log.clone());
        assert!(
            matches!(result, Err(Unusable::Damaged { .. })),
            "cut at {cut}: {result:?}"
        );
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(Search::restore(&longer, log), Err(Unusable::Damaged { .. })));
}

/// Fails everything in the same way.
struct Failing;

impl Replays for Failing {
    fn attempt(&mut self, _: &schedule_search::Ask) -> Attempt {
        let ending = Ending::Deadlock {
            thread: run_model::ThreadIndex(1),
            label: Label(9),
        };
        Attempt {
            ending,
            met: 3,
            points: Vec::new(),
            accesses: Vec::new(),
            followed: Vec::new(),
            stands: Vec::new(),
        }
    }
}

#[test]
fn damaged_bytes_are_refused_or_mean_something() {
    let (log, bytes) = saved();
    let mut accepted = 0;
    for place in 8..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, bytes[place] ^ 1, bytes[place].wrapping_add(1)] {
            let mut damaged = bytes.clone();
            damaged[place] = value;
            let Ok(mut search) = Search::restore(&damaged, log.clone()) else {
                continue;
            };
            assert_eq!(search.save(), damaged, "byte {place} is {value}");
            accepted += 1;
            let mut left = 5;
            search.run(&mut Failing, 2, |_| {
                left -= 1;
                if left == 0 { Go::Stop } else { Go::On }
            });
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn damage_at_any_stage_is_refused_or_means_something() {
    let mut random = Random::new(7);
    let mut accepted = 0;
    for (program, recording) in [server(2), needs_two(1)] {
        let mut executor = Executor::new(&program, &recording);
        let mut search = Search::new(
            recording.log.clone(),
            Tuning {
                bound_first: 2,
                ..Tuning::default()
            },
        );
        while search.outcome().is_none() && search.statistics().attempts < 200 {
            search.run(&mut executor, 1, |_| Go::Stop);
            let bytes = search.save();
            for _ in 0..100 {
                let mut damaged = bytes.clone();
                for _ in 0..1 + random.below(3) {
                    let place = 8 + random.below(bytes.len() as u64 - 8) as usize;
                    damaged[place] = match random.below(3) {
                        0 => random.below(256) as u8,
                        1 => damaged[place] ^ (1 << random.below(8)),
                        _ => random.below(4) as u8,
                    };
                }
                let Ok(mut other) = Search::restore(&damaged, recording.log.clone()) else {
                    continue;
                };
                assert_eq!(other.save(), damaged);
                accepted += 1;
                let mut left = 6;
                other.run(&mut executor, 3, |_| {
                    left -= 1;
                    if left == 0 { Go::Stop } else { Go::On }
                });
            }
        }
    }
    assert!(accepted > 500, "{accepted}");
}
