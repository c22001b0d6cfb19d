//! Threads that moves hold back: before an access, or before they synchronise on something.
use crate::turns;
use crate::turns::accesses;
use crate::turns::follow;
use crate::turns::order;
use crate::turns::seats::State;
use crate::turns::seats::seat;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use run_model::AccessId;
use runtime_abi::turns_file::MoveEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::kind;
use runtime_abi::turns_file::what;

const MOVES_MAX: usize = 256;

/// States of reversals, by the number of the move.
mod hold {
    pub const PENDING: u8 = 0;
    pub const ACTIVE: u8 = 1;
    pub const OVER: u8 = 2;
}
static HOLDS: [AtomicU8; MOVES_MAX] = [const { AtomicU8::new(hold::PENDING) }; MOVES_MAX];

/// The order has been mapped: nobody is held yet.
pub fn open() {
    for hold in &HOLDS {
        hold.store(hold::PENDING, Relaxed);
    }
}

/// Is it no access, but what a thread does at a switch point?
pub fn is_synchronisation(place: &Place) -> bool {
    place.access == AccessId::SYNCHRONISATION
}

pub fn reversals() -> impl Iterator<Item = (usize, &'static MoveEntry)> {
    let moves = order::moves().iter().enumerate().take(MOVES_MAX);
    moves.filter(|(_, made)| made.kind == kind::REVERSE)
}

/// Waits as long as a move says that this access is to come later.
pub fn hold_back(me: u32, place: &Place) {
    if follow::is_on() {
        return;
    }
    let is_due =
        |(number, made): &(usize, &MoveEntry)| made.at == *place && HOLDS[*number].load(Relaxed) == hold::PENDING;
    let Some((number, made)) = reversals().find(is_due) else {
        return;
    };
    HOLDS[number].store(hold::ACTIVE, Relaxed);
    seat(me).set(State::Held);
    // Who is to go on is found with memory open: it may depend on words of the program.
    accesses::lift();
    let next = Some(made.to).filter(|to| turns::can_go_on(*to)).or_else(turns::choose);
    match next {
        Some(next) if next != me => turns::go_to(me, next),
        _ => {
            HOLDS[number].store(hold::OVER, Relaxed);
            seat(me).set(State::Ready);
        }
    }
    accesses::shut();
}

/// Stops a thread before it synchronises on something, if a move says so: who is to go on? It stands at a switch point, where memory is open.
pub fn hold_at(me: u32, place: &Place, what: u32) -> Option<u32> {
    if what != what::ACQUIRE || follow::is_on() {
        return None;
    }
    let is_due = |(number, made): &(usize, &MoveEntry)| {
        is_synchronisation_at(&made.at, place) && HOLDS[*number].load(Relaxed) == hold::PENDING
    };
    let (number, made) = reversals().find(is_due)?;
    HOLDS[number].store(hold::ACTIVE, Relaxed);
    seat(me).set(State::Held);
    let next = Some(made.to).filter(|to| turns::can_go_on(*to)).or_else(turns::choose);
    let next = next.filter(|next| *next != me);
    if next.is_none() {
        HOLDS[number].store(hold::OVER, Relaxed);
        seat(me).set(State::Ready);
    }
    next
}

/// The thread synchronises now: who was held until then can go on. It does so later, since what it is to come after has not quite happened.
pub fn let_go_at(place: &Place, what: u32) {
    if what != what::ACQUIRE || follow::is_on() {
        return;
    }
    for (number, made) in reversals().filter(|(_, made)| is_synchronisation_at(&made.until, place)) {
        if HOLDS[number].swap(hold::OVER, Relaxed) == hold::ACTIVE {
            seat(made.at.thread).set(State::Ready);
        }
    }
}

fn is_synchronisation_at(wanted: &Place, place: &Place) -> bool {
    let point = |place: &Place| (place.thread, place.calls, place.nth);
    is_synchronisation(wanted) && point(wanted) == point(place)
}

/// The access is made: who was held until then goes on.
pub fn let_go(place: &Place) -> Option<u32> {
    if follow::is_on() {
        return None;
    }
    let mut held = None;
    for (number, made) in reversals().filter(|(_, made)| made.until == *place) {
        if HOLDS[number].swap(hold::OVER, Relaxed) == hold::ACTIVE {
            seat(made.at.thread).set(State::Ready);
            held = held.or(Some(made.at.thread));
        }
    }
    held
}

/// A copy of a process has other moves: those that it has in common with `old` are where they were.
pub fn number_moves_again(old: &[MoveEntry], new: &[MoveEntry]) {
    let mut states = [hold::PENDING; MOVES_MAX];
    let is_same = |one: &MoveEntry, other: &MoveEntry| {
        (one.kind, one.to) == (other.kind, other.to) && one.at == other.at && one.until == other.until
    };
    for (state, made) in states.iter_mut().zip(new) {
        let number = old.iter().position(|other| is_same(made, other));
        if let Some(hold) = number.and_then(|number| HOLDS.get(number)) {
            *state = hold.load(Relaxed);
        }
    }
    for (hold, state) in HOLDS.iter().zip(states) {
        hold.store(state, Relaxed);
    }
}

/// Nobody can go on: better a hold that comes to nothing than a replay that does.
pub fn lapse() -> bool {
    let is_active = |(number, _): &(usize, &MoveEntry)| HOLDS[*number].load(Relaxed) == hold::ACTIVE;
    let Some((number, made)) = reversals().find(is_active) else {
        return false;
    };
    HOLDS[number].store(hold::OVER, Relaxed);
    seat(made.at.thread).set(State::Ready);
    true
}

/// The replay is over: nobody is held back any more.
pub fn let_all_go() {
    while lapse() {}
}
