//! All entries of all threads in one list, in the order in which they happened.
use crate::clocks::Clocks;
use crate::clocks::Order;
use crate::trace::Access;
use crate::trace::Entry;
use crate::trace::Traces;
use crate::trace::What;

/// An entry and whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub thread: u32,
    pub entry: Entry,
}

impl Step {
    /// Its memory access; nothing for other entries.
    pub fn access(&self) -> Option<&Access> {
        match &self.entry.what {
            What::Access(access) => Some(access),
            _ => None,
        }
    }
}

/// Steps are named by their place in the list.
#[derive(Debug)]
pub struct Timeline {
    pub steps: Vec<Step>,
    pub threads: usize,
    clocks: Clocks,
    /// Steps with smaller numbers may have lost synchronisation between them.
    complete_from: u64,
}

impl Timeline {
    pub fn new(traces: &Traces) -> Timeline {
        let mut steps: Vec<Step> = Vec::new();
        for (thread, trace) in (0..).zip(&traces.threads) {
            steps.extend(trace.entries.iter().map(|entry| Step { thread, entry: *entry }));
        }
        steps.sort_by_key(|step| step.entry.sequence);
        let first_sync = |entries: &[Entry]| entries.iter().find(|entry| is_sync(entry)).map(|e| e.sequence);
        let complete_from = traces
            .threads
            .iter()
            .filter(|trace| trace.syncs_lost > 0)
            .filter_map(|trace| first_sync(&trace.entries))
            .max();
        let threads = traces.threads.len();
        Timeline {
            clocks: Clocks::new(&steps, threads),
            steps,
            threads,
            complete_from: complete_from.unwrap_or(0),
        }
    }

    pub fn step(&self, at: usize) -> &Step {
        &self.steps[at]
    }

    /// How do two steps stand to each other, whichever of them came first?
    pub fn order(&self, a: usize, b: usize) -> Order {
        let (first, second) = (a.min(b), a.max(b));
        let (one, other) = (&self.steps[first], &self.steps[second]);
        if one.thread == other.thread {
            Order::Same
        } else if self.clocks.is_before(one.thread, first, second) {
            Order::Synchronised
        } else if one.entry.sequence < self.complete_from {
            Order::Unknown
        } else {
            Order::Unordered
        }
    }

    /// The steps of `thread` before place `end`, the last one first.
    pub fn back_from(&self, thread: u32, end: usize) -> impl Iterator<Item = usize> + '_ {
        (0..end.min(self.steps.len()))
            .rev()
            .filter(move |at| self.steps[*at].thread == thread)
    }
}

/// Does it stand in the ring of synchronisation?
fn is_sync(entry: &Entry) -> bool {
    match entry.what {
        What::Access(access) => access.atomic,
        _ => true,
    }
}
