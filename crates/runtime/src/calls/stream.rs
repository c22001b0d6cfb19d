//! A thread's stream of inputs, on its way into the file: `log_format::inputs`, NOTE [Desk].
use crate::calls::inputs::Range;
use crate::calls::inputs::copy;
use crate::calls::rights;
use crate::control;
use crate::growing_file::Refusal;
use crate::sys;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use log_format::inputs;
use log_format::inputs::Before;
use log_format::inputs::Clock;
use log_format::inputs::DESK_AT;
use log_format::inputs::DESK_BYTES;
use log_format::inputs::ENTRY_BYTES;
use log_format::inputs::Entry;
use log_format::inputs::RANGE_BYTES;
use log_format::inputs::SHELF_AT;
use log_format::inputs::Short;
use log_format::inputs::ShortHash;
use log_format::inputs::WORDS_IN_ORDER;
use run_model::ThreadIndex;
use runtime_abi::truncated;

const PAGE: usize = 4096;
const WORD: usize = 8;
pub const EXTENSION: &str = "inputs";
/// What is put on the shelf ends at a multiple of this in the file, so that the page cache has large pages for it.
const UNIT: usize = DESK_BYTES;
/// When there is so much on the shelf, room for more is allocated ahead: that is cheaper than block by block.
const SHELVED_MUCH: u64 = 1 << 20;
const AHEAD: u64 = 1 << 22;
/// How much of the desk is used before the shelf has anything: up to a unit's end.
const FIRST_ROOM: usize = UNIT - SHELF_AT % UNIT;
const _: () = assert!(FIRST_ROOM.is_multiple_of(PAGE) && FIRST_ROOM <= DESK_BYTES);
/// Address space a stream needs.
pub const MAPPED_BYTES: u64 = SHELF_AT as u64;

pub struct Stream {
    /// Where header and desk are mapped.
    base: u64,
    /// How much of the desk can be used; 0: there is no file yet.
    room: usize,
    used: usize,
    shelved: u64,
    /// Where in the file the room ends that was allocated ahead.
    allocated: u64,
    before: Before,
    thread: u32,
}

impl Stream {
    pub const fn new(thread: u32, base: u64) -> Stream {
        Stream {
            base,
            room: 0,
            used: 0,
            shelved: 0,
            allocated: 0,
            before: Before::new(),
            thread,
        }
    }

    /// Appends a clock in its short form, if it has one and there is room on the desk.
    #[inline]
    pub fn append_clock(&mut self, clock: &Clock) -> bool {
        if self.used + Clock::BYTES_MAX > self.room {
            return false;
        }
        let Some((words, bytes)) = clock.encode(&mut self.before) else {
            return false;
        };
        let place = self.desk() + self.used;
        // SAFETY: there is room on the desk, whose entries are 8-aligned. A word too much is overwritten.
        unsafe { Place(place).put_words(&words) };
        self.advance_to(Place(place + bytes));
        true
    }

    /// Appends a call in its short form, if it has one and there is room on the desk.
    ///
    /// # Safety
    /// `from` has as many bytes as the call's range.
    #[inline]
    pub unsafe fn append_short(&mut self, call: &Short, from: *const u8) -> bool {
        let bytes = call.range.map_or(0, |(_, bytes)| bytes);
        if self.used + Short::BYTES_WITH_RANGE + padded(bytes) > self.room {
            return false;
        }
        let Some([first, second, range]) = call.encode(&mut self.before) else {
            return false;
        };
        let mut hash = ShortHash::new(first, second);
        let mut place = Place(self.desk() + self.used);
        let mut head = Place(place.0);
        // SAFETY: there is room on the desk, whose entries are 8-aligned; the caller's promise.
        unsafe {
            place.0 += Short::BYTES;
            if bytes != 0 {
                hash.word(range);
                place.put_words(&[range]);
                place.put_hashed(from, bytes, &mut hash);
            }
            head.put_words(&[hash.into(first), second]);
        }
        self.advance_to(place);
        true
    }

    /// The desk is used up to there.
    #[inline]
    fn advance_to(&mut self, place: Place) {
        self.used = place.0 - self.desk();
        self.publish(inputs::LENGTH_OFFSET, self.shelved + self.used as u64);
    }

