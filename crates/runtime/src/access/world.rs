//! The world of the access protocol, as it is: atomics at fixed addresses, slots in the control file, real barriers.
use crate::access::word_scan;
use crate::control;
use crate::control::VectorUse;
use crate::local::Local;
use crate::log::LogWriter;
use crate::policy;
use crate::sites;
use crate::sys;
use crate::this_machine::ThisMachine;
use crate::vectors;
use access_protocol::Element;
use access_protocol::Hints;
use access_protocol::Log;
use access_protocol::Recorder;
use access_protocol::Slot;
use access_protocol::Tuning;
use access_protocol::World;
use access_protocol::generations;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use log_format::RecordRef;
use run_model::HIDING_PAGE_BYTES;
use run_model::SiteId;
use runtime_abi::CELL_BYTES;
use runtime_abi::CELL_XOR;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::CHUNK_SHADOW;
use runtime_abi::GHOST_XOR;
use runtime_abi::THREADS_MAX;
use runtime_abi::ThreadSlot;
use runtime_abi::memory_map::HIDING_PAGES;
use runtime_abi::thread_state;
use turn_scheduler::gates;

static EPOCH_LOCK: AtomicU32 = AtomicU32::new(0);

/// The calling thread is the only one of a process that was just forked: who was about to create an epoch is not there.
pub fn free_epochs() {
    EPOCH_LOCK.store(0, Relaxed);
}

/// Apart from the threads' slots, which they write to all the time.
static ENDS: [[AtomicU64; generations::KEPT as usize]; THREADS_MAX] =
    [const { [const { AtomicU64::new(0) }; generations::KEPT as usize] }; THREADS_MAX];

static CHUNK_MOVES: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];
static PAGE_MOVES: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];
static STREAKS: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];
/// In a line of the cache of its own: others look at it again and again while they wait.
#[repr(align(64))]
struct Passed(AtomicU64);

/// Never reset, whoever gets the number of a thread that is gone.
static PASSED: [Passed; THREADS_MAX] = [const { Passed(AtomicU64::new(0)) }; THREADS_MAX];

/// Many: programs that pass memory on under locks do so with all their heap.
static MIGRATORY: [AtomicU32; 1 << 18] = [const { AtomicU32::new(0) }; 1 << 18];
static CELL_READERS: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];
static READ_BY_SEVERAL: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];

/// The word of the 8-byte cell of `address`.
#[inline(always)]
pub fn cell_word(address: u64) -> &'static AtomicU64 {
    let at = (address & !(CELL_BYTES - 1)) ^ CELL_XOR;
    // SAFETY: the cell shadow of all regions is reserved at startup; the XOR keeps 8-alignment.
    unsafe { &*(at as *const AtomicU64) }
}

/// One byte for each page of the program's memory: 1 if changes of hands of its cells may have no record.
fn hiding(address: u64) -> &'static AtomicU8 {
    // SAFETY: reserved at startup for all addresses, and all of it may be touched.
    unsafe { &*((HIDING_PAGES.start + address / HIDING_PAGE_BYTES) as *const AtomicU8) }
}

impl World for ThisMachine {
    type Slot = ThreadSlot;
    type Hint = AtomicU32;
    type Log = LogWriter;

