//! The file that one thread of a traced replay writes (`trace`).
use crate::control;
use crate::failure;
use crate::line::Line;
use crate::policy;
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::memory_map::TRACES;
use runtime_abi::trace_file::FILE_BYTES;
use runtime_abi::trace_file::FILE_PREFIX;
use runtime_abi::trace_file::HEADER_BYTES;
use runtime_abi::trace_file::MAGIC;
use runtime_abi::trace_file::PRIVATE_RING;
use runtime_abi::trace_file::RING_BYTES;
use runtime_abi::trace_file::RING_ENTRIES;
use runtime_abi::trace_file::RINGS;
use runtime_abi::trace_file::TraceEntry;
use runtime_abi::trace_file::TraceHeader;
use runtime_abi::trace_file::access;
use runtime_abi::trace_file::what;

const _: () = assert!(FILE_BYTES <= TRACES.stride);

/// Room is made in the file before it is touched, this many entries at a time.
const STEP_ENTRIES: u64 = 1 << 13;
const _: () = assert!(RING_ENTRIES.is_multiple_of(STEP_ENTRIES));

/// Accesses to memory of its own that a thread writes down during a panic: more than it takes to print a message, to unwind and to
/// run destructors, and so few that most of what came before is kept. A backtrace is many millions.
const IN_PANIC_ENTRIES: u64 = RING_ENTRIES / 4;

/// Reads of a loop that spins, at most.
const FOLDED_WITHIN: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Atomic {
    No,
    Yes,
}

#[derive(Clone, Copy)]
pub enum Ring {
    Private = 0,
    Shared = 1,
    Synchronisation = 2,
}
const _: () = assert!(Ring::Synchronisation as usize + 1 == RINGS && Ring::Private as usize == PRIVATE_RING);

/// Is this a traced replay?
#[inline]
pub fn is_on() -> bool {
    policy::is_imposed() && control::header().settings.trace.is(true)
}

/// One thread's trace.
pub struct Trace {
    base: Cell<u64>,
    written: [Cell<u64>; RINGS],
    /// Entries of each ring that the file has room for.
    room: [Cell<u64>; RINGS],
    /// How many of the last entries of each ring are reads with nothing but reads since.
    reads: [Cell<u64>; RINGS],
    /// May the memory of an access be looked at?
    pub values: Cell<bool>,
    /// Panics that the thread is in, one inside the other.
    panics: Cell<u64>,
    /// Accesses to memory of its own since the first of them began.
    in_panic: Cell<u64>,
}

/// What becomes of an access to memory of the thread's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Private {
    WrittenDown,
    /// The first one that is not.
    SkippedFirst,
    Skipped,
}

impl Trace {
    pub const fn new() -> Trace {
        Trace {
            base: Cell::new(0),
            written: [const { Cell::new(0) }; RINGS],
            room: [const { Cell::new(0) }; RINGS],
            reads: [const { Cell::new(0) }; RINGS],
            values: Cell::new(true),
            panics: Cell::new(0),
            in_panic: Cell::new(0),
        }
    }

    /// A forked child has a trace of its own.
    pub fn close(&self) {
        self.base.set(0);
        for count in self.written.iter().chain(&self.room).chain(&self.reads) {
            count.set(0);
        }
        self.values.set(true);
        self.panics.set(0);
        self.in_panic.set(0);
    }

    /// The thread has changed the count of panics from `before` to `after`.
    pub fn count_panic(&self, before: u64, after: u64) {
        if after > before {
            self.panics.set(self.panics.get() + 1);
        } else if after < before {
            self.panics.set(self.panics.get().saturating_sub(1));
        }
        if self.panics.get() == 0 {
            self.in_panic.set(0);
        }
    }

    /// Is the next access to memory of the thread's own worth an entry?
    pub fn next_private(&self) -> Private {
        if self.panics.get() == 0 {
            return Private::WrittenDown;
        }
        let earlier = self.in_panic.get();
        self.in_panic.set(earlier + 1);
        match earlier {
            ..IN_PANIC_ENTRIES => Private::WrittenDown,
            IN_PANIC_ENTRIES => Private::SkippedFirst,
            _ => Private::Skipped,
        }
    }

    /// Creates the file of thread `index`, if this replay is traced.
    pub fn open(&self, index: u32) {
        if !is_on() {
            return;
        }
        let base = TRACES.part(index as u64);
        let made = in_file(index, |file| {
            sys::allocate(file, 0, HEADER_BYTES)?;
            // In a forked process, in the place of its parent's.
            sys::map_at(base, FILE_BYTES as usize, file, 0, true)
        });
        if let Err(errno) = made {
            failure::die(b"cannot create the trace of a thread", errno);
        }
        self.base.set(base);
        self.header().magic.store(MAGIC, Relaxed);
    }

