//! Why a server cannot be started, or its store not used: sentences that name the thing and the remedy.
use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    Io {
        doing: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    Database {
        doing: &'static str,
        error: rusqlite::Error,
    },
    /// A folder with something else in it.
    ForeignStore {
        path: PathBuf,
    },
    NewerStore {
        path: PathBuf,
        newest: u32,
        found: u32,
    },
    /// Another process has it.
    StoreInUse {
        path: PathBuf,
    },
    /// Bytes of the store are not what was written.
    DamagedStore {
        path: PathBuf,
        what: String,
    },
    TokenFile {
        path: PathBuf,
        what: String,
    },
    Listen {
        address: std::net::SocketAddr,
        error: io::Error,
    },
    /// Everybody could read the tokens on their way.
    PlainRemote {
        address: std::net::SocketAddr,
    },
    Tls {
        path: PathBuf,
        what: String,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path, error: io::Error) -> Error {
        Error::Io {
            doing,
            path: path.to_owned(),
            error,
        }
    }

    pub(crate) fn database(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
        move |error| Error::Database { doing, error }
    }

    /// There is no room on the disk, or no right to more of it.
    pub fn is_full_disk(&self) -> bool {
        match self {
            Error::Io { error, .. } => matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
            ),
            Error::Database { error, .. } => matches!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure)
            ),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, path, error } => write!(f, "cannot {doing} {}: {error}", path.display()),
            Error::Database { doing, error } => write!(f, "the store's database: cannot {doing}: {error}"),
            Error::ForeignStore { path } => write!(
                f,
                "{} is not a fleet store, and it is not empty: name another folder",
                path.display()
            ),
            Error::NewerStore { path, newest, found } => write!(
                f,
                "{} is a fleet store of version {found}; this build reads up to {newest}: a newer Refrain reads it",
                path.display()
            ),
            Error::StoreInUse { path } => write!(
                f,
                "{} is in use by another process: one store has one server",
                path.display()
            ),
            Error::DamagedStore { path, what } => write!(f, "{} is damaged: {what}", path.display()),
            Error::TokenFile { path, what } => write!(f, "token file {}: {what}", path.display()),
            Error::Listen { address, error } => write!(
                f,
                "cannot listen on {address}: {error}; another address can be named with --listen"
            ),
            Error::PlainRemote { address } => write!(
                f,
                "{address} can be reached from other machines, and without TLS everybody on the way could read tokens and logs: give a certificate and a key, listen on 127.0.0.1, or say that this is wanted"
            ),
            Error::Tls { path, what } => write!(f, "cannot use {} for TLS: {what}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
