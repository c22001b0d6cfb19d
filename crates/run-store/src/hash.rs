//! Content hashes: they tell whether a binary or a log is still the one a run was made with.
use crate::Error;
use crate::Result;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

/// BLAKE3 of the file's bytes, in hexadecimal, and their number.
pub fn hash_file(path: &Path) -> Result<(String, u64)> {
    let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(|e| Error::io("read", path, e))?;
    Ok((hasher.finalize().to_hex().to_string(), hasher.count()))
}

/// What tells that a file is as it was when we looked: device, inode, length, and the times of its last changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    times: [i64; 4],
}

impl FileState {
    pub fn of(path: &Path) -> io::Result<FileState> {
        let file = fs::metadata(path)?;
        Ok(FileState {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            times: [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()],
        })
    }
}

/// The same, computed once for each file that stays as it is: processes of a run have most of their libraries in common.
pub fn hash_file_once(path: &Path) -> Result<(String, u64)> {
    static KNOWN: Mutex<BTreeMap<FileState, (String, u64)>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let state = FileState::of(path).map_err(|e| Error::io("read", path, e))?;
    if let Some(hash) = known().get(&state) {
        return Ok(hash.clone());
    }
    let hash = hash_file(path)?;
    known().insert(state, hash.clone());
    Ok(hash)
}

/// BLAKE3 of several byte strings, each with its length, so that moving a byte from one to the next changes it.
pub fn hash_bytes<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

/// Passes on what is read and hashes it: what `hash_bytes` would say of one string of `length` bytes.
pub struct HashingReader<R> {
    reader: R,
    hasher: blake3::Hasher,
}

impl<R: Read> HashingReader<R> {
    pub fn new(reader: R, length: u64) -> HashingReader<R> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&length.to_le_bytes());
        HashingReader { reader, hasher }
    }

    pub fn hash(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        Ok(length)
    }
}

/// Passes bytes on and hashes them: what `hash_file` would say of the file.
pub struct Hashing<W> {
    writer: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Hashing<W> {
    pub fn new(writer: W) -> Hashing<W> {
        Hashing {
            writer,
            hasher: blake3::Hasher::new(),
        }
    }

    pub fn hash(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
