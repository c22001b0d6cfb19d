//! Recording: one program, once.
use crate::Error;
use crate::Result;
use crate::call_sites::Answers;
use crate::call_sites::CallSites;
use crate::fleet;
use crate::instrumentation;
use crate::launch::Running;
use crate::launch::outcome_of;
use crate::launch::recording_environment;
use crate::libraries;
use crate::output::Capture;
use crate::output::OutputWord;
use crate::output::PassTo;
use crate::output::Room;
use crate::processes;
use crate::processes::Others;
use crate::program;
use crate::program::Recordable;
use crate::program::Way;
use crate::redaction;
use crate::sys;
use crate::sys::OrphanedProgram;
use crate::terminal::Which;
use run_store::Beginning;
use run_store::CONTROL_DISK_BYTES;
use run_store::Captured;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::Ended;
use run_store::Ending;
use run_store::FileIdentity;
use run_store::META_VERSION;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::Scope;
use run_store::Truncated;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// How often processes that the program left behind are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a process may take to begin after it was forked.
const COMING: Duration = Duration::from_secs(1);
const TELL_WAITING_AFTER: Duration = Duration::from_secs(1);
/// How long the program runs before we look at it, the first time and at most.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_millis(500);
/// Of processes that the program has left running when it ended, most are about to end; others are daemons.
pub const WAIT_BY_DEFAULT: Duration = Duration::from_secs(2);
/// How long they may take to end after a signal that we pass on.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);

/// The exit status of a program in which the runtime cannot go on, and has said why.
const RUNTIME_GAVE_UP: i32 = 125;
/// What a process has on the disk beside its control file, its metadata and its logs: directory, maps, objects, and how it was started.
const SMALL_FILES: u64 = 64 << 10;
/// The log and the inputs of one thread, as they begin.
const FIRST_LOGS: u64 = 160 << 10;
/// A control file and a little more.
const FILE_BYTES_LEAST: u64 = (runtime_abi::CONTROL_BYTES as u64).next_multiple_of(1 << 20);

/// How a program is to be recorded, apart from how often and where.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    pub settings: RunSettings,
    /// Variables whose values the program gets, and the run does not.
    pub redact: Vec<OsString>,
    /// Kill the program after this time; the run then ends in `Outcome::TimedOut`.
    pub timeout: Option<Duration>,
    /// Stop logging after this time, the next time a log has to grow; the program runs on.
    pub logging_time_max: Option<Duration>,
    /// How long processes are waited for that the program has left running when it ended.
    pub wait: Duration,
    /// Called when the program has ended, and processes that it started have not for a while: with their number.
    pub tell_waiting: fn(usize),
    /// What the runtime finds in the run directory when it begins, by name.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

/// What was seen of a program until it ended.
struct Watched {
    outcome: Outcome,
    logging_stopped: bool,
    /// The most threads that the system had for it when we looked.
    tasks: u32,
}

/// Whether the program's output is shown while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Output,
    Nothing,
}

impl Recording {
    /// Finds the program and describes the run-to-be; the same for all attempts.
    pub fn describe(&self) -> Result<RunMeta> {
        let Recordable {
            path,
            by,
            as_interpreter,
        } = program::find_recordable(&self.command[0], self.settings.scope)?;
        let mut argv = self.command.clone();
        if let Some(arguments) = as_interpreter {
            argv.splice(0..1, arguments);
        }
        let mut preload = None;
        let executable = match by {
            Way::Linked => path,
            Way::Preloaded(runtime) => {
                preload = Some(runtime);
                path
            }
            Way::Hosted(runtime) => {
                argv.splice(0..0, [runtime.clone().into_os_string(), path.into_os_string()]);
                runtime
            }
        };
        let (hash, bytes) = run_store::hash_file(&executable)?;
        let cwd = env::current_dir().map_err(|source| Error::NoDirectory { source })?;
        Ok(RunMeta {
            version: META_VERSION,
            refrain: env!("CARGO_PKG_VERSION").to_owned(),
            abi_version: runtime_abi::ABI_VERSION,
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into_os_string().into(),
            env: recording_environment(preload.as_deref()),
            redacted: Vec::new(),
            executable: FileIdentity {
                path: executable.into_os_string().into(),
                hash,
                bytes,
            },
            libraries: Vec::new(),
            settings: self.settings,
            unrecorded_calls: Vec::new(),
            instrumentation: None,
            process: None,
            stack_limit: Some(match self.own_stack_limit() {
                Some(_) => runtime_abi::STACK_LIMIT_MAX,
                None => sys::stack_limit(),
            }),
            files: BTreeMap::new(),
            started: 0,
            ending: None,
        })
    }

