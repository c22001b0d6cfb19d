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

pub(crate) fn check(schedule: &Schedule, execution: &Execution, requirements: &[Requirement]) -> Result<(), Rejection> {
    let mut certainty = Certainty::new(schedule);
    let mut requirements = by_thread(schedule, requirements);
    for &(thread, gate) in &execution.passed {
        let (thread, gate) = (thread as usize, gate as usize);
        let gates = &schedule.threads[thread].gates;
        for wait in &gates[gate].waits {
            certainty.learn(thread, wait);
        }
        let event = gates[gate].record.event;
        if gate == 0 && event == 0 {
            certainty.take_column(thread);
        }
        // Of several gates of one event, the last has waited for everything.
        if gates.get(gate + 1).is_none_or(|next| next.record.event != event) {
            let due = requirements[thread]
                .iter()
                .take_while(|r| r.gate as usize <= gate)
                .count();
            let (now, later) = requirements[thread].split_at(due);
            requirements[thread] = later;
            certainty.judge(ThreadIndex(thread as u32), event, now)?;
        }
        certainty.publish(thread, gate + 1);
        if gate + 1 == gates.len() {
            certainty.end(thread);
        }
    }
    Ok(())
}

/// Requirements are sorted by thread and gate; this is each thread's part.
fn by_thread<'a>(schedule: &Schedule, mut requirements: &'a [Requirement]) -> Vec<&'a [Requirement]> {
    let mut parts = Vec::with_capacity(schedule.threads.len());
    for thread in 0..schedule.threads.len() as u32 {
        let (part, rest) = requirements.split_at(requirements.partition_point(|r| r.thread <= thread));
        parts.push(part);
        requirements = rest;
    }
    parts
}

/// For each column, how many events of its threads are certain to be over. What lies behind the end is zero.
type Clock = Vec<u64>;

/// A point that somebody waits for.
struct Awaited {
    count: u64,
    waiters: u32,
    /// What was certain when it was reached.
    kept: u32,
}

/// A clock for those who wait for points that were reached when it was so late.
#[derive(Default)]
struct Kept {
    clock: Clock,
    waiters: u64,
}

/// Where a thread's events are counted: in a column, after those of threads that had it before.
///
/// A thread that begins when it is certain that all of another is over goes on in that one's column. So clocks are as
/// long as many threads run at once, not as many as there ever were.
#[derive(Clone, Copy)]
struct Place {
    column: usize,
    before: u64,
}

struct Certainty<'a> {
    schedule: &'a Schedule,
    clocks: Vec<Clock>,
    /// For each thread, what others wait for, by count.
    awaited: Vec<Vec<Awaited>>,
    /// For each thread, how many of these it has reached.
    reached: Vec<usize>,
    kept: Vec<Kept>,
    /// Places in `kept` that nobody needs any more.
    free: Vec<u32>,
    /// `None`: nothing of the thread can be certain yet.
    places: Vec<Option<Place>>,
    /// Columns of threads that have ended, each with all its events.
    ended: Vec<Place>,
    columns: usize,
}

