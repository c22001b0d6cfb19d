//! The file `thread-N.inputs`: grown while recording, mapped whole and read in place in replay.
use crate::calls::in_turn;
use crate::calls::signals;
use crate::calls::stream;
use crate::calls::stream::EXTENSION;
use crate::calls::stream::Stream;
use crate::control;
use crate::ending;
use crate::log;
use crate::sys;
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
use log_format::inputs::labels::LABEL;
use run_model::ThreadIndex;
use runtime_abi::RUNTIME_REGION;

/// Where files are mapped while recording: 32 MiB apart; in the second half, memory for the kernel to write into.
const FILES: u64 = RUNTIME_REGION + 0x0240_0000_0000;
const SPACING: u64 = 1 << 25;
const BOUNCE_AT: u64 = SPACING / 2;
pub const BOUNCE_BYTES: usize = (SPACING / 2) as usize;
const _: () = assert!(stream::MAPPED_BYTES <= BOUNCE_AT);
/// In replay they are mapped whole, one behind the other.
const WHOLE_FILES: u64 = RUNTIME_REGION + 0x0340_0000_0000;
const PAGE: usize = 4096;

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
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts(self.from as *const u8, self.bytes) }
    }
}

pub struct InputWriter {
    stream: Stream,
    thread: u32,
    has_bounce: bool,
}

impl InputWriter {
    pub const fn new(thread: u32) -> InputWriter {
        InputWriter {
            thread,
            stream: Stream::new(thread, FILES + thread as u64 * SPACING),
            has_bounce: false,
        }
    }

    /// The same thread in a forked child: a file of its own, in the same place.
    pub fn of_child(&self) -> InputWriter {
        InputWriter {
            has_bounce: self.has_bounce,
            ..InputWriter::new(self.thread)
        }
    }

    /// Memory of this thread's alone for the kernel to write into.
    pub fn bounce(&mut self) -> Option<usize> {
        let address = FILES + self.thread as u64 * SPACING + BOUNCE_AT;
        if !self.has_bounce {
            sys::map_at(address, BOUNCE_BYTES, -1, 0, false).ok()?;
            self.has_bounce = true;
        }
        Some(address as usize)
    }

    /// Appends one call. False: it could not be written; recording has stopped.
    ///
    /// # Safety
    /// The ranges can be read.
    #[inline]
    pub unsafe fn append(&mut self, mut entry: Entry, ranges: &[Range]) -> bool {
        if log::is_stopped() {
            return false;
        }
        entry.ranges = ranges.len() as u32;
        let mut hash = RangeHash::new(&entry);
        for range in ranges {
            // SAFETY: the caller's promise.
            hash.update(range.address as u64, unsafe { range.data() });
        }
        entry.hash = hash.fold();
        // SAFETY: the caller's promise.
        let written = unsafe { self.stream.append(&entry, ranges) };
        if let Err((why, errno)) = written {
            log::stop(why, errno);
        }
        written.is_ok()
    }

    /// Appends a clock in its short form. False: it must be appended as any other call, or not at all.
    #[inline]
    pub fn append_clock(&mut self, clock: &Clock) -> bool {
        !log::is_stopped() && self.stream.append_clock(clock)
    }

    /// Appends a call in its short form. False: it must be appended as any other call, or not at all.
    ///
    /// # Safety
    /// The call's range can be read, where it belongs.
    #[inline]
    pub unsafe fn append_short(&mut self, call: &Short) -> bool {
        let from = call.range.map_or(0, |(address, _)| address);
        // SAFETY: the caller's promise.
        !log::is_stopped() && unsafe { self.stream.append_short(call, from as *const u8) }
    }

    /// The last call, which had no ranges, has ended in another way than expected.
    pub fn correct_last(&mut self, mut entry: Entry) {
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
    unsafe { sys::unmap(FILES + thread as u64 * SPACING, SPACING as usize) };
}

/// The two parts of a stream, one behind the other.
fn map_stream(file: i32, lengths: &Lengths) -> Option<&'static [u8]> {
    static NEXT: AtomicU64 = AtomicU64::new(WHOLE_FILES);
    let bytes = lengths.stream.next_multiple_of(PAGE);
    let place = NEXT.fetch_add(bytes as u64, Relaxed);
    for (at, bytes, offset) in [
        (place, lengths.on_shelf, inputs::SHELF_AT),
        (place + lengths.on_shelf as u64, lengths.on_desk, inputs::DESK_AT),
    ] {
        if bytes != 0 {
            sys::map_to_read(at, bytes, file, offset).ok()?;
        }
    }
    let start = if bytes == 0 { PAGE as u64 } else { place };
    // SAFETY: just mapped, and not unmapped before the thread is over, as `lengths` says that the shelf has whole pages if there is a desk; the tool keeps
    // no other writer of a sealed run. An empty slice needs no memory.
    Some(unsafe { core::slice::from_raw_parts(start as *const u8, lengths.stream) })
}

