//! The view of the file system in which an unpacked run is replayed: its files where they were when it was recorded.
//!
//! NOTE [Stage]
//!
//! The program must be started under its old path and find its libraries under theirs, because every byte of those
//! names, and what the loader maps, moves addresses. So the replayed process gets a mount namespace of its own (and,
//! unless we are root, a user namespace in which it has the right to mount), in which
//!
//! - a file that is another one here is covered by the packed copy (a bind mount);
//! - some copies are first copied into memory (a tmpfs): the kernel aligns long mappings of files on some file systems to
//!   huge pages, so libraries that were not on one of these must not be on one now;
//! - a directory that lacks a file or a directory is *rebuilt*: a tmpfs with a bind mount for everything that was in the
//!   directory, and with what was lacking. It is built in the *workshop* and then moved over the real one; if that is
//!   `/`, the process changes its root instead. It is unbindable, so that it is not bound into itself.
//!
//! Nobody else sees any of this, nothing is written to a disk, and it is gone with the last process in the namespace. New
//! files in a rebuilt directory are gone with it; changes of files that were there before are real.
//!
//! Everything is decided before the fork, from the real file system, and becomes a list of steps. Between fork and
//! exec the list is carried out with system calls alone (`sys::stage::perform`).
use crate::Error;
use crate::Result;
use crate::sys;
use crate::sys::stage::Step;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::io::PipeReader;
use std::io::PipeWriter;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// Where directories are rebuilt before they are moved over the real ones. It is covered meanwhile, so it must be a
/// directory that every system has, and neither one that may be rebuilt nor directly in one. (The run directory is not
/// good enough: a run may lie beside the program that is missing.)
const WORKSHOP: &str = "/proc/sys";

/// What has to be where.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Files that are there and are covered, with the copies that cover them.
    covered: BTreeMap<PathBuf, PathBuf>,
    /// Copies that must be in memory.
    in_memory: BTreeSet<PathBuf>,
    /// Directories to rebuild, with the names in them that do not mean what they mean now. None has a link in its path.
    rebuilt: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// Directories to make inside rebuilt ones.
    directories: BTreeSet<PathBuf>,
    /// Files to make inside rebuilt ones, with their copies.
    files: BTreeMap<PathBuf, PathBuf>,
}

/// A place in the file system as the program will see it.
enum Place {
    /// There already; no link in it.
    Real(PathBuf),
    /// Inside a rebuilt directory.
    New(PathBuf),
}

impl Stage {
    pub fn is_empty(&self) -> bool {
        self.covered.is_empty() && self.rebuilt.is_empty()
    }

