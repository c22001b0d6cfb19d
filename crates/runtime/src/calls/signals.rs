//! Signals with handlers: delivered at a defined event while recording, and at the same one in replay.
//!
//! The kernel calls `on_signal`, which only notes the signal; the program's handler runs at the thread's next *safe point*:
//! when a system call returns, before a synchronisation operation, or before an access that takes the slow path (which
//! `gate` = 0 makes the next one do). There it is logged as an input, and replay runs it at that event.
//!
//! At scope `inputs` only system calls are safe points. There, not every one of them is an event, so the entry also says
//! how many others the thread had made.
//!
//! A fault (SIGSEGV and its kin, caused by the thread itself) comes again in replay by itself, so its handler runs at once.
use crate::calls;
use crate::calls::cancellation;
use crate::calls::echoes;
use crate::calls::inputs::Range;
use crate::control;
use crate::control::Mode;
use crate::ending;
use crate::host;
use crate::interpose::object_of_thread;
use crate::interpose::replay_cancellation;
use crate::local::Local;
use crate::sys;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::Entry;
use run_model::Op;

const SIGNALS: usize = 65;
pub const FIRST: u32 = log_format::inputs::FIRST_SIGNAL;
const INFO_BYTES: usize = size_of::<libc::siginfo_t>();
const PENDING_MAX: usize = 16;
const ALL: u64 = u64::MAX;
/// A signal of libc's own: by it, all threads change their ids.
const CHANGE_IDS: usize = 33;

/// The kernel's idea of an action.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

/// In a host: the signal by which calls are sent to us, which its guest may not block.
pub const NEVER_BLOCKED: u64 = 1 << (libc::SIGSYS - 1);

/// An action that is remembered.
pub struct Kept {
    handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

/// What the program has asked for.
static WISHES: [Kept; SIGNALS] = [const { Kept::new() }; SIGNALS];

impl Kept {
    pub const fn new() -> Kept {
        Kept {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicU64::new(0),
            restorer: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
        }
    }

    pub fn get(&self) -> Action {
        Action {
            handler: self.handler.load(Relaxed),
            flags: self.flags.load(Relaxed),
            restorer: self.restorer.load(Relaxed),
            mask: self.mask.load(Relaxed),
        }
    }

    pub fn set(&self, action: &Action) {
        self.handler.store(action.handler, Relaxed);
        self.flags.store(action.flags, Relaxed);
        self.restorer.store(action.restorer, Relaxed);
        self.mask.store(action.mask, Relaxed);
    }

    fn has_handler(&self) -> bool {
        !matches!(self.handler.load(Relaxed), libc::SIG_DFL | libc::SIG_IGN)
    }
}

/// Signals that have come to a thread, and whose handlers have not run yet.
#[repr(C)]
pub struct Pending {
    pub count: usize,
    signals: [(c_int, libc::siginfo_t); PENDING_MAX],
}

impl Pending {
    pub fn new() -> Pending {
        // SAFETY: a siginfo of zeros is valid.
        let none: libc::siginfo_t = unsafe { core::mem::zeroed() };
        Pending {
            signals: [(0, none); PENDING_MAX],
            count: 0,
        }
    }
}

/// Do calls go on when the program's handler of this signal has run?
pub fn restarts(signal: u32) -> bool {
    let wish = WISHES.get(signal as usize);
    wish.is_some_and(|wish| wish.flags.load(Relaxed) & libc::SA_RESTART as u64 != 0)
        && !cancellation::is_signal(signal as usize)
}

/// The same, in the place of what is returned.
pub fn replace(signal: usize, handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) -> Action {
    let mut old = Action::default();
    // SAFETY: the kernel writes an action.
    unsafe { sys::syscall(libc::SYS_rt_sigaction, [signal, 0, &raw mut old as usize, 8, 0, 0]) };
    install(signal, handler);
    old
}

/// Puts back what `replace` returned.
pub fn set_real(signal: usize, action: &Action) {
    // SAFETY: the kernel reads an action that it had before.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction,
            [signal, action as *const Action as usize, 0, 8, 0, 0],
        )
    };
}

