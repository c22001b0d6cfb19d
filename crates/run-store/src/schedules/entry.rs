//! One entry: where it is, and what is in it.
use super::meta::FileSum;
use super::meta::META_BYTES_MAX;
use super::meta::ScheduleFile;
use super::meta::ScheduleMeta;
use super::owned;
use crate::Error;
use crate::Result;
use crate::leftovers::is_still_there;
use runtime_abi::ABI_VERSION;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

pub(super) const META: &str = "schedule.json";

/// A directory with the name of an entry, whatever is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePlace {
    path: PathBuf,
}

impl SchedulePlace {
    pub(super) fn at(path: PathBuf) -> SchedulePlace {
        SchedulePlace { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `ls` prints.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The name of the directory that it is in: the program's, and a part of the hash of its build.
    pub fn folder(&self) -> String {
        let folder = self.path.parent().and_then(Path::file_name);
        folder.unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn metadata(&self) -> PathBuf {
        self.path.join(META)
    }

    pub(super) fn file(&self, file: ScheduleFile) -> PathBuf {
        self.path.join(file.name())
    }
}

/// An entry whose bytes, as far as somebody looks at them, are those that were written. As long as it lives, nobody removes or replaces its files, unless it is sealed.
#[derive(Debug)]
pub struct ScheduleEntry {
    place: SchedulePlace,
    meta: ScheduleMeta,
    /// Nobody runs with a sealed one.
    _lock: Option<File>,
}

impl ScheduleEntry {
    /// `None`: there is none. Those of its files are read and compared that `is_needed`; others when somebody reads them.
    pub(super) fn open(place: &SchedulePlace, is_needed: fn(ScheduleFile) -> bool) -> Result<Option<ScheduleEntry>> {
        let Some(directory) = owned::directory(&place.path)? else {
            return Ok(None);
        };
        // Whoever has it alone is about to remove it.
        directory
            .lock_shared()
            .map_err(|e| Error::cache("lock", &place.path, e))?;
        if !is_still_there(&place.path, &directory) {
            return ScheduleEntry::open(place, is_needed);
        }
        let meta = read_meta(place)?;
        for (file, sum) in meta.files.iter().filter(|(file, _)| is_needed(**file)) {
            read_whole(&place.file(*file), sum, |_| {})?;
        }
        let lock = meta.learned.sealed.is_none().then_some(directory);
        Ok(Some(ScheduleEntry {
            place: place.clone(),
            meta,
            _lock: lock,
        }))
    }

    pub fn name(&self) -> String {
        self.place.name()
    }

    pub fn place(&self) -> &SchedulePlace {
        &self.place
    }

    pub fn meta(&self) -> &ScheduleMeta {
        &self.meta
    }

    /// Where a file is, for who maps it; `None` if the entry has none of that name.
    pub fn path_of(&self, file: ScheduleFile) -> Option<PathBuf> {
        self.meta.files.contains_key(&file).then(|| self.place.file(file))
    }

    /// The bytes that were written; `None` if the entry has no file of that name.
    pub fn read(&self, file: ScheduleFile) -> Result<Option<Vec<u8>>> {
        let Some(sum) = self.meta.files.get(&file) else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        read_whole(&self.place.file(file), sum, |part| bytes.extend_from_slice(part))?;
        Ok(Some(bytes))
    }
}

/// Everything that is wrong with what is there.
pub(super) fn check(place: &SchedulePlace) -> Vec<Error> {
    let found = owned::directory(place.path()).and_then(|found| found.map(|_| read_meta(place)).transpose());
    let meta = match found {
        Ok(Some(meta)) => meta,
        // It is gone, and nothing can be wrong with it.
        Ok(None) => return Vec::new(),
        Err(error) => return vec![error],
    };
    let checked = meta
        .files
        .iter()
        .map(|(file, sum)| read_whole(&place.file(*file), sum, |_| {}));
    checked.filter_map(Result::err).collect()
}

/// The metadata of an entry of this version of the tool, at the place where it belongs.
pub(super) fn read_meta(place: &SchedulePlace) -> Result<ScheduleMeta> {
    let meta = read_anywhere(&place.metadata())?;
    let (folder, name) = (meta.key.folder(), meta.key.name());
    if (place.folder().as_str(), place.name().as_str()) != (folder.as_str(), name) {
        let expected = format!("the metadata of {}/{}", place.folder(), place.name());
        let found = format!("that of {folder}/{name}");
        return Err(Error::corrupt(&place.metadata(), "field key", expected, found));
    }
    Ok(meta)
}

/// The metadata of an entry of this version of the tool that has no place yet.
pub(super) fn read_anywhere(path: &Path) -> Result<ScheduleMeta> {
    let missing = || Error::corrupt(path, "file", "the metadata of a schedule", "nothing");
    let (file, _) = owned::file(path)?.ok_or_else(missing)?;
    let mut bytes = Vec::new();
    file.take(META_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::cache("read", path, e))?;
    let meta = ScheduleMeta::decode(&bytes, path)?;
    if meta.abi_version != ABI_VERSION {
        let expected = format!("{ABI_VERSION}, as this build of refrain has it");
        let found = format!("{} of refrain {}", meta.abi_version, meta.refrain);
        return Err(Error::corrupt(path, "interface of the runtime", expected, found));
    }
    Ok(meta)
}

/// Passes the bytes of a file on. They are those that were written only if `Ok` comes back.
pub(super) fn read_whole(path: &Path, sum: &FileSum, mut pass: impl FnMut(&[u8])) -> Result<()> {
    let Some((mut file, length)) = owned::file(path)? else {
        return Err(Error::corrupt(path, "file", format!("{} bytes", sum.bytes), "nothing"));
    };
    if length != sum.bytes {
        let (expected, found) = (format!("{} bytes", sum.bytes), length.to_string());
        return Err(Error::corrupt(path, "length", expected, found));
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut left = sum.bytes;
    while left > 0 {
        let part = &mut buffer[..left.min(1 << 16) as usize];
        file.read_exact(part).map_err(|e| Error::cache("read", path, e))?;
        hasher.update(part);
        pass(part);
        left -= part.len() as u64;
    }
    let found = hasher.finalize().to_hex();
    if found.as_str() != sum.hash {
        return Err(Error::corrupt(path, "checksum", sum.hash.as_str(), found.as_str()));
    }
    Ok(())
}
