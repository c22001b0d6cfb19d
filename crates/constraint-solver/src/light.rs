//! Light's constraint system (Liu, Zhang, Tripp, Zheng: PLDI 2015, §4.2 and lemma 4.3) as a [`crate::problem::Problem`].
//!
//! Records other than `Run` say what must come first: edges. On a contended cell only flow dependences bind. A run that
//! begins by reading comes after the last run that wrote; a run that writes comes after whoever read what it replaces,
//! *if* it is tied to that write itself by reading it. Following these ties from one blind write to the next gives a
//! stretch of runs with nothing free in it, an interval in which no other write of the cell may fall. Which of two such
//! intervals comes first is equation (1)'s disjunction.

use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::runs::Cells;
use crate::runs::HidingPages;
use crate::runs::Life;
use crate::runs::Run;
use crate::translation::Event;
use crate::translation::EventCollector;
use crate::translation::ProblemWriter;
use crate::translation::Sink;
use crate::translation::Translation;
use crate::translation::edge;
use crate::translation::records;
use run_model::Kind;
use run_model::Logs;

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
        unverifiable: Vec::new(),
    }
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
        // What the source of a `Run` means depends on the cell's other runs, if all are known, and unless it is nonsense.
        let binds = |thread: u32, record: &run_model::Record, before: Event| {
            record.kind != Kind::Run || before.thread == thread || self.hiding.contains(record.object)
        };
        let mut counts = Counts {
            epochs_missing: records(self.logs, self.extents, &self.epochs, binds, sink),
            ..Counts::default()
        };
        let mut readers = Readers::default();
        self.cells.for_each_life(|life| {
            counts.lives += 1;
            self::life(&life, &mut readers, sink, &mut counts);
        });
        counts
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
