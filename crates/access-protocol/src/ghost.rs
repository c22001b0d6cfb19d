//! Synchronisation objects as ghost accesses (Light, §4.3): each object has a word that names its last user, and each
//! operation is a read-modify-write of it. The order of operations on an object is so recorded.
use crate::Slot;
use crate::Thread;
use crate::World;
use crate::cell;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Word;
use run_model::Kind;
use run_model::Op;
use run_model::Point;

/// An object whose word is locked; who had it last is in there.
#[must_use]
pub struct HeldObject<W: World> {
    word: &'static W::U64,
    seen: u64,
}

impl<W: World> Thread<W> {
    /// This event is the object's newest use. Completes the event.
    ///
    /// Callers order this with the real operation so that uses are recorded in the order they had: acquiring
    /// operations call it when they hold the object, releasing ones while they still hold it.
    pub fn touch(&self, op: Op, object: u64, value: i64) {
        self.touch_with(op, object, || value);
    }

    /// The same, with an action that happens while the object's word is locked; its result is recorded.
    #[inline]
    pub fn touch_with(&self, op: Op, object: u64, action: impl FnOnce() -> i64) -> i64 {
        let held = self.hold_object(object);
        let value = action();
        let unknown = self.user_before(&held).filter(|user| !self.knows(*user));
        self.record_sync(op, object, value, unknown.as_slice());
        self.release_object(held);
        self.complete();
        value
    }

    /// The same for an object that this thread alone holds, such as a mutex: its word needs no lock. No fence point either: the
    /// operation itself mostly is one (`passing_fence`).
    #[inline]
    pub fn touch_held(&self, op: Op, object: u64, value: i64) {
        let word = self.world.ghost_word(object);
        // Relaxed: the mutex itself orders its holders.
        let seen = word.load(Relaxed);
        let unknown = cell::previous(seen, self.index).filter(|user| !self.knows(*user));
        self.record_sync(op, object, value, unknown.as_slice());
        cell::unlock(word, seen, self, true);
        self.complete();
    }

    /// The same for an operation with the result 0, where no memory is observed and nobody waits for counts: what is left of it if this thread has used the object last, or its
    /// records say already who has.
    #[inline(always)]
    pub fn touch_held_quickly(&self, op: Op, object: u64) {
        let word = self.world.ghost_word(object);
        // Relaxed: the mutex itself orders its holders.
        self.use_quickly(op, object, word, word.load(Relaxed));
    }

    /// The same for an object that others may use meanwhile. False: somebody else is at its word, and nothing has happened.
    #[inline(always)]
    pub fn touch_quickly(&self, op: Op, object: u64) -> bool {
        let word = self.world.ghost_word(object);
        let Some(seen) = cell::try_lock::<W>(word) else {
            return false;
        };
        self.use_quickly(op, object, word, seen);
        true
    }

    /// The use of an object whose word was `seen`, and is this thread's to write.
    #[inline(always)]
    fn use_quickly(&self, op: Op, object: u64, word: &W::U64, seen: u64) {
        if let Some(user) = cell::previous(seen, self.index)
            && !self.knows(user)
        {
            self.record_use(op, object, user);
        }
        let point = self.point_after();
        cell::unlock_after::<W>(word, point, true);
        // Release: as in `complete_many`.
        self.slot.count().store(point.count, Release);
    }

    #[cold]
    fn record_use(&self, op: Op, object: u64, user: Point) {
        self.record_sync(op, object, 0, &[user]);
    }

    /// Locks the object's word: whatever is done until `release_object` is in the order of its uses.
    #[inline]
    pub fn hold_object(&self, object: u64) -> HeldObject<W> {
        let word = self.world.ghost_word(object);
        let seen = self.passing_fence(|| cell::lock(self.world, word));
        HeldObject { word, seen }
    }

    /// Who used it last, if it was another thread.
    #[inline]
    pub fn user_before(&self, held: &HeldObject<W>) -> Option<Point> {
        cell::previous(held.seen, self.index)
    }

    /// The current event is its newest use.
    #[inline]
    pub fn release_object(&self, held: HeldObject<W>) {
        cell::unlock(held.word, held.seen, self, true);
    }

    /// Gives it back as it was: it has not been used.
    pub fn give_object_back(&self, held: HeldObject<W>) {
        cell::unlock_unused::<W>(held.word, held.seen);
    }

    /// This event is the object's newest use; the caller logs it, and holds the object.
    pub fn mark_use(&self, object: u64) {
        let held = self.hold_object(object);
        self.release_object(held);
    }

    /// The last user of an object, if it is another thread.
    pub fn last_user(&self, object: u64) -> Option<Point> {
        // Acquire: pairs with the Release in `cell::unlock`. The lock bit, if set, does not hide the user.
        cell::previous(self.world.ghost_word(object).load(Acquire) & !cell::LOCKED, self.index)
    }

    /// Logs an operation unless its order and its result are what replay would assume anyway.
    #[inline]
    pub fn record_sync(&self, op: Op, object: u64, value: i64, sources: &[Point]) {
        if value != 0 || !sources.is_empty() {
            self.record(Kind::Sync, op, 0, object, value, sources);
        }
    }
}
