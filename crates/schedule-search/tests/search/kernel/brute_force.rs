//! All interleavings: can this log be met at all?
use super::machine::Entry;
use super::machine::Machine;
use super::program::Op;
use super::program::Program;
use schedule_search::EventKind;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Yes,
    No,
    /// Too many states.
    Unknown,
}

pub fn can_be_met(program: &Program, entries: &[Entry], states_max: usize) -> Verdict {
    let mut seen = BTreeSet::new();
    let mut open = vec![(0, Machine::new(program))];
    while let Some((next, machine)) = open.pop() {
        if next == entries.len() {
            return Verdict::Yes;
        }
        for thread in 0..machine.threads.len() {
            if !machine.can_step(program, thread) {
                continue;
            }
            let mut after = (next, machine.clone());
            match machine.event(program, thread) {
                None => after.1.step(program, thread, 0),
                Some(event) if is_as_logged(program, &machine, &event, &entries[next]) => {
                    after.0 += 1;
                    if event.kind != EventKind::Failure {
                        after.1.step(program, thread, entries[next].value);
                    }
                }
                Some(_) => continue,
            }
            if seen.len() >= states_max {
                return Verdict::Unknown;
            }
            if seen.insert(after.clone()) {
                open.push(after);
            }
        }
    }
    Verdict::No
}

/// A read fits whatever the log says it brought.
pub fn is_as_logged(program: &Program, machine: &Machine, event: &Entry, logged: &Entry) -> bool {
    let is_read = matches!(machine.op(program, event.thread.0 as usize).1, Op::Read { .. });
    let value = if is_read { logged.value } else { event.value };
    Entry { value, ..*event } == *logged
}
