//! Enforcing a schedule that was learned: the program runs with its own input and output, and we watch it through its control memory.
use crate::Error;
use crate::Result;
use crate::call_sites::CallSites;
use crate::deterministic::Subject;
use crate::launch;
use crate::launch::outcome_of;
use crate::plan::Temporary;
use crate::supervise;
use crate::supervise::Setting;
use crate::sys;
use crate::sys::OrphanedProgram;
use run_store::Beginning;
use run_store::ControlFile;
use run_store::DivergenceReport;
use run_store::Outcome;
use run_store::RunSettings;
use run_store::ScheduleEntry;
use run_store::ScheduleFile;
use runtime_abi::counting::CountingFor;
use runtime_abi::divergence;
use runtime_abi::policy::Pair;
use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use std::time::Instant;

/// How often the control memory is looked at. The end of the program is noticed at once in any case.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is enforced of a hybrid schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Hybrid,
    /// Only the order of synchronisation: what raced is not ordered.
    SynchronisationOnly,
}

#[derive(Clone, Copy, Debug)]
pub struct Enforcing {
    pub order: Order,
    /// Delays at gates, which must not change anything; 0: none.
    pub jitter_seed: u64,
}

/// What was seen of such a run.
#[derive(Debug)]
pub struct Enforced {
    pub outcome: Outcome,
    /// It left its schedule here.
    pub left: Option<Left>,
    pub elapsed: Duration,
}

/// Where a program left its schedule.
#[derive(Debug)]
pub struct Left {
    report: DivergenceReport,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        write!(f, "thread {} ", report.thread)?;
        match report.kind {
            divergence::OPERATION => write!(f, "did something else than when the schedule was learned"),
            divergence::STUCK => write!(f, "waits for thread {}, which never comes there", report.other_thread),
            divergence::SHORT => write!(f, "ended before it had done all that the schedule has of it"),
            divergence::THREAD => write!(f, "created a thread that the schedule does not have"),
            divergence::POINT => write!(f, "did not come to an access that the schedule orders"),
            kind => write!(f, "went another way (kind {kind})"),
        }?;
        write!(f, ", at its event {}", report.event)
    }
}

impl Subject {
    /// Runs the program by the schedule of `entry`.
    pub fn enforce(&self, entry: &ScheduleEntry, options: &Enforcing) -> Result<Enforced> {
        let directory = directory_for(entry, options.order)?;
        let sites = CallSites::of(Path::new(self.meta.executable.path.as_os_str()));
        let settings = RunSettings {
            counting: CountingFor::Points,
            jitter_seed: NonZeroU64::new(options.jitter_seed),
            ..self.meta.settings.in_replay(Pair::REPLAY_WITH_LIVE_INPUTS)
        };
        let setting = Setting {
            settings,
            ended_in: entry.meta().learned.ended_in,
            call_sites: sites.first.as_deref().unwrap_or(&[]),
            pid: 0,
            beginning: Beginning::default(),
            schedule_directory: directory.path(),
        };
        let memory = supervise::anonymous_control()?;
        let control = supervise::set_up(&memory, &[setting])?.swap_remove(0);
        let (mut command, _) = launch::command(&self.meta, &control, None, OrphanedProgram::IsKilled)?;
        let began = Instant::now();
        let child = command.spawn().map_err(|source| Error::CannotStart {
            path: self.meta.executable.path.as_os_str().into(),
            source,
        })?;
        drop(command);
        let (outcome, report) = watch(child, &control)?;
        let elapsed = began.elapsed();
        let header = control.header()?;
        if !header.attached && report.is_none() {
            return Err(Error::NeverAttached {
                path: self.meta.executable.path.as_os_str().into(),
            });
        }
        Ok(Enforced {
            outcome,
            left: report.map(|report| Left { report }),
            elapsed,
        })
    }
}

/// Where the runtime finds what it is to enforce.
enum Directory<'a> {
    OfEntry(&'a ScheduleEntry),
    Temporary(Temporary),
}

impl Directory<'_> {
    fn path(&self) -> &Path {
        match self {
            Directory::OfEntry(entry) => entry.place().path(),
            Directory::Temporary(temporary) => &temporary.path,
        }
    }
}

fn directory_for(entry: &ScheduleEntry, order: Order) -> Result<Directory<'_>> {
    if order == Order::Hybrid {
        return Ok(Directory::OfEntry(entry));
    }
    let bytes = entry.read(ScheduleFile::Hybrid)?.unwrap_or_default();
    let unreadable = |why| Error::NoHybridSchedule { why: format!("{why}") };
    let mut hybrid = log_format::hybrid::decode(&bytes).map_err(unreadable)?;
    hybrid.constraints.clear();
    hybrid.points.iter_mut().for_each(Vec::clear);
    let (schedule, points) = hybrid_schedule::compile(&hybrid);
    let temporary = Temporary::create()?;
    let write = |file: ScheduleFile, bytes: &[u8]| run_store::write_whole(&temporary.path.join(file.name()), bytes);
    write(ScheduleFile::Schedule, &log_format::schedule::encode(&schedule))?;
    write(ScheduleFile::Points, &log_format::points::encode(&points))?;
    Ok(Directory::Temporary(temporary))
}

/// Waits for the program's end. One that leaves its schedule is stopped.
fn watch(mut child: Child, control: &ControlFile) -> Result<(Outcome, Option<DivergenceReport>)> {
    let ended = sys::process_descriptor(child.id()).map_err(Error::Wait)?;
    loop {
        sys::wait_readable(ended.as_fd(), Some(LOOK_EVERY)).map_err(Error::Wait)?;
        let report = control.header()?.divergence;
        if report.is_some() {
            // An error means that it has ended already.
            let _ = child.kill();
        }
        let status = match report {
            Some(_) => Some(child.wait().map_err(Error::Wait)?),
            None => child.try_wait().map_err(Error::Wait)?,
        };
        if let Some(status) = status {
            return Ok((outcome_of(status), control.header()?.divergence));
        }
    }
}
