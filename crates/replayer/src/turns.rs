//! Runs of several threads at scope inputs: replayed one thread at a time, in the order of their inputs (docs/turns.md).
//!
//! Where that order alone does not bring the run back, edits may: [`Attempts`] replays one run any number of times,
//! each time with others.
use crate::Error;
use crate::Result;
use crate::checkpoints;
use crate::checkpoints::Start;
use crate::divergence::Divergence;
use crate::inputs::Input;
use crate::inputs::What;
use crate::inputs::load_inputs;
use crate::late_resumes;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::record::Show;
use crate::recovery::Found;
use crate::replay;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::End;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::verify;
use log_format::turns::Wanted;
use run_model::Kind;
use run_model::LateResume;
use run_model::Logs;
use run_model::Method;
use run_model::Placed;
use run_model::ScheduleEdit;
use run_model::Stamp;
use run_model::ThreadIndex;
use run_model::Turns;
use run_store::DivergenceReport;
use run_store::RunDirectory;
use run_store::TurnsSnapshot;
use run_store::write_whole;
use runtime_abi::counting::CountingFor;
use runtime_abi::divergence;
use runtime_abi::policy::Inputs;
use runtime_abi::turns_file::ACCESSES_FILE_NAME;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::FILE_NAME;
use runtime_abi::turns_file::POINTS_FILE_NAME;
use runtime_abi::turns_file::SwitchPoint;
use runtime_abi::turns_file::flag;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

/// Are the threads of this process replayed one at a time?
pub fn are_taken(loaded: &LoadedRun) -> bool {
    are_taken_in(&loaded.logs)
}

pub fn are_taken_in(logs: &Logs) -> bool {
    logs.method == Method::Inputs && logs.threads.len() > 1
}

/// The order of the inputs of all threads, if they take turns, and the edits and late resumes that were found for it; not judged yet.
pub fn order_of(loaded: &LoadedRun) -> Result<Option<Turns>> {
    if !are_taken(loaded) {
        return Ok(None);
    }
    let edits = edits_of(&loaded.run)?.unwrap_or_default();
    let order = order_with(loaded, &late_resumes::of(&loaded.run)?)?;
    Ok(Some(Turns { edits, ..order }))
}

/// The order with these late resumes, and no edits.
pub fn order_with(loaded: &LoadedRun, late_resumes: &[LateResume]) -> Result<Turns> {
    let stamp = |input: &Input| match input.what {
        What::Rest => Stamp {
            began: input.time,
            ..Stamp::default()
        },
        _ => Stamp {
            time: input.time,
            began: input.began,
            ended: input.ended,
        },
    };
    let inputs = &loaded.inputs;
    let mut stamps: Vec<Vec<Stamp>> = inputs.iter().map(|inputs| inputs.iter().map(stamp).collect()).collect();
    late_resumes::before_exchanges(inputs, &mut stamps);
    late_resumes::apply(late_resumes, inputs, &mut stamps).map_err(|line| Error::UnusableLateResumes {
        run: loaded.run.name(),
        line,
    })?;
    Ok(Turns::merge(&stamps))
}

/// Puts the inputs that have a place where the checker looks for them.
pub fn place(logs: &mut Logs, inputs: &[Vec<Input>]) {
    let children = children_of(logs);
    for (thread, (log, inputs)) in (0..).zip(logs.threads.iter_mut().zip(inputs)) {
        let place = |input: &Input| Placed {
            time: input.time,
            created: created_by(&children, thread, input),
        };
        log.inputs = inputs.iter().filter(is_ordered).map(place).collect();
    }
}

/// Which thread was created in which event.
pub fn children_of(logs: &Logs) -> HashMap<(u32, u64), ThreadIndex> {
    let mut children = HashMap::new();
    for (thread, log) in (0..).zip(&logs.threads) {
        for record in log.records.iter().filter(|record| record.kind == Kind::Spawn) {
            children.insert((thread, record.event), ThreadIndex(record.value as u32));
        }
    }
    children
}

/// The thread that this input of `thread` is the creation of.
pub fn created_by(children: &HashMap<(u32, u64), ThreadIndex>, thread: u32, input: &Input) -> Option<ThreadIndex> {
    // The same event may have synchronisations before it, which are none themselves.
    let is_spawn = input.what == What::Call(log_format::inputs::SPAWN);
    children.get(&(thread, input.event)).copied().filter(|_| is_spawn)
}

