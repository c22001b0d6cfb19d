//! From the guest's code to ours, and back.
use crate::failure;
use crate::host::block::Block;
use crate::host::calls;
use crate::sys;
use core::arch::global_asm;
use core::arch::naked_asm;
use core::mem::offset_of;

/// All that a call of the guest's finds again.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Frame {
    pub vectors: [[u64; 2]; 16],
    pub rax: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub r10: u64,
    pub r8: u64,
    pub r9: u64,
    pub rbx: u64,
    pub rbp: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub fs: u64,
    /// Where it goes on.
    pub rip: u64,
    pub rsp: u64,
}

const _: () = assert!(size_of::<Frame>().is_multiple_of(16));

impl Frame {
    pub const fn new() -> Frame {
        Frame {
            vectors: [[0; 2]; 16],
            rax: 0,
            rdi: 0,
            rsi: 0,
            rdx: 0,
            r10: 0,
            r8: 0,
            r9: 0,
            rbx: 0,
            rbp: 0,
            r12: 0,
            r13: 0,
            r14: 0,
            r15: 0,
            fs: 0,
            rip: 0,
            rsp: 0,
        }
    }
}

/// Stores or loads what a frame at the register has.
macro_rules! each_register {
    ($at:literal, $store:tt) => {
        concat!(
            each_register!(@vector $at, $store, "xmm0", "0"),
            each_register!(@vector $at, $store, "xmm1", "16"),
            each_register!(@vector $at, $store, "xmm2", "32"),
            each_register!(@vector $at, $store, "xmm3", "48"),
            each_register!(@vector $at, $store, "xmm4", "64"),
            each_register!(@vector $at, $store, "xmm5", "80"),
            each_register!(@vector $at, $store, "xmm6", "96"),
            each_register!(@vector $at, $store, "xmm7", "112"),
            each_register!(@vector $at, $store, "xmm8", "128"),
            each_register!(@vector $at, $store, "xmm9", "144"),
            each_register!(@vector $at, $store, "xmm10", "160"),
            each_register!(@vector $at, $store, "xmm11", "176"),
            each_register!(@vector $at, $store, "xmm12", "192"),
            each_register!(@vector $at, $store, "xmm13", "208"),
            each_register!(@vector $at, $store, "xmm14", "224"),
            each_register!(@vector $at, $store, "xmm15", "240"),
            each_register!(@word $at, $store, "rax", "256"),
            each_register!(@word $at, $store, "rsi", "272"),
            each_register!(@word $at, $store, "rdx", "280"),
            each_register!(@word $at, $store, "r10", "288"),
            each_register!(@word $at, $store, "r8", "296"),
            each_register!(@word $at, $store, "r9", "304"),
            each_register!(@word $at, $store, "rbx", "312"),
            each_register!(@word $at, $store, "rbp", "320"),
            each_register!(@word $at, $store, "r12", "328"),
            each_register!(@word $at, $store, "r13", "336"),
            each_register!(@word $at, $store, "r14", "344"),
            each_register!(@word $at, $store, "r15", "352"),
        )
    };
    (@vector $at:literal, "store", $register:literal, $offset:literal) => {
        concat!("movaps [", $at, " + ", $offset, "], ", $register, "\n")
    };
    (@vector $at:literal, "load", $register:literal, $offset:literal) => {
        concat!("movaps ", $register, ", [", $at, " + ", $offset, "]\n")
    };
    (@word $at:literal, "store", $register:literal, $offset:literal) => {
        concat!("mov [", $at, " + ", $offset, "], ", $register, "\n")
    };
    (@word $at:literal, "load", $register:literal, $offset:literal) => {
        concat!("mov ", $register, ", [", $at, " + ", $offset, "]\n")
    };
}

pub(super) use each_register;

const _: () = assert!(offset_of!(Frame, rax) == 256 && offset_of!(Frame, rdi) == 264 && offset_of!(Frame, rsi) == 272);
const _: () = assert!(offset_of!(Frame, r9) == 304 && offset_of!(Frame, rbp) == 320 && offset_of!(Frame, r15) == 352);

