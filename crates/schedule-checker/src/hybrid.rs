//! The judge of hybrid schedules: do they order everything that conflicted in these traces, as it was ordered there?
//!
//! It walks the traces once, in the order of their sequences, and carries vector clocks: how many accesses of each thread are over
//! by program order, by the total order of synchronisation and by constraints. Each byte remembers its last write and every thread's last
//! read since; each access must know of those of other threads that it conflicts with. What came before them is ordered
//! before them, so every pair of conflicting accesses is looked at, directly or not.
//!
//! Ends of constraints are recognised as the runtime recognises them: by the events before them, the instruction and the control transfers. If
//! that does not tell them from another access, the schedule is refused.
mod bytes;
mod rejection;

pub use rejection::HybridRejection;
pub use rejection::Traced;

use bytes::Bytes;
use bytes::Use;
use run_model::HybridSchedule;
use run_model::Instance;
use run_model::Place;
use run_model::PointId;
use run_model::Record;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use std::collections::BTreeSet;

/// The hybrid schedule is good. What was looked at:
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HybridVerdict {
    pub accesses: u64,
    /// Accesses, or parts of them, that met one of another thread with which they conflict.
    pub conflicts: u64,
    pub steps: u64,
    pub constraints: u64,
}

/// Accepts `schedule` if every execution that obeys it, and in which each thread does what it did in these traces, has all conflicting
/// accesses in the order of the traces.
pub fn check_hybrid<E, I>(threads: Vec<I>, schedule: &HybridSchedule) -> Result<HybridVerdict, HybridRejection<E>>
where
    I: Iterator<Item = Result<TraceEntry, E>>,
{
    check_shape(threads.len(), schedule)?;
    let mut threads = threads;
    let mut judge = Judge::new(schedule);
    // The next entry of each thread that has a sequence, and who is next.
    let mut heads: Vec<Option<TraceEntry>> = threads.iter().map(|_| None).collect();
    let mut order = BTreeSet::new();
    for (thread, entries) in threads.iter_mut().enumerate() {
        if let Some((sequence, entry)) = judge.next_sequenced(thread, entries)? {
            heads[thread] = Some(entry);
            order.insert((sequence, thread));
        }
    }
    let mut last = None;
    while let Some((mut sequence, thread)) = order.pop_first() {
        let until = order.first().map_or(u64::MAX, |(until, _)| *until);
        let Some(mut entry) = heads[thread].take() else { break };
        loop {
            if let Some(previous) = last.replace(sequence).filter(|last| *last >= sequence) {
                let thread = ThreadIndex(thread as u32);
                return Err(HybridRejection::Sequence {
                    thread,
                    previous,
                    found: sequence,
                });
            }
            judge.judge(thread, entry)?;
            let Some((next, following)) = judge.next_sequenced(thread, &mut threads[thread])? else {
                break;
            };
            if next >= until {
                heads[thread] = Some(following);
                order.insert((next, thread));
                break;
            }
            (sequence, entry) = (next, following);
        }
    }
    judge.finish()
}

/// Does it name only threads and points that it has, and those in order?
fn check_shape<E>(traced: usize, schedule: &HybridSchedule) -> Result<(), HybridRejection<E>> {
    let (events, points) = (schedule.events.len(), schedule.points.len());
    if let Some(scheduled) = [events, points].into_iter().find(|scheduled| *scheduled != traced) {
        return Err(HybridRejection::Threads { traced, scheduled });
    }
    let exists = |id: &PointId| {
        let points = schedule.points.get(id.thread.0 as usize);
        points.is_some_and(|points| (id.index as usize) < points.len())
    };
    for (index, constraint) in schedule.constraints.iter().enumerate() {
        let (before, after) = (&constraint.before, &constraint.after);
        if !exists(before) || !exists(after) || before.thread == after.thread {
            return Err(HybridRejection::Constraint { index });
        }
    }
    Ok(())
}

/// How many accesses of each thread are over.
type Clock = Vec<u64>;

/// A thread, as far as its trace has been read.
struct Lane {
    /// Events and accesses that it has completed.
    segment: u64,
    accesses: u64,
    clock: Clock,
    /// The point that comes next.
    next: usize,
    /// The last access belongs to the point before that.
    is_open: bool,
    /// Somebody relied on that point's being over.
    is_relied_on: bool,
    /// The points since this segment and control transfer.
    passed: BTreeSet<Place>,
    moment: (u64, u64),
}

