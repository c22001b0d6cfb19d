//! Runs recorded with the order of synchronisations: where a thread goes on late.
//!
//! Between two things that have places in the order, a thread may look at memory that others write, at a moment that nobody
//! knows. A replay has it go on at once. Where that was too early, it looks at something else than it did and goes another
//! way: then it is tried to have it go on as late as it can, or one of the others, which may have written too early. What helps is kept, and
//! the next failure is looked at. It is tried wherever a thread has come from the same inputs and goes to the same one, too: that is
//! the same code, mostly.
use crate::Result;
use crate::divergence;
use crate::inputs::Input;
use crate::inputs::What;
use crate::loaded::LoadedRun;
use crate::prepare::Observer;
use crate::prepare::Work;
use crate::recovery;
use crate::supervise::End;
use crate::sys;
use crate::turns;
use crate::turns::Attempts;
use crate::turns::Came;
use crate::verify;
use log_format::late_resumes::FILE_NAME;
use log_format::late_resumes::NoLateResume;
use run_model::LateResume;
use run_model::Op;
use run_model::Schedule;
use run_model::ScheduleKind;
use run_model::Stamp;
use run_model::ThreadIndex;
use run_model::Turns;
use run_store::RunDirectory;
use run_store::write_whole;
use std::fs;
use std::io;
use std::time::Duration;
use std::time::Instant;

/// Inputs before a late resume, the last of them included, that have to be the same at another one that is like it.
const BEFORE: usize = 3;

/// The late resumes that were found for the threads of one process.
pub fn of(run: &RunDirectory) -> Result<Vec<LateResume>> {
    let path = run.file(FILE_NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(run_store::Error::io("read", &path, error).into()),
    };
    let damaged = |NoLateResume(line): NoLateResume| {
        run_store::Error::corrupt(
            &path,
            "pauses",
            "a late resume in each line".to_owned(),
            format!("something else in line {line}"),
        )
    };
    Ok(log_format::late_resumes::decode(&bytes).map_err(damaged)?)
}

/// Has the threads go on late there. `stamps` are those of `inputs`. If there is no such place: the number of the late resume, from 1 on.
pub fn apply(
    late_resumes: &[LateResume],
    inputs: &[Vec<Input>],
    stamps: &mut [Vec<Stamp>],
) -> std::result::Result<(), usize> {
    for (line, resume) in (1usize..).zip(late_resumes) {
        let thread = resume.thread.0 as usize;
        let own = inputs.get(thread).ok_or(line)?;
        let signature = signature(own, resume.inputs as usize).ok_or(line)?;
        if !resume.alike {
            hold(&mut stamps[thread], resume.inputs as usize);
            continue;
        }
        for (own, stamps) in inputs.iter().zip(&mut *stamps) {
            for had in 1..own.len() {
                if self::signature(own, had).as_ref() == Some(&signature) {
                    hold(stamps, had);
                }
            }
        }
    }
    Ok(())
}

/// What an exchange compares with was read shortly before it, without a place: so its thread goes on late before it.
pub fn before_exchanges(inputs: &[Vec<Input>], stamps: &mut [Vec<Stamp>]) {
    for (own, stamps) in inputs.iter().zip(stamps) {
        for (had, next) in own.iter().enumerate().skip(1) {
            if next.what == What::Sync(Op::CompareExchange) {
                hold(stamps, had);
            }
        }
    }
}

/// The thread goes on behind its last input when it comes to the next one.
fn hold(stamps: &mut [Stamp], had: usize) {
    let next = stamps[had];
    let came = if next.began == 0 { next.time } else { next.began };
    stamps[had - 1].ended = stamps[had - 1].ended.max(came.saturating_sub(1));
}

