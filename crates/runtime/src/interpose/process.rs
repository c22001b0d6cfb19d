//! The end of the process by direct request, random numbers of libc's, and calls through `syscall`.
use crate::callers::is_foreign;
use crate::calls;
use crate::clones;
use crate::clones::Asked;
use crate::control;
use crate::ending;
use crate::ghost::observed;
use crate::policy;
use crate::real;
use crate::real::Real;
use core::arch::naked_asm;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_uint;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    ending::by_exit();
    // SAFETY: the program's own call.
    unsafe { real::_exit(status) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function.
    unsafe { _exit(status) }
}

/// The generators of libc that all threads share: each number goes to the thread it went to.
macro_rules! generators {
    ($($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the program's own call.
            let real = || unsafe { real::$name($($argument),*) };
            match observed() {
                Some(local) => local.exclusively(Op::Input, &raw const GENERATORS as u64, |_| real()),
                None => real(),
            }
        }
    )*};
}

/// Only its address counts: it stands for all generators, which libc keeps together.
static GENERATORS: u64 = 0;

generators! {
    rand() -> c_int;
    srand(seed: c_uint);
    random() -> c_long;
    srandom(seed: c_uint);
    drand48() -> f64;
    lrand48() -> c_long;
    mrand48() -> c_long;
    srand48(seed: c_long);
}

/// Goes on in `call_directly`, with the return address as one more argument: both it and the last of the program's are
/// on the stack.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        // Handlers that run in the call are to find libc's instruction, and all registers as they are.
        "mov rax, [rip + {libcs}]",
        "test rax, rax",
        "je 2f",
        "cmp rdi, {futex}",
        "je 2f",
        "jmp rax",
        "2:",
        "mov rax, [rsp]",
        "mov r11, [rsp + 8]",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov [rsp], r11",
        "mov [rsp + 8], rax",
        "call {target}",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        // The child of a `clone` has the stack that it was given, and what it returns to is there.
        "test rdx, rdx",
        "cmovne rsp, rdx",
        "ret",
        ".cfi_endproc",
        target = sym call_directly,
        libcs = sym LIBCS,
        futex = const libc::SYS_futex,
    )
}

/// libc's function of that name, if calls that come to us from there are recorded as any others: at scope `inputs`. Otherwise 0.
static LIBCS: AtomicUsize = AtomicUsize::new(0);

/// Once, before there is a second thread, when calls come to us.
pub fn prepare_direct_calls() {
    static REAL: Real = Real::new(c"syscall");
    if control::inputs_only() && calls::is_installed() {
        LIBCS.store(REAL.address() as usize, Relaxed);
    }
}

/// Calls through `syscall` are like those that the program makes by an instruction of its own, except those of libraries
/// whose business they are.
extern "C-unwind" fn call_directly(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    caller: u64,
) -> Returned {
    let mut arguments = [a, b, c, d, e, f];
    let asked = Asked::of(number, &arguments).filter(|asked| number == libc::SYS_clone && asked.is_process());
    if asked.is_some() && !policy::is_free() {
        // Nobody can go on on another stack in the middle of this.
        arguments[1] = 0;
    }
    let stack = asked.map_or(0, |asked| asked.stack - arguments[1]);
    let result = calls::observing_futexes(number, &arguments, || {
        // SAFETY: the program's own call; unused arguments are whatever the registers held, as always.
        unsafe {
            match is_foreign(caller) || !calls::is_installed() {
                true => crate::sys::syscall(number, arguments),
                false => calls::system_call(number, &arguments),
            }
        }
    });
    clones::take_pointer(number, &arguments, result);
    if (-4095..0).contains(&result) {
        // SAFETY: errno is the calling thread's.
        unsafe { *libc::__errno_location() = -result as c_int };
        return Returned { result: -1, stack: 0 };
    }
    Returned {
        result: result as c_long,
        stack: if result == 0 { stack } else { 0 },
    }
}

/// In two registers: what `syscall` returns, and the stack that it returns on, if that is another one.
#[repr(C)]
struct Returned {
    result: c_long,
    stack: usize,
}
