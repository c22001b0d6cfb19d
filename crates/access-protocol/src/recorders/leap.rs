//! Method leap (Huang, Liu, Zhang: FSE 2010): each shared program element (SPE) has an access vector, the order of the
//! threads that access it, recorded while the element is locked. The vector is kept as its runs: a thread that accesses
//! an element after another thread logs that its run begins, and after which access.
//!
//! The element of an access is what its code says (a global, a field of a type: the site table has it), or else what the
//! memory is (what an allocation site allocated). Pointers may reach the same memory under several names, so each cell
//! keeps the element under which it was last accessed. An access whose code says another one happens under both, and
//! the cell has the new one from then on: whoever uses the cell next shares one of the two with it. So conflicting
//! accesses are always in one vector.
use crate::Access;
use crate::Thread;
use crate::Values;
use crate::World;
use crate::cell;
use crate::recorders::CELLS_MAX;
use core::cell::Cell;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Machine;
use machine::Word;
use run_model::Kind;
use run_model::Op;
use runtime_abi::CELL_BYTES;

/// The element of memory that has no name.
pub(crate) const UNNAMED: u32 = 1;
/// Looked at before an element goes without a vector of its own.
const PROBES: usize = 256;
/// What one access can be under: its code's, and each cell's.
const HELD_MAX: usize = CELLS_MAX + 1;
/// The same for nearly all accesses, of up to 16 bytes.
const HELD_MOSTLY: usize = 4;
const BYTES_MOSTLY: u64 = 16;

/// In a line of the cache of its own: threads fight for elements enough. The order of its fields is that of `runtime_abi::vectors_file::KeptElement`.
#[repr(C, align(64))]
pub struct Element<M: Machine> {
    /// 0: free.
    id: M::U32,
    /// Method coop. 1: the order of its uses may have mattered. Written under the lock.
    conflict: M::U32,
    /// The last user, and a lock bit, as in cells.
    word: M::U64,
    /// Accesses of the present run. Written under the lock.
    accesses: M::U64,
}

impl<M: Machine> Element<M> {
    pub const FREE: Element<M> = Element {
        id: <M::U32 as Word>::ZERO,
        conflict: <M::U32 as Word>::ZERO,
        word: <M::U64 as Word>::ZERO,
        accesses: <M::U64 as Word>::ZERO,
    };
}

/// Where an element stands in the table. If there is no room, it is part of the memory without a name: coarser, as true.
fn place<W: World>(world: W, id: u32) -> u16 {
    let table = world.elements();
    let first = (id.wrapping_mul(0x9e37_79b9) >> 16) as usize;
    for at in (0..PROBES).map(|probe| (first + probe) % table.len()) {
        let element = &table[at].id;
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
        UNNAMED => (first % table.len()) as u16,
        _ => place(world, UNNAMED),
    }
}

/// The elements of one access, up to `MOST`, locked in the order of their places.
pub(super) struct Held<const MOST: usize> {
    places: [u16; MOST],
    words: [u64; MOST],
    count: usize,
}

impl<const MOST: usize> Held<MOST> {
    pub(super) fn new() -> Held<MOST> {
        Held {
            places: [0; MOST],
            words: [0; MOST],
            count: 0,
        }
    }

    pub(super) fn add<W: World>(&mut self, world: W, id: u32) {
        let place = place(world, id);
        let at = self.places[..self.count].partition_point(|other| *other < place);
        if at < self.count && self.places[at] == place {
            return;
        }
        self.places.copy_within(at..self.count, at + 1);
        self.places[at] = place;
        self.count += 1;
    }

    /// Held: the order of their uses may matter.
    pub(super) fn note_conflict<W: World>(&self, world: W) {
        for place in &self.places[..self.count] {
            let conflict = &world.elements()[*place as usize].conflict;
            // Relaxed: both are only done under the lock.
            if conflict.load(Relaxed) == 0 {
                conflict.store(1, Relaxed);
            }
        }
    }

    fn word<W: World>(&self, world: W, i: usize) -> &'static W::U64 {
        &world.elements()[self.places[i] as usize].word
    }

    pub(super) fn lock<W: World>(&mut self, world: W) {
        for i in 0..self.count {
            self.words[i] = cell::lock(world, self.word(world, i));
        }
    }

    fn unlock_unused<W: World>(&self, world: W) {
        for i in 0..self.count {
            cell::unlock_unused::<W>(self.word(world, i), self.words[i]);
        }
    }
}

/// What a handler has to know of the access that it has interrupted: a copy of what is held for it.
pub(crate) struct HeldElements {
    places: [Cell<u16>; HELD_MAX],
    words: [Cell<u64>; HELD_MAX],
    count: Cell<usize>,
    /// How often an access has faulted, and the program's handler ran meanwhile.
    given_up: Cell<u64>,
}

impl HeldElements {
    pub(crate) fn new() -> HeldElements {
        HeldElements {
            places: [const { Cell::new(0) }; HELD_MAX],
            words: [const { Cell::new(0) }; HELD_MAX],
            count: Cell::new(0),
            given_up: Cell::new(0),
        }
    }

