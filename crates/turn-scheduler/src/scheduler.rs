//! The scheduler's state: words of the machine, one set for a process.
use crate::process::Process;
use crate::turn_state::TurnState;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;

/// Schedule edits that can hold a thread back; others are not looked at.
pub(crate) const EDITS_MAX: usize = 256;

/// What is known of all threads that take turns, at most so many.
///
/// Relaxed everywhere but for [`TurnState::go`]: who has the turn writes, and the turn itself is passed with Release and Acquire.
pub struct Scheduler<M: Machine, const THREADS: usize> {
    /// Who has the turn.
    pub(crate) holder: M::U32,
    /// A thread that has passed the turn on and is on its way out, as `Process::before_exit` names it; 0: none.
    pub(crate) leaving: M::U32,
    /// One more than the thread that is about to end the process, when the others are where they were.
    pub(crate) ending: M::U32,
    /// One more than the inputs that had happened when all had given way last; 0: they never have.
    pub(crate) gave_way_at: M::U32,
    /// The thread that has the turn is in here, and is not to be told to give way.
    is_deciding: M::U32,
    /// Grows with each switch point.
    progress: M::U64,
    /// The run of the order under way, and how many of its inputs have happened.
    pub(crate) run: M::U32,
    pub(crate) happened: M::U32,
    /// Wait number, over all threads: who waits longest is woken first.
    pub(crate) tickets: M::U64,
    /// Waits that ended since the last input because nobody could go on.
    pub(crate) ended_waits: M::U32,
    /// Switch points that were written down.
    pub(crate) points: M::U64,
    /// One more than the thread that failed, while others are followed.
    pub(crate) failed: M::U32,
    /// How far the holds of the edits are, by number.
    pub(crate) holds: [M::U32; EDITS_MAX],
    /// States that have been used.
    pub(crate) used: M::U32,
    pub(crate) states: [TurnState<M>; THREADS],
}

impl<M: Machine, const THREADS: usize> Scheduler<M, THREADS> {
    pub const fn new() -> Self {
        Scheduler {
            holder: M::U32::ZERO,
            leaving: M::U32::ZERO,
            ending: M::U32::ZERO,
            gave_way_at: M::U32::ZERO,
            is_deciding: M::U32::ZERO,
            progress: M::U64::ZERO,
            run: M::U32::ZERO,
            happened: M::U32::ZERO,
            tickets: M::U64::ZERO,
            ended_waits: M::U32::ZERO,
            points: M::U64::ZERO,
            failed: M::U32::ZERO,
            holds: [const { M::U32::ZERO }; EDITS_MAX],
            used: M::U32::ZERO,
            states: [const { TurnState::new() }; THREADS],
        }
    }

    /// Who has the turn.
    #[inline]
    pub fn holder(&self) -> u32 {
        self.holder.load(Relaxed)
    }

    #[inline]
    pub fn has_turn(&self, thread: u32) -> bool {
        self.holder() == thread
    }

    #[inline]
    pub fn turn_state(&self, thread: u32) -> &TurnState<M> {
        &self.states[thread as usize]
    }

    /// Is the thread that has the turn in here?
    pub fn is_deciding(&self) -> bool {
        self.is_deciding.load(Relaxed) != 0
    }

    #[inline]
    pub fn set_deciding(&self, is_deciding: bool) {
        self.is_deciding.store(is_deciding.into(), Relaxed);
    }

    /// Grows with each switch point.
    pub fn progress(&self) -> u64 {
        self.progress.load(Relaxed)
    }

    #[inline]
    pub(crate) fn note_progress(&self) {
        // Only who has the turn writes.
        self.progress.store(self.progress.load(Relaxed) + 1, Relaxed);
    }

    /// Is a thread on its way out that has passed the turn on?
    pub fn is_somebody_leaving(&self) -> bool {
        self.leaving.load(Relaxed) != 0
    }
}

impl<M: Machine, const THREADS: usize> Default for Scheduler<M, THREADS> {
    fn default() -> Self {
        Self::new()
    }
}

/// A scheduler with the machine below it and the process around it: what decides.
#[derive(Clone, Copy)]
pub struct Turns<'s, M: Machine, P: Process, const THREADS: usize> {
    pub scheduler: &'s Scheduler<M, THREADS>,
    pub machine: M,
    pub process: P,
}

impl<'s, M: Machine, P: Process, const THREADS: usize> Turns<'s, M, P, THREADS> {
    /// The order is there; nothing of it has happened.
    pub fn open(&self) {
        self.scheduler.run.store(0, Relaxed);
        self.scheduler.happened.store(0, Relaxed);
        self.scheduler.points.store(0, Relaxed);
        self.scheduler.failed.store(0, Relaxed);
        self.forget_holds();
    }

    /// The process begins, perhaps as a copy of another, with one thread, `main`, which has the turn.
    pub fn begin(&self, main: u32) {
        let used = self.scheduler.used.swap(0, Relaxed) as usize;
        self.scheduler.states[..used].iter().for_each(TurnState::clear);
        self.scheduler.leaving.store(0, Relaxed);
        self.scheduler.ending.store(0, Relaxed);
        self.created(main);
        self.scheduler.holder.store(main, Relaxed);
    }

    /// The thread that has the turn has created `thread`.
    pub fn created(&self, thread: u32) {
        self.scheduler.used.fetch_max(thread + 1, Relaxed);
        self.turn_state(thread).begin(self.first_run(thread));
    }

    #[inline]
    pub fn turn_state(&self, thread: u32) -> &'s TurnState<M> {
        &self.scheduler.states[thread as usize]
    }

    #[inline]
    pub fn has_turn(&self, thread: u32) -> bool {
        self.scheduler.has_turn(thread)
    }

    /// Threads there have been.
    pub fn count(&self) -> u32 {
        self.process.threads().min(THREADS as u32)
    }

    pub fn all(&self) -> impl Iterator<Item = &'s TurnState<M>> {
        self.scheduler.states[..self.count() as usize].iter()
    }
}
