//! Signals in a host. The kernel calls our handlers on a stack of ours, whatever runs; handlers of the guest's run on its own.
use crate::calls::returns_to;
use crate::handlers::NEVER_BLOCKED;
use crate::host::block::Block;
use crate::host::block::Stack;
use crate::host::block::Upcall;
use crate::host::entry;
use crate::host::entry::Frame;
use crate::hosting;
use crate::sys;
use crate::sys::Action;
use core::arch::naked_asm;
use core::ffi::c_int;
use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

const SIGNALS: usize = 65;
/// Of the kernel's flags of an action: it says how to return.
const HAS_RESTORER: u64 = 0x0400_0000;
/// What a function may use below its stack pointer.
pub const RED_ZONE: u64 = 128;

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Our handlers, which `enter` calls.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// An action of ours, as the kernel is to have it.
pub fn wrap(signal: usize, action: &Action) -> Action {
    let mut given = *action;
    let Some(handler) = HANDLERS.get(signal).filter(|_| hosting::is_on()) else {
        return given;
    };
    if !matches!(action.handler, libc::SIG_DFL | libc::SIG_IGN) && action.handler != enter as *const () as usize {
        handler.store(action.handler, Relaxed);
        given.handler = enter as *const () as usize;
        given.flags |= (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | HAS_RESTORER;
        given.restorer = entry::restorer();
    }
    given
}

/// Handlers that have been installed before the process became a host; and ours of calls that the kernel sends to us.
pub fn wrap_all() {
    let never = NEVER_BLOCKED;
    let arguments = [libc::SIG_UNBLOCK as usize, &raw const never as usize, 0, 8, 0, 0];
    // SAFETY: the kernel reads a set.
    unsafe { sys::syscall(libc::SYS_rt_sigprocmask, arguments) };
    for signal in 1..SIGNALS {
        let mut action = Action::default();
        // SAFETY: the kernel writes an action, and reads one.
        unsafe {
            sys::syscall(libc::SYS_rt_sigaction, [signal, 0, &raw mut action as usize, 8, 0, 0]);
            if signal == libc::SIGSYS as usize {
                action = Action {
                    handler: on_sent_call as *const () as usize,
                    mask: u64::MAX,
                    ..Action::default()
                };
            }
            if !matches!(action.handler, libc::SIG_DFL | libc::SIG_IGN) {
                let given = wrap(signal, &action);
                sys::syscall(libc::SYS_rt_sigaction, [signal, &raw const given as usize, 0, 8, 0, 0]);
            }
        }
    }
}

/// What the kernel calls: whatever was interrupted, our code has its own FS, and its calls are its own.
#[unsafe(naked)]
extern "C" fn enter(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    naked_asm!(
        "rdfsbase rax",
        "push rax",
        "movzx ecx, byte ptr gs:[{selector}]",
        "push rcx",
        "mov byte ptr gs:[{selector}], 0",
        "mov rax, gs:[{host_fs}]",
        "wrfsbase rax",
        "sub rsp, 8",
        "call {dispatch}",
        "add rsp, 8",
        "pop rcx",
        "pop rax",
        "wrfsbase rax",
        "mov byte ptr gs:[{selector}], cl",
        "ret",
        selector = const offset_of!(Block, selector),
        host_fs = const offset_of!(Block, host_fs),
        dispatch = sym dispatch,
    )
}

extern "C" fn dispatch(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, in_guest: u8) {
    Block::current().in_guest = in_guest;
    let handler = HANDLERS[signal as usize % SIGNALS].load(Relaxed);
    if handler != 0 {
        // SAFETY: the address of one of our handlers, which are of this kind.
        let handler: Handler = unsafe { core::mem::transmute(handler) };
        handler(signal, info, context);
    }
}

/// The kernel has met a call of the guest's: it goes on where the trampolines go.
extern "C" fn on_sent_call(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const SYS_USER_DISPATCH: c_int = 2;
    // SAFETY: the kernel's siginfo and context of this thread.
    let (code, registers) = unsafe {
        (
            (*info).si_code,
            &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs,
        )
    };
    if code == SYS_USER_DISPATCH {
        registers[libc::REG_RCX as usize] = registers[libc::REG_RIP as usize];
        registers[libc::REG_RIP as usize] = entry::enter as *const () as i64;
    }
}

/// The stack that a handler of the guest's is to be on, if that is another one: what it has asked for.
fn own_stack(action: &Action, interrupted: u64) -> Option<Stack> {
    let stack = Block::current().asked_stack?;
    let is_wanted = action.flags & libc::SA_ONSTACK as u64 != 0;
    let is_there = (stack.start..stack.start + stack.bytes).contains(&interrupted);
    (is_wanted && !is_there).then_some(stack)
}

/// Calls a handler of the guest's, while the calling thread is in a call of the guest's.
pub fn call(action: &Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    let block = Block::current();
    let frame = block.frame;
    if frame.is_null() {
        return;
    }
    // SAFETY: the call under way; its frame stays until it is over. The context is of zeros, or the kernel's.
    let (interrupted, context) = unsafe { (&mut *frame, &mut *context) };
    let told = tell(interrupted, context);
    let own_stack = own_stack(action, interrupted.rsp);
    let stack = match own_stack {
        Some(stack) => stack.start + stack.bytes,
        None => interrupted.rsp - RED_ZONE,
    };
    let upcall = Upcall {
        previous: block.upcall,
        host_stack: block.host_stack,
        frame,
        own_stack,
    };
    block.upcall = &upcall;
    // SAFETY: the guest's handler, on a stack of its own, as the kernel would have called it.
    unsafe {
        entry::call_guest(
            action.handler as u64,
            signal as u64,
            info as u64,
            &raw mut *context as u64,
            stack & !15,
            interrupted.fs,
        );
    }
    let block = Block::current();
    block.upcall = upcall.previous;
    block.frame = frame;
    take_back(interrupted, context, told);
}

/// The registers as the guest knows them; returns where it was.
fn tell(frame: &Frame, context: &mut libc::ucontext_t) -> i64 {
    let registers = &mut context.uc_mcontext.gregs;
    for (register, value) in places(frame) {
        registers[register as usize] = value as i64;
    }
    let at = returns_to(frame.rip).unwrap_or(frame.rip) as i64;
    registers[libc::REG_RIP as usize] = at;
    registers[libc::REG_RAX as usize] = frame.rax as i64;
    at
}

/// If the handler has changed where the guest goes on, everything else is as it has left it, too.
fn take_back(frame: &mut Frame, context: &libc::ucontext_t, told: i64) {
    let registers = &context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize];
    if at == told {
        return;
    }
    let register = |register: c_int| registers[register as usize] as u64;
    frame.rip = at as u64;
    frame.rsp = register(libc::REG_RSP);
    frame.rbp = register(libc::REG_RBP);
    frame.rbx = register(libc::REG_RBX);
    frame.rdi = register(libc::REG_RDI);
    frame.rsi = register(libc::REG_RSI);
    frame.rdx = register(libc::REG_RDX);
    frame.r8 = register(libc::REG_R8);
    frame.r9 = register(libc::REG_R9);
    frame.r10 = register(libc::REG_R10);
    frame.r12 = register(libc::REG_R12);
    frame.r13 = register(libc::REG_R13);
    frame.r14 = register(libc::REG_R14);
    frame.r15 = register(libc::REG_R15);
}

