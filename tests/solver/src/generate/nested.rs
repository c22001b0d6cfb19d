//! Intervals inside intervals, as of locks held while others are taken: a wrong decision shows only deep inside.
use super::Random;
use super::edge;
use super::node;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;

/// Threads open and close intervals at random, the last opened first; none opens one of a location where another is open.
/// So the order in which they did is a solution, and there are many that get stuck. One step in `tie` (0: none) is also
/// ordered after a step of another thread that came before it.
pub fn nested(
    random: &mut Random,
    threads: usize,
    locations: usize,
    intervals: usize,
    depth: usize,
    tie: u64,
) -> Problem {
    let mut problem = Problem {
        chains: vec![0; threads],
        exclusions: vec![Vec::new(); locations],
        ..Problem::default()
    };
    let mut open: Vec<Vec<(usize, Node)>> = vec![Vec::new(); threads];
    let mut held = vec![false; locations];
    let mut left = intervals;
    let mut last: Option<Node> = None;
    while left > 0 || open.iter().any(|stack| !stack.is_empty()) {
        let thread = random.below(threads as u64) as usize;
        let location = random.below(locations as u64) as usize;
        let may_open = left > 0 && open[thread].len() < depth && !held[location];
        let here = node(thread, problem.chains[thread]);
        if may_open && (open[thread].is_empty() || random.below(5) < 3) {
            open[thread].push((location, here));
            held[location] = true;
            left -= 1;
        } else if let Some((location, start)) = open[thread].pop() {
            problem.exclusions[location].push(Interval {
                start: Some(start),
                ends: vec![here],
            });
            held[location] = false;
        } else {
            continue;
        }
        problem.chains[thread] += 1;
        let other = last.replace(here).filter(|other| other.chain != here.chain);
        if let Some(other) = other.filter(|_| tie > 0 && random.once_in(tie)) {
            problem.edges.push(edge(other, here));
        }
    }
    problem
}
