//! Which orders of steps are tried.
use crate::explore::execution::Case;
use crate::explore::execution::Choice;
use crate::explore::execution::Ending;
use crate::explore::execution::Execution;
use crate::explore::execution::Stop;
use crate::random::Random;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub executions: usize,
    /// Of one execution.
    pub steps: usize,
    /// Try all orders, also those that differ only in steps which have nothing to do with each other.
    pub all_orders: bool,
    /// Try all orders with at most so many delays (Emmi, Qadeer, Rakamarić 2011): a thread goes on as long as it can, its stores
    /// stay in its buffer until it has to wait for them, and a delay is each step at which another agent is chosen. Without
    /// reduction.
    pub delays: Option<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            executions: 200_000,
            steps: 2_000,
            all_orders: false,
            delays: None,
        }
    }
}

/// What exploring has shown.
#[derive(Clone, Debug)]
pub struct Report {
    pub executions: usize,
    /// Executions that were left because all their orders had been tried.
    pub cut: usize,
    /// All orders were tried.
    pub complete: bool,
    pub failure: Option<Failure>,
    pub steps_max: usize,
}

/// An execution whose check failed. `agents` leads there again ([`run_once`]).
#[derive(Clone, Debug)]
pub struct Failure {
    pub message: String,
    pub agents: Vec<usize>,
}

impl Report {
    /// Everything was tried, and nothing was wrong.
    pub fn assert_clean(&self) {
        if let Some(failure) = &self.failure {
            panic!(
                "after {} executions: {}\nagents: {:?}",
                self.executions, failure.message, failure.agents
            );
        }
        assert!(self.complete, "not all orders were tried: {self:?}");
    }
}

/// A state on the way to the present one.
struct Node {
    choices: Vec<Choice>,
    chosen: usize,
    /// Agents, as bits, that are to be tried here, and that were.
    to_try: u64,
    tried: u64,
    /// Agents whose step here has been tried before, in an order that differs in nothing.
    asleep: Vec<Choice>,
    /// Who is chosen without a delay, and how many delays are left.
    first: usize,
    delays: usize,
}

impl Node {
    fn chosen(&self) -> Choice {
        self.choices[self.chosen]
    }

    fn is_asleep(&self, agent: usize) -> bool {
        self.asleep.iter().any(|choice| choice.agent == agent)
    }

    /// Who is to be tried next, if anybody.
    fn next(&self) -> Option<usize> {
        (0..self.choices.len()).find(|at| {
            let agent = self.choices[*at].agent;
            self.to_try >> agent & 1 != 0 && self.tried >> agent & 1 == 0 && !self.is_asleep(agent)
        })
    }

    fn try_at(&mut self, at: usize) {
        self.chosen = at;
        self.tried |= 1 << self.choices[at].agent;
    }
}

/// Who sleeps after a step: those whose step has nothing to do with it.
fn asleep_after(node: &Node, threads: usize) -> Vec<Choice> {
    let step = node.chosen();
    let tried = node.choices.iter().filter(|choice| {
        node.tried >> choice.agent & 1 != 0 && choice.agent != step.agent && !node.is_asleep(choice.agent)
    });
    let is_apart = |choice: &&Choice| {
        let is_one = choice.agent % threads == step.agent % threads;
        choice.agent != step.agent && !is_one && !choice.footprint.conflicts(step.footprint)
    };
    node.asleep.iter().chain(tried).filter(is_apart).copied().collect()
}

/// Tries the orders of the steps of what `build` makes, until all were tried or one has failed.
pub fn explore(limits: &Limits, build: impl Fn() -> Case) -> Report {
    let mut report = Report {
        executions: 0,
        cut: 0,
        complete: false,
        failure: None,
        steps_max: 0,
    };
    let mut path: Vec<Node> = Vec::new();
    while report.executions < limits.executions {
        let (ending, failure) = execute(limits, &build, &mut path);
        report.executions += 1;
        match ending {
            Some(ending) => report.steps_max = report.steps_max.max(ending.steps),
            None => report.cut += 1,
        }
        if failure.is_some() {
            report.failure = failure;
            return report;
        }
        // Back to the last state where something is left to try.
        loop {
            let Some(node) = path.last_mut() else {
                report.complete = true;
                return report;
            };
            if let Some(next) = node.next() {
                node.try_at(next);
                break;
            }
            path.pop();
        }
    }
    report
}

/// Goes along `path` and then on, to the end. No ending: it was cut short.
fn execute(limits: &Limits, build: impl Fn() -> Case, path: &mut Vec<Node>) -> (Option<Ending>, Option<Failure>) {
    let mut execution = Execution::new(build);
    execution.clocks.is_off = limits.all_orders || limits.delays.is_some();
    let threads = execution.threads();
    assert!(threads <= 32, "agents are bits");
    let mut depth = 0;
    let stop = loop {
        let choices = execution.choices();
        if choices.is_empty() {
            break None;
        }
        if depth == limits.steps {
            break Some(Stop::TooLong);
        }
        if depth == path.len() {
            let asleep = path.last().map_or(Vec::new(), |node| asleep_after(node, threads));
            let last = path.last().map(|node| node.chosen().agent);
            let delays = path.last().map_or(limits.delays.unwrap_or(0), |node| {
                node.delays - usize::from(limits.delays.is_some() && node.chosen != node.first)
            });
            let node = new_node(limits, choices, asleep, last, delays, threads);
            let Some(node) = node else {
                return (None, None);
            };
            path.push(node);
        } else {
            assert_eq!(path[depth].choices, choices, "an execution is the same every time");
        }
        execution.step(path[depth].chosen());
        if !limits.all_orders && limits.delays.is_none() {
            note_races(&execution, path);
        }
        depth += 1;
    };
    let agents = path[..depth].iter().map(|node| node.chosen().agent).collect();
    let (ending, result) = execution.finish(stop);
    let failure = result.err().map(|message| Failure { message, agents });
    (Some(ending), failure)
}

