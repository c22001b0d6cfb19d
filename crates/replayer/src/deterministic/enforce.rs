//! Enforcing a schedule that was learned: the program runs with its own input and output, and we watch it through its control memory.
use crate::Error;
use crate::Result;
use crate::call_names::call_name;
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
use run_store::Store;
use runtime_abi::counting::CountingFor;
use runtime_abi::divergence;
use runtime_abi::input_difference;
use runtime_abi::policy::Pair;
use runtime_abi::relay::OnDivergence;
use runtime_abi::relay::Relay;
use std::fmt;
use std::io;
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
pub struct Enforcing<'a> {
    /// Where runs live, if there is such a place.
    pub store: Option<&'a Store>,
    pub order: Order,
    /// Delays at gates, which must not change anything; 0: none.
    pub jitter_seed: u64,
    /// How threads wait for their turns.
    pub relay: Relay,
    pub on_divergence: OnDivergence,
    /// How long threads wait at gates is measured.
    pub measure_waits: bool,
}

/// What was seen of such a run.
#[derive(Debug)]
pub struct Enforced {
    pub outcome: Outcome,
    /// It left its schedule here.
    pub left: Option<Left>,
    /// When the program was started, and how long it took.
    pub started: Instant,
    pub elapsed: Duration,
    /// Came from outside to end it.
    pub signal: Option<i32>,
    /// Calls, and bytes that they brought in, that were compared with the learned ones.
    pub compared_calls: u64,
    pub compared_bytes: u64,
    /// If it was measured: how often a thread had to wait at a gate, and how long that took, all threads together.
    pub waits: u64,
    pub waited: Duration,
}

/// Where a program left its schedule.
#[derive(Debug)]
pub struct Left {
    report: DivergenceReport,
    /// The file that it is about, if that is known.
    name: String,
}

impl Left {
    /// Was it because something else came in?
    pub fn is_input(&self) -> bool {
        self.report.kind == divergence::INPUT
    }

    fn describe_input(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        let call = call_name(report.object as u32);
        let of_file = match self.name.as_str() {
            "" => String::new(),
            name => format!(" of {name}"),
        };
        let returned = |result: u64| match result as i64 {
            error @ -4095..=-1 => io::Error::from_raw_os_error(-error as i32).to_string(),
            result => result.to_string(),
        };
        match report.other_thread {
            input_difference::RESULT => write!(
                f,
                "got {} from {call}{of_file}, and {} when the schedule was learned",
                returned(report.value),
                returned(report.other_count)
            ),
            input_difference::CALL => write!(
                f,
                "made the call {call}{of_file} where it made {} when the schedule was learned",
                call_name(report.other_count as u32)
            ),
            input_difference::MORE => {
                write!(
                    f,
                    "made the call {call}{of_file}, and had made its last one when the schedule was learned"
                )
            }
            _ => write!(
                f,
                "got other bytes from {call}{of_file} than when the schedule was learned"
            ),
        }
    }
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
            divergence::INPUT => self.describe_input(f),
            divergence::POINT => write!(f, "did not come to an access that the schedule orders"),
            kind => write!(f, "went another way (kind {kind})"),
        }?;
        write!(f, ", at its event {}", report.event)
    }
}

impl Subject {
    /// Runs the program by the schedule of `entry`.
    pub fn enforce(&self, entry: &ScheduleEntry, options: &Enforcing<'_>) -> Result<Enforced> {
        // First: the guardian that comes with it starts while there is something else to do, not beside the program.
        let memory = supervise::anonymous_control()?;
        let directory = directory_for(entry, options.order)?;
        let sites = CallSites::of(Path::new(self.meta.executable.path.as_os_str()), options.store);
        let settings = RunSettings {
            counting: CountingFor::Points,
            jitter_seed: NonZeroU64::new(options.jitter_seed),
            relay: options.relay,
            on_divergence: options.on_divergence,
            measure_waits: options.measure_waits,
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
        let control = supervise::set_up(&memory, &[setting])?.swap_remove(0);
        let (mut command, _) = launch::command(&self.meta, &control, None, OrphanedProgram::IsKilled)?;
        // How it ends is the program's own affair: it gets what comes to us.
        sys::catch_signals();
        let began = Instant::now();
        let child = command.spawn().map_err(|source| Error::CannotStart {
            path: self.meta.executable.path.as_os_str().into(),
            source,
        })?;
        drop(command);
        let (outcome, report) = watch(child, &control, options.on_divergence)?;
        let elapsed = began.elapsed();
        let header = control.header()?;
        if !header.attached && report.is_none() {
            return Err(Error::NeverAttached {
                path: self.meta.executable.path.as_os_str().into(),
            });
        }
        Ok(Enforced {
            outcome,
            left: report.map(|report| Left {
                report,
                name: shown_name(&header.divergence_name),
            }),
            compared_calls: header.compared[0],
            compared_bytes: header.compared[1],
            waits: header.waited[0],
            waited: Duration::from_nanos(header.waited[1]),
            started: began,
            elapsed,
            signal: sys::caught_signal(),
        })
    }
}

/// A name that came from the program, for a sentence on one line.
fn shown_name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|character| if character.is_control() { '?' } else { character })
        .collect()
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
    let (mut schedule, points) = hybrid_schedule::compile(&hybrid);
    let own_steps = hybrid_schedule::take_own_steps(&mut schedule);
    let temporary = Temporary::create()?;
    let write = |file: ScheduleFile, bytes: &[u8]| run_store::write_whole(&temporary.path.join(file.name()), bytes);
    write(ScheduleFile::Schedule, &log_format::schedule::encode(&schedule))?;
    write(ScheduleFile::Points, &log_format::points::encode(&points))?;
    write(ScheduleFile::OwnSteps, &log_format::own_steps::encode(&own_steps))?;
    write(
        ScheduleFile::Inputs,
        &entry.read(ScheduleFile::Inputs)?.unwrap_or_default(),
    )?;
    Ok(Directory::Temporary(temporary))
}

/// Waits for the program's end. One that leaves its schedule is stopped, unless it is to go on.
fn watch(
    mut child: Child,
    control: &ControlFile,
    on_divergence: OnDivergence,
) -> Result<(Outcome, Option<DivergenceReport>)> {
    let ended = sys::process_descriptor(child.id()).map_err(Error::Wait)?;
    loop {
        sys::wait_readable(ended.as_fd(), Some(LOOK_EVERY)).map_err(Error::Wait)?;
        while let Some(signal) = sys::take_signal_to_forward() {
            sys::signal_process(ended.as_fd(), signal);
        }
        let report = (control.header()?.divergence).filter(|_| on_divergence == OnDivergence::Stop);
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
