//! Futex calls that do not wait, case by case.
use crate::FutexCall;
use crate::IfDue;
use crate::Process;
use crate::RecordedWaits;
use crate::SignalDue;
use crate::State;
use crate::Wait;
use crate::tests::plain::Plain;
use crate::tests::world::World;
use std::vec;
use std::vec::Vec;

const A: u64 = 0x1_0000;
const B: u64 = 0x2_0000;
const WAKE: i32 = 1;
const REQUEUE: i32 = 3;
const CMP_REQUEUE: i32 = 4;
const WAKE_OP: i32 = 5;
const UNLOCK_PI: i32 = 7;
const TRYLOCK_PI: i32 = 8;
const WAKE_BITSET: i32 = 10;
const CMP_REQUEUE_PI: i32 = 12;
const EPERM: i64 = -1;
const EAGAIN: i64 = -11;
const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
const ENOSYS: i64 = -38;

struct Nothing;

impl RecordedWaits for Nothing {
    fn next_timed_wait(&self) -> Option<i64> {
        None
    }
    fn next_signal(&self) -> Option<SignalDue> {
        None
    }
    fn take(&mut self) {}
}

/// Thread 0 has the turn, and the others wait for `A`, thread 3 first.
fn world(order: &[u32]) -> World<Plain> {
    let world = World::new(Plain, &vec![Vec::new(); 4], order, &[]);
    world.turns().open();
    world.turns().begin(0);
    for thread in [3, 1, 2] {
        world.turns().created(thread);
        let wait = Wait {
            address: A,
            expected: 0,
            bits: 1 << thread,
            is_shared: false,
            if_due: IfDue::Nothing,
            is_timed: false,
            ended_by: None,
        };
        let turns = world.turns();
        turns.turn_state(thread).begin_wait(&wait, turns.draw_ticket());
    }
    world
}

fn call(world: &World<Plain>, operation: i32, value: u32, rest: (u64, u64, u32)) -> i64 {
    let call = FutexCall {
        address: A,
        operation,
        value,
        fourth: rest.0,
        other: rest.1,
        last: rest.2,
    };
    world.turns().futex(0, &call, &mut Nothing, || 0)
}

/// Who has been woken, and who waits for what.
fn woken(world: &World<Plain>) -> Vec<u32> {
    let is_woken = |thread: &u32| world.turns().turn_state(*thread).state() == State::Ready;
    (1..4).filter(is_woken).collect()
}

fn waiting_for(world: &World<Plain>, address: u64) -> Vec<u32> {
    let waits = |thread: &u32| world.turns().turn_state(*thread).address() == address;
    (1..4).filter(waits).collect()
}

#[test]
fn who_has_the_earliest_input_is_woken_first_and_then_who_waits_longest() {
    let earliest = world(&[0, 2]);
    assert_eq!(call(&earliest, WAKE, 1, (0, 0, 0)), 1);
    assert_eq!(woken(&earliest), [2]);
    let longest = world(&[0]);
    assert_eq!(call(&longest, WAKE, 2, (0, 0, 0)), 2);
    assert_eq!(woken(&longest), [1, 3]);
}

#[test]
fn only_those_who_wait_for_these_bits() {
    let world = world(&[0]);
    assert_eq!(call(&world, WAKE_BITSET, 9, (0, 0, 1 << 1 | 1 << 2)), 2);
    assert_eq!(woken(&world), [1, 2]);
}

#[test]
fn requeued_waiters_keep_their_order() {
    let world = world(&[0]);
    assert_eq!(
        call(&world, REQUEUE, 1, (1, B, 0)),
        2,
        "counts those that are woken and those that are moved"
    );
    assert_eq!(woken(&world), [3]);
    assert_eq!((waiting_for(&world, A), waiting_for(&world, B)), (vec![2], vec![1]));
    assert_eq!(call(&world, CMP_REQUEUE, 1, (9, B, 7)), EAGAIN, "the word is 0");
    assert_eq!(call(&world, CMP_REQUEUE, 1, (9, B, 0)), 1);
    assert_eq!(woken(&world), [2, 3]);
}

#[test]
fn waiters_can_be_moved_without_any_being_woken() {
    let world = world(&[0]);
    assert_eq!(call(&world, REQUEUE, 0, (2, B, 0)), 2);
    assert!(woken(&world).is_empty());
    assert_eq!((waiting_for(&world, A), waiting_for(&world, B)), (vec![2], vec![1, 3]));
}

#[test]
fn the_first_of_requeued_waiters_owns_an_inheriting_lock_that_is_free() {
    let world = world(&[0]);
    assert_eq!(call(&world, CMP_REQUEUE_PI, 1, (9, B, 7)), EAGAIN, "the word is 0");
    assert_eq!(call(&world, CMP_REQUEUE_PI, 1, (9, B, 0)), 3);
    assert_eq!(woken(&world), [3]);
    assert_eq!(waiting_for(&world, B), [1, 2]);
    let word = (&world).load(B);
    assert_eq!(
        (word & 0x3fff_ffff, word >> 31),
        ((&world).name_of(3), 1),
        "thread 3 owns it, and others wait"
    );
}

#[test]
fn a_word_changes_and_its_waiters_wake_if_its_old_value_is_as_asked() {
    let world = world(&[0]);
    (&world).store(B, 5);
    // B += 3, and wake those of B if it was greater than 4.
    let add_and_compare = 1 << 28 | 4 << 24 | 3 << 12 | 4;
    assert_eq!(
        call(&world, WAKE_OP, 1, (1, B, add_and_compare)),
        1,
        "nobody waits for B"
    );
    assert_eq!((&world).load(B), 8);
    assert_eq!(woken(&world), [3]);
}

#[test]
fn an_inheriting_lock_goes_to_the_first_waiter() {
    let world = world(&[0, 1]);
    assert_eq!(call(&world, UNLOCK_PI, 0, (0, 0, 0)), EPERM, "it is not ours");
    assert_eq!(call(&world, TRYLOCK_PI, 0, (0, 0, 0)), 0);
    assert_eq!(call(&world, TRYLOCK_PI, 0, (0, 0, 0)), EAGAIN);
    assert_eq!(call(&world, UNLOCK_PI, 0, (0, 0, 0)), 0);
    assert_eq!(woken(&world), [1]);
    let others_wait = 1 << 31;
    assert_eq!((&world).load(A), (&world).name_of(1) | others_wait);
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let world = world(&[0]);
    let at = |address: u64, operation: i32| {
        let call = FutexCall {
            address,
            operation,
            value: 1,
            fourth: 0,
            other: 0,
            last: 0,
        };
        world.turns().futex(0, &call, &mut Nothing, || 0)
    };
    assert_eq!(at(A + 1, WAKE), EINVAL);
    assert_eq!(at(8, WAKE), EFAULT);
    assert_eq!(at(A, 99), ENOSYS);
}
