//! The cache of schedules: what deterministic runs have learned, found again by program, arguments and environment.
//!
//! NOTE [Cache of schedules]
//!
//! ```text
//! ROOT/PROGRAM-BUILD/KEY/       an entry; BUILD and KEY are 16 digits of a hash
//!     schedule.json             ScheduleMeta: for what it was learned, by whom; length and hash of the files beside it; its own checksum
//!     hybrid schedule points own_steps steps inputs       as far as there are any; the cache does not look into them
//! ROOT/PROGRAM-BUILD/KEY.lock   held by who learns this entry; without a holder it means nothing
//! ```
//!
//! An entry is written under a hidden name and renamed, so it is there in full or not at all; what killed writers leave is removed by the next
//! `learn` or `list` (NOTE [Leftovers]). Locks are the kernel's (`flock`), which takes them back when their holder dies:
//! - `KEY.lock`: one process learns an entry, others wait for it and look again ([`LearnGuard`]). Who is done removes the file while it has the lock; who
//!   gets the lock of a removed file begins anew. So a name has one holder.
//! - The entry's directory: shared by who uses the entry ([`ScheduleEntry`]), because the runtime opens its files by their names; alone by who removes or replaces it.
//!
//! A schedule decides what programs do. So an entry that is damaged, that another version wrote, or that others may have written is refused
//! by a sentence ([`owned`]), never taken for one that is not there. No name from a file is followed: where an entry belongs is computed from its key.
mod archive;
mod entry;
mod key;
mod learn;
mod meta;
pub(crate) mod owned;
mod removal;
mod unpack;
mod why;

pub use archive::PackedMember;
pub use archive::ScheduleArchive;
pub use entry::ScheduleEntry;
pub use entry::SchedulePlace;
pub use key::Build;
pub use key::ScheduleKey;
pub use key::Variable;
pub use learn::LearnGuard;
pub use meta::Learned;
pub use meta::Library;
pub use meta::SCHEDULE_FILE_BYTES_MAX;
pub use meta::SCHEDULE_VERSION;
pub use meta::ScheduleFile;
pub use meta::ScheduleMeta;
pub use unpack::UnpackedSchedules;
pub use why::Nearest;
pub use why::OtherArgument;
pub use why::OtherVariable;
pub use why::Others;
pub use why::Unlike;

use crate::Error;
use crate::Result;
use crate::Store;
use key::NAME_DIGITS;
use key::is_name;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::path::absolute;

/// The cache's directory in the place where runs live.
const FOLDER: &str = "schedules";

#[derive(Clone, Debug)]
pub struct ScheduleCache {
    root: PathBuf,
    /// Where nobody has to say which one is meant.
    is_default: bool,
}

/// What the cache has for a key.
#[derive(Debug)]
pub enum Lookup {
    /// A schedule to be enforced. As long as the entry lives, nobody removes its files.
    Hit(ScheduleEntry),
    /// A schedule that cannot be used again; `meta().learned.sealed` says why.
    Sealed(ScheduleEntry),
    Miss,
}

impl ScheduleCache {
    /// The cache of `--cache DIR`, else `schedules` where runs live: [`Store::from_environment`].
    pub fn from_environment(cache: Option<&Path>) -> Result<ScheduleCache> {
        match cache {
            Some(root) => ScheduleCache::at(root),
            None => Ok(ScheduleCache {
                root: Store::from_environment()?.root().join(FOLDER),
                is_default: true,
            }),
        }
    }

