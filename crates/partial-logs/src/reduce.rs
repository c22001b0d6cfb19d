//! Which elements of a candidate that reproduced the failure matter: the fewest whose vectors are enough, the others free (after Zeller and Hildebrandt's ddmin).
//!
//! Where elements are free, the outcome is up to chance. So a set of elements counts as enough only if it reproduced the failure several times in a row, and what
//! comes out has no element that could be left out as far as those attempts tell: no more than that is promised.
use crate::ElementId;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug)]
pub struct ReduceSettings {
    /// In a row, for a set to be enough.
    pub times: u32,
    /// Attempts in all.
    pub budget: u32,
}

impl Default for ReduceSettings {
    fn default() -> ReduceSettings {
        ReduceSettings { times: 3, budget: 200 }
    }
}

/// Asks for attempts one after the other.
#[derive(Clone, Debug)]
pub struct Reducer {
    settings: ReduceSettings,
    /// Enough, as far as is known.
    enough: Vec<ElementId>,
    /// Into so many parts it is cut, each of which is left out once.
    parts: usize,
    part: usize,
    /// What is tried, and how often it has reproduced the failure.
    trying: Option<(BTreeSet<ElementId>, u32)>,
    tried: BTreeMap<BTreeSet<ElementId>, bool>,
    attempts: u32,
}

impl Reducer {
    /// `elements` are those of the candidate, in the order in which they are likely to matter: the base's before those that were guessed.
    pub fn new(elements: impl IntoIterator<Item = ElementId>, settings: ReduceSettings) -> Reducer {
        let mut known = BTreeSet::new();
        Reducer {
            settings: ReduceSettings {
                times: settings.times.max(1),
                ..settings
            },
            enough: elements.into_iter().filter(|element| known.insert(*element)).collect(),
            // Left out all at once at first: if the failure comes by itself, no element matters.
            parts: 1,
            part: 0,
            trying: None,
            tried: BTreeMap::new(),
            attempts: 0,
        }
    }

    /// The elements that keep to their vectors in the next attempt: nothing if there is no more to find out, or attempts are used up. Until it is reported on, it is the
    /// same.
    #[allow(
        clippy::should_implement_trait,
        reason = "what comes next depends on what is reported in between"
    )]
    pub fn next(&mut self) -> Option<BTreeSet<ElementId>> {
        if self.attempts >= self.settings.budget {
            return None;
        }
        if let Some((trying, _)) = &self.trying {
            return Some(trying.clone());
        }
        while !self.enough.is_empty() && self.parts <= self.enough.len() {
            if self.part == 0 {
                self.part = self.parts;
            }
            let without = self.without_part();
            match self.tried.get(&without) {
                Some(_) => self.advance(),
                None => {
                    self.trying = Some((without.clone(), 0));
                    return Some(without);
                }
            }
        }
        None
    }

    /// Did the attempt that [`next`](Reducer::next) asked for fail in the same way?
    pub fn report(&mut self, has_reproduced: bool) {
        let Some((trying, times)) = self.trying.take() else {
            return;
        };
        self.attempts += 1;
        let times = times + u32::from(has_reproduced);
        if has_reproduced && times < self.settings.times {
            self.trying = Some((trying, times));
            return;
        }
        if has_reproduced {
            self.enough.retain(|element| trying.contains(element));
            self.parts = (self.parts - 1).max(2);
            self.part = 0;
        } else {
            self.advance();
        }
        self.tried.insert(trying, has_reproduced);
    }

    /// The elements that are enough, as far as is known.
    pub fn enough(&self) -> BTreeSet<ElementId> {
        self.enough.iter().copied().collect()
    }

    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Parts are counted down from `parts`: what is least likely to matter is at the end.
    fn without_part(&self) -> BTreeSet<ElementId> {
        let length = self.enough.len();
        let edge = |part: usize| part * length / self.parts;
        let (from, to) = (edge(self.part - 1), edge(self.part));
        let kept = self.enough.iter().enumerate().filter(|(at, _)| *at < from || *at >= to);
        kept.map(|(_, element)| *element).collect()
    }

    /// To the next part; when all have been left out, to smaller ones.
    fn advance(&mut self) {
        self.part -= 1;
        if self.part > 0 {
            return;
        }
        self.parts = match self.parts == self.enough.len() {
            true => self.enough.len() + 1,
            false => (self.parts * 2).min(self.enough.len()),
        };
    }
}
