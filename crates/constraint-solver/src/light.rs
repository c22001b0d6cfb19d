//! Light's constraint system (Liu, Zhang, Tripp, Zheng: PLDI 2015, §4.2 and lemma 4.3) as a [`Problem`].
//!
//! Records other than `Run` say what must come first: edges. On a contended cell only flow dependences bind. A run that
//! begins by reading comes after the last run that wrote; a run that writes comes after whoever read what it replaces,
//! *if* it is tied to that write itself by reading it. Following these ties from one blind write to the next gives a
//! stretch of runs with nothing free in it, an interval in which no other write of the cell may fall. Which of two such
//! intervals comes first is equation (1)'s disjunction.
//!
//! A long recording has more constraints than would fit into memory twice. So the constraints are generated twice
//! instead: first for their events, which are numbered, then as the problem.
pub(crate) mod near;

use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::problem::Edge;
use crate::problem::Exclusion;
use crate::problem::Interval;
use crate::problem::Node;
use crate::problem::Problem;
use crate::runs::Cells;
use crate::runs::HidingPages;
use crate::runs::Life;
use crate::runs::Run;
use near::partition_point_near;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::ThreadLog;

/// An event of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    thread: u32,
    event: u64,
    /// Index of a record of the thread whose event is probably not far from it.
    near: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Translation {
    pub(crate) problem: Problem,
    /// For each thread, the event of each node, ascending.
    pub(crate) events: Vec<Vec<u64>>,
    pub(crate) cells: u64,
    pub(crate) runs: u64,
    pub(crate) epochs_missing: u64,
}

pub(crate) fn translate(logs: &Logs, extents: &Extents) -> Translation {
    let hiding = HidingPages::among(logs);
    let constraints = Constraints {
        logs,
        extents,
        epochs: Epochs::among(logs, |thread, event| extents.contains(thread, event)),
        cells: Cells::new(logs, extents, &hiding),
        hiding,
    };
    let mut collector = EventCollector::new(logs.threads.len());
    let counts = constraints.generate(&mut collector);
    let (events, edges) = collector.finish();
    let mut writer = ProblemWriter::new(logs, &events, edges, counts.lives);
    constraints.generate(&mut writer);
    Translation {
        problem: writer.problem,
        events,
        cells: counts.lives,
        runs: counts.runs,
        epochs_missing: counts.epochs_missing,
    }
}

/// Takes constraints as they are found.
trait Sink {
    fn edge(&mut self, before: Event, after: Event);
    /// The next interval of the present exclusion.
    fn stretch(&mut self, start: Option<Event>, ends: &[Event]);
    /// The stretches since the last call exclude each other.
    fn exclusion(&mut self);
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lives: u64,
    runs: u64,
    /// Epochs that somebody saw and that have no creator.
    epochs_missing: u64,
}

struct Constraints<'a> {
    logs: &'a Logs,
    extents: &'a Extents,
    epochs: Epochs,
    cells: Cells<'a>,
    hiding: HidingPages,
}

impl Constraints<'_> {
    /// All of them, always in the same order.
    fn generate(&self, sink: &mut impl Sink) -> Counts {
        let mut counts = Counts::default();
        self.records(sink, &mut counts);
        let mut readers = Readers::default();
        self.cells.for_each_life(|life| {
            counts.lives += 1;
            self::life(&life, &mut readers, sink, &mut counts);
        });
        counts
    }

    /// Edges from the sources of all records but `Run`, from epochs, and between epochs.
    fn records(&self, sink: &mut impl Sink, counts: &mut Counts) {
        for (thread, log) in (0..).zip(&self.logs.threads) {
            let replayed = |event| self.extents.contains(thread, event);
            for (index, record) in log.records.iter().enumerate().filter(|(_, r)| replayed(r.event)) {
                let event = Event {
                    thread,
                    event: record.event,
                    near: index as u32,
                };
                for before in record.sources.iter().filter_map(completed) {
                    // What the source of a `Run` means depends on the cell's other runs, if all are known, and unless it
                    // is nonsense.
                    if record.kind != Kind::Run || before.thread == thread || self.hiding.contains(record.object) {
                        edge(sink, before, event);
                    }
                }
                if record.kind == Kind::Seen {
                    counts.epochs_missing += u64::from(self.epochs.creator(record.value).is_none());
                    let creator = self.epochs.newest(record.value).and_then(completed);
                    creator.into_iter().for_each(|before| edge(sink, before, event));
                }
            }
        }
        for (first, second) in self.epochs.successions() {
            if let (Some(before), Some(after)) = (completed(first), completed(second)) {
                edge(sink, before, after);
            }
        }
    }
}

