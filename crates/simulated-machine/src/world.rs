//! What surrounds the access protocol, on the simulated machine: words whose operations are steps.
use crate::explore::Hint32;
use crate::explore::Simulated;
use crate::explore::Word32;
use crate::explore::Word64;
use crate::memory::BASE;
use crate::memory::CELL_BYTES;
use crate::memory::CELLS_MAX;
use crate::memory::CHUNK_BYTES;
use access_protocol::Element;
use access_protocol::Hints;
use access_protocol::Log;
use access_protocol::Mistake;
use access_protocol::Recorder;
use access_protocol::Slot;
use access_protocol::Tuning;
use access_protocol::World;
use access_protocol::generations;
use log_format::RecordRef;
use machine::Machine;
use machine::Word;
use run_model::HIDING_PAGE_BYTES;
use run_model::Record;
use run_model::SiteId;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;

pub(crate) const THREADS_MAX: usize = 16;
/// Where mutexes are; no memory is there.
pub(crate) const MUTEXES: u64 = 0x5500_0000_0000;
pub(crate) const MUTEXES_MAX: usize = 8;
/// Chunks that have a word: all that a page, and what is taken along, can reach from those of the program.
const CHUNK_WORDS: usize = 1024;
const FIRST_CHUNK: u64 = BASE / CHUNK_BYTES - 128;
const PAGES: usize = 4;
/// Credit that never runs out.
const CREDIT: u32 = 1 << 20;

static CHUNKS: [Word64; CHUNK_WORDS] = [const { Word64::new(0) }; CHUNK_WORDS];
static CELLS: [Word64; CELLS_MAX] = [const { Word64::new(0) }; CELLS_MAX];
static GHOSTS: [Word64; MUTEXES_MAX] = [const { Word64::new(0) }; MUTEXES_MAX];
static HIDING: [Word32; PAGES] = [const { Word32::new(0) }; PAGES];
static EPOCH: Word64 = Word64::new(0);
static EPOCH_LOCK: Word32 = Word32::new(0);
static ENDS: [[Word64; generations::KEPT as usize]; THREADS_MAX] =
    [const { [const { Word64::new(0) }; generations::KEPT as usize] }; THREADS_MAX];
static PASSED: [Word64; THREADS_MAX] = [const { Word64::new(0) }; THREADS_MAX];
static ELEMENTS: [Element<Surroundings>; 512] = [const { Element::FREE }; 512];
static HINTS: [[Hint32; 64]; 6] = [const { [const { Hint32::new(0) }; 64] }; 6];
static SLOTS: [SimulatedSlot; THREADS_MAX] = [const { SimulatedSlot::new() }; THREADS_MAX];

/// What may differ between executions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) recorder: Recorder,
    pub(crate) tuning: Tuning,
    pub(crate) observes_memory: bool,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) threads: u32,
}

thread_local! {
    static SETTINGS: Cell<Option<Settings>> = const { Cell::new(None) };
    /// What each thread has completed, as it knows itself: asking costs no step.
    static COUNTS: Cell<[u64; THREADS_MAX]> = const { Cell::new([0; THREADS_MAX]) };
}

/// The simulated machine with a process on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings;

impl Surroundings {
    /// Before an execution.
    pub(crate) fn begin(settings: Settings) {
        SETTINGS.set(Some(settings));
        COUNTS.set([0; THREADS_MAX]);
    }

    fn settings(self) -> Settings {
        SETTINGS.get().expect("an execution has been begun")
    }

    /// Events that a thread has completed.
    pub(crate) fn completed_by(self, thread: usize) -> u64 {
        COUNTS.get()[thread]
    }
}

#[derive(Debug)]
pub(crate) struct SimulatedSlot {
    count: Word64,
    exclusive: Word64,
    seen: Word64,
    window: Word32,
    state: Word32,
    credit: Hint32,
}

impl SimulatedSlot {
    const fn new() -> SimulatedSlot {
        SimulatedSlot {
            count: Word64::new(0),
            exclusive: Word64::new(0),
            seen: Word64::new(0),
            window: Word32::new(0),
            state: Word32::new(0),
            credit: Hint32::new(CREDIT),
        }
    }
}

impl Slot<Surroundings> for SimulatedSlot {
    type Hint = Hint32;

    fn count(&self) -> &Word64 {
        &self.count
    }

    fn exclusive(&self) -> &Word64 {
        &self.exclusive
    }

    fn seen(&self) -> &Word64 {
        &self.seen
    }

    fn window(&self) -> &Word32 {
        &self.window
    }

    fn state(&self) -> &Word32 {
        &self.state
    }

    fn credit(&self) -> &Hint32 {
        &self.credit
    }
}

/// Appending is no step: nobody else looks at a thread's log while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedLog(pub(crate) Arc<Mutex<Vec<Record>>>);

