//! Checkpoints: processes of a replay that stand somewhere in the recorded order (`crates/runtime/src/turns/checkpoint.rs`). An
//! attempt of a search whose edits all come later goes on from a copy of one instead of beginning anew.
//!
//! Nothing depends on them but time. Where one cannot be had, or its copy does not come to life, the attempt is a replay from the
//! beginning; and a copy that brings the run back has not been found to do so before a replay from the beginning has done the same.
use crate::Error;
use crate::Result;
use crate::output::Comparison;
use crate::sys;
use crate::turns::Attempt;
use crate::turns::Attempts;
use crate::turns::Came;
use run_model::ScheduleEdit;
use runtime_abi::checkpoint::AT_ONCE_MAX;
use runtime_abi::checkpoint::DIRECTORY_BYTES_MAX;
use runtime_abi::checkpoint::FILE_NAME;
use runtime_abi::checkpoint::FIRST_FD;
use runtime_abi::checkpoint::Hello;
use runtime_abi::checkpoint::MAGIC;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::SwitchPoint;
use schedule_search::Ask;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Trace;
use schedule_search::Window;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Checkpoints that there are at once, at most. Each holds the memory that it does not have in common with the others.
const KEPT_MAX: usize = 4;
/// Replays that are remembered.
const KNOWN_MAX: usize = 64;
/// How long a checkpoint may take to say that it is there, and to make a copy.
const PATIENCE: Duration = Duration::from_secs(5);
/// An attempt that takes so long, and more than a quarter of one from the beginning, is worth checkpoints that are nearer.
const FAR: Duration = Duration::from_millis(30);

/// From where an attempt begins, and the checkpoints that it leaves behind.
#[derive(Clone, Copy, Default)]
pub struct Start<'a> {
    /// Nothing: from the beginning of the program.
    pub from: Option<&'a Checkpoint>,
    pub wishes: Option<&'a Wishes>,
}

/// Checkpoints that a replay is asked for.
pub struct Wishes {
    positions: Vec<u64>,
    /// Our ends of the sockets, and those of the checkpoints.
    ours: Vec<OwnedFd>,
    theirs: Vec<OwnedFd>,
}

impl Wishes {
    fn new(positions: Vec<u64>) -> io::Result<Wishes> {
        let pairs: Vec<(OwnedFd, OwnedFd)> = positions
            .iter()
            .map(|_| sys::message_sockets())
            .collect::<io::Result<_>>()?;
        let (ours, theirs) = pairs.into_iter().unzip();
        Ok(Wishes {
            positions,
            ours,
            theirs,
        })
    }

    /// Which descriptors the program is to have, and under which numbers.
    pub fn descriptors(&self) -> Vec<(BorrowedFd<'_>, i32)> {
        let files = self.theirs.iter().map(OwnedFd::as_fd);
        files.zip(FIRST_FD..).collect()
    }

    /// The attempt is over: those that are there.
    fn collect(self, attempt: &Attempt) -> Vec<Checkpoint> {
        // Where there is none, nobody has the other end now.
        drop(self.theirs);
        let differences = [&attempt.observed.stdout, &attempt.observed.stderr].map(difference_of);
        let hello = |socket: OwnedFd| Checkpoint::expect(socket, differences);
        self.ours.into_iter().filter_map(hello).collect()
    }
}

/// That one of them has ended is none.
fn difference_of(stream: &Comparison) -> Option<u64> {
    let end = stream.recorded_bytes.min(stream.replayed_bytes);
    stream.first_difference.filter(|offset| *offset < end)
}

/// Says where checkpoints are wanted, for a replay from the beginning that finds its files in `directory`.
pub fn write_wishes(directory: &Path, wishes: Option<&Wishes>) -> Result<()> {
    let path = directory.join(FILE_NAME);
    let written = match wishes {
        Some(wishes) => {
            let bytes: Vec<u8> = wishes.positions.iter().flat_map(|at| at.to_le_bytes()).collect();
            run_store::write_file(&path, &bytes)
        }
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
    };
    Ok(written.map_err(|e| run_store::Error::io("write", &path, e))?)
}

