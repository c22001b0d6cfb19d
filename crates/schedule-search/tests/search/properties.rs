//! Properties, on programs made from seeds.
use crate::kernel::Executor;
use crate::kernel::Program;
use crate::kernel::Recording;
use crate::kernel::Verdict;
use crate::kernel::can_be_met;
use crate::kernel::examples::lost_in_the_end;
use crate::kernel::examples::needs_two;
use crate::kernel::examples::server;
use crate::kernel::generate::generate;
use crate::kernel::machine::Entry;
use crate::kernel::record;
use crate::kernel::record::show;
use schedule_search::Ask;
use schedule_search::Ending;
use schedule_search::EventKind;
use schedule_search::Go;
use schedule_search::Layer;
use schedule_search::Outcome;
use schedule_search::Plan;
use schedule_search::Progress;
use schedule_search::Reduction;
use schedule_search::Replays;
use schedule_search::Search;
use schedule_search::Statistics;
use schedule_search::Trace;
use schedule_search::Tuning;
use simulated_machine::Random;

/// Seeds of a test; more with `PROPTEST_CASES`, as in the other crates.
fn seeds(usual: u64) -> impl Iterator<Item = u64> {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    0..asked.unwrap_or(usual)
}

/// More than any search here needs: a search that goes wrong fails instead of going on for ever.
pub const ATTEMPTS_MAX: u64 = 20_000;

/// Lets a search go on within [`ATTEMPTS_MAX`].
pub fn bounded(progress: &Progress) -> Go {
    if progress.statistics.attempts < ATTEMPTS_MAX {
        Go::On
    } else {
        Go::Stop
    }
}

/// As far as programs of this size need it.
pub fn unbounded() -> Tuning {
    Tuning {
        bound_max: 8,
        windows_max: u64::MAX,
        ..Tuning::default()
    }
}

/// A program and a run of it, if the seed makes one that ends.
pub fn sample(seed: u64) -> Option<(String, Program, Recording)> {
    let text = generate(seed);
    let program = Program::parse(&text);
    let recording = record(&program, seed)?;
    Some((text, program, recording))
}

/// Searches, with at most so many attempts. Whatever is found must replay.
pub fn search(program: &Program, recording: &Recording, tuning: Tuning, attempts_max: u64) -> (Outcome, Statistics) {
    let mut search = Search::new(recording.log.clone(), tuning);
    let outcome = search.run(&mut Executor::new(program, recording), 1, |progress| {
        if progress.statistics.attempts < attempts_max {
            Go::On
        } else {
            Go::Stop
        }
    });
    if let Outcome::Found(plan) = &outcome {
        assert_eq!(replay(program, recording, plan), Ending::Complete);
    }
    (outcome, *search.statistics())
}

fn replay(program: &Program, recording: &Recording, plan: &Plan) -> Ending {
    let ask = Ask {
        plan: plan.clone(),
        trace: Trace::Nothing,
        checkpoint: Default::default(),
    };
    Executor::new(program, recording).attempt(&ask).ending
}

#[test]
fn what_was_recorded_is_found() {
    let (mut runs, mut failing, mut attempts, mut most) = (0, 0, 0, 0);
    for seed in seeds(600) {
        let Some((text, program, recording)) = sample(seed) else {
            continue;
        };
        let (outcome, statistics) = search(&program, &recording, unbounded(), ATTEMPTS_MAX);
        runs += 1;
        failing += u64::from(statistics.failures > 0);
        attempts += statistics.attempts;
        most = most.max(statistics.attempts);
        let is_found = matches!(outcome, Outcome::Found(_));
        assert!(
            is_found,
            "seed {seed}: {outcome:?} after {statistics:?}\n{text}{}",
            show(&recording.entries)
        );
    }
    println!("{runs} runs, {failing} that do not replay by themselves, {attempts} attempts, at most {most}");
    assert!(4 * failing > runs, "too few runs need a search");
}

/// A log that differs a little from the recorded one; it may or may not be possible.
fn change(recording: &Recording, seed: u64) -> Recording {
    let mut random = Random::new(seed);
    let mut entries = recording.entries.clone();
    let position = random.below(entries.len() as u64) as usize;
    let is_plain = |entry: &Entry| !matches!(entry.kind, EventKind::Spawn { .. } | EventKind::Failure);
    match entries.get(position + 1).copied() {
        Some(next)
            if random.once_in(2)
                && is_plain(&entries[position])
                && is_plain(&next)
                && next.thread != entries[position].thread =>
        {
            entries.swap(position, position + 1);
        }
        _ if entries[position].kind == EventKind::Call => entries[position].value += 1,
        _ => {}
    }
    Recording::new(entries)
}

