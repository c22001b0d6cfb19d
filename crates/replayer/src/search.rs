//! The search for edits with which a replay of several threads at scope inputs meets all of its log: `schedule_search`, with
//! replays of the program to try things on (docs/search.md).
use crate::Error;
use crate::Result;
use crate::checkpoints::CheckpointStatistics;
use crate::checkpoints::Checkpoints;
use crate::checkpoints::Keeper;
use crate::driven;
use crate::driven::Driven;
use crate::driven::keep_edits;
use crate::inputs::Input;
use crate::inputs::What;
use crate::late_resumes;
use crate::late_resumes::Settled;
use crate::loaded::LoadedRun;
use crate::prepare::Observed;
use crate::prepare::Observer;
use crate::recovery::Found;
use crate::recovery::judge;
use crate::recovery::order_threads;
use crate::stage::Stage;
use crate::sys;
use crate::turns;
use crate::turns::Attempts;
use crate::turns::Came;
use run_model::ScheduleEdit;
use run_model::ScheduleKind;
use run_model::ThreadIndex;
use run_model::Turns;
use run_store::RunDirectory;
use run_store::write_whole;
use runtime_abi::divergence;
use runtime_abi::turns_file;
use runtime_abi::turns_file::flag;
use runtime_abi::turns_file::what;
use schedule_search::AccessId;
use schedule_search::Ask;
use schedule_search::Ending;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Followed;
use schedule_search::Label;
use schedule_search::LoggedEvent;
use schedule_search::Outcome;
use schedule_search::PointKind;
use schedule_search::Replays;
use schedule_search::Spot;
use schedule_search::Statistics;
use schedule_search::SwitchPoint;
use schedule_search::Tuning;
use std::time::Duration;
use std::time::Instant;

/// Where a search that is not over is kept.
pub const SEARCH_FILE_NAME: &str = "search";
/// What stands in the log for the end of the run, which is no input.
const END: Label = Label(1);
const FIRST_CALL: u64 = 1000;
const FIRST_SIGNAL: u64 = 1 << 32;

#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Begin anew, whatever was found before.
    pub again: bool,
    /// Replays at a time.
    pub workers: usize,
    pub tuning: Tuning,
    /// Attempts go on from copies of a process that stands shortly before what they change.
    pub checkpoints: Checkpoints,
    /// Stop after this time, and keep what is known by then.
    pub time_max: Option<Duration>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Searched {
    /// The edits were there already, and nothing was tried.
    pub kept: bool,
    /// The signal that stopped it.
    pub interrupted: Option<i32>,
    pub outcome: Outcome,
    pub statistics: Statistics,
    /// Those of its attempts that were made by searches which this one went on from.
    pub attempts_before: u64,
    pub checkpoints: CheckpointStatistics,
    /// Where threads go on late (`late_resumes.rs`).
    pub late_resumes: usize,
    pub events: usize,
    pub met: usize,
    pub elapsed: Duration,
    /// At scope sync: what was searched for is the order of accesses that race (`steered/mod.rs`).
    pub of_accesses: bool,
}

impl Searched {
    /// Nothing but late resumes was looked for.
    fn by_late_resumes(settled: &Settled, outcome: Outcome, started: Instant) -> Searched {
        let interrupted = sys::caught_signal().filter(|_| !settled.is_same);
        Searched {
            kept: false,
            interrupted,
            outcome: if interrupted.is_some() {
                Outcome::Stopped
            } else {
                outcome
            },
            statistics: Statistics {
                attempts: settled.attempts,
                ..Statistics::default()
            },
            attempts_before: 0,
            checkpoints: CheckpointStatistics::default(),
            late_resumes: settled.late_resumes,
            events: settled.events as usize,
            met: settled.reached as usize,
            elapsed: started.elapsed(),
            of_accesses: false,
        }
    }
}

/// How far it has come; between attempts.
pub struct SearchProgress<'a> {
    pub search: schedule_search::Progress<'a>,
    pub elapsed: Duration,
    /// Attempts of searches that this one goes on from.
    pub attempts_before: u64,
}