/// A state that is seen for the first time. `None`: whatever can happen here has been tried in another order.
fn new_node(
    limits: &Limits,
    choices: Vec<Choice>,
    asleep: Vec<Choice>,
    last: Option<usize>,
    delays: usize,
    threads: usize,
) -> Option<Node> {
    let is_reduced = !limits.all_orders && limits.delays.is_none();
    let is_asleep = |choice: &Choice| asleep.iter().any(|other| other.agent == choice.agent);
    let asleep_here = if is_reduced { asleep.clone() } else { Vec::new() };
    let awake = |at: &usize| !is_reduced || !is_asleep(&choices[*at]);
    // Whoever was at it goes on: long runs first. With delays also its buffer, if it has to wait for that.
    let first = (0..choices.len()).filter(awake).min_by_key(|at| {
        let agent = choices[*at].agent;
        (last.map(|last| last % threads) != Some(agent % threads), agent)
    })?;
    let to_try = match !is_reduced && (limits.all_orders || delays > 0) {
        true => choices.iter().fold(0, |bits, choice| bits | 1 << choice.agent),
        false => 1 << choices[first].agent,
    };
    let mut node = Node {
        choices,
        chosen: first,
        to_try,
        tried: 0,
        asleep: asleep_here,
        first,
        delays,
    };
    node.try_at(first);
    Some(node)
}

/// If the step that was made last could have come before an earlier one, that is to be tried.
fn note_races(execution: &Execution, path: &mut [Node]) {
    for (at, initials) in execution.clocks.races() {
        let node = &mut path[at];
        if initials.iter().any(|agent| node.to_try >> agent & 1 != 0) {
            continue;
        }
        let can = |agent: &&usize| node.choices.iter().any(|choice| choice.agent == **agent);
        node.to_try |= match initials.iter().find(can) {
            Some(agent) => 1 << agent,
            None => node.choices.iter().fold(0, |bits, choice| bits | 1 << choice.agent),
        };
    }
}

/// Draws so many orders by a seed. `failure` of the report, if any, is of the first that failed.
pub fn explore_randomly(limits: &Limits, seed: u64, build: impl Fn() -> Case) -> Report {
    let mut report = Report {
        executions: 0,
        cut: 0,
        complete: false,
        failure: None,
        steps_max: 0,
    };
    let mut random = Random::new(seed);
    while report.executions < limits.executions && report.failure.is_none() {
        let mut driver = RandomDriver::new(random.number());
        let (ending, failure) = run(limits.steps, &build, |choices, _| Some(driver.choose(choices)));
        report.executions += 1;
        report.steps_max = report.steps_max.max(ending.steps);
        report.failure = failure;
    }
    report
}

/// One order, drawn by a seed, that is left after `steps` steps. A thread that stalls does so many steps, and no more.
pub fn run_once(seed: u64, steps: usize, stall: Option<(usize, usize)>, build: impl Fn() -> Case) -> Ending {
    let mut driver = RandomDriver::new(seed);
    let mut left = stall.map_or(0, |(_, steps)| steps);
    let (ending, failure) = run(steps, &build, |choices, threads| {
        let stalled = stall.map(|(thread, _)| thread).filter(|_| left == 0);
        let able: Vec<Choice> = choices
            .iter()
            .filter(|choice| choice.agent >= threads || Some(choice.agent) != stalled)
            .copied()
            .collect();
        if able.is_empty() {
            return None;
        }
        let chosen = able[driver.choose(&able)];
        if stall.is_some_and(|(thread, _)| thread == chosen.agent) {
            left = left.saturating_sub(1);
        }
        choices.iter().position(|choice| *choice == chosen)
    });
    if let Some(failure) = failure {
        panic!("seed {seed}: {}", failure.message);
    }
    ending
}

fn run(
    steps: usize,
    build: impl Fn() -> Case,
    mut choose: impl FnMut(&[Choice], usize) -> Option<usize>,
) -> (Ending, Option<Failure>) {
    let mut execution = Execution::new(build);
    execution.clocks.is_off = true;
    let threads = execution.threads();
    let mut agents = Vec::new();
    let stop = loop {
        let choices = execution.choices();
        if choices.is_empty() {
            break None;
        }
        if agents.len() == steps {
            break Some(Stop::Killed);
        }
        let Some(at) = choose(&choices, threads) else {
            break Some(Stop::Killed);
        };
        agents.push(choices[at].agent);
        execution.step(choices[at]);
    };
    let (ending, result) = execution.finish(stop);
    (ending, result.err().map(|message| Failure { message, agents }))
}

/// Threads run for a while, and so do buffers: what one of them does in a row is what others can come between.
struct RandomDriver {
    random: Random,
    last: usize,
    /// After so many steps another agent comes, on average.
    haste: u64,
}

impl RandomDriver {
    fn new(seed: u64) -> RandomDriver {
        let mut random = Random::new(seed);
        let haste = [2, 6, 20, 60][random.below(4) as usize];
        RandomDriver { random, last: 0, haste }
    }

    fn choose(&mut self, choices: &[Choice]) -> usize {
        if let Some(at) = choices.iter().position(|choice| choice.agent == self.last)
            && !self.random.once_in(self.haste)
        {
            return at;
        }
        let at = self.random.below(choices.len() as u64) as usize;
        self.last = choices[at].agent;
        at
    }
}
