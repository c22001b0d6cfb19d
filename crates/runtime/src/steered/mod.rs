//! A run of scope `sync` whose threads race: replayed one thread at a time, under all its gates, with every plain access seen.
//!
//! Gates order synchronisations only, so a replay of a program that races depends on the time. Here nothing does: one thread
//! runs, the *holder*, until it comes to a gate that is closed, to an event that is another one's turn by the order that the tool made
//! of all events (the file `turns`), or to an access before which an edit holds it ([`accesses`]). Then it gives up, and says what it waits for;
//! who goes on is decided by the holder alone, from counts and these words, while all others sleep. So the same edits are
//! the same replay. `docs/search.md`.
//!
//! A thread that looks at the same memory again and again gives up after so many looks, a number and no time. If nobody can go on, threads that edits hold do;
//! if none is held, the replay has failed, and says so.
mod accesses;

use crate::control;
use crate::failure;
use crate::local::Local;
use crate::replay::Doing;
use crate::replay::PLAIN;
use crate::schedule;
use crate::standstill;
use crate::sys;
use crate::turns;
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Kind;
use run_model::Op;
use runtime_abi::THREADS_MAX;
use runtime_abi::divergence;

/// What a thread waits for that is not the holder.
mod waits {
    /// It has not been created, or is over.
    pub const GONE: u32 = 0;
    /// Nothing.
    pub const NOTHING: u32 = 1;
    /// Another thread's count.
    pub const COUNT: u32 = 2;
    /// An edit holds it: the one with this number.
    pub const EDIT: u32 = 3;
    /// Everybody else has to be done.
    pub const OTHERS: u32 = 4;
    /// It was looking at memory again and again: any thread that goes on meanwhile.
    pub const CHANGE: u32 = 5;
    /// The replay has failed in it: nobody else may be able to go on.
    pub const END: u32 = 6;
}

/// Where a thread stands. Written by itself while it is the holder, or by its creator, which is; read by holders.
struct Standing {
    /// One of `waits`.
    waits: AtomicU32,
    thread: AtomicU32,
    count: AtomicU64,
    /// 1: it is the holder. It sleeps on this.
    go: AtomicU32,
}

static STANDINGS: [Standing; THREADS_MAX] = [const {
    Standing {
        waits: AtomicU32::new(waits::GONE),
        thread: AtomicU32::new(0),
        count: AtomicU64::new(0),
        go: AtomicU32::new(0),
    }
}; THREADS_MAX];

/// Relaxed wherever they are used: words of the holder. That one sees what the one before it wrote, by `go`.
static CURSOR: AtomicU64 = AtomicU64::new(0);
/// Of each thread: its events in runs before the cursor.
static PLACED: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(0) }; THREADS_MAX];
/// How often somebody gave up.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
/// How often somebody gave up who was looking at memory, since the last event.
static LOOKED: AtomicU32 = AtomicU32::new(0);
/// One more than the thread that goes on next whatever the order says; 0: none.
static PREFERRED: AtomicU32 = AtomicU32::new(0);

/// One more than the thread in which the replay has failed, while the others go on; 0: it has not.
static FAILED: AtomicU32 = AtomicU32::new(0);
/// Accesses of theirs.
static BEYOND: AtomicU32 = AtomicU32::new(0);

/// Runs of the order that are looked at for somebody who can go on.
const AHEAD: usize = 256;
/// After so many looks without an event of anybody, held threads go on; and after so many the replay has failed.
const LOOKS_BEFORE_RELEASE: u32 = 64;
const LOOKS_MAX: u32 = 4096;
/// Accesses, and looks without an event of anybody, that threads make beyond the failure of a replay.
const BEYOND_MAX: u32 = 1 << 12;
const LOOKS_BEYOND: u32 = 4;
/// Looks before a thread that is not the holder sleeps. Other replays want the processor: of a search whose threads looked 2000 times, two thirds of the time were that.
const SPINS: u32 = 50;

/// The tool has written an order, if the replay is to be steered.
pub fn open() {
    if control::is_steered() {
        if turns::map_order().is_none() {
            failure::die(
                b"a replay is to follow an order of events, and nobody has written it down",
                0,
            );
        }
        accesses::open();
    }
}

impl Local {
    /// The process has one thread, this one.
    pub fn begin_steered(&self) {
        if control::is_steered() {
            let standing = &STANDINGS[self.index as usize];
            standing.waits.store(waits::NOTHING, Relaxed);
            standing.go.store(1, Relaxed);
        }
    }

    /// The thread is about to create `child`.
    pub fn create_steered(&self, child: u32) {
        if control::is_steered() {
            STANDINGS[child as usize].waits.store(waits::NOTHING, Relaxed);
        }
    }

    /// The first that a created thread does.
    pub fn arrive_steered(&self) {
        if control::is_steered() {
            sleep_until_holder(self.index);
        }
    }

