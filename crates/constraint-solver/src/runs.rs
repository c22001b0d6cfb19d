//! The runs on contended cells, put together from `Run` records.
//!
//! A record tells how its run begins, and in its source where the previous one ended. So a cell's records form a chain;
//! the run that the first record follows has no record of its own.
use crate::extent::Extents;
use run_model::Access;
use run_model::HIDING_PAGE_BYTES;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A maximal sequence of accesses to one cell by one thread, with none by another between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) thread: u32,
    /// `None`: the first run of the cell, which has no record. Nobody used the cell before, or those who did have been
    /// ordered before it by other records.
    pub(crate) first: Option<u64>,
    pub(crate) last: u64,
    /// Its first access reads what was written before it.
    pub(crate) reads: bool,
    /// It wrote, at its first access or later.
    pub(crate) wrote: bool,
}

/// One cell from its first use to its last, or to where its memory began a new life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// In the order in which they happened.
    pub(crate) runs: Vec<Run>,
}

/// A `Run` record and what follows it.
#[derive(Clone, Copy)]
struct Link {
    thread: u32,
    event: u64,
    access: Access,
    source: Option<Point>,
    /// Who took over from this run: index of the link.
    successor: Option<usize>,
}

/// The pages some of whose cells' changes of hands may have no record (`Access::AFTER_HIDDEN`).
pub(crate) struct HidingPages(BTreeSet<u64>);

impl HidingPages {
    pub(crate) fn among(logs: &Logs) -> HidingPages {
        let records = logs.threads.iter().flat_map(|log| &log.records);
        let hiding = records.filter(|r| r.hides());
        HidingPages(hiding.map(|r| r.object / HIDING_PAGE_BYTES).collect())
    }

    pub(crate) fn contains(&self, cell: u64) -> bool {
        self.0.contains(&(cell / HIDING_PAGE_BYTES))
    }
}

pub(crate) fn lives(logs: &Logs, extents: &Extents) -> Vec<Life> {
    let hiding = HidingPages::among(logs);
    let mut cells: BTreeMap<u64, Vec<Link>> = BTreeMap::new();
    for (thread, log) in logs.threads.iter().enumerate() {
        for record in log.records.iter().filter(|r| r.kind == Kind::Run) {
            if extents.contains(thread as u32, record.event) {
                // A count of zero would be a user without a use.
                let source = record.sources.first().filter(|source| source.count > 0);
                cells.entry(record.object).or_default().push(Link {
                    thread: thread as u32,
                    event: record.event,
                    access: record.access,
                    source,
                    successor: None,
                });
            }
        }
    }
    cells
        .into_iter()
        // Where changes of hands have no record, the runs are not all known: the records bind as they stand.
        .filter(|(cell, _)| !hiding.contains(*cell))
        .flat_map(|(_, links)| lives_of_cell(links, &extents.events))
        .collect()
}

/// Links are by thread and, within a thread, by event.
fn lives_of_cell(mut links: Vec<Link>, events: &[u64]) -> Vec<Life> {
    // In the order of their sources, so that the first to name a run is the one that followed it.
    let mut by_source: Vec<usize> = (0..links.len()).collect();
    by_source.sort_by_key(|&l| (links[l].source, links[l].thread, links[l].event));
    let mut heads = Vec::new();
    for link in by_source {
        match links[link].source.and_then(|source| run_at(&links, source)) {
            Some(previous) if previous != link && links[previous].successor.is_none() => {
                links[previous].successor = Some(link);
            }
            // The source's thread had no run here, or had already passed it on: a new life of the cell.
            _ => heads.push(link),
        }
    }
    heads.sort_unstable();
    let mut lives: Vec<Life> = heads.iter().map(|head| life(&links, *head, events)).collect();
    // Links that follow each other in a circle have no head. No recorder writes them; taken from any of them they give
    // orders that contradict each other, which is what has to be reported.
    for link in circling(&links, &heads) {
        lives.push(life(&links, link, events));
    }
    lives
}

/// One link of each circle.
fn circling(links: &[Link], heads: &[usize]) -> Vec<usize> {
    let mut visited = vec![false; links.len()];
    let mut circles = Vec::new();
    for start in heads.iter().copied().chain(0..links.len()) {
        // Everything that a head leads to is visited by now: what is left follows itself.
        if !visited[start] && heads.binary_search(&start).is_err() {
            circles.push(start);
        }
        let mut next = Some(start);
        while let Some(link) = next.filter(|link| !visited[*link]) {
            visited[link] = true;
            next = links[link].successor;
        }
    }
    circles
}

/// The run that contains the last event before `point`: the newest of the thread that had begun by then.
fn run_at(links: &[Link], point: Point) -> Option<usize> {
    let end = links.partition_point(|l| (l.thread, l.event) < (point.thread.0, point.count));
    end.checked_sub(1).filter(|&l| links[l].thread == point.thread.0)
}

fn life(links: &[Link], head: usize, events: &[u64]) -> Life {
    let mut life = Life::default();
    if let Some(source) = links[head].source {
        life.runs.push(Run {
            thread: source.thread.0,
            first: None,
            last: source.count - 1,
            reads: true,
            wrote: links[head].access.previous_wrote(),
        });
    }
    let mut next = Some(head);
    while let Some(link) = next.map(|l| links[l]) {
        let successor = link.successor.map(|l| links[l]);
        let end = successor
            .and_then(|s| s.source)
            .map_or(events[link.thread as usize], |source| source.count);
        life.runs.push(Run {
            thread: link.thread,
            first: Some(link.event),
            // A source behind the run's beginning, whatever else is wrong with it, cannot end it before it begins.
            last: (end - 1).max(link.event),
            reads: !link.access.is_blind(),
            // The last run may have written at any later access, and nobody came to see it.
            wrote: link.access.writes() || successor.is_none_or(|s| s.access.previous_wrote()),
        });
        next = link.successor.filter(|successor| *successor != head);
    }
    life
}
