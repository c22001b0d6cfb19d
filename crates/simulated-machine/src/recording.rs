//! Runs a program on the simulated machine, recorded by the access protocol itself.
use crate::compiled;
use crate::explore;
use crate::explore::Case;
use crate::explore::Ending;
use crate::explore::Word32;
use crate::explore::Word64;
use crate::memory::Memory;
use crate::memory::SharedMemory;
use crate::program::Instruction;
use crate::program::Program;
use crate::program::Progress;
use crate::world::MUTEXES;
use crate::world::MUTEXES_MAX;
use crate::world::Settings;
use crate::world::SimulatedLog;
use crate::world::Surroundings;
use crate::world::THREADS_MAX;
use access_protocol::Mistake;
use access_protocol::Reach;
use access_protocol::Recorder;
use access_protocol::Slot;
use access_protocol::Thread;
use access_protocol::Values;
use access_protocol::World;
use log_format::decode_prefix;
use log_format::encode_log;
use machine::Machine;
use machine::Word;
use run_model::Kind;
use run_model::Logs;
use run_model::Method;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use run_model::ThreadLog;
use runtime_abi::thread_state;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// After so many steps of all threads together, the process is gone.
    Killed {
        after: u64,
    },
    /// A thread does so many steps and no more, wherever it is; the others go on until nobody can, or `killed_after`.
    Stalled {
        thread: u32,
        steps: u64,
        killed_after: u64,
    },
    /// The log file of a thread loses its end.
    Cut {
        thread: u32,
        bytes: u64,
    },
}

/// What may differ between recordings of one method.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// A chunk that has changed hands more often is split into contended cells.
    pub moves_before_split: u32,
    /// Does a thread begin a generation when it releases something?
    pub generations: bool,
    /// A split chunk that one thread alone was seen using so many times is made whole again; 0: never.
    pub uses_before_merge: u32,
    /// Are neighbours taken along?
    pub takes_along: bool,
    /// How often whoever reads a chunk takes it for itself, once it was written while shared.
    pub migrations: u32,
    /// How often to look for fence points, at most; 0: there are none.
    pub looks: u32,
    /// Are locks recorded the quick way?
    pub quick_locks: bool,
    /// Are atomics alone observed, as at scope `sync`? Whoever holds a cell does its operation in plain steps, as Rust programs do.
    pub atomics_alone: bool,
    /// Then: are they recorded the quick way?
    pub quick_atomics: bool,
    /// And: how often a cell passes from reader to reader before it is shared; 0: none is.
    pub passes_before_share: u32,
}

impl Tuning {
    /// Nothing is split, merged or taken along.
    pub const PLAIN: Tuning = Tuning {
        moves_before_split: 100,
        generations: false,
        uses_before_merge: 0,
        takes_along: false,
        migrations: 0,
        looks: 0,
        quick_locks: false,
        atomics_alone: false,
        quick_atomics: false,
        passes_before_share: 0,
    };

    fn of_protocol(self) -> access_protocol::Tuning {
        let ahead = if self.takes_along { 4 } else { 1 };
        access_protocol::Tuning {
            chunk_moves_before_split: self.moves_before_split,
            page_moves_before_split: if self.takes_along { 2 } else { u32::MAX },
            ahead_shared: ahead,
            ahead_written: ahead,
            ahead_idle: ahead,
            // All moves are quick, and a few steps without one are quiet. Migratory are only chunks whose moves are not.
            quick: if self.migrations == 0 { 0x7f_ffff } else { 3 },
            quiet: if self.uses_before_merge == 0 { 0xff_ffff } else { 3 },
            streak: self.uses_before_merge,
            look_every: 1,
            readings: 1,
            migrations: self.migrations,
            passes_before_share: self.passes_before_share,
            patience: 2,
            looks_min: self.looks.min(1),
            looks_max: self.looks,
            credit_for_barrier: 1,
            takes_per_credit: 8,
            generation_cost: if self.generations { 0 } else { u32::MAX },
        }
    }
}

/// A run, and everything to compare a replay with.
#[derive(Clone, Debug, PartialEq, Eq)]
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
                ..ThreadLog::default()
            }
        };
        Logs {
            method: self.method,
            threads: self.files.iter().enumerate().map(decode).collect(),
        }
    }
}

