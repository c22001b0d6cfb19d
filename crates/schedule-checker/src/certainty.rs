//! Is a point reached before an event in every execution that the gates allow?
//!
//! What is certain before an event is what its thread's gates up to it have waited for, what was certain there, and
//! so on: the transitive closure of waits and program order. It is computed along one execution, with one clock per
//! thread; a clock is kept for later only at points that somebody waits for, and only until the last of them has.
use crate::Rejection;
use crate::execution::Execution;
use crate::execution::reach;
use crate::requirements::Requirement;
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::rc::Rc;

/// For each thread, how many of its events are certain to be over.
type Clock = Vec<u64>;

struct Awaited {
    waiters: usize,
    /// What was certain when it was reached.
    clock: Option<Rc<Clock>>,
}

pub(crate) fn check(schedule: &Schedule, execution: &Execution, requirements: &[Requirement]) -> Result<(), Rejection> {
    let mut awaited = awaited(schedule);
    let mut clocks: Vec<Clock> = vec![Clock::new(); schedule.threads.len()];
    for thread in 0..schedule.threads.len() {
        publish(schedule, thread, 0, &Clock::new(), &mut awaited);
    }
    for &(thread, index) in &execution.passed {
        let gates = &schedule.threads[thread].gates;
        for wait in &gates[index].waits {
            learn(&mut clocks[thread], wait, &mut awaited);
        }
        let event = gates[index].record.event;
        // Of several gates of one event, the last has waited for everything.
        if gates.get(index + 1).is_none_or(|next| next.record.event != event) {
            judge(ThreadIndex(thread as u32), event, &clocks[thread], requirements)?;
        }
        publish(schedule, thread, index + 1, &clocks[thread], &mut awaited);
        if index + 1 == gates.len() {
            clocks[thread] = Clock::new();
        }
    }
    Ok(())
}

fn awaited(schedule: &Schedule) -> BTreeMap<Point, Awaited> {
    let mut awaited: BTreeMap<Point, Awaited> = BTreeMap::new();
    for wait in schedule.threads.iter().flat_map(|t| &t.gates).flat_map(|g| &g.waits) {
        awaited
            .entry(wait)
            .or_insert(Awaited {
                waiters: 0,
                clock: None,
            })
            .waiters += 1;
    }
    awaited
}

/// Keeps `clock` for those who wait for points that `thread` reaches before its gate `next` and did not reach before.
fn publish(schedule: &Schedule, thread: usize, next: usize, clock: &Clock, awaited: &mut BTreeMap<Point, Awaited>) {
    let planned = &schedule.threads[thread];
    let after = if next == 0 {
        0
    } else {
        planned.gates[next - 1].record.event + 1
    };
    let until = reach(&planned.gates, next, planned.events);
    let point = |count| Point {
        thread: ThreadIndex(thread as u32),
        count,
    };
    if after > until {
        return;
    }
    let mut shared = None;
    for (_, entry) in awaited.range_mut(point(after)..=point(until)) {
        let clock = shared.get_or_insert_with(|| Rc::new(clock.clone()));
        entry.clock = Some(Rc::clone(clock));
    }
}

fn learn(clock: &mut Clock, wait: Point, awaited: &mut BTreeMap<Point, Awaited>) {
    let entry = awaited.get_mut(&wait).expect("all waits were entered");
    let theirs = entry
        .clock
        .clone()
        .expect("the execution passed this gate, so the point was reached");
    entry.waiters -= 1;
    if entry.waiters == 0 {
        entry.clock = None;
    }
    let width = theirs.len().max(wait.thread.0 as usize + 1);
    if clock.len() < width {
        clock.resize(width, 0);
    }
    for (mine, theirs) in clock.iter_mut().zip(theirs.iter()) {
        *mine = (*mine).max(*theirs);
    }
    let own = &mut clock[wait.thread.0 as usize];
    *own = (*own).max(wait.count);
}

/// Checks what is required before this event. Requirements are sorted.
fn judge(thread: ThreadIndex, event: u64, clock: &Clock, requirements: &[Requirement]) -> Result<(), Rejection> {
    let first = requirements.partition_point(|r| (r.thread, r.event) < (thread, event));
    for requirement in requirements[first..]
        .iter()
        .take_while(|r| (r.thread, r.event) == (thread, event))
    {
        let Requirement { required, why, .. } = *requirement;
        let certain = if required.thread == thread {
            // Two records of one event are never in each other's way.
            event + 1
        } else {
            clock.get(required.thread.0 as usize).copied().unwrap_or(0)
        };
        if certain < required.count {
            return Err(Rejection::Unordered {
                required,
                thread,
                event,
                why,
            });
        }
    }
    Ok(())
}
