//! The plans that are tried against one failure: a tree in which each child adds an edit to its parent's.
//!
//! NOTE [Order of edits]: A child's edit lies later in time than all that the search added before it. What a replay does up
//! to an edit does not depend on what comes after, so every set of edits is reached on exactly one path, and each step of
//! the path can be chosen from the trace of the one before (the recursion of section 4.2, for edits of any kind).
use crate::Access;
use crate::AccessId;
use crate::Advancing;
use crate::Ending;
use crate::EventLog;
use crate::Plan;
use crate::PointKind;
use crate::ScheduleEdit;
use crate::SwitchPoint;
use crate::Window;
use crate::footprints::Footprints;
use crate::hash::Hash;
use crate::races::contended;
use crate::races::orders;
use crate::races::races;
use crate::races::suspects;
use crate::races::synchronisations;
use crate::races::together;
use run_model::ThreadIndex;
use std::collections::BTreeMap;

/// Choices of [`Layer::FirstSynchronisations`] and of [`Layer::FirstAccesses`].
pub(crate) const FIRST_SYNCHRONISATIONS: usize = 40;
const FIRST_ACCESSES: usize = 64;

/// Points of one thread that are tried before those of others have had their turn.
const AT_A_TIME: usize = 8;

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Preemptions at synchronisations: coarse-grained exploration.
    Synchronisations,
    /// Reversals of racing accesses: fine-grained exploration.
    Accesses,
    /// Of both layers, what is tried first in each. Not in the paper, whose windows are small: in one with a thousand synchronisations, what is near to the
    /// failure comes first, of both kinds.
    FirstSynchronisations,
    FirstAccesses,
    /// Preemptions before logged events. Not in the paper: it is for threads that synchronise without our knowing.
    Calls,
}

impl Layer {
    /// Whether one has to see accesses for it.
    pub(crate) fn is_of_accesses(self) -> bool {
        matches!(self, Layer::Accesses | Layer::FirstAccesses)
    }
}

/// Where in the trace the edits end: later ones come from here on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    pub points: usize,
    pub accesses: usize,
}

/// A plan that was tried and failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub plan: Plan,
    pub floor: Floor,
    /// Until so many events are met, its replay is that of the admitted plan.
    pub shared: usize,
    pub points: Vec<SwitchPoint>,
    /// One bit for each place in the list of layers.
    pub expanded: u64,
    /// What is being tried, in this order; only while it is.
    pub choices: Option<Vec<Choice>>,
}

/// One way to add an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub made: ScheduleEdit,
    pub floor: Floor,
    /// Switch points of the trace that come before it.
    pub passed: usize,
    pub next: usize,
    pub tail: Tail,
}

/// What becomes of admitted edits that come later than a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Keep,
    /// They may have been for something that no longer happens.
    Drop,
}

/// The plans whose first new edit lies in one window and in none of those nearer to the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub window: Window,
    /// By the number of edits added.
    pub levels: Vec<Vec<Node>>,
}

/// What choices are made from.
#[derive(Clone, Copy)]
pub(crate) struct Choosing<'a> {
    pub log: &'a EventLog,
    pub window: &'a Window,
    /// The window nearer to the failure, where the first edit has been looked for already.
    pub inner: Option<&'a Window>,
    /// `None`: nothing is left out.
    pub footprints: Option<&'a Footprints>,
    pub races_max: usize,
    pub advancing: Advancing,
    /// The thread that has failed, and whether it is stuck.
    pub failed: ThreadIndex,
    pub is_stuck: bool,
    /// What is first in a layer has a layer of its own.
    pub has_first: bool,
    /// There are no preemptions: what threads synchronise on is accessed.
    pub are_synchronisations_accesses: bool,
}

/// Choices, and how many were left out because they would come to the same as others.
#[derive(Default)]
pub(crate) struct Choices {
    pub list: Vec<Choice>,
    pub left_out: u64,
}

impl Tree {
    pub fn new(window: Window, plan: Plan, points: Vec<SwitchPoint>, met: usize) -> Tree {
        let root = Node {
            plan,
            floor: Floor::default(),
            shared: met,
            points,
            expanded: 0,
            choices: None,
        };
        Tree {
            window,
            levels: vec![vec![root]],
        }
    }
}

