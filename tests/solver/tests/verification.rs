//! A verifier that accepts everything proves nothing: wrong answers are refused.
use constraint_solver::Circle;
use constraint_solver::Hints;
use constraint_solver::problem::Edge;
use constraint_solver::resolve;
use refrain_solver_lab::generate::FAMILIES;
use refrain_solver_lab::generate::Family;
use refrain_solver_lab::verify::verify;
use refrain_solver_lab::verify::verify_circle;
use std::collections::BTreeSet;

/// Without an edge that is no constraint of the problem, something is open, unless the others imply it.
#[test]
fn answers_with_a_missing_edge_are_refused() {
    let (mut refused, mut tried) = (0, 0);
    for family in FAMILIES.into_iter().filter(|family| family.is_satisfiable()) {
        for seed in 0..5 {
            let problem = family.instance(30, seed, true);
            let resolved = resolve(&problem, Hints::Ignore).expect("made from an execution");
            assert_eq!(verify(&problem, &resolved), Ok(()));
            let given: BTreeSet<Edge> = problem.edges.iter().copied().collect();
            for index in (0..resolved.edges.len()).filter(|index| !given.contains(&resolved.edges[*index])) {
                let mut less = resolved.clone();
                less.edges.remove(index);
                tried += 1;
                refused += usize::from(verify(&problem, &less).is_err());
            }
        }
    }
    assert!(tried > 500 && refused * 8 > tried, "{refused} of {tried} were refused");
}

#[test]
fn answers_with_an_edge_turned_round_are_refused() {
    for seed in 0..20 {
        let problem = Family::Mixed.instance(60, seed, false);
        let resolved = resolve(&problem, Hints::Use).expect("made from an execution");
        for edge in problem
            .edges
            .iter()
            .filter(|edge| edge.before.chain != edge.after.chain)
        {
            let mut wrong = resolved.clone();
            let place = wrong
                .edges
                .iter()
                .position(|known| known == edge)
                .expect("all are kept");
            wrong.edges[place] = Edge {
                before: edge.after,
                after: edge.before,
            };
            assert!(verify(&problem, &wrong).is_err(), "seed {seed}: {edge:?} turned round");
        }
    }
}

#[test]
fn what_is_no_circle_is_refused() {
    let mut circles = 0;
    for seed in 0..200 {
        let problem = Family::Hopeless.instance(40, seed, false);
        let Err(circle) = resolve(&problem, Hints::Ignore) else {
            continue;
        };
        assert_eq!(verify_circle(&problem, &circle), Ok(()), "seed {seed}");
        // Between two threads; within one, an edge that leads back is a circle by itself.
        if let Some(place) = circle.edges.iter().position(|e| e.before.chain != e.after.chain) {
            let mut turned = circle.clone();
            let edge = &mut turned.edges[place];
            (edge.before, edge.after) = (edge.after, edge.before);
            assert!(verify_circle(&problem, &turned).is_err(), "seed {seed}");
        }
        let nothing = Circle {
            edges: Vec::new(),
            ..circle
        };
        assert!(verify_circle(&problem, &nothing).is_err());
        circles += 1;
    }
    assert!(circles > 20, "only {circles} instances had no solution");
}
