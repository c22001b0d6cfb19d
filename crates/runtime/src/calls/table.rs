//! What each system call does to the program: nothing here acts.
use crate::processes;
use core::ffi::c_long;

/// How a call is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Done in recording and in replay.
    Real,
    /// Done in recording, left out in replay, where gates decide who goes on.
    Yield,
    /// Ends the process; in replay, when all threads are where they were.
    End,
    /// Makes a process of the run, perhaps: `processes.rs`.
    Fork,
    /// Becomes another program: `processes.rs`.
    Exec,
    /// Says what is to happen on a signal: `signals.rs`.
    SignalAction,
    /// Says where handlers run: `signals.rs`.
    SignalStack,
    /// Done in recording; in replay, the log answers.
    Logged,
    /// Logged, though we do not know what it writes.
    Unknown,
    /// Answered with ENOSYS: it would do things behind our back.
    Refused,
}

/// Memory that the kernel writes.
#[derive(Clone, Copy)]
pub struct Written {
    /// The argument that points to it.
    pub argument: u8,
    pub size: Size,
}

#[derive(Clone, Copy)]
pub enum Size {
    /// So many bytes.
    Fixed(u32),
    /// As many elements of this size as the result says; another argument says for how many there is room.
    Result(u32, u8),
    /// As many elements of this size as another argument says.
    Argument(u8, u32),
    /// As another argument's pointee said before the call, and says after it; the smaller one.
    LengthAt(u8),
    /// Bits, as many as another argument says, in words.
    Bits(u8),
    /// As many bytes as the result says, into the buffers of an iovec; another argument has their number.
    Buffers(u8),
    /// As many bytes as the result says, into the buffers of a msghdr; and its name and control data.
    Message,
}

const fn at(argument: u8, size: Size) -> Written {
    Written { argument, size }
}

const STAT: Size = Size::Fixed(144);
const TIME: Size = Size::Fixed(16);
const NUMBER: Size = Size::Fixed(4);
const NOTHING: &[Written] = &[];

/// What is known about a call.
#[derive(Clone, Copy)]
pub struct Row {
    pub treatment: Treatment,
    /// What it writes if it succeeds.
    pub writes: &'static [Written],
}

/// Of the calls whose arguments do not matter, by number: one look instead of several long comparisons.
static ROWS: [Row; 512] = {
    let mut rows = [row(0, &[0; 6]); 512];
    let mut number = 0;
    while number < rows.len() {
        rows[number] = row(number as c_long, &[0; 6]);
        number += 1;
    }
    rows
};

const fn row(number: c_long, arguments: &[usize; 6]) -> Row {
    Row {
        treatment: treatment(number, arguments),
        writes: match written(number, arguments) {
            Some(writes) => writes,
            None => &[],
        },
    }
}

/// Of a call whose arguments do not matter.
pub const fn look_up_const(number: c_long) -> Row {
    row(number, &[0; 6])
}

#[inline]
pub fn look_up(number: c_long, arguments: &[usize; 6]) -> Row {
    match (number, ROWS.get(number as usize)) {
        (libc::SYS_mmap | libc::SYS_ioctl | libc::SYS_fcntl | libc::SYS_clone, _) | (_, None) => row(number, arguments),
        (_, Some(row)) => *row,
    }
}

