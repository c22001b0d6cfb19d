//! Recording: a program that another process of the run has executed writes down how, and the tool starts it the same way in replay.
use crate::control;
use crate::handlers;
use crate::line::Line;
use crate::run_directory;
use crate::sys;

const OWN_EXECUTABLE: &[u8] = b"/proc/self/exe\0";

pub fn describe() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(b"start", &mut buffer);
    let Ok(start) = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) else {
        return;
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
    sys::write_all(start, called);
    for link in [OWN_EXECUTABLE, b"/proc/self/cwd\0"] {
        sys::write_all(start, b"\0");
        let mut target = [0; 4096];
        sys::write_all(start, sys::read_link(link, &mut target));
    }
    let mut signals = Line::default();
    signals.text(b"\0");
    signals.number(sys::signal_mask());
    signals.text(b" ");
    signals.number(handlers::ignored());
    signals.text(b"\0");
    sys::write_all(start, signals.bytes());
    sys::close(start);
    run_directory::copy_in(b"/proc/self/cmdline\0", b"arguments");
    run_directory::copy_in(b"/proc/self/environ\0", b"environment");
    if is_passing() {
        run_directory::keep_program(OWN_EXECUTABLE, b"program");
    } else if has_other_mounts() {
        run_directory::copy_program(OWN_EXECUTABLE, b"program");
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
