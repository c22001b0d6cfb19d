//! Happens-before from synchronisation alone: vector clocks.
//!
//! Each thread counts its releases. A step's *epoch* is that count when it happened; a thread's clock says, for every
//! thread, up to which epoch it has learnt of it through a chain of releases and acquisitions (Djit+, without its
//! optimisations: we have the whole trace and no hurry). Plain accesses order nothing.
//!
//! Deviations from POSIX, all towards "ordered": a wait that was woken is after all signals so far; a semaphore's wait after
//! all posts so far; atomics are sequentially consistent, as they are when recorded.
use crate::timeline::Step;
use crate::trace::Access;
use crate::trace::What;
use run_model::Op;
use std::collections::BTreeMap;

/// How two steps of the run stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// One thread did both.
    Same,
    Synchronised,
    /// No synchronisation leads from one to the other.
    Unordered,
    /// The trace does not reach back far enough.
    Unknown,
}

type Clock = Vec<u32>;

/// No processor has larger ones.
const ATOMIC_BYTES_MAX: u64 = 16;

/// Which synchronisation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    All,
    /// Only what would order the two in every run that does the same: who takes a lock first, or updates an atomic first, is
    /// decided anew each time. (Locks of Rust's are atomics that are updated.)
    WithoutLocks,
}

#[derive(Debug)]
pub struct Clocks {
    /// What a thread knew, each time that changed.
    known: Vec<Clock>,
    at: Vec<Moment>,
}

/// A step: which of `known` held before it and after it learnt what it learns, and the thread's own epoch.
#[derive(Clone, Copy, Debug)]
struct Moment {
    before: u32,
    known: u32,
    epoch: u32,
}

impl Clocks {
    pub fn new(steps: &[Step], threads: usize, edges: Edges) -> Clocks {
        let mut walk = Walk::new(threads, edges);
        let at = steps.iter().map(|step| walk.step(step)).collect();
        Clocks { known: walk.known, at }
    }

    /// Is `earlier`, a step of `thread`, before `later`?
    pub fn is_before(&self, thread: u32, earlier: usize, later: usize) -> bool {
        self.known[self.at[later].known as usize][thread as usize] >= self.at[earlier].epoch
    }

    /// The same, whatever `later` itself learns.
    pub fn is_before_entry(&self, thread: u32, earlier: usize, later: usize) -> bool {
        self.known[self.at[later].before as usize][thread as usize] >= self.at[earlier].epoch
    }
}

/// A synchronisation object: what was released into it.
#[derive(Debug, Default)]
struct Object {
    released: Clock,
    /// Read-write locks: what readers released. Only writers learn of it.
    by_readers: Clock,
    rounds: Rounds,
}

/// A barrier: arrivals of the round that is open, and of those that are being left.
#[derive(Debug, Default)]
struct Rounds {
    arrived: Vec<Clock>,
    /// The first departure closes a round: whoever arrives then is in the next one.
    is_open: bool,
    round_of: BTreeMap<u32, usize>,
}

struct Walk {
    edges: Edges,
    clocks: Vec<Clock>,
    /// Index of each thread's clock in `known`, while it has not changed.
    kept: Vec<Option<u32>>,
    known: Vec<Clock>,
    objects: BTreeMap<u64, Object>,
    /// Atomics, by where they begin and end. Neighbours in one word have nothing to do with each other.
    atomics: BTreeMap<(u64, u64), Clock>,
    started: BTreeMap<u32, Clock>,
    /// The mutex that a waiting thread gave up.
    given_up: BTreeMap<u32, u64>,
    writing: BTreeMap<(u32, u64), ()>,
    /// Who took each lock last: if it dies holding it, its end is the release.
    owners: BTreeMap<u64, u32>,
}

