//! One run directory: what is in it, and how it becomes complete.
use crate::ControlFile;
use crate::ControlSetup;
use crate::Error;
use crate::META_VERSION;
use crate::Manifest;
use crate::Result;
use crate::RunMeta;
use crate::checked::encode;
use crate::checked::is_whole;
use crate::hash_file;
use crate::leftovers;
use crate::leftovers::PART;
use crate::private;
use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

const SEALED: &str = "run.json";
const RECORDING: &str = "recording.json";
/// The executable of a process that was executed, if that may be gone.
pub const PROGRAM: &str = "program";
/// What a program that was executed says of how it was, and where its files were.
const START_FILES: [&str; 5] = ["start", "arguments", "environment", "objects", "maps"];
/// What the program printed, as far as it is kept.
const OUTPUT_FILES: [&str; 2] = ["stdout", "stderr"];
const CONTROL: &str = "control";
/// `process-N`: the part of a process other than the first.
const PROCESS: &str = "process-";
/// `packed.json` and `packed-N`: what an unpacked run has beside the run itself.
pub(crate) const PACKED: &str = "packed";
/// No honest metadata is near this; a bigger file is not read into memory.
const META_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

/// How far the recording of a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Complete,
    /// The program is still running.
    Recording,
    /// The recorder was killed; logs are whole up to their last event, but nobody saw how the program ended.
    Interrupted,
}

impl RunDirectory {
    /// `path` must be absolute, because programs change their directory.
    pub(crate) fn at(path: PathBuf) -> RunDirectory {
        assert!(path.is_absolute(), "a run directory needs an absolute path: {path:?}");
        RunDirectory { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last part of the path: what `ls` prints.
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |n| n.to_string_lossy().into_owned())
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn thread_log(&self, thread: u32) -> PathBuf {
        self.path.join(format!("thread-{thread}.log"))
    }

    /// What system calls brought in.
    pub fn thread_inputs(&self, thread: u32) -> PathBuf {
        self.path.join(format!("thread-{thread}.inputs"))
    }

    /// The part of another process of the run.
    pub fn process(&self, number: u32) -> RunDirectory {
        RunDirectory::at(self.path.join(format!("{PROCESS}{number}")))
    }

    /// If this is the part of a process: the whole run, and the process's number.
    pub fn whole(&self) -> Option<(RunDirectory, u32)> {
        let number = process_number(self.path.file_name()?.to_str()?)?;
        let whole = RunDirectory::at(self.path.parent()?.to_owned());
        whole.holds_metadata().then_some((whole, number))
    }

    /// The numbers of the processes that have a part of the run, other than the first, in order.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let failed = |e| Error::io("read", &self.path, e);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let number = entry.file_name().to_str().and_then(process_number);
            if let Some(number) = number.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(crate) fn holds_metadata(&self) -> bool {
        self.file(SEALED).is_file() || self.file(RECORDING).is_file()
    }

    /// Creates the control file, locked: as long as the recorder or its program lives, the run counts as recording.
    pub fn create_control(&self, setup: &ControlSetup<'_>) -> Result<ControlFile> {
        let path = self.file(CONTROL);
        let file = private::create_file(&path).map_err(|e| Error::io("create", &path, e))?;
        file.lock().map_err(|e| Error::io("lock", &path, e))?;
        ControlFile::initialise(file, &path, setup)
    }

    pub fn control(&self) -> Result<ControlFile> {
        ControlFile::open(&self.file(CONTROL))
    }

    /// Writes `recording.json`: from now on the directory is a run.
    pub fn begin(&self, meta: &RunMeta) -> Result<()> {
        write_whole(&self.file(RECORDING), &encode(meta))
    }

    /// Makes the run complete. After this returns it stays so, whatever happens to the machine.
    pub fn seal(&self, meta: &RunMeta) -> Result<()> {
        self.seal_after(meta, sync)?;
        sync(&self.path)
    }

    /// The same for a part of a run, of which there may be thousands. It need not be on the disk before the run is: like the logs, which are all
    /// that could not be found out again, it gets there in time, or is lost with them.
    pub fn seal_part(&self, meta: &RunMeta) -> Result<()> {
        self.seal_after(meta, |_| Ok(()))
    }

    fn seal_after(&self, meta: &RunMeta, settle: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let ending = meta.ending.as_ref().expect("a run is sealed with its ending");
        (0..ending.threads).for_each(|thread| give_back_room(&self.thread_inputs(thread)));
        let (from, to) = (self.file(RECORDING), self.file(SEALED));
        write_whole(&from, &encode(meta))?;
        settle(&from)?;
        fs::rename(&from, &to).map_err(|e| Error::io("rename to run.json", &from, e))
    }

    /// The metadata and whether it is final.
    pub fn load(&self) -> Result<(RunMeta, RunState)> {
        let sealed = self.file(SEALED);
        if let Some(meta) = read_meta(&sealed)? {
            if meta.ending.is_none() {
                return Err(Error::corrupt(
                    &sealed,
                    "field ending",
                    "how the program ended",
                    "nothing",
                ));
            }
            return Ok((meta, RunState::Complete));
        }
        match read_meta(&self.file(RECORDING))? {
            Some(meta) if self.is_locked()? => Ok((meta, RunState::Recording)),
            Some(meta) => Ok((meta, RunState::Interrupted)),
            None => Err(Error::NotARun {
                path: self.path.clone(),
            }),
        }
    }

    /// The checksums of files that say how the program was started, and of what it printed, as far as there are any.
    pub fn checksums(&self) -> Result<BTreeMap<String, String>> {
        let names = START_FILES.iter().chain(&OUTPUT_FILES);
        let names = names.filter(|name| self.file(name).is_file());
        names
            .map(|name| Ok(((*name).to_owned(), hash_file(&self.file(name))?.0)))
            .collect()
    }

    /// Refuses a run in which one of the files that say how the program was started is another than was recorded.
    pub fn check_files(&self, meta: &RunMeta) -> Result<()> {
        self.check_those(meta, &START_FILES)
    }

    /// The same for what it printed, which may be much: for those who compare it.
    pub fn check_output(&self, meta: &RunMeta) -> Result<()> {
        self.check_those(meta, &OUTPUT_FILES)
    }

    fn check_those(&self, meta: &RunMeta, names: &[&str]) -> Result<()> {
        for (name, recorded) in meta.files.iter().filter(|(name, _)| names.contains(&name.as_str())) {
            let path = self.file(name);
            let (found, _) = hash_file(&path)?;
            if found != *recorded {
                return Err(Error::corrupt(&path, "checksum", recorded.as_str(), found));
            }
        }
        Ok(())
    }

    /// What an unpacked run brought along; `None` for a run that was recorded here.
    pub fn packed(&self) -> Result<Option<Manifest>> {
        let path = self.file(&format!("{PACKED}.json"));
        let Some(bytes) = read_bounded(&path)? else {
            return Ok(None);
        };
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|e| Error::corrupt(&path, format!("line {}", e.line()), "a manifest in JSON", e.to_string()))?;
        match manifest.check() {
            Ok(()) => Ok(Some(manifest)),
            Err([place, expected, found]) => Err(Error::corrupt(&path, place, expected, found)),
        }
    }

