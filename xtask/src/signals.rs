//! How signals are handled when a command begins.
#![allow(unsafe_code, reason = "std has no call for what signals do")]

/// Shells start what goes on in the background with these signals ignored, and whatever it starts inherits that: tests that stop a recorder by Ctrl-C could not.
pub fn as_at_a_terminal() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default is no code of ours, and nobody has set a handler yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
