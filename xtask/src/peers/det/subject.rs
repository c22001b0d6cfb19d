//! One listed program: built natively and with `--det`, each from its own copy of the sources, and run there.
use super::list::Listed;
use crate::command::Failure;
use crate::peers::program;
use crate::peers::program::Ended;
use crate::peers::program::Limits;
use crate::peers::program::Streams;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process;
use std::process::Command;
use std::process::Stdio;

const BUILD_LIMIT_S: u64 = 1800;
/// What `grep` says if it has selected nothing: no reason to doubt a filter.
const NOTHING_SELECTED: i32 = 1;

pub struct Subject<'a> {
    pub listed: &'a Listed,
    /// Everything of it is below.
    place: PathBuf,
    refrain: &'a Path,
}

/// What is compared of a run.
#[derive(PartialEq, Eq)]
pub struct Seen {
    status: i32,
    stdout: Vec<u8>,
    /// In the order of the list; `None`: it is not there.
    files: Vec<Option<Vec<u8>>>,
}

impl<'a> Subject<'a> {
    pub fn new(listed: &'a Listed, place: PathBuf, refrain: &'a Path) -> Subject<'a> {
        Subject { listed, place, refrain }
    }

    /// Both builds of it; why not, if one fails.
    pub fn build(&self, folder: &Path) -> Result<(), Failure> {
        _ = fs::remove_dir_all(&self.place);
        let ours = |command: &str| format!("{} {command} --det", self.refrain.display());
        self.build_with(folder, "native", "clang-22", "clang++-22")?;
        self.build_with(folder, "det", &ours("cc"), &ours("c++"))
    }

    fn build_with(&self, folder: &Path, which: &str, cc: &str, cxx: &str) -> Result<(), Failure> {
        let directory = self.place.join(which);
        fs::create_dir_all(&directory)?;
        for source in self.sources() {
            let copied = Command::new("cp")
                .arg("-a")
                .arg(folder.join(source))
                .arg(&directory)
                .output()?;
            if !copied.status.success() {
                let why = String::from_utf8_lossy(&copied.stderr).into_owned();
                return Err(Failure::new(format!("cannot copy {source}: {}", why.trim())));
            }
        }
        for line in &self.listed.build {
            let mut shell = Command::new("sh");
            shell.args(["-e", "-c", line]).env("CC", cc).env("CXX", cxx);
            let ended = self.run_in(&directory, shell, None, BUILD_LIMIT_S)?;
            if !ended.is_success() {
                let said = ended.stderr.lines().find(|line| line.contains("error"));
                let said = said
                    .or_else(|| ended.stderr.lines().next_back())
                    .unwrap_or("says nothing");
                return Err(Failure::new(format!("{which} build: {}: {said}", ended.told())));
            }
        }
        Ok(())
    }

    fn sources(&self) -> &[String] {
        match self.listed.sources.as_slice() {
            [] => std::slice::from_ref(&self.listed.name),
            sources => sources,
        }
    }

    /// Where its schedules are.
    pub fn store(&self) -> PathBuf {
        self.place.join("store")
    }

    pub fn run_natively(&self, limit_s: u64) -> Result<(Seen, Ended), Failure> {
        let directory = self.place.join("native");
        let (program, arguments) = self.listed.run.split_first().expect("a list without it is refused");
        let mut command = Command::new(directory.join(program));
        command.args(arguments);
        self.run_seen(&directory, command, limit_s)
    }

    /// `refrain run` with these options.
    pub fn run(&self, options: &[&str], limit_s: u64) -> Result<(Seen, Ended), Failure> {
        let mut command = Command::new(self.refrain);
        command
            .args(["run", "--report"])
            .args(options)
            .arg("--")
            .args(&self.listed.run)
            .env("REFRAIN_DIR", self.store());
        self.run_seen(&self.place.join("det"), command, limit_s)
    }

    fn run_seen(&self, directory: &Path, command: Command, limit_s: u64) -> Result<(Seen, Ended), Failure> {
        for file in &self.listed.outputs {
            _ = fs::remove_file(directory.join(file));
        }
        let stdin = self.listed.stdin.as_ref().map(|file| directory.join(file));
        let ended = self.run_in(directory, command, stdin, limit_s)?;
        let files = self.listed.outputs.iter();
        let seen = Seen {
            status: ended.code(),
            stdout: self.filtered()?,
            files: files.map(|file| fs::read(directory.join(file)).ok()).collect(),
        };
        Ok((seen, ended))
    }

    fn run_in(
        &self,
        directory: &Path,
        command: Command,
        stdin: Option<PathBuf>,
        limit_s: u64,
    ) -> Result<Ended, Failure> {
        let streams = Streams {
            stdin,
            stdout: self.stdout(),
            stderr: self.place.join("stderr"),
        };
        // The same in each run: it is in the environment, by which schedules are chosen.
        let mark = format!("{}-{}", process::id(), self.listed.name);
        let ended = program::run_in(directory, &mark, &streams, command, Limits::seconds(limit_s));
        ended.map_err(|e| Failure::new(format!("cannot run {}: {e}", self.listed.name)))
    }

    fn stdout(&self) -> PathBuf {
        self.place.join("stdout")
    }

    /// What it printed last, without what is another thing each time.
    fn filtered(&self) -> Result<Vec<u8>, Failure> {
        let Some(filter) = &self.listed.filter else {
            return Ok(fs::read(self.stdout())?);
        };
        let output = Command::new("sh")
            .args(["-c", filter])
            .stdin(File::open(self.stdout())?)
            .stderr(Stdio::inherit())
            .output()?;
        match output.status.code() {
            Some(0 | NOTHING_SELECTED) => Ok(output.stdout),
            _ => Err(Failure::new(format!(
                "the filter `{filter}` ended with {}",
                output.status
            ))),
        }
    }
}

impl Seen {
    /// What differs first.
    pub fn difference(&self, recorded: &Seen) -> Option<String> {
        if self.status != recorded.status {
            return Some(format!("status {} instead of {}", self.status, recorded.status));
        }
        if self.stdout != recorded.stdout {
            let lines = |seen: &Seen| String::from_utf8_lossy(&seen.stdout).into_owned();
            let (ours, theirs) = (lines(self), lines(recorded));
            let pair = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
            let (ours, theirs) = pair.unwrap_or(("another number of lines", ""));
            return Some(format!("prints '{ours}' instead of '{theirs}'"));
        }
        (self.files != recorded.files).then(|| "writes another file".to_owned())
    }
}
