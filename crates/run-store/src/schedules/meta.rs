//! What `schedule.json` says: for what the schedule was learned, by whom, and what came of it.
use super::key::ScheduleKey;
use super::key::is_hash;
use crate::Error;
use crate::FileIdentity;
use crate::FileState;
use crate::Outcome;
use crate::Result;
use crate::Text;
use crate::checked;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the cache's entries that this build writes and reads.
pub const SCHEDULE_VERSION: u32 = 3;
/// Of every file of an entry.
pub const SCHEDULE_FILE_BYTES_MAX: u64 = 1 << 30;
/// No honest metadata is near this; a bigger file is not read into memory.
pub(super) const META_BYTES_MAX: u64 = 4 << 20;

/// The files of an entry beside its metadata. The cache does not look into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleFile {
    /// The hybrid schedule, as the tool reads it.
    Hybrid,
    /// The same, as the runtime maps it.
    Schedule,
    /// The places in the program that it speaks of.
    Points,
    /// Its steps that no thread waits at, as the runtime maps them.
    OwnSteps,
    /// The hybrid schedule for people, with lines of the source.
    Steps,
    /// What came in when it was learned: digests.
    Inputs,
}

impl ScheduleFile {
    pub const ALL: [ScheduleFile; 6] = [
        ScheduleFile::Hybrid,
        ScheduleFile::Schedule,
        ScheduleFile::Points,
        ScheduleFile::OwnSteps,
        ScheduleFile::Steps,
        ScheduleFile::Inputs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ScheduleFile::Hybrid => "hybrid",
            ScheduleFile::Schedule => "schedule",
            ScheduleFile::Points => "points",
            ScheduleFile::OwnSteps => "own_steps",
            ScheduleFile::Steps => "steps",
            ScheduleFile::Inputs => "inputs",
        }
    }

    /// Is it what a program runs by, and not only what tools and people read?
    pub fn is_enforced(self) -> bool {
        !matches!(self, ScheduleFile::Hybrid | ScheduleFile::Steps)
    }
}

/// Length and BLAKE3, hexadecimal, of a file as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileSum {
    pub bytes: u64,
    pub hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleMeta {
    pub version: u32,
    /// Version of the tool that learned it.
    pub refrain: String,
    /// `runtime_abi::ABI_VERSION` of that tool.
    pub abi_version: u32,
    pub key: ScheduleKey,
    pub learned: Learned,
    pub(super) files: BTreeMap<ScheduleFile, FileSum>,
}

/// A shared library, as it was when a schedule was learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    pub file: FileIdentity,
    /// As long as the file is in this state, nobody has to read it. Elsewhere it is in another, and is read.
    pub state: Option<FileState>,
}

/// What is known of a schedule when it is put into the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// Unix time in seconds.
    pub learned_at: u64,
    /// The shared libraries that the program had mapped. They are no part of the key, since who starts a program does not know them.
    pub libraries: Vec<Library>,
    /// Those of them that are the program's own, and were not compiled to be observed.
    pub unobserved: Vec<Text>,
    /// How the program ended that it was learned from.
    pub outcome: Outcome,
    /// The thread in which it ended, and by which signal, if that is known.
    pub ended_in: Option<(u32, u32)>,
    pub threads: u32,
    /// Synchronisations in their order.
    pub steps: u64,
    /// Those of them that come after one of another thread.
    pub hand_overs: u64,
    /// Orders between accesses that race.
    pub constraints: u64,
    pub races: u64,
    /// Races that other orders imply.
    pub pruned: u64,
    pub accesses: u64,
    /// Calls by which the program got what no schedule determines: bytes, clocks, process numbers.
    pub unordered_reads: Vec<String>,
    /// Calls by which its threads may have waited for something, or changed it, in an order that no schedule keeps.
    pub unordered_waits: Vec<String>,
    pub recording_ms: u64,
    pub solving_ms: u64,
    pub tracing_ms: u64,
    pub relaxing_ms: u64,
    /// Why it cannot be used again.
    pub sealed: Option<String>,
}

impl ScheduleMeta {
    /// The files beside it, and their lengths.
    pub fn files(&self) -> impl Iterator<Item = (ScheduleFile, u64)> + '_ {
        self.files.iter().map(|(file, sum)| (*file, sum.bytes))
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let bytes = checked::encode(self);
        match bytes.len() as u64 {
            length if length <= META_BYTES_MAX => Ok(bytes),
            length => Err(Error::TooBig {
                what: "what there is to say about the schedule".to_owned(),
                bytes: length,
                bytes_max: META_BYTES_MAX,
            }),
        }
    }

    /// From the bytes of `schedule.json`; `file` is its name in messages. Nothing is believed that can be checked.
    pub fn decode(bytes: &[u8], file: &Path) -> Result<ScheduleMeta> {
        if bytes.len() as u64 > META_BYTES_MAX {
            let expected = format!("at most {META_BYTES_MAX} bytes");
            return Err(Error::corrupt(file, "size", expected, "more"));
        }
        let malformed = |e: serde_json::Error| {
            let place = format!("line {} column {}", e.line(), e.column());
            Error::corrupt(file, place, "metadata of a schedule in JSON", e.to_string())
        };
        // The version first: a newer layout must be named as such, not as a missing field.
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(malformed)?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found == u64::from(SCHEDULE_VERSION) => {}
            Some(found) if found > u64::from(SCHEDULE_VERSION) => {
                return Err(Error::Newer {
                    file: file.to_owned(),
                    what: "schedule version",
                    found,
                    known: u64::from(SCHEDULE_VERSION),
                });
            }
            found => {
                let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
                return Err(Error::corrupt(
                    file,
                    "field version",
                    SCHEDULE_VERSION.to_string(),
                    found,
                ));
            }
        }
        if checked::is_whole(bytes) != Some(true) {
            let expected = "that of the metadata that was written";
            return Err(Error::corrupt(file, "checksum", expected, "another"));
        }
        let meta: ScheduleMeta = serde_json::from_slice(bytes).map_err(malformed)?;
        match meta.check() {
            Ok(()) => Ok(meta),
            Err([place, expected, found]) => Err(Error::corrupt(file, place, expected, found)),
        }
    }

    /// What is wrong with it: the place, what was expected, what was found.
    fn check(&self) -> std::result::Result<(), [String; 3]> {
        self.key.check()?;
        for (file, sum) in &self.files {
            let place = || format!("field files.{}", file.name());
            if sum.bytes > SCHEDULE_FILE_BYTES_MAX {
                let expected = format!("at most {SCHEDULE_FILE_BYTES_MAX} bytes");
                return Err([place(), expected, sum.bytes.to_string()]);
            }
            if !is_hash(&sum.hash) {
                let expected = "64 hexadecimal digits".to_owned();
                return Err([place(), expected, "something else".to_owned()]);
            }
        }
        Ok(())
    }
}