/// A handler of ours, which is not to be interrupted.
pub fn install(signal: usize, handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) {
    let action = Action {
        handler: handler as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_RESTART) as u64 | cancellation::HAS_RESTORER,
        restorer: cancellation::restorer(),
        mask: ALL,
    };
    let action = host::wrap(signal, &action);
    // SAFETY: the kernel reads an action; the handler lives as long as the process.
    unsafe { sys::syscall(libc::SYS_rt_sigaction, [signal, &raw const action as usize, 0, 8, 0, 0]) };
}

/// Does the program handle this signal itself?
pub fn is_handled(signal: usize) -> bool {
    WISHES.get(signal).is_some_and(Kept::has_handler)
}

/// The program's rt_sigaction.
///
/// # Safety
/// As for the system call.
pub unsafe fn set_action(arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    let real = |arguments| unsafe { sys::syscall(libc::SYS_rt_sigaction, arguments) };
    let [signal, new, old, ..] = arguments;
    let Some(wish) = WISHES.get(signal) else {
        return real(arguments);
    };
    let before = wish.get();
    if new != 0 && (turns::is_timer_signal(signal) || host::is_on() && signal == libc::SIGSYS as usize) {
        return 0;
    }
    if new != 0 {
        // SAFETY: the caller's promise.
        let asked = unsafe { *(new as *const Action) };
        let mut given = asked;
        if signal == CHANGE_IDS && !host::is_on() {
            given.handler = on_change_of_ids as *const () as usize;
        } else if !matches!(asked.handler, libc::SIG_DFL | libc::SIG_IGN) {
            given.handler = on_signal as *const () as usize;
            given.flags |= libc::SA_SIGINFO as u64;
            // The program's handler runs later; ours is not to be interrupted.
            given.mask = ALL;
            given.flags &= !(libc::SA_RESETHAND as u64 | libc::SA_NODEFER as u64);
            if cancellation::is_signal(signal) {
                given.flags &= !(libc::SA_RESTART as u64);
            }
        } else if asked.handler == libc::SIG_DFL && ending::is_fatal(signal as c_int) {
            given.handler = ending::on_fatal as *const () as usize;
            given.flags |= (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64;
        }
        let given = host::wrap(signal, &given);
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
        // SAFETY: the caller's promise.
        unsafe { *(old as *mut Action) = before };
    }
    0
}

/// What a handler and the recorder below it need; those of programs are often as small as the kernel allows.
const STACK_BYTES: u64 = 1 << 18;
const GUARD_BYTES: u64 = 4096;

/// The stack that the program wants its handlers to run on, and the larger one that they run on instead.
pub struct SignalStack {
    asked: libc::stack_t,
    /// The lowest address of ours; 0 if there is none yet.
    ours: u64,
}

impl SignalStack {
    pub const fn new() -> SignalStack {
        SignalStack {
            asked: libc::stack_t {
                ss_sp: core::ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            },
            ours: 0,
        }
    }
}

/// The program's sigaltstack.
///
/// # Safety
/// As for the system call.
pub unsafe fn set_stack(local: &mut Local, arguments: [usize; 6]) -> isize {
    let [new, old, ..] = arguments;
    let before = local.signal_stack.asked;
    // SAFETY: the caller's promise.
    let asked = (new != 0).then(|| unsafe { *(new as *const libc::stack_t) });
    let mut given = asked;
    if let Some(stack) = given.as_mut().filter(|stack| stack.ss_flags & libc::SS_DISABLE == 0)
        && !control::inputs_only()
        && (libc::MINSIGSTKSZ..STACK_BYTES as usize).contains(&stack.ss_size)
    {
        if local.signal_stack.ours == 0 {
            // In the arena, where everything has a shadow, and at an address that comes back.
            let block = local.allocate(STACK_BYTES + 2 * GUARD_BYTES);
            if block != 0 {
                let start = block.next_multiple_of(GUARD_BYTES);
                sys::forbid(start, GUARD_BYTES as usize);
                local.signal_stack.ours = start + GUARD_BYTES;
            }
        }
        if local.signal_stack.ours != 0 {
            stack.ss_sp = local.signal_stack.ours as *mut c_void;
            stack.ss_size = STACK_BYTES as usize;
        }
    }
    let place = |stack: &Option<libc::stack_t>| stack.as_ref().map_or(0, |stack| &raw const *stack as usize);
    let mut now = before;
    // SAFETY: two stacks of ours, or none.
    let result = unsafe {
        sys::syscall(
            libc::SYS_sigaltstack,
            [place(&given), &raw mut now as usize, 0, 0, 0, 0],
        )
    };
    if result < 0 {
        return result;
    }
    if let Some(asked) = asked {
        local.signal_stack.asked = asked;
    }
    if old != 0 {
        let answer = libc::stack_t {
            // Whether a handler runs on it now, only the kernel knows.
            ss_flags: before.ss_flags & libc::SS_DISABLE | now.ss_flags & libc::SS_ONSTACK,
            ..before
        };
        // SAFETY: the caller's promise.
        unsafe { *(old as *mut libc::stack_t) = answer };
    }
    0
}

/// libc makes a thread do something that is not the program's doing: at once, since somebody waits for it.
extern "C" fn on_change_of_ids(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    calls::unrecorded(|| call(WISHES[signal as usize].get(), signal, info, context));
}

/// A signal the program has a handler for.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's siginfo.
    let cause = unsafe { *info };
    // A positive code: the kernel sent it because of what the thread did. Timers are outside (SI_TIMER is negative).
    let is_fault = ending::is_fatal(signal) && cause.si_code > 0;
    match (control::mode(), Local::current()) {
        (Mode::Record, Some(local)) if !is_fault && !local.ends_unseen => {
            let is_request = cancellation::is_signal(signal as usize);
            if is_request {
                cancellation::come_again(&mut local.request_timer);
            }
            let pending = &mut local.pending;
            let is_known = is_request && cause.si_code == libc::SI_TIMER;
            if pending.count < PENDING_MAX && !is_known {
                pending.signals[pending.count] = (signal, cause);
                pending.count += 1;
            }
            // The next access of compiled code takes the slow path.
            local.slot.gate.store(0, Relaxed);
        }
        // It comes from the log.
        (Mode::Replay, Some(_)) if !is_fault => {}
        (_, local) => {
            if let Some(local) = local {
                local.give_up_elements();
            }
            let action = WISHES[signal as usize].get();
            match host::is_on() {
                // SAFETY: the kernel's siginfo and context.
                true => unsafe { host::deliver(&action, signal, info, context.cast()) },
                false => call(action, signal, info, context),
            }
        }
    }
}