/// Runs `program` with the interleaving that `seed` gives.
pub fn record(program: &Program, seed: u64, method: Method, tuning: Tuning, fault: Fault) -> Recording {
    let (stall, most) = match fault {
        Fault::Killed { after } => (None, after),
        Fault::Stalled {
            thread,
            steps,
            killed_after,
        } => (Some((thread as usize, steps as usize)), killed_after),
        Fault::None | Fault::Cut { .. } => (None, u64::MAX),
    };
    let found = Arc::new(Mutex::new(None));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let ending = explore::run_once(seed, most, stall, || {
        let found = found.clone();
        case(program, method, tuning, None, Part::Whole, move |_, recording| {
            *found.lock().expect("one thread at a time") = Some(recording);
            Ok(())
        })
    });
    let is_fine = ending.is_complete() || matches!(fault, Fault::Killed { .. } | Fault::Stalled { .. });
    assert!(is_fine, "seed {seed}: {ending:?}");
    let recording = found.lock().expect("one thread at a time").take();
    let mut recording = recording.expect("every execution ends");
    if let Fault::Cut { thread, bytes } = fault {
        let file = &mut recording.files[thread as usize];
        file.truncate(file.len() - (bytes as usize).min(file.len() - log_format::HEADER_BYTES));
    }
    recording
}

/// Which part of a program's run is explored.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// All of it, from the first thread's beginning to the last thread's end.
    Whole,
    /// Each of these threads in turn does its next instruction; all have been created before that. Only what they do then is
    /// explored, and the process ends when they have, with none of them ended.
    After(&'a [usize]),
}

/// An execution of `program` to explore; `check` gets its recording.
pub fn case(
    program: &Program,
    method: Method,
    tuning: Tuning,
    mistake: Option<Mistake>,
    part: Part<'_>,
    check: impl FnOnce(&Ending, Recording) -> Result<(), String> + 'static,
) -> Case {
    let count = program.threads.len();
    assert!(count <= THREADS_MAX, "{count} threads");
    Surroundings::begin(Settings {
        recorder: Recorder::of(method, true),
        tuning: tuning.of_protocol(),
        observes_memory: !tuning.atomics_alone,
        mistake,
        threads: count as u32,
    });
    let logs: Vec<SimulatedLog> = (0..count).map(|_| SimulatedLog::default()).collect();
    let reads = Arc::new(Mutex::new(vec![Vec::new(); count]));
    let mut bodies: Vec<Body> = (0..count)
        .map(|index| Body {
            thread: Thread::new(Surroundings, index as u32, logs[index].clone()),
            progress: Progress::new(index, program.values),
            quick_locks: tuning.quick_locks,
            atomics_alone: tuning.atomics_alone,
            quick_atomics: tuning.quick_atomics,
            reads: reads.clone(),
            instructions: program.threads[index].clone(),
        })
        .collect();
    let is_whole = matches!(part, Part::Whole);
    if let Part::After(first) = part {
        // Creators have smaller numbers than those whom they create, and do that first.
        for body in &mut bodies {
            body.start();
            while let Some(Instruction::Spawn { .. }) = body.progress.instruction(&body.instructions) {
                body.step();
            }
        }
        for thread in first {
            bodies[*thread].step();
        }
    }
    let mut case = Case::new();
    for mut body in bodies {
        case = case.thread(move || {
            if is_whole {
                body.start();
            }
            while body.step() {}
            if is_whole {
                body.exit();
            }
        });
    }
    case.check(move |ending| {
        let encode = |(index, log): (usize, &SimulatedLog)| {
            encode_log(ThreadIndex(index as u32), &log.0.lock().expect("one thread at a time"))
        };
        let recording = Recording {
            method,
            files: logs.iter().enumerate().map(encode).collect(),
            counts: (0..count).map(|thread| count_of(thread).load(Relaxed)).collect(),
            reads: reads.lock().expect("one thread at a time").clone(),
        };
        check(ending, recording)
    })
}

fn count_of(thread: usize) -> &'static Word64 {
    Surroundings.slot(thread as u32).count()
}

