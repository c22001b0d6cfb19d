//! One order of all events that a schedule's gates allow: what a replay of one thread at a time follows.
use crate::RunKind;
use crate::Schedule;
use crate::ThreadIndex;
use crate::TurnRun;
use crate::Turns;
use alloc::collections::BTreeMap;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

impl Turns {
    /// The thread goes on that has done the smallest part of its events, of those whose gates are open: threads that ran at the same time come along at
    /// the same time. Nothing, if the gates are such that nobody can go on.
    pub fn along_gates(schedule: &Schedule) -> Option<Turns> {
        let threads = &schedule.threads;
        let mut done = vec![0u64; threads.len()];
        let mut gates = vec![0usize; threads.len()];
        let mut sleepers: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
        let part =
            |thread: usize, done: u64| ((u128::from(done) << 32) / u128::from(threads[thread].events.max(1))) as u64;
        let mut ready: BinaryHeap<Reverse<(u64, usize)>> = (0..threads.len())
            .filter(|thread| threads[*thread].events > 0)
            .map(|thread| Reverse((0, thread)))
            .collect();
        let mut order = Turns {
            threads: threads.len() as u32,
            ..Turns::default()
        };
        while let Some(Reverse((_, thread))) = ready.pop() {
            let own = &threads[thread].gates;
            let mut closed = None;
            while let Some(gate) = own.get(gates[thread]).filter(|gate| gate.record.event <= done[thread]) {
                let is_closed =
                    |wait: &crate::Point| done.get(wait.thread.0 as usize).is_none_or(|done| *done < wait.count);
                closed = gate.waits.iter().find(is_closed);
                if closed.is_some() {
                    break;
                }
                gates[thread] += 1;
            }
            if let Some(wait) = closed {
                sleepers.entry((wait.thread.0, wait.count)).or_default().push(thread);
                continue;
            }
            done[thread] += 1;
            order.push_event(ThreadIndex(thread as u32));
            for sleeper in sleepers.remove(&(thread as u32, done[thread])).unwrap_or_default() {
                ready.push(Reverse((part(sleeper, done[sleeper]), sleeper)));
            }
            if done[thread] < threads[thread].events {
                ready.push(Reverse((part(thread, done[thread]), thread)));
            }
        }
        sleepers.is_empty().then_some(order)
    }

    fn push_event(&mut self, thread: ThreadIndex) {
        match self.runs.last_mut() {
            Some(last) if last.thread == thread && last.count < u32::MAX => last.count += 1,
            _ => self.runs.push(TurnRun {
                thread,
                count: 1,
                kind: RunKind::Inputs,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gate;
    use crate::Point;
    use crate::Points;
    use crate::Record;
    use crate::ThreadSchedule;

    fn thread(events: u64, gates: &[(u64, u32, u64)]) -> ThreadSchedule {
        let gate = |&(event, thread, count): &(u64, u32, u64)| Gate {
            record: Record {
                event,
                ..Record::default()
            },
            waits: [Point {
                thread: ThreadIndex(thread),
                count,
            }]
            .into_iter()
            .collect::<Points>(),
        };
        ThreadSchedule {
            gates: gates.iter().map(gate).collect(),
            events,
        }
    }

    fn order(threads: Vec<ThreadSchedule>) -> Option<Vec<(u32, u32)>> {
        let schedule = Schedule {
            threads,
            ..Schedule::default()
        };
        let order = Turns::along_gates(&schedule)?;
        Some(order.runs.iter().map(|run| (run.thread.0, run.count)).collect())
    }

    #[test]
    fn threads_come_along_together_as_far_as_gates_allow() {
        // Thread 1 does four events while thread 0 does two; both of thread 2 come after all of those.
        let threads = vec![thread(2, &[]), thread(4, &[]), thread(2, &[(0, 1, 4)])];
        assert_eq!(order(threads), Some(vec![(0, 1), (1, 2), (0, 1), (1, 2), (2, 2)]));
    }

    #[test]
    fn gates_that_wait_for_each_other_have_no_order() {
        assert_eq!(order(vec![thread(1, &[(0, 1, 1)]), thread(1, &[(0, 0, 1)])]), None);
        assert_eq!(order(vec![thread(1, &[(0, 7, 1)])]), None);
    }
}
