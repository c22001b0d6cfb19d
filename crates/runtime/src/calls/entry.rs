//! Where trampolines call us: a system call's registers in, all of them unchanged out, but for the result.
use crate::calls;
use crate::interpose;
use core::arch::naked_asm;
use core::ffi::c_long;

/// The registers of a system call.
#[repr(C)]
pub struct Registers {
    pub number: c_long,
    pub arguments: [usize; 6],
}

/// Defines functions that are like the `syscall` instruction they stand for: rax in and out, rcx and r11 clobbered,
/// everything else preserved; the vector registers too, which code may use across a call.
macro_rules! entries {
    ($($(#[$about:meta])* $name:ident: $handler:ident, first $($first:literal),*;)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// Called by trampolines only, as a system call.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                $($first,)*
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset rbp, 0",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "and rsp, -16",
                "sub rsp, 320",
                "mov [rsp], rax",
                "mov [rsp + 8], rdi",
                "mov [rsp + 16], rsi",
                "mov [rsp + 24], rdx",
                "mov [rsp + 32], r10",
                "mov [rsp + 40], r8",
                "mov [rsp + 48], r9",
                "movaps [rsp + 64], xmm0",
                "movaps [rsp + 80], xmm1",
                "movaps [rsp + 96], xmm2",
                "movaps [rsp + 112], xmm3",
                "movaps [rsp + 128], xmm4",
                "movaps [rsp + 144], xmm5",
                "movaps [rsp + 160], xmm6",
                "movaps [rsp + 176], xmm7",
                "movaps [rsp + 192], xmm8",
                "movaps [rsp + 208], xmm9",
                "movaps [rsp + 224], xmm10",
                "movaps [rsp + 240], xmm11",
                "movaps [rsp + 256], xmm12",
                "movaps [rsp + 272], xmm13",
                "movaps [rsp + 288], xmm14",
                "movaps [rsp + 304], xmm15",
                "mov rdi, rsp",
                "call {handler}",
                "mov rdi, [rsp + 8]",
                "mov rsi, [rsp + 16]",
                "mov rdx, [rsp + 24]",
                "mov r10, [rsp + 32]",
                "mov r8, [rsp + 40]",
                "mov r9, [rsp + 48]",
                "movaps xmm0, [rsp + 64]",
                "movaps xmm1, [rsp + 80]",
                "movaps xmm2, [rsp + 96]",
                "movaps xmm3, [rsp + 112]",
                "movaps xmm4, [rsp + 128]",
                "movaps xmm5, [rsp + 144]",
                "movaps xmm6, [rsp + 160]",
                "movaps xmm7, [rsp + 176]",
                "movaps xmm8, [rsp + 192]",
                "movaps xmm9, [rsp + 208]",
                "movaps xmm10, [rsp + 224]",
                "movaps xmm11, [rsp + 240]",
                "movaps xmm12, [rsp + 256]",
                "movaps xmm13, [rsp + 272]",
                "movaps xmm14, [rsp + 288]",
                "movaps xmm15, [rsp + 304]",
                "mov rsp, rbp",
                "pop rbp",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                handler = sym $handler,
            )
        }
    )*};
}

entries! {
    /// From libc.
    enter: handle, first;
    /// From other objects. Their rt_sigreturn finds its frame where the window's stack pointer is.
    enter_from_elsewhere: handle_from_elsewhere, first "cmp rax, 15", "jne 2f", "lea rsp, [rsp + 136]", "syscall", "2:";
}

extern "C-unwind" fn handle(registers: &Registers) -> isize {
    // SAFETY: the program's own call, with its arguments.
    unsafe { calls::system_call(registers.number, &registers.arguments) }
}

extern "C-unwind" fn handle_from_elsewhere(registers: &Registers) -> isize {
    let (mut number, mut arguments) = (registers.number, registers.arguments);
    if number == libc::SYS_clone && arguments[0] as i32 & libc::CLONE_VM != 0 && arguments[1] == 0 {
        number = libc::SYS_vfork;
    }
    match number {
        // A thread would go on in the middle of this function, on a stack without it. So far no object had a reason to
        // make one by an instruction whose number is not known beforehand (`syscall_sites`).
        libc::SYS_clone if arguments[0] as i32 & libc::CLONE_VM != 0 => return -libc::ENOSYS as isize,
        libc::SYS_clone3 => return -libc::ENOSYS as isize,
        // The child may not return from here in its parent's memory: it gets its own.
        libc::SYS_vfork => (number, arguments) = (libc::SYS_fork, [0; 6]),
        _ => {}
    }
    // SAFETY: the program's own call, with its arguments.
    let call = || unsafe { calls::system_call(number, &arguments) };
    interpose::observing_futexes(number, &arguments, call)
}
