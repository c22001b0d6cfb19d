//! The work on one failure of the replay: first what helped before, then everything, from near to far.
use crate::Access;
use crate::Ask;
use crate::Attempt;
use crate::Checkpoint;
use crate::Ending;
use crate::EventLog;
use crate::Label;
use crate::Plan;
use crate::ScheduleEdit;
use crate::Statistics;
use crate::SwitchPoint;
use crate::Trace;
use crate::Tuning;
use crate::Window;
use crate::cache::Cache;
use crate::cache::Key;
use crate::cache::Scene;
use crate::footprints::Footprints;
use crate::scatter;
use crate::scatter::Scatter;
use crate::tree::Choice;
use crate::tree::FIRST_SYNCHRONISATIONS;
use crate::tree::Node;
use crate::tree::Tree;
use crate::tree::is_same_place;
use crate::tree::signature;
use crate::tuning::Caching;
use crate::tuning::Reduction;
use crate::tuning::Scope;
use run_model::ThreadIndex;
use std::collections::BTreeSet;

mod enumeration;

pub(crate) use enumeration::Cursor;

/// A replay of the admitted plan that failed, and how far the search for a better plan has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub ending: Ending,
    pub met: usize,
    pub stands: Vec<(ThreadIndex, Label)>,
    /// Switch points of the failed replay, in the failure's own window.
    pub points: Vec<SwitchPoint>,
    /// Its accesses there, once they were traced.
    pub accesses: Option<Vec<Access>>,
    /// Plans by recipes, and how many of them were tried.
    pub recalled: Vec<Plan>,
    pub recalled_next: usize,
    pub recalling: Recalling,
    pub pass: Pass,
    /// One tree per window, from near to far.
    pub trees: Vec<Tree>,
    pub cursor: Cursor,
    pub seen: BTreeSet<u64>,
    pub footprints: Footprints,
    /// Whether anything was left out or held for a duplicate in this pass.
    pub is_reduced: bool,
    pub scatter: Scatter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalling {
    NotYet,
    Plain,
    WithAccesses,
    Over,
}

/// So many choices are tried in a window before its accesses are looked at. One or two are often enough; if none helps,
/// the accesses are needed anyway.
const UNTRACED_MAX: usize = 4;
/// In a window of more switch points, looking at the accesses takes longer than what is tried first.
const POINTS_MANY: usize = 128;

/// First without what would probably come to the same as something else; then, if nothing helped, with all of it. Only what the
/// second pass has tried in vain is impossible within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Reduced,
    Full,
}

/// What the next attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// To see the switch points of the next window.
    Window,
    /// To see the accesses that a recipe speaks of.
    RecallTrace,
    Recall,
    /// To see the accesses of the cursor's node.
    AccessTrace,
    /// The same of the first window while it is being tried: what is left of it may come to the same as something else.
    Footprints,
    Try,
    /// To see the accesses of the whole run, from which plans are scattered; and one of these.
    ScatterTrace,
    Scattered,
    /// There is nothing left.
    Nothing,
}

/// What one attempt came to.
pub(crate) enum Step {
    /// It got further, with this plan.
    Progress(Plan),
    NoProgress,
    /// The same plan went differently than before.
    Unsteady,
}

/// What does not change while a failure is worked at.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    pub log: &'a EventLog,
    pub tuning: &'a Tuning,
    pub cache: &'a Cache,
    pub admitted: &'a Plan,
    pub admission: u64,
}

/// Where a thread stands is found by looking at its stack, where signals leave something behind: it may differ.
fn is_same(one: &Ending, other: &Ending) -> bool {
    match (one, other) {
        (Ending::Deadlock { thread: one, .. }, Ending::Deadlock { thread: other, .. }) => one == other,
        _ => one == other,
    }
}

