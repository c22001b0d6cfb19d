//! From a name on the command line to an executable that can be recorded, or the sentence why it cannot.
use crate::Error;
use crate::Result;
use instrumentor::sites::SiteTable;
use object::Endianness;
use object::ReadCache;
use object::ReadRef;
use object::elf;
use object::elf::FileHeader64;
use object::read::elf::Dyn;
use object::read::elf::FileHeader;
use run_store::Scope;
use runtime_abi::RUNTIME_LIBRARY;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

/// A program that can be recorded.
pub struct Recordable {
    /// Absolute.
    pub path: PathBuf,
    /// The runtime, if the program was not linked to it and has to be given it.
    pub preload: Option<PathBuf>,
}

/// The executable of that name, if it was built with `refrain cc` or `refrain c++`, or if the scope asks no more of it than
/// to be linked dynamically.
pub fn find_recordable(name: &OsStr, scope: Scope) -> Result<Recordable> {
    let path = find(name)?;
    match needed_libraries(&path)? {
        Needed::Static => Err(Error::StaticProgram { path }),
        Needed::Libraries(names) if names.iter().any(|n| n == RUNTIME_LIBRARY) => {
            let is_too_little =
                scope == Scope::Memory && SiteTable::read(&path).is_ok_and(|table| table.is_for_sync_only());
            match is_too_little {
                true => Err(Error::BuiltForSync { path }),
                false => Ok(Recordable { path, preload: None }),
            }
        }
        Needed::Libraries(_) if scope == Scope::Inputs => Ok(Recordable {
            path,
            preload: Some(runtime_library()?),
        }),
        Needed::Libraries(_) => Err(Error::NotInstrumented { path }),
    }
}

/// The runtime, which lies beside this executable.
fn runtime_library() -> Result<PathBuf> {
    let missing = |path: PathBuf| Error::NoRuntime { path };
    let executable = env::current_exe().map_err(|_| missing(RUNTIME_LIBRARY.into()))?;
    let library = executable.with_file_name(RUNTIME_LIBRARY);
    // The loader takes neither spaces nor colons in the list.
    let can_be_listed = !library.to_string_lossy().contains([' ', ':']);
    match library.is_file() && can_be_listed {
        true => Ok(library),
        false => Err(missing(library)),
    }
}

/// As a shell does: a name with a slash is a path, any other is looked for in `PATH`.
fn find(name: &OsStr) -> Result<PathBuf> {
    let shown = || name.to_string_lossy().into_owned();
    if name.to_string_lossy().contains('/') {
        return executable(Path::new(name));
    }
    let candidates = env::var_os("PATH").unwrap_or_default();
    for folder in env::split_paths(&candidates) {
        let path = folder.join(name);
        if path.is_file() {
            return executable(&path);
        }
    }
    Err(Error::ProgramNotInPath {
        name: shown(),
        is_here: Path::new(name).is_file(),
    })
}

fn executable(path: &Path) -> Result<PathBuf> {
    let shown = || path.to_owned();
    let metadata = fs::metadata(path).map_err(|source| Error::ProgramNotFound { path: shown(), source })?;
    if metadata.is_dir() {
        return Err(Error::NotExecutable {
            path: shown(),
            why: "is a directory",
        });
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(Error::NotExecutable {
            path: shown(),
            why: "has no execute permission",
        });
    }
    fs::canonicalize(path).map_err(|source| Error::ProgramNotFound { path: shown(), source })
}

enum Needed {
    Static,
    Libraries(Vec<String>),
}

fn needed_libraries(path: &Path) -> Result<Needed> {
    let unreadable = |source| Error::ProgramNotFound {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut start = Vec::new();
    Read::by_ref(&mut file)
        .take(64)
        .read_to_end(&mut start)
        .map_err(unreadable)?;
    if start.starts_with(b"#!") {
        let line = String::from_utf8_lossy(&start[2..]);
        let interpreter = line.split_whitespace().next().unwrap_or("an interpreter").to_owned();
        return Err(Error::Script {
            path: path.to_owned(),
            interpreter,
        });
    }
    if !start.starts_with(b"\x7fELF") {
        return Err(Error::NotExecutable {
            path: path.to_owned(),
            why: "is not an ELF executable",
        });
    }
    let data = ReadCache::new(file);
    dynamic_section(&data).map_err(|why| Error::NotExecutable {
        path: path.to_owned(),
        why,
    })
}

fn dynamic_section<'data, R: ReadRef<'data>>(data: R) -> std::result::Result<Needed, &'static str> {
    const MALFORMED: &str = "is a malformed ELF file";
    let header = FileHeader64::<Endianness>::parse(data).map_err(|_| "is not a 64-bit ELF executable")?;
    let endian = header.endian().map_err(|_| MALFORMED)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err("is not an x86-64 program");
    }
    let sections = header.sections(endian, data).map_err(|_| MALFORMED)?;
    let Some((entries, strings)) = sections.dynamic(endian, data).map_err(|_| MALFORMED)? else {
        return Ok(Needed::Static);
    };
    let strings = sections.strings(endian, data, strings).map_err(|_| MALFORMED)?;
    let mut names = Vec::new();
    for entry in entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
        let name = entry.string(endian, strings).map_err(|_| MALFORMED)?;
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(Needed::Libraries(names))
}