    /// The copy of the file with this number in the manifest.
    pub fn packed_file(&self, number: usize) -> PathBuf {
        self.path.join(format!("{PACKED}-{number}"))
    }

    /// The files that make up the run, by name: what is packed.
    pub(crate) fn member_names(&self) -> Result<Vec<String>> {
        let names = self.own_files()?.0.into_iter();
        let names = names.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| is_member_name(name)).collect();
        names.sort();
        for number in self.processes()? {
            let members = self.process(number).member_names()?;
            names.extend(members.iter().map(|name| format!("{PROCESS}{number}/{name}")));
        }
        Ok(names)
    }

    fn is_locked(&self) -> Result<bool> {
        let path = self.file(CONTROL);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", &path, e)),
        }
    }

    /// Bytes the run takes on disk. Logs are allocated ahead and sparse, so this is not the sum of lengths.
    pub fn disk_bytes(&self) -> Result<u64> {
        let failed = |e| Error::io("read", &self.path, e);
        let mut bytes = 0;
        for number in self.processes()? {
            bytes += self.process(number).disk_bytes()?;
        }
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            // A file that vanishes meanwhile takes no space.
            if let Ok(metadata) = entry.map_err(failed)?.metadata() {
                bytes += metadata.blocks() * 512;
            }
        }
        Ok(bytes)
    }

    /// Deletes the files of the recording but keeps the directory and so its name, for the next attempt; and the metadata, so that it is a run at
    /// any time.
    pub fn clear(&self) -> Result<()> {
        self.clear_but(|path| path.ends_with(RECORDING))
    }

    fn clear_but(&self, is_kept: impl Fn(&Path) -> bool) -> Result<()> {
        for path in self.own_files()?.0.into_iter().filter(|path| !is_kept(path)) {
            fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
        for number in self.processes()? {
            self.process(number).remove_all()?;
        }
        Ok(())
    }

    /// Deletes the directory with the files of ours in it.
    fn remove_all(&self) -> Result<()> {
        let foreign = self.own_files()?.1;
        self.clear_but(|_| false)?;
        if let Some(example) = foreign.first() {
            let example = example.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(Error::ForeignFiles {
                path: self.path.clone(),
                example,
            });
        }
        fs::remove_dir(&self.path).map_err(|e| Error::io("remove", &self.path, e))
    }

    /// Deletes the run, which goes under its name at once. Files this tool did not write are left where they are, and reported.
    pub fn remove(&self) -> Result<()> {
        let in_use = || Error::InUse {
            path: self.path.clone(),
        };
        let directory = File::open(&self.path).map_err(|e| Error::io("remove", &self.path, e))?;
        if directory.try_lock().is_err() || (self.holds_metadata() && self.is_locked()?) {
            return Err(in_use());
        }
        self.remove_held()
    }

    /// The same, by who holds the lock.
    pub fn remove_held(&self) -> Result<()> {
        if self.holds_foreign_files()? {
            return self.remove_all();
        }
        match self.hide() {
            Some(hidden) => RunDirectory::at(hidden).remove_all(),
            None => self.remove_all(),
        }
    }

    fn holds_foreign_files(&self) -> Result<bool> {
        let mut is_one = !self.own_files()?.1.is_empty();
        for number in self.processes()? {
            is_one |= !self.process(number).own_files()?.1.is_empty();
        }
        Ok(is_one)
    }

    /// Takes the run's name away, so that it is there in full or not at all: NOTE [Leftovers]. `None`: it cannot be renamed.
    fn hide(&self) -> Option<PathBuf> {
        let name = format!("{}removed-{}-{}", leftovers::HIDDEN, std::process::id(), self.name());
        let hidden = self.path.parent()?.join(name);
        leftovers::note(&hidden);
        fs::rename(&self.path, &hidden).ok()?;
        Some(hidden)
    }

    /// The directory's entries: ours, metadata first (an interrupted removal is then no run any more), and others.
    fn own_files(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let failed = |e| Error::io("read", &self.path, e);
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_file = entry.file_type().map_err(failed)?.is_file();
            match entry.file_name().to_str() {
                Some(name) if is_file && is_own_name(name) => own.push(entry.path()),
                // They are directories of their own.
                Some(name) if !is_file && process_number(name).is_some() => {}
                _ => foreign.push(entry.path()),
            }
        }
        own.sort_by_key(|path| path.extension().is_none_or(|extension| extension != "json"));
        foreign.sort();
        Ok((own, foreign))
    }
}

