//! What one thread writes into its log.
use crate::Points;
use crate::SiteId;

/// Cells are marked page by page as ones whose changes of hands may have no record (`Access::AFTER_HIDDEN`).
pub const HIDING_PAGE_BYTES: u64 = 4096;

/// More sources than this are spread over several records of the same event.
pub const MAX_SOURCES: usize = 8;

/// "Before my event `event`, all `sources` had been reached" and, depending on `kind`, a little more.
///
/// Records of a thread come in the order of their `event`; several may share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub event: u64,
    pub kind: Kind,
    /// The operation of a `Sync` record; `Op::None` otherwise.
    pub op: Op,
    /// How this thread's run begins and how the previous one ended, in `Run` records; in `Read` and `Write` records, an
    /// `Extent`.
    pub access: Access,
    /// Address of the memory or of the synchronisation object.
    pub object: u64,
    pub site: SiteId,
    /// Result of the operation, number of the epoch, or index of the new thread.
    pub value: i64,
    pub sources: Points,
    /// Of the accessed cell; in `Read` and `Write` records.
    pub version: u64,
}

// Logs are held in memory, all of them: this is what a record costs.
const _: () = assert!(size_of::<Record>() == 56);

impl Record {
    /// Does it say that changes of hands in its page may have no record, or that cells there began new lives?
    pub fn hides(&self) -> bool {
        match self.kind {
            Kind::Run => self.access.after_hidden(),
            Kind::Take => self.value != 0,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The 64-byte chunk at `object` became mine alone; `sources` are all who had used it and may have gone on to.
    /// `value` 1: it was split into cells before, whose runs end here.
    #[default]
    Take = 1,
    /// The chunk at `object` became readable by all. Creates epoch `value`; epochs are created in their numbers' order.
    Share = 2,
    /// From now on I read what was shared in epochs up to `value`: an edge from the creator of epoch `value`.
    Seen = 3,
    /// The contended 8-byte cell at `object` changed hands; the single source is the last access of its previous
    /// user. What the order of two runs must be depends on `access`: only flow dependences bind (Light, §3).
    Run = 4,
    /// A synchronisation operation `op` on `object` with result `value`.
    Sync = 5,
    /// I created thread `value`.
    Spawn = 6,
    /// First event of a thread; the source is its creator's `Spawn`.
    Start = 7,
    /// Last event of a thread. Creates epoch `value`, so that one `Seen` orders whatever comes after all ended threads.
    Exit = 8,
    /// Method leap: my run of accesses to the shared program element `object` begins. The source is the last access of the
    /// run before, which had `value` accesses; the element's first run has none. All runs together are its access vector.
    Vector = 9,
    /// Methods stride and oreo: I read `value` at `object`; `version` is the newest that the read may have seen.
    Read = 10,
    /// Methods stride and oreo: I wrote `value` at `object`, which made it `version` of its cell.
    Write = 11,
}

impl Kind {
    pub const ALL: [Kind; 11] = [
        Kind::Take,
        Kind::Share,
        Kind::Seen,
        Kind::Run,
        Kind::Sync,
        Kind::Spawn,
        Kind::Start,
        Kind::Exit,
        Kind::Vector,
        Kind::Read,
        Kind::Write,
    ];

    /// Is it an access with its value and version?
    pub fn is_versioned(self) -> bool {
        matches!(self, Kind::Read | Kind::Write)
    }

    pub fn from_u8(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| *k as u8 == byte)
    }
}

/// Synchronisation operations, as replay has to tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    #[default]
    None = 0,
    MutexLock = 1,
    MutexTryLock = 2,
    MutexUnlock = 3,
    MutexTimedLock = 4,
    RwReadLock = 5,
    RwWriteLock = 6,
    RwTryReadLock = 7,
    RwTryWriteLock = 8,
    RwUnlock = 9,
    SpinLock = 10,
    SpinTryLock = 11,
    SpinUnlock = 12,
    /// The half of a wait that releases the mutex.
    CondRelease = 13,
    /// The half of a wait that holds it again: sources are the waking signal and the mutex's last holder.
    CondWake = 14,
    CondSignal = 15,
    CondBroadcast = 16,
    BarrierArrive = 17,
    BarrierLeave = 18,
    SemPost = 19,
    SemWait = 20,
    SemTryWait = 21,
    SemTimedWait = 22,
    OnceBegin = 23,
    OnceEnd = 24,
    OnceReturn = 25,
    Join = 26,
    Cancel = 27,
    Cancelled = 28,
    /// The allocator exchanged blocks with the pool all threads share.
    HeapPool = 29,
    /// Output through a descriptor or a stdio stream.
    Output = 30,
    GuardAcquire = 31,
    GuardRelease = 32,
    FutexWait = 33,
    FutexWake = 34,
    /// A call whose result is not a function of the program (clock, input); only its `value` matters.
    Input = 35,
    RwTimedReadLock = 36,
    RwTimedWriteLock = 37,
    /// A parallel region, worksharing construct or lock of the OpenMP runtime.
    OpenMp = 38,
    /// A mutex, read-write lock, spin lock or semaphore is initialised.
    Init = 39,
    /// A mutex is destroyed.
    Destroy = 40,
    /// A lock of a stdio stream, held across calls (`flockfile`).
    StreamLock = 41,
    StreamUnlock = 42,
    /// A system call; its number is the object. Not in logs: inputs have a file of their own.
    Call = 43,
    /// The allocator found that a block was free already; `value` is 1 if the same thread had freed it, 2 if another one.
    FreeTwice = 44,
    /// An atomic access by a function of a library's. Not in logs: it has a place among the inputs.
    Atomic = 45,
    /// The same, if it may fail.
    CompareExchange = 46,
    /// One thread at a time: the thread goes on. Not in logs: it has a place among the inputs.
    Resume = 47,
    /// Recorded for a hybrid schedule: a call on state of the process's own, such as a pipe, is about to be made. `value` is one more than its number.
    CallIssue = 48,
    /// A part of such a call is done, which gives out more than fits at once; `value` is how many bytes.
    CallPart = 49,
    /// Such a call is done, and `value` is its result.
    CallReturn = 50,
}

