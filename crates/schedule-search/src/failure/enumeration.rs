//! The order in which plans are tried against a failure, as a place in it and how to go on from there.
use super::Circumstances;
use super::Failure;
use super::Pass;
use super::Recalling;
use super::Task;
use crate::Access;
use crate::Attempt;
use crate::Ending;
use crate::Layer;
use crate::Plan;
use crate::ScheduleEdit;
use crate::Statistics;
use crate::tree::Choice;
use crate::tree::Choices;
use crate::tree::Choosing;
use crate::tree::Node;
use crate::tree::signature;

/// The place of the next attempt in the order of enumeration. Loops, from the outermost: rounds (bounds), windows, number of
/// layers, edits added, nodes with so many, layers, choices.
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

impl Failure {
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
                // More edits can only be added to what was tried.
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

    /// Whether the cursor is where [`Failure::settle`] leaves it.
    pub fn is_settled(&self, given: &Circumstances) -> bool {
        let mut settled = self.clone();
        settled.settle(given, &mut Statistics::default());
        settled == *self && self.task(given) != Task::Nothing
    }

    /// Fills in the choices at the cursor; false if an attempt has to show them first.
    fn choose(&mut self, given: &Circumstances, counted: &mut Statistics) -> bool {
        let cursor = self.cursor;
        match self.at_points(cursor.layer, given) {
            Some(layer) => {
                let Some(node) = self.node() else { return false };
                let choices = self.preemptions(node, layer, &cursor, given);
                if cursor.depth == 0 && layer != Layer::Calls {
                    counted.windows += u64::from(cursor.layer == 0);
                    let is_preemption = |choice: &&Choice| {
                        matches!(choice.made, ScheduleEdit::Preempt { .. } | ScheduleEdit::Advance { .. })
                    };
                    counted.window_preemptions += choices.list.iter().filter(is_preemption).count() as u64;
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

    pub fn choose_reversals(&mut self, accesses: &[Access], given: &Circumstances, counted: &mut Statistics) {
        let cursor = self.cursor;
        let is_root = cursor.depth == 0;
        let Some(node) = self.node() else { return };
        let layer = given
            .tuning
            .layers
            .get(cursor.layer)
            .copied()
            .unwrap_or(Layer::Accesses);
        let choices = node.at_accesses(layer, accesses, is_root, &self.choosing(&cursor, given));
        if is_root {
            let has_first = given.tuning.layers.contains(&Layer::FirstAccesses);
            counted.windows_traced += u64::from(layer == Layer::FirstAccesses || !has_first);
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

    /// Whether the accesses at the cursor will be looked at before all of its choices are tried: in the first window, if
    /// they are to be reversed later.
    pub fn is_untraced(&self, cursor: &Cursor, given: &Circumstances) -> bool {
        let is_first = (cursor.window, cursor.depth, cursor.layer) == (0, 0, 0);
        is_first
            && self.accesses.is_none()
            && self.pass == Pass::Reduced
            && self.at_points(0, given).is_some_and(|layer| layer != Layer::Calls)
            && given.tuning.layers.contains(&Layer::Accesses)
    }

    /// Drops those of the cursor's choices that now seem to come to the same as others.
    pub fn leave_out(&mut self, counted: &mut Statistics) {
        let cursor = self.cursor;
        let footprints = std::mem::take(&mut self.footprints);
        if let Some(node) = self.trees.get_mut(cursor.window).and_then(|tree| {
            let level = tree.levels.get_mut(cursor.depth)?;
            level.get_mut(cursor.node)
        }) && let Some(choices) = &mut node.choices
        {
            let points = &node.points;
            let commutes = |choice: &Choice| match choice.made {
                ScheduleEdit::Preempt { to, .. } | ScheduleEdit::Advance { to, .. } => {
                    footprints.commute(points, choice.passed, to)
                }
                ScheduleEdit::Reverse { .. } | ScheduleEdit::Delay { .. } => false,
            };
            let (before, mut index) = (choices.len(), 0);
            choices.retain(|choice| {
                index += 1;
                index <= cursor.choice || !commutes(choice)
            });
            let dropped = before - choices.len();
            counted.left_out += dropped as u64;
            self.is_reduced |= dropped > 0;
        }
        self.footprints = footprints;
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

    /// Takes the attempt at the cursor's choice and moves on to the next choice.
    pub fn take_try(&mut self, attempt: &Attempt, given: &Circumstances, counted: &mut Statistics) -> Option<Plan> {
        let cursor = self.cursor;
        let choice = *self.node()?.choices.as_ref()?.get(cursor.choice)?;
        (self.cursor.choice, self.cursor.has_tried) = (cursor.choice + 1, true);
        let tree = self.trees.get(cursor.window)?;
        let node = self.node()?;
        let plan = node.with(&choice, &tree.window);
        match choice.made {
            ScheduleEdit::Preempt { .. } | ScheduleEdit::Advance { .. } => counted.coarse += 1,
            ScheduleEdit::Reverse { hold, .. } if hold.is_synchronisation() => counted.coarse += 1,
            ScheduleEdit::Reverse { .. } | ScheduleEdit::Delay { .. } => counted.fine += 1,
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

    /// The choices from the cursor on that are known already: of its node, and of those after it with as many edits.
    pub fn tries(&self, most: usize, given: &Circumstances) -> Vec<(&Node, Choice)> {
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
                let choices = match (known, self.at_points(cursor.layer, given)) {
                    (Some(choices), _) => choices,
                    (None, Some(layer)) => {
                        computed = self.preemptions(node, layer, &cursor, given);
                        &computed.list
                    }
                    (None, None) => return found,
                };
                let known_max = match self.is_untraced(&cursor, given) {
                    true => self.untraced_max(),
                    false => usize::MAX,
                };
                for (index, choice) in choices.iter().enumerate().skip(cursor.choice) {
                    // What comes after depends on the answer to something else.
                    if found.len() == most || index >= known_max {
                        return found;
                    }
                    found.push((node, *choice));
                }
            }
            (cursor.layer, cursor.choice) = (cursor.layer + 1, 0);
        }
        found
    }

    pub fn node(&self) -> Option<&Node> {
        let Cursor {
            window, depth, node, ..
        } = self.cursor;
        self.trees.get(window)?.levels.get(depth)?.get(node)
    }

    /// A layer whose edits are made at switch points; none if it reverses accesses.
    fn at_points(&self, layer: usize, given: &Circumstances) -> Option<Layer> {
        let layer = *given.tuning.layers.get(layer)?;
        (!layer.is_of_accesses()).then_some(layer)
    }

    fn choosing<'a>(&'a self, cursor: &Cursor, given: &Circumstances<'a>) -> Choosing<'a> {
        Choosing {
            log: given.log,
            window: &self.trees[cursor.window].window,
            inner: cursor.window.checked_sub(1).map(|inner| &self.trees[inner].window),
            footprints: (self.pass == Pass::Reduced).then_some(&self.footprints),
            races_max: given.tuning.races_max as usize,
            advancing: given.tuning.advancing,
            failed: self.thread(),
            is_stuck: matches!(self.ending, Ending::Deadlock { .. }),
            has_first: given.tuning.layers.contains(&Layer::FirstSynchronisations),
            are_synchronisations_accesses: !given.tuning.layers.contains(&Layer::Synchronisations),
        }
    }

    fn preemptions(&self, node: &Node, layer: Layer, cursor: &Cursor, given: &Circumstances) -> Choices {
        node.at_points(layer, cursor.depth == 0, &self.choosing(cursor, given))
    }
}
