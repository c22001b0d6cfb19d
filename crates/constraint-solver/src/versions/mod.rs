//! STRIDE's and OREO's constraint system as a [`crate::problem::Problem`]: writes have versions, reads have values and bounds.
//!
//! Where versions tell which write each read saw, they are edges: each write after the one before it, each read after the
//! write it saw and before the next. That is always so in STRIDE, which counts writes under a lock. In OREO nothing orders
//! writes and their versions, and cells whose versions contradict each other, or the reads, are left to the search; so
//! are cells whose edges lead in a circle.
mod access;
mod cell;
mod formula;
mod interleaving;
mod registers;

pub(crate) use access::seen_in_flight;
pub(crate) use formula::write as write_formula;

use crate::Counted;
use crate::Hints;
use crate::Watch;
use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::problem::Edge;
use crate::problem::Node;
use crate::resolve_watched;
use crate::search::Circle;
use crate::search::Resolved;
use crate::translation::Event;
use crate::translation::EventCollector;
use crate::translation::ProblemWriter;
use crate::translation::Translation;
use crate::translation::edge;
use crate::translation::records;
use access::Access;
use access::accesses;
use access::are_of_one_part;
use cell::Belief;
use cell::Linkage;
use interleaving::Events;
use run_model::Evidence;
use run_model::Kind;
use run_model::Logs;
use run_model::Record;
use std::collections::BTreeSet;

/// A cell, and how its reads and writes are put into order.
struct Cell<'a> {
    accesses: &'a [Access],
    linkage: Linkage,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// As the versions say.
    Versions,
    /// As the search finds out.
    Search,
    /// As the versions say, whatever the values are.
    VersionsAlone,
}

impl Cell<'_> {
    /// What versions say of it has led to a contradiction. False: it was not that.
    fn leave_to_search(&mut self) -> bool {
        let is_by_versions = self.how == How::Versions && !is_private(self.accesses);
        if is_by_versions {
            self.how = How::Search;
        }
        is_by_versions
    }

    /// No order explains what its reads saw: some of it was written unseen. False: its versions say nothing about that.
    fn believe_versions(&mut self) -> bool {
        let is_told = |access: &Access| access.told && !access.exact;
        let is_searched = self.how == How::Search && self.accesses.iter().any(is_told);
        if is_searched {
            self.linkage = cell::link(self.accesses, Belief::Versions);
            self.how = How::VersionsAlone;
        }
        is_searched
    }
}

/// Cuts threads of damaged logs before reads of what is lost.
fn cut(logs: &Logs, epochs: &Epochs, extents: &mut Extents) {
    if !logs.threads.iter().any(|log| log.torn) {
        return;
    }
    loop {
        let accesses = accesses(logs, extents);
        let mut lost = Vec::new();
        for accesses in accesses.chunk_by(are_of_one_part) {
            let linkage = cell::link(accesses, Belief::Values);
            let unmatched = linkage.unmatched.iter().map(|read| &accesses[*read as usize]);
            lost.extend(unmatched.map(|read| (read.thread, read.event)));
            if logs.method.evidence() == Evidence::Versions {
                lost.extend(beyond_gaps(accesses, &linkage).map(|read| (read.thread, read.event)));
            } else {
                let unwritten = linkage.unwritten.iter().map(|read| &accesses[*read as usize]);
                lost.extend(unwritten.map(|read| (read.thread, read.event)));
            }
        }
        if lost.is_empty() {
            return;
        }
        extents.cut_before(logs, epochs, &lost);
    }
}

/// Reads that may have seen a write which is not there, because versions are missing up to their bound.
fn beyond_gaps<'a>(accesses: &'a [Access], linkage: &'a Linkage) -> impl Iterator<Item = &'a Access> {
    let reads = accesses
        .iter()
        .zip(&linkage.places)
        .filter(|(access, _)| !access.writes);
    let is_doubtful = |(read, place): &(&Access, &u32)| {
        let version = |write: &u32| accesses[*write as usize].version;
        let up_to_bound = linkage.writes.partition_point(|write| version(write) <= read.version);
        let seen = place.checked_sub(1).map(|place| &linkage.writes[place as usize]);
        let newer = up_to_bound.saturating_sub(**place as usize) as u64;
        let covers = seen.is_some_and(|write| accesses[*write as usize].mask & read.mask == read.mask);
        newer < read.version.saturating_sub(seen.map_or(0, version)) || !covers && (up_to_bound as u64) < read.version
    };
    reads.filter(is_doubtful).map(|(read, _)| read)
}