    /// The program finds `copy` at `path`, which is absolute.
    pub fn put_file(&mut self, path: &Path, copy: &Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return; // `/` and `x/..` are no names of files.
        };
        match self.place(folder) {
            Place::Real(folder) => {
                let path = folder.join(name);
                let is_replaced = self.rebuilt.get(&folder).is_some_and(|names| names.contains(name));
                match fs::canonicalize(&path) {
                    Ok(real) if real.is_file() && !is_replaced => {
                        self.covered.insert(real, copy.to_owned());
                    }
                    _ => {
                        self.rebuilt.entry(folder).or_default().insert(name.to_owned());
                        self.files.insert(path, copy.to_owned());
                    }
                }
            }
            Place::New(folder) => {
                self.files.insert(folder.join(name), copy.to_owned());
            }
        }
    }

    /// This copy is to be mapped from memory, not from the disk.
    pub fn keep_in_memory(&mut self, copy: &Path) {
        self.in_memory.insert(copy.to_owned());
    }

    /// The program finds a directory at `path`, which is absolute.
    pub fn put_directory(&mut self, path: &Path) {
        self.place(path);
    }

    /// Where the directory is, or will be: it is noted whatever has to be made for it.
    fn place(&mut self, path: &Path) -> Place {
        let mut place = Place::Real(PathBuf::from("/"));
        for component in path.components() {
            place = match component {
                Component::Normal(name) => self.step_down(place, name),
                Component::ParentDir => self.step_up(place),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => place,
            };
        }
        place
    }

    fn step_down(&mut self, place: Place, name: &OsStr) -> Place {
        let folder = match place {
            Place::New(folder) => {
                let path = folder.join(name);
                self.directories.insert(path.clone());
                return Place::New(path);
            }
            Place::Real(folder) => folder,
        };
        let path = folder.join(name);
        if self.directories.contains(&path) {
            return Place::New(path);
        }
        // The dot asks whether we may look into it: somebody else's home is as good as none.
        if fs::metadata(path.join(".")).is_ok()
            && let Ok(real) = fs::canonicalize(&path)
        {
            return Place::Real(real);
        }
        self.rebuilt.entry(folder).or_default().insert(name.to_owned());
        self.directories.insert(path.clone());
        Place::New(path)
    }

    fn step_up(&self, place: Place) -> Place {
        let (Place::Real(path) | Place::New(path)) = place;
        let parent = path.parent().unwrap_or(&path).to_owned();
        if self.directories.contains(&parent) {
            Place::New(parent)
        } else {
            Place::Real(parent)
        }
    }

    /// Some file that is not in place.
    fn example(&self) -> &Path {
        let file = self
            .covered
            .keys()
            .chain(self.files.keys())
            .chain(&self.directories)
            .next();
        file.map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Makes `command` start its program on this stage, in the directory `cwd`.
    pub fn set(&self, command: &mut Command, cwd: &Path) -> Result<Staging<'_>> {
        let mut steps = vec![Step::OwnNamespace(sys::stage::OwnNamespace::new())];
        // Ancestors come first: what is rebuilt later lies in what was bound before.
        for (folder, replaced) in &self.rebuilt {
            self.rebuild(folder, replaced, &mut steps)?;
        }
        let workshop = Path::new(WORKSHOP);
        if !self.in_memory.is_empty() {
            steps.push(Step::Tmpfs {
                at: c_string(workshop),
                options: c"mode=755".to_owned(),
            });
        }
        let in_memory = |number: usize| workshop.join(number.to_string());
        for (number, copy) in self.in_memory.iter().enumerate() {
            steps.push(Step::Copy {
                from: c_string(copy),
                to: c_string(&in_memory(number)),
            });
        }
        for (path, copy) in self.covered.iter().chain(&self.files) {
            let number = self.in_memory.iter().position(|kept| kept == copy);
            steps.push(Step::Bind {
                from: c_string(&number.map_or_else(|| copy.clone(), in_memory)),
                to: c_string(path),
                is_needed: true,
            });
        }
        if !self.in_memory.is_empty() {
            // The files stay as long as they are bound somewhere.
            steps.push(Step::Unmount(c_string(workshop)));
        }
        steps.push(Step::Enter(c_string(cwd)));
        let told: Vec<String> = steps.iter().map(Step::to_string).collect();
        let (reader, writer) = io::pipe().map_err(|source| Error::CannotStage {
            doing: "create a pipe".to_owned(),
            source,
        })?;
        sys::stage::perform(command, steps, writer.as_fd());
        Ok(Staging {
            stage: self,
            told,
            reader,
            writer,
        })
    }

    /// The steps that put a tmpfs with all of the folder's contents, and what it lacks, over the folder.
    fn rebuild(&self, folder: &Path, replaced: &BTreeSet<OsString>, steps: &mut Vec<Step>) -> Result<()> {
        let unreadable = |source| Error::CannotStage {
            doing: format!("list {}", folder.display()),
            source,
        };
        let mode = fs::metadata(folder).map_err(unreadable)?.permissions().mode() & 0o7777;
        let workshop = c_string(Path::new(WORKSHOP));
        steps.push(Step::Tmpfs {
            at: workshop.clone(),
            options: CString::new(format!("mode={mode:o}")).expect("digits have no NUL"),
        });
        steps.push(Step::Unbindable(workshop.clone()));
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (name, kind) = (entry.file_name(), entry.file_type().map_err(unreadable)?);
            if replaced.contains(&name) {
                continue;
            }
            let to = c_string(&Path::new(WORKSHOP).join(&name));
            if kind.is_symlink() {
                let target = fs::read_link(entry.path()).map_err(unreadable)?;
                steps.push(Step::Link {
                    target: c_string(&target),
                    at: to,
                });
                continue;
            }
            steps.push(if kind.is_dir() {
                Step::MakeDirectory(to.clone())
            } else {
                Step::MakeFile(to.clone())
            });
            // What cannot be bound (a file that vanished, a mount of another user's) is left empty.
            steps.push(Step::Bind {
                from: c_string(&entry.path()),
                to,
                is_needed: false,
            });
        }
        let inside = |path: &Path| Some(c_string(&Path::new(WORKSHOP).join(path.strip_prefix(folder).ok()?)));
        let is_ours = |path: &Path| {
            let rest = path.strip_prefix(folder).ok();
            let first = rest.and_then(|rest| rest.components().next());
            first.is_some_and(|first| replaced.contains(first.as_os_str()))
        };
        for path in self.directories.iter().filter(|path| is_ours(path)) {
            steps.extend(inside(path).map(Step::MakeDirectory));
        }
        for path in self.files.keys().filter(|path| is_ours(path)) {
            steps.extend(inside(path).map(Step::MakeFile));
        }
        steps.push(if folder == Path::new("/") {
            Step::ChangeRoot(workshop)
        } else {
            Step::Move {
                from: workshop,
                to: c_string(folder),
            }
        });
        Ok(())
    }
}

