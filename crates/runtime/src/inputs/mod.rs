//! The file `thread-N.inputs`: grown while recording, mapped whole and read in place in replay.
mod labels;
mod stream;

pub use labels::CallLabels;

use crate::control;
use crate::failure;
use crate::inputs::stream::EXTENSION;
use crate::inputs::stream::Stream;
use crate::log;
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs;
use log_format::inputs::Call;
use log_format::inputs::Clock;
use log_format::inputs::Entry;
use log_format::inputs::Lengths;
use log_format::inputs::RangeHash;
use log_format::inputs::Reader;
use log_format::inputs::Short;
use log_format::inputs::SignalPlace;
use log_format::inputs::Sync;
use log_format::inputs::labels::LABEL;
use run_model::Op;
use run_model::ThreadIndex;
use runtime_abi::memory_map::INPUTS;
use runtime_abi::memory_map::RECORDED_INPUTS;

/// While recording, each thread's file is mapped in its part; in the second half, there is memory for copies of what calls write and read.
const SPACING: u64 = INPUTS.stride;
const BOUNCE_AT: u64 = SPACING / 2;
const BOUNCE_BYTES: usize = (SPACING / 2) as usize;
const _: () = assert!(stream::MAPPED_BYTES <= BOUNCE_AT);
const PAGE: usize = 4096;

/// The check of a call by which libc's allocator finds out whether it may give memory back.
pub const ASKS_FOR_HEAP: u32 = 0x6865_6170;

/// What the kernel wrote: where in the program's memory it belongs, and where it is.
#[derive(Clone, Copy, Default)]
pub struct Range {
    pub address: usize,
    pub from: usize,
    pub bytes: usize,
}

impl Range {
    /// # Safety
    /// The kernel has written it.
    unsafe fn data(&self) -> &[u8] {
        // SAFETY: the caller promises that the kernel has written the range.
        unsafe { core::slice::from_raw_parts(self.from as *const u8, self.bytes) }
    }
}

pub struct InputWriter {
    stream: Stream,
    thread: u32,
    has_bounce: Cell<bool>,
    /// Of the memory for copies, so much is in use: by calls that a handler of a signal has interrupted.
    bounce_used: Cell<usize>,
}

/// Memory of one thread's alone, until it is dropped, and all that was taken after it.
pub struct Room<'a> {
    writer: &'a InputWriter,
    start: usize,
    bytes: usize,
}

impl Room<'_> {
    pub fn start(&self) -> usize {
        self.start
    }

    pub fn end(&self) -> usize {
        self.start + self.bytes
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back all but the first `bytes`; nothing was taken after it.
    pub fn shrink(&mut self, bytes: usize) {
        self.bytes = bytes.next_multiple_of(16).min(self.bytes);
        self.writer
            .bounce_used
            .set(self.start + self.bytes - self.writer.bounce_start());
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let (used, before) = (self.writer.bounce_used.get(), self.start - self.writer.bounce_start());
        self.writer.bounce_used.set(used.min(before));
    }
}

impl InputWriter {
    pub const fn new(thread: u32) -> InputWriter {
        InputWriter {
            thread,
            stream: Stream::new(thread, INPUTS.part(thread as u64)),
            has_bounce: Cell::new(false),
            bounce_used: Cell::new(0),
        }
    }

    /// The same thread in a forked child: a file of its own, in the same place.
    pub fn begin_in_child(&self) {
        self.stream.begin_again();
    }

    fn bounce_start(&self) -> usize {
        (INPUTS.part(self.thread as u64) + BOUNCE_AT) as usize
    }

