//! A thread's stream of inputs, on its way into the file: `log_format::inputs`, NOTE [Desk].
use crate::control;
use crate::disk;
use crate::disk::Refusal;
use crate::inputs::Range;
use crate::inputs::copy;
use crate::run_directory;
use crate::sys;
use core::cell::Cell;
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
use log_format::inputs::Sync;
use log_format::inputs::WORDS_IN_ORDER;
use run_model::ThreadIndex;
use runtime_abi::truncated;
use thread_cells::OwnedCell;

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
    room: Cell<usize>,
    used: Cell<usize>,
    shelved: Cell<u64>,
    /// Where in the file the room ends that was allocated ahead.
    allocated: Cell<u64>,
    /// No handler appends anything: what a signal brings is logged at the thread's next safe point.
    before: OwnedCell<Before>,
    thread: u32,
}

impl Stream {
    pub const fn new(thread: u32, base: u64) -> Stream {
        Stream {
            base,
            room: Cell::new(0),
            used: Cell::new(0),
            shelved: Cell::new(0),
            allocated: Cell::new(0),
            before: OwnedCell::new(Before::new()),
            thread,
        }
    }

    /// In a forked child: a stream of its own, of which there is no file yet.
    pub fn begin_again(&self) {
        self.room.set(0);
        self.used.set(0);
        self.shelved.set(0);
        self.allocated.set(0);
        self.before.set(Before::new());
    }

    /// Appends a clock in its short form, if it has one and there is room on the desk.
    #[inline]
    pub fn append_clock(&self, clock: &Clock) -> bool {
        if self.used.get() + Clock::BYTES_MAX > self.room.get() {
            return false;
        }
        let Some((words, bytes)) = self.before.with(|before| clock.encode(before)) else {
            return false;
        };
        let place = self.desk() + self.used.get();
        // SAFETY: there is room on the desk, whose entries are 8-aligned. A word too much is overwritten.
        unsafe { Place(place).put_words(&words) };
        self.advance_to(Place(place + bytes));
        true
    }

    /// Appends a synchronisation in its short form, if it has one and there is room on the desk: its time there.
    #[inline]
    pub fn append_sync(&self, sync: &Sync) -> Option<u64> {
        if self.used.get() + Sync::BYTES > self.room.get() {
            return None;
        }
        let (word, time) = self.before.with(|before| Some((sync.encode(before)?, before.time)))?;
        let mut place = Place(self.desk() + self.used.get());
        // SAFETY: there is room on the desk, whose entries are 8-aligned.
        unsafe { place.put_words(&[word]) };
        self.advance_to(place);
        Some(time)
    }

