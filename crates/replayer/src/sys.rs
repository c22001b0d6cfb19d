//! The few system calls `std` has no words for. All of this crate's unsafe code is here.
#![allow(unsafe_code, reason = "system calls without a safe wrapper in std")]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A file that exists only as long as someone has it open.
pub fn anonymous_file(name: &CStr) -> io::Result<File> {
    // SAFETY: `name` is a NUL-terminated string; the descriptor that comes back belongs to nobody else.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(File::from_raw_fd(descriptor))
        }
    }
}

/// Whether the system lets programs run without address-space randomisation; some container sandboxes do not.
pub fn can_fix_addresses() -> bool {
    // SAFETY: personality takes and returns plain numbers; the old value is put back at once.
    unsafe {
        let current = libc::personality(0xffff_ffff);
        if current < 0 || libc::personality(current as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
            return false;
        }
        libc::personality(current as libc::c_ulong);
        true
    }
}

/// What happens to the program when this process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanedProgram {
    RunsOn,
    /// Linux counts the death of the *thread* that started it.
    IsKilled,
}

/// The new program finds `file` as descriptor `number`, and has its memory where every run has it.
pub fn prepare(command: &mut Command, file: BorrowedFd<'_>, number: i32, orphaned: OrphanedProgram) {
    let descriptor = file.as_raw_fd();
    let steps = move || {
        // SAFETY: plain system calls with numbers; `descriptor` is open because the caller waits for the spawn.
        unsafe {
            let current = libc::personality(0xffff_ffff);
            libc::personality(current as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            if orphaned == OrphanedProgram::IsKilled {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            // dup2 clears the close-on-exec flag, unless both numbers are the same.
            let placed = if descriptor == number {
                libc::fcntl(descriptor, libc::F_SETFD, 0)
            } else {
                libc::dup2(descriptor, number)
            };
            if placed < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(())
            }
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: no allocation, no locks.
    unsafe { command.pre_exec(steps) };
}

/// The new program finds each of `files` under its number, and dies with us.
pub fn pass_files(command: &mut Command, files: [(OwnedFd, i32); 3]) {
    let steps = move || {
        // SAFETY: plain system calls with numbers; the closure owns the descriptors, so they are open.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            for (file, number) in &files {
                if libc::dup2(file.as_raw_fd(), *number) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: no allocation, no locks.
    unsafe { command.pre_exec(steps) };
}

/// A file that whoever started us left open for us under this number. `None` if there is none.
pub fn inherited_file(number: i32) -> Option<File> {
    // SAFETY: fcntl takes numbers. A descriptor that is open belongs to nobody in this process, which has just started
    // and asks for each number once.
    unsafe { (libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == 0).then(|| File::from_raw_fd(number)) }
}

/// A descriptor that becomes readable when the process ends.
pub fn process_descriptor(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers; the descriptor that comes back belongs to nobody else and is close-on-exec.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0);
        if descriptor < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(descriptor as i32))
        }
    }
}

/// Processor time of all children that have ended, and the most memory any of them had at once.
pub fn ended_children() -> (Duration, u64) {
    // SAFETY: getrusage fills the zeroed structure, which is plain old data.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    // Linux counts in kilobytes.
    (
        time(usage.ru_utime) + time(usage.ru_stime),
        usage.ru_maxrss as u64 * 1024,
    )
}

/// Waits until there is something to read (or the other end is closed). False: time is up, or a signal came.
pub fn wait_readable(file: BorrowedFd<'_>, time: Option<Duration>) -> io::Result<bool> {
    let milliseconds = time.map_or(-1, |t| t.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32);
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    match unsafe { libc::poll(&mut poll, 1, milliseconds) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            e => Err(e),
        },
    }
}

pub fn send_signal(process: u32, signal: i32) {
    // SAFETY: plain numbers. The process is our child and not yet waited for, so the number is still its own. A
    // failure means that it has just ended, which the caller finds out by waiting.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

static CAUGHT: AtomicI32 = AtomicI32::new(0);
static TO_FORWARD: AtomicI32 = AtomicI32::new(0);

/// From now on SIGINT and its like are noted instead of ending this process, so that a recording can be sealed.
pub fn catch_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: sigaction on zeroed, then filled structures; the handler only stores to atomics. A signal that was
        // ignored (nohup) stays ignored. SA_RESTART is left out: waiting must return.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = note_signal as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }
}

extern "C" fn note_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // Relaxed: lone flags, nothing is published through them.
    CAUGHT.store(signal, Relaxed);
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let from_process = unsafe { (*info).si_code } <= 0;
    // What the terminal sends goes to the whole foreground group, so the program has it already.
    if from_process {
        TO_FORWARD.store(signal, Relaxed);
    }
}

/// The last signal that was caught, and keeps being reported.
pub fn caught_signal() -> Option<i32> {
    Some(CAUGHT.load(Relaxed)).filter(|signal| *signal != 0)
}

/// A signal that was sent to this process alone, reported once: the program should get it too.
pub fn take_signal_to_forward() -> Option<i32> {
    Some(TO_FORWARD.swap(0, Relaxed)).filter(|signal| *signal != 0)
}
