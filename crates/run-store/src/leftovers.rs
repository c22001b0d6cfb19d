//! What killed commands leave behind, and how the next command finds it.
//!
//! NOTE [Leftovers]. `kill -9` may come between any two steps. So nothing gets its final name before it is whole, and whatever has another name until then is
//! found by it, or is written down:
//! - In a store, hidden names beginning with `.refrain-` are unfinished. Who works on such a directory, or has such a file, holds a lock on it, which the
//!   kernel takes back when the process dies.
//! - Temporaries elsewhere (below TMPDIR, beside an archive or a run of `-o`) are noted, before they are made, in a file of the process's own in the store,
//!   `.refrain-work-PID`, which goes when the process ends in peace.
//!
//! Every command begins with [`sweep`]. It removes only what has a name that we give, and whose owner is gone.
use crate::private;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// How names of what is unfinished begin, in a store and beside the runs of `-o`.
pub(crate) const HIDDEN: &str = ".refrain-";
const WORK: &str = ".refrain-work-";
/// How names of directories below TMPDIR begin.
const TEMPORARY: &str = "refrain-";
pub(crate) const PART: &str = ".part";

/// What this process has noted.
struct Notes {
    root: PathBuf,
    /// Once there is something to be noted.
    file: Option<(File, PathBuf)>,
    known: BTreeSet<PathBuf>,
}

static NOTES: Mutex<Option<Notes>> = Mutex::new(None);

/// Removes what killed commands have left, and begins to note what this one may leave. Best effort: a store that cannot be written has nothing in it.
pub(crate) fn sweep(root: &Path) {
    begin(root);
    remove_abandoned(root);
}

/// Removes what is unfinished in a folder, and whose makers are gone.
pub(crate) fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.as_bytes().starts_with(HIDDEN.as_bytes()) {
            continue;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_if_abandoned(&path),
            Ok(kind) if kind.is_file() => settle(&path),
            // Half of a new `latest`, of whose maker the name has the number.
            Ok(kind) if kind.is_symlink() => {
                let maker = name.to_string_lossy().rsplit('-').next().unwrap_or_default().to_owned();
                if !is_running(&maker) {
                    let _ = fs::remove_file(&path);
                }
            }
            _ => {}
        }
    }
}

fn begin(root: &Path) {
    if let Ok(mut notes) = NOTES.lock() {
        notes.get_or_insert_with(|| Notes {
            root: root.to_owned(),
            file: None,
            known: BTreeSet::new(),
        });
    }
}

impl Notes {
    fn open(&mut self) -> Option<&mut File> {
        if self.file.is_none() {
            private::create_directories(&self.root).ok()?;
            let path = self.root.join(format!("{WORK}{}", std::process::id()));
            self.file = Some((locked(&path)?, path));
        }
        self.file.as_mut().map(|(file, _)| file)
    }
}

/// A new file, with a lock that nobody had before us.
fn locked(path: &Path) -> Option<File> {
    let file = private::create_file(path).ok()?;
    file.try_lock().ok()?;
    is_still_there(path, &file).then_some(file)
}

/// Between creation and lock somebody may have taken it for abandoned.
pub(crate) fn is_still_there(path: &Path, file: &File) -> bool {
    let inodes = fs::symlink_metadata(path).and_then(|there| Ok((there.ino(), file.metadata()?.ino())));
    inodes.is_ok_and(|(there, ours)| there == ours)
}

/// Something of ours is about to be at `path`, or, if that is a directory, parts of files in it.
pub fn note(path: &Path) {
    if let Ok(mut notes) = NOTES.lock()
        && let Some(notes) = notes.as_mut()
        && path.is_absolute()
        && notes.known.insert(path.to_owned())
    {
        let line = [path.as_os_str().as_bytes(), b"\0"].concat();
        // What cannot be noted is left behind if we are killed.
        let _ = notes.open().map(|file| file.write_all(&line));
    }
}

/// The process ends in peace: whatever it noted is gone, or has its final name.
pub fn end() {
    if let Ok(mut notes) = NOTES.lock()
        && let Some(Notes {
            file: Some((_, path)), ..
        }) = notes.take()
    {
        let _ = fs::remove_file(path);
    }
}

/// Removes what the process noted that left this file, if that is dead.
fn settle(path: &Path) {
    let Ok(mut file) = File::open(path) else { return };
    let mut noted = Vec::new();
    if !is_abandoned(path, &file) || file.read_to_end(&mut noted).is_err() {
        return;
    }
    for path in noted.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        remove(Path::new(OsStr::from_bytes(path)));
    }
    let _ = fs::remove_file(path);
}

