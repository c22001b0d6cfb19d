//! Topological order of chains with edges between them, or a short cycle.
use crate::nodes::Lists;
use crate::nodes::Numbering;
use crate::problem::Edge;
use crate::problem::Node;
use std::collections::VecDeque;

/// Follow about so many edges in search of a short cycle: it is for a person to read, and need not be the shortest.
const CYCLE_STEPS: usize = 1 << 24;

/// Edges by the node they lead to and by the node they come from.
pub(crate) struct Graph<'a> {
    edges: &'a [Edge],
    numbering: Numbering,
    /// Indices of edges.
    incoming: Lists<u32>,
    outgoing: Lists<u32>,
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
        let numbering = Numbering::new(chains.iter().copied());
        let incoming = (0..).zip(edges).map(|(index, edge)| (numbering.id(edge.after), index));
        let outgoing = (0..).zip(edges).map(|(index, edge)| (numbering.id(edge.before), index));
        Graph {
            edges,
            incoming: Lists::new(numbering.nodes(), incoming, 0),
            outgoing: Lists::new(numbering.nodes(), outgoing, 0),
            numbering,
        }
    }

    /// A number below `nodes()`.
    pub(crate) fn id(&self, node: Node) -> usize {
        self.numbering.id(node)
    }

    pub(crate) fn nodes(&self) -> usize {
        self.numbering.nodes()
    }

    pub(crate) fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    fn chains(&self) -> usize {
        self.numbering.chains()
    }

    pub(crate) fn incoming(&self, node: Node) -> impl Iterator<Item = Edge> {
        self.incoming.of(self.id(node)).iter().map(|&e| self.edges[e as usize])
    }

    pub(crate) fn outgoing(&self, node: Node) -> impl Iterator<Item = Edge> {
        self.outgoing.of(self.id(node)).iter().map(|&e| self.edges[e as usize])
    }

    /// All nodes in an order that agrees with chains and edges.
    pub(crate) fn linear_order(&self) -> Result<Vec<Node>, Cycle> {
        let mut order = Vec::with_capacity(self.nodes());
        let mut pending: Vec<u32> = (0..self.nodes()).map(|n| self.incoming.of(n).len() as u32).collect();
        let mut next = vec![0u32; self.chains()];
        let mut ready: VecDeque<u32> = (0..self.chains() as u32).collect();
        while let Some(chain) = ready.pop_front() {
            while let Some(node) = self.at(chain, next[chain as usize]) {
                if pending[self.id(node)] != 0 {
                    break;
                }
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
            }
        }
        if order.len() == self.nodes() {
            Ok(order)
        } else {
            Err(self.cycle(&next))
        }
    }

    fn at(&self, chain: u32, position: u32) -> Option<Node> {
        (position < self.numbering.length(chain)).then_some(Node { chain, position })
    }

    /// A short cycle, where no chain can go on from `next`: each waits for a node that another has not reached.
    fn cycle(&self, next: &[u32]) -> Cycle {
        let is_left = |node: Node| node.position >= next[node.chain as usize];
        let left: Vec<usize> = (0..self.edges.len())
            .filter(|&e| is_left(self.edges[e].before) && is_left(self.edges[e].after))
            .collect();
        if let Some(&edge) = left.iter().find(|&&e| {
            self.edges[e].before.chain == self.edges[e].after.chain
                && self.edges[e].before.position >= self.edges[e].after.position
        }) {
            return Cycle { edges: vec![edge] };
        }
        // Some of these are on a cycle; of the others as many are tried as there is time for.
        let certain = self.walk_back(next);
        let searches = (CYCLE_STEPS / left.len().max(1)).max(1);
        let others = left.iter().copied().step_by(left.len().div_ceil(searches).max(1));
        let mut shortest: Option<Cycle> = None;
        for edge in certain.into_iter().chain(others) {
            let bound = shortest.as_ref().map_or(usize::MAX, |cycle| cycle.edges.len());
            if bound <= 2 {
                break;
            }
            shortest = self.cycle_through(edge, bound).or(shortest);
        }
        shortest.expect("where no chain can go on, edges lead in a circle")
    }

    /// Edges against which one comes from a chain that cannot go on, to the one it waits for, and so on: more than there are
    /// chains, so that the last ones go round in a circle.
    fn walk_back(&self, next: &[u32]) -> Vec<usize> {
        let is_blocked = |chain: &u32| self.at(*chain, next[*chain as usize]).is_some();
        let blocked = (0..self.chains() as u32).find(is_blocked);
        let mut chain = blocked.expect("a chain that has not ended, because nodes are missing from the order");
        let mut steps = Vec::new();
        for _ in 0..2 * self.chains() {
            let node = Node {
                chain,
                position: next[chain as usize],
            };
            let waits = |&&e: &&u32| {
                let before = self.edges[e as usize].before;
                before.position >= next[before.chain as usize]
            };
            let edge = self.incoming.of(self.id(node)).iter().find(waits);
            let edge = *edge.expect("a blocked chain waits for something") as usize;
            chain = self.edges[edge].before.chain;
            steps.push(edge);
        }
        steps.split_off(self.chains())
    }

    /// The shortest cycle with `first` in it, if it has fewer than `bound` edges: breadth first, where steps along a chain
    /// are free, so that only the first node to be reached of each chain counts.
    fn cycle_through(&self, first: usize, bound: usize) -> Option<Cycle> {
        /// Nodes of one chain that were reached by the same edge.
        struct Stretch {
            chain: u32,
            from: u32,
            to: u32,
            /// The edge, and the stretch it comes from.
            by: usize,
            parent: usize,
            edges: usize,
        }
        let goal = self.edges[first].before;
        let start = self.edges[first].after;
        let chains = 0..self.chains() as u32;
        let mut reached: Vec<u32> = chains.map(|chain| self.numbering.length(chain)).collect();
        let mut stretches = vec![Stretch {
            chain: start.chain,
            from: start.position,
            to: reached[start.chain as usize],
            by: first,
            parent: usize::MAX,
            edges: 1,
        }];
        reached[start.chain as usize] = start.position;
        let mut at = 0;
        while let Some(&Stretch {
            chain, from, to, edges, ..
        }) = stretches.get(at)
        {
            if edges >= bound {
                return None;
            }
            if chain == goal.chain && from <= goal.position {
                let mut cycle = Vec::new();
                let mut stretch = stretches.get(at);
                while let Some(Stretch { by, parent, .. }) = stretch {
                    cycle.push(*by);
                    stretch = stretches.get(*parent);
                }
                cycle.reverse();
                return Some(Cycle { edges: cycle });
            }
            for position in from..to {
                for &edge in self.outgoing.of(self.id(Node { chain, position })) {
                    let after = self.edges[edge as usize].after;
                    let reached = &mut reached[after.chain as usize];
                    if after.position < *reached {
                        stretches.push(Stretch {
                            chain: after.chain,
                            from: after.position,
                            to: std::mem::replace(reached, after.position),
                            by: edge as usize,
                            parent: at,
                            edges: edges + 1,
                        });
                    }
                }
            }
            at += 1;
        }
        None
    }
}
