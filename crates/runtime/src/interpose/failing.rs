//! Where a program begins to fail: exceptions, panics and calls of `exit`. A traced replay writes down the moment, so that what
//! is done afterwards (unwinding, destructors, handlers) is not taken for the reason. Nothing else is done here.
use crate::local::Local;
use crate::real::Real;
use core::arch::naked_asm;
use runtime_abi::trace_file::what;

/// How panics of Rust's name themselves: these bytes, in this order in memory.
const RUST: u64 = u64::from_le_bytes(*b"MOZ\0RUST");

static RAISE: Real = Real::new(c"_Unwind_RaiseException");
static EXIT: Real = Real::new(c"exit");

/// Exceptions of C++'s and panics of Rust's come here. It leaves no frame: the unwinder begins at its caller's.
///
/// # Safety
/// As for the unwinder's function of that name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn _Unwind_RaiseException() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {before}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        before = sym before_throw,
    )
}

/// The end of the process, with its handlers.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn exit() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {before}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        before = sym before_exit,
    )
}

/// Where to go on.
extern "C" fn before_throw(exception: *const u64) -> usize {
    if let Some(local) = Local::current() {
        // SAFETY: an exception begins with the name of its language.
        let is_panic = !exception.is_null() && unsafe { *exception } == RUST;
        local.trace_failing(what::THROWN, u8::from(is_panic));
    }
    RAISE.address() as usize
}

/// Where to go on.
extern "C" fn before_exit() -> usize {
    if let Some(local) = Local::current() {
        local.trace_failing(what::EXITING, 0);
    }
    EXIT.address() as usize
}
