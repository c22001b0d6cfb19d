//! One replay from start to end: the program runs under its schedule, and we watch it through the control file.
use crate::Error;
use crate::Result;
use crate::launch::Running;
use crate::launch::outcome_of;
use crate::loaded::LoadedRun;
use crate::output::Compare;
use crate::output::Comparison;
use crate::output::PassTo;
use crate::record::Show;
use crate::sys;
use crate::sys::OrphanedProgram;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::DivergenceReport;
use run_store::Mode;
use run_store::Outcome;
use run_store::SlotSnapshot;
use run_store::ThreadState;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// How often the control file is looked at. The end of the program is noticed at once in any case.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a program that diverged may still take to end by itself, so that its last words are seen.
const GRACE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// A replay in which nothing moves for this long is given up.
    pub patience: Duration,
    /// 0: none. Otherwise the runtime delays threads at their gates, which must not change anything.
    pub jitter_seed: u64,
    /// Every thread writes down what it does, beside the schedule.
    pub trace: bool,
}

/// How a replay came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Program(Outcome),
    /// All threads that have not ended stand at the end of their logs: the recording has nothing more.
    AllStopped,
    Diverged(DivergenceReport),
    /// No thread moved for as long as patience lasted.
    Stuck,
}

/// What is left after a replay.
#[derive(Clone, Debug)]
pub struct Observed {
    pub end: End,
    pub slots: Vec<SlotSnapshot>,
    pub stdout: Comparison,
    pub stderr: Comparison,
    pub duration: Duration,
}

/// Runs the program of `loaded` once, with the schedule in `schedule_directory`.
pub fn replay_once(loaded: &LoadedRun, schedule_directory: &Path, watch: &Watch, show: Show) -> Result<Observed> {
    let control = control_memory(loaded, schedule_directory, watch)?;
    let compare = |name, pass| {
        let path = loaded.run.file(name);
        let file = File::open(&path).map_err(|e| run_store::Error::io("read", &path, e))?;
        Ok::<_, Error>(Compare::new(
            file,
            if show == Show::Output { pass } else { PassTo::Nowhere },
        ))
    };
    let (out, err) = (compare("stdout", PassTo::Stdout)?, compare("stderr", PassTo::Stderr)?);
    let started = Instant::now();
    let mut running = Running::start(&loaded.meta, &control, OrphanedProgram::IsKilled, out, err)?;
    let end = match supervise(&mut running, &control, loaded, watch) {
        Ok(end) => end,
        Err(error) => {
            running.kill()?;
            return Err(error);
        }
    };
    let duration = started.elapsed();
    let (out, err) = running.finish();
    let unreadable = |e: io::Error| Error::Store(run_store::Error::io("read", loaded.run.path(), e));
    let header = control.header()?;
    if !header.attached {
        return Err(Error::NeverAttached {
            path: loaded.meta.executable.path.as_os_str().into(),
        });
    }
    // A divergence is written a moment before the program ends; the loop may have seen only the end.
    let end = match (end, header.divergence) {
        (End::Program(_) | End::AllStopped, Some(report)) => End::Diverged(report),
        (end, _) => end,
    };
    Ok(Observed {
        end,
        slots: control.slots()?,
        stdout: out.finish().map_err(unreadable)?,
        stderr: err.finish().map_err(unreadable)?,
        duration,
    })
}

/// Not a file in the run directory: any number of replays may go on at once, and none leaves anything behind.
fn control_memory(loaded: &LoadedRun, schedule_directory: &Path, watch: &Watch) -> Result<ControlFile> {
    let name = Path::new("the control memory of the replay");
    let file = sys::anonymous_file(c"refrain").map_err(|e| run_store::Error::io("create", name, e))?;
    let setup = ControlSetup {
        mode: Mode::Replay,
        scope: loaded.meta.scope,
        chaos_seed: watch.jitter_seed,
        log_bytes_max: 0,
        trace: watch.trace,
        run_directory: schedule_directory,
    };
    let control = ControlFile::initialise(file, name, &setup)?;
    if let Some((thread, signal)) = loaded.ended_in {
        control.expect_signal(thread, signal)?;
    }
    Ok(control)
}

fn supervise(running: &mut Running<Compare>, control: &ControlFile, loaded: &LoadedRun, watch: &Watch) -> Result<End> {
    let mut progress = (0, Vec::new());
    let mut last_progress = Instant::now();
    loop {
        if let Some(status) = running.wait(Some(LOOK_EVERY))? {
            return Ok(End::Program(outcome_of(status)));
        }
        let header = control.header()?;
        if let Some(report) = header.divergence {
            if running.wait_until(Instant::now() + GRACE)?.is_none() {
                running.kill()?;
            }
            return Ok(End::Diverged(report));
        }
        let slots = control.slots()?;
        if is_all_stopped(&slots, loaded) {
            running.kill()?;
            return Ok(End::AllStopped);
        }
        let now = (
            slots.iter().map(|slot| slot.count).sum::<u64>(),
            slots.iter().map(|slot| slot.state).collect(),
        );
        if now != progress {
            (progress, last_progress) = (now, Instant::now());
        } else if last_progress.elapsed() >= watch.patience {
            running.kill()?;
            return Ok(End::Stuck);
        }
    }
}

/// Some thread stands at the end of its log, and none can still do anything.
fn is_all_stopped(slots: &[SlotSnapshot], loaded: &LoadedRun) -> bool {
    let is_over = |(thread, slot): (usize, &SlotSnapshot)| match slot.state {
        ThreadState::Stopped | ThreadState::Exited => true,
        // Created, perhaps, and about to start.
        ThreadState::Unused => loaded.logs.threads.get(thread).is_none_or(|log| log.events == 0),
        ThreadState::Running | ThreadState::Waiting | ThreadState::Blocked => false,
    };
    slots.iter().enumerate().all(is_over) && slots.iter().any(|slot| slot.state == ThreadState::Stopped)
}
