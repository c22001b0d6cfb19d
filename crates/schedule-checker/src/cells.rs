//! What contended cells require.
//!
//! A cell's `Run` records are read as a story: who used it after whom, who began by reading, who wrote. From the story
//! follows which run each reading run read from. The schedule may tell another story, as long as each run reads from
//! the same one; so the writing runs are taken in the order in which the execution has them, and then
//!
//! - each is over before the next begins (its own later reads see its own writes),
//! - whoever reads from a run begins after its end, and is over before the next writing run begins.
//!
//! If that is certain, a read sees the write it saw: all other writes are before it or after.
use crate::Rejection;
use crate::execution::Execution;
use crate::requirements::Because;
use crate::requirements::HidingPages;
use crate::requirements::Requirement;
use crate::requirements::replayed;
use run_model::Access;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;

/// A `Run` record.
#[derive(Clone, Copy)]
struct Entry {
    thread: u32,
    gate: u32,
    event: u64,
    access: Access,
    /// Where the run before it ended.
    after: Option<Point>,
}

/// One user's turn at a cell.
#[derive(Clone, Copy)]
struct Turn {
    /// What has to be reached for it to be over.
    over: Point,
    /// Its entry; `None`: it was there from the beginning.
    entry: Option<u32>,
    reads: bool,
    writes: bool,
}

/// Adds the requirements of all cells.
pub(crate) fn require(
    logs: &Logs,
    schedule: &Schedule,
    execution: &Execution,
    hiding: &HidingPages,
    out: &mut Vec<Requirement>,
) -> Result<(), Rejection> {
    // Where some changes of hands have no record there is no whole story; `requirements` asks for each record's source.
    let mut runs: Vec<(u64, u32, u32)> = replayed(logs, schedule)
        .filter(|(_, _, record)| record.kind == Kind::Run && !hiding.contain(record))
        .map(|(thread, gate, record)| (record.object, thread, gate))
        .collect();
    runs.sort_unstable();
    let mut story = Vec::new();
    for runs in runs.chunk_by(|one, other| one.0 == other.0) {
        let cell = Cell::new(runs, logs, schedule);
        for opening in cell.openings() {
            cell.tell(opening, &mut story);
            cell.require_story(runs[0].0, &story, execution, out)?;
        }
    }
    Ok(())
}

struct Cell<'a> {
    schedule: &'a Schedule,
    /// By thread and event.
    entries: Vec<Entry>,
    /// For each entry, who took over from it.
    next: Vec<Option<u32>>,
    /// For each entry, whether it took over from another.
    follows: Vec<bool>,
}

