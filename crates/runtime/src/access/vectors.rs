//! Method leap (Huang, Liu, Zhang: FSE 2010): each shared program element (SPE) has an access vector, the order of the
//! threads that access it, recorded while the element is locked. The vector is kept as its runs: a thread that accesses
//! an element after another thread logs that its run begins, and after which access.
//!
//! The element of an access is what its code says (a global, a field of a type: the site table has it), or else what the
//! memory is (what an allocation site allocated). Pointers may reach the same memory under several names, so each cell
//! keeps the element under which it was last accessed. An access whose code says another one happens under both, and
//! the cell has the new one from then on: whoever uses the cell next shares one of the two with it. So conflicting
//! accesses are always in one vector.
use crate::access::cell;
use crate::access::cell::cell_word;
use crate::access::plain::CELLS_MAX;
use crate::control;
use crate::control::Recorder;
use crate::local::Local;
use crate::sites;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Kind;
use run_model::Op;
use runtime_abi::CELL_BYTES;

/// The element of memory that has no name.
const UNNAMED: u32 = 1;
const TABLE_LENGTH: usize = 1 << 14;
/// Looked at before an element goes without a vector of its own.
const PROBES: usize = 256;
/// What one access can be under: its code's, and each cell's.
const HELD_MAX: usize = CELLS_MAX + 1;

/// In a line of the cache of its own: threads fight for elements enough.
#[repr(align(64))]
struct Element {
    /// 0: free.
    id: AtomicU32,
    /// The last user, and a lock bit, as in cells.
    word: AtomicU64,
    /// Accesses of the present run. Written under the lock.
    accesses: AtomicU64,
}

static TABLE: [Element; TABLE_LENGTH] = [const {
    Element {
        id: AtomicU32::new(0),
        word: AtomicU64::new(0),
        accesses: AtomicU64::new(0),
    }
}; TABLE_LENGTH];

/// Where an element stands in the table. If there is no room, it is part of the memory without a name: coarser, as true.
fn place(id: u32) -> u16 {
    let first = (id.wrapping_mul(0x9e37_79b9) >> 16) as usize;
    for at in (0..PROBES).map(|probe| (first + probe) % TABLE_LENGTH) {
        let element = &TABLE[at].id;
        // Relaxed: a lone number.
        let found = match element.load(Relaxed) {
            0 => element
                .compare_exchange(0, id, Relaxed, Relaxed)
                .map_or_else(|other| other, |_| id),
            found => found,
        };
        if found == id {
            return at as u16;
        }
    }
    match id {
        UNNAMED => first as u16,
        _ => place(UNNAMED),
    }
}

/// The elements of one access, locked in the order of their places.
pub struct Held {
    places: [u16; HELD_MAX],
    words: [u64; HELD_MAX],
    count: usize,
    /// The access faulted, and the program's handler runs, or has run.
    given_up: Cell<bool>,
}

impl Held {
    fn new() -> Held {
        Held {
            places: [0; HELD_MAX],
            words: [0; HELD_MAX],
            count: 0,
            given_up: Cell::new(false),
        }
    }

    fn add(&mut self, id: u32) {
        let place = place(id);
        let at = self.places[..self.count].partition_point(|other| *other < place);
        if at < self.count && self.places[at] == place {
            return;
        }
        self.places.copy_within(at..self.count, at + 1);
        self.places[at] = place;
        self.count += 1;
    }

    fn lock(&mut self) {
        for i in 0..self.count {
            self.words[i] = cell::lock(&TABLE[self.places[i] as usize].word);
        }
    }

    fn unlock_unused(&self) {
        for i in 0..self.count {
            cell::unlock_unused(&TABLE[self.places[i] as usize].word, self.words[i]);
        }
    }
}

/// The cells of an access.
fn cells(address: u64, bytes: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let first = address & !(CELL_BYTES - 1);
    (first..address + bytes.max(1))
        .step_by(CELL_BYTES as usize)
        .map(cell_word)
}

