//! System calls of a guest's: those that are about what the host needs for itself are done in its name, all others are as
//! everybody's.
use crate::calls;
use crate::calls::signals::set_action;
use crate::handlers::NEVER_BLOCKED;
use crate::host::block::Block;
use crate::host::block::Stack;
use crate::host::entry::Frame;
use crate::host::load;
use crate::host::processors;
use crate::host::signals;
use crate::host::signals::RED_ZONE;
use crate::host::threads;
use crate::policy;
use core::ffi::CStr;
use core::ffi::c_long;
use core::ffi::c_void;

const ARCH_SET_FS: usize = 0x1002;
const ARCH_GET_FS: usize = 0x1003;
const ARCH_SET_GS: usize = 0x1001;
const ARCH_GET_GS: usize = 0x1004;
const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;

/// A call of the guest's, whose registers these are.
pub extern "C" fn on_call(frame: &mut Frame) {
    let block = Block::current();
    block.locked = 0;
    forget_abandoned_handlers(block, frame);
    let before = core::mem::replace(&mut block.frame, frame);
    let arguments = [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9].map(|argument| argument as usize);
    frame.rax = call(frame, frame.rax as c_long, arguments) as u64;
    Block::current().frame = before;
}

/// Handlers that the guest has left by a jump: it is not on the stack that they had for themselves, or not below what they had
/// interrupted.
fn forget_abandoned_handlers(block: &mut Block, frame: &Frame) {
    const NEAR: u64 = 1 << 30;
    // SAFETY: upcalls are on our stack as long as the block knows them.
    while let Some(upcall) = unsafe { block.upcall.as_ref() } {
        // SAFETY: an upcall is on our stack as long as the block knows it, and so is the frame that it names.
        let interrupted = unsafe { (*upcall.frame).rsp };
        let is_left = match upcall.own_stack {
            Some(Stack { start, bytes }) => !(start..start + bytes).contains(&frame.rsp),
            // A handler begins below what a function may use there.
            None => frame.rsp + RED_ZONE > interrupted && frame.rsp.abs_diff(interrupted) < NEAR,
        };
        if !is_left {
            return;
        }
        block.host_stack = upcall.host_stack;
        block.upcall = upcall.previous;
        block.frame = core::ptr::null_mut();
    }
}

fn call(frame: &mut Frame, number: c_long, mut arguments: [usize; 6]) -> isize {
    let refuse = |errno: i32| -errno as isize;
    // SAFETY: the program's own call, with its arguments.
    let any = |arguments: &[usize; 6]| unsafe { calls::system_call(number, arguments) };
    match number {
        libc::SYS_arch_prctl => match arguments[0] {
            ARCH_SET_FS => {
                frame.fs = arguments[1] as u64;
                0
            }
            ARCH_GET_FS => {
                // SAFETY: the guest says that there is room for a number.
                unsafe { *(arguments[1] as *mut u64) = frame.fs };
                0
            }
            // That one is ours.
            ARCH_SET_GS | ARCH_GET_GS => refuse(libc::EPERM),
            _ => any(&arguments),
        },
        libc::SYS_brk => load::set_break(arguments[0] as u64) as isize,
        libc::SYS_set_tid_address => threads::set_tid_address(arguments[0]),
        libc::SYS_clone | libc::SYS_fork | libc::SYS_vfork => threads::clone(frame, number, &arguments),
        // Whoever has asked knows another way.
        libc::SYS_clone3 | libc::SYS_rseq => refuse(libc::ENOSYS),
        libc::SYS_exit => threads::exit(arguments[0]),
        libc::SYS_sigaltstack => set_signal_stack(&arguments),
        // Our handler is needed even in a process that is not recorded any more.
        // SAFETY: the guest's own call.
        libc::SYS_rt_sigaction if policy::is_free() => unsafe { set_action(arguments) },
        libc::SYS_rt_sigreturn => signals::return_from_handler(frame),
        libc::SYS_prctl if arguments[0] == PR_SET_SYSCALL_USER_DISPATCH => refuse(libc::EINVAL),
        libc::SYS_rt_sigprocmask if arguments[1] != 0 => {
            // SAFETY: the guest says that there is a set.
            let set = unsafe { *(arguments[1] as *const u64) } & !NEVER_BLOCKED;
            arguments[1] = &raw const set as usize;
            any(&arguments)
        }
        libc::SYS_openat if processors::is_asked(arguments[1], arguments[2]) => processors::open(),
        libc::SYS_read if processors::is(arguments[0]) => processors::read(arguments[1], arguments[2]),
        libc::SYS_close if processors::is(arguments[0]) => 0,
        libc::SYS_readlink if is_own_link(arguments[0]) => read_own_link(number, &arguments, 1),
        libc::SYS_readlinkat if is_own_link(arguments[1]) => read_own_link(number, &arguments, 2),
        libc::SYS_open | libc::SYS_execve | libc::SYS_stat | libc::SYS_access if is_own_link(arguments[0]) => {
            arguments[0] = load::own_path().as_ptr() as usize;
            any(&arguments)
        }
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_faccessat
            if is_own_link(arguments[1]) =>
        {
            arguments[1] = load::own_path().as_ptr() as usize;
            any(&arguments)
        }
        _ => any(&arguments),
    }
}

