//! Processes of a run write to its standard output and error in turns: recorded as they were taken, and taken again in replay.
use crate::control;
use crate::local::Local;
use crate::standstill;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;

/// How often a process that waits for its turn to write looks, at the latest.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// The entry of inputs that says when, among all processes, what comes next was written.
pub const TURN: c_long = log_format::inputs::TURN as c_long;

/// While this exists, no other process writes to the same stream.
pub struct Turn {
    /// Nothing: the run directory is out of reach. Then turns are as they are taken, which is nearly as they are used.
    lock: Option<i32>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(lock) = self.lock {
            // Another thread may have forked meanwhile: the child has the descriptor, too, and closing ours would leave the lock to it.
            sys::unlock_file(lock);
            sys::close(lock);
        }
    }
}

/// Recording: the order in which processes write to a stream, 1 or 2, is that in which they have been here.
pub fn take_turn(local: &Local, stream: i32) -> Option<Turn> {
    // Nothing is logged any more, and a turn that nobody logs is one for which a replay would wait.
    if control::is_stopped() {
        return None;
    }
    let root = control::root();
    let turns = &root.shared.stream_turns[stream as usize - 1];
    if root.shared.processes.load(Relaxed) < 2 {
        // The first process alone has written so far: that comes before all turns of others.
        turns.fetch_add(1, Relaxed);
        return None;
    }
    let mut buffer = [0; 4352];
    let path = control::path_in(
        control::directory_of(root),
        if stream == 1 { b"stdout" } else { b"stderr" },
        &mut buffer,
    );
    // A lock that goes away with its holder, however that ends.
    let lock = sys::open(path, libc::O_RDONLY).ok();
    if let Some(lock) = lock {
        local.blocking(|| sys::lock_file(lock));
    }
    let log = |turn: u32| local.log_call(TURN, turn as isize, stream as u32, &[]);
    match lock {
        // Logged first: a turn that was taken is in the log of whoever took it, even if that was the last thing it did.
        Some(_) => {
            let turn = turns.load(Relaxed);
            log(turn);
            // There may have been no room for it. If it was logged all the same, the next one who logs it has it.
            if !control::is_stopped() {
                turns.store(turn + 1, Relaxed);
            }
        }
        None => log(turns.fetch_add(1, Relaxed)),
    }
    Some(Turn { lock })
}

/// Replay: does `write` when it is its turn, or at once if there was no other process to take turns with.
pub fn in_turn(turn: Option<u32>, stream: i32, write: impl FnOnce()) {
    let turns = &control::root().shared.stream_turns[stream as usize - 1];
    // Nobody compares the output under a debugger, where a process may be stopped for as long as it takes.
    if let Some(turn) = turn.filter(|_| control::header().debugger.debugged == 0) {
        while turns.load(Acquire) != turn {
            if control::has_diverged() {
                standstill::sleep_forever();
            }
            sys::shared_futex_wait(turns, turns.load(Acquire), LOOK_EVERY_NS);
        }
    }
    write();
    turns.fetch_add(1, Release);
    if control::root().shared.processes.load(Relaxed) > 0 || turn.is_some() {
        sys::shared_futex_wake_all(turns);
    }
}
