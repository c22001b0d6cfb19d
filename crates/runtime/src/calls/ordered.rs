//! Calls on state of the process's own (`local_state.rs`) are ordered by a hybrid schedule, with call and return (PEREGRINE, section 6.2).
//!
//! Each call that may be ordered has two events, one where it is issued and its own, where it returns; whether it is ordered or not, so that later runs
//! need not know that before the schedule tells. *Recorded*, both are uses of a ghost object. What a call does happens at its return, while the object is held. It
//! cannot wait there: a thread that would have to waits before, without the object, until `poll` says that there is something to read, or room. More bytes
//! than a pipe is sure to have room for are written piece by piece, and so is read what is to be read in full; each piece is an event (`pieces.rs`). So the recorded order is the one in which the
//! kernel did it all. *Enforced*, a call is made when the turn of its return, or of its next piece, has come: everything that came before it has happened, and nothing that
//! came after it. It finds what it found, and need not wait.
//!
//! Calls that libc makes for its streams are part of the stream's event. They take the object in the same way, and the event has another record of who had it before.
use crate::calls::local_state;
use crate::calls::local_state::PIECE_BYTES;
use crate::calls::local_state::Pieces;
use crate::calls::local_state::State;
use crate::calls::pieces::Piece;
use crate::control;
use crate::local::Local;
use crate::policy;
use crate::sys::PUT_OFF;
use crate::this_machine::ThisMachine;
use access_protocol::HeldObject;
use core::cell::Cell;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;

/// Signals may come between a look and the wait for them, which then ends by itself.
const LOOK_AGAIN_MS: usize = 20;

/// Recording: a call whose order is kept.
pub struct OrderedCall {
    number: c_long,
    state: State,
    /// It has been made, and its return is not recorded yet.
    held: Cell<Option<HeldObject<ThisMachine>>>,
    /// Bytes that its pieces have given out, or taken.
    given: Cell<usize>,
    /// It is part of an event, of a stream of libc's.
    is_inside: bool,
}

/// Are calls ordered? As long as there is one thread there is one order; its first spawn is an event, so that all runs agree.
pub fn is_on() -> bool {
    control::counts() && control::header().progress.threads.load(Relaxed) > 1
}

impl Local {
    pub fn may_order(&self, number: c_long) -> bool {
        local_state::may_be_ordered(number) && is_on()
    }

    /// Recording: the call is issued, which is an event if it may be ordered.
    pub fn issue_call(&self, number: c_long, arguments: &[usize; 6]) -> Option<OrderedCall> {
        if !self.may_order(number) {
            return None;
        }
        let is_inside = self.inside_event.get();
        let state = local_state::of(number, arguments);
        match state {
            _ if is_inside => {}
            Some(State { object, .. }) => {
                self.begin(Op::CallIssue, object);
                self.touch(Op::CallIssue, object, number + 1);
            }
            None => self.complete(),
        }
        let stream = self.inputs.stream_object.get();
        let state = state.filter(|state| !is_inside || stream != 0 && state.object != stream)?;
        Some(OrderedCall {
            number,
            state,
            held: Cell::new(None),
            given: Cell::new(0),
            is_inside,
        })
    }