impl Local {
    /// Code is about to access what its site says.
    ///
    /// # Safety
    /// `site` is a record of a site table.
    #[inline]
    pub unsafe fn at_element(&mut self, site: *const u8) {
        if control::recorder() == Recorder::Vectors {
            // SAFETY: the caller's promise.
            self.element = unsafe { sites::element(site) };
        }
    }

    /// The access as one event, under all its elements.
    pub fn perform_in_vectors<R>(&mut self, address: u64, bytes: u64, access: impl FnOnce() -> R) -> R {
        let named = core::mem::take(&mut self.element);
        let mut ids = [0u32; CELLS_MAX];
        loop {
            let mut held = Held::new();
            if named != 0 {
                held.add(named);
            }
            for (cell, id) in cells(address, bytes).zip(&mut ids) {
                // Relaxed: looked at again under the lock.
                *id = cell.load(Relaxed) as u32;
                match *id {
                    0 if named == 0 => held.add(UNNAMED),
                    0 => {}
                    id => held.add(id),
                }
            }
            held.lock();
            // Acquire: pairs with the Release below; whoever changed it held the same lock, or one that we do not.
            if !cells(address, bytes)
                .zip(&ids)
                .all(|(cell, id)| cell.load(Acquire) as u32 == *id)
            {
                held.unlock_unused();
                continue;
            }
            self.held_elements = &raw const held;
            let result = access();
            self.held_elements = core::ptr::null();
            if held.given_up.get() {
                held.lock();
            }
            for i in 0..held.count {
                self.log_access(&TABLE[held.places[i] as usize], held.words[i]);
            }
            for (cell, id) in cells(address, bytes).zip(&ids) {
                let new = match (named, *id) {
                    (0, 0) => UNNAMED,
                    (0, id) => id,
                    (named, _) => named,
                };
                if new != *id {
                    cell.store(u64::from(new), Release);
                }
            }
            for i in 0..held.count {
                cell::unlock(&TABLE[held.places[i] as usize].word, held.words[i], self, true);
            }
            self.complete();
            return result;
        }
    }

    /// The access under way has faulted, and the program has a handler for that: others, and the handler, may have the
    /// elements meanwhile. If it returns, the access is made after all.
    pub fn give_up_elements(&mut self) {
        // SAFETY: null, or what `perform_in_vectors` holds further up the stack of this thread.
        if let Some(held) = unsafe { self.held_elements.as_ref() } {
            held.unlock_unused();
            held.given_up.set(true);
            self.held_elements = core::ptr::null();
        }
    }

    /// One more access to a locked element; if another thread had the last one, a new run begins.
    fn log_access(&mut self, element: &Element, word: u64) {
        // Relaxed: written under the lock.
        let accesses = element.accesses.load(Relaxed);
        let is_first = word & !cell::LOCKED == 0;
        let previous = cell::previous(word, self.index);
        if !is_first && previous.is_none() {
            element.accesses.store(accesses + 1, Relaxed);
            return;
        }
        let id = u64::from(element.id.load(Relaxed));
        self.record(Kind::Vector, Op::None, 0, id, accesses as i64, previous.as_slice());
        element.accesses.store(1, Relaxed);
    }

    /// Memory was allocated where the program is: its cells are elements of what is allocated there, unless another thread
    /// was the last to use what they were before. Its uses are in the vector of that.
    pub fn give_element(&mut self, block: u64, bytes: u64) {
        if control::recorder() != Recorder::Vectors {
            return;
        }
        let Some(id) = sites::allocation_element(self.slot.site.load(Relaxed)) else {
            return;
        };
        let mut known = (0, false);
        for cell in cells(block, bytes) {
            let before = cell.load(Relaxed) as u32;
            if before != 0 && before != known.0 {
                let word = TABLE[place(before) as usize].word.load(Acquire);
                known = (before, cell::previous(word & !cell::LOCKED, self.index).is_none());
            }
            if before == 0 || known.1 {
                // Nobody else uses a new block; whoever still uses its former life sees one or the other.
                cell.store(u64::from(id), Release);
            }
        }
    }
}