fn is_own_name(name: &str) -> bool {
    let is_packed = name
        .strip_prefix(PACKED)
        .is_some_and(|rest| rest == ".json" || rest.strip_prefix('-').is_some_and(is_number));
    is_member_name(name) || is_packed || name.ends_with(PART)
}

/// The files of a recording, without what a process was writing when it died and what came out of an archive.
pub(crate) fn is_member_name(name: &str) -> bool {
    if let Some((process, name)) = name.split_once('/') {
        return process_number(process).is_some() && !name.contains('/') && is_member_name(name);
    }
    const NAMES: [&str; 26] = [
        SEALED,
        RECORDING,
        CONTROL,
        "stdout",
        "stderr",
        "objects",
        "changes",
        "maps",
        "start",
        "arguments",
        "environment",
        runtime_abi::REDACTED_FILE_NAME,
        PROGRAM,
        "schedule",
        "schedule.json",
        "turns",
        "family",
        "moves",
        "pauses",
        "search",
        runtime_abi::vectors_file::CHOSEN_FILE_NAME,
        runtime_abi::vectors_file::ELEMENTS_FILE_NAME,
        runtime_abi::vectors_file::VECTORS_FILE_NAME,
        runtime_abi::vectors_file::FOLLOWED_FILE_NAME,
        runtime_abi::vectors_file::FRAMES_FILE_NAME,
        runtime_abi::vectors_file::SOURCES_FILE_NAME,
    ];
    let is_log = name
        .strip_prefix("thread-")
        .and_then(|rest| rest.strip_suffix(".log").or_else(|| rest.strip_suffix(".inputs")))
        .is_some_and(is_number);
    NAMES.contains(&name) || is_log
}

