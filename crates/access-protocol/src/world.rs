//! What surrounds the protocol: shared words, and who threads are.
use crate::Recorder;
use crate::recorders::leap::Element;
use log_format::RecordRef;
use machine::Machine;
use machine::Word;
use run_model::SiteId;

/// A machine, and on it a process whose accesses are recorded. Words are the same ones however often they are asked for.
pub trait World: Machine + 'static {
    type Slot: Slot<Self> + 'static;
    /// Words on which nothing depends but speed.
    type Hint: Word<Value = u32> + 'static;
    type Log: Log<Self>;

    /// The word of the 64-byte chunk of `address`.
    fn chunk_word(self, address: u64) -> &'static Self::U64;
    /// The word of the 8-byte cell of `address`.
    fn cell_word(self, address: u64) -> &'static Self::U64;
    /// The word of a synchronisation object.
    fn ghost_word(self, object: u64) -> &'static Self::U64;
    /// Are all chunks of a range `mine`, or shared in an epoch of 1..=`seen`?
    fn all_allowed(self, start: u64, end: u64, mine: u64, seen: u64) -> bool;

    /// May changes of hands in the page of `address` have no record? A word of its own, which only ever is set.
    fn hides(self, address: u64) -> bool;
    fn set_hiding(self, address: u64);

    fn slot(self, thread: u32) -> &'static Self::Slot;
    /// How many slots are in use, or were.
    fn threads(self) -> u32;
    /// The newest epoch.
    fn epoch(self) -> &'static Self::U64;
    /// Held while an epoch is created, so that logs and epoch numbers agree.
    fn epoch_lock(self) -> &'static Self::U32;
    /// Of a thread: where its generations ended, by their numbers modulo the length (`generations::KEPT`).
    fn generation_ends(self, thread: u32) -> &'static [Self::U64];
    /// Twice how many fence points a thread has passed, and one more while it rests (`fences.rs`). It only ever grows, and is in a
    /// line of the cache of its own.
    fn passed(self, thread: u32) -> &'static Self::U64;
    /// Method leap: its shared program elements.
    fn elements(self) -> &'static [Element<Self>]
    where
        Self: Sized;

    /// Method coop: is the order of accesses to this shared program element recorded?
    fn chooses(self, element: u32) -> bool {
        let _ = element;
        true
    }

    fn hints(self, of: Hints) -> &'static [Self::Hint];
    fn tuning(self) -> Tuning;

    /// How accesses are recorded.
    fn recorder(self) -> Recorder;
    /// Does every access come to the recorder?
    #[inline(always)]
    fn sees_every_access(self) -> bool {
        self.recorder().sees_every_access()
    }
    /// Are orders recorded that other records already imply?
    fn repeats_orders(self) -> bool;
    /// Are plain accesses observed, or atomics alone?
    fn observes_memory(self) -> bool;
    /// Where atomics alone are observed: may cells be shared among readers?
    fn shares_cells(self) -> bool;
    /// Must a lock bit that is held be the remains of a thread that a fork left behind?
    fn is_alone(self) -> bool;
    /// Is this thread one of the process that this one was forked from?
    fn was_left_behind(self, thread: u32) -> bool;
    /// Where in the source the thread of this slot is.
    fn site(self, slot: &Self::Slot) -> SiteId;
    /// The thread has completed events: somebody may sleep until then.
    fn completed(self, slot: &Self::Slot, count: u64);
    /// Somebody has looked `rounds` times in vain for what another thread is about to do.
    fn rest(self, rounds: u32);

    /// Tests only: is this mistake to be made? The runtime makes none, and the code for them is not compiled into it.
    #[inline(always)]
    fn makes(self, _: Mistake) -> bool {
        false
    }
}

/// One thread's shared side.
pub trait Slot<M: Machine> {
    type Hint: Word<Value = u32>;

    /// Events completed.
    fn count(&self) -> &M::U64;
    /// The chunk word that says "this thread alone", with its generation.
    fn exclusive(&self) -> &M::U64;
    /// Chunk words 1..=seen are epochs whose chunks this thread may read.
    fn seen(&self) -> &M::U64;
    /// 1 between a check of chunk words and the last access that relies on it.
    fn window(&self) -> &M::U32;
    /// One of `runtime_abi::thread_state`.
    fn state(&self) -> &M::U32;
    /// How much the thread may spend on new generations.
    fn credit(&self) -> &Self::Hint;
}

