//! What a packed run says about itself, and what of it is believed.
use crate::Text;
use crate::directory::is_member_name;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Version of the archive this build writes; it reads all up to this one.
pub const PACK_VERSION: u32 = 1;
/// No honest manifest is near this: 32,768 logs take some 7 MB.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// Zeros at a file's end that need not be stored. The control file has 4.2 MB of them at most, a log one window of 4 MiB.
pub(crate) const ZEROS_MAX: u64 = 8 << 20;
/// Longest path that Linux takes, without its NUL.
const PATH_BYTES_MAX: usize = 4095;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    /// Version of the tool that packed.
    pub refrain: String,
    /// What the run was called where it was packed.
    pub name: String,
    /// In the order of the archive.
    pub entries: Vec<Entry>,
    /// Other names by which the loader found the files.
    #[serde(default)]
    pub aliases: Vec<Alias>,
    /// What the program used and the archive lacks.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `run/NAME` or `files/N`.
    pub path: String,
    pub role: Role,
    pub bytes: u64,
    /// Bytes in the archive; the rest of the file is zeros.
    pub stored: u64,
    /// BLAKE3 of the stored bytes, hexadecimal.
    pub hash: String,
    /// Permission bits.
    pub mode: u32,
    /// Where the file was; absent for the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Text>,
    /// GNU build-id, hexadecimal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Whether the kernel aligned long mappings of it to huge pages. It does so for some file systems and not for others,
    /// and libraries lie elsewhere then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_aligned: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A file of the run directory.
    Run,
    Executable,
    Library,
    /// Neither, and yet addresses depend on it: the loader's cache.
    Support,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    pub path: Text,
    /// Path of an entry.
    pub entry: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub path: Text,
    pub why: String,
}

impl Manifest {
    /// The files beside the run's own, with their numbers.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let files = self.entries.iter().filter(|entry| entry.role != Role::Run);
        files.enumerate()
    }

    pub fn is_self_contained(&self) -> bool {
        self.missing.is_empty()
    }

    /// The number of the file that the program found under this path.
    pub fn file_at(&self, path: &Path) -> Option<usize> {
        let is_here = |text: &Text| Path::new(text.as_os_str()) == path;
        let alias = self.aliases.iter().find(|alias| is_here(&alias.path));
        let found = self.files().find(|(_, entry)| {
            entry.original.as_ref().is_some_and(is_here) || alias.is_some_and(|alias| alias.entry == entry.path)
        });
        found.map(|(number, _)| number)
    }

    /// What is wrong with it: the place, what was expected, what was found.
    pub(crate) fn check(&self) -> Result<(), [String; 3]> {
        let wrong = |place: String, expected: &str, found: &str| Err([place, expected.to_owned(), shown(found)]);
        let mut names = BTreeSet::new();
        let (mut files, mut executables, mut metadata) = (0, 0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let place = |field: &str| format!("field {field} of entry {index} of manifest.json");
            let fits = match entry.role {
                Role::Run => entry.path.strip_prefix("run/").is_some_and(is_member_name),
                _ => entry.path == format!("files/{files}"),
            };
            if !fits {
                return wrong(
                    place("path"),
                    "the name of a file of a run, or files/N in order",
                    &entry.path,
                );
            }
            if !names.insert(&entry.path) {
                return wrong(place("path"), "a name that was not there before", &entry.path);
            }
            if entry.stored > entry.bytes || entry.bytes - entry.stored > ZEROS_MAX {
                let found = format!("{} of {}", entry.stored, entry.bytes);
                return wrong(place("stored"), "nearly all of the file's bytes", &found);
            }
            if entry.mode > 0o777 {
                return wrong(place("mode"), "permission bits", &format!("{:#o}", entry.mode));
            }
            let is_hash = entry.hash.len() == 64 && entry.hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hash {
                return wrong(place("hash"), "64 hexadecimal digits", &entry.hash);
            }
            match (entry.role, &entry.original) {
                (Role::Run, None) => {
                    metadata += u32::from(["run/run.json", "run/recording.json"].contains(&entry.path.as_str()))
                }
                (Role::Run, Some(path)) => return wrong(place("original"), "nothing", &path.to_string()),
                (_, None) => return wrong(place("original"), "an absolute path", "nothing"),
                (role, Some(path)) => {
                    if !is_absolute(path) {
                        return wrong(place("original"), "an absolute path", &path.to_string());
                    }
                    files += 1;
                    executables += u32::from(role == Role::Executable);
                }
            }
        }
        if executables != 1 {
            return wrong("manifest.json".to_owned(), "one executable", &executables.to_string());
        }
        if metadata != 1 {
            return wrong(
                "manifest.json".to_owned(),
                "one of run.json and recording.json",
                &metadata.to_string(),
            );
        }
        self.check_places(&names)
    }

    /// No two files at one place, and no name for a file that is not there.
    fn check_places(&self, names: &BTreeSet<&String>) -> Result<(), [String; 3]> {
        let mut places = BTreeSet::new();
        let originals = self.entries.iter().filter_map(|entry| entry.original.as_ref());
        for path in originals.chain(self.aliases.iter().map(|alias| &alias.path)) {
            if !places.insert(path.as_os_str()) {
                let expected = "each original path once".to_owned();
                return Err(["manifest.json".to_owned(), expected, shown(&path.to_string())]);
            }
        }
        for alias in &self.aliases {
            let is_file = names.contains(&alias.entry) && alias.entry.starts_with("files/");
            if !is_file || !is_absolute(&alias.path) {
                let expected = "absolute paths for members files/N".to_owned();
                return Err([
                    "aliases of manifest.json".to_owned(),
                    expected,
                    shown(&alias.path.to_string()),
                ]);
            }
        }
        Ok(())
    }
}