fn places(frame: &Frame) -> [(c_int, u64); 14] {
    [
        (libc::REG_RSP, frame.rsp),
        (libc::REG_RBP, frame.rbp),
        (libc::REG_RBX, frame.rbx),
        (libc::REG_RDI, frame.rdi),
        (libc::REG_RSI, frame.rsi),
        (libc::REG_RDX, frame.rdx),
        (libc::REG_R8, frame.r8),
        (libc::REG_R9, frame.r9),
        (libc::REG_R10, frame.r10),
        (libc::REG_R12, frame.r12),
        (libc::REG_R13, frame.r13),
        (libc::REG_R14, frame.r14),
        (libc::REG_R15, frame.r15),
        (libc::REG_RCX, frame.rip),
    ]
}

/// The kernel's own part of a context, which is the beginning of libc's.
const CONTEXT_BYTES: usize = 304;
const CONTEXT_MASK: usize = 296;
const INFO_BYTES: usize = size_of::<libc::siginfo_t>();
const _: () = assert!(offset_of!(libc::ucontext_t, uc_sigmask) == CONTEXT_MASK);

/// What the kernel puts on a stack for a handler.
#[repr(C)]
struct HandlerFrame {
    restorer: usize,
    context: [u8; CONTEXT_BYTES],
    info: [u8; INFO_BYTES],
}

