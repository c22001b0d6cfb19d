//! Where trampolines call us: a system call's registers in, all of them unchanged out, but for the result.
use crate::calls;
use crate::calls::descriptors;
use crate::calls::patch;
use crate::calls::quick;
use crate::clones;
use crate::control;
use crate::local;
use crate::local::CallUnderWay;
use crate::local::Local;
use crate::local::Pending;
use crate::policy;
use crate::run_directory;
use crate::sys;
use crate::sys::PUT_OFF;
use crate::turns;
use core::arch::naked_asm;
use core::cell::Cell;
use core::ffi::c_long;
use core::mem::offset_of;

/// The registers of a system call.
#[repr(C)]
pub struct Registers {
    pub number: c_long,
    pub arguments: [usize; 6],
    /// When it began, if it went the quick way and is logged, in a process with several threads.
    pub began: u64,
    /// Where vector registers are kept, from where they are put back.
    pub vectors: Cell<[[u64; 2]; 16]>,
    /// The room for a name, of a call that writes one and went the quick way.
    pub room: u32,
    _padding: [u32; 3],
    /// What functions preserve: rbx, r12 to r15.
    preserved: [u64; 5],
    /// Where the caller's rbp is kept, and above it the way back to the trampoline.
    frame: *const [u64; 2],
}

/// Calls a function with the registers and, as its second argument, what is in rax; then all registers are as before, but
/// for rax, which has the result. The call's number is on the stack already.
macro_rules! call_preserving {
    ($handler:literal) => {
        concat!(
            "mov [rsp + 8], rdi\n",
            "mov [rsp + 16], rsi\n",
            "mov [rsp + 24], rdx\n",
            "mov [rsp + 32], r10\n",
            "mov [rsp + 40], r8\n",
            "mov [rsp + 48], r9\n",
            "movaps [rsp + 64], xmm0\n",
            "movaps [rsp + 80], xmm1\n",
            "movaps [rsp + 96], xmm2\n",
            "movaps [rsp + 112], xmm3\n",
            "movaps [rsp + 128], xmm4\n",
            "movaps [rsp + 144], xmm5\n",
            "movaps [rsp + 160], xmm6\n",
            "movaps [rsp + 176], xmm7\n",
            "movaps [rsp + 192], xmm8\n",
            "movaps [rsp + 208], xmm9\n",
            "movaps [rsp + 224], xmm10\n",
            "movaps [rsp + 240], xmm11\n",
            "movaps [rsp + 256], xmm12\n",
            "movaps [rsp + 272], xmm13\n",
            "movaps [rsp + 288], xmm14\n",
            "movaps [rsp + 304], xmm15\n",
            "mov [rsp + 336], rbx\n",
            "mov [rsp + 344], r12\n",
            "mov [rsp + 352], r13\n",
            "mov [rsp + 360], r14\n",
            "mov [rsp + 368], r15\n",
            "mov [rsp + 376], rbp\n",
            "mov rdi, rsp\n",
            "mov rsi, rax\n",
            "call {",
            $handler,
            "}\n",
            "mov rdi, [rsp + 8]\n",
            "mov rsi, [rsp + 16]\n",
            "mov rdx, [rsp + 24]\n",
            "mov r10, [rsp + 32]\n",
            "mov r8, [rsp + 40]\n",
            "mov r9, [rsp + 48]\n",
            "movaps xmm0, [rsp + 64]\n",
            "movaps xmm1, [rsp + 80]\n",
            "movaps xmm2, [rsp + 96]\n",
            "movaps xmm3, [rsp + 112]\n",
            "movaps xmm4, [rsp + 128]\n",
            "movaps xmm5, [rsp + 144]\n",
            "movaps xmm6, [rsp + 160]\n",
            "movaps xmm7, [rsp + 176]\n",
            "movaps xmm8, [rsp + 192]\n",
            "movaps xmm9, [rsp + 208]\n",
            "movaps xmm10, [rsp + 224]\n",
            "movaps xmm11, [rsp + 240]\n",
            "movaps xmm12, [rsp + 256]\n",
            "movaps xmm13, [rsp + 272]\n",
            "movaps xmm14, [rsp + 288]\n",
            "movaps xmm15, [rsp + 304]\n",
        )
    };
}

/// Room on the stack for all registers, with the call's number in it.
macro_rules! make_room {
    () => {
        concat!(
            "push rbp\n",
            ".cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset rbp, 0\n",
            "mov rbp, rsp\n",
            ".cfi_def_cfa_register rbp\n",
            "and rsp, -16\n",
            "sub rsp, 384\n",
            "mov [rsp], rax\n",
        )
    };
}

