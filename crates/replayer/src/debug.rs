//! Replay under gdb: the same program at the same addresses, on the same schedule, started and held by a debugger.
//!
//! gdb is our child, and the program is gdb's. So that it finds the same stack, environment and descriptors as ever, gdb
//! does not start it itself, but through us ([`enter`], its exec-wrapper): any number of times, each with control
//! memory as new. We watch that memory from outside, as always, and pass on what the program prints.
//!
//! What is seen in gdb is the work of `refrain.py`, or of `plain.gdb` where gdb has no Python.
mod failure;
mod session;

use crate::Error;
use crate::Result;
use crate::divergence;
use crate::divergence::Divergence;
use crate::loaded::LoadedRun;
use crate::output::PassTo;
use crate::output::Pump;
use crate::output::Sink;
use crate::output::Taken;
use crate::prepare::Observer;
use crate::recovery;
use crate::recovery::RecoverOptions;
use crate::replay::notes;
use crate::supervise;
use crate::supervise::End;
use crate::supervise::ObservedProcess;
use crate::sys;
use crate::verify;
use failure::Failure;
use object::Object;
use object::ObjectSection;
use object::ReadCache;
use run_model::Schedule;
use run_store::ControlFile;
use run_store::Outcome;
use run_store::RunDirectory;
use runtime_abi::CONTROL_FD;
use session::Session;
pub use session::enter;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// How often the control memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Under these numbers gdb, and whoever it starts through us, finds the pipes for the program's output.
const STDOUT_FD: i32 = CONTROL_FD - 2;
const STDERR_FD: i32 = CONTROL_FD - 1;

#[derive(Clone, Debug)]
pub struct DebugOptions {
    /// How the run is named on a command line, for the commands that reports suggest.
    pub run_name: String,
    /// Run to the failure before the first prompt.
    pub goto_failure: bool,
    /// Files of gdb commands, after ours.
    pub scripts: Vec<PathBuf>,
    /// More arguments of gdb.
    pub arguments: Vec<OsString>,
    /// The tool itself: `TOOL gdb-enter DIRECTORY` must call [`enter`].
    pub tool: PathBuf,
}

/// What came of a session.
#[derive(Debug)]
pub struct Debugged {
    /// Some replay went another way; the caller has been told of it already.
    pub has_diverged: bool,
    /// How the program ended in the last replay, if it did before gdb.
    pub outcome: Option<Outcome>,
    /// Things the reader should know about the recording.
    pub notes: Vec<String>,
}

/// Starts gdb on a replay of `run` and stays until it ends. `tell` hears of every divergence when it happens.
pub fn debug(
    run: RunDirectory,
    options: &DebugOptions,
    observer: &dyn Observer,
    tell: &mut dyn FnMut(&Divergence),
) -> Result<Debugged> {
    // Before anything that takes time.
    let has_python = has_python()?;
    let loaded = LoadedRun::load_observed(run, observer)?;
    let stage = recovery::provide(&loaded)?;
    if stage.is_some() {
        return Err(Error::DebuggedElsewhere {
            program: loaded.meta.executable.path,
        });
    }
    if loaded.meta.is_hosted() {
        return Err(Error::HostedInDebugger {
            program: loaded.meta.argv[1].clone(),
        });
    }
    let failure = if options.goto_failure {
        let failed = Failure::find(&loaded);
        Some(failed.ok_or_else(|| Error::NothingFailed {
            run: options.run_name.clone(),
        })?)
    } else {
        None
    };
    let wanted = RecoverOptions::to_replay(&options.run_name);
    let recovered = recovery::recover_loaded(loaded, stage, &wanted, observer)?;
    let (loaded, _, plan) = recovered.into_plan()?;
    let session = Session::create(&loaded, &plan, failure.as_ref(), options, has_python)?;
    let memory = supervise::anonymous_control()?;
    let control = session.control(&memory)?;
    let pipe = || io::pipe().map_err(|e| Error::NoDebugger { source: e });
    let ((stdout, stdout_end), (stderr, stderr_end)) = (pipe()?, pipe()?);
    let copy = control.file().as_fd().try_clone_to_owned();
    let copy = copy.map_err(|source| Error::NoDebugger { source })?;

    let mut command = Command::new("gdb");
    if let Some(printers) = rust_printers(Path::new(loaded.meta.executable.path.as_os_str())) {
        // As rust-gdb does: the program names a script, which gdb looks for there and trusts.
        let mut trusted = OsString::from("add-auto-load-safe-path ");
        trusted.push(&printers);
        let modules = match env::var_os("PYTHONPATH") {
            Some(others) => env::join_paths([printers.clone()].into_iter().chain(env::split_paths(&others))).ok(),
            None => Some(printers.clone().into_os_string()),
        };
        command.arg("--directory").arg(&printers).arg("-iex").arg(trusted);
        command.envs(modules.map(|modules| ("PYTHONPATH", modules)));
    }
    command
        .args(session.arguments(options))
        .env(session::VARIABLE, session.path());
    // It runs our wrapper for gdb; shells that are not like sh, or that talk, are left out.
    command.env("SHELL", "/bin/sh");
    sys::pass_files(
        &mut command,
        [
            (copy, CONTROL_FD),
            (stdout_end.into(), STDOUT_FD),
            (stderr_end.into(), STDERR_FD),
        ],
    );
    // What the terminal sends is for gdb; we go when gdb goes.
    sys::catch_signals();
    let gdb = command.spawn().map_err(|source| Error::NoDebugger { source })?;
    // It holds our copies of the ends for writing.
    drop(command);
    let gdb_ended = Arc::new(AtomicBool::new(false));
    let pumps = [
        Pump::start(stdout.into(), PassTo::stdout(), Arc::clone(&gdb_ended)),
        Pump::start(stderr.into(), PassTo::stderr(), Arc::clone(&gdb_ended)),
    ];
    let mut watch = Watched {
        loaded: &loaded,
        schedule: &plan.schedule,
        control: &control,
        run_name: &options.run_name,
        seen: None,
        has_diverged: false,
    };
    let ended = watch.until_end(gdb, tell);
    // Relaxed: a lone flag, nothing is published through it.
    gdb_ended.store(true, Relaxed);
    for pump in pumps {
        pump.finish();
    }
    ended?;
    let outcome = session.outcome();
    watch.judge_end(outcome, tell);
    Ok(Debugged {
        has_diverged: watch.has_diverged,
        outcome,
        notes: notes(&loaded),
    })
}

