//! Cancellation of threads by others, at a defined event.
//!
//! libc cancels a thread by a signal of its own, whose handler unwinds the stack where the thread happens to be: in a
//! system call, or anywhere if the thread has asked for that. We stand in front of it. `pthread_cancel` notes the request
//! and sends the signal; our handler interrupts the system call, if there is one, and the thread cancels itself at its
//! next safe point at which libc would have let it be cancelled. That is recorded, and replay does it there.
//!
//! The waits of libc that we interpose (`interpose::conditions::cancellable`) take the request as libc does.
use crate::control;
use crate::handlers;
use crate::handlers::CANCELLATION;
use crate::handles::object_of as object_of_thread;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::sys;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;
use thread_cells::HandlerWord;

const ENABLED: c_int = 0;
const DISABLED: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

/// Has somebody asked for the end of this thread?
static REQUESTED: [AtomicBool; runtime_abi::THREADS_MAX] = [const { AtomicBool::new(false) }; runtime_abi::THREADS_MAX];

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Is this the signal that has our handler in the place of libc's? libc is told that it has installed its own.
pub fn is_ours(signal: usize) -> bool {
    signal == CANCELLATION as usize && control::observes_sync()
}

/// How long after a request that came too early for the call it was to end, it comes again.
const AGAIN_NS: u64 = 1_000_000;

/// Scope `inputs`, recording: the request has come, and is to come again until the thread is at a safe point. There is no
/// other way to be sure that it does not come just before the thread begins to wait inside the kernel.
///
/// `timer` is the timer's number and one, or 0.
pub fn come_again(timer: &HandlerWord) {
    if timer.get() == 0
        && let Some(made) = sys::create_timer(CANCELLATION, 0)
    {
        timer.set(u64::from(made) + 1);
    }
    if let Some(timer) = timer.get().checked_sub(1) {
        sys::set_timer(timer as u32, AGAIN_NS, 0);
    }
}

/// The thread is at a safe point.
pub fn stop_coming(timer: &HandlerWord) {
    if let Some(timer) = timer.replace(0).checked_sub(1) {
        // SAFETY: a timer of ours.
        unsafe { sys::syscall(libc::SYS_timer_delete, [timer as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Our handler in the place of libc's. At scope `inputs`: `is_signal`.
pub fn install() {
    if !control::observes_sync() {
        return;
    }
    let action: [usize; 4] = [
        on_signal as *const () as usize,
        (libc::SA_SIGINFO | libc::SA_RESTART) as usize | handlers::HAS_RESTORER as usize,
        handlers::restorer(),
        0,
    ];
    // SAFETY: the kernel reads an action of four words; the handler lives as long as the process.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction,
            [CANCELLATION as usize, action.as_ptr() as usize, 0, 8, 0, 0],
        )
    };
}

/// Recording: asks for the end of `thread`.
pub fn request(thread: u32) {
    REQUESTED[thread as usize].store(true, Relaxed);
    let id = control::slot(thread).os_thread.load(Relaxed);
    if id != 0 {
        // SAFETY: touches no memory.
        unsafe {
            sys::syscall(
                libc::SYS_tgkill,
                [sys::process_id() as usize, id as usize, CANCELLATION as usize, 0, 0, 0],
            )
        };
    }
}

fn is_enabled() -> bool {
    let mut state = 0;
    // SAFETY: changes a flag of the calling thread, and changes it back.
    unsafe {
        pthread_setcancelstate(DISABLED, &mut state);
        pthread_setcancelstate(state, core::ptr::null_mut());
    }
    state == ENABLED
}

/// May the calling thread be cancelled where it is? Within a system call at which it may be, libc says so, too.
fn is_possible_here() -> bool {
    let mut kind = 0;
    // SAFETY: changes the kind of the calling thread, and changes it back.
    is_enabled()
        && unsafe {
            pthread_setcanceltype(DEFERRED, &mut kind);
            pthread_setcanceltype(kind, core::ptr::null_mut());
            kind == ASYNCHRONOUS
        }
}

/// Makes libc cancel the calling thread, now or at its next test. It enters the kernel only to install its handler.
pub fn ask_libc() {
    // SAFETY: a request to oneself.
    unsafe { real::pthread_cancel(libc::pthread_self()) };
}

extern "C-unwind" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(local) = Local::current() else {
        // libc's own request, to a thread that we do not know.
        return ask_libc();
    };
    if !local.is_to_be_cancelled() {
        return;
    }
    local.slot.gate.store(0, Relaxed);
    if local.inputs.waits_cancellably.get() {
        local.pass_request_on();
    } else if is_possible_here() {
        // SAFETY: the kernel's context of this thread.
        sys::leave_call(unsafe { &mut *context.cast() }, -libc::EINTR as isize);
    }
}

impl Local {
    /// Recording: has somebody asked for the end of this thread?
    #[inline]
    pub fn is_to_be_cancelled(&self) -> bool {
        REQUESTED[self.index as usize].load(Relaxed) && !self.inputs.is_cancelled.get() && policy::is_observed()
    }

    /// Recording, in or before a wait of libc's: libc is to act on the request.
    pub fn pass_request_on(&self) {
        if self.is_to_be_cancelled() && is_enabled() {
            self.inputs.is_cancelled.set(true);
            ask_libc();
        }
    }

    /// Recording, at a safe point: does not return if the thread is to be cancelled, and can be.
    pub fn cancel_here(&self) {
        if self.is_to_be_cancelled() && is_possible_here() {
            self.cancel();
        }
    }

    /// Recording, before or after a call at which libc tests for cancellation, and which is part of an event of ours.
    pub fn test_cancel(&self) {
        if self.is_to_be_cancelled() && !self.inside_event.get() && is_enabled() {
            self.cancel();
            // SAFETY: the request is there, and cancellation is enabled: does not return.
            unsafe { real::pthread_testcancel() };
        }
    }

    fn cancel(&self) {
        self.inputs.is_cancelled.set(true);
        let object = object_of_thread(self.index);
        let canceller = self.last_user(object);
        self.record_sync(Op::Cancelled, object, 1, canceller.as_slice());
        self.complete();
        ask_libc();
    }
}

/// Replay: if the recording was cancelled here, is cancelled here: does not return.
///
/// The thread cancels itself. Who cancelled it in the recording has only come to its event: a request made by
/// somebody else could take effect too early.
pub fn replay(local: &Local, object: u64, before: impl FnOnce()) {
    if local.expects(Op::Cancelled) {
        // No safe point: it may be the one we come from.
        local.wait_for_turn(Op::Cancelled, object);
        before();
        local.complete();
        ask_libc();
        // SAFETY: cancellation is enabled, as it was: the request takes effect here at the latest.
        unsafe { real::pthread_testcancel() };
    }
}