    /// All that is left of the memory of this thread's alone: for the kernel to write into, and for copies of what is read.
    pub fn room(&self) -> Option<Room<'_>> {
        if !self.has_bounce.get() {
            sys::map_at(self.bounce_start() as u64, BOUNCE_BYTES, -1, 0, false).ok()?;
            self.has_bounce.set(true);
        }
        let used = self.bounce_used.replace(BOUNCE_BYTES);
        Some(Room {
            writer: self,
            start: self.bounce_start() + used,
            bytes: BOUNCE_BYTES - used,
        })
    }

    /// The same, from where to where it is, for a moment: nothing may be taken before its last use. `None`: there is little left.
    pub fn spare(&self) -> Option<[usize; 2]> {
        const LEAST: usize = 1 << 16;
        let spare = self.room().map(|room| [room.start(), room.end()]);
        spare.filter(|[start, end]| end - start >= LEAST)
    }

    /// Appends one call. False: it could not be written; recording has stopped.
    ///
    /// # Safety
    /// The ranges can be read.
    #[inline]
    pub unsafe fn append(&self, mut entry: Entry, ranges: &[Range]) -> bool {
        if log::is_stopped() {
            return false;
        }
        entry.ranges = ranges.len() as u32;
        let mut hash = RangeHash::new(&entry);
        for range in ranges {
            // SAFETY: the caller promises that the ranges can be read.
            hash.update(range.address as u64, unsafe { range.data() });
        }
        entry.hash = hash.fold();
        // SAFETY: the caller promises that the ranges can be read.
        let written = unsafe { self.stream.append(&entry, ranges) };
        if let Err((why, errno)) = written {
            log::stop(why, errno);
        }
        written.is_ok()
    }

    /// Appends a clock in its short form. False: it must be appended as any other call, or not at all.
    #[inline]
    pub fn append_clock(&self, clock: &Clock) -> bool {
        !log::is_stopped() && self.stream.append_clock(clock)
    }

    /// Appends a call in its short form. False: it must be appended as any other call, or not at all.
    ///
    /// # Safety
    /// The call's range can be read, where it belongs.
    #[inline]
    pub unsafe fn append_short(&self, call: &Short) -> bool {
        let from = call.range.map_or(0, |(address, _)| address);
        // SAFETY: the caller promises that the call's range can be read, where it belongs.
        !log::is_stopped() && unsafe { self.stream.append_short(call, from as *const u8) }
    }

    /// Appends a synchronisation in its short form, and says at which time it stands there. `None`: it must be appended as any other call, or not at all.
    #[inline]
    pub fn append_sync(&self, sync: &Sync) -> Option<u64> {
        if log::is_stopped() {
            return None;
        }
        self.stream.append_sync(sync)
    }

    /// The last call, which had no ranges, has ended in another way than expected.
    pub fn correct_last(&self, mut entry: Entry) {
        entry.hash = RangeHash::new(&entry).fold();
        if !log::is_stopped() {
            self.stream.correct_last(&entry);
        }
    }
}

/// Not `memcpy`: libc's uses registers that a system call must preserve.
#[inline]
pub fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: callers pass memory that can be read, and memory that can be written, of this many bytes each.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
             options(nostack, preserves_flags));
    }
}

/// Recording: what a thread that is over had mapped for its inputs.
pub fn unmap(thread: u32) {
    // SAFETY: only that thread used it.
    unsafe { sys::unmap(INPUTS.part(thread as u64), SPACING as usize) };
}

/// The two parts of a stream, one behind the other, behind those of threads before.
fn map_stream(file: i32, lengths: &Lengths) -> Option<&'static [u8]> {
    /// Where the next one goes: each thread takes a part for itself.
    static NEXT: AtomicU64 = AtomicU64::new(RECORDED_INPUTS.start);
    let bytes = lengths.stream.next_multiple_of(PAGE);
    let place = NEXT.fetch_add(bytes as u64, Relaxed);
    if place + bytes as u64 > RECORDED_INPUTS.end() {
        return None;
    }
    for (at, bytes, offset) in [
        (place, lengths.on_shelf, inputs::SHELF_AT),
        (place + lengths.on_shelf as u64, lengths.on_desk, inputs::DESK_AT),
    ] {
        if bytes != 0 {
            sys::map_to_read(at, bytes, file, offset).ok()?;
        }
    }
    let start = if bytes == 0 { PAGE as u64 } else { place };
    // SAFETY: just mapped, and not unmapped before the thread is over, as `lengths` says that the shelf has whole pages
    // if there is a desk; the tool keeps
    // no other writer of a sealed run. An empty slice needs no memory.
    Some(unsafe { core::slice::from_raw_parts(start as *const u8, lengths.stream) })
}

/// Where a recorded signal came.
#[derive(Clone, Copy)]
pub struct SignalAt {
    pub event: u64,
    /// After how many calls that were not logged: all, or those that change which signals are blocked.
    pub calls: u32,
    /// Not known of older recordings.
    pub place: Option<SignalPlace>,
}

/// A thread's recorded calls, in order.
pub struct InputReader {
    reader: Cell<Option<Reader<'static>>>,
    /// The next call, read already.
    head: Cell<Option<Call<'static>>>,
    /// What is mapped, and how much of it.
    mapped: Cell<(u64, usize)>,
    /// The time-stamp counter, as the last entry that has it says.
    counter: Cell<u64>,
}

impl InputReader {
    pub const fn new() -> InputReader {
        InputReader {
            reader: Cell::new(None),
            head: Cell::new(None),
            mapped: Cell::new((0, 0)),
            counter: Cell::new(0),
        }
    }

    /// Maps the thread's file, if the recording has one: the shelf, and behind it the desk.
    pub fn open(&self, thread: u32) {
        let mut buffer = [0; 4352];
        let (name, length) = log_format::file_name(ThreadIndex(thread), EXTENSION);
        let path = control::path_in_run(&name[..length], &mut buffer);
        let Ok(file) = sys::open(path, libc::O_RDONLY) else {
            return;
        };
        let mut header = [0; inputs::HEADER_BYTES];
        let got = sys::read(file, &mut header).max(0) as usize;
        let lengths = Lengths::read(&header[..got], sys::file_bytes(file) as usize, ThreadIndex(thread));
        let stream = lengths.ok().and_then(|lengths| map_stream(file, &lengths));
        sys::close(file);
        match stream {
            Some(stream) => {
                self.mapped
                    .set((stream.as_ptr() as u64, stream.len().next_multiple_of(PAGE)));
                self.reader.set(Some(Reader::new(stream)));
                self.next();
            }
            // The disk had no room for more than its name.
            None if got == 0 => {}
            None => failure::die(b"the recorded inputs of a thread cannot be read", 0),
        }
    }

