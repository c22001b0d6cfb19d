//! Methods stride (Zhou, Xiao, Zhang: ICSE 2012) and oreo: a cell has a version, which each write raises; a write logs its
//! value and the version it made, a read what it saw and the newest version it may have seen.
//!
//! Stride: writes of a cell are done under its lock bit, so their versions are their order. A read takes no lock: it
//! loads the value, then the version. A writer stores the version before the value, so who sees the value sees its
//! version, or a newer one. The lock bit is given back with a locked instruction: no later read of the writer passes its
//! write, and the run is sequentially consistent.
//!
//! An event is one step, but an access of several cells is not. Whoever writes several holds the lock bits of all until the
//! last is written, and a read first waits while its cell is locked: who has seen one of them sees all. A read of
//! several looks at their versions before and after, and reads again if one has changed.
//!
//! Oreo: writes take no lock. Two may get the same version, and an old version may be stored over a newer one; which
//! write a read saw is then a matter of values, and of the solver. A thread that reads after it has written passes a fence
//! first: x86 would let the read pass the write, and there would be runs that no order of events explains.
//!
//! Atomic updates take the lock bit in both: they are synchronisation. So do writes of several cells.
use crate::access::cell;
use crate::access::cell::Reach;
use crate::access::cell::cell_word;
use crate::access::plain::CELLS_MAX;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::control;
use crate::control::Recorder;
use crate::local::Local;
use crate::processes;
use crate::sys::Backoff;
use crate::trace::Atomic;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;
use core::sync::atomic::fence;
use run_model::Extent;
use run_model::Kind;
use runtime_abi::CELL_BYTES;

/// The part of an access that lies in one cell.
#[derive(Clone, Copy)]
struct Part {
    address: u64,
    /// From the beginning of the access.
    offset: u64,
    bytes: u64,
}

fn parts(address: u64, bytes: u64) -> impl Iterator<Item = Part> {
    let first = address & !(CELL_BYTES - 1);
    (first..address + bytes).step_by(CELL_BYTES as usize).map(move |cell| {
        let start = cell.max(address);
        Part {
            address: start,
            offset: start - address,
            bytes: (cell + CELL_BYTES).min(address + bytes) - start,
        }
    })
}

/// The version of a cell that nobody is writing.
#[inline]
fn wait_for_version(part: Part) -> u64 {
    let word = cell_word(part.address);
    let version = word.load(Acquire);
    if version & cell::LOCKED == 0 {
        return version;
    }
    let mut backoff = Backoff::default();
    loop {
        backoff.wait();
        let version = word.load(Acquire);
        // Whoever held it may have stayed behind in the process that was forked.
        if version & cell::LOCKED == 0 || processes::is_alone() {
            return version & !cell::LOCKED;
        }
    }
}

impl Local {
    /// The access as one event, with its values and versions.
    pub fn perform_versioned<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        atomic: Atomic,
        access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        let is_wide = address % CELL_BYTES + bytes > CELL_BYTES;
        let is_locked = control::recorder() == Recorder::Versions || atomic == Atomic::Yes || is_wide;
        match reach {
            Reach::Reads => self.read_versioned(address, bytes, access, seen),
            _ if is_locked => self.write_locked(address, bytes, reach, access, seen),
            _ => self.write_relaxed(address, bytes, access, seen),
        }
    }

    fn read_versioned<R>(
        &mut self,
        address: u64,
        bytes: u64,
        mut access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        if core::mem::take(&mut self.has_relaxed_writes) {
            fence(SeqCst);
        }
        let mut versions = [0; CELLS_MAX];
        let (result, quiet) = loop {
            for (part, version) in parts(address, bytes).zip(&mut versions) {
                *version = wait_for_version(part);
            }
            compiler_fence(SeqCst);
            let result = access();
            compiler_fence(SeqCst);
            let mut quiet = true;
            let mut cells = 0;
            for (part, version) in parts(address, bytes).zip(&mut versions) {
                // Acquire: not before the value; x86 keeps loads in order.
                let now = cell_word(part.address).load(Acquire);
                quiet &= now == core::mem::replace(version, now & !cell::LOCKED);
                cells += 1;
            }
            if cells == 1 || quiet {
                break (result, quiet);
            }
        };
        let read = seen(Some(&result)).read;
        for (part, version) in parts(address, bytes).zip(versions) {
            self.log_part(Kind::Read, part, read, version, quiet);
        }
        self.complete();
        result
    }

    fn write_locked<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        let mut versions = [0; CELLS_MAX];
        for (part, version) in parts(address, bytes).zip(&mut versions) {
            let word = cell_word(part.address);
            *version = cell::lock(word);
            // Release: before the value. Who sees that, sees this.
            word.store((*version + 1) | cell::LOCKED, Release);
        }
        let result = access();
        let Seen { read, written } = seen(Some(&result));
        for (part, version) in parts(address, bytes).zip(versions) {
            if reach == Reach::Both {
                self.log_part(Kind::Read, part, read, version, true);
            }
            self.log_part(Kind::Write, part, written, version + 1, true);
        }
        for (part, version) in parts(address, bytes).zip(versions) {
            // SeqCst, as a locked instruction: see above.
            cell_word(part.address).swap(version + 1, SeqCst);
        }
        self.complete();
        result
    }

    fn write_relaxed<R>(
        &mut self,
        address: u64,
        bytes: u64,
        mut access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        let mut versions = [0; CELLS_MAX];
        for (part, version) in parts(address, bytes).zip(&mut versions) {
            let word = cell_word(part.address);
            // Not one step: that is the point. The lock bit of an atomic update may get lost, and is never copied.
            *version = (word.load(Relaxed) & !cell::LOCKED) + 1;
            word.store(*version, Release);
        }
        // Before the value is there to be read: the process may end at any moment, and others may have seen it by then.
        let written = seen(None).written;
        for (part, version) in parts(address, bytes).zip(versions) {
            self.log_part(Kind::Write, part, written, version, false);
        }
        compiler_fence(SeqCst);
        let result = access();
        self.has_relaxed_writes = true;
        self.complete();
        result
    }

    fn log_part(&mut self, kind: Kind, part: Part, moved: Moved, version: u64, quiet: bool) {
        let value = moved.piece(part.offset, part.bytes);
        let extent = Extent {
            bytes: part.bytes as u8,
            unknown: value.is_none(),
            quiet,
        };
        self.record_access(kind, part.address, extent, value.unwrap_or(0), version);
    }
}
