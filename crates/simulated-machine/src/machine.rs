//! Runs a program with a random interleaving, and records it.
use crate::memory::Memory;
use crate::program::Instruction;
use crate::program::Program;
use crate::program::Progress;
use crate::random::Random;
use crate::recorder::Reach;
use crate::recorder::Recorder;
use crate::recorder::Tuning;
use log_format::decode_prefix;
use log_format::encode_log;
use run_model::Logs;
use run_model::Method;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use run_model::ThreadLog;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// After so many events of all threads together, the process is gone.
    Killed {
        after: u64,
    },
    /// A thread stops inside its event, with everything done but counting it; the others go on until `Killed` or the end.
    StoppedInside {
        thread: u32,
        event: u64,
        killed_after: u64,
    },
    /// The log file of a thread loses its end.
    Cut {
        thread: u32,
        bytes: u64,
    },
}

/// A run, and everything to compare a replay with.
#[derive(Clone, Debug)]
pub struct Recording {
    pub method: Method,
    /// The log file of each thread.
    pub files: Vec<Vec<u8>>,
    /// Events completed by each thread.
    pub counts: Vec<u64>,
    /// For each thread and event, what it read; one entry more if the thread was stopped inside an event.
    pub reads: Vec<Vec<Option<u128>>>,
}

impl Recording {
    /// The logs as a tool would find them.
    pub fn logs(&self) -> Logs {
        let decode = |(thread, file): (usize, &Vec<u8>)| {
            let prefix = decode_prefix(file, ThreadIndex(thread as u32));
            let torn = prefix.damage.is_some();
            ThreadLog {
                records: prefix.log.records,
                events: self.counts[thread],
                torn,
            }
        };
        Logs {
            method: self.method,
            threads: self.files.iter().enumerate().map(decode).collect(),
        }
    }
}

/// What one thread is up to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unborn,
    Created(Point),
    Alive,
    Ended,
}

struct Machine<'a> {
    program: &'a Program,
    memory: Memory,
    recorder: Recorder,
    lives: Vec<Life>,
    progress: Vec<Progress>,
    holders: Vec<Option<usize>>,
    reads: Vec<Vec<Option<u128>>>,
    /// Stopped inside its event for good.
    stopped: Option<usize>,
}

/// Runs `program` with the interleaving that `seed` gives.
pub fn record(program: &Program, seed: u64, tuning: Tuning, fault: Fault) -> Recording {
    let mut random = Random::new(seed);
    let count = program.threads.len();
    let mut lives = vec![Life::Unborn; count];
    lives[0] = Life::Created(Point::default());
    let mut machine = Machine {
        program,
        memory: Memory::new(program.chunks + 1),
        recorder: Recorder::new(count, tuning),
        lives,
        progress: (0..count).map(|thread| Progress::new(thread, program.values)).collect(),
        holders: vec![None; 64],
        reads: vec![Vec::new(); count],
        stopped: None,
    };
    let (stop, most) = match fault {
        Fault::Killed { after } => (None, after),
        Fault::StoppedInside {
            thread,
            event,
            killed_after,
        } => (Some((thread as usize, event)), killed_after),
        Fault::None | Fault::Cut { .. } => (None, u64::MAX),
    };
    let mut last = 0;
    for _ in 0..most {
        let able: Vec<usize> = (0..count).filter(|thread| machine.is_able(*thread)).collect();
        if able.is_empty() {
            break;
        }
        // Threads run for a while: runs longer than one access are what the protocol is about.
        if !able.contains(&last) || random.once_in(3) {
            last = able[random.below(able.len() as u64) as usize];
        }
        machine.step(last, stop);
    }
    machine.finish(fault)
}

