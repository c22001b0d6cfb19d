//! Single accesses whose inlined check failed: each is exactly one event.
use crate::access::cell;
use crate::access::cell::Reach;
use crate::access::chunk;
use crate::access::chunk::Intent;
use crate::access::chunk::Right;
use crate::access::moves;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::control;
use crate::control::Mode;
use crate::control::Recorder;
use crate::local::Local;
use crate::replay::PLAIN;
use crate::trace;
use crate::trace::Atomic;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Access;
use run_model::Extent;
use run_model::Kind;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::divergence;
use runtime_abi::schedule_file::GateEntry;

/// Locks that one access can hold: 64 cells are 512 bytes, more than any single access covers.
pub const CELLS_MAX: usize = 72;

impl Local {
    /// Does `access` to `[address, address + bytes)` as one event. `seen` says which values it moved, given its result; or
    /// which it is going to write, without.
    #[inline(always)]
    pub fn perform<R, A: FnMut() -> R, S: FnOnce(Option<&R>) -> Seen>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: A,
        mut seen: S,
    ) -> R {
        if control::mode() == Mode::Replay {
            return self.perform_again(address, bytes, reach, Atomic::No, access, seen);
        }
        self.at_change_point();
        if control::sees_every_access() {
            return self.perform_otherwise(address, bytes, reach, Atomic::No, access, seen);
        }
        let intent = if reach.writes() { Intent::Write } else { Intent::Read };
        let (first, last) = (address / CHUNK_BYTES, (address + bytes.max(1) - 1) / CHUNK_BYTES);
        loop {
            if first != last {
                self.open_chunks(address, bytes, intent);
                let held = self.lock_cells(address, bytes, chunk::is_split);
                // A chunk that was made whole meanwhile is not covered by the window.
                if !held.is_valid(chunk::is_split) {
                    held.unlock_unused();
                    chunk::close_window(self.slot);
                    continue;
                }
                let result = access();
                self.finish_cells(&held, reach, 0);
                chunk::close_window(self.slot);
                return result;
            }
            if chunk::is_split(address) || self.acquire_chunk(address, intent) == Right::Cells {
                // Now and then: has nobody else used this chunk for a while, or has everybody only read it?
                if self.event().is_multiple_of(8) {
                    if moves::continues_streak(address, self.index) {
                        self.merge_chunk(address, Intent::Write);
                    } else if intent == Intent::Read && self.is_only_read(address) {
                        self.merge_chunk(address, Intent::Read);
                        continue;
                    }
                }
                match self.perform_in_split_chunk(address, bytes, reach, access, seen) {
                    Ok(result) => return result,
                    Err(again) => (access, seen) = again,
                }
                continue;
            }
            let result = access();
            self.complete();
            chunk::close_window(self.slot);
            return result;
        }
    }

    /// The access, as methods other than light record it, or light without a part of it.
    pub fn perform_otherwise<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        atomic: Atomic,
        access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        match control::recorder() {
            Recorder::Runs | Recorder::Dependences => {
                self.perform_with_dependences(address, bytes, reach, access, seen)
            }
            Recorder::Vectors => self.perform_in_vectors(address, bytes, access),
            Recorder::Versions | Recorder::RelaxedVersions => {
                self.perform_versioned(address, bytes, reach, atomic, access, seen)
            }
        }
    }

    /// The access, in a chunk that is split; gives it back undone if the chunk is not split any more.
    #[inline(always)]
    pub fn perform_in_split_chunk<R, A: FnMut() -> R, S: FnOnce(Option<&R>) -> Seen>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: A,
        seen: S,
    ) -> Result<R, (A, S)> {
        let cell = address & !(CELL_BYTES - 1);
        if address + bytes - cell > CELL_BYTES {
            let held = self.lock_cells(address, bytes, |_| true);
            if !chunk::is_split(address) || !chunk::is_split(address + bytes - 1) {
                held.unlock_unused();
                return Err((access, seen));
            }
            let result = access();
            self.finish_cells(&held, reach, 0);
            return Ok(result);
        }
        let word = cell::cell_word(cell);
        let locked = cell::lock(word);
        if !chunk::is_split(address) {
            cell::unlock_unused(word, locked);
            return Err((access, seen));
        }
        Ok(self.perform_in_cell(cell, word, locked, reach.flags(bytes), reach, access, seen))
    }

    /// The access, with the lock bit of its only cell held. Gives the bit back.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the cell, as locked, and the access")]
    pub fn perform_in_cell<R>(
        &mut self,
        cell: u64,
        word: &AtomicU64,
        locked: u64,
        flags: u8,
        reach: Reach,
        access: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        let result = access();
        if cell::previous(locked, self.index).is_some() {
            let value = if reach == Reach::Writes {
                0
            } else {
                seen(Some(&result)).check()
            };
            cell::log_run(self, cell, locked, flags, value);
        }
        cell::unlock(word, locked, self, reach.writes());
        self.complete();
        result
    }

    /// Replay: the gate, then the access; its value is compared if the recording has a check for it.
    #[inline]
    pub fn perform_again<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        atomic: Atomic,
        access: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        let gate = if self.event() >= self.slot.gate.load(Relaxed) {
            self.at_safe_point();
            self.pass_gate(PLAIN)
        } else {
            None
        };
        let result = if trace::is_on() {
            self.traced(address, bytes, reach, atomic, access)
        } else {
            access()
        };
        if let Some(gate) = gate {
            self.compare_value(gate, address, seen(Some(&result)));
        }
        self.complete();
        result
    }

    /// Replay: does the access see what the recording says, if that says anything?
    fn compare_value(&self, gate: &GateEntry, address: u64, seen: Seen) {
        let found = if gate.kind == Kind::Run as u8 && Access(gate.access).reads() && gate.value != 0 {
            Some(seen.check()).filter(|found| *found != 0)
        } else if gate.kind == Kind::Read as u8 && !is_on_own_stack(address) {
            let extent = Extent::unpack(Access(gate.access), gate.object).filter(|extent| !extent.unknown);
            extent.and_then(|extent| {
                let value = seen
                    .read
                    .piece(gate.object.wrapping_sub(address), u64::from(extent.bytes));
                value.map(|value| extent.signed(value))
            })
        } else {
            None
        };
        if let Some(found) = found.filter(|found| *found != gate.value)
            && !crate::sites::may_be_undefined(self.slot.site.load(Relaxed))
        {
            self.diverge(divergence::VALUE, PLAIN, 0, gate.value as u64, found as u64);
        }
    }

    /// Opens a window in which every chunk of the range is ours or split.
    fn open_chunks(&mut self, address: u64, bytes: u64, intent: Intent) {
        let chunks = || (address / CHUNK_BYTES..=(address + bytes.max(1) - 1) / CHUNK_BYTES).map(|c| c * CHUNK_BYTES);
        loop {
            for at in chunks() {
                self.acquire_chunk(at, intent);
                chunk::close_window(self.slot);
            }
            chunk::open_window(self.slot);
            if chunks().all(|at| chunk::is_split(at) || chunk::allows(self.slot, at, intent)) {
                return;
            }
            chunk::close_window(self.slot);
        }
    }

    /// Takes the lock bits of all contended cells of a range, in the order of their addresses.
    pub fn lock_cells(&self, address: u64, bytes: u64, contended: impl Fn(u64) -> bool) -> HeldCells {
        let first = address & !(CELL_BYTES - 1);
        let end = address + bytes;
        let count = (end - first).div_ceil(CELL_BYTES) as usize;
        assert!(count <= CELLS_MAX, "an access of {bytes} bytes is too large");
        let mut held = HeldCells {
            address,
            end,
            count,
            words: [None; CELLS_MAX],
        };
        for i in 0..count {
            held.words[i] = contended(held.cell(i)).then(|| cell::lock(cell::cell_word(held.cell(i))));
        }
        held
    }

    /// Records and gives back what `lock_cells` took, and completes the event.
    pub fn finish_cells(&mut self, held: &HeldCells, reach: Reach, value: i64) {
        held.each_locked(|cell, covered, seen| cell::log_run(self, cell, seen, reach.flags(covered), value));
        for (i, seen) in held.locked() {
            cell::unlock(cell::cell_word(held.cell(i)), seen, self, reach.writes());
        }
        self.complete();
    }
}