/// What a thread has had last, and has next.
fn signature(own: &[Input], had: usize) -> Option<[Option<(What, u64)>; BEFORE + 1]> {
    own.get(had).filter(|_| had != 0)?;
    let about = |back: usize| own.get(had.checked_sub(back)?).map(|input| (input.what, input.label));
    Some(core::array::from_fn(about))
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    pub attempts: u64,
    /// How many were found, or known before.
    pub late_resumes: usize,
    /// The whole run came back.
    pub is_same: bool,
    /// Inputs of the order that came again, and how many there are: in the process that failed, or in all.
    pub reached: u64,
    pub events: u64,
}

/// Can there be late resumes in this run?
pub fn are_possible(loaded: &LoadedRun) -> bool {
    loaded.meta.settings.sync_order && loaded.all().any(turns::are_taken)
}

/// Replays a run until it comes back, each time with more late resumes, or until no more help. Those that help are kept with it.
pub fn settle(
    attempts: &Attempts<'_>,
    again: bool,
    time_max: Option<Duration>,
    observer: &dyn Observer,
) -> Result<Settled> {
    let started = Instant::now();
    let mut processes = Processes::load(attempts, again)?;
    let mut count = 1;
    let mut last = processes.attempt()?;
    while let Some(failure) = &last {
        observer.at(Work::Settle, failure.reached, failure.events);
        let is_late = || time_max.is_some_and(|most| started.elapsed() >= most) || sys::caught_signal().is_some();
        let mut better = None;
        for resume in processes.candidates(failure) {
            if is_late() {
                break;
            }
            count += 1;
            processes.late_resumes[failure.process].push(resume);
            let came = processes.attempt()?;
            let is_further = |next: &Failure| next.process != failure.process || next.reached > failure.reached;
            if came.as_ref().is_none_or(is_further) {
                better = Some(came);
                break;
            }
            processes.late_resumes[failure.process].pop();
        }
        match better {
            Some(came) => last = came,
            None => break,
        }
    }
    observer.done();
    processes.keep()?;
    let (reached, events) = match &last {
        Some(failure) => (failure.reached, failure.events),
        None => (processes.events(), processes.events()),
    };
    Ok(Settled {
        attempts: count,
        late_resumes: processes.late_resumes.iter().map(Vec::len).sum(),
        is_same: last.is_none(),
        reached,
        events,
    })
}

/// Where a replay went wrong first.
struct Failure {
    /// 0: the first.
    process: usize,
    thread: Option<ThreadIndex>,
    reached: u64,
    events: u64,
    /// How many inputs each thread had had, and the threads, whoever had one last first.
    had: Vec<u64>,
    recent: Vec<ThreadIndex>,
}

/// The processes of a run, each with the late resumes of its threads.
struct Processes<'a> {
    attempts: &'a Attempts<'a>,
    late_resumes: Vec<Vec<LateResume>>,
}

