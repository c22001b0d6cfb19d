//! memcpy and its kin: many bytes, in pieces that cross no chunk boundary but those of the main stack.
//!
//! A piece is one event of reading (for copies) and one of writing, whichever path is taken: how many events a call is
//! depends on its arguments alone. Where the main stack begins depends on the lengths of arguments and variables, even of those that make no other
//! schedule; so pieces do not depend on where something lies in there.
use crate::access::Reach;
use crate::access::plain::at_site;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::control;
use crate::local::Local;
use crate::policy;
use access_protocol::Intent;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::memory_map::LIBRARIES;

/// Bytes from `address` to the end of its chunk.
pub fn to_chunk_end(address: u64) -> u64 {
    CHUNK_BYTES - address % CHUNK_BYTES
}

/// Bytes from `address` to where a piece ends at the latest.
fn to_cut(address: u64) -> u64 {
    // The main stack is there.
    match LIBRARIES.contains(address) {
        true => CHUNK_BYTES,
        false => to_chunk_end(address),
    }
}

/// Bytes from where a piece begins at the latest to `end`.
fn from_cut(end: u64) -> u64 {
    match LIBRARIES.contains(end - 1) {
        true => CHUNK_BYTES,
        false => (end - 1) % CHUNK_BYTES + 1,
    }
}

/// The pieces of a range or, with `other`, of two ranges cut at the same offsets: (offset, bytes).
fn pieces(one: u64, other: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut offset = 0;
    core::iter::from_fn(move || {
        if offset == bytes {
            return None;
        }
        let piece = (bytes - offset).min(to_cut(one + offset)).min(to_cut(other + offset));
        offset += piece;
        Some((offset - piece, piece))
    })
}

impl Local {
    /// Opens a window over whole ranges if they are ours already and no gate lies in the next `events` events.
    #[inline]
    pub(super) fn try_window(&self, ranges: &[(u64, u64, Intent)], events: u64) -> bool {
        if control::counts_for_points() {
            return !self.awaits_point();
        }
        if policy::is_free() {
            return true;
        }
        if control::is_steered() {
            return false;
        }
        if policy::is_imposed() {
            self.pass_acquisitions();
        }
        if self.event().saturating_add(events) > self.slot.gate.load(Relaxed) {
            return false;
        }
        if policy::is_imposed() {
            return true;
        }
        self.access.open_window();
        let ours = ranges
            .iter()
            .all(|&(start, bytes, intent)| self.access.allows_all(start, start + bytes, intent));
        if !ours {
            self.access.close_window();
        }
        ours
    }

    #[inline]
    pub(super) fn leave_window(&self, events: u64) {
        self.complete_many(events);
        self.access.close_window();
    }