    /// Recording: makes the call, with the object, which is held until `note_return`. It may have to be made again, if it is put off.
    pub fn make_ordered(
        &self,
        call: &OrderedCall,
        arguments: &[usize; 6],
        real: &mut impl FnMut(&[usize; 6]) -> isize,
    ) -> isize {
        loop {
            let held = match self.hold_when_ready(call, arguments[0]) {
                Ok(held) => held,
                Err(failure) if failure == PUT_OFF || call.given.get() == 0 => return failure,
                Err(_) => return call.given.get() as isize,
            };
            let given = call.given.get();
            let (result, is_piece) = match call.state.pieces {
                Pieces::One => (real(arguments), false),
                Pieces::Given => {
                    let mut piece = Piece::new(call.number, arguments, given, PIECE_BYTES);
                    (real(&piece.arguments()), piece.is_part)
                }
                Pieces::Taken => {
                    let mut piece = Piece::new(call.number, arguments, given, usize::MAX);
                    let result = real(&piece.arguments());
                    (result, result > 0 && (result as usize) < piece.bytes)
                }
            };
            if result == PUT_OFF {
                self.access.give_object_back(held);
                return PUT_OFF;
            }
            if !is_piece || result < 0 {
                call.held.set(Some(held));
                return match given {
                    0 => result,
                    given => given as isize + result.max(0),
                };
            }
            call.held.set(Some(held));
            match call.is_inside {
                true => self.note_use(call, Op::Output, 0),
                false => {
                    self.note_use(call, Op::CallPart, result as i64);
                    self.complete();
                }
            }
            call.given.set(given + result as usize);
        }
    }

    /// The object, when the call can be made without a wait.
    fn hold_when_ready(&self, call: &OrderedCall, descriptor: usize) -> Result<HeldObject<ThisMachine>, isize> {
        loop {
            let held = self.access.hold_object(call.state.object);
            let Some(events) = call.state.waits_for else {
                return Ok(held);
            };
            if local_state::poll(descriptor, events, 0) != 0 {
                return Ok(held);
            }
            self.access.give_object_back(held);
            if self.inputs.pending.count.get() != 0 {
                return Err(PUT_OFF);
            }
            let found = self.blocking(|| local_state::poll(descriptor, events, LOOK_AGAIN_MS));
            // Other signals that are not the program's, such as those by which libc has every thread change its user, let a call go on.
            if found == -libc::EINTR as isize && self.inputs.pending.count.get() == 0 && self.is_to_be_cancelled() {
                return Err(found);
            }
        }
    }

    /// Recording: takes the object for a call that needs none of this to wait.
    pub fn hold_at_once(&self, call: &OrderedCall) {
        call.held.set(Some(self.access.hold_object(call.state.object)));
    }

    /// Recording: the call has been made, and its event is about to be complete.
    pub fn note_return(&self, call: Option<&OrderedCall>, result: isize) {
        match call {
            Some(call) if call.is_inside => self.note_use(call, Op::Output, 0),
            Some(call) => self.note_use(call, Op::CallReturn, result as i64),
            None => {}
        }
    }

    fn note_use(&self, call: &OrderedCall, op: Op, value: i64) {
        self.before_release();
        let held = call.held.take();
        let held = held.unwrap_or_else(|| self.access.hold_object(call.state.object));
        let previous = self.access.user_before(&held);
        self.record(Kind::Sync, op, 0, call.state.object, value, previous.as_slice());
        self.access.release_object(held);
    }

    /// Replay: waits for the turns of a call that may be ordered. `part` gives out, or takes, the next so many bytes of it. Returns what it
    /// returned, if it was ordered; its event is to be completed.
    pub fn await_turns(&self, number: c_long, mut part: impl FnMut(usize)) -> Option<isize> {
        if self.inside_event.get() || !self.may_order(number) {
            return None;
        }
        if self.is_at_end() {
            self.stop_until_freed();
        }
        if self.expects(Op::CallIssue) {
            self.wait_for_turn(Op::CallIssue, 0);
        }
        self.complete();
        loop {
            self.deliver_before_call();
            if !self.expects(Op::CallPart) {
                break;
            }
            let bytes = self.wait_for_turn(Op::CallPart, 0);
            part(bytes.max(0) as usize);
            self.complete();
        }
        match self.expects(Op::CallReturn) {
            true => Some(self.wait_for_turn(Op::CallReturn, 0) as isize),
            false => None,
        }
    }
}

/// Did a signal end it, or the wish that the thread should end? Then it did nothing.
pub fn was_interrupted(result: isize) -> bool {
    result == -libc::EINTR as isize && policy::is_imposed()
}