/// What a call that succeeds writes. `None`: we do not know the call.
const fn written(number: c_long, arguments: &[usize; 6]) -> Option<&'static [Written]> {
    Some(match number {
        libc::SYS_read | libc::SYS_pread64 => const { &[at(1, Size::Result(1, 2))] },
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => const { &[at(1, Size::Buffers(2))] },
        libc::SYS_stat | libc::SYS_fstat | libc::SYS_lstat => const { &[at(1, STAT)] },
        libc::SYS_newfstatat => const { &[at(2, STAT)] },
        libc::SYS_statx => const { &[at(4, Size::Fixed(256))] },
        libc::SYS_statfs | libc::SYS_fstatfs => const { &[at(1, Size::Fixed(120))] },
        libc::SYS_readlink => const { &[at(1, Size::Result(1, 2))] },
        libc::SYS_readlinkat => const { &[at(2, Size::Result(1, 3))] },
        libc::SYS_getcwd => const { &[at(0, Size::Result(1, 1))] },
        libc::SYS_getdents | libc::SYS_getdents64 => const { &[at(1, Size::Result(1, 2))] },
        libc::SYS_getrandom => const { &[at(0, Size::Result(1, 1))] },
        libc::SYS_getxattr | libc::SYS_lgetxattr | libc::SYS_fgetxattr => const { &[at(2, Size::Result(1, 3))] },
        libc::SYS_listxattr | libc::SYS_llistxattr | libc::SYS_flistxattr => const { &[at(1, Size::Result(1, 2))] },

        libc::SYS_poll => const { &[at(0, Size::Argument(1, 8))] },
        libc::SYS_ppoll => const { &[at(0, Size::Argument(1, 8)), at(2, TIME)] },
        libc::SYS_select | libc::SYS_pselect6 => {
            const {
                &[
                    at(1, Size::Bits(0)),
                    at(2, Size::Bits(0)),
                    at(3, Size::Bits(0)),
                    at(4, TIME),
                ]
            }
        }
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            const { &[at(1, Size::Result(12, 2))] }
        }

        libc::SYS_pipe | libc::SYS_pipe2 => const { &[at(0, Size::Fixed(8))] },
        libc::SYS_socketpair => const { &[at(3, Size::Fixed(8))] },
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_getsockname | libc::SYS_getpeername => {
            const { &[at(1, Size::LengthAt(2)), at(2, NUMBER)] }
        }
        libc::SYS_getsockopt => const { &[at(3, Size::LengthAt(4)), at(4, NUMBER)] },
        libc::SYS_recvfrom => const { &[at(1, Size::Result(1, 2)), at(4, Size::LengthAt(5)), at(5, NUMBER)] },
        libc::SYS_recvmsg => const { &[at(1, Size::Message)] },

        libc::SYS_clock_gettime | libc::SYS_clock_getres => const { &[at(1, TIME)] },
        libc::SYS_gettimeofday => const { &[at(0, TIME), at(1, Size::Fixed(8))] },
        libc::SYS_time => const { &[at(0, Size::Fixed(8))] },
        libc::SYS_times => const { &[at(0, Size::Fixed(32))] },
        libc::SYS_getrusage => const { &[at(1, STAT)] },
        libc::SYS_getcpu => const { &[at(0, NUMBER), at(1, NUMBER)] },
        libc::SYS_timerfd_settime => const { &[at(3, Size::Fixed(32))] },
        libc::SYS_timer_create => const { &[at(2, NUMBER)] },
        libc::SYS_timer_settime => const { &[at(3, Size::Fixed(32))] },
        libc::SYS_timer_gettime | libc::SYS_timerfd_gettime | libc::SYS_getitimer => {
            const { &[at(1, Size::Fixed(32))] }
        }
        libc::SYS_setitimer => const { &[at(2, Size::Fixed(32))] },

        libc::SYS_uname => const { &[at(0, Size::Fixed(390))] },
        libc::SYS_sysinfo => const { &[at(0, Size::Fixed(112))] },
        libc::SYS_getrlimit => const { &[at(1, TIME)] },
        libc::SYS_prlimit64 => const { &[at(3, TIME)] },
        libc::SYS_sched_getaffinity => const { &[at(2, Size::Result(1, 1))] },
        libc::SYS_sched_getparam => const { &[at(1, NUMBER)] },
        libc::SYS_getgroups => const { &[at(1, Size::Result(4, 0))] },
        libc::SYS_getresuid | libc::SYS_getresgid => const { &[at(0, NUMBER), at(1, NUMBER), at(2, NUMBER)] },
        libc::SYS_wait4 => const { &[at(1, NUMBER), at(3, STAT)] },
        libc::SYS_waitid => const { &[at(2, Size::Fixed(128)), at(4, STAT)] },
        libc::SYS_rt_sigtimedwait => const { &[at(1, Size::Fixed(128))] },
        libc::SYS_sendfile => const { &[at(2, Size::Fixed(8))] },
        libc::SYS_copy_file_range | libc::SYS_splice => const { &[at(1, Size::Fixed(8)), at(3, Size::Fixed(8))] },

        libc::SYS_ioctl => match arguments[1] as u64 {
            libc::TCGETS => const { &[at(2, Size::Fixed(36))] },
            libc::TIOCGWINSZ => const { &[at(2, Size::Fixed(8))] },
            libc::FIONREAD | libc::TIOCGPGRP | libc::TIOCOUTQ => const { &[at(2, NUMBER)] },
            libc::TCSETS
            | libc::TCSETSW
            | libc::TCSETSF
            | libc::FIONBIO
            | libc::FIOCLEX
            | libc::FIONCLEX
            | libc::TIOCSWINSZ
            | libc::TCFLSH
            | libc::TCSBRK
            | libc::TIOCSPGRP
            | libc::TIOCSCTTY
            | libc::TIOCNOTTY => NOTHING,
            _ => return None,
        },
        libc::SYS_fcntl => match arguments[1] as i32 {
            libc::F_GETLK | libc::F_OFD_GETLK => const { &[at(2, Size::Fixed(32))] },
            _ => NOTHING,
        },

        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_close
        | libc::SYS_close_range
        | libc::SYS_lseek
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_access
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync
        | libc::SYS_syncfs
        | libc::SYS_sync_file_range
        | libc::SYS_truncate
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fadvise64
        | libc::SYS_readahead
        | libc::SYS_flock
        | libc::SYS_mkdir
        | libc::SYS_mkdirat
        | libc::SYS_rmdir
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_link
        | libc::SYS_linkat
        | libc::SYS_symlink
        | libc::SYS_symlinkat
        | libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_chmod
        | libc::SYS_fchmod
        | libc::SYS_fchmodat
        | libc::SYS_chown
        | libc::SYS_fchown
        | libc::SYS_lchown
        | libc::SYS_fchownat
        | libc::SYS_utime
        | libc::SYS_utimes
        | libc::SYS_utimensat
        | libc::SYS_futimesat
        | libc::SYS_mknod
        | libc::SYS_mknodat
        | libc::SYS_chdir
        | libc::SYS_fchdir
        | libc::SYS_chroot
        | libc::SYS_umask
        | libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_fsetxattr
        | libc::SYS_removexattr
        | libc::SYS_memfd_create
        | libc::SYS_socket
        | libc::SYS_connect
        | libc::SYS_bind
        | libc::SYS_listen
        | libc::SYS_shutdown
        | libc::SYS_setsockopt
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_epoll_ctl
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_inotify_add_watch
        | libc::SYS_inotify_rm_watch
        | libc::SYS_pidfd_open
        | libc::SYS_getpid
        | libc::SYS_getppid
        | libc::SYS_gettid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_getpgid
        | libc::SYS_getpgrp
        | libc::SYS_getsid
        | libc::SYS_setsid
        | libc::SYS_setpgid
        | libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setgroups
        | libc::SYS_setrlimit
        | libc::SYS_getpriority
        | libc::SYS_setpriority
        | libc::SYS_sched_setaffinity
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_getscheduler
        | libc::SYS_sched_setparam
        | libc::SYS_sched_get_priority_max
        | libc::SYS_sched_get_priority_min
        | libc::SYS_ioprio_get
        | libc::SYS_ioprio_set
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_alarm
        | libc::SYS_pause
        | libc::SYS_rt_sigsuspend
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_timer_delete
        | libc::SYS_timer_getoverrun
        | libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_tgkill
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_rt_tgsigqueueinfo
        | libc::SYS_clock_settime
        | libc::SYS_settimeofday => NOTHING,
        _ => return None,
    })
}

