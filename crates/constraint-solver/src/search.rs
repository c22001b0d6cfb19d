//! Decides exclusions and choices, cheapest layer first. `docs/solving.md` tells where each technique comes from.
use crate::Hints;
use crate::order::Cycle;
use crate::order::Graph;
use crate::order::Indifferent;
use crate::order::OneAtATime;
use crate::problem::Edge;
use crate::problem::Interval;
use crate::problem::Problem;
use crate::saturate;
use std::collections::BTreeSet;

/// Which layer of the solver gave the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Nothing was left to decide once runs were merged.
    #[default]
    Collapsed,
    /// The order in which things were recorded.
    Hinted,
    /// Every choice had only one possibility left.
    Saturated,
    /// The first order that was tried.
    Greedy,
    /// Backtracking.
    Searched,
}

/// Edges that, with the chains, imply all that the problem asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Sorted, each once.
    pub edges: Vec<Edge>,
    pub layer: Layer,
    pub forced: u64,
    pub decisions: u64,
    pub conflicts: u64,
}

/// No order exists: these edges lead in a circle. If `recorded` they are all constraints, or the order in which things
/// were recorded; otherwise some are choices of which each other possibility fails, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    pub edges: Vec<Edge>,
    pub recorded: bool,
}

/// Finds edges that decide everything, or a circle.
pub fn resolve(problem: &Problem, hints: Hints) -> Result<Resolved, Circle> {
    for exclusion in &problem.exclusions {
        let firsts = exclusion.iter().filter(|interval| interval.start.is_none()).count();
        assert!(
            firsts <= 1,
            "{firsts} intervals of one exclusion would each come before all others"
        );
    }
    if problem.choices.iter().any(|choice| choice.alternatives.is_empty()) {
        return Err(Circle {
            edges: Vec::new(),
            recorded: false,
        });
    }
    let mut hinted_circle = None;
    if hints == Hints::Use && problem.choices.is_empty() || problem.is_decided() {
        let mut edges = problem.edges.clone();
        edges.extend(problem.hinted_edges());
        match Graph::new(&problem.chains, &edges).linear_order(&mut Indifferent) {
            Ok(_) => {
                let layer = if problem.is_decided() {
                    Layer::Collapsed
                } else {
                    Layer::Hinted
                };
                return Ok(Resolved {
                    edges: unique(edges),
                    layer,
                    ..Resolved::default()
                });
            }
            Err(cycle) => hinted_circle = Some(circle(&cycle, &edges, true)),
        }
        if problem.is_decided() {
            return Err(hinted_circle.expect("set just above"));
        }
    }
    // Nothing was found to contradict the recorded order more clearly than itself.
    search(problem).map_err(|circle| hinted_circle.unwrap_or(circle))
}

fn search(problem: &Problem) -> Result<Resolved, Circle> {
    let saturated = saturate::saturate(problem)?;
    let layer = if saturated.complete {
        Layer::Saturated
    } else {
        Layer::Greedy
    };
    let mut resolved = Resolved {
        layer,
        forced: saturated.forced,
        ..Resolved::default()
    };
    let mut decisions: Vec<Decision> = Vec::new();
    loop {
        let mut edges = saturated.edges.clone();
        let mut levels = vec![0; edges.len()];
        for (level, decision) in decisions.iter().enumerate() {
            edges.extend(&decision.alternatives[decision.current]);
            levels.resize(edges.len(), level + 1);
        }
        match Graph::new(&problem.chains, &edges).linear_order(&mut OneAtATime::new(problem)) {
            Ok(order) => {
                let places = Places::new(problem, &order);
                let Some(alternatives) = places.violation(problem) else {
                    edges.extend(places.decided_edges(problem));
                    resolved.edges = unique(edges);
                    return Ok(resolved);
                };
                resolved.layer = Layer::Searched;
                resolved.decisions += 1;
                decisions.push(Decision {
                    alternatives,
                    current: 0,
                    because: BTreeSet::new(),
                });
            }
            Err(cycle) => {
                resolved.conflicts += 1;
                let because = cycle
                    .edges
                    .iter()
                    .map(|&e| levels[e])
                    .filter(|level| *level > 0)
                    .collect();
                if !back_jump(&mut decisions, because) {
                    return Err(circle(&cycle, &edges, false));
                }
            }
        }
    }
}

