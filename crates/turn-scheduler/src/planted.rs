//! Mistakes that tests plant, each of which an exploration has to find. Outside of this crate's own tests there are none: the compiler sees `false`.

/// A mistake in the hand-over of the turn, or in waiting at gates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Turns: the next thread is woken before its word says that it may go.
    WakesBeforeGo,
    /// Turns: who waits does not look at its word again when it comes to sleep.
    SleepsOnAnything,
    /// Turns: who waits takes what its word says by a load and a store.
    TakesInTwoSteps,
    /// Turns: an edit's thread gets the turn whether it can go on or not.
    PassesToAnybody,
    /// Turns: who decides does not wait until the kernel has let go of a thread that left.
    DecidesTooEarly,
    /// Gates: who completes events looks for sleepers before its count says so.
    WakesBeforeCount,
    /// Gates: sleepers are woken before the word that they sleep on changes.
    WakesBeforeWakeups,
    /// Gates: a sleeper reads the word that it sleeps on after its wish, which may be wiped out by then.
    ReadsWakeupsLate,
    /// Gates: a sleeper does not look at the count again after its wish.
    SleepsWithoutLook,
    /// Gates: who comes to a gate of its own lets compiled code run up to the next one, whatever is wished for.
    RaisesGateOverWish,
    /// Gates: a wait that seems to lead nowhere is believed at once.
    LooksOnce,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) use in_tests::is_planted;
#[cfg(test)]
pub(crate) use in_tests::with;

#[cfg(test)]
mod in_tests {
    use super::Fault;
    use std::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn is_planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Plants a fault for as long as `action` takes. All of an exploration happens in one thread.
    pub(crate) fn with<R>(fault: Option<Fault>, action: impl FnOnce() -> R) -> R {
        PLANTED.set(fault);
        let result = action();
        PLANTED.set(None);
        result
    }
}