/// A process that stands where `event` events of the order have happened. Ends with its owner, whatever that ends of.
pub struct Checkpoint {
    pub event: u64,
    /// What the program had shown by then on standard output and error, and where it was something else than recorded.
    shown: [u64; 2],
    differences: [Option<u64>; 2],
    process: u32,
    socket: Mutex<OwnedFd>,
}

impl Checkpoint {
    fn expect(socket: OwnedFd, differences: [Option<u64>; 2]) -> Option<Checkpoint> {
        let mut bytes = [0; size_of::<Hello>()];
        let got = sys::receive_message(socket.as_fd(), &mut bytes, PATIENCE).ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 * at + i]));
        (got == bytes.len() && word(0) == MAGIC).then(|| Checkpoint {
            event: word(1),
            shown: [word(2), word(3)],
            differences,
            process: word(4) as u32,
            socket: Mutex::new(socket),
        })
    }

    /// How much of a stream was shown before, and the first difference in that.
    pub fn shown(&self, stream: usize) -> (u64, Option<u64>) {
        let shown = self.shown[stream];
        (shown, self.differences[stream].filter(|offset| *offset < shown))
    }

    /// Makes a copy that goes on, with the files in `directory`.
    pub fn copy(
        &self,
        directory: &Path,
        memory: BorrowedFd<'_>,
        output: [BorrowedFd<'_>; 2],
        wishes: Option<&Wishes>,
    ) -> io::Result<Copied> {
        let path = directory.as_os_str().as_bytes();
        if path.len() >= DIRECTORY_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidFilename));
        }
        let mut positions = [0; AT_ONCE_MAX];
        let mut files = vec![memory, output[0], output[1]];
        if let Some(wishes) = wishes {
            positions[..wishes.positions.len()].copy_from_slice(&wishes.positions);
            files.extend(wishes.theirs.iter().map(OwnedFd::as_fd));
        }
        let mut order: Vec<u8> = MAGIC.to_le_bytes().to_vec();
        order.extend(positions.iter().flat_map(|at: &u64| at.to_le_bytes()));
        order.extend((path.len() as u32).to_le_bytes());
        order.extend([0; 4]);
        order.extend(path);
        order.resize(order.len() + DIRECTORY_BYTES_MAX - path.len(), 0);
        let socket = self.socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        sys::send_message(socket.as_fd(), &order, &files)?;
        let mut answer = [0; size_of::<i32>()];
        let got = sys::receive_message(socket.as_fd(), &mut answer, PATIENCE)?;
        match i32::from_le_bytes(answer) {
            process if got == answer.len() && process > 0 => Ok(Copied {
                process: process as u32,
                status: None,
            }),
            _ => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        sys::send_signal(self.process, 9);
        let _ = sys::wait_for_child(self.process, true);
    }
}

/// A process that was copied from a checkpoint: a child of ours, but `std` does not know it.
pub struct Copied {
    process: u32,
    status: Option<ExitStatus>,
}

impl Copied {
    pub fn id(&self) -> u32 {
        self.process
    }

    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = sys::wait_for_child(self.process, false)?;
        }
        Ok(self.status)
    }

    pub fn kill(&mut self) -> io::Result<()> {
        if self.try_wait()?.is_none() {
            sys::send_signal(self.process, 9);
            self.status = sys::wait_for_child(self.process, true)?;
        }
        Ok(())
    }
}

/// Whether attempts go on from checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoints {
    Off,
    On,
    /// And each that does is made again from the beginning, and compared with that.
    Compared,
}

/// What checkpoints were good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatistics {
    pub made: u64,
    /// Attempts that began at one.
    pub used: u64,
    /// Attempts that could not, though they should have.
    pub failed: u64,
    /// Attempts that came to their end there, and not from the beginning.
    pub refuted: u64,
    /// If they are compared: attempts that went another way than from the beginning.
    pub differed: u64,
}