    /// The limit of the program's stack, if it cannot be executed with that.
    fn own_stack_limit(&self) -> Option<u64> {
        let limit = sys::stack_limit();
        (limit > runtime_abi::STACK_LIMIT_MAX && self.settings.scope != Scope::Inputs).then_some(limit)
    }

    /// Runs the program once into an empty run directory, with these settings. The run is not yet sealed.
    pub fn attempt(
        &self,
        run: &RunDirectory,
        meta: &mut RunMeta,
        sites: &Arc<CallSites>,
        settings: RunSettings,
        show: Show,
    ) -> Result<()> {
        sys::survive_file_limit();
        if sys::file_limit() < FILE_BYTES_LEAST {
            return Err(Error::FileLimit {
                bytes: sys::file_limit(),
                least: FILE_BYTES_LEAST,
            });
        }
        let setup = ControlSetup {
            settings,
            run_directory: run.path(),
            call_sites: sites.first.as_deref().unwrap_or(&[]),
            pid: 0,
            beginning: Beginning::default(),
            stack_limit: self.own_stack_limit(),
        };
        meta.settings = settings;
        meta.started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        meta.ending = None;
        let as_started = redaction::redact(meta, &self.redact);
        let control = run.create_control(&setup)?;
        if let Some(most) = settings.log_bytes_max {
            let each = CONTROL_DISK_BYTES as u64
                + setup.call_sites.len() as u64
                + 3 * run_store::encoded_bytes(meta)
                + SMALL_FILES;
            let used = each + SMALL_FILES;
            let least = (used + FIRST_LOGS).next_multiple_of(1 << 16);
            if most.get() < least {
                return Err(Error::CapTooSmall { least });
            }
            control.begin_disk_count(used, each)?;
        }
        redaction::tell_runtime(run, &meta.redacted)?;
        for (name, bytes) in &self.files {
            let path = run.file(name);
            run_store::write_file(&path, bytes).map_err(|e| run_store::Error::io("write", &path, e))?;
        }
        run.begin(meta)?;
        let terminal = Which::ours().filter(|_| show == Show::Output);
        let capture = |name, stream, pass: fn() -> PassTo| {
            let path = run.file(name);
            let file = run_store::create_file(&path).map_err(|e| run_store::Error::io("create", &path, e))?;
            let news = OutputWord::map(control.file(), stream);
            let news = news.map_err(|e| run_store::Error::io("map", &run.file("control"), e))?;
            let pass = match show {
                Show::Output => pass(),
                Show::Nothing => PassTo::nowhere(),
            };
            let room = Room::map(control.file(), settings.log_bytes_max.map_or(0, NonZeroU64::get));
            let room = room.map_err(|e| run_store::Error::io("map", &run.file("control"), e))?;
            Ok::<_, Error>(Capture::new(file, pass, news, room))
        };
        let (out, err) = (
            capture("stdout", 0, PassTo::stdout)?,
            capture("stderr", 1, PassTo::stderr)?,
        );
        let _answers = Answers::begin(sites, run, &control)?;
        let (cpu_before, _) = sys::ended_children();
        let started = Instant::now();
        let mut running = match terminal {
            Some(which) => Running::start_on_terminal(&as_started, &control, [out, err], which)?,
            None => Running::start(&as_started, None, &control, OrphanedProgram::RunsOn, out, err)?,
        };
        running.close_ends();
        let Watched {
            outcome,
            logging_stopped,
            tasks,
        } = self.watch(&mut running, &control, started)?;
        let outcome = match settings.keep_to_vectors && fleet::hangs(run) {
            true => Outcome::TimedOut,
            false => outcome,
        };
        let (outcome, left_running) = self.wait_for_processes(run, &control, outcome, started)?;
        let duration_ms = started.elapsed().as_millis() as u64;
        let (out, err) = running.finish();
        let (cpu_after, memory_bytes) = sys::ended_children();

        let header = control.header()?;
        // Whoever stops us may do so before the program has come that far.
        if !header.attached && sys::caught_signal().is_none() {
            let path = meta.executable.path.as_os_str().into();
            return Err(match outcome {
                Outcome::Exited(RUNTIME_GAVE_UP) => Error::CannotBegin { path },
                _ => Error::NeverAttached { path },
            });
        }
        let slots = control.slots()?;
        let truncated = match header.truncated {
            Some(Truncated::SizeLimit) if logging_stopped => Some(Truncated::TimeLimit),
            None if out.captured().capped || err.captured().capped => Some(Truncated::SizeLimit),
            other => other,
        };
        meta.ending = Some(Ending {
            duration_ms,
            cpu_ms: (cpu_after - cpu_before).as_millis() as u64,
            memory_bytes,
            outcome,
            truncated,
            others_truncated: None,
            forked: header.forked,
            unknown_call: header.unknown_call,
            refused_call: header.refused_call,
            overruns: header.overruns,
            left_running,
            unknown_threads: match header.ended {
                // It was another program that was looked at.
                Ended::Replaced => 0,
                _ => tasks.saturating_sub(header.threads),
            },
            threads: header.threads,
            events: slots.iter().map(|slot| slot.count).sum(),
            records: slots.iter().map(|slot| slot.records).sum(),
            log_bytes: log_bytes(run, header.threads),
            input_bytes: input_bytes(run, header.threads),
            stdout: Captured {
                on_terminal: terminal.is_some(),
                ..out.captured()
            },
            stderr: err.captured(),
        });
        Ok(())
    }

