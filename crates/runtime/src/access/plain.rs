//! Single accesses whose inlined check failed: each is exactly one event.
use crate::access::cell;
use crate::access::cell::Reach;
use crate::access::chunk;
use crate::access::chunk::Intent;
use crate::access::chunk::Right;
use crate::control;
use crate::control::Mode;
use crate::local::Local;
use crate::replay::PLAIN;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Access;
use run_model::Kind;
use runtime_abi::CELL_BYTES;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::divergence;

/// Locks that one access can hold: 64 cells are 512 bytes, more than any single access covers.
pub const CELLS_MAX: usize = 72;

impl Local {
    /// Does `access` to `[address, address + bytes)` as one event. `check` condenses the value read, 0 for none.
    #[inline]
    pub fn perform<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        access: impl FnOnce() -> R,
        check: impl FnOnce(&R) -> i64,
    ) -> R {
        if control::mode() == Mode::Replay {
            return self.perform_again(access, check);
        }
        self.at_change_point();
        let intent = if reach.writes() { Intent::Write } else { Intent::Read };
        let (first, last) = (address / CHUNK_BYTES, (address + bytes.max(1) - 1) / CHUNK_BYTES);
        if first != last {
            self.open_chunks(address, bytes, intent);
            let result = self.perform_in_cells(address, bytes, reach, chunk::is_split, access, check);
            chunk::close_window(self.slot);
            return result;
        }
        // A split chunk stays split: no window is needed.
        if chunk::is_split(address) || self.acquire_chunk(address, intent) == Right::Cells {
            return self.perform_in_cells(address, bytes, reach, |_| true, access, check);
        }
        let result = access();
        self.complete();
        chunk::close_window(self.slot);
        result
    }

    /// Replay: the gate, then the access; its value is compared if the recording has a check for it.
    #[inline]
    fn perform_again<R>(&mut self, access: impl FnOnce() -> R, check: impl FnOnce(&R) -> i64) -> R {
        let gate = if self.event() >= self.slot.gate.load(Relaxed) { self.pass_gate(PLAIN) } else { None };
        let result = access();
        if let Some(gate) = gate
            && gate.kind == Kind::Run as u8
            && Access(gate.access).reads()
            && gate.value != 0
        {
            let found = check(&result);
            if found != 0 && found != gate.value {
                self.diverge(divergence::VALUE, PLAIN, 0, gate.value as u64, found as u64);
            }
        }
        self.complete();
        result
    }

    /// Recording with chaos: is it time for a pause?
    #[inline]
    pub fn at_change_point(&mut self) {
        if self.event() >= self.slot.gate.load(Relaxed) {
            let next = self.chaos.at_change_point(self.event());
            self.slot.gate.store(next, Relaxed);
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

    /// Does the access with the lock bits of all its contended cells held, and completes the event.
    pub fn perform_in_cells<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        contended: impl Fn(u64) -> bool,
        access: impl FnOnce() -> R,
        check: impl FnOnce(&R) -> i64,
    ) -> R {
        let first = address & !(CELL_BYTES - 1);
        let end = address + bytes;
        if end - first <= CELL_BYTES && contended(first) {
            let word = cell::cell_word(first);
            let seen = cell::lock(word);
            let result = access();
            let value = if reach == Reach::Writes { 0 } else { check(&result) };
            cell::log_run(self, first, seen, reach.flags(bytes), value);
            cell::unlock(word, seen, self, reach.writes());
            self.complete();
            return result;
        }
        self.perform_in_many_cells(address, bytes, reach, contended, access)
    }

    fn perform_in_many_cells<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        contended: impl Fn(u64) -> bool,
        access: impl FnOnce() -> R,
    ) -> R {
        let first = address & !(CELL_BYTES - 1);
        let end = address + bytes;
        let count = (end - first).div_ceil(CELL_BYTES) as usize;
        assert!(count <= CELLS_MAX, "an access of {bytes} bytes is too large");
        // What each contended cell's word was; `None` where the chunk is ours.
        let mut held = [None; CELLS_MAX];
        let cell = |i: usize| first + i as u64 * CELL_BYTES;
        for (i, seen) in held.iter_mut().enumerate().take(count) {
            *seen = contended(cell(i)).then(|| cell::lock(cell::cell_word(cell(i))));
        }
        let result = access();
        for (i, seen) in held.iter().enumerate().take(count) {
            let covered = end.min(cell(i) + CELL_BYTES) - address.max(cell(i));
            if let Some(seen) = seen {
                cell::log_run(self, cell(i), *seen, reach.flags(covered), 0);
            }
        }
        for (i, seen) in held.iter().enumerate().take(count) {
            if let Some(seen) = seen {
                cell::unlock(cell::cell_word(cell(i)), *seen, self, reach.writes());
            }
        }
        self.complete();
        result
    }
}

/// A value condensed to 1..=64: enough to notice another one, small enough for one byte in the log.
pub fn check(value: u64) -> i64 {
    1 + (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as i64
}

/// Remembers where in the source the thread is. Sites are compared by address, so this is all.
#[inline]
pub fn at_site(local: &Local, site: *const u8) {
    local.slot.site.store(site as u64, Relaxed);
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
            at_site(local, site);
            local.perform(place as u64, size_of::<$type>() as u64, Reach::Reads, load, |v| check(*v as u64))
        }

        /// # Safety
        /// `place` may be written, as the instrumented program would have.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(place: *mut $type, value: $type, site: *const u8) {
            // SAFETY: the program's own access, in the program's own place.
            let store = || unsafe { place.write_unaligned(value) };
            let Some(local) = Local::current() else { return store() };
            at_site(local, site);
            local.perform(place as u64, size_of::<$type>() as u64, Reach::Writes, store, |_| 0)
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
    at_site(local, site);
    local.perform(place as u64, bytes as u64, Reach::Reads, load, |_| 0)
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
    at_site(local, site);
    local.perform(place as u64, bytes as u64, Reach::Writes, store, |_| 0)
}
