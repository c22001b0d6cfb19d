//! Random 3-SAT as an ordering problem: as hard as problems get, with solutions or without.
use super::Random;
use super::edge;
use super::node;
use constraint_solver::problem::Choice;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Problem;

/// A variable is two intervals on chains of their own, true if the first comes first; a clause is a choice of three such
/// orders. `clauses` at 4.26 times `variables` is where half of the instances have a solution.
pub fn three_sat(random: &mut Random, variables: u64, clauses: u64, planted: bool) -> Problem {
    let first = |variable: u64| 2 * variable as usize;
    let holds = |variable: u64, truth: bool| -> Edge {
        let (early, late) = match truth {
            true => (first(variable), first(variable) + 1),
            false => (first(variable) + 1, first(variable)),
        };
        edge(node(early, 1), node(late, 0))
    };
    let mut problem = Problem {
        chains: vec![2; 2 * variables as usize],
        ..Problem::default()
    };
    for variable in 0..variables {
        let interval = |chain: usize| Interval {
            start: Some(node(chain, 0)),
            ends: vec![node(chain, 1)],
        };
        problem
            .exclusions
            .push(vec![interval(first(variable)), interval(first(variable) + 1)]);
    }
    let secret: Vec<bool> = (0..variables).map(|_| random.once_in(2)).collect();
    while (problem.choices.len() as u64) < clauses {
        let literals: Vec<(u64, bool)> = (0..3).map(|_| (random.below(variables), random.once_in(2))).collect();
        let fits = literals
            .iter()
            .any(|(variable, truth)| secret[*variable as usize] == *truth);
        if fits || !planted {
            let alternatives = literals.iter().map(|(v, truth)| vec![holds(*v, *truth)]).collect();
            problem.choices.push(Choice { alternatives });
        }
    }
    problem
}
