//! Leases, on a machine whose clock goes on with every look.
use crate::lease::Doing;
use crate::lease::LEASE_TICKS;
use crate::lease::Lease;
use crate::lease::Pace;
use crate::lease::TIGHT_TRANSFERS;
use crate::lease::TURN_MAX;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use std::cell::Cell;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static TICKS_A_LOOK: Cell<u64> = const { Cell::new(0) };
}

#[derive(Clone, Copy)]
struct Ticking;

impl Machine for Ticking {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    fn fence(self) {}
    fn compiler_fence(self) {}
    fn barrier_everywhere(self) {}
    fn futex_wait(self, _: &AtomicU32, _: u32, _: u64) {}
    fn futex_wake_all(self, _: &AtomicU32) {}
    fn spin(self) {
        NOW.set(NOW.get() + TICKS_A_LOOK.get());
    }
    fn yield_now(self) {
        self.spin();
    }
    fn ticks(self) -> u64 {
        NOW.get()
    }
    fn nanoseconds(self) -> u64 {
        NOW.get()
    }
}

/// A lock and an unlock of thread `me`, with so many transfers before the lock.
fn pair(lease: &Lease<Ticking>, me: u32, pace: &Pace, transfers: u64) {
    lease.enter(Ticking, me, pace, transfers, Doing::Locks);
    lease.enter(Ticking, me, pace, 1, Doing::Unlocks);
}

/// How long thread 1 waits after thread 0 has synchronised so often.
fn waits_after(pairs: u32, transfers: u64) -> u64 {
    NOW.set(1);
    TICKS_A_LOOK.set(100);
    let (lease, pace) = (Lease::new(), Pace::default());
    for _ in 0..pairs {
        pair(&lease, 0, &pace, transfers);
    }
    let before = NOW.get();
    lease.enter(Ticking, 1, &Pace::default(), 1, Doing::Locks);
    NOW.get() - before
}

#[test]
fn others_wait_for_who_synchronises_a_lot() {
    let waited = waits_after(100, 3);
    assert!((LEASE_TICKS / 2..LEASE_TICKS + 1000).contains(&waited), "{waited}");
}

#[test]
fn nobody_waits_for_who_computes_in_between() {
    assert_eq!(waits_after(100, 2 * TIGHT_TRANSFERS), 0);
    assert_eq!(waits_after(100, 100 * TIGHT_TRANSFERS), 0);
    // Nor for a thread of which little is known.
    assert_eq!(waits_after(3, 3), 0);
}

#[test]
fn a_lease_ends_where_its_holder_waits() {
    NOW.set(1);
    let (lease, pace) = (Lease::new(), Pace::default());
    for _ in 0..100 {
        pair(&lease, 0, &pace, 3);
    }
    lease.leave(0);
    let before = NOW.get();
    lease.enter(Ticking, 1, &Pace::default(), 1, Doing::Locks);
    assert_eq!(NOW.get(), before);
}

#[test]
fn nobody_waits_with_a_lock() {
    NOW.set(1);
    TICKS_A_LOOK.set(100);
    let (lease, pace, other) = (Lease::new(), Pace::default(), Pace::default());
    lease.enter(Ticking, 1, &other, 1, Doing::Locks);
    for _ in 0..100 {
        pair(&lease, 0, &pace, 3);
    }
    let before = NOW.get();
    lease.enter(Ticking, 1, &other, 1, Doing::Locks);
    lease.enter(Ticking, 1, &other, 1, Doing::Unlocks);
    lease.enter(Ticking, 1, &other, 1, Doing::Unlocks);
    assert_eq!(NOW.get(), before);
    lease.enter(Ticking, 1, &other, 1, Doing::Locks);
    assert!(NOW.get() >= before + LEASE_TICKS / 2);
}

#[test]
fn waits_end_even_if_the_clock_stands_still() {
    NOW.set(1);
    TICKS_A_LOOK.set(0);
    let (lease, pace) = (Lease::new(), Pace::default());
    for _ in 0..100 {
        pair(&lease, 0, &pace, 3);
    }
    lease.enter(Ticking, 1, &Pace::default(), 1, Doing::Locks);
}

/// Where others wait, a thread gives way after so many synchronisations, and where it has released what it had.
#[test]
fn a_turn_is_not_longer_than_others_can_bear() {
    NOW.set(1);
    TICKS_A_LOOK.set(1);
    let (lease, pace) = (Lease::new(), Pace::default());
    let turn = || {
        let before = NOW.get();
        let pairs = (0..2 * TURN_MAX).take_while(|_| {
            pair(&lease, 0, &pace, 3);
            NOW.get() == before
        });
        2 * pairs.count() as u32
    };
    assert!(turn() > 2 * TURN_MAX, "nobody waits");
    lease.waiting.store(1, Relaxed);
    turn();
    let length = turn();
    assert!((TURN_MAX - 2..=TURN_MAX + 2).contains(&length), "{length}");
}
