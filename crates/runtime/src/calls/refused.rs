//! Calls that are not logged, and fail: a limit of memory was reached, or a filter of the program's forbids them (`filters.rs`). A replay has neither, so
//! that they failed is an input, at scope `inputs`.
use crate::control;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use crate::sys;
use crate::turns;
use core::ffi::c_long;
use log_format::inputs::Entry;
use log_format::inputs::REFUSED;

/// Condenses what was asked for: which call, and those arguments that are no addresses.
fn condensed(number: c_long, arguments: &[usize; 6]) -> u16 {
    let mix = |sum: u64, word: usize| (sum ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let sum = arguments[1..4]
        .iter()
        .fold(number as u64, |sum, argument| mix(sum, *argument));
    (sum ^ sum >> 32) as u16
}

/// Which calls, and how they ended: whether a wait at a futex fails depends on the others alone.
fn is_input(number: c_long, result: isize) -> bool {
    result == sys::TRAPPED || result < 0 && !matches!(number, libc::SYS_futex | libc::SYS_restart_syscall)
}

/// Has it done what it was asked for up to the place where it failed? Then a replay does that, too.
fn goes_as_far_as_it_can(number: c_long, result: isize) -> bool {
    let over_a_range = matches!(
        number,
        libc::SYS_madvise
            | libc::SYS_mlock
            | libc::SYS_mlock2
            | libc::SYS_mprotect
            | libc::SYS_msync
            | libc::SYS_munlock
            | libc::SYS_pkey_mprotect
    );
    // These are what filters say.
    let is_forbidden = result == sys::TRAPPED || matches!(-result as i32, libc::EPERM | libc::ENOSYS);
    over_a_range && !is_forbidden
}

/// Is it one of the calls that are counted (`count_real_call`)?
fn is_counted(number: c_long) -> bool {
    !matches!(number, libc::SYS_rt_sigaction | libc::SYS_sigaltstack)
}

impl Local {
    /// A call that is done in recording and in replay, unless it failed when it was recorded.
    pub fn unless_refused(&self, number: c_long, arguments: &[usize; 6], call: impl FnOnce() -> isize) -> isize {
        match policy::inputs() {
            Inputs::Live => call(),
            Inputs::Recorded => {
                let result = call();
                self.record_refusal(number, arguments, result);
                result
            }
            Inputs::Answered => match self.was_refused(number, arguments) {
                Some(result) if goes_as_far_as_it_can(number, result) => {
                    call();
                    result
                }
                Some(result) => {
                    if is_counted(number) {
                        self.count_real_call(number);
                    }
                    result
                }
                None => call(),
            },
        }
    }

    /// Recording: a call that is not logged has been made, and counted.
    pub fn record_refusal(&self, number: c_long, arguments: &[usize; 6], result: isize) {
        if !is_input(number, result) || !control::inputs_only() || self.inside_event.get() {
            return;
        }
        let calls = self.inputs.sure_calls.get().wrapping_sub(is_counted(number) as u64) as u16;
        let refusal = Entry {
            event: self.event(),
            number: REFUSED,
            check: u32::from(condensed(number, arguments)) << 16 | u32::from(calls),
            result: result as i64,
            ..Entry::default()
        };
        self.append_entry(refusal, &[]);
    }

    /// Replay: passes over failures of calls that the program has not made, or libc when a thread was over.
    pub fn pass_refusals(&self) {
        while self.inputs.recorded.next_number() == Some(REFUSED) {
            self.inputs.recorded.next();
        }
    }

    /// Replay: how this call failed when it was recorded, if it did. With several threads, it is not quite certain how many calls there were before.
    fn was_refused(&self, number: c_long, arguments: &[usize; 6]) -> Option<isize> {
        let (check, result) = self.inputs.recorded.next_refusal(self.event())?;
        let is_same = check >> 16 == u32::from(condensed(number, arguments));
        let ahead = (self.inputs.sure_calls.get() as u16).wrapping_sub(check as u16) as i16;
        let is_here = is_same && (ahead == 0 || ahead > 0 && turns::is_on());
        is_here.then(|| {
            self.inputs.recorded.next();
            result as isize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_do_not_count() {
        let asked = condensed(libc::SYS_mmap, &[0, 4096, 3, 34, usize::MAX, 0]);
        assert_eq!(
            condensed(libc::SYS_mmap, &[0x7000_0000, 4096, 3, 34, usize::MAX, 0]),
            asked
        );
        assert_ne!(condensed(libc::SYS_mmap, &[0, 8192, 3, 34, usize::MAX, 0]), asked);
        assert_ne!(condensed(libc::SYS_munmap, &[0, 4096, 3, 34, usize::MAX, 0]), asked);
    }

    #[test]
    fn what_failed_over_a_hole_was_done_before_it() {
        assert!(goes_as_far_as_it_can(libc::SYS_madvise, -libc::ENOMEM as isize));
        // A page behind the first ones is locked.
        assert!(goes_as_far_as_it_can(libc::SYS_madvise, -libc::EINVAL as isize));
        assert!(!goes_as_far_as_it_can(libc::SYS_mmap, -libc::ENOMEM as isize));
        assert!(!goes_as_far_as_it_can(libc::SYS_mprotect, -libc::EPERM as isize));
    }

    #[test]
    fn a_futex_that_is_not_waited_for_is_no_input() {
        assert!(!is_input(libc::SYS_futex, -libc::EAGAIN as isize));
        assert!(is_input(libc::SYS_futex, sys::TRAPPED));
        assert!(is_input(libc::SYS_mmap, -libc::ENOMEM as isize));
        assert!(!is_input(libc::SYS_mmap, 0x7000_0000));
    }
}
