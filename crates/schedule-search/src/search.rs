//! The search as a state machine: asks out, answers in.
use crate::Ask;
use crate::Attempt;
use crate::Checkpoint;
use crate::Ending;
use crate::EventLog;
use crate::Plan;
use crate::Replays;
use crate::ScheduleEdit;
use crate::Statistics;
use crate::Trace;
use crate::Tuning;
use crate::Window;
use crate::cache::Cache;
use crate::cache::Key;
use crate::failure::Circumstances;
use crate::failure::Failure;
use crate::failure::Step;
use crate::failure::Task;
use crate::minimise::Minimisation;
use crate::tuning::Minimising;

/// A search for the plan with which a replay meets all of a log.
///
/// Either [`Search::run`] drives it, or its owner does: [`Search::asks`] says what to try next, [`Search::take`] takes the
/// answers. All it knows is in its fields, which [`Search::save`] writes down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub(crate) log: EventLog,
    pub(crate) tuning: Tuning,
    /// The plan that got furthest so far.
    pub(crate) admitted: Plan,
    pub(crate) admission: u64,
    /// Most events of the log that a replay has met.
    pub(crate) met: usize,
    pub(crate) cache: Cache,
    pub(crate) statistics: Statistics,
    pub(crate) phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    Failed(Box<Failure>),
    Minimising(Minimisation),
    Over(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A replay with this plan met the whole log.
    Found(Plan),
    /// Nothing within the bounds of the tuning gets beyond this many events.
    Exhausted { met: usize },
    /// The same plan went differently the second time: it met so many events instead of `expected`. Whatever differs is
    /// not under the executor's control, and no search can help.
    Unsteady { expected: usize, met: usize },
    /// The watcher said so. The search can go on from here.
    Stopped,
}

/// What a watcher sees between attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    pub met: usize,
    pub events: usize,
    pub edits: usize,
    /// Windows back from the failure that is worked at, and how many edits are tried at once.
    pub window: usize,
    pub bound: u64,
    pub statistics: &'a Statistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    On,
    Stop,
}

/// An executor may keep no more switch points than it has room for. It has for so many.
const OPENING_POINTS_MAX: usize = 1 << 19;

impl Search {
    pub fn new(log: EventLog, tuning: Tuning) -> Search {
        Search {
            log,
            tuning,
            admitted: Plan::default(),
            admission: 0,
            met: 0,
            cache: Cache::default(),
            statistics: Statistics::default(),
            phase: Phase::Opening,
        }
    }

    /// Attempts, `batch` at a time, until the search is over or `watch` stops it. What is found does not depend on `batch`.
    pub fn run(&mut self, replays: &mut impl Replays, batch: usize, mut watch: impl FnMut(&Progress) -> Go) -> Outcome {
        loop {
            let asks = self.asks(batch.max(1));
            if let Phase::Over(outcome) = &self.phase {
                return outcome.clone();
            }
            let answers = replays.attempts(&asks);
            self.take(&asks, answers);
            if watch(&self.progress()) == Go::Stop && !matches!(self.phase, Phase::Over(_)) {
                return Outcome::Stopped;
            }
        }
    }

    /// What to try next, the most promising first, at most `most`; nothing if the search is over.
    pub fn asks(&self, most: usize) -> Vec<Ask> {
        match &self.phase {
            Phase::Opening => vec![Ask {
                trace: self.opening_trace(),
                ..self.bare(self.admitted.clone())
            }],
            Phase::Failed(failure) => failure.asks(most, &self.circumstances()),
            Phase::Minimising(minimisation) => minimisation
                .candidates(&self.admitted, most)
                .into_iter()
                .map(|plan| self.bare(plan))
                .collect(),
            Phase::Over(_) => Vec::new(),
        }
    }

    /// The answers to `asks`, which [`Search::asks`] has just given. Those after one that changes everything are not used.
    pub fn take(&mut self, asks: &[Ask], answers: Vec<Attempt>) {
        assert_eq!(answers.len(), asks.len(), "one answer to each ask");
        let mut answers = asks.iter().zip(answers);
        for (ask, answer) in answers.by_ref() {
            // An answer that is taken for that to another ask would make us find what was never tried.
            assert_eq!(
                self.asks(1).first(),
                Some(ask),
                "the answer to what is to be tried next"
            );
            self.statistics.attempts += 1;
            if self.take_one(answer) {
                break;
            }
        }
        self.statistics.unused += answers.count() as u64;
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What the caches hold, in words.
    pub fn learned(&self) -> Vec<String> {
        self.cache.describe()
    }

    pub fn progress(&self) -> Progress<'_> {
        let (window, bound) = match &self.phase {
            Phase::Failed(failure) => (
                failure.cursor.window.min(failure.trees.len()),
                self.tuning.bound(failure.cursor.round),
            ),
            _ => (0, 0),
        };
        Progress {
            met: self.met,
            events: self.log.len(),
            edits: self.admitted.edits.len(),
            window,
            bound,
            statistics: &self.statistics,
        }
    }