impl<'a> Processes<'a> {
    fn load(attempts: &'a Attempts<'a>, again: bool) -> Result<Processes<'a>> {
        let known = |loaded: &LoadedRun| if again { Ok(Vec::new()) } else { of(&loaded.run) };
        Ok(Processes {
            attempts,
            late_resumes: attempts.loaded.all().map(known).collect::<Result<_>>()?,
        })
    }

    fn keep(&self) -> Result<()> {
        for (loaded, late_resumes) in self.attempts.loaded.all().zip(&self.late_resumes) {
            let path = loaded.run.file(FILE_NAME);
            if !late_resumes.is_empty() || path.exists() {
                write_whole(&path, log_format::late_resumes::encode(late_resumes).as_bytes())?;
            }
        }
        Ok(())
    }

    fn events(&self) -> u64 {
        let processes = self.attempts.loaded.all().filter(|loaded| turns::are_taken(loaded));
        let threads = processes.flat_map(|loaded| &loaded.inputs);
        threads
            .map(|inputs| inputs.iter().filter(turns::is_ordered).count() as u64)
            .sum()
    }

    /// Replays the run; nothing, if it came back.
    fn attempt(&self) -> Result<Option<Failure>> {
        let mut orders = Vec::new();
        let all = self.attempts.loaded.all().zip(self.attempts.plan.all());
        for ((loaded, plan), late_resumes) in all.zip(&self.late_resumes) {
            if !turns::are_taken(loaded) {
                orders.push(None);
                continue;
            }
            // A search for edits comes later.
            let schedule = Schedule {
                kind: ScheduleKind::Turns(turns::order_with(loaded, late_resumes)?),
                threads: plan.schedule.threads.clone(),
            };
            recovery::judge(loaded, &schedule)?;
            orders.push(schedule.turns().cloned());
        }
        let attempt = self.attempts.attempt_in(&orders)?;
        if attempt.came == Came::ToItsEnd {
            return Ok(None);
        }
        let observed = &attempt.observed;
        let (loaded, plan) = (self.attempts.loaded, &self.attempts.plan);
        let process = divergence::guilty(loaded, plan, observed, &verify::verify(loaded, plan, observed));
        let (end, turns) = match process.checked_sub(1) {
            None => (observed.end, observed.turns),
            Some(other) => (observed.processes[other].end, observed.processes[other].turns),
        };
        let thread = match end {
            End::Diverged(report) => Some(ThreadIndex(report.thread)),
            _ => None,
        };
        let order = orders[process].as_ref();
        let (had, recent) = order.map(|order| had(order, turns.reached)).unwrap_or_default();
        Ok(Some(Failure {
            process,
            thread,
            reached: turns.reached,
            events: order.map_or(0, Turns::events),
            had,
            recent,
        }))
    }

    /// What could help, the likeliest first.
    fn candidates(&self, failure: &Failure) -> Vec<LateResume> {
        let mut all = Vec::new();
        let mut add = |thread: ThreadIndex, back: u64, alike: bool| {
            let had = failure.had.get(thread.0 as usize).copied().unwrap_or(0);
            let process = self.attempts.loaded.all().nth(failure.process);
            let own = process.and_then(|process| process.inputs.get(thread.0 as usize));
            let is_place = |inputs: &u64| own.is_some_and(|own| signature(own, *inputs as usize).is_some());
            if let Some(inputs) = had.checked_sub(back).filter(is_place) {
                all.push(LateResume { thread, inputs, alike });
            }
        };
        if let Some(thread) = failure.thread {
            for (back, alike) in [(0, true), (0, false), (1, true), (1, false)] {
                add(thread, back, alike);
            }
        }
        for thread in failure.recent.iter().filter(|thread| Some(**thread) != failure.thread) {
            add(*thread, 0, true);
            add(*thread, 0, false);
        }
        let known = &self.late_resumes[failure.process];
        all.retain(|resume| !known.contains(resume));
        all
    }
}

