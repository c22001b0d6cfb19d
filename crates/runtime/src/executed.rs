//! Recording: a program that another process of the run has executed writes down how, and the tool starts it the same way in replay.
use crate::control;
use crate::handlers;
use crate::line::Line;
use crate::log;
use crate::run_directory;
use crate::sys;
use core::cell::Cell;
use runtime_abi::REDACTED_BYTES_MAX;
use runtime_abi::REDACTED_FILE_NAME;
use runtime_abi::start_file;

const OWN_EXECUTABLE: &[u8] = b"/proc/self/exe\0";

pub fn describe() {
    let sums = [const { Cell::new(start_file::EMPTY) }; start_file::CHECKS];
    let [said, arguments, environment] = &sums;
    let count = |sum: &Cell<u64>, bytes: &[u8]| sum.set(start_file::add(sum.get(), bytes));
    run_directory::copy_in_changed(b"/proc/self/cmdline\0", b"arguments", |block| count(arguments, block));
    let redaction = Redaction::read();
    run_directory::copy_in_changed(b"/proc/self/environ\0", b"environment", |block| {
        redaction.mask(block);
        count(environment, block);
    });
    let kept = if is_passing() {
        run_directory::keep_program(OWN_EXECUTABLE, b"program")
    } else if has_other_mounts() {
        run_directory::copy_program(OWN_EXECUTABLE, b"program")
    } else {
        Ok(())
    };
    if let Err((why, errno)) = kept {
        log::stop(why, errno);
    }
    let mut buffer = [0; 4352];
    let path = control::path_in_run(b"start", &mut buffer);
    let Ok(start) = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) else {
        return;
    };
    sys::make_private(start);
    let put = |bytes: &[u8]| {
        count(said, bytes);
        sys::write_all(start, bytes);
    };
    // SAFETY: the loader keeps the string for the life of the process.
    let called = unsafe {
        let name = libc::getauxval(libc::AT_EXECFN) as *const core::ffi::c_char;
        if name.is_null() {
            b""
        } else {
            core::ffi::CStr::from_ptr(name).to_bytes()
        }
    };
    put(called);
    for link in [OWN_EXECUTABLE, b"/proc/self/cwd\0"] {
        put(b"\0");
        let mut target = [0; 4096];
        put(sys::read_link(link, &mut target));
    }
    let mut signals = Line::default();
    signals.text(b"\0");
    signals.number(sys::signal_mask());
    signals.text(b" ");
    signals.number(handlers::ignored());
    signals.text(b"\0");
    put(signals.bytes());
    // Last: with these, everything is said.
    for sum in &sums {
        sys::write_all(start, &sum.get().to_le_bytes());
    }
    sys::close(start);
}

/// Variables whose values are the program's alone: of these, the run has as many `x`.
struct Redaction {
    names: [u8; REDACTED_BYTES_MAX],
    names_bytes: usize,
    /// The name of the variable that is passing, as far as it is known. A longer one is none of ours.
    passing: Cell<[u8; Redaction::NAME_BYTES_MAX]>,
    passing_bytes: Cell<usize>,
    at: Cell<At>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    Value,
    Hidden,
}

impl Redaction {
    const NAME_BYTES_MAX: usize = 256;

    fn read() -> Redaction {
        let mut redaction = Redaction {
            names: [0; REDACTED_BYTES_MAX],
            names_bytes: 0,
            passing: Cell::new([0; Redaction::NAME_BYTES_MAX]),
            passing_bytes: Cell::new(0),
            at: Cell::new(At::Name),
        };
        let mut buffer = [0; 4352];
        let root = control::directory_of(control::root());
        let path = control::path_in(root, REDACTED_FILE_NAME.as_bytes(), &mut buffer);
        if let Ok(file) = sys::open(path, libc::O_RDONLY) {
            redaction.names_bytes = sys::read(file, &mut redaction.names).max(0) as usize;
            sys::close(file);
        }
        redaction
    }

    fn is_hidden(&self, name: &[u8]) -> bool {
        let names = &self.names[..self.names_bytes];
        !name.is_empty() && names.split(|byte| *byte == 0).any(|hidden| hidden == name)
    }

    /// The next bytes of an environment, in which a NUL ends each variable.
    fn mask(&self, bytes: &mut [u8]) {
        for byte in bytes {
            match (self.at.get(), *byte) {
                (_, 0) => {
                    self.at.set(At::Name);
                    self.passing_bytes.set(0);
                }
                (At::Name, b'=') => {
                    let (name, length) = (self.passing.get(), self.passing_bytes.get());
                    let is_hidden = name.get(..length).is_some_and(|name| self.is_hidden(name));
                    self.at.set(if is_hidden { At::Hidden } else { At::Value });
                }
                (At::Name, other) => {
                    let (mut name, length) = (self.passing.get(), self.passing_bytes.get());
                    if let Some(place) = name.get_mut(length) {
                        *place = other;
                    }
                    self.passing.set(name);
                    self.passing_bytes.set(length + 1);
                }
                (At::Hidden, _) => *byte = b'x',
                (At::Value, _) => {}
            }
        }
    }
}

/// May the executable be gone when the run is replayed? It may if it is now, or has no name (`memfd_create`), or came into being in this run,
/// as those do that a script makes for a moment.
fn is_passing() -> bool {
    let Some(own) = sys::status_of(OWN_EXECUTABLE) else {
        return false;
    };
    let mut target = [0; 4097];
    let length = sys::read_link(OWN_EXECUTABLE, &mut target[..4096]).len();
    target[length] = 0;
    let is_named = sys::status_of(&target[..=length])
        .is_some_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino));
    let mut buffer = [0; 4352];
    let begun = control::path_in(control::directory_of(control::root()), b"recording.json", &mut buffer);
    let is_new = sys::status_of(begun)
        .is_some_and(|begun| (own.st_ctime, own.st_ctime_nsec) >= (begun.st_mtime, begun.st_mtime_nsec));
    !is_named || is_new
}

/// Has this process other file systems mounted than the tool? Then what it finds by a name need not be there, or the same, for who replays the run.
fn has_other_mounts() -> bool {
    let mut tools = Line::default();
    tools.text(b"/proc/");
    tools.number(u64::from(control::root().identity.tool));
    tools.text(b"/ns/mnt\0");
    let spaces = (sys::status_of(b"/proc/self/ns/mnt\0"), sys::status_of(tools.bytes()));
    match spaces {
        (Some(own), Some(tools)) => own.st_ino != tools.st_ino,
        // It may not look at the tool, or not find it: it is another user, or in other namespaces.
        _ => true,
    }
}