    /// The thread ends, or stops for good.
    pub fn leave_steered(&self) {
        let own = &STANDINGS[self.index as usize];
        if !control::is_steered() || own.go.load(Relaxed) == 0 {
            return;
        }
        own.waits.store(waits::GONE, Relaxed);
        own.go.store(0, Relaxed);
        GIVEN_UP.fetch_add(1, Relaxed);
        match next() {
            Some(next) => wake(next),
            // All have come to where the recording ends.
            None if all().all(|thread| STANDINGS[thread as usize].waits.load(Relaxed) == waits::GONE) => {}
            None => self.fail(),
        }
    }

    /// Returns when everybody else has done what the recording has of them.
    pub fn wait_for_others_steered(&self) {
        if control::is_steered() && !schedule::others_are_done(self.index) {
            self.give_up(waits::OTHERS, 0, 0);
        }
    }
}

impl Local {
    /// The thread gives up, and returns when it is the holder again.
    fn give_up(&self, what: u32, thread: u32, count: u64) {
        let own = &STANDINGS[self.index as usize];
        own.thread.store(thread, Relaxed);
        own.count.store(count, Relaxed);
        own.waits.store(what, Relaxed);
        GIVEN_UP.fetch_add(1, Relaxed);
        let Some(next) = next() else { self.fail() };
        if next != self.index {
            own.go.store(0, Relaxed);
            wake(next);
            sleep_until_holder(self.index);
        }
        own.waits.store(waits::NOTHING, Relaxed);
    }

    /// Nobody can go on.
    fn fail(&self) -> ! {
        let own = &STANDINGS[self.index as usize];
        let (thread, count) = (own.thread.load(Relaxed), own.count.load(Relaxed));
        self.diverge(divergence::STUCK, PLAIN, thread, count, 0)
    }

    /// Before event `event`: returns when it is its turn by the order, or nobody else can go on.
    #[inline]
    pub fn await_place(&self, event: u64) {
        if control::is_steered() && !self.inside_event.get() {
            LOOKED.store(0, Relaxed);
            if expected().is_some_and(|thread| thread != self.index) && self.is_ordered(event) {
                self.give_up(waits::NOTHING, 0, 0);
            }
            // The recorded process ended in this thread, when all others had done what they did. What it does instead of that must not be in their way.
            if self.is_the_end() && !self.is_ordered(event) {
                self.wait_for_others_steered();
            }
        }
    }

    fn is_ordered(&self, event: u64) -> bool {
        let part = schedule::threads().get(self.index as usize);
        part.is_some_and(|part| event < part.events)
    }

    /// Is `event` a call in the recording, and the thread comes to a lock or an atomic instead? Neither needs a record, so that without this only the
    /// thread's next call would show it, and what happens until then would pass for what was recorded.
    pub fn require_no_call(&self, event: u64, doing: Doing) {
        let makes_no_call = doing.kind == Kind::Run || doing.op.is_only_ordered() && doing.op != Op::HeapPool;
        if control::is_steered() && makes_no_call && !self.inside_event.get() && self.inputs.recorded.has_call_in(event)
        {
            self.let_others_go_on();
            self.diverge(divergence::OPERATION, doing, 0, 0, 0);
        }
    }

    /// The replay has failed here. What would have helped may be an access of another thread's that has not come yet, and can be waited for
    /// only if it is known: so the others go on for a while.
    fn let_others_go_on(&self) {
        self.stop_beyond();
        FAILED.store(self.index + 1, Relaxed);
        LOOKED.store(0, Relaxed);
        self.give_up(waits::END, 0, 0);
    }

    /// Has the replay failed in another thread? Then this one goes no further, and says nothing.
    pub fn stop_beyond(&self) {
        let failed = FAILED.load(Relaxed);
        if control::is_steered() && failed != 0 && failed != self.index + 1 {
            self.leave_steered();
            standstill::sleep_forever();
        }
    }

    /// An operation that waits for a lock, in the form that does not: the other threads sleep, and whoever has the lock among them would never give it back.
    /// They have their turns instead, and if nobody can go on, the replay has failed.
    pub fn lock_steered(&self, try_lock: impl Fn() -> c_int) -> c_int {
        loop {
            let result = try_lock();
            if result != libc::EBUSY {
                return result;
            }
            LOOKED.fetch_add(1, Relaxed);
            self.give_up(waits::CHANGE, 0, GIVEN_UP.load(Relaxed));
        }
    }

    /// At a gate.
    pub fn wait_steered(&self, thread: u32, count: u64) {
        // Acquire: what was done before is visible, as at other gates. The other thread does not run.
        while control::slot(thread).count.load(Acquire) < count {
            self.give_up(waits::COUNT, thread, count);
        }
    }

    /// The process is about to die of a signal in this thread. Did the recorded one?
    pub fn require_death(&self, signal: u32) {
        if control::is_steered() && (self.slot.signal.load(Relaxed) != signal || schedule::is_short(self.index)) {
            self.diverge(divergence::SHORT, PLAIN, 0, 0, u64::from(signal));
        }
    }
}

fn all() -> core::ops::Range<u32> {
    let threads = control::header().progress.threads.load(Relaxed);
    0..threads.min(THREADS_MAX as u32)
}

