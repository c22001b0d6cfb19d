//! Programs that no loader of glibc's loads, and that therefore cannot be given us: static ones, and those of musl's loader.
//!
//! This library is an executable, too. The tool starts it in the program's place, and so does an `exec` of a process that is
//! recorded; the program's path is its first argument, and the program's arguments follow. glibc's loader has then given us a
//! process with everything we need, the *host*; in it we load the program, the *guest*, as the kernel would have (`load.rs`),
//! and jump to its beginning.
//!
//! The two share a process and know nothing of each other. The register that a libc finds its thread's data by (FS) is the guest's
//! while its code runs, and the host's in ours; a block of ours is found by the other one (GS), which nobody else uses
//! (`block.rs`). The guest's stacks are its own: we do not even write below them, because musl ends a thread after it has unmapped
//! the stack that it is on.
//!
//! - Its `syscall` instructions become jumps, as in other objects, and those that could not, or came later, are sent to us by
//!   the kernel (Syscall User Dispatch, `entry.rs`). From there everything is as for any other program, except for what the
//!   host needs for itself or has to do in the guest's name (`calls.rs`).
//! - A thread of the guest's is one of the host's libc (`threads.rs`), so it is known, and replayed, like any other.
//! - Handlers of signals run on a stack of ours, and begin by finding out whose FS they have (`signals.rs`).
mod block;
mod calls;
mod entry;
mod load;
mod locked;
mod processors;
mod signals;
mod threads;

use crate::control;
use crate::failure;
use crate::hosting;
use crate::hosting::Hooks;
use crate::policy;
use crate::run_directory;
use crate::startup;
use crate::sys;
use core::arch::global_asm;
use core::ffi::CStr;
use core::ffi::c_char;
use core::ffi::c_int;

/// Never written.
static HOOKS: Hooks = Hooks {
    wrap: signals::wrap,
    deliver: signals::deliver,
    call_handler: signals::call,
    arrive: threads::arrive,
    over: threads::over,
    creates_in_any_order: threads::creates_in_any_order,
};

// What makes this library an executable: a loader, and a beginning, which is what a program's usually is (`build.rs` names it).
global_asm!(
    ".section .interp, \"aR\", @progbits",
    ".asciz \"/lib64/ld-linux-x86-64.so.2\"",
    ".text",
    ".globl __refrain_host",
    ".hidden __refrain_host",
    ".type __refrain_host, @function",
    "__refrain_host:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "xor ebp, ebp",
    "mov r9, rdx",
    "pop rsi",
    "mov rdx, rsp",
    "and rsp, -16",
    "push rax",
    "push rsp",
    "xor r8d, r8d",
    "xor ecx, ecx",
    "lea rdi, [rip + {main}]",
    "call [rip + __libc_start_main@GOTPCREL]",
    "hlt",
    ".cfi_endproc",
    ".size __refrain_host, . - __refrain_host",
    main = sym main,
);

/// Of the library as a program: its arguments are the guest's path, and the guest's arguments from its name on.
unsafe extern "C" fn main(count: c_int, arguments: *mut *mut c_char, variables: *mut *mut c_char) -> c_int {
    startup::construct();
    if count < 3 {
        failure::die(b"this is a library; programs are recorded with refrain record", 0);
    }
    // SAFETY: the second of at least three arguments, which are strings.
    let path = unsafe { CStr::from_ptr(*arguments.add(1)) };
    if policy::is_free() {
        // It is not to be recorded after all.
        let arguments = [
            path.as_ptr() as usize,
            arguments as usize + 16,
            variables as usize,
            0,
            0,
            0,
        ];
        // SAFETY: a path and two lists of strings, as the kernel gave them to us.
        let errno = unsafe { sys::syscall(libc::SYS_execve, arguments) };
        failure::die(b"cannot execute the program", -errno as i32);
    }
    const HAS_FSGSBASE: u64 = 2;
    // SAFETY: asks for a number.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & HAS_FSGSBASE == 0 {
        failure::die(
            b"this kernel or processor does not let programs set FS and GS (Linux 5.9), which static programs and those of musl need",
            0,
        );
    }
    if !control::inputs_only() {
        failure::die(b"a static program can be recorded at scope inputs only", 0);
    }
    // SAFETY: the arguments are as the kernel made them, on the stack that the program is to have.
    unsafe { run(path, count, arguments) }
}

/// Others see the process under the guest's name.
fn take_name(path: &CStr) {
    let bytes = path.to_bytes();
    let folders = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |last| last + 1);
    // SAFETY: the kernel reads a string that ends where the path does.
    unsafe {
        let name = path.as_ptr().add(folders) as usize;
        sys::syscall(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name, 0, 0, 0, 0]);
    }
}

/// # Safety
/// The arguments are those of the process, where the kernel put them.
unsafe fn run(path: &'static CStr, count: c_int, arguments: *mut *mut c_char) -> ! {
    let guest = load::load(path);
    processors::ask();
    if policy::is_observed() {
        // Once more: now it has the guest's files.
        run_directory::copy_in(b"/proc/self/maps\0", b"maps");
    }
    let Some(block) = block::Block::create() else {
        failure::die(b"cannot map memory for a host", libc::ENOMEM)
    };
    take_name(path);
    hosting::begin(&HOOKS);
    threads::begin_main(block);
    signals::wrap_all();
    // SAFETY: the caller promises that the arguments are those of the process, where the kernel put them.
    let stack = unsafe { load::describe(&guest, count, arguments) };
    entry::begin(block, guest.entry, stack)
}