struct Kept {
    checkpoint: Arc<Checkpoint>,
    /// Switch points that come before it, and the window they are in.
    window: Window,
    points: Arc<Vec<SwitchPoint>>,
    /// When it was used last, in attempts, and how long that took.
    used: u64,
    took: Duration,
}

/// The checkpoints of a search. To be used in one thread, which outlives them: they are children of that thread.
pub struct Keeper {
    log: EventLog,
    is_on: bool,
    is_compared: bool,
    kept: Vec<Kept>,
    /// What all of `kept` have in common.
    admission: u64,
    /// Events that the admitted plan meets.
    met: u64,
    /// From which event on the first attempt that met more differs from the admitted one.
    better: Option<u64>,
    attempts: u64,
    from_beginning: Duration,
    /// Replays from the beginning of which nothing was to be written down: the last ones.
    known: VecDeque<(Vec<ScheduleEdit>, Attempt)>,
    statistics: CheckpointStatistics,
}

/// One attempt, to be made.
struct Task<'a> {
    ask: &'a Ask,
    /// There is nothing to do.
    known: Option<Attempt>,
    from: Option<(Arc<Checkpoint>, Arc<Vec<SwitchPoint>>)>,
    wishes: Option<Wishes>,
    is_compared: bool,
}

/// And made.
struct Done {
    result: Result<Attempt>,
    wishes: Option<Wishes>,
    /// The event of the checkpoint that it began at, and what was wrong with that.
    from: Option<u64>,
    failed: bool,
    refuted: bool,
    differed: bool,
}

impl Keeper {
    pub fn new(log: EventLog, checkpoints: Checkpoints) -> Keeper {
        Keeper {
            log,
            is_on: checkpoints != Checkpoints::Off,
            is_compared: checkpoints == Checkpoints::Compared,
            kept: Vec::new(),
            admission: 0,
            met: 0,
            better: None,
            attempts: 0,
            from_beginning: Duration::ZERO,
            known: VecDeque::new(),
            statistics: CheckpointStatistics::default(),
        }
    }

    /// So many events are met by the plan that was admitted last.
    pub fn note_met(&mut self, met: usize) {
        self.met = met as u64;
    }

    pub fn statistics(&self) -> CheckpointStatistics {
        self.statistics
    }

    /// As many attempts as there are workers, at most, all at once.
    pub fn attempts(&mut self, asks: &[Ask], workers: &[Attempts]) -> Vec<Result<Attempt>> {
        let mut tasks = Vec::with_capacity(asks.len());
        for ask in asks {
            self.admit(ask.checkpoint.admission);
            let from = self.choose(ask);
            // Of one that another thread starts, they would be children of that.
            let wishes = tasks.is_empty().then(|| self.wishes(ask, &workers[0])).flatten();
            let known = self.known.iter().find(|(edits, _)| *edits == ask.plan.edits);
            let known = known.filter(|_| ask.trace == Trace::Nothing);
            tasks.push(Task {
                ask,
                known: known.map(|(_, attempt)| attempt.clone()),
                from,
                wishes,
                is_compared: self.is_compared,
            });
        }
        let done: Vec<Done> = thread::scope(|scope| {
            let mut pairs = tasks.into_iter().zip(workers);
            let own = pairs.next();
            let running: Vec<_> = pairs
                .map(|(task, worker)| scope.spawn(move || task.run(worker)))
                .collect();
            let own = own.map(|(task, worker)| task.run(worker));
            let others = running
                .into_iter()
                .map(|one| one.join().expect("replaying does not panic"));
            own.into_iter().chain(others).collect()
        });
        let take = |(ask, done): (&Ask, Done)| self.take(ask, done);
        asks.iter().zip(done).map(take).collect()
    }

