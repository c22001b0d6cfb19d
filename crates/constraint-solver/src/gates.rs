//! From an order to gates: who waits for whom, and where waiting is not needed.
//!
//! Walks the nodes in an order that agrees with the edges and keeps, per thread, a clock of what is certain to have
//! happened. A wait is left out if the clock says so, or if it follows from another wait of the same node.
use crate::extent::Extents;
use crate::nodes::Lists;
use crate::nodes::Numbering;
use crate::problem::Edge;
use crate::problem::Node;
use run_model::Extent;
use run_model::Gate;
use run_model::Logs;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A schedule that enforces `edges`, with every record of the replayed events.
pub(crate) fn schedule(logs: &Logs, extents: &Extents, events: &[Vec<u64>], edges: &[Edge]) -> Schedule {
    let waits = Walk::new(events, edges).run();
    let mut schedule = Schedule::default();
    for (thread, (log, waits)) in logs.threads.iter().zip(waits).enumerate() {
        let mut waits = waits.iter().peekable();
        let end = extents.events[thread];
        let replayed = || log.records.iter().filter(|record| record.event < end);
        let mut gates = Vec::with_capacity(replayed().count());
        for record in replayed() {
            let mut gate = Gate {
                record: Record {
                    sources: Points::NONE,
                    version: 0,
                    ..*record
                },
                waits: Points::NONE,
            };
            // Of several records of one event, the first does the waiting.
            while let Some(wait) = waits.next_if(|wait| wait.event == record.event) {
                gate.waits.push(wait.point);
            }
            gates.push(gate);
        }
        // Every edge leads to an event with a record: the record whose source it is, the run it begins, or the blind write
        // that begins a stretch. Only the first run of a cell has no record, and nothing is ever put before it.
        let left = waits.count();
        assert!(left == 0, "{left} waits stand before events without a record");
        schedule.threads.push(ThreadSchedule { gates, events: end });
    }
    schedule
}

/// Replays are not to compare the values of these reads, given by thread and record.
pub(crate) fn leave_unverified(schedule: &mut Schedule, reads: &[(u32, u32)]) {
    for &(thread, record) in reads {
        // Gates are the records of the replayed events, which come first.
        let gate = schedule.threads[thread as usize].gates.get_mut(record as usize);
        if let Some(record) = gate.map(|gate| &mut gate.record)
            && let Some(extent) = Extent::unpack(record.access, record.object)
        {
            let unknown = true;
            record.access = Extent { unknown, ..extent }.pack();
        }
    }
}

/// Before `event`, wait for `point`.
struct Wait {
    event: u64,
    point: Point,
}

/// For each column, how many of its nodes are certain to be over. What lies behind the end is zero.
type Clock = Vec<u32>;

struct Walk<'a> {
    events: &'a [Vec<u64>],
    sources: Sources,
    /// For each chain, the node that comes next.
    next: Vec<u32>,
    /// Who sleeps at each chain until it has passed which node. A chain sleeps at one place at most.
    sleepers: Vec<BinaryHeap<Reverse<(u32, u32)>>>,
    columns: Columns,
    /// A chain's clock exists from its first node to its last.
    clocks: Vec<Clock>,
    snapshots: Snapshots,
    waits: Vec<Vec<Wait>>,
}