impl Failure {
    /// `asked` is the window that the attempt was asked to trace.
    pub fn new(attempt: Attempt, asked: Option<&Window>, given: &Circumstances) -> Failure {
        let mut failure = Failure {
            ending: attempt.ending,
            met: attempt.met,
            stands: attempt.stands,
            points: Vec::new(),
            accesses: None,
            recalled: Vec::new(),
            recalled_next: 0,
            recalling: Recalling::NotYet,
            pass: match given.tuning.reduction {
                Reduction::On => Pass::Reduced,
                Reduction::Off => Pass::Full,
            },
            trees: Vec::new(),
            cursor: Cursor {
                layers: 1,
                ..Cursor::default()
            },
            seen: BTreeSet::new(),
            footprints: Footprints::default(),
            is_reduced: false,
            scatter: Scatter::default(),
        };
        let window = failure.window(0, given);
        if asked.is_some_and(|asked| asked.covers(&window)) && !failure.traces_accesses_first(given) {
            let points = attempt
                .points
                .into_iter()
                .filter(|point| window.contains(point.spot))
                .collect();
            failure.open_window(points, given);
        }
        failure
    }

    fn thread(&self) -> ThreadIndex {
        match self.ending {
            Ending::Complete => ThreadIndex(0),
            Ending::Mismatch { thread, .. } | Ending::Deadlock { thread, .. } => thread,
        }
    }

    fn window(&self, back: usize, given: &Circumstances) -> Window {
        match given.tuning.scope {
            Scope::Windows => Window::of(given.log, self.met, self.thread(), back),
            Scope::WholeRun => Window::whole(given.log),
        }
    }

    /// If accesses are the first layer, the switch points alone are of no use.
    fn traces_accesses_first(&self, given: &Circumstances) -> bool {
        given.tuning.layers.first().is_some_and(|layer| layer.is_of_accesses())
    }

    pub fn task(&self, given: &Circumstances) -> Task {
        let enumerated = self.enumerated(given);
        let is_enumerating = !matches!(enumerated, Task::Recall | Task::RecallTrace) && !self.trees.is_empty();
        if given.tuning.scattered_max != 0 && is_enumerating && self.scatter.is_due(enumerated == Task::Nothing) {
            return match self.scatter.is_made {
                true => Task::Scattered,
                false => Task::ScatterTrace,
            };
        }
        enumerated
    }

    /// The same, if nothing is scattered.
    fn enumerated(&self, given: &Circumstances) -> Task {
        if self.trees.is_empty() {
            return Task::Window;
        }
        match self.recalling {
            Recalling::Plain | Recalling::WithAccesses if self.recalled_next < self.recalled.len() => Task::Recall,
            Recalling::WithAccesses => Task::RecallTrace,
            _ if self.cursor.window >= given.tuning.windows(self.cursor.round) as usize => Task::Nothing,
            _ if self.cursor.window >= self.trees.len() => Task::Window,
            _ => match self.node() {
                None => Task::Nothing,
                Some(node) if node.choices.is_none() => Task::AccessTrace,
                Some(_) if self.is_untraced(&self.cursor, given) && self.cursor.choice >= self.untraced_max() => {
                    Task::Footprints
                }
                Some(_) => Task::Try,
            },
        }
    }

    fn untraced_max(&self) -> usize {
        match self.points.len() > POINTS_MANY {
            true => FIRST_SYNCHRONISATIONS,
            false => UNTRACED_MAX,
        }
    }

    /// The window that the next attempt is asked to trace.
    pub fn traced(&self, given: &Circumstances) -> Option<Window> {
        let tree = match self.task(given) {
            Task::ScatterTrace => return Some(Window::whole(given.log)),
            Task::Scattered => return None,
            Task::Recall | Task::RecallTrace => self.trees.first(),
            _ => self.trees.get(self.cursor.window),
        };
        tree.map(|tree| tree.window.clone())
    }

