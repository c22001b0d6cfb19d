//! Light's constraint system (Liu, Zhang, Tripp, Zheng: PLDI 2015, §4.2 and lemma 4.3) as a [`Problem`].
//!
//! Records other than `Run` say what must come first: edges. On a contended cell only flow dependences bind. A run that
//! begins by reading comes after the last run that wrote; a run that writes comes after whoever read what it replaces,
//! *if* it is tied to that write itself by reading it. Following these ties from one blind write to the next gives a
//! stretch of runs with nothing free in it, an interval in which no other write of the cell may fall. Which of two such
//! intervals comes first is equation (1)'s disjunction.
use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::problem::Edge;
use crate::problem::Exclusion;
use crate::problem::Interval;
use crate::problem::Node;
use crate::problem::Problem;
use crate::runs::HidingPages;
use crate::runs::Life;
use crate::runs::Run;
use crate::runs::lives;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;

/// An event of a thread.
type Event = (u32, u64);

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
    let epochs = &Epochs::among(logs, |thread, event| extents.contains(thread, event));
    let mut draft = Draft::default();
    let epochs_missing = draft.add_records(logs, epochs, extents);
    let lives = lives(logs, extents);
    for life in &lives {
        draft.add_life(life);
    }
    let (problem, events) = draft.compress(logs.threads.len());
    let runs = lives.iter().map(|life| life.runs.len() as u64).sum();
    Translation {
        problem,
        events,
        cells: lives.len() as u64,
        runs,
        epochs_missing,
    }
}

/// The problem, in events.
#[derive(Default)]
struct Draft {
    edges: Vec<(Event, Event)>,
    exclusions: Vec<Vec<Stretch>>,
}

#[derive(Default)]
struct Stretch {
    start: Option<Event>,
    ends: Vec<Event>,
}

impl Draft {
    fn edge(&mut self, before: Event, after: Event) {
        // Program order, or two records of one event. A thread that demands its own future is a circle, and stays.
        if before.0 != after.0 || before.1 > after.1 {
            self.edges.push((before, after));
        }
    }

    /// Edges from the sources of all records but `Run`, from epochs, and between epochs. Returns how many epochs that
    /// somebody saw have no creator.
    fn add_records(&mut self, logs: &Logs, epochs: &Epochs, extents: &Extents) -> u64 {
        let mut missing = 0;
        let hiding = HidingPages::among(logs);
        for (thread, log) in logs.threads.iter().enumerate() {
            let thread = thread as u32;
            for record in log.records.iter().filter(|r| extents.contains(thread, r.event)) {
                let event = (thread, record.event);
                for before in record.sources.iter().filter_map(completed) {
                    // What the source of a `Run` means depends on the cell's other runs, if all are known, and unless it
                    // is nonsense.
                    if record.kind != Kind::Run || before.0 == thread || hiding.contains(record.object) {
                        self.edge(before, event);
                    }
                }
                if record.kind == Kind::Seen {
                    missing += u64::from(epochs.creator(record.value).is_none());
                    let creator = epochs.newest(record.value).and_then(completed);
                    creator.into_iter().for_each(|before| self.edge(before, event));
                }
            }
        }
        for (first, second) in epochs.successions() {
            if let (Some(before), Some(after)) = (completed(first), completed(second)) {
                self.edge(before, after);
            }
        }
        missing
    }

    fn add_life(&mut self, life: &Life) {
        let mut stretches: Vec<Stretch> = Vec::new();
        // The last write, and who has read it since.
        let mut writer: Option<Event> = None;
        let mut readers: Vec<Event> = Vec::new();
        for (index, run) in life.runs.iter().enumerate() {
            if index > 0 && !run.reads {
                stretches.last_mut().expect("an earlier run began it").ends = ends(writer.take(), &mut readers);
            }
            if index == 0 || !run.reads {
                // What reads before anyone wrote must stay before all writes, as if it had begun before the run did.
                let start = run.first.filter(|_| !run.reads).map(|first| (run.thread, first));
                stretches.push(Stretch {
                    start,
                    ends: Vec::new(),
                });
            }
            self.add_run(run, &mut writer, &mut readers);
        }
        if let Some(last) = stretches.last_mut() {
            last.ends = ends(writer, &mut readers);
        }
        self.exclusions.push(stretches);
    }

    /// A run within a stretch: after the write it reads; if it writes, after all who read that.
    fn add_run(&mut self, run: &Run, writer: &mut Option<Event>, readers: &mut Vec<Event>) {
        let last = (run.thread, run.last);
        if let Some(first) = run.first.map(|first| (run.thread, first)).filter(|_| run.reads) {
            writer.iter().for_each(|before| self.edge(*before, first));
            if run.wrote {
                readers.iter().for_each(|before| self.edge(*before, first));
            }
        }
        if run.wrote {
            *writer = Some(last);
            readers.clear();
        } else {
            readers.push(last);
        }
    }

    /// Numbers the events that matter.
    fn compress(self, threads: usize) -> (Problem, Vec<Vec<u64>>) {
        let mut events = vec![Vec::new(); threads];
        let stretches = || self.exclusions.iter().flatten();
        let ends = self.edges.iter().flat_map(|edge| [edge.0, edge.1]);
        for (thread, event) in ends.chain(stretches().flat_map(|s| s.start.iter().chain(&s.ends).copied())) {
            events[thread as usize].push(event);
        }
        for list in &mut events {
            list.sort_unstable();
            list.dedup();
        }
        let node = |(thread, event): Event| {
            let position = events[thread as usize]
                .binary_search(&event)
                .expect("every event was entered above");
            Node {
                chain: thread,
                position: position as u32,
            }
        };
        let interval = |s: &Stretch| Interval {
            start: s.start.map(node),
            ends: s.ends.iter().map(|end| node(*end)).collect(),
        };
        let exclusion = |stretches: &Vec<Stretch>| -> Exclusion { stretches.iter().map(interval).collect() };
        let problem = Problem {
            chains: events.iter().map(|list| list.len() as u32).collect(),
            edges: self
                .edges
                .iter()
                .map(|e| Edge {
                    before: node(e.0),
                    after: node(e.1),
                })
                .collect(),
            exclusions: self.exclusions.iter().map(exclusion).collect(),
            choices: Vec::new(),
        };
        (problem, events)
    }
}

/// The event whose completion makes `point` reached; a count of zero is reached from the beginning.
fn completed(point: Point) -> Option<Event> {
    point.count.checked_sub(1).map(|event| (point.thread.0, event))
}

/// Where a stretch is over: its last write, and everyone's last read of that. The last one per thread is enough.
fn ends(writer: Option<Event>, readers: &mut Vec<Event>) -> Vec<Event> {
    readers.extend(writer);
    readers.sort_unstable_by(|a, b| b.cmp(a));
    readers.dedup_by_key(|event| event.0);
    let mut ends = std::mem::take(readers);
    ends.reverse();
    ends
}
