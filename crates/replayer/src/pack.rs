//! What a run needs to be replayed elsewhere: its executable, its libraries, and the names the loader finds them by.
//!
//! Addresses come back only if the loader maps the same files in the same order, and it must find them by the same
//! names: `/lib64/ld-linux-x86-64.so.2` is in the executable, `libc.so.6` is looked up in search paths and in the
//! loader's cache. The cache is mapped while libraries are, so its length moves them: it is packed as well.
use crate::Error;
use crate::Result;
use crate::libraries;
use crate::loader::ElfFile;
use crate::processes;
use crate::sys;
use run_store::Contents;
use run_store::FileIdentity;
use run_store::FileToPack;
use run_store::Manifest;
use run_store::Missing;
use run_store::Role;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunState;
use run_store::Text;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

/// Files the loader reads beside programs and libraries.
const LOADER_FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/ld.so.preload"];
/// Where the loader looks when nothing else says where; which of these depends on the distribution.
const DEFAULT_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Packs a run and what it needs into the file `output`. That something is missing is in the manifest, unless it is
/// the executable itself: then there is nothing to pack.
pub fn pack(run: &RunDirectory, output: &Path) -> Result<Manifest> {
    let (meta, state) = run.load()?;
    if state == RunState::Recording {
        return Err(Error::BeingRecorded {
            path: run.path().to_owned(),
        });
    }
    let contents = match run.packed()? {
        Some(manifest) => unpacked_before(run, &manifest)?,
        None => gather(run, &meta, &processes::describe_all(run, &meta)?)?,
    };
    Ok(run_store::pack(run, &contents, output)?)
}

/// A run that came out of an archive goes into the next one with the same files.
fn unpacked_before(run: &RunDirectory, manifest: &Manifest) -> Result<Contents> {
    let mut contents = Contents {
        missing: manifest.missing.clone(),
        ..Contents::default()
    };
    for (number, entry) in manifest.files() {
        libraries::check_copy(run, number, entry)?;
        contents.files.push(FileToPack {
            role: entry.role,
            source: run.packed_file(number),
            original: entry.original.clone().unwrap_or_default(),
            build_id: entry.build_id.clone(),
            huge_aligned: entry.huge_aligned,
        });
    }
    for alias in &manifest.aliases {
        let mut files = manifest.files();
        if let Some((number, _)) = files.find(|(_, entry)| entry.path == alias.entry) {
            contents.aliases.push((alias.path.clone(), number));
        }
    }
    Ok(contents)
}

fn gather(run: &RunDirectory, meta: &RunMeta, processes: &BTreeMap<u32, RunMeta>) -> Result<Contents> {
    let executable = Path::new(meta.executable.path.as_os_str());
    libraries::check_one(&meta.executable, "the program")?;
    let mut gathered = Gathered::default();
    gathered.add_executable(executable);
    // An interrupted recording had no time to list them.
    let listed = match &meta.ending {
        Some(_) => meta.libraries.clone(),
        None => libraries::used_by(run, executable)?,
    };
    for library in &listed {
        gathered.add_library(library);
    }
    gathered.add_names(meta);
    // Programs that were executed; forked processes have their parents'.
    for meta in processes.values().filter(|meta| !libraries::is_forked(meta)) {
        for file in std::iter::once(&meta.executable).chain(&meta.libraries) {
            gathered.add_library(file);
        }
        gathered.add_names(meta);
    }
    for path in LOADER_FILES.map(Path::new) {
        if path.is_file() {
            gathered.add(Role::Support, path);
        }
    }
    Ok(gathered.finish())
}

#[derive(Default)]
struct Gathered {
    files: Vec<(Role, PathBuf)>,
    /// Every file by the path that has no links in it.
    numbers: BTreeMap<PathBuf, usize>,
    aliases: BTreeMap<PathBuf, usize>,
    missing: Vec<Missing>,
}

impl Gathered {
    fn add(&mut self, role: Role, path: &Path) {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let number = match self.numbers.get(&real) {
            Some(number) => *number,
            None => {
                self.files.push((role, real.clone()));
                self.numbers.insert(real.clone(), self.files.len() - 1);
                self.files.len() - 1
            }
        };
        if real != path {
            self.aliases.insert(path.to_owned(), number);
        }
    }

    /// Under the recorded path, whatever links have appeared in it since.
    fn add_executable(&mut self, path: &Path) {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.numbers.insert(real, self.files.len());
        self.files.push((Role::Executable, path.to_owned()));
    }