/// Finds the edits that the replay of a run needs, and keeps them with it and with its schedules. The observer may stop it; it goes on
/// from there the next time.
pub fn search(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    found: &mut [Found],
    run_name: &str,
    options: &SearchOptions,
    observer: &dyn Observer,
) -> Result<Searched> {
    let started = Instant::now();
    let _observed = Observed(observer);
    sys::catch_signals();
    let run = &loaded.run;
    let mut settled = None;
    if (options.again || searching(run) != Searching::Found) && late_resumes::are_possible(loaded) {
        let attempts = Attempts::prepare(loaded, stage, found, run_name)?;
        settled = Some(late_resumes::settle(
            &attempts,
            options.again,
            options.time_max,
            observer,
        )?);
        order_threads(loaded, found)?;
    }
    if let Some(settled) = settled.filter(|settled| settled.is_same) {
        write_whole(&run.file(log_format::edits::FILE_NAME), &[])?;
        order_threads(loaded, found)?;
        return Ok(Searched::by_late_resumes(
            &settled,
            Outcome::Found(schedule_search::Plan::default()),
            started,
        ));
    }
    let Some(order) = found[0].schedule.turns().cloned() else {
        let Some(settled) = settled else {
            return Err(Error::NoTurns { run: run.name() });
        };
        // Of the other processes' threads nothing else is searched for. There is nothing to go on from but the late resumes.
        write_whole(&run.file(SEARCH_FILE_NAME), &[])?;
        let met = settled.reached as usize;
        return Ok(Searched::by_late_resumes(&settled, Outcome::Exhausted { met }, started));
    };
    let log = event_log(loaded, &order)?;
    let events = log.len();
    let kept = turns::edits_of(run)?.filter(|_| !options.again);
    if let Some(edits) = kept {
        let plan = schedule_search::Plan { edits };
        return Ok(Searched {
            kept: true,
            interrupted: None,
            outcome: Outcome::Found(plan),
            statistics: Statistics::default(),
            attempts_before: 0,
            checkpoints: CheckpointStatistics::default(),
            late_resumes: 0,
            events,
            met: events,
            elapsed: started.elapsed(),
            of_accesses: false,
        });
    }
    let mut driven = Driven::open(run, &log, &options.tuning, options);
    let prepare = |_| Attempts::prepare(loaded, stage, found, run_name);
    let mut workers: Vec<Attempts<'_>> = (0..options.workers.max(1)).map(prepare).collect::<Result<_>>()?;
    if options.tuning.scope == schedule_search::Scope::WholeRun {
        let of_run = |worker: &mut Attempts<'_>| worker.accesses_max = turns::ACCESSES_OF_RUN_MAX;
        workers.iter_mut().for_each(of_run);
    }
    let mut executor = Executor {
        keeper: Keeper::new(log.clone(), options.checkpoints),
        workers,
        log,
        error: None,
    };
    let outcome = driven.run(&mut executor, started, options, observer)?;
    match &outcome {
        Outcome::Found(plan) => {
            let turns = Turns {
                edits: plan.edits.clone(),
                ..order
            };
            found[0].schedule.kind = ScheduleKind::Turns(turns);
            judge(loaded, &found[0].schedule)?;
            let kept = keep_edits(run, &plan.edits);
            // Where nothing can be written, a run that needs no edits is replayed all the same.
            if !plan.edits.is_empty() {
                kept?;
            }
        }
        _ => driven.keep(loaded)?,
    }
    Ok(Searched {
        kept: false,
        interrupted: sys::caught_signal().filter(|_| outcome == Outcome::Stopped),
        outcome,
        statistics: *driven.search.statistics(),
        attempts_before: driven.attempts_before,
        checkpoints: executor.keeper.statistics(),
        late_resumes: settled.map_or(0, |settled| settled.late_resumes),
        events,
        met: driven.search.progress().met,
        elapsed: started.elapsed(),
        of_accesses: false,
    })
}

/// What is known about the edits that the replay of a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searching {
    NotBegun,
    /// Stopped, or came to an end without a result.
    Unfound,
    Found,
}

pub fn searching(run: &RunDirectory) -> Searching {
    if run.file(log_format::edits::FILE_NAME).exists() {
        Searching::Found
    } else if run.file(SEARCH_FILE_NAME).exists() {
        Searching::Unfound
    } else {
        Searching::NotBegun
    }
}

