//! What a thread has to do with access vectors (`vectors/`).
use core::cell::Cell;

pub struct InVectors {
    /// The elements of the operation under way; 0: none.
    pub under_way: Cell<[u32; 2]>,
    /// Its name in the vectors that are kept to.
    pub name: Cell<u32>,
    /// Threads that it has created.
    pub children: Cell<u32>,
}

impl InVectors {
    pub fn new() -> InVectors {
        InVectors {
            under_way: Cell::new([0; 2]),
            // The first thread's; others are given theirs.
            name: Cell::new(0),
            children: Cell::new(0),
        }
    }
}
