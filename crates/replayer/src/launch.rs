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
use crate::sys::terminal::TerminalProgram;
use crate::terminal::Terminal;
use crate::terminal::Typing;
use crate::terminal::Which;
use run_store::ControlFile;
use run_store::Outcome;
use run_store::ProcessMeta;
use run_store::RunMeta;
use run_store::Text;
use runtime_abi::CONTROL_FD;
use runtime_abi::CONTROL_VARIABLE;
use runtime_abi::FROM_ELSEWHERE;
use std::collections::BTreeMap;
use std::env;
use std::ffi::CString;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::io::PipeWriter;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
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

/// The same for a program that gets the variables of another run.
pub fn recorded_environment(of_run: &[(Text, Text)]) -> Vec<(Text, Text)> {
    let mut variables: BTreeMap<Text, Text> = of_run.iter().cloned().collect();
    variables.insert(CONTROL_VARIABLE.into(), CONTROL_FD.to_string().into());
    variables.into_iter().collect()
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
    sys::prepare(&mut command, control.file().as_fd(), orphaned, meta.stack_limit);
    Ok((command, staging))
}

/// A command, and what has to be there until the program is, which is when `spawn` returns.
struct Executed<'a> {
    command: Command,
    staging: Option<Staging<'a>>,
    _alias: Option<Alias>,
    _control: File,
}

/// A program that another process of the run executed, with our own output unless told otherwise and no input. It gets
/// the arguments and variables it had, in the order it had them.
fn executed_command<'a>(
    meta: &RunMeta,
    process: &ProcessMeta,
    memory: &File,
    stage: Option<&'a Stage>,
) -> Result<Executed<'a>> {
    let cannot_start = |source: io::Error| Error::CannotStart {
        path: meta.executable.path.as_os_str().into(),
        source,
    };
    let mut command = Command::new(meta.executable.path.as_os_str());
    // Before the stage is set, which has all that is there.
    let alias = match is_named(meta, &process.executed_as) {
        true => None,
        false => Some(Alias::new(process.executed_as.as_os_str().len(), meta).map_err(cannot_start)?),
    };
    let staging = match stage {
        Some(stage) => Some(stage.set(&mut command, Path::new(meta.cwd.as_os_str()))?),
        None => {
            command.current_dir(directory_of(meta));
            None
        }
    };
    let from = alias.as_ref().and_then(|alias| alias.folder.as_deref());
    let elsewhere = if from.is_some() { FROM_ELSEWHERE } else { 0 };
    let control = sys::reopen(memory, u64::from(process.number) | elsewhere).map_err(cannot_start)?;
    command.stdin(Stdio::null());
    sys::prepare(
        &mut command,
        control.as_fd(),
        OrphanedProgram::IsKilled,
        meta.stack_limit,
    );
    let string = |bytes: Vec<u8>| CString::new(bytes).map_err(|e| cannot_start(e.into()));
    let bytes = |text: &Text| text.as_os_str().as_bytes().to_vec();
    let variable = |(name, value): &(Text, Text)| [bytes(name), bytes(value)].join(&b'=');
    let path = match &alias {
        Some(alias) => alias.path.clone().into_os_string().into_vec(),
        None => bytes(&process.executed_as),
    };
    let arguments = meta.argv.iter().map(|text| string(bytes(text)));
    let variables = meta.env.iter().map(|pair| string(variable(pair)));
    let execution = sys::Execution {
        path: string(path)?,
        arguments: arguments.collect::<Result<_>>()?,
        variables: variables.collect::<Result<_>>()?,
        from: from
            .map(|folder| string(folder.as_os_str().as_bytes().to_vec()))
            .transpose()?,
        blocked_signals: process.blocked_signals,
        ignored_signals: process.ignored_signals,
    };
    sys::execute_instead(&mut command, execution);
    Ok(Executed {
        command,
        staging,
        _alias: alias,
        _control: control,
    })
}

/// Where a program is started that was executed. Its directory may be gone since, as that of a script's files that are for a while: then
/// anywhere, as its calls are answered, and an alias stands for a name that was found there.
fn directory_of(meta: &RunMeta) -> &Path {
    let directory = Path::new(meta.cwd.as_os_str());
    if directory.is_dir() { directory } else { Path::new("/") }
}