impl<'a> Certainty<'a> {
    fn new(schedule: &'a Schedule) -> Certainty<'a> {
        let threads = schedule.threads.len();
        let mut certainty = Certainty {
            schedule,
            clocks: vec![Clock::new(); threads],
            awaited: awaited(schedule),
            reached: vec![0; threads],
            kept: Vec::new(),
            free: Vec::new(),
            places: vec![None; threads],
            ended: Vec::new(),
            columns: 0,
        };
        for thread in 0..threads {
            // Threads that do something before their first gate, or have none, are there from the beginning.
            if schedule.threads[thread]
                .gates
                .first()
                .is_none_or(|gate| gate.record.event > 0)
            {
                certainty.new_column(thread);
            }
            certainty.publish(thread, 0);
        }
        certainty
    }

    fn new_column(&mut self, thread: usize) {
        self.places[thread] = Some(Place {
            column: self.columns,
            before: 0,
        });
        self.columns += 1;
    }

    /// After the first gate, if that stands before the first event: nothing of the thread was counted yet.
    fn take_column(&mut self, thread: usize) {
        let clock = &self.clocks[thread];
        let events = self.schedule.threads[thread].events;
        let is_over = |ended: &Place| {
            let known = clock.get(ended.column).copied().unwrap_or(0);
            known >= ended.before && ended.before.checked_add(events).is_some()
        };
        match self.ended.iter().position(is_over) {
            Some(index) => self.places[thread] = Some(self.ended.swap_remove(index)),
            None => self.new_column(thread),
        }
    }

    /// The thread has passed its last gate, and nobody has to know its clock but for the points it reaches now.
    fn end(&mut self, thread: usize) {
        self.clocks[thread] = Clock::new();
        let Place { column, before } = self.places[thread].expect("it has passed its first gate");
        let before = before + self.schedule.threads[thread].events;
        self.ended.push(Place { column, before });
    }

    /// Keeps the thread's clock for those who wait for points that it reaches before its gate `next`.
    fn publish(&mut self, thread: usize, next: usize) {
        let planned = &self.schedule.threads[thread];
        let until = reach(&planned.gates, next, planned.events);
        let mut kept = None;
        while let Some(awaited) = self.awaited[thread].get_mut(self.reached[thread]) {
            if awaited.count > until {
                break;
            }
            let place = *kept.get_or_insert_with(|| {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.kept.push(Kept::default());
                    self.kept.len() as u32 - 1
                });
                self.kept[place as usize].clock.clone_from(&self.clocks[thread]);
                place
            });
            awaited.kept = place;
            self.kept[place as usize].waiters += u64::from(awaited.waiters);
            self.reached[thread] += 1;
        }
    }

    fn learn(&mut self, thread: usize, wait: Point) {
        let other = wait.thread.0 as usize;
        let place = self.find_awaited(other, wait.count);
        let theirs = &mut self.kept[place as usize];
        let clock = &mut self.clocks[thread];
        if clock.len() < theirs.clock.len() {
            clock.resize(theirs.clock.len(), 0);
        }
        for (mine, theirs) in clock.iter_mut().zip(&theirs.clock) {
            *mine = (*mine).max(*theirs);
        }
        theirs.waiters -= 1;
        if theirs.waiters == 0 {
            self.free.push(place);
        }
        // That a thread has done nothing is always certain, and says nothing of those who had its column before.
        if wait.count > 0 {
            let Place { column, before } = self.places[other].expect("it has done something");
            if clock.len() <= column {
                clock.resize(column + 1, 0);
            }
            clock[column] = clock[column].max(before + wait.count);
        }
    }

    /// The clock that was kept for this point. It was reached, mostly a short while ago.
    fn find_awaited(&self, thread: usize, count: u64) -> u32 {
        let reached = &self.awaited[thread][..self.reached[thread]];
        let mut newest = 1;
        while newest < reached.len() && reached[reached.len() - newest].count > count {
            newest *= 2;
        }
        let recent = &reached[reached.len() - newest.min(reached.len())..];
        let index = recent.partition_point(|awaited| awaited.count < count);
        assert_eq!(
            recent[index].count, count,
            "all waits were entered, and this one is over"
        );
        recent[index].kept
    }

    /// How many events of `thread` are certain to be over, by this clock.
    fn certain(&self, clock: &Clock, thread: usize) -> u64 {
        let Some(Some(Place { column, before })) = self.places.get(thread) else {
            return 0;
        };
        let known = clock.get(*column).copied().unwrap_or(0);
        known.saturating_sub(*before).min(self.schedule.threads[thread].events)
    }

    /// Checks what is required before this event.
    fn judge(&self, thread: ThreadIndex, event: u64, requirements: &[Requirement]) -> Result<(), Rejection> {
        for requirement in requirements {
            let required = requirement.required();
            let certain = if required.thread == thread {
                // Two records of one event are never in each other's way.
                event + 1
            } else {
                self.certain(&self.clocks[thread.0 as usize], required.thread.0 as usize)
            };
            if certain < required.count {
                return Err(Rejection::Unordered {
                    required,
                    thread,
                    event,
                    why: requirement.why(self.schedule),
                });
            }
        }
        Ok(())
    }
}

/// For each thread, the points that others wait for.
fn awaited(schedule: &Schedule) -> Vec<Vec<Awaited>> {
    let mut counts = vec![Vec::new(); schedule.threads.len()];
    for wait in schedule.threads.iter().flat_map(|t| &t.gates).flat_map(|g| &g.waits) {
        counts[wait.thread.0 as usize].push(wait.count);
    }
    let group = |mut counts: Vec<u64>| {
        counts.sort_unstable();
        let same = counts.chunk_by(|one, other| one == other);
        same.map(|same| Awaited {
            count: same[0],
            waiters: same.len() as u32,
            kept: 0,
        })
        .collect()
    };
    counts.into_iter().map(group).collect()
}
