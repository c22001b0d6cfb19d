//! Fence points: why a chunk whose user soon synchronises, or takes something itself, needs no barrier to change hands.
//! Protocol: `README.md`.
use crate::Mistake;
use crate::Slot;
use crate::Thread;
use crate::World;
use core::cell::Cell;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use machine::Word;
use runtime_abi::thread_state;

/// Threads that are waited for at once. More are rare, and a barrier does for all of them.
const AWAITED_MAX: usize = 16;

/// A thread that is to pass a fence, and how many it had passed.
#[derive(Clone, Copy, Default)]
struct Awaited {
    thread: u32,
    passed: u64,
}

/// How often a thread looks for a fence point before it pays for a barrier: more often, the more often that was worth it.
pub struct Patience(Cell<u32>);

impl Patience {
    pub fn new<W: World>(world: W) -> Patience {
        Patience(Cell::new((world.tuning().looks_max / 2).max(world.tuning().looks_min)))
    }

    fn was_rewarded<W: World>(&self, world: W) {
        let more = self.0.get() / 4 + 1;
        self.0.set((self.0.get() + more).min(world.tuning().looks_max));
    }

    fn was_in_vain<W: World>(&self, world: W) {
        self.0.set((self.0.get() / 2).max(world.tuning().looks_min));
    }
}

/// Is the thread blocked in a call, or gone?
pub(crate) fn is_idle<W: World>(world: W, thread: u32) -> bool {
    // SeqCst: pairs with the swaps in `Thread::blocking`; the mark on the chunk was a locked instruction before this.
    let state = world.slot(thread).state().load(SeqCst);
    state == thread_state::EXITED || state == thread_state::BLOCKED
}

/// In `World::passed`: set while the thread only waits, for others or for a barrier. It passes a fence before it touches memory again.
const RESTING: u64 = 1;
const FENCE_POINT: u64 = 2;

impl<W: World> Thread<W> {
    /// A fence point: a full fence of this thread's, of which others can tell when it was.
    #[inline]
    pub fn pass_fence(&self) {
        if self.has_fence_points() {
            self.raise_passed(FENCE_POINT, Mistake::FencePointWithoutFence);
        }
    }

    /// A fence point that costs no fence: does `locked`, which executes a locked instruction, and does nothing before it that a chunk
    /// word allows.
    #[inline(always)]
    pub fn passing_fence<R>(&self, locked: impl FnOnce() -> R) -> R {
        if !self.has_fence_points() {
            return locked();
        }
        if self.world.makes(Mistake::FencePointBehindFence) {
            let result = locked();
            self.announce_fence();
            return result;
        }
        self.announce_fence();
        locked()
    }

    #[inline(always)]
    fn announce_fence(&self) {
        let passed = self.world.passed(self.index);
        // Relaxed: only this thread writes it. Release: pairs with the loads in `pass_soon`. Whoever sees it sees all stores before it;
        // the locked instruction behind it does not happen before it is visible, nor does any load after that.
        passed.store(passed.load(Relaxed) + FENCE_POINT, Release);
    }

    /// Does `action`, which touches nothing that a chunk word allows: who takes chunks from this thread meanwhile need not wait.
    pub(crate) fn resting<R>(&self, action: impl FnOnce() -> R) -> R {
        if !self.has_fence_points() {
            return action();
        }
        // SeqCst, as a locked instruction: as in `raise_passed`. All that this thread has done is visible to whoever sees it rest.
        self.world.passed(self.index).fetch_add(RESTING, SeqCst);
        let result = action();
        self.raise_passed(FENCE_POINT - RESTING, Mistake::RestWithoutFence);
        result
    }

    #[inline]
    fn has_fence_points(&self) -> bool {
        self.world.tuning().looks_max > 0 && self.world.observes_memory()
    }

    /// `planted`: the mistake to do it by a plain store.
    #[inline]
    fn raise_passed(&self, by: u64, planted: Mistake) {
        let passed = self.world.passed(self.index);
        if self.world.makes(planted) {
            // As good a number as any: it is even, and to ask for it costs no look at what others may wait for.
            return passed.store((self.event() + 1) * FENCE_POINT, Release);
        }
        // SeqCst, as a locked instruction: pairs with the loads in `pass_soon`. Whoever sees it sees all stores before it, and
        // no load after it happens earlier.
        passed.fetch_add(by, SeqCst);
    }

    /// Does each of `threads` pass a fence from now on, or do nothing to memory, within a little time? What they are not to use
    /// any more has been marked, by locked instructions.
    pub(crate) fn pass_soon(&self, threads: impl Iterator<Item = u32>) -> bool {
        if !self.has_fence_points() {
            return false;
        }
        let mut awaited = [Awaited::default(); AWAITED_MAX];
        let mut count = 0;
        for thread in threads {
            if count == awaited.len() {
                return false;
            }
            // SeqCst: pairs with the stores in `raise_passed` and `announce_fence`; not before the mark.
            let passed = self.world.passed(thread).load(SeqCst);
            if passed & RESTING != 0 {
                continue;
            }
            let too_early = self.world.makes(Mistake::FencePointBeforeMark);
            let passed = passed.saturating_sub(u64::from(too_early) * FENCE_POINT);
            awaited[count] = Awaited { thread, passed };
            count += 1;
        }
        if count == 0 {
            return true;
        }
        for _ in 0..self.patience.0.get() {
            while count > 0 && self.has_passed(awaited[count - 1]) {
                count -= 1;
            }
            if count == 0 {
                self.patience.was_rewarded(self.world);
                return true;
            }
            core::hint::spin_loop();
        }
        self.patience.was_in_vain(self.world);
        false
    }

    fn has_passed(&self, awaited: Awaited) -> bool {
        // Acquire: as in `pass_soon`; what was stored before is visible.
        self.world.passed(awaited.thread).load(Acquire) != awaited.passed || is_idle(self.world, awaited.thread)
    }
}