impl Op {
    pub const LAST: u8 = Op::CallReturn as u8;

    /// May another thread go on because of this?
    pub fn releases(self) -> bool {
        use Op::*;
        !matches!(
            self,
            None | MutexLock
                | MutexTryLock
                | MutexTimedLock
                | RwReadLock
                | RwWriteLock
                | RwTryReadLock
                | RwTryWriteLock
                | RwTimedReadLock
                | RwTimedWriteLock
                | SpinLock
                | SpinTryLock
                | CondWake
                | BarrierLeave
                | SemWait
                | SemTryWait
                | SemTimedWait
                | OnceBegin
                | OnceReturn
                | Join
                | Cancelled
                | GuardAcquire
                | FutexWait
                | Input
                | StreamLock
                | Call
                | FreeTwice
        )
    }

    /// Is a success of it nothing but its place in the order? What others have to say besides is looked up in their gates before their turn comes.
    pub fn is_only_ordered(self) -> bool {
        use Op::*;
        matches!(
            self,
            MutexLock
                | MutexTryLock
                | MutexUnlock
                | MutexTimedLock
                | RwReadLock
                | RwWriteLock
                | RwTryReadLock
                | RwTryWriteLock
                | RwUnlock
                | RwTimedReadLock
                | RwTimedWriteLock
                | SpinLock
                | SpinTryLock
                | SpinUnlock
                | CondSignal
                | CondBroadcast
                | SemPost
                | SemWait
                | SemTryWait
                | SemTimedWait
                | HeapPool
        )
    }

    /// Is it an operation whose place among others on its object is in an access vector?
    pub fn is_in_vectors(self) -> bool {
        use Op::*;
        self.is_only_ordered() && self != HeapPool
            || matches!(
                self,
                CondRelease | CondWake | BarrierArrive | RwTimedReadLock | RwTimedWriteLock
            )
    }