static MUTEX_WORDS: [Word32; MUTEXES_MAX] = [const { Word32::new(0) }; MUTEXES_MAX];
/// Of each thread: one more than what its creator will have completed.
static CREATED: [Word64; THREADS_MAX] = [const { Word64::new(0) }; THREADS_MAX];
/// And who that is.
static CREATORS: [Word32; THREADS_MAX] = [const { Word32::new(0) }; THREADS_MAX];

/// One thread of a program.
struct Body {
    thread: Thread<Surroundings>,
    progress: Progress,
    quick_locks: bool,
    atomics_alone: bool,
    quick_atomics: bool,
    reads: Arc<Mutex<Vec<Vec<Option<u128>>>>>,
    instructions: Vec<Instruction>,
}

/// What an access moved.
#[derive(Clone, Copy, Default)]
struct Seen {
    read: Option<u128>,
    written: Option<u128>,
}

fn piece(value: Option<u128>, offset: u64, bytes: u64) -> Option<u64> {
    value.map(|value| (value >> (8 * offset)) as u64 & (u64::MAX >> (64 - 8 * bytes)))
}

impl Values for Seen {
    /// Replays compare what was read themselves.
    fn check(&self) -> i64 {
        0
    }

    fn read(&self, offset: u64, bytes: u64) -> Option<u64> {
        piece(self.read, offset, bytes)
    }

    fn written(&self, offset: u64, bytes: u64) -> Option<u64> {
        piece(self.written, offset, bytes)
    }
}

impl Body {
    /// The next instruction. False: there is none.
    fn step(&mut self) -> bool {
        let Some(instruction) = self.progress.instruction(&self.instructions) else {
            return false;
        };
        let read = match reach(instruction) {
            Some((address, bytes, reach, is_atomic)) => self.access(address, bytes, reach, is_atomic),
            None => {
                self.synchronise(instruction);
                None
            }
        };
        self.progress.advance(read);
        true
    }

    fn exit(&self) {
        self.thread.create_epoch(Kind::Exit, 0, &[]);
        // Release: as in the runtime, its last access is visible to who sees its end.
        self.thread.slot.state().store(thread_state::EXITED, Release);
    }

    fn start(&self) {
        let me = self.thread.index as usize;
        let mut created = None;
        if me > 0 {
            wait_until(|| CREATED[me].load(Acquire) != 0);
            created = Some(Point {
                thread: ThreadIndex(CREATORS[me].load(Relaxed)),
                count: CREATED[me].load(Relaxed),
            });
        }
        self.thread.begin();
        self.thread.slot.state().store(thread_state::RUNNING, Release);
        self.thread.record(Kind::Start, Op::None, 0, 0, 0, created.as_slice());
        self.thread.complete();
    }

    /// What the current event reads.
    fn note(&self, read: Option<u128>) {
        let me = self.thread.index as usize;
        let event = Surroundings.completed_by(me) as usize;
        let reads = &mut self.reads.lock().expect("one thread at a time")[me];
        reads.resize(event + 1, None);
        reads[event] = read;
    }

    fn access(&self, address: u64, bytes: u64, reach: Reach, is_atomic: bool) -> Option<u128> {
        let value = self.progress.value();
        let written = match reach {
            Reach::Reads => None,
            _ => Some(value),
        };
        let access = || {
            let read = match (reach, is_atomic) {
                (Reach::Reads, false) => Some(SharedMemory::load(address, bytes)),
                (Reach::Reads, true) => Some(SharedMemory::atomic_load(address)),
                (Reach::Writes, false) => {
                    SharedMemory::store(address, bytes, value);
                    None
                }
                (Reach::Writes, true) => {
                    SharedMemory::atomic_store(address, value);
                    None
                }
                (Reach::Both, _) => Some(SharedMemory::atomic_add(address, value)),
            };
            self.note(read);
            read
        };
        let seen = |result: Option<&Option<u128>>| match reach {
            Reach::Both => Seen {
                read: result.copied().flatten(),
                written: result.copied().flatten().map(|old| old.wrapping_add(value)),
            },
            _ => Seen {
                read: result.copied().flatten(),
                written,
            },
        };
        if is_atomic {
            return match self.atomics_alone {
                true => {
                    let alone = || self.alone(address, bytes, reach, value);
                    if let Some(read) = self.in_own_run(address, reach, alone) {
                        return read;
                    }
                    self.thread.perform_atomic(address, bytes, reach, access, alone, seen)
                }
                false => self.thread.perform_atomic(address, bytes, reach, access, access, seen),
            };
        }
        match compiled::perform(&self.thread, address, bytes, reach.writes(), access) {
            Some(read) => read,
            None => self.thread.perform(address, bytes, reach, access, seen),
        }
    }

