//! Deterministic runs (PEREGRINE): the first run of a program with some input is recorded, and a hybrid schedule is learned from it; later ones
//! follow that schedule, on live inputs and in parallel.
//!
//! ```text
//! key ── lookup ──▶ hit ── enforce ──▶ the program's end | it left its schedule
//!            └────▶ miss ── record ── recover ── traced replay ── relax ── check ── compile ──▶ the cache
//! ```
mod enforce;
mod follow;
mod learn;
mod libraries;
mod unordered;
mod whole;

pub use enforce::Enforced;
pub use enforce::Enforcing;
pub use enforce::Left;
pub use enforce::Order;
pub use follow::Astray;
pub use follow::Followed;
pub use follow::Follower;
pub use learn::Learning;
pub use runtime_abi::relay::OnDivergence;
pub use runtime_abi::relay::Relay;
pub use whole::KeptTrace;
pub use whole::KeptTraceError;
pub use whole::TracedRun;

use crate::Error;
use crate::Result;
use crate::launch::recording_environment;
use crate::record::Recording;
use instrumentor::sites::SiteTable;
use run_model::Method;
use run_store::Build;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::ScheduleKey;
use run_store::Scope;
use runtime_abi::counting::CountingFor;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Variables that a shell changes by itself: they make no other key.
const OF_SHELLS: [&str; 8] = [
    "_",
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "SHLVL",
    "WINDOWID",
    "REFRAIN",
    "REFRAIN_DIR",
];

/// A program that is to be run so, and for what its schedules are learned.
#[derive(Debug)]
pub struct Subject {
    pub recording: Recording,
    pub meta: RunMeta,
    pub key: ScheduleKey,
}

impl Subject {
    /// Finds the program. It must have been built to be run so.
    pub fn of(command: Vec<OsString>) -> Result<Subject> {
        let recording = Recording {
            command,
            settings: RunSettings {
                scope: Scope::Memory,
                method: Method::Light,
                counting: CountingFor::Recording,
                ..RunSettings::default()
            },
            redact: Vec::new(),
            timeout: None,
            logging_time_max: None,
            wait: Duration::ZERO,
            tell_waiting: |_| (),
            files: Vec::new(),
        };
        let meta = recording.describe().map_err(|error| match error {
            Error::NotInstrumented { path } => Error::NotCounted { path },
            other => other,
        })?;
        require_counted(Path::new(meta.executable.path.as_os_str()))?;
        let build = Build::of(meta.executable.clone(), &[]);
        let arguments = meta.argv.iter().map(|word| word.as_os_str().to_owned());
        let variables = recording_environment(None);
        let variables = variables
            .iter()
            .map(|(name, value)| (name.as_os_str().to_owned(), value.as_os_str().to_owned()));
        let counts = |name: &OsStr| !OF_SHELLS.iter().any(|other| name == *other);
        let key = ScheduleKey::new(build, arguments, variables, counts);
        Ok(Subject { recording, meta, key })
    }
}

fn require_counted(path: &Path) -> Result<()> {
    let bytes = fs::read(path).map_err(|e| run_store::Error::io("read", path, e))?;
    let table = SiteTable::from_elf(path, &bytes);
    match table.is_ok_and(|table| table.is_counted()) {
        true => Ok(()),
        false => Err(Error::NotCounted { path: path.to_owned() }),
    }
}
