//! A traced replay: every thread writes down each access and each synchronisation operation, for `refrain explain`.
//!
//! Each thread has a file of its own, mapped, with a ring for accesses to memory of its own, one for accesses to memory that
//! threads share, and one for synchronisation (atomics belong to both worlds and stand in the last). Entries are numbered over all threads by one counter, taken between the gate and
//! the access: conflicting accesses are kept in order by the gates, so their numbers are in that order, too. Nothing here
//! is an event, so a traced replay has the events of any other.
use crate::access::Reach;
use crate::access::cell_word;
use crate::control;
use crate::handles;
use crate::local::Local;
use crate::replay::Doing;
use crate::trace_file::Atomic;
use crate::trace_file::Private;
use crate::trace_file::Ring;
use crate::trace_file::is_on;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use runtime_abi::memory_map::PROGRAM;
use runtime_abi::trace_file::TraceEntry;
use runtime_abi::trace_file::access;
use runtime_abi::trace_file::what;

/// The next number over all threads.
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

// What is known of a cell, in its shadow word, which replay does not need: one more than the index of its last user, how
// often the user changed (up to two), and whether it was written after the first change.
const USER: u64 = 0xffff;
const CHANGED_ONCE: u64 = 1 << 16;
const CHANGED_TWICE: u64 = 1 << 17;
const WRITTEN: u64 = 1 << 18;
/// Memory that is handed over once, from who makes it to who uses it, is not shared, nor what all only read.
const SHARED: u64 = CHANGED_TWICE | WRITTEN;

/// Does the shadow have a word for this address? A bad pointer may lead anywhere.
fn has_shadow(address: u64) -> bool {
    PROGRAM.iter().any(|region| region.contains(address))
}

/// Up to 8 bytes of the program's memory, as a little-endian number.
///
/// # Safety
/// They may be read.
unsafe fn value_at(address: u64, bytes: u64) -> u64 {
    let mut value = [0u8; 8];
    // SAFETY: the caller promises that the bytes may be read.
    unsafe { core::ptr::copy_nonoverlapping(address as *const u8, value.as_mut_ptr(), bytes.min(8) as usize) };
    u64::from_le_bytes(value)
}

impl Local {
    /// The ring for an access: what counts is its first cell.
    fn ring_of(&self, address: u64, reach: Reach) -> Ring {
        if !has_shadow(address) {
            return Ring::Private;
        }
        let me = self.index as u64 + 1;
        let next = |state: u64| {
            let changes = state & (CHANGED_ONCE | CHANGED_TWICE);
            let changes = match changes {
                _ if state == 0 || state & USER == me => changes,
                0 => CHANGED_ONCE,
                _ => CHANGED_TWICE,
            };
            let written = if reach.writes() && changes != 0 {
                WRITTEN
            } else {
                state & WRITTEN
            };
            me | changes | written
        };
        // Relaxed: it only decides how long an entry is kept.
        let word = cell_word(address);
        let old = word.load(Relaxed);
        if next(old) != old {
            _ = word.fetch_update(Relaxed, Relaxed, |state| Some(next(state)));
        }
        if next(old) & SHARED == SHARED {
            Ring::Shared
        } else {
            Ring::Private
        }
    }

    fn entry(&self, what: u8, detail: u8, address: u64) -> TraceEntry {
        TraceEntry {
            // Relaxed: one counter has one order, and what happens before is counted before.
            sequence: SEQUENCE.fetch_add(1, Relaxed),
            event: self.event(),
            address,
            site: crate::sites::number(self.slot.site.load(Relaxed)).0,
            what,
            detail,
            ..TraceEntry::default()
        }
    }

    /// Does `access` and writes it down: before it, in case it is the thread's last, and its value after it.
    pub fn traced<R>(&self, address: u64, bytes: u64, reach: Reach, atomic: Atomic, access: impl FnOnce() -> R) -> R {
        let reads = if reach == Reach::Writes { 0 } else { access::READS };
        let writes = if reach.writes() { access::WRITES } else { 0 };
        let (ring, flag) = match atomic {
            Atomic::Yes => (Ring::Synchronisation, access::ATOMIC),
            Atomic::No => (self.ring_of(address, reach), 0),
        };
        if matches!(ring, Ring::Private) {
            match self.replay.trace.next_private() {
                Private::WrittenDown => {}
                Private::SkippedFirst => {
                    let entry = self.entry(what::SKIPPING, 0, 0);
                    self.replay.trace.append(self.index, Ring::Synchronisation, entry);
                    return access();
                }
                Private::Skipped => return access(),
            }
        }
        let value = if self.replay.trace.values.get() {
            0
        } else {
            access::NO_VALUE
        };
        let flags = reads | writes | flag | value;
        let mut entry = self.entry(what::ACCESS, flags | access::PENDING, address);
        entry.bytes = bytes.min(u16::MAX as u64) as u16;
        let place = self.replay.trace.append(self.index, ring, entry);
        if atomic == Atomic::Yes {
            // SAFETY: the program is about to access the same bytes.
            entry.other = unsafe { value_at(address, bytes) };
        }
        let result = access();
        if self.replay.trace.values.get() {
            // SAFETY: the program has just accessed them. Nobody changes them yet: conflicting accesses of others wait
            // for this event to complete.
            entry.value = unsafe { value_at(address, bytes) };
        }
        entry.detail = flags;
        if atomic == Atomic::Yes && address == control::header().settings.panic_count.number() {
            self.replay.trace.count_panic(entry.other, entry.value);
        }
        if let Some(place) = place {
            // SAFETY: where `append` wrote the entry; this thread has written none since.
            unsafe { place.write(entry) };
            if !reach.writes() {
                self.replay.trace.fold(ring, &entry);
            }
        }
        result
    }

    pub fn trace_sync(&self, op: Op, object: u64, value: i64) {
        if is_on() {
            let mut entry = self.entry(what::SYNC, op as u8, object);
            entry.value = value as u64;
            entry.other = other_thread(op, object);
            self.replay.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// The recording ends before this operation: the thread waited for it, perhaps.
    pub fn trace_stop(&self, doing: Doing) {
        if is_on() && doing.kind == Kind::Sync {
            let mut entry = self.entry(what::STOPPED, doing.op as u8, doing.object);
            entry.other = other_thread(doing.op, doing.object);
            self.replay.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// Creation, start or end of a thread.
    pub fn trace_thread(&self, what: u8, value: u64) {
        if is_on() {
            let mut entry = self.entry(what, 0, 0);
            entry.value = value;
            self.replay.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// A block of the heap begins or ends its life.
    pub fn trace_block(&self, what: u8, block: u64, bytes: u64) {
        if is_on() {
            let mut entry = self.entry(what, 0, block);
            entry.other = bytes;
            self.replay.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// The thread begins to fail, or to end the process: `THROWN` or `EXITING`.
    pub fn trace_failing(&self, what: u8, detail: u8) {
        if is_on() {
            let entry = self.entry(what, detail, 0);
            self.replay.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    pub fn trace_fatal(&self, signal: c_int, address: u64) {
        if is_on() {
            let entry = self.entry(what::FATAL, signal as u8, address);
            self.replay.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }
}

/// The index of the thread that is joined; `u64::MAX` if that is not what this is, or unknown.
fn other_thread(op: Op, object: u64) -> u64 {
    match op {
        Op::Join => handles::index_of_object(object).map_or(u64::MAX, u64::from),
        _ => u64::MAX,
    }
}
