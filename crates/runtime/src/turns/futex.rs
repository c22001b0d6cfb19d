//! Futex calls of the program, which the scheduler does in terms of turns (`turn_scheduler::Turns::futex`).
use crate::handlers;
use crate::local::Local;
use crate::turns;
use crate::turns::labels;
use core::sync::atomic::AtomicU32;
use turn_scheduler::FutexCall;
use turn_scheduler::RecordedWaits;
use turn_scheduler::SignalDue;

/// May this futex call wait, and for a limited time?
pub fn is_timed(arguments: &[usize; 6]) -> bool {
    turn_scheduler::is_timed(arguments[1] as i32, arguments[3] as u64)
}

/// May it wait at all?
pub fn waits(arguments: &[usize; 6]) -> bool {
    matches!(
        command(arguments),
        libc::FUTEX_WAIT
            | libc::FUTEX_WAIT_BITSET
            | libc::FUTEX_LOCK_PI
            | libc::FUTEX_WAIT_REQUEUE_PI
            | turns::LOCK_PI2
    )
}

/// Is its result all that there is of it? Others change the word as well.
pub fn does_nothing_but_wait_or_wake(arguments: &[usize; 6]) -> bool {
    matches!(
        command(arguments),
        libc::FUTEX_WAIT
            | libc::FUTEX_WAIT_BITSET
            | libc::FUTEX_WAKE
            | libc::FUTEX_WAKE_BITSET
            | libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE
    )
}

fn command(arguments: &[usize; 6]) -> i32 {
    arguments[1] as i32 & turns::COMMAND
}

/// What the recording has of a thread's waits that had a time limit (`calls::record_timed_wait`).
struct Waits<'a>(&'a Local);

impl RecordedWaits for Waits<'_> {
    fn next_timed_wait(&self) -> Option<i64> {
        self.0.inputs.recorded.next_timed_wait(self.0.event())
    }

    fn next_signal(&self) -> Option<SignalDue> {
        let signal = self.0.inputs.recorded.next_signal_number(self.0.event())?;
        let is_known = self
            .0
            .inputs
            .recorded
            .next_signal()
            .is_some_and(|next| next.place.is_some());
        // Older recordings have it run when the wait was over.
        Some(match !is_known && handlers::restarts(signal) {
            true => SignalDue::Restarts,
            false => SignalDue::Interrupts,
        })
    }

    fn take(&mut self) {
        self.0.take_input();
    }
}

/// Replay: a futex call of the thread that has the turn.
pub fn futex(local: &Local, arguments: &[usize; 6]) -> isize {
    let [address, operation, value, fourth, other, last] = *arguments;
    let call = FutexCall {
        address: address as u64,
        operation: operation as i32,
        value: value as u32,
        fourth: fourth as u64,
        other: other as u64,
        last: last as u32,
    };
    let me = local.index;
    turns::now().futex(me, &call, &mut Waits(local), labels::of_caller) as isize
}

/// Replay: returns when there is something else than zero in this word of ours. The thread `other` is to write it, and is not to come after others
/// who have inputs before its own.
pub fn wait_for_thread(local: &Local, word: &AtomicU32, other: Option<u32>) {
    turns::now().wait_for_thread(local.index, word, word.as_ptr() as u64, other);
}
