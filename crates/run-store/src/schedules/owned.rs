//! Opening what must be the user's own: a schedule decides what programs do, so whoever may write it must be who runs them.
//!
//! Links are not followed, and what is neither a directory nor a plain file is not read: it might never end.
use crate::Error;
use crate::Result;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::fs::Metadata;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Group and others may write.
const WRITABLE: u32 = 0o022;

/// The root of a cache, which may be a link that the user has made. `None`: there is none.
pub(super) fn root(path: &Path) -> Result<Option<File>> {
    directory_with(path, OFlags::DIRECTORY)
}

/// A directory in a cache. `None`: there is none.
pub(super) fn directory(path: &Path) -> Result<Option<File>> {
    directory_with(path, OFlags::DIRECTORY | OFlags::NOFOLLOW)
}

fn directory_with(path: &Path, flags: OFlags) -> Result<Option<File>> {
    let Some((file, metadata)) = open(path, flags)? else {
        return Ok(None);
    };
    check(path, &metadata)?;
    Ok(Some(file))
}

/// A plain file in a cache, and its length. `None`: there is none.
pub(crate) fn file(path: &Path) -> Result<Option<(File, u64)>> {
    let Some((file, metadata)) = open(path, OFlags::NOFOLLOW | OFlags::NONBLOCK)? else {
        return Ok(None);
    };
    if !metadata.is_file() {
        return Err(foreign_kind(path));
    }
    check(path, &metadata)?;
    Ok(Some((file, metadata.len())))
}

fn open(path: &Path, flags: OFlags) -> Result<Option<(File, Metadata)>> {
    let failed = |e| Error::cache("read", path, e);
    let flags = i32::try_from(flags.bits()).expect("flags of Linux are small");
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e)
            if [Errno::LOOP, Errno::NOTDIR, Errno::NXIO]
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&e.raw_os_error()) =>
        {
            return Err(foreign_kind(path));
        }
        Err(e) => return Err(failed(e)),
    };
    let metadata = file.metadata().map_err(failed)?;
    Ok(Some((file, metadata)))
}

fn check(path: &Path, metadata: &Metadata) -> Result<()> {
    let us = rustix::process::geteuid().as_raw();
    let untrusted = |why: String, remedy: String| {
        Err(Error::Untrusted {
            path: path.to_owned(),
            why,
            remedy,
        })
    };
    if metadata.uid() != us {
        return untrusted(
            format!("it belongs to user {}, and you are user {us}", metadata.uid()),
            "choose a cache of your own with --cache or REFRAIN_DIR".to_owned(),
        );
    }
    if metadata.mode() & WRITABLE != 0 {
        return untrusted(
            format!("others may write to it (mode {:04o})", metadata.mode() & 0o7777),
            "if nobody else has, `chmod go-w` it; otherwise remove it, and the next `refrain run` learns it again"
                .to_owned(),
        );
    }
    Ok(())
}

fn foreign_kind(path: &Path) -> Error {
    Error::Untrusted {
        path: path.to_owned(),
        why: "it is a link, or another kind of file than a cache has there".to_owned(),
        remedy: "remove it, or choose another cache with --cache or REFRAIN_DIR".to_owned(),
    }
}