    /// Appends an entry, hash and all.
    ///
    /// # Safety
    /// The ranges can be read.
    #[inline]
    pub unsafe fn append(&mut self, entry: &Entry, ranges: &[Range]) -> Result<(), Refusal> {
        let data: usize = ranges.iter().map(|range| RANGE_BYTES + padded(range.bytes)).sum();
        if data > self.room || self.used + ENTRY_BYTES + data > self.room {
            // SAFETY: the caller's promise.
            unsafe { self.append_in_pieces(entry, ranges)? };
        } else {
            let mut place = Place(self.desk() + self.used);
            // SAFETY: there is room on the desk for all of it; the caller's promise for the ranges.
            unsafe {
                place.put_words(&words_of(entry));
                for range in ranges {
                    place.put_words(&[range.address as u64, range.bytes as u64]);
                    place.put_padded(range.from as *const u8, range.bytes);
                }
            }
            self.used += ENTRY_BYTES + data;
        }
        self.before.event = entry.event;
        if entry.time != 0 {
            self.before.time = entry.time;
        }
        self.publish(inputs::LENGTH_OFFSET, self.shelved + self.used as u64);
        Ok(())
    }

    /// # Safety
    /// The ranges can be read.
    #[cold]
    unsafe fn append_in_pieces(&mut self, entry: &Entry, ranges: &[Range]) -> Result<(), Refusal> {
        if self.room == 0 {
            self.begin()?;
        }
        self.put(&entry.encode())?;
        for range in ranges {
            self.put(&inputs::encode_range(range.address as u64, range.bytes as u64))?;
            // SAFETY: the caller's promise.
            self.put(unsafe { core::slice::from_raw_parts(range.from as *const u8, range.bytes) })?;
            self.put(&[0; WORD][..padded(range.bytes) - range.bytes])?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut rest = bytes;
        if self.used + bytes.len() > self.room {
            // More than the room, so the desk at least.
            let shelved = self.room + (self.used + bytes.len() - self.room) / UNIT * UNIT;
            let (direct, last) = bytes.split_at(shelved - self.used);
            self.shelve(direct)?;
            rest = last;
        }
        copy(rest.as_ptr(), (self.desk() + self.used) as *mut u8, rest.len());
        self.used += rest.len();
        Ok(())
    }

    /// Puts what is on the desk, and `more` behind it, on the shelf.
    fn shelve(&mut self, more: &[u8]) -> Result<(), Refusal> {
        let bytes = (self.used + more.len()) as u64;
        count(bytes)?;
        let file = self.open(0)?;
        self.allocate_ahead(file, bytes);
        // SAFETY: the desk is mapped, and has that many bytes.
        let desk = unsafe { core::slice::from_raw_parts(self.desk() as *const u8, self.used) };
        let written = sys::write_at(file, [desk, more], SHELF_AT as u64 + self.shelved);
        sys::close(file);
        written.map_err(|errno| (truncated::NO_SPACE, errno))?;
        self.shelved += bytes;
        // The desk is used again only after this.
        self.publish(inputs::SHELVED_OFFSET, self.shelved);
        self.used = 0;
        self.room = DESK_BYTES;
        Ok(())
    }

    /// So many bytes are about to be put on the shelf.
    fn allocate_ahead(&mut self, file: i32, bytes: u64) {
        let start = SHELF_AT as u64 + self.shelved;
        if self.shelved >= SHELVED_MUCH && start + bytes > self.allocated {
            // If there is no room, or no such call, writing tells.
            _ = sys::allocate_ahead(file, start, bytes + AHEAD);
            self.allocated = start + bytes + AHEAD;
        }
    }

    /// The last entry, which has no ranges, was another one.
    pub fn correct_last(&mut self, entry: &Entry) {
        let bytes = entry.encode();
        let (before, after) = bytes.split_at(ENTRY_BYTES.saturating_sub(self.used));
        copy(
            after.as_ptr(),
            (self.desk() + self.used - after.len()) as *mut u8,
            after.len(),
        );
        if before.is_empty() {
            return;
        }
        if let Ok(file) = self.open(0) {
            let at = SHELF_AT as u64 + self.shelved - before.len() as u64;
            // If it cannot be written, the entry's hash says that it is damaged.
            _ = sys::write_at(file, [before, &[]], at);
            sys::close(file);
        }
    }

    #[inline]
    fn desk(&self) -> usize {
        self.base as usize + DESK_AT
    }

    /// Stores a word of the header, after everything written before: a reader sees the old one or the new one.
    #[inline]
    fn publish(&self, offset: usize, word: u64) {
        // SAFETY: the header is mapped at `base` since `begin`; the field is 8-aligned.
        let field = unsafe { &*((self.base + offset as u64) as *const AtomicU64) };
        // Release: the bytes are written before the word that covers them.
        field.store(word, Release);
    }

    fn open(&self, more_flags: i32) -> Result<i32, Refusal> {
        let (name, length) = log_format::file_name(ThreadIndex(self.thread), EXTENSION);
        rights::open(&name[..length], libc::O_RDWR | more_flags).map_err(|errno| (truncated::LOG_FILE, errno))
    }

    /// Creates the file and maps its header and its desk.
    fn begin(&mut self) -> Result<(), Refusal> {
        count(0)?;
        let file = self.open(libc::O_CREAT)?;
        // Before there is anything else in the file: whatever moment the process dies, it is empty or has a header.
        sys::write_all(file, &inputs::header(ThreadIndex(self.thread)));
        // Allocated before it is touched, so a full disk is an error we see and not a SIGBUS.
        let allocated = sys::allocate(file, 0, SHELF_AT).map_err(|errno| (truncated::NO_SPACE, errno));
        let mapped = allocated.and_then(|()| {
            sys::map_at(self.base, SHELF_AT, file, 0, true).map_err(|errno| (truncated::LOG_FILE, errno))
        });
        sys::close(file);
        mapped?;
        self.room = FIRST_ROOM;
        Ok(())
    }
}

/// So many bytes more are logged, if there may be more.
fn count(bytes: u64) -> Result<(), Refusal> {
    let control = control::header();
    // Relaxed: a sum that nothing else depends on.
    let total = control.log_bytes.fetch_add(bytes, Relaxed) + bytes;
    match control.log_bytes_max != 0 && total >= control.log_bytes_max {
        true => Err((truncated::SIZE_LIMIT, 0)),
        false => Ok(()),
    }
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD)
}