    pub(crate) fn circumstances(&self) -> Circumstances<'_> {
        Circumstances {
            log: &self.log,
            tuning: &self.tuning,
            cache: &self.cache,
            admitted: &self.admitted,
            admission: self.admission,
        }
    }

    /// The first replay tells its switch points: which of them are in the window of a failure shows when it fails. Where accesses are looked at
    /// first, that is another replay.
    fn opening_trace(&self) -> Trace {
        let is_of_accesses = self.tuning.layers.first().is_none_or(|layer| layer.is_of_accesses());
        match is_of_accesses {
            true => Trace::Nothing,
            false => Trace::Points(Window::whole(&self.log)),
        }
    }

    fn bare(&self, plan: Plan) -> Ask {
        Ask {
            plan,
            trace: Trace::Nothing,
            checkpoint: Checkpoint {
                admission: self.admission,
                event: 0,
            },
        }
    }

    /// True if the asks that were made together with this one are no longer of use.
    fn take_one(&mut self, attempt: Attempt) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Opening) {
            Phase::Opening => {
                self.statistics.opening += 1;
                let asked = match self.opening_trace() {
                    // Of so many, the last may be missing.
                    Trace::Points(window) if attempt.points.len() < OPENING_POINTS_MAX => Some(window),
                    _ => None,
                };
                self.admit(Plan::default(), attempt, asked);
                true
            }
            Phase::Failed(failure) => self.take_for(*failure, attempt),
            Phase::Minimising(mut minimisation) => {
                self.statistics.minimising += 1;
                let is_needed = attempt.ending != Ending::Complete;
                if !is_needed {
                    self.admitted = minimisation.candidate(&self.admitted);
                }
                self.phase = match minimisation.advance(&self.admitted, is_needed) {
                    true => Phase::Minimising(minimisation),
                    false => self.found(),
                };
                !is_needed
            }
            over @ Phase::Over(_) => {
                self.phase = over;
                true
            }
        }
    }

    fn take_for(&mut self, mut failure: Failure, attempt: Attempt) -> bool {
        let asked = failure.traced(&self.circumstances());
        let mut counted = self.statistics;
        let step = failure.take(&attempt, &self.circumstances(), &mut counted);
        self.statistics = counted;
        match step {
            Step::Progress(plan) => {
                self.remember(&failure, &plan);
                self.admit(plan, attempt, asked);
                true
            }
            Step::Unsteady => {
                self.phase = Phase::Over(Outcome::Unsteady {
                    expected: failure.met,
                    met: attempt.met,
                });
                true
            }
            Step::NoProgress => {
                self.phase = self.working_at(failure);
                false
            }
        }
    }

    fn working_at(&self, failure: Failure) -> Phase {
        match failure.task(&self.circumstances()) {
            Task::Nothing => Phase::Over(Outcome::Exhausted { met: self.met }),
            _ => Phase::Failed(Box::new(failure)),
        }
    }

    /// Writes down what helped, if it came to adding edits.
    fn remember(&mut self, failure: &Failure, plan: &Plan) {
        let has_all = self.admitted.edits.iter().all(|old| plan.edits.contains(old));
        if let (true, Some(key)) = (has_all, Key::of(&failure.ending)) {
            let is_new = |made: &&ScheduleEdit| !self.admitted.edits.contains(made);
            let new: Vec<ScheduleEdit> = plan.edits.iter().filter(is_new).copied().collect();
            self.cache.remember(key, &failure.scene(&self.log), &new);
        }
    }

    /// From now on, every replay makes these edits.
    fn admit(&mut self, plan: Plan, attempt: Attempt, asked: Option<Window>) {
        self.admitted = plan;
        self.admission += 1;
        self.met = attempt.met;
        if attempt.ending == Ending::Complete {
            self.statistics.edits_admitted = self.admitted.edits.len() as u64;
            self.phase = match (self.tuning.minimising, Minimisation::new(&self.admitted)) {
                (Minimising::On, Some(minimisation)) => Phase::Minimising(minimisation),
                _ => self.found(),
            };
            return;
        }
        self.statistics.failures += 1;
        let mut counted = self.statistics;
        let mut failure = Failure::new(attempt, asked.as_ref(), &self.circumstances());
        failure.settle(&self.circumstances(), &mut counted);
        self.statistics = counted;
        self.phase = self.working_at(failure);
    }

    fn found(&mut self) -> Phase {
        self.statistics.edits_needed = self.admitted.edits.len() as u64;
        Phase::Over(Outcome::Found(self.admitted.clone()))
    }
}
