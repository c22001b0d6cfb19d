//! A thread that has nothing more to do.
use crate::control;
use crate::debugger;
use crate::policy;
use crate::sys;

/// Until the tool ends us; or until the tool itself is gone, if we were forked and nobody would.
pub fn sleep_forever() -> ! {
    loop {
        sys::sleep_ns(1_000_000_000);
        if policy::is_imposed() && !sys::is_process(control::header().identity.tool) {
            // SAFETY: ends the process.
            unsafe { sys::syscall(libc::SYS_exit_group, [1, 0, 0, 0, 0, 0]) };
        }
    }
}

/// Replay of one thread at a time: it went another way, the tool has been told, and nobody can do anything more.
pub fn by_divergence() -> ! {
    debugger::after_divergence();
    if control::header().debugger.debugged == 0 {
        // SAFETY: ends the process.
        unsafe { sys::syscall(libc::SYS_exit_group, [1, 0, 0, 0, 0, 0]) };
    }
    sleep_forever()
}
