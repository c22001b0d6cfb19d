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
use crate::Access;
use crate::Backoff;
use crate::Reach;
use crate::Thread;
use crate::Values;
use crate::World;
use crate::cell;
use crate::recorders::CELLS_MAX;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use machine::Word;
use run_model::Extent;
use run_model::Kind;
use runtime_abi::CELL_BYTES;

/// What a plain write of one cell does with the cell's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    /// Holds it: versions are the order of writes.
    Locked,
    /// Nothing.
    Relaxed,
}

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
fn wait_for_version<W: World>(world: W, part: Part) -> u64 {
    let word = world.cell_word(part.address);
    let version = word.load(Acquire);
    if version & cell::LOCKED == 0 {
        return version;
    }
    let mut backoff = Backoff::default();
    loop {
        backoff.wait(world);
        let version = word.load(Acquire);
        // Whoever held it may have stayed behind in the process that was forked.
        if version & cell::LOCKED == 0 || world.is_alone() {
            return version & !cell::LOCKED;
        }
    }
}

impl<W: World> Thread<W> {
    /// The access as one event, with its values and versions.
    pub(super) fn perform_versioned<R, V: Values>(
        &self,
        writes: Writes,
        what: Access,
        access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        let Access {
            address,
            bytes,
            reach,
            is_atomic,
        } = what;
        let is_wide = address % CELL_BYTES + bytes > CELL_BYTES;
        let is_locked = writes == Writes::Locked || is_atomic || is_wide;
        match reach {
            Reach::Reads => self.read_versioned(address, bytes, access, seen),
            _ if is_locked => self.write_locked(address, bytes, reach, access, seen),
            _ => self.write_relaxed(address, bytes, access, seen),
        }
    }

    fn read_versioned<R, V: Values>(
        &self,
        address: u64,
        bytes: u64,
        mut access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        if self.has_relaxed_writes.take() {
            self.world.fence();
        }
        let mut versions = [0; CELLS_MAX];
        let (result, quiet) = loop {
            for (part, version) in parts(address, bytes).zip(&mut versions) {
                *version = wait_for_version(self.world, part);
            }
            self.world.compiler_fence();
            let result = access();
            self.world.compiler_fence();
            let mut quiet = true;
            let mut cells = 0;
            for (part, version) in parts(address, bytes).zip(&mut versions) {
                // Acquire: not before the value; x86 keeps loads in order.
                let now = self.world.cell_word(part.address).load(Acquire);
                quiet &= now == core::mem::replace(version, now & !cell::LOCKED);
                cells += 1;
            }
            if cells == 1 || quiet {
                break (result, quiet);
            }
        };
        let values = seen(Some(&result));
        for (part, version) in parts(address, bytes).zip(versions) {
            self.log_part(Kind::Read, part, values.read(part.offset, part.bytes), version, quiet);
        }
        self.complete();
        result
    }

    fn write_locked<R, V: Values>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        mut access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        let mut versions = [0; CELLS_MAX];
        for (part, version) in parts(address, bytes).zip(&mut versions) {
            let word = self.world.cell_word(part.address);
            *version = cell::lock(self.world, word);
            // Release: before the value. Who sees that, sees this.
            word.store((*version + 1) | cell::LOCKED, Release);
        }
        let result = access();
        let values = seen(Some(&result));
        for (part, version) in parts(address, bytes).zip(versions) {
            if reach == Reach::Both {
                self.log_part(Kind::Read, part, values.read(part.offset, part.bytes), version, true);
            }
            let written = values.written(part.offset, part.bytes);
            self.log_part(Kind::Write, part, written, version + 1, true);
        }
        for (part, version) in parts(address, bytes).zip(versions) {
            // SeqCst, as a locked instruction: see above.
            self.world.cell_word(part.address).swap(version + 1, SeqCst);
        }
        self.complete();
        result
    }

    fn write_relaxed<R, V: Values>(
        &self,
        address: u64,
        bytes: u64,
        mut access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        let mut versions = [0; CELLS_MAX];
        for (part, version) in parts(address, bytes).zip(&mut versions) {
            let word = self.world.cell_word(part.address);
            // Not one step: that is the point. The lock bit of an atomic update may get lost, and is never copied.
            *version = (word.load(Relaxed) & !cell::LOCKED) + 1;
            word.store(*version, Release);
        }
        // Before the value is there to be read: the process may end at any moment, and others may have seen it by then.
        let values = seen(None);
        for (part, version) in parts(address, bytes).zip(versions) {
            let written = values.written(part.offset, part.bytes);
            self.log_part(Kind::Write, part, written, version, false);
        }
        self.world.compiler_fence();
        let result = access();
        self.has_relaxed_writes.set(true);
        self.complete();
        result
    }

    fn log_part(&self, kind: Kind, part: Part, value: Option<u64>, version: u64, quiet: bool) {
        let extent = Extent {
            bytes: part.bytes as u8,
            unknown: value.is_none(),
            quiet,
        };
        self.record_access(kind, part.address, extent, value.unwrap_or(0), version);
    }
}
