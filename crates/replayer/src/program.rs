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
use program_image::HEAD_BYTES;
use program_image::Image;
use program_image::Loader;
use program_image::script;
use run_store::Scope;
use runtime_abi::RUNTIME_LIBRARY;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

/// A program that can be recorded.
pub struct Recordable {
    /// Absolute.
    pub path: PathBuf,
    /// How it gets the runtime.
    pub by: Way,
    /// If it is the interpreter of a script: the arguments that it gets in the place of the script's name.
    pub as_interpreter: Option<Vec<OsString>>,
}

/// How a program gets the runtime.
pub enum Way {
    /// It was linked to it.
    Linked,
    /// Its loader is told to load it: from there.
    Preloaded(PathBuf),
    /// The runtime, which is there, loads the program: no loader would load the runtime for it.
    Hosted(PathBuf),
}

/// The executable of that name, or the interpreter if it is a script; if it was built with `refrain cc` or `refrain c++`, or if the scope
/// asks no more of it than to be a program.
pub fn find_recordable(name: &OsStr, scope: Scope) -> Result<Recordable> {
    let found = find(name)?;
    let Some(Interpreted { interpreter, arguments }) = interpreted(&found, scope)? else {
        return recordable(absolute(&found)?, scope);
    };
    match recordable(interpreter, scope) {
        Ok(recordable) => Ok(Recordable {
            as_interpreter: Some(arguments),
            ..recordable
        }),
        Err(Error::NotInstrumented { .. } | Error::StaticProgram { .. }) => Err(Error::Script {
            path: found,
            // As the script calls it.
            interpreter: arguments.into_iter().next().unwrap_or_default().into(),
        }),
        Err(error) => Err(error),
    }
}

fn recordable(path: PathBuf, scope: Scope) -> Result<Recordable> {
    let given = |path, by| Recordable {
        path,
        by,
        as_interpreter: None,
    };
    match needed_libraries(&path)? {
        Needed::Nobody if scope == Scope::Inputs => hosted(&path).map(|by| given(path, by)),
        Needed::Nobody => Err(Error::StaticProgram { path }),
        Needed::Libraries(names) if names.iter().any(|n| n == RUNTIME_LIBRARY) => {
            let is_too_little =
                scope == Scope::Memory && SiteTable::read(&path).is_ok_and(|table| table.is_for_sync_only());
            match is_too_little {
                true => Err(Error::BuiltForSync { path }),
                false => Ok(given(path, Way::Linked)),
            }
        }
        Needed::Libraries(_) if scope == Scope::Inputs => Ok(given(path, Way::Preloaded(runtime_library()?))),
        Needed::Libraries(_) => Err(Error::NotInstrumented { path }),
    }
}

/// Is it a program that was built with refrain?
pub fn is_instrumented(path: &Path) -> bool {
    matches!(needed_libraries(path), Ok(Needed::Libraries(names)) if names.iter().any(|name| name == RUNTIME_LIBRARY))
}

/// What the kernel makes of a script.
struct Interpreted {
    /// Absolute.
    interpreter: PathBuf,
    arguments: Vec<OsString>,
}