const fn treatment(number: c_long, arguments: &[usize; 6]) -> Treatment {
    match number {
        _ if processes::is_fork(number, arguments) => Treatment::Fork,
        libc::SYS_execve | libc::SYS_execveat => Treatment::Exec,
        libc::SYS_futex
        | libc::SYS_munmap
        | libc::SYS_mprotect
        | libc::SYS_mremap
        | libc::SYS_madvise
        | libc::SYS_mincore
        | libc::SYS_mlock
        | libc::SYS_munlock
        | libc::SYS_mlockall
        | libc::SYS_munlockall
        | libc::SYS_msync
        | libc::SYS_brk
        | libc::SYS_rt_sigprocmask
        | libc::SYS_rt_sigpending
        | libc::SYS_rt_sigreturn
        | libc::SYS_arch_prctl
        | libc::SYS_prctl
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list
        | libc::SYS_get_robust_list
        | libc::SYS_rseq
        | libc::SYS_membarrier
        | libc::SYS_restart_syscall
        | libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_vfork
        | libc::SYS_exit => Treatment::Real,
        libc::SYS_sched_yield => Treatment::Yield,
        libc::SYS_exit_group => Treatment::End,
        libc::SYS_rt_sigaction => Treatment::SignalAction,
        libc::SYS_sigaltstack => Treatment::SignalStack,
        // Anonymous memory; a mapped file is an input.
        libc::SYS_mmap if arguments[3] as i32 & libc::MAP_ANONYMOUS != 0 => Treatment::Real,
        libc::SYS_mmap => Treatment::Logged,
        libc::SYS_io_uring_setup | libc::SYS_io_uring_enter | libc::SYS_io_uring_register => Treatment::Refused,
        _ if written(number, arguments).is_some() => Treatment::Logged,
        _ => Treatment::Unknown,
    }
}

