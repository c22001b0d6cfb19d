//! Recording with `--max-size`: room on the disk is asked for before it is used, by all processes and threads of the run and by the tool, which keeps the
//! output. The sum is in the control file of the first process.
use crate::control;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::disk;
use runtime_abi::truncated;

/// Why a file cannot grow: one of `runtime_abi::truncated`, and an errno.
pub type Refusal = (u32, i32);

/// So many bytes more of a file are about to be used, if there may be more.
pub fn reserve(bytes: u64) -> Result<(), Refusal> {
    let most = control::header().settings.log_bytes_max.number();
    reserve_of(most, bytes)
}

/// The same for a process that is about to join the run: what it has on the disk before it logs anything.
pub fn reserve_process() -> Result<(), Refusal> {
    let root = control::root();
    let refused = reserve_of(
        root.settings.log_bytes_max.number(),
        root.shared.process_bytes.load(Relaxed),
    );
    if refused.is_err() {
        // Relaxed: told once, by whoever comes first.
        _ = root
            .progress
            .truncated
            .compare_exchange(truncated::NO, truncated::SIZE_LIMIT, Relaxed, Relaxed);
    }
    refused
}

fn reserve_of(most: u64, bytes: u64) -> Result<(), Refusal> {
    if disk::reserve(&control::root().shared.disk_bytes, most, bytes) {
        Ok(())
    } else {
        Err((truncated::SIZE_LIMIT, 0))
    }
}
