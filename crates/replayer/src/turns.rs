//! Runs of several threads at scope inputs: replayed one thread at a time, in the order of their inputs (docs/turns.md).
//!
//! Where that order alone does not bring the run back, moves may: [`Attempts`] replays one run any number of times,
//! each time with others.
use crate::Error;
use crate::Result;
use crate::checkpoints;
use crate::checkpoints::Start;
use crate::divergence::Divergence;
use crate::loaded;
use crate::loaded::Input;
use crate::loaded::LoadedRun;
use crate::loaded::What;
use crate::pauses;
use crate::plan::Plan;
use crate::prepare::Observer;
use crate::record::Show;
use crate::replay;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::End;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::verify;
use log_format::turns::Wanted;
use run_model::Kind;
use run_model::Move;
use run_model::Pause;
use run_model::Stamp;
use run_model::ThreadIndex;
use run_model::Turns;
use run_store::DivergenceReport;
use run_store::RunDirectory;
use run_store::Scope;
use run_store::TurnsSnapshot;
use run_store::write_whole;
use runtime_abi::divergence;
use runtime_abi::turns_file::ACCESSES_FILE_NAME;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::FILE_NAME;
use runtime_abi::turns_file::POINTS_FILE_NAME;
use runtime_abi::turns_file::SwitchPoint;
use runtime_abi::turns_file::flag;
use schedule_checker::Disorder;
use schedule_checker::Placed;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

/// Are there threads of the run that are replayed one at a time, so that a replay may need moves or pauses?
pub fn are_taken_by_any(loaded: &LoadedRun) -> bool {
    are_taken(loaded) || pauses::are_possible(loaded)
}

/// Are the threads of this process replayed one at a time?
pub fn are_taken(loaded: &LoadedRun) -> bool {
    loaded.meta.scope == Scope::Inputs && loaded.logs.threads.len() > 1
}

/// The order of the inputs of all threads, if they take turns, and the moves and pauses that were found for it.
pub fn order_of(loaded: &LoadedRun) -> Result<Option<Turns>> {
    if !are_taken(loaded) {
        return Ok(None);
    }
    order_with(loaded, &placed_inputs(loaded)?, &pauses::of(&loaded.run)?).map(Some)
}

/// The same with other pauses, if it is known what `placed_inputs` says.
pub fn order_with(loaded: &LoadedRun, inputs: &[Vec<Input>], pauses: &[Pause]) -> Result<Turns> {
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
    let mut stamps: Vec<Vec<Stamp>> = inputs.iter().map(|inputs| inputs.iter().map(stamp).collect()).collect();
    pauses::before_exchanges(inputs, &mut stamps);
    pauses::apply(pauses, inputs, &mut stamps).map_err(|line| Error::UnusablePauses {
        run: loaded.run.name(),
        line,
    })?;
    let turns = Turns {
        moves: moves_of(&loaded.run)?.unwrap_or_default(),
        ..Turns::merge(&stamps)
    };
    check(loaded, inputs, &turns)?;
    Ok(turns)
}

/// The judge of what a search has found.
pub fn check_moves(loaded: &LoadedRun, order: &Turns, moves: &[Move]) -> Result<()> {
    let turns = Turns {
        moves: moves.to_vec(),
        ..order.clone()
    };
    check(loaded, &placed_inputs(loaded)?, &turns)
}

/// Every order, and every move, passes here before it is used or kept.
fn check(loaded: &LoadedRun, inputs: &[Vec<Input>], turns: &Turns) -> Result<()> {
    let children = children_of(loaded);
    let placed: Vec<Vec<Placed>> = (0..)
        .zip(inputs)
        .map(|(thread, inputs)| {
            let place = |input: &Input| Placed {
                time: input.time,
                created: created_by(&children, thread, input),
            };
            inputs.iter().filter(is_ordered).map(place).collect()
        })
        .collect();
    schedule_checker::check_turns(&placed, turns).map_err(|why| match why {
        Disorder::Nowhere { .. } | Disorder::Alone { .. } | Disorder::Twice { .. } => Error::UnusableMoves {
            run: loaded.run.name(),
            why: why.to_string(),
        },
        _ => Error::UnusableOrder {
            run: loaded.run.name(),
            why: why.to_string(),
        },
    })
}

