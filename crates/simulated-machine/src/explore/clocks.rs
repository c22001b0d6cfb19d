//! What happened before what, in one execution.
use crate::explore::processor::Footprint;
use crate::explore::processor::Place;
use std::collections::VecDeque;

/// For each agent, how many of its steps came before.
pub(crate) type Clock = Vec<u32>;

pub(crate) struct Event {
    pub(crate) agent: usize,
    pub(crate) footprint: Footprint,
    /// Its number among the steps of its agent, from 1.
    number: u32,
    /// What came before it, itself included.
    clock: Clock,
    /// What had to come before it whatever others do: its agent's last step, and what put into a buffer what now leaves it.
    before: Clock,
}

impl Event {
    /// Does it come before everything with this clock?
    fn is_before(&self, clock: &Clock) -> bool {
        clock[self.agent] >= self.number
    }
}

pub(crate) struct Clocks {
    agents: Vec<Clock>,
    /// Steps that put something into a buffer: the clock of each entry that is there.
    entries: Vec<VecDeque<Clock>>,
    pub(crate) events: Vec<Event>,
    threads: usize,
    /// Nobody asks.
    pub(crate) is_off: bool,
}

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

impl Clocks {
    pub(crate) fn new(threads: usize) -> Clocks {
        Clocks {
            agents: vec![vec![0; 2 * threads]; 2 * threads],
            entries: vec![VecDeque::new(); threads],
            events: Vec::new(),
            threads,
            is_off: false,
        }
    }

    /// Do the two agents belong to one thread?
    fn are_one(&self, a: usize, b: usize) -> bool {
        a % self.threads == b % self.threads
    }

    /// A step happened. `watched`: of one that was waiting, the places it waited for.
    pub(crate) fn add(&mut self, agent: usize, footprint: Footprint, watched: &[Place], is_ordered: bool) {
        if self.is_off {
            return;
        }
        let mut clock = self.agents[agent].clone();
        let thread = agent % self.threads;
        if agent >= self.threads
            && let Some(entry) = self.entries[thread].pop_front()
        {
            join(&mut clock, &entry);
        }
        // What waits for the thread's own buffer comes after all that it had to wait for.
        if is_ordered {
            let buffer = self.agents[thread + self.threads].clone();
            join(&mut clock, &buffer);
        }
        let before = clock.clone();
        for event in &self.events {
            let touches = |place: &Place| event.footprint.writes == Some(*place);
            let is_ordered = !self.are_one(event.agent, agent) && event.footprint.conflicts(footprint);
            if is_ordered || watched.iter().any(touches) {
                join(&mut clock, &event.clock);
            }
        }
        // A fence in another thread happens when that thread's buffer is empty.
        if let Some(Place::Buffer(other)) = footprint.reads {
            let buffer = self.agents[other + self.threads].clone();
            join(&mut clock, &buffer);
        }
        clock[agent] += 1;
        if footprint.writes == Some(Place::Buffer(thread)) && agent < self.threads {
            self.entries[thread].push_back(clock.clone());
        }
        let number = clock[agent];
        self.agents[agent] = clock.clone();
        self.events.push(Event {
            agent,
            footprint,
            number,
            clock,
            before,
        });
    }

    /// The steps that could as well have come after the newest; for each, which agents can begin a way to have it so.
    pub(crate) fn races(&self) -> Vec<(usize, Vec<usize>)> {
        let Some((newest, earlier)) = self.events.split_last() else {
            return Vec::new();
        };
        let mut races: Vec<usize> = Vec::new();
        for (at, event) in earlier.iter().enumerate().rev() {
            // Turning round a later one comes first; then this one is found again, if it still is one.
            if !self.are_one(event.agent, newest.agent)
                && event.footprint.conflicts(newest.footprint)
                && !event.is_before(&newest.before)
                && !races.iter().any(|later| event.is_before(&earlier[*later].clock))
            {
                races.push(at);
            }
        }
        races.into_iter().map(|at| (at, self.initials(at))).collect()
    }

    /// Of the steps after `at` that do not depend on it, and the newest: the agents of those that depend on none of the others.
    fn initials(&self, at: usize) -> Vec<usize> {
        let last = self.events.len() - 1;
        let event = &self.events[at];
        let rest: Vec<&Event> = (self.events[at + 1..].iter().enumerate())
            .filter(|(number, other)| at + 1 + number == last || !event.is_before(&other.clock))
            .map(|(_, other)| other)
            .collect();
        let mut agents = Vec::new();
        for (number, step) in rest.iter().enumerate() {
            // The newest may come after steps that it depends on only because of what is to be turned round.
            let past = if number + 1 == rest.len() {
                &step.before
            } else {
                &step.clock
            };
            let conflicts = |other: &&&Event| other.is_before(past) || other.footprint.conflicts(step.footprint);
            if !rest[..number].iter().any(|other| conflicts(&other)) && !agents.contains(&step.agent) {
                agents.push(step.agent);
            }
        }
        agents
    }
}
