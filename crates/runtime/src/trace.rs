//! A traced replay: every thread writes down each access and each synchronisation operation, for `refrain explain`.
//!
//! Each thread has a file of its own, mapped, with a ring for accesses to memory of its own, one for accesses to memory that
//! threads share, and one for synchronisation (atomics belong to both worlds and stand in the last). Entries are numbered over all threads by one counter, taken between the gate and
//! the access: conflicting accesses are kept in order by the gates, so their numbers are in that order, too. Nothing here
//! is an event, so a traced replay has the events of any other.
use crate::access::Reach;
use crate::access::cell_word;
use crate::control;
use crate::control::Mode;
use crate::interpose;
use crate::local::Local;
use crate::replay::Doing;
use crate::sites::Line;
use crate::sys;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Kind;
use run_model::Op;
use runtime_abi::REGIONS;
use runtime_abi::RUNTIME_REGION;
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

/// Where traces are mapped, 64 MiB apart: logs have this place, and a replay has none.
const TRACES: u64 = RUNTIME_REGION + 0x0040_0000_0000;
const TRACE_SPACING: u64 = 1 << 26;
const _: () = assert!(FILE_BYTES <= TRACE_SPACING);

/// Room is made in the file before it is touched, this many entries at a time.
const STEP_ENTRIES: u64 = 1 << 13;
const _: () = assert!(RING_ENTRIES.is_multiple_of(STEP_ENTRIES));

/// Reads of a loop that spins, at most.
const FOLDED_WITHIN: u64 = 16;

/// The next number over all threads.
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Atomic {
    No,
    Yes,
}

#[derive(Clone, Copy)]
enum Ring {
    Private = 0,
    Shared = 1,
    Synchronisation = 2,
}
const _: () = assert!(Ring::Synchronisation as usize + 1 == RINGS && Ring::Private as usize == PRIVATE_RING);

// What is known of a cell, in its shadow word, which replay does not need: one more than the index of its last user, how
// often the user changed (up to two), and whether it was written after the first change.
const USER: u64 = 0xffff;
const CHANGED_ONCE: u64 = 1 << 16;
const CHANGED_TWICE: u64 = 1 << 17;
const WRITTEN: u64 = 1 << 18;
/// Memory that is handed over once, from who makes it to who uses it, is not shared, nor what all only read.
const SHARED: u64 = CHANGED_TWICE | WRITTEN;

/// Is this a traced replay?
#[inline]
pub fn is_on() -> bool {
    control::mode() == Mode::Replay && control::header().trace != 0
}

/// One thread's trace.
pub struct Trace {
    base: u64,
    written: [u64; RINGS],
    /// Entries of each ring that the file has room for.
    room: [u64; RINGS],
    /// How many of the last entries of each ring are reads with nothing but reads since.
    reads: [u64; RINGS],
    /// May the memory of an access be looked at?
    pub values: bool,
}

impl Trace {
    pub const fn new() -> Trace {
        Trace {
            base: 0,
            written: [0; RINGS],
            room: [0; RINGS],
            reads: [0; RINGS],
            values: true,
        }
    }

    /// Creates the file of thread `index`, if this replay is traced.
    pub fn open(&mut self, index: u32) {
        if !is_on() {
            return;
        }
        let base = TRACES + index as u64 * TRACE_SPACING;
        let made = in_file(index, |file| {
            sys::allocate(file, 0, HEADER_BYTES)?;
            // In a forked process, in the place of its parent's.
            sys::map_at(base, FILE_BYTES as usize, file, 0, true)
        });
        if let Err(errno) = made {
            crate::ending::die(b"cannot create the trace of a thread", errno);
        }
        self.base = base;
        self.header().magic.store(MAGIC, Relaxed);
    }

