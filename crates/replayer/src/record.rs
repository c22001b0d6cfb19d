//! Recording: one program, once.
use crate::Error;
use crate::Result;
use crate::call_sites::Answers;
use crate::call_sites::CallSites;
use crate::launch::Running;
use crate::launch::outcome_of;
use crate::launch::recording_environment;
use crate::libraries;
use crate::output::Capture;
use crate::output::PassTo;
use crate::processes;
use crate::processes::Others;
use crate::program;
use crate::program::Recordable;
use crate::program::Way;
use crate::sys;
use crate::sys::OrphanedProgram;
use run_model::Method;
use run_store::Beginning;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::Ending;
use run_store::FileIdentity;
use run_store::META_VERSION;
use run_store::Mode;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Scope;
use run_store::Truncated;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
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
/// How long they may take to end after a signal that we pass on.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);

/// How a program is to be recorded, apart from how often and where.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    pub scope: Scope,
    pub method: Method,
    /// Parts of light that are left out.
    pub without: Vec<Without>,
    /// Scope inputs: record the order of synchronisations as well.
    pub sync_order: bool,
    /// Kill the program after this time; the run then ends in `Outcome::TimedOut`.
    pub timeout: Option<Duration>,
    /// Stop logging when all logs together have this many bytes.
    pub log_bytes_max: Option<u64>,
    /// Stop logging after this time, the next time a log has to grow; the program runs on.
    pub logging_time_max: Option<Duration>,
    /// Record the processes that the program starts, too.
    pub follow: bool,
    /// Called when the program has ended, and processes that it started have not for a while: with their number.
    pub tell_waiting: fn(usize),
}

/// A part of the method light that can be left out, to see what it is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Sequences of accesses without interleaving are one run (lemma 4.3).
    O1,
    /// What recorded orders already say is not recorded again (lemma 4.2).
    O2,
}