impl Node {
    /// The plan with the edit that `choice` adds.
    pub fn with(&self, choice: &Choice, window: &Window) -> Plan {
        let mut edits = Vec::with_capacity(self.plan.edits.len() + 1);
        let (before, after) = self.split(choice.passed, window);
        // A thread that is held longer, or preempted for another one, is one edit and not two.
        let is_elsewhere = |other: &ScheduleEdit| !is_same_place(other, &choice.made);
        edits.extend(before.into_iter().filter(is_elsewhere));
        edits.push(choice.made);
        if choice.tail == Tail::Keep {
            edits.extend(after.into_iter().filter(is_elsewhere));
        }
        Plan { edits }
    }

    /// The edits that this node's replay made before the switch point `passed` of its trace, and the others.
    fn split(&self, passed: usize, window: &Window) -> (Vec<ScheduleEdit>, Vec<ScheduleEdit>) {
        self.plan
            .edits
            .iter()
            .partition(|made| self.time_of(made, window).is_some_and(|time| time <= passed))
    }

    /// How many switch points of the trace had been passed when an edit was made, its own included; none if it was not reached.
    fn time_of(&self, made: &ScheduleEdit, window: &Window) -> Option<usize> {
        let spot = match made {
            ScheduleEdit::Preempt { at, .. } | ScheduleEdit::Advance { at, .. } => *at,
            ScheduleEdit::Reverse { hold, .. } | ScheduleEdit::Delay { hold } => hold.block,
        };
        if !window.contains(spot) {
            return Some(0);
        }
        match made {
            ScheduleEdit::Preempt { .. } | ScheduleEdit::Advance { .. } => self
                .points
                .iter()
                .position(|point| point.spot == spot)
                .map(|index| index + 1),
            ScheduleEdit::Reverse { .. } | ScheduleEdit::Delay { .. } => {
                let is_before = |point: &SwitchPoint| point.spot.thread == spot.thread && point.spot <= spot;
                Some(self.points.iter().rposition(is_before).map_or(0, |index| index + 1))
            }
        }
    }

    /// Those choices of a layer at switch points that no other layer has.
    pub fn at_points(&self, layer: Layer, is_root: bool, choosing: &Choosing) -> Choices {
        let kind = match layer {
            Layer::Calls => PointKind::Call,
            _ => PointKind::Synchronisation,
        };
        // What is first does not depend on what was seen in the meantime.
        let unreduced = Choosing {
            footprints: None,
            ..*choosing
        };
        let first = || {
            let mut first = self.switches(kind, is_root, &unreduced).list;
            first.truncate(FIRST_SYNCHRONISATIONS);
            first
        };
        match layer {
            Layer::FirstSynchronisations => Choices {
                list: first(),
                left_out: 0,
            },
            Layer::Synchronisations if choosing.has_first => {
                let (mut choices, first) = (self.switches(kind, is_root, choosing), first());
                choices.list.retain(|choice| !first.contains(choice));
                choices
            }
            _ => self.switches(kind, is_root, choosing),
        }
    }

    /// The same of a layer of accesses.
    pub fn at_accesses(&self, layer: Layer, accesses: &[Access], is_root: bool, choosing: &Choosing) -> Choices {
        let mut choices = self.reversals(accesses, is_root, choosing);
        match layer {
            Layer::FirstAccesses => choices.list.truncate(FIRST_ACCESSES),
            _ if choosing.has_first => drop(choices.list.drain(..choices.list.len().min(FIRST_ACCESSES))),
            _ => {}
        }
        choices
    }

    /// Edits at the points of a kind: preemptions; and in turns with them, of synchronisations, other orders of those in which the thread that has failed takes part.
    fn switches(&self, kind: PointKind, is_root: bool, choosing: &Choosing) -> Choices {
        let preemptions = self.preemptions(kind, is_root, choosing);
        if choosing.advancing == Advancing::Off || kind != PointKind::Synchronisation {
            return preemptions;
        }
        let all = synchronisations(&self.points);
        let mut reversed = Vec::new();
        for (first, later) in orders(&all, &self.suspects(choosing)) {
            self.reverse(&all, first, Some(later), is_root, choosing, &mut reversed);
        }
        Choices {
            list: alternately(reversed.into_iter(), preemptions.list.into_iter()).collect(),
            ..preemptions
        }
    }

