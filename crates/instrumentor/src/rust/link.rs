//! The linker wrapper: instruments what is linked, and links the runtime with it.
use super::Note;
use super::cache::Cache;
use super::cache::Recipe;
use super::cache::cannot_start;
use super::llvm_ar;
use super::objects;
use super::variable;
use crate::driver::Toolchain;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;

/// Crates that stay as they are: the pass would have memcpy call memcpy.
const UNTOUCHED: [&str; 2] = ["libcompiler_builtins-", "libprofiler_builtins-"];

/// Runs the linker. The result is its exit status.
pub fn run(arguments: &[OsString]) -> Result<i32, String> {
    let linker = env::var_os(variable::LINKER).unwrap_or_else(|| "cc".into());
    let tools = Toolchain::installed()?;
    if env::var_os(variable::LINK_FOR).is_some_and(|what| what == "host") {
        return link_for_host(&linker, arguments, &tools);
    }
    let cache = Cache::open(&tools.pass)?;
    let arguments = expand(arguments)?;
    let mut inputs = Inputs::default();
    for argument in &arguments {
        inputs.add(Path::new(argument))?;
    }
    inputs.instrument(&cache)?;
    let mut planned = crate::driver::link_options(&tools)?;
    for argument in &arguments {
        match inputs.replaced.get(Path::new(argument)) {
            Some(instead) => planned.push(instead.into()),
            // Options for a linker that would compile bitcode; there is none left.
            None if argument.to_string_lossy().starts_with("-Wl,-plugin-opt") => {}
            None => planned.push(argument.clone()),
        }
    }
    call(&linker, &planned)
}

/// A build script or a procedural macro. If C code was compiled for recording and is linked here as well, it wants the
/// runtime, which does nothing as long as nobody records.
fn link_for_host(linker: &OsStr, arguments: &[OsString], tools: &Toolchain) -> Result<i32, String> {
    let first = Command::new(linker)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot start the linker {}: {error}", linker.display()))?;
    let is_ours = String::from_utf8_lossy(&first.stderr).contains("__refrain_");
    if first.status.success() || !is_ours {
        print!("{}", String::from_utf8_lossy(&first.stdout));
        eprint!("{}", String::from_utf8_lossy(&first.stderr));
        return Ok(first.status.code().unwrap_or(1));
    }
    let mut planned = crate::driver::link_options(tools)?;
    planned.extend_from_slice(arguments);
    call(linker, &planned)
}

fn call(linker: &OsStr, arguments: &[OsString]) -> Result<i32, String> {
    // Long command lines do not fit into one; a file has room.
    let total: usize = arguments.iter().map(|argument| argument.len() + 9).sum();
    let mut command = Command::new(linker);
    let response = env::temp_dir().join(format!("refrain-link-{}", std::process::id()));
    if total > 100_000 {
        let quoted: Vec<String> = arguments
            .iter()
            .map(|argument| {
                let text = argument.to_string_lossy();
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            })
            .collect();
        fs::write(&response, quoted.join("\n"))
            .map_err(|error| format!("cannot write {}: {error}", response.display()))?;
        command.arg(format!("@{}", response.display()));
    } else {
        command.args(arguments);
    }
    let status = command
        .status()
        .map_err(|error| format!("cannot start the linker {}: {error}", linker.display()));
    let _ = fs::remove_file(&response);
    Ok(status?.code().unwrap_or(1))
}

/// rustc uses a response file when there is much to link; its lines are quoted as for a shell.
fn expand(arguments: &[OsString]) -> Result<Vec<OsString>, String> {
    let mut out = Vec::new();
    for argument in arguments {
        match argument.to_string_lossy().strip_prefix('@') {
            Some(file) if Path::new(file).is_file() => {
                let text = fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
                out.extend(crate::driver::split_words(&text).into_iter().map(OsString::from));
            }
            _ => out.push(argument.clone()),
        }
    }
    Ok(out)
}

/// Instruments an archive where it is.
pub fn instrument_in_place(archive: &Path) -> Result<(), String> {
    let cache = Cache::open(&Toolchain::installed()?.pass)?;
    let mut inputs = Inputs::default();
    inputs.add(archive)?;
    inputs.instrument(&cache)?;
    match inputs.replaced.get(archive) {
        Some(instead) => fs::copy(instead, archive)
            .map(|_| ())
            .map_err(|error| format!("cannot write {}: {error}", archive.display())),
        None => Ok(()),
    }
}

/// Files that the linker was given, and what it is given instead.
#[derive(Default)]
struct Inputs {
    files: Vec<File>,
    replaced: BTreeMap<PathBuf, PathBuf>,
}

struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    is_archive: bool,
}

impl Inputs {
    fn add(&mut self, path: &Path) -> Result<(), String> {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or("");
        let is_archive = matches!(extension, "rlib" | "a");
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or("");
        let is_candidate = is_archive || extension == "o";
        if !is_candidate
            || name.starts_with('-')
            || UNTOUCHED.iter().any(|prefix| name.starts_with(prefix))
            || !path.is_file()
        {
            return Ok(());
        }
        let bytes = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        self.files.push(File {
            path: path.to_path_buf(),
            bytes,
            is_archive,
        });
        Ok(())
    }

