//! What `--max-size` leaves to files that replays keep with a run: a run that was recorded with a cap does not outgrow it later.
use run_store::RunDirectory;
use run_store::RunMeta;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const BLOCK_BYTES: u64 = 4096;

/// Of one run, for all its processes.
#[derive(Debug)]
pub struct Room {
    /// `None`: as much as the disk has.
    left: Option<AtomicU64>,
}

impl Room {
    pub fn in_run(run: &RunDirectory, meta: &RunMeta) -> Room {
        let left = |most: NonZeroU64| {
            // With the directory itself. Where nothing can be found out, nothing is kept.
            let used = run.disk_bytes().unwrap_or(u64::MAX).saturating_add(BLOCK_BYTES);
            AtomicU64::new(most.get().saturating_sub(used))
        };
        // The cap was for where it was recorded.
        let is_unpacked = run.packed().is_ok_and(|packed| packed.is_some());
        let most = meta.settings.log_bytes_max.filter(|_| !is_unpacked);
        Room { left: most.map(left) }
    }

    pub fn is_limited(&self) -> bool {
        self.left.is_some()
    }

    /// Is there room for a file of so many bytes? Then it is taken; the file that is replaced is there as well for a moment.
    pub fn take(&self, bytes: u64) -> bool {
        let Some(left) = &self.left else {
            return true;
        };
        let blocks = bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        // Relaxed: a sum that nothing else depends on.
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(blocks))
            .is_ok()
    }
}