    #[inline(always)]
    fn chunk_word(self, address: u64) -> &'static AtomicU64 {
        let at = CHUNK_SHADOW + (address / CHUNK_BYTES) * 8;
        // SAFETY: the whole chunk shadow is reserved at startup when memory is observed; words are 8-aligned.
        unsafe { &*(at as *const AtomicU64) }
    }

    #[inline(always)]
    fn cell_word(self, address: u64) -> &'static AtomicU64 {
        cell_word(address)
    }

    /// Like a cell word, in another shadow.
    #[inline(always)]
    fn ghost_word(self, object: u64) -> &'static AtomicU64 {
        cell_word(object ^ (CELL_XOR ^ GHOST_XOR))
    }

    #[inline(always)]
    fn all_allowed(self, start: u64, end: u64, mine: u64, seen: u64) -> bool {
        let count = end.div_ceil(CHUNK_BYTES).saturating_sub(start / CHUNK_BYTES);
        // SAFETY: the words of neighbouring chunks are neighbours, in a shadow that is reserved as a whole.
        let words = unsafe { core::slice::from_raw_parts(self.chunk_word(start), count as usize) };
        word_scan::all_allowed(words, mine, seen)
    }

    #[inline]
    fn hides(self, address: u64) -> bool {
        // Relaxed: whoever misses that it is set writes a record more.
        hiding(address).load(Relaxed) != 0
    }

    #[inline]
    fn set_hiding(self, address: u64) {
        // Release: the record that says so comes first.
        hiding(address).store(1, Release);
    }

    #[inline(always)]
    fn slot(self, thread: u32) -> &'static ThreadSlot {
        control::slot(thread)
    }

    #[inline]
    fn threads(self) -> u32 {
        // Acquire: a thread's slot is ready before its number is given out.
        control::header().progress.threads.load(Acquire)
    }

    #[inline]
    fn epoch(self) -> &'static AtomicU64 {
        &control::header().progress.epoch
    }

    #[inline]
    fn epoch_lock(self) -> &'static AtomicU32 {
        &EPOCH_LOCK
    }

    #[inline(always)]
    fn generation_ends(self, thread: u32) -> &'static [AtomicU64] {
        &ENDS[thread as usize]
    }

    #[inline(always)]
    fn passed(self, thread: u32) -> &'static AtomicU64 {
        &PASSED[thread as usize].0
    }

    #[inline(always)]
    fn elements(self) -> &'static [Element<ThisMachine>] {
        vectors::elements()
    }

    #[inline]
    fn chooses(self, element: u32) -> bool {
        let is_chosen = vectors::chooses(element);
        if !is_chosen && let Some(local) = Local::current() {
            local.chaos.at_unrecorded();
        }
        is_chosen
    }

    #[inline(always)]
    fn hints(self, of: Hints) -> &'static [AtomicU32] {
        match of {
            Hints::ChunkMoves => &CHUNK_MOVES,
            Hints::PageMoves => &PAGE_MOVES,
            Hints::Streaks => &STREAKS,
            Hints::ReadBySeveral => &READ_BY_SEVERAL,
            Hints::Migratory => &MIGRATORY,
            Hints::CellReaders => &CELL_READERS,
        }
    }

    #[inline(always)]
    fn tuning(self) -> Tuning {
        Tuning::MEASURED
    }

    #[inline(always)]
    fn recorder(self) -> Recorder {
        match policy::recorder() {
            policy::Recorder::Memory(recorder) => recorder,
            policy::Recorder::Inputs | policy::Recorder::Sync => Recorder::Runs,
        }
    }

    #[inline(always)]
    fn sees_every_access(self) -> bool {
        policy::sees_every_access()
    }

    #[inline(always)]
    fn repeats_orders(self) -> bool {
        control::repeats_orders()
    }

    #[inline(always)]
    fn observes_memory(self) -> bool {
        control::observes_memory()
    }

    /// Not where events are counted for a schedule to be learned, or some elements are left out: there each operation is a step by itself.
    #[inline]
    fn shares_cells(self) -> bool {
        !control::counts() && control::vector_use() == VectorUse::None
    }

    #[inline]
    fn is_alone(self) -> bool {
        control::is_alone()
    }

    #[cold]
    fn was_left_behind(self, thread: u32) -> bool {
        control::slot(thread).state.load(Relaxed) == thread_state::EXITED
    }

    #[inline]
    fn site(self, slot: &ThreadSlot) -> SiteId {
        sites::number(slot.site.load(Relaxed))
    }

    #[inline(always)]
    fn completed(self, slot: &ThreadSlot, count: u64) {
        let _ = count;
        gates::wake_sleepers(self, slot);
    }

    #[inline]
    fn rest(self, rounds: u32) {
        sys::rest(rounds);
    }
}

impl Slot<ThisMachine> for ThreadSlot {
    type Hint = AtomicU32;

    #[inline(always)]
    fn count(&self) -> &AtomicU64 {
        &self.count
    }

    #[inline(always)]
    fn exclusive(&self) -> &AtomicU64 {
        &self.exclusive
    }

    #[inline(always)]
    fn seen(&self) -> &AtomicU64 {
        &self.seen
    }

    #[inline(always)]
    fn window(&self) -> &AtomicU32 {
        &self.window
    }

    #[inline(always)]
    fn state(&self) -> &AtomicU32 {
        &self.state
    }

    #[inline(always)]
    fn credit(&self) -> &AtomicU32 {
        &self.credit
    }
}

impl Log<ThisMachine> for LogWriter {
    #[inline(always)]
    fn append(&self, slot: &ThreadSlot, record: &RecordRef<'_>) {
        LogWriter::append(self, slot, record);
    }
}
