//! The few system calls `std` has no words for. All of this crate's unsafe code is here.
#![allow(unsafe_code, reason = "system calls without a safe wrapper in std")]

use std::ffi::CStr;
use std::ffi::CString;
use std::fmt;
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
use std::sync::atomic::AtomicI32;
use std::sync::atomic::AtomicU32;
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

/// A number in a file that programs have mapped, too, and sleep on.
pub struct SharedWord {
    page: *mut libc::c_void,
    offset: usize,
}

// SAFETY: what is shared is an atomic number.
unsafe impl Send for SharedWord {}
// SAFETY: as above.
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

/// In the new process, executes `path` with exactly these arguments and variables, in their order, in the place of what
/// the command says. To be called last.
pub fn execute_instead(command: &mut Command, path: CString, arguments: Vec<CString>, variables: Vec<CString>) {
    let pointers = |strings: &[CString]| -> Vec<usize> {
        let all = strings.iter().map(|string| string.as_ptr() as usize);
        all.chain([0]).collect()
    };
    // As numbers, because pointers cannot be sent to whoever runs the closure; the strings move with them, but not their text.
    let (argument_list, variable_list) = (pointers(&arguments), pointers(&variables));
    let steps = move || {
        let _owned = (&arguments, &variables);
        // SAFETY: three NUL-terminated things, which the closure owns; execve comes back only if it fails.
        unsafe {
            libc::execve(
                path.as_ptr(),
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

/// Something a new process does to its view of the file system: see NOTE [Stage].
#[derive(Debug)]
pub enum Step {
    OwnNamespace(OwnNamespace),
    Tmpfs {
        at: CString,
        options: CString,
    },
    /// Out of the way of bind mounts.
    Unbindable(CString),
    Unmount(CString),
    Copy {
        from: CString,
        to: CString,
    },
    MakeDirectory(CString),
    MakeFile(CString),
    Link {
        target: CString,
        at: CString,
    },
    Bind {
        from: CString,
        to: CString,
        is_needed: bool,
    },
    Move {
        from: CString,
        to: CString,
    },
    ChangeRoot(CString),
    Enter(CString),
}

/// What a new user namespace is told: everybody is who they were.
#[derive(Debug)]
pub struct OwnNamespace {
    users: String,
    groups: String,
}

impl OwnNamespace {
    pub fn new() -> OwnNamespace {
        // SAFETY: both take nothing, return a number, and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        OwnNamespace {
            users: format!("{user} {user} 1"),
            groups: format!("{group} {group} 1"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::OwnNamespace(_) => write!(f, "enter a mount namespace"),
            Step::Tmpfs { at, .. } => write!(f, "mount a tmpfs on {}", at.to_string_lossy()),
            Step::Unbindable(path) => write!(f, "hide {}", path.to_string_lossy()),
            Step::Unmount(path) => write!(f, "unmount {}", path.to_string_lossy()),
            Step::Copy { from, .. } => write!(f, "copy {} into memory", from.to_string_lossy()),
            Step::MakeDirectory(path) | Step::MakeFile(path) | Step::Link { at: path, .. } => {
                write!(f, "create {}", path.to_string_lossy())
            }
            Step::Bind { from, to, .. } => {
                write!(f, "mount {} on {}", from.to_string_lossy(), to.to_string_lossy())
            }
            Step::Move { to, .. } => write!(f, "mount the rebuilt directory on {}", to.to_string_lossy()),
            Step::ChangeRoot(path) => write!(f, "change the root to {}", path.to_string_lossy()),
            Step::Enter(path) => write!(f, "change into {}", path.to_string_lossy()),
        }
    }
}

/// The new process carries out these steps before it becomes the program. The number of one that fails is written to
/// `report`, four bytes, little-endian; the error is that of the start.
pub fn perform(command: &mut Command, steps: Vec<Step>, report: BorrowedFd<'_>) {
    let report = report.as_raw_fd();
    let all = move || {
        for (number, step) in steps.iter().enumerate() {
            if let Err(error) = perform_one(step) {
                let number = (number as u32).to_le_bytes();
                // SAFETY: four bytes of ours; `report` is open because the caller waits for the spawn.
                unsafe { libc::write(report, number.as_ptr().cast(), number.len()) };
                return Err(error);
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: the steps are ready-made strings and numbers.
    unsafe { command.pre_exec(all) };
}

fn perform_one(step: &Step) -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: every pointer is null where the call allows it, or that of a NUL-terminated string that outlives the call.
    let result = unsafe {
        match step {
            Step::OwnNamespace(own) => return enter_own_namespace(own),
            Step::Tmpfs { at, options } => {
                let data = options.as_ptr().cast();
                libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, data)
            }
            Step::Unbindable(path) => libc::mount(none, path.as_ptr(), none, libc::MS_UNBINDABLE, none.cast()),
            Step::Unmount(path) => libc::umount2(path.as_ptr(), libc::MNT_DETACH),
            Step::Copy { from, to } => return copy(from, to),
            Step::MakeDirectory(path) => libc::mkdir(path.as_ptr(), 0o755),
            Step::MakeFile(path) => libc::mknod(path.as_ptr(), libc::S_IFREG | 0o644, 0),
            Step::Link { target, at } => libc::symlink(target.as_ptr(), at.as_ptr()),
            Step::Bind { from, to, is_needed } => {
                let flags = libc::MS_BIND | libc::MS_REC;
                match libc::mount(from.as_ptr(), to.as_ptr(), none, flags, none.cast()) {
                    _ if !is_needed => 0,
                    bound => bound,
                }
            }
            Step::Move { from, to } => libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_MOVE, none.cast()),
            Step::ChangeRoot(path) => match libc::chroot(path.as_ptr()) {
                0 => libc::chdir(c"/".as_ptr()),
                failed => failed,
            },
            Step::Enter(path) => libc::chdir(path.as_ptr()),
        }
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Without allocating, which is why it is not `std::fs::copy`.
fn copy(from: &CStr, to: &CStr) -> io::Result<()> {
    // SAFETY: NUL-terminated paths, descriptors of ours, and no memory; on an error this process ends, so nothing has to
    // be closed.
    unsafe {
        let source = libc::open(from.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if source < 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        let target = libc::open(to.as_ptr(), flags, 0o755);
        if target < 0 {
            return Err(io::Error::last_os_error());
        }
        loop {
            match libc::sendfile(target, source, std::ptr::null_mut(), 1 << 30) {
                0 => break,
                1.. => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
        // A file that is open for writing cannot be executed.
        libc::close(target);
        libc::close(source);
    }
    Ok(())
}

/// Root gets a mount namespace; others need a user namespace in which they may have one.
fn enter_own_namespace(own: &OwnNamespace) -> io::Result<()> {
    // SAFETY: plain numbers, and NUL-terminated constants.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) < 0 {
            if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) < 0 {
                return Err(io::Error::last_os_error());
            }
            // Kernels want setgroups given up before they believe a list of groups.
            write_to(c"/proc/self/setgroups", "deny")?;
            write_to(c"/proc/self/uid_map", &own.users)?;
            write_to(c"/proc/self/gid_map", &own.groups)?;
        }
        let none = std::ptr::null();
        // What is mounted here is nobody else's business.
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        if libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Without allocating, which is why it is not `std::fs::write`.
fn write_to(path: &CStr, text: &str) -> io::Result<()> {
    // SAFETY: a NUL-terminated path, and a buffer with its length; the descriptor is closed by whoever opened it.
    unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(descriptor, text.as_ptr().cast(), text.len());
        let error = io::Error::last_os_error();
        libc::close(descriptor);
        if written == text.len() as isize {
            Ok(())
        } else {
            Err(error)
        }
    }
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