    /// Appends a call in its short form, if it has one and there is room on the desk.
    ///
    /// # Safety
    /// `from` has as many bytes as the call's range.
    #[inline]
    pub unsafe fn append_short(&self, call: &Short, from: *const u8) -> bool {
        let bytes = call.range.map_or(0, |(_, bytes)| bytes);
        if self.used.get() + Short::BYTES_WITH_RANGE + padded(bytes) > self.room.get() {
            return false;
        }
        let Some([first, second, range]) = self.before.with(|before| call.encode(before)) else {
            return false;
        };
        let mut hash = ShortHash::new(first, second);
        let mut place = Place(self.desk() + self.used.get());
        let mut head = Place(place.0);
        // SAFETY: there is room on the desk, whose entries are 8-aligned; the caller promises that `from` has as many
        // bytes as the call's range.
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
    fn advance_to(&self, place: Place) {
        self.used.set(place.0 - self.desk());
        self.publish(inputs::LENGTH_OFFSET, self.shelved.get() + self.used.get() as u64);
    }

    /// Appends an entry, hash and all.
    ///
    /// # Safety
    /// The ranges can be read.
    #[inline]
    pub unsafe fn append(&self, entry: &Entry, ranges: &[Range]) -> Result<(), Refusal> {
        let data: usize = ranges.iter().map(|range| RANGE_BYTES + padded(range.bytes)).sum();
        if data > self.room.get() || self.used.get() + ENTRY_BYTES + data > self.room.get() {
            // SAFETY: the caller promises that the ranges can be read.
            unsafe { self.append_in_pieces(entry, ranges)? };
        } else {
            let mut place = Place(self.desk() + self.used.get());
            // SAFETY: there is room on the desk for all of it; the caller promises that the ranges can be read.
            unsafe {
                place.put_words(&words_of(entry));
                for range in ranges {
                    place.put_words(&[range.address as u64, range.bytes as u64]);
                    place.put_padded(range.from as *const u8, range.bytes);
                }
            }
            self.used.set(self.used.get() + ENTRY_BYTES + data);
        }
        self.before.with(|before| {
            before.event = entry.event;
            if entry.time != 0 {
                before.time = entry.time;
            }
        });
        self.publish(inputs::LENGTH_OFFSET, self.shelved.get() + self.used.get() as u64);
        Ok(())
    }

    /// # Safety
    /// The ranges can be read.
    #[cold]
    unsafe fn append_in_pieces(&self, entry: &Entry, ranges: &[Range]) -> Result<(), Refusal> {
        if self.room.get() == 0 {
            self.begin()?;
        }
        self.put(&entry.encode())?;
        for range in ranges {
            self.put(&inputs::encode_range(range.address as u64, range.bytes as u64))?;
            // SAFETY: the caller promises that the ranges can be read.
            self.put(unsafe { core::slice::from_raw_parts(range.from as *const u8, range.bytes) })?;
            self.put(&[0; WORD][..padded(range.bytes) - range.bytes])?;
        }
        Ok(())
    }

    fn put(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut rest = bytes;
        if self.used.get() + bytes.len() > self.room.get() {
            // More than the room, so the desk at least.
            let shelved = self.room.get() + (self.used.get() + bytes.len() - self.room.get()) / UNIT * UNIT;
            let (direct, last) = bytes.split_at(shelved - self.used.get());
            self.shelve(direct)?;
            rest = last;
        }
        copy(rest.as_ptr(), (self.desk() + self.used.get()) as *mut u8, rest.len());
        self.used.set(self.used.get() + rest.len());
        Ok(())
    }

    /// Puts what is on the desk, and `more` behind it, on the shelf.
    fn shelve(&self, more: &[u8]) -> Result<(), Refusal> {
        let bytes = (self.used.get() + more.len()) as u64;
        disk::reserve(bytes)?;
        // Relaxed: a sum that nothing else depends on.
        control::header().progress.log_bytes.fetch_add(bytes, Relaxed);
        // SAFETY: the desk is mapped, and has that many bytes.
        let desk = unsafe { core::slice::from_raw_parts(self.desk() as *const u8, self.used.get()) };
        self.with_file(0, |file| {
            self.allocate_ahead(file, bytes);
            sys::write_at(file, [desk, more], SHELF_AT as u64 + self.shelved.get())
                .map_err(|errno| (truncated::NO_SPACE, errno))
        })?;
        self.shelved.set(self.shelved.get() + bytes);
        // The desk is used again only after this.
        self.publish(inputs::SHELVED_OFFSET, self.shelved.get());
        self.used.set(0);
        self.room.set(DESK_BYTES);
        Ok(())
    }

    /// So many bytes are about to be put on the shelf.
    fn allocate_ahead(&self, file: i32, bytes: u64) {
        let start = SHELF_AT as u64 + self.shelved.get();
        // With a limit, only as much as is counted.
        let is_limited = control::header().settings.log_bytes_max.number() != 0;
        if !is_limited && self.shelved.get() >= SHELVED_MUCH && start + bytes > self.allocated.get() {
            // If there is no room, or no such call, writing tells.
            _ = sys::allocate_ahead(file, start, bytes + AHEAD);
            self.allocated.set(start + bytes + AHEAD);
        }
    }

    /// The last entry, which has no ranges, was another one.
    pub fn correct_last(&self, entry: &Entry) {
        let bytes = entry.encode();
        let (before, after) = bytes.split_at(ENTRY_BYTES.saturating_sub(self.used.get()));
        copy(
            after.as_ptr(),
            (self.desk() + self.used.get() - after.len()) as *mut u8,
            after.len(),
        );
        if before.is_empty() {
            return;
        }
        let at = SHELF_AT as u64 + self.shelved.get() - before.len() as u64;
        // If it cannot be written, the entry's hash says that it is damaged.
        _ = self.with_file(0, |file| {
            sys::write_at(file, [before, &[]], at).map_err(|errno| (truncated::NO_SPACE, errno))
        });
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

    fn with_file(&self, more_flags: i32, action: impl Fn(i32) -> Result<(), Refusal>) -> Result<(), Refusal> {
        let (name, length) = log_format::file_name(ThreadIndex(self.thread), EXTENSION);
        run_directory::with_file(&name[..length], libc::O_RDWR | more_flags, action)
    }

    /// Creates the file and maps its header and its desk.
    fn begin(&self) -> Result<(), Refusal> {
        disk::reserve(SHELF_AT as u64)?;
        self.with_file(libc::O_CREAT, |file| {
            sys::make_private(file);
            // Before there is anything else in the file: whatever moment the process dies, it is empty or has a header.
            sys::write_all(file, &inputs::header(ThreadIndex(self.thread)));
            // Allocated before it is touched, so a full disk is an error we see and not a SIGBUS.
            sys::allocate(file, 0, SHELF_AT).map_err(|errno| (truncated::NO_SPACE, errno))?;
            sys::map_at(self.base, SHELF_AT, file, 0, true).map_err(|errno| (truncated::LOG_FILE, errno))
        })?;
        self.room.set(FIRST_ROOM);
        Ok(())
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
            // SAFETY: the caller promises that there is room, and it is 8-aligned.
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
            // SAFETY: the caller promises that there is room for the bytes and their padding, and that they can be read.
            unsafe { (self.0 as *mut [u64; 2]).write(from.cast::<[u64; 2]>().read_unaligned()) };
        } else if bytes != 0 {
            // SAFETY: the caller promises that there is room for the bytes and their padding, and that they can be
            // read. The padding first, which the bytes then overlap.
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
            // SAFETY: the caller promises that there is room for the bytes and their padding, and that they can be read; what was put is
            // behind `start`, in whole words.
            unsafe {
                self.put_padded(from, bytes);
                hash.words(core::slice::from_raw_parts(start, padded(bytes) / WORD));
            }
            return;
        }
        let mut left = bytes;
        let mut from = from;
        while left >= WORD {
            // SAFETY: the caller promises that the bytes can be read, of which there is a word left, and that there is room.
            unsafe {
                let word = from.cast::<u64>().read_unaligned();
                hash.word(word);
                self.put_words(&[word]);
                from = from.add(WORD);
            }
            left -= WORD;
        }
        if left != 0 {
            // SAFETY: the caller promises that the bytes can be read, and so many are left. If there was a word before them, they are its
            // neighbours, and the end of the word that ends with them.
            let last = unsafe {
                match bytes >= WORD {
                    true => from.sub(WORD - left).cast::<u64>().read_unaligned() >> (8 * (WORD - left)),
                    false => few_bytes(from, left),
                }
            };
            hash.word(last);
            // SAFETY: the caller promises that there is room for the bytes and their padding: this is the last word of both.
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
    // SAFETY: the caller promises that the bytes can be read. The parts overlap, and say the same where they do.
    unsafe {
        if bytes >= 4 {
            let last = from.add(bytes - 4).cast::<u32>().read_unaligned();
            return u64::from(from.cast::<u32>().read_unaligned()) | u64::from(last) << (8 * (bytes - 4));
        }
        let byte = |at: usize| u64::from(from.add(at).read()) << (8 * at);
        byte(0) | byte(bytes / 2) | byte(bytes - 1)
    }
}
