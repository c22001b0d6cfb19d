//! Plans with edits from anywhere in the run, in no order.
//!
//! The enumeration goes from near to far, as a failure mostly comes from something shortly before it. Lost updates of a sum that is printed at the end have their
//! cause anywhere, nothing on the way says where, and many sets of them come to the same sum: there, plans from all over the run are as good as any, and
//! those next to each other come to much the same. So these are tried in turns with the enumeration. They are the same in every search, as all else.
use crate::Access;
use crate::Plan;
use crate::ScheduleEdit;
use crate::hash::Hash;
use crate::tree::is_same_place;
use std::collections::BTreeMap;

/// So many of the enumeration are tried before it is the turn of others, and of these.
const ENUMERATED_AT_A_TIME: usize = 64;
const AT_A_TIME: usize = 128;
/// Against one failure, whatever is wished for.
pub(crate) const PLANS_MAX: usize = 1 << 16;
/// Edits of one plan.
const EDITS_MAX: u64 = 4;
/// Half of the reversals are of accesses that are so near to each other in their cell.
const NEAR: usize = 8;

/// Against one failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scatter {
    /// They were made from the accesses of the whole run.
    pub is_made: bool,
    pub plans: Vec<Plan>,
    /// Of the plans, and of the enumeration: how many were tried.
    pub next: usize,
    pub enumerated: usize,
}

impl Scatter {
    pub fn is_due(&self, is_enumerated: bool) -> bool {
        let is_turn = is_enumerated || self.next / AT_A_TIME < self.enumerated / ENUMERATED_AT_A_TIME;
        is_turn && (!self.is_made || self.next < self.plans.len())
    }

    /// Plans of the enumeration that may be tried before it is to be asked again whose turn it is.
    pub fn until_due(&self) -> usize {
        ENUMERATED_AT_A_TIME - self.enumerated % ENUMERATED_AT_A_TIME
    }

    /// The plans that are to be tried now, at most `most`: until it is the turn of the enumeration.
    pub fn due(&self, most: usize) -> &[Plan] {
        let end = (self.next / AT_A_TIME + 1) * AT_A_TIME;
        let end = end.min(self.next.saturating_add(most)).min(self.plans.len());
        &self.plans[self.next.min(end)..end]
    }

    /// At most `most` plans, made from the accesses of the admitted one's replay, those of the whole run.
    pub fn make(&mut self, accesses: &[Access], admitted: &Plan, seed: u64, most: usize) {
        self.is_made = true;
        let pairs = Pairs::of(accesses);
        let mut numbers = Numbers::new(seed);
        for _ in 0..most {
            let mut edits: Vec<ScheduleEdit> = Vec::new();
            for _ in 0..EDITS_MAX {
                let made = pairs.edit(&mut numbers);
                edits.extend(made.filter(|made| !edits.iter().any(|other| is_same_place(other, made))));
                // Half of the plans have one edit, a quarter has two.
                if numbers.below(2) == 0 {
                    break;
                }
            }
            if edits.is_empty() {
                continue;
            }
            let is_elsewhere = |old: &&ScheduleEdit| !edits.iter().any(|new| is_same_place(old, new));
            let kept: Vec<ScheduleEdit> = admitted.edits.iter().filter(is_elsewhere).copied().collect();
            self.plans.push(Plan {
                edits: kept.into_iter().chain(edits).collect(),
            });
        }
    }
}

/// Accesses that another thread's conflict with, by what is accessed.
struct Pairs<'a> {
    accesses: &'a [Access],
    /// Of each address: its accesses in their order.
    of_address: Vec<Vec<usize>>,
    all: usize,
}

impl Pairs<'_> {
    fn of(accesses: &[Access]) -> Pairs<'_> {
        let mut of_address: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, access) in accesses.iter().enumerate().filter(|(_, access)| !access.is_beyond) {
            of_address.entry(access.id.address).or_default().push(index);
        }
        let is_contended = |uses: &Vec<usize>| {
            let thread = |index: &usize| accesses[*index].id.block.thread;
            uses.iter().any(|index| accesses[*index].is_write)
                && uses.iter().any(|index| thread(index) != thread(&uses[0]))
        };
        let of_address: Vec<Vec<usize>> = of_address.into_values().filter(is_contended).collect();
        Pairs {
            accesses,
            all: of_address.iter().map(Vec::len).sum(),
            of_address,
        }
    }

    /// An access waits for one that comes later and conflicts with it; or, now and then, for nobody.
    fn edit(&self, numbers: &mut Numbers) -> Option<ScheduleEdit> {
        let mut at = numbers.below(self.all as u64) as usize;
        let wants_update = numbers.below(2) == 0;
        let uses = self.of_address.iter().find(|uses| {
            let is_here = at < uses.len();
            at -= if is_here { 0 } else { uses.len() };
            is_here
        })?;
        // The second half of an update, which the other thread's would get lost in, or lose.
        let is_update = |at: usize| {
            at.checked_sub(1)
                .is_some_and(|before| self.is_update(uses[before], uses[at]))
        };
        let at = match wants_update {
            true => (at..uses.len()).find(|at| is_update(*at)).unwrap_or(at),
            false => at,
        };
        let hold = &self.accesses[uses[at]];
        let later: Vec<&Access> = uses[at + 1..]
            .iter()
            .map(|index| &self.accesses[*index])
            .filter(|later| later.id.block.thread != hold.id.block.thread && (later.is_write || hold.is_write))
            .collect();
        let (is_near, is_delay) = (numbers.below(2) == 0, numbers.below(8) == 0);
        let room = if is_near { later.len().min(NEAR) } else { later.len() };
        let until = later.get(numbers.below(room as u64) as usize);
        match until.filter(|_| !is_delay) {
            Some(until) => Some(ScheduleEdit::Reverse {
                hold: hold.id,
                until: until.id,
            }),
            None => Some(ScheduleEdit::Delay { hold: hold.id }),
        }
    }
}

