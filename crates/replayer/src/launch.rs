//! Starting the program the same way every time, and waiting for it.
//!
//! The kernel puts arguments, environment and the path of the executable above the stack, so every byte of them moves
//! every address on it. Recording and replay therefore start a program with the same executable path, the same
//! arguments, and the same variables in the same (sorted) order.
use crate::Error;
use crate::Result;
use crate::checkpoints::Checkpoint;
use crate::checkpoints::Copied;
use crate::checkpoints::Wishes;
use crate::output::Pump;
use crate::output::Sink;
use crate::stage::Stage;
use crate::stage::Staging;
use crate::sys;
use crate::sys::OrphanedProgram;
use run_store::ControlFile;
use run_store::Outcome;
use run_store::ProcessMeta;
use run_store::RunMeta;
use run_store::Text;
use runtime_abi::CONTROL_FD;
use runtime_abi::CONTROL_VARIABLE;
use std::collections::BTreeMap;
use std::env;
use std::ffi::CString;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
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

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// The variables a recorded program gets: ours, the one that says that the control file is there, and for a program that is
/// not linked to the runtime, where that is. The runtime hides it from the program and its children.
pub fn recording_environment(preload: Option<&Path>) -> Vec<(Text, Text)> {
    let mut variables: BTreeMap<_, _> = env::vars_os().collect();
    variables.insert(CONTROL_VARIABLE.into(), CONTROL_FD.to_string().into());
    if let Some(library) = preload {
        let mut list = library.as_os_str().to_owned();
        if let Some(others) = variables.get(OsStr::new(PRELOAD_VARIABLE)).filter(|v| !v.is_empty()) {
            list.push(":");
            list.push(others);
        }
        variables.insert(PRELOAD_VARIABLE.into(), list);
    }
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

/// A program that another process of the run executed, with our own output unless told otherwise and no input. It gets
/// the arguments and variables it had, in the order it had them.
fn executed_command<'a>(
    meta: &RunMeta,
    process: &ProcessMeta,
    control: &File,
    stage: Option<&'a Stage>,
) -> Result<(Command, Option<Staging<'a>>, Option<Alias>)> {
    let mut command = Command::new(meta.executable.path.as_os_str());
    let staging = match stage {
        Some(stage) => Some(stage.set(&mut command, Path::new(meta.cwd.as_os_str()))?),
        None => {
            command.current_dir(meta.cwd.as_os_str());
            None
        }
    };
    let alias = Alias::for_path(&process.executed_as, &meta.executable.path)?;
    command.stdin(Stdio::null());
    sys::prepare(&mut command, control.as_fd(), CONTROL_FD, OrphanedProgram::IsKilled);
    let string = |bytes: Vec<u8>| {
        CString::new(bytes).map_err(|e| Error::CannotStart {
            path: meta.executable.path.as_os_str().into(),
            source: e.into(),
        })
    };
    let bytes = |text: &Text| text.as_os_str().as_bytes().to_vec();
    let variable = |(name, value): &(Text, Text)| [bytes(name), bytes(value)].join(&b'=');
    let path = alias.as_ref().map_or(&process.executed_as, |alias| &alias.path);
    let path = string(bytes(path))?;
    let arguments = meta.argv.iter().map(|text| string(bytes(text)));
    let variables = meta.env.iter().map(|pair| string(variable(pair)));
    sys::execute_instead(
        &mut command,
        path,
        arguments.collect::<Result<_>>()?,
        variables.collect::<Result<_>>()?,
    );
    Ok((command, staging, alias))
}

/// A name for an executable that was executed under one that means something else in every process, such as
/// `/proc/self/exe`: as long as that one, because the kernel puts it above the stack. Goes away with its owner.
struct Alias {
    path: Text,
}

impl Alias {
    fn for_path(executed_as: &Text, executable: &Text) -> Result<Option<Alias>> {
        // Not the one of TMPDIR: the name must be no longer than the one it stands for.
        const FOLDER: &str = "/tmp/";
        let name = executed_as.as_os_str();
        let is_own = ["/proc/", "/dev/fd/"]
            .iter()
            .any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
        if !is_own {
            return Ok(None);
        }
        let room = name.len().saturating_sub(FOLDER.len());
        let failed = |source| Error::CannotStart {
            path: executable.as_os_str().into(),
            source,
        };
        for attempt in 0..1000u32 {
            let digits = format!("{:0room$}", u64::from(std::process::id()) * 1000 + u64::from(attempt));
            let path = format!("{FOLDER}{}", &digits[digits.len() - room..]);
            match symlink(executable.as_os_str(), &path) {
                Ok(()) => return Ok(Some(Alias { path: path.into() })),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Err(failed(io::Error::from(io::ErrorKind::AlreadyExists)))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        // What cannot be removed is a link in the system's temporary directory.
        let _ = fs::remove_file(self.path.as_os_str());
    }
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
    /// The ends of its pipes that others may write to, as long as there may be others.
    ends: Option<(PipeWriter, PipeWriter)>,
    process: Process,
    /// Readable when the program has ended; `None` on systems without such descriptors.
    ended: Option<OwnedFd>,
    program_ended: Arc<AtomicBool>,
    stdout: Pump<S>,
    stderr: Pump<S>,
}

enum Process {
    Started(Child),
    Copied(Copied),
}

impl Process {
    fn id(&self) -> u32 {
        match self {
            Process::Started(child) => child.id(),
            Process::Copied(copied) => copied.id(),
        }
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Process::Started(child) => child.try_wait(),
            Process::Copied(copied) => copied.try_wait(),
        }
    }

    fn kill(&mut self) -> io::Result<()> {
        match self {
            Process::Started(child) => {
                // An error means that it has ended already.
                let _ = child.kill();
                child.wait().map(drop)
            }
            Process::Copied(copied) => copied.kill(),
        }
    }
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
        Running::start_with(meta, stage, control, orphaned, [stdout, stderr], None)
    }