    /// Preemptions at the points of a kind, backward (algorithm 1), those of threads with earlier events first.
    fn preemptions(&self, kind: PointKind, is_root: bool, choosing: &Choosing) -> Choices {
        let mut choices = Choices::default();
        for index in self.backward(kind) {
            let point = &self.points[index];
            let is_new = !is_root || choosing.inner.is_none_or(|inner| !inner.contains(point.spot));
            if point.kind != kind || !is_new || !choosing.window.contains(point.spot) {
                continue;
            }
            for to in self.targets(point, choosing.log) {
                if choosing
                    .footprints
                    .is_some_and(|known| known.commute(&self.points, index, to))
                {
                    choices.left_out += 1;
                    continue;
                }
                let choice = |made| Choice {
                    made,
                    floor: Floor {
                        points: index + 1,
                        accesses: 0,
                    },
                    passed: index,
                    next: point.next,
                    tail: Tail::Keep,
                };
                let at = point.spot;
                let block = choice(ScheduleEdit::Preempt { at, to });
                self.add(block, is_root, choosing.window, &mut choices.list);
                if choosing.advancing == Advancing::On && self.goes_further(index, to) {
                    let stretch = choice(ScheduleEdit::Advance { at, to });
                    self.add(stretch, is_root, choosing.window, &mut choices.list);
                }
            }
        }
        choices
    }

    /// The points from the floor on, backward; but of each thread only a few at a time. Threads that went on for long after the
    /// one that matters had come to a wrong place would otherwise come first with all they did. Those that stand before an event
    /// have come somewhere, which may be the wrong place, and may hold what others wait for: a few of theirs are ahead of all others.
    fn backward(&self, kind: PointKind) -> Vec<usize> {
        let mut passed: BTreeMap<ThreadIndex, usize> = BTreeMap::new();
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (index, point) in self.points.iter().enumerate().skip(self.floor.points).rev() {
            let rank = passed.entry(point.spot.thread).or_insert(match point.kind {
                PointKind::Call => 0,
                PointKind::Synchronisation => AT_A_TIME,
            });
            if point.kind == kind {
                order.push((*rank / AT_A_TIME, index));
                *rank += 1;
            }
        }
        // Stable: those of the same rank stay backward.
        order.sort_by_key(|(rank, _)| *rank);
        order.into_iter().map(|(_, index)| index).collect()
    }

    /// Whether `to` may synchronise more than once from the point `index` to its next event. If it does not come there in
    /// this trace, nobody knows.
    fn goes_further(&self, index: usize, to: ThreadIndex) -> bool {
        let mut rest = self.points[index + 1..].iter().filter(|point| point.spot.thread == to);
        let mut blocks = rest
            .by_ref()
            .take_while(|point| point.kind == PointKind::Synchronisation);
        // It stands before the first; an acquisition and a release are two.
        blocks.nth(2).is_some()
            || !self.points[index + 1..]
                .iter()
                .any(|point| point.spot.thread == to && point.kind == PointKind::Call)
    }

    /// Who could go on at `point` instead, by their events after the next one.
    fn targets(&self, point: &SwitchPoint, log: &EventLog) -> Vec<ThreadIndex> {
        let could = |to: &ThreadIndex| point.runnable.is_empty() || point.runnable.contains(to);
        let mut order = log.threads_from(point.next.saturating_add(1));
        // Of a thread that made no call, and whose creation has no place either, the log knows nothing.
        let is_unknown = |thread: &&ThreadIndex| thread.0 as usize >= log.threads();
        order.extend(point.runnable.iter().filter(is_unknown));
        order.into_iter().filter(|to| *to != point.to && could(to)).collect()
    }

    /// Reversals of the races in a trace of this node's replay, backward; and in turns with them, delays of accesses that
    /// race or may come to: what other threads will do while the access waits is not in the trace.
    fn reversals(&self, accesses: &[Access], is_root: bool, choosing: &Choosing) -> Choices {
        let mut choices = Choices::default();
        let all;
        let accesses = match choosing.are_synchronisations_accesses {
            true => {
                all = together(accesses, synchronisations(&self.points));
                &all
            }
            false => accesses,
        };
        let races = races(accesses, &self.suspects(choosing), choosing.races_max);
        let reversals = races.into_iter().map(|(first, later)| (first, Some(later)));
        let delays_max = match choosing.advancing {
            Advancing::On => choosing.races_max,
            Advancing::Off => 0,
        };
        let delays = contended(accesses, delays_max).into_iter().map(|first| (first, None));
        for (first, later) in alternately(reversals, delays) {
            if first >= self.floor.accesses {
                self.reverse(accesses, first, later, is_root, choosing, &mut choices.list);
            }
        }
        choices
    }

    fn suspects(&self, choosing: &Choosing) -> Vec<ThreadIndex> {
        suspects(&self.points, choosing.failed, choosing.is_stuck)
    }

