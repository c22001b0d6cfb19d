//! Running other programs, with the command line shown first and failures as sentences.
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;

/// Why a step failed.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(sentence: impl Into<String>) -> Failure {
        Failure(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

pub trait Run {
    fn command(&mut self) -> &mut Command;

    /// Shows the command and runs it; an exit status other than 0 is a failure.
    fn run(&mut self) -> Result<(), Failure> {
        let status = self.status_shown()?;
        if status.success() {
            return Ok(());
        }
        Err(Failure(format!("`{}` ended with {status}", shown(self.command()))))
    }

    /// Shows the command, runs it, and leaves the judgement to the caller.
    fn status_shown(&mut self) -> Result<ExitStatus, Failure> {
        let command = self.command();
        eprintln!("xtask: {}", shown(command));
        command
            .status()
            .map_err(|e| Failure(format!("cannot run `{}`: {e}", shown(command))))
    }

    /// Runs it silently and returns what it printed.
    fn output(&mut self) -> Result<String, Failure> {
        let command = self.command();
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| Failure(format!("cannot run `{}`: {e}", shown(command))))?;
        if !output.status.success() {
            return Err(Failure(format!("`{}` ended with {}", shown(command), output.status)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Run for Command {
    fn command(&mut self) -> &mut Command {
        self
    }
}

/// The cargo that runs us, in the repository's root.
pub struct Cargo(Command);

impl Cargo {
    pub fn new(subcommand: &str) -> Cargo {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.arg(subcommand).current_dir(crate::root());
        Cargo(command)
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Cargo {
        self.0.args(arguments);
        self
    }

    pub fn arg_path(mut self, name: &str, path: &Path) -> Cargo {
        self.0.arg(name).arg(path);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Cargo {
        self.0.env(name, value);
        self
    }
}

impl Run for Cargo {
    fn command(&mut self) -> &mut Command {
        &mut self.0
    }
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}
