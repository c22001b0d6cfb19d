//! Where one thread stands in a replay.
use crate::schedule::Cursor;
use crate::trace_file::Trace;
use core::cell::Cell;
use runtime_abi::relay::Relay;
use turn_scheduler::gates::SPINS_AT_FIRST;

/// Changed by the thread's own events only. One handler uses it, that of a signal which ends the process (`ending::on_fatal`): nothing
/// of what it has interrupted goes on.
pub struct ReplayState {
    pub cursor: Cursor,
    pub trace: Trace,
    /// How long to spin at a gate before sleeping.
    pub spins: Cell<u32>,
    /// How to wait there.
    pub relay: Cell<Relay>,
    /// This thread's id in the recording, if it has asked for it.
    pub recorded_tid: Cell<usize>,
    /// Steered: what it looks at again and again.
    pub looking: Looking,
    /// Inside a real call that releases something. When it was recorded, its event was complete by then.
    pub releasing: Cell<bool>,
}

impl ReplayState {
    pub const fn new() -> ReplayState {
        ReplayState {
            cursor: Cursor::new(),
            trace: Trace::new(),
            spins: Cell::new(SPINS_AT_FIRST),
            relay: Cell::new(Relay::Auto),
            recorded_tid: Cell::new(0),
            looking: Looking::new(),
            releasing: Cell::new(false),
        }
    }

    /// A forked child: its schedule and its trace are those of its own process from now on.
    pub fn begin_in_child(&self) {
        self.cursor.close();
        self.trace.close();
    }
}

/// What the thread looks at again and again.
pub struct Looking {
    pub place: Cell<u64>,
    pub looks: Cell<u32>,
    pub others: Cell<u32>,
    pub accesses: Cell<u64>,
}

impl Looking {
    pub const fn new() -> Looking {
        Looking {
            place: Cell::new(0),
            looks: Cell::new(0),
            others: Cell::new(0),
            accesses: Cell::new(0),
        }
    }
}
