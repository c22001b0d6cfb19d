//! One test's directory, its run store, and the transcript of what it did.
use crate::Checked;
use crate::Problem;
use crate::command::Ended;
use crate::command::Line;
use crate::failed;
use crate::tool;
use libtest_mimic::Completion;
use libtest_mimic::Failed;
use libtest_mimic::Trial;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

pub struct Sandbox {
    refrain: PathBuf,
    /// Where programs are built and run.
    work: PathBuf,
    /// `REFRAIN_DIR` of all commands.
    runs: PathBuf,
    transcript: RefCell<Vec<String>>,
}

/// A test that gets a sandbox of its own, which is removed if it passes.
pub fn trial(name: impl Into<String>, body: impl FnOnce(&Sandbox) -> Checked + Send + 'static) -> Trial {
    let name = name.into();
    let directory = name.clone();
    Trial::ignorable_test(name, move || {
        let sandbox = Sandbox::new(&directory).map_err(Failed::from)?;
        match body(&sandbox) {
            Ok(()) => {
                // Left-over files do not make a test fail.
                let _ = fs::remove_dir_all(sandbox.root());
                Ok(Completion::Completed)
            }
            Err(Problem::Skipped(reason)) if !tool::skips_fail() => {
                let _ = fs::remove_dir_all(sandbox.root());
                Ok(Completion::ignored_with(reason))
            }
            Err(Problem::Skipped(reason)) => Err(format!("skipped: {reason}").into()),
            Err(Problem::Failed(message)) => Err(sandbox.failure(&message).into()),
        }
    })
}

impl Sandbox {
    fn new(name: &str) -> Result<Sandbox, String> {
        let root = tool::scratch()?.join(name.replace('/', "-"));
        let prepare = || -> std::io::Result<()> {
            if root.exists() {
                fs::remove_dir_all(&root)?;
            }
            fs::create_dir_all(root.join("work"))
        };
        prepare().map_err(|e| format!("cannot prepare {}: {e}", root.display()))?;
        Ok(Sandbox {
            refrain: tool::refrain()?,
            work: root.join("work"),
            runs: root.join("runs"),
            transcript: RefCell::default(),
        })
    }

    fn root(&self) -> &Path {
        self.work.parent().unwrap_or(&self.work)
    }

    pub fn work(&self) -> &Path {
        &self.work
    }

    pub fn runs(&self) -> &Path {
        &self.runs
    }

    /// A `refrain` command line in the work directory.
    pub fn refrain(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Line {
        Line::new(&self.refrain, &self.work)
            .var("REFRAIN_DIR", &self.runs)
            .args(arguments)
    }

    /// Another program in the work directory.
    pub fn other(&self, program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Line {
        Line::new(program, &self.work)
            .var("REFRAIN_DIR", &self.runs)
            .args(arguments)
    }

    /// `CC` or `CXX` for build systems.
    pub fn compiler_variable(&self, language: &str) -> String {
        format!("{} {language}", self.refrain.display())
    }

    /// Runs a line and notes it for the message of a failure.
    pub fn run(&self, line: &Line) -> Checked<Ended> {
        self.note(line.typed());
        line.run()
    }

    /// Notes what the test did beside running commands, as a shell line or comment.
    pub fn note(&self, line: impl Into<String>) {
        self.transcript.borrow_mut().push(line.into());
    }

    /// The only run in the store.
    pub fn only_run(&self) -> Checked<PathBuf> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(&self.runs)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                runs.push(entry.path());
            }
        }
        match runs.as_slice() {
            [run] => Ok(run.clone()),
            _ => failed(format!(
                "expected one run in {}, found {}",
                self.runs.display(),
                runs.len()
            )),
        }
    }

    pub fn write(&self, name: &str, content: &str) -> Checked<PathBuf> {
        let path = self.work.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content)?;
        Ok(path)
    }

    fn failure(&self, message: &str) -> String {
        let transcript = self.transcript.borrow().join("\n  ");
        format!(
            "{message}\n\nTo reproduce it:\n  {transcript}\nFiles are kept in {}",
            self.root().display()
        )
    }
}