/// `Entry::encode`, as words.
#[inline]
fn words_of(entry: &Entry) -> [u64; ENTRY_BYTES / WORD] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        entry.event,
        pair(entry.number, entry.check),
        entry.result as u64,
        entry.time,
        pair(entry.ranges, entry.hash),
    ]
}

/// Where on the desk the next bytes belong.
struct Place(usize);

impl Place {
    /// # Safety
    /// There is room, and it is 8-aligned.
    #[inline]
    unsafe fn put_words(&mut self, words: &[u64]) {
        for word in words {
            // SAFETY: the caller's promise.
            unsafe { (self.0 as *mut u64).write(*word) };
            self.0 += WORD;
        }
    }

    /// # Safety
    /// There is room for the bytes and their padding; they can be read.
    #[inline]
    unsafe fn put_padded(&mut self, from: *const u8, bytes: usize) {
        let end = self.0 + padded(bytes);
        if bytes == 2 * WORD {
            // A time, most often.
            // SAFETY: the caller's promise.
            unsafe { (self.0 as *mut [u64; 2]).write(from.cast::<[u64; 2]>().read_unaligned()) };
        } else if bytes != 0 {
            // SAFETY: the caller's promise. The padding first, which the bytes then overlap.
            unsafe { ((end - WORD) as *mut u64).write(0) };
            copy(from, self.0 as *mut u8, bytes);
        }
        self.0 = end;
    }
    /// Puts bytes, of which there are some, and their padding, and hashes both.
    ///
    /// # Safety
    /// As for `put_padded`.
    #[inline]
    unsafe fn put_hashed(&mut self, from: *const u8, bytes: usize, hash: &mut ShortHash) {
        if bytes > WORDS_IN_ORDER * WORD {
            let start = self.0 as *const [u8; WORD];
            // SAFETY: the caller's promise.
            unsafe {
                self.put_padded(from, bytes);
                hash.words(core::slice::from_raw_parts(start, padded(bytes) / WORD));
            }
            return;
        }
        let mut left = bytes;
        let mut from = from;
        while left >= WORD {
            // SAFETY: the caller's promise.
            unsafe {
                let word = from.cast::<u64>().read_unaligned();
                hash.word(word);
                self.put_words(&[word]);
                from = from.add(WORD);
            }
            left -= WORD;
        }
        if left != 0 {
            // SAFETY: the caller's promise: so many bytes are left. If there was a word before them, they are its
            // neighbours, and the end of the word that ends with them.
            let last = unsafe {
                match bytes >= WORD {
                    true => from.sub(WORD - left).cast::<u64>().read_unaligned() >> (8 * (WORD - left)),
                    false => few_bytes(from, left),
                }
            };
            hash.word(last);
            // SAFETY: the caller's promise.
            unsafe { self.put_words(&[last]) };
        }
    }
}

/// One to seven bytes, as the beginning of a word.
///
/// # Safety
/// They can be read.
#[inline]
unsafe fn few_bytes(from: *const u8, bytes: usize) -> u64 {
    // SAFETY: the caller's promise. The parts overlap, and say the same where they do.
    unsafe {
        if bytes >= 4 {
            let last = from.add(bytes - 4).cast::<u32>().read_unaligned();
            return u64::from(from.cast::<u32>().read_unaligned()) | u64::from(last) << (8 * (bytes - 4));
        }
        let byte = |at: usize| u64::from(from.add(at).read()) << (8 * at);
        byte(0) | byte(bytes / 2) | byte(bytes - 1)
    }
}
