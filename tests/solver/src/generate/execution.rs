//! A random sequentially consistent execution, and the problem that its recording poses.
use super::Random;
use super::edge;
use super::node;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Exclusion;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;

/// What kinds of accesses there are, out of the sum of these numbers.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub reads: u64,
    /// Writes that do not look at what was there.
    pub blind: u64,
    /// Read-modify-writes.
    pub updates: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Reads,
    Overwrites,
    Updates,
}

#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub thread: usize,
    pub location: usize,
    pub reach: Reach,
}

/// Accesses in the order in which they happened.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    pub threads: usize,
    pub locations: usize,
    pub accesses: Vec<Access>,
}

/// When an execution is long enough.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    Accesses(usize),
    /// Flow dependences: reads of what somebody wrote.
    Dependences(usize),
}

/// How much of equation (1) is decided before the solver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// As the paper gave it to Z3: an interval is one write and those who read it. A read-modify-write is two accesses.
    Nothing,
    /// As `constraint-solver` translates logs: accesses are merged to runs, and runs to stretches between blind writes.
    Stretches,
}

impl Execution {
    /// A thread goes on until it is relieved, once in `turn` accesses. One access in `hot` (0: none) is to location 0.
    pub fn random(
        random: &mut Random,
        threads: usize,
        locations: usize,
        length: Length,
        mix: Mix,
        turn: u64,
        hot: u64,
    ) -> Execution {
        let mut execution = Execution {
            threads,
            locations,
            accesses: Vec::new(),
        };
        let mut written = vec![false; locations];
        let (mut thread, mut dependences) = (0, 0);
        loop {
            let is_over = match length {
                Length::Accesses(count) => execution.accesses.len() == count,
                Length::Dependences(count) => dependences == count,
            };
            if is_over {
                return execution;
            }
            if random.once_in(turn) {
                thread = random.below(threads as u64) as usize;
            }
            let location = match hot > 0 && random.once_in(hot) {
                true => 0,
                false => random.below(locations as u64) as usize,
            };
            let kind = random.below(mix.reads + mix.blind + mix.updates);
            let reach = match kind {
                kind if kind < mix.reads => Reach::Reads,
                kind if kind < mix.reads + mix.blind => Reach::Overwrites,
                _ => Reach::Updates,
            };
            dependences += usize::from(reach != Reach::Overwrites && written[location]);
            written[location] |= reach != Reach::Reads;
            execution.accesses.push(Access {
                thread,
                location,
                reach,
            });
        }
    }

    pub fn problem(&self, merging: Merging) -> Problem {
        match merging {
            Merging::Nothing => self.equation_one(),
            Merging::Stretches => self.stretches(),
        }
    }

    fn equation_one(&self) -> Problem {
        let mut problem = Problem {
            chains: vec![0; self.threads],
            ..Problem::default()
        };
        let mut next = |thread: usize| {
            problem.chains[thread] += 1;
            node(thread, problem.chains[thread] - 1)
        };
        // The intervals of each location so far; the last one is still read.
        let mut locations: Vec<Exclusion> = vec![Vec::new(); self.locations];
        let mut edges = Vec::new();
        for access in &self.accesses {
            let intervals = &mut locations[access.location];
            if access.reach != Reach::Overwrites {
                let read = next(access.thread);
                if intervals.is_empty() {
                    intervals.push(Interval::default());
                }
                let seen = intervals.last_mut().expect("there is one now");
                edges.extend(seen.start.map(|write| edge(write, read)));
                end_with(&mut seen.ends, read);
            }
            if access.reach != Reach::Reads {
                let write = next(access.thread);
                intervals.push(Interval {
                    start: Some(write),
                    ends: vec![write],
                });
            }
        }
        problem.edges = edges;
        problem.edges.retain(|e| e.before.chain != e.after.chain);
        problem.exclusions = locations.into_iter().filter(|e| e.len() > 1).collect();
        problem
    }

    fn stretches(&self) -> Problem {
        let mut problem = Problem {
            chains: vec![0; self.threads],
            ..Problem::default()
        };
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); self.locations];
        for access in &self.accesses {
            let place = node(access.thread, problem.chains[access.thread]);
            problem.chains[access.thread] += 1;
            let writes = access.reach != Reach::Reads;
            match runs[access.location].last_mut() {
                Some(run) if run.first.chain == place.chain => {
                    run.last = place;
                    run.wrote |= writes;
                }
                _ => runs[access.location].push(Run {
                    first: place,
                    last: place,
                    reads: access.reach != Reach::Overwrites,
                    wrote: writes,
                }),
            }
        }
        for runs in runs {
            let stretches = join(&runs, &mut problem.edges);
            if stretches.len() > 1 {
                problem.exclusions.push(stretches);
            }
        }
        problem.edges.retain(|e| e.before.chain != e.after.chain);
        problem
    }
}

/// Accesses of one thread to one location, with none by another between.
#[derive(Clone, Copy)]
struct Run {
    first: Node,
    last: Node,
    reads: bool,
    wrote: bool,
}

fn join(runs: &[Run], edges: &mut Vec<Edge>) -> Exclusion {
    let mut stretches: Exclusion = Vec::new();
    let (mut writer, mut readers): (Option<Node>, Vec<Node>) = (None, Vec::new());
    let close = |stretch: &mut Interval, writer: Option<Node>, readers: &mut Vec<Node>| {
        for end in writer.into_iter().chain(readers.drain(..)) {
            end_with(&mut stretch.ends, end);
        }
    };
    for (index, run) in runs.iter().enumerate() {
        if index == 0 || !run.reads {
            if let Some(last) = stretches.last_mut() {
                close(last, writer.take(), &mut readers);
            }
            stretches.push(Interval {
                start: (!run.reads).then_some(run.first),
                ends: Vec::new(),
            });
        } else {
            edges.extend(writer.map(|write| edge(write, run.first)));
            if run.wrote {
                edges.extend(readers.iter().map(|read| edge(*read, run.first)));
            }
        }
        if run.wrote {
            writer = Some(run.last);
            readers.clear();
        } else {
            readers.push(run.last);
        }
    }
    if let Some(last) = stretches.last_mut() {
        close(last, writer, &mut readers);
    }
    stretches
}

/// Ends are at most one per chain, by chain.
pub(super) fn end_with(ends: &mut Vec<Node>, end: Node) {
    match ends.binary_search_by_key(&end.chain, |known| known.chain) {
        Ok(place) => ends[place] = ends[place].max(end),
        Err(place) => ends.insert(place, end),
    }
}
