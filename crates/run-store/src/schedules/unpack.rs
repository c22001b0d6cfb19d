//! From an archive into a cache: all of it or nothing.
//!
//! Everything is written into a hidden directory of the cache and checked there. Then that gets another hidden name, `.refrain-ready-…`: from now on its
//! entries belong to the cache, and are moved to their places one by one. Whoever is killed before leaves nothing, whoever is killed
//! later leaves the rest to the next command (`removal::sweep`).
use super::ScheduleCache;
use super::archive::ScheduleArchive;
use super::entry;
use super::entry::META;
use super::entry::SchedulePlace;
use super::learn::in_cache;
use super::learn::make_owned;
use super::learn::sync;
use super::meta::ScheduleMeta;
use super::owned;
use super::removal;
use crate::Error;
use crate::Result;
use crate::leftovers;
use crate::leftovers::HIDDEN;
use crate::leftovers::Unfinished;
use crate::private;
use crate::store::Renamed;
use crate::store::rename;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

/// What came of the entries of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnpackedSchedules {
    pub added: Vec<SchedulePlace>,
    /// The cache had a schedule for the same key, which stays.
    pub there_before: Vec<SchedulePlace>,
}

pub(super) fn unpack(cache: &ScheduleCache, archive: &Path) -> Result<UnpackedSchedules> {
    let reader = open(archive)?;
    make_owned(&cache.root, owned::root)?;
    removal::sweep(cache);
    let failed = |e| Error::cache("create a directory in", &cache.root, e);
    let unfinished = Unfinished::create(&cache.root, "unpack").map_err(failed)?;
    let files = fill(reader, &unfinished.path)?;
    let mut folders = BTreeMap::new();
    for (number, names) in &files {
        let folder = unfinished.path.join(number.to_string());
        let meta = check(&folder, names).map_err(|error| of_archive(error, archive, *number))?;
        sync(&folder)?;
        let before = folders.insert(meta.key.hash().to_owned(), cache.folder(&meta.key));
        if before.is_some() {
            let place = format!("schedules/{number}");
            return Err(Error::corrupt(archive, place, "another key than before", "the same"));
        }
    }
    sync(&unfinished.path)?;
    let unpacked = hand_over(cache, unfinished, folders.values());
    if unpacked.is_err() {
        folders.values().for_each(|folder| removal::remove_if_empty(folder));
    }
    unpacked
}

/// Makes the checked entries the cache's.
fn hand_over<'a>(
    cache: &ScheduleCache,
    unfinished: Unfinished,
    folders: impl Iterator<Item = &'a PathBuf>,
) -> Result<UnpackedSchedules> {
    // There is room for the names before anything gets one.
    for folder in folders {
        make_owned(folder, owned::directory)?;
    }
    let ready = ready_path(&cache.root, &unfinished.path);
    leftovers::note(&ready);
    if let Renamed::NameTaken = rename(&unfinished.path, &ready).map_err(in_cache)? {
        // A process that had our number left it, and it could not be completed.
        return Err(Error::cache("create", &ready, io::ErrorKind::AlreadyExists.into()));
    }
    // Held until all are in their places.
    let _lock = unfinished.finished();
    let unpacked = complete(cache, &ready)?;
    sync(&cache.root)?;
    Ok(unpacked)
}

fn ready_path(root: &Path, unfinished: &Path) -> PathBuf {
    let name = unfinished
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let numbers = name.strip_prefix(HIDDEN).and_then(|rest| rest.split_once('-'));
    root.join(format!("{READY}{}", numbers.map_or("0", |(_, numbers)| numbers)))
}

/// How names of directories begin whose entries belong to the cache.
pub(super) const READY: &str = ".refrain-ready-";

fn open(archive: &Path) -> Result<ScheduleArchive<BufReader<File>>> {
    let failed = |e| Error::io("read", archive, e);
    let file = File::open(archive).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::NotSchedules {
            path: archive.to_owned(),
        });
    }
    ScheduleArchive::open(BufReader::new(file), metadata.len(), archive)
}

