//! From an order to gates: who waits for whom, and where waiting is not needed.
use crate::extent::Extents;
use crate::order::Graph;
use crate::order::Indifferent;
use crate::problem::Edge;
use crate::problem::Node;
use run_model::Gate;
use run_model::Logs;
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;

/// A schedule that enforces `edges`, with every record of the replayed events.
pub(crate) fn schedule(logs: &Logs, extents: &Extents, events: &[Vec<u64>], edges: &[Edge]) -> Schedule {
    let mut waits = waits(events, edges);
    let mut schedule = Schedule::default();
    for (thread, log) in logs.threads.iter().enumerate() {
        let mut gates = Vec::with_capacity(log.records.len());
        for record in log.records.iter().filter(|r| extents.contains(thread as u32, r.event)) {
            // Of several records of one event, the first does the waiting.
            let node = events[thread].binary_search(&record.event);
            let waits = node
                .map(|position| std::mem::take(&mut waits[thread][position]))
                .unwrap_or_default();
            gates.push(Gate {
                record: record.clone(),
                waits: waits.into(),
            });
        }
        schedule.threads.push(ThreadSchedule {
            gates,
            events: extents.events[thread],
        });
    }
    // Every edge leads to an event with a record: the record whose source it is, the run it begins, or the blind write
    // that begins a stretch. Only the first run of a cell has no record, and nothing is ever put before it.
    let left = waits.iter().flatten().flatten().count();
    assert!(left == 0, "{left} waits stand before events without a record");
    schedule
}

/// For each node, the points it has to wait for, given that it waited for those of the nodes before it.
///
/// Walks the nodes in an order that agrees with the edges and keeps, per thread, a vector clock of what is certain to
/// have happened. A wait is left out if the clock says so, or if it follows from another wait of the same node.
fn waits(events: &[Vec<u64>], edges: &[Edge]) -> Vec<Vec<Vec<Point>>> {
    let chains: Vec<u32> = events.iter().map(|list| list.len() as u32).collect();
    let graph = Graph::new(&chains, edges);
    let order = graph
        .linear_order(&mut Indifferent)
        .unwrap_or_else(|_| panic!("a resolved problem has an order"));
    let mut waits: Vec<Vec<Vec<Point>>> = chains.iter().map(|length| vec![Vec::new(); *length as usize]).collect();
    // A thread's clock exists from its first node to its last: a run may have thousands of threads one after the other.
    let mut clocks: Vec<Vec<u64>> = vec![Vec::new(); chains.len()];
    let mut snapshots = Snapshots {
        clocks: vec![None; graph.nodes()],
    };
    for node in order {
        let thread = node.chain as usize;
        clocks[thread].resize(chains.len(), 0);
        let mut sources: Vec<Node> = graph
            .incoming(node)
            .map(|e| e.before)
            .filter(|n| n.chain != node.chain)
            .collect();
        // The latest node of each chain.
        sources.sort_unstable_by(|a, b| b.cmp(a));
        sources.dedup_by_key(|source| source.chain);
        sources.reverse();
        let needed = |source: &&Node| {
            let count = events[source.chain as usize][source.position as usize] + 1;
            clocks[thread][source.chain as usize] < count && !implied(**source, count, &sources, &graph, &snapshots)
        };
        let kept: Vec<Node> = sources.iter().filter(needed).copied().collect();
        for source in &kept {
            let theirs = snapshots.of(graph.id(*source));
            clocks[thread]
                .iter_mut()
                .zip(theirs)
                .for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            let count = events[source.chain as usize][source.position as usize] + 1;
            waits[thread][node.position as usize].push(Point {
                thread: ThreadIndex(source.chain),
                count,
            });
        }
        for edge in graph.incoming(node) {
            snapshots.used(graph.id(edge.before));
        }
        clocks[thread][thread] = events[thread][node.position as usize] + 1;
        let uses = graph.outgoing(node).count();
        if uses > 0 {
            snapshots.clocks[graph.id(node)] = Some((uses, clocks[thread].clone()));
        }
        if node.position + 1 == chains[thread] {
            clocks[thread] = Vec::new();
        }
    }
    waits
}

/// Does another of `sources` come after `source`?
fn implied(source: Node, count: u64, sources: &[Node], graph: &Graph<'_>, snapshots: &Snapshots) -> bool {
    let others = sources.iter().filter(|other| other.chain != source.chain);
    others
        .into_iter()
        .any(|other| snapshots.of(graph.id(*other))[source.chain as usize] >= count)
}

/// The clocks of nodes that others still have to read.
struct Snapshots {
    clocks: Vec<Option<(usize, Vec<u64>)>>,
}

impl Snapshots {
    fn of(&self, node: usize) -> &[u64] {
        &self.clocks[node].as_ref().expect("kept until its last use").1
    }

    fn used(&mut self, node: usize) {
        if let Some((uses, _)) = &mut self.clocks[node] {
            *uses -= 1;
            if *uses == 0 {
                self.clocks[node] = None;
            }
        }
    }
}
