//! Who may ask what: a file with a token a line.
//!
//! ```text
//! TOKEN                    everything, in the project `default`
//! PROJECT TOKEN            everything in that project
//! PROJECT TOKEN upload     upload logs and inputs, and read advice
//! ```
use crate::Error;
use crate::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const TOKEN_BYTES_MIN: usize = 16;
const PROJECT_BYTES_MAX: usize = 64;
const FILE_BYTES_MAX: u64 = 1 << 20;
const READABLE_BY_OTHERS: u32 = 0o077;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Logs and inputs, and advice.
    Upload,
    Everything,
}

/// What a token gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub project: String,
    pub right: Right,
    /// Tells tokens apart where the token itself must not be written down.
    pub id: [u8; 16],
}

#[derive(Debug)]
pub struct Tokens {
    /// By the BLAKE3 hash of the token.
    grants: Vec<([u8; 32], Grant)>,
}

impl Tokens {
    /// Refuses a file that others can read.
    pub fn load(path: &Path) -> Result<Tokens> {
        let metadata = fs::metadata(path).map_err(|e| Error::io("read the token file", path, e))?;
        let refuse = |what: String| Error::TokenFile {
            path: path.to_owned(),
            what,
        };
        if metadata.mode() & READABLE_BY_OTHERS != 0 {
            return Err(refuse("others can use it; chmod 600 it".to_owned()));
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(refuse(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        let text = fs::read_to_string(path).map_err(|e| Error::io("read the token file", path, e))?;
        Tokens::parse(&text).map_err(refuse)
    }

    /// A sentence with the line that is wrong; never the token.
    pub fn parse(text: &str) -> std::result::Result<Tokens, String> {
        let mut grants: Vec<([u8; 32], Grant)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (project, token, right) = match words.as_slice() {
                [] => continue,
                [token] => ("default", *token, Right::Everything),
                [project, token] => (*project, *token, Right::Everything),
                [project, token, "upload"] => (*project, *token, Right::Upload),
                _ => {
                    return Err(format!(
                        "line {number} is none of: TOKEN, PROJECT TOKEN, PROJECT TOKEN upload"
                    ));
                }
            };
            check_project(project).map_err(|what| format!("line {number}: {what}"))?;
            if token.len() < TOKEN_BYTES_MIN {
                return Err(format!(
                    "line {number}: a token has at least {TOKEN_BYTES_MIN} characters"
                ));
            }
            let hash = *blake3::hash(token.as_bytes()).as_bytes();
            if grants.iter().any(|(known, _)| *known == hash) {
                return Err(format!("line {number} has the token of an earlier one"));
            }
            let mut id = [0; 16];
            id.copy_from_slice(&blake3::derive_key("refrain fleet token id", token.as_bytes())[..16]);
            let project = project.to_owned();
            grants.push((hash, Grant { project, right, id }));
        }
        match grants.is_empty() {
            true => Err("it has no token".to_owned()),
            false => Ok(Tokens { grants }),
        }
    }

    /// In the same time whether a token is nearly right or not at all, and which one it is: hashes are compared whole, all of them.
    pub fn grant(&self, token: &str) -> Option<&Grant> {
        let hash = blake3::hash(token.as_bytes());
        let mut found = None;
        for (known, grant) in &self.grants {
            // blake3's comparison takes the same time for all.
            if blake3::Hash::from_bytes(*known) == hash {
                found = Some(grant);
            }
        }
        found
    }
}

fn check_project(name: &str) -> std::result::Result<(), String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match name.len() <= PROJECT_BYTES_MAX && name.chars().all(is_fine) {
        true => Ok(()),
        false => Err(format!(
            "a project's name has at most {PROJECT_BYTES_MAX} letters, digits, '-', '_' and '.'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_rights() {
        let text = "# ours\nabcdefghijklmnop\nshop 0123456789abcdef # all\nshop fedcba9876543210 upload\n\n";
        let tokens = Tokens::parse(text).expect("fine");
        let of = |token| tokens.grant(token).map(|grant| (grant.project.as_str(), grant.right));
        assert_eq!(of("abcdefghijklmnop"), Some(("default", Right::Everything)));
        assert_eq!(of("0123456789abcdef"), Some(("shop", Right::Everything)));
        assert_eq!(of("fedcba9876543210"), Some(("shop", Right::Upload)));
        assert_eq!(of("fedcba987654321"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_token() {
        let wrong = |text: &str| Tokens::parse(text).expect_err("wrong");
        assert_eq!(wrong("\n# nothing\n"), "it has no token");
        assert_eq!(wrong("\nshort"), "line 2: a token has at least 16 characters");
        assert_eq!(
            wrong("a b c"),
            "line 1 is none of: TOKEN, PROJECT TOKEN, PROJECT TOKEN upload"
        );
        assert_eq!(
            wrong("abcdefghijklmnop\nshop abcdefghijklmnop"),
            "line 2 has the token of an earlier one"
        );
        assert!(wrong("a/b 0123456789abcdef").contains("a project's name"));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("refrain-tokens-{}", std::process::id()));
        fs::write(&path, "abcdefghijklmnop\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let refused = Tokens::load(&path).expect_err("others can read it").to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(Tokens::load(&path).is_ok());
        fs::remove_file(&path).expect("removed");
    }
}
