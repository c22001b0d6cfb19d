//! Which moves of a plan that works are not needed: they go, in parts of half the plan, a quarter …, at last one by one, as long
//! as the replay meets the log without them.
use crate::Plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Minimisation {
    /// Moves that are left out at a time, and the first of those that are next.
    pub part: usize,
    pub start: usize,
    /// Whether something went since the parts have had this size.
    pub has_dropped: bool,
}

impl Minimisation {
    /// None if there is nothing to leave out.
    pub fn new(plan: &Plan) -> Option<Minimisation> {
        let part = plan.moves.len().div_ceil(2);
        (part > 0).then_some(Minimisation {
            part,
            start: 0,
            has_dropped: false,
        })
    }

    /// What is tried next, and what would be after it if that does not work, within one round.
    pub fn candidates(&self, plan: &Plan, most: usize) -> Vec<Plan> {
        let starts = (self.start..plan.moves.len()).step_by(self.part.max(1));
        starts.take(most).map(|start| self.without(plan, start)).collect()
    }

    pub fn candidate(&self, plan: &Plan) -> Plan {
        self.without(plan, self.start)
    }

    fn without(&self, plan: &Plan, start: usize) -> Plan {
        let left_out = start..start.saturating_add(self.part);
        let kept = plan
            .moves
            .iter()
            .enumerate()
            .filter(|(index, _)| !left_out.contains(index));
        Plan {
            moves: kept.map(|(_, made)| *made).collect(),
        }
    }

    /// Goes on in `plan`, from which the last candidate was taken or not; false if every single move is needed.
    pub fn advance(&mut self, plan: &Plan, is_needed: bool) -> bool {
        if is_needed {
            self.start = self.start.saturating_add(self.part);
        } else {
            self.has_dropped = true;
        }
        if self.start < plan.moves.len() {
            return true;
        }
        let is_last_size = self.part <= 1;
        let is_over = plan.moves.is_empty() || is_last_size && !self.has_dropped;
        *self = Minimisation {
            part: (self.part / 2).max(1),
            start: 0,
            has_dropped: false,
        };
        !is_over
    }
}
