//! A thread's private side: what it has completed, what its records already say.
use crate::Log;
use crate::Owned;
use crate::Slot;
use crate::World;
use crate::batch::Batch;
use crate::fences::Patience;
use crate::moves::Ahead;
use crate::moves::MoveTime;
use crate::recorders::leap::HeldElements;
use crate::recorders::loops::LoopCells;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use log_format::RecordRef;
use machine::Word;
use run_model::Access;
use run_model::Extent;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::thread_state;

/// Threads whose points are remembered, by their index modulo this.
const KNOWN: usize = 64;

/// What belongs to one thread. It is used by that thread alone, through shared references: a signal handler may use it
/// while it is in use.
///
/// In this order, because what an uncontended access needs is together in one line of the cache.
#[repr(C, align(64))]
pub struct Thread<W: World> {
    pub slot: &'static W::Slot,
    pub index: u32,
    /// Recording access vectors: the shared program element of the access under way; 0: its code does not say.
    pub element: Cell<u32>,
    /// Chunks taken without a barrier.
    pub(crate) takes: Cell<u32>,
    /// Chunks of earlier generations of this thread that it went on using in the current one.
    pub(crate) made_own_again: Cell<u32>,
    /// What the current generation cost at its beginning: the price expected of the next one.
    pub(crate) generation_cost: Cell<u32>,
    /// Recording by oreo: since the last fence.
    pub(crate) has_relaxed_writes: Cell<bool>,
    pub world: W,
    pub(crate) ahead: Ahead,
    pub(crate) move_time: MoveTime<W>,
    pub log: W::Log,
    /// For some threads: a point that recorded orders put before our next event.
    known: [Cell<Point>; KNOWN],
    pub(crate) batch: Batch,
    pub(crate) loop_cells: LoopCells,
    pub(crate) held_elements: HeldElements,
    pub(crate) patience: Patience,
}

impl<W: World> Thread<W> {
    pub fn new(world: W, index: u32, log: W::Log) -> Thread<W> {
        Thread {
            world,
            slot: world.slot(index),
            index,
            log,
            element: Cell::new(0),
            has_relaxed_writes: Cell::new(false),
            held_elements: HeldElements::new(),
            known: [const { Cell::new(NOTHING) }; KNOWN],
            ahead: Ahead::new(),
            takes: Cell::new(0),
            made_own_again: Cell::new(0),
            generation_cost: Cell::new(world.tuning().generation_cost),
            batch: Batch::new(),
            move_time: MoveTime::new(world),
            patience: Patience::new(world),
            loop_cells: LoopCells::new(),
        }
    }

    /// The thread begins to record.
    pub fn begin(&self) {
        // Relaxed: nobody knows of the thread yet.
        self.slot.exclusive().store(Owned::first(self.index).word(), Relaxed);
    }

    /// Index of the event about to happen.
    #[inline]
    pub fn event(&self) -> u64 {
        // Relaxed: only this thread writes it.
        self.slot.count().load(Relaxed)
    }

    /// The event about to happen, once it has happened.
    #[inline]
    pub fn point_after(&self) -> Point {
        Point {
            thread: ThreadIndex(self.index),
            count: self.event() + 1,
        }
    }

    /// What the thread has completed.
    #[inline]
    pub fn point(&self) -> Point {
        Point {
            thread: ThreadIndex(self.index),
            count: self.event(),
        }
    }

    /// The current event is complete.
    #[inline]
    pub fn complete(&self) {
        self.complete_many(1);
    }

    #[inline]
    pub fn complete_many(&self, events: u64) {
        let count = self.event() + events;
        // Release: whoever waits for this count sees what the events did.
        self.slot.count().store(count, Release);
        self.world.completed(self.slot, count);
    }

    /// Runs `call`, which may block. Meanwhile chunks can be taken from this thread without a barrier.
    #[inline]
    pub fn blocking<R>(&self, call: impl FnOnce() -> R) -> R {
        // SeqCst, as locked instructions: whoever finds us blocked after marking a chunk as moving knows that we see
        // the mark when we come back (README.md).
        self.slot.state().swap(thread_state::BLOCKED, SeqCst);
        let result = call();
        self.slot.state().swap(thread_state::RUNNING, SeqCst);
        result
    }

    /// Inside of `blocking`: does `action`, which may have events.
    pub fn between_blocks<R>(&self, action: impl FnOnce() -> R) -> R {
        self.slot.state().swap(thread_state::RUNNING, SeqCst);
        let result = action();
        self.slot.state().swap(thread_state::BLOCKED, SeqCst);
        result
    }

    /// Does a record of ours, or several, already say that `point` comes before our current event?
    ///
    /// No transitivity over other threads: a "no" costs a record, never the truth.
    #[inline]
    pub fn knows(&self, point: Point) -> bool {
        if self.world.repeats_orders() {
            return false;
        }
        let known = self.known[point.thread.0 as usize % KNOWN].get();
        known.thread == point.thread && known.count >= point.count
    }

    #[inline]
    fn learn(&self, point: Point) {
        let place = &self.known[point.thread.0 as usize % KNOWN];
        let known = place.get();
        if known.thread != point.thread || known.count < point.count {
            place.set(point);
        }
    }

    /// An acquisition (`Take`, `Share`, `Seen`, `Exit`): an event of its own, complete before anybody can see what it
    /// acquired. Whoever takes it from us in turn is so ordered after everything we were ordered after.
    pub fn acquisition(&self, kind: Kind, object: u64, value: i64, sources: &[Point]) {
        self.record(kind, Op::None, 0, object, value, sources);
        self.complete();
    }

    /// Logs one record for the current event.
    pub fn record(&self, kind: Kind, op: Op, access: u8, object: u64, value: i64, sources: &[Point]) {
        assert!(sources.len() <= run_model::MAX_SOURCES);
        let record = RecordRef {
            event: self.event(),
            kind,
            op,
            access: Access(access),
            object,
            site: self.world.site(self.slot),
            value,
            sources,
            version: 0,
        };
        self.log.append(self.slot, &record);
        // The order of two runs binds only where there is a flow dependence; all other records bind as they stand.
        if kind != Kind::Run || Access(access).flows() {
            for point in sources {
                self.learn(*point);
            }
        }
    }

    /// Logs an access of the current event with its value and version.
    pub fn record_access(&self, kind: Kind, object: u64, extent: Extent, value: u64, version: u64) {
        let record = RecordRef {
            event: self.event(),
            kind,
            op: Op::None,
            access: extent.pack(),
            object,
            site: self.world.site(self.slot),
            value: extent.signed(value),
            sources: &[],
            version,
        };
        self.log.append(self.slot, &record);
    }
}

/// Nobody's point.
const NOTHING: Point = Point {
    thread: ThreadIndex(0),
    count: 0,
};