    /// Completes a run that was kept.
    pub fn seal(&self, run: &RunDirectory, meta: &mut RunMeta, sites: &CallSites) -> Result<()> {
        meta.libraries = libraries::used_by(run, Path::new(meta.executable.path.as_os_str()))?;
        meta.unrecorded_calls = sites.unrecorded(run, meta)?;
        meta.instrumentation = instrumentation::of(meta);
        meta.files = run.checksums()?;
        let others = processes::seal_all(run, meta)?;
        if let Some(ending) = &mut meta.ending {
            ending.forked |= others.is_one_left_out;
            ending.others_truncated = others.truncated;
        }
        run.seal(meta)?;
        Ok(())
    }

    /// Waits for the end: the program's own, the time-out's, or that of a signal the program got with us or from us.
    fn watch(&self, running: &mut Running<Capture>, control: &ControlFile, started: Instant) -> Result<Watched> {
        let mut logging_stopped = false;
        let mut tasks = 0;
        let mut next_look = FIRST_LOOK;
        loop {
            while let Some(signal) = sys::take_signal_to_forward() {
                running.signal(signal);
            }
            let elapsed = started.elapsed();
            if self.timeout.is_some_and(|timeout| elapsed >= timeout) {
                return Ok(Watched {
                    outcome: self.time_out(running)?,
                    logging_stopped,
                    tasks,
                });
            }
            if !logging_stopped && self.logging_time_max.is_some_and(|limit| elapsed >= limit) {
                // One byte is less than any log has: the next log that wants to grow finds the limit reached.
                control.set_log_bytes_max(1)?;
                logging_stopped = true;
            }
            let limits = [self.timeout, self.logging_time_max.filter(|_| !logging_stopped)];
            // A signal between the look above and this wait would be missed; hence never wait for ever.
            let next = limits.into_iter().flatten().map(|limit| limit - elapsed).min();
            let time = next.unwrap_or(Duration::MAX).min(next_look);
            if let Some(status) = running.wait(Some(time))? {
                return Ok(Watched {
                    outcome: outcome_of(status),
                    logging_stopped,
                    tasks,
                });
            }
            tasks = tasks.max(running.tasks());
            next_look = (next_look * 2).min(LONGEST_LOOK);
        }
    }

