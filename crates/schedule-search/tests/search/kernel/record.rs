//! Runs with threads that go on in any order, and the log of their events.
use super::machine::Entry;
use super::machine::Machine;
use super::program::Op;
use super::program::Program;
use run_model::ThreadIndex;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Label;
use schedule_search::LoggedEvent;
use simulated_machine::Random;

#[derive(Clone, Debug)]
pub struct Recording {
    pub entries: Vec<Entry>,
    pub log: EventLog,
}

impl Recording {
    pub fn new(entries: Vec<Entry>) -> Recording {
        let mut made = Vec::new();
        let mut events = Vec::new();
        for entry in &entries {
            let thread = entry.thread.0 as usize;
            made.resize(made.len().max(thread + 1), 0);
            events.push(LoggedEvent {
                thread: entry.thread,
                index: made[thread],
                label: Label(entry.label),
                kind: entry.kind,
            });
            made[thread] += 1;
        }
        Recording {
            entries,
            log: EventLog::new(events).expect("numbered in order"),
        }
    }
}

/// A run of at most so many steps; longer ones, and those in which nobody can go on, are no recordings.
const STEPS_MAX: usize = 5_000;

/// One run, in which chance says who makes the next steps.
pub fn record(program: &Program, seed: u64) -> Option<Recording> {
    let mut random = Random::new(seed);
    let (mut last, mut left) = (0, 0);
    let longest = 1 + random.below(12);
    let inputs = random.number();
    run(program, inputs, move |runnable: &[usize]| {
        if left == 0 || !runnable.contains(&last) {
            last = runnable[random.below(runnable.len() as u64) as usize];
            left = 1 + random.below(longest);
        }
        left -= 1;
        Some(last)
    })
}

/// One run in which threads make steps in the given order: (thread, label up to which it goes). A thread goes on until it is about to make a
/// step with that label; 0 means until it can no more. Then every thread goes on as far as it can, in order of their numbers.
pub fn record_in_order(program: &Program, order: &[(usize, u64)]) -> Recording {
    let mut machine = Machine::new(program);
    let mut entries = Vec::new();
    let mut reads = 0;
    let rest = (0..8).cycle().take(64).map(|thread| (thread, 0));
    for (thread, until) in order.iter().copied().chain(rest) {
        let mut is_first = true;
        while thread < machine.threads.len() && machine.can_step(program, thread) {
            if machine.op(program, thread).0 == until && !is_first {
                break;
            }
            is_first = false;
            if make_step(program, &mut machine, thread, 0, &mut reads, &mut entries) {
                return Recording::new(entries);
            }
        }
    }
    assert!(machine.has_ended(), "somebody is stuck: {machine:?}");
    Recording::new(entries)
}

fn run(program: &Program, inputs: u64, mut choose: impl FnMut(&[usize]) -> Option<usize>) -> Option<Recording> {
    let mut machine = Machine::new(program);
    let mut entries = Vec::new();
    let mut reads = 0;
    for _ in 0..STEPS_MAX {
        let runnable: Vec<usize> = (0..machine.threads.len())
            .filter(|t| machine.can_step(program, *t))
            .collect();
        if runnable.is_empty() {
            return machine.has_ended().then(|| Recording::new(entries));
        }
        let thread = choose(&runnable)?;
        if make_step(program, &mut machine, thread, inputs, &mut reads, &mut entries) {
            return Some(Recording::new(entries));
        }
    }
    None
}

/// True if the run failed.
fn make_step(
    program: &Program,
    machine: &mut Machine,
    thread: usize,
    inputs: u64,
    reads: &mut u64,
    entries: &mut Vec<Entry>,
) -> bool {
    let mut input = 0;
    if let Some(mut entry) = machine.event(program, thread) {
        if let Op::Read { .. } = machine.op(program, thread).1 {
            input = Random::new(inputs.wrapping_add(*reads)).below(3) as i64;
            *reads += 1;
            entry.value = input;
        }
        entries.push(entry);
        if entry.kind == EventKind::Failure {
            return true;
        }
    }
    machine.step(program, thread, input);
    false
}

/// For messages of failing tests.
pub fn show(entries: &[Entry]) -> String {
    let line = |(position, entry): (usize, &Entry)| {
        let ThreadIndex(thread) = entry.thread;
        format!(
            "  {position}: T{thread} line {} {:?} {}\n",
            entry.label, entry.kind, entry.value
        )
    };
    entries.iter().enumerate().map(line).collect()
}
