//! Recordings that know less than which write a read saw, so that choices remain.
//!
//! STRIDE (Zhou, Xiao, Zhang: ICSE 2012) numbers the writes of a location and gives each read a *bounded linkage*: it saw one
//! of several versions. OREO does without the lock around the number, so that several writes may have one version, and
//! matches a read with those of its version and value (its equation 3).
use super::Random;
use super::edge;
use super::execution::Execution;
use super::execution::Reach;
use super::node;
use constraint_solver::problem::Choice;
use constraint_solver::problem::Clause;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;

/// The writes of each location, and each read with the number of writes before it.
struct Accesses {
    writes: Vec<Node>,
    reads: Vec<(Node, usize)>,
}

fn accesses(execution: &Execution) -> (Vec<u32>, Vec<Accesses>) {
    let mut chains = vec![0; execution.threads];
    let mut locations: Vec<Accesses> = Vec::new();
    locations.resize_with(execution.locations, || Accesses {
        writes: Vec::new(),
        reads: Vec::new(),
    });
    for access in &execution.accesses {
        let here = node(access.thread, chains[access.thread]);
        chains[access.thread] += 1;
        let location = &mut locations[access.location];
        match access.reach {
            Reach::Reads => location.reads.push((here, location.writes.len())),
            _ => location.writes.push(here),
        }
    }
    (chains, locations)
}

/// STRIDE: writes are ordered by their versions; a read saw version i or one of up to `reach` around it.
pub fn bounded_linkage(random: &mut Random, execution: &Execution, reach: u64) -> Problem {
    let (chains, locations) = accesses(execution);
    let mut problem = Problem {
        chains,
        ..Problem::default()
    };
    for location in locations {
        let Accesses { writes, reads } = location;
        problem
            .edges
            .extend(writes.windows(2).map(|pair| edge(pair[0], pair[1])));
        for (read, before) in reads {
            let lowest = (before as u64).saturating_sub(random.below(reach)) as usize;
            let highest = (before + random.below(reach) as usize).min(writes.len());
            let saw = |version: usize| {
                let after = version.checked_sub(1).map(|write| edge(writes[write], read));
                let until = writes.get(version).map(|write| edge(read, *write));
                after.into_iter().chain(until).collect()
            };
            let alternatives = (lowest..=highest).map(saw).collect();
            problem.choices.push(Choice { alternatives });
        }
    }
    problem
}

/// How "the other write came before the one that was seen, or after the read" is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// As clauses.
    Clauses,
    /// As an alternative for each combination.
    Alternatives,
}

/// OREO: up to `equals` writes have one version and value; a read saw the last of those before it.
pub fn version_conflicts(random: &mut Random, execution: &Execution, equals: u64, others: Others) -> Problem {
    let (chains, locations) = accesses(execution);
    let mut problem = Problem {
        chains,
        ..Problem::default()
    };
    for Accesses { writes, reads } in locations {
        let mut versions: Vec<&[Node]> = Vec::new();
        let mut rest = &writes[..];
        while !rest.is_empty() {
            let (version, later) = rest.split_at(rest.len().min(1 + random.below(equals) as usize));
            let pairs = versions.last().into_iter().flat_map(|earlier| earlier.iter());
            problem
                .edges
                .extend(pairs.flat_map(|before| version.iter().map(|after| edge(*before, *after))));
            versions.push(version);
            rest = later;
        }
        for (read, before) in reads {
            let mut end = 0;
            let number = versions.iter().position(|version| {
                end += version.len();
                before <= end
            });
            let Some(number) = number.filter(|_| before > 0) else {
                // Before all writes.
                problem.edges.extend(writes.first().map(|write| edge(read, *write)));
                problem.choices.extend(before_all(read, versions.first()));
                continue;
            };
            let later = versions.get(number + 1).into_iter().flat_map(|version| version.iter());
            problem.edges.extend(later.map(|write| edge(read, *write)));
            match others {
                Others::Alternatives => problem.choices.push(Choice {
                    alternatives: saw_one_of(read, versions[number]),
                }),
                Others::Clauses => saw_with_clauses(&mut problem, read, versions[number]),
            }
        }
    }
    problem.edges.retain(|e| e.before.chain != e.after.chain);
    problem
}

/// A choice with one possibility: it stands for edges.
fn before_all(read: Node, version: Option<&&[Node]>) -> Option<Choice> {
    let alternative: Vec<Edge> = version?.iter().map(|write| edge(read, *write)).collect();
    Some(Choice {
        alternatives: vec![alternative],
    })
}

fn saw_with_clauses(problem: &mut Problem, read: Node, writes: &[Node]) {
    let choice = problem.choices.len() as u32;
    for (alternative, seen) in writes.iter().enumerate() {
        for other in writes.iter().filter(|other| *other != seen) {
            problem.clauses.push(Clause {
                choice,
                alternative: alternative as u32,
                one_of: vec![edge(*other, *seen), edge(read, *other)],
            });
        }
    }
    problem.choices.push(Choice {
        alternatives: writes.iter().map(|seen| vec![edge(*seen, read)]).collect(),
    });
}

/// After one of them; each other is before that one, or after the read.
fn saw_one_of(read: Node, writes: &[Node]) -> Vec<Vec<Edge>> {
    let mut alternatives = Vec::new();
    for seen in writes {
        let others: Vec<Node> = writes.iter().copied().filter(|other| other != seen).collect();
        for sides in 0..1u32 << others.len() {
            let mut alternative = vec![edge(*seen, read)];
            for (index, other) in others.iter().enumerate() {
                alternative.push(match sides >> index & 1 {
                    0 => edge(*other, *seen),
                    _ => edge(read, *other),
                });
            }
            alternatives.push(alternative);
        }
    }
    alternatives
}
