//! The solver against all interleavings: it finds an order exactly when there is one, with hints and without.
use constraint_solver::Hints;
use constraint_solver::problem::Choice;
use constraint_solver::problem::Clause;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Exclusion;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;
use constraint_solver::resolve;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;

/// Tries all interleavings of `problem` with the edges in `more` added; a state is how far each chain is and which
/// edges of choices came out the wrong way round.
fn has_order(problem: &Problem, more: &[Edge]) -> bool {
    // Those of alternatives first, in their order, then those of clauses.
    let alternatives = problem.choices.iter().flat_map(|c| c.alternatives.iter().flatten());
    let clauses = problem.clauses.iter().flat_map(|clause| &clause.one_of);
    let choice_edges: Vec<Edge> = alternatives.chain(clauses).copied().collect();
    let mut known = BTreeSet::new();
    let mut open = vec![(vec![0u32; problem.chains.len()], vec![false; choice_edges.len()])];
    while let Some((done, broken)) = open.pop() {
        if done == problem.chains {
            if are_satisfied(problem, &broken) {
                return true;
            }
            continue;
        }
        for chain in 0..done.len() {
            let node = Node {
                chain: chain as u32,
                position: done[chain],
            };
            let allowed = done[chain] < problem.chains[chain]
                && problem
                    .edges
                    .iter()
                    .chain(more)
                    .all(|e| e.after != node || is_done(e.before, &done))
                && problem
                    .exclusions
                    .iter()
                    .all(|exclusion| may_begin(node, exclusion, &done));
            if allowed {
                let mut next = (done.clone(), broken.clone());
                for (index, edge) in choice_edges.iter().enumerate() {
                    next.1[index] |= edge.after == node && !is_done(edge.before, &done);
                }
                next.0[chain] += 1;
                if known.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    false
}

/// Does each choice have an alternative that holds, given which edges do not?
fn are_satisfied(problem: &Problem, broken: &[bool]) -> bool {
    let mut broken = broken.iter().copied();
    let mut next = |edges: &Vec<Edge>| -> Vec<bool> { broken.by_ref().take(edges.len()).collect() };
    let mut holding: Vec<Vec<bool>> = Vec::new();
    for choice in &problem.choices {
        holding.push(choice.alternatives.iter().map(|a| !next(a).contains(&true)).collect());
    }
    for clause in &problem.clauses {
        holding[clause.choice as usize][clause.alternative as usize] &= next(&clause.one_of).contains(&false);
    }
    holding.iter().all(|alternatives| alternatives.contains(&true))
}

fn is_done(node: Node, done: &[u32]) -> bool {
    node.position < done[node.chain as usize]
}

/// May `node` come now, or would an interval that it begins overlap one that has begun and is not over?
fn may_begin(node: Node, exclusion: &Exclusion, done: &[u32]) -> bool {
    let begun = |i: &Interval| i.start.is_none_or(|start| is_done(start, done));
    let over = |i: &Interval| i.ends.iter().all(|end| is_done(*end, done));
    let begins = exclusion.iter().filter(|i| i.start == Some(node)).count();
    begins == 0 || (begins == 1 && exclusion.iter().all(|i| !begun(i) || over(i)))
}

/// A problem, from raw numbers. Ends come after their beginning by an edge, as those of runs do.
fn problem() -> impl Strategy<Value = Problem> {
    let raw = (
        vec(1..5u32, 2..5),
        vec((any::<Index>(), any::<Index>()), 0..4),
        vec(vec((any::<Index>(), any::<Index>(), any::<Index>()), 1..4), 0..4),
        any::<[bool; 4]>(),
        vec(vec(vec((any::<Index>(), any::<Index>()), 1..3), 1..4), 0..3),
        vec(
            (
                any::<Index>(),
                any::<Index>(),
                vec((any::<Index>(), any::<Index>()), 0..3),
            ),
            0..4,
        ),
    );
    raw.prop_map(|(chains, edges, exclusions, firsts, choices, clauses)| {
        let nodes: Vec<Node> = (0..chains.len() as u32)
            .flat_map(|chain| (0..chains[chain as usize]).map(move |position| Node { chain, position }))
            .collect();
        let edge = |(before, after): &(Index, Index)| Edge {
            before: *before.get(&nodes),
            after: *after.get(&nodes),
        };
        let mut problem = Problem {
            edges: edges.iter().map(edge).collect(),
            chains,
            ..Problem::default()
        };
        problem.edges.retain(|edge| edge.before != edge.after);
        for (index, exclusion) in exclusions.iter().enumerate() {
            let mut intervals = Vec::new();
            for (place, (start, one, other)) in exclusion.iter().enumerate() {
                let start = *start.get(&nodes);
                let mut ends = vec![*one.get(&nodes), *other.get(&nodes)];
                ends.sort();
                ends.dedup_by_key(|end| end.chain);
                if firsts[index] && place == exclusion.len() / 2 {
                    intervals.push(Interval { start: None, ends });
                    continue;
                }
                let follow = ends.iter().filter(|end| **end != start).map(|end| Edge {
                    before: start,
                    after: *end,
                });
                problem.edges.extend(follow);
                intervals.push(Interval {
                    start: Some(start),
                    ends,
                });
            }
            problem.exclusions.push(intervals);
        }
        let choice = |c: &Vec<Vec<(Index, Index)>>| Choice {
            alternatives: c.iter().map(|a| a.iter().map(edge).collect()).collect(),
        };
        problem.choices = choices.iter().map(choice).collect();
        for (choice, alternative, one_of) in clauses.iter().filter(|_| !choices.is_empty()) {
            let choice = choice.index(choices.len());
            problem.clauses.push(Clause {
                choice: choice as u32,
                alternative: alternative.index(choices[choice].len()) as u32,
                one_of: one_of.iter().map(edge).collect(),
            });
        }
        problem
            .clauses
            .sort_by_key(|clause| (clause.choice, clause.alternative));
        problem
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn an_order_is_found_exactly_when_there_is_one(problem in problem()) {
        let expected = has_order(&problem, &[]);
        for hints in [Hints::Use, Hints::Ignore] {
            let resolved = resolve(&problem, hints);
            prop_assert_eq!(resolved.is_ok(), expected, "{:?}: {:?}", hints, resolved);
            if let Ok(resolved) = resolved {
                prop_assert!(has_order(&problem, &resolved.edges), "the answer contradicts the problem");
                // The answer decides everything: any order that agrees with its edges solves the problem.
                let decided = Problem { chains: problem.chains.clone(), edges: resolved.edges, ..Problem::default() };
                prop_assert!(all_orders_solve(&decided, &problem));
            }
        }
    }

    #[test]
    fn a_circle_is_one_and_no_other_is_shorter(problem in problem()) {
        let problem = Problem { chains: problem.chains, edges: problem.edges, ..Problem::default() };
        let resolved = resolve(&problem, Hints::Use);
        let shortest = shortest_circle(&problem);
        prop_assert_eq!(resolved.is_err(), shortest.is_some());
        if let Err(circle) = resolved {
            for (edge, next) in circle.edges.iter().zip(circle.edges.iter().cycle().skip(1)) {
                prop_assert!(problem.edges.contains(edge));
                prop_assert!(edge.after.chain == next.before.chain && edge.after.position <= next.before.position);
            }
            prop_assert_eq!(Some(circle.edges.len()), shortest);
        }
    }

    #[test]
    fn a_known_order_is_found_without_hints_and_with_wrong_ones(problem in planted()) {
        for hints in [Hints::Use, Hints::Ignore] {
            let resolved = resolve(&problem, hints).expect("the order from which the problem was made");
            let decided = Problem { chains: problem.chains.clone(), edges: resolved.edges, ..Problem::default() };
            prop_assert!(has_order(&decided, &[]));
            prop_assert!(all_orders_solve(&decided, &problem));
        }
    }
}

/// How many edges the shortest circle has: tries all ways from each edge, longer and longer.
fn shortest_circle(problem: &Problem) -> Option<usize> {
    let follows =
        |one: &Edge, other: &Edge| one.after.chain == other.before.chain && one.after.position <= other.before.position;
    let mut ways: Vec<(&Edge, &Edge)> = problem.edges.iter().map(|edge| (edge, edge)).collect();
    for length in 1..=problem.edges.len() {
        if ways.iter().any(|(first, last)| follows(last, first)) {
            return Some(length);
        }
        let longer = |&(first, last): &(_, &Edge)| {
            let next = problem.edges.iter().filter(move |edge| follows(last, edge));
            next.map(move |edge| (first, edge)).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(longer).collect();
        ways.sort_unstable();
        ways.dedup();
    }
    None
}

/// A problem with a known order: nodes are dealt to chains one after the other, and every constraint agrees with that.
/// The intervals stand in a wrong order, so hints mislead.
fn planted() -> impl Strategy<Value = Problem> {
    let intervals = vec(vec(any::<Index>(), 2..5), 1..4);
    (
        vec(0..4u32, 8..18),
        vec((any::<Index>(), any::<Index>()), 0..5),
        intervals,
    )
        .prop_map(|(deal, edges, exclusions)| {
            let mut problem = Problem {
                chains: vec![0; 4],
                ..Problem::default()
            };
            let mut order = Vec::new();
            for chain in deal {
                order.push(Node {
                    chain,
                    position: problem.chains[chain as usize],
                });
                problem.chains[chain as usize] += 1;
            }
            for (one, other) in edges {
                let (one, other) = (one.index(order.len()), other.index(order.len()));
                if one != other {
                    problem.edges.push(Edge {
                        before: order[one.min(other)],
                        after: order[one.max(other)],
                    });
                }
            }
            for cuts in exclusions {
                // Between two cuts lies an interval, and they do not overlap.
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(order.len())).collect();
                cuts.sort_unstable();
                cuts.dedup();
                let mut exclusion: Exclusion = Vec::new();
                for (place, start) in cuts.iter().enumerate() {
                    let end = cuts.get(place + 1).map_or(order.len(), |next| *next) - 1;
                    exclusion.push(Interval {
                        start: Some(order[*start]),
                        ends: vec![order[end]],
                    });
                    if end > *start {
                        problem.edges.push(Edge {
                            before: order[*start],
                            after: order[end],
                        });
                    }
                }
                exclusion.reverse();
                problem.exclusions.push(exclusion);
            }
            problem
        })
}

/// Does every order of `decided` satisfy `problem`? Walks all states; a state with an overlap is a counterexample.
fn all_orders_solve(decided: &Problem, problem: &Problem) -> bool {
    let mut known = BTreeSet::new();
    let mut open = vec![vec![0u32; decided.chains.len()]];
    while let Some(done) = open.pop() {
        for chain in 0..done.len() {
            let node = Node {
                chain: chain as u32,
                position: done[chain],
            };
            if done[chain] == decided.chains[chain]
                || !decided
                    .edges
                    .iter()
                    .all(|e| e.after != node || is_done(e.before, &done))
            {
                continue;
            }
            if !problem
                .exclusions
                .iter()
                .all(|exclusion| may_begin(node, exclusion, &done))
            {
                return false;
            }
            let mut next = done.clone();
            next[chain] += 1;
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    // Choices: an alternative of each is among the edges, or follows from them.
    (0..).zip(&problem.choices).all(|(number, choice): (u32, &Choice)| {
        (0..)
            .zip(&choice.alternatives)
            .any(|(index, alternative): (u32, &Vec<Edge>)| {
                let asked = |clause: &&Clause| (clause.choice, clause.alternative) == (number, index);
                let certain = |edge: &Edge| !may_break(decided, *edge);
                let mut clauses = problem.clauses.iter().filter(asked);
                alternative.iter().all(certain) && clauses.all(|clause| clause.one_of.iter().any(certain))
            })
    })
}

/// Is there an order of `decided` in which `edge` does not hold?
fn may_break(decided: &Problem, edge: Edge) -> bool {
    let reversed = Edge {
        before: edge.after,
        after: edge.before,
    };
    edge.before == edge.after || has_order(decided, &[reversed])
}
