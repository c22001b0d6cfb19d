//! What can be wrong with an instance: hints that mislead, and orders that nobody could have had.
use super::Random;
use super::edge;
use super::node;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;

/// Puts the intervals of every exclusion, and the alternatives of every choice, into a random order. An interval without
/// a beginning stays first, where every translation of logs has it.
pub fn shuffle(problem: &mut Problem, random: &mut Random) {
    for exclusion in &mut problem.exclusions {
        permute(exclusion, random);
    }
    for (index, choice) in problem.choices.iter_mut().enumerate() {
        let mut alternatives: Vec<_> = std::mem::take(&mut choice.alternatives)
            .into_iter()
            .enumerate()
            .collect();
        permute(&mut alternatives, random);
        let mut places = vec![0; alternatives.len()];
        for (place, (was, alternative)) in alternatives.into_iter().enumerate() {
            places[was] = place as u32;
            choice.alternatives.push(alternative);
        }
        for clause in problem
            .clauses
            .iter_mut()
            .filter(|clause| clause.choice == index as u32)
        {
            clause.alternative = places[clause.alternative as usize];
            permute(&mut clause.one_of, random);
        }
    }
    sort_clauses(problem);
}

/// By choice and alternative, as the solver asks for.
pub(super) fn sort_clauses(problem: &mut Problem) {
    problem
        .clauses
        .sort_by_key(|clause| (clause.choice, clause.alternative));
}

/// Fisher and Yates.
fn permute<T>(list: &mut [T], random: &mut Random) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Adds edges between random nodes of different chains: with enough of them, there is no order.
pub fn contradict(problem: &mut Problem, random: &mut Random, edges: usize) {
    for _ in 0..edges {
        let (before, after) = (any_node(problem, random), any_node(problem, random));
        if let (Some(before), Some(after)) = (before, after)
            && before.chain != after.chain
        {
            problem.edges.push(edge(before, after));
        }
    }
}

pub(super) fn any_node(problem: &Problem, random: &mut Random) -> Option<Node> {
    let chain = random.below(problem.chains.len() as u64) as usize;
    let length = *problem.chains.get(chain)?;
    (length > 0).then(|| node(chain, random.below(u64::from(length)) as u32))
}
