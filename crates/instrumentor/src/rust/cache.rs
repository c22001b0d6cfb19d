//! Instrumented objects by what they were made of: bitcode, pass, scope, options.
//!
//! An entry appears by rename, so it is whole or absent. Two links that want the same entry at the same time wait for each
//! other on a lock file; the second finds it done.
use super::llc;
use super::opt;
use super::variable;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::hash::Hash;
use std::hash::Hasher;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

/// How an object is made of bitcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// Optimised already, as the standard library is: only instrumented.
    Finished,
    /// Optimised as far as rustc does before link time; the rest follows instrumentation.
    Optimised,
    /// Not optimised, so that a debugger finds everything.
    Plain,
}

impl Recipe {
    fn passes(self) -> &'static str {
        match self {
            Recipe::Finished => "refrain-names,refrain",
            Recipe::Plain => "refrain-std-inline,always-inline,refrain-names,refrain",
            // The pass is at its place in the middle of it, before loops are vectorised.
            Recipe::Optimised => "refrain-names,thinlto<O2>",
        }
    }

    fn code_level(self) -> &'static str {
        match self {
            Recipe::Finished | Recipe::Optimised => "-O2",
            Recipe::Plain => "-O0",
        }
    }
}

/// As rustc has its code generated.
const CODE_OPTIONS: [&str; 5] = [
    "-filetype=obj",
    "-relocation-model=pic",
    "-function-sections",
    "-data-sections",
    "-trap-unreachable",
];

#[derive(Debug)]
pub struct Cache {
    /// For what belongs to the package that is being built.
    directory: PathBuf,
    /// For the standard library, which is the same for all.
    shared: PathBuf,
    pass: PathBuf,
    /// What all entries depend on.
    context: u64,
}

impl Cache {
    pub fn open(pass: &Path) -> Result<Cache, String> {
        let directory = env::var_os(variable::CACHE)
            .map(PathBuf::from)
            .ok_or_else(|| format!("{} is not set: use `cargo refrain`", variable::CACHE))?;
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let shared = variable("XDG_CACHE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".cache")))
            .map_or_else(|| directory.clone(), |cache| cache.join("refrain").join("rust"));
        let bytes =
            fs::read(pass).map_err(|error| format!("cannot read the compiler pass {}: {error}", pass.display()))?;
        let switches: Vec<Option<OsString>> = [
            variable::SCOPE,
            "REFRAIN_GROUPS",
            "REFRAIN_LOOPS",
            "REFRAIN_O2",
            "REFRAIN_OPT",
            "REFRAIN_LLC",
        ]
        .iter()
        .map(env::var_os)
        .collect();
        Ok(Cache {
            directory,
            shared,
            pass: pass.to_path_buf(),
            context: hash_of(&(bytes, switches)),
        })
    }

    /// Where something made of these bytes in this way is, or will be.
    pub fn place(&self, bytes: &[u8], recipe: Recipe, extension: &str) -> PathBuf {
        let directory = if recipe == Recipe::Finished {
            &self.shared
        } else {
            &self.directory
        };
        // Two hashes of 64 bits with different beginnings.
        let (first, second) = (
            hash_of(&(0u8, self.context, recipe, bytes)),
            hash_of(&(1u8, bytes, recipe, self.context)),
        );
        directory.join(format!("{first:016x}{second:016x}.{extension}"))
    }

    /// The entry, made by `make` at a temporary place if it is not there.
    pub fn get(&self, place: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        if place.exists() {
            return Ok(());
        }
        let failed = |error| format!("cannot write {}: {error}", place.display());
        if let Some(directory) = place.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let lock_path = place.with_extension("lock");
        let lock = File::create(&lock_path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        if place.exists() {
            return Ok(());
        }
        let part = place.with_extension(format!("part-{}", std::process::id()));
        make(&part)?;
        fs::rename(&part, place).map_err(failed)?;
        // Whoever waits for it has it open, and will find the entry.
        let _ = fs::remove_file(&lock_path);
        Ok(())
    }

    /// An instrumented object made of bitcode.
    pub fn object(&self, bitcode: &[u8], recipe: Recipe) -> Result<PathBuf, String> {
        let place = self.place(bitcode, recipe, "o");
        self.get(&place, |part| self.instrument(bitcode, recipe, part))?;
        Ok(place)
    }

    fn instrument(&self, bitcode: &[u8], recipe: Recipe, to: &Path) -> Result<(), String> {
        let source = to.with_extension(format!("{}.bc", std::process::id()));
        fs::write(&source, bitcode).map_err(|error| format!("cannot write {}: {error}", source.display()))?;
        let result = self.pipe(&source, recipe, to);
        let _ = fs::remove_file(&source);
        result
    }

    fn pipe(&self, source: &Path, recipe: Recipe, to: &Path) -> Result<(), String> {
        let mut plugin = OsString::from("-load-pass-plugin=");
        plugin.push(&self.pass);
        let mut optimiser = Command::new(opt());
        optimiser
            .arg(plugin)
            .arg(format!("-passes={}", recipe.passes()))
            .arg(source)
            .args(["-o", "-"])
            .stdout(Stdio::piped());
        let mut first = optimiser.spawn().map_err(|error| cannot_start(&opt(), &error))?;
        let between = first.stdout.take().ok_or("opt has no output")?;
        let mut generator = Command::new(llc());
        generator
            .arg(recipe.code_level())
            .args(CODE_OPTIONS)
            .arg("-o")
            .arg(to)
            .arg("-")
            .stdin(between);
        let second = generator.status().map_err(|error| cannot_start(&llc(), &error));
        let first = first.wait().map_err(|error| format!("cannot wait for opt: {error}"))?;
        if !first.success() {
            return Err(format!("{} failed ({first}) on {}", opt().display(), source.display()));
        }
        let second = second?;
        if !second.success() {
            return Err(format!("{} failed ({second}) on {}", llc().display(), source.display()));
        }
        Ok(())
    }
}

pub fn cannot_start(program: &OsString, error: &std::io::Error) -> String {
    format!(
        "cannot start {}: {error}. Install LLVM 22 with `apt-get install llvm-22`, or `cargo xtask setup`",
        program.display()
    )
}

/// Good for telling files of a cache apart, with other ingredients of the same length beside it.
fn hash_of(value: &impl Hash) -> u64 {
    #[allow(
        deprecated,
        reason = "the default hasher has the same keys in every process, which a cache needs"
    )]
    let mut hasher = std::hash::SipHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