struct Judge<'a> {
    schedule: &'a HybridSchedule,
    lanes: Vec<Lane>,
    /// Of each thread's points: the constraints that end there, by what they wait for.
    incoming: Vec<Vec<Vec<(PointId, usize)>>>,
    /// Of each thread's points: what was known when it was over, and how many constraints still ask.
    known: Vec<Vec<(u32, Option<Clock>)>>,
    /// What the last synchronisation of all knew.
    synchronised: Clock,
    bytes: Bytes,
    verdict: HybridVerdict,
}

impl<'a> Judge<'a> {
    fn new(schedule: &'a HybridSchedule) -> Judge<'a> {
        let threads = schedule.events.len();
        let lane = |_| Lane {
            segment: 0,
            accesses: 0,
            clock: vec![0; threads],
            next: 0,
            is_open: false,
            is_relied_on: false,
            passed: BTreeSet::new(),
            moment: (0, 0),
        };
        let mut incoming: Vec<Vec<_>> = schedule.points.iter().map(|p| vec![Vec::new(); p.len()]).collect();
        let mut known: Vec<Vec<_>> = schedule.points.iter().map(|p| vec![(0, None); p.len()]).collect();
        for (index, constraint) in schedule.constraints.iter().enumerate() {
            let (before, after) = (constraint.before, constraint.after);
            incoming[after.thread.0 as usize][after.index as usize].push((before, index));
            known[before.thread.0 as usize][before.index as usize].0 += 1;
        }
        Judge {
            schedule,
            lanes: (0..threads).map(lane).collect(),
            incoming,
            known,
            synchronised: vec![0; threads],
            bytes: Bytes::new(threads),
            verdict: HybridVerdict {
                constraints: schedule.constraints.len() as u64,
                ..HybridVerdict::default()
            },
        }
    }

    /// Events without a position concern nobody but their thread.
    fn next_sequenced<E>(
        &mut self,
        thread: usize,
        entries: &mut impl Iterator<Item = Result<TraceEntry, E>>,
    ) -> Result<Option<(u64, TraceEntry)>, HybridRejection<E>> {
        loop {
            let entry = match entries.next() {
                None => return Ok(None),
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    let thread = ThreadIndex(thread as u32);
                    return Err(HybridRejection::Unreadable { thread, error });
                }
            };
            match entry {
                TraceEntry::Unordered => self.complete_event(thread),
                TraceEntry::Ordered { sequence, .. } | TraceEntry::Access { sequence, .. } => {
                    return Ok(Some((sequence, entry)));
                }
            }
        }
    }

    fn judge<E>(&mut self, thread: usize, entry: TraceEntry) -> Result<(), HybridRejection<E>> {
        match entry {
            TraceEntry::Unordered => self.complete_event(thread),
            TraceEntry::Ordered { record, .. } => self.judge_step(thread, &record)?,
            TraceEntry::Access {
                address,
                bytes,
                reads,
                writes,
                at,
                ..
            } => {
                self.come_to(thread, at)?;
                self.judge_access(thread, address, bytes, Use { reads, writes }, at)?;
            }
        }
        Ok(())
    }

    fn complete_event(&mut self, thread: usize) {
        self.close(thread);
        self.lanes[thread].segment += 1;
    }

    fn judge_step<E>(&mut self, thread: usize, record: &Record) -> Result<(), HybridRejection<E>> {
        let position = self.verdict.steps as usize;
        let told_apart = |r: &Record| (r.kind, r.op, r.access, r.object, r.site, r.value);
        let is_the_same = self.schedule.steps.get(position).is_some_and(|step| {
            step.thread.0 as usize == thread
                && step.record.event == self.lanes[thread].segment
                && told_apart(&step.record) == told_apart(record)
        });
        if !is_the_same {
            let thread = ThreadIndex(thread as u32);
            return Err(HybridRejection::Step { position, thread });
        }
        self.complete_event(thread);
        let lane = &mut self.lanes[thread];
        lane.clock[thread] = lane.accesses;
        join(&mut lane.clock, &self.synchronised);
        self.synchronised.copy_from_slice(&lane.clock);
        self.verdict.steps += 1;
        Ok(())
    }