/// How many of the first `reached` inputs each thread has, and who had one last.
fn had(order: &Turns, reached: u64) -> (Vec<u64>, Vec<ThreadIndex>) {
    let mut had = vec![0; order.threads as usize];
    let mut last = vec![0; order.threads as usize];
    let mut left = reached;
    for (at, run) in (1..).zip(&order.runs) {
        let count = u64::from(run.count).min(left);
        left -= count;
        if count != 0 {
            had[run.thread.0 as usize] += count;
            last[run.thread.0 as usize] = at;
        }
        if left == 0 {
            break;
        }
    }
    let mut recent: Vec<ThreadIndex> = (0..order.threads).map(ThreadIndex).collect();
    recent.retain(|thread| last[thread.0 as usize] != 0);
    recent.sort_by_key(|thread| core::cmp::Reverse(last[thread.0 as usize]));
    (had, recent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::RunKind;
    use run_model::TurnRun;

    fn inputs(ops: &[(Op, u64)]) -> Vec<Input> {
        let input = |(op, time): &(Op, u64)| Input {
            event: 0,
            what: What::Sync(*op),
            result: 0,
            bytes: 0,
            time: *time,
            label: 0,
            began: 0,
            ended: 0,
        };
        ops.iter().map(input).collect()
    }

    fn stamps(inputs: &[Vec<Input>]) -> Vec<Vec<Stamp>> {
        let stamp = |input: &Input| Stamp {
            time: input.time,
            ..Stamp::default()
        };
        inputs.iter().map(|own| own.iter().map(stamp).collect()).collect()
    }

    fn resume(thread: u32, inputs: u64, alike: bool) -> LateResume {
        LateResume {
            thread: ThreadIndex(thread),
            inputs,
            alike,
        }
    }

    fn ends(late_resumes: &[LateResume], inputs: &[Vec<Input>]) -> std::result::Result<Vec<Vec<u64>>, usize> {
        let mut all = stamps(inputs);
        apply(late_resumes, inputs, &mut all)?;
        Ok(all
            .iter()
            .map(|own| own.iter().map(|stamp| stamp.ended).collect())
            .collect())
    }

    #[test]
    fn a_thread_goes_on_right_before_its_next_input() {
        let threads = [
            inputs(&[(Op::MutexLock, 10), (Op::MutexUnlock, 50)]),
            inputs(&[(Op::Atomic, 20)]),
        ];
        assert_eq!(ends(&[resume(0, 1, false)], &threads), Ok(vec![vec![49, 0], vec![0]]));
        let order = {
            let mut all = stamps(&threads);
            apply(&[resume(0, 1, false)], &threads, &mut all).unwrap();
            Turns::merge(&all)
        };
        let kinds: Vec<_> = order.runs.iter().map(|run| (run.thread.0, run.kind)).collect();
        let expected = [
            (0, RunKind::Inputs),
            (1, RunKind::Inputs),
            (0, RunKind::Return),
            (0, RunKind::Inputs),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_is_alike_has_the_same_inputs_before_and_next() {
        let round = |at: u64| [(Op::Atomic, at), (Op::MutexLock, at + 2), (Op::MutexUnlock, at + 9)];
        let waits = [(Op::Atomic, 30), (Op::MutexLock, 32), (Op::CondRelease, 39)];
        let own: Vec<_> = [&round(0)[..], &round(10), &waits, &round(40)].concat();
        let threads = [inputs(&own), inputs(&[&round(100)[..], &round(110)].concat())];
        let ended = ends(&[resume(0, 5, true)], &threads).unwrap();
        // The first round of a thread has nothing before it, and the one before which it waited has something else.
        assert_eq!(ended[0], [0, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ended[1], [0, 0, 0, 0, 118, 0]);
    }

    #[test]
    fn places_that_there_are_not_are_named() {
        let threads = [inputs(&[(Op::MutexLock, 10), (Op::MutexUnlock, 50)])];
        for (number, nowhere) in [
            resume(0, 0, false),
            resume(0, 2, true),
            resume(1, 1, false),
            resume(0, u64::MAX, true),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(ends(&[resume(0, 1, false), nowhere], &threads), Err(2), "{number}");
        }
    }

    #[test]
    fn who_was_last_is_known_from_the_order() {
        let run = |thread, count| TurnRun {
            thread: ThreadIndex(thread),
            count,
            kind: RunKind::Inputs,
        };
        let order = Turns {
            threads: 4,
            runs: vec![run(0, 3), run(2, 2), run(1, 5), run(0, 1)],
            edits: Vec::new(),
        };
        let threads = |all: &[u32]| all.iter().copied().map(ThreadIndex).collect::<Vec<_>>();
        assert_eq!(had(&order, 0), (vec![0, 0, 0, 0], threads(&[])));
        assert_eq!(had(&order, 4), (vec![3, 0, 1, 0], threads(&[2, 0])));
        assert_eq!(had(&order, 7), (vec![3, 2, 2, 0], threads(&[1, 2, 0])));
        assert_eq!(had(&order, 99), (vec![4, 5, 2, 0], threads(&[0, 1, 2])));
    }
}
