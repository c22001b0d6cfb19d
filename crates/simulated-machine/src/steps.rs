//! Methods that record every access (leap, stride, oreo), with accesses that take several steps.
//!
//! Between two steps of one thread any other may do its own: so versions race, and values are stored in another order than
//! their versions.
use crate::machine::Fault;
use crate::machine::Recording;
use crate::machine::reach;
use crate::memory::CELL_BYTES;
use crate::memory::Memory;
use crate::program::Instruction;
use crate::program::Program;
use crate::program::Progress;
use crate::random::Random;
use crate::recorder::Reach;
use crate::recorder::Recorder;
use crate::recorder::Tuning;
use log_format::encode_log;
use run_model::Extent;
use run_model::Kind;
use run_model::Method;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::ThreadIndex;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unborn,
    Created(Point),
    Alive,
    Ended,
}

/// What a thread has done of its current event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Of a write, in oreo: has loaded the versions of its cells.
    Loaded(Vec<u64>),
    /// Of a write: has stored the versions of its cells.
    Versioned(Vec<u64>),
    /// Of a read: has loaded this.
    Read(u128),
    /// Everything is done but counting.
    Uncounted,
}

#[derive(Clone, Copy, Default)]
struct Element {
    last: Option<Point>,
    accesses: i64,
}

struct Machine<'a> {
    program: &'a Program,
    method: Method,
    memory: Memory,
    recorder: Recorder,
    lives: Vec<Life>,
    stages: Vec<Stage>,
    progress: Vec<Progress>,
    holders: Vec<Option<usize>>,
    versions: BTreeMap<u64, u64>,
    /// Cells that are locked, and by whom.
    locked: BTreeMap<u64, usize>,
    elements: BTreeMap<u64, Element>,
    reads: Vec<Vec<Option<u128>>>,
}

/// Runs `program` with the interleaving that `seed` gives. Threads are not stopped inside events but by `Fault::Killed`,
/// which counts steps.
pub fn record_in_steps(program: &Program, seed: u64, method: Method, fault: Fault) -> Recording {
    assert!(method != Method::Light, "the other machine records this");
    let mut random = Random::new(seed);
    let count = program.threads.len();
    let tuning = Tuning {
        moves_before_split: 0,
        generations: false,
        uses_before_merge: 0,
    };
    let mut machine = Machine {
        program,
        method,
        memory: Memory::new(program.chunks + 1),
        recorder: Recorder::new(count, tuning),
        lives: vec![Life::Unborn; count],
        stages: vec![Stage::Idle; count],
        progress: (0..count).map(|thread| Progress::new(thread, program.values)).collect(),
        holders: vec![None; 64],
        versions: BTreeMap::new(),
        locked: BTreeMap::new(),
        elements: BTreeMap::new(),
        reads: vec![Vec::new(); count],
    };
    machine.lives[0] = Life::Created(Point::default());
    let most = match fault {
        Fault::Killed { after } => after,
        _ => u64::MAX,
    };
    // After so many steps another thread comes, on average.
    let haste = [3, 10, 40][(seed % 3) as usize];
    let mut last = 0;
    for _ in 0..most {
        let able: Vec<usize> = (0..count).filter(|thread| machine.is_able(*thread)).collect();
        if able.is_empty() {
            break;
        }
        if !able.contains(&last) || random.once_in(haste) {
            last = able[random.below(able.len() as u64) as usize];
        }
        machine.step(last);
    }
    machine.finish(fault)
}

/// The parts of an access, one for each cell: address and bytes.
fn parts(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let first = address / CELL_BYTES * CELL_BYTES;
    (first..address + bytes)
        .step_by(CELL_BYTES as usize)
        .map(move |cell| (cell.max(address), (cell + CELL_BYTES).min(address + bytes)))
        .map(|(start, end)| (start, end - start))
}

fn cell(address: u64) -> u64 {
    address / CELL_BYTES * CELL_BYTES
}

