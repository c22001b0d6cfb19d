//! Signals with handlers: delivered at a defined event while recording, and at the same one in replay.
//!
//! The kernel calls `on_signal`, which notes the signal; the program's handler runs at the thread's next *safe point*: before a system call, when one
//! returns, before a synchronisation operation or while it waits, or before an access that takes the slow path (which
//! `gate` = 0 makes the next one do). There it is logged as an input, and replay runs it at that event.
//!
//! No thread waits inside the kernel while there is something to handle. `on_signal` has calls left that are about to be made, or that the kernel is
//! about to make again for `SA_RESTART` (`entry::leave_call`): they are *put off*, the handler runs, and they are made then. What the kernel ends
//! with EINTR, the program sees end so. Thus calls go on or are interrupted as they are without us, and the kernel's rules decide.
//!
//! Not every safe point is at an event of its own, so the entry also says whether a call had returned, and how many calls that are not logged the
//! thread had made: all at scope `inputs`, elsewhere those that change which signals are blocked.
//!
//! A handler runs on a stack that is far enough below what we use, and a replay has it run at the same address: buffers in there are filled where
//! they were.
//!
//! A fault (SIGSEGV and its kin, caused by the thread itself) comes again in replay by itself, so its handler runs at once.
use crate::calls::cancellation;
use crate::calls::contexts::Given;
use crate::calls::contexts::STACK_ALIGNMENT;
use crate::calls::contexts::Told;
use crate::calls::entry;
use crate::calls::filters;
use crate::control;
use crate::ending;
use crate::handlers;
use crate::handlers::ALL;
use crate::handlers::NEVER_BLOCKED;
use crate::handlers::WISHES;
use crate::handlers::mask;
use crate::hosting;
use crate::local;
use crate::local::Came;
use crate::local::Local;
use crate::local::Registers;
use crate::policy;
use crate::policy::Inputs;
use crate::sys;
use crate::sys::Action;
use crate::turns;
use core::arch::asm;
use core::arch::naked_asm;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// What stands for all signals that threads of the process send each other, where a hybrid schedule orders them; nothing is stored there.
pub fn signals() -> u64 {
    static SIGNALS: AtomicU64 = AtomicU64::new(0);
    &SIGNALS as *const AtomicU64 as u64
}

pub const FIRST: u32 = log_format::inputs::FIRST_SIGNAL;
/// A signal of libc's own: by it, all threads change their ids.
const CHANGE_IDS: usize = 33;

