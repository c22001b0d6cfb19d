//! Compiles the LLVM pass (`pass/*.cpp`) into `librefrain_pass.so`, and puts the header for programs beside it.
//!
//! The plugin is loaded into clang, which brings LLVM along, so nothing is linked here. Besides `OUT_DIR` it is put
//! next to the profile's binaries, because `refrain` looks for it beside its own executable.
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::thread;

const CXX: &str = "clang++-22";
const CONFIG: &str = "llvm-config-22";
const LIBRARY: &str = "librefrain_pass.so";
/// For programs that have something to say to us.
const HEADER: &str = "include/refrain.h";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=pass");
    println!("cargo::rerun-if-changed=include");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(why) = build(&out) {
        println!("cargo::error={why}");
        return;
    }
    println!("cargo::rustc-env=REFRAIN_PASS_BUILT={}", out.join(LIBRARY).display());
}

fn build(out: &Path) -> Result<(), String> {
    let flags = run(Command::new(CONFIG).arg("--cppflags"), CONFIG)?;
    let flags: Vec<String> = String::from_utf8_lossy(&flags.stdout)
        .split_whitespace()
        .map(|flag| flag.replace("-I", "-isystem"))
        .collect();
    let mut sources: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir("pass").map_err(|e| format!("cannot list pass: {e}"))? {
        let path = entry.map_err(|e| format!("cannot list pass: {e}"))?.path();
        println!("cargo::rerun-if-changed={}", path.display());
        if path.extension().is_some_and(|e| e == "cpp") {
            sources.push(path);
        }
    }
    sources.sort();
    let mut objects = Vec::new();
    // Each file takes a few seconds, nearly all of it for LLVM's headers; as many at a time as cargo allows.
    let jobs = env::var("NUM_JOBS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1usize)
        .max(1);
    for batch in sources.chunks(jobs) {
        let results: Vec<Result<PathBuf, String>> = thread::scope(|scope| {
            let running: Vec<_> = batch
                .iter()
                .map(|source| scope.spawn(|| compile(source, out, &flags)))
                .collect();
            running
                .into_iter()
                .map(|one| one.join().expect("compiling does not panic"))
                .collect()
        });
        for result in results {
            objects.push(result?);
        }
    }
    let library = out.join(LIBRARY);
    run(
        Command::new(CXX).arg("-shared").args(&objects).arg("-o").arg(&library),
        "linking the pass",
    )?;
    let include = profile_directory(out).join("include");
    fs::create_dir_all(&include)
        .and_then(|()| install(Path::new(HEADER), &include.join("refrain.h")))
        .map_err(|e| format!("cannot write {}: {e}", include.display()))?;
    let beside = profile_directory(out).join(LIBRARY);
    install(&library, &beside).map_err(|e| format!("cannot write {}: {e}", beside.display()))
}

fn compile(source: &Path, out: &Path, flags: &[String]) -> Result<PathBuf, String> {
    let object = out
        .join(source.file_name().expect("a listed file has a name"))
        .with_extension("o");
    let mut command = Command::new(CXX);
    command.args([
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-fno-rtti",
        "-fno-exceptions",
        "-Wall",
        "-Wextra",
        "-c",
    ]);
    command.args(flags).arg(source).arg("-o").arg(&object);
    run(&mut command, &format!("compiling {}", source.display()))?;
    Ok(object)
}

/// `OUT_DIR` is `target/<profile>/build/<package>/out`.
fn profile_directory(out: &Path) -> &Path {
    out.ancestors()
        .nth(3)
        .expect("OUT_DIR lies deep inside the target directory")
}

/// By rename: a compiler that has the old file mapped keeps it.
fn install(from: &Path, to: &Path) -> io::Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new)?;
    fs::rename(&new, to)
}

fn run(command: &mut Command, doing: &str) -> Result<Output, String> {
    let output = command.output().map_err(|e| {
        format!(
            "cannot start {}: {e}. Install clang-22 llvm-22-dev lld-22: `apt-get install clang-22 llvm-22-dev lld-22`, \
             or run `cargo xtask setup`",
            command.get_program().display()
        )
    })?;
    if output.status.success() {
        return Ok(output);
    }
    // One message per line: cargo shows only the first line of a multi-line error.
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("cargo::warning={line}");
    }
    Err(format!("{doing} failed ({})", output.status))
}
