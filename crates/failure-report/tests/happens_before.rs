//! Vector clocks against brute force: random executions, and reachability over the orders that each pair of steps gives.
mod common;

use common::Script;
use failure_report::Order;
use failure_report::Step;
use failure_report::Timeline;
use failure_report::What;
use run_model::Op;

const THREADS: u32 = 4;
const STEPS: usize = 40;
const SEEDS: u64 = 400;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// A random execution. Not every one could happen (a lock may be taken twice); the orders are defined all the same.
fn execution(seed: u64) -> Script {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut script = Script::default();
    // So that all threads are known from the beginning.
    for thread in 0..THREADS {
        script.read(thread, 0, 8, 0);
    }
    for _ in 0..STEPS {
        let thread = random.below(u64::from(THREADS)) as u32;
        let object = 0x100 + 8 * random.below(2);
        let cell = 0x1000 + 8 * random.below(2);
        match random.below(10) {
            0 => script.sync(thread, 0, Op::MutexLock, object),
            1 => script.sync(thread, 0, Op::MutexUnlock, object),
            2 => script.sync(thread, 0, Op::SemPost, object + 0x100),
            3 => script.sync(thread, 0, Op::SemWait, object + 0x100),
            4 => script.sync(thread, 0, Op::RwReadLock, object + 0x200),
            5 => script.sync(thread, 0, Op::RwWriteLock, object + 0x200),
            6 => script.sync(thread, 0, Op::RwUnlock, object + 0x200),
            7 => script.atomic(thread, 0, cell, true, false),
            8 => script.atomic(thread, 0, cell, random.below(2) == 0, true),
            _ => script.write(thread, 0, 0x2000, 1),
        };
    }
    script
}

/// Does `a`, which comes first, directly order `b`? Written from the rules, not from the clocks.
fn orders(steps: &[Step], a: usize, b: usize) -> bool {
    let (one, other) = (&steps[a], &steps[b]);
    if one.thread == other.thread {
        return true;
    }
    match (one.entry.what, other.entry.what) {
        (
            What::Sync {
                op: from, object: x, ..
            },
            What::Sync { op: to, object: y, .. },
        ) if x == y => match (from, to) {
            (Op::MutexUnlock, Op::MutexLock) | (Op::SemPost, Op::SemWait) => true,
            (Op::RwUnlock, Op::RwWriteLock) => true,
            // Readers learn of writers only.
            (Op::RwUnlock, Op::RwReadLock) => held_to_write(steps, a),
            _ => false,
        },
        (What::Access(from), What::Access(to)) if from.atomic && to.atomic && from.address == to.address => {
            // From a write to a read that sees it, or sees an update that goes back to it without a blind store between.
            let is_blind_store = |step: &Step| {
                step.access().is_some_and(|access| {
                    access.atomic && access.address == from.address && access.writes && !access.reads
                })
            };
            from.writes && to.reads && !steps[a + 1..b].iter().any(is_blind_store)
        }
        _ => false,
    }
}

/// Had the thread that unlocks at `at` taken the lock for writing, and not given it back since?
fn held_to_write(steps: &[Step], at: usize) -> bool {
    let What::Sync { object, .. } = steps[at].entry.what else {
        return false;
    };
    let last = steps[..at].iter().rev().find_map(|step| match step.entry.what {
        What::Sync { op, object: x, .. } if x == object && step.thread == steps[at].thread && op != Op::RwReadLock => {
            Some(op)
        }
        _ => None,
    });
    last == Some(Op::RwWriteLock)
}

