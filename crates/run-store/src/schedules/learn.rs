//! Who learns a schedule, and how it gets into the cache: NOTE [Cache of schedules].
use super::Lookup;
use super::ScheduleCache;
use super::entry::META;
use super::entry::ScheduleEntry;
use super::entry::SchedulePlace;
use super::key::ScheduleKey;
use super::meta::FileSum;
use super::meta::Learned;
use super::meta::SCHEDULE_FILE_BYTES_MAX;
use super::meta::SCHEDULE_VERSION;
use super::meta::ScheduleFile;
use super::meta::ScheduleMeta;
use super::owned;
use super::removal;
use crate::Error;
use crate::Result;
use crate::leftovers::Unfinished;
use crate::leftovers::is_still_there;
use crate::private;
use crate::store::Renamed;
use crate::store::rename;
use runtime_abi::ABI_VERSION;
use rustix::fs::CWD;
use rustix::fs::RenameFlags;
use rustix::fs::renameat_with;
use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Behind the name of an entry: the file with the lock of who learns it.
pub(super) const LOCK: &str = ".lock";

/// Evidence that no other process learns this schedule. Ends with the process, however that ends.
#[derive(Debug)]
pub struct LearnGuard {
    cache: ScheduleCache,
    key: ScheduleKey,
    lock: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl LearnGuard {
    pub(super) fn take(cache: &ScheduleCache, key: &ScheduleKey, on_wait: impl FnOnce()) -> Result<LearnGuard> {
        make_owned(&cache.root, owned::root)?;
        removal::sweep(cache);
        let folder = cache.folder(key);
        let lock = folder.join(format!("{}{LOCK}", key.name()));
        let mut on_wait = Some(on_wait);
        loop {
            make_owned(&folder, owned::directory)?;
            let file = match open_lock(&lock) {
                // Somebody has removed the last entry of the build, and the folder with it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(|e| Error::cache("create", &lock, e))?,
            };
            let failed = |e| Error::cache("lock", &lock, e);
            if !is_locked_soon(&file).map_err(failed)? {
                if let Some(on_wait) = on_wait.take() {
                    on_wait();
                }
                file.lock().map_err(failed)?;
            }
            // Who was done has removed it, and the next one may have another of the same name.
            if is_still_there(&lock, &file) {
                return Ok(LearnGuard {
                    cache: cache.clone(),
                    key: key.clone(),
                    lock,
                    _file: file,
                });
            }
        }
    }

    /// What the cache has now: another process may have learned it before this one got the lock.
    pub fn lookup(&self) -> Result<Lookup> {
        self.cache.lookup(&self.key)
    }

    /// Puts the schedule into the cache, in the place of what may be there: in full, on the disk, or not at all. Each file is given once.
    pub fn insert(self, learned: Learned, files: &[(ScheduleFile, &[u8])]) -> Result<ScheduleEntry> {
        let mut sums = BTreeMap::new();
        for (file, bytes) in files {
            let length = bytes.len() as u64;
            if length > SCHEDULE_FILE_BYTES_MAX {
                return Err(Error::TooBig {
                    what: format!("the file '{}' of the schedule", file.name()),
                    bytes: length,
                    bytes_max: SCHEDULE_FILE_BYTES_MAX,
                });
            }
            let hash = blake3::hash(bytes).to_hex().to_string();
            let before = sums.insert(*file, FileSum { bytes: length, hash });
            assert!(before.is_none(), "the file {file:?} is given twice");
        }
        let meta = ScheduleMeta {
            version: SCHEDULE_VERSION,
            refrain: env!("CARGO_PKG_VERSION").to_owned(),
            abi_version: ABI_VERSION,
            key: self.key.clone(),
            learned,
            files: sums,
        };
        let metadata = meta.encode()?;
        let folder = self.cache.folder(&self.key);
        let failed = |e| Error::cache("create a directory in", &folder, e);
        let unfinished = Unfinished::create(&folder, "learned").map_err(failed)?;
        let named = files.iter().map(|(file, bytes)| (file.name(), *bytes));
        for (name, bytes) in named.chain([(META, metadata.as_slice())]) {
            write(&unfinished.path.join(name), bytes)?;
        }
        sync(&unfinished.path)?;
        let place = self.cache.place(&self.key);
        give_name(unfinished, &place)?;
        sync(&folder)?;
        self.cache.open(&place)
    }
}

impl Drop for LearnGuard {
    fn drop(&mut self) {
        // While the lock is held: it is this file that has the name. If it stays, the next one takes it.
        let _ = fs::remove_file(&self.lock);
        removal::remove_if_empty(&self.cache.folder(&self.key));
    }
}

/// So often somebody may remove an empty folder just when it was made, before that is an error.
const TRIES: u32 = 1000;

/// Creates a directory, unless it is there, and refuses one that is not the user's own.
pub(super) fn make_owned(path: &Path, open: impl Fn(&Path) -> Result<Option<File>>) -> Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        match private::create_directories(path) {
            Ok(()) if open(path)?.is_some() => return Ok(()),
            Ok(()) if tries < TRIES => {}
            Ok(()) => return Err(Error::cache("create", path, io::ErrorKind::NotFound.into())),
            // It was gone before it had its mode, or before it was looked at.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) && tries < TRIES => {}
            Err(e) => return Err(Error::cache("create", path, e)),
        }
        thread::yield_now();
    }
}

/// Who looks for locks that killed ones have left holds them for a moment; that is nobody to be waited for with a sentence.
fn is_locked_soon(file: &File) -> io::Result<bool> {
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
    Ok(false)
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(private::FILE_MODE).open(path)
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = private::create_file(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|e| Error::cache("write", path, e))
}

/// Returns when the directory is on the disk.
pub(super) fn sync(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|e| Error::cache("write", path, e))
}

/// Errors of what runs use as well, with the remedies of a cache.
pub(super) fn in_cache(error: Error) -> Error {
    match error {
        Error::Io { doing, path, source } => Error::CacheIo { doing, path, source },
        other => other,
    }
}

/// An entry gets its name; what had it before is removed.
fn give_name(unfinished: Unfinished, place: &SchedulePlace) -> Result<()> {
    loop {
        if let Renamed::Yes = rename(&unfinished.path, place.path()).map_err(in_cache)? {
            unfinished.finished();
            return Ok(());
        }
        let Some(old) = removal::Alone::take(place)? else {
            continue;
        };
        match renameat_with(CWD, &unfinished.path, CWD, place.path(), RenameFlags::EXCHANGE) {
            // The old one has the unfinished one's name now, and goes with it.
            Ok(()) => return Ok(()),
            // File systems that cannot exchange names.
            Err(rustix::io::Errno::INVAL) => old.remove()?,
            Err(e) => return Err(Error::cache("replace", place.path(), e.into())),
        }
    }
}
