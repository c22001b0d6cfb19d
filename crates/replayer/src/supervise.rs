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
use crate::stage::Stage;
use crate::sys;
use crate::sys::OrphanedProgram;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::DivergenceReport;
use run_store::Mode;
use run_store::Outcome;
use run_store::Scope;
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
    /// /proc/PID/maps of a replay that went wrong while it was watched; otherwise empty.
    pub maps: Vec<u8>,
}

/// Runs the program of `loaded` once, with the schedule in `schedule_directory`.
pub fn replay_once(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    schedule_directory: &Path,
    watch: &Watch,
    show: Show,
) -> Result<Observed> {
    let control = control_memory(loaded, schedule_directory, watch)?;
    let compare = |name, others_bytes, pass| {
        let path = loaded.run.file(name);
        let file = File::open(&path).map_err(|e| run_store::Error::io("read", &path, e))?;
        Ok::<_, Error>(Compare::new(
            file,
            others_bytes,
            if show == Show::Output { pass } else { PassTo::Nowhere },
        ))
    };
    let out = compare("stdout", loaded.others_bytes[0], PassTo::Stdout)?;
    let err = compare("stderr", loaded.others_bytes[1], PassTo::Stderr)?;
    let started = Instant::now();
    let mut running = Running::start(&loaded.meta, stage, &control, OrphanedProgram::IsKilled, out, err)?;
    let mut maps = Vec::new();
    let end = match supervise(&mut running, &control, loaded, watch, &mut maps) {
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
        maps,
    })
}

/// Not a file in the run directory: any number of replays may go on at once, and none leaves anything behind.
fn control_memory(loaded: &LoadedRun, schedule_directory: &Path, watch: &Watch) -> Result<ControlFile> {
    let file = anonymous_control()?;
    let setting = Setting {
        scope: loaded.meta.scope,
        ended_in: loaded.ended_in,
        call_sites: &loaded.call_sites,
        pid: loaded.pid,
        jitter_seed: watch.jitter_seed,
        trace: watch.trace,
    };
    set_up(file, &setting, schedule_directory)
}

/// What a replay has from its recording, apart from schedule and inputs, and how it is to be run.
pub struct Setting<'a> {
    pub scope: Scope,
    pub ended_in: Option<(u32, u32)>,
    pub call_sites: &'a [u8],
    pub pid: u32,
    pub jitter_seed: u64,
    pub trace: bool,
}

/// What messages call it.
const CONTROL_NAME: &str = "the control memory of the replay";

pub fn anonymous_control() -> Result<File> {
    let failed = |e| run_store::Error::io("create", Path::new(CONTROL_NAME), e);
    Ok(sys::anonymous_file(c"refrain").map_err(failed)?)
}

/// Makes `file` the control memory of a replay that is about to start, whatever it held before.
pub fn set_up(file: File, setting: &Setting<'_>, schedule_directory: &Path) -> Result<ControlFile> {
    let setup = ControlSetup {
        mode: Mode::Replay,
        scope: setting.scope,
        chaos_seed: setting.jitter_seed,
        log_bytes_max: 0,
        trace: setting.trace,
        run_directory: schedule_directory,
        call_sites: setting.call_sites,
        pid: setting.pid,
    };
    let control = ControlFile::initialise(file, Path::new(CONTROL_NAME), &setup)?;
    if let Some((thread, signal)) = setting.ended_in {
        control.expect_signal(thread, signal)?;
    }
    Ok(control)
}

fn supervise(
    running: &mut Running<Compare>,
    control: &ControlFile,
    loaded: &LoadedRun,
    watch: &Watch,
    maps: &mut Vec<u8>,
) -> Result<End> {
    let mut progress = (0, Vec::new());
    let mut last_progress = Instant::now();
    loop {
        if let Some(status) = running.wait(Some(LOOK_EVERY))? {
            return Ok(End::Program(outcome_of(status)));
        }
        let header = control.header()?;
        if let Some(report) = header.divergence {
            *maps = running.maps();
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
            *maps = running.maps();
            running.kill()?;
            return Ok(End::Stuck);
        }
    }
}

/// Some thread stands at the end of its log, and none can still do anything.
pub fn is_all_stopped(slots: &[SlotSnapshot], loaded: &LoadedRun) -> bool {
    let is_over = |(thread, slot): (usize, &SlotSnapshot)| match slot.state {
        ThreadState::Stopped | ThreadState::Exited => true,
        // Created, perhaps, and about to start.
        ThreadState::Unused => loaded.logs.threads.get(thread).is_none_or(|log| log.events == 0),
        ThreadState::Running | ThreadState::Waiting | ThreadState::Blocked => false,
    };
    slots.iter().enumerate().all(is_over) && slots.iter().any(|slot| slot.state == ThreadState::Stopped)
}
