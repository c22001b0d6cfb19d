//! One thread's log: a file mapping that only this thread writes, so `kill -9` loses nothing that was logged.
//!
//! Appending is: encode into the mapping, then publish the new end with one 8-byte store. No lock, no system call
//! until the window is full. Room is allocated in the file before it is touched, so a full disk is an error we see
//! and not a SIGBUS; then the run is sealed as truncated and the program goes on unrecorded.
use crate::control;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use log_format::Encoder;
use log_format::MAX_RECORD_BYTES;
use log_format::RecordRef;
use log_format::RollingHash;
use log_format::Tail;
use run_model::Access;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::SiteId;
use run_model::ThreadIndex;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::ThreadSlot;
use runtime_abi::truncated;

/// Where logs are mapped: 64 MiB apart, the header's page first, then the window.
const LOGS: u64 = RUNTIME_REGION + 0x0040_0000_0000;
const LOG_SPACING: u64 = 1 << 26;
const PAGE: u64 = 4096;
/// The first window is small (a run may have thousands of threads), later ones larger.
const FIRST_WINDOW: u64 = 1 << 14;
const LARGEST_WINDOW: u64 = 1 << 22;

/// Set once a log could not grow: every thread stops logging.
static STOPPED: AtomicBool = AtomicBool::new(false);

pub struct LogWriter {
    thread: u32,
    encoder: Encoder,
    hash: RollingHash,
    /// Bytes of the file written so far; 0: not yet created.
    end: u64,
    /// The part of the file that is mapped.
    window_start: u64,
    window_end: u64,
}

impl LogWriter {
    pub const fn new(thread: u32) -> LogWriter {
        LogWriter {
            thread,
            encoder: Encoder::new(),
            hash: RollingHash::new(),
            end: 0,
            window_start: 0,
            window_end: 0,
        }
    }

    /// Creates the file, so that even a thread without a record has a log.
    pub fn create(&mut self) {
        if self.end == 0 {
            self.grow();
        }
    }

    fn base(&self) -> u64 {
        LOGS + self.thread as u64 * LOG_SPACING
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a record, once")]
    pub fn append(
        &mut self,
        slot: &ThreadSlot,
        event: u64,
        kind: Kind,
        op: Op,
        access: Access,
        object: u64,
        site: SiteId,
        value: i64,
        sources: &[Point],
    ) {
        if STOPPED.load(Relaxed) || (self.end + MAX_RECORD_BYTES as u64 > self.window_end && !self.grow()) {
            if slot.lost.load(Relaxed) == 0 {
                slot.lost.store(event + 1, Relaxed);
            }
            return;
        }
        let record = RecordRef {
            event,
            kind,
            op,
            access,
            object,
            site,
            value,
            sources,
        };
        let address = self.base() + PAGE + (self.end - self.window_start);
        // SAFETY: `grow` made sure that MAX_RECORD_BYTES at the end of the log lie in the window, which only we touch.
        let place = unsafe { &mut *(address as *mut [u8; MAX_RECORD_BYTES]) };
        let bytes = self.encoder.encode(&record, place);
        self.hash.update(&place[..bytes]);
        self.end += bytes as u64;
        slot.records.store(slot.records.load(Relaxed) + 1, Relaxed);
        self.publish();
    }

    /// The log now ends here: one store, so a reader sees the old end or the new one.
    fn publish(&self) {
        let tail = Tail::new(self.end - log_format::HEADER_BYTES as u64, self.hash);
        let address = self.base() + log_format::TAIL_OFFSET as u64;
        // SAFETY: the header's page stays mapped at `base` from the first `grow` on; the field is 8-aligned.
        let field = unsafe { &*(address as *const AtomicU64) };
        // Release: the record's bytes are written before the end that covers them.
        field.store(tail.pack(), Release);
    }

    /// Moves the window so that it starts at the page of the log's end.
    #[cold]
    fn grow(&mut self) -> bool {
        match self.try_grow() {
            Ok(()) => true,
            Err((why, errno)) => {
                stop(why, errno);
                false
            }
        }
    }

    fn try_grow(&mut self) -> Result<(), (u32, i32)> {
        let header = control::header();
        let bytes = (self.window_end - self.window_start)
            .saturating_mul(2)
            .clamp(FIRST_WINDOW, LARGEST_WINDOW);
        let used = self.end.saturating_sub(self.window_start);
        let total = header.log_bytes.fetch_add(used, Relaxed) + used;
        if header.log_bytes_max != 0 && total >= header.log_bytes_max {
            return Err((truncated::SIZE_LIMIT, 0));
        }
        let (name, length) = log_format::file_name(ThreadIndex(self.thread));
        let mut buffer = [0; 4352];
        let path = control::path_in_run(&name[..length], &mut buffer);
        let file = sys::open(path, libc::O_RDWR | libc::O_CREAT).map_err(|errno| (truncated::LOG_FILE, errno))?;
        let result = self.map_window(file, bytes);
        sys::close(file);
        result
    }

    fn map_window(&mut self, file: i32, bytes: u64) -> Result<(), (u32, i32)> {
        let start = self.end / PAGE * PAGE;
        if self.end == 0 {
            // Before there is anything else in the file: whatever moment the process dies, it is empty or has a header.
            sys::write_all(file, &log_format::header(ThreadIndex(self.thread)));
        }
        sys::allocate(file, start, bytes as usize).map_err(|errno| (truncated::NO_SPACE, errno))?;
        let map = |at, bytes, offset| {
            sys::map_at(at, bytes, file, offset, true).map_err(|errno| (truncated::LOG_FILE, errno))
        };
        if self.end == 0 {
            map(self.base(), PAGE as usize, 0)?;
            self.end = log_format::HEADER_BYTES as u64;
            self.publish();
        }
        map(self.base() + PAGE, bytes as usize, start)?;
        (self.window_start, self.window_end) = (start, start + bytes);
        Ok(())
    }
}

pub fn is_stopped() -> bool {
    STOPPED.load(Relaxed)
}

/// Recording ends here, for all threads; the program goes on.
pub fn stop(why: u32, errno: i32) {
    let header = control::header();
    STOPPED.store(true, Relaxed);
    if header
        .truncated
        .compare_exchange(truncated::NO, why, Relaxed, Relaxed)
        .is_ok()
    {
        header.truncated_errno.store(errno as u32, Relaxed);
    }
}