/// Does `name`, given to the kernel, execute the program of `meta`? It does not if it is a script's, or gone, or one that means something else
/// in every process, such as `/proc/self/exe`.
fn is_named(meta: &RunMeta, name: &Text) -> bool {
    let is_own = ["/proc/", "/dev/fd/"]
        .iter()
        .any(|prefix| name.as_os_str().as_bytes().starts_with(prefix.as_bytes()));
    let file = |path: &Path| fs::canonicalize(path).ok();
    let named = file(&Path::new(meta.cwd.as_os_str()).join(name.as_os_str()));
    !is_own && named.is_some() && named == file(Path::new(meta.executable.path.as_os_str()))
}

/// Another name for an executable, as long as the one that it was executed by, because the kernel puts that above the stack. Goes
/// away with its owner.
struct Alias {
    path: PathBuf,
    /// Where it is, if there is no room for an absolute path.
    folder: Option<PathBuf>,
}

impl Alias {
    /// Not the one of TMPDIR: the name must be no longer than the one it stands for.
    const FOLDER: &str = "/tmp/";
    /// Digits that make a name of ours unlike others.
    const DIGITS_MIN: usize = 6;

    fn new(length: usize, meta: &RunMeta) -> io::Result<Alias> {
        let executable = meta.executable.path.as_os_str();
        let room = length.saturating_sub(Alias::FOLDER.len());
        for attempt in 0..1000u32 {
            let number = u64::from(std::process::id()) * 1000 + u64::from(attempt);
            let alias = match room >= Alias::DIGITS_MIN {
                true => {
                    let digits = format!("{number:0room$}");
                    Alias {
                        path: format!("{}{}", Alias::FOLDER, &digits[digits.len() - room..]).into(),
                        folder: None,
                    }
                }
                false => Alias {
                    path: "x".repeat(length).into(),
                    folder: Some(format!("{}refrain-{number}", Alias::FOLDER).into()),
                },
            };
            run_store::note_temporary(alias.folder.as_ref().unwrap_or(&alias.path));
            let made = match &alias.folder {
                None => symlink(executable, &alias.path),
                Some(folder) => {
                    run_store::create_directory(folder).and_then(|()| symlink(executable, folder.join(&alias.path)))
                }
            };
            match made {
                Ok(()) => return Ok(alias),
                // Somebody else's: it is not to be removed.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => std::mem::forget(alias),
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        // What cannot be removed is a link in the system's temporary directory.
        let _ = match &self.folder {
            None => fs::remove_file(&self.path),
            Some(folder) => fs::remove_file(folder.join(&self.path)).and_then(|()| fs::remove_dir(folder)),
        };
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
    session: Option<Session>,
}

enum Process {
    Started(Child),
    Copied(Copied),
    /// A child of ours that was started by another one, its session's first process.
    InSession {
        id: u32,
    },
}

/// A session that was made for a program, on a terminal that was made for it. It is over when this is dropped.
struct Session {
    /// Closed, it tells the first process to go. `None`: closed.
    life: Option<PipeWriter>,
    first: Child,
    _typing: Typing,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.life = None;
        // It does nothing but wait for that.
        let _ = self.first.wait();
    }
}

impl Process {
    fn id(&self) -> u32 {
        match self {
            Process::Started(child) => child.id(),
            Process::Copied(copied) => copied.id(),
            Process::InSession { id } => *id,
        }
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Process::Started(child) => child.try_wait(),
            Process::Copied(copied) => copied.try_wait(),
            Process::InSession { id } => sys::wait_for_child(*id, false),
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
            Process::InSession { id } => {
                sys::send_signal(*id, 9);
                sys::wait_for_child(*id, true).map(drop)
            }
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
        let process = Process::Started(spawn(&mut command, staging, meta)?);
        Ok(Running::watch(
            process,
            [out.into(), err.into()],
            output,
            Some((out_end, err_end)),
        ))
    }

    /// Starts the program of `meta` on a terminal of its own, like ours, which `which` says what of its input and output is.
    pub fn start_on_terminal(
        meta: &RunMeta,
        control: &ControlFile,
        [stdout, stderr]: [S; 2],
        which: Which,
    ) -> Result<Running<S>> {
        let failed = |source| cannot_start(meta, source);
        let (mut command, _) = command(meta, control, None, OrphanedProgram::RunsOn)?;
        let terminal = Terminal::new().map_err(failed)?;
        let programs = || terminal.programs.try_clone().map_err(failed);
        command.stdout(programs()?);
        if which.stdin {
            command.stdin(programs()?);
        }
        let (err, err_end) = io::pipe().map_err(failed)?;
        match which.stderr {
            true => command.stderr(programs()?),
            false => command.stderr(err_end),
        };
        let (mut report, report_end) = io::pipe().map_err(failed)?;
        let (life_end, life) = io::pipe().map_err(failed)?;
        let execution = execution(meta)?;
        sys::terminal::execute_in_session(&mut command, execution, report_end.as_fd(), life_end.as_fd())
            .map_err(failed)?;
        let first = command.spawn().map_err(failed)?;
        // They have the terminal, and ends of pipes.
        drop((command, report_end, life_end, terminal.programs));
        let mut id = [0; 4];
        report.read_exact(&mut id).map_err(failed)?;
        let typing = Typing::pass_on(which, terminal.ours.try_clone().map_err(failed)?).map_err(failed)?;
        sys::forward_all_signals();
        let process = Process::InSession {
            id: u32::from_le_bytes(id),
        };
        let mut running = Running::watch(process, [terminal.ours, err.into()], [stdout, stderr], None);
        running.session = Some(Session {
            life: Some(life),
            first,
            _typing: typing,
        });
        Ok(running)
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
            session: None,
        }
    }

    /// Replay: starts a program that another process of the run had executed, with the same output.
    pub fn start_executed(
        &self,
        meta: &RunMeta,
        process: &ProcessMeta,
        stage: Option<&Stage>,
        memory: &File,
    ) -> Result<Child> {
        let mut executed = executed_command(meta, process, memory, stage)?;
        let cannot_start = |source| Error::CannotStart {
            path: meta.executable.path.as_os_str().into(),
            source,
        };
        if let Some((out, err)) = &self.ends {
            executed
                .command
                .stdout(out.try_clone().map_err(cannot_start)?)
                .stderr(err.try_clone().map_err(cannot_start)?);
        }
        spawn(&mut executed.command, executed.staging, meta)
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

    /// How many threads the system has for it.
    pub fn tasks(&self) -> u32 {
        fs::read_dir(format!("/proc/{}/task", self.process.id())).map_or(0, |tasks| tasks.count() as u32)
    }

    pub fn kill(&mut self) -> Result<()> {
        self.process.kill().map_err(Error::Wait)
    }

    /// Call when the program has ended: the sinks, with all it printed.
    pub fn finish(mut self) -> (S, S) {
        // Relaxed: a lone flag, nothing is published through it.
        self.program_ended.store(true, Relaxed);
        // The last one to have the terminal, if nobody was left behind; what was shown there is to be seen before ours is as it was.
        if let Some(session) = &mut self.session {
            session.life = None;
        }
        (self.stdout.finish(), self.stderr.finish())
    }
}

/// What `command` would execute.
fn execution(meta: &RunMeta) -> Result<TerminalProgram> {
    let string = |bytes: Vec<u8>| CString::new(bytes).map_err(|e| cannot_start(meta, e.into()));
    let bytes = |text: &Text| text.as_os_str().as_bytes().to_vec();
    let arguments = meta.argv.iter().map(|text| string(bytes(text)));
    let variable = |(name, value): &(Text, Text)| string([bytes(name), bytes(value)].join(&b'='));
    Ok(TerminalProgram {
        path: string(bytes(&meta.executable.path))?,
        arguments: arguments.collect::<Result<_>>()?,
        variables: meta.env.iter().map(variable).collect::<Result<_>>()?,
    })
}

fn spawn(command: &mut Command, staging: Option<Staging<'_>>, meta: &RunMeta) -> Result<Child> {
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