/// Contended cells locked for one access. Where the chunk is ours there is none.
pub struct HeldCells {
    address: u64,
    end: u64,
    count: usize,
    words: [Option<u64>; CELLS_MAX],
}

impl HeldCells {
    fn cell(&self, i: usize) -> u64 {
        (self.address & !(CELL_BYTES - 1)) + i as u64 * CELL_BYTES
    }

    fn locked(&self) -> impl Iterator<Item = (usize, u64)> {
        self.words[..self.count]
            .iter()
            .enumerate()
            .filter_map(|(i, seen)| seen.map(|seen| (i, seen)))
    }

    /// Calls `each` with every locked cell, how many of its bytes the access covers, and its word as it was.
    pub fn each_locked(&self, mut each: impl FnMut(u64, u64, u64)) {
        for (i, seen) in self.locked() {
            let cell = self.cell(i);
            each(cell, self.end.min(cell + CELL_BYTES) - self.address.max(cell), seen);
        }
    }

    /// Are exactly the right cells locked?
    fn is_valid(&self, contended: impl Fn(u64) -> bool) -> bool {
        (0..self.count).all(|i| self.words[i].is_some() == contended(self.cell(i)))
    }

    fn unlock_unused(&self) {
        for (i, seen) in self.locked() {
            cell::unlock_unused(cell::cell_word(self.cell(i)), seen);
        }
    }
}

