//! Synchronisation objects as ghost accesses (Light, §4.3): each object has a word that names its last user, and each
//! operation is a read-modify-write of it. The order of operations on an object is so recorded, and replayed.
use crate::control;
use crate::freed;
use crate::local::Local;
use crate::local::open::Open;
use crate::policy;
use crate::replay::Doing;
use core::ffi::c_int;
use run_model::Kind;
use run_model::Op;
use run_model::Point;

/// The calling thread, if what it does with locks and threads is observed.
#[inline]
pub fn observed() -> Option<&'static Local> {
    if control::observes_sync() {
        Local::current()
    } else {
        None
    }
}

/// The calling thread, if it is observed what it does to this object. What is not may be perturbed all the same.
#[inline]
pub fn observed_at(op: Op, object: u64) -> Option<&'static Local> {
    let local = observed()?;
    if local.ignores(op, object) {
        local.chaos.at_sync();
        return None;
    }
    Some(local)
}

/// The calling thread, if what it does is recorded at all: at every scope.
#[inline]
pub fn recorded() -> Option<&'static Local> {
    if policy::is_free() { None } else { Local::current() }
}

/// What to do about a synchronisation operation.
pub enum Turn {
    /// Do it, and tell `Local::touch` afterwards (or before, if it releases something).
    Record,
    /// It was done in the recording with this result; the schedule allows it now.
    Replay(i64),
}

impl Local {
    /// Begins the operation `op` on `object`. In replay, waits for its turn.
    #[inline]
    pub fn begin(&self, op: Op, object: u64) -> Turn {
        if !policy::is_observed() {
            if self.has_own_step(op, object) {
                self.pass_own_step();
                return Turn::Replay(0);
            }
            return self.begin_again(op, object);
        }
        self.at_change_point();
        self.chaos.at_sync();
        if control::counts() {
            self.enter_turn(op);
        }
        self.enter_vectors(op, object);
        if op.releases() {
            self.before_release();
        }
        Turn::Record
    }

    /// Replay. If the program goes on without a schedule, there is nothing to be told, and it is done as if it was recorded; `freed.rs`.
    fn begin_again(&self, op: Op, object: u64) -> Turn {
        let value = self.wait_for_turn_at_safe_point(op, object);
        match policy::is_free() {
            true => Turn::Record,
            false => Turn::Replay(value),
        }
    }

    /// The same; handlers of signals run before it.
    pub fn wait_for_turn_at_safe_point(&self, op: Op, object: u64) -> i64 {
        self.at_safe_point();
        self.wait_for_turn(op, object)
    }

    /// Replay: waits for the turn of `op` on `object`. Returns its recorded result.
    pub fn wait_for_turn(&self, op: Op, object: u64) -> i64 {
        let gate = self.pass_gate(Doing {
            kind: Kind::Sync,
            op,
            object,
        });
        let value = gate.map_or(0, |gate| gate.value);
        self.trace_sync(op, object, value);
        value
    }

    /// Recording: this event is the object's newest use. Completes the event.
    ///
    /// Callers order this with the real operation so that uses are recorded in the order they had: acquiring
    /// operations call it when they hold the object, releasing ones while they still hold it.
    pub fn touch(&self, op: Op, object: u64, value: i64) {
        if !policy::is_free() {
            self.access.touch(op, object, value);
            self.leave_vectors();
        }
    }

    /// The same for an object that this thread alone holds, such as a mutex: its word needs no lock.
    #[inline]
    pub fn touch_held(&self, op: Op, object: u64, value: i64) {
        if !policy::is_free() {
            self.access.touch_held(op, object, value);
            self.leave_vectors();
        }
    }

    /// Recording: does `action` while the object's word is locked, so that the recorded order is that of the actions.
    /// Replaying: does it when its turn has come. Either way, one event.
    pub fn exclusively<R>(&self, op: Op, object: u64, action: impl FnOnce(&Local) -> R) -> R {
        self.exclusively_after(op, object, action, || ())
    }

    /// The same, with a lock of libc's that has to be taken before the object's word (and after the gate).
    pub fn exclusively_after<R, L>(
        &self,
        op: Op,
        object: u64,
        action: impl FnOnce(&Local) -> R,
        lock: impl FnOnce() -> L,
    ) -> R {
        let turn = self.begin(op, object);
        let _lock = lock();
        let open = self.open_in(turn, op, object);
        let result = action(self);
        self.close(open);
        result
    }

    /// Opens an event that `close` completes, with everything that the thread does meanwhile: for what cannot be a closure. It may come
    /// back to us for memory, and for nothing else.
    pub fn open(&self, op: Op, object: u64) -> Open {
        let turn = self.begin(op, object);
        self.open_in(turn, op, object)
    }

    fn open_in(&self, turn: Turn, op: Op, object: u64) -> Open {
        let held = (matches!(turn, Turn::Record) || freed::is_wanted()).then(|| {
            let held = self.access.hold_object(object);
            if policy::is_observed() {
                // Before the action: if the process ends meanwhile, what the action has done by then is ordered.
                let previous = self.access.user_before(&held);
                self.record_sync(op, object, 0, previous.as_slice());
            }
            held
        });
        Open {
            held,
            outside: self.inside_event.replace(true),
        }
    }

    pub fn close(&self, open: Open) {
        self.inside_event.set(open.outside);
        if let Some(held) = open.held {
            self.access.release_object(held);
        }
        if policy::is_imposed() && self.is_at_end() {
            // The recorded process ended before this event did.
            self.stop_until_freed();
        }
        self.complete();
    }

    /// Recording: does `action`, which returns an errno, while the object's word is locked; its result is recorded.
    pub fn renew(&self, op: Op, object: u64, action: impl FnOnce() -> c_int) -> c_int {
        match policy::is_free() {
            true => action(),
            false => self.access.touch_with(op, object, || action() as i64) as c_int,
        }
    }

    /// Recording: this event is the object's newest use; the caller logs it, and holds the object.
    pub fn mark_use(&self, object: u64) {
        if !policy::is_free() {
            self.access.mark_use(object);
        }
    }

    /// The last user of an object, if it is another thread.
    pub fn last_user(&self, object: u64) -> Option<Point> {
        self.access.last_user(object)
    }

    /// Logs an operation unless its order and its result are what replay would assume anyway.
    #[inline]
    pub fn record_sync(&self, op: Op, object: u64, value: i64, sources: &[Point]) {
        if !policy::is_free() {
            self.access.record_sync(op, object, value, sources);
        }
    }

    /// A result that is not a function of the program: recorded when it is not 0, and given back in replay.
    pub fn input(&self, op: Op, object: u64, action: impl FnOnce() -> i64) -> i64 {
        match self.begin(op, object) {
            Turn::Replay(value) => {
                self.complete();
                value
            }
            Turn::Record => {
                let value = action();
                self.record_sync(op, object, value, &[]);
                self.complete();
                value
            }
        }
    }
}