impl Log<Surroundings> for SimulatedLog {
    fn append(&self, _: &SimulatedSlot, record: &RecordRef<'_>) {
        let record = Record {
            event: record.event,
            kind: record.kind,
            op: record.op,
            access: record.access,
            object: record.object,
            site: record.site,
            value: record.value,
            sources: record.sources.into(),
            version: record.version,
        };
        self.0.lock().expect("one thread at a time").push(record);
    }
}

impl Machine for Surroundings {
    type U32 = Word32;
    type U64 = Word64;

    fn fence(self) {
        Simulated.fence();
    }

    fn compiler_fence(self) {}

    fn barrier_everywhere(self) {
        Simulated.barrier_everywhere();
    }

    fn futex_wait(self, word: &Word32, value: u32, nanoseconds: u64) {
        Simulated.futex_wait(word, value, nanoseconds);
    }

    fn futex_wake_all(self, word: &Word32) {
        Simulated.futex_wake_all(word);
    }

    fn spin(self) {
        Simulated.spin();
    }

    fn yield_now(self) {
        Simulated.yield_now();
    }

    /// Heuristics count in units of 2^20: each step is one.
    fn ticks(self) -> u64 {
        Simulated.ticks() << 20
    }

    fn nanoseconds(self) -> u64 {
        Simulated.nanoseconds()
    }
}

fn hiding(address: u64) -> &'static Word32 {
    &HIDING[(address / HIDING_PAGE_BYTES - BASE / HIDING_PAGE_BYTES) as usize]
}

impl World for Surroundings {
    type Slot = SimulatedSlot;
    type Hint = Hint32;
    type Log = SimulatedLog;

    fn chunk_word(self, address: u64) -> &'static Word64 {
        &CHUNKS[(address / CHUNK_BYTES - FIRST_CHUNK) as usize]
    }

    fn cell_word(self, address: u64) -> &'static Word64 {
        &CELLS[((address - BASE) / CELL_BYTES) as usize]
    }

    fn ghost_word(self, object: u64) -> &'static Word64 {
        &GHOSTS[((object - MUTEXES) / CELL_BYTES) as usize]
    }

    fn all_allowed(self, start: u64, end: u64, mine: u64, seen: u64) -> bool {
        (start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).all(|chunk| {
            let word = self.chunk_word(chunk * CHUNK_BYTES).load(Relaxed);
            word == mine || word.wrapping_sub(1) < seen
        })
    }

    fn hides(self, address: u64) -> bool {
        hiding(address).load(Relaxed) != 0
    }

    fn set_hiding(self, address: u64) {
        hiding(address).store(1, Release);
    }

    fn slot(self, thread: u32) -> &'static SimulatedSlot {
        &SLOTS[thread as usize]
    }

    fn threads(self) -> u32 {
        self.settings().threads
    }

    fn epoch(self) -> &'static Word64 {
        &EPOCH
    }

    fn epoch_lock(self) -> &'static Word32 {
        &EPOCH_LOCK
    }

    fn generation_ends(self, thread: u32) -> &'static [Word64] {
        &ENDS[thread as usize]
    }

    fn passed(self, thread: u32) -> &'static Word64 {
        &PASSED[thread as usize]
    }

    fn elements(self) -> &'static [Element<Surroundings>] {
        &ELEMENTS
    }

    fn hints(self, of: Hints) -> &'static [Hint32] {
        &HINTS[of as usize]
    }

    fn tuning(self) -> Tuning {
        self.settings().tuning
    }

    fn recorder(self) -> Recorder {
        self.settings().recorder
    }

    /// Methods other than light have no part that leaves out what other records say.
    fn repeats_orders(self) -> bool {
        self.settings().recorder.sees_every_access()
    }

    fn observes_memory(self) -> bool {
        self.settings().observes_memory
    }

    fn shares_cells(self) -> bool {
        true
    }

    fn is_alone(self) -> bool {
        false
    }

    fn was_left_behind(self, _thread: u32) -> bool {
        false
    }

    /// A site for each thread and event, so that none is taken for another.
    fn site(self, slot: &SimulatedSlot) -> SiteId {
        let thread = SLOTS.iter().position(|other| std::ptr::eq(other, slot)).unwrap_or(0);
        SiteId(1 + thread as u32 * 100 + self.completed_by(thread) as u32 % 100)
    }

    fn completed(self, slot: &SimulatedSlot, count: u64) {
        if let Some(thread) = SLOTS.iter().position(|other| std::ptr::eq(other, slot)) {
            let mut counts = COUNTS.get();
            counts[thread] = count;
            COUNTS.set(counts);
        }
    }

    fn rest(self, _: u32) {
        Simulated.spin();
    }

    fn makes(self, mistake: Mistake) -> bool {
        self.settings().mistake == Some(mistake)
    }
}
