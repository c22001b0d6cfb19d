//! Values of variables that the recorded program gets and the run does not hold: `refrain record --redact`.
//!
//! Addresses on the stack depend on the length of every variable, so a value is replaced by one of the same length. A program that was executed in the
//! run writes its environment down itself, and has the names from a file beside the first process's control file.
use crate::Error;
use crate::Result;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Text;
use run_store::write_file;
use runtime_abi::REDACTED_BYTES_MAX;
use runtime_abi::REDACTED_FILE_NAME;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;

const MASK: u8 = b'x';

/// Takes the values of these variables out of the metadata. Returns it as the program is to be started with.
pub fn redact(meta: &mut RunMeta, names: &[OsString]) -> RunMeta {
    let mut as_started = meta.clone();
    meta.redacted.clear();
    for (masked, given) in meta.env.iter_mut().zip(&mut as_started.env) {
        // From the environment again: the metadata may be that of an attempt before.
        let Some(value) = env::var_os(&given.0.0).filter(|_| names.contains(&given.0.0)) else {
            continue;
        };
        masked.1 = OsString::from_vec(vec![MASK; value.len()]).into();
        given.1 = value.into();
        meta.redacted.push(masked.0.clone());
    }
    as_started
}

/// Names that there is no variable of.
pub fn unknown_names(names: &[OsString]) -> Vec<&OsStr> {
    let names = names.iter().map(OsString::as_os_str);
    names.filter(|name| env::var_os(name).is_none()).collect()
}

/// Writes the names where processes of the run find them, each with a NUL behind it.
pub fn tell_runtime(run: &RunDirectory, names: &[Text]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let bytes: Vec<u8> = names
        .iter()
        .flat_map(|name| [name.as_os_str().as_bytes(), b"\0"].concat())
        .collect();
    if bytes.len() > REDACTED_BYTES_MAX {
        return Err(Error::TooManyRedacted {
            bytes_max: REDACTED_BYTES_MAX,
        });
    }
    let path = run.file(REDACTED_FILE_NAME);
    Ok(write_file(&path, &bytes).map_err(|e| run_store::Error::io("write", &path, e))?)
}

/// Why a replay may differ from a run whose values were left out.
pub fn hint(meta: &RunMeta) -> Option<String> {
    let names: Vec<String> = meta.redacted.iter().map(Text::to_string).collect();
    (!names.is_empty()).then(|| {
        format!(
            "a redacted variable may be why: in the replay, {} held as many 'x' as the recorded program's value had bytes (--redact)",
            names.join(", ")
        )
    })
}

/// Is a variable of this name likely to hold what is not for everybody?
pub fn looks_secret(name: &OsStr) -> bool {
    const PARTS: [&str; 12] = [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "KEY",
        "CREDENTIAL",
        "AUTH",
        "COOKIE",
        "PRIVATE",
        "SIGNATURE",
        "DSN",
    ];
    let name = name.to_string_lossy().to_uppercase();
    PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_others() {
        for name in [
            "GITHUB_TOKEN",
            "aws_secret_access_key",
            "DB_PASSWORD",
            "HTTP_AUTHORIZATION",
        ] {
            assert!(looks_secret(name.as_ref()), "{name}");
        }
        for name in ["PATH", "PWD", "HOME", "LANG", "TERM"] {
            assert!(!looks_secret(name.as_ref()), "{name}");
        }
    }
}
