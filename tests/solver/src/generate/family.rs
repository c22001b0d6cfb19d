//! The families, each with the difficulty that it has of its own.
use super::Random;
use super::contradiction::any_node;
use super::contradiction::contradict;
use super::contradiction::shuffle;
use super::edge;
use super::execution::Execution;
use super::execution::Length;
use super::execution::Merging;
use super::execution::Mix;
use super::execution::end_with;
use super::linkage;
use super::linkage::Others;
use super::nested::nested;
use super::satisfiability::three_sat;
use constraint_solver::problem::Choice;
use constraint_solver::problem::Clause;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Problem;

/// What an instance is made of. All but `Arbitrary`, `Hopeless` and `Random3Sat` have a solution: the execution from which
/// they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// 8 threads, a location for every 40 accesses; reads, blind writes and updates.
    Mixed,
    /// So many flow dependences, as the paper gave them to Z3: nothing is merged.
    EquationOne,
    /// The same executions as our own translation has them.
    EquationOneMerged,
    /// `EquationOne` with mostly read-modify-writes, as locks are.
    EquationOneUpdates,
    /// One location takes half of the accesses.
    HotLocation,
    /// Four accesses a location.
    ManyLocations,
    Threads64,
    /// Racy read-modify-writes, with a blind write now and then.
    Updates,
    /// Blind writes, read once in a while.
    BlindWrites,
    /// Intervals inside intervals; see [`nested`].
    Nested,
    /// The same, with many ties between the threads.
    NestedTied,
    /// STRIDE's choices.
    BoundedLinkage,
    /// OREO's choices, with clauses.
    VersionConflicts,
    /// The same without clauses, and so with more alternatives.
    VersionConflictsExpanded,
    /// 3-SAT with a solution.
    Planted3Sat,
    /// 3-SAT where half of the instances have one.
    Random3Sat,
    /// Edges, exclusions and choices between any nodes.
    Arbitrary,
    /// `Mixed` with edges that contradict the execution.
    Hopeless,
}

pub const FAMILIES: [Family; 18] = [
    Family::Mixed,
    Family::EquationOne,
    Family::EquationOneMerged,
    Family::EquationOneUpdates,
    Family::HotLocation,
    Family::ManyLocations,
    Family::Threads64,
    Family::Updates,
    Family::BlindWrites,
    Family::Nested,
    Family::NestedTied,
    Family::BoundedLinkage,
    Family::VersionConflicts,
    Family::VersionConflictsExpanded,
    Family::Planted3Sat,
    Family::Random3Sat,
    Family::Arbitrary,
    Family::Hopeless,
];

const EVEN: Mix = Mix {
    reads: 5,
    blind: 3,
    updates: 2,
};

impl Family {
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn by_name(name: &str) -> Option<Family> {
        FAMILIES.into_iter().find(|family| family.name() == name)
    }

    /// Is there an order, whatever the seed?
    pub fn is_satisfiable(self) -> bool {
        !matches!(self, Family::Random3Sat | Family::Arbitrary | Family::Hopeless)
    }

    /// An instance of about `size` accesses, intervals or clauses. `misleading`: the intervals do not stand in the order of
    /// the execution, so hints are wrong.
    pub fn instance(self, size: usize, seed: u64, misleading: bool) -> Problem {
        let tag = match self {
            Family::EquationOneMerged => Family::EquationOne,
            Family::VersionConflictsExpanded => Family::VersionConflicts,
            family => family,
        };
        let random = &mut Random::new(seed ^ (tag as u64) << 56);
        let mut problem = self.raw(size, random);
        if misleading {
            shuffle(&mut problem, random);
        }
        problem
    }

