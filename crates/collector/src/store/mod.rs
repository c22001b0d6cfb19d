//! A folder with everything that the server keeps.
//!
//! ```text
//! STORE          what it is, and its version
//! lock           held as long as a server has the store
//! control.db     SQLite: everything but the following
//! packs/         access vectors (`packs`)
//! builds/        registered programs, by project and hash
//! inputs/        archives of inputs, by hash
//! runs/          merged runs, by merge
//! attempts/      of merges that are under way; emptied when the store is opened
//! uploads/       bodies that are not whole yet; emptied when the store is opened
//! ```
//!
//! One batch of logs is one sync of a pack and one commit. What was answered to be accepted survives the death of the process and of the machine.
mod bugs;
mod builds;
mod inputs;
mod logs;
mod merges;
mod packs;
mod schema;
mod uploads;

pub use bugs::BugRow;
pub use bugs::LogRow;
pub use bugs::Postings;
pub use bugs::TREND_HOURS;
pub use builds::BuildRow;
pub use builds::ElementUse;
pub use logs::Answer;
pub use merges::AttemptRow;
pub use merges::INTERRUPTED;
pub use merges::MergeRow;
pub use uploads::Upload;

use crate::Error;
use crate::Result;
use packs::Packs;
use rusqlite::Connection;
use rusqlite::OpenFlags;
use rusqlite::OptionalExtension;
use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

pub use schema::VERSION;

const HEAD: &str = "refrain fleet store ";
const FOLDERS: [&str; 6] = ["packs", "builds", "inputs", "runs", "attempts", "uploads"];
/// Connections that are kept for reading.
const READERS_KEPT: usize = 8;
const BUSY: Duration = Duration::from_secs(10);

pub struct Store {
    folder: PathBuf,
    writer: Mutex<Writer>,
    readers: Mutex<Vec<Connection>>,
    /// Released by the kernel, however the process ends.
    _lock: File,
}

struct Writer {
    database: Connection,
    packs: Packs,
}

impl Store {
    /// Makes it if the folder is empty or not there.
    pub fn open(folder: &Path) -> Result<Store> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).map_err(|e| Error::io("make", folder, e))?;
        check_version(folder)?;
        let lock = lock(folder)?;
        for name in FOLDERS {
            let path = folder.join(name);
            builder.create(&path).map_err(|e| Error::io("make", &path, e))?;
        }
        let database = open_database(folder)?;
        let newest = "SELECT number, length FROM packs ORDER BY number DESC LIMIT 1";
        let committed = database
            .query_row(newest, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))
            .optional()
            .map_err(Error::database("read how long packs are"))?;
        let packs = Packs::open(&folder.join("packs"), committed)?;
        let store = Store {
            folder: folder.to_owned(),
            writer: Mutex::new(Writer { database, packs }),
            readers: Mutex::default(),
            _lock: lock,
        };
        store.begin_again()?;
        Ok(store)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Several read at a time, while one writes.
    fn read<T>(&self, doing: &'static str, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let kept = locked(&self.readers).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => open_reader(&self.folder)?,
        };
        let answer = read(&connection).map_err(Error::database(doing));
        let mut readers = locked(&self.readers);
        if readers.len() < READERS_KEPT {
            readers.push(connection);
        }
        answer
    }

    /// One transaction; on disk when this returns.
    fn write<T>(
        &self,
        doing: &'static str,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut writer = locked(&self.writer);
        let transaction = writer.database.transaction().map_err(Error::database(doing))?;
        let answer = write(&transaction).map_err(Error::database(doing))?;
        transaction.commit().map_err(Error::database(doing))?;
        Ok(answer)
    }

    /// The vector, checked.
    pub fn vector(&self, hash: &[u8; 32], place: packs::Place) -> Result<Vec<u8>> {
        packs::read(&self.folder.join("packs"), place, hash)
    }

    /// What a server that was killed left behind.
    fn begin_again(&self) -> Result<()> {
        for name in ["attempts", "uploads"] {
            let folder = self.folder.join(name);
            for entry in fs::read_dir(&folder).map_err(|e| Error::io("list", &folder, e))? {
                let path = entry.map_err(|e| Error::io("list", &folder, e))?.path();
                let removed = match path.is_dir() {
                    true => fs::remove_dir_all(&path),
                    false => fs::remove_file(&path),
                };
                removed.map_err(|e| Error::io("remove", &path, e))?;
            }
        }
        self.interrupt_merges()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in the middle of a transaction rolls it back.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn check_version(folder: &Path) -> Result<()> {
    let path = folder.join("STORE");
    let foreign = || Error::ForeignStore {
        path: folder.to_owned(),
    };
    let text = match fs::read(&path) {
        Ok(bytes) if bytes.len() <= 64 => String::from_utf8(bytes).map_err(|_| foreign())?,
        Ok(_) => return Err(foreign()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
            // A server that was killed before it could say what this is.
            let is_ours = |name: &std::ffi::OsStr| name == "STORE.part";
            if entries.any(|entry| entry.is_ok_and(|entry| !is_ours(&entry.file_name()))) {
                return Err(foreign());
            }
            return packs::write_file(&path, format!("{HEAD}{VERSION}\n").as_bytes());
        }
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    let number = text.strip_prefix(HEAD).and_then(|number| number.strip_suffix('\n'));
    match number.and_then(|number| number.parse::<u32>().ok()) {
        None | Some(0) => Err(foreign()),
        Some(found) if found > VERSION => Err(Error::NewerStore {
            path: folder.to_owned(),
            newest: VERSION,
            found,
        }),
        Some(_) => Ok(()),
    }
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(|e| Error::io("open", &path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::StoreInUse {
            path: folder.to_owned(),
        }),
        Err(fs::TryLockError::Error(e)) => Err(Error::io("lock", &path, e)),
    }
}

fn open_database(folder: &Path) -> Result<Connection> {
    let path = folder.join("control.db");
    // SQLite gives its other files the mode of this one.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(&path).map_err(|e| Error::io("open", &path, e))?;
    let prepare = || -> rusqlite::Result<Connection> {
        let mut database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        database.busy_timeout(BUSY)?;
        database.pragma_update(None, "journal_mode", "WAL")?;
        // With a write-ahead log this syncs at every commit, which NORMAL does not.
        database.pragma_update(None, "synchronous", "FULL")?;
        database.set_prepared_statement_cache_capacity(64);
        let transaction = database.transaction()?;
        let has_tables: bool = transaction.query_row("SELECT count(*) > 0 FROM sqlite_master", [], |row| row.get(0))?;
        if !has_tables {
            transaction.execute_batch(schema::TABLES)?;
        }
        transaction.commit()?;
        Ok(database)
    };
    prepare().map_err(Error::database("open it"))
}

fn open_reader(folder: &Path) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let database = Connection::open_with_flags(folder.join("control.db"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        database.pragma_update(None, "query_only", true)?;
        database.busy_timeout(BUSY)?;
        database.set_prepared_statement_cache_capacity(64);
        Ok(database)
    };
    open().map_err(Error::database("open it for reading"))
}