/// May it wait for something from outside?
pub fn blocks(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_pause
            | libc::SYS_rt_sigsuspend
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_flock
            | libc::SYS_fsync
            | libc::SYS_fdatasync
    )
}

/// Does it write to the descriptor that is its first argument?
pub fn writes(number: c_long) -> bool {
    matches!(number, libc::SYS_write | libc::SYS_writev)
}

/// Does it do nothing but let time pass?
pub fn sleeps(number: c_long) -> bool {
    matches!(number, libc::SYS_nanosleep | libc::SYS_clock_nanosleep)
}

/// May it end a wait of another thread's, by what it does?
pub const fn acts_on_others(number: c_long) -> bool {
    log_format::inputs::acts(number as u32)
}

const _: () = {
    use log_format::inputs::acts;
    use log_format::inputs::waits;
    assert!(acts(libc::SYS_write as u32) && acts(libc::SYS_close as u32) && acts(libc::SYS_rt_tgsigqueueinfo as u32));
    assert!(acts(libc::SYS_splice as u32) && acts(libc::SYS_tgkill as u32) && acts(libc::SYS_close_range as u32));
    assert!(
        waits(libc::SYS_read as u32) && waits(libc::SYS_epoll_pwait2 as u32) && waits(libc::SYS_rt_sigtimedwait as u32)
    );
    assert!(waits(libc::SYS_accept4 as u32) && waits(libc::SYS_pselect6 as u32) && waits(libc::SYS_waitid as u32));
};

/// Does it send a signal?
pub fn sends_signal(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill | libc::SYS_rt_sigqueueinfo | libc::SYS_rt_tgsigqueueinfo
    )
}

/// Is it mostly not a call at all, but a look at a page of the kernel's?
pub fn is_clock(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_clock_gettime | libc::SYS_clock_getres | libc::SYS_gettimeofday | libc::SYS_time | libc::SYS_getcpu
    )
}

/// The argument with the bytes that go out, and the one with their number.
pub fn outgoing(number: c_long) -> Option<(usize, usize)> {
    match number {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_sendto => Some((1, 2)),
        _ => None,
    }
}
