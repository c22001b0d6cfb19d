//! The place where runs live, and the names they go by.
use crate::Error;
use crate::Result;
use crate::RunDirectory;
use crate::directory::is_process_name;
use crate::leftovers;
use crate::leftovers::HIDDEN;
use crate::leftovers::Unfinished;
use crate::private;
use rustix::fs::CWD;
use rustix::fs::RenameFlags;
use rustix::fs::renameat_with;
use rustix::io::Errno;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::path::absolute;

const LATEST: &str = "latest";

#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// `$REFRAIN_DIR`, else `$XDG_DATA_HOME/refrain`, else `~/.local/share/refrain`; without what killed commands have left there.
    pub fn from_environment() -> Result<Store> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = variable("REFRAIN_DIR")
            .or_else(|| variable("XDG_DATA_HOME").map(|data| data.join("refrain")))
            .or_else(|| variable("HOME").map(|home| home.join(".local/share/refrain")))
            .ok_or(Error::NoHome)?;
        let store = Store::at(&root)?;
        store.sweep();
        Ok(store)
    }

    pub fn at(root: &Path) -> Result<Store> {
        let root = absolute(root).map_err(|e| Error::io("use", root, e))?;
        Ok(Store { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates `PROG-N` with the next free N. Two recordings that start together get two numbers. `begin` makes it a run before it has that name. As long as
    /// the file is open that comes back, nobody else removes it.
    pub fn create(
        &self,
        program: &OsStr,
        begin: impl FnOnce(&RunDirectory) -> Result<()>,
    ) -> Result<(RunDirectory, Option<File>)> {
        private::create_directories(&self.root).map_err(|e| Error::io("create", &self.root, e))?;
        let unfinished = begun(&self.root, begin)?;
        let prefix = directory_prefix(program);
        let mut number = self.next_number(&prefix)?;
        loop {
            let path = self.root.join(format!("{prefix}-{number}"));
            match rename(&unfinished.path, &path)? {
                Renamed::Yes => return Ok((RunDirectory::at(path), unfinished.finished())),
                Renamed::NameTaken => number += 1,
            }
        }
    }

    /// Creates the directory of `-o DIR`, which must not exist; its parents are created as needed.
    pub fn create_at(
        path: &Path,
        begin: impl FnOnce(&RunDirectory) -> Result<()>,
    ) -> Result<(RunDirectory, Option<File>)> {
        let path = absolute(path).map_err(|e| Error::io("create", path, e))?;
        if fs::symlink_metadata(&path).is_ok() {
            return Err(Error::Exists { path });
        }
        let parent = path.parent().unwrap_or(&path);
        private::create_directories(parent).map_err(|e| Error::io("create", parent, e))?;
        let unfinished = begun(parent, begin)?;
        match rename(&unfinished.path, &path)? {
            Renamed::Yes => Ok((RunDirectory::at(path), unfinished.finished())),
            Renamed::NameTaken => Err(Error::Exists { path }),
        }
    }

    /// Removes what killed ones have left, and leads `latest` somewhere.
    fn sweep(&self) {
        leftovers::sweep(&self.root);
        let link = self.root.join(LATEST);
        let leads_somewhere = || fs::canonicalize(&link).is_ok_and(|path| RunDirectory::at(path).holds_metadata());
        if fs::symlink_metadata(&link).is_ok() && !leads_somewhere() {
            // Best effort: a store that cannot be written stays as it is.
            let _ = self.leave_latest(None);
        }
    }

    /// The name a run from elsewhere should have here, with everything dangerous in it replaced.
    pub(crate) fn tidy_name(&self, name: &str) -> String {
        let name = directory_prefix(OsStr::new(name));
        match split_number(&name) {
            // Numbers that leave room for the next ones. A name without any, such as `latest`, gets one.
            (_, Some(number)) if number < 1 << 32 => name,
            _ => format!("{name}-0"),
        }
    }

    /// The name with the next free number.
    pub(crate) fn free_name(&self, name: &str) -> Result<String> {
        let (prefix, _) = split_number(name);
        Ok(format!("{prefix}-{}", self.next_number(prefix)?))
    }

    /// Makes `latest` mean this run, atomically.
    pub fn set_latest(&self, run: &RunDirectory) -> Result<()> {
        private::create_directories(&self.root).map_err(|e| Error::io("create", &self.root, e))?;
        let target = run.path().strip_prefix(&self.root).unwrap_or(run.path());
        let part = self.root.join(format!("{HIDDEN}latest-{}", std::process::id()));
        let failed = |e| Error::io("update", &self.root.join(LATEST), e);
        // Somebody who had our number may have been killed.
        let _ = fs::remove_file(&part);
        symlink(target, &part).map_err(failed)?;
        fs::rename(&part, self.root.join(LATEST)).map_err(failed)
    }

    /// A name in this store, a directory, or nothing for the latest run.
    pub fn open(&self, which: Option<&OsStr>) -> Result<RunDirectory> {
        let Some(which) = which else {
            return match fs::canonicalize(self.root.join(LATEST)) {
                Ok(path) => existing(path),
                Err(_) => Err(Error::NoRuns {
                    root: self.root.clone(),
                }),
            };
        };
        let shown = which.to_string_lossy();
        if which.is_empty() {
            return Err(Error::BadName {
                name: shown.into_owned(),
            });
        }
        let is_directory_syntax = shown.contains('/') || which == "." || which == "..";
        if !is_directory_syntax {
            // One path component by construction, so it cannot lead out of the store.
            if let Ok(path) = fs::canonicalize(self.root.join(which)) {
                return existing(path);
            }
        }
        // A part of a run, by the run's name. Both components are plain names, so they cannot lead out of the store.
        if let Some((run, process)) = shown.split_once('/')
            && !matches!(run, "" | "." | "..")
            && is_process_name(process)
            && let Ok(path) = fs::canonicalize(self.root.join(run).join(process))
        {
            return existing(path);
        }
        match fs::canonicalize(Path::new(which)) {
            Ok(path) => existing(path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NoSuchRun {
                name: shown.into_owned(),
                root: self.root.clone(),
            }),
            Err(e) => Err(Error::io("open", Path::new(which), e)),
        }
    }

    /// All runs, whole or interrupted, by name with numbers in their order. An absent store has none.
    pub fn list(&self) -> Result<Vec<RunDirectory>> {
        let mut runs = Vec::new();
        for entry in self.entries()? {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            // Hidden ones are being unpacked, or were, when somebody was killed.
            let is_hidden = entry.file_name().as_bytes().starts_with(b".");
            let run = RunDirectory::at(entry.path());
            if is_directory && !is_hidden && run.holds_metadata() {
                runs.push(run);
            }
        }
        runs.sort_by_key(|run| {
            let name = run.name();
            let (prefix, number) = split_number(&name);
            (prefix.to_owned(), number)
        });
        Ok(runs)
    }

    /// Deletes a run; if `latest` meant it, `latest` then means the newest run that is left, or nothing.
    pub fn remove(&self, run: &RunDirectory) -> Result<()> {
        // Elsewhere than in the store, a `run.json` that we cannot read is more likely somebody else's than damaged.
        let is_in_store = fs::canonicalize(&self.root).is_ok_and(|root| run.path().parent() == Some(&root));
        if !is_in_store {
            run.load()?;
        }
        run.remove()?;
        // Whoever is killed before this leaves a link that leads nowhere, which the next command sees (`sweep`).
        let link = self.root.join(LATEST);
        match fs::symlink_metadata(&link).is_ok() && fs::canonicalize(&link).is_err() {
            true => self.leave_latest(Some(run)),
            false => Ok(()),
        }
    }

    /// `latest` means the newest run, or nothing; not the one that is being removed.
    fn leave_latest(&self, removed: Option<&RunDirectory>) -> Result<()> {
        let link = self.root.join(LATEST);
        let newest = self
            .list()?
            .into_iter()
            .filter(|run| removed != Some(run))
            .max_by_key(|run| run.load().map_or(0, |(meta, _)| meta.started));
        match newest {
            Some(newest) => self.set_latest(&newest),
            None => fs::remove_file(&link).map_err(|e| Error::io("remove", &link, e)),
        }
    }

    fn next_number(&self, prefix: &str) -> Result<u64> {
        let mut next = 0;
        for entry in self.entries()? {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let (found, Some(number)) = split_number(&name)
                && found == prefix
            {
                next = next.max(number.saturating_add(1));
            }
        }
        Ok(next)
    }

    fn entries(&self) -> Result<Vec<fs::DirEntry>> {
        let failed = |e| Error::io("read", &self.root, e);
        match fs::read_dir(&self.root) {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>().map_err(failed),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(failed(e)),
        }
    }
}

/// A directory without a name yet that `begin` has made a run.
fn begun(folder: &Path, begin: impl FnOnce(&RunDirectory) -> Result<()>) -> Result<Unfinished> {
    let unfinished = Unfinished::create(folder, "new").map_err(|e| Error::io("create a directory in", folder, e))?;
    begin(&RunDirectory::at(unfinished.path.clone()))?;
    Ok(unfinished)
}

pub(crate) enum Renamed {
    Yes,
    NameTaken,
}

/// Gives a directory its final name, unless that is taken.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<Renamed> {
    let failed = |e: io::Error| Error::io("create", to, e);
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Renamed::Yes),
        Err(Errno::EXIST) => Ok(Renamed::NameTaken),
        // File systems that cannot promise it: make the name ours first. A directory replaces an empty one.
        Err(Errno::INVAL) => match private::create_directory(to) {
            Ok(()) => fs::rename(from, to).map_err(failed).map(|()| Renamed::Yes),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(Renamed::NameTaken),
            Err(e) => Err(failed(e)),
        },
        Err(e) => Err(failed(e.into())),
    }
}

fn existing(path: PathBuf) -> Result<RunDirectory> {
    let run = RunDirectory::at(path);
    if run.holds_metadata() {
        Ok(run)
    } else {
        Err(Error::NotARun {
            path: run.path().to_owned(),
        })
    }
}

/// `racey-12` is (`racey`, 12); a name that ends in no number has none.
fn split_number(name: &str) -> (&str, Option<u64>) {
    match name.rsplit_once('-') {
        Some((prefix, number)) => match number.parse() {
            Ok(number) => (prefix, Some(number)),
            Err(_) => (name, None),
        },
        None => (name, None),
    }
}

/// The program's file name with everything a shell or a file system might take badly replaced.
pub(crate) fn directory_prefix(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
    let prefix: String = name.chars().take(100).map(|c| if plain(c) { c } else { '_' }).collect();
    match prefix.trim_start_matches(['.', '-']) {
        "" => "program".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}
