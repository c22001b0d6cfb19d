//! What can go wrong with a run on disk, as sentences that name the thing and the remedy.
use crate::shown::shown;
use crate::shown::shown_path;
use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// None of the three variables that say where runs live is set.
    NoHome,
    /// A run name that is not a plain file name.
    BadName {
        name: String,
    },
    NoSuchRun {
        name: String,
        root: PathBuf,
    },
    NoRuns {
        root: PathBuf,
    },
    /// A directory that holds neither `run.json` nor `recording.json`.
    NotARun {
        path: PathBuf,
    },
    /// `-o DIR` with a DIR that exists.
    Exists {
        path: PathBuf,
    },
    /// The run is being recorded at this moment.
    InUse {
        path: PathBuf,
    },
    /// Files we did not write are in a run directory that is to be removed.
    ForeignFiles {
        path: PathBuf,
        example: String,
    },
    /// A file that is no packed run.
    NotAPack {
        path: PathBuf,
    },
    /// `pack -o FILE` with a FILE that exists.
    PackExists {
        path: PathBuf,
    },
    /// A file became another one while it was being packed.
    ChangedMeanwhile {
        path: PathBuf,
    },
    PathTooLong {
        path: PathBuf,
        bytes_max: usize,
    },
    /// What was given is not the name of a schedule.
    BadScheduleName {
        name: String,
    },
    NoSuchSchedule {
        name: String,
        root: PathBuf,
    },
    /// The beginning of the names of several schedules.
    SeveralSchedules {
        name: String,
        examples: [String; 2],
    },
    /// A file that holds no packed schedules.
    NotSchedules {
        path: PathBuf,
    },
    /// A program runs with the schedule at this moment.
    ScheduleInUse {
        path: PathBuf,
    },
    /// What others may have written is not followed.
    Untrusted {
        path: PathBuf,
        why: String,
        remedy: String,
    },
    /// More than a cache takes.
    TooBig {
        what: String,
        bytes: u64,
        bytes_max: u64,
    },
    /// Something is wrong with an entry of the cache of schedules, and there is something to be done about it.
    Schedule {
        cause: Box<Error>,
        remedy: String,
    },
    /// The cache of schedules could not be written.
    CacheIo {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    Corrupt {
        file: PathBuf,
        place: String,
        expected: String,
        found: String,
    },
    /// Written by a newer version of this tool.
    Newer {
        file: PathBuf,
        what: &'static str,
        found: u64,
        known: u64,
    },
}

impl Error {
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn cache(doing: &'static str, path: &Path, source: io::Error) -> Error {
        Error::CacheIo {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    pub fn corrupt(
        file: &Path,
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Corrupt {
            file: file.to_owned(),
            place: place.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoHome => {
                write!(
                    f,
                    "cannot tell where runs live: set REFRAIN_DIR (or XDG_DATA_HOME, or HOME) to a directory"
                )
            }
            Error::BadName { name } => {
                write!(
                    f,
                    "'{}' is not the name of a run; give a name that `refrain ls` prints, or a directory",
                    shown(name)
                )
            }
            Error::NoSuchRun { name, root } => write!(
                f,
                "there is no run '{}' in {} and no directory of that name here; `refrain ls` lists the runs",
                shown(name),
                shown_path(root)
            ),
            Error::NoRuns { root } => write!(
                f,
                "there is no latest run in {}; record one with `refrain record -- PROG`, or name a run",
                shown_path(root)
            ),
            Error::NotARun { path } => {
                write!(
                    f,
                    "{} is not a run: it holds neither run.json nor recording.json",
                    shown_path(path)
                )
            }
            Error::Exists { path } => {
                write!(
                    f,
                    "{} exists already; give -o a directory that does not exist yet",
                    shown_path(path)
                )
            }
            Error::InUse { path } => {
                write!(
                    f,
                    "{} is being recorded right now; wait for its program to end",
                    shown_path(path)
                )
            }
            Error::ForeignFiles { path, example } => write!(
                f,
                "{} also holds files that are no part of the run (such as '{}'); these were left there",
                shown_path(path),
                shown(example)
            ),
            Error::NotAPack { path } => write!(
                f,
                "{} is not a packed run; give a file that `refrain pack` wrote",
                shown_path(path)
            ),
            Error::PackExists { path } => {
                write!(
                    f,
                    "{} exists already; give -o a file that does not exist yet",
                    shown_path(path)
                )
            }
            Error::ChangedMeanwhile { path } => write!(
                f,
                "{} changed while it was being packed; wait for whoever writes it, and pack again",
                shown_path(path)
            ),
            Error::PathTooLong { path, bytes_max } => write!(
                f,
                "the path {} is longer than {bytes_max} bytes; set REFRAIN_DIR to a shorter one",
                shown_path(path)
            ),
            Error::BadScheduleName { name } => write!(
                f,
                "'{}' is not the name of a schedule; give a name that `refrain schedules ls` prints, or the beginning of one",
                shown(name)
            ),
            Error::NoSuchSchedule { name, root } => write!(
                f,
                "there is no schedule '{}' in {}; `refrain schedules ls` lists them",
                shown(name),
                shown_path(root)
            ),
            Error::SeveralSchedules {
                name,
                examples: [one, other],
            } => write!(
                f,
                "several schedules have names that begin with '{}' (such as {one} and {other}); give more of the name",
                shown(name)
            ),
            Error::NotSchedules { path } => write!(
                f,
                "{} holds no packed schedules; give a file that `refrain schedules pack` wrote",
                shown_path(path)
            ),
            Error::ScheduleInUse { path } => write!(
                f,
                "a program runs with the schedule {} right now; wait for it to end",
                shown_path(path)
            ),
            Error::Untrusted { path, why, remedy } => {
                write!(f, "cannot use {}: {}; {}", shown_path(path), shown(why), shown(remedy))
            }
            Error::TooBig { what, bytes, bytes_max } => write!(
                f,
                "{} would have {bytes} bytes, and the cache of schedules takes {bytes_max} at most; \
                 record such a program with `refrain record` instead",
                shown(what)
            ),
            Error::Schedule { cause, remedy } => write!(f, "{cause}; {}", shown(remedy)),
            Error::CacheIo { doing, path, source } => {
                write!(f, "cannot {doing} {}: {}", shown_path(path), plain(source))?;
                match source.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        f.write_str("; choose a place you may write to with --cache or REFRAIN_DIR")
                    }
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => f.write_str(
                        "; free some space (`refrain schedules rm`), or choose another place with --cache or REFRAIN_DIR",
                    ),
                    _ => Ok(()),
                }
            }
            Error::Io { doing, path, source } => {
                write!(
                    f,
                    "cannot {doing} {}: {}{}",
                    shown_path(path),
                    plain(source),
                    remedy(source)
                )
            }
            Error::Corrupt {
                file,
                place,
                expected,
                found,
            } => write!(
                f,
                "cannot read {}: {}: expected {}, found {}; the file is damaged or not ours",
                shown_path(file),
                shown(place),
                shown(expected),
                shown(found)
            ),
            Error::Newer {
                file,
                what,
                found,
                known,
            } => write!(
                f,
                "cannot read {}: it has {what} {found}, this build of refrain reads up to {known}; \
                 use the version of refrain that recorded it",
                shown_path(file)
            ),
        }
    }
}

impl std::error::Error for Error {}

/// The system's words without Rust's "(os error 28)".
pub fn plain(source: &io::Error) -> String {
    let text = source.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a place you may write to with REFRAIN_DIR or -o"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space (`refrain rm`), or choose another place with REFRAIN_DIR or -o"
        }
        _ => "",
    }
}