/// What a replay has to meet: the inputs in their order, and the end.
fn event_log(loaded: &LoadedRun, order: &Turns) -> Result<EventLog> {
    let ordered = |inputs: &'_ Vec<Input>| inputs.iter().filter(turns::is_ordered).cloned().collect();
    let inputs: Vec<Vec<Input>> = loaded.inputs.iter().map(ordered).collect();
    let children = turns::children_of(&loaded.logs);
    let mut next = vec![0; inputs.len()];
    let mut events = Vec::new();
    for run in &order.runs {
        let thread = run.thread.0 as usize;
        for _ in 0..run.count {
            let index = next[thread];
            next[thread] += 1;
            let input = &inputs[thread][index];
            let kind = match turns::created_by(&children, run.thread.0, input) {
                Some(child) => EventKind::Spawn { child },
                None => EventKind::Call,
            };
            events.push(LoggedEvent {
                thread: run.thread,
                index: index as u64,
                label: label_of(input),
                kind,
            });
        }
    }
    let ended = loaded.ended_in.map_or(0, |(thread, _)| thread);
    events.push(LoggedEvent {
        thread: ThreadIndex(ended),
        index: next.get(ended as usize).copied().unwrap_or(0) as u64,
        label: END,
        kind: EventKind::Failure,
    });
    EventLog::new(events).map_err(|why| Error::UnusableOrder {
        run: loaded.run.name(),
        why: why.to_string(),
    })
}

/// A call from this place in the program.
fn made_at(number: u64, place: u64) -> Label {
    Label(FIRST_CALL + number + (place << 16))
}

fn label_of(input: &Input) -> Label {
    match input.what {
        What::Call(number) => made_at(u64::from(number), input.label),
        What::Sync(op) => Label(FIRST_CALL + u64::from(log_format::inputs::FIRST_SYNC) + op as u64),
        What::Signal(number) => Label(FIRST_SIGNAL + u64::from(number)),
        What::Rest => Label::NONE,
    }
}

/// Replays for the search.
struct Executor<'a> {
    workers: Vec<Attempts<'a>>,
    keeper: Keeper,
    log: EventLog,
    /// The first thing that went wrong with replaying itself.
    error: Option<Error>,
}

impl Replays for Executor<'_> {
    fn attempt(&mut self, ask: &Ask) -> schedule_search::Attempt {
        let mut answers = self.attempts(std::slice::from_ref(ask));
        answers.pop().expect("one answer to each ask")
    }

    fn attempts(&mut self, batch: &[Ask]) -> Vec<schedule_search::Attempt> {
        let mut answers = Vec::with_capacity(batch.len());
        for part in batch.chunks(self.workers.len()) {
            for result in self.keeper.attempts(part, &self.workers) {
                match result {
                    Ok(attempt) => answers.push(self.answer(&attempt)),
                    Err(error) => {
                        self.error.get_or_insert(error);
                        answers.push(driven::nothing());
                    }
                }
            }
        }
        answers
    }
}

impl driven::Executor for Executor<'_> {
    fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    fn note_met(&mut self, met: usize) {
        self.keeper.note_met(met);
    }
}

impl Executor<'_> {
    fn answer(&self, attempt: &turns::Attempt) -> schedule_search::Attempt {
        let last = self.log.len() - 1;
        let met = match attempt.came {
            Came::ToItsEnd => self.log.len(),
            _ => (attempt.reached as usize).min(last),
        };
        let ending = match (attempt.came, self.log.get(met)) {
            (Came::ToItsEnd, _) | (_, None) => Ending::Complete,
            (Came::ToADeadlock, Some(next)) => Ending::Deadlock {
                thread: next.thread,
                label: Label(attempt.report().map_or(0, |report| report.other_count)),
            },
            (Came::ToAMismatch, Some(next)) => Ending::Mismatch {
                thread: next.thread,
                expected: next.label,
                found: found(attempt),
            },
        };
        let points: Vec<SwitchPoint> = attempt.points.iter().map(switch_point).collect();
        let is_access = |entry: &&turns_file::AccessEntry| entry.flags & (flag::FOLLOWED | flag::SYNCHRONISES) == 0;
        let mut stands: Vec<(ThreadIndex, Label)> = Vec::new();
        for point in &points {
            match stands.iter_mut().find(|(thread, _)| *thread == point.spot.thread) {
                Some(stand) => stand.1 = point.label,
                None => stands.push((point.spot.thread, point.label)),
            }
        }
        schedule_search::Attempt {
            ending,
            met,
            points,
            accesses: attempt.accesses.iter().filter(is_access).map(access).collect(),
            followed: followed(&attempt.accesses),
            stands,
        }
    }
}

