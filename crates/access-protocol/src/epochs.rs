//! Epochs: what is shared by all who have seen so far. Protocol: `README.md`.
use crate::Backoff;
use crate::Mistake;
use crate::Slot;
use crate::Thread;
use crate::World;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use machine::Word;
use run_model::Kind;
use run_model::Point;

impl<W: World> Thread<W> {
    /// From now on this thread may read whatever has been shared up to now.
    pub fn see_epochs(&self) {
        let epoch = self.world.epoch().load(Acquire);
        if self.slot.seen().load(Relaxed) < epoch {
            self.acquisition(Kind::Seen, 0, epoch as i64, &[]);
            self.raise_seen(epoch);
        }
    }

    fn raise_seen(&self, epoch: u64) {
        if self.world.makes(Mistake::SeenWithoutFence) {
            return self.slot.seen().store(epoch, Release);
        }
        // SeqCst, as a locked instruction: pairs with the load in `log_take_from_readers`. Whoever marks a chunk and does not find us
        // among its readers knows that we see the mark.
        self.passing_fence(|| self.slot.seen().swap(epoch, SeqCst));
    }

    /// Creates the next epoch: an event of this thread's.
    pub fn create_epoch(&self, kind: Kind, object: u64, sources: &[Point]) -> u64 {
        let mut backoff = Backoff::default();
        let lock = self.world.epoch_lock();
        // Acquire: pairs with the Release below.
        while lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            backoff.wait(self.world);
        }
        let newest = self.world.epoch();
        let epoch = newest.load(Relaxed) + 1;
        self.acquisition(kind, object, epoch as i64, sources);
        // Release: pairs with the Acquire in `see_epochs`.
        newest.store(epoch, Release);
        self.raise_seen(epoch);
        lock.store(0, Release);
        epoch
    }
}
