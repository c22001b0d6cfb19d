//! Names of system calls on x86-64, for people.
use crate::describe;
use log_format::inputs::ANNOTATED;
use log_format::inputs::AUXILIARY;
use log_format::inputs::CANCEL;
use log_format::inputs::COUNTER;
use log_format::inputs::FIRST_SYNC;
use log_format::inputs::NO_CALL;
use log_format::inputs::PROCESSOR;
use log_format::inputs::RANDOM;
use log_format::inputs::REFUSED;
use log_format::inputs::SPAWN;
use run_model::Op;

/// From 0 on.
#[rustfmt::skip]
const FIRST: [&str; 337] = [
    "read", "write", "open", "close", "stat", "fstat", "lstat", "poll", "lseek", "mmap", "mprotect", "munmap", "brk",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "ioctl", "pread64", "pwrite64", "readv", "writev", "access",
    "pipe", "select", "sched_yield", "mremap", "msync", "mincore", "madvise", "shmget", "shmat", "shmctl", "dup",
    "dup2", "pause", "nanosleep", "getitimer", "alarm", "setitimer", "getpid", "sendfile", "socket", "connect",
    "accept", "sendto", "recvfrom", "sendmsg", "recvmsg", "shutdown", "bind", "listen", "getsockname", "getpeername",
    "socketpair", "setsockopt", "getsockopt", "clone", "fork", "vfork", "execve", "exit", "wait4", "kill", "uname",
    "semget", "semop", "semctl", "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl", "fcntl", "flock", "fsync",
    "fdatasync", "truncate", "ftruncate", "getdents", "getcwd", "chdir", "fchdir", "rename", "mkdir", "rmdir",
    "creat", "link", "unlink", "symlink", "readlink", "chmod", "fchmod", "chown", "fchown", "lchown", "umask",
    "gettimeofday", "getrlimit", "getrusage", "sysinfo", "times", "ptrace", "getuid", "syslog", "getgid", "setuid",
    "setgid", "geteuid", "getegid", "setpgid", "getppid", "getpgrp", "setsid", "setreuid", "setregid", "getgroups",
    "setgroups", "setresuid", "getresuid", "setresgid", "getresgid", "getpgid", "setfsuid", "setfsgid", "getsid",
    "capget", "capset", "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_sigsuspend", "sigaltstack",
    "utime", "mknod", "uselib", "personality", "ustat", "statfs", "fstatfs", "sysfs", "getpriority", "setpriority",
    "sched_setparam", "sched_getparam", "sched_setscheduler", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "sched_rr_get_interval", "mlock", "munlock", "mlockall", "munlockall", "vhangup",
    "modify_ldt", "pivot_root", "_sysctl", "prctl", "arch_prctl", "adjtimex", "setrlimit", "chroot", "sync", "acct",
    "settimeofday", "mount", "umount2", "swapon", "swapoff", "reboot", "sethostname", "setdomainname", "iopl",
    "ioperm", "create_module", "init_module", "delete_module", "get_kernel_syms", "query_module", "quotactl",
    "nfsservctl", "getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "gettid", "readahead", "setxattr",
    "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
    "removexattr", "lremovexattr", "fremovexattr", "tkill", "time", "futex", "sched_setaffinity",
    "sched_getaffinity", "set_thread_area", "io_setup", "io_destroy", "io_getevents", "io_submit", "io_cancel",
    "get_thread_area", "lookup_dcookie", "epoll_create", "epoll_ctl_old", "epoll_wait_old", "remap_file_pages",
    "getdents64", "set_tid_address", "restart_syscall", "semtimedop", "fadvise64", "timer_create", "timer_settime",
    "timer_gettime", "timer_getoverrun", "timer_delete", "clock_settime", "clock_gettime", "clock_getres",
    "clock_nanosleep", "exit_group", "epoll_wait", "epoll_ctl", "tgkill", "utimes", "vserver", "mbind",
    "set_mempolicy", "get_mempolicy", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
    "mq_getsetattr", "kexec_load", "waitid", "add_key", "request_key", "keyctl", "ioprio_set", "ioprio_get",
    "inotify_init", "inotify_add_watch", "inotify_rm_watch", "migrate_pages", "openat", "mkdirat", "mknodat",
    "fchownat", "futimesat", "newfstatat", "unlinkat", "renameat", "linkat", "symlinkat", "readlinkat", "fchmodat",
    "faccessat", "pselect6", "ppoll", "unshare", "set_robust_list", "get_robust_list", "splice", "tee",
    "sync_file_range", "vmsplice", "move_pages", "utimensat", "epoll_pwait", "signalfd", "timerfd_create", "eventfd",
    "fallocate", "timerfd_settime", "timerfd_gettime", "accept4", "signalfd4", "eventfd2", "epoll_create1", "dup3",
    "pipe2", "inotify_init1", "preadv", "pwritev", "rt_tgsigqueueinfo", "perf_event_open", "recvmmsg",
    "fanotify_init", "fanotify_mark", "prlimit64", "name_to_handle_at", "open_by_handle_at", "clock_adjtime",
    "syncfs", "sendmmsg", "setns", "getcpu", "process_vm_readv", "process_vm_writev", "kcmp", "finit_module",
    "sched_setattr", "sched_getattr", "renameat2", "seccomp", "getrandom", "memfd_create", "kexec_file_load", "bpf",
    "execveat", "userfaultfd", "membarrier", "mlock2", "copy_file_range", "preadv2", "pwritev2", "pkey_mprotect",
    "pkey_alloc", "pkey_free", "statx", "io_pgetevents", "rseq", "uretprobe", "uprobe",
];