    pub fn at(root: &Path) -> Result<ScheduleCache> {
        let root = absolute(root).map_err(|e| Error::cache("use", root, e))?;
        let is_default = false;
        Ok(ScheduleCache { root, is_default })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every byte that a program would run by was compared with its checksum.
    pub fn lookup(&self, key: &ScheduleKey) -> Result<Lookup> {
        let folder = self.folder(key);
        if owned::root(&self.root)?.is_none() || owned::directory(&folder)?.is_none() {
            return Ok(Lookup::Miss);
        }
        let place = self.place(key);
        let Some(entry) =
            ScheduleEntry::open(&place, ScheduleFile::is_enforced).map_err(|error| self.advise(&place, error))?
        else {
            return Ok(Lookup::Miss);
        };
        if entry.meta().key.hash() != key.hash() {
            let found = entry.meta().key.hash().to_owned();
            let error = Error::corrupt(&place.metadata(), "field hash of the key", key.hash(), found);
            return Err(self.advise(&place, error));
        }
        Ok(match entry.meta().learned.sealed {
            Some(_) => Lookup::Sealed(entry),
            None => Lookup::Hit(entry),
        })
    }

    /// Makes this process the one that learns the schedule. If another one does already, says so by `on_wait` and waits until that has ended:
    /// then [`LearnGuard::lookup`] may find what it learned.
    pub fn learn(&self, key: &ScheduleKey, on_wait: impl FnOnce()) -> Result<LearnGuard> {
        LearnGuard::take(self, key, on_wait)
    }

    /// All entries, whatever is in them, by program and name; without what killed processes have left. An absent cache has none.
    pub fn list(&self) -> Result<Vec<SchedulePlace>> {
        if owned::root(&self.root)?.is_none() {
            return Ok(Vec::new());
        }
        removal::sweep(self);
        let mut places = Vec::new();
        for folder in directories(&self.root, is_folder)? {
            owned::directory(&folder)?;
            let is_entry = |name: &str| is_name(name) && name.len() == NAME_DIGITS;
            places.extend(directories(&folder, is_entry)?.into_iter().map(SchedulePlace::at));
        }
        Ok(places)
    }

    /// The entry with this name, or whose name alone begins so.
    pub fn find(&self, name: &OsStr) -> Result<SchedulePlace> {
        let shown = || name.to_string_lossy().into_owned();
        let beginning = name.to_str().filter(|name| is_name(name));
        let beginning = beginning.ok_or_else(|| Error::BadScheduleName { name: shown() })?;
        let mut found = self
            .list()?
            .into_iter()
            .filter(|place| place.name().starts_with(beginning));
        match (found.next(), found.next()) {
            (Some(place), None) => Ok(place),
            (Some(one), Some(other)) => Err(Error::SeveralSchedules {
                name: shown(),
                examples: [one.name(), other.name()],
            }),
            (None, _) => Err(Error::NoSuchSchedule {
                name: shown(),
                root: self.root.clone(),
            }),
        }
    }

    /// The entry at a place, with every byte compared with its checksum.
    pub fn open(&self, place: &SchedulePlace) -> Result<ScheduleEntry> {
        let gone = || Error::NoSuchSchedule {
            name: place.name(),
            root: self.root.clone(),
        };
        let entry = ScheduleEntry::open(place, |_| true).map_err(|error| self.advise(place, error))?;
        entry.ok_or_else(gone)
    }

    /// What is known of the entry at a place, sealed or not; of its other files nothing is read.
    pub fn meta(&self, place: &SchedulePlace) -> Result<ScheduleMeta> {
        owned::directory(place.path())
            .and_then(|_| entry::read_meta(place))
            .map_err(|error| self.advise(place, error))
    }

    /// Everything that is wrong with an entry.
    pub fn check(&self, place: &SchedulePlace) -> Vec<Error> {
        let problems = entry::check(place).into_iter();
        problems.map(|error| self.advise(place, error)).collect()
    }

    /// Deletes an entry, whatever state it is in, unless a program runs with it; and nothing else that may be there.
    pub fn remove(&self, place: &SchedulePlace) -> Result<()> {
        removal::remove(place)
    }

    /// Writes entries, of which there must be one, into one file, which must not exist.
    pub fn pack(&self, entries: &[ScheduleEntry], output: &Path) -> Result<()> {
        archive::pack(entries, output)
    }

    /// Adds what [`ScheduleCache::pack`] has packed: all of it or nothing. What is there already stays.
    pub fn unpack(&self, archive: &Path) -> Result<UnpackedSchedules> {
        unpack::unpack(self, archive)
    }

    fn folder(&self, key: &ScheduleKey) -> PathBuf {
        self.root.join(key.folder())
    }

    fn place(&self, key: &ScheduleKey) -> SchedulePlace {
        SchedulePlace::at(self.folder(key).join(key.name()))
    }

    /// Says also what is to be done about a damaged or foreign entry.
    fn advise(&self, place: &SchedulePlace, error: Error) -> Error {
        if !matches!(error, Error::Corrupt { .. } | Error::Newer { .. }) {
            return error;
        }
        let cache = match self.is_default {
            true => String::new(),
            false => format!(" --cache {}", self.root.display()),
        };
        Error::Schedule {
            cause: Box::new(error),
            remedy: format!(
                "remove it with `refrain schedules rm {}{cache}`, and the next `refrain run` learns it again",
                place.name()
            ),
        }
    }
}

/// `PROGRAM-BUILD`
fn is_folder(name: &str) -> bool {
    let build = name.rsplit_once('-').map(|(_, build)| build);
    !name.starts_with('.') && build.is_some_and(|build| build.len() == NAME_DIGITS && is_name(build))
}

/// The directories of such names, sorted. Links are none.
fn directories(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let failed = |e: io::Error| Error::cache("read", folder, e);
    let mut paths = Vec::new();
    let entries = match fs::read_dir(folder) {
        // Somebody has removed the last entry in it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(paths),
        other => other.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name().to_str().is_some_and(&is_wanted) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}
