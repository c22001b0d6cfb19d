//! What the translations of all methods share: the orders that records state themselves, and the numbering of events.
//!
//! A long recording has more constraints than would fit into memory twice. So they are generated twice instead: first for
//! their events, which are numbered ([`EventCollector`]), then as the problem ([`ProblemWriter`]).
pub(crate) mod near;

use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::problem::Edge;
use crate::problem::Exclusion;
use crate::problem::Interval;
use crate::problem::Node;
use crate::problem::Problem;
use near::partition_point_near;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::ThreadLog;

/// An event of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) thread: u32,
    pub(crate) event: u64,
    /// Index of a record of the thread whose event is probably not far from it.
    pub(crate) near: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Translation {
    pub(crate) problem: Problem,
    /// For each thread, the event of each node, ascending.
    pub(crate) events: Vec<Vec<u64>>,
    pub(crate) cells: u64,
    pub(crate) runs: u64,
    pub(crate) epochs_missing: u64,
    /// Thread and record of reads whose value a replay is not to compare.
    pub(crate) unverifiable: Vec<(u32, u32)>,
}

/// Takes constraints as they are found.
pub(crate) trait Sink {
    fn edge(&mut self, before: Event, after: Event);
    /// The next interval of the present exclusion.
    fn stretch(&mut self, start: Option<Event>, ends: &[Event]);
    /// The stretches since the last call exclude each other.
    fn exclusion(&mut self);
}

/// Edges from the sources of all records for which `binds`, given the thread and the record, from epochs, and between
/// epochs. Returns how many epochs somebody saw that have no creator.
pub(crate) fn records(
    logs: &Logs,
    extents: &Extents,
    epochs: &Epochs,
    binds: impl Fn(u32, &Record, Event) -> bool,
    sink: &mut impl Sink,
) -> u64 {
    let mut epochs_missing = 0;
    for (thread, log) in (0..).zip(&logs.threads) {
        let replayed = |event| extents.contains(thread, event);
        for (index, record) in log.records.iter().enumerate().filter(|(_, r)| replayed(r.event)) {
            let event = Event {
                thread,
                event: record.event,
                near: index as u32,
            };
            for before in record.sources.iter().filter_map(completed) {
                if binds(thread, record, before) {
                    edge(sink, before, event);
                }
            }
            if record.kind == Kind::Seen {
                epochs_missing += u64::from(epochs.creator(record.value).is_none());
                let creator = epochs.newest(record.value).and_then(completed);
                creator.into_iter().for_each(|before| edge(sink, before, event));
            }
        }
    }
    for (first, second) in epochs.successions() {
        if let (Some(before), Some(after)) = (completed(first), completed(second)) {
            edge(sink, before, after);
        }
    }
    epochs_missing
}

pub(crate) fn edge(sink: &mut impl Sink, before: Event, after: Event) {
    // Program order, or two records of one event. A thread that demands its own future is a circle, and stays.
    if before.thread != after.thread || before.event > after.event {
        sink.edge(before, after);
    }
}

/// `Event::near`: look where the thread's last event was found.
const UNKNOWN: u32 = u32::MAX;

/// The event whose completion makes `point` reached; a count of zero is reached from the beginning.
fn completed(point: Point) -> Option<Event> {
    point.count.checked_sub(1).map(|event| Event {
        thread: point.thread.0,
        event,
        near: UNKNOWN,
    })
}

/// Numbers the events that matter.
pub(crate) struct EventCollector {
    threads: Vec<EventList>,
    edges: usize,
}

#[derive(Clone, Default)]
struct EventList {
    events: Vec<u64>,
    /// Sort and look for doubles when there are so many.
    limit: usize,
}

impl EventCollector {
    pub(crate) fn new(threads: usize) -> EventCollector {
        EventCollector {
            threads: vec![EventList::default(); threads],
            edges: 0,
        }
    }

