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
use crate::Why;
use crate::execution::Execution;
use crate::requirements::Requirement;
use crate::requirements::hiding_pages;
use run_model::Access;
use run_model::HIDING_PAGE_BYTES;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A run's identity: the event and thread of its record.
type Beginning = (ThreadIndex, u64);

#[derive(Clone, Copy)]
struct Entry {
    access: Access,
    /// Where the run before it ended.
    after: Option<Point>,
    /// When the execution passed the gate.
    place: usize,
}

/// One user's turn at a cell.
#[derive(Clone, Copy)]
struct Turn {
    /// `None`: it was there from the beginning.
    beginning: Option<(Beginning, usize)>,
    /// What has to be reached for it to be over.
    over: Point,
    reads: bool,
    writes: bool,
}

/// Adds the requirements of all cells.
pub(crate) fn require(
    logs: &Logs,
    schedule: &Schedule,
    execution: &Execution,
    out: &mut Vec<Requirement>,
) -> Result<(), Rejection> {
    let mut cells: BTreeMap<u64, BTreeMap<Beginning, Entry>> = BTreeMap::new();
    for (index, log) in logs.threads.iter().enumerate() {
        let replayed = log
            .records
            .iter()
            .take_while(|r| r.event < schedule.threads[index].events);
        for (gate, record) in replayed.enumerate().filter(|(_, r)| r.kind == Kind::Run) {
            let beginning = (ThreadIndex(index as u32), record.event);
            let after = record.sources.first().filter(|source| source.count > 0);
            let entry = Entry {
                access: record.access,
                after,
                place: execution.place[index][gate],
            };
            cells.entry(record.object).or_default().insert(beginning, entry);
        }
    }
    // Where some changes of hands have no record there is no whole story; `requirements` asks for each record's source.
    let hiding = hiding_pages(logs);
    cells.retain(|cell, _| !hiding.contains(&(cell / HIDING_PAGE_BYTES)));
    for (cell, entries) in &cells {
        for story in stories(entries, schedule) {
            require_story(*cell, &story, out)?;
        }
    }
    Ok(())
}

/// The turns at a cell, in the order in which they were recorded. More than one story if the cell's memory was given
/// back in between and began anew, with a first user who again has no record.
fn stories(entries: &BTreeMap<Beginning, Entry>, schedule: &Schedule) -> Vec<Vec<Turn>> {
    let mut followers: BTreeMap<Beginning, BTreeSet<(Point, Beginning)>> = BTreeMap::new();
    let mut openings: BTreeSet<Beginning> = BTreeSet::new();
    for (beginning, entry) in entries {
        let before = entry.after.and_then(|after| {
            let own = entries.range(..(after.thread, after.count)).next_back();
            own.map(|(b, _)| *b)
                .filter(|b| b.0 == after.thread && b != beginning)
                .map(|b| (b, after))
        });
        match before {
            Some((before, after)) => _ = followers.entry(before).or_default().insert((after, *beginning)),
            None => _ = openings.insert(*beginning),
        }
    }
    // The earliest to follow a turn took over from it; whoever names it later found the cell anew.
    let mut next: BTreeMap<Beginning, Beginning> = BTreeMap::new();
    for (before, candidates) in &followers {
        for (position, (_, beginning)) in candidates.iter().enumerate() {
            if position == 0 {
                next.insert(*before, *beginning);
            } else {
                openings.insert(*beginning);
            }
        }
    }
    // Entries on a circle have no opening; such logs admit no order, and any of them shows it.
    let followed: BTreeSet<Beginning> = next.values().copied().collect();
    debug_assert!(openings.is_disjoint(&followed));
    let mut told: BTreeSet<Beginning> = BTreeSet::new();
    let mut stories = Vec::new();
    for opening in openings.iter().chain(entries.keys()) {
        let mut story = Vec::new();
        let mut current = Some(*opening).filter(|b| !told.contains(b));
        if let Some(before) = current.and_then(|b| entries[&b].after) {
            let writes = entries[opening].access.previous_wrote();
            story.push(Turn {
                beginning: None,
                over: before,
                reads: true,
                writes,
            });
        }
        while let Some(beginning) = current.filter(|b| told.insert(*b)) {
            let successor = next.get(&beginning).copied();
            story.push(turn(beginning, entries, successor, schedule));
            current = successor;
        }
        stories.push(story);
    }
    stories
}

fn turn(
    beginning: Beginning,
    entries: &BTreeMap<Beginning, Entry>,
    successor: Option<Beginning>,
    schedule: &Schedule,
) -> Turn {
    let entry = entries[&beginning];
    let (thread, event) = beginning;
    let successor = successor.map(|s| entries[&s]);
    // Without a successor nobody saw the end, nor whether it wrote: it may go on as long as its thread does.
    let end = successor
        .and_then(|s| s.after)
        .map_or(schedule.threads[thread.0 as usize].events, |after| after.count);
    Turn {
        beginning: Some((beginning, entry.place)),
        over: Point {
            thread,
            count: end.max(event + 1),
        },
        reads: entry.access.reads() || !entry.access.writes(),
        writes: entry.access.writes() || successor.is_none_or(|s| s.access.previous_wrote()),
    }
}

fn require_story(cell: u64, story: &[Turn], out: &mut Vec<Requirement>) -> Result<(), Rejection> {
    // Writing turns as the execution orders them, and what each story's turn reads from, as its rank among them.
    let mut writers: Vec<usize> = (0..story.len()).filter(|&t| story[t].writes).collect();
    writers.sort_by_key(|&t| story[t].beginning.map_or(0, |(_, place)| place + 1));
    let mut rank = vec![None; story.len()];
    for (position, writer) in writers.iter().enumerate() {
        rank[*writer] = Some(position);
    }
    for pair in writers.windows(2) {
        require_before(story[pair[0]].over, &story[pair[1]], Why::Writes { cell }, out);
    }
    let mut source: Option<usize> = None;
    for (index, turn) in story.iter().enumerate() {
        if turn.reads {
            let expected = source.map(|writer| rank[writer].expect("a writer has a rank"));
            if let Some(writer) = source {
                require_before(story[writer].over, turn, Why::Flow { cell }, out);
            }
            let following = expected.map_or(0, |rank| rank + 1);
            match (writers.get(following), turn.writes) {
                (Some(&next), true) if next != index => {
                    let ((thread, event), _) = turn.beginning.unwrap_or(((turn.over.thread, 0), 0));
                    return Err(Rejection::OtherWriteBetween { cell, thread, event });
                }
                (Some(&next), false) => require_before(turn.over, &story[next], Why::Overwrite { cell }, out),
                _ => {}
            }
        }
        if turn.writes {
            source = Some(index);
        }
    }
    Ok(())
}

fn require_before(required: Point, turn: &Turn, why: Why, out: &mut Vec<Requirement>) {
    // Nothing can be put before a turn that was there from the beginning; it has the first rank, and nobody asks.
    if let Some(((thread, event), _)) = turn.beginning {
        out.push(Requirement {
            thread,
            event,
            required,
            why,
        });
    }
}