impl Walk {
    fn new(threads: usize, edges: Edges) -> Walk {
        // Epochs begin at 1, and nobody knows anything of the others.
        let clock = |thread: usize| (0..threads).map(|t| u32::from(t == thread)).collect();
        Walk {
            edges,
            clocks: (0..threads).map(clock).collect(),
            kept: vec![None; threads],
            known: Vec::new(),
            objects: BTreeMap::new(),
            atomics: BTreeMap::new(),
            started: BTreeMap::new(),
            given_up: BTreeMap::new(),
            writing: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    /// What the thread knows now, as a place in `known`.
    fn keep(&mut self, thread: usize) -> u32 {
        *self.kept[thread].get_or_insert_with(|| {
            self.known.push(self.clocks[thread].clone());
            self.known.len() as u32 - 1
        })
    }

    /// The step's epoch is that after what it acquires, before what it releases.
    fn step(&mut self, step: &Step) -> Moment {
        let thread = step.thread as usize;
        let before = self.keep(thread);
        let releases = self.acquire(step);
        let known = self.keep(thread);
        let epoch = self.clocks[thread][thread];
        if releases {
            self.release(step);
            self.clocks[thread][thread] += 1;
        }
        Moment { before, known, epoch }
    }

    fn learn(&mut self, thread: usize, clock: &Clock) {
        if join(&mut self.clocks[thread], clock) {
            self.kept[thread] = None;
        }
    }

    /// The atomics that share bytes with the access.
    fn overlapping(&self, access: &Access) -> Vec<(u64, u64)> {
        let first = access.address.saturating_sub(ATOMIC_BYTES_MAX);
        let near = self.atomics.range((first, 0)..(access.end(), 0));
        near.map(|(atomic, _)| *atomic)
            .filter(|(_, end)| *end > access.address)
            .collect()
    }

    fn learn_object(&mut self, thread: usize, object: u64) {
        if let Some(clock) = self.objects.get(&object).map(|object| object.released.clone()) {
            self.learn(thread, &clock);
        }
    }

    /// Learns what the step learns; true if it also releases.
    fn acquire(&mut self, step: &Step) -> bool {
        let thread = step.thread as usize;
        match step.entry.what {
            What::Access(access) if access.atomic => {
                if access.reads && (self.edges == Edges::All || !access.writes) {
                    for atomic in self.overlapping(&access) {
                        let clock = self.atomics[&atomic].clone();
                        self.learn(thread, &clock);
                    }
                }
                writes(&access)
            }
            What::Sync {
                op,
                object,
                value,
                other,
            } => self.acquire_sync(step.thread, op, object, value, other),
            What::Spawn { .. } => true,
            What::Start => {
                if let Some(clock) = self.started.remove(&step.thread) {
                    self.learn(thread, &clock);
                }
                false
            }
            _ => false,
        }
    }

    fn acquire_sync(&mut self, thread: u32, op: Op, object: u64, value: i64, other: Option<u32>) -> bool {
        let index = thread as usize;
        match op {
            _ if takes(op) => {
                if !has_succeeded(value) || self.edges == Edges::WithoutLocks {
                    return false;
                }
                self.learn_object(index, object);
                let former = self.owners.insert(object, thread);
                if let Some(dead) = former.filter(|_| value == OWNER_DEAD) {
                    let clock = self.clocks[dead as usize].clone();
                    self.learn(index, &clock);
                }
                if takes_to_write(op) {
                    let readers = self.objects.get(&object).map(|object| object.by_readers.clone());
                    self.learn(index, &readers.unwrap_or_default());
                    self.writing.insert((thread, object), ());
                }
                false
            }
            Op::SemWait | Op::SemTryWait | Op::SemTimedWait | Op::FutexWait => {
                if value == 0 {
                    self.learn_object(index, object);
                }
                false
            }
            Op::CondWake => {
                if value == 0 {
                    self.learn_object(index, object);
                }
                if let Some(mutex) = self.given_up.remove(&thread)
                    && self.edges == Edges::All
                {
                    self.learn_object(index, mutex);
                }
                false
            }
            Op::BarrierLeave => {
                let rounds = &mut self.objects.entry(object).or_default().rounds;
                let round = rounds.round_of.get(&thread).copied();
                if round.is_some_and(|round| round + 1 == rounds.arrived.len()) {
                    rounds.is_open = false;
                }
                if let Some(clock) = round.map(|round| rounds.arrived[round].clone()) {
                    self.learn(index, &clock);
                }
                false
            }
            Op::OnceBegin | Op::OnceReturn | Op::Cancelled | Op::GuardAcquire => {
                self.learn_object(index, object);
                false
            }
            Op::Join => {
                if let Some(joined) = other.filter(|joined| value == 0 && (*joined as usize) < self.clocks.len()) {
                    let clock = self.clocks[joined as usize].clone();
                    self.learn(index, &clock);
                }
                false
            }
            Op::OpenMp => {
                self.learn_object(index, object);
                true
            }
            Op::MutexUnlock
            | Op::SpinUnlock
            | Op::StreamUnlock
            | Op::RwUnlock
            | Op::CondRelease
            | Op::CondSignal
            | Op::CondBroadcast
            | Op::BarrierArrive
            | Op::SemPost
            | Op::OnceEnd
            | Op::Cancel
            | Op::GuardRelease
            | Op::FutexWake => true,
            // Order the recorder keeps for itself (heap, output, inputs) is not the program's synchronisation.
            _ => false,
        }
    }

    fn release(&mut self, step: &Step) {
        let clock = self.clocks[step.thread as usize].clone();
        match step.entry.what {
            What::Access(access) => {
                // A store that does not look at what was there passes nothing of it on.
                if !access.reads {
                    for (start, end) in self.overlapping(&access) {
                        if access.address <= start && end <= access.end() {
                            self.atomics.remove(&(start, end));
                        }
                    }
                }
                let released = self.atomics.entry((access.address, access.end())).or_default();
                join(released, &clock);
            }
            What::Spawn { thread } => _ = self.started.insert(thread, clock),
            What::Sync { op, object, .. } => {
                let wrote = self.writing.remove(&(step.thread, object)).is_some();
                let target = self.objects.entry(object).or_default();
                match op {
                    Op::RwUnlock if !wrote => _ = join(&mut target.by_readers, &clock),
                    Op::BarrierArrive => {
                        let rounds = &mut target.rounds;
                        if !rounds.is_open {
                            rounds.arrived.push(Clock::new());
                            rounds.is_open = true;
                        }
                        let round = rounds.arrived.len() - 1;
                        join(&mut rounds.arrived[round], &clock);
                        rounds.round_of.insert(step.thread, round);
                    }
                    _ => _ = join(&mut target.released, &clock),
                }
                if op == Op::CondRelease {
                    self.given_up.insert(step.thread, object);
                }
            }
            _ => {}
        }
    }
}

/// Takes a lock, if it succeeds.
pub fn takes(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        MutexLock
            | MutexTryLock
            | MutexTimedLock
            | SpinLock
            | SpinTryLock
            | StreamLock
            | RwReadLock
            | RwTryReadLock
            | RwTimedReadLock
    ) || takes_to_write(op)
}

pub fn takes_to_write(op: Op) -> bool {
    use Op::*;
    matches!(op, RwWriteLock | RwTryWriteLock | RwTimedWriteLock)
}

pub fn gives_back(op: Op) -> bool {
    use Op::*;
    matches!(op, MutexUnlock | SpinUnlock | StreamUnlock | RwUnlock | CondRelease)
}

/// EOWNERDEAD: the lock is held, though its former owner died.
const OWNER_DEAD: i64 = 130;

pub fn has_succeeded(value: i64) -> bool {
    value == 0 || value == OWNER_DEAD
}

/// An atomic operation that left things as they were (a compare-exchange that failed, usually) is a read.
fn writes(access: &Access) -> bool {
    access.writes && !(access.reads && access.before.is_some() && access.before == access.value)
}

/// True if `to` learnt anything. A clock that is shorter knows nothing of the rest.
fn join(to: &mut Clock, from: &[u32]) -> bool {
    let mut changed = false;
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    for (to, from) in to.iter_mut().zip(from) {
        if *to < *from {
            *to = *from;
            changed = true;
        }
    }
    changed
}
