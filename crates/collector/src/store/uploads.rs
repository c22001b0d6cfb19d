//! Large bodies on their way into the store: a file of their own, until they are whole and are what they were said to be.
use super::Store;
use crate::Error;
use crate::Result;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Removed when it is dropped without having been kept.
pub struct Upload {
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Store {
    pub fn begin_upload(&self) -> Result<Upload> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Only tells files apart; no other memory hangs on it.
        let number = NEXT.fetch_add(1, Relaxed);
        let path = self.folder().join("uploads").join(number.to_string());
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path).map_err(|e| Error::io("write", &path, e))?;
        Ok(Upload {
            path,
            file,
            hasher: blake3::Hasher::new(),
            bytes: 0,
        })
    }
}

impl Upload {
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        let written = self.file.write_all(bytes);
        written.map_err(|e| Error::io("write", &self.path, e))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn hash(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }

    /// It is on disk, under that name, when this returns.
    pub fn keep(self, path: &Path, mode: u32) -> Result<()> {
        let kept = self.file.set_permissions(Permissions::from_mode(mode));
        let kept = kept
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&self.path, path))
            .and_then(|()| File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all());
        kept.map_err(|e| Error::io("write", path, e))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // One that was kept has another name by now.
        _ = fs::remove_file(&self.path);
    }
}