/// One thread's log.
pub trait Log<W: World> {
    fn append(&self, slot: &W::Slot, record: &RecordRef<'_>);
}

/// The values that an access moved: methods that record values need them, and checks of a replay.
pub trait Values {
    /// What was read, condensed to 1..=64: enough to notice another value. 0: nobody knows, or it was not one number.
    fn check(&self) -> i64;
    /// Up to 8 of the bytes that were read, from `offset` on, as a number; nothing if nobody knows them.
    fn read(&self, offset: u64, bytes: u64) -> Option<u64>;
    /// The same of those that are written.
    fn written(&self, offset: u64, bytes: u64) -> Option<u64>;
}

/// Tables of hints. Their lengths are powers of two; entries are found by a hash, and collisions do no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    /// Per chunk: when it last moved, and how often in quick succession (8 bits).
    ChunkMoves,
    /// Per page of chunks, the same.
    PageMoves,
    /// Per chunk: who was seen using it, and how often in a row (8 bits).
    Streaks,
    /// Per page of chunks: for how many more moves to believe that several threads read it at a time.
    ReadBySeveral,
    /// Per chunk: for how many more reads to believe that each is followed by a write.
    Migratory,
    /// Per cell, where atomics alone are observed: how often it passed from reader to reader, and how often it was shared in vain (8 bits).
    CellReaders,
}

/// Numbers on which nothing depends but speed.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// A chunk that has changed hands this often in quick succession is split into contended cells.
    pub chunk_moves_before_split: u32,
    /// Once there were this many repeated moves in a page, its chunks are split together when the next one moves.
    pub page_moves_before_split: u32,
    /// Neighbouring chunks taken along, so that the barrier is paid once: when sharing, when a sequence of writes goes
    /// on, and when sharing what belongs to a thread that is blocked or gone.
    pub ahead_shared: u64,
    pub ahead_written: u64,
    pub ahead_idle: u64,
    /// Moves are in quick succession if they are less than this apart, in units of 2^20 ticks.
    pub quick: u32,
    /// A split chunk may be made whole again when it has not moved for longer than this, in the same units.
    pub quiet: u32,
    /// A split chunk is made whole again when one thread alone was seen using it this many times.
    pub streak: u32,
    /// Every how many events to look whether a split chunk should be whole again.
    pub look_every: u64,
    /// Moves of a page's chunks for reading that are believed to be for several readers, after one that was.
    pub readings: u32,
    /// Reads of a chunk that are believed to be followed by writes, after it was written while shared (NOTE [Migratory chunks]).
    pub migrations: u32,
    /// Where atomics alone are observed, a cell that has passed so often from reader to reader is shared; 0: none is (NOTE [Shared cells]).
    pub passes_before_share: u32,
    /// How often to look whether a generation ends before looking for a fence point.
    pub patience: u32,
    /// How often to look for a fence point before paying for a barrier, at least and at most; 0: there are no fence points.
    pub looks_min: u32,
    pub looks_max: u32,
    /// What the barrier costs, in chunks made one's own again (NOTE [Credit]).
    pub credit_for_barrier: u32,
    /// Takes without a barrier between two gifts of credit: the gift is a write to the owner's memory.
    pub takes_per_credit: u32,
    /// What a generation costs by itself.
    pub generation_cost: u32,
}

impl Tuning {
    /// What was measured to be good.
    pub const MEASURED: Tuning = Tuning {
        chunk_moves_before_split: 3,
        page_moves_before_split: 6,
        ahead_shared: 16,
        ahead_written: 8,
        ahead_idle: 64,
        // About half a millisecond apart.
        quick: 6,
        quiet: 4 * 6,
        streak: 6,
        look_every: 8,
        readings: 16,
        migrations: 32,
        passes_before_share: 32,
        // As good as none. 48 looks cost radiosity a quarter of its time: whoever releases something passes a fence there, too, for which
        // the taker looks anyway.
        patience: 2,
        // From a tenth of a microsecond to a few.
        looks_min: 4,
        looks_max: 192,
        // With 32, and 4 for a take that needed no barrier, radiosity took 29 % less time and barnes_hut 37 % more (one turn each).
        credit_for_barrier: 1024,
        takes_per_credit: 8,
        generation_cost: 8,
    };
}

/// Mistakes that tests plant, to see that they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A window is closed before its last access.
    WindowClosedEarly,
    /// Whoever takes a chunk from its owner does not make everyone pass a fence.
    NoBarrier,
    /// The new chunk word is there before the acquisition is recorded and counted.
    WordBeforeRecord,
    /// A generation is said to have ended earlier than it did.
    WrongGenerationEnd,
    /// So is that of a newer one, of a chunk that was taken along.
    WrongEndOfNeighbour,
    /// A fence point that was passed before the chunk was marked is taken for one after it.
    FencePointBeforeMark,
    /// A fence point is counted by a plain store, without a locked instruction behind it.
    FencePointWithoutFence,
    /// A fence point is counted behind its locked instruction.
    FencePointBehindFence,
    /// So is the end of a rest.
    RestWithoutFence,
    /// So is the newest epoch that a thread has seen.
    SeenWithoutFence,
    /// A cell is shared, and nothing says that its chain of runs ends there.
    ChainGoesOn,
}