/// Does the guest ask for itself? The kernel would answer with the host.
fn is_own_link(path: usize) -> bool {
    is_path(path, c"/proc/self/exe")
}

pub fn is_path(path: usize, known: &CStr) -> bool {
    // SAFETY: the guest gives it to the kernel as a string; only as much is read as is equal.
    let is_byte = |(at, byte): (usize, &u8)| unsafe { *(path as *const u8).add(at) == *byte };
    path != 0 && known.to_bytes_with_nul().iter().enumerate().all(is_byte)
}

/// `buffer`: the argument with the place for the answer; the next one is how much room there is.
fn read_own_link(number: c_long, arguments: &[usize; 6], buffer: usize) -> isize {
    calls::as_one_call(number, arguments, |arguments| {
        let path = load::own_path().to_bytes();
        let bytes = path.len().min(arguments[buffer + 1]);
        // SAFETY: the guest says that there is so much room.
        unsafe { core::ptr::copy_nonoverlapping(path.as_ptr(), arguments[buffer] as *mut u8, bytes) };
        bytes as isize
    })
}

/// The guest's sigaltstack: the kernel knows ours, and the guest's own is used when its handlers are called.
fn set_signal_stack([new, old, ..]: &[usize; 6]) -> isize {
    let block = Block::current();
    let before = block.asked_stack;
    let is_on = before.is_some_and(|stack| block.has_upcall_on(&stack));
    if *old != 0 {
        let stack = libc::stack_t {
            ss_sp: before.map_or(0, |stack| stack.start) as *mut c_void,
            ss_flags: match before {
                None => libc::SS_DISABLE,
                Some(_) if is_on => libc::SS_ONSTACK,
                Some(_) => 0,
            },
            ss_size: before.map_or(0, |stack| stack.bytes) as usize,
        };
        // SAFETY: the guest says that there is room for it.
        unsafe { *(*old as *mut libc::stack_t) = stack };
    }
    if *new == 0 {
        return 0;
    }
    // SAFETY: the guest says that there is one.
    let asked = unsafe { *(*new as *const libc::stack_t) };
    if is_on {
        return -libc::EPERM as isize;
    }
    let is_wanted = asked.ss_flags & libc::SS_DISABLE == 0;
    if is_wanted && asked.ss_size < libc::MINSIGSTKSZ {
        return -libc::ENOMEM as isize;
    }
    block.asked_stack = is_wanted.then_some(Stack {
        start: asked.ss_sp as u64,
        bytes: asked.ss_size as u64,
    });
    0
}

impl Block {
    /// Does a handler run on this stack?
    fn has_upcall_on(&self, stack: &Stack) -> bool {
        let mut next = self.upcall;
        // SAFETY: upcalls are on our stack as long as the block knows them.
        while let Some(upcall) = unsafe { next.as_ref() } {
            if upcall.own_stack.is_some_and(|own| own.start == stack.start) {
                return true;
            }
            next = upcall.previous;
        }
        false
    }
}