/// In a handler of ours: a signal that the guest is to handle at once, where it is. The guest finds on its stack what the kernel puts
/// there, and goes on in its handler when ours returns.
///
/// # Safety
/// The kernel's siginfo and context.
pub unsafe fn deliver(action: &Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the caller promises that these are the kernel's siginfo and context.
    let kernels = unsafe { &mut *context };
    if Block::current().in_guest == 0 {
        return call(action, signal, info, context);
    }
    let interrupted = kernels.uc_mcontext.gregs[libc::REG_RSP as usize] as u64;
    let top = match own_stack(action, interrupted) {
        Some(stack) => stack.start + stack.bytes,
        None => interrupted - RED_ZONE,
    };
    let vectors_bytes = vectors_bytes(kernels);
    let vectors = (top - vectors_bytes) & !63;
    let place = ((vectors - size_of::<HandlerFrame>() as u64) & !15) - 8;
    let asked = Block::current().asked_stack;
    // SAFETY: room on the guest's stack, as the kernel would have taken it; it has as many bytes as are copied.
    unsafe {
        let frame = &mut *(place as *mut HandlerFrame);
        frame.restorer = action.restorer;
        let from = kernels.uc_mcontext.fpregs.cast::<u8>();
        core::ptr::copy_nonoverlapping(from, vectors as *mut u8, vectors_bytes as usize);
        core::ptr::copy_nonoverlapping(context.cast::<u8>(), frame.context.as_mut_ptr(), CONTEXT_BYTES);
        core::ptr::copy_nonoverlapping(info.cast::<u8>(), frame.info.as_mut_ptr(), INFO_BYTES);
        let copy = frame.context.as_mut_ptr().cast::<libc::ucontext_t>();
        (&raw mut (*copy).uc_mcontext.fpregs).write_unaligned(vectors as *mut _);
        (&raw mut (*copy).uc_stack).write_unaligned(libc::stack_t {
            ss_sp: asked.map_or(0, |stack| stack.start) as *mut c_void,
            ss_flags: if asked.is_some() { 0 } else { libc::SS_DISABLE },
            ss_size: asked.map_or(0, |stack| stack.bytes) as usize,
        });
        let own = match action.flags & libc::SA_NODEFER as u64 {
            0 => 1 << (signal - 1),
            _ => 0,
        };
        let mask = (&raw mut kernels.uc_sigmask).cast::<u64>();
        *mask |= (action.mask | own) & !NEVER_BLOCKED;
        let registers = &mut kernels.uc_mcontext.gregs;
        for (register, value) in [
            (libc::REG_RIP, action.handler as u64),
            (libc::REG_RSP, place),
            (libc::REG_RDI, signal as u64),
            (libc::REG_RSI, frame.info.as_ptr() as u64),
            (libc::REG_RDX, frame.context.as_ptr() as u64),
            (libc::REG_RAX, 0),
        ] {
            registers[register as usize] = value as i64;
        }
        // Functions begin with the direction flag clear.
        registers[libc::REG_EFL as usize] &= !0x400;
    }
}

/// How much the kernel has saved of the vector registers (`struct _fpx_sw_bytes`).
fn vectors_bytes(context: &libc::ucontext_t) -> u64 {
    const PLAIN: u64 = 512;
    const WORDS: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    if context.uc_mcontext.fpregs.is_null() {
        return 0;
    }
    // SAFETY: the kernel saves at least 512 bytes.
    let [magic, bytes] = unsafe { *context.uc_mcontext.fpregs.byte_add(WORDS).cast::<[u32; 2]>() };
    if magic == MAGIC { u64::from(bytes) } else { PLAIN }
}

/// The guest returns from a handler that `deliver` has made it run.
pub fn return_from_handler(frame: &Frame) -> ! {
    let stack = Block::current().signal_stack();
    let context = frame.rsp as *mut libc::ucontext_t;
    // SAFETY: the guest says that there is such a frame: what the kernel is to take the signal stack from, and the mask, is made ours.
    unsafe {
        (&raw mut (*context).uc_stack).write_unaligned(libc::stack_t {
            ss_sp: stack.start as *mut c_void,
            ss_flags: 0,
            ss_size: stack.bytes as usize,
        });
        let mask = (&raw mut (*context).uc_sigmask).cast::<u64>();
        mask.write_unaligned(mask.read_unaligned() & !NEVER_BLOCKED);
        entry::return_from_handler(frame)
    }
}