    /// The next asks in the order of enumeration, as many as do not depend on each other's answers, at most `most`.
    pub fn asks(&self, most: usize, given: &Circumstances) -> Vec<Ask> {
        let ask = |plan: &Plan, trace, event| Ask {
            plan: plan.clone(),
            trace,
            checkpoint: Checkpoint {
                admission: given.admission,
                event,
            },
        };
        match self.task(given) {
            Task::Nothing => Vec::new(),
            Task::Window => {
                let window = self.window(self.trees.len(), given);
                let trace = match self.traces_accesses_first(given) {
                    true => Trace::PointsAndAccesses(window),
                    false => Trace::Points(window),
                };
                vec![ask(given.admitted, trace, self.met)]
            }
            Task::RecallTrace | Task::Footprints => {
                vec![ask(
                    given.admitted,
                    Trace::PointsAndAccesses(self.trees[0].window.clone()),
                    self.met,
                )]
            }
            Task::Recall => {
                let trace = Trace::Points(self.trees[0].window.clone());
                let plans = self.recalled[self.recalled_next..].iter().take(most);
                plans
                    .map(|plan| ask(plan, trace.clone(), self.earliest(plan, given)))
                    .collect()
            }
            Task::AccessTrace => {
                let trace = Trace::PointsAndAccesses(self.trees[self.cursor.window].window.clone());
                self.node()
                    .map(|node| ask(&node.plan, trace, node.shared))
                    .into_iter()
                    .collect()
            }
            Task::ScatterTrace => {
                let trace = Trace::PointsAndAccesses(Window::whole(given.log));
                vec![ask(given.admitted, trace, self.met)]
            }
            Task::Scattered => {
                let due = self.scatter.due(most);
                due.iter().map(|plan| ask(plan, Trace::Nothing, 0)).collect()
            }
            Task::Try => {
                let window = &self.trees[self.cursor.window].window;
                let most = match given.tuning.scattered_max {
                    0 => most,
                    _ => most.min(self.scatter.until_due()),
                };
                let tries = self.tries(most, given);
                let ask_one = |(node, choice): &(&Node, Choice)| {
                    let plan = node.with(choice, window);
                    ask(&plan, Trace::Points(window.clone()), node.shared.min(choice.next))
                };
                let mut asks: Vec<Ask> = tries.iter().map(ask_one).collect();
                // If none of them helps, the accesses are looked at next.
                if asks.len() < most && self.is_untraced(&self.cursor, given) {
                    asks.push(ask(given.admitted, Trace::PointsAndAccesses(window.clone()), self.met));
                }
                asks
            }
        }
    }

    /// Until how many events a recalled plan is the admitted one's replay.
    fn earliest(&self, plan: &Plan, given: &Circumstances) -> usize {
        let new = plan.edits.iter().filter(|made| !given.admitted.edits.contains(made));
        let next = |made: &ScheduleEdit| match made {
            ScheduleEdit::Preempt { at, .. } | ScheduleEdit::Advance { at, .. } => self
                .points
                .iter()
                .find(|point| point.spot == *at)
                .map(|point| point.next),
            ScheduleEdit::Reverse { hold, .. } if hold.is_synchronisation() => self
                .points
                .iter()
                .find(|point| point.spot == hold.block)
                .map(|point| point.next),
            ScheduleEdit::Reverse { hold, .. } | ScheduleEdit::Delay { hold } => {
                let found = self.accesses.iter().flatten().find(|access| access.id == *hold);
                found.map(|access| access.next)
            }
        };
        new.map(|made| next(made).unwrap_or(0)).min().unwrap_or(self.met)
    }