/// The program's rt_sigaction.
///
/// # Safety
/// As for the system call.
pub unsafe fn set_action(arguments: [usize; 6]) -> isize {
    // SAFETY: the caller promises what rt_sigaction demands of its arguments.
    let real = |arguments| unsafe { sys::programs_syscall(libc::SYS_rt_sigaction, arguments) };
    let [signal, new, old, ..] = arguments;
    let Some(wish) = WISHES.get(signal) else {
        return real(arguments);
    };
    let before = wish.get();
    if new != 0 && (turns::is_timer_signal(signal) || hosting::is_on() && signal == libc::SIGSYS as usize) {
        return 0;
    }
    if new != 0 {
        // SAFETY: the caller promises what rt_sigaction demands: `new`, if it is not null, is an action.
        let asked = unsafe { *(new as *const Action) };
        let mut given = asked;
        if signal == CHANGE_IDS && !hosting::is_on() {
            given.handler = on_change_of_ids as *const () as usize;
        } else if !matches!(asked.handler, libc::SIG_DFL | libc::SIG_IGN) {
            given.handler = on_signal as *const () as usize;
            given.flags |= libc::SA_SIGINFO as u64;
            // The program's handler runs later; ours is not to be interrupted.
            given.mask = ALL;
            given.flags &= !(libc::SA_RESETHAND as u64 | libc::SA_NODEFER as u64);
            if handlers::is_cancellation(signal) {
                given.flags &= !(libc::SA_RESTART as u64);
            }
        } else if asked.handler == libc::SIG_DFL && ending::is_fatal(signal as c_int) {
            given.handler = ending::on_fatal as *const () as usize;
            given.flags |= (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64;
        }
        let given = hosting::wrap(signal, &given);
        let mut changed = arguments;
        changed[1] = &raw const given as usize;
        changed[2] = 0;
        let result = real(changed);
        if result < 0 {
            return result;
        }
        wish.set(&asked);
    }
    if old != 0 {
        // SAFETY: the caller promises what rt_sigaction demands: `old`, if it is not null, has room for an action.
        unsafe { *(old as *mut Action) = before };
    }
    0
}

/// What a handler and the recorder below it need; those of programs are often as small as the kernel allows.
const STACK_BYTES: u64 = 1 << 18;
const GUARD_BYTES: u64 = 4096;

/// The program's sigaltstack.
///
/// # Safety
/// As for the system call.
pub unsafe fn set_stack(local: &Local, arguments: [usize; 6]) -> isize {
    let [new, old, ..] = arguments;
    let before = local.inputs.signal_stack.asked.get();
    // SAFETY: the caller promises what sigaltstack demands: `new`, if it is not null, is a stack_t.
    let asked = (new != 0).then(|| unsafe { *(new as *const libc::stack_t) });
    let mut given = asked;
    if let Some(stack) = given.as_mut().filter(|stack| stack.ss_flags & libc::SS_DISABLE == 0)
        && !control::inputs_only()
        && (libc::MINSIGSTKSZ..STACK_BYTES as usize).contains(&stack.ss_size)
    {
        if local.inputs.signal_stack.ours.get() == 0 {
            // In the arena, where everything has a shadow, and at an address that comes back.
            let block = local.allocate(STACK_BYTES + 2 * GUARD_BYTES);
            if block != 0 {
                let start = block.next_multiple_of(GUARD_BYTES);
                sys::forbid(start, GUARD_BYTES as usize);
                local.inputs.signal_stack.ours.set(start + GUARD_BYTES);
            }
        }
        if local.inputs.signal_stack.ours.get() != 0 {
            stack.ss_sp = local.inputs.signal_stack.ours.get() as *mut c_void;
            stack.ss_size = STACK_BYTES as usize;
        }
    }
    let place = |stack: &Option<libc::stack_t>| stack.as_ref().map_or(0, |stack| &raw const *stack as usize);
    let mut now = before;
    // SAFETY: two stacks of ours, or none.
    let result = unsafe {
        sys::programs_syscall(
            libc::SYS_sigaltstack,
            [place(&given), &raw mut now as usize, 0, 0, 0, 0],
        )
    };
    if result < 0 {
        return result;
    }
    if let Some(asked) = asked {
        local.inputs.signal_stack.asked.set(asked);
    }
    if old != 0 {
        let answer = libc::stack_t {
            // Whether a handler runs on it now, only the kernel knows.
            ss_flags: before.ss_flags & libc::SS_DISABLE | now.ss_flags & libc::SS_ONSTACK,
            ..before
        };
        // SAFETY: the caller promises what sigaltstack demands: `old`, if it is not null, has room for a stack_t.
        unsafe { *(old as *mut libc::stack_t) = answer };
    }
    0
}

/// libc makes a thread do something that is not the program's doing: at once, since somebody waits for it.
extern "C" fn on_change_of_ids(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    local::unrecorded(|| call(WISHES[signal as usize].get(), signal, info, context));
}

/// A signal the program has a handler for.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's siginfo.
    let cause = unsafe { *info };
    // A positive code: the kernel sent it because of what the thread did. Timers are outside (SI_TIMER is negative).
    let is_fault = ending::is_fatal(signal) && cause.si_code > 0;
    match (policy::inputs(), Local::current()) {
        // SAFETY: the kernel's context of this thread.
        (_, Some(local)) if local::is_tick(&cause) => local.on_tick(unsafe { &mut *context.cast() }),
        (Inputs::Live | Inputs::Recorded, Some(local)) if !is_fault && !local.ends_unseen.get() => {
            let is_request = handlers::is_cancellation(signal as usize);
            if is_request {
                cancellation::come_again(&local.inputs.request_timer);
            }
            let is_known = is_request && cause.si_code == libc::SI_TIMER;
            // SAFETY: the kernel's context of this thread.
            let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
            if filters::is_by_filter(&cause) && !filters::is_trapped_call(&cause, context) {
                // In code whose calls are not replaced: the handler says what comes of it.
                return call(WISHES[signal as usize].get(), signal, info, (&raw mut *context).cast());
            }
            if !is_known {
                local.inputs.pending.add(Came {
                    signal,
                    info: cause,
                    registers: context.uc_mcontext.gregs,
                    is_together: local.inputs.pending.is_where_it_went_on(&context.uc_mcontext.gregs),
                });
            }
            // The next access of compiled code takes the slow path.
            local.slot.gate.store(0, Relaxed);
            local.watch_if_spinning(signal, context);
            entry::leave_call(context);
            local.inputs.pending.note_going_on(&context.uc_mcontext.gregs);
        }
        // It comes from the log.
        (Inputs::Answered, Some(_)) if !is_fault => {}
        (_, local) => {
            if let Some(local) = local {
                local.give_up_elements();
            }
            let action = WISHES[signal as usize].get();
            match hosting::is_on() {
                // SAFETY: the kernel's siginfo and context.
                true => unsafe { hosting::deliver(&action, signal, info, context.cast()) },
                false => call(action, signal, info, context),
            }
        }
    }
}