/// The edits that a search has found; nothing if there was none, or it was not over.
pub fn edits_of(run: &RunDirectory) -> Result<Option<Vec<ScheduleEdit>>> {
    let path = run.file(log_format::edits::FILE_NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(run_store::Error::io("read", &path, error).into()),
    };
    let damaged = |log_format::edits::NoEdit(line): log_format::edits::NoEdit| {
        run_store::Error::corrupt(
            &path,
            "moves",
            "an edit in each line".to_owned(),
            format!("something else in line {line}"),
        )
    };
    Ok(Some(log_format::edits::decode(&bytes).map_err(damaged)?))
}

/// Is it more than that a thread came to a stop?
pub fn is_ordered(input: &&Input) -> bool {
    input.what != What::Rest
}

/// The inputs of each thread that have a place in the order, and where threads came to a stop.
pub fn placed_inputs(run: &RunDirectory, logs: &Logs, ended_in: Option<(u32, u32)>) -> Result<Vec<Vec<Input>>> {
    let mut all = Vec::new();
    for (thread, log) in (0..).zip(&logs.threads) {
        let (mut inputs, damage) = load_inputs(run, thread);
        damage.map_or(Ok(()), Err)?;
        // The thread that ended the process has all it logged. Of another one, a call that was under way has no result.
        let is_end = ended_in.is_some_and(|(end, _)| end == thread);
        let happened = |input: &Input| match input.what {
            What::Call(number) if number != libc::SYS_futex as u32 => is_end || input.event < log.events,
            // No events of their own.
            _ => input.event <= log.events,
        };
        inputs.retain(|input| input.time != 0 && happened(input));
        all.push(inputs);
    }
    Ok(all)
}

/// Writes the file that the runtime reads.
pub fn write(directory: &Path, turns: &Turns, wanted: &Wanted<'_>) -> Result<()> {
    write_whole(&directory.join(FILE_NAME), &log_format::turns::encode(turns, wanted))?;
    Ok(())
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It is the recorded run.
    ToItsEnd,
    /// The program did something else than recorded, or ended otherwise.
    ToAMismatch,
    /// No thread could go on.
    ToADeadlock,
}

/// One replay with some edits.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub came: Came,
    /// Inputs of the recorded order that happened, and how many there are.
    pub reached: u64,
    pub events: u64,
    pub turns: TurnsSnapshot,
    /// If they were wanted: all of them, or the first `POINTS_MAX`.
    pub points: Vec<SwitchPoint>,
    pub accesses: Vec<AccessEntry>,
    pub observed: Observed,
}

impl Attempt {
    /// The accesses, each as the file `moves` would name it, and what it was.
    pub fn described_accesses(&self) -> impl Iterator<Item = String> {
        let is_access = |entry: &&AccessEntry| entry.flags & (flag::FOLLOWED | flag::SYNCHRONISES) == 0;
        self.accesses.iter().filter(is_access).map(|access| {
            let place = &access.place;
            let how = if access.flags & flag::WRITES != 0 {
                "written"
            } else {
                "read"
            };
            let beyond = if access.flags & flag::BEYOND != 0 {
                " beyond the failure"
            } else {
                ""
            };
            format!(
                "{}.{}.{}.{:x}.{} {how} at {:#x} reached {}{beyond}",
                place.thread, place.calls, place.nth, place.address, place.access, access.label, access.reached
            )
        })
    }

    /// The divergence in the runtime's numbers.
    pub fn report(&self) -> Option<&DivergenceReport> {
        match &self.observed.end {
            End::Diverged(report) => Some(report),
            _ => None,
        }
    }
}

/// Switch points that are written down, at most.
pub const POINTS_MAX: u64 = 1 << 20;

/// The same for accesses; and for those of a whole run, where no others are looked at.
pub const ACCESSES_MAX: u64 = 1 << 18;
pub const ACCESSES_OF_RUN_MAX: u64 = 1 << 22;

/// A run that is replayed again and again.
pub struct Attempts<'a> {
    pub loaded: &'a LoadedRun,
    pub plan: Plan,
    stage: Option<&'a Stage>,
    watch: Watch,
    run_name: &'a str,
    /// Accesses that are written down, at most.
    pub accesses_max: u64,
}

