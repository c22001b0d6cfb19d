//! How a process ends. In replay it must not end before the other threads have done what they had done when the
//! recorded process ended; in recording, the thread a fatal signal hits is noted.
use crate::control;
use crate::debugger;
use crate::frames;
use crate::local;
use crate::local::Local;
use crate::policy;
use crate::schedule;
use crate::standstill;
use crate::sys;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::ENDED_BY_EXIT;
use runtime_abi::ended;

const FATAL: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGTRAP,
];
/// How long a thread that has come to its end may take to be gone. (The main thread stays, as a zombie.)
const GOING_NS: u64 = 50_000_000;
const LOOK_EVERY_NS: u64 = 100_000;

pub fn is_fatal(signal: c_int) -> bool {
    FATAL.contains(&signal)
}

/// Replay: did the recorded process die of this signal, in whichever thread?
pub fn is_death_by(signal: u32) -> bool {
    has_ended_so(|how| how == signal)
}

/// Replay: did the recorded process end by itself? Otherwise it was killed, or the recording has no more of it.
pub fn is_by_itself() -> bool {
    has_ended_so(|how| how != 0)
}

fn has_ended_so(is_so: impl Fn(u32) -> bool) -> bool {
    let threads = 0..control::header().progress.threads.load(Relaxed);
    threads
        .into_iter()
        .any(|thread| is_so(control::slot(thread).signal.load(Relaxed)))
}

/// Replay: a thread has met a signal that is the end of the process, unless somebody traces it. Returns whether somebody did, and the process went on.
fn is_kept_by_tracer(local: &Local, signal: c_int) -> bool {
    if !policy::are_inputs_answered() || is_death_by(signal as u32) {
        return false;
    }
    if local.is_at_end() && !is_by_itself() {
        // It was killed where it stood with the signal.
        local.stop_here();
    }
    // Behind the instruction, where a tracer lets it go on.
    signal == libc::SIGTRAP && is_by_itself()
}

/// Arranges to be told when the process ends by `exit` or by a fatal signal.
pub fn watch() {
    extern "C" fn at_exit() {
        by_exit();
    }
    // SAFETY: the handlers are functions that live as long as the process.
    unsafe {
        libc::atexit(at_exit);
        for signal in FATAL {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_fatal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            local::unrecorded(|| libc::sigaction(signal, &action, core::ptr::null_mut()));
        }
    }
}

/// A fatal signal: note it (recording) or let the others catch up (replaying), then die of it as without us.
pub extern "C" fn on_fatal(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    if let Some(first) = frames::was_looking() {
        return die_again(first);
    }
    if !policy::is_free()
        && let Some(local) = Local::current()
    {
        if is_kept_by_tracer(local, signal) {
            return;
        }
        if local.birth.is_process.get() && policy::is_imposed() {
            local.vanish();
        }
        if local.birth.is_process.get() {
            // It is not this process that ends.
            local.calls_pass.set(true);
            return die_of(signal, info);
        }
        // What we do from here on is none of the program's.
        local.calls_pass.set(true);
        if local.replay.releasing.take() {
            local.complete();
        }
        local.require_death(signal as u32);
        // SAFETY: the kernel passes what it knows about the signal.
        local.trace_fatal(signal, unsafe { (*info).si_addr() } as u64);
        note_end(local, signal as u32);
        wait_for_others();
        control::header()
            .progress
            .ended
            .store(ended::BY_SIGNAL + signal as u32, Release);
        if policy::is_observed() {
            frames::note(signal);
        }
        debugger::before_death();
    }
    die_of(signal, info);
}

fn die_of(signal: c_int, info: *const libc::siginfo_t) {
    // SAFETY: restores the default action. A fault happens again when we return; a signal that was sent is sent again.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let was_sent = (*info).si_code <= 0;
        if was_sent || signal == libc::SIGTRAP {
            libc::raise(signal);
        }
    }
}

/// On the way to its death by `signal`, another one hit the thread: it dies of the first.
fn die_again(signal: c_int) {
    // SAFETY: restores the default action; whoever sends itself a signal that is not blocked dies of it here.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The calling thread ends the process by `exit` or one of its kin.
pub fn by_exit() {
    if !policy::is_free()
        && let Some(local) = Local::current()
    {
        // What is still done on the way out belongs to the run, too, and somebody else may end the process before it is
        // done. So the end is the last call, if we see it.
        if !control::are_calls_installed() {
            end_now(local);
        }
    }
}

/// The calling thread is about to leave, and everybody with it.
pub fn at_last_call() {
    if let Some(local) = Local::current() {
        if policy::are_inputs_answered() {
            local.pass_advice(-1);
        }
        end_now(local);
    }
}

fn end_now(local: &Local) {
    /// The kernel listens to the first one, too.
    static FIRST: AtomicBool = AtomicBool::new(true);
    if policy::is_imposed() || FIRST.swap(false, Relaxed) {
        note_end(local, ENDED_BY_EXIT);
    }
    wait_for_others();
}

/// Replay: the recorded process became another program here. This one ends.
pub fn by_exec() -> ! {
    if let Some(local) = Local::current() {
        note_end(local, ENDED_BY_EXIT);
    }
    wait_for_others();
    control::header().progress.ended.store(ended::REPLACED, Release);
    // SAFETY: ends the process.
    unsafe { sys::syscall(libc::SYS_exit_group, [0; 6]) };
    standstill::sleep_forever()
}

/// Recording: this thread ends the process. Replaying: it does so only if it did.
fn note_end(local: &Local, how: u32) {
    if policy::is_observed() {
        local.slot.signal.store(how, Relaxed);
    } else if policy::is_imposed() && schedule::somebody_else_ends(local.index) {
        local.stop_until_freed();
    }
}

/// Replay: a thread whose end ended the recorded process, as the last one, waits until the others are really gone.
pub fn be_the_last(local: &Local) {
    if local.slot.signal.load(Relaxed) != ENDED_BY_EXIT {
        return;
    }
    wait_for_others();
    if turns::is_on() {
        return;
    }
    for other in (0..control::header().progress.threads.load(Relaxed)).filter(|other| *other != local.index) {
        let mut waited = 0;
        while sys::is_thread(control::slot(other).os_thread.load(Relaxed)) && waited < GOING_NS {
            sys::sleep_ns(LOOK_EVERY_NS);
            waited += LOOK_EVERY_NS;
        }
    }
}

/// Replay: waits until every other thread is where the recording has its end.
fn wait_for_others() {
    if !policy::is_imposed() {
        return;
    }
    let Some(local) = Local::current() else { return };
    if turns::is_on() {
        turns::wait_for_end(local);
        return turns::process_order::pass_on();
    }
    turns::process_order::pass_on();
    local.wait_for_others_steered();
    schedule::wait_until_others_are_done(local.index);
    if control::is_steered() {
        return;
    }
    // One of them may have been writing: there is more of it to be seen than there are events.
    let mut waited = 0;
    while waited < GOING_NS && !local::some_end_unseen() && !schedule::others_have_stopped(local.index) {
        sys::sleep_ns(LOOK_EVERY_NS);
        waited += LOOK_EVERY_NS;
    }
}