    /// Asks have this admission from now on. What the replays of the last one and of this one have in common stays.
    fn admit(&mut self, admission: u64) {
        if admission == self.admission {
            return;
        }
        let better = self.better.take().filter(|_| admission == self.admission + 1);
        self.kept.retain(|kept| kept.checkpoint.event <= better.unwrap_or(0));
        self.admission = admission;
    }

    /// The checkpoint from which this is the same replay as from the beginning: the last one.
    fn choose(&mut self, ask: &Ask) -> Option<(Arc<Checkpoint>, Arc<Vec<SwitchPoint>>)> {
        let entry = |window: &Window| entry(&self.log, window);
        let is_usable = |kept: &&mut Kept| {
            let event = kept.checkpoint.event;
            let is_before = event <= ask.checkpoint.event as u64;
            is_before
                && match &ask.trace {
                    Trace::Nothing => true,
                    Trace::Points(window) => event <= entry(window) || kept.window.covers(window),
                    // Accesses that come before it are not known.
                    Trace::PointsAndAccesses(window) => event <= entry(window),
                }
        };
        self.attempts += 1;
        let best = self
            .kept
            .iter_mut()
            .filter(is_usable)
            .max_by_key(|kept| kept.checkpoint.event)?;
        best.used = self.attempts;
        Some((Arc::clone(&best.checkpoint), Arc::clone(&best.points)))
    }

    /// The checkpoints that an attempt is to leave behind, if there are none that are near enough.
    fn wishes(&self, ask: &Ask, worker: &Attempts) -> Option<Wishes> {
        // A process with children cannot be copied alone, nor one in a world of its own.
        if !self.is_on || !worker.can_be_copied() {
            return None;
        }
        let event = ask.checkpoint.event as u64;
        let before = self.kept.iter().filter(|kept| kept.checkpoint.event <= event);
        let nearest = before.max_by_key(|kept| kept.checkpoint.event);
        let is_far = |kept: &Kept| kept.took > FAR && kept.took > self.from_beginning / 4;
        if nearest.is_some_and(|kept| !is_far(kept)) {
            return None;
        }
        let positions = positions(nearest.map_or(0, |kept| kept.checkpoint.event), event);
        (!positions.is_empty()).then(|| Wishes::new(positions).ok()).flatten()
    }

    fn take(&mut self, ask: &Ask, done: Done) -> Result<Attempt> {
        self.statistics.used += u64::from(done.from.is_some() && !done.failed);
        self.statistics.failed += u64::from(done.failed);
        self.statistics.refuted += u64::from(done.refuted);
        self.statistics.differed += u64::from(done.differed);
        if done.failed || done.refuted {
            // Whatever is wrong with it is wrong with the others as well.
            self.is_on = false;
            self.kept.clear();
        }
        let attempt = done.result?;
        let took = attempt.observed.duration;
        match done.from.filter(|_| self.is_on) {
            Some(event) => {
                let from = self.kept.iter_mut().find(|kept| kept.checkpoint.event == event);
                from.into_iter().for_each(|kept| kept.took = took);
            }
            None => self.from_beginning = took,
        }
        let last = self.log.len() as u64 - 1;
        let is_better = attempt.came == Came::ToItsEnd || attempt.reached.min(last) > self.met;
        if is_better {
            self.better.get_or_insert(ask.checkpoint.event as u64);
        }
        self.keep(ask, &attempt, done.wishes);
        if done.from.is_none() || attempt.came == Came::ToItsEnd {
            self.know(&ask.plan.edits, &attempt);
        }
        Ok(attempt)
    }

    /// The attempt was made from the beginning.
    fn know(&mut self, edits: &[ScheduleEdit], attempt: &Attempt) {
        if self.known.iter().any(|(known, _)| known == edits) {
            return;
        }
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        let attempt = Attempt {
            points: Vec::new(),
            accesses: Vec::new(),
            ..attempt.clone()
        };
        self.known.push_back((edits.to_vec(), attempt));
    }