    /// Before an access: is it a point, and what does it wait for?
    fn come_to<E>(&mut self, thread: usize, at: Place) -> Result<(), HybridRejection<E>> {
        let lane = &self.lanes[thread];
        let points = &self.schedule.points[thread];
        let here = Instance {
            segment: lane.segment,
            place: at,
        };
        let point = |index: usize| PointId {
            thread: ThreadIndex(thread as u32),
            index: index as u32,
        };
        if lane.is_open && points[lane.next - 1] == here {
            // It goes on, although somebody was told that it was over.
            return match lane.is_relied_on {
                true => Err(HybridRejection::Torn {
                    point: point(lane.next - 1),
                }),
                false => Ok(()),
            };
        }
        self.close(thread);
        let next = self.lanes[thread].next;
        let lane = &mut self.lanes[thread];
        if lane.moment != (here.segment, at.transfers) {
            lane.moment = (here.segment, at.transfers);
            lane.passed.clear();
        }
        if lane.passed.contains(&at) {
            let instance = here;
            let thread = ThreadIndex(thread as u32);
            return Err(HybridRejection::Ambiguous { thread, instance });
        }
        if points.get(next) != Some(&here) {
            return Ok(());
        }
        for (before, index) in std::mem::take(&mut self.incoming[thread][next]) {
            let known = self.known_after(before).ok_or(HybridRejection::Against { index })?;
            join(&mut self.lanes[thread].clock, &known);
        }
        let lane = &mut self.lanes[thread];
        lane.next += 1;
        lane.passed.insert(at);
        (lane.is_open, lane.is_relied_on) = (true, false);
        Ok(())
    }

    /// What is known when a point is over; `None` if it has not even begun.
    fn known_after(&mut self, point: PointId) -> Option<Clock> {
        let (thread, index) = (point.thread.0 as usize, point.index as usize);
        let lane = &mut self.lanes[thread];
        if lane.is_open && lane.next == index + 1 {
            lane.is_relied_on = true;
            let mut known = lane.clock.clone();
            known[thread] = lane.accesses;
            let (asking, _) = &mut self.known[thread][index];
            *asking -= 1;
            return Some(known);
        }
        let (asking, known) = &mut self.known[thread][index];
        *asking -= 1;
        match *asking {
            0 => known.take(),
            _ => known.clone(),
        }
    }

    /// The point that the thread's last access belongs to is over.
    fn close(&mut self, thread: usize) {
        let lane = &mut self.lanes[thread];
        if !lane.is_open {
            return;
        }
        lane.is_open = false;
        let (asking, known) = &mut self.known[thread][lane.next - 1];
        if *asking > 0 {
            let mut clock = lane.clock.clone();
            clock[thread] = lane.accesses;
            *known = Some(clock);
        }
    }

    fn judge_access<E>(
        &mut self,
        thread: usize,
        address: u64,
        bytes: u32,
        how: Use,
        at: Place,
    ) -> Result<(), HybridRejection<E>> {
        let lane = &mut self.lanes[thread];
        let me = bytes::Reference {
            thread: thread as u32,
            access: lane.accesses,
        };
        lane.accesses += 1;
        self.verdict.accesses += 1;
        let found = self.bytes.access(me, address, bytes, how, &lane.clock);
        match found {
            Ok(conflicts) => {
                self.verdict.conflicts += conflicts;
                Ok(())
            }
            Err((address, earlier)) => Err(HybridRejection::Unordered {
                address,
                earlier: Traced {
                    thread: ThreadIndex(earlier.thread),
                    access: earlier.access,
                },
                later: Traced {
                    thread: ThreadIndex(thread as u32),
                    access: me.access,
                },
                at: Instance {
                    segment: self.lanes[thread].segment,
                    place: at,
                },
            }),
        }
    }

    fn finish<E>(self) -> Result<HybridVerdict, HybridRejection<E>> {
        if self.verdict.steps < self.schedule.steps.len() as u64 {
            let position = self.verdict.steps as usize;
            let thread = self.schedule.steps[position].thread;
            return Err(HybridRejection::Step { position, thread });
        }
        for (thread, lane) in self.lanes.iter().enumerate() {
            let index = ThreadIndex(thread as u32);
            let (traced, scheduled) = (lane.segment, self.schedule.events[thread]);
            if traced != scheduled {
                return Err(HybridRejection::Events {
                    thread: index,
                    traced,
                    scheduled,
                });
            }
            if lane.next < self.schedule.points[thread].len() {
                let point = PointId {
                    thread: index,
                    index: lane.next as u32,
                };
                return Err(HybridRejection::Point { point });
            }
        }
        Ok(self.verdict)
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