    pub fn from_u8(byte: u8) -> Option<Op> {
        use Op::*;
        const ALL: [Op; Op::LAST as usize + 1] = [
            None,
            MutexLock,
            MutexTryLock,
            MutexUnlock,
            MutexTimedLock,
            RwReadLock,
            RwWriteLock,
            RwTryReadLock,
            RwTryWriteLock,
            RwUnlock,
            SpinLock,
            SpinTryLock,
            SpinUnlock,
            CondRelease,
            CondWake,
            CondSignal,
            CondBroadcast,
            BarrierArrive,
            BarrierLeave,
            SemPost,
            SemWait,
            SemTryWait,
            SemTimedWait,
            OnceBegin,
            OnceEnd,
            OnceReturn,
            Join,
            Cancel,
            Cancelled,
            HeapPool,
            Output,
            GuardAcquire,
            GuardRelease,
            FutexWait,
            FutexWake,
            Input,
            RwTimedReadLock,
            RwTimedWriteLock,
            OpenMp,
            Init,
            Destroy,
            StreamLock,
            StreamUnlock,
            Call,
            FreeTwice,
            Atomic,
            CompareExchange,
            Resume,
            CallIssue,
            CallPart,
            CallReturn,
        ];
        ALL.get(byte as usize).copied()
    }
}

/// How a run of one thread on one contended cell begins, and what the previous run was.
///
/// A *run* is a maximal sequence of accesses by one thread with no access by another between (Light, lemma 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access(pub u8);

impl Access {
    /// My first access reads the cell (or writes only part of it): a flow dependence on the last write before.
    pub const READS: u8 = 1;
    /// My first access writes the cell.
    pub const WRITES: u8 = 2;
    /// The run before mine wrote the cell at least once.
    pub const PREVIOUS_WROTE: u8 = 4;
    /// The first access is one atomic read-modify-write.
    pub const ATOMIC: u8 = 8;
    /// From here on, changes of hands of cells in this page may have no record, if recorded synchronisation orders them
    /// already (lemma 4.2, found while running). Their runs are then not all known, so their records bind as they stand.
    pub const AFTER_HIDDEN: u8 = 16;

    pub fn reads(self) -> bool {
        self.0 & Access::READS != 0
    }
    pub fn writes(self) -> bool {
        self.0 & Access::WRITES != 0
    }
    pub fn previous_wrote(self) -> bool {
        self.0 & Access::PREVIOUS_WROTE != 0
    }
    pub fn after_hidden(self) -> bool {
        self.0 & Access::AFTER_HIDDEN != 0
    }
    /// A flow dependence on the run before: its order binds whatever the solver decides.
    pub fn flows(self) -> bool {
        self.reads() && self.previous_wrote()
    }
    /// Overwrites the whole cell without looking at it: no flow dependence, so no order with what came before.
    pub fn is_blind(self) -> bool {
        self.writes() && !self.reads()
    }
}

/// The bytes that a `Read` or `Write` record is about: from `object` on, within one 8-byte cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// 1 to 8.
    pub bytes: u8,
    /// Somebody else wrote them (the kernel, a library): `value` is not known.
    pub unknown: bool,
    /// Of a read: the cell had the same version before, and nobody was writing it by the rules of stride; so this is the
    /// version that was read. By those of oreo, a write that had begun before may have come in between. Of a write: it was
    /// done under the cell's lock.
    pub quiet: bool,
}

impl Extent {
    const BYTES: u8 = 15;
    const UNKNOWN: u8 = 16;
    const QUIET: u8 = 32;

    pub fn pack(self) -> Access {
        let unknown = if self.unknown { Extent::UNKNOWN } else { 0 };
        let quiet = if self.quiet { Extent::QUIET } else { 0 };
        Access(self.bytes | unknown | quiet)
    }

    /// `None` if there are no such extents at such an address.
    pub fn unpack(access: Access, object: u64) -> Option<Extent> {
        let bytes = access.0 & Extent::BYTES;
        let fits = bytes >= 1 && object % 8 + u64::from(bytes) <= 8;
        (fits && access.0 & !(Extent::BYTES | Extent::UNKNOWN | Extent::QUIET) == 0).then_some(Extent {
            bytes,
            unknown: access.0 & Extent::UNKNOWN != 0,
            quiet: access.0 & Extent::QUIET != 0,
        })
    }

    /// The least significant bytes of `value`, with their sign: so small numbers stay small in the log.
    pub fn signed(self, value: u64) -> i64 {
        let unused = 64 - 8 * u32::from(self.bytes);
        (value << unused) as i64 >> unused
    }
}
