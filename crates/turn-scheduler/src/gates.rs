//! Gates: a thread is held until another one has completed so many events.
//!
//! A gate is `(my event, points of other threads)`. Threads publish their counts anyway, so waiting is reading other
//! slots; threads without a gate run freely, in parallel. Who has looked for a while sleeps on the other thread's word `wakeups`, and says
//! in its word `wake_at` from which count on it wants to be woken. Who completes events looks there, and wakes.
//!
//! ```text
//! sleeper                                        the awaited thread
//! 1  before = wakeups                            a  count = n            (a plain store)
//! 2  wake_at = min(wake_at, wanted)  (locked)    b  wake_at <= n ?
//! 3  count < wanted ?                            c  wake_at = 0          (locked)
//! 4  sleep while wakeups == before               d  wakeups += 1; wake
//! ```
//!
//! The bad interleavings:
//!
//! - *The wish is wiped out*: the thread wakes somebody else, and clears `wake_at` (c) after the sleeper has written its wish (2). Then `wakeups` grows (d)
//!   after 2, hence after 1, and the sleeper does not sleep, or is woken, and wishes again. That is why 1 comes before 2. When it came after it, a
//!   sleeper could read the number that d had left, and sleep without a wish.
//! - *The count comes between look and sleep* (a after 3): then b comes after 2, sees the wish, and d wakes.
//! - *The count waits in the store buffer*: a is a plain store, and b may load before it is visible to 3. Then the sleeper sleeps, and nobody
//!   wakes it. A locked instruction at each event would cost all that never wait. Instead nobody sleeps for longer than [`LOOK_AFTER_NS`], then twice
//!   as long, before it looks for itself.
//! - *Compiled code* does not look at `wake_at` at all: it comes to the runtime when it has come to `gate`, which a sleeper lowers, and which the thread itself raises
//!   at each of its own gates ([`arm`]). It looks for wishes behind that: one that is written before is seen, and one that is written after lowers the gate once more. What is left is
//!   again the time that the raised gate waits in the store buffer.
//! - *A wait that cannot end is reported where it can*: [`Gates::is_stuck`].
//!
//! That is one of two relays of the turn (PEREGRINE, section 3.2), *semaphore*. With the other one, *flag*, who waits looks at the count and never sleeps: nobody has to be
//! woken, and nothing of the above matters. After a few looks it offers its processor to others, so that more threads than processors come
//! along. *Auto* looks as long as that has paid, and sleeps then.
use crate::planted::Fault;
use crate::planted::is_planted;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use machine::Machine;
use machine::Word;
use runtime_abi::relay::Relay;
use runtime_abi::thread_state;

/// The words of a thread that others look at.
pub trait Slot<M: Machine> {
    /// Events that it has completed. It alone writes.
    fn count(&self) -> &M::U64;
    /// Compiled code runs up to this count by itself.
    fn gate(&self) -> &M::U64;
    /// The least count from which on somebody wants to be woken; 0: nobody does.
    fn wake_at(&self) -> &M::U64;
    /// Grows with each wake-up; those who wait for the thread sleep on it.
    fn wakeups(&self) -> &M::U32;
    /// One of `thread_state`.
    fn state(&self) -> &M::U32;
    /// Waiting: for which thread, and which count of it.
    fn wait_thread(&self) -> &M::U32;
    fn wait_count(&self) -> &M::U64;
}

/// The slots of all threads. Values of it are handles.
pub trait Slots<M: Machine>: Copy {
    type Slot: Slot<M>;

    fn slot(&self, thread: u32) -> &Self::Slot;
    /// Threads there have been.
    fn threads(&self) -> u32;
    /// Has the replay failed?
    fn has_diverged(&self) -> bool;
}

/// How a wait at a gate ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The other thread has come there.
    Arrived,
    /// The replay has failed meanwhile.
    Diverged,
    /// It never will.
    Stuck,
}

/// A sleeper that is not woken looks for itself after this long: its wish may have been missed. Then after twice as long.
pub const LOOK_AFTER_NS: u64 = 1_000_000;
const LOOK_AFTER_NS_MAX: u64 = 64_000_000;
/// Looks at the other thread's count before going to sleep.
pub const SPINS_AT_FIRST: u32 = 512;
/// Some tens of microseconds: about as long as it takes to wake somebody.
pub const SPINS_MAX: u32 = 4096;
const SPINS_MIN: u32 = 32;
/// Rests between two looks, at most. Each look takes the line of the cache with its count from the awaited thread, which stores to it at every event: the more of them
/// are still to come, the fewer looks.
const RESTS_MAX: u64 = 64;
/// By flag: looks between two offers of the processor. Some 2 µs, which is more than a hand-over takes between threads that both run.
const LOOKS_EACH: u32 = 64;

