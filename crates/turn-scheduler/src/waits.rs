//! Threads that wait for words of the program: since when, who is to end the wait, and when it is over.
use crate::process::Process;
use crate::scheduler::Turns;
use crate::turn_state::State;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;

/// What a thread waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub address: u64,
    pub expected: u32,
    pub bits: u32,
    /// The kernel may wake it.
    pub is_shared: bool,
    pub if_due: IfDue,
    pub is_timed: bool,
    /// The thread that is to end it, if it is known from somewhere else than the word.
    pub ended_by: Option<u32>,
}

/// What happens to a wait when the waiting thread's next input is the next one of the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfDue {
    Nothing,
    /// It ends so.
    AtOnce(i32),
    /// It ends so if nobody else can go on.
    AtLast(i32),
}

/// No errno, and no success.
pub(crate) const NOTHING: i32 = 1;

impl IfDue {
    /// What the wait yields, and whether at once.
    pub(crate) fn yields(self) -> (i32, bool) {
        match self {
            IfDue::Nothing => (NOTHING, false),
            IfDue::AtOnce(result) => (result, true),
            IfDue::AtLast(result) => (result, false),
        }
    }
}

/// The bits of a futex that have the kernel's name of a thread in them, where they have one.
const NAME: u32 = 0x3fff_ffff;
/// Where a mutex of glibc's names its holder, behind the word that is waited for.
const HOLDER_AT: u64 = 8;
/// Where musl names the thread for whose end one waits, before the word that is waited for.
const JOINED_BEFORE: u64 = 8;
const PAGE: u64 = 4096;
/// Waits that end between two inputs because nobody can go on: more do not help.
const ENDED_WAITS_MAX: u32 = 64;
/// ETIMEDOUT.
pub(crate) const TIMED_OUT: i32 = -110;

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// The next wait's number.
    pub(crate) fn draw_ticket(&self) -> u64 {
        self.scheduler.tickets.fetch_add(1, Relaxed)
    }

    /// Waits for something that the kernel may write, and the word is not what it was.
    fn is_overtaken_by_kernel(&self, thread: u32) -> bool {
        self.turn_state(thread).is_shared.load(Relaxed) != 0 && self.is_overtaken(thread)
    }

    /// Waits for a word that is not what it was.
    pub(crate) fn is_overtaken(&self, thread: u32) -> bool {
        let state = self.turn_state(thread);
        state.state() == State::Futex && self.process.load(state.address.load(Relaxed)) != state.expected.load(Relaxed)
    }

    /// The thread whose end `thread` waits for, or that holds the mutex it waits for, as far as that can be told.
    pub(crate) fn awaited(&self, thread: u32) -> Option<u32> {
        let state = self.turn_state(thread);
        let address = state.address();
        if address == 0 {
            return None;
        }
        if let Some(thread) = state.ended_by() {
            return Some(thread);
        }
        // It may be something else than a name.
        let name_at = |place: u64| {
            // In the same page as the word that the thread waits for, so it is there.
            let is_near = place / PAGE == address / PAGE && (place + 3) / PAGE == address / PAGE;
            if is_near { self.process.load(place) } else { 0 }
        };
        let joined = || {
            let is_named = self.process.names_joined_threads();
            is_named
                .then(|| self.find(name_at(address - JOINED_BEFORE), address))
                .flatten()
        };
        self.find(state.expected.load(Relaxed) & NAME, address)
            .or_else(|| self.find(name_at(address + HOLDER_AT), address))
            .or_else(joined)
    }

    /// The thread of that name, if it does not wait for `address` itself.
    fn find(&self, name: u32, address: u64) -> Option<u32> {
        // 0 is the name of threads that have not yet begun, and of nobody when they have: it depends on the time.
        let is_named =
            |thread: &u32| self.turn_state(*thread).state() != State::Gone && self.process.name_of(*thread) == name;
        let all = 0..if name == 0 { 0 } else { self.count() };
        let found = all.into_iter().find(is_named);
        found.filter(|thread| self.turn_state(*thread).address() != address)
    }

    /// It has come to a stop: at an input, at a futex of the program's, or for good.
    pub(crate) fn is_at_rest(&self, thread: u32) -> bool {
        match self.turn_state(thread).state() {
            State::Ready => false,
            State::Futex => !self.is_overtaken(thread) && self.turn_state(thread).ended_by().is_none(),
            _ => true,
        }
    }

    /// Of those that wait, the one whose next input is the earliest; of several, the one that has waited longest. The kernel
    /// promises no order.
    pub(crate) fn first_waiter(&self, address: u64, bits: u32) -> Option<u32> {
        let waiters = (0..self.count()).filter(|thread| self.turn_state(*thread).waits_for(address, bits));
        waiters.min_by_key(|thread| self.precedence(*thread))
    }

    fn precedence(&self, thread: u32) -> (u32, u64) {
        let state = self.turn_state(thread);
        (state.next_run(), state.ticket())
    }

    /// Nobody can go on: a wait with a time limit does not last for ever, also if the recording does not have it.
    pub(crate) fn end_timed_wait(&self) -> bool {
        if self.scheduler.ended_waits.load(Relaxed) >= ENDED_WAITS_MAX {
            return false;
        }
        let is_timed = |thread: &u32| {
            let state = self.turn_state(*thread);
            state.state() == State::Futex && state.is_timed.load(Relaxed) != 0
        };
        let first = (0..self.count())
            .filter(is_timed)
            .min_by_key(|thread| self.precedence(*thread));
        if let Some(thread) = first {
            self.scheduler.ended_waits.fetch_add(1, Relaxed);
            // Not as if it had been woken: libc would wait again.
            self.turn_state(thread).wake(TIMED_OUT);
        }
        first.is_some()
    }

    /// Nobody can go on, and the next input is one of `thread`'s: may that end its wait?
    pub(crate) fn interrupt(&self, thread: u32) -> bool {
        let result = self.turn_state(thread).if_due();
        result.map(|result| self.turn_state(thread).wake(result)).is_some()
    }

    /// A thread is gone. Those that wait for what the kernel writes then: joins, and locks whose holder died.
    pub(crate) fn wake_for_kernel(&self) {
        let overtaken = (0..self.count()).filter(|thread| self.is_overtaken_by_kernel(*thread));
        overtaken.for_each(|thread| self.turn_state(thread).wake(0));
    }
}
