//! What a new process does to its view of the file system before it becomes the program (`crate::stage`).
use std::ffi::CStr;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

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
