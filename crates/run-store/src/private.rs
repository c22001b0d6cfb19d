//! Files and directories that are their owner's alone, whatever the umask is.
//!
//! A run holds the program's environment, what it read and what it printed. A mode given at creation is cut by the umask, never widened, so a file is
//! private from its first moment; what a strange umask takes away from ourselves is given back at once.
use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(crate) const FILE_MODE: u32 = 0o600;
pub(crate) const PROGRAM_MODE: u32 = 0o700;
const DIRECTORY_MODE: u32 = 0o700;

/// Creates a file to be read and written, which must not exist.
pub fn create_file(path: &Path) -> io::Result<File> {
    create_with_mode(path, FILE_MODE)
}

/// The same for one that may have to be executed. Never follows a link, never opens what is there already.
pub(crate) fn create_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(mode);
    let file = options.open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Writes a file, in the place of what is there.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    io::Write::write_all(&mut create_file(path)?, bytes)
}

/// Creates a directory, which must not exist.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
}

/// Creates a directory with its parents, unless it is there. What is there stays as it is: it may be somebody else's.
pub fn create_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_directories(parent)?;
    }
    match create_directory(path) {
        // Somebody else was faster.
        Err(_) if path.is_dir() => Ok(()),
        other => other,
    }
}