    fn add_library(&mut self, library: &FileIdentity) {
        match libraries::check_one(library, "the shared library") {
            Ok(()) => self.add(Role::Library, Path::new(library.path.as_os_str())),
            Err(error) => self.missing.push(Missing {
                path: library.path.clone(),
                why: error.to_string(),
            }),
        }
    }

    /// All paths that the loader may have tried with success.
    fn add_names(&mut self, meta: &RunMeta) {
        let cwd = Path::new(meta.cwd.as_os_str());
        let mut needed = BTreeSet::new();
        let mut folders: BTreeSet<PathBuf> = DEFAULT_FOLDERS.map(PathBuf::from).into();
        let mut candidates = Vec::new();
        for (_, path) in &self.files {
            let Some(elf) = ElfFile::read(path) else { continue };
            candidates.extend(elf.interpreter);
            needed.extend(elf.needed);
            folders.extend(elf.search_path.iter().flat_map(|text| search_folders(text, path, cwd)));
        }
        let library_path = meta.env.iter().find(|(name, _)| name.as_os_str() == "LD_LIBRARY_PATH");
        if let Some((_, text)) = library_path {
            let executable = Path::new(meta.executable.path.as_os_str());
            folders.extend(search_folders(text.as_os_str().as_bytes(), executable, cwd));
        }
        for folder in &folders {
            candidates.extend(needed.iter().map(|name| folder.join(name)));
        }
        candidates.extend(cached_paths(&needed));
        for path in candidates {
            if let Ok(real) = fs::canonicalize(&path)
                && let Some(number) = self.numbers.get(&real)
                && path != real
            {
                self.aliases.insert(path, *number);
            }
        }
    }

    fn finish(self) -> Contents {
        let file = |(role, path): (Role, PathBuf)| FileToPack {
            role,
            build_id: ElfFile::read(&path).and_then(|elf| elf.build_id),
            huge_aligned: (role == Role::Library).then(|| sys::is_huge_aligned(&path)).flatten(),
            original: path.clone().into_os_string().into(),
            source: path,
        };
        let alias = |(path, number): (PathBuf, usize)| (Text(path.into_os_string()), number);
        Contents {
            files: self.files.into_iter().map(file).collect(),
            aliases: self.aliases.into_iter().map(alias).collect(),
            missing: self.missing,
        }
    }
}

/// The folders of a search path such as `$ORIGIN/../lib:/opt/lib`. An empty one is the current directory.
fn search_folders(text: &[u8], object: &Path, cwd: &Path) -> Vec<PathBuf> {
    let origin = object.parent().unwrap_or(object).as_os_str().as_bytes();
    let parts = text.split(|byte| matches!(byte, b':' | b';'));
    let folders = parts.map(|part| {
        let mut folder = part.to_owned();
        for (word, value) in [
            (&b"${ORIGIN}"[..], origin),
            (b"$ORIGIN", origin),
            (b"${LIB}", b"lib/x86_64-linux-gnu"),
            (b"$LIB", b"lib/x86_64-linux-gnu"),
        ] {
            folder = replaced(&folder, word, value);
        }
        cwd.join(OsStr::from_bytes(&folder))
    });
    folders.collect()
}

fn replaced(text: &[u8], word: &[u8], value: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(word) {
            result.extend_from_slice(value);
            at += word.len();
        } else {
            result.push(text[at]);
            at += 1;
        }
    }
    result
}

/// Paths in the loader's cache that end in one of these names. Its strings are all that is understood of it.
fn cached_paths(names: &BTreeSet<String>) -> Vec<PathBuf> {
    let cache = fs::read(LOADER_FILES[0]).unwrap_or_default();
    let strings = cache.split(|byte| *byte == 0).filter(|text| text.starts_with(b"/"));
    let paths = strings.map(|text| PathBuf::from(OsStr::from_bytes(text)));
    let is_needed = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| names.contains(name))
    };
    paths.filter(is_needed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_paths_are_expanded() {
        let folders = |text: &str| {
            let folders = search_folders(text.as_bytes(), Path::new("/opt/app/bin/prog"), Path::new("/work"));
            let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            shown.join(" ")
        };
        assert_eq!(folders("$ORIGIN/../lib:/x"), "/opt/app/bin/../lib /x");
        assert_eq!(folders("${ORIGIN}"), "/opt/app/bin");
        assert_eq!(folders("build/lib:"), "/work/build/lib /work/");
        assert_eq!(folders("/usr/$LIB"), "/usr/lib/x86_64-linux-gnu");
    }
}
