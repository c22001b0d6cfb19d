//! Constraints that follow from others through third threads or synchronisation are left out; a circle of them is found.
//!
//! The schedule is run through once, at its points and steps alone, in any order that it allows. Clocks say, for each thread, how many
//! points of every other are known to be over. A constraint is left out if the thread knows of it before, or by another
//! constraint of the same point: what remains is the transitive reduction.
use crate::constraints::Kept;
use crate::history::History;
use crate::memory::Reference;
use run_model::Step;

/// Beyond this many numbers in clocks to be joined, or kept at once, only circles are looked for.
const JOINED_MAX: usize = 1 << 30;
const REMEMBERED_MAX: usize = 1 << 26;

/// Takes constraints out of `kept` that follow from others, and says how many. `Err`: an instance that waits, directly or not, for itself.
pub(crate) fn reduce(kept: &mut Vec<Kept>, steps: &[Step], histories: &[History]) -> Result<u64, Reference> {
    if kept.is_empty() {
        return Ok(0);
    }
    let points = points(kept, histories.len());
    let mut execution = Execution::new(kept, steps, histories, &points);
    execution.run()?;
    let is_implied = std::mem::take(&mut execution.is_implied);
    let before = kept.len();
    let mut flags = is_implied.into_iter();
    kept.retain(|_| flags.next() != Some(true));
    Ok((before - kept.len()) as u64)
}

/// The numbers of each thread's instances that are ends of constraints, ascending.
pub(crate) fn points(kept: &[Kept], threads: usize) -> Vec<Vec<u64>> {
    let mut points = vec![Vec::new(); threads];
    for end in kept.iter().flat_map(|kept| [kept.before, kept.after]) {
        points[end.thread()].push(end.number());
    }
    for numbers in &mut points {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.shrink_to_fit();
    }
    points
}

/// A constraint that ends in a point.
#[derive(Clone, Copy)]
struct Incoming {
    thread: u32,
    /// Index of the point where it begins.
    point: u32,
    /// Index of the constraint.
    kept: u32,
}

struct Lane {
    /// Points and synchronisations that are over.
    points: usize,
    synchronisations: usize,
    /// For each point, where its incoming constraints begin; one more at the end.
    first_incoming: Vec<u32>,
    incoming: Vec<Incoming>,
    /// How many constraints still want to know what was known at a point.
    outgoing: Vec<u32>,
    remembered: Vec<Option<Box<[u32]>>>,
    /// Threads that wait for points of this one.
    waiting: Vec<(u32, usize)>,
    /// Points of each active thread that are known to be over; empty if this thread has none itself, or clocks are not used.
    clock: Vec<u32>,
    /// Its index among the threads that have points.
    active: usize,
}

struct Execution<'a> {
    steps: &'a [Step],
    histories: &'a [History],
    points: &'a [Vec<u64>],
    lanes: Vec<Lane>,
    /// What the last synchronisation of all knew.
    synchronised: Vec<u32>,
    uses_clocks: bool,
    /// Steps that are over.
    position: usize,
    runnable: Vec<usize>,
    is_implied: Vec<bool>,
}