    /// Copies like memmove.
    ///
    /// # Safety
    /// As for memmove.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) {
        let (target, source, length) = (to as u64, from as u64, bytes as u64);
        if bytes == 0 {
            return;
        }
        let events = 2 * pieces(target, source, length).count() as u64;
        if self.try_window(
            &[(target, length, Intent::Write), (source, length, Intent::Read)],
            events,
        ) {
            // SAFETY: the caller promises what memmove demands.
            unsafe { core::ptr::copy(from, to, bytes) };
            return self.leave_window(events);
        }
        let copy_piece = |(offset, piece): (u64, u64)| {
            let mut buffer = [0u8; CHUNK_BYTES as usize];
            let copy = buffer.as_mut_ptr();
            // SAFETY: within the ranges of the call; a piece is at most a chunk.
            let load = || unsafe { core::ptr::copy_nonoverlapping(from.add(offset as usize), copy, piece as usize) };
            self.perform(source + offset, piece, Reach::Reads, load, |_| {
                Seen::read(Moved::At(copy))
            });
            // SAFETY: within the ranges of the call; the copy has room for a chunk, and a piece is at most one.
            let store = || unsafe { core::ptr::copy_nonoverlapping(copy, to.add(offset as usize), piece as usize) };
            self.perform(target + offset, piece, Reach::Writes, store, |_| {
                Seen::written(Moved::At(copy))
            });
        };
        if target > source && target < source + length {
            // Overlapping upwards: from the end. The pieces, last first, without a list of them.
            let mut left = length;
            while left > 0 {
                let piece = left.min(from_cut(target + left)).min(from_cut(source + left));
                copy_piece((left - piece, piece));
                left -= piece;
            }
        } else {
            pieces(target, source, length).for_each(copy_piece);
        }
    }

    /// Fills like memset.
    ///
    /// # Safety
    /// As for memset.
    pub unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) {
        let (target, length) = (to as u64, bytes as u64);
        let events = pieces(target, target, length).count() as u64;
        if self.try_window(&[(target, length, Intent::Write)], events) {
            // SAFETY: the caller promises what memset demands.
            unsafe { core::ptr::write_bytes(to, byte, bytes) };
            return self.leave_window(events);
        }
        for (offset, piece) in pieces(target, target, length) {
            // SAFETY: within the range of the call.
            let store = || unsafe { core::ptr::write_bytes(to.add(offset as usize), byte, piece as usize) };
            let seen = |_: Option<&()>| Seen::written(Moved::Repeated(byte));
            self.perform(target + offset, piece, Reach::Writes, store, seen);
        }
    }

    /// Stores what came from outside.
    ///
    /// # Safety
    /// As for memmove.
    pub unsafe fn store_from_outside(&self, to: *mut u8, from: *const u8, bytes: usize) {
        let (target, length) = (to as u64, bytes as u64);
        let events = pieces(target, target, length).count() as u64;
        if self.try_window(&[(target, length, Intent::Write)], events) {
            // SAFETY: the caller promises what memmove demands.
            unsafe { core::ptr::copy(from, to, bytes) };
            return self.leave_window(events);
        }
        for (offset, piece) in pieces(target, target, length) {
            // SAFETY: within the range of the call.
            let store =
                || unsafe { core::ptr::copy(from.add(offset as usize), to.add(offset as usize), piece as usize) };
            // SAFETY: within the range of the call.
            let copy = unsafe { from.add(offset as usize) };
            let seen = |_: Option<&()>| Seen::written(Moved::At(copy));
            self.perform(target + offset, piece, Reach::Writes, store, seen);
        }
    }

    /// Reads bytes that go outside, into memory of this thread's: the same events as if that were declared.
    ///
    /// # Safety
    /// As for memcpy.
    pub unsafe fn load_for_outside(&self, from: *const u8, to: *mut u8, bytes: usize) {
        let (source, length) = (from as u64, bytes as u64);
        let events = pieces(source, source, length).count() as u64;
        if self.try_window(&[(source, length, Intent::Read)], events) {
            // SAFETY: the caller promises what memcpy demands.
            unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
            return self.leave_window(events);
        }
        for (offset, piece) in pieces(source, source, length) {
            // SAFETY: within the ranges of the call.
            let (at, copy) = unsafe { (from.add(offset as usize), to.add(offset as usize)) };
            // SAFETY: within the ranges of the call.
            let load = || unsafe { core::ptr::copy_nonoverlapping(at, copy, piece as usize) };
            self.perform(source + offset, piece, Reach::Reads, load, |_| {
                Seen::read(Moved::At(copy))
            });
        }
    }

    /// Declares that somebody outside (the kernel, libc) reads or writes the range now: the same events, no access.
    pub fn declare(&self, start: u64, bytes: u64, reach: Reach) {
        let intent = if reach.writes() { Intent::Write } else { Intent::Read };
        let events = pieces(start, start, bytes).count() as u64;
        if self.try_window(&[(start, bytes, intent)], events) {
            return self.leave_window(events);
        }
        for (offset, piece) in pieces(start, start, bytes) {
            // Not looked at: the kernel may refuse what we would crash on.
            self.replay.trace.values.set(false);
            self.perform(start + offset, piece, reach, || (), |_| Seen::UNKNOWN);
            self.replay.trace.values.set(true);
        }
    }
}

/// # Safety
/// As for memmove.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_memmove(to: *mut u8, from: *const u8, bytes: usize, site: *const u8) -> *mut u8 {
    match Local::current() {
        Some(local) => {
            at_site(local, site);
            // SAFETY: the caller promises what memmove demands.
            unsafe { local.copy(to, from, bytes) };
        }
        // SAFETY: the caller promises what memmove demands.
        None => unsafe { core::ptr::copy(from, to, bytes) },
    }
    to
}

/// # Safety
/// As for memcpy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_memcpy(to: *mut u8, from: *const u8, bytes: usize, site: *const u8) -> *mut u8 {
    // SAFETY: the caller promises what memcpy demands, which is more than memmove does.
    unsafe { __refrain_memmove(to, from, bytes, site) }
}

/// # Safety
/// As for memset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_memset(to: *mut u8, byte: c_int, bytes: usize, site: *const u8) -> *mut u8 {
    match Local::current() {
        Some(local) => {
            at_site(local, site);
            // SAFETY: the caller promises what memset demands.
            unsafe { local.fill(to, byte as u8, bytes) };
        }
        // SAFETY: the caller promises what memset demands.
        None => unsafe { core::ptr::write_bytes(to, byte as u8, bytes) },
    }
    to
}
