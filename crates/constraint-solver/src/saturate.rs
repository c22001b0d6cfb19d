//! Orders that are forced: if one of two intervals' beginnings already comes before an end of the other, it must be over
//! before the other begins. Repeated until nothing new follows.
//!
//! Reachability is kept as one vector clock per node (k-chain decomposition, memory nodes × chains, never nodes²).
use crate::order::Graph;
use crate::order::Indifferent;
use crate::problem::Edge;
use crate::problem::Interval;
use crate::problem::Node;
use crate::problem::Problem;
use crate::search::Circle;
use crate::search::circle;

/// Above this many entries of vector clocks (1 GiB), saturation is left out: it only saves search.
const ENTRIES_MAX: usize = 1 << 28;

pub(crate) struct Saturated {
    /// The problem's edges and those that follow.
    pub(crate) edges: Vec<Edge>,
    /// Pairs that were decided.
    pub(crate) forced: u64,
    /// Nothing is left to decide.
    pub(crate) complete: bool,
}

pub(crate) fn saturate(problem: &Problem) -> Result<Saturated, Circle> {
    let mut saturated = Saturated {
        edges: problem.edges.clone(),
        forced: 0,
        complete: false,
    };
    for exclusion in &problem.exclusions {
        let Some(first) = exclusion.iter().find(|interval| interval.start.is_none()) else {
            continue;
        };
        for other in exclusion.iter().filter(|other| !std::ptr::eq(*other, first)) {
            saturated.edges.extend(first.before(other).into_iter().flatten());
        }
    }
    let nodes: usize = problem.chains.iter().map(|length| *length as usize).sum();
    if nodes.saturating_mul(problem.chains.len()) > ENTRIES_MAX {
        return Ok(saturated);
    }
    loop {
        let clocks = Clocks::new(&problem.chains, &saturated.edges)?;
        let known = saturated.edges.len();
        saturated.complete = problem.choices.is_empty();
        for exclusion in &problem.exclusions {
            clocks.force(exclusion, &mut saturated);
        }
        if saturated.edges.len() == known {
            return Ok(saturated);
        }
    }
}

/// For each node, how many nodes of each chain come before it or are it.
struct Clocks {
    bases: Vec<usize>,
    chains: usize,
    entries: Vec<u32>,
}

impl Clocks {
    fn new(chains: &[u32], edges: &[Edge]) -> Result<Clocks, Circle> {
        let graph = Graph::new(chains, edges);
        let order = graph
            .linear_order(&mut Indifferent)
            .map_err(|cycle| circle(&cycle, edges, false))?;
        let width = chains.len();
        let mut entries = vec![0; graph.nodes() * width];
        let mut clock = vec![0; width];
        for node in order {
            let id = graph.id(node);
            clock.fill(0);
            if node.position > 0 {
                clock.copy_from_slice(&entries[(id - 1) * width..id * width]);
            }
            for edge in graph.incoming(node) {
                let other = graph.id(edge.before);
                let theirs = &entries[other * width..(other + 1) * width];
                clock
                    .iter_mut()
                    .zip(theirs)
                    .for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            }
            clock[node.chain as usize] = node.position + 1;
            entries[id * width..(id + 1) * width].copy_from_slice(&clock);
        }
        let bases = (0..width)
            .map(|c| {
                graph.id(Node {
                    chain: c as u32,
                    position: 0,
                })
            })
            .collect();
        Ok(Clocks {
            bases,
            chains: width,
            entries,
        })
    }

    /// Does `first` come before `second`, or are they the same?
    fn reaches(&self, first: Node, second: Node) -> bool {
        let id = self.bases[second.chain as usize] + second.position as usize;
        self.entries[id * self.chains + first.chain as usize] > first.position
    }

    fn is_before(&self, one: &Interval, other: &Interval) -> bool {
        other
            .start
            .is_some_and(|start| one.ends.iter().all(|&end| end != start && self.reaches(end, start)))
    }

    /// Has `one` begun before `other` is over, whatever is decided?
    fn begins_before_end(&self, one: &Interval, other: &Interval) -> bool {
        one.start
            .is_none_or(|start| other.ends.iter().any(|&end| self.reaches(start, end)))
    }

    fn force(&self, exclusion: &[Interval], saturated: &mut Saturated) {
        for (index, one) in exclusion.iter().enumerate() {
            for other in &exclusion[index + 1..] {
                if self.is_before(one, other) || self.is_before(other, one) {
                    continue;
                }
                let ways = [(one, other), (other, one)];
                let Some((first, second)) = ways.into_iter().find(|(a, b)| self.begins_before_end(a, b)) else {
                    saturated.complete = false;
                    continue;
                };
                saturated.forced += 1;
                saturated.edges.extend(first.before(second).into_iter().flatten());
            }
        }
    }
}