    /// Keeps the checkpoints that an attempt has left behind, and what it has told of the time before others.
    fn keep(&mut self, ask: &Ask, attempt: &Attempt, wishes: Option<Wishes>) {
        let window = match &ask.trace {
            Trace::Nothing => None,
            Trace::Points(window) | Trace::PointsAndAccesses(window) => Some(window),
        };
        let made = wishes.map_or(Vec::new(), |wishes| wishes.collect(attempt));
        let Some(window) = window.filter(|_| self.is_on) else {
            return;
        };
        let points_before = |event: u64| {
            let count = attempt.points.partition_point(|point| point.reached < event);
            Arc::new(attempt.points[..count].to_vec())
        };
        let is_known = |kept: &Kept| kept.window.covers(window) || !window.covers(&kept.window);
        let event = ask.checkpoint.event as u64;
        for kept in self.kept.iter_mut().filter(|kept| kept.checkpoint.event <= event) {
            if !is_known(kept) {
                kept.points = points_before(kept.checkpoint.event);
                kept.window = window.clone();
            }
        }
        for checkpoint in made {
            self.statistics.made += 1;
            self.kept.push(Kept {
                points: points_before(checkpoint.event),
                checkpoint: Arc::new(checkpoint),
                window: window.clone(),
                used: self.attempts,
                took: Duration::ZERO,
            });
        }
        while self.kept.len() > KEPT_MAX {
            let oldest = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.used);
            let Some((oldest, _)) = oldest else { break };
            self.kept.remove(oldest);
        }
    }
}

impl Task<'_> {
    fn run(self, worker: &Attempts) -> Done {
        let (window, with_accesses) = match &self.ask.trace {
            Trace::Nothing => (None, false),
            Trace::Points(window) => (Some(&window.from[..]), false),
            Trace::PointsAndAccesses(window) => (Some(&window.from[..]), true),
        };
        let edits = &self.ask.plan.edits;
        let attempt = |from: Option<&Checkpoint>, wishes: Option<&Wishes>| {
            worker.attempt_from(edits, window, with_accesses, &Start { from, wishes })
        };
        let event = self.from.as_ref().map(|(checkpoint, _)| checkpoint.event);
        if let Some(known) = self.known {
            return Done {
                result: Ok(known),
                wishes: None,
                from: None,
                failed: false,
                refuted: false,
                differed: false,
            };
        }
        let mut done = Done {
            result: Err(Error::Wait(io::Error::from(io::ErrorKind::NotFound))),
            wishes: None,
            from: event,
            failed: false,
            refuted: false,
            differed: false,
        };
        let Some((checkpoint, before)) = &self.from else {
            done.result = attempt(None, self.wishes.as_ref());
            done.wishes = self.wishes;
            return done;
        };
        match attempt(Some(checkpoint), self.wishes.as_ref()) {
            Ok(mut copied) if copied.came != Came::ToItsEnd && copied.reached + 1 >= checkpoint.event => {
                let is_inside = |point: &&SwitchPoint| {
                    let start = window.and_then(|from| from.get(point.thread as usize));
                    window.is_some() && point.calls >= start.copied().unwrap_or(0)
                };
                let points = before.iter().filter(is_inside).copied();
                copied.points = points.chain(copied.points).collect();
                if self.is_compared {
                    done.differed = !attempt(None, None).is_ok_and(|again| is_same(&again, &copied));
                }
                done.result = Ok(copied);
                done.wishes = self.wishes;
            }
            came => {
                // What a search finds is always checked by a replay from the beginning.
                let is_end = came.is_ok_and(|copied| copied.came == Came::ToItsEnd);
                done.result = attempt(None, None);
                let is_confirmed = done.result.as_ref().is_ok_and(|again| again.came == Came::ToItsEnd);
                done.failed = !is_end;
                done.refuted = is_end && !is_confirmed;
            }
        }
        done
    }
}

