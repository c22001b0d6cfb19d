//! Replays on one processor, by the rules of the paper's figure 8: a thread goes on until a switch point, where the plan says who is
//! next, or else the log.
use super::brute_force::is_as_logged;
use super::machine::Machine;
use super::machine::State;
use super::program::Op;
use super::program::Program;
use super::record::Recording;
use run_model::ThreadIndex;
use schedule_search::Access;
use schedule_search::AccessId;
use schedule_search::Ask;
use schedule_search::Attempt;
use schedule_search::Ending;
use schedule_search::EventKind;
use schedule_search::Followed;
use schedule_search::Label;
use schedule_search::PointKind;
use schedule_search::Replays;
use schedule_search::ScheduleEdit;
use schedule_search::Spot;
use schedule_search::SwitchPoint;
use schedule_search::Trace;
use schedule_search::Window;
use std::collections::BTreeMap;

/// Steps without a switch point after which a thread counts as spinning.
const SPINNING: u64 = 40;
/// Steps after which a replay goes nowhere.
const STEPS_MAX: u64 = 20_000;

pub struct Executor<'a> {
    pub program: &'a Program,
    pub recording: &'a Recording,
    pub attempts: u64,
    /// The largest batch that was asked for.
    pub batch_largest: usize,
}

/// What a thread does after this switch point.
fn synchronisation(at: Spot, object: u64) -> AccessId {
    AccessId {
        block: at,
        address: object,
        nth: AccessId::SYNCHRONISATION,
    }
}

impl<'a> Executor<'a> {
    pub fn new(program: &'a Program, recording: &'a Recording) -> Executor<'a> {
        Executor {
            program,
            recording,
            attempts: 0,
            batch_largest: 0,
        }
    }
}

impl Replays for Executor<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        self.attempts += 1;
        Replay::new(self.program, self.recording, ask).run()
    }

    fn attempts(&mut self, batch: &[Ask]) -> Vec<Attempt> {
        self.batch_largest = self.batch_largest.max(batch.len());
        batch.iter().map(|ask| self.attempt(ask)).collect()
    }
}

/// What the replay knows of a thread besides the program's state.
#[derive(Clone, Default)]
struct Runner {
    calls: u64,
    points: u64,
    /// Accesses of each address in the block.
    counts: BTreeMap<u64, u64>,
    /// Whether the switch point before the next step has been passed.
    has_passed: bool,
    steps: u64,
    is_spinning: bool,
    is_held: bool,
    /// Preempted to, and has not synchronised since.
    is_owed: bool,
    /// Goes on to its next event, or until it has to wait.
    advances: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Pending,
    Active,
    Over,
}

struct Replay<'a> {
    program: &'a Program,
    recording: &'a Recording,
    /// Who goes on where, and whether as far as possible.
    preemptions: BTreeMap<Spot, (ThreadIndex, bool)>,
    reversals: Vec<(AccessId, Option<AccessId>, Hold)>,
    window: Option<&'a Window>,
    wants_accesses: bool,
    machine: Machine,
    runners: Vec<Runner>,
    next: usize,
    points: Vec<SwitchPoint>,
    accesses: Vec<Access>,
    followed: Vec<Followed>,
}

