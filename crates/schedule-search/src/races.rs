//! Pairs of accesses whose order a replay can reverse (section 4.3 of the paper), and of synchronisations on the same thing.
use crate::Access;
use crate::AccessId;
use crate::PointKind;
use crate::SwitchPoint;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Indices of two accesses of the same address by different threads, at least one of them a write; the first comes first.
pub(crate) type Race = (usize, usize);

/// Accesses that one is paired with before those of others have had their turn. In a whole run, all pairs of one variable would be the square of
/// its accesses.
const NEAREST: usize = 8;
const SUSPECTS_MAX: usize = 4;

/// All races of a trace, those whose later access is nearest to the end first, and before all others those in which one of the `suspects` takes part since its
/// last event; at most `most`. Races with an access made after the replay had failed come last, unless a suspect has the other one: who would have
/// made it first is not known.
pub(crate) fn races(accesses: &[Access], suspects: &[ThreadIndex], most: usize) -> Vec<Race> {
    // A lock is not what is stored in it.
    let what = |access: &Access| (access.id.address, access.id.is_synchronisation());
    let mut of_address: BTreeMap<(u64, bool), Vec<usize>> = BTreeMap::new();
    for (index, access) in accesses.iter().enumerate() {
        of_address.entry(what(access)).or_default().push(index);
    }
    let runs = Runs::of(accesses, of_address.values());
    let before = |later: usize| {
        let same = &of_address[&what(&accesses[later])];
        let earlier = &same[..same.partition_point(|index| *index < later)];
        let is_before = |first: &usize| !accesses[*first].is_beyond;
        let earlier = runs.conflicting(accesses, later, earlier, Direction::Back);
        earlier.filter(is_before).map(move |first| (first, later))
    };
    let after = |first: usize| {
        let same = &of_address[&what(&accesses[first])];
        let later = &same[same.partition_point(|index| *index <= first)..];
        let is_here = !accesses[first].is_beyond;
        let later = runs.conflicting(accesses, first, later, Direction::Forth);
        later.filter(move |_| is_here).map(move |later| (first, later))
    };
    let end = accesses
        .iter()
        .position(|access| access.is_beyond)
        .unwrap_or(accesses.len());
    let mut found: Vec<Race> = Vec::new();
    for index in since_last_events(&accesses[..end], suspects) {
        // Each pair is found twice at most.
        if found.len() >= most.saturating_mul(2) {
            break;
        }
        found.extend(before(index).take(NEAREST));
        found.extend(after(index).take(NEAREST));
    }
    let mut is_known: BTreeSet<Race> = found.iter().copied().collect();
    // Each pair of two suspects was found twice.
    found.retain(|race| is_known.remove(race));
    is_known.extend(&found);
    let near = (0..end).rev().flat_map(|later| before(later).take(NEAREST));
    let far = (0..end).rev().flat_map(|later| before(later).skip(NEAREST));
    let rest = near.chain(far).filter(|race| !is_known.contains(race));
    found.extend(rest.take(most.saturating_sub(found.len())));
    found.truncate(most);
    let beyond = (end..accesses.len()).flat_map(before);
    let mut beyond: Vec<Race> = beyond
        .filter(|race| !is_known.contains(race))
        .take(most - found.len())
        .collect();
    beyond.sort_by_key(|(first, later)| (usize::MAX - first, *later));
    found.extend(beyond);
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Back,
    Forth,
}

/// What is passed over in one step: a thread that goes round and round makes a million accesses of the same, and nobody's among them conflicts with its own.
struct Runs {
    /// Of each access, how many of its address there are from it on, back and forth, itself included, all by the same thread.
    of_thread: Vec<[u32; 2]>,
    /// The same of reads, by whichever threads; 0 for a write.
    of_reads: Vec<[u32; 2]>,
}