    /// A forked child has inputs of its own.
    pub fn close(&self) {
        self.reader.set(None);
        self.head.set(None);
        self.mapped.set((0, 0));
    }

    /// Of a thread that is over.
    pub fn unmap(&self) {
        let (start, bytes) = self.mapped.get();
        self.close();
        if bytes != 0 {
            // SAFETY: only that thread used it.
            unsafe { sys::unmap(start, bytes) };
        }
    }

    /// The next call, or nothing when the recording has no more.
    pub fn next(&self) -> Option<Call<'static>> {
        let mut reader = self.reader.get()?;
        let following = loop {
            match reader.next_call() {
                // For the tool, which orders the threads.
                Ok(Some(call)) if matches!(call.entry.number, LABEL | inputs::REST) => {}
                Ok(call) => break call,
                Err(_) => failure::die(b"the recorded inputs of a thread are damaged", 0),
            }
        };
        self.reader.set(Some(reader));
        let taken = self.head.replace(following);
        if let Some(call) = taken.filter(|call| call.entry.number == inputs::COUNTER) {
            let word = call.ranges().next().and_then(|(_, bytes)| bytes.first_chunk::<8>());
            let later = self.counter.get().wrapping_add(call.entry.check.into());
            self.counter.set(word.map_or(later, |word| u64::from_le_bytes(*word)));
        }
        taken
    }

    /// The time-stamp counter, as the last entry that was taken and has it says.
    pub fn counter(&self) -> u64 {
        self.counter.get()
    }

    /// The number of the next call.
    pub fn next_number(&self) -> Option<u32> {
        Some(self.head.get()?.entry.number)
    }

    /// Has the next input a place in the order of all threads' inputs?
    pub fn has_place(&self) -> bool {
        self.head.get().is_some_and(|call| call.entry.time != 0)
    }

    /// The result of a wait with a time limit, if that comes next, at `event`.
    pub fn next_timed_wait(&self, event: u64) -> Option<i64> {
        let entry = self.head.get()?.entry;
        (entry.number == libc::SYS_futex as u32 && entry.event == event).then_some(entry.result)
    }

    /// The synchronisation that comes next, at `event`, as a number.
    pub fn next_sync(&self, event: u64) -> Option<u32> {
        let entry = self.head.get()?.entry;
        (entry.number == inputs::SYNC && entry.event == event).then_some(entry.check)
    }

    /// Recorded one thread at a time: does it go on next, and behind how many calls that are not logged?
    pub fn next_resume(&self, event: u64) -> Option<i64> {
        let entry = self.head.get()?.entry;
        (self.next_sync(event)? == Op::Resume as u32).then_some(entry.result)
    }

    /// The seconds that a look at the clock by the call `number` showed, if that comes next.
    pub fn next_clock(&self, number: u32) -> Option<u64> {
        let head = self.head.get().filter(|call| call.entry.number == number)?;
        let (_, bytes) = head.ranges().next()?;
        let seconds = bytes.get(..size_of::<u64>())?;
        Some(u64::from_le_bytes(seconds.try_into().ok()?))
    }

    /// Does libc's allocator look next whether it may give memory back?
    pub fn asks_for_heap(&self) -> bool {
        let head = self.head.get().map(|call| call.entry);
        head.is_some_and(|entry| entry.number == libc::SYS_openat as u32 && entry.check == ASKS_FOR_HEAP)
    }

    /// The check and the result of a call that failed and is otherwise not logged, if that comes next, at `event`.
    pub fn next_refusal(&self, event: u64) -> Option<(u32, i64)> {
        let entry = self.head.get()?.entry;
        (entry.number == inputs::REFUSED && entry.event == event).then_some((entry.check, entry.result))
    }

    /// The signal that comes next, if one does, at `event`.
    pub fn next_signal_number(&self, event: u64) -> Option<u32> {
        let entry = self.head.get()?.entry;
        (entry.event == event).then(|| entry.number.checked_sub(inputs::FIRST_SIGNAL))?
    }

    /// Does the next call, if there is one, belong to `event`?
    pub fn has_call_in(&self, event: u64) -> bool {
        let belongs = |call: Call<'_>| call.entry.event == event && call.entry.number < inputs::FIRST_SIGNAL;
        self.head.get().is_some_and(belongs)
    }

    /// Where a signal is to be delivered, if that comes before the next call.
    #[inline]
    pub fn next_signal(&self) -> Option<SignalAt> {
        let entry = self.head.get()?.entry;
        (entry.number >= inputs::FIRST_SIGNAL).then(|| SignalAt {
            event: entry.event,
            calls: entry.check,
            place: SignalPlace::of(entry.result),
        })
    }
}