fn wake(thread: u32) {
    let go = &STANDINGS[thread as usize].go;
    // Release: pairs with the Acquire in `sleep_until_holder`: the new holder sees all that was done before.
    go.store(1, Release);
    sys::futex_wake_all(go);
}

fn sleep_until_holder(thread: u32) {
    const LOOK_AFTER_NS: u64 = 50_000_000;
    let go = &STANDINGS[thread as usize].go;
    for _ in 0..SPINS {
        // Acquire: pairs with the Release in `wake`.
        if go.load(Acquire) == 1 {
            return;
        }
        core::hint::spin_loop();
    }
    while go.load(Acquire) == 0 {
        if control::has_diverged() {
            standstill::sleep_forever();
        }
        sys::futex_wait(go, 0, LOOK_AFTER_NS);
    }
}

/// Can `thread` go on, which is not the holder any more?
fn is_ready(thread: u32) -> bool {
    let standing = &STANDINGS[thread as usize];
    match standing.waits.load(Relaxed) {
        waits::NOTHING => true,
        waits::COUNT => {
            control::slot(standing.thread.load(Relaxed)).count.load(Acquire) >= standing.count.load(Relaxed)
        }
        waits::EDIT => accesses::is_over(standing.count.load(Relaxed) as usize),
        waits::OTHERS => schedule::others_are_done(thread),
        // Its own giving up has been counted.
        waits::CHANGE => GIVEN_UP.load(Relaxed) > standing.count.load(Relaxed) + 1,
        _ => false,
    }
}

/// Who is to go on so that `thread` can: itself, or the one that it waits for, and so on.
fn on_behalf_of(thread: u32) -> Option<u32> {
    let mut at = thread;
    for _ in all() {
        if is_ready(at) {
            return Some(at);
        }
        let standing = &STANDINGS[at as usize];
        if standing.waits.load(Relaxed) != waits::COUNT {
            return None;
        }
        at = standing.thread.load(Relaxed);
    }
    None
}

/// The thread of the first event in the order that has not happened.
fn expected() -> Option<u32> {
    let runs = turns::runs();
    loop {
        let cursor = CURSOR.load(Relaxed);
        let run = runs.get(cursor as usize)?;
        let placed = &PLACED[run.thread as usize % THREADS_MAX];
        let end = placed.load(Relaxed) + u64::from(run.count);
        if control::slot(run.thread).count.load(Relaxed) < end {
            return Some(run.thread);
        }
        placed.store(end, Relaxed);
        CURSOR.store(cursor + 1, Relaxed);
    }
}

/// Has the replay failed, and what happens now is only looked at?
fn is_beyond() -> bool {
    FAILED.load(Relaxed) != 0
}

/// Who goes on. The calling thread is the holder, and has said what it waits for.
fn next() -> Option<u32> {
    let failed = FAILED.load(Relaxed).checked_sub(1);
    if BEYOND.load(Relaxed) >= BEYOND_MAX || failed.is_some() && LOOKED.load(Relaxed) >= LOOKS_BEYOND {
        return failed;
    }
    successor().or(failed)
}

/// The same, as long as the replay has not failed.
fn successor() -> Option<u32> {
    let preferred = PREFERRED.swap(0, Relaxed);
    if let Some(thread) = preferred.checked_sub(1).filter(|thread| is_ready(*thread)) {
        return Some(thread);
    }
    let is_looking = LOOKED.load(Relaxed) >= LOOKS_BEFORE_RELEASE;
    // Whoever an edit waits for comes first, so that little else happens meanwhile.
    let held = |thread: &u32| STANDINGS[*thread as usize].waits.load(Relaxed) == waits::EDIT && !is_ready(*thread);
    if !is_looking {
        let wanted = all().filter(held).find_map(|thread| {
            let edit = STANDINGS[thread as usize].count.load(Relaxed) as usize;
            accesses::awaited(edit).and_then(on_behalf_of)
        });
        let ready = wanted
            .or_else(by_order)
            .or_else(|| all().find(|thread| is_ready(*thread)));
        if ready.is_some() {
            return ready;
        }
    }
    if LOOKED.load(Relaxed) >= LOOKS_MAX {
        return None;
    }
    if let Some(thread) = all().find(held) {
        accesses::give_in(STANDINGS[thread as usize].count.load(Relaxed) as usize);
        LOOKED.store(0, Relaxed);
        return Some(thread);
    }
    let looks = |thread: &u32| STANDINGS[*thread as usize].waits.load(Relaxed) == waits::CHANGE;
    by_order()
        .or_else(|| all().find(|thread| is_ready(*thread)))
        .or_else(|| all().find(looks))
}

/// The first thread in the rest of the order that can go on, or for which somebody can.
fn by_order() -> Option<u32> {
    let first = expected()?;
    if let Some(thread) = on_behalf_of(first) {
        return Some(thread);
    }
    let from = CURSOR.load(Relaxed) as usize;
    let ahead = turns::runs().get(from..).unwrap_or(&[]);
    ahead
        .iter()
        .take(AHEAD)
        .map(|run| run.thread)
        .find(|thread| is_ready(*thread))
}
