//! Terminals: those we are on, and those we make.
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How a terminal treats what goes through it.
#[derive(Clone, Copy)]
pub struct Modes(libc::termios);

impl PartialEq for Modes {
    fn eq(&self, other: &Modes) -> bool {
        let numbers = |Modes(modes): &Modes| (modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag, modes.c_cc);
        numbers(self) == numbers(other)
    }
}

impl Modes {
    pub fn of(terminal: BorrowedFd<'_>) -> io::Result<Modes> {
        // SAFETY: tcgetattr fills the zeroed structure, which is plain old data.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            match libc::tcgetattr(terminal.as_raw_fd(), &mut modes) {
                0 => Ok(Modes(modes)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Everything goes through as it is.
    pub fn raw(mut self) -> Modes {
        // SAFETY: changes the structure it is given.
        unsafe { libc::cfmakeraw(&mut self.0) };
        self
    }

    pub fn set(&self, terminal: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: reads a structure that is filled.
        match unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSADRAIN, &self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Rows and columns, and what else there is to a window.
#[derive(Clone, Copy)]
pub struct Size(libc::winsize);

impl PartialEq for Size {
    fn eq(&self, other: &Size) -> bool {
        let numbers = |Size(size): &Size| (size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel);
        numbers(self) == numbers(other)
    }
}

impl Size {
    pub fn of(terminal: BorrowedFd<'_>) -> io::Result<Size> {
        // SAFETY: the kernel fills the zeroed structure, which is plain old data.
        unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            match libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &mut size) {
                0 => Ok(Size(size)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Whoever is in the foreground there is told.
    pub fn set(&self, terminal: BorrowedFd<'_>) {
        // SAFETY: reads a structure that is filled. What cannot have a size goes without.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &self.0) };
    }
}

/// Two ends of a new terminal: the first is where somebody sits, the second what a program has.
pub fn new_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: calls with numbers; the descriptors that come back belong to nobody else.
    unsafe {
        let master = libc::posix_openpt(flags);
        if master < 0 {
            return Err(io::Error::last_os_error());
        }
        let master = OwnedFd::from_raw_fd(master);
        if libc::grantpt(master.as_raw_fd()) != 0 || libc::unlockpt(master.as_raw_fd()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let slave = libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags);
        if slave < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((master, OwnedFd::from_raw_fd(slave)))
    }
}

/// Are we in the foreground of this terminal? Of one that does not control us, everybody is.
pub fn is_foreground(terminal: BorrowedFd<'_>) -> bool {
    // SAFETY: calls with numbers.
    unsafe {
        let foreground = libc::tcgetpgrp(terminal.as_raw_fd());
        foreground < 0 || foreground == libc::getpgrp()
    }
}

/// What one of two files, or both, can be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Or its other end is closed.
    pub read: bool,
    pub write: bool,
}

/// Waits until `reads` has something to be read, `writes` room to be written, or time is up.
pub fn wait_for_either(reads: Option<BorrowedFd<'_>>, writes: Option<BorrowedFd<'_>>, milliseconds: i32) -> Ready {
    // The kernel passes over negative numbers.
    let poll = |file: Option<BorrowedFd<'_>>, events| libc::pollfd {
        fd: file.map_or(-1, |file| file.as_raw_fd()),
        events,
        revents: 0,
    };
    let mut both = [poll(reads, libc::POLLIN), poll(writes, libc::POLLOUT)];
    // SAFETY: two valid structures. An error (a signal) leaves them as they are.
    unsafe { libc::poll(both.as_mut_ptr(), 2, milliseconds) };
    Ready {
        read: both[0].revents != 0,
        write: both[1].revents != 0,
    }
}

/// What a program in a session of its own is executed as.
pub struct TerminalProgram {
    pub path: CString,
    pub arguments: Vec<CString>,
    pub variables: Vec<CString>,
}

/// The new process is not to become the program, but to begin a session on the terminal that is its standard output, and to start the program in there, as
/// another child of ours: its id is written to `report`, four bytes, little-endian. When the first process of a session ends, the terminal is taken away
/// from all others in it, and who reads from it gets SIGHUP; a program's children may outlive it, so the program must not be that one. The new process
/// keeps the session until the other end of `life` is closed. To be called last.
pub fn execute_in_session(
    command: &mut Command,
    execution: TerminalProgram,
    report: BorrowedFd<'_>,
    life: BorrowedFd<'_>,
) -> io::Result<()> {
    let (report, life) = (report.as_raw_fd(), life.as_raw_fd());
    let pointers = |strings: &[CString]| -> Vec<usize> {
        let all = strings.iter().map(|string| string.as_ptr() as usize);
        all.chain([0]).collect()
    };
    // As numbers, because pointers cannot be sent to whoever runs the closure; the strings move with them, but not their text.
    let lists = (pointers(&execution.arguments), pointers(&execution.variables));
    // Whether the program could be executed.
    let (failed, failure) = io::pipe()?;
    let steps = move || {
        let _owned = &execution;
        let (failed, failure) = (failed.as_raw_fd(), failure.as_raw_fd());
        // SAFETY: calls with numbers, and with strings and lists that the closure owns; descriptors are open because the caller waits for the spawn.
        // The new process has a copy of this one's memory, and does nothing with it but to execute a program.
        unsafe {
            let terminal = libc::STDOUT_FILENO;
            if libc::setsid() < 0 || libc::ioctl(terminal, libc::TIOCSCTTY, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::CLONE_PARENT | libc::SIGCHLD;
            match libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, 0, 0, 0) {
                0 => {
                    enter_foreground(terminal);
                    libc::execve(
                        execution.path.as_ptr(),
                        lists.0.as_ptr().cast(),
                        lists.1.as_ptr().cast(),
                    );
                    let error = io::Error::last_os_error();
                    libc::write(failure, [1u8].as_ptr().cast(), 1);
                    Err(error)
                }
                program if program > 0 => {
                    let id = (program as u32).to_le_bytes();
                    libc::write(report, id.as_ptr().cast(), id.len());
                    keep_session(terminal, [life, failed])
                }
                _ => Err(io::Error::last_os_error()),
            }
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made: no allocation, no locks.
    unsafe { command.pre_exec(steps) };
    Ok(())
}

/// The calling process becomes a group of its own, the one that the terminal is for.
///
/// # Safety
/// To be called between fork and exec.
unsafe fn enter_foreground(terminal: i32) {
    // SAFETY: numbers, and sets of signals that are filled before they are used.
    unsafe {
        let (mut stop, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut stop);
        libc::sigaddset(&mut stop, libc::SIGTTOU);
        libc::setpgid(0, 0);
        // Who is not in the foreground is stopped when it changes that, unless it does not listen.
        libc::sigprocmask(libc::SIG_BLOCK, &stop, &mut before);
        libc::tcsetpgrp(terminal, libc::getpid());
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

/// Waits until one of `ends` is closed or has something to read, with nothing else open but the terminal.
///
/// # Safety
/// To be called in a new process that is to do nothing else.
unsafe fn keep_session(terminal: i32, ends: [i32; 2]) -> ! {
    const FIRST: i32 = 3;
    // SAFETY: numbers, and structures that are filled; descriptors of this process are nobody else's.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        // Out of the way of each other, then to 0 and 2; the terminal is 1.
        let [life, failed] = ends.map(|end| libc::fcntl(end, libc::F_DUPFD, FIRST));
        libc::dup2(life, 0);
        libc::dup2(failed, 2);
        libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, 0);
        let poll = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut both = [poll(0), poll(2)];
        loop {
            libc::poll(both.as_mut_ptr(), 2, -1);
            // The program has the other end of the second until it is executed: then only its end is seen, which is as it should be.
            let has_failed = both[1].revents & libc::POLLIN != 0;
            if both[0].revents != 0 || has_failed {
                break;
            }
            if both[1].revents != 0 {
                both[1].fd = -1;
                both[1].revents = 0;
            }
        }
        // Those who are still there are not to be told that the session ends.
        libc::tcsetpgrp(terminal, libc::getpid());
        libc::_exit(0)
    }
}