/// `None` if it is no script. A text without a line that names an interpreter is one for the shell, as for `execvp`, which can be recorded at scope inputs.
fn interpreted(found: &Path, scope: Scope) -> Result<Option<Interpreted>> {
    let mut program = found.to_owned();
    let mut arguments = vec![found.as_os_str().to_owned()];
    for depth in 0..=script::NESTED_MAX {
        let mut head = Vec::new();
        let read =
            File::open(&program).and_then(|file| file.take(script::LINE_BYTES_MAX as u64).read_to_end(&mut head));
        read.map_err(|source| Error::ProgramNotFound {
            path: program.clone(),
            source,
        })?;
        let (interpreter, argument) = match script::Line::read(&head) {
            Some(line) => (
                PathBuf::from(OsStr::from_bytes(line.interpreter)),
                line.argument.map(|argument| OsStr::from_bytes(argument).to_owned()),
            ),
            None if depth == 0 && scope == Scope::Inputs && is_text(&head) => (PathBuf::from(SHELL), None),
            None if depth == 0 => return Ok(None),
            None => {
                return Ok(Some(Interpreted {
                    interpreter: absolute(&program)?,
                    arguments,
                }));
            }
        };
        // The kernel drops the name that a script was called by, for the one that it was found by.
        let name = interpreter.clone().into_os_string();
        let leading = [Some(name), argument, Some(program.into_os_string())];
        arguments.splice(0..1, leading.into_iter().flatten());
        program = executable(&interpreter).map_err(|source| Error::NoInterpreter {
            script: found.to_owned(),
            interpreter: interpreter.clone(),
            source: Box::new(source),
        })?;
    }
    Err(Error::NotExecutable {
        path: found.to_owned(),
        why: "is a script whose interpreter is a script, and so on, more often than the kernel allows",
    })
}

/// What runs a script that does not say what runs it.
const SHELL: &str = "/bin/sh";

/// As shells see it: nothing in its first line is a zero.
fn is_text(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !head.is_empty() && !head.starts_with(b"\x7fELF") && !line.contains(&0)
}

fn hosted(path: &Path) -> Result<Way> {
    // Set-user-id and set-group-id: the runtime would load it without them.
    const GIVES_RIGHTS: u32 = 0o6000;
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & GIVES_RIGHTS != 0) {
        return Err(Error::NotExecutable {
            path: path.to_owned(),
            why: "gets rights by being executed (set-user-id or set-group-id), which a recorded one would not; record a copy \
                  without these",
        });
    }
    let runtime = runtime_library()?;
    let is_executable = fs::metadata(&runtime).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    match is_executable {
        true => Ok(Way::Hosted(runtime)),
        false => Err(Error::RuntimeNotExecutable { path: runtime }),
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

/// As a shell does: a name with a slash is a path, any other is looked for in `PATH`. The path is as it would be given to the kernel.
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
    Ok(path.to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|source| Error::ProgramNotFound {
        path: path.to_owned(),
        source,
    })
}

enum Needed {
    /// It is linked statically, or loaded by a loader that takes no library of ours.
    Nobody,
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
        .take(4)
        .read_to_end(&mut start)
        .map_err(unreadable)?;
    if !start.starts_with(b"\x7fELF") {
        return Err(Error::NotExecutable {
            path: path.to_owned(),
            why: "is not an ELF executable",
        });
    }
    if loader(&mut file).map_err(unreadable)? != Loader::Other {
        return Ok(Needed::Nobody);
    }
    let data = ReadCache::new(file);
    dynamic_section(&data).map_err(|why| Error::NotExecutable {
        path: path.to_owned(),
        why,
    })
}

/// Who loads the program; of one that is malformed, or for another machine, somebody: that is told later.
fn loader(file: &mut File) -> io::Result<Loader> {
    let read_at = |file: &mut File, at: u64, bytes: usize| {
        let mut read = Vec::new();
        file.seek(SeekFrom::Start(at))?;
        Read::by_ref(file).take(bytes as u64).read_to_end(&mut read)?;
        Ok::<_, io::Error>(read)
    };
    let head = read_at(file, 0, HEAD_BYTES)?;
    let Ok(image) = Image::read(&head) else {
        return Ok(Loader::Other);
    };
    let name = match image.interpreter {
        Some((at, bytes)) => Some(read_at(file, at, bytes)?),
        None => None,
    };
    Ok(Loader::of(name.as_deref()))
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
        return Ok(Needed::Libraries(Vec::new()));
    };
    let strings = sections.strings(endian, data, strings).map_err(|_| MALFORMED)?;
    let mut names = Vec::new();
    for entry in entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
        let name = entry.string(endian, strings).map_err(|_| MALFORMED)?;
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(Needed::Libraries(names))
}
