//! Runs a program again under a schedule, and compares every read.
use crate::memory::Memory;
use crate::program::Instruction;
use crate::program::Program;
use crate::program::Progress;
use crate::random::Random;
use crate::recording::Recording;
use crate::recording::access;
use crate::recording::is_acquisition;
use crate::recording::reach;
use run_model::Schedule;
use std::collections::BTreeSet;

/// How a replay came to differ from the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// Nobody can go on, and these threads have not done all their events.
    Stuck { threads: Vec<usize> },
    Read {
        thread: usize,
        event: u64,
        expected: Option<u128>,
        found: Option<u128>,
    },
    /// A lock was held, a thread to be joined had not ended, a thread began before it was created.
    Synchronisation { thread: usize, event: u64 },
}

/// A state of a replay. Comparing them lets all interleavings be tried without trying any state twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    memory: Memory,
    progress: Vec<Progress>,
    counts: Vec<u64>,
    holders: Vec<Option<usize>>,
    created: Vec<bool>,
    ended: Vec<bool>,
}

/// A program under a schedule.
pub struct Replay<'a> {
    program: &'a Program,
    recording: &'a Recording,
    schedule: &'a Schedule,
}

impl<'a> Replay<'a> {
    pub fn new(program: &'a Program, recording: &'a Recording, schedule: &'a Schedule) -> Replay<'a> {
        Replay {
            program,
            recording,
            schedule,
        }
    }

    /// One replay; `seed` chooses among the threads that the schedule allows to go on.
    pub fn run(&self, seed: u64) -> Result<(), Deviation> {
        let mut random = Random::new(seed);
        let mut state = self.start();
        loop {
            let able = self.able(&state);
            if able.is_empty() {
                return self.end(&state);
            }
            let thread = able[random.below(able.len() as u64) as usize];
            // Some of the time, one thread runs as far as it can.
            let steps = if random.once_in(4) {
                u64::MAX
            } else {
                1 + random.below(3)
            };
            for _ in 0..steps {
                if !self.is_able(&state, thread) {
                    break;
                }
                self.step(&mut state, thread)?;
            }
        }
    }

    /// Every replay that the schedule allows. Returns how many states there are, or `None` if more than `states_max`.
    pub fn run_all(&self, states_max: usize) -> Result<Option<usize>, Deviation> {
        let mut known = BTreeSet::new();
        let mut open = vec![self.start()];
        while let Some(state) = open.pop() {
            let able = self.able(&state);
            if able.is_empty() {
                self.end(&state)?;
            }
            for thread in able {
                let mut next = state.clone();
                self.step(&mut next, thread)?;
                if known.insert(next.clone()) {
                    open.push(next);
                }
            }
            if known.len() > states_max {
                return Ok(None);
            }
        }
        Ok(Some(known.len()))
    }

    fn start(&self) -> State {
        let count = self.program.threads.len();
        let mut created = vec![false; count];
        created[0] = true;
        State {
            memory: Memory::new(self.program.chunks + 1),
            progress: (0..count)
                .map(|thread| Progress::new(thread, self.program.values))
                .collect(),
            counts: vec![0; count],
            holders: vec![None; 64],
            created,
            ended: vec![false; count],
        }
    }

    fn able(&self, state: &State) -> Vec<usize> {
        (0..self.program.threads.len())
            .filter(|thread| self.is_able(state, *thread))
            .collect()
    }

    /// Nothing but the schedule holds a thread: its locks do not, they only complain.
    fn is_able(&self, state: &State, thread: usize) -> bool {
        let planned = &self.schedule.threads[thread];
        let event = state.counts[thread];
        let first = planned.gates.partition_point(|gate| gate.record.event < event);
        let mut gates = planned.gates[first..]
            .iter()
            .take_while(|gate| gate.record.event == event);
        let is_reached = |wait: run_model::Point| state.counts[wait.thread.0 as usize] >= wait.count;
        // Not even created: the schedule has to say so, but the machine cannot run what does not exist.
        event < planned.events && !state.ended[thread] && gates.all(|gate| gate.waits.iter().all(is_reached))
    }

    fn end(&self, state: &State) -> Result<(), Deviation> {
        let short = |thread: &usize| state.counts[*thread] < self.schedule.threads[*thread].events;
        let threads: Vec<usize> = (0..self.program.threads.len()).filter(short).collect();
        if threads.is_empty() {
            Ok(())
        } else {
            Err(Deviation::Stuck { threads })
        }
    }

    fn step(&self, state: &mut State, thread: usize) -> Result<(), Deviation> {
        let event = state.counts[thread];
        let wrong = Err(Deviation::Synchronisation { thread, event });
        let mut read = None;
        let gates = &self.schedule.threads[thread].gates;
        let first = gates.partition_point(|gate| gate.record.event < event);
        let acquires = gates
            .get(first)
            .is_some_and(|g| g.record.event == event && is_acquisition(g.record.kind));
        if acquires {
            // Nothing happens to memory.
        } else if event == 0 {
            if !state.created[thread] {
                return wrong;
            }
        } else {
            match state.progress[thread].instruction(&self.program.threads[thread]) {
                None => state.ended[thread] = true,
                Some(instruction) => {
                    if let Some((address, bytes, how, _)) = reach(instruction) {
                        read = access(&mut state.memory, &state.progress[thread], address, bytes, how);
                    } else if !synchronise(state, thread, instruction) {
                        return wrong;
                    }
                    state.progress[thread].advance(read);
                }
            }
        }
        let expected = self.recording.reads[thread].get(event as usize).copied().flatten();
        if read != expected {
            return Err(Deviation::Read {
                thread,
                event,
                expected,
                found: read,
            });
        }
        state.counts[thread] += 1;
        Ok(())
    }
}

/// False if the operation could not be done now.
fn synchronise(state: &mut State, thread: usize, instruction: Instruction) -> bool {
    match instruction {
        Instruction::Lock { mutex } => state.holders[mutex as usize].replace(thread).is_none(),
        Instruction::Unlock { mutex } => state.holders[mutex as usize].take() == Some(thread),
        Instruction::Spawn { thread: child } => !std::mem::replace(&mut state.created[child as usize], true),
        Instruction::Join { thread: child } => state.ended[child as usize],
        _ => unreachable!("{instruction:?} is an access or no event"),
    }
}
