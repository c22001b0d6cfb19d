//! One thread's log.
//!
//! Appending is: encode into the mapped file, then publish the new end with one 8-byte store. No lock, no system call
//! until the window is full. If the file cannot grow, the run is sealed as truncated and the program goes on unrecorded.
use crate::control;
use crate::growing_file;
use crate::growing_file::GrowingFile;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use log_format::Encoder;
use log_format::MAX_RECORD_BYTES;
use log_format::RecordRef;
use log_format::RollingHash;
use log_format::Tail;
use run_model::ThreadIndex;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::ThreadSlot;
use runtime_abi::truncated;

/// Where logs are mapped: 64 MiB apart.
const LOGS: u64 = RUNTIME_REGION + 0x0040_0000_0000;
const LOG_SPACING: u64 = 1 << 26;
const _: () = assert!(growing_file::MAPPED_BYTES <= LOG_SPACING);

pub struct LogWriter {
    thread: u32,
    encoder: Encoder,
    hash: RollingHash,
    file: GrowingFile,
}

impl LogWriter {
    pub const fn new(thread: u32) -> LogWriter {
        LogWriter {
            thread,
            encoder: Encoder::new(),
            hash: RollingHash::new(),
            file: GrowingFile::new(thread, "log", LOGS + thread as u64 * LOG_SPACING),
        }
    }

    /// Creates the file, so that even a thread without a record has a log.
    pub fn create(&mut self) {
        if !self.file.is_created() {
            self.room();
        }
    }

    /// Room for one record; `None` if recording has stopped, perhaps just now.
    #[inline]
    fn room(&mut self) -> Option<*mut u8> {
        if is_stopped() {
            return None;
        }
        let header = || log_format::header(ThreadIndex(self.thread));
        match self.file.room(MAX_RECORD_BYTES, header) {
            Ok(place) => Some(place),
            Err((why, errno)) => {
                stop(why, errno);
                None
            }
        }
    }

    pub fn append(&mut self, slot: &ThreadSlot, record: &RecordRef<'_>) {
        let Some(place) = self.room() else {
            if slot.lost.load(Relaxed) == 0 {
                slot.lost.store(record.event + 1, Relaxed);
            }
            return;
        };
        // SAFETY: room for MAX_RECORD_BYTES, which only this thread touches.
        let place = unsafe { &mut *place.cast::<[u8; MAX_RECORD_BYTES]>() };
        let bytes = self.encoder.encode(record, place);
        self.hash.update(&place[..bytes]);
        self.file.advance(bytes);
        slot.records.store(slot.records.load(Relaxed) + 1, Relaxed);
        let tail = Tail::new(self.file.end() - log_format::HEADER_BYTES as u64, self.hash);
        self.file.publish(log_format::TAIL_OFFSET, tail.pack());
    }
}

/// The log of a thread that is over, or its trace in replay, which has the same place.
pub fn unmap(thread: u32) {
    // SAFETY: only that thread used it.
    unsafe { sys::unmap(LOGS + thread as u64 * LOG_SPACING, LOG_SPACING as usize) };
}

#[inline]
pub fn is_stopped() -> bool {
    control::is_stopped()
}

/// Recording ends here, for all threads; the program goes on.
pub fn stop(why: u32, errno: i32) {
    let header = control::header();
    control::stop();
    if header
        .truncated
        .compare_exchange(truncated::NO, why, Relaxed, Relaxed)
        .is_ok()
    {
        header.truncated_errno.store(errno as u32, Relaxed);
    }
}
