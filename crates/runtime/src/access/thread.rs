//! What the rest of the runtime asks of a thread's recorder: its events, its records, its waits.
use crate::control;
use crate::local::Local;
use crate::policy;
use run_model::Kind;
use run_model::Op;
use run_model::Point;

impl Local {
    /// Index of the event about to happen.
    #[inline]
    pub fn event(&self) -> u64 {
        self.access.event()
    }

    /// The event about to happen, once it has happened.
    #[inline]
    pub fn point_after(&self) -> Point {
        self.access.point_after()
    }

    /// The current event is complete.
    #[inline]
    pub fn complete(&self) {
        if control::counts() {
            self.count_event();
        }
        self.access.complete();
        self.leave_vectors();
    }

    /// So many plain accesses are complete. Where a hybrid schedule is enforced, or a run of scope sync replayed, they are no events.
    #[inline]
    pub fn complete_many(&self, events: u64) {
        match control::counts_for_points() {
            true => self.pass_places(events),
            false if control::is_steered() => {}
            false => self.access.complete_many(events),
        }
    }

    /// A plain access, or an acquisition, is complete.
    #[inline]
    pub fn complete_plain(&self) {
        self.access.complete();
    }

    /// Recording: runs `call`, which may block. Meanwhile chunks can be taken from this thread without a barrier. A call that
    /// is cancelled does not come back here; `conditions::cancellable` sets the state then.
    pub fn blocking<R>(&self, call: impl FnOnce() -> R) -> R {
        if control::counts() {
            self.leave_turn();
        }
        self.access.blocking(call)
    }

    /// Recording: this thread is about to release something.
    #[inline]
    pub fn before_release(&self) {
        self.access.before_release();
    }

    /// An event of its own, complete before anybody can see what it acquired.
    pub fn acquisition(&self, kind: Kind, object: u64, value: i64, sources: &[Point]) {
        self.access.acquisition(kind, object, value, sources);
    }

    /// Logs one record for the current event.
    pub fn record(&self, kind: Kind, op: Op, access: u8, object: u64, value: i64, sources: &[Point]) {
        if !policy::is_free() {
            self.access.record(kind, op, access, object, value, sources);
        }
    }

    /// Creates the next epoch: an event of this thread's.
    pub fn create_epoch(&self, kind: Kind, object: u64, sources: &[Point]) {
        self.access.create_epoch(kind, object, sources);
    }
}