type Solved = (Translation, Resolved, Counted);
/// A circle, and for each thread the event of each node.
type Contradiction = (Circle, Vec<Vec<u64>>);

/// Translates and resolves. Damaged logs are cut further where they have no solution.
pub(crate) fn solve(
    logs: &Logs,
    epochs: &Epochs,
    extents: &mut Extents,
    hints: Hints,
    watch: &dyn Watch,
) -> Result<Solved, Contradiction> {
    loop {
        cut(logs, epochs, extents);
        let (circle, events) = match solve_within(logs, extents, hints, watch) {
            Ok(solved) => return Ok(solved),
            Err(unsolvable) => unsolvable,
        };
        // Reads that are taken to have seen one write may have seen another one, which is lost.
        let nodes = circle.edges.iter().flat_map(|edge| [edge.before, edge.after]);
        let at = |node: Node| (node.chain, events[node.chain as usize][node.position as usize]);
        let events_at: Vec<(u32, u64)> = nodes.map(at).collect();
        let accessing = |kinds: &[Kind]| -> Vec<(u32, u64)> {
            let is_one = |(thread, event): &(u32, u64)| {
                records_at(logs, *thread, *event).any(|record| kinds.contains(&record.kind))
            };
            events_at.iter().copied().filter(is_one).collect()
        };
        let mut doubtful = accessing(&[Kind::Read]);
        if doubtful.is_empty() {
            doubtful = accessing(&[Kind::Write]);
        }
        if doubtful.is_empty() && circle.edges.is_empty() {
            // Some read has no possibility, and nobody says which.
            let begun = (0..).zip(&extents.events).filter(|(_, events)| **events > 0);
            doubtful = begun.map(|(thread, events)| (thread, events / 2)).collect();
        }
        if doubtful.is_empty() || !logs.threads.iter().any(|log| log.torn) {
            return Err((circle, events));
        }
        extents.cut_before(logs, epochs, &doubtful);
    }
}

fn records_at(logs: &Logs, thread: u32, event: u64) -> impl Iterator<Item = &Record> {
    let records = &logs.threads[thread as usize].records;
    let first = records.partition_point(|record| record.event < event);
    records[first..].iter().take_while(move |record| record.event == event)
}

fn solve_within(logs: &Logs, extents: &Extents, hints: Hints, watch: &dyn Watch) -> Result<Solved, Contradiction> {
    let accesses = accesses(logs, extents);
    let mut cells: Vec<Cell<'_>> = accesses
        .chunk_by(are_of_one_part)
        .map(|accesses| {
            let linkage = cell::link(accesses, Belief::Values);
            let is_certain = linkage.unmatched.len() == linkage.foreign.len() && linkage.doubtful == 0;
            let how = match linkage.counted || is_certain || is_private(accesses) {
                true => How::Versions,
                false => How::Search,
            };
            Cell { accesses, linkage, how }
        })
        .collect();
    let translator = Translator::new(logs, extents, &accesses);
    // Interleaving is tried once, as soon as versions are not enough.
    let mut versions_suffice = cells.iter().all(|cell| cell.how == How::Versions);
    if !versions_suffice {
        translator.interleave(&mut cells);
    }
    loop {
        let mut translation = translator.translate(cells.iter());
        match resolve_watched(&translation.problem, hints, watch) {
            Ok(resolved) => {
                let counted = count(&accesses, &cells);
                translation.events = translator.events;
                translation.unverifiable = unverifiable(&cells);
                return Ok((translation, resolved, counted));
            }
            Err(_) if versions_suffice => {
                versions_suffice = false;
                translator.interleave(&mut cells);
            }
            Err(circle) => {
                if !translator.give_up(&circle, &mut cells) {
                    return Err((circle, translator.events));
                }
            }
        }
    }
}

/// What one thread does with a cell of its own is in its order already.
fn is_private(accesses: &[Access]) -> bool {
    accesses.iter().all(|access| access.thread == accesses[0].thread)
}

