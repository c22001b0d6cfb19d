//! A topological order that would rather not begin an interval while another of the same exclusion is open.
use crate::nodes::Lists;
use crate::search::incremental::Incremental;
use crate::search::part::Part;
use std::collections::BTreeSet;
use std::collections::VecDeque;

/// What happens at a node.
#[derive(Clone, Copy, Default)]
struct Mark {
    exclusion: u32,
    interval: u32,
    /// How many ends its interval has; 0: this mark is one of them.
    begins: u32,
}

pub(super) struct Greedy {
    /// By node.
    marks: Lists<Mark>,
    /// The first node of each chain, and for each node the number of its chain among these.
    heads: Vec<u32>,
    chains: Vec<u32>,
    hinted: bool,
}

/// How far the exclusions are.
struct State {
    /// Of each exclusion, how many ends of begun intervals are still to come.
    open: Vec<u32>,
    /// The first interval, in the recorded order, that has not begun; only if that is to be preferred.
    next: Vec<u32>,
    begun: Vec<Vec<bool>>,
}

impl Greedy {
    pub(super) fn new(part: &Part) -> Greedy {
        let nodes = part.chains.len();
        let mut marks = Vec::new();
        for (exclusion, spans) in (0..).zip(&part.exclusions) {
            for (interval, span) in (0..).zip(spans) {
                let mark = |begins| Mark {
                    exclusion,
                    interval,
                    begins,
                };
                marks.push((span.start, mark(span.ends.len() as u32)));
                marks.extend(span.ends.iter().map(|end| (*end, mark(0))));
            }
        }
        // Beginnings before ends: one node may be both.
        marks.sort_by_key(|(_, mark)| mark.begins == 0);
        let by_node = marks.iter().map(|(node, mark)| (*node as usize, *mark));
        let marks = Lists::new(nodes, by_node, Mark::default());
        let is_head = |node: &u32| *node == 0 || part.chains[*node as usize - 1] != part.chains[*node as usize];
        let heads: Vec<u32> = (0..nodes as u32).filter(is_head).collect();
        let chain = |node: u32| heads.partition_point(|head| *head <= node) as u32 - 1;
        Greedy {
            chains: (0..nodes as u32).map(chain).collect(),
            heads,
            marks,
            hinted: part.hinted,
        }
    }

    fn marks(&self, node: u32) -> &[Mark] {
        self.marks.of(node as usize)
    }

    /// All nodes, in an order that agrees with the edges; shorter if they lead in a circle.
    pub(super) fn order(&self, part: &Part, edges: &Incremental<'_>) -> Vec<u32> {
        let nodes = part.chains.len() as u32;
        let mut order = Vec::with_capacity(nodes as usize);
        let mut pending: Vec<u32> = (0..nodes).map(|node| edges.incoming_count(node)).collect();
        let mut next: Vec<Option<u32>> = self.heads.iter().map(|head| Some(*head)).collect();
        let mut state = State {
            open: vec![0; part.exclusions.len()],
            next: vec![0; part.exclusions.len()],
            begun: part
                .exclusions
                .iter()
                .map(|spans| vec![false; if self.hinted { spans.len() } else { 0 }])
                .collect(),
        };
        let mut ready: VecDeque<u32> = (0..self.heads.len() as u32).collect();
        let mut reluctant: BTreeSet<u32> = BTreeSet::new();
        loop {
            let (chain, mut forced) = match (ready.pop_front(), reluctant.first()) {
                (Some(chain), _) => (chain, false),
                (None, Some(&chain)) => (chain, true),
                (None, None) => break,
            };
            reluctant.remove(&chain);
            while let Some(node) = next[chain as usize] {
                if pending[node as usize] != 0 {
                    break;
                }
                if !forced && !self.is_free(node, &state) {
                    reluctant.insert(chain);
                    break;
                }
                forced = false;
                order.push(node);
                next[chain as usize] = edges.next_on_chain(node);
                for after in edges.outgoing(node) {
                    pending[after as usize] -= 1;
                    let its = self.chains[after as usize];
                    if its != chain && pending[after as usize] == 0 && next[its as usize] == Some(after) {
                        ready.push_back(its);
                    }
                }
                if self.pass(node, &mut state) {
                    ready.extend(std::mem::take(&mut reluctant));
                }
            }
        }
        order
    }

    fn is_free(&self, node: u32, state: &State) -> bool {
        let begins = self.marks(node).iter().filter(|mark| mark.begins > 0);
        begins.into_iter().all(|mark| {
            let exclusion = mark.exclusion as usize;
            state.open[exclusion] == 0 && (!self.hinted || state.next[exclusion] == mark.interval)
        })
    }

    /// True if others may have become free.
    fn pass(&self, node: u32, state: &mut State) -> bool {
        let mut freed = false;
        for mark in self.marks(node) {
            let exclusion = mark.exclusion as usize;
            let open = &mut state.open[exclusion];
            if mark.begins > 0 {
                *open += mark.begins;
                if self.hinted {
                    state.begun[exclusion][mark.interval as usize] = true;
                    let begun = &state.begun[exclusion];
                    let next = &mut state.next[exclusion];
                    while begun.get(*next as usize) == Some(&true) {
                        *next += 1;
                    }
                }
            } else {
                *open = open.saturating_sub(1);
                freed |= *open == 0;
            }
        }
        freed
    }
}