impl Machine<'_> {
    fn instruction(&mut self, thread: usize) -> Option<Instruction> {
        self.progress[thread].instruction(&self.program.threads[thread])
    }

    fn is_able(&mut self, thread: usize) -> bool {
        if self.stopped == Some(thread) {
            return false;
        }
        match self.lives[thread] {
            Life::Unborn | Life::Ended => return false,
            Life::Created(_) => return true,
            Life::Alive => {}
        }
        let Some(instruction) = self.instruction(thread) else {
            return true;
        };
        match instruction {
            Instruction::Lock { mutex } => self.holders[mutex as usize].is_none(),
            Instruction::Join { thread } => self.lives[thread as usize] == Life::Ended,
            _ => match (reach(instruction), self.stopped) {
                (Some((address, bytes, reach, _)), Some(stopped)) => {
                    !self.recorder.is_held_by(thread, stopped, address, bytes, reach)
                }
                _ => true,
            },
        }
    }

    fn step(&mut self, thread: usize, stop: Option<(usize, u64)>) {
        let read = match self.lives[thread] {
            Life::Created(by) => {
                self.recorder.start(thread, Some(by).filter(|_| thread != 0));
                self.lives[thread] = Life::Alive;
                None
            }
            _ => match self.instruction(thread) {
                Some(instruction) => {
                    if let Some((address, bytes, how, atomic)) = reach(instruction)
                        && self.recorder.acquires(thread, address, bytes, how, atomic)
                    {
                        // Others may come in between.
                        let events = self.recorder.threads[thread].count as usize;
                        return self.reads[thread].resize(events, None);
                    }
                    let read = self.perform(thread, instruction);
                    self.progress[thread].advance(read);
                    read
                }
                None => {
                    self.recorder.exit(thread);
                    self.lives[thread] = Life::Ended;
                    None
                }
            },
        };
        self.reads[thread].push(read);
        // The end of a thread is counted before anyone can know of it.
        if stop == Some((thread, self.recorder.threads[thread].count)) && self.lives[thread] != Life::Ended {
            self.stopped = Some(thread);
        } else {
            self.recorder.complete(thread);
        }
    }

    fn perform(&mut self, thread: usize, instruction: Instruction) -> Option<u128> {
        if let Some((address, bytes, how, _)) = reach(instruction) {
            self.recorder.access(thread, address, bytes, how);
            return access(&mut self.memory, &self.progress[thread], address, bytes, how);
        }
        match instruction {
            Instruction::Lock { mutex } => {
                self.holders[mutex as usize] = Some(thread);
                self.recorder.touch(thread, Op::MutexLock, mutex);
            }
            Instruction::Unlock { mutex } => {
                self.recorder.touch(thread, Op::MutexUnlock, mutex);
                self.holders[mutex as usize] = None;
            }
            Instruction::Spawn { thread: child } => {
                self.recorder.spawn(thread, child);
                self.lives[child as usize] = Life::Created(self.recorder.point_after(thread));
            }
            Instruction::Join { thread: child } => self.recorder.join(thread, child),
            _ => unreachable!("{instruction:?} is an access or no event"),
        }
        None
    }

    fn finish(self, fault: Fault) -> Recording {
        let threads = self.recorder.threads;
        let encode = |(i, t): (usize, &crate::recorder::ThreadState)| encode_log(ThreadIndex(i as u32), &t.records);
        let mut files: Vec<Vec<u8>> = threads.iter().enumerate().map(encode).collect();
        if let Fault::Cut { thread, bytes } = fault {
            let file = &mut files[thread as usize];
            file.truncate(file.len() - (bytes as usize).min(file.len() - log_format::HEADER_BYTES));
        }
        Recording {
            method: Method::Light,
            files,
            counts: threads.iter().map(|t| t.count).collect(),
            reads: self.reads,
        }
    }
}

/// Address, bytes, what is done, and whether it is atomic, of an access.
pub(crate) fn reach(instruction: Instruction) -> Option<(u64, u64, Reach, bool)> {
    match instruction {
        Instruction::Load { address, bytes } => Some((address, bytes, Reach::Reads, false)),
        Instruction::Store { address, bytes } => Some((address, bytes, Reach::Writes, false)),
        Instruction::AtomicLoad { address } => Some((address, 8, Reach::Reads, true)),
        Instruction::AtomicStore { address } => Some((address, 8, Reach::Writes, true)),
        Instruction::AtomicAdd { address } => Some((address, 8, Reach::Both, true)),
        _ => None,
    }
}

/// Does an access; returns what it read.
pub(crate) fn access(memory: &mut Memory, by: &Progress, address: u64, bytes: u64, reach: Reach) -> Option<u128> {
    let found = memory.load(address, bytes);
    match reach {
        Reach::Reads => Some(found),
        Reach::Writes => {
            memory.store(address, bytes, by.value());
            None
        }
        Reach::Both => {
            memory.store(address, bytes, found.wrapping_add(by.value()));
            Some(found)
        }
    }
}
