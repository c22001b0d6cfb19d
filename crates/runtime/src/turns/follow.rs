//! A replay has failed while its accesses were written down: what would the other threads access, up to their next input?
//!
//! A thread can be held back until another one has made an access only if somebody knows of that access. So the thread that failed
//! lets each of the others that can go on run, one after the other, until it comes to an input that has a place in the order,
//! has to wait, ends, or uses up its budget; then the turn comes back. No such input is answered: the replay is over, and nothing of this counts.
use crate::turns;
use crate::turns::accesses;
use crate::turns::holds;
use crate::turns::seats;
use crate::turns::seats::State;
use crate::turns::seats::seat;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The thread that failed.
static FAILED: AtomicU32 = AtomicU32::new(0);

/// A process begins, perhaps as a copy of another.
pub fn open() {
    IS_ON.store(false, Relaxed);
}

/// Has the replay failed, and does a thread run only to be looked at?
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Who gets the turn back.
pub fn failed() -> Option<u32> {
    is_on().then(|| FAILED.load(Relaxed))
}

/// The thread that has the turn has failed: returns when the others have shown what they would do.
pub fn others(me: u32) {
    if !turns::is_on() || is_on() || !accesses::are_wanted() || !turns::has_turn(me) {
        return;
    }
    FAILED.store(me, Relaxed);
    IS_ON.store(true, Relaxed);
    // It waits, and can never go on.
    seat(me).set(State::Ending);
    holds::let_all_go();
    while let Some(next) = (0..seats::count()).find(|thread| can_show(*thread)) {
        accesses::note_followed(next);
        turns::go_to(me, next);
    }
}

fn can_show(thread: u32) -> bool {
    let goes_on = match seat(thread).state() {
        State::Ready => true,
        State::Futex => seat(thread).is_overtaken(),
        _ => false,
    };
    goes_on && !seat(thread).has_given_way()
}

/// The thread has come to where it is not followed any further.
pub fn end(me: u32) -> ! {
    seat(me).set(State::Ending);
    loop {
        turns::go_to(me, FAILED.load(Relaxed));
    }
}