/// And back to the trampoline.
macro_rules! give_back_room {
    () => {
        concat!("mov rsp, rbp\n", "pop rbp\n", ".cfi_def_cfa rsp, 8\n", "ret\n",)
    };
}

/// Like the `syscall` instruction it stands for: rax in and out, rcx and r11 clobbered, everything else preserved; the
/// vector registers too, which libc's code may use across a call.
///
/// # Safety
/// Called by trampolines only, as a system call.
#[unsafe(naked)]
pub unsafe extern "C" fn enter() {
    naked_asm!(
        ".cfi_startproc",
        make_room!(),
        // Is there a quick way for it (`quick.rs`)?
        "cmp byte ptr [rip + {switches} + {quick}], 0",
        "je 7f",
        "cmp rax, {calls}",
        "jae 7f",
        "lea r11, [rip + {table}]",
        "mov r11d, dword ptr [r11 + 4 * rax]",
        "test r11d, r11d",
        "je 7f",
        "test r11d, {conditions}",
        "je 3f",
        "test r11d, {unless_shown}",
        "je 2f",
        "cmp rdi, {followed}",
        "jae 2f",
        "lea rcx, [rip + {streams}]",
        "cmp byte ptr [rcx + rdi], 0",
        "jne 7f",
        "2:",
        "test r11d, {unless_ours}",
        "je 2f",
        "cmp edi, dword ptr [rip + {directory}]",
        "je 7f",
        "cmp dword ptr [rip + {files_in_use}], 0",
        "jne 7f",
        "2:",
        "test r11d, {unless_named}",
        "je 2f",
        "mov rcx, r8",
        "or rcx, r9",
        "jne 7f",
        "2:",
        "test r11d, {only_flags}",
        "je 2f",
        "lea ecx, [rsi - {first_flags}]",
        "cmp ecx, {last_flags} - {first_flags}",
        "ja 7f",
        "2:",
        "test r11d, {only_memory}",
        "je 2f",
        "mov ecx, r10d",
        "and ecx, {kind_of_mapping}",
        "cmp ecx, {own_memory}",
        "jne 7f",
        "2:",
        "test r11d, {names}",
        "je 3f",
        "test rdx, rdx",
        "je 3f",
        "mov ecx, dword ptr [rdx]",
        "mov dword ptr [rsp + {room}], ecx",
        "3:",
        // Is the thread observed, and outside of what we do ourselves?
        "mov rcx, qword ptr [rip + __refrain_local@GOTTPOFF]",
        "mov rcx, qword ptr fs:[rcx]",
        "test rcx, rcx",
        "je 7f",
        "test dword ptr [rcx + {calls_pass}], 0xffffff",
        "jne 7f",
        "test r11d, {real}",
        "jne 4f",
        // When it began, if there is an order of threads.
        "cmp byte ptr [rip + {switches} + {threaded}], 0",
        "je 5f",
        "mov [rsp + {third}], rdx",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov [rsp + {began}], rax",
        "mov rdx, [rsp + {third}]",
        "mov rax, [rsp]",
        "5:",
        // A signal that has come has its handler run first, and one that comes from here on has the call left (`leave_call`).
        ".hidden __refrain_logged_looks, __refrain_logged_begun",
        ".globl __refrain_logged_looks, __refrain_logged_begun",
        "__refrain_logged_looks:",
        "cmp qword ptr [rcx + {pending}], 0",
        "jne 7f",
        "syscall",
        "__refrain_logged_begun:",
        call_preserving!("record"),
        "jmp 8f",
        // It is not logged, unless it is a futex call with a time limit.
        "4:",
        "test r11d, {unless_timed}",
        "je 6f",
        "test r10, r10",
        "je 6f",
        "mov r11d, esi",
        "and r11d, {command}",
        "cmp r11d, {wait}",
        "je 7f",
        "cmp r11d, {wait_bitset}",
        "je 7f",
        "cmp r11d, {lock_pi}",
        "je 7f",
        "cmp r11d, {lock_pi2}",
        "je 7f",
        "6:",
        ".hidden __refrain_real_looks, __refrain_real_begun",
        ".globl __refrain_real_looks, __refrain_real_begun",
        "__refrain_real_looks:",
        "cmp qword ptr [rcx + {pending}], 0",
        "jne 7f",
        "syscall",
        "__refrain_real_begun:",
        "mov rcx, qword ptr [rip + __refrain_local@GOTTPOFF]",
        "mov rcx, qword ptr fs:[rcx]",
        "inc qword ptr [rcx + {real_calls}]",
        "cmp qword ptr [rsp], {futex}",
        "je 3f",
        "inc qword ptr [rcx + {sure_calls}]",
        "3:",
        // Has it failed? What fails here may succeed in a replay.
        "test rax, rax",
        "js 6f",
        "cmp qword ptr [rcx + {pending}], 0",
        "je 8f",
        "6:",
        call_preserving!("look_behind"),
        "jmp 8f",
        // The long way.
        ".hidden __refrain_long_way",
        ".globl __refrain_long_way",
        "__refrain_long_way:",
        "7:",
        call_preserving!("handler"),
        "8:",
        give_back_room!(),
        ".cfi_endproc",
        switches = sym control::SWITCHES,
        quick = const offset_of!(control::Switches, quick),
        threaded = const offset_of!(control::Switches, threaded),
        calls = const quick::CALLS,
        table = sym quick::QUICK,
        conditions = const quick::CONDITIONS,
        unless_shown = const quick::UNLESS_SHOWN,
        followed = const descriptors::FOLLOWED,
        streams = sym descriptors::STREAMS,
        unless_ours = const quick::UNLESS_OURS,
        directory = sym run_directory::DIRECTORY,
        files_in_use = sym run_directory::FILES_IN_USE,
        unless_named = const quick::UNLESS_NAMED,
        only_flags = const quick::ONLY_FLAGS,
        first_flags = const libc::F_GETFD,
        last_flags = const libc::F_SETFL,
        only_memory = const quick::ONLY_MEMORY,
        kind_of_mapping = const libc::MAP_TYPE | libc::MAP_ANONYMOUS,
        names = const quick::NAMES,
        room = const offset_of!(Registers, room),
        own_memory = const libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        real = const quick::REAL,
        unless_timed = const quick::UNLESS_TIMED,
        command = const turns::COMMAND,
        wait = const libc::FUTEX_WAIT,
        wait_bitset = const libc::FUTEX_WAIT_BITSET,
        lock_pi = const libc::FUTEX_LOCK_PI,
        lock_pi2 = const turns::LOCK_PI2,
        third = const offset_of!(Registers, arguments) + 16,
        began = const offset_of!(Registers, began),
        calls_pass = const offset_of!(Local, calls_pass),
        real_calls = const offset_of!(Local, inputs.real_calls),
        sure_calls = const offset_of!(Local, inputs.sure_calls),
        futex = const libc::SYS_futex,
        pending = const offset_of!(Local, inputs.pending) + offset_of!(Pending, count),
        record = sym quick::record,
        look_behind = sym quick::look_behind,
        handler = sym handle,
    )
}