fn call(action: Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if hosting::is_on() {
        return hosting::call_handler(&action, signal, info, context.cast());
    }
    // SAFETY: the address of the program's handler, which it has declared to be of this kind.
    unsafe {
        if action.flags & libc::SA_SIGINFO as u64 != 0 {
            let handler: extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                core::mem::transmute(action.handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C-unwind" fn(c_int) = core::mem::transmute(action.handler);
            handler(signal);
        }
    }
}

/// Calls a handler on another stack.
///
/// # Safety
/// The handler is the program's, and `stack` is one with room for it, at a multiple of 16.
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_on(
    stack: usize,
    handler: usize,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rax, rsi",
        "mov edi, edx",
        "mov rsi, rcx",
        "mov rdx, r8",
        "call rax",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// From where a handler is called to where its stack begins: ours in between is less, recorded or replayed.
const OURS_BYTES: usize = 4096;
/// How far away that can be, at most.
const REACH: usize = 1 << 16;
/// A stack for handlers that is smaller has no room for what we do below them.
const OWN_STACK_MIN: usize = 1 << 16;

/// Which signals a call blocks while it waits, if it says so.
fn mask_during(number: c_long, arguments: &[usize; 6]) -> Option<u64> {
    let set = match number {
        libc::SYS_rt_sigsuspend => arguments[0],
        libc::SYS_ppoll => arguments[3],
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => arguments[4],
        // SAFETY: the program gives the kernel a pointer to the set and its size, or none.
        libc::SYS_pselect6 => unsafe { (arguments[5] as *const usize).as_ref() }.map_or(0, |set| *set),
        _ => 0,
    };
    // SAFETY: the kernel has read the set, or there is none.
    unsafe { (set as *const u64).as_ref() }.copied()
}

impl Local {
    /// A call has returned: if a signal interrupted it, that one's handler has blocked what the call had.
    pub fn note_mask(&self, number: c_long, arguments: &[usize; 6], result: isize) {
        if result == -libc::EINTR as isize {
            self.inputs.call_mask.set(mask_during(number, arguments));
        }
    }

    /// The top of the stack that the program has for handlers of this signal, if that is another one than it is on now.
    fn own_stack(&self, signal: c_int, here: usize) -> Option<usize> {
        let asked = self.inputs.signal_stack.asked.get();
        let is_wanted = WISHES.get(signal as usize)?.get().flags & libc::SA_ONSTACK as u64 != 0;
        let ours = self.inputs.signal_stack.ours.get() as usize;
        let (start, bytes) = match ours != 0 && asked.ss_size < STACK_BYTES as usize {
            true => (ours, STACK_BYTES as usize),
            false => (asked.ss_sp as usize, asked.ss_size),
        };
        let is_there = is_wanted && asked.ss_flags & libc::SS_DISABLE == 0 && bytes >= OWN_STACK_MIN;
        (is_there && !(start..start + bytes).contains(&here)).then_some(start + bytes)
    }

    /// Where the stack of a handler begins that is called here.
    #[inline(never)]
    pub fn handler_stack(&self, signal: c_int) -> usize {
        let here = stack_pointer();
        let below = here - OURS_BYTES;
        self.own_stack(signal, here).unwrap_or(below) & !(STACK_ALIGNMENT - 1)
    }

    /// Replay: is there room for a handler where it ran when it was recorded? Where threads take turns, their stacks may be elsewhere.
    pub fn can_be_stack(&self, signal: c_int, at: usize) -> bool {
        let here = stack_pointer();
        let is_below = at + OURS_BYTES / 2 < here && here - at < REACH;
        let is_own = || self.own_stack(signal, here) == Some(at);
        !turns::is_on() && at != 0 && (is_below || is_own())
    }

    /// Runs the program's handler, which sees signals blocked as it asked for, on the stack that begins at `at`, and is told these registers.
    /// `interrupted`: the thread, if it is in a handler of ours; else it is in a call. If the handler says so, the thread goes on elsewhere.
    pub fn run_handler(
        &self,
        came: &Came,
        told: &Registers,
        at: usize,
        mut interrupted: Option<&mut libc::ucontext_t>,
    ) {
        let signal = came.signal;
        let Some(wish) = WISHES.get(signal as usize).filter(|wish| wish.has_handler()) else {
            return;
        };
        let action = wish.get();
        let blocks = handlers::blocks(signal);
        if action.flags & libc::SA_RESETHAND as u64 != 0 {
            let default = Action {
                handler: libc::SIG_DFL,
                ..action
            };
            // SAFETY: an action of ours.
            unsafe { set_action([signal as usize, &raw const default as usize, 0, 8, 0, 0]) };
        }
        let never = if hosting::is_on() { NEVER_BLOCKED } else { 0 };
        let during_call = self.inputs.call_mask.take();
        let until_now = interrupted.as_deref().map(blocked_in);
        let before = match during_call.or(until_now) {
            Some(blocked) => mask(libc::SIG_SETMASK, (blocked | blocks) & !never),
            None => mask(libc::SIG_BLOCK, blocks & !never),
        };
        let blocked = until_now.unwrap_or(before);
        // A handler that jumps away has left the call.
        let call = self.inputs.call.take();
        let keeps_surplus = self.heap.keeps_surplus.take();
        let left = match hosting::is_on() {
            true => self.call_in_host(&action, came, blocked),
            // SAFETY: `handler_stack` or `can_be_stack` found room there.
            false => unsafe {
                self.call_at(
                    at,
                    &action,
                    came,
                    Told {
                        registers: told,
                        blocked,
                        call,
                    },
                    interrupted.as_deref_mut(),
                )
            },
        };
        self.heap.keeps_surplus.set(keeps_surplus);
        self.inputs.call.set(call);
        // The handler may have changed what is blocked when it is over.
        match interrupted {
            Some(context) => {
                *set_in(context) = left & !never;
                mask(libc::SIG_SETMASK, ALL);
            }
            None => _ = mask(libc::SIG_SETMASK, left & !never),
        }
        self.inputs.call_mask.set(during_call);
    }

    /// Calls a handler on the stack that begins at `at`. Returns what it leaves blocked.
    ///
    /// # Safety
    /// There is room.
    unsafe fn call_at(
        &self,
        at: usize,
        action: &Action,
        came: &Came,
        told: Told<'_>,
        interrupted: Option<&mut libc::ucontext_t>,
    ) -> u64 {
        // SAFETY: the caller promises that there is room.
        let mut given = unsafe { Given::below(at, &came.info, &told, self.inputs.signal_stack.asked.get()) };
        let (info, context) = given.arguments();
        given.clear_registers();
        // SAFETY: the program has declared its handler to be one; below what it is given there is room.
        unsafe { call_on(context as usize, action.handler, came.signal, info, context) };
        given.obey(&told, interrupted);
        given.blocked()
    }

    /// The same on the guest's own stack. Not part of its caller, whose frame is to be small.
    #[inline(never)]
    fn call_in_host(&self, action: &Action, came: &Came, blocked: u64) -> u64 {
        // SAFETY: zeros are valid.
        let (mut context, mut info): (libc::ucontext_t, _) = (unsafe { core::mem::zeroed() }, came.info);
        context.uc_mcontext.gregs = came.registers;
        context.uc_stack = self.inputs.signal_stack.asked.get();
        *set_in(&mut context) = blocked;
        hosting::call_handler(action, came.signal, &mut info, &mut context);
        blocked_in(&context)
    }
}

pub fn set_in(context: &mut libc::ucontext_t) -> &mut u64 {
    // SAFETY: the kernel's set is the beginning of libc's.
    unsafe { &mut *(&raw mut context.uc_sigmask).cast::<u64>() }
}

/// What is blocked where the thread was interrupted.
pub fn blocked_in(context: &libc::ucontext_t) -> u64 {
    // SAFETY: the kernel's set is the beginning of libc's.
    unsafe { *(&raw const context.uc_sigmask).cast::<u64>() }
}

/// An address at the end of the stack that is in use.
#[inline(always)]
fn stack_pointer() -> usize {
    let here: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    here
}