impl Runs {
    fn of<'a>(accesses: &[Access], lists: impl Iterator<Item = &'a Vec<usize>>) -> Runs {
        let mut runs = Runs {
            of_thread: vec![[1; 2]; accesses.len()],
            of_reads: vec![[0; 2]; accesses.len()],
        };
        for list in lists {
            runs.count(accesses, list.iter().copied(), Direction::Back);
            runs.count(accesses, list.iter().rev().copied(), Direction::Forth);
        }
        runs
    }

    /// In the opposite direction.
    fn count(&mut self, accesses: &[Access], list: impl Iterator<Item = usize>, direction: Direction) {
        let mut last: Option<usize> = None;
        for index in list {
            let (at, side) = (&accesses[index], direction as usize);
            let is_same = |last: &usize| accesses[*last].id.block.thread == at.id.block.thread;
            let thread = last.filter(is_same).map_or(0, |last| self.of_thread[last][side]);
            let reads = last.map_or(0, |last| self.of_reads[last][side]);
            self.of_thread[index][side] = thread + 1;
            self.of_reads[index][side] = if at.is_write { 0 } else { reads + 1 };
            last = Some(index);
        }
    }

    /// Those of `others`, which are of the same address and lie all on one side of `one`, that are another thread's, and one of the two a write; the nearest first.
    fn conflicting<'a>(
        &'a self,
        accesses: &'a [Access],
        one: usize,
        others: &'a [usize],
        direction: Direction,
    ) -> impl Iterator<Item = usize> + 'a {
        let (own, side) = (&accesses[one], direction as usize);
        let mut passed = 0;
        std::iter::from_fn(move || {
            loop {
                let place = match direction {
                    Direction::Back => others.len().checked_sub(passed + 1)?,
                    Direction::Forth => passed,
                };
                let index = *others.get(place)?;
                let other = &accesses[index];
                if other.id.block.thread == own.id.block.thread {
                    passed += self.of_thread[index][side] as usize;
                } else if !other.is_write && !own.is_write {
                    passed += self.of_reads[index][side] as usize;
                } else {
                    passed += 1;
                    return Some(index);
                }
            }
        })
    }
}

/// What each of the `suspects` did since its last event, backward, one suspect after the other: what it did before was as logged.
fn since_last_events(accesses: &[Access], suspects: &[ThreadIndex]) -> Vec<usize> {
    let mut found = Vec::new();
    for suspect in suspects {
        let is_own = |index: &usize| accesses[*index].id.block.thread == *suspect;
        let mut own = (0..accesses.len()).rev().filter(is_own).peekable();
        let calls = own.peek().map(|last| accesses[*last].id.block.calls);
        found.extend(own.take_while(|index| Some(accesses[*index].id.block.calls) == calls));
    }
    found
}

/// The synchronisations of a trace as accesses of what is synchronised on. All of them change it.
pub(crate) fn synchronisations(points: &[SwitchPoint]) -> Vec<Access> {
    let is_one = |point: &SwitchPoint| point.kind == PointKind::Synchronisation && !point.is_after && point.object != 0;
    let access = |(passed, point): (usize, &SwitchPoint)| Access {
        id: AccessId {
            block: point.spot,
            address: point.object,
            nth: AccessId::SYNCHRONISATION,
        },
        label: point.label,
        is_write: true,
        passed,
        next: point.next,
        is_beyond: false,
    };
    let all = points.iter().enumerate();
    all.filter(|(_, point)| is_one(point)).map(access).collect()
}

/// Both in the order in which they were made.
pub(crate) fn together(accesses: &[Access], synchronisations: Vec<Access>) -> Vec<Access> {
    let mut all = accesses.to_vec();
    all.extend(synchronisations);
    // Stable. An access that comes after a switch point has counted it.
    all.sort_by_key(|access| (access.is_beyond, access.passed, access.id.is_synchronisation()));
    all
}

/// Threads that may have come to a wrong place: the one that has failed; if it is stuck, also those that stand before an event, which may never be due.
pub(crate) fn suspects(points: &[SwitchPoint], failed: ThreadIndex, is_stuck: bool) -> Vec<ThreadIndex> {
    let mut found = vec![failed];
    let mut seen = BTreeSet::new();
    for point in points.iter().rev().filter(|_| is_stuck) {
        let is_last = seen.insert(point.spot.thread);
        if is_last && point.kind == PointKind::Call && point.spot.thread != failed {
            found.push(point.spot.thread);
        }
    }
    found.truncate(SUSPECTS_MAX);
    found
}

