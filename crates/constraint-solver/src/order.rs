//! Topological order of chains with edges between them, or a short cycle.
use crate::problem::Edge;
use crate::problem::Node;
use std::collections::BTreeSet;
use std::collections::VecDeque;

/// Start so many searches for a short cycle at most: it is for a person to read, and need not be the shortest.
const CYCLE_SEARCHES: usize = 64;

/// Edges by the node they lead to and by the node they come from.
pub(crate) struct Graph<'a> {
    edges: &'a [Edge],
    /// Index of each chain's first node, and the number of all nodes at the end.
    bases: Vec<usize>,
    incoming: Table,
    outgoing: Table,
}

/// For each node, a slice of edge indices.
struct Table {
    firsts: Vec<u32>,
    indices: Vec<u32>,
}

impl Table {
    fn new(nodes: usize, edges: &[Edge], node_of: impl Fn(&Edge) -> usize) -> Table {
        let mut firsts = vec![0; nodes + 1];
        for edge in edges {
            firsts[node_of(edge) + 1] += 1;
        }
        for node in 0..nodes {
            firsts[node + 1] += firsts[node];
        }
        let mut next = firsts.clone();
        let mut indices = vec![0; edges.len()];
        for (index, edge) in edges.iter().enumerate() {
            let place = &mut next[node_of(edge)];
            indices[*place as usize] = index as u32;
            *place += 1;
        }
        Table { firsts, indices }
    }

    fn of(&self, node: usize) -> &[u32] {
        &self.indices[self.firsts[node] as usize..self.firsts[node + 1] as usize]
    }
}

