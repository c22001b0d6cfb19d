//! One thread at a time while recording (`crate::alone`), as one thread sees it.
use core::cell::Cell;

pub struct OfThread {
    /// It runs, or ran last, with this ticket.
    pub ticket: Cell<u32>,
    /// When it began to, by the processor's clock.
    pub since: Cell<u64>,
    /// It has let others go on inside the call that it makes.
    pub is_back: Cell<bool>,
    /// Whose ticket it waits for, and since when.
    pub waits_for: Cell<(u32, u64)>,
}

impl OfThread {
    pub const fn new() -> OfThread {
        OfThread {
            ticket: Cell::new(0),
            since: Cell::new(0),
            is_back: Cell::new(false),
            waits_for: Cell::new((0, 0)),
        }
    }
}
