//! The file `thread-N.inputs`: grown while recording, mapped whole and read in place in replay.
use crate::calls::signals;
use crate::control;
use crate::ending;
use crate::growing_file;
use crate::growing_file::GrowingFile;
use crate::growing_file::Refusal;
use crate::log;
use crate::sys;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs;
use log_format::inputs::Call;
use log_format::inputs::Entry;
use log_format::inputs::RangeHash;
use log_format::inputs::Reader;
use run_model::ThreadIndex;
use runtime_abi::RUNTIME_REGION;

/// Where files are mapped while recording: 32 MiB apart; in the second half, memory for the kernel to write into.
const FILES: u64 = RUNTIME_REGION + 0x0240_0000_0000;
const SPACING: u64 = 1 << 25;
const BOUNCE_AT: u64 = SPACING / 2;
pub const BOUNCE_BYTES: usize = (SPACING / 2) as usize;
const _: () = assert!(growing_file::MAPPED_BYTES <= BOUNCE_AT);
/// In replay they are mapped whole, one behind the other.
const WHOLE_FILES: u64 = RUNTIME_REGION + 0x0340_0000_0000;
const PAGE: u64 = 4096;
const EXTENSION: &str = "inputs";

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
    thread: u32,
    file: GrowingFile,
    has_bounce: bool,
}

impl InputWriter {
    pub const fn new(thread: u32) -> InputWriter {
        InputWriter {
            thread,
            file: GrowingFile::new(thread, EXTENSION, FILES + thread as u64 * SPACING),
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
        let written = self.try_append(&entry, ranges);
        if let Err((why, errno)) = written {
            log::stop(why, errno);
        }
        written.is_ok()
    }

    /// The last call, which had no ranges, has ended in another way than expected.
    pub fn correct_last(&mut self, event: u64, number: u32, check: u32, result: i64) {
        let mut entry = Entry {
            event,
            number,
            check,
            result,
            ..Entry::default()
        };
        entry.hash = RangeHash::new(&entry).fold();
        if !log::is_stopped()
            && let Some(place) = self.file.written(inputs::ENTRY_BYTES)
        {
            let bytes = entry.encode();
            copy(bytes.as_ptr(), place, bytes.len());
        }
    }

    fn try_append(&mut self, entry: &Entry, ranges: &[Range]) -> Result<(), Refusal> {
        self.put(&entry.encode())?;
        for range in ranges {
            self.put(&inputs::encode_range(range.address as u64, range.bytes as u64))?;
            // SAFETY: `append`'s caller promises that the ranges can be read.
            for piece in unsafe { range.data() }.chunks(growing_file::MOST_AT_ONCE) {
                self.put(piece)?;
            }
            let padding = range.bytes.next_multiple_of(8) - range.bytes;
            self.put(&[0; 8][..padding])?;
        }
        let length = self.file.end() - inputs::HEADER_BYTES as u64;
        self.file.publish(inputs::LENGTH_OFFSET, length);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let place = self
            .file
            .room(bytes.len(), || inputs::header(ThreadIndex(self.thread)))?;
        copy(bytes.as_ptr(), place, bytes.len());
        self.file.advance(bytes.len());
        Ok(())
    }
}

/// Not `memcpy`: libc's uses registers that a system call must preserve.
pub fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: callers pass memory that can be read, and memory that can be written, of this many bytes each.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
             options(nostack, preserves_flags));
    }
}

/// A thread's recorded calls, in order.
pub struct InputReader {
    reader: Option<Reader<'static>>,
    /// The next call, read already.
    head: Option<Call<'static>>,
}

impl InputReader {
    pub const fn new() -> InputReader {
        InputReader {
            reader: None,
            head: None,
        }
    }

    /// Maps the thread's file, if the recording has one.
    pub fn open(&mut self, thread: u32) {
        static NEXT: AtomicU64 = AtomicU64::new(WHOLE_FILES);
        let mut buffer = [0; 4352];
        let (name, length) = log_format::file_name(ThreadIndex(thread), EXTENSION);
        let path = control::path_in_run(&name[..length], &mut buffer);
        let Ok(file) = sys::open(path, libc::O_RDONLY) else {
            return;
        };
        let bytes = sys::file_bytes(file);
        let place = NEXT.fetch_add(bytes.next_multiple_of(PAGE), Relaxed);
        if bytes == 0 || sys::map_to_read(place, bytes as usize, file).is_err() {
            sys::close(file);
            return;
        }
        sys::close(file);
        // SAFETY: just mapped, never unmapped; the tool keeps no other writer of a sealed run.
        let whole = unsafe { core::slice::from_raw_parts(place as *const u8, bytes as usize) };
        match Reader::open(whole, ThreadIndex(thread)) {
            Ok(reader) => {
                self.reader = Some(reader);
                self.next();
            }
            Err(_) => ending::die(b"the recorded inputs of a thread cannot be read", 0),
        }
    }

    /// The next call, or nothing when the recording has no more.
    pub fn next(&mut self) -> Option<Call<'static>> {
        let following = match self.reader.as_mut()?.next_call() {
            Ok(call) => call,
            Err(_) => ending::die(b"the recorded inputs of a thread are damaged", 0),
        };
        core::mem::replace(&mut self.head, following)
    }

    /// The number of the next call.
    pub fn next_number(&self) -> Option<u32> {
        Some(self.head.as_ref()?.entry.number)
    }

    /// Does the next call, if there is one, belong to `event`?
    pub fn has_call_in(&self, event: u64) -> bool {
        let belongs = |call: &Call<'_>| call.entry.event == event && call.entry.number < signals::FIRST;
        self.head.as_ref().is_some_and(belongs)
    }

    /// The event at which a signal is to be delivered, if that comes before the next call.
    #[inline]
    pub fn next_signal(&self) -> Option<u64> {
        let head = self.head.as_ref()?;
        (head.entry.number >= signals::FIRST).then_some(head.entry.event)
    }
}