impl Without {
    fn name(self) -> &'static str {
        match self {
            Without::O1 => "o1",
            Without::O2 => "o2",
        }
    }

    fn bit(self) -> u32 {
        match self {
            Without::O1 => runtime_abi::without::O1,
            Without::O2 => runtime_abi::without::O2,
        }
    }
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
        let Recordable { path, by } = program::find_recordable(&self.command[0], self.scope)?;
        let mut argv = self.command.clone();
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
            executable: FileIdentity {
                path: executable.into_os_string().into(),
                hash,
                bytes,
            },
            libraries: Vec::new(),
            method: self.method.name().to_owned(),
            without: self.without.iter().map(|part| part.name().to_owned()).collect(),
            scope: self.scope,
            sync_order: self.sync_order,
            chaos_seed: None,
            log_bytes_max: self.log_bytes_max,
            unrecorded_calls: Vec::new(),
            process: None,
            started: 0,
            ending: None,
        })
    }

    /// Runs the program once into an empty run directory. The run is not yet sealed.
    ///
    pub fn attempt(
        &self,
        run: &RunDirectory,
        meta: &mut RunMeta,
        sites: &Arc<CallSites>,
        chaos_seed: Option<u64>,
        show: Show,
    ) -> Result<()> {
        let setup = ControlSetup {
            mode: Mode::Record,
            scope: self.scope,
            method: self.method,
            without: self.without.iter().fold(0, |bits, part| bits | part.bit()),
            chaos_seed: chaos_seed.unwrap_or(0),
            late_seed: chaos_seed.unwrap_or(0),
            sync_order: self.sync_order,
            log_bytes_max: self.log_bytes_max.unwrap_or(0),
            trace: false,
            run_directory: run.path(),
            call_sites: sites.first.as_deref().unwrap_or(&[]),
            pid: 0,
            follow: self.follow,
            beginning: Beginning::default(),
        };
        meta.chaos_seed = chaos_seed;
        meta.started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        meta.ending = None;
        let control = run.create_control(&setup)?;
        run.begin(meta)?;
        let capture = |name, pass| {
            let path = run.file(name);
            let file = File::create_new(&path).map_err(|e| run_store::Error::io("create", &path, e))?;
            Ok::<_, Error>(Capture::new(
                file,
                if show == Show::Output { pass } else { PassTo::Nowhere },
            ))
        };
        let (out, err) = (capture("stdout", PassTo::Stdout)?, capture("stderr", PassTo::Stderr)?);
        let _answers = Answers::begin(sites, run, &control)?;
        let (cpu_before, _) = sys::ended_children();
        let started = Instant::now();
        let mut running = Running::start(meta, None, &control, OrphanedProgram::RunsOn, out, err)?;
        running.close_ends();
        let (outcome, logging_stopped) = self.watch(&mut running, &control, started)?;
        let outcome = self.wait_for_processes(run, &control, outcome, started)?;
        let duration_ms = started.elapsed().as_millis() as u64;
        let (out, err) = running.finish();
        let (cpu_after, memory_bytes) = sys::ended_children();

        let header = control.header()?;
        // Whoever stops us may do so before the program has come that far.
        if !header.attached && sys::caught_signal().is_none() {
            return Err(Error::NeverAttached {
                path: meta.executable.path.as_os_str().into(),
            });
        }
        let slots = control.slots()?;
        let truncated = match header.truncated {
            Some(Truncated::SizeLimit) if logging_stopped => Some(Truncated::TimeLimit),
            other => other,
        };
        meta.ending = Some(Ending {
            duration_ms,
            cpu_ms: (cpu_after - cpu_before).as_millis() as u64,
            memory_bytes,
            outcome,
            truncated,
            forked: header.forked,
            unknown_call: header.unknown_call,
            refused_call: header.refused_call,
            threads: header.threads,
            events: slots.iter().map(|slot| slot.count).sum(),
            records: slots.iter().map(|slot| slot.records).sum(),
            log_bytes: log_bytes(run, header.threads),
            input_bytes: input_bytes(run, header.threads),
            stdout: out.captured(),
            stderr: err.captured(),
        });
        Ok(())
    }

    /// Completes a run that was kept.
    pub fn seal(&self, run: &RunDirectory, meta: &mut RunMeta, sites: &CallSites) -> Result<()> {
        meta.libraries = libraries::used_by(run, Path::new(meta.executable.path.as_os_str()))?;
        meta.unrecorded_calls = sites.unrecorded(run, meta)?;
        let is_one_left_out = processes::seal_all(run, meta)?;
        if let Some(ending) = meta.ending.as_mut().filter(|_| is_one_left_out) {
            ending.forked = true;
        }
        run.seal(meta)?;
        Ok(())
    }

    /// Waits for the end: the program's own, the time-out's, or that of a signal the program got with us or from us.
    fn watch(
        &self,
        running: &mut Running<Capture>,
        control: &ControlFile,
        started: Instant,
    ) -> Result<(Outcome, bool)> {
        let mut logging_stopped = false;
        loop {
            if let Some(signal) = sys::take_signal_to_forward() {
                running.signal(signal);
            }
            let elapsed = started.elapsed();
            if self.timeout.is_some_and(|timeout| elapsed >= timeout) {
                return Ok((self.time_out(running)?, logging_stopped));
            }
            if !logging_stopped && self.logging_time_max.is_some_and(|limit| elapsed >= limit) {
                // One byte is less than any log has: the next log that wants to grow finds the limit reached.
                control.set_log_bytes_max(1)?;
                logging_stopped = true;
            }
            let limits = [self.timeout, self.logging_time_max.filter(|_| !logging_stopped)];
            // A signal between the look above and this wait would be missed; hence never wait for ever.
            let next = limits.into_iter().flatten().map(|limit| limit - elapsed).min();
            let time = next.unwrap_or(Duration::MAX).min(Duration::from_millis(500));
            if let Some(status) = running.wait(Some(time))? {
                return Ok((outcome_of(status), logging_stopped));
            }
        }
    }

    /// The run is over when all its processes are, unless somebody wants it to be.
    fn wait_for_processes(
        &self,
        run: &RunDirectory,
        control: &ControlFile,
        outcome: Outcome,
        started: Instant,
    ) -> Result<Outcome> {
        let waiting_since = Instant::now();
        let mut is_told = false;
        let mut signaled_at: Option<Instant> = None;
        loop {
            // In this order: whoever is forked later is forked by somebody who is found running.
            let begun = control.header()?;
            let others = Others::look(run)?;
            let running = others.running;
            // One that was just forked has nothing to show yet, and one that was killed at once never will.
            let is_one_coming = others.arrived + 1 < begun.processes
                && !begun.forked
                && waiting_since.elapsed() < COMING
                && outcome != Outcome::TimedOut;
            if running.is_empty() && !is_one_coming {
                return Ok(outcome);
            }
            let send = |signal| running.iter().for_each(|process| sys::send_signal(*process, signal));
            if self.timeout.is_some_and(|timeout| started.elapsed() >= timeout) || outcome == Outcome::TimedOut {
                send(9);
                return Ok(Outcome::TimedOut);
            }
            if let (Some(signal), None) = (sys::caught_signal(), signaled_at) {
                send(signal);
                signaled_at = Some(Instant::now());
            }
            if signaled_at.is_some_and(|at| at.elapsed() >= AFTER_SIGNAL) {
                return Ok(outcome);
            }
            if !is_told && waiting_since.elapsed() >= TELL_WAITING_AFTER {
                (self.tell_waiting)(running.len());
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