impl<'a> Walk<'a> {
    fn new(events: &'a [Vec<u64>], edges: &[Edge]) -> Walk<'a> {
        let chains = events.len();
        let sources = Sources::new(events, edges);
        let snapshots = Snapshots::new(&sources, edges);
        Walk {
            events,
            sources,
            next: vec![0; chains],
            sleepers: vec![BinaryHeap::new(); chains],
            columns: Columns::new(chains),
            clocks: vec![Clock::new(); chains],
            snapshots,
            waits: (0..chains).map(|_| Vec::new()).collect(),
        }
    }

    /// For each thread, the waits that are left, by event.
    fn run(mut self) -> Vec<Vec<Wait>> {
        let mut runnable: Vec<u32> = (0..self.events.len() as u32).rev().collect();
        let mut own = Vec::new();
        while let Some(chain) = runnable.pop() {
            while let Some(node) = self.ready(chain) {
                own.clear();
                own.extend_from_slice(self.sources.of(node));
                self.pass(node, &mut own);
                self.next[chain as usize] += 1;
                let sleepers = &mut self.sleepers[chain as usize];
                let is_due = |first: &Reverse<(u32, u32)>| first.0.0 == node.position;
                if sleepers.peek().is_some_and(is_due) {
                    // Those who have waited first: the sooner they come, the fewer snapshots are kept.
                    runnable.push(chain);
                    while sleepers.peek().is_some_and(is_due) {
                        runnable.extend(sleepers.pop().map(|sleeper| sleeper.0.1));
                    }
                    break;
                }
            }
        }
        let ended = (0..self.events.len()).all(|chain| self.next[chain] as usize == self.events[chain].len());
        assert!(ended, "a resolved problem has an order");
        self.waits
    }

    /// The next node of a chain, if all its sources are passed. Otherwise the chain sleeps until one of them is.
    fn ready(&mut self, chain: u32) -> Option<Node> {
        let position = self.next[chain as usize];
        if position as usize == self.events[chain as usize].len() {
            return None;
        }
        let node = Node { chain, position };
        let unmet = |source: &&Node| self.next[source.chain as usize] <= source.position;
        match self.sources.of(node).iter().find(unmet) {
            Some(source) => {
                self.sleepers[source.chain as usize].push(Reverse((source.position, chain)));
                None
            }
            None => Some(node),
        }
    }

    fn pass(&mut self, node: Node, sources: &mut Vec<Node>) {
        let chain = node.chain as usize;
        for source in &*sources {
            self.snapshots.uses[self.sources.id(*source)] -= 1;
        }
        // The latest node of each chain. That it comes after the others of its chain goes without saying.
        sources.sort_unstable_by(|a, b| b.cmp(a));
        sources.dedup();
        let mut latest = None;
        sources.retain(|source| {
            let is_latest = latest.replace(source.chain) != Some(source.chain);
            if !is_latest {
                self.snapshots.let_go(self.sources.id(*source));
            }
            is_latest
        });
        sources.reverse();
        let mut clock = std::mem::take(&mut self.clocks[chain]);
        for source in &*sources {
            if !self.is_known(*source, &clock) && !self.is_implied(*source, sources) {
                self.waits[chain].push(Wait {
                    event: self.events[chain][node.position as usize],
                    point: Point {
                        thread: ThreadIndex(source.chain),
                        count: self.events[source.chain as usize][source.position as usize] + 1,
                    },
                });
            }
        }
        for source in &*sources {
            let theirs = self.snapshots.of(self.sources.id(*source));
            if clock.len() < theirs.len() {
                clock.resize(theirs.len(), 0);
            }
            clock
                .iter_mut()
                .zip(theirs)
                .for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            self.snapshots.let_go(self.sources.id(*source));
        }
        if node.position == 0 {
            self.columns.begin(node.chain, &clock);
        }
        let (column, count) = self.columns.place(node);
        if clock.len() <= column {
            clock.resize(column + 1, 0);
        }
        clock[column] = count;
        self.snapshots.keep(self.sources.id(node), &clock);
        if node.position as usize + 1 == self.events[chain].len() {
            self.columns.end(node);
        } else {
            self.clocks[chain] = clock;
        }
    }

    fn is_known(&self, source: Node, clock: &[u32]) -> bool {
        let (column, count) = self.columns.place(source);
        clock.get(column).is_some_and(|known| *known >= count)
    }

    /// Does another of `sources` come after `source`?
    fn is_implied(&self, source: Node, sources: &[Node]) -> bool {
        let mut others = sources.iter().filter(|other| other.chain != source.chain);
        others.any(|other| self.is_known(source, self.snapshots.of(self.sources.id(*other))))
    }
}

/// For each node, those of other chains that come before it.
struct Sources {
    numbering: Numbering,
    nodes: Lists<Node>,
}

impl Sources {
    fn new(events: &[Vec<u64>], edges: &[Edge]) -> Sources {
        let numbering = Numbering::new(events.iter().map(|list| list.len() as u32));
        let sources = between_chains(edges).map(|edge| (numbering.id(edge.after), edge.before));
        let empty = Node { chain: 0, position: 0 };
        Sources {
            nodes: Lists::new(numbering.nodes(), sources, empty),
            numbering,
        }
    }