fn edge(sink: &mut impl Sink, before: Event, after: Event) {
    // Program order, or two records of one event. A thread that demands its own future is a circle, and stays.
    if before.thread != after.thread || before.event > after.event {
        sink.edge(before, after);
    }
}

/// The runs of one life of a cell, as stretches and the edges within them.
fn life(life: &Life<'_>, readers: &mut Readers, sink: &mut impl Sink, counts: &mut Counts) {
    // The start of the present stretch, its last write, and who has read that since.
    let mut stretch: Option<Option<Event>> = None;
    let mut writer: Option<Event> = None;
    readers.clear();
    for run in life.runs() {
        counts.runs += 1;
        if stretch.is_none() || !run.reads {
            if let Some(start) = stretch {
                sink.stretch(start, readers.ends(writer.take()));
                readers.clear();
            }
            // What reads before anyone wrote must stay before all writes, as if it had begun before the run did.
            stretch = Some(run.first.filter(|_| !run.reads).map(|first| event_of(&run, first)));
        }
        within_stretch(&run, &mut writer, readers, sink);
    }
    if let Some(start) = stretch {
        sink.stretch(start, readers.ends(writer));
    }
    sink.exclusion();
}

/// A run within a stretch: after the write it reads; if it writes, after all who read that.
fn within_stretch(run: &Run, writer: &mut Option<Event>, readers: &mut Readers, sink: &mut impl Sink) {
    if let Some(first) = run.first.map(|first| event_of(run, first)).filter(|_| run.reads) {
        writer.iter().for_each(|before| edge(sink, *before, first));
        if run.wrote {
            readers.ends(None).iter().for_each(|before| edge(sink, *before, first));
        }
    }
    let last = event_of(run, run.last);
    if run.wrote {
        *writer = Some(last);
        readers.clear();
    } else {
        readers.push(last);
    }
}

fn event_of(run: &Run, event: u64) -> Event {
    Event {
        thread: run.thread,
        event,
        near: run.record,
    }
}

/// Who has read the last write. The last read of each thread is enough.
#[derive(Default)]
struct Readers {
    events: Vec<Event>,
    /// So many of them are of different threads.
    distinct: usize,
}

impl Readers {
    fn clear(&mut self) {
        self.events.clear();
        self.distinct = 0;
    }

    fn push(&mut self, event: Event) {
        self.events.push(event);
        // A write may be read a million times, in turn.
        if self.events.len() > 2 * self.distinct + 64 {
            self.ends(None);
        }
    }

    /// The last event of each thread, by thread, and the write's own.
    fn ends(&mut self, writer: Option<Event>) -> &[Event] {
        self.events.extend(writer);
        self.events.sort_unstable_by(|a, b| b.cmp(a));
        self.events.dedup_by_key(|event| event.thread);
        self.events.reverse();
        self.distinct = self.events.len();
        &self.events
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
struct EventCollector {
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
    fn new(threads: usize) -> EventCollector {
        EventCollector {
            threads: vec![EventList::default(); threads],
            edges: 0,
        }
    }

    fn enter(&mut self, Event { thread, event, .. }: Event) {
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
    fn finish(self) -> (Vec<Vec<u64>>, usize) {
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
struct ProblemWriter<'a> {
    events: &'a [Vec<u64>],
    /// For each thread and record, the first node that is not before its event.
    by_record: Vec<Vec<u32>>,
    /// For each thread, the node that was looked for last: the next one is not far.
    hints: Vec<u32>,
    /// Of the present exclusion.
    intervals: Exclusion,
    problem: Problem,
}

impl<'a> ProblemWriter<'a> {
    fn new(logs: &Logs, events: &'a [Vec<u64>], edges: usize, exclusions: u64) -> ProblemWriter<'a> {
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

    fn node(&mut self, Event { thread, event, near }: Event) -> Node {
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