    pub(crate) fn enter(&mut self, Event { thread, event, .. }: Event) {
        let list = &mut self.threads[thread as usize];
        if list.events.last() == Some(&event) {
            return;
        }
        if list.events.len() == list.limit {
            list.compact();
            list.limit = (2 * list.events.len()).max(64);
        }
        list.events.push(event);
    }

    /// The events of each thread, and the number of edges.
    pub(crate) fn finish(self) -> (Vec<Vec<u64>>, usize) {
        let sorted = |mut list: EventList| {
            list.compact();
            list.events.shrink_to_fit();
            list.events
        };
        (self.threads.into_iter().map(sorted).collect(), self.edges)
    }
}

impl EventList {
    fn compact(&mut self) {
        self.events.sort_unstable();
        self.events.dedup();
    }
}

impl Sink for EventCollector {
    fn edge(&mut self, before: Event, after: Event) {
        self.enter(before);
        self.enter(after);
        self.edges += 1;
    }

    fn stretch(&mut self, start: Option<Event>, ends: &[Event]) {
        start.iter().chain(ends).for_each(|event| self.enter(*event));
    }

    fn exclusion(&mut self) {}
}

/// Writes the problem in nodes.
pub(crate) struct ProblemWriter<'a> {
    events: &'a [Vec<u64>],
    /// For each thread and record, the first node that is not before its event.
    by_record: Vec<Vec<u32>>,
    /// For each thread, the node that was looked for last: the next one is not far.
    hints: Vec<u32>,
    /// Of the present exclusion.
    intervals: Exclusion,
    pub(crate) problem: Problem,
}

impl<'a> ProblemWriter<'a> {
    pub(crate) fn new(logs: &Logs, events: &'a [Vec<u64>], edges: usize, exclusions: u64) -> ProblemWriter<'a> {
        ProblemWriter {
            events,
            by_record: logs.threads.iter().zip(events).map(nodes_by_record).collect(),
            hints: vec![0; events.len()],
            intervals: Exclusion::new(),
            problem: Problem {
                chains: events.iter().map(|list| list.len() as u32).collect(),
                edges: Vec::with_capacity(edges),
                exclusions: Vec::with_capacity(exclusions as usize),
                ..Problem::default()
            },
        }
    }

    pub(crate) fn node(&mut self, Event { thread, event, near }: Event) -> Node {
        let events = &self.events[thread as usize];
        let hint = &mut self.hints[thread as usize];
        // A write is asked for by all who read it.
        if events.get(*hint as usize) == Some(&event) {
            return Node {
                chain: thread,
                position: *hint,
            };
        }
        let start = self.by_record[thread as usize].get(near as usize).unwrap_or(hint);
        let position = partition_point_near(events.len(), *start as usize, |place| events[place] < event);
        *hint = position as u32;
        assert!(
            events.get(position) == Some(&event),
            "event {event} of thread {thread} was not numbered"
        );
        Node {
            chain: thread,
            position: position as u32,
        }
    }
}

fn nodes_by_record((log, events): (&ThreadLog, &Vec<u64>)) -> Vec<u32> {
    let mut node = 0;
    let first_from = |record: &Record| {
        while events.get(node).is_some_and(|event| *event < record.event) {
            node += 1;
        }
        node as u32
    };
    log.records.iter().map(first_from).collect()
}

impl Sink for ProblemWriter<'_> {
    fn edge(&mut self, before: Event, after: Event) {
        let (before, after) = (self.node(before), self.node(after));
        self.problem.edges.push(Edge { before, after });
    }

    fn stretch(&mut self, start: Option<Event>, ends: &[Event]) {
        let interval = Interval {
            start: start.map(|start| self.node(start)),
            ends: ends.iter().map(|end| self.node(*end)).collect(),
        };
        self.intervals.push(interval);
    }

    fn exclusion(&mut self) {
        let intervals = self.intervals.drain(..).collect();
        self.problem.exclusions.push(intervals);
    }
}
