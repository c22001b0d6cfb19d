//! The methods that record every access, recorded with racing steps, solved, checked and replayed.
use constraint_solver::Hints;
use constraint_solver::Solution;
use constraint_solver::solve;
use proptest::prelude::*;
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
use simulated_machine::generate;
use simulated_machine::record_in_steps;

const SHAPES: [Shape; 4] = [Shape::SMALL, Shape::MEDIUM, Shape::LARGE, Shape::HOT];

fn program(seed: u64, shape: Shape) -> Program {
    let mut program = generate(seed, shape);
    program.values = [0, 2, 3, 5][(seed / 5 % 4) as usize];
    program
}

fn solve_and_check(recording: &Recording, hints: Hints) -> Solution {
    let logs = recording.logs();
    let mut solution = solve(&logs, hints).unwrap_or_else(|unsolvable| panic!("{hints:?}: {unsolvable}"));
    solution.schedule = log_format::schedule::decode(&log_format::schedule::encode(&solution.schedule)).unwrap();
    check(&logs, &solution.schedule).unwrap_or_else(|rejection| panic!("{hints:?}: {rejection}"));
    solution
}

fn replay(program: &Program, recording: &Recording, seed: u64) {
    for hints in [Hints::Use, Hints::Ignore] {
        let schedule = solve_and_check(recording, hints).schedule;
        for number in 0..6 {
            let deviation = Replay::new(program, recording, &schedule).run(seed.wrapping_add(number));
            assert_eq!(deviation, Ok(()), "{hints:?}, replay {number}");
        }
    }
}

fn is_replayed(seed: u64, shape: Shape, method: Method) {
    let program = program(seed, shape);
    let recording = record_in_steps(&program, seed, method, Fault::None);
    let schedule = solve_and_check(&recording, Hints::Use).schedule;
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
    let recording = record_in_steps(&program, seed, method, Fault::None);
    let logs = recording.logs();
    let schedule = solve_and_check(&recording, Hints::Use).schedule;
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

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
    fn all_replays_of_small_programs_agree(seed: u64, method in 1..4usize) {
        let program = program(seed, Shape::SMALL);
        let recording = record_in_steps(&program, seed, Method::ALL[method], Fault::None);
        for hints in [Hints::Use, Hints::Ignore] {
            let schedule = solve_and_check(&recording, hints).schedule;
            prop_assert!(Replay::new(&program, &recording, &schedule).run_all(20_000).is_ok());
        }
    }

    #[test]
    fn killed_runs_are_replayed_to_their_last_event(seed: u64, shape in 0..SHAPES.len(), method in 1..4usize, after in 0..400u64) {
        let program = program(seed, SHAPES[shape]);
        let recording = record_in_steps(&program, seed, Method::ALL[method], Fault::Killed { after });
        let schedule = solve_and_check(&recording, Hints::Use).schedule;
        for (thread, count) in recording.counts.iter().enumerate() {
            prop_assert!(schedule.threads[thread].events >= *count);
        }
        replay(&program, &recording, seed);
    }

    #[test]
    fn a_torn_log_is_replayed_as_far_as_it_makes_sense(seed: u64, shape in 0..SHAPES.len(), method in 1..4usize, thread in 0..2u32, bytes in 0..300u64) {
        let program = program(seed, SHAPES[shape]);
        let recording = record_in_steps(&program, seed, Method::ALL[method], Fault::Cut { thread, bytes });
        replay(&program, &recording, seed);
    }

    /// Whatever the records say: an answer, never a panic. Reads of values that cannot be, by versions that cannot be, may be
    /// given a place that the checker refuses.
    #[test]
    fn nonsense_is_refused_in_peace(seed: u64, method in 1..4usize, changes in 1..6u32) {
        let program = program(seed, Shape::MEDIUM);
        let mut logs = record_in_steps(&program, seed, Method::ALL[method], Fault::None).logs();
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
