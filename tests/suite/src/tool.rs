//! Where the tool under test, the guests and our scratch space are.
use std::env;
use std::path::Path;
use std::path::PathBuf;

/// The tool under test, or a sentence that says how to get one.
pub fn refrain() -> Result<PathBuf, String> {
    let path = match env::var_os("REFRAIN_BIN") {
        Some(path) => PathBuf::from(path),
        None => target_directory()?.join("release/refrain"),
    };
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(error) => Err(format!(
            "there is no tool to test at {}: {error}; run `cargo build --release` or set REFRAIN_BIN",
            path.display()
        )),
    }
}

/// The guests' directory, beside this crate's.
pub fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("guests")
}

/// Where sandboxes are made.
pub fn scratch() -> Result<PathBuf, String> {
    Ok(target_directory()?.join("tmp/suite"))
}

/// Test executables are `TARGET/PROFILE/deps/NAME-HASH`.
fn target_directory() -> Result<PathBuf, String> {
    let executable = env::current_exe().map_err(|e| format!("cannot find the test executable: {e}"))?;
    match executable.ancestors().nth(3) {
        Some(target) => Ok(target.to_owned()),
        None => Err(format!("{} is not in a target directory", executable.display())),
    }
}

/// The compiler whose place `refrain cc` takes, for comparisons.
pub fn plain_compiler(is_cxx: bool) -> &'static str {
    if is_cxx { "clang++-22" } else { "clang-22" }
}

pub fn is_full() -> bool {
    env::var_os("REFRAIN_SUITE").is_some_and(|value| value == "full")
}

pub fn skips_fail() -> bool {
    env::var_os("REFRAIN_SUITE_SKIPS").is_some_and(|value| value == "fail")
}

pub fn wants_canary() -> bool {
    env::var_os("REFRAIN_SUITE_CANARY").is_some_and(|value| !value.is_empty())
}
