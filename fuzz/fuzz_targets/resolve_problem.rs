//! Any bytes as a small ordering problem: the solver says that it can be solved exactly when trying everything says so,
//! its edges decide the problem, and its circle is one.
#![no_main]

use constraint_solver::Hints;
use constraint_solver::problem::Choice;
use constraint_solver::problem::Clause;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;
use constraint_solver::resolve;
use libfuzzer_sys::fuzz_target;

/// Trying everything takes 2 to the power of this, at worst.
const DECISIONS_MAX: usize = 12;

fuzz_target!(|input: &[u8]| {
    let problem = Bytes(input).problem();
    let decisions = decisions(&problem);
    if decisions.len() > DECISIONS_MAX {
        return;
    }
    let mut order = Order::new(&problem);
    let is_possible = problem.edges.iter().all(|edge| order.add(edge)) && try_all(&order, &decisions);
    for hints in [Hints::Use, Hints::Ignore] {
        match resolve(&problem, hints) {
            Ok(resolved) => {
                assert!(is_possible, "{hints:?}: solved what has no solution: {problem:?}");
                let mut order = Order::new(&problem);
                assert!(resolved.edges.iter().all(|edge| order.add(edge)), "{hints:?}: circular: {resolved:?}");
                assert!(problem.edges.iter().all(|edge| order.has(edge)), "{hints:?}: {resolved:?}");
                let is_decided = |ways: &Vec<Vec<Edge>>| ways.iter().any(|way| way.iter().all(|edge| order.has(edge)));
                let open = decisions.iter().find(|ways| !is_decided(ways));
                assert_eq!(open, None, "{hints:?}: left open by {resolved:?} of {problem:?}");
            }
            Err(circle) => {
                assert!(!is_possible, "{hints:?}: has a solution: {problem:?}");
                let next = circle.edges.iter().cycle().skip(1);
                for (edge, next) in circle.edges.iter().zip(next) {
                    let leads_on = edge.after.chain == next.before.chain && edge.after.position <= next.before.position;
                    assert!(leads_on, "{hints:?}: no circle: {circle:?}");
                }
            }
        }
    }
});

/// What the solver has to decide, each with its possibilities.
fn decisions(problem: &Problem) -> Vec<Vec<Vec<Edge>>> {
    let mut decisions = Vec::new();
    for exclusion in &problem.exclusions {
        for (index, one) in exclusion.iter().enumerate() {
            for other in &exclusion[index + 1..] {
                let before = |first: &Interval, second: &Interval| -> Option<Vec<Edge>> {
                    let after = second.start?;
                    Some(first.ends.iter().map(|&before| Edge { before, after }).collect())
                };
                decisions.push([before(one, other), before(other, one)].into_iter().flatten().collect());
            }
        }
    }
    for (choice, Choice { alternatives }) in problem.choices.iter().enumerate() {
        let of = |clause: &&Clause, alternative: usize| {
            (clause.choice, clause.alternative) == (choice as u32, alternative as u32)
        };
        let expanded = alternatives.iter().enumerate().flat_map(|(alternative, edges)| {
            let clauses = problem.clauses.iter().filter(|clause| of(clause, alternative));
            clauses.fold(vec![edges.clone()], |ways, clause| with_one_of(&ways, &clause.one_of))
        });
        decisions.push(expanded.collect());
    }
    decisions
}

/// Each way with each of the edges.
fn with_one_of(ways: &[Vec<Edge>], one_of: &[Edge]) -> Vec<Vec<Edge>> {
    let longer = |way: &Vec<Edge>, edge: &Edge| way.iter().chain([edge]).copied().collect();
    ways.iter().flat_map(|way| one_of.iter().map(|edge| longer(way, edge)).collect::<Vec<_>>()).collect()
}

fn try_all(order: &Order, decisions: &[Vec<Vec<Edge>>]) -> bool {
    let Some((first, rest)) = decisions.split_first() else { return true };
    first.iter().any(|way| {
        let mut next = order.clone();
        way.iter().all(|edge| next.add(edge)) && try_all(&next, rest)
    })
}

/// For each node, a bit for each node that comes after it.
#[derive(Clone)]
struct Order {
    bases: Vec<usize>,
    after: Vec<u32>,
}

impl Order {
    fn new(problem: &Problem) -> Order {
        let mut order = Order { bases: vec![0], after: Vec::new() };
        for length in &problem.chains {
            let end = order.after.len() + *length as usize;
            for id in order.after.len()..end {
                order.after.push((id + 1..end).fold(0, |bits, later| bits | 1 << later));
            }
            order.bases.push(end);
        }
        order
    }

    fn id(&self, node: Node) -> usize {
        self.bases[node.chain as usize] + node.position as usize
    }

    fn has(&self, edge: &Edge) -> bool {
        self.after[self.id(edge.before)] >> self.id(edge.after) & 1 == 1
    }

    /// False if it would lead in a circle.
    fn add(&mut self, edge: &Edge) -> bool {
        let (before, after) = (self.id(edge.before), self.id(edge.after));
        let reached = self.after[after] | 1 << after;
        if reached >> before & 1 == 1 {
            return false;
        }
        for id in 0..self.after.len() {
            if id == before || self.after[id] >> before & 1 == 1 {
                self.after[id] |= reached;
            }
        }
        true
    }
}

/// Zeros where there are no more.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn below(&mut self, bound: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % bound
    }

    fn node(&mut self, chains: &[u32]) -> Node {
        let chain = self.below(chains.len());
        Node { chain: chain as u32, position: self.below(chains[chain] as usize) as u32 }
    }

    fn edge(&mut self, chains: &[u32]) -> Edge {
        Edge { before: self.node(chains), after: self.node(chains) }
    }

    /// Up to 5 chains of up to 6 nodes: they fit into the bits of a word. Intervals end after they begin.
    fn problem(mut self) -> Problem {
        let chains: Vec<u32> = (0..1 + self.below(5)).map(|_| 1 + self.below(6) as u32).collect();
        let mut problem = Problem::default();
        for _ in 0..self.below(6) {
            problem.edges.push(self.edge(&chains));
        }
        for _ in 0..self.below(4) {
            let mut exclusion = Vec::new();
            for place in 0..self.below(5) {
                let start = Some(self.node(&chains)).filter(|_| place > 0 || self.below(4) > 0);
                let mut ends = vec![self.node(&chains), self.node(&chains)];
                ends.truncate(1 + self.below(2));
                ends.sort();
                ends.reverse();
                ends.dedup_by_key(|end| end.chain);
                ends.reverse();
                let inside = ends.iter().flat_map(|&after| start.map(|before| Edge { before, after }));
                problem.edges.extend(inside.filter(|edge| edge.before != edge.after));
                exclusion.push(Interval { start, ends });
            }
            problem.exclusions.push(exclusion);
        }
        for _ in 0..self.below(4) {
            let mut choice = Choice::default();
            for _ in 0..self.below(4) {
                let edges = 1 + self.below(3);
                choice.alternatives.push((0..edges).map(|_| self.edge(&chains)).collect());
            }
            for alternative in 0..choice.alternatives.len() {
                for _ in 0..self.below(6).saturating_sub(3) {
                    let one_of = (0..self.below(4)).map(|_| self.edge(&chains)).collect();
                    let choice = problem.choices.len() as u32;
                    problem.clauses.push(Clause { choice, alternative: alternative as u32, one_of });
                }
            }
            problem.choices.push(choice);
        }
        Problem { chains, ..problem }
    }
}