/// Removes a temporary, or the parts of files in a directory; nothing that has another name than we give.
fn remove(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    if metadata.is_symlink() || (metadata.is_file() && name.ends_with(PART)) {
        let _ = fs::remove_file(path);
    } else if metadata.is_dir() && name.starts_with(HIDDEN) {
        remove_if_abandoned(path);
    } else if metadata.is_dir() && name.starts_with(TEMPORARY) {
        let _ = fs::remove_dir_all(path);
    } else if metadata.is_dir() {
        remove_parts(path, |_| true);
    }
}

/// Removes parts of files in a directory whose writers are gone, if `is_wanted` by the name that they were to have.
pub(crate) fn remove_parts(folder: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let part = name.to_str().and_then(|name| name.strip_suffix(PART)?.rsplit_once('.'));
        if part.is_some_and(|(name, writer)| is_wanted(name) && is_number(writer) && !is_running(writer)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// How long a lock may outlive who took it: a child that was just being made has it as well, and is about to die or to become another program.
const LOCK_OUTLIVES: Duration = Duration::from_millis(100);

/// Does nobody hold this, whose name has the number of its maker? Then it is ours.
pub(crate) fn is_abandoned(path: &Path, file: &File) -> bool {
    let began = Instant::now();
    loop {
        if file.try_lock().is_ok() {
            // What was opened may have got its final name since, and its maker have made another of this one.
            return is_still_there(path, file);
        }
        // If the maker is not found, it may also be somewhere else, where processes have other numbers.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_made_here = name.split('-').find(|word| is_number(word)).is_none_or(is_running);
        if is_made_here || began.elapsed() >= LOCK_OUTLIVES {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_number(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_running(process: &str) -> bool {
    is_number(process) && Path::new("/proc").join(process).exists()
}

/// Removes an unfinished directory that nobody holds.
pub(crate) fn remove_if_abandoned(path: &Path) {
    if let Ok(directory) = File::open(path)
        && is_abandoned(path, &directory)
    {
        let _ = fs::remove_dir_all(path);
    }
}

/// A directory that is unfinished until it has its final name. Removed with its owner if it never gets one.
pub(crate) struct Unfinished {
    pub path: PathBuf,
    lock: Option<File>,
}

impl Unfinished {
    /// `purpose` is a part of its name.
    pub fn create(folder: &Path, purpose: &str) -> std::io::Result<Unfinished> {
        for attempt in 0.. {
            let path = folder.join(format!("{HIDDEN}{purpose}-{}-{attempt}", std::process::id()));
            note(&path);
            match private::create_directory(&path) {
                Ok(()) => {}
                // Somebody took it for abandoned before it was ours.
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotFound
                    ) && attempt < 1000 =>
                {
                    continue;
                }
                Err(e) => return Err(e),
            }
            let Ok(lock) = File::open(&path) else { continue };
            if lock.try_lock().is_ok() && is_still_there(&path, &lock) {
                return Ok(Unfinished { path, lock: Some(lock) });
            }
        }
        unreachable!("there is always another number");
    }

    /// The directory has its final name; the lock is the caller's, to be held as long as nobody else may remove it.
    pub fn finished(mut self) -> Option<File> {
        self.lock.take()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // What cannot be removed now is removed by the next command.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_finished_meanwhile_is_not_taken_for_its_successor() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Unfinished::create(folder.path(), "new").expect("a directory");
        let path = first.path.clone();
        let opened = File::open(&path).expect("the directory");
        fs::rename(&path, folder.path().join("final")).expect("renamed");
        drop(first.finished());
        let second = Unfinished::create(folder.path(), "new").expect("a directory");
        assert_eq!(second.path, path);
        assert!(!is_abandoned(&path, &opened), "the lock is that of another directory");
    }

    #[test]
    fn a_lock_that_outlives_its_taker_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        // No process has a number of so many digits.
        let path = folder.path().join(format!("{WORK}999999999"));
        let held = locked(&path).expect("a file");
        let holder = thread::spawn(move || {
            thread::sleep(LOCK_OUTLIVES / 4);
            drop(held);
        });
        remove_abandoned(folder.path());
        holder.join().expect("it ends");
        assert!(!path.exists(), "whose taker is gone, and then its lock");
        let ours = folder.path().join(format!("{WORK}{}", std::process::id()));
        let _held = locked(&ours).expect("a file");
        remove_abandoned(folder.path());
        assert!(ours.exists(), "what is in use stays");
    }
}
