//! The methods that record every access: their recorders themselves, in random orders of steps; solved, checked and replayed.
use constraint_solver::Hints;
use constraint_solver::Solution;
use constraint_solver::Stats;
use constraint_solver::solve;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use run_model::Method;
use run_model::Schedule;
use schedule_checker::Rejection;
use schedule_checker::check;
use simulated_machine::Fault;
use simulated_machine::Program;
use simulated_machine::Random;
use simulated_machine::Recording;
use simulated_machine::Replay;
use simulated_machine::Shape;
use simulated_machine::Tuning;
use simulated_machine::generate;
use simulated_machine::record;

const METHODS: [Method; 3] = [Method::Leap, Method::Stride, Method::Oreo];
const SHAPES: [Shape; 4] = [Shape::SMALL, Shape::MEDIUM, Shape::LARGE, Shape::HOT];

fn program(seed: u64, shape: Shape) -> Program {
    let mut program = generate(seed, shape);
    program.values = [0, 2, 3, 5][(seed / 5 % 4) as usize];
    program
}

/// `None`: the checker refused the schedule of a run recorded by oreo, which happens to few (`oreo_is_refused_rarely`).
fn solve_and_check(recording: &Recording, hints: Hints) -> Option<Solution> {
    let logs = recording.logs();
    let mut solution = solve(&logs, hints).unwrap_or_else(|unsolvable| panic!("{hints:?}: {unsolvable}"));
    solution.schedule = log_format::schedule::decode(&log_format::schedule::encode(&solution.schedule)).unwrap();
    match check(&logs, &solution.schedule) {
        Ok(_) => Some(solution),
        Err(Rejection::Value { .. }) if logs.method == Method::Oreo => None,
        Err(rejection) => panic!("{hints:?}: {rejection}"),
    }
}

/// Did the solver take something that was read for written by code that is not observed? Here there is no such code; it is as rare.
fn is_taken_for_unseen(recording: &Recording, stats: &Stats) -> bool {
    recording.method == Method::Oreo && stats.counted.reads_unmatched > 0
}

fn replay(program: &Program, recording: &Recording, seed: u64) {
    for hints in [Hints::Use, Hints::Ignore] {
        let Some(Solution { schedule, stats }) = solve_and_check(recording, hints) else {
            return;
        };
        for number in 0..6 {
            let deviation = Replay::new(program, recording, &schedule).run(seed.wrapping_add(number));
            if deviation.is_err() && is_taken_for_unseen(recording, &stats) {
                return;
            }
            assert_eq!(deviation, Ok(()), "{hints:?}, replay {number}");
        }
    }
}

fn is_replayed(seed: u64, shape: Shape, method: Method) {
    let program = program(seed, shape);
    let recording = record(&program, seed, method, Tuning::PLAIN, Fault::None);
    let Some(Solution { schedule, .. }) = solve_and_check(&recording, Hints::Use) else {
        return;
    };
    for (thread, count) in recording.counts.iter().enumerate() {
        assert_eq!(
            schedule.threads[thread].events, *count,
            "an intact run is replayed to its end"
        );
    }
    replay(&program, &recording, seed);
}

/// Each wait is needed: without it some replay would go wrong, and the checker sees that.
fn waits_are_needed(seed: u64, shape: Shape, method: Method) {
    let program = program(seed, shape);
    let recording = record(&program, seed, method, Tuning::PLAIN, Fault::None);
    let logs = recording.logs();
    let Some(Solution { schedule, .. }) = solve_and_check(&recording, Hints::Use) else {
        return;
    };
    let mut random = Random::new(seed);
    let gates: Vec<(usize, usize)> = (schedule.threads.iter().enumerate())
        .flat_map(|(t, thread)| {
            thread
                .gates
                .iter()
                .enumerate()
                .map(move |(g, gate)| (t, g, gate.waits.len()))
        })
        .filter(|(_, _, waits)| *waits > 0)
        .map(|(t, g, _)| (t, g))
        .collect();
    for _ in 0..gates.len().min(12) {
        let (thread, gate) = gates[random.below(gates.len() as u64) as usize];
        let mut missing: Schedule = schedule.clone();
        let waits = &mut missing.threads[thread].gates[gate].waits;
        let number = random.below(waits.len() as u64) as usize;
        *waits = waits
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != number)
            .map(|(_, wait)| wait)
            .collect();
        assert!(
            check(&logs, &missing).is_err(),
            "without wait {number} of gate {gate} of thread {thread}"
        );
    }
}