    /// Takes the answer to the first of [`Failure::asks`].
    pub fn take(&mut self, attempt: &Attempt, given: &Circumstances, counted: &mut Statistics) -> Step {
        let task = self.task(given);
        let is_root = self.cursor.depth == 0;
        let is_same_plan = matches!(
            task,
            Task::Window | Task::RecallTrace | Task::Footprints | Task::ScatterTrace
        ) || task == Task::AccessTrace && is_root;
        let traced;
        let attempt = match is_same_plan && (attempt.met != self.met || !is_same(&attempt.ending, &self.ending)) {
            // Tracing accesses takes much longer than the replay: what depends on the time may differ. Without a trace there are
            // no reversals; all else goes on.
            true if matches!(
                task,
                Task::AccessTrace | Task::Footprints | Task::RecallTrace | Task::ScatterTrace
            ) =>
            {
                traced = Attempt {
                    points: Vec::new(),
                    accesses: Vec::new(),
                    followed: Vec::new(),
                    ..attempt.clone()
                };
                &traced
            }
            true => return Step::Unsteady,
            false => attempt,
        };
        match task {
            Task::Nothing => return Step::NoProgress,
            Task::Window => {
                match self.traces_accesses_first(given) {
                    true => counted.access_traces += 1,
                    false => counted.point_traces += 1,
                }
                if self.traces_accesses_first(given) && self.trees.is_empty() {
                    self.accesses = Some(attempt.accesses.clone());
                }
                self.open_window(attempt.points.clone(), given);
            }
            Task::RecallTrace => {
                counted.access_traces += 1;
                self.footprints.learn(attempt);
                self.accesses = Some(attempt.accesses.clone());
                self.recall(given);
                self.recalling = Recalling::Over;
                // The plain ones were tried; what is new goes on as before.
                if self.recalled_next < self.recalled.len() {
                    self.recalling = Recalling::Plain;
                }
            }
            Task::Footprints => {
                counted.access_traces += 1;
                self.footprints.learn(attempt);
                self.accesses = Some(attempt.accesses.clone());
                self.leave_out(counted);
            }
            Task::Recall => {
                counted.recalled += 1;
                let plan = self.recalled[self.recalled_next].clone();
                self.recalled_next += 1;
                if self.is_progress(attempt) {
                    counted.cache_hits += 1;
                    return Step::Progress(plan);
                }
            }
            Task::AccessTrace => {
                counted.access_traces += 1;
                let Cursor { window, depth, .. } = self.cursor;
                if window == 0 && depth == 0 {
                    self.accesses = Some(attempt.accesses.clone());
                }
                self.footprints.learn(attempt);
                self.choose_reversals(&attempt.accesses, given, counted);
            }
            Task::ScatterTrace => {
                counted.access_traces += 1;
                let most = (given.tuning.scattered_max as usize).min(scatter::PLANS_MAX);
                self.scatter
                    .make(&attempt.accesses, given.admitted, given.admission, most);
            }
            Task::Scattered => {
                counted.scattered += 1;
                let plan = self.scatter.plans[self.scatter.next].clone();
                self.scatter.next += 1;
                if self.is_progress(attempt) {
                    return Step::Progress(plan);
                }
            }
            Task::Try => {
                self.scatter.enumerated += 1;
                if let Some(plan) = self.take_try(attempt, given, counted) {
                    return Step::Progress(plan);
                }
            }
        }
        self.settle(given, counted);
        Step::NoProgress
    }

    fn is_progress(&self, attempt: &Attempt) -> bool {
        attempt.ending == Ending::Complete || attempt.met > self.met
    }

    fn open_window(&mut self, points: Vec<SwitchPoint>, given: &Circumstances) {
        let window = self.window(self.trees.len(), given);
        if self.trees.is_empty() {
            self.points = points.clone();
        }
        self.seen
            .insert(signature(self.trees.len(), &points, given.admitted, &self.ending));
        self.trees
            .push(Tree::new(window, given.admitted.clone(), points, self.met));
        if self.recalling == Recalling::NotYet {
            self.recalling = Recalling::Over;
            if let (Caching::On, Some(key)) = (given.tuning.caching, Key::of(&self.ending)) {
                self.recall(given);
                self.recalling = match given.cache.needs_accesses(&key) {
                    true => Recalling::WithAccesses,
                    false => Recalling::Plain,
                };
            }
        }
    }

    /// Adds the plans that recipes come to, as far as they are new.
    fn recall(&mut self, given: &Circumstances) {
        let Some(key) = Key::of(&self.ending) else { return };
        for edits in given.cache.recall(&key, &self.scene(given.log)) {
            let is_replaced = |old: &ScheduleEdit| edits.iter().any(|new| is_same_place(old, new));
            let kept = given.admitted.edits.iter().filter(|old| !is_replaced(old));
            let plan = Plan {
                edits: kept.chain(&edits).copied().collect(),
            };
            if plan != *given.admitted && !self.recalled.contains(&plan) {
                self.recalled.push(plan);
            }
        }
    }

    pub fn scene<'a>(&'a self, log: &'a EventLog) -> Scene<'a> {
        Scene {
            log,
            met: self.met,
            stands: &self.stands,
            points: &self.points,
            accesses: self.accesses.as_deref(),
        }
    }
}
