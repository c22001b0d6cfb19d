//! One execution: virtual threads, each stopped before its next step, and whose turn it is.
use crate::explore::clocks::Clocks;
use crate::explore::processor;
use crate::explore::processor::Footprint;
use crate::explore::processor::Operation;
use crate::explore::processor::Place;
use crate::explore::processor::Processor;
use generator::Generator;
use generator::Gn;

/// Of each virtual thread, in words of 8 bytes.
const STACK_WORDS: usize = 0x4000;

/// What the threads of one execution do, and what has to be true at its end.
#[derive(Default)]
pub struct Case {
    threads: Vec<Body>,
    check: Option<Check>,
}

type Body = Box<dyn FnOnce() + Send>;
type Check = Box<dyn FnOnce(&Ending) -> Result<(), String>>;

impl Case {
    pub fn new() -> Case {
        Case::default()
    }

    #[must_use]
    pub fn thread(mut self, body: impl FnOnce() + Send + 'static) -> Case {
        self.threads.push(Box::new(body));
        self
    }

    /// Called when nobody can do anything any more; all buffers are empty then.
    #[must_use]
    pub fn check(mut self, check: impl FnOnce(&Ending) -> Result<(), String> + 'static) -> Case {
        self.check = Some(Box::new(check));
        self
    }
}

/// Why an execution went no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    Done,
    /// These threads wait for something that cannot happen.
    Stuck(Vec<usize>),
    /// There were more steps than allowed.
    TooLong,
    /// Whoever chooses the steps wanted no more.
    Killed,
}

/// How an execution ended.
#[derive(Clone, Debug)]
pub struct Ending {
    pub stop: Stop,
    pub steps: usize,
    /// How often a thread went on though nothing that it waited for had happened, because nobody else could do anything.
    pub idle: usize,
}

impl Ending {
    pub fn is_complete(&self) -> bool {
        self.stop == Stop::Done
    }
}

/// One who can do the next step. Agents are the threads and, behind them, their buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) agent: usize,
    pub(crate) footprint: Footprint,
}

/// Going on for no reason more often than this is going on for ever.
const IDLE_MAX: usize = 8;

pub(crate) struct Execution {
    threads: Vec<Generator<'static, u64, Operation>>,
    /// What each is about to do; nothing if it is over.
    next: Vec<Option<Operation>>,
    woken: Vec<bool>,
    pub(crate) clocks: Clocks,
    idle: usize,
    /// The same of each thread.
    idles: Vec<usize>,
    /// Since somebody had a reason.
    idle_in_a_row: usize,
    steps: usize,
    check: Option<Check>,
}

/// The running thread stops before this step, and goes on with its result.
#[expect(
    deprecated,
    reason = "the scope of a generator cannot be handed through the code that runs in it"
)]
pub(crate) fn suspend(operation: Operation) -> u64 {
    generator::yield_(operation).unwrap_or(0)
}