    fn set<const MOST: usize>(&self, held: &Held<MOST>) {
        for i in 0..held.count {
            self.places[i].set(held.places[i]);
            self.words[i].set(held.words[i]);
        }
        self.count.set(held.count);
    }
}

/// The cells of an access.
pub(super) fn cells<W: World>(world: W, address: u64, bytes: u64) -> impl Iterator<Item = &'static W::U64> {
    let first = address & !(CELL_BYTES - 1);
    (first..address + bytes.max(1))
        .step_by(CELL_BYTES as usize)
        .map(move |cell| world.cell_word(cell))
}

/// The access as one event, under all its elements.
pub(super) fn perform<W: World, R, V: Values>(
    thread: &Thread<W>,
    what: Access,
    access: impl FnMut() -> R,
    _: impl FnOnce(Option<&R>) -> V,
) -> R {
    match what.bytes <= BYTES_MOSTLY {
        true => thread.perform_in_vectors::<HELD_MOSTLY, R>(what, access),
        false => thread.perform_in_vectors::<HELD_MAX, R>(what, access),
    }
}

impl<W: World> Thread<W> {
    fn perform_in_vectors<const MOST: usize, R>(&self, what: Access, mut access: impl FnMut() -> R) -> R {
        let Access { address, bytes, .. } = what;
        let world = self.world;
        let named = self.element.take();
        let mut ids = [0u32; MOST];
        loop {
            let mut held = Held::<MOST>::new();
            if named != 0 {
                held.add(world, named);
            }
            for (cell, id) in cells(world, address, bytes).zip(&mut ids) {
                // Relaxed: looked at again under the lock.
                *id = cell.load(Relaxed) as u32;
                match *id {
                    0 if named == 0 => held.add(world, UNNAMED),
                    0 => {}
                    id => held.add(world, id),
                }
            }
            held.lock(world);
            // Acquire: pairs with the Release below; whoever changed it held the same lock, or one that we do not.
            if !cells(world, address, bytes)
                .zip(&ids)
                .all(|(cell, id)| cell.load(Acquire) as u32 == *id)
            {
                held.unlock_unused(world);
                continue;
            }
            let result = self.access_held(&mut held, &mut access);
            for (cell, id) in cells(world, address, bytes).zip(&ids) {
                let new = match (named, *id) {
                    (0, 0) => UNNAMED,
                    (0, id) => id,
                    (named, _) => named,
                };
                if new != *id {
                    cell.store(u64::from(new), Release);
                }
            }
            self.let_go(&held);
            self.complete();
            return result;
        }
    }

    /// Does the access under elements that are locked, and logs it in their vectors.
    pub(super) fn access_held<const MOST: usize, R>(&self, held: &mut Held<MOST>, access: &mut impl FnMut() -> R) -> R {
        let world = self.world;
        let given_up = self.held_elements.given_up.get();
        self.held_elements.set(held);
        // The access may fault: a handler has to see what is held, and we what it did.
        world.compiler_fence();
        let result = access();
        world.compiler_fence();
        self.held_elements.count.set(0);
        // Others that were given up meanwhile were those of the handler that gave up ours.
        if self.held_elements.given_up.get() != given_up {
            held.lock(world);
        }
        for i in 0..held.count {
            self.log_access(&world.elements()[held.places[i] as usize], held.words[i]);
        }
        result
    }

    /// Unlocks them, for the next after this event.
    pub(super) fn let_go<const MOST: usize>(&self, held: &Held<MOST>) {
        for i in 0..held.count {
            cell::unlock(held.word(self.world, i), held.words[i], self, true);
        }
    }

    /// The access under way has faulted, and the program has a handler for that: others, and the handler, may have the
    /// elements meanwhile. If it returns, the access is made after all.
    pub fn give_up_elements(&self) {
        let held = &self.held_elements;
        let count = held.count.take();
        for i in 0..count {
            let element = &self.world.elements()[held.places[i].get() as usize];
            cell::unlock_unused::<W>(&element.word, held.words[i].get());
        }
        if count > 0 {
            held.given_up.set(held.given_up.get() + 1);
        }
    }

    /// One more access to a locked element; if another thread had the last one, a new run begins.
    fn log_access(&self, element: &Element<W>, word: u64) {
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

    /// Memory was allocated: its cells are of the element `id` of what is allocated there, unless another thread was the last
    /// to use what they were before. Its uses are in the vector of that.
    pub fn give_element(&self, block: u64, bytes: u64, id: u32) {
        let mut known = (0, false);
        for cell in cells(self.world, block, bytes) {
            let before = cell.load(Relaxed) as u32;
            if before != 0 && before != known.0 {
                // Acquire: pairs with the Release in `cell::unlock`.
                let place = place(self.world, before) as usize;
                let word = self.world.elements()[place].word.load(Acquire);
                known = (before, cell::previous(word & !cell::LOCKED, self.index).is_none());
            }
            if before == 0 || known.1 {
                // Nobody else uses a new block; whoever still uses its former life sees one or the other.
                cell.store(u64::from(id), Release);
            }
        }
    }
}