impl<'a> Attempts<'a> {
    /// Files of the replays are in directories of their own, which go away with it.
    pub fn prepare(
        loaded: &'a LoadedRun,
        stage: Option<&'a Stage>,
        found: &[Found],
        run_name: &'a str,
    ) -> Result<Attempts<'a>> {
        let schedules = found.iter().map(|found| found.schedule.clone()).collect();
        let plan = Plan::in_temporary(loaded, schedules)?;
        let watch = Watch {
            patience: replay::default_patience(loaded),
            jitter_seed: 0,
            trace: false,
            inputs: Inputs::Answered,
            counting: CountingFor::Nothing,
        };
        Ok(Attempts {
            loaded,
            plan,
            stage,
            watch,
            run_name,
            accesses_max: ACCESSES_MAX,
        })
    }

    /// Replays the run with these edits of its first process's threads. The switch points after `window` are wanted, if there is one.
    /// And its accesses, if `with_accesses`.
    pub fn attempt(&self, edits: &[ScheduleEdit], window: Option<&[u64]>, with_accesses: bool) -> Result<Attempt> {
        self.attempt_from(edits, window, with_accesses, &Start::default())
    }

    /// Is it one process, in the world that we are in?
    pub fn can_be_copied(&self) -> bool {
        self.stage.is_none() && self.loaded.processes.is_empty()
    }

    /// The same from a checkpoint, or leaving some behind.
    pub fn attempt_from(
        &self,
        edits: &[ScheduleEdit],
        window: Option<&[u64]>,
        with_accesses: bool,
        start: &Start<'_>,
    ) -> Result<Attempt> {
        if let Some(turns) = self.plan.schedule.turns() {
            let turns = Turns {
                edits: edits.to_vec(),
                ..turns.clone()
            };
            let wanted = Wanted {
                window: window.unwrap_or(&[]),
                points_max: if window.is_some() { POINTS_MAX } else { 0 },
                accesses_max: if with_accesses { self.accesses_max } else { 0 },
            };
            write(&self.plan.directory, &turns, &wanted)?;
            checkpoints::write_wishes(&self.plan.directory, start.wishes.filter(|_| start.from.is_none()))?;
        }
        let mut attempt = attempt(self.loaded, self.stage, &self.plan, &self.watch, start)?;
        if window.is_some() {
            let written = attempt
                .turns
                .points_written
                .saturating_mul(size_of::<SwitchPoint>() as u64);
            let bytes = beginning_of(&self.plan.directory.join(POINTS_FILE_NAME), written);
            attempt.points = log_format::turns::decode_points(&bytes);
        }
        if with_accesses {
            let written = attempt
                .turns
                .accesses_written
                .saturating_mul(size_of::<AccessEntry>() as u64);
            let bytes = beginning_of(&self.plan.directory.join(ACCESSES_FILE_NAME), written);
            attempt.accesses = log_format::turns::decode_accesses(&bytes);
        }
        Ok(attempt)
    }

    /// Replays the run with these orders of its processes.
    pub fn attempt_in(&self, orders: &[Option<Turns>]) -> Result<Attempt> {
        for (plan, order) in self.plan.all().zip(orders) {
            if let Some(order) = order {
                write(&plan.directory, order, &Wanted::default())?;
            }
        }
        attempt(self.loaded, self.stage, &self.plan, &self.watch, &Start::default())
    }

    /// Where an attempt went wrong.
    pub fn explain(&self, attempt: &Attempt) -> Option<Divergence> {
        replay::judge(self.loaded, &self.plan, &attempt.observed, self.run_name).divergence
    }
}

/// What a replay wrote into a file that it made as long as it might become: reading all of it takes longer than the replay.
fn beginning_of(path: &Path, bytes: u64) -> Vec<u8> {
    let mut beginning = Vec::new();
    // A replay that did not come so far has made no file.
    if let Ok(file) = File::open(path) {
        let _ = file.take(bytes).read_to_end(&mut beginning);
    }
    beginning
}

/// One replay of a run, whose plan is in place. Why it failed is not asked: that takes longer than the replay.
fn attempt(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    plan: &Plan,
    watch: &Watch,
    start: &Start<'_>,
) -> Result<Attempt> {
    let observed = supervise::replay_from(loaded, stage, plan, watch, Show::Nothing, start)?;
    let is_identical = verify::verify(loaded, plan, &observed).iter().all(|check| check.passed);
    let is_deadlock = |end: End| matches!(end, End::Diverged(report) if report.kind == divergence::DEADLOCK);
    let came = match is_identical {
        true => Came::ToItsEnd,
        false if is_deadlock(observed.end) || observed.end == End::Stuck => Came::ToADeadlock,
        false => Came::ToAMismatch,
    };
    Ok(Attempt {
        came,
        reached: observed.turns.reached,
        events: plan.schedule.turns().map_or(0, Turns::events),
        turns: observed.turns,
        points: Vec::new(),
        accesses: Vec::new(),
        observed,
    })
}