#[test]
fn found_exactly_if_some_interleaving_meets_the_log() {
    let (mut possible, mut impossible) = (0, 0);
    for seed in seeds(400) {
        let Some((text, program, recording)) = sample(seed) else {
            continue;
        };
        assert_ne!(
            can_be_met(&program, &recording.entries, 20_000),
            Verdict::No,
            "seed {seed}: it was recorded"
        );
        let changed = change(&recording, seed);
        let verdict = can_be_met(&program, &changed.entries, 20_000);
        // To try everything in vain would take long: then it is enough that nothing is found for a while.
        let attempts_max = if verdict == Verdict::Yes { 5 * ATTEMPTS_MAX } else { 300 };
        let (outcome, statistics) = search(&program, &changed, unbounded(), attempts_max);
        let shown = || {
            format!(
                "seed {seed}: {outcome:?} after {statistics:?}\n{text}{}",
                show(&changed.entries)
            )
        };
        match verdict {
            Verdict::Yes => assert!(matches!(outcome, Outcome::Found(_)), "{}", shown()),
            Verdict::No => assert!(!matches!(outcome, Outcome::Found(_)), "{}", shown()),
            Verdict::Unknown => {}
        }
        possible += u64::from(verdict == Verdict::Yes && changed.entries != recording.entries);
        impossible += u64::from(verdict == Verdict::No);
    }
    println!("{possible} changed logs are possible, {impossible} are not");
    assert!(possible >= 20 && impossible >= 20, "{possible} and {impossible}");
}

#[test]
fn every_move_that_is_left_is_needed() {
    let mut edits = 0;
    for seed in seeds(300) {
        let Some((_, program, recording)) = sample(seed) else {
            continue;
        };
        let (outcome, statistics) = search(&program, &recording, unbounded(), ATTEMPTS_MAX);
        let Outcome::Found(plan) = outcome else { continue };
        assert_eq!(statistics.edits_needed, plan.edits.len() as u64);
        for left_out in 0..plan.edits.len() {
            let mut fewer = plan.clone();
            fewer.edits.remove(left_out);
            assert_ne!(
                replay(&program, &recording, &fewer),
                Ending::Complete,
                "seed {seed}, edit {left_out}"
            );
            edits += 1;
        }
    }
    assert!(edits > 50, "{edits}");
}

#[test]
fn batches_change_nothing() {
    let mut largest = 0;
    let mut cases: Vec<_> = vec![server(5), needs_two(2)];
    cases.extend(
        seeds(150)
            .filter_map(sample)
            .map(|(_, program, recording)| (program, recording)),
    );
    let scattered = Tuning {
        scattered_max: 1000,
        layers: vec![Layer::FirstAccesses, Layer::Accesses],
        ..unbounded()
    };
    let mut cases: Vec<_> = cases.into_iter().map(|case| (case, unbounded())).collect();
    cases.push((lost_in_the_end(12, 2), scattered));
    for ((program, recording), tuning) in cases {
        let run = |batch| {
            let mut search = Search::new(recording.log.clone(), tuning.clone());
            let mut executor = Executor::new(&program, &recording);
            let outcome = search.run(&mut executor, batch, bounded);
            let statistics = *search.statistics();
            assert_eq!(executor.attempts, statistics.attempts + statistics.unused);
            (
                outcome,
                Statistics {
                    unused: 0,
                    ..statistics
                },
                executor.batch_largest,
            )
        };
        let one = run(1);
        for batch in [2, 3, 16] {
            let many = run(batch);
            assert_eq!((&one.0, &one.1), (&many.0, &many.1), "batches of {batch}");
            largest = largest.max(many.2);
        }
    }
    assert_eq!(largest, 16);
}

#[test]
fn reduction_changes_nothing_but_the_cost() {
    let (mut with, mut without) = (0, 0);
    for seed in seeds(300) {
        let Some((_, program, recording)) = sample(seed) else {
            continue;
        };
        let reduced = search(&program, &recording, unbounded(), ATTEMPTS_MAX);
        let full = search(
            &program,
            &recording,
            Tuning {
                reduction: Reduction::Off,
                ..unbounded()
            },
            ATTEMPTS_MAX,
        );
        assert_eq!(
            matches!(reduced.0, Outcome::Found(_)),
            matches!(full.0, Outcome::Found(_)),
            "seed {seed}"
        );
        with += reduced.1.attempts;
        without += full.1.attempts;
    }
    println!("{with} attempts with reduction, {without} without");
    assert!(with <= without, "{with} {without}");
}
