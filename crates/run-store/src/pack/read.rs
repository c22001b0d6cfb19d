//! Reading an archive from front to end, believing nothing: see NOTE [Packed runs].
use super::manifest::Entry;
use super::manifest::MANIFEST_BYTES_MAX;
use super::manifest::Manifest;
use super::manifest::PACK_VERSION;
use super::tar;
use crate::Error;
use crate::Result;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

pub(super) const STAMP: &str = "refrain-pack";
pub(super) const MANIFEST: &str = "manifest.json";
/// The stamp is a few words; more is not read.
const STAMP_BYTES_MAX: u64 = 256;
const BUFFER_BYTES: usize = 1 << 16;

/// An archive whose manifest was read and found good. Its members are read in order.
pub struct Reader<R> {
    input: R,
    /// For messages only.
    file: PathBuf,
    /// Bytes read.
    offset: u64,
    manifest: Manifest,
    manifest_json: Vec<u8>,
    next: usize,
}

/// The content of the first member.
pub(super) fn stamp(manifest: &[u8]) -> String {
    let hash = blake3::hash(manifest).to_hex();
    format!("refrain pack {PACK_VERSION}\nmanifest {hash} {}\n", manifest.len())
}

impl<R: Read> Reader<R> {
    /// Reads up to the first member of the run. `bytes` is the length of the whole archive.
    pub fn open(input: R, bytes: u64, file: &Path) -> Result<Reader<R>> {
        let manifest = Manifest {
            version: PACK_VERSION,
            refrain: String::new(),
            name: String::new(),
            entries: Vec::new(),
            aliases: Vec::new(),
            missing: Vec::new(),
        };
        let mut reader = Reader {
            input,
            file: file.to_owned(),
            offset: 0,
            manifest,
            manifest_json: Vec::new(),
            next: 0,
        };
        let (hash, manifest_bytes) = reader.read_stamp()?;
        let json = reader.small_member(MANIFEST, manifest_bytes)?;
        if blake3::hash(&json).to_hex().as_str() != hash {
            return Err(reader.damaged("manifest.json", format!("content with the hash {hash}"), "another"));
        }
        let manifest: Manifest = serde_json::from_slice(&json)
            .map_err(|e| reader.damaged("manifest.json", "a manifest in JSON", e.to_string()))?;
        manifest
            .check()
            .map_err(|[place, expected, found]| reader.damaged(place, expected, found))?;
        let expected = manifest
            .entries
            .iter()
            .try_fold(reader.offset + tar::END_BYTES, |sum, entry| {
                sum.checked_add(tar::member_bytes(entry.stored)?)
            });
        if expected != Some(bytes) {
            let expected = expected.map_or_else(|| "more than any file has".to_owned(), |sum| sum.to_string());
            return Err(reader.damaged("length", format!("{expected} bytes"), bytes.to_string()));
        }
        (reader.manifest, reader.manifest_json) = (manifest, json);
        Ok(reader)
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes of the manifest.
    pub fn manifest_json(&self) -> &[u8] {
        &self.manifest_json
    }

    /// Passes the stored bytes of the next entry to `write`. What was passed is good only if `Ok` comes back.
    pub fn copy_next(&mut self, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Entry {
            path,
            stored,
            mode,
            hash,
            ..
        } = self.manifest.entries[self.next].clone();
        self.next += 1;
        self.expect_header(&path, stored, mode)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut left = stored;
        while left > 0 {
            let part = &mut buffer[..left.min(BUFFER_BYTES as u64) as usize];
            self.read(part)?;
            hasher.update(part);
            write(part)?;
            left -= part.len() as u64;
        }
        if hasher.finalize().to_hex().as_str() != hash {
            return Err(self.damaged(path, format!("content with the hash {hash}"), "another"));
        }
        self.expect_zeros(tar::padding(stored))
    }

    /// Call after the last entry: the archive ends here, and so does the file.
    pub fn finish(mut self) -> Result<()> {
        assert!(self.next == self.manifest.entries.len(), "entries were left out");
        self.expect_zeros(tar::END_BYTES as usize)?;
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged(format!("byte {}", self.offset), "the end of the file", "more")),
            Err(e) => Err(Error::io("read", &self.file, e)),
        }
    }

    /// Hash and length of the manifest.
    fn read_stamp(&mut self) -> Result<(String, u64)> {
        let mut header = [0; tar::BLOCK_BYTES as usize];
        self.read(&mut header)?;
        let is_ours = header.starts_with(b"refrain-pack\0");
        // 11 octal digits; the comparison below makes sure that nothing else was there.
        let digits = std::str::from_utf8(&header[124..135]).ok();
        let bytes = digits.and_then(|digits| u64::from_str_radix(digits, 8).ok());
        let (true, Some(bytes @ 1..=STAMP_BYTES_MAX)) = (is_ours, bytes) else {
            return Err(Error::NotAPack {
                path: self.file.clone(),
            });
        };
        if header != tar::header(STAMP, bytes, 0o644) {
            return Err(self.damaged("byte 0", "the header of the member refrain-pack", "another"));
        }
        let mut text = vec![0; bytes as usize];
        self.read(&mut text)?;
        self.expect_zeros(tar::padding(bytes))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut words = text.split_whitespace();
        let version = words.nth(2).and_then(|word| word.parse::<u64>().ok());
        if let Some(found) = version
            && found > u64::from(PACK_VERSION)
        {
            return Err(Error::Newer {
                file: self.file.clone(),
                what: "pack format",
                found,
                known: u64::from(PACK_VERSION),
            });
        }
        let (hash, manifest_bytes) = (words.nth(1), words.next().and_then(|word| word.parse::<u64>().ok()));
        let (Some(hash), Some(manifest_bytes)) = (hash, manifest_bytes) else {
            return Err(self.damaged(STAMP, "version, hash and length", "something else"));
        };
        // Written as we write it, and in no other way.
        if text != format!("refrain pack {PACK_VERSION}\nmanifest {hash} {manifest_bytes}\n") {
            return Err(self.damaged(STAMP, "version, hash and length", "something else"));
        }
        Ok((hash.to_owned(), manifest_bytes))
    }

    /// A member that is held in memory.
    fn small_member(&mut self, name: &str, bytes: u64) -> Result<Vec<u8>> {
        if bytes > MANIFEST_BYTES_MAX {
            let expected = format!("at most {MANIFEST_BYTES_MAX} bytes");
            return Err(self.damaged(name, expected, bytes.to_string()));
        }
        self.expect_header(name, bytes, 0o644)?;
        // Grows with what is really there, not with what was promised.
        let mut content = Vec::new();
        let read = Read::by_ref(&mut self.input).take(bytes).read_to_end(&mut content);
        let read = read.map_err(|e| Error::io("read", &self.file, e))? as u64;
        self.offset += read;
        if read != bytes {
            return Err(self.cut_off());
        }
        self.expect_zeros(tar::padding(bytes))?;
        Ok(content)
    }

    fn expect_header(&mut self, name: &str, bytes: u64, mode: u32) -> Result<()> {
        let place = self.offset;
        let mut found = [0; tar::BLOCK_BYTES as usize];
        self.read(&mut found)?;
        if found == tar::header(name, bytes, mode) {
            Ok(())
        } else {
            let expected = format!("the tar header of {name} as a plain file of {bytes} bytes");
            Err(self.damaged(format!("byte {place}"), expected, "another"))
        }
    }

    fn expect_zeros(&mut self, bytes: usize) -> Result<()> {
        let place = self.offset;
        let mut found = [0; tar::END_BYTES as usize];
        self.read(&mut found[..bytes])?;
        match found.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(at) => {
                let place = format!("byte {}", place + at as u64);
                Err(self.damaged(place, "a zero", format!("{:#04x}", found[at])))
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        match self.input.read_exact(buffer) {
            Ok(()) => {
                self.offset += buffer.len() as u64;
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(self.cut_off()),
            Err(e) => Err(Error::io("read", &self.file, e)),
        }
    }

    fn cut_off(&self) -> Error {
        self.damaged(format!("after byte {}", self.offset), "more", "the end of the file")
    }

    fn damaged(&self, place: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::corrupt(&self.file, place, expected, found)
    }
}