/// What the program did instead of what the log has next.
fn found(attempt: &turns::Attempt) -> Label {
    match attempt.report() {
        Some(report) if report.kind == divergence::CALL => made_at(report.object, report.value),
        Some(report) => Label(2 + u64::from(report.kind)),
        None => END,
    }
}

fn switch_point(point: &turns_file::SwitchPoint) -> SwitchPoint {
    let runnable = (0..64)
        .filter(|thread| point.runnable >> thread & 1 != 0)
        .map(ThreadIndex);
    SwitchPoint {
        spot: Spot {
            thread: ThreadIndex(point.thread),
            calls: point.calls,
            nth: point.nth,
        },
        label: Label(point.label),
        kind: match point.what {
            what::EVENT | what::INPUT => PointKind::Call,
            _ => PointKind::Synchronisation,
        },
        object: point.object,
        is_after: matches!(point.what, what::RELEASE | what::SPAWN),
        next: point.reached as usize,
        to: ThreadIndex(point.next),
        runnable: runnable.collect(),
    }
}

fn access(entry: &turns_file::AccessEntry) -> schedule_search::Access {
    let place = &entry.place;
    schedule_search::Access {
        id: AccessId {
            block: spot(place),
            address: place.address,
            nth: place.access,
        },
        label: Label(entry.label),
        is_write: entry.flags & flag::WRITES != 0,
        passed: entry.passed as usize,
        next: entry.reached as usize,
        is_beyond: entry.flags & flag::BEYOND != 0,
    }
}

/// The threads that were let run after the failure; each may have been more than once.
fn followed(entries: &[turns_file::AccessEntry]) -> Vec<Followed> {
    let mut all: Vec<Followed> = Vec::new();
    for entry in entries {
        let place = &entry.place;
        let known = all.iter_mut().find(|one| one.from.thread.0 == place.thread);
        match known {
            Some(one) if entry.flags & flag::SYNCHRONISES != 0 => one.objects.push(place.address),
            None if entry.flags & flag::FOLLOWED != 0 => all.push(Followed {
                from: spot(place),
                objects: Vec::new(),
            }),
            _ => {}
        }
    }
    all
}

fn spot(place: &turns_file::Place) -> Spot {
    Spot {
        thread: ThreadIndex(place.thread),
        calls: place.calls,
        nth: place.nth,
    }
}

/// The edits a search has found, in words.
pub fn describe(edits: &[ScheduleEdit]) -> Vec<String> {
    let line = |made: &ScheduleEdit| match made {
        ScheduleEdit::Preempt { at, to } | ScheduleEdit::Advance { at, to } if at.thread == *to => format!(
            "thread {} goes on itself at switch point {} after its {} inputs",
            at.thread.0, at.nth, at.calls
        ),
        ScheduleEdit::Preempt { at, to } => format!(
            "thread {} gives way to thread {} at switch point {} after its {} inputs",
            at.thread.0, to.0, at.nth, at.calls
        ),
        ScheduleEdit::Advance { at, to } => format!(
            "thread {} lets thread {} go on as far as it can at switch point {} after its {} inputs",
            at.thread.0, to.0, at.nth, at.calls
        ),
        ScheduleEdit::Reverse { hold, until } if hold.is_synchronisation() => format!(
            "thread {} waits at switch point {} after its {} inputs until thread {} has had {:#x}",
            hold.block.thread.0, hold.block.nth, hold.block.calls, until.block.thread.0, hold.address
        ),
        ScheduleEdit::Reverse { hold, until } => format!(
            "thread {} waits before its access of {:#x} for that of thread {}",
            hold.block.thread.0, hold.address, until.block.thread.0
        ),
        ScheduleEdit::Delay { hold } => format!(
            "thread {} waits before its access of {:#x} as long as others can go on",
            hold.block.thread.0, hold.address
        ),
    };
    edits.iter().map(line).collect()
}