fn unverifiable(cells: &[Cell<'_>]) -> Vec<(u32, u32)> {
    let of_cell = |cell: &Cell<'_>| {
        let access = |read: &u32| cell.accesses[*read as usize];
        let reads = cell.linkage.unverifiable.iter().map(access);
        reads.map(|read| (read.thread, read.record)).collect::<Vec<_>>()
    };
    cells.iter().flat_map(of_cell).collect()
}

fn count(accesses: &[Access], cells: &[Cell<'_>]) -> Counted {
    let mut counted = Counted::default();
    for cell in accesses.chunk_by(|one, other| one.cell == other.cell) {
        let writes = cell.iter().filter(|access| access.writes);
        counted.version_conflicts += cell::conflicts(writes.map(|write| write.version));
    }
    for cell in cells {
        counted.reads_unmatched += cell.linkage.unmatched.len() as u64;
        let reads = (cell.accesses.len() - cell.linkage.writes.len()) as u64;
        match cell.how != How::Search && cell.linkage.orderly {
            true => counted.linked_by_versions += reads,
            false => counted.linked_by_search += reads,
        }
    }
    counted
}

struct Translator<'a> {
    logs: &'a Logs,
    extents: &'a Extents,
    epochs: Epochs,
    events: Vec<Vec<u64>>,
    edges: usize,
}