/// Those that a function has to leave as they were.
macro_rules! keep_registers {
    () => {
        "push rbx\npush rbp\npush r12\npush r13\npush r14\npush r15\n"
    };
}

macro_rules! take_registers_back {
    () => {
        "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx\n"
    };
}

/// Stands for a `syscall` instruction of the guest's. Where it is to go on is in rcx, which that instruction overwrites, too.
/// Nothing is written to the guest's stack.
///
/// # Safety
/// Jumped to, by trampolines and after `signals::on_sent_call`.
#[unsafe(naked)]
pub unsafe extern "C" fn enter() {
    naked_asm!(
        "mov r11, rsp",
        "mov rsp, gs:[{stack}]",
        "sub rsp, {bytes}",
        "mov [rsp + {rsp}], r11",
        "mov [rsp + {rip}], rcx",
        "rdfsbase r11",
        "mov [rsp + {fs}], r11",
        "mov byte ptr gs:[{selector}], 0",
        "mov r11, gs:[{host_fs}]",
        "wrfsbase r11",
        "mov [rsp + {rdi}], rdi",
        each_register!("rsp", "store"),
        "mov rdi, rsp",
        "cld",
        "call {handler}",
        "mov rdi, rsp",
        "jmp {resume}",
        stack = const offset_of!(Block, host_stack),
        selector = const offset_of!(Block, selector),
        host_fs = const offset_of!(Block, host_fs),
        bytes = const size_of::<Frame>(),
        rsp = const offset_of!(Frame, rsp),
        rip = const offset_of!(Frame, rip),
        fs = const offset_of!(Frame, fs),
        rdi = const offset_of!(Frame, rdi),
        handler = sym calls::on_call,
        resume = sym resume,
    )
}

/// The guest goes on as the frame says.
///
/// # Safety
/// It is a frame of the guest's, and nobody needs our stack above it.
#[unsafe(naked)]
unsafe extern "C" fn resume(frame: *const Frame) -> ! {
    naked_asm!(
        each_register!("rdi", "load"),
        "mov r11, [rdi + {fs}]",
        "wrfsbase r11",
        "mov rcx, [rdi + {rip}]",
        "mov rsp, [rdi + {rsp}]",
        "mov byte ptr gs:[{selector}], 1",
        "mov rdi, [rdi + {rdi}]",
        "jmp rcx",
        selector = const offset_of!(Block, selector),
        rsp = const offset_of!(Frame, rsp),
        rip = const offset_of!(Frame, rip),
        fs = const offset_of!(Frame, fs),
        rdi = const offset_of!(Frame, rdi),
    )
}

/// The thread goes on as the frame says, until `leave`. Our code begins at `stack`, or, if that is 0, below the caller's.
///
/// # Safety
/// As for `resume`.
#[unsafe(naked)]
pub unsafe extern "C" fn start(frame: *const Frame, stack: u64) {
    naked_asm!(
        keep_registers!(),
        "mov gs:[{start_stack}], rsp",
        "test rsi, rsi",
        "jne 2f",
        "mov rsi, rsp",
        "and rsi, -16",
        "2:",
        "mov gs:[{host_stack}], rsi",
        "jmp {resume}",
        start_stack = const offset_of!(Block, start_stack),
        host_stack = const offset_of!(Block, host_stack),
        resume = sym resume,
    )
}

/// The guest's part of the thread is over: returns from `start`.
///
/// # Safety
/// Nobody needs what is on our stack above it.
#[unsafe(naked)]
pub unsafe extern "C" fn leave() -> ! {
    naked_asm!(
        "mov rsp, gs:[{start_stack}]",
        take_registers_back!(),
        "ret",
        start_stack = const offset_of!(Block, start_stack),
    )
}

