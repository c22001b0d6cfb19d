//! What happens before a replay: who wants to know how far it is, and how much of the machine it may take.
use crate::search::SearchProgress;
use constraint_solver::Step;
use constraint_solver::Watch;
use schedule_search::Go;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reading the logs; in records.
    Load,
    Solve(Step),
    Check,
    /// Writing the schedule.
    Write,
    /// Replaying, until threads resume late where they have to; in inputs that came again.
    Settle,
}

/// Is told how far a run is from being ready. Calls may come from several threads at once, and often.
pub trait Observer: Sync {
    fn at(&self, work: Work, done: u64, of: u64);
    /// How far a search has come; between its attempts. It may be stopped, and goes on from there the next time.
    fn searching(&self, _: &SearchProgress<'_>) -> Go {
        Go::On
    }
    /// What was observed is over, for now: from here on the terminal and the process are needed otherwise.
    fn done(&self);
}

/// Nobody looks.
pub struct Unobserved;

impl Observer for Unobserved {
    fn at(&self, _: Work, _: u64, _: u64) {}
    fn done(&self) {}
}

/// The solver's view of an observer.
pub(crate) struct SolverWatch<'a>(pub(crate) &'a dyn Observer);

impl Watch for SolverWatch<'_> {
    fn at(&self, step: Step, done: u64, of: u64) {
        self.0.at(Work::Solve(step), done, of);
    }
}

/// Tells the observer that it is over, whichever way a function is left.
pub(crate) struct Observed<'a>(pub(crate) &'a dyn Observer);

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}