/// The thread of `slot` has completed so many events more.
#[inline(always)]
pub fn complete_many<M: Machine>(machine: M, slot: &impl Slot<M>, events: u64) {
    if is_planted(Fault::WakesBeforeCount) {
        wake_sleepers(machine, slot);
    }
    // Relaxed: only this thread writes it.
    let count = slot.count().load(Relaxed) + events;
    // Release: whoever waits for this count sees what the events did (pairs with the Acquire in `Gates::wait_for`).
    slot.count().store(count, Release);
    if !is_planted(Fault::WakesBeforeCount) {
        wake_sleepers(machine, slot);
    }
}

/// Compiled code of the thread of `slot`, which calls this, runs up to `gate` by itself, or to where somebody wants to be woken.
#[inline]
pub fn arm<M: Machine>(slot: &impl Slot<M>, gate: u64) {
    // Relaxed, both: what a sleeper does in between is found by itself before long.
    slot.gate().store(gate, Relaxed);
    let wanted = slot.wake_at().load(Relaxed);
    if wanted != 0 && wanted < gate && !is_planted(Fault::RaisesGateOverWish) {
        slot.gate().fetch_min(wanted, Relaxed);
    }
}

/// Wakes who sleeps until the thread of `slot` has come as far as it has.
#[inline(always)]
pub fn wake_sleepers<M: Machine>(machine: M, slot: &impl Slot<M>) {
    // Relaxed: a sleeper that is missed looks again by itself before long. 0 wraps around: nobody sleeps.
    if slot.wake_at().load(Relaxed).wrapping_sub(1) < slot.count().load(Relaxed) {
        wake(machine, slot);
    }
}

/// The thread of `slot` has come to where somebody sleeps until it does. Those who sleep for longer say so again.
#[cold]
fn wake<M: Machine>(machine: M, slot: &impl Slot<M>) {
    if is_planted(Fault::WakesBeforeWakeups) {
        machine.futex_wake_all(slot.wakeups());
    }
    slot.wake_at().store(0, SeqCst);
    // Release: pairs with the Acquire in `sleep_until_woken`.
    slot.wakeups().fetch_add(1, Release);
    if !is_planted(Fault::WakesBeforeWakeups) {
        machine.futex_wake_all(slot.wakeups());
    }
}

/// The gates of a process.
#[derive(Clone, Copy)]
pub struct Gates<M: Machine, S: Slots<M>> {
    pub machine: M,
    pub slots: S,
}

impl<M: Machine, S: Slots<M>> Gates<M, S> {
    /// Holds `me` until `thread` has completed `count` events. `spins`: how often the relay `auto` looks before it sleeps; what pays next time comes back.
    pub fn wait_for(&self, me: u32, thread: u32, count: u64, relay: Relay, spins: u32) -> (Waited, u32) {
        let awaited = self.slots.slot(thread);
        // Acquire: pairs with the Release in `complete_many` and with compiled code's plain stores, which x86
        // keeps in order after the accesses they count.
        let arrived = || awaited.count().load(Acquire) >= count;
        if arrived() {
            return (Waited::Arrived, spins);
        }
        let own = self.slots.slot(me);
        // Compiled code may have come here without waking anybody.
        wake_sleepers(self.machine, own);
        let looks = match relay {
            Relay::Auto => spins,
            Relay::Flag => LOOKS_EACH,
            Relay::Semaphore => 0,
        };
        // Spinning pays if the other thread runs at the same time, which only trying shows.
        let mut left = looks;
        while left > 0 {
            // Acquire: as above.
            let missing = count.saturating_sub(awaited.count().load(Acquire));
            if missing == 0 {
                return (Waited::Arrived, (spins + spins / 8).min(SPINS_MAX));
            }
            let rests = (missing.min(RESTS_MAX) as u32).min(left);
            self.machine.spin_for(rests);
            left -= rests;
        }
        own.wait_thread().store(thread, Relaxed);
        own.wait_count().store(count, Relaxed);
        // Release: pairs with the Acquire in `follow_waits`.
        own.state().store(thread_state::WAITING, Release);
        let waited = match relay {
            Relay::Flag => self.look(me, arrived),
            Relay::Auto | Relay::Semaphore => self.sleep(me, thread, count, arrived),
        };
        if waited == Waited::Arrived {
            own.state().store(thread_state::RUNNING, Relaxed);
        }
        (waited, (spins / 2).max(SPINS_MIN))
    }