/// Calls a handler of the guest's, on `stack`, with its FS.
///
/// # Safety
/// The handler is the guest's, and the stack has room.
#[unsafe(naked)]
pub unsafe extern "C" fn call_guest(handler: u64, signal: u64, info: u64, context: u64, stack: u64, fs: u64) {
    naked_asm!(
        keep_registers!(),
        "push qword ptr gs:[{host_stack}]",
        "mov gs:[{host_stack}], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "lea r11, [rip + 2f]",
        "mov rsp, r8",
        "push r11",
        "wrfsbase r9",
        "mov byte ptr gs:[{selector}], 1",
        "jmp rax",
        "2:",
        "mov byte ptr gs:[{selector}], 0",
        "mov rsp, gs:[{host_stack}]",
        "mov r11, gs:[{host_fs}]",
        "wrfsbase r11",
        "pop qword ptr gs:[{host_stack}]",
        take_registers_back!(),
        "ret",
        selector = const offset_of!(Block, selector),
        host_stack = const offset_of!(Block, host_stack),
        host_fs = const offset_of!(Block, host_fs),
    )
}

// The only two calls that are made while the selector says that calls are the guest's: returns from handlers of signals, of
// ours and of the guest's.
global_asm!(
    ".text",
    ".p2align 4",
    ".globl __refrain_host_calls, __refrain_host_calls_end, __refrain_host_return",
    ".hidden __refrain_host_calls, __refrain_host_calls_end, __refrain_host_return",
    "__refrain_host_calls:",
    "mov rax, {rt_sigreturn}",
    "syscall",
    "__refrain_host_return:",
    "mov r11, [rdi + {fs}]",
    "wrfsbase r11",
    "mov rsp, [rdi + {rsp}]",
    "mov byte ptr gs:[{selector}], 1",
    "mov eax, {rt_sigreturn}",
    "syscall",
    "ud2",
    "__refrain_host_calls_end:",
    rt_sigreturn = const libc::SYS_rt_sigreturn,
    fs = const offset_of!(Frame, fs),
    rsp = const offset_of!(Frame, rsp),
    selector = const offset_of!(Block, selector),
);

unsafe extern "C" {
    static __refrain_host_calls: u8;
    static __refrain_host_calls_end: u8;
    fn __refrain_host_return(frame: *const Frame) -> !;
}

/// How handlers of ours return.
pub fn restorer() -> usize {
    &raw const __refrain_host_calls as usize
}

/// The guest returns from a handler of its own, whose frame is where its stack pointer is.
///
/// # Safety
/// There is such a frame.
pub unsafe fn return_from_handler(frame: &Frame) -> ! {
    // SAFETY: the caller promises that the frame of a handler is where the guest's stack pointer is.
    unsafe { __refrain_host_return(frame) }
}

/// From now on the kernel sends the calling thread's calls to us that are made while its selector says so.
pub fn divert_calls(block: &Block) {
    const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
    const ON: usize = 1;
    let start = &raw const __refrain_host_calls as usize;
    let bytes = &raw const __refrain_host_calls_end as usize - start;
    let arguments = [
        PR_SET_SYSCALL_USER_DISPATCH,
        ON,
        start,
        bytes,
        &raw const block.selector as usize,
        0,
    ];
    // SAFETY: the kernel reads one byte of a block, which stays as long as the thread.
    let result = unsafe { sys::syscall(libc::SYS_prctl, arguments) };
    if result != 0 {
        failure::die(
            b"this kernel has no Syscall User Dispatch (Linux 5.11), which static programs and those of musl need",
            -result as i32,
        );
    }
}

/// The guest's first thread begins.
pub fn begin(block: &mut Block, entry: u64, stack: u64) -> ! {
    let mut frame = Frame::new();
    frame.rip = entry;
    frame.rsp = stack;
    let own = block.stack();
    // SAFETY: the guest's beginning, on a stack that is as a program expects it. What this one has below is not needed any more.
    unsafe { start(&frame, own.start + own.bytes) };
    failure::die(b"the first thread of a guest came back", 0)
}