    /// The same, and it is to leave checkpoints behind.
    pub fn start_with(
        meta: &RunMeta,
        stage: Option<&Stage>,
        control: &ControlFile,
        orphaned: OrphanedProgram,
        output: [S; 2],
        wishes: Option<&Wishes>,
    ) -> Result<Running<S>> {
        let (mut command, staging) = command(meta, control, stage, orphaned)?;
        if let Some(wishes) = wishes {
            sys::keep_files(&mut command, &wishes.descriptors());
        }
        let cannot_start = |source| Error::CannotStart {
            path: meta.executable.path.as_os_str().into(),
            source,
        };
        let (out, out_end) = io::pipe().map_err(cannot_start)?;
        let (err, err_end) = io::pipe().map_err(cannot_start)?;
        command
            .stdout(out_end.try_clone().map_err(cannot_start)?)
            .stderr(err_end.try_clone().map_err(cannot_start)?);
        let process = Process::Started(spawn(command, staging, meta)?);
        Ok(Running::watch(
            process,
            [out.into(), err.into()],
            output,
            Some((out_end, err_end)),
        ))
    }

    /// Goes on from a copy of a checkpoint, on control memory of its own, with files in `directory`.
    pub fn copy(
        checkpoint: &Checkpoint,
        directory: &Path,
        control: &ControlFile,
        output: [S; 2],
        wishes: Option<&Wishes>,
    ) -> io::Result<Running<S>> {
        let (out, out_end) = io::pipe()?;
        let (err, err_end) = io::pipe()?;
        let ends = [out_end.as_fd(), err_end.as_fd()];
        let copied = checkpoint.copy(directory, control.file().as_fd(), ends, wishes)?;
        Ok(Running::watch(
            Process::Copied(copied),
            [out.into(), err.into()],
            output,
            None,
        ))
    }

    fn watch(
        process: Process,
        [out, err]: [OwnedFd; 2],
        [stdout, stderr]: [S; 2],
        ends: Option<(PipeWriter, PipeWriter)>,
    ) -> Running<S> {
        let ended = sys::process_descriptor(process.id()).ok();
        let program_ended = Arc::new(AtomicBool::new(false));
        Running {
            ends,
            process,
            ended,
            stdout: Pump::start(out, stdout, Arc::clone(&program_ended)),
            stderr: Pump::start(err, stderr, Arc::clone(&program_ended)),
            program_ended,
        }
    }

    /// Replay: starts a program that another process of the run had executed, with the same output.
    pub fn start_executed(
        &self,
        meta: &RunMeta,
        process: &ProcessMeta,
        stage: Option<&Stage>,
        control: &File,
    ) -> Result<Child> {
        // The alias is needed until the program is there, which is when `spawn` returns.
        let (mut command, staging, _alias) = executed_command(meta, process, control, stage)?;
        let cannot_start = |source| Error::CannotStart {
            path: meta.executable.path.as_os_str().into(),
            source,
        };
        if let Some((out, err)) = &self.ends {
            command
                .stdout(out.try_clone().map_err(cannot_start)?)
                .stderr(err.try_clone().map_err(cannot_start)?);
        }
        spawn(command, staging, meta)
    }

    /// No other process will be started with its output: when all have ended, it has.
    pub fn close_ends(&mut self) {
        self.ends = None;
    }

    /// The exit status if the program ends before `time` is up or a signal arrives.
    pub fn wait(&mut self, time: Option<Duration>) -> Result<Option<ExitStatus>> {
        match &self.ended {
            Some(ended) => {
                sys::wait_readable(ended.as_fd(), time).map_err(Error::Wait)?;
            }
            None => thread::sleep(time.unwrap_or(Duration::MAX).min(Duration::from_millis(2))),
        }
        self.process.try_wait().map_err(Error::Wait)
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
        sys::send_signal(self.process.id(), signal);
    }

    /// Where its files are mapped, as the kernel lists it; nothing if it has ended.
    pub fn maps(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/maps", self.process.id())).unwrap_or_default()
    }

    pub fn kill(&mut self) -> Result<()> {
        self.process.kill().map_err(Error::Wait)
    }

    /// Call when the program has ended: the sinks, with all it printed.
    pub fn finish(self) -> (S, S) {
        // Relaxed: a lone flag, nothing is published through it.
        self.program_ended.store(true, Relaxed);
        (self.stdout.finish(), self.stderr.finish())
    }
}

fn spawn(mut command: Command, staging: Option<Staging<'_>>, meta: &RunMeta) -> Result<Child> {
    command.spawn().map_err(|source| {
        let failed_step = staging.and_then(|staging| staging.failed_step(&source));
        failed_step.unwrap_or_else(|| cannot_start(meta, source))
    })
}

pub fn outcome_of(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signaled(signal),
        (None, None) => unreachable!("a process that was waited for has ended: {status:?}"),
    }
}