impl<'a> Execution<'a> {
    fn new(kept: &[Kept], steps: &'a [Step], histories: &'a [History], points: &'a [Vec<u64>]) -> Execution<'a> {
        let actives = points.iter().filter(|points| !points.is_empty()).count();
        let all: usize = points.iter().map(Vec::len).sum();
        let uses_clocks = (steps.len() + all).saturating_mul(actives) <= JOINED_MAX
            && (all + actives).saturating_mul(actives) <= REMEMBERED_MAX;
        let size = if uses_clocks { actives } else { 0 };
        let mut active = 0;
        let mut lanes: Vec<Lane> = points
            .iter()
            .map(|points| {
                let mine = active;
                active += usize::from(!points.is_empty());
                Lane {
                    points: 0,
                    synchronisations: 0,
                    first_incoming: vec![0; points.len() + 1],
                    incoming: Vec::new(),
                    outgoing: vec![0; points.len()],
                    remembered: vec![None; points.len()],
                    waiting: Vec::new(),
                    clock: vec![0; if points.is_empty() { 0 } else { size }],
                    active: mine,
                }
            })
            .collect();
        // Constraints are found in the order of their later ends, so those of one thread come in the order of its points.
        for (index, kept) in kept.iter().enumerate() {
            let find = |end: Reference| points[end.thread()].partition_point(|number| *number < end.number());
            let (from, to) = (find(kept.before), find(kept.after));
            lanes[kept.before.thread()].outgoing[from] += 1;
            let lane = &mut lanes[kept.after.thread()];
            lane.incoming.push(Incoming {
                thread: kept.before.thread() as u32,
                point: from as u32,
                kept: index as u32,
            });
            lane.first_incoming[to + 1] = lane.incoming.len() as u32;
        }
        for lane in &mut lanes {
            let mut first = 0;
            for next in &mut lane.first_incoming {
                first = first.max(*next);
                *next = first;
            }
        }
        Execution {
            steps,
            histories,
            points,
            lanes,
            synchronised: vec![0; size],
            uses_clocks,
            position: 0,
            runnable: Vec::new(),
            is_implied: vec![false; kept.len()],
        }
    }

    fn run(&mut self) -> Result<(), Reference> {
        for thread in 0..self.lanes.len() {
            self.runnable.push(thread);
            while let Some(thread) = self.runnable.pop() {
                self.go_on(thread);
            }
        }
        let stuck = (0..self.lanes.len()).find(|thread| self.lanes[*thread].points < self.points[*thread].len());
        match stuck {
            Some(thread) => Err(Reference::new(thread, self.points[thread][self.lanes[thread].points])),
            None => Ok(()),
        }
    }

    /// As far as the thread comes.
    fn go_on(&mut self, thread: usize) {
        loop {
            let lane = &self.lanes[thread];
            let synchronisation = self.histories[thread].synchronisation.get(lane.synchronisations);
            let point = self.points[thread].get(lane.points);
            let is_point = match (point, synchronisation) {
                (Some(point), Some(synchronisation)) => *point < synchronisation.instances,
                (point, _) => point.is_some(),
            };
            if is_point {
                let incoming = lane.first_incoming[lane.points] as usize..lane.first_incoming[lane.points + 1] as usize;
                let is_open = |from: &&Incoming| self.lanes[from.thread as usize].points > from.point as usize;
                if let Some(closed) = lane.incoming[incoming.clone()].iter().find(|from| !is_open(from)) {
                    let closed = *closed;
                    self.lanes[closed.thread as usize].waiting.push((closed.point, thread));
                    return;
                }
                self.pass_point(thread, incoming);
            } else if synchronisation.is_some_and(|next| next.position == self.position as u64 + 1) {
                self.pass_step(thread);
            } else {
                return;
            }
        }
    }

    fn pass_point(&mut self, thread: usize, incoming: std::ops::Range<usize>) {
        let point = self.lanes[thread].points;
        if self.uses_clocks {
            self.join_incoming(thread, incoming);
            let lane = &mut self.lanes[thread];
            lane.clock[lane.active] = point as u32 + 1;
            lane.remembered[point] = (lane.outgoing[point] > 0).then(|| lane.clock.clone().into_boxed_slice());
        }
        let lane = &mut self.lanes[thread];
        lane.points += 1;
        let runnable = &mut self.runnable;
        lane.waiting.retain(|(awaited, waiter)| {
            let is_over = *awaited as usize <= point;
            if is_over {
                runnable.push(*waiter);
            }
            !is_over
        });
    }

    fn join_incoming(&mut self, thread: usize, incoming: std::ops::Range<usize>) {
        let mut clock = std::mem::take(&mut self.lanes[thread].clock);
        let incoming: Vec<Incoming> = self.lanes[thread].incoming[incoming].to_vec();
        for from in &incoming {
            let active = self.lanes[from.thread as usize].active;
            let knows = |clock: &[u32]| clock[active] > from.point;
            let others = incoming.iter().filter(|other| other.kept != from.kept);
            let mut remembered = others.filter_map(|other| self.remembered(other));
            self.is_implied[from.kept as usize] = knows(&clock) || remembered.any(knows);
        }
        for from in &incoming {
            if let Some(remembered) = self.remembered(from) {
                join(&mut clock, remembered);
            }
            let lane = &mut self.lanes[from.thread as usize];
            let outgoing = &mut lane.outgoing[from.point as usize];
            *outgoing -= 1;
            if *outgoing == 0 {
                lane.remembered[from.point as usize] = None;
            }
        }
        self.lanes[thread].clock = clock;
    }

    fn remembered(&self, from: &Incoming) -> Option<&[u32]> {
        self.lanes[from.thread as usize].remembered[from.point as usize].as_deref()
    }

    fn pass_step(&mut self, thread: usize) {
        let lane = &mut self.lanes[thread];
        if !lane.clock.is_empty() {
            join(&mut lane.clock, &self.synchronised);
            self.synchronised.copy_from_slice(&lane.clock);
        }
        lane.synchronisations += 1;
        self.position += 1;
        if let Some(next) = self.steps.get(self.position) {
            let next = next.thread.0 as usize;
            if next != thread {
                self.runnable.push(next);
            }
        }
    }
}

fn join(clock: &mut [u32], other: &[u32]) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