impl Execution {
    pub(crate) fn new(build: impl FnOnce() -> Case) -> Execution {
        processor::begin_execution();
        let case = build();
        let count = case.threads.len();
        processor::begin_threads(count);
        let make = |body: Body| {
            Gn::<u64>::new_opt(STACK_WORDS, move || -> Operation {
                body();
                Operation::Fence
            })
        };
        let mut execution = Execution {
            threads: case.threads.into_iter().map(make).collect(),
            next: vec![None; count],
            woken: vec![false; count],
            clocks: Clocks::new(count),
            idle: 0,
            idles: vec![0; count],
            idle_in_a_row: 0,
            steps: 0,
            check: case.check,
        };
        for thread in 0..count {
            execution.go_on(thread, None);
        }
        execution
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Runs a thread up to its next step.
    fn go_on(&mut self, thread: usize, result: Option<u64>) {
        processor::set_running(Some(thread));
        let next = self.threads[thread].raw_send(result);
        processor::set_running(None);
        self.next[thread] = next.filter(|_| !self.threads[thread].is_done());
    }

    /// Everyone who can do something.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        processor::with(|processor| {
            let threads = (0..self.threads()).filter_map(|thread| {
                let operation = self.next[thread]?;
                let is_enabled = match operation {
                    Operation::Woken(_) => self.woken[thread],
                    _ => processor.is_enabled(thread, operation),
                };
                is_enabled.then(|| Choice {
                    agent: thread,
                    footprint: processor.footprint(thread, operation),
                })
            });
            let buffers = (0..self.threads()).filter_map(|thread| {
                processor.oldest(thread).map(|word| Choice {
                    agent: self.threads() + thread,
                    footprint: Footprint {
                        reads: None,
                        writes: Some(Place::Word(word)),
                    },
                })
            });
            let mut choices: Vec<Choice> = threads.chain(buffers).collect();
            if choices.is_empty() && self.idle_in_a_row < IDLE_MAX {
                // A wait that looks again by itself, or that ends with its time.
                let waits = |thread: &usize| matches!(self.next[*thread], Some(Operation::Spin | Operation::Woken(_)));
                // Each in its time: nobody looks again and again while another one does not.
                let least = (0..self.threads()).filter(waits).map(|thread| self.idles[thread]).min();
                let is_next = |thread: &usize| waits(thread) && Some(self.idles[*thread]) == least;
                choices.extend((0..self.threads()).filter(is_next).map(|agent| Choice {
                    agent,
                    footprint: Footprint::default(),
                }));
            }
            choices
        })
    }

    pub(crate) fn step(&mut self, choice: Choice) {
        self.steps += 1;
        let count = self.threads();
        if choice.agent >= count {
            self.clocks.add(choice.agent, choice.footprint, &[], false);
            return processor::with(|processor| processor.flush(choice.agent - count));
        }
        let thread = choice.agent;
        let Some(operation) = self.next[thread] else {
            return;
        };
        self.note_idleness(thread, operation, choice.footprint);
        let watched: Vec<Place> = match operation {
            Operation::Spin => processor::with(|processor| processor.watched(thread).collect()),
            Operation::Woken(word) => vec![Place::Queue(word)],
            _ => Vec::new(),
        };
        let is_ordered = Processor::is_ordered(operation);
        self.clocks.add(thread, choice.footprint, &watched, is_ordered);
        if let Operation::Wake(word) = operation {
            for (woken, next) in self.woken.iter_mut().zip(&self.next) {
                *woken |= *next == Some(Operation::Woken(word));
            }
        }
        match processor::with(|processor| processor.perform(thread, operation)) {
            Some(result) => self.go_on(thread, Some(result)),
            None => {
                if let Operation::Wait { word, .. } = operation {
                    self.woken[thread] = false;
                    self.next[thread] = Some(Operation::Woken(word));
                }
            }
        }
    }

    fn note_idleness(&mut self, thread: usize, operation: Operation, footprint: Footprint) {
        let has_reason = match operation {
            Operation::Spin => processor::with(|processor| processor.is_enabled(thread, operation)),
            Operation::Woken(_) => self.woken[thread],
            Operation::Wait { .. } => return,
            // Looking changes nothing.
            _ if footprint.writes.is_none() => return,
            _ => true,
        };
        if has_reason {
            self.idle_in_a_row = 0;
        } else {
            self.idle += 1;
            self.idles[thread] += 1;
            self.idle_in_a_row += 1;
        }
    }

    /// Nobody goes on: checks what there is.
    pub(crate) fn finish(self, stop: Option<Stop>) -> (Ending, Result<(), String>) {
        let waiting: Vec<usize> = (0..self.threads())
            .filter(|thread| self.next[*thread].is_some())
            .collect();
        let stop = stop.unwrap_or(match waiting.is_empty() {
            true => Stop::Done,
            false => Stop::Stuck(waiting),
        });
        let ending = Ending {
            stop,
            steps: self.steps,
            idle: self.idle,
        };
        processor::with(Processor::flush_all);
        let result = self.check.map_or(Ok(()), |check| check(&ending));
        (ending, result)
    }
}
