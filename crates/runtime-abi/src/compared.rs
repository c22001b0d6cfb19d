//! Of which calls the answers are compared with those that a schedule was learned with, and what of them: deterministic runs.
//!
//! What a program gets from outside must be what it was, or nobody knows whether the schedule is still one. The exceptions are named here: clocks, the
//! numbers that the kernel gives to processes, threads and descriptors, and addresses. A call that is not named is compared in full.

/// What is compared of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Nothing: it is live, and another thing each time. Such calls have no entry.
    Nothing,
    /// Whether it fails, and how. What it returns otherwise is a number that the kernel has chosen.
    Success,
    /// What it returns. What it writes has times, addresses and the like in it.
    Result,
    /// What it returns, and all that it writes.
    All,
    /// Of a file: what kind it is, its rights, and the size of a regular one. Times, inodes and devices are not.
    Status,
    /// Names and kinds in a directory; no inodes.
    Directory,
    /// What came with messages; not from where, nor what the kernel says beside.
    Message,
    Messages,
    /// The bytes in the buffer; not from where.
    From,
    /// What is ready, of descriptors whose numbers are not compared.
    Ready,
    ReadyEvents,
    ReadySets,
    /// What is in a file where it is mapped.
    Mapping,
    /// Arguments decide.
    Command,
}

/// Numbers of x86-64.
pub const fn compared(number: u32) -> Compared {
    use Compared::*;
    match number {
        // Clocks and timers: gettimeofday, getrusage, times, time, clock_gettime, clock_getres, and settimes of what is left: alarm,
        // getitimer, setitimer, timer_settime, timer_gettime, timer_getoverrun, timerfd_settime, timerfd_gettime, adjtimex, clock_adjtime.
        96 | 98 | 100 | 201 | 228 | 229 | 37 | 36 | 38 | 223 | 224 | 225 | 286 | 287 | 159 | 305 => Nothing,
        // Sleeps, which the order makes superfluous: nanosleep, clock_nanosleep, pause, rt_sigsuspend.
        35 | 230 | 34 | 130 => Nothing,
        // Numbers of processes and threads: getpid, getppid, gettid, getpgrp, getpgid, getsid, setsid, set_tid_address, wait4, waitid.
        39 | 110 | 186 | 111 | 121 | 124 | 112 | 218 | 61 | 247 => Nothing,
        // Signals are sent by their numbers: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal.
        62 | 200 | 234 | 129 | 297 | 424 => Nothing,
        // The state of the machine: getcpu, sysinfo, statfs, fstatfs, ustat, cachestat.
        309 | 99 | 137 | 138 | 136 | 451 => Nothing,
        // Ports that the kernel chooses: getsockname, getpeername.
        51 | 52 => Nothing,
        // Entries of ours that are no calls: a processor's identity and counter, threads, turns, cancellations, refusals.
        505..=507 | 509..=511 | 0xfff0 | 0xfff2 | 0xfff3 => Nothing,
        // Descriptors: open, dup, dup2, socket, accept, creat, epoll_create, mq_open, openat, signalfd, timerfd_create, eventfd, accept4, signalfd4,
        // eventfd2, epoll_create1, dup3, inotify_init, inotify_init1, perf_event_open, fanotify_init, open_by_handle_at, memfd_create, userfaultfd,
        // pidfd_open, openat2, pidfd_getfd, memfd_secret; pipe, socketpair, pipe2, which write them.
        2 | 32 | 33 | 41 | 43 | 85 | 213 | 240 | 257 | 282 | 283 | 284 | 288 | 289 | 290 | 291 | 292 | 253 | 294
        | 298 | 300 | 304 | 319 | 323 | 434 | 437 | 438 | 447 | 22 | 53 | 293 => Success,
        // Numbers and addresses of other things: shmget, shmat, semget, msgget, io_setup, timer_create, add_key, request_key.
        29 | 30 | 64 | 68 | 206 | 222 | 248 | 249 => Success,
        // shmctl, semctl, msgctl, rt_sigtimedwait, io_getevents, io_pgetevents, name_to_handle_at, ptrace, bpf.
        31 | 66 | 71 | 128 | 208 | 333 | 303 | 101 | 321 => Result,
        // stat, fstat, lstat, newfstatat, statx.
        4 | 5 | 6 | 262 | 332 => Status,
        // getdents, getdents64.
        78 | 217 => Directory,
        45 => From,
        47 => Message,
        299 => Messages,
        // poll, ppoll; epoll_wait, epoll_pwait, epoll_pwait2; select, pselect6.
        7 | 271 => Ready,
        232 | 281 | 441 => ReadyEvents,
        23 | 270 => ReadySets,
        9 => Mapping,
        // ioctl, fcntl.
        16 | 72 => Command,
        _ => All,
    }
}

/// Is it one of those that bring something in which may be another thing next time, and is not compared? Of the calls that have no entry only these are worth a word.
pub const fn is_live(number: u32) -> bool {
    matches!(
        number,
        96 | 98 | 100 | 201 | 228 | 229 | 39 | 110 | 186 | 309 | 99 | 137 | 138 | 136 | 451 | 51 | 52 | 505 | 506
    ) || matches!(number, 36 | 224 | 287 | 111 | 121 | 124 | 159 | 305)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_live_is_not_compared() {
        for number in 0..512 {
            assert!(!is_live(number) || compared(number) == Compared::Nothing, "{number}");
        }
    }

    #[test]
    fn a_call_that_nobody_knows_is_compared_in_full() {
        assert_eq!(compared(508), Compared::All);
        assert_eq!(compared(470), Compared::All);
        // getrandom.
        assert_eq!(compared(318), Compared::All);
    }
}