impl<'a> Cell<'a> {
    /// `runs`: cell, thread and gate of each entry.
    fn new(runs: &[(u64, u32, u32)], logs: &Logs, schedule: &'a Schedule) -> Cell<'a> {
        let mut entries: Vec<Entry> = Vec::with_capacity(runs.len());
        for &(_, thread, gate) in runs {
            let record = &logs.threads[thread as usize].records[gate as usize];
            let entry = Entry {
                thread,
                gate,
                event: record.event,
                access: record.access,
                after: record.sources.first().filter(|source| source.count > 0),
            };
            // A run begins with one event, so an event has one record of a cell; should it have two, the last counts.
            match entries
                .last_mut()
                .filter(|last| (last.thread, last.event) == (thread, record.event))
            {
                Some(last) => *last = entry,
                None => entries.push(entry),
            }
        }
        let (next, follows) = successions(&entries);
        Cell {
            schedule,
            entries,
            next,
            follows,
        }
    }

    /// Where stories begin. More than one if the cell's memory was given back in between and began anew, with a first user
    /// who again has no record.
    fn openings(&self) -> Vec<u32> {
        let all = || 0..self.entries.len() as u32;
        let mut openings: Vec<u32> = all().filter(|entry| !self.follows[*entry as usize]).collect();
        let told: usize = openings.iter().map(|opening| self.from(*opening).count()).sum();
        if told < self.entries.len() {
            // Entries on a circle have no opening; such logs admit no order, and any of them shows it.
            let mut is_told = vec![false; self.entries.len()];
            for opening in &openings {
                self.from(*opening).for_each(|entry| is_told[entry as usize] = true);
            }
            for start in all() {
                if !is_told[start as usize] {
                    openings.push(start);
                    self.from(start).for_each(|entry| is_told[entry as usize] = true);
                }
            }
        }
        openings
    }

    /// An entry and those that took over, once around if it is a circle.
    fn from(&self, opening: u32) -> impl Iterator<Item = u32> {
        let after = move |entry: &u32| self.next[*entry as usize].filter(|next| *next != opening);
        std::iter::successors(Some(opening), after)
    }

    /// The turns from this entry on, in the order in which they were recorded.
    fn tell(&self, opening: u32, story: &mut Vec<Turn>) {
        story.clear();
        let first = self.entries[opening as usize];
        story.extend(first.after.map(|before| Turn {
            over: before,
            entry: None,
            reads: true,
            writes: first.access.previous_wrote(),
        }));
        for index in self.from(opening) {
            let entry = self.entries[index as usize];
            let successor = self.next[index as usize].map(|next| self.entries[next as usize]);
            // Without a successor nobody saw the end, nor whether it wrote: it may go on as long as its thread does.
            let end = successor
                .and_then(|s| s.after)
                .map_or(self.schedule.threads[entry.thread as usize].events, |after| after.count);
            story.push(Turn {
                over: Point {
                    thread: ThreadIndex(entry.thread),
                    count: end.max(entry.event + 1),
                },
                entry: Some(index),
                reads: entry.access.reads() || !entry.access.writes(),
                writes: entry.access.writes() || successor.is_none_or(|s| s.access.previous_wrote()),
            });
        }
    }

    fn require_story(
        &self,
        cell: u64,
        story: &[Turn],
        execution: &Execution,
        out: &mut Vec<Requirement>,
    ) -> Result<(), Rejection> {
        // Writing turns as the execution orders them, and what each story's turn reads from, as its rank among them.
        let mut writers: Vec<u32> = (0..story.len() as u32).filter(|&t| story[t as usize].writes).collect();
        writers.sort_by_key(|&turn| {
            let entry = story[turn as usize].entry.map(|entry| self.entries[entry as usize]);
            entry.map(|entry| execution.place[entry.thread as usize][entry.gate as usize])
        });
        let mut rank = vec![0; story.len()];
        for (position, writer) in writers.iter().enumerate() {
            rank[*writer as usize] = position;
        }
        let turn = |index: u32| &story[index as usize];
        for pair in writers.windows(2) {
            self.require_before(turn(pair[0]).over, turn(pair[1]), Because::Writes, out);
        }
        let mut source: Option<usize> = None;
        for (index, turn) in story.iter().enumerate() {
            if turn.reads {
                if let Some(writer) = source {
                    self.require_before(story[writer].over, turn, Because::Flow, out);
                }
                let following = source.map_or(0, |writer| rank[writer] + 1);
                match (writers.get(following), turn.writes) {
                    (Some(&next), true) if next as usize != index => {
                        let event = turn.entry.map_or(0, |entry| self.entries[entry as usize].event);
                        let thread = turn.over.thread;
                        return Err(Rejection::OtherWriteBetween { cell, thread, event });
                    }
                    (Some(&next), false) => {
                        self.require_before(turn.over, &story[next as usize], Because::Overwrite, out);
                    }
                    _ => {}
                }
            }
            if turn.writes {
                source = Some(index);
            }
        }
        Ok(())
    }

    fn require_before(&self, required: Point, turn: &Turn, because: Because, out: &mut Vec<Requirement>) {
        // Nothing can be put before a turn that was there from the beginning; it has the first rank, and nobody asks.
        if let Some(entry) = turn.entry {
            let Entry { thread, gate, .. } = self.entries[entry as usize];
            out.push(Requirement::new(thread, gate, required, because));
        }
    }
}

/// For each entry, who took over from it, and whether it took over from another.
fn successions(entries: &[Entry]) -> (Vec<Option<u32>>, Vec<bool>) {
    let mut next = vec![None; entries.len()];
    let mut follows = vec![false; entries.len()];
    let naming = (0..)
        .zip(entries)
        .filter_map(|(index, entry)| Some((entry.after?, index)));
    let mut naming: Vec<(Point, u32)> = naming.collect();
    naming.sort_unstable();
    // The turn that a point ends is the last of its thread that began before it. Both are in the same order.
    let mut begun = 0;
    for (after, index) in naming {
        let is_begun = |entry: &Entry| (entry.thread, entry.event) < (after.thread.0, after.count);
        while entries.get(begun).is_some_and(is_begun) {
            begun += 1;
        }
        let Some(before) = begun.checked_sub(1).filter(|b| entries[*b].thread == after.thread.0) else {
            continue;
        };
        // The earliest to follow a turn took over from it; whoever names it later found the cell anew.
        if before != index as usize && next[before].is_none() {
            next[before] = Some(index);
            follows[index as usize] = true;
        }
    }
    (next, follows)
}