    fn id(&self, node: Node) -> usize {
        self.numbering.id(node)
    }

    fn of(&self, node: Node) -> &[Node] {
        self.nodes.of(self.id(node))
    }
}

fn between_chains(edges: &[Edge]) -> impl Iterator<Item = &Edge> + Clone {
    edges.iter().filter(|edge| edge.before.chain != edge.after.chain)
}

/// Which entry of a clock is whose.
///
/// A chain that begins when it is certain that another has ended goes on in that one's column, so that clocks are as
/// long as many threads run at once, not as many as there ever were.
struct Columns {
    /// For each chain, its column, and how many nodes of others the column had before.
    places: Vec<(u32, u32)>,
    /// Columns whose last chain has ended, and their numbers of nodes.
    free: Vec<(u32, u32)>,
    number: u32,
}

impl Columns {
    fn new(chains: usize) -> Columns {
        Columns {
            places: vec![(0, 0); chains],
            free: Vec::new(),
            number: 0,
        }
    }

    /// `clock`: what is certain before the chain's first node.
    fn begin(&mut self, chain: u32, clock: &[u32]) {
        let is_over = |(column, nodes): &(u32, u32)| clock.get(*column as usize).is_some_and(|known| known >= nodes);
        self.places[chain as usize] = match self.free.iter().position(is_over) {
            Some(index) => self.free.swap_remove(index),
            None => {
                self.number += 1;
                (self.number - 1, 0)
            }
        };
    }

    fn end(&mut self, last: Node) {
        let (column, count) = self.place(last);
        self.free.push((column as u32, count));
    }

    /// The node's column, and how many of the column's nodes are over when it is.
    fn place(&self, node: Node) -> (usize, u32) {
        let (column, before) = self.places[node.chain as usize];
        (column as usize, before + node.position + 1)
    }
}

/// The clocks of nodes that others still have to read.
struct Snapshots {
    /// For each node, by how many sources it is still named.
    uses: Vec<u32>,
    /// For each node that has one, its clock.
    places: Vec<u32>,
    clocks: Vec<Clock>,
    /// Clocks that nobody has to read any more.
    free: Vec<u32>,
}

impl Snapshots {
    fn new(sources: &Sources, edges: &[Edge]) -> Snapshots {
        let nodes = sources.numbering.nodes();
        let mut uses = vec![0; nodes];
        for edge in between_chains(edges) {
            uses[sources.id(edge.before)] += 1;
        }
        Snapshots {
            uses,
            places: vec![0; nodes],
            clocks: Vec::new(),
            free: Vec::new(),
        }
    }

    fn of(&self, node: usize) -> &[u32] {
        &self.clocks[self.places[node] as usize]
    }

    fn keep(&mut self, node: usize, clock: &[u32]) {
        if self.uses[node] > 0 {
            let place = self.free.pop().unwrap_or_else(|| {
                self.clocks.push(Clock::new());
                self.clocks.len() as u32 - 1
            });
            let copy = &mut self.clocks[place as usize];
            copy.clear();
            copy.extend_from_slice(clock);
            self.places[node] = place;
        }
    }

    /// Frees the node's clock if it was used for the last time.
    fn let_go(&mut self, node: usize) {
        if self.uses[node] == 0 {
            self.free.push(self.places[node]);
        }
    }
}
