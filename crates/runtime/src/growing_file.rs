//! A file of one thread's that grows at its end: a mapping that only this thread writes, so `kill -9` loses nothing.
//!
//! The header's page stays mapped; behind it, a window moves along with the end. Room is allocated in the file before it
//! is touched, so a full disk is an error we see and not a SIGBUS.
use crate::control;
use crate::disk;
use crate::disk::Refusal;
use crate::run_directory;
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::ThreadIndex;
use runtime_abi::truncated;

const PAGE: u64 = 4096;
/// The first window is small (a run may have thousands of threads), later ones larger.
const FIRST_WINDOW: u64 = 1 << 14;
const LARGEST_WINDOW: u64 = 1 << 22;
/// Bytes that can be asked for at once.
const MOST_AT_ONCE: usize = 1 << 20;
/// Address space a file needs.
pub const MAPPED_BYTES: u64 = PAGE + LARGEST_WINDOW;
const _: () = assert!(MOST_AT_ONCE as u64 + PAGE <= LARGEST_WINDOW);

pub struct GrowingFile {
    thread: u32,
    extension: &'static str,
    /// Where it is mapped: `MAPPED_BYTES` that are its own.
    base: u64,
    /// Bytes of the file written so far; 0: not yet created.
    end: Cell<u64>,
    /// The part of the file that is mapped.
    window_start: Cell<u64>,
    window_end: Cell<u64>,
}

impl GrowingFile {
    pub const fn new(thread: u32, extension: &'static str, base: u64) -> GrowingFile {
        GrowingFile {
            thread,
            extension,
            base,
            end: Cell::new(0),
            window_start: Cell::new(0),
            window_end: Cell::new(0),
        }
    }

    pub fn is_created(&self) -> bool {
        self.end.get() != 0
    }

    /// A file of another run from now on, which is not yet created.
    pub fn begin(&self) {
        self.end.set(0);
        self.window_start.set(0);
        self.window_end.set(0);
    }

    /// Bytes written so far.
    pub fn end(&self) -> u64 {
        self.end.get()
    }

    /// Room for `bytes` more at the end. The first time, the file is created with `header` in it.
    #[inline]
    pub fn room(&self, bytes: usize, header: impl Fn() -> [u8; 64]) -> Result<*mut u8, Refusal> {
        if self.end.get() + bytes as u64 > self.window_end.get() {
            self.move_window(bytes, header)?;
        }
        Ok((self.base + PAGE + (self.end.get() - self.window_start.get())) as *mut u8)
    }

    /// So many bytes of the room have been written.
    #[inline]
    pub fn advance(&self, bytes: usize) {
        self.end.set(self.end.get() + bytes as u64);
    }

    /// Stores a word of the header, after everything written before: a reader sees the old one or the new one.
    #[inline]
    pub fn publish(&self, offset: usize, word: u64) {
        // SAFETY: the header's page stays mapped at `base` from the first `room` on; the field is 8-aligned.
        let field = unsafe { &*((self.base + offset as u64) as *const AtomicU64) };
        // Release: the bytes are written before the word that covers them.
        field.store(word, Release);
    }

    /// Moves the window so that it starts at the page of the file's end.
    #[cold]
    fn move_window(&self, least: usize, header: impl Fn() -> [u8; 64]) -> Result<(), Refusal> {
        assert!(least <= MOST_AT_ONCE);
        let control = control::header();
        let used = self.end.get().saturating_sub(self.window_start.get());
        control.progress.log_bytes.fetch_add(used, Relaxed);
        let bytes = (self.window_end.get() - self.window_start.get())
            .saturating_mul(2)
            .max((least as u64 + PAGE).next_multiple_of(PAGE))
            .clamp(FIRST_WINDOW, LARGEST_WINDOW);
        // Up to the end of the window before, the file has its room already.
        let end = self.end.get() / PAGE * PAGE + bytes;
        disk::reserve(end - self.window_end.get().min(end))?;
        let (name, length) = log_format::file_name(ThreadIndex(self.thread), self.extension);
        run_directory::with_file(&name[..length], libc::O_RDWR | libc::O_CREAT, |file| {
            self.map_window(file, bytes, &header)
        })
    }

    fn map_window(&self, file: i32, bytes: u64, header: &impl Fn() -> [u8; 64]) -> Result<(), Refusal> {
        let start = self.end.get() / PAGE * PAGE;
        let map = |at, bytes, offset| {
            sys::map_at(at, bytes, file, offset, true).map_err(|errno| (truncated::LOG_FILE, errno))
        };
        let header = (!self.is_created()).then(header);
        if let Some(header) = &header {
            sys::make_private(file);
            // Before there is anything else in the file: whatever moment the process dies, it is empty or has a header.
            sys::write_all(file, header);
        }
        sys::allocate(file, start, bytes as usize).map_err(|errno| (truncated::NO_SPACE, errno))?;
        if header.is_some() {
            map(self.base, PAGE as usize, 0)?;
        }
        map(self.base + PAGE, bytes as usize, start)?;
        if let Some(header) = &header {
            self.end.set(header.len() as u64);
        }
        self.window_start.set(start);
        self.window_end.set(start + bytes);
        Ok(())
    }
}