fn is_absolute(path: &Text) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.starts_with(b"/") && bytes.len() <= PATH_BYTES_MAX
}

/// Foreign text as part of a sentence: quoted, without control characters, and not without end.
fn shown(text: &str) -> String {
    const SHOWN: usize = 80;
    let short: String = text.chars().take(SHOWN).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use serde_json::json;

    fn good() -> Value {
        let hash = "0".repeat(64);
        let entry = |path: &str, role: &str, original: Value| json!({ "path": path, "role": role, "bytes": 9, "stored": 5, "hash": hash, "mode": 0o755, "original": original });
        json!({
            "version": 1,
            "refrain": "0",
            "name": "prog-0",
            "entries": [
                entry("run/run.json", "run", Value::Null),
                entry("run/thread-12.log", "run", Value::Null),
                entry("files/0", "executable", json!("/bin/prog")),
                entry("files/1", "library", json!("/lib/x.so")),
            ],
            "aliases": [{ "path": "/lib64/x.so", "entry": "files/1" }],
        })
    }

    fn check(manifest: &Value) -> Result<(), String> {
        let manifest: Manifest = serde_json::from_value(manifest.clone()).map_err(|e| e.to_string())?;
        manifest.check().map_err(|parts| parts.join(", "))
    }

    #[test]
    fn a_good_manifest_passes() {
        assert_eq!(check(&good()), Ok(()));
    }

    #[test]
    fn whatever_could_lead_elsewhere_is_refused() {
        let changes = [
            ("/entries/1/path", json!("../x")),
            ("/entries/1/path", json!("run/../x")),
            ("/entries/1/path", json!("run/..")),
            ("/entries/1/path", json!("run/")),
            ("/entries/1/path", json!("/etc/x")),
            ("/entries/1/path", json!("run//etc/x")),
            ("/entries/1/path", json!("run/thread-1.log/x")),
            ("/entries/1/path", json!("run/thread-../x.log")),
            ("/entries/1/path", json!("run/thread-99999999999.log")),
            ("/entries/1/path", json!("run/x.part")),
            ("/entries/1/path", json!("run/packed-0")),
            ("/entries/1/path", json!("run/packed.json")),
            ("/entries/1/path", json!("run/run.json")),
            ("/entries/1/path", json!("run/recording.json")),
            ("/entries/0/path", json!("run/stdout")),
            ("/entries/0/original", json!("/etc/x")),
            ("/entries/1/role", json!("library")),
            ("/entries/2/role", json!("library")),
            ("/entries/2/path", json!("files/1")),
            ("/entries/3/path", json!("files/0")),
            ("/entries/3/path", json!("files/../x")),
            ("/entries/3/role", json!("executable")),
            ("/entries/3/role", json!("link")),
            ("/entries/3/original", json!("lib/x.so")),
            ("/entries/3/original", json!("/bin/prog")),
            ("/entries/3/original", json!("/x\0y")),
            ("/entries/3/original", json!("/x".repeat(3000))),
            ("/entries/3/original", Value::Null),
            ("/entries/3/mode", json!(0o4755)),
            ("/entries/3/stored", json!(10)),
            ("/entries/3/stored", json!(-1)),
            ("/entries/3/bytes", json!(u64::MAX)),
            ("/entries/3/hash", json!("")),
            ("/entries/3/hash", json!("x".repeat(64))),
            ("/aliases/0/path", json!("lib64/x.so")),
            ("/aliases/0/path", json!("/lib/x.so")),
            ("/aliases/0/entry", json!("files/2")),
            ("/aliases/0/entry", json!("run/run.json")),
        ];
        for (field, value) in changes {
            let mut manifest = good();
            *manifest.pointer_mut(field).expect("a field of the good manifest") = value.clone();
            assert!(check(&manifest).is_err(), "{field} = {value} was accepted");
        }
    }
}