/// Compiled code reads parts of its stack that nobody has written, and does nothing with them. What is there differs between
/// recording and replay: calls of ours were there before.
fn is_on_own_stack(address: u64) -> bool {
    const NEAR: u64 = 8 << 20;
    let here = 0u8;
    (&raw const here as u64).abs_diff(address) < NEAR
}

/// Remembers where in the source the thread is. Sites are compared by address, so this is all.
#[inline]
pub fn at_site(local: &Local, site: *const u8) {
    local.slot.site.store(site as u64, Relaxed);
}

/// The same, before an access to what the site says.
///
/// # Safety
/// `site` is a record of a site table.
#[inline]
pub unsafe fn at_access(local: &mut Local, site: *const u8) {
    at_site(local, site);
    // SAFETY: the caller's promise.
    unsafe { local.at_element(site) };
}

macro_rules! accesses {
    ($($load:ident $store:ident $type:ty;)*) => {$(
        /// # Safety
        /// `place` may be read, as the instrumented program would have.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $load(place: *const $type, site: *const u8) -> $type {
            // SAFETY: the program's own access, in the program's own place.
            let load = || unsafe { place.read_unaligned() };
            let Some(local) = Local::current() else { return load() };
            // SAFETY: compiled code passes a record of its site table.
            unsafe { at_access(local, site) };
            local.perform(place as u64, size_of::<$type>() as u64, Reach::Reads, load, Seen::loaded)
        }

        /// # Safety
        /// `place` may be written, as the instrumented program would have.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(place: *mut $type, value: $type, site: *const u8) {
            // SAFETY: the program's own access, in the program's own place.
            let store = || unsafe { place.write_unaligned(value) };
            let Some(local) = Local::current() else { return store() };
            // SAFETY: as above.
            unsafe { at_access(local, site) };
            local.perform(place as u64, size_of::<$type>() as u64, Reach::Writes, store, |_| {
                Seen::written(Moved::Number(value as u64))
            })
        }
    )*};
}

accesses! {
    __refrain_load1 __refrain_store1 u8;
    __refrain_load2 __refrain_store2 u16;
    __refrain_load4 __refrain_store4 u32;
    __refrain_load8 __refrain_store8 u64;
}

/// Loads any number of bytes into a private buffer.
///
/// # Safety
/// `place` may be read and `out` written for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_load_n(place: *const u8, bytes: usize, out: *mut u8, site: *const u8) {
    // SAFETY: the program's own access; `out` is the caller's scratch memory.
    let load = || unsafe { core::ptr::copy_nonoverlapping(place, out, bytes) };
    let Some(local) = Local::current() else { return load() };
    // SAFETY: compiled code passes a record of its site table.
    unsafe { at_access(local, site) };
    local.perform(place as u64, bytes as u64, Reach::Reads, load, |_| {
        Seen::read(Moved::At(out))
    })
}

/// Stores any number of bytes from a private buffer.
///
/// # Safety
/// `place` may be written and `value` read for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_store_n(place: *mut u8, bytes: usize, value: *const u8, site: *const u8) {
    // SAFETY: the program's own access; `value` is the caller's scratch memory.
    let store = || unsafe { core::ptr::copy_nonoverlapping(value, place, bytes) };
    let Some(local) = Local::current() else { return store() };
    // SAFETY: compiled code passes a record of its site table.
    unsafe { at_access(local, site) };
    local.perform(place as u64, bytes as u64, Reach::Writes, store, |_| {
        Seen::written(Moved::At(value))
    })
}
