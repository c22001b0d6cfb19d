//! All entries of all threads in one list, in the order in which they happened.
use crate::clocks::Clocks;
use crate::clocks::Edges;
use crate::clocks::Order;
use crate::trace::Access;
use crate::trace::Entry;
use crate::trace::Traces;
use crate::trace::What;
use run_model::SiteId;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

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
    /// What locks and updates of atomics do not order.
    fixed: Clocks,
    /// Before this sequence number, shared accesses and synchronisation may be missing.
    complete_from: u64,
    /// By thread: before this, accesses of the thread to private memory may be missing.
    private_from: Vec<u64>,
    /// Where threads ceased to write down accesses to private memory.
    skipping_from: Vec<u64>,
    library_sites: BTreeSet<SiteId>,
    library_cells: BTreeSet<u64>,
    message_sites: BTreeSet<SiteId>,
    lines: BTreeMap<SiteId, SiteId>,
}

impl Timeline {
    pub fn new(traces: &Traces) -> Timeline {
        let mut steps: Vec<Step> = Vec::new();
        for (thread, trace) in (0..).zip(&traces.threads) {
            steps.extend(trace.entries.iter().map(|entry| Step { thread, entry: *entry }));
        }
        steps.sort_by_key(|step| step.entry.sequence);
        let complete_from = traces.threads.iter().map(|trace| trace.complete_from).max();
        let threads = traces.threads.len();
        let skipping = steps.iter().filter(|step| step.entry.what == What::Skipping);
        let skipping_from = skipping.map(|step| step.entry.sequence).collect();
        Timeline {
            clocks: Clocks::new(&steps, threads, Edges::All),
            fixed: Clocks::new(&steps, threads, Edges::WithoutLocks),
            steps,
            threads,
            complete_from: complete_from.unwrap_or(0),
            private_from: traces.threads.iter().map(|trace| trace.private_from).collect(),
            skipping_from,
            library_sites: traces.library_sites.clone(),
            library_cells: traces.library_cells.clone(),
            message_sites: traces.message_sites.clone(),
            lines: traces.lines.clone(),
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

    /// Could the two have come in the other order, if a lock had been taken, or an atomic accessed, in another order? What
    /// was done before a thread was created, after it was joined or after it signalled could not.
    pub fn is_reversible(&self, a: usize, b: usize) -> bool {
        let (first, second) = (a.min(b), a.max(b));
        let (one, other) = (&self.steps[first], &self.steps[second]);
        let is_fixed = match other.access().is_some_and(|access| access.atomic) {
            // What it sees orders it only because it came second.
            true => self.fixed.is_before_entry(one.thread, first, second),
            false => self.fixed.is_before(one.thread, first, second),
        };
        one.thread != other.thread && one.entry.sequence >= self.complete_from && !is_fixed
    }

    /// Is nothing missing between a write and a later read of the same memory that could have written it, too?
    pub fn is_certain(&self, write: usize, read: usize) -> bool {
        let (write, read) = (&self.steps[write], &self.steps[read]);
        let sequence = write.entry.sequence;
        // Private memory changes hands once: only who reads it can have written it since.
        let is_private = write.access().is_some_and(|access| access.private) && write.thread != read.thread;
        let is_skipped = |from: &u64| (sequence..read.entry.sequence).contains(from);
        sequence >= self.complete_from
            && !(is_private && sequence < self.private_from[read.thread as usize])
            && !self.skipping_from.iter().any(is_skipped)
    }

    /// Is nothing missing of what the thread of the step at `at` did from there on?
    pub fn is_complete_from(&self, at: usize) -> bool {
        let (sequence, thread) = (self.steps[at].entry.sequence, self.steps[at].thread);
        sequence >= self.complete_from && sequence >= self.private_from[thread as usize] && !self.has_skipped()
    }

    /// May accesses to memory of one thread be missing, and not because they are too old?
    pub fn has_skipped(&self) -> bool {
        !self.skipping_from.is_empty()
    }

    /// Is the step in library code that was not inlined into the program's?
    pub fn is_in_library(&self, at: usize) -> bool {
        self.library_sites.contains(&self.steps[at].entry.site)
    }

    /// Is the value read to be printed?
    pub fn is_message(&self, at: usize) -> bool {
        self.message_sites.contains(&self.steps[at].entry.site)
    }

    /// Is the memory of the access a library's own business?
    pub fn is_internal(&self, at: usize) -> bool {
        let access = self.steps[at].access();
        access.is_some_and(|access| self.library_cells.contains(&access.address))
    }

    /// Equal for steps on the same line of the source.
    pub fn line(&self, at: usize) -> SiteId {
        let site = self.steps[at].entry.site;
        self.lines.get(&site).copied().unwrap_or(site)
    }

    /// The steps of `thread` before place `end`, the last one first.
    pub fn back_from(&self, thread: u32, end: usize) -> impl Iterator<Item = usize> + '_ {
        (0..end.min(self.steps.len()))
            .rev()
            .filter(move |at| self.steps[*at].thread == thread)
    }
}