/// A thread's recorded calls, in order.
pub struct InputReader {
    reader: Option<Reader<'static>>,
    /// The next call, read already.
    head: Option<Call<'static>>,
    /// What is mapped, and how much of it.
    mapped: (u64, usize),
}

impl InputReader {
    pub const fn new() -> InputReader {
        InputReader {
            reader: None,
            head: None,
            mapped: (0, 0),
        }
    }

    /// Maps the thread's file, if the recording has one: the shelf, and behind it the desk.
    pub fn open(&mut self, thread: u32) {
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
                self.mapped = (stream.as_ptr() as u64, stream.len().next_multiple_of(PAGE));
                self.reader = Some(Reader::new(stream));
                self.next();
            }
            // The disk had no room for more than its name.
            None if got == 0 => {}
            None => ending::die(b"the recorded inputs of a thread cannot be read", 0),
        }
    }

    /// Of a thread that is over.
    pub fn unmap(&mut self) {
        let (start, bytes) = core::mem::replace(self, InputReader::new()).mapped;
        if bytes != 0 {
            // SAFETY: only that thread used it.
            unsafe { sys::unmap(start, bytes) };
        }
    }

    /// The next call, or nothing when the recording has no more.
    pub fn next(&mut self) -> Option<Call<'static>> {
        let reader = self.reader.as_mut()?;
        let following = loop {
            match reader.next_call() {
                // For the tool, which orders the threads.
                Ok(Some(call)) if matches!(call.entry.number, LABEL | inputs::REST) => {}
                Ok(call) => break call,
                Err(_) => ending::die(b"the recorded inputs of a thread are damaged", 0),
            }
        };
        core::mem::replace(&mut self.head, following)
    }

    /// The number of the next call.
    pub fn next_number(&self) -> Option<u32> {
        Some(self.head.as_ref()?.entry.number)
    }

    /// Has the next input a place in the order of all threads' inputs?
    pub fn has_place(&self) -> bool {
        self.head.as_ref().is_some_and(|call| call.entry.time != 0)
    }

    /// The result of a wait with a time limit, if that comes next, at `event`.
    pub fn next_timed_wait(&self, event: u64) -> Option<i64> {
        let entry = self.head.as_ref()?.entry;
        (entry.number == libc::SYS_futex as u32 && entry.event == event).then_some(entry.result)
    }

    /// The synchronisation that comes next, at `event`, as a number.
    pub fn next_sync(&self, event: u64) -> Option<u32> {
        let entry = self.head.as_ref()?.entry;
        (entry.number == inputs::SYNC && entry.event == event).then_some(entry.check)
    }

    /// The seconds that a look at the clock by the call `number` showed, if that comes next.
    pub fn next_clock(&self, number: u32) -> Option<u64> {
        let head = self.head.as_ref().filter(|call| call.entry.number == number)?;
        let (_, bytes) = head.ranges().next()?;
        let seconds = bytes.get(..size_of::<u64>())?;
        Some(u64::from_le_bytes(seconds.try_into().ok()?))
    }

    /// Does libc's allocator look next whether it may give memory back?
    pub fn asks_for_heap(&self) -> bool {
        let head = self.head.as_ref().map(|call| call.entry);
        head.is_some_and(|entry| entry.number == libc::SYS_openat as u32 && entry.check == in_turn::ASKS_FOR_HEAP)
    }

    /// The signal that comes next, if one does, at `event`.
    pub fn next_signal_number(&self, event: u64) -> Option<u32> {
        let entry = self.head.as_ref()?.entry;
        (entry.event == event).then(|| entry.number.checked_sub(signals::FIRST))?
    }

    /// Does the next call, if there is one, belong to `event`?
    pub fn has_call_in(&self, event: u64) -> bool {
        let belongs = |call: &Call<'_>| call.entry.event == event && call.entry.number < signals::FIRST;
        self.head.as_ref().is_some_and(belongs)
    }

    /// The event at which a signal is to be delivered, if that comes before the next call; and after how many calls that
    /// were not logged.
    #[inline]
    pub fn next_signal(&self) -> Option<(u64, u32)> {
        let head = self.head.as_ref()?;
        (head.entry.number >= signals::FIRST).then_some((head.entry.event, head.entry.check))
    }
}
