//! Atomic stores of one thread that wait to be done (`access::late`). Changed by the thread's own accesses only.
use core::cell::Cell;

/// Stores that can wait at a time. With one more, all are done.
pub const WAITING_MAX: usize = 4;
/// Of an extent: all code that uses the memory is instrumented. The rest of it are the bytes.
pub const SOLE: u32 = 0x100;

#[derive(Clone, Copy)]
pub struct Store {
    pub place: u64,
    pub value: u64,
    pub extent: u32,
    pub site: *const u8,
}

impl Store {
    const NONE: Store = Store {
        place: 0,
        value: 0,
        extent: 0,
        site: core::ptr::null(),
    };

    pub fn overlaps(&self, place: u64, bytes: u64) -> bool {
        place < self.place + bytes_of(self.extent) && self.place < place + bytes
    }
}

pub fn bytes_of(extent: u32) -> u64 {
    (extent & !SOLE) as u64
}

/// The stores of one thread that wait, in their order.
pub struct LateStores {
    pub waiting: [Cell<Store>; WAITING_MAX],
    pub count: Cell<usize>,
}

impl LateStores {
    pub const fn new() -> LateStores {
        LateStores {
            waiting: [const { Cell::new(Store::NONE) }; WAITING_MAX],
            count: Cell::new(0),
        }
    }

    /// Then nothing of the program's may run that does not belong between the store and its load: no handlers of signals.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.get() != 0
    }
}