fn call(action: Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if host::is_on() {
        return host::call_handler(&action, signal, info, context.cast());
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

/// Blocks all signals; returns what was blocked before. A thread that begins is not to be interrupted before it is known.
pub fn block_all() -> u64 {
    mask(libc::SIG_SETMASK, ALL)
}

pub fn restore(blocked: u64) {
    mask(libc::SIG_SETMASK, blocked);
}

/// Blocks signals as told, and returns what was blocked before.
fn mask(how: c_int, set: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: the kernel reads and writes one word each.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigprocmask,
            [how as usize, &raw const set as usize, &raw mut old as usize, 8, 0, 0],
        )
    };
    old
}

impl Local {
    /// A safe point: runs the handlers of signals that have come (recording), or that came here (replay).
    #[inline]
    pub fn at_safe_point(&mut self) {
        let due = match control::mode() {
            Mode::Record => self.pending.count != 0 || self.is_to_be_cancelled(),
            _ => self.is_signal_due() || self.was_cancelled_here(),
        };
        if due && !self.inside_event && !self.calls_pass {
            self.deliver();
        }
    }

    /// Replay: did a signal come here?
    ///
    /// At scope `inputs` there may be many calls between two events that are not logged, and as many safe points.
    #[inline]
    fn is_signal_due(&self) -> bool {
        let Some((event, calls)) = self.recorded_inputs.next_signal() else {
            return false;
        };
        if self.recorded_inputs.has_place() && turns::is_on() {
            return event == self.event() && turns::is_next(self.index) && self.real_calls as u32 >= calls;
        }
        event == self.event() && (!control::inputs_only() || calls == self.real_calls as u32)
    }