    /// Adds the choice to hold an access until another one is made, or as long as possible, unless it was looked at already.
    fn reverse(
        &self,
        accesses: &[Access],
        first: usize,
        later: Option<usize>,
        is_root: bool,
        choosing: &Choosing,
        list: &mut Vec<Choice>,
    ) {
        let hold = &accesses[first];
        let made = match later {
            Some(later) => ScheduleEdit::Reverse {
                hold: hold.id,
                until: accesses[later].id,
            },
            None => ScheduleEdit::Delay { hold: hold.id },
        };
        let was_looked_at = |inner: &Window| {
            let is_inside = |index: usize| inner.contains(accesses[index].id.block);
            is_inside(first) && later.is_none_or(is_inside)
        };
        let is_old = is_root && choosing.inner.is_some_and(was_looked_at);
        if is_old || hold.passed < self.floor.points || self.plan.edits.contains(&made) {
            return;
        }
        let floor = match hold.id.is_synchronisation() && !choosing.are_synchronisations_accesses {
            // It is made at a switch point, as preemptions are.
            true => Floor {
                points: hold.passed + 1,
                accesses: 0,
            },
            false => Floor {
                points: hold.passed,
                accesses: first,
            },
        };
        let choice = Choice {
            made,
            floor,
            passed: hold.passed,
            next: hold.next,
            tail: Tail::Keep,
        };
        self.add(choice, is_root, choosing.window, list);
    }

    /// Adds a choice; if admitted edits come later than it, also the choice without them.
    fn add(&self, choice: Choice, is_root: bool, window: &Window, list: &mut Vec<Choice>) {
        list.push(choice);
        let after = self.split(choice.passed, window).1;
        if is_root && after.iter().any(|other| !is_same_place(other, &choice.made)) {
            list.push(Choice {
                tail: Tail::Drop,
                ..choice
            });
        }
    }
}

/// One of each in turns, then what is left.
fn alternately<T>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let (mut one, mut other) = (one.fuse(), other.fuse());
    let mut is_first = false;
    std::iter::from_fn(move || {
        is_first = !is_first;
        match is_first {
            true => one.next().or_else(|| other.next()),
            false => other.next().or_else(|| one.next()),
        }
    })
}

/// Whether two edits exclude each other: the same thread cannot go on with two others at one point, nor be held at one access for two.
pub(crate) fn is_same_place(one: &ScheduleEdit, other: &ScheduleEdit) -> bool {
    match (one, other) {
        (
            ScheduleEdit::Preempt { at: one, .. } | ScheduleEdit::Advance { at: one, .. },
            ScheduleEdit::Preempt { at: other, .. } | ScheduleEdit::Advance { at: other, .. },
        ) => one == other,
        (
            ScheduleEdit::Reverse { hold: one, .. } | ScheduleEdit::Delay { hold: one },
            ScheduleEdit::Reverse { hold: other, .. } | ScheduleEdit::Delay { hold: other },
        ) => one == other,
        _ => false,
    }
}

/// Equal for replays that did the same, as far as the trace shows. What accesses did in which order it does not show;
/// reversals therefore count as what they are.
pub(crate) fn signature(window: usize, points: &[SwitchPoint], plan: &Plan, ending: &Ending) -> u64 {
    let mut hash = Hash::new();
    hash.add(window as u64);
    for point in points {
        hash.add(u64::from(point.spot.thread.0));
        hash.add(point.spot.calls);
        hash.add(point.spot.nth);
        hash.add(point.label.0);
        hash.add(u64::from(point.to.0));
    }
    // Synchronisations are in the trace.
    let is_access = |id: &&AccessId| !id.is_synchronisation();
    let ids = plan.edits.iter().flat_map(|made| match made {
        ScheduleEdit::Reverse { hold, until } => [Some(hold), Some(until)],
        ScheduleEdit::Delay { hold } => [Some(hold), None],
        ScheduleEdit::Preempt { .. } | ScheduleEdit::Advance { .. } => [None, None],
    });
    for id in ids.flatten().filter(is_access) {
        hash.add(u64::from(id.block.thread.0));
        hash.add(id.block.calls);
        hash.add(id.block.nth);
        hash.add(id.address);
        hash.add(id.nth);
    }
    let (kind, thread, one, two) = match *ending {
        Ending::Complete => (0, 0, 0, 0),
        Ending::Mismatch {
            thread,
            expected,
            found,
        } => (1, thread.0, expected.0, found.0),
        Ending::Deadlock { thread, label } => (2, thread.0, label.0, 0),
    };
    for number in [kind, u64::from(thread), one, two] {
        hash.add(number);
    }
    hash.value()
}
