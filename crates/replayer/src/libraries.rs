//! The files a run depends on: its executable, and the shared libraries it had mapped.
use crate::Error;
use crate::Result;
use crate::stage::Stage;
use crate::sys;
use run_store::Entry;
use run_store::FileIdentity;
use run_store::Manifest;
use run_store::PROGRAM;
use run_store::RunDirectory;
use run_store::RunMeta;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

/// The libraries whose code was mapped when the program started or that registered sites later, with their hashes.
pub fn used_by(run: &RunDirectory, executable: &Path) -> Result<Vec<FileIdentity>> {
    let mut paths = BTreeSet::new();
    let maps = read_or_empty(&run.file("maps"))?;
    paths.extend(maps.split(|byte| *byte == b'\n').filter_map(mapped_code));
    let objects = read_or_empty(&run.file("objects"))?;
    let listed = objects
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.splitn(3, |byte| *byte == b' ').nth(2));
    paths.extend(
        listed
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .filter(|path| path.is_absolute()),
    );
    let mut libraries = Vec::new();
    for path in paths.iter().filter(|path| *path != executable) {
        // A library that was deleted while the program ran cannot be named by a hash; replay will say it is missing.
        let (hash, bytes) = match run_store::hash_file_once(path) {
            Ok(identity) => identity,
            Err(_) => ("unknown".to_owned(), 0),
        };
        libraries.push(FileIdentity {
            path: path.clone().into_os_string().into(),
            hash,
            bytes,
        });
    }
    Ok(libraries)
}

/// Makes sure that the program will find the files it was recorded with. They are where they were, or the run has
/// copies of them and the stage says where those are to appear; `None` if all is in place.
///
/// `metas`: of the run's processes, the first one first.
pub fn provide(run: &RunDirectory, metas: &[&RunMeta]) -> Result<Option<Stage>> {
    let manifest = run.packed()?;
    let is_packed = |file: &FileIdentity| {
        let path = Path::new(file.path.as_os_str());
        manifest
            .as_ref()
            .is_some_and(|manifest| manifest.file_at(path).is_some())
    };
    // A forked process has its parent's.
    for meta in metas.iter().filter(|meta| !is_forked(meta)) {
        if !is_packed(&meta.executable) {
            check_one(&executable_of(run, meta), "the program")?;
        }
        for library in meta.libraries.iter().filter(|library| !is_packed(library)) {
            check_one(library, "the shared library")?;
        }
    }
    match &manifest {
        Some(manifest) => set_stage(run, metas, manifest),
        None => Ok(None),
    }
}

/// The executable, as it can be started now: where it was, or as the run has it. `run` is that of the first process.
pub fn executable_of(run: &RunDirectory, meta: &RunMeta) -> FileIdentity {
    let process = meta.process.as_ref().filter(|process| process.has_program);
    match process {
        Some(process) if check_one(&meta.executable, "").is_err() => FileIdentity {
            path: run.process(process.number).file(PROGRAM).into_os_string().into(),
            ..meta.executable.clone()
        },
        _ => meta.executable.clone(),
    }
}

pub fn is_forked(meta: &RunMeta) -> bool {
    let process = meta.process.as_ref();
    process.is_some_and(|process| process.forked_by.is_some())
}

/// Whatever is not the same here as where the run was packed.
fn set_stage(run: &RunDirectory, metas: &[&RunMeta], manifest: &Manifest) -> Result<Option<Stage>> {
    let mut stage = Stage::default();
    for (number, entry) in manifest.files() {
        let aliases = manifest.aliases.iter().filter(|alias| alias.entry == entry.path);
        let names = entry.original.iter().chain(aliases.map(|alias| &alias.path));
        let copy = run.packed_file(number);
        let placement = Placement::choose(entry, &copy);
        let mut is_good = false;
        for path in names.map(|name| Path::new(name.as_os_str())) {
            if is_same(path, entry) && placement.is_as_good_at(path) {
                continue;
            }
            if !is_good {
                check_copy(run, number, entry)?;
                is_good = true;
            }
            stage.put_file(path, &copy);
            if placement == Placement::Memory {
                stage.keep_in_memory(&copy);
            }
        }
    }
    for meta in metas {
        stage.put_directory(Path::new(meta.cwd.as_os_str()));
    }
    Ok((!stage.is_empty()).then_some(stage))
}

/// From where a packed library is mapped, so that it comes to lie where it lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// Where it was packed, mappings were aligned to huge pages, and those of the copy are.
    AlignedCopy,
    /// They were not, and those of the copy are not.
    UnalignedCopy,
    /// They were not, but those of the copy are: it has to be mapped from elsewhere.
    Memory,
    /// Not known, or nothing can be done about it here.
    Anywhere,
}

impl Placement {
    fn choose(entry: &Entry, copy: &Path) -> Placement {
        let Some(then) = entry.huge_aligned else {
            return Placement::Anywhere;
        };
        match (then, sys::is_huge_aligned(copy)) {
            (true, Some(true)) => Placement::AlignedCopy,
            (false, Some(false)) => Placement::UnalignedCopy,
            (false, Some(true)) => Placement::Memory,
            (true, Some(false)) | (_, None) => Placement::Anywhere,
        }
    }

