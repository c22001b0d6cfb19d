//! Where one thread stands among its points, or in its trace (`counting/`).
use crate::growing_file::GrowingFile;
use core::cell::Cell;
use core::cell::UnsafeCell;
use log_format::hybrid_trace;
use log_format::hybrid_trace::TraceEncoder;
use log_format::hybrid_trace::whole::ToldEncoder;
use run_model::Kind;
use run_model::Op;
use runtime_abi::inputs_file::InputEntry;
use runtime_abi::inputs_file::LEARNED_EXTENSION;
use runtime_abi::memory_map::TRACES;
use runtime_abi::points_file::PointEntry;
use runtime_abi::schedule_file::GateEntry;
use turn_scheduler::lease::Pace;

/// Changed by the thread's own events and accesses only.
pub struct OfThread {
    /// Events that it has completed; points are none.
    pub segment: Cell<u64>,
    /// Those that are still to come.
    pub points: Cell<&'static [PointEntry]>,
    /// Steps without a gate that are still to come: `counting/own_steps.rs`.
    pub own_steps: Cell<&'static [u64]>,
    /// The event of the one before, or a later one before the next; u64::MAX if there was none.
    pub own_step_before: Cell<u64>,
    /// It has done its last access: the process ended before the next.
    pub is_over: Cell<bool>,
    /// What came in when the schedule was learned, as far as it is still to come.
    pub inputs: Cell<&'static [InputEntry]>,
    pub file: GrowingFile,
    /// Recording for a schedule: what comes in. There is no trace then, whose place it has.
    pub learned: GrowingFile,
    /// Used by the thread itself, in `Local::append` alone, which calls nothing that could come back there.
    pub encoder: UnsafeCell<TraceEncoder>,
    /// The same for what whole traces have besides, in `Local::append_told`.
    pub told: UnsafeCell<ToldEncoder>,
    /// The event whose gate has been passed. Other events have no position among all.
    pub ordered: Cell<Option<Ordered>>,
    /// How often it synchronises, where a schedule is learned.
    pub pace: Pace,
    /// Its events when it last synchronised.
    pub events_before: Cell<u64>,
}

/// An event, and its gate, if it has one.
#[derive(Clone, Copy)]
pub struct Ordered {
    pub kind: Kind,
    pub op: Op,
    pub object: u64,
    pub gate: Option<&'static GateEntry>,
}

impl OfThread {
    pub fn new(index: u32) -> OfThread {
        OfThread {
            segment: Cell::new(0),
            points: Cell::new(&[]),
            own_steps: Cell::new(&[]),
            own_step_before: Cell::new(u64::MAX),
            is_over: Cell::new(false),
            inputs: Cell::new(&[]),
            file: GrowingFile::new(index, hybrid_trace::EXTENSION, TRACES.part(index as u64)),
            learned: GrowingFile::new(index, LEARNED_EXTENSION, TRACES.part(index as u64)),
            encoder: UnsafeCell::new(TraceEncoder::new()),
            told: UnsafeCell::new(ToldEncoder::new()),
            ordered: Cell::new(None),
            pace: Pace::default(),
            events_before: Cell::new(0),
        }
    }
}
