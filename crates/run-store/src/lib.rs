//! Run directories on disk: create, seal, list, open, remove, pack into one file and unpack. And the cache of learned schedules.
//!
//! A run is a directory. While its program runs it holds `recording.json`; when the recording is complete that file
//! is rewritten and *renamed* to `run.json`, so a run is complete exactly when it says so, and a recording that was
//! killed half-way is recognised as such and still readable ([`RunState`]).
//!
//! This crate knows names, metadata and the control file. It does not decode logs (`log-format`), and it runs nothing
//! (`replayer`). Everything read from disk is checked: damage is an [`Error::Corrupt`] that names file, place,
//! expectation and finding; nothing here panics on foreign bytes. Removal deletes only files this tool writes, never
//! a tree.
//!
//! Start with [`Store`] and [`RunDirectory`]; for packed runs with NOTE [Packed runs] in `pack/mod.rs`, for learned schedules with
//! NOTE [Cache of schedules] in `schedules/mod.rs`.
#![forbid(unsafe_code)]

mod checked;
mod control;
mod directory;
mod error;
mod hash;
mod kept_call_sites;
mod leftovers;
mod meta;
mod pack;
mod private;
mod schedules;
mod settings_text;
mod shown;
mod store;
mod text;

pub use control::Beginning;
pub use control::CONTROL_DISK_BYTES;
pub use control::CallObject;
pub use control::ControlFile;
pub use control::ControlSetup;
pub use control::DivergenceReport;
pub use control::Ended;
pub use control::FailurePoint;
pub use control::HeaderSnapshot;
pub use control::Origin;
pub use control::Question;
pub use control::SlotSnapshot;
pub use control::ThreadState;
pub use control::TurnsSnapshot;
pub use control::call_sites_of;
pub use directory::PROGRAM;
pub use directory::RunDirectory;
pub use directory::RunState;
pub use directory::encoded_bytes;
pub use directory::remove_abandoned_parts;
pub use directory::write_whole;
pub use directory::write_whole_with;
pub use error::Error;
pub use error::Result;
pub use error::plain;
pub use hash::FileState;
pub use hash::Hashing;
pub use hash::HashingReader;
pub use hash::hash_bytes;
pub use hash::hash_file;
pub use hash::hash_file_once;
pub use leftovers::end as end_in_peace;
pub use leftovers::note as note_temporary;
pub use meta::Captured;
pub use meta::Ending;
pub use meta::FileIdentity;
pub use meta::Instrumentation;
pub use meta::META_VERSION;
pub use meta::Outcome;
pub use meta::ProcessMeta;
pub use meta::RunMeta;
pub use meta::Truncated;
pub use meta::UnrecordedCalls;
pub use meta::signal_name;
pub use pack::Alias;
pub use pack::Contents;
pub use pack::Entry;
pub use pack::FileToPack;
pub use pack::Manifest;
pub use pack::Missing;
pub use pack::PACK_VERSION;
pub use pack::Reader;
pub use pack::Role;
pub use pack::Unpacked;
pub use pack::pack;
pub use pack::read_manifest;
pub use pack::unpack;
pub use private::create_directories;
pub use private::create_directory;
pub use private::create_file;
pub use private::write_file;
pub use run_model::Scope;
pub use runtime_abi::RunSettings;
pub use schedules::Build;
pub use schedules::LearnGuard;
pub use schedules::Learned;
pub use schedules::Library;
pub use schedules::Lookup;
pub use schedules::Nearest;
pub use schedules::OtherArgument;
pub use schedules::OtherVariable;
pub use schedules::Others;
pub use schedules::PackedMember;
pub use schedules::SCHEDULE_FILE_BYTES_MAX;
pub use schedules::SCHEDULE_VERSION;
pub use schedules::ScheduleArchive;
pub use schedules::ScheduleCache;
pub use schedules::ScheduleEntry;
pub use schedules::ScheduleFile;
pub use schedules::ScheduleKey;
pub use schedules::ScheduleMeta;
pub use schedules::SchedulePlace;
pub use schedules::Unlike;
pub use schedules::UnpackedSchedules;
pub use schedules::Variable;
pub use shown::is_command;
pub use shown::shown;
pub use shown::shown_path;
pub use store::Store;
pub use text::Text;