    fn raw(self, size: usize, random: &mut Random) -> Problem {
        let execute = |random: &mut Random, threads, per_location: usize, mix, hot| {
            let locations = (size / per_location).max(1);
            Execution::random(random, threads, locations, Length::Accesses(size), mix, 2, hot)
        };
        let depend = |random: &mut Random, mix| {
            let locations = (size / 40).max(1);
            Execution::random(random, 8, locations, Length::Dependences(size), mix, 2, 0)
        };
        let merged = Merging::Stretches;
        match self {
            Family::Mixed => execute(random, 8, 40, EVEN, 0).problem(merged),
            Family::EquationOne => depend(random, EVEN).problem(Merging::Nothing),
            Family::EquationOneMerged => depend(random, EVEN).problem(merged),
            Family::EquationOneUpdates => depend(random, mix(2, 1, 7)).problem(Merging::Nothing),
            Family::HotLocation => execute(random, 8, 20, EVEN, 2).problem(merged),
            Family::ManyLocations => execute(random, 8, 4, EVEN, 0).problem(merged),
            Family::Threads64 => execute(random, 64, 40, EVEN, 0).problem(merged),
            Family::Updates => execute(random, 8, 60, mix(1, 1, 18), 0).problem(merged),
            Family::BlindWrites => execute(random, 8, 40, mix(1, 4, 0), 0).problem(merged),
            Family::Nested => nested(random, 4, 6, size, 4, 0),
            Family::NestedTied => nested(random, 6, 8, size, 5, 4),
            Family::BoundedLinkage => {
                let execution = execute(random, 8, 20, mix(1, 1, 0), 0);
                linkage::bounded_linkage(random, &execution, 3)
            }
            Family::VersionConflicts | Family::VersionConflictsExpanded => {
                let execution = execute(random, 8, 20, mix(1, 1, 0), 0);
                let others = match self {
                    Family::VersionConflicts => Others::Clauses,
                    _ => Others::Alternatives,
                };
                linkage::version_conflicts(random, &execution, 3, others)
            }
            Family::Planted3Sat => three_sat(random, (size as u64 / 4).max(3), size as u64, true),
            Family::Random3Sat => three_sat(random, (size as u64 * 100 / 426).max(3), size as u64, false),
            Family::Arbitrary => arbitrary(random, size),
            Family::Hopeless => {
                let mut problem = execute(random, 4, 10, EVEN, 0).problem(merged);
                let edges = 1 + random.below(4) as usize;
                contradict(&mut problem, random, edges);
                problem
            }
        }
    }
}

fn mix(reads: u64, blind: u64, updates: u64) -> Mix {
    Mix { reads, blind, updates }
}

/// Anything a problem can be, as long as intervals end after they begin.
fn arbitrary(random: &mut Random, size: usize) -> Problem {
    let chains = 2 + random.below(4);
    let mut problem = Problem {
        chains: (0..chains)
            .map(|_| 1 + random.below(1 + 2 * size as u64 / chains) as u32)
            .collect(),
        ..Problem::default()
    };
    let edges = random.below(1 + size as u64 / 4) as usize;
    contradict(&mut problem, random, edges);
    for _ in 0..random.below(1 + size as u64 / 4) {
        let mut exclusion = Vec::new();
        for place in 0..1 + random.below(5) {
            let mut interval = Interval {
                start: any_node(&problem, random),
                ends: Vec::new(),
            };
            for _ in 0..1 + random.below(2) {
                any_node(&problem, random)
                    .into_iter()
                    .for_each(|end| end_with(&mut interval.ends, end));
            }
            if place == 0 && random.once_in(4) {
                interval.start = None;
            }
            for (start, end) in interval
                .start
                .iter()
                .flat_map(|start| interval.ends.iter().map(move |end| (start, end)))
            {
                if start != end {
                    problem.edges.push(edge(*start, *end));
                }
            }
            exclusion.push(interval);
        }
        problem.exclusions.push(exclusion);
    }
    for _ in 0..random.below(1 + size as u64 / 4) {
        let mut alternatives = Vec::new();
        for _ in 0..1 + random.below(3) {
            let count = 1 + random.below(3);
            let nodes = (0..2 * count).filter_map(|_| any_node(&problem, random));
            let nodes: Vec<_> = nodes.collect();
            alternatives.push(nodes.chunks_exact(2).map(|pair| edge(pair[0], pair[1])).collect());
        }
        for alternative in 0..alternatives.len() {
            if random.once_in(3) {
                let one_of = (0..random.below(4)).filter_map(|_| {
                    let (before, after) = (any_node(&problem, random)?, any_node(&problem, random)?);
                    Some(edge(before, after))
                });
                problem.clauses.push(Clause {
                    choice: problem.choices.len() as u32,
                    alternative: alternative as u32,
                    one_of: one_of.collect(),
                });
            }
        }
        problem.choices.push(Choice { alternatives });
    }
    problem
}