/// Which thread was created in which event.
pub fn children_of(loaded: &LoadedRun) -> HashMap<(u32, u64), ThreadIndex> {
    let mut children = HashMap::new();
    for (thread, log) in (0..).zip(&loaded.logs.threads) {
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

/// The moves that a search has found; nothing if there was none, or it was not over.
pub fn moves_of(run: &RunDirectory) -> Result<Option<Vec<Move>>> {
    let path = run.file(log_format::moves::FILE_NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(run_store::Error::io("read", &path, error).into()),
    };
    let damaged = |log_format::moves::NoMove(line): log_format::moves::NoMove| {
        run_store::Error::corrupt(
            &path,
            "moves",
            "a move in each line".to_owned(),
            format!("something else in line {line}"),
        )
    };
    Ok(Some(log_format::moves::decode(&bytes).map_err(damaged)?))
}

/// The inputs of each thread that have a place in the order.
pub fn ordered_inputs(loaded: &LoadedRun) -> Result<Vec<Vec<Input>>> {
    let mut all = placed_inputs(loaded)?;
    for inputs in &mut all {
        inputs.retain(|input| is_ordered(&input));
    }
    Ok(all)
}

/// Is it more than that a thread came to a stop?
pub fn is_ordered(input: &&Input) -> bool {
    input.what != What::Rest
}

/// The same, and where threads came to a stop.
pub fn placed_inputs(loaded: &LoadedRun) -> Result<Vec<Vec<Input>>> {
    let mut all = Vec::new();
    for (thread, log) in (0..).zip(&loaded.logs.threads) {
        let (inputs, damage) = loaded::load_inputs(&loaded.run, thread);
        damage.map_or(Ok(()), Err)?;
        // The thread that ended the process has all it logged. Of another one, a call that was under way has no result.
        let is_end = loaded.ended_in.is_some_and(|(end, _)| end == thread);
        let happened = |input: &&loaded::Input| match input.what {
            What::Call(number) if number != libc::SYS_futex as u32 => is_end || input.event < log.events,
            // No events of their own.
            _ => input.event <= log.events,
        };
        let has_place = |input: &&loaded::Input| input.time != 0;
        all.push(inputs.iter().filter(happened).filter(has_place).cloned().collect());
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

/// One replay with some moves.
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
pub struct Attempts {
    pub loaded: LoadedRun,
    pub plan: Plan,
    stage: Option<Stage>,
    watch: Watch,
    run_name: String,
    /// Accesses that are written down, at most.
    pub accesses_max: u64,
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
            accesses_max: ACCESSES_MAX,
        })
    }

    /// Replays the run with these moves of its first process's threads. The switch points after `window` are wanted, if there is one.
    /// And its accesses, if `with_accesses`.
    pub fn attempt(&self, moves: &[Move], window: Option<&[u64]>, with_accesses: bool) -> Result<Attempt> {
        self.attempt_from(moves, window, with_accesses, &Start::default())
    }

    /// Is it one process, in the world that we are in?
    pub fn can_be_copied(&self) -> bool {
        self.stage.is_none() && self.loaded.processes.is_empty()
    }

    /// The same from a checkpoint, or leaving some behind.
    pub fn attempt_from(
        &self,
        moves: &[Move],
        window: Option<&[u64]>,
        with_accesses: bool,
        start: &Start<'_>,
    ) -> Result<Attempt> {
        if let Some(turns) = &self.plan.turns {
            let turns = Turns {
                moves: moves.to_vec(),
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
        let mut attempt = attempt(&self.loaded, self.stage.as_ref(), &self.plan, &self.watch, start)?;
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
        attempt(
            &self.loaded,
            self.stage.as_ref(),
            &self.plan,
            &self.watch,
            &Start::default(),
        )
    }

    /// Where an attempt went wrong.
    pub fn explain(&self, attempt: &Attempt) -> Option<Divergence> {
        replay::judge(&self.loaded, &self.plan, &attempt.observed, &self.run_name).divergence
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
        events: plan.turns.as_ref().map_or(0, Turns::events),
        turns: observed.turns,
        points: Vec::new(),
        accesses: Vec::new(),
        observed,
    })
}
