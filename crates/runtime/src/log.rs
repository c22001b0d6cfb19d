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
use runtime_abi::ThreadSlot;
use runtime_abi::memory_map::LOGS;
use runtime_abi::truncated;
use thread_cells::OwnedCell;

const _: () = assert!(growing_file::MAPPED_BYTES <= LOGS.stride);

pub struct LogWriter {
    thread: u32,
    /// No handler logs anything: what a signal brings is logged at the thread's next safe point.
    records: OwnedCell<Records>,
    file: GrowingFile,
}

/// The records so far, as far as the next one depends on them.
struct Records {
    encoder: Encoder,
    hash: RollingHash,
}

impl Records {
    const fn new() -> Records {
        Records {
            encoder: Encoder::new(),
            hash: RollingHash::new(),
        }
    }
}

impl LogWriter {
    pub const fn new(thread: u32) -> LogWriter {
        LogWriter {
            thread,
            records: OwnedCell::new(Records::new()),
            file: GrowingFile::new(thread, "log", LOGS.part(thread as u64)),
        }
    }

    /// In a forked child: an empty log of its own.
    pub fn begin(&self) {
        self.records.set(Records::new());
        self.file.begin();
    }

    /// Creates the file, so that even a thread without a record has a log.
    pub fn create(&self) {
        if !self.file.is_created() {
            self.room();
        }
    }

    /// Room for one record; `None` if recording has stopped, perhaps just now.
    #[inline]
    fn room(&self) -> Option<*mut u8> {
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

    pub fn append(&self, slot: &ThreadSlot, record: &RecordRef<'_>) {
        let Some(place) = self.room() else {
            if slot.lost.load(Relaxed) == 0 {
                slot.lost.store(record.event + 1, Relaxed);
            }
            return;
        };
        // SAFETY: room for MAX_RECORD_BYTES, which only this thread touches.
        let place = unsafe { &mut *place.cast::<[u8; MAX_RECORD_BYTES]>() };
        let (bytes, hash) = self.records.with(|records| {
            let bytes = records.encoder.encode(record, place);
            records.hash.update(&place[..bytes]);
            (bytes, records.hash)
        });
        self.file.advance(bytes);
        slot.records.store(slot.records.load(Relaxed) + 1, Relaxed);
        let tail = Tail::new(self.file.end() - log_format::HEADER_BYTES as u64, hash);
        self.file.publish(log_format::TAIL_OFFSET, tail.pack());
    }
}

/// The log of a thread that is over.
pub fn unmap(thread: u32) {
    // SAFETY: only that thread used it.
    unsafe { sys::unmap(LOGS.part(thread as u64), LOGS.stride as usize) };
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
        .progress
        .truncated
        .compare_exchange(truncated::NO, why, Relaxed, Relaxed)
        .is_ok()
    {
        header.progress.truncated_errno.store(errno as u32, Relaxed);
    }
}
