//! Recording until something fails: attempt after attempt into one directory, and only the failing one is kept.
use crate::Error;
use crate::Result;
use crate::call_sites::CallSites;
use crate::launch::recorded_environment;
use crate::output::PassTo;
use crate::record::Recording;
use crate::record::Show;
use crate::redaction;
use crate::sys;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Store;
use run_store::Text;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    Once,
    /// Until a run fails, but not more often than this.
    UntilFailure {
        at_most: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Always,
    OnFailure,
}

#[derive(Clone, Debug)]
pub struct Campaign {
    /// Its chaos seed is that of the first attempt; each further one takes the next number.
    pub recording: Recording,
    /// The run directory; otherwise the store chooses one.
    pub output: Option<PathBuf>,
    pub attempts: Attempts,
    pub keep: Keep,
    /// What the run is called in the store; otherwise it has the name of the program.
    pub name: Option<OsString>,
    /// Nothing the program prints is shown, not even what the failing attempt printed.
    pub is_quiet: bool,
}

/// What all campaigns with one executable have in common, and need to find out once.
pub struct Prepared {
    meta: RunMeta,
    /// How many arguments stand for the program's name: that of what loads it, or of an interpreter, may be among them.
    names: usize,
    sites: Arc<CallSites>,
}

/// Reported after every attempt that did not fail.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub attempts: u64,
    pub elapsed: Duration,
}

#[derive(Debug)]
pub struct Recorded {
    /// `None` when nothing was kept.
    pub run: Option<RunDirectory>,
    pub meta: RunMeta,
    pub attempts: u64,
    pub elapsed: Duration,
    /// The signal that ended the campaign before a run failed.
    pub interrupted: Option<i32>,
    /// The run is kept, but could not be made complete: it counts as interrupted.
    pub seal_failed: Option<Error>,
    /// The run is kept, but `latest` could not be made to mean it.
    pub latest_failed: Option<run_store::Error>,
    /// Why system calls were not recorded.
    pub without_inputs: Option<String>,
}

impl Recorded {
    pub fn outcome(&self) -> Outcome {
        self.meta
            .ending
            .as_ref()
            .map_or(Outcome::Exited(0), |ending| ending.outcome)
    }
}

impl Campaign {
    pub fn run(&self, store: &Store, progress: impl FnMut(Progress)) -> Result<Recorded> {
        self.run_prepared(&self.prepare(store)?, store, progress)
    }

    /// Finds the program, and what has to be known of it.
    pub fn prepare(&self, store: &Store) -> Result<Prepared> {
        let meta = self.recording.describe()?;
        let sites = Arc::new(CallSites::of(Path::new(meta.executable.path.as_os_str()), Some(store)));
        let names = meta.argv.len() - (self.recording.command.len() - 1);
        Ok(Prepared { meta, names, sites })
    }

    /// The same, for a program that is to find another environment than ours, in a folder that is its own.
    pub fn prepare_with(&self, store: &Store, environment: &[(Text, Text)], folder: &Text) -> Result<Prepared> {
        let mut ready = self.prepare(store)?;
        ready.meta.env = recorded_environment(environment);
        ready.meta.cwd = folder.clone();
        Ok(ready)
    }

    /// One of several campaigns that run the same executable with different arguments.
    pub fn run_prepared(
        &self,
        ready: &Prepared,
        store: &Store,
        mut progress: impl FnMut(Progress),
    ) -> Result<Recorded> {
        let mut meta = ready.meta.clone();
        meta.argv.truncate(ready.names);
        meta.argv
            .extend(self.recording.command[1..].iter().cloned().map(Into::into));
        let sites = Arc::clone(&ready.sites);
        // As long as there is nothing else, this is what the run has.
        let mut first = meta.clone();
        let begin = |run: &RunDirectory| {
            redaction::redact(&mut first, &self.recording.redact);
            run.begin(&first)
        };
        let (run, _lock) = match &self.output {
            Some(path) => Store::create_at(path, begin)?,
            None => store.create(self.name.as_deref().unwrap_or(&self.recording.command[0]), begin)?,
        };
        sys::catch_signals();
        match self.repeat(&run, &mut meta, &sites, &mut progress) {
            Ok(recorded) => self.conclude(store, run, recorded, meta, &sites),
            Err(error) => {
                // The first error is the one to report; what is left behind is at worst an empty directory.
                let _ = run.remove_held();
                Err(error)
            }
        }
    }

    /// Runs the program until the campaign is over. The last attempt is in the directory.
    fn repeat(
        &self,
        run: &RunDirectory,
        meta: &mut RunMeta,
        sites: &Arc<CallSites>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Repeated> {
        let started = Instant::now();
        let mut attempts = 0;
        let show = if self.attempts == Attempts::Once && !self.is_quiet {
            Show::Output
        } else {
            Show::Nothing
        };
        loop {
            let settings = self.recording.settings.of_attempt(attempts);
            self.recording.attempt(run, meta, sites, settings, show)?;
            attempts += 1;
            let outcome = meta.ending.as_ref().map(|ending| ending.outcome);
            let failed = outcome.is_some_and(Outcome::is_failure);
            let elapsed = started.elapsed();
            let done = |kept, interrupted| {
                Ok(Repeated {
                    attempts,
                    elapsed,
                    kept,
                    interrupted,
                    without_inputs: sites.first.as_ref().err().cloned(),
                })
            };
            let Attempts::UntilFailure { at_most } = self.attempts else {
                return done(failed || self.keep == Keep::Always, None);
            };
            if let Some(signal) = sys::caught_signal() {
                return done(false, Some(signal));
            }
            if failed {
                if !self.is_quiet {
                    show_output(run)?;
                }
                return done(true, None);
            }
            progress(Progress { attempts, elapsed });
            if at_most.is_some_and(|most| attempts >= most) {
                return done(false, None);
            }
            run.clear()?;
        }
    }

    fn conclude(
        &self,
        store: &Store,
        run: RunDirectory,
        repeated: Repeated,
        mut meta: RunMeta,
        sites: &CallSites,
    ) -> Result<Recorded> {
        let Repeated {
            attempts,
            elapsed,
            kept,
            interrupted,
            without_inputs,
        } = repeated;
        let (mut seal_failed, mut latest_failed) = (None, None);
        let run = if kept {
            // The program ran, and its exit status counts, even if the disk is full by now.
            seal_failed = self.recording.seal(&run, &mut meta, sites).err();
            latest_failed = store.set_latest(&run).err();
            Some(run)
        } else {
            run.remove_held().map_err(Error::Store)?;
            None
        };
        Ok(Recorded {
            run,
            meta,
            attempts,
            elapsed,
            interrupted,
            seal_failed,
            latest_failed,
            without_inputs,
        })
    }
}

struct Repeated {
    attempts: u64,
    elapsed: Duration,
    kept: bool,
    interrupted: Option<i32>,
    without_inputs: Option<String>,
}

/// Prints what the failing attempt printed; that of the others was not shown.
fn show_output(run: &RunDirectory) -> Result<()> {
    for (name, mut pass) in [("stdout", PassTo::stdout()), ("stderr", PassTo::stderr())] {
        let path = run.file(name);
        let failed = |e| Error::Store(run_store::Error::io("read", &path, e));
        let mut file = File::open(&path).map_err(failed)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                bytes => pass.show(&buffer[..bytes]),
            }
        }
    }
    Ok(())
}
