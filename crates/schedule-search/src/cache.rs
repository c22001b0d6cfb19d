//! What helped before (section 5 of the paper): failures come again, in other threads and at other events.
//!
//! Threads are named by where they stand when the replay fails, edits by counting backward from there. The paper leaves
//! several preemptions and reversals out; here a recipe has as many edits as the search added, of both kinds, provided that
//! all of them can be named in the trace of the replay that failed.
use crate::Access;
use crate::AccessId;
use crate::Ending;
use crate::EventLog;
use crate::Label;
use crate::PointKind;
use crate::ScheduleEdit;
use crate::Spot;
use crate::SwitchPoint;
use crate::races::synchronisations;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::fmt;

/// Different ways out of the same failure that are kept; the last that helped comes first.
const RECIPES_MAX: usize = 4;
/// Ways to put threads in the place of a recipe's labels that are tried.
const READINGS_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Unmatched { expected: Label, found: Label },
    Deadlock { label: Label },
}

impl Key {
    pub fn of(ending: &Ending) -> Option<Key> {
        match *ending {
            Ending::Complete => None,
            Ending::Mismatch { expected, found, .. } => Some(Key::Unmatched { expected, found }),
            Ending::Deadlock { label, .. } => Some(Key::Deadlock { label }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The thread that stands at `who`, at its `back`th switch point of that kind from the end of the window (1 is the
    /// last), to the thread that stands at `to`.
    Preempt {
        who: Label,
        kind: PointKind,
        back: u64,
        to: Label,
    },
    /// The same for [`ScheduleEdit::Advance`].
    Advance {
        who: Label,
        kind: PointKind,
        back: u64,
        to: Label,
    },
    Reverse {
        hold: Reach,
        until: Reach,
    },
    Delay {
        hold: Reach,
    },
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Unmatched { expected, found } => write!(f, "found {} where {} was expected", found.0, expected.0),
            Key::Deadlock { label } => write!(f, "stuck at {}", label.0),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Preempt { who, kind, back, to } | Step::Advance { who, kind, back, to } => {
                let what = match kind {
                    PointKind::Synchronisation => "synchronisation",
                    PointKind::Call => "call",
                };
                let how = match self {
                    Step::Advance { .. } => " as far as possible",
                    _ => "",
                };
                write!(f, "at {}, {back} {what} back, go on at {}{how}", who.0, to.0)
            }
            Step::Reverse { hold, until } => {
                let what = if hold.is_synchronisation {
                    "synchronisation"
                } else {
                    "access"
                };
                let Reach { who, label, back, .. } = hold;
                write!(f, "at {}, before {what} {back} back at {}, ", who.0, label.0)?;
                let Reach { who, label, back, .. } = until;
                write!(f, "first at {} {what} {back} back at {}", who.0, label.0)
            }
            Step::Delay { hold } => {
                let Reach { who, label, back, .. } = hold;
                write!(
                    f,
                    "at {}, before access {back} back at {}, all others first",
                    who.0, label.0
                )
            }
        }
    }
}

/// An access, or a synchronisation: the `back`th from the end at `label`, by the thread that stands at `who`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reach {
    pub who: Label,
    pub label: Label,
    pub back: u64,
    pub is_synchronisation: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cache {
    pub recipes: BTreeMap<Key, Vec<Vec<Step>>>,
}

/// A replay that failed, as far as recipes speak of it.
pub(crate) struct Scene<'a> {
    pub log: &'a EventLog,
    pub met: usize,
    pub stands: &'a [(ThreadIndex, Label)],
    pub points: &'a [SwitchPoint],
    pub accesses: Option<&'a [Access]>,
}

impl Cache {
    pub fn remember(&mut self, key: Key, scene: &Scene, edits: &[ScheduleEdit]) {
        let Some(recipe) = edits.iter().map(|m| scene.step(m)).collect::<Option<Vec<Step>>>() else {
            return;
        };
        let known = self.recipes.entry(key).or_default();
        known.retain(|other| *other != recipe);
        known.insert(0, recipe);
        known.truncate(RECIPES_MAX);
    }

    /// A sentence for each recipe.
    pub fn describe(&self) -> Vec<String> {
        let recipes = self
            .recipes
            .iter()
            .flat_map(|(key, recipes)| recipes.iter().map(move |recipe| (key, recipe)));
        let sentence = |(key, recipe): (&Key, &Vec<Step>)| {
            let steps: Vec<String> = recipe.iter().map(Step::to_string).collect();
            format!("{key}: {}", steps.join("; "))
        };
        recipes.map(sentence).collect()
    }

    /// Whether some recipe for `key` can only be read with a trace of accesses.
    pub fn needs_accesses(&self, key: &Key) -> bool {
        let steps = |recipe: &Vec<Step>| {
            let is_access = |step: &Step| match step {
                Step::Reverse { hold, .. } | Step::Delay { hold } => !hold.is_synchronisation,
                Step::Preempt { .. } | Step::Advance { .. } => false,
            };
            recipe.iter().any(is_access)
        };
        self.recipes.get(key).is_some_and(|recipes| recipes.iter().any(steps))
    }

    /// What the recipes for `key` come to here.
    pub fn recall(&self, key: &Key, scene: &Scene) -> Vec<Vec<ScheduleEdit>> {
        let mut found: Vec<Vec<ScheduleEdit>> = Vec::new();
        for recipe in self.recipes.get(key).into_iter().flatten() {
            for reading in scene.readings(recipe) {
                if !found.contains(&reading) {
                    found.push(reading);
                }
            }
        }
        found
    }
}

impl Scene<'_> {
    fn label_of(&self, thread: ThreadIndex) -> Option<Label> {
        self.stands
            .iter()
            .find(|(other, _)| *other == thread)
            .map(|(_, label)| *label)
    }

