//! Vectors in a few large files that only ever grow.
//!
//! ```text
//! pack-N = entry*        entry = length (4 bytes, little endian), BLAKE3 of the bytes (32), bytes
//! ```
//!
//! Where an entry is, and how long each pack is, stands in the database, in the same commit as the logs that have the vector. What a pack has
//! beyond that was never acknowledged: it is cut when the store is opened. A pack that is shorter is damaged.
use crate::Error;
use crate::Result;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

/// A new pack is begun when one is as long as this.
const PACK_BYTES: u64 = 256 << 20;
const HEAD_BYTES: usize = 4 + 32;

/// Where a vector is: of its entry, the first byte; of the vector, how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub pack: u32,
    pub offset: u64,
    pub length: u32,
}

pub struct Packs {
    folder: PathBuf,
    number: u32,
    file: File,
    /// Bytes that were committed, or are about to be.
    length: u64,
    /// Begun since the last commit: its name is not yet on disk.
    is_new: bool,
}

impl Packs {
    /// `committed` has the number and length of the newest pack as the database knows them.
    pub fn open(folder: &Path, committed: Option<(u32, u64)>) -> Result<Packs> {
        let (number, length) = committed.unwrap_or((0, 0));
        let path = path_of(folder, number);
        let file = open(&path, committed.is_none())?;
        let found = file.metadata().map_err(|e| Error::io("look at", &path, e))?.len();
        if found < length {
            let what = format!("it has {found} bytes, and {length} were acknowledged");
            return Err(Error::DamagedStore { path, what });
        }
        file.set_len(length).map_err(|e| Error::io("cut", &path, e))?;
        file.sync_all().map_err(|e| Error::io("sync", &path, e))?;
        remove_later(folder, number)?;
        Ok(Packs {
            folder: folder.to_owned(),
            number,
            file,
            length,
            is_new: true,
        })
    }

    /// The newest pack, and how long it is.
    pub fn end(&self) -> (u32, u64) {
        (self.number, self.length)
    }

    /// Appends them, in one piece, and does not return before they are on disk. If it fails, nothing was appended.
    pub fn append(&mut self, vectors: &[([u8; 32], Vec<u8>)]) -> Result<Vec<Place>> {
        if self.length >= PACK_BYTES {
            self.begin(self.number + 1)?;
        }
        let mut bytes = Vec::with_capacity(vectors.iter().map(|(_, vector)| HEAD_BYTES + vector.len()).sum());
        let mut places = Vec::with_capacity(vectors.len());
        for (hash, vector) in vectors {
            places.push(Place {
                pack: self.number,
                offset: self.length + bytes.len() as u64,
                length: vector.len() as u32,
            });
            bytes.extend((vector.len() as u32).to_le_bytes());
            bytes.extend(hash);
            bytes.extend(vector);
        }
        let path = path_of(&self.folder, self.number);
        let written = self
            .file
            .write_all_at(&bytes, self.length)
            .and_then(|()| self.file.sync_data())
            .and_then(|()| match self.is_new {
                true => File::open(&self.folder)?.sync_all(),
                false => Ok(()),
            });
        if let Err(error) = written {
            self.rewind();
            return Err(Error::io("write", &path, error));
        }
        self.is_new = false;
        self.length += bytes.len() as u64;
        Ok(places)
    }

    /// What was appended last was not committed: it is overwritten by what comes next.
    pub fn take_back(&mut self, end: (u32, u64)) {
        self.length = if self.number == end.0 { end.1 } else { 0 };
        self.rewind();
    }

    fn begin(&mut self, number: u32) -> Result<()> {
        let path = path_of(&self.folder, number);
        self.file = open(&path, true)?;
        self.number = number;
        self.length = 0;
        self.is_new = true;
        Ok(())
    }

    /// Gives the room back. If that fails, the next write goes to the same place all the same.
    fn rewind(&self) {
        _ = self.file.set_len(self.length);
    }
}

/// The bytes at this place, if they still have this hash.
pub fn read(folder: &Path, place: Place, hash: &[u8; 32]) -> Result<Vec<u8>> {
    let path = path_of(folder, place.pack);
    let file = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
    let mut bytes = vec![0; HEAD_BYTES + place.length as usize];
    file.read_exact_at(&mut bytes, place.offset)
        .map_err(|e| Error::io("read", &path, e))?;
    let vector = bytes.split_off(HEAD_BYTES);
    let is_it = bytes[..4] == place.length.to_le_bytes() && bytes[4..] == *hash;
    if !is_it || *blake3::hash(&vector).as_bytes() != *hash {
        return Err(Error::DamagedStore {
            path,
            what: format!("the vector at byte {} is not what was written", place.offset),
        });
    }
    Ok(vector)
}

fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("pack-{number}"))
}

fn open(path: &Path, may_be_new: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(may_be_new).mode(0o600);
    options.open(path).map_err(|e| Error::io("open", path, e))
}

/// A pack that was begun and never committed to.
fn remove_later(folder: &Path, newest: u32) -> Result<()> {
    let path = path_of(folder, newest + 1);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", &path, e)),
        _ => Ok(()),
    }
}

/// A file of its own, on disk under its name when this returns.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e| Error::io("write", path, e);
    let part = path.with_extension("part");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    });
    written.map_err(|error| {
        _ = fs::remove_file(&part);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("refrain-packs-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    fn entry(text: &str) -> ([u8; 32], Vec<u8>) {
        (*blake3::hash(text.as_bytes()).as_bytes(), text.as_bytes().to_vec())
    }

    #[test]
    fn what_was_not_committed_is_cut() {
        let folder = folder("cut");
        let mut packs = Packs::open(&folder, None).expect("opened");
        let (one, two) = (entry("one"), entry("two"));
        let place = packs.append(std::slice::from_ref(&one)).expect("written")[0];
        let committed = packs.end();
        packs.append(std::slice::from_ref(&two)).expect("written");
        drop(packs);
        let mut packs = Packs::open(&folder, Some(committed)).expect("opened");
        assert_eq!(fs::metadata(path_of(&folder, 0)).expect("there").len(), committed.1);
        assert_eq!(read(&folder, place, &one.0).expect("whole"), one.1);
        let place = packs.append(std::slice::from_ref(&two)).expect("written")[0];
        assert_eq!(read(&folder, place, &two.0).expect("whole"), two.1);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn damage_is_said() {
        let folder = folder("damage");
        let mut packs = Packs::open(&folder, None).expect("opened");
        let one = entry("one");
        let place = packs.append(std::slice::from_ref(&one)).expect("written")[0];
        let end = packs.end();
        drop(packs);
        let path = path_of(&folder, 0);
        let whole = fs::read(&path).expect("read");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("written");
            assert!(matches!(read(&folder, place, &one.0), Err(Error::DamagedStore { .. })));
        }
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        assert!(matches!(
            Packs::open(&folder, Some(end)),
            Err(Error::DamagedStore { .. })
        ));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
