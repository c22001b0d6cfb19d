//! The files of this process's part of the run, which are found by their paths; or, when the program has given up the right to
//! reach them, by a descriptor of the directory that is kept open (`calls::rights`). The descriptor is not the program's.
//!
//! Nor are those that are open for a moment, while a file grows: a program that closes descriptors blindly waits meanwhile.
use crate::control;
use crate::disk;
use crate::disk::Refusal;
use crate::sys;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use run_model::ThreadIndex;
use runtime_abi::truncated;

/// The run directory, once it is kept open; -1: files in it are found by their paths.
pub static DIRECTORY: AtomicI32 = AtomicI32::new(-1);
/// Where descriptors of ours begin: above those that programs usually have, below the usual limit.
pub const OUR_DESCRIPTORS: usize = 1000;

/// How many threads have a file open with `with_file`, or are about to.
pub static FILES_IN_USE: AtomicU32 = AtomicU32::new(0);

/// Opens a file of the run directory for `action`. If `action` fails as the descriptor was not there any more, all of it is done again.
pub fn with_file<R>(name: &[u8], flags: i32, action: impl Fn(i32) -> Result<R, Refusal>) -> Result<R, Refusal> {
    // A close that looked at `FILES_IN_USE` just before can meet the descriptor all the same.
    const TRIES: usize = 4;
    let once = || {
        FILES_IN_USE.fetch_add(1, SeqCst);
        let result = open(name, flags)
            .map_err(|errno| (truncated::LOG_FILE, errno))
            .and_then(|file| {
                let result = action(file);
                sys::close(file);
                result
            });
        FILES_IN_USE.fetch_sub(1, Release);
        result
    };
    let is_lost = |result: &Result<R, Refusal>| matches!(result, Err((_, libc::EBADF)));
    (1..TRIES).fold(once(), |result, _| if is_lost(&result) { once() } else { result })
}

/// Before the program closes a descriptor: it is none that another thread has open with `with_file`.
#[cold]
pub fn wait_until_unused() {
    // Of a thread that was ended amid it, the number stays; what waits here goes on then.
    const LOOKS: usize = 1 << 12;
    for _ in 0..LOOKS {
        if FILES_IN_USE.load(Acquire) == 0 {
            return;
        }
        sys::yield_now();
    }
}

/// Opens a file of the run directory; returns the descriptor or the errno.
pub fn open(name: &[u8], flags: i32) -> Result<i32, i32> {
    let mut buffer = [0; 4352];
    match DIRECTORY.load(Relaxed) {
        -1 => sys::open(control::path_in_run(name, &mut buffer), flags),
        directory => {
            buffer[..name.len()].copy_from_slice(name);
            sys::open_at(directory, &buffer[..=name.len()], flags)
        }
    }
}

/// A forked child has a directory of its own, which it has just created by its path.
pub fn forget() {
    // Of its parent's threads.
    FILES_IN_USE.store(0, Relaxed);
    let parents = DIRECTORY.swap(-1, Relaxed);
    if parents != -1 {
        sys::close(parents);
    }
}

/// If it cannot be kept, recording stops when a log has to grow, and the run says so.
pub fn keep() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(b"", &mut buffer);
    let Ok(opened) = sys::open(path, libc::O_RDONLY | libc::O_DIRECTORY) else {
        return;
    };
    // Out of the program's way, if there is room.
    match sys::duplicate(opened, OUR_DESCRIPTORS) {
        -1 => DIRECTORY.store(opened, Relaxed),
        moved => {
            sys::close(opened);
            DIRECTORY.store(moved, Relaxed);
        }
    }
}

/// Whoever may not do this does not become another user either.
pub fn give_to(user: u32) {
    let directory = DIRECTORY.load(Relaxed);
    sys::give_to(directory, b"\0", user);
    sys::give_to(directory, b"objects\0", user);
    for thread in 0..control::header().progress.threads.load(Relaxed) {
        for extension in ["log", "inputs"] {
            let mut buffer = [0; 64];
            let (name, length) = log_format::file_name(ThreadIndex(thread), extension);
            buffer[..length].copy_from_slice(&name[..length]);
            sys::give_to(directory, &buffer[..=length], user);
        }
    }
}

/// Copies a file into the directory of this process.
pub fn copy_in(from: &[u8], name: &[u8]) {
    copy_in_changed(from, name, |_| ());
}

/// The same, with what `change` makes of its bytes, which it sees in their order.
pub fn copy_in_changed(from: &[u8], name: &[u8], change: impl Fn(&mut [u8])) {
    let mut buffer = [0; 4352];
    let Ok(source) = sys::open(from, libc::O_RDONLY) else {
        return;
    };
    let path = control::path_in_run(name, &mut buffer);
    if let Ok(copy) = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) {
        sys::make_private(copy);
        let mut block = [0u8; 4096];
        loop {
            match sys::read(source, &mut block) {
                bytes if bytes > 0 => {
                    let block = &mut block[..bytes as usize];
                    change(block);
                    sys::write_all(copy, block);
                }
                _ => break,
            }
        }
        sys::close(copy);
    }
    sys::close(source);
}

/// Keeps a program in the directory of this process, so that it can be executed again: as another name of the same file if that is possible, otherwise as a
/// copy.
pub fn keep_program(from: &[u8], name: &[u8]) -> Result<(), Refusal> {
    disk::reserve(program_bytes(from))?;
    let mut buffer = [0; 4352];
    let path = control::path_in_run(name, &mut buffer);
    let here = libc::AT_FDCWD as usize;
    let arguments = [
        here,
        from.as_ptr() as usize,
        here,
        path.as_ptr() as usize,
        libc::AT_SYMLINK_FOLLOW as usize,
        0,
    ];
    // SAFETY: two paths with terminating zeros.
    if unsafe { sys::syscall(libc::SYS_linkat, arguments) } == 0 {
        return Ok(());
    }
    copy_reserved(from, name);
    Ok(())
}

/// A copy of a program in the directory of this process, which can be executed.
pub fn copy_program(from: &[u8], name: &[u8]) -> Result<(), Refusal> {
    disk::reserve(program_bytes(from))?;
    copy_reserved(from, name);
    Ok(())
}

fn program_bytes(path: &[u8]) -> u64 {
    sys::status_of(path).map_or(0, |status| status.st_size as u64)
}

fn copy_reserved(from: &[u8], name: &[u8]) {
    const FOR_THE_OWNER: usize = 0o700;
    copy_in(from, name);
    let mut buffer = [0; 4352];
    let path = control::path_in_run(name, &mut buffer);
    // SAFETY: a path with a terminating zero.
    unsafe { sys::syscall(libc::SYS_chmod, [path.as_ptr() as usize, FOR_THE_OWNER, 0, 0, 0, 0]) };
}
