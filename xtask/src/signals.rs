//! How signals are handled when a command begins.
#![allow(unsafe_code, reason = "std has no call for what signals do")]

/// Shells start what goes on in the background with these signals ignored, and whatever it starts inherits that: tests that stop a recorder by Ctrl-C could not.
pub fn as_at_a_terminal() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default is no code of ours, and nobody has set a handler yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Programs that we start may send SIGINT to whoever started them. A terminal's still ends us.
pub fn outlive_interrupts_of_programs() {
    extern "C" fn interrupted(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel passes what it knows of the signal. What it sends itself is above 0.
        if unsafe { (*info).si_code } > 0 {
            // SAFETY: ends the process, and runs nothing.
            unsafe { libc::_exit(128 + libc::SIGINT) };
        }
    }
    // SAFETY: a zeroed action with a handler that lives as long as we do, and is not inherited by what we execute.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
}