    fn header(&self) -> &'static TraceHeader {
        // SAFETY: `open` mapped the file here for good, with room for its header, which consists of atomics.
        unsafe { &*(self.base as *const TraceHeader) }
    }

    /// Writes an entry and returns where it stands; `None` if nothing is traced or there is no room.
    fn append(&mut self, index: u32, ring: Ring, entry: TraceEntry) -> Option<*mut TraceEntry> {
        let (ring, number) = (ring as usize, self.written[ring as usize]);
        if self.base == 0 || (number >= self.room[ring] && number < RING_ENTRIES && !self.make_room(index, ring)) {
            return None;
        }
        self.count_reads(ring, &entry);
        let place = self.place(ring, number);
        // SAFETY: within the ring, where there is room; only this thread writes here.
        unsafe { place.write(entry) };
        self.publish(ring, number + 1);
        Some(place)
    }

    fn publish(&mut self, ring: usize, written: u64) {
        self.written[ring] = written;
        // Release: the entry is whole before it counts, for the tool that reads the file.
        self.header().written[ring].store(written, Release);
    }

    fn place(&self, ring: usize, number: u64) -> *mut TraceEntry {
        let start = self.base + HEADER_BYTES as u64 + ring as u64 * RING_BYTES;
        (start + number % RING_ENTRIES * size_of::<TraceEntry>() as u64) as *mut TraceEntry
    }

    fn count_reads(&mut self, ring: usize, entry: &TraceEntry) {
        if entry.what != what::ACCESS || entry.detail & access::WRITES != 0 {
            self.reads = [0; RINGS];
            return;
        }
        // Atomic reads order what comes after them, so not even reads may come between those that are folded.
        if ring != Ring::Synchronisation as usize {
            self.reads[Ring::Synchronisation as usize] = 0;
        }
        self.reads[ring] += 1;
    }

    /// A thread that spins reads the same again and again, and would push out all that matters. Of equal reads in a row
    /// the first and the last are kept: if `entry`, the ring's newest, is the third, it takes the second one's place.
    fn fold(&mut self, ring: Ring, entry: &TraceEntry) {
        let (ring, newest) = (ring as usize, self.written[ring as usize] - 1);
        let window = self.reads[ring].saturating_sub(1).min(FOLDED_WITHIN).min(newest);
        let is_equal = |number: &u64| {
            // SAFETY: an entry that this thread wrote, within the ring.
            let other = unsafe { &*self.place(ring, *number) };
            (other.site, other.address, other.value, other.detail)
                == (entry.site, entry.address, entry.value, entry.detail)
        };
        let mut equal = (newest - window..newest).rev().filter(is_equal);
        if let (Some(second), Some(_)) = (equal.next(), equal.next()) {
            // SAFETY: as above.
            unsafe { self.place(ring, second).write(*entry) };
            self.reads[ring] -= 1;
            self.publish(ring, newest);
        }
    }

    #[cold]
    fn make_room(&mut self, index: u32, ring: usize) -> bool {
        let bytes = STEP_ENTRIES * size_of::<TraceEntry>() as u64;
        let offset = HEADER_BYTES as u64 + ring as u64 * RING_BYTES + self.room[ring] / STEP_ENTRIES * bytes;
        match in_file(index, |file| sys::allocate(file, offset, bytes as usize)) {
            Ok(()) => {
                self.room[ring] += STEP_ENTRIES;
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

/// Does the shadow have a word for this address? A bad pointer may lead anywhere.
fn has_shadow(address: u64) -> bool {
    REGIONS
        .iter()
        .any(|(start, bytes)| (*start..start + bytes).contains(&address))
}

/// Up to 8 bytes of the program's memory, as a little-endian number.
///
/// # Safety
/// They may be read.
unsafe fn value_at(address: u64, bytes: u64) -> u64 {
    let mut value = [0u8; 8];
    // SAFETY: the caller's promise.
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
    pub fn traced<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        atomic: Atomic,
        access: impl FnOnce() -> R,
    ) -> R {
        let reads = if reach == Reach::Writes { 0 } else { access::READS };
        let writes = if reach.writes() { access::WRITES } else { 0 };
        let (ring, flag) = match atomic {
            Atomic::Yes => (Ring::Synchronisation, access::ATOMIC),
            Atomic::No => (self.ring_of(address, reach), 0),
        };
        let value = if self.trace.values { 0 } else { access::NO_VALUE };
        let flags = reads | writes | flag | value;
        let mut entry = self.entry(what::ACCESS, flags | access::PENDING, address);
        entry.bytes = bytes.min(u16::MAX as u64) as u16;
        let place = self.trace.append(self.index, ring, entry);
        if atomic == Atomic::Yes {
            // SAFETY: the program is about to access the same bytes.
            entry.other = unsafe { value_at(address, bytes) };
        }
        let result = access();
        if self.trace.values {
            // SAFETY: the program has just accessed them. Nobody changes them yet: conflicting accesses of others wait
            // for this event to complete.
            entry.value = unsafe { value_at(address, bytes) };
        }
        entry.detail = flags;
        if let Some(place) = place {
            // SAFETY: where `append` wrote the entry; this thread has written none since.
            unsafe { place.write(entry) };
            if !reach.writes() {
                self.trace.fold(ring, &entry);
            }
        }
        result
    }

    pub fn trace_sync(&mut self, op: Op, object: u64, value: i64) {
        if is_on() {
            let mut entry = self.entry(what::SYNC, op as u8, object);
            entry.value = value as u64;
            entry.other = other_thread(op, object);
            self.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// The recording ends before this operation: the thread waited for it, perhaps.
    pub fn trace_stop(&mut self, doing: Doing) {
        if is_on() && doing.kind == Kind::Sync {
            let mut entry = self.entry(what::STOPPED, doing.op as u8, doing.object);
            entry.other = other_thread(doing.op, doing.object);
            self.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// Creation, start or end of a thread.
    pub fn trace_thread(&mut self, what: u8, value: u64) {
        if is_on() {
            let mut entry = self.entry(what, 0, 0);
            entry.value = value;
            self.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    /// A block of the heap begins or ends its life.
    pub fn trace_block(&mut self, what: u8, block: u64, bytes: u64) {
        if is_on() {
            let mut entry = self.entry(what, 0, block);
            entry.other = bytes;
            self.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }

    pub fn trace_fatal(&mut self, signal: c_int, address: u64) {
        if is_on() {
            let entry = self.entry(what::FATAL, signal as u8, address);
            self.trace.append(self.index, Ring::Synchronisation, entry);
        }
    }
}

/// The index of the thread that is joined; `u64::MAX` if that is not what this is, or unknown.
fn other_thread(op: Op, object: u64) -> u64 {
    match op {
        Op::Join => interpose::index_of_object(object).map_or(u64::MAX, u64::from),
        _ => u64::MAX,
    }
}