    /// Would the file here come to lie where the copy does?
    fn is_as_good_at(self, path: &Path) -> bool {
        match self {
            Placement::Anywhere => true,
            Placement::AlignedCopy => sys::is_huge_aligned(path) != Some(false),
            Placement::UnalignedCopy | Placement::Memory => sys::is_huge_aligned(path) != Some(true),
        }
    }
}

fn is_same(path: &Path, entry: &Entry) -> bool {
    let is_long_enough = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == entry.bytes);
    is_long_enough && run_store::hash_file(path).is_ok_and(|(hash, _)| hash == entry.hash)
}

/// Is the copy in an unpacked run still what came out of the archive?
pub fn check_copy(run: &RunDirectory, number: usize, entry: &Entry) -> Result<()> {
    let path = run.packed_file(number);
    let (hash, _) = run_store::hash_file(&path)?;
    if hash == entry.hash {
        return Ok(());
    }
    let expected = format!("the packed copy of {}", entry.original.clone().unwrap_or_default());
    Err(run_store::Error::corrupt(&path, "content", expected, "something else").into())
}

pub fn check_one(recorded: &FileIdentity, what: &'static str) -> Result<()> {
    let path = Path::new(recorded.path.as_os_str());
    let (hash, bytes) = match run_store::hash_file_once(path) {
        Ok(found) => found,
        Err(run_store::Error::Io { source, .. }) => {
            return Err(Error::Gone {
                path: recorded.path.clone(),
                what,
                source,
            });
        }
        Err(other) => return Err(other.into()),
    };
    if hash == recorded.hash {
        return Ok(());
    }
    let describe = |bytes: u64, hash: &str| format!("{bytes} bytes, hash {}", hash.get(..16).unwrap_or(hash));
    Err(Error::Changed {
        path: recorded.path.clone(),
        what,
        recorded: describe(recorded.bytes, &recorded.hash),
        found: describe(bytes, &hash),
    })
}

/// A file that lay elsewhere when the run was recorded: its name, the old and the new address.
pub fn first_moved(run: &RunDirectory, maps_now: &[u8]) -> Option<(String, u64, u64)> {
    let then = start_addresses(&read_or_empty(&run.file("maps")).ok()?);
    let now = start_addresses(maps_now);
    let mut moved = then.into_iter().filter_map(|(path, then)| {
        let now = *now.get(&path)?;
        (now != then).then(|| (String::from_utf8_lossy(&path).into_owned(), then, now))
    });
    moved.next()
}

/// The lowest address of each mapped file, and of the kernel's own code. By names without folders: the kernel spells the
/// paths of a process on a stage as seen from outside.
fn start_addresses(maps: &[u8]) -> BTreeMap<Vec<u8>, u64> {
    let mut addresses = BTreeMap::new();
    for line in maps.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let start = fields.next().and_then(|range| range.split(|byte| *byte == b'-').next());
        let start = start.and_then(|start| u64::from_str_radix(std::str::from_utf8(start).ok()?, 16).ok());
        let (Some(start), Some(path)) = (start, fields.nth(4)) else {
            continue;
        };
        let path = path.trim_ascii();
        if path.starts_with(b"/") || path == b"[vdso]" {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            addresses.entry(name.to_vec()).or_insert(start);
        }
    }
    addresses
}

/// The file of a line of /proc/PID/maps, if it is mapped as code.
fn mapped_code(line: &[u8]) -> Option<PathBuf> {
    // address permissions offset device inode path; the path may contain spaces.
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let permissions = fields.nth(1)?;
    let path = fields.nth(3)?.trim_ascii();
    let is_code = permissions.get(2) == Some(&b'x');
    (is_code && path.starts_with(b"/") && !path.ends_with(b" (deleted)"))
        .then(|| PathBuf::from(OsStr::from_bytes(path)))
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|e| run_store::Error::io("read", path, e).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_first_mappings() {
        let maps = b"55550000-55551000 r--p 0 fe:00 1    /bin/a b\n55551000-55552000 r-xp 0 fe:00 1    /bin/a b\n\
                     7ff0-7ff1 rw-p 0 00:00 0 \n7ff2-7ff3 r-xp 0 00:00 0    [vdso]\nnonsense\n\n";
        let found = start_addresses(maps);
        let expected = [(b"a b".to_vec(), 0x5555_0000), (b"[vdso]".to_vec(), 0x7ff2)];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn code_is_found_in_maps() {
        let path = |line: &str| mapped_code(line.as_bytes()).map(|p| p.display().to_string());
        let code = "7ffff7c28000-7ffff7d9d000 r-xp 00028000 fd:00 1234                       /lib/a b/libc.so.6";
        assert_eq!(path(code).as_deref(), Some("/lib/a b/libc.so.6"));
        assert_eq!(
            path("7ffff7c28000-7ffff7d9d000 r--p 00028000 fd:00 1234   /lib/libc.so.6"),
            None
        );
        assert_eq!(
            path("7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0      [vdso]"),
            None
        );
        assert_eq!(path("7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0 "), None);
        assert_eq!(
            path("7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 9 /x (deleted)"),
            None
        );
        assert_eq!(path(""), None);
    }
}