    /// All objects first, several at a time, then the archives they go into.
    fn instrument(&mut self, cache: &Cache) -> Result<(), String> {
        let archives: Vec<&File> = self
            .files
            .iter()
            .filter(|file| file.is_archive && !cache.archive_place(file).exists())
            .collect();
        let mut work: Vec<Job> = Vec::new();
        for file in self.files.iter().filter(|file| !file.is_archive) {
            if let Some(bitcode) = objects::bitcode(&file.bytes) {
                let name = file.path.file_name().and_then(OsStr::to_str).unwrap_or("");
                work.push(Job {
                    bitcode,
                    recipe: recipe(&file.path, name),
                });
            }
        }
        for file in &archives {
            for member in objects::members(&file.bytes).unwrap_or_default() {
                if let Some(bitcode) = objects::bitcode(member.bytes) {
                    work.push(Job {
                        bitcode,
                        recipe: recipe(&file.path, &member.name),
                    });
                } else if member.name.ends_with(".rcgu.o") {
                    eprintln!(
                        "refrain: warning: {} in {} has no bitcode; what it does goes unrecorded",
                        member.name,
                        file.path.display()
                    );
                }
            }
        }
        work.sort_by_key(|job| std::cmp::Reverse(job.bitcode.len()));
        all_at_once(&work, |job| cache.object(job.bitcode, job.recipe).map(|_| ()))?;
        all_at_once(&archives, |file| cache.archive(file))?;

        let mut replaced = BTreeMap::new();
        for file in &self.files {
            if file.is_archive {
                replaced.insert(file.path.clone(), cache.archive_place(file));
            } else if let Some(bitcode) = objects::bitcode(&file.bytes) {
                let name = file.path.file_name().and_then(OsStr::to_str).unwrap_or("");
                replaced.insert(file.path.clone(), cache.object(bitcode, recipe(&file.path, name))?);
            }
        }
        self.replaced = replaced;
        Ok(())
    }
}

struct Job<'data> {
    bitcode: &'data [u8],
    recipe: Recipe,
}

/// Crates that we compiled have a note. Others come with the toolchain.
fn recipe(file: &Path, object: &str) -> Recipe {
    let directory = file.parent().unwrap_or(Path::new("."));
    match Note::about(directory, object) {
        Some(note) if note.is_optimised => Recipe::Optimised,
        Some(_) => Recipe::Plain,
        None => Recipe::Finished,
    }
}

impl Cache {
    fn archive_place(&self, file: &File) -> PathBuf {
        let name = file.path.file_name().and_then(OsStr::to_str).unwrap_or("");
        self.place(&file.bytes, recipe(&file.path, name), "a")
    }

    /// The archive with its objects instrumented and all others as they are.
    fn archive(&self, file: &File) -> Result<(), String> {
        let Some(members) = objects::members(&file.bytes) else {
            return Err(format!("{} is not an archive that can be read", file.path.display()));
        };
        let place = self.archive_place(file);
        self.get(&place, |part| {
            let folder = part.with_extension(format!("{}.members", std::process::id()));
            let failed = |error| format!("cannot write {}: {error}", folder.display());
            fs::create_dir_all(&folder).map_err(failed)?;
            let mut paths = Vec::new();
            for (index, member) in members.iter().enumerate() {
                // Two members may have the same name.
                let path = folder.join(format!("{index}-{}", member.name.replace('/', "_")));
                match objects::bitcode(member.bytes) {
                    Some(bitcode) => {
                        let object = self.object(bitcode, recipe(&file.path, &member.name))?;
                        fs::hard_link(&object, &path).or_else(|_| fs::copy(&object, &path).map(|_| ()))
                    }
                    None => fs::write(&path, member.bytes),
                }
                .map_err(failed)?;
                paths.push(path);
            }
            let status = Command::new(llvm_ar())
                .arg("rcsD")
                .arg(part)
                .args(&paths)
                .status()
                .map_err(|error| cannot_start(&llvm_ar(), &error))?;
            let _ = fs::remove_dir_all(&folder);
            match status.success() {
                true => Ok(()),
                false => Err(format!("{} failed ({status})", llvm_ar().display())),
            }
        })
    }
}

/// Does the work with as many threads as there are processors; the first error counts.
fn all_at_once<T: Sync>(work: &[T], one: impl Fn(&T) -> Result<(), String> + Sync) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(work.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                // Relaxed: only the number matters; the work itself is not changed by anybody.
                while let Some(item) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = one(item) {
                        failure.lock().expect("no worker panics").get_or_insert(why);
                        return;
                    }
                }
            });
        }
    });
    match failure.into_inner().expect("no worker panics") {
        Some(why) => Err(why),
        None => Ok(()),
    }
}
