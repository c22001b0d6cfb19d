//! Output: the order of writes to a stream or a descriptor is recorded, so that its bytes come back in the same order.
//!
//! `printf` and its kin are variadic, which stable Rust cannot define; a few instructions turn their arguments into a
//! `va_list` and go on in Rust.
use crate::access::Reach;
use crate::control;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::acquire;
use crate::interpose::release;
use crate::local::Local;
use crate::real;
use core::arch::naked_asm;
use core::ffi::c_char;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use libc::FILE;
use run_model::Op;

unsafe extern "C" {
    static stdout: *mut FILE;
    static stderr: *mut FILE;
}

/// One ghost object per descriptor; larger numbers share.
static DESCRIPTORS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Does `action`, which writes to `stream`, in the recorded order of such actions.
fn on_stream<R>(stream: *mut FILE, action: impl FnOnce() -> R) -> R {
    let Some(local) = observed() else { return action() };
    match local.begin(Op::Output, stream as u64) {
        Turn::Record => {
            // SAFETY: the program's stream. Its lock makes the order of actions that of their records.
            unsafe { real::flockfile(stream) };
            local.touch(Op::Output, stream as u64, 0);
            let result = action();
            // SAFETY: as above.
            unsafe { real::funlockfile(stream) };
            result
        }
        Turn::Replay(_) => {
            // Whoever comes next passes its gate and then waits for the stream's lock. The event is over before the
            // action, as in the recording: what libc allocates in it has events of its own.
            // SAFETY: as above.
            unsafe { real::flockfile(stream) };
            local.complete();
            let result = action();
            // SAFETY: as above.
            unsafe { real::funlockfile(stream) };
            result
        }
    }
}

fn on_descriptor<R>(file: c_int, buffer: Option<(u64, u64)>, action: impl FnOnce() -> R) -> R {
    let Some(local) = observed() else { return action() };
    if control::observes_memory()
        && let Some((start, bytes)) = buffer
    {
        // What the kernel reads is a read.
        local.declare(start, bytes, Reach::Reads);
    }
    let object = &DESCRIPTORS[file as usize % DESCRIPTORS.len()] as *const AtomicU64 as u64;
    local.exclusively(Op::Output, object, |_: &mut Local| action())
}

/// Declares functions that write to a stream.
macro_rules! stream_functions {
    ($($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)? = $stream:expr;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the program's own call; libc's streams exist as long as the process.
            unsafe { on_stream($stream, || real::$name($($argument),*)) }
        }
    )*};
}

stream_functions! {
    fputs(text: *const c_char, stream: *mut FILE) -> c_int = stream;
    fputc(byte: c_int, stream: *mut FILE) -> c_int = stream;
    putc(byte: c_int, stream: *mut FILE) -> c_int = stream;
    putchar(byte: c_int) -> c_int = stdout;
    puts(text: *const c_char) -> c_int = stdout;
    perror(text: *const c_char) = stderr;
    fwrite(place: *const c_void, bytes: usize, count: usize, stream: *mut FILE) -> usize = stream;
    vfprintf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int = stream;
    __vfprintf_chk(stream: *mut FILE, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int = stream;
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fflush(stream: *mut FILE) -> c_int {
    // SAFETY: the program's own call. Flushing all streams is not an action on one of them.
    unsafe {
        if stream.is_null() { real::fflush(stream) } else { on_stream(stream, || real::fflush(stream)) }
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vprintf(format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { vfprintf(stdout, format, arguments) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vprintf_chk(flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { __vfprintf_chk(stdout, flag, format, arguments) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(file: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    on_descriptor(file, None, || unsafe { real::vdprintf(file, format, arguments) })
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(file: c_int, bytes: *const c_void, count: usize) -> isize {
    // SAFETY: the program's own call.
    on_descriptor(file, Some((bytes as u64, count as u64)), || unsafe { real::write(file, bytes, count) })
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the program's own call.
    on_descriptor(file, None, || unsafe { real::writev(file, parts, count) })
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn flockfile(stream: *mut FILE) {
    let lock = || {
        // SAFETY: the program's own call.
        unsafe { real::flockfile(stream) };
        0
    };
    acquire(Op::StreamLock, stream as u64, lock, lock);
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn funlockfile(stream: *mut FILE) {
    // SAFETY: the program's own call.
    unsafe { release(Op::StreamUnlock, stream as u64, || real::funlockfile(stream)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftrylockfile(stream: *mut FILE) -> c_int {
    // SAFETY: the program's own call; in replay, one that succeeded may wait a moment.
    unsafe {
        acquire(
            Op::StreamLock,
            stream as u64,
            || if real::ftrylockfile(stream) == 0 { 0 } else { libc::EBUSY },
            || {
                real::flockfile(stream);
                0
            },
        )
    }
}

/// Defines a variadic function that calls `target` with a `va_list` in place of its further arguments.
///
/// On entry the arguments are in registers and above the return address, as the psABI (§3.5.7) says. The registers are
/// saved in the order of a register save area at rsp + 32; the va_list is built at rsp. 216 bytes keep rsp 16-aligned.
macro_rules! variadic {
    ($($name:ident after $fixed:literal arguments, list in $register:literal, calls $target:path;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                concat!("mov dword ptr [rsp], 8 * ", $fixed),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {target}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    )*};
}

variadic! {
    printf after 1 arguments, list in "rsi", calls vprintf;
    fprintf after 2 arguments, list in "rdx", calls vfprintf;
    dprintf after 2 arguments, list in "rdx", calls vdprintf;
    __printf_chk after 2 arguments, list in "rdx", calls __vprintf_chk;
    __fprintf_chk after 3 arguments, list in "rcx", calls __vfprintf_chk;
}