/// In a signal handler: if the interrupted thread is about to make a call of the program's, or to make it once more, it does not, and the
/// signal's handler runs first. The quick way becomes the long one.
pub fn leave_call(context: &mut libc::ucontext_t) {
    unsafe extern "C" {
        static __refrain_logged_looks: u8;
        static __refrain_logged_begun: u8;
        static __refrain_real_looks: u8;
        static __refrain_real_begun: u8;
        static __refrain_long_way: u8;
    }
    let ranges = [
        &raw const __refrain_logged_looks as usize..&raw const __refrain_logged_begun as usize,
        &raw const __refrain_real_looks as usize..&raw const __refrain_real_begun as usize,
    ];
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as usize;
    if ranges.iter().any(|range| range.contains(&at)) {
        registers[libc::REG_RIP as usize] = &raw const __refrain_long_way as i64;
    }
    sys::leave_call(context, PUT_OFF);
}

/// How many instructions make calls of the program's.
pub const PROGRAMS_CALLS: usize = 4;

/// Where these instructions end.
pub fn programs_calls() -> [u64; PROGRAMS_CALLS] {
    unsafe extern "C" {
        static __refrain_logged_begun: u8;
        static __refrain_real_begun: u8;
        static __refrain_call_begun: u8;
        static __refrain_plain_call_begun: u8;
    }
    [
        &raw const __refrain_logged_begun as u64,
        &raw const __refrain_real_begun as u64,
        &raw const __refrain_call_begun as u64,
        &raw const __refrain_plain_call_begun as u64,
    ]
}

/// The same for objects other than libc, always the long way. Their rt_sigreturn finds its frame where the window's stack
/// pointer is.
///
/// # Safety
/// Called by trampolines only, as a system call.
#[unsafe(naked)]
pub unsafe extern "C" fn enter_from_elsewhere() {
    naked_asm!(
        ".cfi_startproc",
        "cmp rax, {rt_sigreturn}",
        "jne 2f",
        "lea rsp, [rsp + 136]",
        "syscall",
        "2:",
        make_room!(),
        call_preserving!("handler"),
        give_back_room!(),
        ".cfi_endproc",
        rt_sigreturn = const libc::SYS_rt_sigreturn,
        handler = sym handle_from_elsewhere,
    )
}