#[test]
fn clocks_agree_with_reachability() {
    let mut pairs = [0u64; 2];
    for seed in 0..SEEDS {
        let timeline = Timeline::new(&execution(seed).traces());
        let steps = &timeline.steps;
        // before[b] is the set of steps before b; 64 steps fit into a number.
        let mut before = vec![0u64; steps.len()];
        assert!(steps.len() <= 64);
        for b in 0..steps.len() {
            for a in 0..b {
                if orders(steps, a, b) {
                    before[b] |= before[a] | 1 << a;
                }
            }
        }
        for b in 0..steps.len() {
            for a in (0..b).filter(|a| steps[*a].thread != steps[b].thread) {
                let expected = if before[b] & 1 << a != 0 {
                    Order::Synchronised
                } else {
                    Order::Unordered
                };
                assert_eq!(
                    timeline.order(a, b),
                    expected,
                    "seed {seed}, steps {a} and {b} of {steps:#?}"
                );
                pairs[usize::from(expected == Order::Unordered)] += 1;
            }
        }
    }
    // Both answers occur often enough to mean something.
    assert!(pairs.iter().all(|pairs| *pairs > 10_000), "{pairs:?}");
}

#[test]
fn barriers_order_round_by_round() {
    const BARRIER: u64 = 0x100;
    let mut script = Script::default();
    let arrive = |script: &mut Script, thread| script.sync(thread, 0, Op::BarrierArrive, BARRIER);
    let leave = |script: &mut Script, thread| script.sync(thread, 0, Op::BarrierLeave, BARRIER);
    let place = |sequence: u64| sequence as usize - 1;
    let first = script.write(0, 0, 8, 1);
    arrive(&mut script, 0);
    arrive(&mut script, 1);
    leave(&mut script, 0);
    // T0 is in the next round already, which T1 does not learn of by leaving the first.
    let second = script.write(0, 0, 8, 2);
    arrive(&mut script, 0);
    leave(&mut script, 1);
    let between = script.read(1, 0, 8, 2);
    arrive(&mut script, 1);
    leave(&mut script, 1);
    let after = script.read(1, 0, 8, 2);
    let timeline = Timeline::new(&script.traces());
    assert_eq!(timeline.order(place(first), place(between)), Order::Synchronised);
    assert_eq!(timeline.order(place(second), place(between)), Order::Unordered);
    assert_eq!(timeline.order(place(second), place(after)), Order::Synchronised);
}

#[test]
fn a_wait_is_after_the_signal_and_after_the_mutex() {
    const MUTEX: u64 = 0x100;
    const CONDITION: u64 = 0x200;
    let mut script = Script::default();
    let place = |sequence: u64| sequence as usize - 1;
    script.sync(1, 0, Op::MutexLock, MUTEX);
    script.sync(1, 0, Op::CondRelease, MUTEX);
    let under_the_mutex = script.write(0, 0, 8, 1);
    script.sync(0, 0, Op::MutexUnlock, MUTEX);
    let before_the_signal = script.write(2, 0, 16, 1);
    script.sync(2, 0, Op::CondSignal, CONDITION);
    script.sync(1, 0, Op::CondWake, CONDITION);
    let woken = script.read(1, 0, 8, 1);
    let timeline = Timeline::new(&script.traces());
    for earlier in [under_the_mutex, before_the_signal] {
        assert_eq!(timeline.order(place(earlier), place(woken)), Order::Synchronised);
    }
    assert_eq!(
        timeline.order(place(under_the_mutex), place(before_the_signal)),
        Order::Unordered
    );
}

#[test]
fn a_dead_owner_is_before_who_takes_the_lock_next() {
    const MUTEX: u64 = 0x100;
    const OWNER_DEAD: i64 = 130;
    let take = |value: i64| What::Sync {
        op: Op::MutexLock,
        object: MUTEX,
        value,
        other: None,
    };
    for (value, expected) in [(OWNER_DEAD, Order::Synchronised), (0, Order::Unordered)] {
        let mut script = Script::default();
        script.step(0, 0, take(0));
        let written = script.write(0, 0, 8, 1) as usize - 1;
        script.step(1, 0, take(value));
        let read = script.read(1, 0, 8, 1) as usize - 1;
        let timeline = Timeline::new(&script.traces());
        assert_eq!(timeline.order(written, read), expected);
    }
}