    /// The run is over when all its processes are, unless somebody wants it to be, or they are such as are meant to outlive the program.
    /// Also returns how many of them run on.
    fn wait_for_processes(
        &self,
        run: &RunDirectory,
        control: &ControlFile,
        outcome: Outcome,
        started: Instant,
    ) -> Result<(Outcome, u32)> {
        let waiting_since = Instant::now();
        let mut is_told = false;
        let mut signaled_at: Option<Instant> = None;
        let mut others = Others::default();
        loop {
            // In this order: whoever is forked later is forked by somebody who is found running.
            let begun = control.header()?;
            others.look(run, &begun)?;
            let running = others.running().len();
            // One that was just forked has nothing to show yet, and one that was killed at once never will.
            let is_one_coming = (others.is_one_executed || (others.arrived + 1 < begun.processes && !begun.forked))
                && waiting_since.elapsed() < COMING
                && outcome != Outcome::TimedOut;
            if running == 0 && !is_one_coming {
                return Ok((outcome, 0));
            }
            let send = |signal| others.running().for_each(|process| process.signal(signal));
            if self.timeout.is_some_and(|timeout| started.elapsed() >= timeout) || outcome == Outcome::TimedOut {
                send(9);
                return Ok((Outcome::TimedOut, 0));
            }
            if let (Some(signal), None) = (sys::caught_signal(), signaled_at) {
                send(signal);
                signaled_at = Some(Instant::now());
            }
            let is_over = |since: Instant, time| since.elapsed() >= time;
            if signaled_at.is_some_and(|at| is_over(at, AFTER_SIGNAL)) || is_over(waiting_since, self.wait) {
                others.numbers().for_each(|number| stop_logging(run, number));
                return Ok((outcome, running as u32));
            }
            if !is_told && self.wait > WAIT_BY_DEFAULT && is_over(waiting_since, TELL_WAITING_AFTER) {
                (self.tell_waiting)(running);
                is_told = true;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn time_out(&self, running: &mut Running<Capture>) -> Result<Outcome> {
        // It may have ended at this very moment.
        let ended: Option<ExitStatus> = running.wait(Some(Duration::ZERO))?;
        if let Some(status) = ended {
            return Ok(outcome_of(status));
        }
        running.kill()?;
        Ok(Outcome::TimedOut)
    }
}

/// A process that outlives the recording logs nothing more as soon as one of its logs has to grow: the program's run is over.
fn stop_logging(run: &RunDirectory, number: u32) {
    let control = ControlFile::open_to_write(&run.process(number).file("control"));
    // One whose control file cannot be written logs on, which is read by nobody.
    let _ = control.and_then(|control| control.set_log_bytes_max(1));
}

/// The bytes of all logs up to their ends; files are allocated ahead, so their lengths say nothing.
fn log_bytes(run: &RunDirectory, threads: u32) -> u64 {
    let log = |thread| {
        let tail = word_of_header(&run.thread_log(thread), log_format::TAIL_OFFSET)?;
        Some(log_format::HEADER_BYTES as u64 + log_format::Tail::unpack(tail).bytes)
    };
    (0..threads).filter_map(log).sum()
}

/// The same for the inputs. A thread without any has no file.
pub fn input_bytes(run: &RunDirectory, threads: u32) -> u64 {
    use log_format::inputs;
    let stream = |thread| {
        let length = word_of_header(&run.thread_inputs(thread), inputs::LENGTH_OFFSET)?;
        Some(inputs::HEADER_BYTES as u64 + length)
    };
    (0..threads).filter_map(stream).sum()
}

fn word_of_header(file: &Path, offset: usize) -> Option<u64> {
    let mut header = [0; log_format::HEADER_BYTES];
    File::open(file).ok()?.read_exact(&mut header).ok()?;
    Some(u64::from_le_bytes(header[offset..offset + 8].try_into().ok()?))
}