impl<'a> Translator<'a> {
    fn new(logs: &'a Logs, extents: &'a Extents, accesses: &[Access]) -> Translator<'a> {
        let epochs = Epochs::among(logs, |thread, event| extents.contains(thread, event));
        let mut collector = EventCollector::new(logs.threads.len());
        records(logs, extents, &epochs, |_, _, _| true, &mut collector);
        for access in accesses {
            collector.enter(event(access));
        }
        let (events, edges) = collector.finish();
        Translator {
            logs,
            extents,
            epochs,
            events,
            edges,
        }
    }

    fn translate<'c>(&self, cells: impl Iterator<Item = &'c Cell<'c>>) -> Translation {
        let mut writer = ProblemWriter::new(self.logs, &self.events, self.edges, 0);
        let epochs_missing = records(self.logs, self.extents, &self.epochs, |_, _, _| true, &mut writer);
        let mut count = 0;
        for cell in cells {
            count += 1;
            match cell.how {
                How::Versions | How::VersionsAlone => {
                    cell.linkage.edges(cell.accesses, |before, after| {
                        let event = |index: u32| event(&cell.accesses[index as usize]);
                        edge(&mut writer, event(before), event(after));
                    });
                }
                How::Search => self.leave_open(cell, &mut writer),
            }
        }
        Translation {
            problem: writer.problem,
            events: Vec::new(),
            cells: count,
            runs: 0,
            epochs_missing,
            unverifiable: Vec::new(),
        }
    }

    /// Writes a cell as registers, and the order by versions as hints.
    fn leave_open(&self, cell: &Cell<'_>, writer: &mut ProblemWriter<'_>) {
        let nodes: Vec<Node> = cell.accesses.iter().map(|access| writer.node(event(access))).collect();
        let is_counted = cell.linkage.counted;
        let is_unmatched = |index: usize| cell.linkage.unmatched.binary_search(&(index as u32)).is_ok();
        let is_bound = |index: usize| {
            let access = &cell.accesses[index];
            is_counted && (access.writes || access.unknown || is_unmatched(index))
        };
        let is_foreign = |index: usize| cell.linkage.foreign.binary_search(&(index as u32)).is_ok();
        let is_free = |index: usize| is_counted && is_unmatched(index) || is_foreign(index);
        let mut registers = registers::registers(cell.accesses, &nodes, is_free);
        let mut hints = Vec::new();
        cell.linkage.edges(cell.accesses, |before, after| {
            let (one, other) = (&cell.accesses[before as usize], &cell.accesses[after as usize]);
            // Writes that were counted are in that order, and reads of what nobody wrote are where their version says.
            if is_bound(before as usize) && is_bound(after as usize) {
                edge(writer, event(one), event(other));
            } else if one.thread != other.thread {
                let (before, after) = (nodes[before as usize], nodes[after as usize]);
                hints.push(Edge { before, after });
            }
        });
        if let Some(first) = registers.first_mut() {
            first.hints = hints;
        }
        for register in &mut registers {
            register.hints_suffice = cell.linkage.unmatched.is_empty() && cell.linkage.doubtful == 0;
        }
        writer.problem.registers.append(&mut registers);
    }

    /// Puts the cells that versions do not order for certain into an order that gives each read its value, all together. If
    /// none is found, nothing changes.
    fn interleave(&self, cells: &mut [Cell<'_>]) {
        let is_open = |cell: &Cell<'_>| !cell.linkage.counted && !is_private(cell.accesses);
        let certain = self.translate(cells.iter().filter(|cell| !is_open(cell))).problem;
        let mut touches = Vec::new();
        let (mut contents, mut empty) = (Vec::new(), Vec::new());
        let is_torn = self.logs.threads.iter().any(|log| log.torn);
        for cell in cells.iter().filter(|cell| is_open(cell)) {
            let Some(of_cell) = cell.linkage.touches(contents.len() as u32, cell.accesses, is_torn) else {
                return;
            };
            let of_events = of_cell.into_iter();
            touches.extend(of_events.map(|(index, touch)| (self.node(&cell.accesses[index as usize]), touch)));
            contents.push(cell.linkage.initial.without(!cell.linkage.initial.known));
            empty.push(
                cell.linkage
                    .initial
                    .without(!cell.linkage.initial.known | cell.linkage.doubtful),
            );
        }
        let lengths = self.events.iter().map(|events| events.len() as u32);
        let after = certain.edges.iter().map(|edge| (edge.after, edge.before));
        let events = Events::new(lengths, &touches, after);
        // Of each thread a write can be late, and reads of others with it. How many, nobody knows.
        let mut found = None;
        for early in [8, 64, 1024] {
            let early = early * events.threads();
            found = found.or_else(|| interleaving::find(&events, empty.clone(), early));
            if empty != contents {
                found = found.or_else(|| interleaving::find(&events, contents.clone(), early));
            }
        }
        let Some(order) = found else {
            return;
        };
        let mut places: Vec<Vec<usize>> = self.events.iter().map(|events| vec![0; events.len()]).collect();
        for (place, node) in order.iter().enumerate() {
            places[node.chain as usize][node.position as usize] = place;
        }
        for cell in cells.iter_mut().filter(|cell| is_open(cell)) {
            cell.how = How::Versions;
            cell.linkage.put_into(cell.accesses, |access| {
                let node = self.node(access);
                places[node.chain as usize][node.position as usize]
            });
        }
    }

    fn node(&self, access: &Access) -> Node {
        let events = &self.events[access.thread as usize];
        Node {
            chain: access.thread,
            position: events.partition_point(|event| *event < access.event) as u32,
        }
    }

    /// Leaves the cells with edges on this circle to the search; if it has none, but the search chose some of it, all. If that is
    /// not enough, believes versions more than values. False: nothing is left to give up.
    fn give_up(&self, circle: &Circle, cells: &mut [Cell<'_>]) -> bool {
        let mut involved: BTreeSet<u64> = BTreeSet::new();
        for edge in &circle.edges {
            let (before, after) = (self.cells_at(edge.before), self.cells_at(edge.after));
            involved.extend(before.intersection(&after));
        }
        let mut each = |is_involved: bool, change: &dyn Fn(&mut Cell<'_>) -> bool| {
            let is_chosen = |cell: &&mut Cell<'_>| !is_involved || involved.contains(&cell.accesses[0].cell);
            let chosen = cells.iter_mut().filter(is_chosen);
            chosen.fold(false, |changed, cell| change(cell) | changed)
        };
        let (search, believe) = (
            |cell: &mut Cell<'_>| cell.leave_to_search(),
            |cell: &mut Cell<'_>| cell.believe_versions(),
        );
        each(true, &search)
            || (!circle.recorded && each(false, &search))
            || each(true, &believe)
            || (!circle.recorded && each(false, &believe))
    }

    /// The cells that the event at this node accesses.
    fn cells_at(&self, node: Node) -> BTreeSet<u64> {
        let event = self.events[node.chain as usize][node.position as usize];
        records_at(self.logs, node.chain, event)
            .filter(|record| record.kind.is_versioned())
            .map(|record| record.object / access::CELL_BYTES * access::CELL_BYTES)
            .collect()
    }
}

fn event(access: &Access) -> Event {
    Event {
        thread: access.thread,
        event: access.event,
        near: access.record,
    }
}