/// Passes on what the program prints; nothing is compared.
impl Sink for PassTo {
    fn take(&mut self, bytes: &[u8]) -> Taken {
        self.show(bytes);
        Taken::GoOn
    }
}

/// The toolchain's scripts that show Rust's strings, vectors and maps as such, if the program is Rust's and asks for them.
fn rust_printers(program: &Path) -> Option<PathBuf> {
    let file = File::open(program).ok()?;
    let data = ReadCache::new(file);
    let object = object::File::parse(&data).ok()?;
    let section = object.section_by_name(".debug_gdb_scripts")?.data().ok()?;
    let script = "gdb_load_rust_pretty_printers.py";
    if !String::from_utf8_lossy(section).contains(script) {
        return None;
    }
    let answer = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    let scripts = sysroot.join("lib/rustlib/etc");
    scripts.join(script).is_file().then_some(scripts)
}

/// Whether gdb was built with Python; an error if there is no gdb.
fn has_python() -> Result<bool> {
    let configuration = Command::new("gdb")
        .arg("--configuration")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::NoDebugger { source })?;
    Ok(String::from_utf8_lossy(&configuration.stdout).contains("--with-python"))
}

/// The replays of one session, seen through their control memory.
struct Watched<'a> {
    loaded: &'a LoadedRun,
    schedule: &'a Schedule,
    control: &'a ControlFile,
    run_name: &'a str,
    /// How the current replay ended, as far as its memory tells.
    seen: Option<End>,
    has_diverged: bool,
}

impl Watched<'_> {
    fn until_end(&mut self, mut gdb: Child, tell: &mut dyn FnMut(&Divergence)) -> Result<()> {
        loop {
            let ended = gdb.try_wait().map_err(Error::Wait)?.is_some();
            self.look(tell);
            if ended {
                return Ok(());
            }
            while let Some(signal) = sys::take_signal_to_forward() {
                sys::send_signal(gdb.id(), signal);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&mut self, tell: &mut dyn FnMut(&Divergence)) {
        // The memory may just be made as new for the next replay: then there is nothing to see yet.
        let (Ok(header), Ok(slots)) = (self.control.header(), self.control.slots()) else {
            return;
        };
        let end = match header.divergence {
            Some(report) => Some(End::Diverged(report)),
            None if supervise::is_all_stopped(&slots, self.loaded) => Some(End::AllStopped),
            None => None,
        };
        if end != self.seen {
            self.seen = end;
            if let Some(end) = end {
                self.judge(end, tell);
            }
        }
    }

    /// The program came to an end of its own in the last replay, or was stopped by gdb's.
    fn judge_end(&mut self, outcome: Option<Outcome>, tell: &mut dyn FnMut(&Divergence)) {
        if let Some(outcome) = outcome.filter(|_| self.seen.is_none()) {
            self.judge(End::Program(outcome), tell);
        }
    }

    /// Was it the recorded end?
    fn judge(&mut self, end: End, tell: &mut dyn FnMut(&Divergence)) {
        let observed = self.observed(end);
        let checks = [
            verify::check_outcome(self.loaded, observed.end),
            verify::check_threads(self.loaded, self.schedule, &observed.slots),
            verify::check_events(self.loaded, self.schedule, &observed.slots),
            verify::check_records(self.schedule, &observed.slots),
        ];
        if checks.iter().any(|check| !check.passed) {
            self.has_diverged = true;
            let (loaded, schedule, name) = (self.loaded, self.schedule, self.run_name);
            tell(&divergence::explain(loaded, schedule, &observed, &checks, name));
        }
    }

    /// Output is passed on without being compared, and other processes run unwatched.
    fn observed(&self, end: End) -> ObservedProcess {
        ObservedProcess {
            end,
            slots: self.control.slots().unwrap_or_default(),
            turns: self.control.header().map(|header| header.turns).unwrap_or_default(),
        }
    }
}