    fn step(&self, made: &ScheduleEdit) -> Option<Step> {
        match made {
            ScheduleEdit::Preempt { at, to } | ScheduleEdit::Advance { at, to } => {
                let point = self.points.iter().find(|point| point.spot == *at)?;
                let back = self
                    .points_back(at.thread, point.kind)
                    .position(|point| point.spot == *at)?;
                let (who, to) = (self.label_of(at.thread)?, self.label_of(*to)?);
                let (kind, back) = (point.kind, back as u64 + 1);
                Some(match made {
                    ScheduleEdit::Advance { .. } => Step::Advance { who, kind, back, to },
                    _ => Step::Preempt { who, kind, back, to },
                })
            }
            ScheduleEdit::Reverse { hold, until } => Some(Step::Reverse {
                hold: self.reach(hold)?,
                until: self.reach(until)?,
            }),
            ScheduleEdit::Delay { hold } => Some(Step::Delay {
                hold: self.reach(hold)?,
            }),
        }
    }

    fn reach(&self, id: &AccessId) -> Option<Reach> {
        let (thread, is_synchronisation) = (id.block.thread, id.is_synchronisation());
        let label = match is_synchronisation {
            true => self.points.iter().find(|point| point.spot == id.block)?.label,
            false => self.accesses?.iter().find(|access| access.id == *id)?.label,
        };
        let back = self
            .ids_back(thread, label, is_synchronisation)
            .iter()
            .position(|other| other == id)?;
        Some(Reach {
            who: self.label_of(thread)?,
            label,
            back: back as u64 + 1,
            is_synchronisation,
        })
    }

    fn points_back(&self, thread: ThreadIndex, kind: PointKind) -> impl Iterator<Item = &SwitchPoint> {
        let fits = move |point: &&SwitchPoint| point.spot.thread == thread && point.kind == kind;
        self.points.iter().rev().filter(fits)
    }

    /// The accesses of a thread at one place of the program, or what it synchronised on there, backward.
    fn ids_back(&self, thread: ThreadIndex, label: Label, are_synchronisations: bool) -> Vec<AccessId> {
        let synchronised;
        let all = match are_synchronisations {
            true => {
                synchronised = synchronisations(self.points);
                Some(synchronised.as_slice())
            }
            false => self.accesses,
        };
        let fits = |access: &&Access| access.id.block.thread == thread && access.label == label;
        let all = all.into_iter().flatten().rev().filter(fits);
        all.map(|access| access.id).collect()
    }

    /// Threads that stand at `label`, those with the next events first.
    fn threads_at(&self, label: Label) -> Vec<ThreadIndex> {
        let order = self.log.threads_from(self.met);
        order
            .into_iter()
            .filter(|thread| self.label_of(*thread) == Some(label))
            .collect()
    }

    /// The recipe's edits, with threads for its labels.
    fn readings(&self, recipe: &[Step]) -> Vec<Vec<ScheduleEdit>> {
        let mut readings = vec![Vec::new()];
        for step in recipe {
            let options = match step {
                Step::Preempt { who, kind, back, to } => {
                    let pairs = self.preemptions(*who, *kind, *back, *to).into_iter();
                    pairs.map(|(at, to)| ScheduleEdit::Preempt { at, to }).collect()
                }
                Step::Advance { who, kind, back, to } => {
                    let pairs = self.preemptions(*who, *kind, *back, *to).into_iter();
                    pairs.map(|(at, to)| ScheduleEdit::Advance { at, to }).collect()
                }
                Step::Reverse { hold, until } => self.reversals(hold, until),
                Step::Delay { hold } => self
                    .ids(hold)
                    .into_iter()
                    .map(|hold| ScheduleEdit::Delay { hold })
                    .collect(),
            };
            let with = |reading: &Vec<ScheduleEdit>| {
                let reading = reading.clone();
                options
                    .iter()
                    .map(move |option| [reading.as_slice(), &[*option]].concat())
                    .collect::<Vec<_>>()
            };
            readings = readings.iter().flat_map(with).take(READINGS_MAX).collect();
        }
        readings
    }

    fn preemptions(&self, who: Label, kind: PointKind, back: u64, to: Label) -> Vec<(Spot, ThreadIndex)> {
        let nth = usize::try_from(back.saturating_sub(1)).unwrap_or(usize::MAX);
        let spots: Vec<Spot> = self
            .threads_at(who)
            .into_iter()
            .filter_map(|thread| self.points_back(thread, kind).nth(nth).map(|point| point.spot))
            .collect();
        let targets = self.threads_at(to);
        // A thread may be held up for itself: that it stays, although the log suggests another.
        let pairs = spots.iter().flat_map(|at| targets.iter().map(|to| (*at, *to)));
        pairs.collect()
    }

    /// The accesses that `reach` may mean.
    fn ids(&self, reach: &Reach) -> Vec<AccessId> {
        let nth = usize::try_from(reach.back.saturating_sub(1)).unwrap_or(usize::MAX);
        let of = |thread| {
            self.ids_back(thread, reach.label, reach.is_synchronisation)
                .get(nth)
                .copied()
        };
        self.threads_at(reach.who).into_iter().filter_map(of).collect()
    }

    fn reversals(&self, hold: &Reach, until: &Reach) -> Vec<ScheduleEdit> {
        let untils = self.ids(until);
        let pairs = self
            .ids(hold)
            .into_iter()
            .flat_map(|hold| untils.iter().map(move |until| (hold, *until)));
        pairs
            .filter(|(hold, until)| hold.block.thread != until.block.thread)
            .map(|(hold, until)| ScheduleEdit::Reverse { hold, until })
            .collect()
    }
}
