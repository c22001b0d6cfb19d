//! Starting the program the same way every time, and waiting for it.
//!
//! The kernel puts arguments, environment and the path of the executable above the stack, so every byte of them moves
//! every address on it. Recording and replay therefore start a program with the same executable path, the same
//! arguments, and the same variables in the same (sorted) order.
use crate::Error;
use crate::Result;
use crate::output::Pump;
use crate::output::Sink;
use crate::stage::Stage;
use crate::stage::Staging;
use crate::sys;
use crate::sys::OrphanedProgram;
use run_store::ControlFile;
use run_store::Outcome;
use run_store::RunMeta;
use run_store::Text;
use runtime_abi::CONTROL_FD;
use runtime_abi::CONTROL_VARIABLE;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The variables a recorded program gets: ours, and the one that says that the control file is there.
pub fn recording_environment() -> Vec<(Text, Text)> {
    let mut variables: BTreeMap<_, _> = env::vars_os().collect();
    variables.insert(CONTROL_VARIABLE.into(), CONTROL_FD.to_string().into());
    variables
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The program of `meta` on `control`, ready to be started, with our own input and output; on `stage`, if its files are not
/// where they were.
pub fn command<'a>(
    meta: &RunMeta,
    control: &ControlFile,
    stage: Option<&'a Stage>,
    orphaned: OrphanedProgram,
) -> Result<(Command, Option<Staging<'a>>)> {
    let mut command = Command::new(meta.executable.path.as_os_str());
    command
        .arg0(meta.argv[0].as_os_str())
        .args(meta.argv[1..].iter().map(Text::as_os_str))
        .env_clear()
        .envs(
            meta.env
                .iter()
                .map(|(name, value)| (name.as_os_str(), value.as_os_str())),
        );
    if !sys::can_fix_addresses() {
        return Err(Error::AddressesNotFixed);
    }
    let staging = match stage {
        Some(stage) => Some(stage.set(&mut command, Path::new(meta.cwd.as_os_str()))?),
        None => {
            command.current_dir(meta.cwd.as_os_str());
            None
        }
    };
    sys::prepare(&mut command, control.file().as_fd(), CONTROL_FD, orphaned);
    Ok((command, staging))
}

/// The system does not say which of the two is not there.
fn cannot_start(meta: &RunMeta, source: io::Error) -> Error {
    let directory = Path::new(meta.cwd.as_os_str());
    if source.kind() == io::ErrorKind::NotFound && !directory.is_dir() {
        return Error::NoRecordedDirectory {
            path: directory.to_owned(),
        };
    }
    Error::CannotStart {
        path: meta.executable.path.as_os_str().into(),
        source,
    }
}

/// A started program with its output being read.
pub struct Running<S> {
    child: Child,
    /// Readable when the program has ended; `None` on systems without such descriptors.
    ended: Option<OwnedFd>,
    program_ended: Arc<AtomicBool>,
    stdout: Pump<S>,
    stderr: Pump<S>,
}

impl<S: Sink> Running<S> {
    /// Starts the program of `meta` on `control`, on a stage if it needs one. Its output goes to the sinks, its input is ours.
    pub fn start(
        meta: &RunMeta,
        stage: Option<&Stage>,
        control: &ControlFile,
        orphaned: OrphanedProgram,
        stdout: S,
        stderr: S,
    ) -> Result<Running<S>> {
        let (mut command, staging) = command(meta, control, stage, orphaned)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| {
            let failed_step = staging.and_then(|staging| staging.failed_step(&source));
            failed_step.unwrap_or_else(|| cannot_start(meta, source))
        })?;
        let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both streams were asked to be pipes");
        };
        let ended = sys::process_descriptor(child.id()).ok();
        let program_ended = Arc::new(AtomicBool::new(false));
        let stdout = Pump::start(out.into(), stdout, Arc::clone(&program_ended));
        let stderr = Pump::start(err.into(), stderr, Arc::clone(&program_ended));
        Ok(Running {
            child,
            ended,
            program_ended,
            stdout,
            stderr,
        })
    }

    /// The exit status if the program ends before `time` is up or a signal arrives.
    pub fn wait(&mut self, time: Option<Duration>) -> Result<Option<ExitStatus>> {
        match &self.ended {
            Some(ended) => {
                sys::wait_readable(ended.as_fd(), time).map_err(Error::Wait)?;
            }
            None => thread::sleep(time.unwrap_or(Duration::MAX).min(Duration::from_millis(2))),
        }
        self.child.try_wait().map_err(Error::Wait)
    }

    /// Waits until `deadline`, however many signals arrive.
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wait(Some(left))? {
                None if !left.is_zero() => {}
                ended => return Ok(ended),
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        sys::send_signal(self.child.id(), signal);
    }

    /// Where its files are mapped, as the kernel lists it; nothing if it has ended.
    pub fn maps(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/maps", self.child.id())).unwrap_or_default()
    }

    pub fn kill(&mut self) -> Result<()> {
        // An error means that it has ended already.
        let _ = self.child.kill();
        self.child.wait().map(drop).map_err(Error::Wait)
    }

    /// Call when the program has ended: the sinks, with all it printed.
    pub fn finish(self) -> (S, S) {
        // Relaxed: a lone flag, nothing is published through it.
        self.program_ended.store(true, Relaxed);
        (self.stdout.finish(), self.stderr.finish())
    }
}

pub fn outcome_of(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signaled(signal),
        (None, None) => unreachable!("a process that was waited for has ended: {status:?}"),
    }
}