    #[cold]
    fn deliver(&mut self) {
        if control::mode() == Mode::Replay {
            while self.is_signal_due() {
                self.deliver_next();
            }
            if self.was_cancelled_here() {
                replay_cancellation(self, object_of_thread(self.index), || ());
            }
            self.arm_gate();
            return;
        }
        loop {
            let before = mask(libc::SIG_SETMASK, ALL);
            let first = (self.pending.count > 0).then(|| self.pending.signals[0]);
            if first.is_some() {
                self.pending.signals.copy_within(1.., 0);
                self.pending.count -= 1;
            }
            mask(libc::SIG_SETMASK, before);
            let Some((signal, info)) = first else { break };
            let range = Range {
                address: 0,
                from: &raw const info as usize,
                bytes: INFO_BYTES,
            };
            self.log_signal(signal, range);
            if cancellation::is_signal(signal as usize) {
                cancellation::stop_coming(&mut self.request_timer);
            }
            self.run_handler(signal, info);
        }
        self.cancel_here();
        self.next_change_point();
    }

    /// Replay: the signal that comes next, if one does and its turn has come, is delivered here.
    pub fn deliver_next(&mut self) {
        let is_due = !turns::is_on() || !self.recorded_inputs.has_place() || turns::is_next(self.index);
        if !is_due || self.recorded_inputs.next_signal_number(self.event()).is_none() {
            return;
        }
        let Some(entry) = self.take_input() else {
            return;
        };
        // SAFETY: a siginfo of zeros is valid.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        if let Some((_, bytes)) = entry.ranges().next() {
            let bytes = &bytes[..bytes.len().min(INFO_BYTES)];
            crate::calls::inputs::copy(bytes.as_ptr(), (&raw mut info).cast(), bytes.len());
        }
        if turns::is_on() {
            echoes::replace_in_info(&raw mut info as usize);
        }
        self.run_handler((entry.entry.number - FIRST) as c_int, info);
    }

    /// Replay: was this thread cancelled at the coming event, by a request of somebody else?
    fn was_cancelled_here(&self) -> bool {
        let gate = self.cursor.peek(self.event());
        gate.is_some_and(|gate| gate.op == Op::Cancelled as u8 && gate.object == object_of_thread(self.index))
    }

    fn log_signal(&mut self, signal: c_int, info: Range) {
        let entry = Entry {
            event: self.event(),
            number: FIRST + signal as u32,
            check: self.real_calls as u32,
            time: calls::now(),
            ..Entry::default()
        };
        // SAFETY: a siginfo of ours.
        unsafe { self.inputs.append(entry, &[info]) };
    }

    fn run_handler(&mut self, signal: c_int, mut info: libc::siginfo_t) {
        let Some(wish) = WISHES.get(signal as usize).filter(|wish| wish.has_handler()) else {
            return;
        };
        let action = wish.get();
        if action.flags & libc::SA_RESETHAND as u64 != 0 {
            wish.handler.store(libc::SIG_DFL, Relaxed);
        }
        let own = if action.flags & libc::SA_NODEFER as u64 != 0 {
            0
        } else {
            1 << (signal - 1)
        };
        // SAFETY: a context of zeros is valid; the thread stands in a call, so there is little to tell.
        let mut context: libc::ucontext_t = unsafe { core::mem::zeroed() };
        let never = if host::is_on() { NEVER_BLOCKED } else { 0 };
        let before = mask(libc::SIG_BLOCK, (action.mask | own) & !never);
        call(action, signal, &mut info, (&raw mut context).cast());
        mask(libc::SIG_SETMASK, before);
    }
}
