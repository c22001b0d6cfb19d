//! What blocks touch, as far as traces have shown: which preemptions would come to the same.
use crate::Attempt;
use crate::PointKind;
use crate::Spot;
use crate::SwitchPoint;
use run_model::ThreadIndex;
use std::collections::BTreeMap;

/// What is accessed or synchronised on, and whether it is changed.
pub(crate) type Footprint = BTreeMap<Touched, bool>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touched {
    Object(u64),
    Address(u64),
}

/// Longer traces are not looked at for stretches: each point has its own.
const STRETCHES_MAX: usize = 1 << 11;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprints {
    /// Of blocks that were traced to their end.
    pub blocks: BTreeMap<Spot, Footprint>,
    /// Of threads from that block to their next logged event, to which they came or were followed beyond a failure.
    pub stretches: BTreeMap<Spot, Footprint>,
    /// Where threads stand that pass no switch point in the window.
    pub starts: BTreeMap<ThreadIndex, Spot>,
}

/// The block that a thread enters when it goes on from `point`.
fn block_after(point: &SwitchPoint) -> Spot {
    match point.kind {
        PointKind::Synchronisation => point.spot,
        PointKind::Call => Spot {
            calls: point.spot.calls.saturating_add(1),
            nth: 0,
            ..point.spot
        },
    }
}

/// Stands for any object.
const ANY: Touched = Touched::Object(0);

fn are_independent(one: &Footprint, other: &Footprint) -> bool {
    let synchronises = |footprint: &Footprint| footprint.keys().any(|what| matches!(what, Touched::Object(_)));
    let may_be_any = |one: &Footprint, other: &Footprint| one.contains_key(&ANY) && synchronises(other);
    let is_shared = |(what, writes): (&Touched, &bool)| other.get(what).is_some_and(|also| *writes || *also);
    !may_be_any(one, other) && !may_be_any(other, one) && !one.iter().any(is_shared)
}

impl Footprints {
    pub fn learn(&mut self, attempt: &Attempt) {
        let mut open: BTreeMap<ThreadIndex, &SwitchPoint> = BTreeMap::new();
        let mut ended: BTreeMap<Spot, Footprint> = BTreeMap::new();
        for point in &attempt.points {
            if let Some(before) = open.insert(point.spot.thread, point) {
                let objects = [(before, false), (point, true)]
                    .into_iter()
                    .filter(|(point, is_end)| point.kind == PointKind::Synchronisation && point.is_after == *is_end);
                let touched = objects.map(|(point, _)| (Touched::Object(point.object), true));
                ended.insert(block_after(before), touched.collect());
            }
        }
        let mut followed: BTreeMap<ThreadIndex, (Spot, Footprint)> = BTreeMap::new();
        for thread in &attempt.followed {
            let objects = thread.objects.iter().map(|object| (Touched::Object(*object), true));
            followed.insert(thread.from.thread, (thread.from, objects.collect()));
            if !open.contains_key(&thread.from.thread) {
                self.starts.insert(thread.from.thread, thread.from);
            }
        }
        for access in &attempt.accesses {
            let block = match access.is_beyond {
                true => followed
                    .get_mut(&access.id.block.thread)
                    .map(|(_, footprint)| footprint),
                false => ended.get_mut(&access.id.block),
            };
            if let Some(block) = block {
                *block.entry(Touched::Address(access.id.address)).or_default() |= access.is_write;
            }
        }
        if attempt.points.len() <= STRETCHES_MAX {
            self.learn_stretches(&attempt.points, &ended, &followed);
        }
        self.blocks.extend(ended);
        self.stretches.extend(followed.into_values());
    }

    /// What threads did from each of their points to their next event, as far as they came there or were followed.
    fn learn_stretches(
        &mut self,
        points: &[SwitchPoint],
        blocks: &BTreeMap<Spot, Footprint>,
        followed: &BTreeMap<ThreadIndex, (Spot, Footprint)>,
    ) {
        let mut after: BTreeMap<ThreadIndex, (&SwitchPoint, Option<Footprint>)> = BTreeMap::new();
        for point in points.iter().rev() {
            let (thread, start) = (point.spot.thread, block_after(point));
            let stretch = match after.remove(&thread) {
                None => {
                    let beyond = followed.get(&thread).filter(|(from, _)| *from == start);
                    beyond.map(|(_, footprint)| footprint.clone())
                }
                Some((next, rest)) => {
                    let rest = match next.kind {
                        PointKind::Call => Some(Footprint::new()),
                        PointKind::Synchronisation => rest,
                    };
                    rest.zip(blocks.get(&start)).map(|(mut stretch, block)| {
                        for (what, writes) in block {
                            *stretch.entry(*what).or_default() |= writes;
                        }
                        stretch
                    })
                }
            };
            if let Some(stretch) = &stretch {
                self.stretches.insert(start, stretch.clone());
            }
            after.insert(thread, (point, stretch));
        }
    }

    /// Whether it comes to the same if `to` goes on at the point `index` or at the one after it: nothing that the thread
    /// which went on did between the two matters to what `to` does before its next event, or the other way round.
    pub fn commute(&self, points: &[SwitchPoint], index: usize, to: ThreadIndex) -> bool {
        let (Some(point), Some(next)) = (points.get(index), points.get(index + 1)) else {
            return false;
        };
        let can_later = next.to != to && next.runnable.contains(&to);
        // No event of the log between them, and the block between them is that of the thread that went on.
        if !can_later || point.next != next.next || next.spot.thread != point.to {
            return false;
        }
        let stands = |thread: ThreadIndex| {
            let last = points[..=index].iter().rev().find(|point| point.spot.thread == thread);
            last.map(block_after).or_else(|| self.starts.get(&thread).copied())
        };
        let (Some(went), Some(waits)) = (stands(point.to), stands(to)) else {
            return false;
        };
        match (self.blocks.get(&went), self.stretch(waits)) {
            (Some(block), Some(stretch)) => are_independent(block, stretch),
            _ => false,
        }
    }

    /// At least what the thread that stands at `from` does before its next event.
    fn stretch(&self, from: Spot) -> Option<&Footprint> {
        let (start, footprint) = self.stretches.range(..=from).next_back()?;
        (start.thread == from.thread && start.calls == from.calls).then_some(footprint)
    }
}