impl<'a> Replay<'a> {
    fn new(program: &'a Program, recording: &'a Recording, ask: &'a Ask) -> Replay<'a> {
        let (window, wants_accesses) = match &ask.trace {
            Trace::Nothing => (None, false),
            Trace::Points(window) => (Some(window), false),
            Trace::PointsAndAccesses(window) => (Some(window), true),
        };
        let mut replay = Replay {
            program,
            recording,
            preemptions: BTreeMap::new(),
            reversals: Vec::new(),
            window,
            wants_accesses,
            machine: Machine::new(program),
            runners: vec![Runner::default()],
            next: 0,
            points: Vec::new(),
            accesses: Vec::new(),
            followed: Vec::new(),
        };
        for made in &ask.plan.edits {
            match *made {
                ScheduleEdit::Preempt { at, to } => {
                    replay.preemptions.insert(at, (to, false));
                }
                ScheduleEdit::Advance { at, to } => {
                    replay.preemptions.insert(at, (to, true));
                }
                ScheduleEdit::Reverse { hold, until } => replay.reversals.push((hold, Some(until), Hold::Pending)),
                ScheduleEdit::Delay { hold } => replay.reversals.push((hold, None, Hold::Pending)),
            }
        }
        replay
    }

    fn run(mut self) -> Attempt {
        let ending = self.run_to_end();
        let stands = (0..self.machine.threads.len())
            .filter(|thread| self.machine.threads[*thread].state != State::Ended)
            .map(|thread| (ThreadIndex(thread as u32), self.label(thread)))
            .collect();
        if ending != Ending::Complete && self.wants_accesses {
            self.look_beyond(&ending);
        }
        Attempt {
            ending,
            met: self.next,
            points: self.points,
            accesses: self.accesses,
            followed: self.followed,
            stands,
        }
    }

    fn run_to_end(&mut self) -> Ending {
        let mut current = self.by_log();
        for _ in 0..STEPS_MAX {
            let Some(logged) = self.recording.entries.get(self.next) else {
                return Ending::Complete;
            };
            let Some(thread) = current else {
                // Better a hold that comes to nothing than a replay that does.
                match self.lapse() {
                    Some(held) => {
                        current = Some(held);
                        continue;
                    }
                    None => return self.deadlock(),
                }
            };
            let event = self.machine.event(self.program, thread);
            if let Some((kind, object)) = self.point_before(thread).filter(|_| !self.runners[thread].has_passed) {
                self.runners[thread].has_passed = true;
                current = self.pass(thread, kind, object);
            } else if let Some(event) = event {
                if logged.thread != event.thread {
                    current = self.by_log();
                } else if is_as_logged(self.program, &self.machine, &event, logged) {
                    self.meet(thread, event.kind);
                } else {
                    let expected = Label(logged.label);
                    return Ending::Mismatch {
                        thread: event.thread,
                        expected,
                        found: Label(event.label),
                    };
                }
            } else if !self.machine.can_step(self.program, thread) {
                current = self.by_log();
            } else {
                current = self.step(thread);
            }
        }
        self.deadlock()
    }

    fn deadlock(&self) -> Ending {
        let thread = self.recording.entries[self.next].thread;
        Ending::Deadlock {
            thread,
            label: self.label(thread.0 as usize),
        }
    }

    fn label(&self, thread: usize) -> Label {
        Label(self.machine.op(self.program, thread).0)
    }

    /// The switch point before the thread's next step, if there is one.
    fn point_before(&self, thread: usize) -> Option<(PointKind, u64)> {
        if self.machine.event(self.program, thread).is_some() {
            return Some((PointKind::Call, 0));
        }
        let is_running = self.machine.threads[thread].state == State::Running;
        match self.machine.op(self.program, thread).1 {
            Op::Acquire { lock } | Op::Wait { lock, .. } if is_running => {
                Some((PointKind::Synchronisation, 1 + lock as u64))
            }
            Op::Signal { condition } | Op::Broadcast { condition } => {
                Some((PointKind::Synchronisation, 1001 + condition as u64))
            }
            _ => None,
        }
    }

    fn is_runnable(&self, thread: usize) -> bool {
        let Some(runner) = self.runners.get(thread) else {
            return false;
        };
        if runner.is_held || runner.is_spinning || !self.machine.can_step(self.program, thread) {
            return false;
        }
        let waits_for_turn = runner.has_passed && self.machine.event(self.program, thread).is_some();
        let logged = self.recording.entries.get(self.next);
        !waits_for_turn || logged.is_some_and(|logged| logged.thread.0 as usize == thread)
    }

    /// Who goes on if only the log is asked.
    fn by_log(&self) -> Option<usize> {
        let order = self.recording.log.threads_from(self.next);
        order
            .into_iter()
            .map(|thread| thread.0 as usize)
            .find(|thread| self.is_runnable(*thread))
    }

    /// Passes a switch point; who goes on?
    fn pass(&mut self, thread: usize, kind: PointKind, object: u64) -> Option<usize> {
        self.begin_block(thread);
        self.runners[thread].steps = 0;
        let spot = self.block(thread);
        let is_before = self.runners[thread].has_passed && kind == PointKind::Synchronisation;
        let held_for = is_before
            .then(|| self.hold(thread, &synchronisation(spot, object)))
            .flatten();
        let planned = self
            .preemptions
            .get(&spot)
            .map(|(to, is_far)| (to.0 as usize, *is_far))
            .filter(|(to, _)| held_for.is_none() && self.is_runnable(*to));
        let is_owed = self.runners[thread].is_owed || self.runners[thread].advances && kind != PointKind::Call;
        let stays = Some(thread).filter(|thread| is_owed && self.is_runnable(*thread));
        self.runners[thread].is_owed = false;
        if stays.is_none() {
            self.runners[thread].advances = false;
        }
        if let Some((to, is_far)) = planned {
            (self.runners[to].is_owed, self.runners[to].advances) = (!is_far, is_far);
        }
        let planned = planned.map(|(to, _)| to);
        let held_for = held_for.filter(|other| self.is_runnable(*other));
        let to = planned.or(held_for).or(stays).or_else(|| self.by_log());
        if let (Some(to), true) = (to, self.window.is_some_and(|window| window.contains(spot))) {
            let all = (0..self.runners.len()).filter(|other| self.is_runnable(*other));
            self.points.push(SwitchPoint {
                spot,
                label: self.label(thread),
                kind,
                object,
                is_after: !self.runners[thread].has_passed,
                next: self.next,
                to: ThreadIndex(to as u32),
                runnable: all.map(|other| ThreadIndex(other as u32)).collect(),
            });
        }
        to
    }

    fn block(&self, thread: usize) -> Spot {
        let runner = &self.runners[thread];
        Spot {
            thread: ThreadIndex(thread as u32),
            calls: runner.calls,
            nth: runner.points,
        }
    }

    fn meet(&mut self, thread: usize, kind: EventKind) {
        let value = self.recording.entries[self.next].value;
        self.next += 1;
        if kind == EventKind::Failure {
            return;
        }
        self.machine.step(self.program, thread, value);
        self.runners.resize(self.machine.threads.len(), Runner::default());
        let calls = self.runners[thread].calls + 1;
        self.runners[thread] = Runner {
            calls,
            ..Runner::default()
        };
        self.wake_spinning();
    }

    fn wake_spinning(&mut self) {
        self.runners.iter_mut().for_each(|runner| runner.is_spinning = false);
    }

    /// A step that is no event; who goes on after it?
    fn step(&mut self, thread: usize) -> Option<usize> {
        let access = self.machine.access(self.program, thread);
        let op = self.machine.op(self.program, thread).1;
        let point = self.point_before(thread);
        let was_running = self.machine.threads[thread].state == State::Running;
        let mut back = None;
        if let Some((variable, is_write)) = access {
            let id = self.id(thread, variable);
            if let Some(other) = self.hold(thread, &id) {
                return Some(other)
                    .filter(|other| self.is_runnable(*other))
                    .or_else(|| self.by_log());
            }
            self.note(thread, id, is_write, false);
            back = self.release(&id);
        }
        if let Some((PointKind::Synchronisation, object)) = point {
            // Who was held goes on later: what it is to come after has not quite happened.
            self.release(&synchronisation(self.block(thread), object));
        }
        self.machine.step(self.program, thread, 0);
        let runner = &mut self.runners[thread];
        runner.has_passed = false;
        runner.steps += 1;
        let is_spinning = runner.steps > SPINNING;
        if point.is_some() {
            self.runners[thread].is_owed = false;
        }
        match op {
            Op::Release { lock } => {
                self.runners[thread].is_owed = false;
                self.wake_spinning();
                return self.pass(thread, PointKind::Synchronisation, 1 + lock as u64);
            }
            Op::Wait { lock, .. } if was_running => {
                return self.pass(thread, PointKind::Synchronisation, 1 + lock as u64);
            }
            Op::Store { .. } => {
                let others = self
                    .runners
                    .iter_mut()
                    .enumerate()
                    .filter(|(other, _)| *other != thread);
                others.for_each(|(_, runner)| runner.is_spinning = false);
            }
            _ => {}
        }
        if back.is_some() {
            return back;
        }
        if is_spinning {
            (self.runners[thread].steps, self.runners[thread].is_spinning) = (0, true);
            return self.by_log();
        }
        Some(thread)
    }

    fn id(&self, thread: usize, variable: usize) -> AccessId {
        let nth = self.runners[thread]
            .counts
            .get(&(variable as u64))
            .copied()
            .unwrap_or(0);
        AccessId {
            block: self.block(thread),
            address: variable as u64,
            nth,
        }
    }

    fn note(&mut self, thread: usize, id: AccessId, is_write: bool, is_beyond: bool) {
        *self.runners[thread].counts.entry(id.address).or_default() += 1;
        if self.wants_accesses && self.window.is_some_and(|window| window.contains(id.block)) {
            self.accesses.push(Access {
                id,
                label: self.label(thread),
                is_write,
                passed: self.points.len(),
                next: self.next,
                is_beyond,
            });
        }
    }

    /// Whether the plan holds the thread before this access, and for whom.
    fn hold(&mut self, thread: usize, id: &AccessId) -> Option<usize> {
        let fits =
            |reversal: &&mut (AccessId, Option<AccessId>, Hold)| reversal.0 == *id && reversal.2 == Hold::Pending;
        let reversal = self.reversals.iter_mut().find(fits)?;
        reversal.2 = Hold::Active;
        self.runners[thread].is_held = true;
        // Who is to be delayed waits for nobody in particular.
        let until = reversal.1.unwrap_or(*id);
        Some(until.block.thread.0 as usize)
    }

    /// Ends the holds that lasted until this access; who was held goes on.
    fn release(&mut self, id: &AccessId) -> Option<usize> {
        let mut released = None;
        for (hold, _, state) in self.reversals.iter_mut().filter(|(_, until, _)| *until == Some(*id)) {
            if *state == Hold::Active {
                let held = hold.block.thread.0 as usize;
                self.runners[held].is_held = false;
                released = released.or(Some(held));
            }
            *state = Hold::Over;
        }
        released
    }

    fn lapse(&mut self) -> Option<usize> {
        let (hold, _, state) = self.reversals.iter_mut().find(|(_, _, state)| *state == Hold::Active)?;
        *state = Hold::Over;
        let held = hold.block.thread.0 as usize;
        self.runners[held].is_held = false;
        Some(held)
    }

    /// What the threads that did not fail would access before their next events.
    fn look_beyond(&mut self, ending: &Ending) {
        let failed = match ending {
            Ending::Mismatch { thread, .. } | Ending::Deadlock { thread, .. } => thread.0 as usize,
            Ending::Complete => return,
        };
        for thread in self.recording.log.threads_from(self.next) {
            let thread = thread.0 as usize;
            if thread == failed || thread >= self.runners.len() {
                continue;
            }
            let from = self.block(thread);
            let mut objects = Vec::new();
            let mut has_arrived = false;
            for _ in 0..SPINNING {
                has_arrived = self.machine.event(self.program, thread).is_some();
                if has_arrived || !self.machine.can_step(self.program, thread) {
                    break;
                }
                objects.extend(self.step_beyond(thread));
            }
            // Of a thread that did not arrive, not all is known.
            if has_arrived {
                self.followed.push(Followed { from, objects });
            }
        }
    }

    /// A step after the failure; what it synchronised on.
    fn step_beyond(&mut self, thread: usize) -> Option<u64> {
        let before = self.point_before(thread).filter(|_| !self.runners[thread].has_passed);
        let after = match self.machine.op(self.program, thread).1 {
            Op::Release { lock } => Some((PointKind::Synchronisation, 1 + lock as u64)),
            _ => None,
        };
        if before.is_some() {
            self.begin_block(thread);
        }
        let object = self.point_before(thread).or(after).map(|(_, object)| object);
        if let Some((variable, is_write)) = self.machine.access(self.program, thread) {
            let id = self.id(thread, variable);
            self.note(thread, id, is_write, true);
        }
        self.machine.step(self.program, thread, 0);
        self.runners[thread].has_passed = false;
        if after.is_some() {
            self.begin_block(thread);
        }
        object
    }

    fn begin_block(&mut self, thread: usize) {
        self.runners[thread].points += 1;
        self.runners[thread].counts.clear();
    }
}
