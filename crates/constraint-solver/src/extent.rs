//! How far each thread can be replayed.
//!
//! An intact run is replayed to its end. Two things can be different:
//!
//! - A thread was killed *inside* an event that another thread already saw the effect of: its count says `k`, the other's
//!   source says `k + 1`. Its records up to that event are there (they are written first), so it is replayed one event
//!   further than it counted.
//! - The end of a log is lost. What its thread did from the last record on is not known, and whatever depends on it cannot
//!   be replayed either. So the threads are cut: at the last record that is left, and then wherever a source lies
//!   behind somebody's cut. The result is the longest prefix that needs nothing that is missing. To go on instead
//!   without waiting for the missing source would replay reads whose writes never come.
use crate::epochs::Epochs;
use crate::versions;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::ThreadIndex;
use run_model::ThreadLog;

#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    /// For each thread, how many of its events are replayed.
    pub(crate) events: Vec<u64>,
    /// Threads replayed one event further than they counted.
    pub(crate) in_flight: u64,
    /// Events that threads completed and that are not replayed.
    pub(crate) lost: u64,
}

impl Extents {
    pub(crate) fn new(logs: &Logs, epochs: &Epochs) -> Extents {
        let mut extents = Extents {
            events: logs.threads.iter().map(|t| t.events).collect(),
            ..Extents::default()
        };
        let mut seen_in_flight = seen_in_flight(logs, epochs);
        if logs.method.evidence().has_versions() {
            let by_value = versions::seen_in_flight(logs);
            seen_in_flight
                .iter_mut()
                .zip(by_value)
                .for_each(|(seen, more)| *seen |= more);
        }
        for (thread, log) in logs.threads.iter().enumerate() {
            if log.torn {
                let last = log.records.last().map_or(0, |record| record.event);
                extents.events[thread] = extents.events[thread].min(last);
            } else if seen_in_flight[thread] {
                extents.events[thread] += 1;
                extents.in_flight += 1;
            }
        }
        // Of an intact run nothing has to be cut, and nothing remembered to find out.
        let mut is_intact = true;
        for_each_source(logs, epochs, |thread, source| {
            is_intact &= source.count <= extents.reach(thread);
        });
        if !is_intact {
            extents.cut(sources(logs, epochs));
        }
        extents.count_lost(logs);
        extents
    }

    fn count_lost(&mut self, logs: &Logs) {
        let lost = |(log, events): (&ThreadLog, &u64)| log.events.saturating_sub(*events);
        self.lost = logs.threads.iter().zip(&self.events).map(lost).sum();
    }

    /// Cuts threads before these events, and whatever depends on what is cut.
    pub(crate) fn cut_before(&mut self, logs: &Logs, epochs: &Epochs, cuts: &[(u32, u64)]) {
        for (thread, event) in cuts {
            let events = &mut self.events[*thread as usize];
            *events = (*events).min(*event);
        }
        self.cut(sources(logs, epochs));
        self.count_lost(logs);
    }

    /// Threads of which there is no log at all have done nothing that can be replayed.
    fn reach(&self, thread: usize) -> u64 {
        self.events.get(thread).copied().unwrap_or(0)
    }

    /// Is this event replayed?
    pub(crate) fn contains(&self, thread: u32, event: u64) -> bool {
        self.events.get(thread as usize).is_some_and(|events| event < *events)
    }

    /// Cuts every thread before its first event with a source behind somebody's cut.
    fn cut(&mut self, mut sources: Vec<Vec<Source>>) {
        for list in &mut sources {
            list.sort_unstable();
        }
        let mut unsettled: Vec<usize> = (0..sources.len()).collect();
        while let Some(thread) = unsettled.pop() {
            let reach = self.reach(thread);
            while let Some(source) = sources[thread].pop_if(|source| source.count > reach) {
                let events = &mut self.events[source.user];
                if source.event < *events {
                    *events = source.event;
                    unsettled.push(source.user);
                }
            }
        }
    }
}

/// A point that no thread reaches.
const NEVER: Point = Point {
    thread: ThreadIndex(u32::MAX),
    count: u64::MAX,
};

/// Somebody's source, from the side of the thread it names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    count: u64,
    user: usize,
    event: u64,
}

/// For each thread, did somebody see the effect of an event that it never counted?
fn seen_in_flight(logs: &Logs, epochs: &Epochs) -> Vec<bool> {
    let mut seen = vec![false; logs.threads.len()];
    for_each_source(logs, epochs, |thread, source| {
        if let Some(log) = logs.threads.get(thread) {
            seen[thread] |= Some(source.count) == log.events.checked_add(1);
        }
    });
    seen
}

/// All sources by the thread they name; unknown threads share the last list.
fn sources(logs: &Logs, epochs: &Epochs) -> Vec<Vec<Source>> {
    let mut sources = vec![Vec::new(); logs.threads.len() + 1];
    for_each_source(logs, epochs, |thread, source| sources[thread].push(source));
    sources
}

/// Calls `visit` with every source and the thread it names; for unknown threads, the number of threads.
fn for_each_source(logs: &Logs, epochs: &Epochs, mut visit: impl FnMut(usize, Source)) {
    let mut add = |point: Point, user: usize, event: u64| {
        let thread = (point.thread.0 as usize).min(logs.threads.len());
        let count = point.count;
        // A count of zero is reached by anyone, and what a thread demands of itself is program order.
        if count > 0 && thread != user {
            visit(thread, Source { count, user, event });
        }
    };
    let any_torn = logs.threads.iter().any(|t| t.torn);
    for (user, log) in logs.threads.iter().enumerate() {
        for record in &log.records {
            for source in &record.sources {
                add(source, user, record.event);
            }
            // A `Seen` rests on the creator of its epoch, and every creator on the one before.
            let epoch = match record.kind {
                Kind::Seen => record.value,
                Kind::Share | Kind::Exit => record.value.saturating_sub(1),
                _ => 0,
            };
            if epoch > 0 {
                match epochs.creator(epoch) {
                    Some(creator) => add(creator, user, record.event),
                    // The creator's record went with the end of some log: this rests on something that is lost.
                    None if any_torn => add(NEVER, user, record.event),
                    None => {}
                }
            }
        }
    }
}