/// Writes every member into a directory for its entry, and says which these are.
fn fill(mut reader: ScheduleArchive<impl io::Read>, folder: &Path) -> Result<BTreeMap<usize, BTreeSet<String>>> {
    let mut files: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    loop {
        let mut written: Option<(File, PathBuf)> = None;
        let member = reader.copy_next(|member| {
            let directory = folder.join(member.schedule.to_string());
            if member.name == META {
                private::create_directory(&directory).map_err(|e| Error::cache("create", &directory, e))?;
            }
            let path = directory.join(&member.name);
            let failed = move |path: &Path, e| Error::cache("write", path, e);
            let file = private::create_file(&path).map_err(|e| failed(&path, e))?;
            let (file, path) = written.insert((file, path));
            Ok(move |part: &[u8]| file.write_all(part).map_err(|e| failed(path, e)))
        })?;
        if let Some((file, path)) = written {
            file.sync_all().map_err(|e| Error::cache("write", &path, e))?;
        }
        let Some(member) = member else { break };
        files.entry(member.schedule).or_default().insert(member.name);
    }
    reader.finish()?;
    Ok(files)
}

/// Are these the files that the metadata speaks of?
fn check(folder: &Path, names: &BTreeSet<String>) -> Result<ScheduleMeta> {
    let metadata = folder.join(META);
    let meta = entry::read_anywhere(&metadata)?;
    let described: BTreeSet<&str> = meta.files.keys().map(|file| file.name()).chain([META]).collect();
    if !described.iter().eq(names.iter()) {
        let found = names.iter().cloned().collect::<Vec<_>>().join(", ");
        return Err(Error::corrupt(
            &metadata,
            "files",
            "those that the metadata names",
            found,
        ));
    }
    for (file, sum) in &meta.files {
        entry::read_whole(&folder.join(file.name()), sum, |_| {})?;
    }
    Ok(meta)
}

/// Nobody knows the directory yet, so what is wrong is said of the archive.
fn of_archive(error: Error, archive: &Path, number: usize) -> Error {
    match error {
        Error::Corrupt {
            file,
            place,
            expected,
            found,
        } => {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let place = format!("schedules/{number}/{name}: {place}");
            Error::corrupt(archive, place, expected, found)
        }
        Error::Newer { what, found, known, .. } => Error::Newer {
            file: archive.to_owned(),
            what,
            found,
            known,
        },
        other => other,
    }
}

/// Moves entries to their places. Whoever does it holds the lock of the directory.
pub(super) fn complete(cache: &ScheduleCache, ready: &Path) -> Result<UnpackedSchedules> {
    let mut unpacked = UnpackedSchedules::default();
    for directory in super::directories(ready, |name| name.bytes().all(|byte| byte.is_ascii_digit()))? {
        let meta = entry::read_anywhere(&directory.join(META))?;
        let place = cache.place(&meta.key);
        match give_place(cache, &meta, &directory, &place)? {
            Renamed::Yes => unpacked.added.push(place),
            Renamed::NameTaken => unpacked.there_before.push(place),
        }
    }
    fs::remove_dir_all(ready).map_err(|e| Error::cache("remove", ready, e))?;
    Ok(unpacked)
}

fn give_place(cache: &ScheduleCache, meta: &ScheduleMeta, from: &Path, to: &SchedulePlace) -> Result<Renamed> {
    loop {
        let folder = cache.folder(&meta.key);
        make_owned(&folder, owned::directory)?;
        match rename(from, to.path()) {
            // Somebody has removed the folder, because it was empty.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound && !folder.exists() => {}
            Err(error) => return Err(in_cache(error)),
            Ok(renamed) => {
                sync(&folder)?;
                return Ok(renamed);
            }
        }
    }
}