    fn header(&self) -> &'static TraceHeader {
        // SAFETY: `open` mapped the file here for good, with room for its header, which consists of atomics.
        unsafe { &*(self.base.get() as *const TraceHeader) }
    }

    /// Writes an entry and returns where it stands; `None` if nothing is traced or there is no room.
    pub fn append(&self, index: u32, ring: Ring, entry: TraceEntry) -> Option<*mut TraceEntry> {
        let (ring, number) = (ring as usize, self.written[ring as usize].get());
        if self.base.get() == 0
            || (number >= self.room[ring].get() && number < RING_ENTRIES && !self.make_room(index, ring))
        {
            return None;
        }
        self.count_reads(ring, &entry);
        let place = self.place(ring, number);
        // SAFETY: within the ring, where there is room; only this thread writes here.
        unsafe { place.write(entry) };
        self.publish(ring, number + 1);
        Some(place)
    }

    fn publish(&self, ring: usize, written: u64) {
        self.written[ring].set(written);
        // Release: the entry is whole before it counts, for the tool that reads the file.
        self.header().written[ring].store(written, Release);
    }

    fn place(&self, ring: usize, number: u64) -> *mut TraceEntry {
        let start = self.base.get() + HEADER_BYTES as u64 + ring as u64 * RING_BYTES;
        (start + number % RING_ENTRIES * size_of::<TraceEntry>() as u64) as *mut TraceEntry
    }

    fn count_reads(&self, ring: usize, entry: &TraceEntry) {
        if entry.what != what::ACCESS || entry.detail & access::WRITES != 0 {
            self.reads.iter().for_each(|reads| reads.set(0));
            return;
        }
        // Atomic reads order what comes after them, so not even reads may come between those that are folded.
        if ring != Ring::Synchronisation as usize {
            self.reads[Ring::Synchronisation as usize].set(0);
        }
        self.reads[ring].set(self.reads[ring].get() + 1);
    }

    /// A thread that spins reads the same again and again, and would push out all that matters. Of equal reads in a row
    /// the first and the last are kept: if `entry`, the ring's newest, is the third, it takes the second one's place.
    pub fn fold(&self, ring: Ring, entry: &TraceEntry) {
        let (ring, newest) = (ring as usize, self.written[ring as usize].get() - 1);
        let window = self.reads[ring].get().saturating_sub(1).min(FOLDED_WITHIN).min(newest);
        let is_equal = |number: &u64| {
            // SAFETY: an entry that this thread wrote, within the ring.
            let other = unsafe { &*self.place(ring, *number) };
            (other.site, other.address, other.value, other.detail)
                == (entry.site, entry.address, entry.value, entry.detail)
        };
        let mut equal = (newest - window..newest).rev().filter(is_equal);
        if let (Some(second), Some(_)) = (equal.next(), equal.next()) {
            // SAFETY: an entry that this thread wrote, within the ring, in which nobody else writes.
            unsafe { self.place(ring, second).write(*entry) };
            self.reads[ring].set(self.reads[ring].get() - 1);
            self.publish(ring, newest);
        }
    }

    #[cold]
    fn make_room(&self, index: u32, ring: usize) -> bool {
        let bytes = STEP_ENTRIES * size_of::<TraceEntry>() as u64;
        let offset = HEADER_BYTES as u64 + ring as u64 * RING_BYTES + self.room[ring].get() / STEP_ENTRIES * bytes;
        match in_file(index, |file| sys::allocate(file, offset, bytes as usize)) {
            Ok(()) => {
                self.room[ring].set(self.room[ring].get() + STEP_ENTRIES);
                true
            }
            Err(errno) => {
                self.header().errno.store(errno as u32, Relaxed);
                false
            }
        }
    }
}

fn in_file<R>(index: u32, action: impl FnOnce(i32) -> Result<R, i32>) -> Result<R, i32> {
    let mut name = Line::default();
    name.text(FILE_PREFIX.as_bytes());
    name.number(index as u64);
    let mut buffer = [0; 4352];
    let path = control::path_in_run(name.bytes(), &mut buffer);
    let file = sys::open(path, libc::O_RDWR | libc::O_CREAT)?;
    let result = action(file);
    sys::close(file);
    result
}

/// The trace of a thread that is over.
pub fn unmap(thread: u32) {
    // SAFETY: only that thread used it.
    unsafe { sys::unmap(TRACES.part(thread as u64), TRACES.stride as usize) };
}
