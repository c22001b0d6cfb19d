//! Programs that give up rights (`setuid`, `chroot`): their logs must go on growing, in a directory they may not reach
//! any more.
//!
//! Before the first such call, the run directory is opened, and files in it are found by its descriptor from then on. Before
//! the process becomes another user, that user is given the directory and the thread's files in it. The descriptor is not
//! the program's: what would close it leaves it alone. What would close any descriptor waits while a file is open for a moment.
use crate::calls::table;
use crate::run_directory;
use crate::run_directory::DIRECTORY;
use crate::run_directory::FILES_IN_USE;
use crate::run_directory::OUR_DESCRIPTORS;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use thread_cells::HandlerWord;

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
        run_directory::keep();
    }
    let user = match number {
        libc::SYS_setuid | libc::SYS_setfsuid => arguments[0],
        libc::SYS_setreuid | libc::SYS_setresuid => arguments[1],
        _ => return,
    } as u32;
    if user != u32::MAX {
        run_directory::give_to(user);
    }
}

/// A system call of the program's that leaves our descriptors alone. It is put off while `pending`, if there is one, is not 0.
///
/// # Safety
/// As the system call demands of its arguments.
#[inline]
pub unsafe fn system_call(number: c_long, arguments: [usize; 6], pending: Option<&HandlerWord>) -> isize {
    let closes = matches!(
        number,
        libc::SYS_close | libc::SYS_close_range | libc::SYS_dup2 | libc::SYS_dup3
    );
    if closes && FILES_IN_USE.load(Acquire) != 0 {
        run_directory::wait_until_unused();
    }
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
    // SAFETY: the caller promises what the system call demands of its arguments.
    unsafe {
        match pending {
            Some(pending) => sys::waiting_syscall(number, arguments, pending),
            None if table::blocks(number) => until_made(number, arguments),
            None => sys::programs_syscall(number, arguments),
        }
    }
}

/// A call that waits where no handler can run: a signal does not put it off, and what ends it is a request for the thread's end.
///
/// # Safety
/// As the system call demands of its arguments.
unsafe fn until_made(number: c_long, arguments: [usize; 6]) -> isize {
    let none = HandlerWord::new(0);
    loop {
        // SAFETY: the caller promises what the system call demands of its arguments.
        let result = unsafe { sys::waiting_syscall(number, arguments, &none) };
        if result != sys::PUT_OFF {
            return result;
        }
    }
}
