//! For what a schedule was learned: the key it is found by.
use crate::FileIdentity;
use crate::Text;
use crate::hash_bytes;
use crate::store::directory_prefix;
use runtime_abi::ABI_VERSION;
use serde::Deserialize;
use serde::Serialize;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Digits of a hash in the name of a directory.
pub(super) const NAME_DIGITS: usize = 16;
const HASH_DIGITS: usize = 64;
/// Digits that are kept of the hash of a variable's value: enough to see that it is another one, too few to guess it.
const VALUE_DIGITS: usize = 4;
/// Changes with the way in which keys are made.
const PURPOSE: &[u8] = b"refrain schedule 1";

/// A program as it was built, and the tool that runs it: schedules of one say nothing about another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub program: FileIdentity,
    /// BLAKE3, hexadecimal.
    pub hash: String,
}

impl Build {
    /// Of the program's file, this version of the tool, and whatever `further` bytes must be the same, such as hashes of libraries.
    pub fn of(program: FileIdentity, further: &[&[u8]]) -> Build {
        let abi = ABI_VERSION.to_le_bytes();
        let tool = [
            PURPOSE,
            env!("CARGO_PKG_VERSION").as_bytes(),
            &abi,
            program.hash.as_bytes(),
        ];
        let hash = hash_bytes(tool.into_iter().chain(further.iter().copied()));
        Build { program, hash }
    }
}

/// A variable of the environment. Its value may be a secret, and is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: Text,
    /// The first digits of the BLAKE3 of name and value.
    pub digest: String,
}

impl Variable {
    pub fn of(name: &OsStr, value: &OsStr) -> Variable {
        let mut digest = hash_bytes([PURPOSE, name.as_bytes(), value.as_bytes()]);
        digest.truncate(VALUE_DIGITS);
        Variable {
            name: name.into(),
            digest,
        }
    }
}

/// What must be the same for a schedule to be used again: the build, the arguments, and the variables that count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleKey {
    build: Build,
    /// The program's name first.
    arguments: Vec<Text>,
    /// Sorted by name.
    variables: Vec<Variable>,
    /// BLAKE3 of all names and values, hexadecimal.
    environment: String,
    /// BLAKE3 of all of the above, hexadecimal.
    hash: String,
}

impl ScheduleKey {
    /// `counts` says of a variable's name whether another value makes another key. The order of the variables does not.
    pub fn new(
        build: Build,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
        counts: impl Fn(&OsStr) -> bool,
    ) -> ScheduleKey {
        let pairs = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
        let mut pairs: Vec<(OsString, OsString)> = pairs.filter(|(name, _)| counts(name)).collect();
        // Stable: of two with one name, the program sees the first.
        pairs.sort_by(|one, other| one.0.cmp(&other.0));
        let bytes = pairs
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let mut key = ScheduleKey {
            build,
            arguments: arguments.into_iter().map(|word| Text(word.into())).collect(),
            environment: hash_bytes(bytes),
            variables: pairs.iter().map(|(name, value)| Variable::of(name, value)).collect(),
            hash: String::new(),
        };
        key.hash = key.computed();
        key
    }

    pub fn build(&self) -> &Build {
        &self.build
    }

    pub fn arguments(&self) -> &[Text] {
        &self.arguments
    }

    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What `ls` prints: the name of the entry's directory.
    pub fn name(&self) -> &str {
        self.hash.get(..NAME_DIGITS).unwrap_or_default()
    }

    /// The directory of all schedules of a build.
    pub(super) fn folder(&self) -> String {
        let name = Path::new(self.build.program.path.as_os_str())
            .file_name()
            .unwrap_or_default();
        let build = self.build.hash.get(..NAME_DIGITS).unwrap_or_default();
        format!("{}-{build}", directory_prefix(name))
    }

    fn computed(&self) -> String {
        // The folder too: a name belongs to one entry in the whole cache.
        let folder = self.folder();
        let fixed = [
            PURPOSE,
            folder.as_bytes(),
            self.build.hash.as_bytes(),
            self.environment.as_bytes(),
        ];
        let arguments = self.arguments.iter().map(|word| word.as_os_str().as_bytes());
        hash_bytes(fixed.into_iter().chain(arguments))
    }

    /// What is wrong with a key that came from a file: the place, what was expected, what was found.
    pub(super) fn check(&self) -> Result<(), [String; 3]> {
        let hashes = [
            ("program.hash", &self.build.program.hash),
            ("build.hash", &self.build.hash),
            ("environment", &self.environment),
        ];
        for (field, hash) in hashes {
            if !is_hash(hash) {
                let found = hash.chars().take(80).collect();
                return Err([format!("field {field}"), "64 hexadecimal digits".to_owned(), found]);
            }
        }
        if self.arguments.is_empty() {
            let expected = "at least the program's name".to_owned();
            return Err(["field arguments".to_owned(), expected, "nothing".to_owned()]);
        }
        match self.computed() {
            hash if hash == self.hash => Ok(()),
            hash => Err(["field hash of the key".to_owned(), hash, "another".to_owned()]),
        }
    }
}

pub(super) fn is_hash(text: &str) -> bool {
    text.len() == HASH_DIGITS && text.bytes().all(is_digit)
}

/// Is this the name of an entry's directory, or the beginning of one?
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_DIGITS).contains(&text.len()) && text.bytes().all(is_digit)
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(arguments: &[&str], environment: &[(&str, &str)]) -> ScheduleKey {
        let program = FileIdentity {
            path: "/bin/prog".into(),
            hash: "0".repeat(64),
            bytes: 1,
        };
        let counts = |name: &OsStr| name != "PWD";
        ScheduleKey::new(Build::of(program, &[]), arguments, environment.iter().copied(), counts)
    }

    #[test]
    fn what_counts_makes_another_key_and_nothing_else_does() {
        let one = key(&["p", "a b"], &[("A", "1"), ("B", "2"), ("PWD", "/")]);
        assert_eq!(one.check(), Ok(()));
        assert_eq!(one, key(&["p", "a b"], &[("PWD", "/tmp"), ("B", "2"), ("A", "1")]));
        for other in [
            key(&["p", "a", "b"], &[("A", "1"), ("B", "2")]),
            key(&["p", "a b", ""], &[("A", "1"), ("B", "2")]),
            key(&["p", "a b"], &[("A", "12"), ("B", "")]),
            key(&["p", "a b"], &[("A", "1")]),
            key(&["p", "a b"], &[]),
        ] {
            assert_ne!(one.hash(), other.hash());
        }
        assert!(
            !serde_json::to_string(&key(&["p"], &[("T", "hunter2")]))
                .expect("JSON")
                .contains("hunter2")
        );
    }

    #[test]
    fn builds_differ_by_whatever_they_are_made_of() {
        let program = |hash: &str| FileIdentity {
            path: "/bin/prog".into(),
            hash: hash.repeat(64),
            bytes: 1,
        };
        let one = Build::of(program("0"), &[b"libc"]);
        assert_ne!(one.hash, Build::of(program("1"), &[b"libc"]).hash);
        assert_ne!(one.hash, Build::of(program("0"), &[b"lib", b"c"]).hash);
    }
}
