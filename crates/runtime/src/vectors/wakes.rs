//! Wake-ups of conditions, where threads keep to access vectors: who waits, and how many of those have been woken.
//!
//! A vector says when a wait is over, but not that there was a signal. Without one a program would see wake-ups that no run has, and with vectors that contradict
//! each other fail in ways of its own. So a wait is over when its turn has come and there is a wake-up for it: one that came after the wait began, as libc has it.
//! A signal when all who wait have been woken is lost.
use super::followed;
use crate::control;
use crate::local::Local;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use run_model::Op;
use runtime_abi::THREADS_MAX;

/// Held by who reads or writes the other two. All of them are relaxed, since they are under it.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Of each thread that waits: the condition, or 0, and when that began.
static WAITS: [Noted; THREADS_MAX] = [const { Noted::nothing() }; THREADS_MAX];
/// Wake-ups that nobody has taken, of which there are never more than threads that wait: the condition, or 0, and when that was.
static WAKES: [Noted; THREADS_MAX] = [const { Noted::nothing() }; THREADS_MAX];
/// Counts what is noted.
static NOW: AtomicU64 = AtomicU64::new(0);
/// One more than the highest place in use in `WAKES`.
static WAKES_USED: AtomicU32 = AtomicU32::new(0);
/// Changes with every wake-up.
pub static WOKEN: AtomicU32 = AtomicU32::new(0);

struct Noted {
    condition: AtomicU64,
    at: AtomicU64,
}

impl Noted {
    const fn nothing() -> Noted {
        Noted {
            condition: AtomicU64::new(0),
            at: AtomicU64::new(0),
        }
    }

    fn is_of(&self, condition: u64) -> bool {
        self.condition.load(Relaxed) == condition
    }

    fn note(&self, condition: u64) {
        self.condition.store(condition, Relaxed);
        self.at.store(NOW.fetch_add(1, Relaxed), Relaxed);
    }
}

fn locked<R>(action: impl FnOnce() -> R) -> R {
    while LOCK.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        // SAFETY: lets others run.
        unsafe { sys::syscall(libc::SYS_sched_yield, [0; 6]) };
    }
    let result = action();
    LOCK.store(0, Release);
    result
}

fn waits() -> &'static [Noted] {
    let threads = control::header().progress.threads.load(Acquire) as usize;
    &WAITS[..threads.min(THREADS_MAX)]
}

fn wakes() -> &'static [Noted] {
    &WAKES[..WAKES_USED.load(Relaxed) as usize]
}

/// A wait begins: signals from now on are for this thread, too.
pub fn begin(local: &Local, condition: u64) {
    locked(|| WAITS[local.index as usize].note(condition));
}

/// A signal, or a broadcast.
pub fn wake(condition: u64, op: Op) {
    locked(|| {
        let waiting = waits().iter().filter(|wait| wait.is_of(condition)).count();
        let woken = wakes().iter().filter(|wake| wake.is_of(condition)).count();
        let more = waiting.saturating_sub(woken);
        let more = if op == Op::CondBroadcast { more } else { more.min(1) };
        for _ in 0..more {
            let Some(place) = WAKES.iter().position(|wake| wake.is_of(0)) else {
                break;
            };
            WAKES[place].note(condition);
            WAKES_USED.fetch_max(place as u32 + 1, Relaxed);
        }
    });
    WOKEN.fetch_add(1, SeqCst);
    sys::futex_wake_all(&WOKEN);
}

/// The wake-up that a waiting thread would take: the oldest since it began to wait, so that who waits for longer finds one as well.
fn wake_for(thread: u32) -> Option<&'static Noted> {
    let wait = &WAITS[thread as usize];
    let (condition, since) = (wait.condition.load(Relaxed), wait.at.load(Relaxed));
    let fits = |wake: &&Noted| wake.is_of(condition) && wake.at.load(Relaxed) > since;
    wakes()
        .iter()
        .filter(|_| condition != 0)
        .filter(fits)
        .min_by_key(|wake| wake.at.load(Relaxed))
}

/// Has a thread been woken that waits?
pub fn is_woken(thread: u32) -> bool {
    locked(|| wake_for(thread).is_some())
}

impl Local {
    /// The thread's wait is over, if it has been woken.
    fn take_wake(&self) -> bool {
        locked(|| {
            let wake = wake_for(self.index);
            if let Some(wake) = wake {
                wake.condition.store(0, Relaxed);
                WAITS[self.index as usize].condition.store(0, Relaxed);
            }
            wake.is_some()
        })
    }

    /// Waits until it is this thread's turn at the condition, and it has been woken.
    pub fn await_wake(&self, condition: u64) -> bool {
        let element = self.element_at(Op::CondWake, condition);
        loop {
            self.await_turn(element);
            let seen = WOKEN.load(SeqCst);
            if self.take_wake() {
                return true;
            }
            self.lack_wake(element, || {
                sys::futex_wait(&WOKEN, seen, followed::PATIENCE_NS);
                WOKEN.load(Relaxed) == seen
            });
        }
    }

    /// The same for a wait that may end by itself: it does when its turn has come.
    pub fn await_turn_to_wake(&self, condition: u64) -> bool {
        self.await_turn(self.element_at(Op::CondWake, condition));
        let is_woken = self.take_wake();
        locked(|| WAITS[self.index as usize].condition.store(0, Relaxed));
        is_woken
    }
}
