//! A program whose output goes to a terminal has one: not ours, which would be written to behind our back, but one that we make, and we pass on what is
//! typed and shown. It has the modes and the size of ours, and is the controlling one of a session that the program is in the foreground of: so Ctrl-C,
//! `/dev/tty` and whatever programs do to terminals work. Ours lets everything through meanwhile, and is as it was when the program has ended.
use crate::sys::terminal;
use crate::sys::terminal::Modes;
use crate::sys::terminal::Size;
use std::fs::File;
use std::io;
use std::io::IsTerminal;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::thread::JoinHandle;

/// How often our terminal is looked at: its size, and whether it is for us.
const LOOK_EVERY_MS: i32 = 50;

/// What of the program's input and output is a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    pub stdin: bool,
    pub stderr: bool,
}

impl Which {
    /// Nothing, if our output is none. (If only our input is one, the program has that.)
    pub fn ours() -> Option<Which> {
        io::stdout().is_terminal().then(|| Which {
            stdin: io::stdin().is_terminal(),
            stderr: io::stderr().is_terminal(),
        })
    }
}

/// A terminal that was made for a program.
pub struct Terminal {
    /// Where we sit.
    pub ours: OwnedFd,
    /// What the program has.
    pub programs: OwnedFd,
}

impl Terminal {
    /// Like the one that our output goes to.
    pub fn new() -> io::Result<Terminal> {
        let (ours, programs) = terminal::new_terminal()?;
        let stdout = io::stdout();
        Modes::of(stdout.as_fd())?.set(programs.as_fd())?;
        if let Ok(size) = Size::of(stdout.as_fd()) {
            size.set(programs.as_fd());
        }
        Ok(Terminal { ours, programs })
    }
}

/// Passes on what is typed, until it is dropped. Then our terminal is as it was.
pub struct Typing {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Typing {
    pub fn pass_on(which: Which, to: OwnedFd) -> io::Result<Typing> {
        let source = match which.stdin {
            true => io::stdin().as_fd().try_clone_to_owned()?,
            // It may ask by /dev/tty.
            false => io::stdout().as_fd().try_clone_to_owned()?,
        };
        let before = Modes::of(source.as_fd())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_told = Arc::clone(&is_over);
        Ok(Typing {
            is_over,
            thread: Some(thread::spawn(move || {
                let mut desk = Desk {
                    source: File::from(source),
                    to: File::from(to),
                    before,
                    is_raw: false,
                    size: None,
                };
                desk.pass_on(&is_told);
            })),
        })
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        // Relaxed: a lone flag, nothing is published through it.
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did, there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

struct Desk {
    source: File,
    to: File,
    /// Of our terminal.
    before: Modes,
    is_raw: bool,
    size: Option<Size>,
}

impl Desk {
    fn pass_on(&mut self, is_over: &AtomicBool) {
        let mut typed = Vec::new();
        let mut buffer = [0; 4096];
        let mut is_open = true;
        // Relaxed: a lone flag, nothing is published through it.
        while !is_over.load(Relaxed) {
            self.look();
            let reads = (self.is_raw && is_open && typed.is_empty()).then(|| self.source.as_fd());
            let writes = (!typed.is_empty()).then(|| self.to.as_fd());
            let ready = terminal::wait_for_either(reads, writes, LOOK_EVERY_MS);
            if ready.read {
                match self.source.read(&mut buffer) {
                    Ok(0) => is_open = false,
                    Ok(bytes) => typed.extend_from_slice(&buffer[..bytes]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => is_open = false,
                }
            }
            if ready.write {
                // A little at a time: there may be room for no more, and then a write would wait.
                let next = typed.len().min(256);
                match self.to.write(&typed[..next]) {
                    Ok(written) => drop(typed.drain(..written)),
                    // Nobody has the terminal any more.
                    Err(_) => typed.clear(),
                }
            }
        }
    }

    /// Our terminal may have got another size, or come into the foreground; or somebody has changed it while we were stopped.
    fn look(&mut self) {
        if let Ok(size) = Size::of(self.source.as_fd())
            && self.size != Some(size)
        {
            if self.size.is_some() {
                size.set(self.to.as_fd());
            }
            self.size = Some(size);
        }
        if terminal::is_foreground(self.source.as_fd()) {
            let raw = self.before.raw();
            let is_set = Modes::of(self.source.as_fd()).is_ok_and(|now| now == raw);
            self.is_raw = is_set || raw.set(self.source.as_fd()).is_ok();
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if self.is_raw && terminal::is_foreground(self.source.as_fd()) {
            // A terminal that is gone needs nothing.
            let _ = self.before.set(self.source.as_fd());
        }
    }
}