/// Pairs of synchronisations in which a suspect takes part since its last event, the nearest to the end first: those before which it has to come, and those
/// for which it has to wait.
pub(crate) fn orders(synchronisations: &[Access], suspects: &[ThreadIndex]) -> Vec<Race> {
    let mut found: Vec<Race> = Vec::new();
    let races_with = |one: usize, other: &usize| {
        let (one, other) = (&synchronisations[one].id, &synchronisations[*other].id);
        one.address == other.address && one.block.thread != other.block.thread
    };
    let own = since_last_events(synchronisations, suspects);
    for later in &own {
        let earlier = (0..*later).rev().filter(|first| races_with(*later, first));
        found.extend(earlier.take(NEAREST).map(|first| (first, *later)));
    }
    for first in &own {
        let later = (first + 1..synchronisations.len()).filter(|later| races_with(*first, later));
        found.extend(later.take(NEAREST).map(|later| (*first, later)));
    }
    let mut is_new: BTreeSet<Race> = found.iter().copied().collect();
    found.retain(|race| is_new.remove(race));
    found
}

/// The accesses of a trace, before its failure, of what several threads access and one of them writes, the last first; at
/// most `most`. The threads of the later ones may be about to access it again.
pub(crate) fn contended(accesses: &[Access], most: usize) -> Vec<usize> {
    let mut users: BTreeMap<u64, (BTreeSet<ThreadIndex>, bool)> = BTreeMap::new();
    for access in accesses {
        let (threads, is_written) = users.entry(access.id.address).or_default();
        threads.insert(access.id.block.thread);
        *is_written |= access.is_write;
    }
    let is_contended = |index: &usize| {
        let access = &accesses[*index];
        let is_shared = |(threads, is_written): &(BTreeSet<ThreadIndex>, bool)| threads.len() > 1 && *is_written;
        !access.is_beyond && users.get(&access.id.address).is_some_and(is_shared)
    };
    (0..accesses.len()).rev().filter(is_contended).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: u32, address: u64, is_write: bool) -> Access {
        crate::scatter::tests::access(thread, address, 0, is_write)
    }

    /// All pairs that conflict, the later ones first.
    fn naive(accesses: &[Access]) -> Vec<Race> {
        let conflict = |first: &Access, later: &Access| {
            first.id.address == later.id.address
                && first.id.block.thread != later.id.block.thread
                && (first.is_write || later.is_write)
        };
        let pairs = (0..accesses.len())
            .rev()
            .flat_map(|later| (0..later).rev().map(move |first| (first, later)));
        pairs
            .filter(|(first, later)| conflict(&accesses[*first], &accesses[*later]))
            .collect()
    }

    #[test]
    fn what_is_passed_over_does_not_conflict() {
        let mut number = 1u64;
        let mut below = |end: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % end
        };
        for _ in 0..200 {
            let length = below(40);
            let accesses: Vec<Access> = (0..length)
                .map(|_| access(below(3) as u32, below(2), below(3) == 0))
                .collect();
            let mut found = races(&accesses, &[], usize::MAX);
            let mut expected = naive(&accesses);
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{accesses:?}");
            let suspects = [ThreadIndex(1), ThreadIndex(0)];
            let mut found = races(&accesses, &suspects, usize::MAX);
            found.sort_unstable();
            assert_eq!(found, expected, "{accesses:?}");
        }
    }

    /// One by one, that takes hours.
    #[test]
    fn a_thread_that_goes_round_and_round_is_passed_over() {
        let mut accesses = vec![access(0, 8, true)];
        accesses.extend((0..1_000_000).map(|nth| access(1, 8, nth % 2 == 0)));
        let found = races(&accesses, &[ThreadIndex(1)], 1000);
        assert_eq!(found.len(), 1000);
        assert_eq!(found[0], (0, 1_000_000));
    }
}
