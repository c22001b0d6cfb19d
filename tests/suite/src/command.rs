//! Running a command to its end, whatever it does: with a limit of time, in a process group of its own.
use crate::Checked;
use crate::failed;
use crate::require;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process_group;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Long enough for a loaded machine, short enough to notice a hang.
const DEFAULT_LIMIT: Duration = Duration::from_secs(120);
/// How long something the command started may outlive it.
const AFTERLIFE: Duration = Duration::from_secs(10);

/// Variables of our environment that commands see; the others would make runs differ and end up in logs of failures.
const PASSED_ON: [&str; 3] = ["PATH", "TMPDIR", "LANG"];

/// A command line with its surroundings, as it can be typed again.
#[derive(Clone, Debug)]
pub struct Line {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub directory: PathBuf,
    pub variables: Vec<(String, OsString)>,
    pub limit: Duration,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The line as a shell would take it, for messages.
    pub typed: String,
    /// Exit status, or 128 + signal.
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Line {
    pub fn new(program: impl Into<OsString>, directory: &Path) -> Line {
        Line {
            program: program.into(),
            arguments: Vec::new(),
            directory: directory.to_owned(),
            variables: Vec::new(),
            limit: DEFAULT_LIMIT,
        }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Line {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Line {
        self.arguments
            .extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub fn var(mut self, name: &str, value: impl AsRef<OsStr>) -> Line {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    pub fn within(mut self, limit: Duration) -> Line {
        self.limit = limit;
        self
    }

    /// The line as a shell would take it, from any directory.
    pub fn typed(&self) -> String {
        let mut words = vec![format!("cd {} &&", quoted(self.directory.as_os_str()))];
        words.extend(
            self.variables
                .iter()
                .map(|(name, value)| format!("{name}={}", quoted(value))),
        );
        words.push(quoted(&self.program));
        words.extend(self.arguments.iter().map(|argument| quoted(argument)));
        words.join(" ")
    }

    /// Starts it without waiting; stdout and stderr are pipes.
    pub fn spawn(&self) -> Checked<Child> {
        self.spawn_with(Stdio::null())
    }

    pub fn spawn_with(&self, stdin: Stdio) -> Checked<Child> {
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|name| env::var_os(name).map(|value| (name, value))),
            )
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        child.or_else(|error| failed(format!("cannot start {}: {error}", self.program.display())))
    }

    /// Runs it to its end. That it hangs, leaves processes behind, or panics is a failure whatever the test wanted.
    pub fn run(&self) -> Checked<Ended> {
        let mut child = self.spawn()?;
        let pid = child.id();
        let (sender, receiver) = mpsc::channel();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
            child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
        ];
        for (index, stream) in streams.into_iter().enumerate() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error still tells something.
                let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
                let _ = sender.send((index, bytes));
            });
        }
        let status = wait(&mut child, self.limit)?;
        let mut outputs = [Vec::new(), Vec::new()];
        let is_late = status.is_none();
        if is_late {
            kill_group(pid);
        }
        let mut is_haunted = false;
        for _ in 0..2 {
            match receiver.recv_timeout(AFTERLIFE) {
                Ok((index, bytes)) => outputs[index] = bytes,
                Err(_) => {
                    is_haunted = true;
                    kill_group(pid);
                }
            }
        }
        let [stdout, stderr] = outputs;
        let ended = Ended {
            typed: self.typed(),
            status: status.unwrap_or(124),
            stdout,
            stderr,
        };
        require(!is_late, || ended.told(&format!("did not end within {:?}", self.limit)))?;
        require(!is_haunted, || {
            ended.told("left processes behind that hold its output open")
        })?;
        // A guest may panic; our own sources are in this folder.
        require(!ended.stderr_text().contains("panicked at crates/"), || {
            ended.told("panicked")
        })?;
        Ok(ended)
    }
}

impl Ended {
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What happened, with the ends of both streams.
    pub fn told(&self, what: &str) -> String {
        let (stdout, stderr) = (excerpt(&self.stdout), excerpt(&self.stderr));
        format!(
            "{what}\n  command: {}\n  exit status: {}\n  stdout: {stdout}\n  stderr: {stderr}",
            self.typed, self.status
        )
    }

    pub fn expect_status(self, expected: i32) -> Checked<Ended> {
        require(self.status == expected, || {
            self.told(&format!("expected exit status {expected}"))
        })?;
        Ok(self)
    }

    /// The command must refuse: exit status 3 or 2 and a sentence that contains all of `words`.
    pub fn expect_refusal(self, words: &[&str]) -> Checked<Ended> {
        require([2, 3].contains(&self.status), || {
            self.told("expected exit status 3 (or 2)")
        })?;
        let text = self.stderr_text();
        require(text.trim().len() > 15, || self.told("expected a sentence on stderr"))?;
        for word in words {
            require(text.contains(word), || {
                self.told(&format!("expected \"{word}\" on stderr"))
            })?;
        }
        Ok(self)
    }
}

/// Kills everything in the process group of a child that was started by [`Line::spawn`].
pub fn kill_group(pid: u32) {
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may be gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The exit status, with a death by signal S as 128 + S; `None` if it takes longer than `limit`.
fn wait(child: &mut Child, limit: Duration) -> Checked<Option<i32>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(
                status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            ));
        }
        if start.elapsed() > limit {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 3000;
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SHOWN)..]);
    let cut = if bytes.len() > SHOWN { "… " } else { "" };
    format!("{cut}{}", text.trim_end().replace('\n', "\n    "))
}

fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./_-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
