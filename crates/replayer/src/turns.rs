//! Runs of several threads at scope inputs: replayed one thread at a time, in the order of their inputs (docs/turns.md).
//!
//! Where that order alone does not bring the run back, preemptions may: [`Attempts`] replays one run any number of times,
//! each time with others.
use crate::Result;
use crate::divergence::Divergence;
use crate::loaded;
use crate::loaded::LoadedRun;
use crate::loaded::What;
use crate::plan::Plan;
use crate::prepare::Observer;
use crate::record::Show;
use crate::replay;
use crate::replay::Verdict;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::End;
use crate::supervise::Observed;
use crate::supervise::Watch;
use run_model::Preemption;
use run_model::Turns;
use run_store::RunDirectory;
use run_store::Scope;
use run_store::TurnsSnapshot;
use run_store::write_whole;
use runtime_abi::divergence;
use runtime_abi::turns_file::FILE_NAME;
use runtime_abi::turns_file::POINTS_FILE_NAME;
use runtime_abi::turns_file::SwitchPoint;
use std::fs;
use std::path::Path;

/// Are the threads of this process replayed one at a time?
pub fn are_taken(loaded: &LoadedRun) -> bool {
    loaded.meta.scope == Scope::Inputs && loaded.logs.threads.len() > 1
}

/// The order of the inputs of all threads, if they take turns.
pub fn order_of(loaded: &LoadedRun) -> Result<Option<Turns>> {
    if !are_taken(loaded) {
        return Ok(None);
    }
    let mut times = Vec::new();
    for (thread, log) in (0..).zip(&loaded.logs.threads) {
        let (inputs, damage) = loaded::load_inputs(&loaded.run, thread);
        damage.map_or(Ok(()), Err)?;
        // The thread that ended the process has all it logged. Of another one, a call that was under way has no result.
        let is_end = loaded.ended_in.is_some_and(|(end, _)| end == thread);
        let happened = |input: &&loaded::Input| match input.what {
            What::Call(number) if number != libc::SYS_futex as u32 => is_end || input.event < log.events,
            _ => input.event <= log.events,
        };
        let inputs = inputs.iter().filter(happened);
        times.push(inputs.map(|input| input.time).collect());
    }
    Ok(Some(Turns::merge(&times)))
}

/// Writes the file that the runtime reads. `points_max`: the switch points that it is to write down.
pub fn write(directory: &Path, turns: &Turns, points_max: u64) -> Result<()> {
    write_whole(
        &directory.join(FILE_NAME),
        &log_format::turns::encode(turns, points_max),
    )?;
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

/// One replay with some preemptions.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub came: Came,
    /// Inputs of the recorded order that happened, and how many there are.
    pub reached: u64,
    pub events: u64,
    pub turns: TurnsSnapshot,
    /// If they were wanted: all of them, or the first `POINTS_MAX`.
    pub points: Vec<SwitchPoint>,
    pub observed: Observed,
    pub verdict: Verdict,
}

impl Attempt {
    pub fn divergence(&self) -> Option<&Divergence> {
        self.verdict.divergence.as_ref()
    }
}

/// Switch points that are written down, at most.
pub const POINTS_MAX: u64 = 1 << 20;

/// A run that is replayed again and again.
pub struct Attempts {
    pub loaded: LoadedRun,
    pub plan: Plan,
    stage: Option<Stage>,
    watch: Watch,
    run_name: String,
}

impl Attempts {
    /// Reads the run. Files of the replays are in directories of their own, which go away with it.
    pub fn prepare(run: RunDirectory, run_name: &str, observer: &dyn Observer) -> Result<Attempts> {
        let (mut loaded, stage) = replay::load_replayable(run, observer)?;
        let plan = Plan::prepare(&loaded, observer)?.moved_to_temporary(&loaded)?;
        replay::forget_lost_ends(&mut loaded, &plan);
        let watch = Watch {
            patience: replay::default_patience(&loaded),
            jitter_seed: 0,
            trace: false,
        };
        Ok(Attempts {
            loaded,
            plan,
            stage,
            watch,
            run_name: run_name.to_owned(),
        })
    }

    /// Replays the run with these preemptions of its first process's threads. They are in the order of their points.
    pub fn attempt(&self, preemptions: &[Preemption], points: Points) -> Result<Attempt> {
        if let Some(turns) = &self.plan.turns {
            let turns = Turns {
                preemptions: preemptions.to_vec(),
                ..turns.clone()
            };
            let points_max = if points == Points::Wanted { POINTS_MAX } else { 0 };
            write(&self.plan.directory, &turns, points_max)?;
        }
        let mut attempt = attempt(
            &self.loaded,
            self.stage.as_ref(),
            &self.plan,
            &self.watch,
            Show::Nothing,
            &self.run_name,
        )?;
        if points == Points::Wanted {
            let written = attempt.turns.points.min(POINTS_MAX) as usize;
            let bytes = fs::read(self.plan.directory.join(POINTS_FILE_NAME)).unwrap_or_default();
            attempt.points = log_format::turns::decode_points(&bytes);
            attempt.points.truncate(written);
        }
        Ok(attempt)
    }
}

/// Is the list of switch points wanted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    Wanted,
    NotWanted,
}

/// One replay of a run, whose plan is in place.
pub fn attempt(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    plan: &Plan,
    watch: &Watch,
    show: Show,
    run_name: &str,
) -> Result<Attempt> {
    let observed = supervise::replay_once(loaded, stage, plan, watch, show)?;
    let verdict = replay::judge(loaded, plan, &observed, run_name);
    let is_deadlock = |end: End| matches!(end, End::Diverged(report) if report.kind == divergence::DEADLOCK);
    let came = match verdict.identical {
        true => Came::ToItsEnd,
        false if is_deadlock(observed.end) || observed.end == End::Stuck => Came::ToADeadlock,
        false => Came::ToAMismatch,
    };
    Ok(Attempt {
        came,
        reached: observed.turns.reached,
        events: plan.turns.as_ref().map_or(0, Turns::events),
        turns: observed.turns,
        points: Vec::new(),
        observed,
        verdict,
    })
}
