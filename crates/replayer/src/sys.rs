//! The few system calls `std` has no words for. All of this crate's unsafe code is here.
#![allow(unsafe_code, reason = "system calls without a safe wrapper in std")]

mod signals;
pub mod stage;
pub mod terminal;

pub use signals::catch_signals;
pub use signals::caught_signal;
pub use signals::forward_all_signals;
pub use signals::release_signals;
pub use signals::take_signal_to_forward;

use runtime_abi::DIRECTORY_FD;
use std::ffi::CStr;
use std::ffi::CString;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::process::ExitStatus;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
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

/// A number in a file that programs have mapped, too, and sleep on.
pub struct SharedWord {
    page: *mut libc::c_void,
    offset: usize,
}

// SAFETY: what is shared is an atomic number.
unsafe impl Send for SharedWord {}
// SAFETY: what is shared is an atomic number, which any thread may use through a shared reference.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    const PAGE_BYTES: usize = 4096;

    pub fn map(file: &File, offset: usize) -> io::Result<SharedWord> {
        let (any, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        let start = (offset / SharedWord::PAGE_BYTES * SharedWord::PAGE_BYTES) as libc::off_t;
        // SAFETY: a new mapping, unmapped when this is dropped.
        let page = unsafe {
            libc::mmap(
                any,
                SharedWord::PAGE_BYTES,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                start,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedWord {
            page,
            offset: offset % SharedWord::PAGE_BYTES,
        })
    }

    pub fn word(&self) -> &AtomicU32 {
        // SAFETY: inside the page, which is mapped for as long as this is; numbers in the file are aligned.
        unsafe { &*self.page.byte_add(self.offset).cast::<AtomicU32>() }
    }

    /// A number of twice the size, at an offset that is a multiple of that.
    pub fn long(&self) -> &AtomicU64 {
        assert!(self.offset.is_multiple_of(size_of::<AtomicU64>()), "an aligned offset");
        // SAFETY: inside the page, which is mapped for as long as this is; aligned, as just checked.
        unsafe { &*self.page.byte_add(self.offset).cast::<AtomicU64>() }
    }

    /// Sleeps until somebody wakes those who sleep here, or for so long; not at all if the number is not `value`.
    pub fn wait(&self, value: u32, time: Duration) {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
        };
        // SAFETY: the kernel reads a valid number and a time.
        unsafe { libc::syscall(libc::SYS_futex, self.word().as_ptr(), libc::FUTEX_WAIT, value, &time) };
    }

    pub fn wake_all(&self) {
        // SAFETY: the kernel uses the address only.
        unsafe { libc::syscall(libc::SYS_futex, self.word().as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.page, SharedWord::PAGE_BYTES) };
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

/// The new program finds `file` as the control descriptor, and has its memory where every run has it: that depends on the limit of the stack, too.
pub fn prepare(command: &mut Command, file: BorrowedFd<'_>, orphaned: OrphanedProgram, stack_limit: Option<u64>) {
    let descriptor = file.as_raw_fd();
    let descriptors = limit(libc::RLIMIT_NOFILE);
    let number = runtime_abi::control_descriptor(descriptors.rlim_max);
    let stack = limit(libc::RLIMIT_STACK);
    let wanted_stack = stack_limit.filter(|wanted| *wanted != stack.rlim_cur);
    let steps = move || {
        // SAFETY: plain system calls with numbers and structures of ours; `descriptor` is open because the caller waits for the spawn.
        unsafe {
            let current = libc::personality(0xffff_ffff);
            libc::personality(current as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            if orphaned == OrphanedProgram::IsKilled {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            // Ignored in this process, so that a limit of the sizes of files is an error.
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            if let Some(wanted) = wanted_stack {
                let changed = libc::rlimit {
                    rlim_cur: wanted,
                    // Who may not raise that goes without.
                    rlim_max: stack.rlim_max.max(wanted),
                };
                libc::setrlimit(libc::RLIMIT_STACK, &changed);
            }
            // A descriptor stays open when the limit is lowered below it.
            let is_beyond = number as u64 >= descriptors.rlim_cur;
            if is_beyond {
                let raised = libc::rlimit {
                    rlim_cur: number as u64 + 1,
                    ..descriptors
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raised);
            }
            // dup2 clears the close-on-exec flag, unless both numbers are the same.
            let placed = if descriptor == number {
                libc::fcntl(descriptor, libc::F_SETFD, 0)
            } else {
                libc::dup2(descriptor, number)
            };
            if placed < 0 {
                return Err(io::Error::last_os_error());
            }
            if is_beyond {
                libc::setrlimit(libc::RLIMIT_NOFILE, &descriptors);
            }
            Ok(())
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: no allocation, no locks.
    unsafe { command.pre_exec(steps) };
}

/// The limit of the stack, in bytes.
pub fn stack_limit() -> u64 {
    limit(libc::RLIMIT_STACK).rlim_cur
}

/// The limit of the size of files, in bytes.
pub fn file_limit() -> u64 {
    limit(libc::RLIMIT_FSIZE).rlim_cur
}

/// A file that would become too large is an error from now on, not the end of this process.
pub fn survive_file_limit() {
    // SAFETY: a signal is ignored; nothing of ours has a handler for it.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// How a program is executed whose arguments and variables are to be exactly these, in their order.
pub struct Execution {
    pub path: CString,
    pub arguments: Vec<CString>,
    pub variables: Vec<CString>,
    /// Where `path` is looked for. The directory that the program is to be in is then open as `DIRECTORY_FD`.
    pub from: Option<CString>,
    /// A bit for each, the first signal's the lowest.
    pub blocked_signals: u64,
    pub ignored_signals: u64,
}

/// Blocks and ignores exactly these signals.
///
/// # Safety
/// To be called in a new process that is about to execute a program.
unsafe fn set_signals(blocked: u64, ignored: u64) {
    let is_in = |set: u64, signal: i32| set & 1 << (signal - 1) != 0;
    // SAFETY: plain system calls on sets of this function's own; no handler is installed.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        for signal in 1..=64 {
            if is_in(blocked, signal) {
                libc::sigaddset(&mut mask, signal);
            }
            // Of those that are libc's own, it says that they are none.
            libc::signal(
                signal,
                if is_in(ignored, signal) {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                },
            );
        }
        libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
    }
}

/// In the new process, executes this in the place of what the command says. To be called last.
pub fn execute_instead(command: &mut Command, execution: Execution) {
    let pointers = |strings: &[CString]| -> Vec<usize> {
        let all = strings.iter().map(|string| string.as_ptr() as usize);
        all.chain([0]).collect()
    };
    // As numbers, because pointers cannot be sent to whoever runs the closure; the strings move with them, but not their text.
    let (argument_list, variable_list) = (pointers(&execution.arguments), pointers(&execution.variables));
    let steps = move || {
        let execution = &execution;
        // SAFETY: NUL-terminated strings and lists, which the closure owns; numbers of descriptors. execve comes back only if it fails.
        unsafe {
            if let Some(from) = &execution.from {
                let here = libc::open(c".".as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC);
                if libc::dup2(here, DIRECTORY_FD) < 0 || libc::chdir(from.as_ptr()) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            set_signals(execution.blocked_signals, execution.ignored_signals);
            libc::execve(
                execution.path.as_ptr(),
                argument_list.as_ptr().cast(),
                variable_list.as_ptr().cast(),
            )
        };
        Err(io::Error::last_os_error())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: no allocation, no locks.
    unsafe { command.pre_exec(steps) };
}

/// The same file with a position of its own.
pub fn reopen(file: &File, position: u64) -> io::Result<File> {
    let mut again = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    again.seek(SeekFrom::Start(position))?;
    Ok(again)
}

/// Whether the kernel aligns long mappings of this file to huge pages; that depends on its file system. `None` if it
/// cannot be mapped.
pub fn is_huge_aligned(path: &Path) -> Option<bool> {
    const HUGE: usize = 2 << 20;
    // More than a huge page, and no multiple of one: of two neighbours, at most one is aligned by chance.
    const BYTES: usize = 2 * HUGE + 4096;
    let file = File::open(path).ok()?;
    let map = || {
        let (any, read, private) = (std::ptr::null_mut(), libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice, which is never looked into.
        let address = unsafe { libc::mmap(any, BYTES, read, private, file.as_raw_fd(), 0) };
        (address != libc::MAP_FAILED).then_some(address)
    };
    let both = [map(), map()];
    for address in both.into_iter().flatten() {
        // SAFETY: the mapping made above, of that length, which nobody else knows.
        unsafe { libc::munmap(address, BYTES) };
    }
    let [first, second] = both;
    Some((first? as usize).is_multiple_of(HUGE) && (second? as usize).is_multiple_of(HUGE))
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

/// The new program finds each of `files` under its number, which is none that is used otherwise.
pub fn keep_files(command: &mut Command, files: &[(BorrowedFd<'_>, i32)]) {
    let files: Vec<(i32, i32)> = files.iter().map(|(file, number)| (file.as_raw_fd(), *number)).collect();
    let steps = move || {
        for (file, number) in &files {
            // SAFETY: numbers only; the descriptors are open because the caller waits for the spawn.
            if unsafe { libc::dup2(*file, *number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: no allocation, no locks.
    unsafe { command.pre_exec(steps) };
}

/// Two ends of a connection that keeps messages apart.
pub fn message_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which belong to nobody else.
    unsafe {
        if libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        ) < 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends one message, and files with it: as many as there is room for in the buffer below.
pub fn send_message(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    const FILES_MAX: usize = 16;
    #[repr(C)]
    struct Passed {
        header: libc::cmsghdr,
        files: [i32; FILES_MAX],
    }
    assert!(files.len() <= FILES_MAX, "room for {FILES_MAX} files");
    // SAFETY: all-zero is a valid value of both.
    let (mut passed, mut message): (Passed, libc::msghdr) = unsafe { std::mem::zeroed() };
    let length = size_of::<libc::cmsghdr>() + size_of_val(files) / size_of::<BorrowedFd<'_>>() * size_of::<i32>();
    passed.header = libc::cmsghdr {
        cmsg_len: length,
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
    };
    for (place, file) in passed.files.iter_mut().zip(files) {
        *place = file.as_raw_fd();
    }
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !files.is_empty() {
        message.msg_control = (&raw mut passed).cast();
        message.msg_controllen = length;
    }
    // SAFETY: the kernel reads a message made of `bytes` and of descriptors that are open.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } {
        sent if sent == bytes.len() as isize => Ok(()),
        sent if sent >= 0 => Err(io::Error::from(io::ErrorKind::WriteZero)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The next message, if it comes in time; of 0 bytes if the other end is closed.
pub fn receive_message(socket: BorrowedFd<'_>, bytes: &mut [u8], patience: Duration) -> io::Result<usize> {
    let until = std::time::Instant::now() + patience;
    while !wait_readable(socket, Some(until.saturating_duration_since(std::time::Instant::now())))? {
        if std::time::Instant::now() >= until {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
    }
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(got as usize)
    }
}

/// How a child of ours has ended, once. If it has not, waits for that or returns nothing.
pub fn wait_for_child(process: u32, to_wait: bool) -> io::Result<Option<ExitStatus>> {
    let options = if to_wait { 0 } else { libc::WNOHANG };
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number.
        match unsafe { libc::waitpid(process as libc::pid_t, &mut status, options) } {
            0 => return Ok(None),
            1.. => return Ok(Some(ExitStatus::from_raw(status))),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
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

/// How much there is to read in a pipe.
pub fn bytes_to_read(pipe: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one number.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut bytes) };
    usize::try_from(bytes).unwrap_or(0)
}

/// For failures that have no number.
pub const INPUT_OUTPUT_ERROR: i32 = libc::EIO;

/// A file system with less room than this may be full before we look again.
const ROOM_ENOUGH: u64 = 64 << 20;

/// May a write to this file fail, and whoever writes has to know at once? A device, as `/dev/full` is one; a file on a disk that is
/// nearly full, or under a limit of its size. Pipes, sockets and terminals fail when their reader goes, which is soon enough.
pub fn may_refuse(file: BorrowedFd<'_>) -> bool {
    // SAFETY: each call fills a zeroed structure, which is plain old data.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(file.as_raw_fd(), &mut status) != 0 {
            return false;
        }
        match status.st_mode & libc::S_IFMT {
            libc::S_IFREG => {
                let mut room: libc::statvfs = std::mem::zeroed();
                let is_known = libc::fstatvfs(file.as_raw_fd(), &mut room) == 0;
                let is_small = is_known && room.f_bavail * room.f_frsize < ROOM_ENOUGH;
                is_small || limit(libc::RLIMIT_FSIZE).rlim_cur != libc::RLIM_INFINITY
            }
            libc::S_IFCHR => {
                let is_null = status.st_rdev == libc::makedev(1, 3);
                !is_null && libc::isatty(file.as_raw_fd()) == 0
            }
            _ => false,
        }
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> libc::rlimit {
    // SAFETY: getrlimit fills the structure, which is plain old data; asked for a resource that there is, it does not fail.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(resource, &mut limit);
        limit
    }
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

/// To a process that is held by a descriptor: to nobody, if it has ended.
pub fn signal_process(process: BorrowedFd<'_>, signal: i32) {
    let no_information = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: numbers, and a null pointer where the call allows it.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            no_information,
            0,
        )
    };
}

/// Of a device's number, its two parts.
pub fn device_numbers(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

pub fn send_signal(process: u32, signal: i32) {
    // SAFETY: plain numbers. The process is our child and not yet waited for, so the number is still its own. A
    // failure means that it has just ended, which the caller finds out by waiting.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}
