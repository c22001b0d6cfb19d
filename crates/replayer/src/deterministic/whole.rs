//! Whole traces: a run is recorded and replayed once, and everything its threads do is written down, for analyses and for people.
use crate::Error;
use crate::Result;
use crate::campaign::Attempts;
use crate::campaign::Campaign;
use crate::campaign::Keep;
use crate::deterministic::Subject;
use crate::deterministic::learn::never_usable;
use crate::prepare::Observer;
use crate::record::Show;
use crate::recovery;
use crate::recovery::RecoverOptions;
use crate::replay;
use crate::supervise;
use crate::supervise::Watch;
use crate::units::UnitBook;
use log_format::hybrid_trace::EXTENSION;
use log_format::hybrid_trace::TraceError;
use log_format::hybrid_trace::whole::WholeReader;
use run_model::ThreadIndex;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::Store;
use runtime_abi::counting::CountingFor;
use runtime_abi::policy::Inputs;
use std::fmt;
use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;

/// The run of which a trace is, in the trace's directory.
const RUN: &str = "run";
/// The trace ends before the run does: left by the runtime beside its schedule, and kept beside the trace.
const CUT: &str = "cut";

/// What became of it.
#[derive(Debug)]
pub struct TracedRun {
    pub outcome: Outcome,
    /// The signal that ended the recording from outside; there is no trace then.
    pub interrupted: Option<i32>,
    pub threads: usize,
    pub bytes: u64,
    /// The trace ends before the run does: there was no room for the rest.
    pub is_cut: bool,
}

impl Subject {
    /// Runs the program once, with its own input and output, and leaves the run and its whole trace in `directory`, which must not exist.
    pub fn trace_whole(&self, directory: &Path, observer: &dyn Observer) -> Result<TracedRun> {
        let directory = std::path::absolute(directory).map_err(|e| run_store::Error::io("create", directory, e))?;
        run_store::create_directory(&directory).map_err(|e| run_store::Error::io("create", &directory, e))?;
        let campaign = Campaign {
            recording: self.recording.clone(),
            output: Some(directory.join(RUN)),
            attempts: Attempts::Once,
            keep: Keep::Always,
            name: None,
            is_quiet: false,
        };
        let recorded = campaign.run(&Store::at(&directory)?, |_| ())?;
        let mut traced = TracedRun {
            outcome: recorded.outcome(),
            interrupted: recorded.interrupted,
            threads: 0,
            bytes: 0,
            is_cut: false,
        };
        if traced.interrupted.is_some() {
            return Ok(traced);
        }
        let run = recorded.run.clone().ok_or(Error::NothingToLearn)?;
        let name = directory.to_string_lossy().into_owned();
        let recovered = recovery::recover(run, &RecoverOptions::to_replay(&name), observer)?;
        recovery::require_order(&recovered.loaded)?;
        if let Some(why) = never_usable(&recovered.loaded) {
            return Err(Error::NoWholeTrace { why });
        }
        let (loaded, stage, plan) = recovered.into_temporary_plan()?;
        traced.threads = loaded.logs.threads.len();
        // The runtime writes beside its schedule, which is in a directory for small things.
        for thread in 0..traced.threads {
            let link = file_of(&plan.directory, thread);
            symlink(file_of(&directory, thread), &link).map_err(|e| run_store::Error::io("create", &link, e))?;
        }
        let watch = Watch {
            patience: replay::default_patience(&loaded),
            jitter_seed: 0,
            trace: false,
            inputs: Inputs::Answered,
            counting: CountingFor::WholeTrace,
        };
        let observed = supervise::replay_once(&loaded, stage.as_ref(), &plan, &watch, Show::Nothing)?;
        let verdict = replay::judge(&loaded, &plan, &observed, &name);
        if !verdict.identical {
            let what = verdict
                .divergence
                .map_or_else(String::new, |divergence| divergence.what);
            let why = format!("the run did not come back when it was replayed to be traced: {what}");
            return Err(Error::NoWholeTrace { why });
        }
        traced.is_cut = plan.directory.join(CUT).exists();
        if traced.is_cut {
            // Best effort: where there is no room, this may find none either, and the file without bytes says it.
            let _ = File::create(directory.join(CUT));
        }
        let length = |thread| fs::metadata(file_of(&directory, thread)).map_or(0, |metadata| metadata.len());
        traced.bytes = (0..traced.threads).map(length).sum();
        Ok(traced)
    }
}

fn file_of(directory: &Path, thread: usize) -> PathBuf {
    let (name, length) = log_format::file_name(ThreadIndex(thread as u32), EXTENSION);
    directory.join(String::from_utf8_lossy(&name[..length]).as_ref())
}

/// A whole trace that is kept, and its run.
#[derive(Debug)]
pub struct KeptTrace {
    pub directory: PathBuf,
    pub run: RunDirectory,
    pub units: UnitBook,
    pub threads: u32,
    pub is_cut: bool,
}

/// Why it cannot be used.
#[derive(Debug)]
pub enum KeptTraceError {
    Run(Error),
    /// The program is not the one that was traced.
    OtherProgram {
        path: PathBuf,
    },
    Units(instrumentor::units::UnitError),
    Thread {
        path: PathBuf,
        error: TraceError,
    },
}

impl fmt::Display for KeptTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptTraceError::Run(error) => error.fmt(f),
            KeptTraceError::OtherProgram { path } => write!(
                f,
                "{} is not the program that was traced: it has been built again; trace it again",
                path.display()
            ),
            KeptTraceError::Units(error) => error.fmt(f),
            KeptTraceError::Thread { path, error } => write!(f, "cannot read {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for KeptTraceError {}

impl KeptTrace {
    /// What [`Subject::trace_whole`] has left in `directory`.
    pub fn open(directory: &Path) -> std::result::Result<KeptTrace, KeptTraceError> {
        let of_run = |error: run_store::Error| KeptTraceError::Run(error.into());
        let directory =
            std::path::absolute(directory).map_err(|e| of_run(run_store::Error::io("read", directory, e)))?;
        let store = Store::at(&directory).map_err(of_run)?;
        let run = store.open(Some(directory.join(RUN).as_os_str())).map_err(of_run)?;
        let (meta, _) = run.load().map_err(of_run)?;
        run.check_files(&meta).map_err(of_run)?;
        let program = PathBuf::from(meta.executable.path.as_os_str());
        let (hash, _) = run_store::hash_file(&program).map_err(of_run)?;
        if hash != meta.executable.hash {
            return Err(KeptTraceError::OtherProgram { path: program });
        }
        let units = UnitBook::load(&run).map_err(KeptTraceError::Units)?;
        let control = run.control().and_then(|control| control.slots()).map_err(of_run)?;
        let is_cut = directory.join(CUT).exists();
        Ok(KeptTrace {
            directory,
            run,
            units,
            threads: control.len() as u32,
            is_cut,
        })
    }

    /// What a thread did. One that never began has no trace.
    pub fn thread(&self, thread: u32) -> std::result::Result<Option<WholeReader<File>>, KeptTraceError> {
        let path = file_of(&self.directory, thread as usize);
        let opened = match File::open(&path) {
            Ok(file) => WholeReader::open(file, ThreadIndex(thread)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => Err(TraceError::Unreadable(e)),
        };
        opened.map(Some).map_err(|error| KeptTraceError::Thread { path, error })
    }

    /// The same sentence for an error that comes later.
    pub fn unreadable(&self, thread: u32, error: TraceError) -> KeptTraceError {
        let path = file_of(&self.directory, thread as usize);
        KeptTraceError::Thread { path, error }
    }
}
