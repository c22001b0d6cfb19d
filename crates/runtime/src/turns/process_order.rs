//! Replay: the order of inputs between processes that share memory.
//!
//! What one of them sees in that memory depends on how far the others are. So one process goes on at a time, as its threads do: from its
//! inputs that the file `family` has next to the input after them, where the next process takes over. The order is written as that of
//! threads is, with numbers of processes.
//!
//! A process may never come to another input: it ends, or computes for long. Then the next one waits a moment, and goes on beside it.
use crate::control;
use crate::relatives;
use crate::standstill;
use crate::sys;
use crate::turns::order;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::memory_map::PROCESS_ORDER;
use runtime_abi::turns_file::PROCESS_ORDER_FILE_NAME;
use runtime_abi::turns_file::TurnRun;

/// How long a process waits for one that has had its inputs, and does not come to the next.
const MOMENT_NS: u64 = 1_000_000_000;
const LOOK_EVERY_NS: u64 = 100_000;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// What `Shared::process_order` was when the inputs of a run had happened behind which this process goes on; 0: it does not.
static GOES_ON: AtomicU32 = AtomicU32::new(0);

/// When a process begins, and when it has been forked.
pub fn open() {
    GOES_ON.store(0, Relaxed);
    IS_ON.store(
        order::map_file(PROCESS_ORDER_FILE_NAME, &PROCESS_ORDER).is_some(),
        Relaxed,
    );
}

fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

fn run_at(index: u32) -> Option<&'static TurnRun> {
    order::runs_at(PROCESS_ORDER.start).get(index as usize)
}

/// Before an input that has a place: returns when it is this process's turn. `Shared::process_order` is twice the run under way, and one
/// more if its inputs have happened.
pub fn wait_for_place() {
    if !is_on() {
        return;
    }
    pass_on();
    let me = control::header().identity.process.load(Relaxed);
    let word = &control::root().shared.process_order;
    let mut waited = (0, 0);
    loop {
        // Acquire: pairs with the Release of who had the turn: its inputs have happened.
        let now = word.load(Acquire);
        let is_mine = |index: u32| run_at(index).is_none_or(|run| run.thread == me);
        if now.is_multiple_of(2) && is_mine(now / 2) {
            return;
        }
        if control::has_diverged() {
            standstill::sleep_forever();
        }
        if now % 2 == 1 && is_mine(now / 2 + 1) {
            if waited.0 != now {
                waited = (now, sys::now_ns());
            }
            // It has come to its end, or is busy.
            if sys::now_ns() - waited.1 >= MOMENT_NS {
                _ = word.compare_exchange(now, now + 1, Acquire, Relaxed);
            }
        }
        sys::shared_futex_wait(word, now, MOMENT_NS);
    }
}

/// Before this process goes on that has been told that a child of its, which it shares memory with, has ended: what the child did behind its last
/// input has happened. All of its inputs have, so it waits for nobody.
pub fn wait_for_end_of(child: u32) {
    let began = sys::now_ns();
    while is_on() && relatives::is_child_at_work(child) && sys::now_ns() - began < MOMENT_NS {
        if control::has_diverged() {
            standstill::sleep_forever();
        }
        sys::sleep_ns(LOOK_EVERY_NS);
    }
}

/// The input that `wait_for_place` waited for has happened.
pub fn happened() {
    if !is_on() {
        return;
    }
    let root = control::root();
    let now = root.shared.process_order.load(Relaxed);
    let Some(run) = run_at(now / 2) else { return };
    let count = root.shared.process_order_happened.load(Relaxed) + 1;
    if count < run.count {
        return root.shared.process_order_happened.store(count, Relaxed);
    }
    root.shared.process_order_happened.store(0, Relaxed);
    GOES_ON.store(now + 1, Relaxed);
    // Release: pairs with the Acquire in `wait_for_place`.
    root.shared.process_order.store(now + 1, Release);
    sys::shared_futex_wake_all(&root.shared.process_order);
}

/// The process has come to its next input, or to its end.
pub fn pass_on() {
    let behind = GOES_ON.swap(0, Relaxed);
    if !is_on() || behind == 0 {
        return;
    }
    let word = &control::root().shared.process_order;
    // Release: as above. If it differs, another one has gone on already.
    if word.compare_exchange(behind, behind + 1, Release, Relaxed).is_ok() {
        sys::shared_futex_wake_all(word);
    }
}