/// Where plain writes, atomics and accesses of several cells meet in one cell, oreo's versions may say what was not: its lock bit may get lost
/// under a plain write. The checker refuses what came of that, or a replay diverges. Of these 2000 it was one when this was written.
#[test]
fn oreo_is_refused_rarely() {
    let is_refused = |seed: &u64| {
        let program = program(*seed, SHAPES[(*seed % SHAPES.len() as u64) as usize]);
        let recording = record(&program, *seed, Method::Oreo, Tuning::PLAIN, Fault::None);
        let Some(Solution { schedule, .. }) = solve_and_check(&recording, Hints::Use) else {
            return true;
        };
        Replay::new(&program, &recording, &schedule).run(*seed).is_err()
    };
    let refused = (0..2000).filter(is_refused).count();
    assert!(refused <= 10, "{refused} of 2000");
}

proptest! {
    // The same cases each time: with others, a killed run in some thousands does not come back yet (docs/testing.md).
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(20), ..ProptestConfig::default() })]

    #[test]
    fn leap(seed: u64, shape in 0..SHAPES.len()) {
        is_replayed(seed, SHAPES[shape], Method::Leap);
    }

    #[test]
    fn stride(seed: u64, shape in 0..SHAPES.len()) {
        is_replayed(seed, SHAPES[shape], Method::Stride);
    }

    #[test]
    fn oreo(seed: u64, shape in 0..SHAPES.len()) {
        is_replayed(seed, SHAPES[shape], Method::Oreo);
    }

    #[test]
    fn waits_of_oreo_are_needed(seed: u64, shape in 0..SHAPES.len()) {
        waits_are_needed(seed, SHAPES[shape], Method::Oreo);
    }

    #[test]
    fn waits_of_leap_are_needed(seed: u64, shape in 0..SHAPES.len()) {
        waits_are_needed(seed, SHAPES[shape], Method::Leap);
    }

    #[test]
    fn waits_of_stride_are_needed(seed: u64, shape in 0..SHAPES.len()) {
        waits_are_needed(seed, SHAPES[shape], Method::Stride);
    }

    #[test]
    fn all_replays_of_small_programs_agree(seed: u64, method in 0..METHODS.len()) {
        let program = program(seed, Shape::SMALL);
        let recording = record(&program, seed, METHODS[method], Tuning::PLAIN, Fault::None);
        for hints in [Hints::Use, Hints::Ignore] {
            let Some(Solution { schedule, stats }) = solve_and_check(&recording, hints) else {
                return Ok(());
            };
            let deviation = Replay::new(&program, &recording, &schedule).run_all(20_000);
            prop_assert!(deviation.is_ok() || is_taken_for_unseen(&recording, &stats));
        }
    }

    #[test]
    fn killed_runs_are_replayed_to_their_last_event(seed: u64, shape in 0..SHAPES.len(), method in 0..METHODS.len(), after in 0..4000u64) {
        let program = program(seed, SHAPES[shape]);
        let recording = record(&program, seed, METHODS[method], Tuning::PLAIN, Fault::Killed { after });
        let Some(Solution { schedule, .. }) = solve_and_check(&recording, Hints::Use) else {
            return Ok(());
        };
        for (thread, count) in recording.counts.iter().enumerate() {
            prop_assert!(schedule.threads[thread].events >= *count);
        }
        replay(&program, &recording, seed);
    }

    #[test]
    fn a_torn_log_is_replayed_as_far_as_it_makes_sense(seed: u64, shape in 0..SHAPES.len(), method in 0..METHODS.len(), thread in 0..2u32, bytes in 0..300u64) {
        let program = program(seed, SHAPES[shape]);
        let recording = record(&program, seed, METHODS[method], Tuning::PLAIN, Fault::Cut { thread, bytes });
        replay(&program, &recording, seed);
    }

    /// Whatever the records say: an answer, never a panic. Reads of values that cannot be, by versions that cannot be, may be
    /// given a place that the checker refuses.
    #[test]
    fn nonsense_is_refused_in_peace(seed: u64, method in 0..METHODS.len(), changes in 1..6u32) {
        let program = program(seed, Shape::MEDIUM);
        let mut logs = record(&program, seed, METHODS[method], Tuning::PLAIN, Fault::None).logs();
        let mut random = Random::new(seed);
        for _ in 0..changes {
            let thread = random.below(logs.threads.len() as u64) as usize;
            let records = &mut logs.threads[thread].records;
            if records.is_empty() {
                break;
            }
            let index = random.below(records.len() as u64) as usize;
            match random.below(6) {
                0 => _ = records.remove(index),
                1 => records[index].value += random.below(3) as i64 - 1,
                2 => records[index].access.0 ^= 1 << random.below(5),
                3 => records[index].version = random.below(9),
                4 => records[index].object = records[random.below(index as u64 + 1) as usize].object,
                _ => logs.threads[thread].events = random.below(30),
            }
        }
        for hints in [Hints::Use, Hints::Ignore] {
            if let Ok(solution) = solve(&logs, hints) {
                let refused = check(&logs, &solution.schedule).err();
                let is_good = matches!(refused, None | Some(Rejection::Value { .. }));
                prop_assert!(is_good, "{refused:?}");
            }
        }
    }
}
