//! Which edits of a plan that works are not needed: they go, in parts of half the plan, a quarter …, at last one by one, as long
//! as the replay meets the log without them.
use crate::Plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Minimisation {
    /// Edits that are left out at a time, and the first of those that are next.
    pub part: usize,
    pub start: usize,
    /// Whether something went since the parts have had this size.
    pub has_dropped: bool,
}

impl Minimisation {
    /// None if there is nothing to leave out.
    pub fn new(plan: &Plan) -> Option<Minimisation> {
        let part = plan.edits.len().div_ceil(2);
        (part > 0).then_some(Minimisation {
            part,
            start: 0,
            has_dropped: false,
        })
    }

    /// What is tried next, and what would be after it if that does not work, within one round.
    pub fn candidates(&self, plan: &Plan, most: usize) -> Vec<Plan> {
        let starts = (self.start..plan.edits.len()).step_by(self.part.max(1));
        starts.take(most).map(|start| self.without(plan, start)).collect()
    }

    pub fn candidate(&self, plan: &Plan) -> Plan {
        self.without(plan, self.start)
    }

    fn without(&self, plan: &Plan, start: usize) -> Plan {
        let left_out = start..start.saturating_add(self.part);
        let kept = plan
            .edits
            .iter()
            .enumerate()
            .filter(|(index, _)| !left_out.contains(index));
        Plan {
            edits: kept.map(|(_, made)| *made).collect(),
        }
    }

    /// Goes on in `plan`, from which the last candidate was taken or not; false if every single edit is needed.
    pub fn advance(&mut self, plan: &Plan, is_needed: bool) -> bool {
        if is_needed {
            self.start = self.start.saturating_add(self.part);
        } else {
            self.has_dropped = true;
        }
        if self.start < plan.edits.len() {
            return true;
        }
        let is_last_size = self.part <= 1;
        let is_over = plan.edits.is_empty() || is_last_size && !self.has_dropped;
        *self = Minimisation {
            part: (self.part / 2).max(1),
            start: 0,
            has_dropped: false,
        };
        !is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleEdit;
    use crate::Spot;
    use run_model::ThreadIndex;

    fn plan(numbers: &[u64]) -> Plan {
        let made = |nth: &u64| ScheduleEdit::Preempt {
            at: Spot {
                nth: *nth,
                ..Spot::default()
            },
            to: ThreadIndex(1),
        };
        Plan {
            edits: numbers.iter().map(made).collect(),
        }
    }

    /// What is left of these edits if `works` says which plans do.
    fn minimise(numbers: &[u64], works: impl Fn(&[u64]) -> bool) -> Vec<u64> {
        let numbers_of = |plan: &Plan| -> Vec<u64> {
            let number = |made: &ScheduleEdit| match made {
                ScheduleEdit::Preempt { at, .. } => at.nth,
                ScheduleEdit::Advance { .. } | ScheduleEdit::Reverse { .. } | ScheduleEdit::Delay { .. } => 0,
            };
            plan.edits.iter().map(number).collect()
        };
        let mut left = plan(numbers);
        let mut minimisation = Minimisation::new(&left);
        while let Some(minimising) = &mut minimisation {
            let candidate = minimising.candidate(&left);
            assert_eq!(minimising.candidates(&left, 3)[0], candidate);
            let is_needed = !works(&numbers_of(&candidate));
            if !is_needed {
                left = candidate;
            }
            if !minimising.advance(&left, is_needed) {
                minimisation = None;
            }
        }
        numbers_of(&left)
    }

    #[test]
    fn only_what_is_needed_is_left() {
        assert_eq!(minimise(&[1, 2, 3, 4, 5], |plan| plan.contains(&4)), [4]);
        assert_eq!(
            minimise(&[1, 2, 3, 4, 5], |plan| plan.contains(&1) && plan.contains(&5)),
            [1, 5]
        );
        assert_eq!(minimise(&[1, 2, 3], |_| true), [0; 0]);
        assert_eq!(minimise(&[1, 2, 3], |plan| plan.len() == 3), [1, 2, 3]);
        assert_eq!(minimise(&[], |_| true), [0; 0]);
    }

    #[test]
    fn a_move_that_only_another_one_needed_goes_after_it() {
        // The first one undoes what the second would do wrong.
        assert_eq!(
            minimise(&[1, 2], |plan| plan.contains(&1) || !plan.contains(&2)),
            [0; 0]
        );
    }
}