impl Machine<'_> {
    fn instruction(&mut self, thread: usize) -> Option<Instruction> {
        self.progress[thread].instruction(&self.program.threads[thread])
    }

    fn is_able(&mut self, thread: usize) -> bool {
        match self.lives[thread] {
            Life::Unborn | Life::Ended => return false,
            Life::Created(_) => return true,
            Life::Alive => {}
        }
        if self.stages[thread] != Stage::Idle {
            return true;
        }
        match self.instruction(thread) {
            Some(Instruction::Lock { mutex }) => self.holders[mutex as usize].is_none(),
            Some(Instruction::Join { thread }) => self.lives[thread as usize] == Life::Ended,
            Some(instruction) => match reach(instruction) {
                Some((address, bytes, how, _)) => {
                    let locks = how != Reach::Reads && self.locks(how);
                    !locks || parts(address, bytes).all(|(part, _)| !self.locked.contains_key(&cell(part)))
                }
                None => true,
            },
            None => true,
        }
    }

    /// Does a write take the locks of its cells?
    fn locks(&self, how: Reach) -> bool {
        match self.method {
            Method::Stride => true,
            Method::Oreo => how == Reach::Both,
            _ => false,
        }
    }

    fn step(&mut self, thread: usize) {
        if self.stages[thread] == Stage::Uncounted {
            self.stages[thread] = Stage::Idle;
            return self.recorder.complete(thread);
        }
        if let Life::Created(by) = self.lives[thread] {
            self.recorder.start(thread, Some(by).filter(|_| thread != 0));
            self.lives[thread] = Life::Alive;
            return self.finish_event(thread, None);
        }
        let Some(instruction) = self.instruction(thread) else {
            self.recorder.exit(thread);
            self.lives[thread] = Life::Ended;
            self.reads[thread].push(None);
            return self.recorder.complete(thread);
        };
        if let Some((address, bytes, how, _)) = reach(instruction) {
            match self.method {
                Method::Leap => self.access_element(thread, address, bytes, how),
                _ => self.access_in_steps(thread, address, bytes, how),
            }
            return;
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
        self.progress[thread].advance(None);
        self.finish_event(thread, None);
    }

    /// What it did is done; that it is counted is another step.
    fn finish_event(&mut self, thread: usize, read: Option<u128>) {
        self.reads[thread].push(read);
        self.stages[thread] = Stage::Uncounted;
    }

    fn access_element(&mut self, thread: usize, address: u64, bytes: u64, how: Reach) {
        let me = ThreadIndex(thread as u32);
        for (part, _) in parts(address, bytes) {
            let element = self.elements.entry(cell(part)).or_default();
            let before = *element;
            if before.last.is_none_or(|last| last.thread != me) {
                element.accesses = 0;
                let record = Record {
                    kind: Kind::Vector,
                    object: cell(part),
                    value: before.accesses,
                    sources: before.last.into_iter().collect(),
                    ..Record::default()
                };
                self.recorder.log(thread, record);
            }
            let element = self.elements.entry(cell(part)).or_default();
            element.accesses += 1;
            element.last = Some(self.recorder.point_after(thread));
        }
        let read = crate::machine::access(&mut self.memory, &self.progress[thread], address, bytes, how);
        self.progress[thread].advance(read);
        self.finish_event(thread, read);
    }

    fn version(&self, address: u64) -> u64 {
        self.versions.get(&cell(address)).copied().unwrap_or(0)
    }

    fn access_in_steps(&mut self, thread: usize, address: u64, bytes: u64, how: Reach) {
        let cells = || parts(address, bytes).map(|(part, _)| cell(part));
        let stage = std::mem::replace(&mut self.stages[thread], Stage::Idle);
        self.stages[thread] = match stage {
            Stage::Idle if how == Reach::Reads => Stage::Read(self.memory.load(address, bytes)),
            Stage::Read(value) => {
                for (part, length) in parts(address, bytes) {
                    let version = self.version(part);
                    self.log_access(
                        thread,
                        Kind::Read,
                        (part, length),
                        value >> (8 * (part - address)),
                        version,
                    );
                }
                self.progress[thread].advance(Some(value));
                return self.finish_event(thread, Some(value));
            }
            Stage::Idle => {
                if self.locks(how) {
                    cells().for_each(|cell| _ = self.locked.insert(cell, thread));
                }
                let loaded: Vec<u64> = cells().map(|cell| self.version(cell)).collect();
                if self.method == Method::Stride {
                    self.store_versions(address, bytes, &loaded);
                    Stage::Versioned(loaded)
                } else {
                    Stage::Loaded(loaded)
                }
            }
            Stage::Loaded(loaded) => {
                self.store_versions(address, bytes, &loaded);
                Stage::Versioned(loaded)
            }
            Stage::Versioned(loaded) => {
                let before = self.memory.load(address, bytes);
                let read = crate::machine::access(&mut self.memory, &self.progress[thread], address, bytes, how);
                let written = self.memory.load(address, bytes);
                for ((part, length), loaded) in parts(address, bytes).zip(loaded) {
                    let shift = 8 * (part - address);
                    if how == Reach::Both {
                        self.log_access(thread, Kind::Read, (part, length), before >> shift, loaded);
                    }
                    self.log_access(thread, Kind::Write, (part, length), written >> shift, loaded + 1);
                }
                if self.locks(how) {
                    cells().for_each(|cell| _ = self.locked.remove(&cell));
                }
                self.progress[thread].advance(read);
                return self.finish_event(thread, read);
            }
            Stage::Uncounted => unreachable!("counting comes first"),
        };
    }

    fn store_versions(&mut self, address: u64, bytes: u64, loaded: &[u64]) {
        for ((part, _), loaded) in parts(address, bytes).zip(loaded) {
            self.versions.insert(cell(part), loaded + 1);
        }
    }

    fn log_access(&mut self, thread: usize, kind: Kind, (object, length): (u64, u64), value: u128, version: u64) {
        let extent = Extent {
            bytes: length as u8,
            unknown: false,
        };
        let record = Record {
            kind,
            access: extent.pack(),
            object,
            value: extent.signed(value as u64),
            version,
            sources: Points::NONE,
            ..Record::default()
        };
        self.recorder.log(thread, record);
    }

    fn finish(self, fault: Fault) -> Recording {
        let threads = self.recorder.threads;
        let mut files: Vec<Vec<u8>> = threads
            .iter()
            .enumerate()
            .map(|(index, thread)| encode_log(ThreadIndex(index as u32), &thread.records))
            .collect();
        if let Fault::Cut { thread, bytes } = fault {
            let file = &mut files[thread as usize];
            file.truncate(file.len() - (bytes as usize).min(file.len() - log_format::HEADER_BYTES));
        }
        Recording {
            method: self.method,
            files,
            counts: threads.iter().map(|t| t.count).collect(),
            reads: self.reads,
        }
    }
}
