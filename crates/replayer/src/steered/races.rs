//! Which accesses of a trace race: of the same cell, by different threads, one of them a write, and no recorded synchronisation orders them.
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::Turns;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Clocks with more numbers than this take longer than what they save.
const NUMBERS_MAX: u64 = 1 << 26;
/// Of one cell: so many pairs of segments are compared; in a cell with more, every access counts as racing.
const PAIRS_MAX: usize = 1 << 20;

/// What of the other threads comes before a thread's accesses, by the gates: each thread's clock where it changes.
#[derive(Debug)]
pub struct Clocks {
    /// From which of the thread's events on, and how many events of each thread come before.
    of_thread: Vec<Vec<(u64, Vec<u64>)>>,
}

impl Clocks {
    /// Along an order that the gates allow. Nothing, if it would take too much memory.
    pub fn along(schedule: &Schedule, order: &Turns) -> Option<Clocks> {
        let threads = &schedule.threads;
        let awaited: BTreeSet<Point> = threads
            .iter()
            .flat_map(|thread| thread.gates.iter().flat_map(|gate| gate.waits.iter()))
            .collect();
        if (awaited.len() as u64).saturating_mul(2 * threads.len() as u64) > NUMBERS_MAX {
            return None;
        }
        let mut of_thread = vec![vec![(0, vec![0; threads.len()])]; threads.len()];
        let mut reached: BTreeMap<Point, Vec<u64>> = BTreeMap::new();
        let (mut done, mut gates) = (vec![0u64; threads.len()], vec![0usize; threads.len()]);
        for run in &order.runs {
            let at = run.thread.0 as usize;
            for _ in 0..run.count {
                let mut clock = None;
                while let Some(gate) = threads[at]
                    .gates
                    .get(gates[at])
                    .filter(|gate| gate.record.event <= done[at])
                {
                    for other in gate.waits.iter().filter_map(|wait| reached.get(&wait)) {
                        let own: &mut Vec<u64> = clock
                            .get_or_insert_with(|| of_thread[at].last().map_or_else(Vec::new, |(_, own)| own.clone()));
                        own.iter_mut()
                            .zip(other)
                            .for_each(|(own, other)| *own = (*own).max(*other));
                    }
                    gates[at] += 1;
                }
                done[at] += 1;
                // Accesses behind the event come after what it waited for.
                of_thread[at].extend(clock.map(|clock| (done[at], clock)));
                let point = Point {
                    thread: ThreadIndex(at as u32),
                    count: done[at],
                };
                if awaited.contains(&point) {
                    let mut clock = of_thread[at].last().map_or_else(Vec::new, |(_, own)| own.clone());
                    clock[at] = done[at];
                    reached.insert(point, clock);
                }
            }
        }
        Some(Clocks { of_thread })
    }

    /// Are the accesses of `one`, which it makes when it has completed so many events, over before those of `other`?
    fn is_before(&self, one: (u32, u64), other: (u32, u64)) -> bool {
        let clocks = &self.of_thread[other.0 as usize];
        let now = clocks.partition_point(|(from, _)| *from <= other.1);
        now.checked_sub(1)
            .is_some_and(|now| clocks[now].1[one.0 as usize] > one.1)
    }
}

/// An access to a cell: by which thread, behind how many of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub cell: u64,
    pub thread: u32,
    pub events: u64,
    pub writes: bool,
}

/// Which of these race with another one. Without clocks: which conflict.
pub fn racing(uses: &[Use], clocks: Option<&Clocks>) -> Vec<bool> {
    // Accesses of one thread between two of its events are ordered alike.
    let mut segments: BTreeMap<u64, BTreeMap<(u32, u64), bool>> = BTreeMap::new();
    for one in uses {
        *segments
            .entry(one.cell)
            .or_default()
            .entry((one.thread, one.events))
            .or_default() |= one.writes;
    }
    let mut racing: BTreeSet<(u64, u32, u64)> = BTreeSet::new();
    for (cell, segments) in &segments {
        let all: Vec<((u32, u64), bool)> = segments.iter().map(|(segment, writes)| (*segment, *writes)).collect();
        let is_too_many = all.len().saturating_mul(all.len()) > PAIRS_MAX;
        for (index, (one, writes)) in all.iter().enumerate() {
            for (other, also) in &all[index + 1..] {
                let is_ordered = |clocks: &Clocks| clocks.is_before(*one, *other) || clocks.is_before(*other, *one);
                if one.0 == other.0 || !(*writes || *also) || !is_too_many && clocks.is_some_and(is_ordered) {
                    continue;
                }
                racing.insert((*cell, one.0, one.1));
                racing.insert((*cell, other.0, other.1));
                if is_too_many {
                    break;
                }
            }
        }
        if is_too_many && all.iter().any(|((thread, _), _)| *thread != all[0].0.0) {
            racing.extend(all.iter().map(|((thread, events), _)| (*cell, *thread, *events)));
        }
    }
    uses.iter()
        .map(|one| racing.contains(&(one.cell, one.thread, one.events)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::Gate;
    use run_model::Points;
    use run_model::Record;
    use run_model::ThreadSchedule;

    /// Thread 1 waits, before its second event, for the second of thread 0.
    fn clocks() -> Clocks {
        let point = Point {
            thread: ThreadIndex(0),
            count: 2,
        };
        let gate = Gate {
            record: Record {
                event: 1,
                ..Record::default()
            },
            waits: [point].into_iter().collect::<Points>(),
        };
        let thread = |gates: Vec<Gate>| ThreadSchedule { gates, events: 3 };
        let schedule = Schedule {
            threads: vec![thread(vec![]), thread(vec![gate])],
            ..Schedule::default()
        };
        let order = Turns::along_gates(&schedule).expect("the gates open");
        Clocks::along(&schedule, &order).expect("there is room")
    }

    fn access(thread: u32, events: u64, writes: bool) -> Use {
        Use {
            cell: 64,
            thread,
            events,
            writes,
        }
    }

    #[test]
    fn what_a_gate_orders_does_not_race() {
        let clocks = clocks();
        let race = |one: Use, other: Use| racing(&[one, other], Some(&clocks));
        // Behind its first event, and in front of the second: over when that is.
        assert_eq!(race(access(0, 1, true), access(1, 2, false)), [false, false]);
        assert_eq!(race(access(0, 1, true), access(1, 1, false)), [true, true]);
        assert_eq!(race(access(0, 2, true), access(1, 2, true)), [true, true]);
    }

    #[test]
    fn reads_and_other_cells_and_ones_own_accesses_do_not_race() {
        let elsewhere = Use {
            cell: 72,
            ..access(1, 0, true)
        };
        let all = [access(0, 0, false), access(1, 0, false), elsewhere, access(2, 0, false)];
        assert_eq!(racing(&all, None), [false; 4]);
        assert_eq!(racing(&[access(0, 0, true), access(0, 1, true)], None), [false; 2]);
        assert_eq!(
            racing(&[access(0, 0, true), access(1, 9, false), elsewhere], None),
            [true, true, false]
        );
    }
}
