//! Removing entries, and what killed processes have left. Nothing is deleted that has another name than we give.
use super::ScheduleCache;
use super::entry::META;
use super::entry::SchedulePlace;
use super::is_folder;
use super::key::is_name;
use super::learn::LOCK;
use super::meta::ScheduleFile;
use super::owned;
use super::unpack;
use super::unpack::READY;
use crate::Error;
use crate::Result;
use crate::leftovers;
use crate::leftovers::HIDDEN;
use crate::leftovers::is_still_there;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Who only looks at an entry holds it for a shorter time.
const LOOK: Duration = Duration::from_millis(100);

/// Evidence that nobody else uses an entry.
pub(super) struct Alone<'a> {
    place: &'a SchedulePlace,
    /// Holds the lock.
    _directory: File,
}

impl<'a> Alone<'a> {
    /// `None`: it is gone.
    pub fn take(place: &'a SchedulePlace) -> Result<Option<Alone<'a>>> {
        let Some(directory) = owned::directory(place.path())? else {
            return Ok(None);
        };
        let began = Instant::now();
        while directory.try_lock().is_err() {
            if began.elapsed() >= LOOK {
                return Err(Error::ScheduleInUse {
                    path: place.path().to_owned(),
                });
            }
            thread::sleep(Duration::from_millis(2));
        }
        let is_there = is_still_there(place.path(), &directory);
        Ok(is_there.then_some(Alone {
            place,
            _directory: directory,
        }))
    }

    /// Its name goes at once, its files after it.
    pub fn remove(&self) -> Result<()> {
        let (path, folder) = (self.place.path(), self.place.path().parent().unwrap_or(Path::new("/")));
        if let Some(example) = foreign_file(path)? {
            return Err(Error::Untrusted {
                path: path.to_owned(),
                why: format!("it also holds what no schedule has, such as '{example}'"),
                remedy: "see what that is, and remove it".to_owned(),
            });
        }
        let hidden = folder.join(format!("{HIDDEN}removed-{}-{}", std::process::id(), self.place.name()));
        fs::rename(path, &hidden).map_err(|e| Error::cache("remove", path, e))?;
        fs::remove_dir_all(&hidden).map_err(|e| Error::cache("remove", &hidden, e))
    }
}

pub(super) fn remove(place: &SchedulePlace) -> Result<()> {
    match Alone::take(place)? {
        Some(alone) => alone.remove()?,
        None => return Ok(()),
    }
    if let Some(folder) = place.path().parent() {
        remove_if_empty(folder);
    }
    Ok(())
}

/// The name of something in an entry that we did not put there.
fn foreign_file(path: &Path) -> Result<Option<String>> {
    let failed = |e| Error::cache("read", path, e);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name == META || ScheduleFile::ALL.iter().any(|file| file.name() == name);
        if !is_ours || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The folder of a build goes with its last entry. Who is just about to use it makes it again.
pub(super) fn remove_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

/// Removes what killed processes have left in a cache. Best effort: what cannot be removed is in nobody's way.
pub(super) fn sweep(cache: &ScheduleCache) {
    for entry in fs::read_dir(&cache.root).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().to_string_lossy().into_owned();
        // Others' are refused later, by a sentence.
        if is_directory && is_folder(&name) && matches!(owned::directory(&entry.path()), Ok(Some(_))) {
            sweep_folder(&entry.path());
        } else if is_directory && name.starts_with(READY) {
            complete(cache, &entry.path());
        } else if is_directory && name.starts_with(HIDDEN) {
            leftovers::remove_if_abandoned(&entry.path());
        }
    }
}

/// Goes on with what somebody was unpacking, who is gone.
fn complete(cache: &ScheduleCache, ready: &Path) {
    if let Ok(Some(directory)) = owned::directory(ready)
        && leftovers::is_abandoned(ready, &directory)
    {
        // What cannot be done now is tried again by the next one, and what nobody can use any more goes.
        if let Err(Error::Corrupt { .. } | Error::Newer { .. }) = unpack::complete(cache, ready) {
            let _ = fs::remove_dir_all(ready);
        }
    }
}

fn sweep_folder(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() && name.starts_with(HIDDEN) {
            leftovers::remove_if_abandoned(&entry.path());
        } else if kind.is_file() && name.strip_suffix(LOCK).is_some_and(is_name) {
            remove_free_lock(&entry.path());
        }
    }
    remove_if_empty(folder);
}

/// Nobody holds it: its holder was killed.
fn remove_free_lock(path: &Path) {
    if let Ok(file) = File::open(path)
        && file.try_lock().is_ok()
        && is_still_there(path, &file)
    {
        let _ = fs::remove_file(path);
    }
}