/// Did two attempts go the same way, unless the time made them differ? Labels are not compared: they may be what a call has left
/// behind on the stack, and a signal of the runtime's own may have come in between.
fn is_same(one: &Attempt, other: &Attempt) -> bool {
    // Where a thread has to give way because it runs on and on depends on the time.
    if one.turns.budgets_spent + other.turns.budgets_spent > 0 {
        return true;
    }
    let point = |point: &SwitchPoint| {
        let place = (point.thread, point.calls, point.nth);
        (place, point.next, point.what, point.reached, point.runnable)
    };
    let access = |entry: &AccessEntry| (entry.place, entry.label, entry.passed, entry.reached, entry.flags);
    let way = |attempt: &Attempt| {
        let report = attempt
            .report()
            .map(|report| (report.kind, report.thread, report.event, report.actual));
        (attempt.came, attempt.reached, report)
    };
    way(one) == way(other)
        && one.points.iter().map(point).eq(other.points.iter().map(point))
        && one.accesses.iter().map(access).eq(other.accesses.iter().map(access))
}

/// Where checkpoints are of use to attempts that differ from each other after `event`, or some time before: most of them shortly
/// before. There is one at `nearest` already; 0 is the beginning.
fn positions(nearest: u64, event: u64) -> Vec<u64> {
    let distance = event.saturating_sub(nearest);
    let mut positions: Vec<u64> = [distance / 2, (distance / 8).max(2), (distance / 64).max(1), 0]
        .into_iter()
        .filter(|back| *back < distance)
        .map(|back| event - back)
        .collect();
    positions.sort_unstable();
    positions.dedup();
    positions.truncate(AT_ONCE_MAX);
    positions
}

/// How many events have happened when the first thread enters the window.
fn entry(log: &EventLog, window: &Window) -> u64 {
    let mut entries: Vec<Option<u64>> = vec![None; log.threads()];
    for (position, event) in log.events().iter().enumerate() {
        let start = |thread: usize| window.from.get(thread).copied().unwrap_or(0);
        let after = position as u64 + 1;
        let thread = event.thread.0 as usize;
        if event.index + 1 == start(thread) {
            entries[thread] = Some(after);
        }
        if let EventKind::Spawn { child } = event.kind
            && start(child.0 as usize) == 0
        {
            entries[child.0 as usize].get_or_insert(after);
        }
    }
    // Who was not spawned was there from the beginning.
    entries.into_iter().map(|entry| entry.unwrap_or(0)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::ThreadIndex;
    use schedule_search::Label;
    use schedule_search::LoggedEvent;

    #[test]
    fn most_checkpoints_are_shortly_before_the_failure() {
        assert_eq!(positions(0, 1000), [500, 875, 985, 1000]);
        assert_eq!(positions(0, 1), [1]);
        assert_eq!(positions(0, 3), [1, 2, 3]);
        assert!(positions(7, 7).is_empty());
        assert_eq!(positions(990, 1000), [995, 998, 999, 1000]);
    }

    #[test]
    fn a_window_is_entered_by_the_first_thread_that_does() {
        let event = |thread: u32, index: u64, child: Option<u32>| LoggedEvent {
            thread: ThreadIndex(thread),
            index,
            label: Label(1),
            kind: match child {
                Some(child) => EventKind::Spawn {
                    child: ThreadIndex(child),
                },
                None => EventKind::Call,
            },
        };
        let events = vec![
            event(0, 0, Some(1)),
            event(0, 1, Some(2)),
            event(1, 0, None),
            event(2, 0, None),
            event(1, 1, None),
            event(2, 1, None),
        ];
        let log = EventLog::new(events).expect("a log");
        let of = |from: &[u64]| entry(&log, &Window { from: from.to_vec() });
        assert_eq!(of(&[2, 2, 1]), 2);
        assert_eq!(of(&[2, 0, 1]), 1);
        assert_eq!(of(&[0, 2, 1]), 0);
        assert_eq!(of(&[2, 1, 0]), 2);
        assert_eq!(of(&[]), 0);
    }
}
