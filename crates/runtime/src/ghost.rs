//! Synchronisation objects as ghost accesses (Light, §4.3): each object has a word that names its last user, and each
//! operation is a read-modify-write of it. The order of operations on an object is so recorded, and replayed.
use crate::access::cell as cells;
use crate::access::cell_word;
use crate::control;
use crate::control::Mode;
use crate::local::Local;
use crate::replay::Doing;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use runtime_abi::CELL_XOR;
use runtime_abi::GHOST_XOR;

/// The calling thread, if what it does with locks and threads is observed.
#[inline]
pub fn observed() -> Option<&'static mut Local> {
    if control::observes_sync() {
        Local::current()
    } else {
        None
    }
}

/// The calling thread, if what it does is recorded at all: at every scope.
#[inline]
pub fn recorded() -> Option<&'static mut Local> {
    if control::mode() == Mode::Off {
        None
    } else {
        Local::current()
    }
}

/// The ghost word of an object: like a cell word, in another shadow.
fn word(object: u64) -> &'static AtomicU64 {
    cell_word(object ^ (CELL_XOR ^ GHOST_XOR))
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
    pub fn begin(&mut self, op: Op, object: u64) -> Turn {
        match control::mode() {
            Mode::Replay => {
                self.at_safe_point();
                Turn::Replay(self.wait_for_turn(op, object))
            }
            _ => {
                self.at_change_point();
                self.chaos.at_sync();
                if op.releases() {
                    self.before_release();
                }
                Turn::Record
            }
        }
    }

    /// Replay: waits for the turn of `op` on `object`. Returns its recorded result.
    pub fn wait_for_turn(&mut self, op: Op, object: u64) -> i64 {
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
    pub fn touch(&mut self, op: Op, object: u64, value: i64) {
        let word = word(object);
        let seen = cells::lock(word);
        let previous = cells::previous(seen, self.index);
        let unknown = previous.filter(|user| !self.knows(*user));
        self.record_sync(op, object, value, unknown.as_slice());
        cells::unlock(word, seen, self, true);
        self.complete();
    }

    /// The same for an object that this thread alone holds, such as a mutex: its word needs no lock.
    #[inline]
    pub fn touch_held(&mut self, op: Op, object: u64, value: i64) {
        let word = word(object);
        // Relaxed: the mutex itself orders its holders.
        let seen = word.load(Relaxed);
        let unknown = cells::previous(seen, self.index).filter(|user| !self.knows(*user));
        self.record_sync(op, object, value, unknown.as_slice());
        cells::unlock(word, seen, self, true);
        self.complete();
    }

    /// Recording: does `action` while the object's word is locked, so that the recorded order is that of the actions.
    /// Replaying: does it when its turn has come. Either way, one event.
    pub fn exclusively<R>(&mut self, op: Op, object: u64, action: impl FnOnce(&mut Local) -> R) -> R {
        self.exclusively_after(op, object, action, || ())
    }

    /// The same, with a lock of libc's that has to be taken before the object's word (and after the gate).
    pub fn exclusively_after<R, L>(
        &mut self,
        op: Op,
        object: u64,
        action: impl FnOnce(&mut Local) -> R,
        lock: impl FnOnce() -> L,
    ) -> R {
        let turn = self.begin(op, object);
        let _lock = lock();
        let locked = match turn {
            Turn::Record => Some((word(object), cells::lock(word(object)))),
            Turn::Replay(_) => None,
        };
        if let Some((_, seen)) = locked {
            // Before the action: if the process ends meanwhile, what the action has done by then is ordered.
            let previous = cells::previous(seen, self.index);
            self.record_sync(op, object, 0, previous.as_slice());
        }
        // The action may come back to us, for memory: that is part of this event.
        let outside = core::mem::replace(&mut self.inside_event, true);
        let result = action(self);
        self.inside_event = outside;
        match locked {
            Some((word, seen)) => cells::unlock(word, seen, self, true),
            // The recorded process ended before this event did.
            None if self.is_at_end() => self.stop_here(),
            None => {}
        }
        self.complete();
        result
    }

    /// Recording: does `action`, which returns an errno, while the object's word is locked; its result is recorded.
    pub fn renew(&mut self, op: Op, object: u64, action: impl FnOnce() -> c_int) -> c_int {
        let word = word(object);
        let seen = cells::lock(word);
        let result = action();
        let unknown = cells::previous(seen, self.index).filter(|user| !self.knows(*user));
        self.record_sync(op, object, result as i64, unknown.as_slice());
        cells::unlock(word, seen, self, true);
        self.complete();
        result
    }

    /// Recording: this event is the object's newest use; the caller logs it, and holds the object.
    pub fn mark_use(&mut self, object: u64) {
        let word = word(object);
        let seen = cells::lock(word);
        cells::unlock(word, seen, self, true);
    }

    /// The last user of an object, if it is another thread.
    pub fn last_user(&self, object: u64) -> Option<Point> {
        // Acquire: pairs with the Release in `unlock`. The lock bit, if set, does not hide the user.
        cells::previous(word(object).load(Acquire) & !cells::LOCKED, self.index)
    }

    /// Logs an operation unless its order and its result are what replay would assume anyway.
    #[inline]
    pub fn record_sync(&mut self, op: Op, object: u64, value: i64, sources: &[Point]) {
        if value != 0 || !sources.is_empty() {
            self.record(Kind::Sync, op, 0, object, value, sources);
        }
    }

    /// A result that is not a function of the program: recorded when it is not 0, and given back in replay.
    pub fn input(&mut self, op: Op, object: u64, action: impl FnOnce() -> i64) -> i64 {
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