impl Pairs<'_> {
    /// Did a thread read something, and write it next, without an event in between?
    fn is_update(&self, one: usize, next: usize) -> bool {
        let (one, next) = (&self.accesses[one], &self.accesses[next]);
        one.id.block == next.id.block && !one.is_write && next.is_write
    }
}

/// Numbers without an order, the same for the same seed.
struct Numbers(Hash);

impl Numbers {
    fn new(seed: u64) -> Numbers {
        let mut hash = Hash::new();
        hash.add(seed);
        Numbers(hash)
    }

    /// A number below `end`; 0 if that is 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0.add(1);
        self.0.value() % end.max(1)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::AccessId;
    use crate::Label;
    use crate::Spot;
    use run_model::ThreadIndex;

    pub fn access(thread: u32, address: u64, nth: u64, is_write: bool) -> Access {
        Access {
            id: AccessId {
                block: Spot {
                    thread: ThreadIndex(thread),
                    ..Spot::default()
                },
                address,
                nth,
            },
            label: Label::NONE,
            is_write,
            passed: 0,
            next: 0,
            is_beyond: false,
        }
    }

    #[test]
    fn an_access_waits_for_a_later_one_that_conflicts() {
        // Nobody writes to 16, and 24 is one thread's.
        let accesses: Vec<Access> = (0..200)
            .flat_map(|nth| {
                [
                    access(0, 8, nth, true),
                    access(0, 16, nth, false),
                    access(0, 24, nth, true),
                ]
            })
            .chain((0..200).flat_map(|nth| [access(1, 8, nth, false), access(1, 16, nth, false)]))
            .collect();
        let mut scatter = Scatter::default();
        scatter.make(&accesses, &Plan::default(), 7, 1000);
        assert_eq!(scatter.plans.len(), 1000);
        let mut lengths = [0; EDITS_MAX as usize + 1];
        let mut far = 0;
        for plan in &scatter.plans {
            lengths[plan.edits.len()] += 1;
            for made in &plan.edits {
                match made {
                    ScheduleEdit::Reverse { hold, until } => {
                        assert_eq!((hold.address, until.address), (8, 8));
                        assert_eq!((hold.block.thread.0, until.block.thread.0), (0, 1));
                        far += usize::from(until.nth > 100);
                    }
                    ScheduleEdit::Delay { hold } => assert_eq!(hold.address, 8),
                    ScheduleEdit::Preempt { .. } | ScheduleEdit::Advance { .. } => panic!("{made:?}"),
                }
            }
        }
        assert!(
            lengths[0] == 0 && lengths[1] > 400 && lengths[2] > 150 && lengths[4] > 50,
            "{lengths:?}"
        );
        assert!(far > 100, "{far}");
        let mut again = Scatter::default();
        again.make(&accesses, &Plan::default(), 7, 1000);
        assert_eq!(again, scatter);
    }

    #[test]
    fn they_are_tried_in_turns_with_the_enumeration() {
        let mut scatter = Scatter::default();
        assert!(!scatter.is_due(false) && scatter.is_due(true));
        assert_eq!(scatter.until_due(), ENUMERATED_AT_A_TIME);
        scatter.enumerated = ENUMERATED_AT_A_TIME;
        assert!(scatter.is_due(false));
        let accesses = [access(0, 8, 0, true), access(1, 8, 0, true)];
        scatter.make(&accesses, &Plan::default(), 1, 2 * AT_A_TIME);
        assert_eq!(scatter.due(1000).len(), AT_A_TIME);
        scatter.next = AT_A_TIME - 1;
        assert_eq!(scatter.due(1000).len(), 1);
        scatter.next = AT_A_TIME;
        assert!(!scatter.is_due(false));
        scatter.next = 2 * AT_A_TIME;
        assert!(!scatter.is_due(true));
    }

    #[test]
    fn without_races_there_are_none() {
        let mut scatter = Scatter::default();
        scatter.make(&[access(0, 8, 0, true)], &Plan::default(), 1, 9);
        assert!(scatter.plans.is_empty() && !scatter.is_due(true));
    }
}
