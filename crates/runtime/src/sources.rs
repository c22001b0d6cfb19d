//! Method coop: where what comes in comes from, in the file `sources`, so that a client who wants to send its inputs can. Files that were opened, by their
//! paths; which reads were of standard input; whether there was a connection. Nothing of it leaves the machine by itself.
use crate::control;
use crate::control::VectorUse;
use crate::line::Line;
use crate::local::Local;
use crate::run_directory;
use crate::sys;
use core::ffi::c_long;
use runtime_abi::vectors_file::SOURCES_FILE_NAME;
use runtime_abi::vectors_file::source;

const ACCESS_MODE: usize = libc::O_ACCMODE as usize;

/// A call has been made.
#[inline]
pub fn note(local: &Local, number: c_long, arguments: &[usize; 6], result: isize) {
    if control::vector_use() == VectorUse::Chosen {
        note_call(local, number, arguments, result);
    }
}

#[cold]
fn note_call(local: &Local, number: c_long, arguments: &[usize; 6], result: isize) {
    let in_progress = -(libc::EINPROGRESS as isize);
    match number {
        libc::SYS_open if result >= 0 => opened(result as usize, arguments[1]),
        libc::SYS_openat if result >= 0 => opened(result as usize, arguments[2]),
        // How it is opened is in memory of the program's; it may be to be read.
        libc::SYS_openat2 if result >= 0 => opened(result as usize, libc::O_RDONLY as usize),
        libc::SYS_connect if result >= 0 || result == in_progress => write(source::CONNECTION, b""),
        libc::SYS_accept | libc::SYS_accept4 if result >= 0 => write(source::CONNECTION, b""),
        libc::SYS_read | libc::SYS_readv if arguments[0] == 0 && result > 0 => {
            if sys::is_terminal(0) {
                write(source::TERMINAL, b"");
            }
            let mut line = Line::default();
            line.number(u64::from(local.index));
            line.text(b" ");
            line.number(local.event());
            write(source::STANDARD_INPUT, line.bytes());
        }
        _ => {}
    }
}

fn opened(file: usize, flags: usize) {
    let mut link = Line::default();
    link.text(b"/proc/self/fd/");
    link.number(file as u64);
    link.text(b"\0");
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: a path with a terminating zero, and room for as many bytes as are told.
    let bytes = unsafe {
        let arguments = [
            link.bytes().as_ptr() as usize,
            path.as_mut_ptr() as usize,
            path.len(),
            0,
            0,
            0,
        ];
        sys::syscall(libc::SYS_readlink, arguments)
    };
    let Some(path) = usize::try_from(bytes).ok().and_then(|bytes| path.get(..bytes)) else {
        return;
    };
    let is_written_only = flags & ACCESS_MODE == libc::O_WRONLY as usize;
    write(if is_written_only { source::WRITTEN } else { source::FILE }, path);
}

/// One record. Without it, less can be sent.
fn write(kind: u8, what: &[u8]) {
    let flags = libc::O_WRONLY | libc::O_APPEND;
    let Ok(file) = run_directory::open(SOURCES_FILE_NAME.as_bytes(), flags) else {
        return;
    };
    let mut record = Line::default();
    record.text(&[kind]);
    record.text(what);
    record.text(b"\0");
    sys::write_all(file, record.bytes());
    sys::close(file);
}
