//! What one method takes: a row in the table of methods, a recorder and a recovery, and nothing else.
use crate::command::Failure;
use crate::command::Run;
use crate::root;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// Folders whose files are declared by a macro, from the table: `cargo fmt` does not see them.
const FOLDERS: [&str; 2] = ["crates/access-protocol/src/recorders", "crates/replayer/src/recovery"];
/// A method whose name means nothing else. It is for tests, and was added last.
const SAMPLE: &str = "serial";
/// The files of our crates that may name it.
const FILES: [&str; 3] = [
    "crates/access-protocol/src/recorders/serial.rs",
    "crates/replayer/src/recovery/serial.rs",
    "crates/run-model/src/method.rs",
];

pub fn check_format() -> Result<(), Failure> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&root().join(folder), &mut files)?;
    }
    Command::new("rustfmt")
        .args(["--check", "--edition", "2024", "--config-path"])
        .arg(root())
        .args(files)
        .run()
}

/// Does a method take more files than it should?
pub fn check() -> Result<(), Failure> {
    let mut files = Vec::new();
    for folder in ["crates", "fuzz"] {
        sources(&root().join(folder), &mut files)?;
    }
    let mut found = Vec::new();
    for file in files {
        if fs::read_to_string(&file).is_ok_and(|text| names(&text, SAMPLE)) {
            found.push(file.strip_prefix(root()).unwrap_or(&file).display().to_string());
        }
    }
    found.sort();
    if found == FILES {
        return Ok(());
    }
    Err(Failure::new(format!(
        "a method is a row of the table, a recorder and a recovery: {SAMPLE} should be named in {FILES:?}, and is in {found:?}"
    )))
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Is the word there, however it is written?
fn names(text: &str, word: &str) -> bool {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.into_iter().any(|part| part.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_as_names_of_anything() {
        assert!(names("recorder: [serial],", "serial"));
        assert!(names("Method::Serial", "serial"));
        assert!(!names("serialises, deserialize", "serial"));
    }
}