/// A stage being set: tells afterwards which step failed.
pub struct Staging<'a> {
    stage: &'a Stage,
    told: Vec<String>,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Staging<'_> {
    /// Call when the start has failed. `None` if the stage was not the reason.
    pub fn failed_step(self, source: &io::Error) -> Option<Error> {
        let Staging {
            stage,
            told,
            mut reader,
            writer,
        } = self;
        // Otherwise we would wait for ourselves.
        drop(writer);
        let mut number = [0; 4];
        reader.read_exact(&mut number).ok()?;
        let number = u32::from_le_bytes(number) as usize;
        let source = io::Error::from_raw_os_error(source.raw_os_error()?);
        // The first thing done in a namespace may be refused instead of the namespace itself.
        let is_refusal = matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        if number == 0 || (number == 1 && is_refusal) {
            return Some(Error::NoNamespace {
                example: stage.example().to_owned(),
                source,
            });
        }
        Some(Error::CannotStage {
            doing: told.get(number)?.clone(),
            source,
        })
    }
}

/// Paths come from directories, and from metadata that was refused if there was a NUL in it.
fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder with `bin/prog`, the link `link` to `bin`, and a link that leads nowhere.
    fn folder() -> (TempDir, PathBuf) {
        let folder = TempDir::new().expect("a temporary directory");
        let path = fs::canonicalize(folder.path()).expect("an existing directory");
        fs::create_dir(path.join("bin")).expect("created");
        fs::write(path.join("bin/prog"), "x").expect("written");
        symlink("bin", path.join("link")).expect("linked");
        symlink("nowhere", path.join("dangling")).expect("linked");
        (folder, path)
    }

    /// What becomes of a wish for a file, without the name of the folder.
    fn put(wish: &str) -> String {
        let (_folder, path) = folder();
        let mut stage = Stage::default();
        stage.put_file(&path.join(wish), Path::new("/copy"));
        let short = |p: &PathBuf| match p.strip_prefix(&path).expect("inside").to_str() {
            Some("") => ".".to_owned(),
            rest => rest.expect("plain names").to_owned(),
        };
        let all = |paths: Vec<String>| paths.join(" ");
        format!(
            "cover [{}] rebuild [{}] directories [{}] files [{}]",
            all(stage.covered.keys().map(short).collect()),
            all(stage.rebuilt.keys().map(short).collect()),
            all(stage.directories.iter().map(short).collect()),
            all(stage.files.keys().map(short).collect())
        )
    }

    #[test]
    fn files_that_are_there_are_covered() {
        let covered = "cover [bin/prog] rebuild [] directories [] files []";
        assert_eq!(put("bin/prog"), covered);
        assert_eq!(put("link/prog"), covered);
        assert_eq!(put("bin/../link/./prog"), covered);
    }

    #[test]
    fn what_is_lacking_is_made_in_the_nearest_directory() {
        assert_eq!(
            put("bin/other"),
            "cover [] rebuild [bin] directories [] files [bin/other]"
        );
        assert_eq!(
            put("link/other"),
            "cover [] rebuild [bin] directories [] files [bin/other]"
        );
        assert_eq!(put("a/b/c"), "cover [] rebuild [.] directories [a a/b] files [a/b/c]");
        assert_eq!(
            put("a/../bin/prog"),
            "cover [bin/prog] rebuild [.] directories [a] files []"
        );
        assert_eq!(put("a/b/../c"), "cover [] rebuild [.] directories [a a/b] files [a/c]");
    }

    #[test]
    fn what_is_in_the_way_is_replaced() {
        assert_eq!(put("dangling"), "cover [] rebuild [.] directories [] files [dangling]");
        assert_eq!(put("bin"), "cover [] rebuild [.] directories [] files [bin]");
        assert_eq!(
            put("bin/prog/x"),
            "cover [] rebuild [bin] directories [bin/prog] files [bin/prog/x]"
        );
    }

    #[test]
    fn an_existing_directory_needs_nothing() {
        let mut stage = Stage::default();
        stage.put_directory(Path::new("/"));
        stage.put_directory(&std::env::temp_dir());
        assert!(stage.is_empty());
        stage.put_directory(Path::new("/no such directory/at all"));
        assert!(!stage.is_empty());
    }
}