/// Is this the name of the part of a process?
pub(crate) fn is_process_name(name: &str) -> bool {
    process_number(name).is_some()
}

fn process_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PROCESS).filter(|digits| is_number(digits))?;
    // One spelling for each number.
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

fn is_number(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The size of the file that holds this.
pub fn encoded_bytes(meta: &RunMeta) -> u64 {
    encode(meta).len() as u64
}

/// The first version of the metadata that has a checksum: [`crate::checked`].
const CHECKED_SINCE: u64 = 2;

/// Writes a file of which other processes see nothing, the old one, or the new one in full: never half of it.
/// It is not yet safe from a crash of the machine.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_whole_with(path, |file| file.write_all(bytes))
}

/// The same for a file that is not held in memory.
pub fn write_whole_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    // The process id keeps two replays that compute the same file at the same time apart.
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}{PART}", std::process::id()));
    let part = PathBuf::from(part);
    if let Some(folder) = path.parent() {
        leftovers::note(folder);
    }
    let failed = |e| Error::io("write", path, e);
    let written = create_part(&part).and_then(|mut file| {
        write(&mut file)?;
        fs::rename(&part, path)
    });
    if let Err(e) = written {
        // Nothing to report if this fails as well: the first error is the one that matters.
        let _ = fs::remove_file(&part);
        return Err(failed(e));
    }
    Ok(())
}

/// What somebody with this process's number has left there is in the way.
pub(crate) fn create_part(part: &Path) -> io::Result<File> {
    match fs::remove_file(part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    private::create_file(part)
}

/// Removes what processes that are gone had begun to write as `path`.
pub fn remove_abandoned_parts(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    // Best effort: what cannot be removed is in nobody's way, and goes with the run.
    leftovers::remove_parts(folder, |part| part == name);
}

/// Gives back what was allocated for a file ahead and is not used. If that cannot be, it stays.
fn give_back_room(path: &Path) {
    const BLOCK_BYTES: u64 = 512;
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    if metadata.blocks() * BLOCK_BYTES > metadata.len() {
        _ = OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(metadata.len()));
    }
}

/// Returns when the file (or directory) is on the disk.
fn sync(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|e| Error::io("write", path, e))
}

/// A file that is held in memory; `None` if there is none.
fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>> {
    let failed = |e| Error::io("read", path, e);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut bytes = Vec::new();
    file.take(META_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > META_BYTES_MAX {
        return Err(Error::corrupt(
            path,
            "size",
            format!("at most {META_BYTES_MAX} bytes"),
            "more",
        ));
    }
    Ok(Some(bytes))
}

fn read_meta(path: &Path) -> Result<Option<RunMeta>> {
    let Some(bytes) = read_bounded(path)? else {
        return Ok(None);
    };
    // The version first: a newer layout must be named as such, not as a missing field.
    let malformed = |e: serde_json::Error| {
        let place = format!("line {} column {}", e.line(), e.column());
        Error::corrupt(path, place, "metadata of a run in JSON", e.to_string())
    };
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(malformed)?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        None => return Err(Error::corrupt(path, "field version", "a number", "none")),
        Some(found) if found > u64::from(META_VERSION) => {
            let known = u64::from(META_VERSION);
            return Err(Error::Newer {
                file: path.to_owned(),
                what: "metadata version",
                found,
                known,
            });
        }
        Some(version) => match is_whole(&bytes) {
            Some(true) => {}
            None if version < CHECKED_SINCE => {}
            _ => {
                return Err(Error::corrupt(
                    path,
                    "checksum",
                    "that of the metadata that was written",
                    "another",
                ));
            }
        },
    }
    let meta: RunMeta = serde_json::from_slice(&bytes).map_err(malformed)?;
    if meta.argv.is_empty() {
        return Err(Error::corrupt(
            path,
            "field argv",
            "at least the program's name",
            "nothing",
        ));
    }
    Ok(Some(meta))
}
