//! Decides exclusions and choices, cheapest layer first. `docs/solving.md` tells where each technique comes from.
mod components;
mod decide;
mod engine;
mod greedy;
mod incremental;
mod links;
mod part;
mod registers;

use crate::Hints;
use crate::Step;
use crate::Unwatched;
use crate::Watch;
use crate::order::Cycle;
use crate::order::Graph;
use crate::problem::Edge;
use crate::problem::Problem;
use crate::problem::Register;
use crate::saturate;
use components::Component;
use decide::Decided;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

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
    /// The first order that was tried keeps everything apart.
    Greedy,
    /// Some pairs or choices had to be decided.
    Searched,
}

/// Edges that, with the chains, imply all that the problem asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Sorted, each once.
    pub edges: Vec<Edge>,
    pub layer: Layer,
    pub forced: u64,
    /// Parts that could be decided one by one.
    pub components: u64,
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
    resolve_watched(problem, hints, &Unwatched)
}

/// The same, for somebody who wants to know how far it is.
pub fn resolve_watched(problem: &Problem, hints: Hints, watch: &dyn Watch) -> Result<Resolved, Circle> {
    for exclusion in &problem.exclusions {
        let firsts = exclusion.iter().filter(|interval| interval.start.is_none()).count();
        assert!(
            firsts <= 1,
            "{firsts} intervals of one exclusion would each come before all others"
        );
    }
    assert!(
        problem
            .clauses
            .is_sorted_by_key(|clause| (clause.choice, clause.alternative)),
        "clauses stand by choice and alternative"
    );
    if !(0..problem.choices.len() as u32).all(|choice| problem.first_alternative(choice).is_some()) {
        return Err(Circle {
            edges: Vec::new(),
            recorded: false,
        });
    }
    assert!(
        problem.registers.is_empty() || problem.choices.is_empty() && problem.exclusions.is_empty(),
        "registers stand alone"
    );
    watch.at(Step::Order, 0, 1);
    let is_decided = problem.is_decided();
    let may_hint = |choice: u32| problem.first_alternative(choice) == Some(0);
    let suffices = |register: &Register| register.hints_suffice;
    let may_hint = (0..problem.choices.len() as u32).all(may_hint) && problem.registers.iter().all(suffices);
    if !is_decided && (hints == Hints::Ignore || !may_hint) {
        return search(problem, hints, watch);
    }
    let mut edges = problem.edges.clone();
    edges.extend(problem.hinted_edges());
    match Graph::new(&problem.chains, &edges).linear_order() {
        Ok(_) => Ok(Resolved {
            edges: unique(edges),
            layer: if is_decided { Layer::Collapsed } else { Layer::Hinted },
            ..Resolved::default()
        }),
        Err(cycle) if is_decided => Err(circle(&cycle, &edges, true)),
        // If there is none at all, nothing contradicts the recorded order more clearly than itself.
        Err(cycle) if problem.registers.is_empty() => {
            search(problem, hints, watch).map_err(|_| circle(&cycle, &edges, true))
        }
        Err(_) => search(problem, hints, watch),
    }
}

/// Without the recorded order, or where it leads in a circle.
fn search(problem: &Problem, hints: Hints, watch: &dyn Watch) -> Result<Resolved, Circle> {
    if !problem.registers.is_empty() {
        watch.at(Step::Search, 0, 1);
        return registers::search(problem, hints);
    }
    watch.at(Step::Saturate, 0, 1);
    let saturated = saturate::saturate(problem, watch)?;
    let components = components::components(problem, &saturated, hints == Hints::Use);
    let mut resolved = Resolved {
        layer: match components.is_empty() {
            true => Layer::Saturated,
            false => Layer::Greedy,
        },
        forced: saturated.forced,
        components: components.len() as u64,
        edges: saturated.edges,
        ..Resolved::default()
    };
    // Every component is decided, so that it is the same circle every time.
    for (component, decided) in components.iter().zip(decide_all(&components, watch)) {
        let edge = |&(before, after): &(u32, u32)| Edge {
            before: component.nodes[before as usize],
            after: component.nodes[after as usize],
        };
        let decided = decided.map_err(|edges| Circle {
            edges: edges.iter().map(edge).collect(),
            recorded: false,
        })?;
        resolved.edges.extend(decided.edges.iter().map(edge));
        resolved.decisions += decided.decisions;
        resolved.conflicts += decided.conflicts;
    }
    if resolved.decisions > 0 {
        resolved.layer = Layer::Searched;
    }
    resolved.edges = unique(resolved.edges);
    Ok(resolved)
}

type Outcome = Result<Decided, Vec<(u32, u32)>>;

/// Decides the components, side by side; the largest first, because one of them may take longest.
fn decide_all(components: &[Component], watch: &dyn Watch) -> Vec<Outcome> {
    let mut queue: Vec<usize> = (0..components.len()).collect();
    queue.sort_by_key(|&index| std::cmp::Reverse(components[index].weight));
    let total = components.iter().map(|component| component.weight).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let work = || {
        let mut decided: Vec<(usize, Outcome)> = Vec::new();
        // Relaxed: only who takes which component depends on it.
        while let Some(&index) = queue.get(next.fetch_add(1, Relaxed)) {
            decided.push((index, decide::decide(&components[index].part)));
            let weight = components[index].weight;
            watch.at(Step::Search, done.fetch_add(weight, Relaxed) + weight, total);
        }
        decided
    };
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(components.len());
    let mut decided = match total {
        0..SMALL => work(),
        _ => std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let results = workers.into_iter().map(|worker| worker.join());
            results
                .flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        }),
    };
    decided.sort_unstable_by_key(|(index, _)| *index);
    decided.into_iter().map(|(_, outcome)| outcome).collect()
}

/// So few intervals are decided sooner than a thread is started.
const SMALL: u64 = 1000;

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
