//! Programs that give up rights (`setuid`, `chroot`): their logs must go on growing, in a directory they may not reach
//! any more.
//!
//! Before the first such call, the run directory is opened, and files in it are found by its descriptor from then on. Before
//! the process becomes another user, that user is given the directory and the thread's files in it. The descriptor is not
//! the program's: what would close it leaves it alone.
use crate::calls::table;
use crate::control;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;
use run_model::ThreadIndex;

/// The run directory, once it is kept open; -1: files in it are found by their paths.
pub static DIRECTORY: AtomicI32 = AtomicI32::new(-1);
/// Where descriptors of ours begin: above those that programs usually have, below the usual limit.
const OUR_DESCRIPTORS: usize = 1000;

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
pub fn forget_directory() {
    let parents = DIRECTORY.swap(-1, Relaxed);
    if parents != -1 {
        sys::close(parents);
    }
}

/// Does this call take rights away from the process, or its view of the files?
pub fn gives_up(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_setuid
            | libc::SYS_setreuid
            | libc::SYS_setresuid
            | libc::SYS_setfsuid
            | libc::SYS_setgid
            | libc::SYS_setregid
            | libc::SYS_setresgid
            | libc::SYS_setfsgid
            | libc::SYS_capset
            | libc::SYS_chroot
            | libc::SYS_pivot_root
            | libc::SYS_setns
            | libc::SYS_unshare
    )
}

/// Recording, before such a call: makes sure that logs can be written after it.
#[cold]
pub fn before_giving_up(number: c_long, arguments: &[usize; 6]) {
    if DIRECTORY.load(Relaxed) == -1 {
        keep_directory();
    }
    let user = match number {
        libc::SYS_setuid | libc::SYS_setfsuid => arguments[0],
        libc::SYS_setreuid | libc::SYS_setresuid => arguments[1],
        _ => return,
    } as u32;
    if user != u32::MAX {
        give_files_to(user);
    }
}

/// If it cannot be kept, recording stops when a log has to grow, and the run says so.
fn keep_directory() {
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
fn give_files_to(user: u32) {
    let directory = DIRECTORY.load(Relaxed);
    sys::give_to(directory, b"\0", user);
    sys::give_to(directory, b"objects\0", user);
    for thread in 0..control::header().threads.load(Relaxed) {
        for extension in ["log", "inputs"] {
            let mut buffer = [0; 64];
            let (name, length) = log_format::file_name(ThreadIndex(thread), extension);
            buffer[..length].copy_from_slice(&name[..length]);
            sys::give_to(directory, &buffer[..=length], user);
        }
    }
}

/// A system call of the program's that leaves our descriptor alone.
///
/// # Safety
/// As the system call demands of its arguments.
#[inline]
pub unsafe fn system_call(number: c_long, arguments: [usize; 6]) -> isize {
    let ours = DIRECTORY.load(Relaxed);
    if ours != -1 {
        match number {
            libc::SYS_close if arguments[0] == ours as usize => return -libc::EBADF as isize,
            libc::SYS_close_range if (arguments[0]..=arguments[1]).contains(&(ours as usize)) => {
                let [first, last, flags, ..] = arguments;
                // SAFETY: touches no memory.
                let close = |first, last| unsafe { sys::syscall(number, [first, last, flags, 0, 0, 0]) };
                let (below, above) = (ours as usize - 1, ours as usize + 1);
                let result = if first <= below { close(first, below) } else { 0 };
                return if result == 0 && above <= last {
                    close(above, last)
                } else {
                    result
                };
            }
            libc::SYS_dup2 | libc::SYS_dup3 if arguments[1] == ours as usize => {
                DIRECTORY.store(sys::duplicate(ours, OUR_DESCRIPTORS), Relaxed);
            }
            _ => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match table::blocks(number) {
            true => sys::waiting_syscall(number, arguments),
            false => sys::syscall(number, arguments),
        }
    }
}