struct Decision {
    alternatives: Vec<Vec<Edge>>,
    current: usize,
    /// Levels (from 1) of the earlier decisions that made the tried alternatives fail.
    because: BTreeSet<usize>,
}

/// Conflict-directed backjumping (Prosser 1993): goes back to the newest decision that had a part in the conflict, and
/// tries its next alternative. What made all alternatives of one decision fail is a conflict of the earlier ones; false
/// if none are left.
fn back_jump(decisions: &mut Vec<Decision>, mut because: BTreeSet<usize>) -> bool {
    while let Some(level) = because.pop_last() {
        decisions.truncate(level);
        let decision = &mut decisions[level - 1];
        decision.because.append(&mut because);
        decision.current += 1;
        if decision.current < decision.alternatives.len() {
            return true;
        }
        because = std::mem::take(&mut decision.because);
    }
    false
}

/// Where each node stands in a linear order.
struct Places {
    bases: Vec<usize>,
    places: Vec<usize>,
}

impl Places {
    fn new(problem: &Problem, order: &[crate::problem::Node]) -> Places {
        let mut bases = vec![0];
        for length in &problem.chains {
            bases.push(bases[bases.len() - 1] + *length as usize);
        }
        let mut places = vec![0; order.len()];
        for (place, node) in order.iter().enumerate() {
            places[bases[node.chain as usize] + node.position as usize] = place + 1;
        }
        Places { bases, places }
    }

    fn of(&self, node: crate::problem::Node) -> usize {
        self.places[self.bases[node.chain as usize] + node.position as usize]
    }

    fn start(&self, interval: &Interval) -> usize {
        interval.start.map_or(0, |node| self.of(node))
    }

    fn end(&self, interval: &Interval) -> usize {
        interval.ends.iter().map(|node| self.of(*node)).max().unwrap_or(0)
    }

    fn holds(&self, edge: &Edge) -> bool {
        self.of(edge.before) < self.of(edge.after)
    }

    /// Something the order violates, as the alternatives that would mend it, the likelier one first.
    fn violation(&self, problem: &Problem) -> Option<Vec<Vec<Edge>>> {
        let overlap = problem.exclusions.iter().find_map(|exclusion| self.overlap(exclusion));
        overlap.or_else(|| {
            let violated = |a: &Vec<Edge>| !a.iter().all(|edge| self.holds(edge));
            let choice = problem
                .choices
                .iter()
                .find(|choice| choice.alternatives.iter().all(violated))?;
            Some(choice.alternatives.clone())
        })
    }

    fn overlap(&self, exclusion: &[Interval]) -> Option<Vec<Vec<Edge>>> {
        let sorted = self.sorted(exclusion);
        let mut longest = *sorted.first()?;
        for interval in &sorted[1..] {
            // One node may begin one interval and end another, so equal places overlap, too.
            if self.end(longest) >= self.start(interval) {
                let ways = [
                    longest.before(interval).map(Iterator::collect),
                    interval.before(longest).map(Iterator::collect),
                ];
                return Some(ways.into_iter().flatten().collect());
            }
            if self.end(interval) > self.end(longest) {
                longest = interval;
            }
        }
        None
    }

    fn sorted<'a>(&self, exclusion: &'a [Interval]) -> Vec<&'a Interval> {
        let mut sorted: Vec<&Interval> = exclusion.iter().collect();
        sorted.sort_by_key(|interval| (self.start(interval), self.end(interval)));
        sorted
    }

    /// The order's own decisions as edges: they agree with it, so they cannot contradict each other.
    fn decided_edges(&self, problem: &Problem) -> Vec<Edge> {
        let mut edges = Vec::new();
        for exclusion in &problem.exclusions {
            for pair in self.sorted(exclusion).windows(2) {
                edges.extend(pair[0].before(pair[1]).into_iter().flatten());
            }
        }
        for choice in &problem.choices {
            let taken = choice
                .alternatives
                .iter()
                .find(|a| a.iter().all(|edge| self.holds(edge)));
            edges.extend(taken.into_iter().flatten());
        }
        edges
    }
}

pub(crate) fn circle(cycle: &Cycle, edges: &[Edge], recorded: bool) -> Circle {
    Circle {
        edges: cycle.edges.iter().map(|&e| edges[e]).collect(),
        recorded,
    }
}

fn unique(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable();
    edges.dedup();
    edges
}
