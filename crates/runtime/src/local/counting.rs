//! Where one thread stands among its points, or in its trace (`counting/`).
use crate::growing_file::GrowingFile;
use core::cell::Cell;
use core::cell::UnsafeCell;
use log_format::hybrid_trace;
use log_format::hybrid_trace::TraceEncoder;
use run_model::Kind;
use run_model::Op;
use runtime_abi::memory_map::TRACES;
use runtime_abi::points_file::PointEntry;
use runtime_abi::schedule_file::GateEntry;

/// Changed by the thread's own events and accesses only.
pub struct OfThread {
    /// Events that it has completed; points are none.
    pub segment: Cell<u64>,
    /// Those that are still to come.
    pub points: Cell<&'static [PointEntry]>,
    /// It has done its last access: the process ended before the next.
    pub is_over: Cell<bool>,
    pub file: GrowingFile,
    /// Used by the thread itself, in `Local::append` alone, which calls nothing that could come back there.
    pub encoder: UnsafeCell<TraceEncoder>,
    /// The event whose gate has been passed. Other events have no position among all.
    pub ordered: Cell<Option<Ordered>>,
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
            is_over: Cell::new(false),
            file: GrowingFile::new(index, hybrid_trace::EXTENSION, TRACES.part(index as u64)),
            encoder: UnsafeCell::new(TraceEncoder::new()),
            ordered: Cell::new(None),
        }
    }
}