// As `make_room` and `call_preserving` have it.
const _: () = assert!(size_of::<Registers>() == 384 && offset_of!(Registers, vectors) == 64);
const _: () = assert!(offset_of!(Registers, preserved) == 336 && offset_of!(Registers, frame) == 376);
// The commands that read and write flags of a descriptor follow each other.
const _: () = assert!(libc::F_GETFD == 1 && libc::F_SETFD == 2 && libc::F_GETFL == 3 && libc::F_SETFL == 4);
// Three flags that are looked at as one word.
const _: () = assert!(offset_of!(Local, inside_event) == offset_of!(Local, calls_pass) + 1);
const _: () = assert!(offset_of!(Local, ends_unseen) == offset_of!(Local, calls_pass) + 2);

/// Above the place of rbp: that, the way back to the trampoline, and what the trampoline leaves free.
const ABOVE_FRAME: usize = 16 + 128;
/// Where the stack is that a call of libc's was made on.
const STACK_AT: usize = size_of::<Registers>() + ABOVE_FRAME;

impl Registers {
    pub fn stack(&self) -> usize {
        self as *const Registers as usize + STACK_AT
    }

    /// The call of these registers, with what it has returned.
    pub fn under_way(&self, result: Option<isize>) -> CallUnderWay {
        CallUnderWay {
            registers: self as *const Registers as usize,
            result,
        }
    }

    /// What a handler finds in the registers that runs here: as if the call had returned with `result`, or, without one, as if it were still to be made.
    pub fn tell(&self, result: Option<isize>, told: &mut local::Registers) {
        // SAFETY: trampolines alone call us, and `make_room` keeps rbp above the way back to them.
        let [rbp, back] = unsafe { *self.frame };
        let behind = patch::returns_to(back).unwrap_or(back);
        let (at, rax) = match result {
            Some(result) => (behind, result as i64),
            None => (behind - SYSCALL_BYTES, self.number),
        };
        let [rdi, rsi, rdx, r10, r8, r9] = self.arguments;
        let [rbx, r12, r13, r14, r15] = self.preserved;
        for (register, value) in [
            (libc::REG_RDI, rdi as u64),
            (libc::REG_RSI, rsi as u64),
            (libc::REG_RDX, rdx as u64),
            (libc::REG_R10, r10 as u64),
            (libc::REG_R8, r8 as u64),
            (libc::REG_R9, r9 as u64),
            (libc::REG_RBX, rbx),
            (libc::REG_RBP, rbp),
            (libc::REG_R12, r12),
            (libc::REG_R13, r13),
            (libc::REG_R14, r14),
            (libc::REG_R15, r15),
            (libc::REG_RSP, (self.frame as usize + ABOVE_FRAME) as u64),
            // As the instruction leaves them.
            (libc::REG_RCX, behind),
            (libc::REG_R11, FLAGS),
            (libc::REG_EFL, FLAGS),
            (libc::REG_CSGSFS, SEGMENTS),
            (libc::REG_RIP, at),
        ] {
            told[register as usize] = value as i64;
        }
        told[libc::REG_RAX as usize] = rax;
    }
}

const SYSCALL_BYTES: u64 = 2;
/// What the flags are after comparisons of two equal numbers. The program's are not kept, as functions need not.
const FLAGS: u64 = 0x246;
/// The segments of 64-bit programs: code in the lowest 16 bits, stack in the highest.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;

extern "C-unwind" fn handle(registers: &Registers) -> isize {
    let note = |stack: usize| {
        // A process that was let go may have a thread pointer of the program's.
        if control::inputs_only()
            && !policy::is_free()
            && let Some(local) = Local::current()
        {
            local.inputs.call_stack.set(stack as u64);
        }
    };
    note(registers.stack());
    // SAFETY: the program's own call, with its arguments.
    let result = inside(registers, || unsafe {
        calls::system_call(registers.number, &registers.arguments)
    });
    note(0);
    clones::take_pointer(registers.number, &registers.arguments, result);
    result
}

/// Handlers that run meanwhile are told these registers.
fn inside(registers: &Registers, call: impl FnOnce() -> isize) -> isize {
    let note = |call: Option<CallUnderWay>| {
        // A process that was let go may have a thread pointer of the program's.
        if !policy::is_free()
            && let Some(local) = Local::current()
        {
            local.inputs.call.set(call);
        }
    };
    note(Some(registers.under_way(None)));
    let result = call();
    note(None);
    result
}

extern "C-unwind" fn handle_from_elsewhere(registers: &Registers) -> isize {
    let (number, arguments) = (registers.number, registers.arguments);
    // SAFETY: the program's own call, with its arguments.
    let call = || unsafe { calls::system_call(number, &arguments) };
    let result = inside(registers, || calls::observing_futexes(number, &arguments, call));
    clones::take_pointer(number, &arguments, result);
    result
}
