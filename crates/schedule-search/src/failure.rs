//! The work on one failure of the replay: first what helped before, then everything, from near to far.
use crate::Access;
use crate::Ask;
use crate::Attempt;
use crate::Checkpoint;
use crate::Ending;
use crate::EventLog;
use crate::Label;
use crate::Layer;
use crate::Move;
use crate::Plan;
use crate::PointKind;
use crate::Statistics;
use crate::SwitchPoint;
use crate::Trace;
use crate::Tuning;
use crate::Window;
use crate::cache::Cache;
use crate::cache::Key;
use crate::cache::Scene;
use crate::footprints::Footprints;
use crate::tree::Choice;
use crate::tree::Choices;
use crate::tree::Choosing;
use crate::tree::Node;
use crate::tree::Tree;
use crate::tree::signature;
use crate::tuning::Caching;
use crate::tuning::Reduction;
use crate::tuning::Scope;
use run_model::ThreadIndex;
use std::collections::BTreeSet;

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalling {
    NotYet,
    Plain,
    WithAccesses,
    Over,
}

/// First without what would probably come to the same as something else; then, if nothing helped, with all of it. Only what the
/// second pass has tried in vain is impossible within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Reduced,
    Full,
}

/// The place of the next attempt in the order of enumeration. Loops, from the outermost: rounds (bounds), windows, number of
/// layers, moves added, nodes with so many, layers, choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub round: u64,
    pub window: usize,
    pub layers: usize,
    pub depth: usize,
    pub node: usize,
    pub layer: usize,
    pub choice: usize,
    pub has_tried: bool,
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
    Try,
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
        given.tuning.layers.first() == Some(&Layer::Accesses)
    }

    pub fn task(&self, given: &Circumstances) -> Task {
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
                Some(_) => Task::Try,
            },
        }
    }

    /// The window that the next attempt is asked to trace.
    pub fn traced(&self, given: &Circumstances) -> Option<Window> {
        let tree = match self.task(given) {
            Task::Recall | Task::RecallTrace => self.trees.first(),
            _ => self.trees.get(self.cursor.window),
        };
        tree.map(|tree| tree.window.clone())
    }

    fn node(&self) -> Option<&Node> {
        let Cursor {
            window, depth, node, ..
        } = self.cursor;
        self.trees.get(window)?.levels.get(depth)?.get(node)
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
            Task::RecallTrace => {
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
            Task::Try => {
                let window = &self.trees[self.cursor.window].window;
                let tries = self.tries(most, given);
                let ask_one = |(node, choice): &(&Node, Choice)| {
                    let plan = node.with(choice, window);
                    ask(&plan, Trace::Points(window.clone()), node.shared.min(choice.next))
                };
                tries.iter().map(ask_one).collect()
            }
        }
    }

    /// Until how many events a recalled plan is the admitted one's replay.
    fn earliest(&self, plan: &Plan, given: &Circumstances) -> usize {
        let new = plan.moves.iter().filter(|made| !given.admitted.moves.contains(made));
        let next = |made: &Move| match made {
            Move::Preempt { at, .. } => self
                .points
                .iter()
                .find(|point| point.spot == *at)
                .map(|point| point.next),
            Move::Reverse { hold, .. } => {
                let found = self.accesses.iter().flatten().find(|access| access.id == *hold);
                found.map(|access| access.next)
            }
        };
        new.map(|made| next(made).unwrap_or(0)).min().unwrap_or(self.met)
    }

    /// The choices from the cursor on that are known already: of its node, and of those after it with as many moves.
    fn tries(&self, most: usize, given: &Circumstances) -> Vec<(&Node, Choice)> {
        let mut cursor = self.cursor;
        let mut found = Vec::new();
        let Some(level) = self
            .trees
            .get(cursor.window)
            .and_then(|tree| tree.levels.get(cursor.depth))
        else {
            return found;
        };
        while let Some(node) = level.get(cursor.node) {
            if cursor.layer >= cursor.layers.min(given.tuning.layers.len()) {
                (cursor.node, cursor.layer) = (cursor.node + 1, 0);
                continue;
            }
            if node.expanded & (1 << cursor.layer) == 0 {
                let computed;
                let is_here = (cursor.node, cursor.layer) == (self.cursor.node, self.cursor.layer);
                let known = node.choices.as_ref().filter(|_| is_here);
                let choices = match (known, self.kind(cursor.layer, given)) {
                    (Some(choices), _) => choices,
                    (None, Some(kind)) => {
                        computed = self.preemptions(node, kind, &cursor, given);
                        &computed.list
                    }
                    (None, None) => return found,
                };
                for choice in choices.iter().skip(cursor.choice) {
                    if found.len() == most {
                        return found;
                    }
                    found.push((node, *choice));
                }
            }
            (cursor.layer, cursor.choice) = (cursor.layer + 1, 0);
        }
        found
    }

    /// The points that a layer preempts at; none if it reverses accesses.
    fn kind(&self, layer: usize, given: &Circumstances) -> Option<PointKind> {
        match given.tuning.layers.get(layer)? {
            Layer::Synchronisations => Some(PointKind::Synchronisation),
            Layer::Calls => Some(PointKind::Call),
            Layer::Accesses => None,
        }
    }

    /// Whether the cursor is where [`Failure::settle`] leaves it.
    pub fn is_settled(&self, given: &Circumstances) -> bool {
        let mut settled = self.clone();
        settled.settle(given, &mut Statistics::default());
        settled == *self && self.task(given) != Task::Nothing
    }

    fn choosing<'a>(&'a self, cursor: &Cursor, given: &Circumstances<'a>) -> Choosing<'a> {
        Choosing {
            log: given.log,
            window: &self.trees[cursor.window].window,
            inner: cursor.window.checked_sub(1).map(|inner| &self.trees[inner].window),
            footprints: (self.pass == Pass::Reduced).then_some(&self.footprints),
            races_max: given.tuning.races_max as usize,
        }
    }

    fn preemptions(&self, node: &Node, kind: PointKind, cursor: &Cursor, given: &Circumstances) -> Choices {
        node.preemptions(kind, cursor.depth == 0, &self.choosing(cursor, given))
    }

    /// Takes the answer to the first of [`Failure::asks`].
    pub fn take(&mut self, attempt: &Attempt, given: &Circumstances, counted: &mut Statistics) -> Step {
        let task = self.task(given);
        let is_root = self.cursor.depth == 0;
        let is_same_plan = matches!(task, Task::Window | Task::RecallTrace) || task == Task::AccessTrace && is_root;
        if is_same_plan && (attempt.met != self.met || attempt.ending != self.ending) {
            return Step::Unsteady;
        }
        match task {
            Task::Nothing => return Step::NoProgress,
            Task::Window => {
                if self.traces_accesses_first(given) {
                    counted.access_traces += 1;
                    let first = self.trees.is_empty();
                    self.open_window(attempt.points.clone(), given);
                    if first {
                        self.accesses = Some(attempt.accesses.clone());
                    }
                } else {
                    counted.point_traces += 1;
                    self.open_window(attempt.points.clone(), given);
                }
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
            Task::Try => {
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
        for moves in given.cache.recall(&key, &self.scene(given.log)) {
            let is_same_place = |old: &Move| {
                let at = |made: &Move| match made {
                    Move::Preempt { at, .. } => Some(*at),
                    Move::Reverse { .. } => None,
                };
                moves.iter().any(|new| at(new).is_some() && at(new) == at(old))
            };
            let kept = given.admitted.moves.iter().filter(|old| !is_same_place(old));
            let plan = Plan {
                moves: kept.chain(&moves).copied().collect(),
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

    fn choose_reversals(&mut self, accesses: &[Access], given: &Circumstances, counted: &mut Statistics) {
        let cursor = self.cursor;
        let is_root = cursor.depth == 0;
        let Some(node) = self.node() else { return };
        let choices = node.reversals(accesses, is_root, &self.choosing(&cursor, given));
        if is_root {
            counted.windows_traced += 1;
            counted.window_races += choices.list.len() as u64;
        }
        self.set_choices(choices, counted);
    }

    fn set_choices(&mut self, choices: Choices, counted: &mut Statistics) {
        let Cursor {
            window, depth, node, ..
        } = self.cursor;
        counted.left_out += choices.left_out;
        self.is_reduced |= choices.left_out > 0;
        self.trees[window].levels[depth][node].choices = Some(choices.list);
    }

    /// Takes the attempt at the cursor's choice and moves on to the next choice.
    fn take_try(&mut self, attempt: &Attempt, given: &Circumstances, counted: &mut Statistics) -> Option<Plan> {
        let cursor = self.cursor;
        let choice = *self.node()?.choices.as_ref()?.get(cursor.choice)?;
        (self.cursor.choice, self.cursor.has_tried) = (cursor.choice + 1, true);
        let tree = self.trees.get(cursor.window)?;
        let node = self.node()?;
        let plan = node.with(&choice, &tree.window);
        match choice.made {
            Move::Preempt { .. } => counted.coarse += 1,
            Move::Reverse { .. } => counted.fine += 1,
        }
        if self.is_progress(attempt) {
            return Some(plan);
        }
        let shared = node.shared.min(choice.next);
        if cursor.depth as u64 + 1 >= given.tuning.bound_max {
            return None;
        }
        let is_new = self
            .seen
            .insert(signature(cursor.window, &attempt.points, &plan, &attempt.ending));
        if !is_new {
            counted.duplicates += 1;
            if self.pass == Pass::Reduced {
                self.is_reduced = true;
                return None;
            }
        }
        let points = attempt.points.clone();
        let child = Node {
            plan,
            floor: choice.floor,
            shared,
            points,
            expanded: 0,
            choices: None,
        };
        let levels = &mut self.trees[cursor.window].levels;
        if levels.len() == cursor.depth + 1 {
            levels.push(Vec::new());
        }
        levels[cursor.depth + 1].push(child);
        None
    }

    /// Moves the cursor on to where an attempt is to be made, if it is not there already.
    pub fn settle(&mut self, given: &Circumstances, counted: &mut Statistics) {
        if matches!(self.task(given), Task::Recall | Task::RecallTrace) || self.trees.is_empty() {
            return;
        }
        self.recalling = Recalling::Over;
        loop {
            let Cursor {
                round,
                window,
                layers,
                depth,
                node,
                layer,
                choice,
                has_tried,
            } = self.cursor;
            let has_whole = self.trees.last().is_some_and(|tree| tree.window.is_whole());
            let is_beyond = window >= self.trees.len() && has_whole;
            if window as u64 >= given.tuning.windows(round) || is_beyond {
                // More moves can only be added to what was tried.
                let has_all_windows = is_beyond || given.tuning.windows(round + 1) == given.tuning.windows(round);
                let is_over = given.tuning.is_last(round) || has_all_windows && !has_tried;
                if !is_over {
                    self.cursor = Cursor {
                        round: round + 1,
                        layers: 1,
                        ..Cursor::default()
                    };
                } else if self.pass == Pass::Reduced && self.is_reduced {
                    self.begin_full_pass();
                    return;
                } else {
                    self.cursor.window = usize::MAX;
                    return;
                }
            } else if window >= self.trees.len() {
                return;
            } else if layers > given.tuning.layers.len() {
                self.cursor = Cursor {
                    round,
                    window: window + 1,
                    layers: 1,
                    has_tried,
                    ..Cursor::default()
                };
            } else if depth as u64 >= given.tuning.bound(round) || depth >= self.trees[window].levels.len() {
                self.cursor = Cursor {
                    round,
                    window,
                    layers: layers + 1,
                    has_tried,
                    ..Cursor::default()
                };
            } else if node >= self.trees[window].levels[depth].len() {
                self.cursor = Cursor {
                    round,
                    window,
                    layers,
                    depth: depth + 1,
                    has_tried,
                    ..Cursor::default()
                };
            } else if layer >= layers {
                (self.cursor.node, self.cursor.layer) = (node + 1, 0);
            } else if self.trees[window].levels[depth][node].expanded & (1 << layer) != 0 {
                (self.cursor.layer, self.cursor.choice) = (layer + 1, 0);
            } else if let Some(choices) = &self.trees[window].levels[depth][node].choices {
                if choice < choices.len() {
                    return;
                }
                self.finish_layer(given);
            } else if !self.choose(given, counted) {
                return;
            }
        }
    }

    /// Fills in the choices at the cursor; false if an attempt has to show them first.
    fn choose(&mut self, given: &Circumstances, counted: &mut Statistics) -> bool {
        let cursor = self.cursor;
        match self.kind(cursor.layer, given) {
            Some(kind) => {
                let Some(node) = self.node() else { return false };
                let choices = self.preemptions(node, kind, &cursor, given);
                if cursor.depth == 0 && cursor.layer == 0 {
                    counted.windows += 1;
                    counted.window_preemptions += choices.list.len() as u64;
                }
                self.set_choices(choices, counted);
                true
            }
            None if cursor.window == 0 && cursor.depth == 0 && self.accesses.is_some() => {
                let accesses = self.accesses.take().unwrap_or_default();
                self.choose_reversals(&accesses, given, counted);
                self.accesses = Some(accesses);
                true
            }
            None => false,
        }
    }

    fn finish_layer(&mut self, given: &Circumstances) {
        let Cursor {
            window,
            depth,
            node,
            layer,
            ..
        } = self.cursor;
        let node = &mut self.trees[window].levels[depth][node];
        node.choices = None;
        node.expanded |= 1 << layer;
        if node.expanded.count_ones() as usize >= given.tuning.layers.len() {
            node.points = Vec::new();
        }
    }

    fn begin_full_pass(&mut self) {
        self.pass = Pass::Full;
        self.trees.clear();
        self.seen.clear();
        self.cursor = Cursor {
            layers: 1,
            ..Cursor::default()
        };
    }
}