    /// By flag: looks until it has come.
    fn look(&self, me: u32, arrived: impl Fn() -> bool) -> Waited {
        let mut looks = 0u32;
        loop {
            if arrived() {
                return Waited::Arrived;
            }
            if self.slots.has_diverged() {
                return Waited::Diverged;
            }
            if self.is_stuck(me) {
                return Waited::Stuck;
            }
            match looks % LOOKS_EACH {
                0 => self.machine.yield_now(),
                _ => self.machine.spin(),
            }
            looks = looks.wrapping_add(1);
        }
    }

    fn sleep(&self, me: u32, thread: u32, count: u64, arrived: impl Fn() -> bool) -> Waited {
        let mut look_after_ns = LOOK_AFTER_NS;
        loop {
            self.sleep_until_woken(self.slots.slot(thread), count, look_after_ns);
            if arrived() {
                return Waited::Arrived;
            }
            // A thousand threads that look all the time would leave no time for those that are awaited.
            look_after_ns = (2 * look_after_ns).min(LOOK_AFTER_NS_MAX);
            if self.slots.has_diverged() {
                return Waited::Diverged;
            }
            if self.is_stuck(me) {
                return Waited::Stuck;
            }
        }
    }

    fn sleep_until_woken(&self, awaited: &S::Slot, count: u64, look_after_ns: u64) {
        // Acquire: pairs with the Release in `wake`. Before the wish, which `wake` may wipe out (see above).
        let mut wakeups = awaited.wakeups().load(Acquire);
        wish(awaited.wake_at(), count);
        if is_planted(Fault::ReadsWakeupsLate) {
            wakeups = awaited.wakeups().load(Acquire);
        }
        // Compiled code does not wake anybody, so it must come to the runtime. Relaxed, and perhaps overwritten by the
        // thread itself: as above, a sleeper looks for itself in the end.
        awaited.gate().fetch_min(count, Relaxed);
        if is_planted(Fault::SleepsWithoutLook) || awaited.count().load(Acquire) < count {
            self.machine.futex_wait(awaited.wakeups(), wakeups, look_after_ns);
        }
    }

    /// Can the wait of `thread` never end? True if it leads to a thread that is gone, or around in a circle.
    ///
    /// Threads go on while they are looked at, so what was seen counts only if it is seen twice. A wait that has ended is
    /// not seen again, because counts only grow; hence all waits of the second look lasted from the first to the second.
    pub fn is_stuck(&self, thread: u32) -> bool {
        let path = self.follow_waits(thread);
        path.is_some() && (is_planted(Fault::LooksOnce) || self.follow_waits(thread) == path)
    }

    /// Follows the waits from `thread` on; if they lead nowhere, a number that stands for the path.
    fn follow_waits(&self, thread: u32) -> Option<u64> {
        let mut path = 0u64;
        let mut at = thread;
        for _ in 0..self.slots.threads() + 1 {
            let slot = self.slots.slot(at);
            // Acquire: pairs with the Release in `wait_for`: what it waits for is there.
            if slot.state().load(Acquire) != thread_state::WAITING {
                return None;
            }
            let (next, count) = (slot.wait_thread().load(Relaxed), slot.wait_count().load(Relaxed));
            path = (path ^ u64::from(next) << 48 ^ count).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let awaited = self.slots.slot(next);
            // Acquire: if it is gone, its last count is there.
            let state = awaited.state().load(Acquire);
            if awaited.count().load(Acquire) >= count {
                return None;
            }
            if state == thread_state::EXITED || state == thread_state::STOPPED || next == thread {
                return Some(path);
            }
            at = next;
        }
        // A circle that does not contain `thread`: those on it find out for themselves.
        None
    }
}

/// Somebody wants to be woken from `count` on, perhaps besides others.
fn wish<W: Word<Value = u64>>(wake_at: &W, count: u64) {
    let mut now = wake_at.load(Relaxed);
    loop {
        let wanted = if now == 0 { count } else { now.min(count) };
        // SeqCst: the wish is visible before the count is looked at again.
        match wake_at.compare_exchange(now, wanted, SeqCst, SeqCst) {
            Ok(_) => return,
            Err(other) => now = other,
        }
    }
}