/// From 424 on: the numbers that all architectures share.
const NEWER_FROM: usize = 424;
#[rustfmt::skip]
const NEWER: [&str; 47] = [
    "pidfd_send_signal", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open", "clone3", "close_range", "openat2", "pidfd_getfd",
    "faccessat2", "process_madvise", "epoll_pwait2", "mount_setattr", "quotactl_fd", "landlock_create_ruleset",
    "landlock_add_rule", "landlock_restrict_self", "memfd_secret", "process_mrelease", "futex_waitv",
    "set_mempolicy_home_node", "cachestat", "fchmodat2", "map_shadow_stack", "futex_wake", "futex_wait",
    "futex_requeue", "statmount", "listmount", "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal",
    "setxattrat", "getxattrat", "listxattrat", "removexattrat", "open_tree_attr", "file_getattr", "file_setattr",
    "listns",
];

/// What has a number in the inputs and is no call (docs/log-format.md).
const NO_CALLS: [(u32, &str); 11] = [
    (PROCESSOR, "cpuid"),
    (COUNTER, "rdtsc"),
    (REFUSED, "a call that failed"),
    (NO_CALL, "a number that is no call"),
    (0xfff0, "turn"),
    (0xfff1, "instruction"),
    (SPAWN, "pthread_create"),
    (CANCEL, "pthread_cancel"),
    (ANNOTATED, "refrain_input"),
    (AUXILIARY, "getauxval(AT_RANDOM)"),
    (RANDOM, "rdrand or rdseed"),
];

/// "read", or "system call 1234".
pub fn call_name(number: u32) -> String {
    if let Some((_, name)) = NO_CALLS.iter().find(|(known, _)| *known == number) {
        return (*name).to_owned();
    }
    if let Some(op) = sync_of(number) {
        return describe::sync(op);
    }
    let number = number as usize;
    let newer = || NEWER.get(number.checked_sub(NEWER_FROM)?);
    match FIRST.get(number).or_else(newer) {
        Some(name) if !name.is_empty() => (*name).to_owned(),
        _ => format!("system call {number}"),
    }
}

/// The synchronisation that a number stands for.
pub fn sync_of(number: u32) -> Option<Op> {
    let op = u8::try_from(number.checked_sub(FIRST_SYNC)?).ok()?;
    Op::from_u8(op)
}

#[cfg(test)]
mod tests {
    use super::call_name;
    use runtime_abi::compared::Compared;
    use runtime_abi::compared::compared;

    #[test]
    fn names_are_at_their_numbers() {
        for (number, name) in [
            (libc::SYS_read, "read"),
            (libc::SYS_clock_gettime, "clock_gettime"),
            (libc::SYS_rseq, "rseq"),
            (libc::SYS_pidfd_open, "pidfd_open"),
            (libc::SYS_epoll_pwait2, "epoll_pwait2"),
            (libc::SYS_set_mempolicy_home_node, "set_mempolicy_home_node"),
            (470, "listns"),
            (400, "system call 400"),
            (9999, "system call 9999"),
        ] {
            assert_eq!(call_name(number as u32), name);
        }
    }

    /// The table has numbers, and a wrong one would go unnoticed.
    #[test]
    fn what_is_not_compared_in_full_is_known_by_name() {
        use Compared::Directory;
        use Compared::Mapping;
        use Compared::Nothing;
        use Compared::Ready;
        use Compared::ReadyEvents;
        use Compared::ReadySets;
        use Compared::Result;
        use Compared::Status;
        use Compared::Success;
        let names = |wanted: Compared| {
            let numbers = (0..471).filter(|number| compared(*number) == wanted);
            let mut names: Vec<String> = numbers.map(call_name).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(
            names(Nothing),
            "adjtimex alarm cachestat clock_adjtime clock_getres clock_gettime clock_nanosleep fstatfs getcpu getitimer getpeername getpgid \
             getpgrp getpid getppid getrusage getsid getsockname gettid gettimeofday kill nanosleep pause pidfd_send_signal rt_sigqueueinfo \
             rt_sigsuspend rt_tgsigqueueinfo set_tid_address setitimer setsid statfs sysinfo tgkill time timer_getoverrun timer_gettime \
             timer_settime timerfd_gettime timerfd_settime times tkill ustat wait4 waitid"
        );
        assert_eq!(
            names(Success),
            "accept accept4 add_key creat dup dup2 dup3 epoll_create epoll_create1 eventfd eventfd2 fanotify_init inotify_init inotify_init1 \
             io_setup memfd_create memfd_secret mq_open msgget open open_by_handle_at openat openat2 perf_event_open pidfd_getfd pidfd_open \
             pipe pipe2 request_key semget shmat shmget signalfd signalfd4 socket socketpair timer_create timerfd_create userfaultfd"
        );
        assert_eq!(
            names(Result),
            "bpf io_getevents io_pgetevents msgctl name_to_handle_at ptrace rt_sigtimedwait semctl shmctl"
        );
        assert_eq!(names(Status), "fstat lstat newfstatat stat statx");
        assert_eq!(names(Directory), "getdents getdents64");
        assert_eq!(names(Mapping), "mmap");
        assert_eq!(names(Ready), "poll ppoll");
        assert_eq!(names(ReadyEvents), "epoll_pwait epoll_pwait2 epoll_wait");
        assert_eq!(names(ReadySets), "pselect6 select");
        let single = [Compared::From, Compared::Message, Compared::Messages].map(names);
        assert_eq!(single, ["recvfrom", "recvmsg", "recvmmsg"]);
        assert_eq!(names(Compared::Command), "fcntl ioctl");
    }
}