    /// An atomic operation the quick way, if that is open.
    fn in_own_run<R>(&self, address: u64, reach: Reach, alone: impl FnOnce() -> R) -> Option<R> {
        let word = Surroundings.cell_word(address);
        let result = self
            .quick_atomics
            .then(|| self.thread.perform_in_own_run(word, reach, alone))??;
        self.tell();
        Some(result)
    }

    /// The quick ways tell nobody, and which event a read belongs to is counted where threads tell.
    fn tell(&self) {
        Surroundings.completed(Surroundings.slot(self.thread.index), self.thread.event());
    }

    /// An atomic operation, for somebody who holds the cell: in plain steps.
    fn alone(&self, address: u64, bytes: u64, reach: Reach, value: u128) -> Option<u128> {
        let read = (reach != Reach::Writes).then(|| SharedMemory::load(address, bytes));
        if reach.writes() {
            SharedMemory::store(address, bytes, read.unwrap_or(0).wrapping_add(value));
        }
        self.note(read);
        read
    }

    /// Mutexes of odd numbers stand for what others may use meanwhile, too, such as read-write locks.
    fn touch(&self, op: Op, mutex: u64) {
        let (thread, object) = (&self.thread, object_of(mutex));
        match (mutex.is_multiple_of(2), self.quick_locks) {
            (true, true) => thread.touch_held_quickly(op, object),
            (true, false) => thread.touch_held(op, object, 0),
            (false, true) if thread.touch_quickly(op, object) => {}
            (false, _) => return thread.touch(op, object, 0),
        }
        self.tell();
    }

    fn synchronise(&self, instruction: Instruction) {
        let thread = &self.thread;
        match instruction {
            Instruction::Lock { mutex } => {
                let word = &MUTEX_WORDS[mutex as usize];
                let acquire = || word.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
                if !thread.passing_fence(acquire) {
                    thread.blocking(|| wait_until(acquire));
                }
                self.touch(Op::MutexLock, mutex);
            }
            Instruction::Unlock { mutex } => {
                thread.before_release();
                self.touch(Op::MutexUnlock, mutex);
                let word = &MUTEX_WORDS[mutex as usize];
                // Release, as a locked instruction: as libc does it.
                thread.passing_fence(|| match thread.world.makes(Mistake::FencePointWithoutFence) {
                    true => word.store(0, Release),
                    false => _ = word.swap(0, Release),
                });
            }
            Instruction::Spawn { thread: child } => {
                thread.before_release();
                thread.record(Kind::Spawn, Op::None, 0, 0, i64::from(child), &[]);
                CREATORS[child as usize].store(thread.index, Relaxed);
                // Release: the new thread sees all that its creator did.
                CREATED[child as usize].store(thread.point_after().count, Release);
                thread.complete();
            }
            Instruction::Join { thread: child } => {
                let slot = Surroundings.slot(child);
                let has_ended = || slot.state().load(Acquire) == thread_state::EXITED;
                thread.blocking(|| wait_until(has_ended));
                let end = Point {
                    thread: ThreadIndex(child),
                    count: slot.count().load(Acquire),
                };
                thread.record(Kind::Sync, Op::Join, 0, 0, i64::from(child), &[end]);
                thread.complete();
            }
            _ => unreachable!("{instruction:?} is an access or no event"),
        }
    }
}

fn object_of(mutex: u64) -> u64 {
    MUTEXES + mutex * 8
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        Surroundings.spin();
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

/// Does an access of a replay; returns what it read.
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

/// Is it an event of its own, which only gets a chunk for the access that follows?
pub(crate) fn is_acquisition(kind: Kind) -> bool {
    matches!(kind, Kind::Take | Kind::Share | Kind::Seen)
}