/// Edges, each the next one's cause: `edges[i].after` comes before or is `edges[i + 1].before` on one chain, and the last
/// leads to the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// Indices of edges.
    pub(crate) edges: Vec<usize>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(chains: &[u32], edges: &'a [Edge]) -> Graph<'a> {
        let mut bases = vec![0];
        for length in chains {
            bases.push(bases[bases.len() - 1] + *length as usize);
        }
        let nodes = bases[chains.len()];
        let id = |node: Node| bases[node.chain as usize] + node.position as usize;
        let incoming = Table::new(nodes, edges, |e| id(e.after));
        let outgoing = Table::new(nodes, edges, |e| id(e.before));
        Graph {
            edges,
            bases,
            incoming,
            outgoing,
        }
    }

    /// A number below `nodes()`.
    pub(crate) fn id(&self, node: Node) -> usize {
        self.bases[node.chain as usize] + node.position as usize
    }

    pub(crate) fn nodes(&self) -> usize {
        self.bases[self.bases.len() - 1]
    }

    pub(crate) fn chains(&self) -> usize {
        self.bases.len() - 1
    }

    pub(crate) fn incoming(&self, node: Node) -> impl Iterator<Item = Edge> {
        self.incoming.of(self.id(node)).iter().map(|&e| self.edges[e as usize])
    }

    pub(crate) fn outgoing(&self, node: Node) -> impl Iterator<Item = Edge> {
        self.outgoing.of(self.id(node)).iter().map(|&e| self.edges[e as usize])
    }

    /// All nodes in an order that agrees with chains and edges. `reluctance` says how many intervals would be open
    /// at once if a node came now; nodes with zero come first, which avoids most overlaps before anyone searches.
    pub(crate) fn linear_order(&self, reluctance: &mut impl Reluctance) -> Result<Vec<Node>, Cycle> {
        let mut order = Vec::with_capacity(self.nodes());
        let mut pending: Vec<u32> = (0..self.nodes()).map(|n| self.incoming.of(n).len() as u32).collect();
        let mut next = vec![0u32; self.chains()];
        let mut ready: VecDeque<u32> = (0..self.chains() as u32).collect();
        let mut reluctant = BTreeSet::new();
        loop {
            let (chain, forced) = match ready.pop_front() {
                Some(chain) => (chain, false),
                None => match reluctant.pop_first() {
                    Some(chain) => (chain, true),
                    None => break,
                },
            };
            let mut forced = forced;
            while let Some(node) = self.at(chain, next[chain as usize]) {
                if pending[self.id(node)] != 0 {
                    break;
                }
                if !forced && !reluctance.is_free(node) {
                    reluctant.insert(chain);
                    break;
                }
                forced = false;
                order.push(node);
                next[chain as usize] += 1;
                for &edge in self.outgoing.of(self.id(node)) {
                    let after = self.edges[edge as usize].after;
                    pending[self.id(after)] -= 1;
                    if after.chain != chain
                        && pending[self.id(after)] == 0
                        && next[after.chain as usize] == after.position
                    {
                        ready.push_back(after.chain);
                    }
                }
                if reluctance.passed(node) {
                    ready.extend(std::mem::take(&mut reluctant));
                }
            }
        }
        if order.len() == self.nodes() {
            Ok(order)
        } else {
            Err(self.cycle(&next))
        }
    }

    fn at(&self, chain: u32, position: u32) -> Option<Node> {
        let length = self.bases[chain as usize + 1] - self.bases[chain as usize];
        ((position as usize) < length).then_some(Node { chain, position })
    }

    /// A short cycle, where no chain can go on from `next`: each waits for a node that another has not reached.
    fn cycle(&self, next: &[u32]) -> Cycle {
        let blocked = |chain: usize| self.at(chain as u32, next[chain]).is_some();
        let starts = (0..self.chains()).filter(|c| blocked(*c)).take(CYCLE_SEARCHES);
        let shortest = starts
            .filter_map(|start| self.cycle_through(start, next))
            .min_by_key(|c| c.edges.len());
        // One of the blocked chains may only lead to a cycle without being on it; walking on from it gets there.
        shortest.unwrap_or_else(|| self.cycle_from((0..self.chains()).find(|c| blocked(*c)), next))
    }

    /// Edges into the next node of `chain` whose origin has not been reached.
    fn unmet<'b>(&'b self, chain: usize, next: &'b [u32]) -> impl Iterator<Item = usize> + 'b {
        let node = self.at(chain as u32, next[chain]).into_iter();
        let edges = node.flat_map(|n| self.incoming.of(self.id(n)).iter().map(|&e| e as usize));
        edges.filter(|&e| self.edges[e].before.position >= next[self.edges[e].before.chain as usize])
    }

    /// Breadth-first search for the shortest way from the chain `start` back to itself.
    fn cycle_through(&self, start: usize, next: &[u32]) -> Option<Cycle> {
        let mut arrived_by = vec![None; self.chains()];
        let mut queue = VecDeque::from([start]);
        while let Some(chain) = queue.pop_front() {
            for edge in self.unmet(chain, next) {
                let towards = self.edges[edge].before.chain as usize;
                if arrived_by[towards].is_none() {
                    arrived_by[towards] = Some(edge);
                    if towards == start {
                        return Some(self.collect(start, &arrived_by));
                    }
                    queue.push_back(towards);
                }
            }
        }
        None
    }

    /// The search went against the edges, so following `arrived_by` goes along them.
    fn collect(&self, start: usize, arrived_by: &[Option<usize>]) -> Cycle {
        let mut edges = Vec::new();
        let mut chain = start;
        while let Some(edge) = arrived_by[chain] {
            edges.push(edge);
            chain = self.edges[edge].after.chain as usize;
            if chain == start {
                break;
            }
        }
        Cycle { edges }
    }

    fn cycle_from(&self, start: Option<usize>, next: &[u32]) -> Cycle {
        let mut chain = start.expect("a chain that has not ended, because nodes are missing from the order");
        for _ in 0..self.chains() {
            let edge = self
                .unmet(chain, next)
                .next()
                .expect("a blocked chain waits for something");
            chain = self.edges[edge].before.chain as usize;
        }
        self.cycle_through(chain, next)
            .expect("a walk longer than the number of chains is on a cycle")
    }
}

/// How much an order would rather not continue with a node.
pub(crate) trait Reluctance {
    fn is_free(&self, node: Node) -> bool;
    /// The node was put into the order. True if others may have become free.
    fn passed(&mut self, node: Node) -> bool;
}

/// Any order will do.
pub(crate) struct Indifferent;

impl Reluctance for Indifferent {
    fn is_free(&self, _node: Node) -> bool {
        true
    }

    fn passed(&mut self, _node: Node) -> bool {
        false
    }
}
