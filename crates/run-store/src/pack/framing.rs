//! The frame of an archive, read from front to end, believing nothing: see NOTE [Packed runs].
use super::manifest::MANIFEST_BYTES_MAX;
use super::tar;
use crate::Error;
use crate::Result;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

pub(crate) const MANIFEST: &str = "manifest.json";
/// The stamp is a few words; more is not read.
const STAMP_BYTES_MAX: u64 = 256;
const BUFFER_BYTES: usize = 1 << 16;
/// Of the stamp and the manifest.
const MODE: u32 = 0o644;

/// What tells one kind of archive from another.
pub(crate) struct Kind {
    /// The name of the first member.
    pub stamp: &'static str,
    /// The two words that its content begins with.
    pub words: &'static str,
    /// What has a version.
    pub what: &'static str,
    pub version: u32,
    /// The error for what is no archive of this kind.
    pub not_one: fn(PathBuf) -> Error,
}

impl Kind {
    /// The content of the first member.
    fn stamp(&self, manifest: &[u8]) -> String {
        let hash = blake3::hash(manifest).to_hex();
        self.stamp_of(hash.as_str(), manifest.len() as u64)
    }

    fn stamp_of(&self, hash: &str, bytes: u64) -> String {
        format!("{} {}\nmanifest {hash} {bytes}\n", self.words, self.version)
    }

    /// Writes what an archive begins with.
    pub fn begin(&self, manifest: &[u8], out: &mut impl Write) -> io::Result<()> {
        for (name, content) in [(self.stamp, self.stamp(manifest).as_bytes()), (MANIFEST, manifest)] {
            out.write_all(&tar::header(name, content.len() as u64, MODE))?;
            out.write_all(content)?;
            out.write_all(&vec![0; tar::padding(content.len() as u64)])?;
        }
        Ok(())
    }
}

/// A member behind the manifest, as that describes it.
pub(crate) struct Member<'a> {
    pub path: &'a str,
    pub stored: u64,
    pub mode: u32,
    pub hash: &'a str,
}

/// An archive whose stamp and manifest have been read.
pub(crate) struct Framed<R> {
    input: R,
    /// For messages only.
    file: PathBuf,
    /// Bytes read.
    offset: u64,
}

impl<R: Read> Framed<R> {
    /// Reads up to the first member behind the manifest, whose bytes come back, too: they have the hash that the stamp says.
    pub fn open(kind: &Kind, input: R, file: &Path) -> Result<(Framed<R>, Vec<u8>)> {
        let mut framed = Framed {
            input,
            file: file.to_owned(),
            offset: 0,
        };
        let (hash, manifest_bytes) = framed.read_stamp(kind)?;
        let json = framed.small_member(MANIFEST, manifest_bytes)?;
        if blake3::hash(&json).to_hex().as_str() != hash {
            return Err(framed.damaged(MANIFEST, format!("content with the hash {hash}"), "another"));
        }
        Ok((framed, json))
    }

    /// `bytes` is the length of the whole archive, `stored` that of each member that follows.
    pub fn expect_length(&self, bytes: u64, mut stored: impl Iterator<Item = u64>) -> Result<()> {
        let expected = stored.try_fold(self.offset + tar::END_BYTES, |sum, stored| {
            sum.checked_add(tar::member_bytes(stored)?)
        });
        if expected == Some(bytes) {
            return Ok(());
        }
        let expected = expected.map_or_else(|| "more than any file has".to_owned(), |sum| sum.to_string());
        Err(self.damaged("length", format!("{expected} bytes"), bytes.to_string()))
    }

    /// Passes the stored bytes of the next member to `write`. What was passed is good only if `Ok` comes back.
    pub fn copy(&mut self, member: &Member<'_>, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.expect_header(member.path, member.stored, member.mode)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut left = member.stored;
        while left > 0 {
            let part = &mut buffer[..left.min(BUFFER_BYTES as u64) as usize];
            self.read(part)?;
            hasher.update(part);
            write(part)?;
            left -= part.len() as u64;
        }
        if hasher.finalize().to_hex().as_str() != member.hash {
            let expected = format!("content with the hash {}", member.hash);
            return Err(self.damaged(member.path, expected, "another"));
        }
        self.expect_zeros(tar::padding(member.stored))
    }

    /// Call after the last member: the archive ends here, and so does the file.
    pub fn finish(mut self) -> Result<()> {
        self.expect_zeros(tar::END_BYTES as usize)?;
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged(format!("byte {}", self.offset), "the end of the file", "more")),
            Err(e) => Err(Error::io("read", &self.file, e)),
        }
    }

    /// Hash and length of the manifest.
    fn read_stamp(&mut self, kind: &Kind) -> Result<(String, u64)> {
        let mut header = [0; tar::BLOCK_BYTES as usize];
        self.read(&mut header)?;
        let is_ours = header.starts_with(format!("{}\0", kind.stamp).as_bytes());
        // 11 octal digits; the comparison below makes sure that nothing else was there.
        let digits = std::str::from_utf8(&header[124..135]).ok();
        let bytes = digits.and_then(|digits| u64::from_str_radix(digits, 8).ok());
        let (true, Some(bytes @ 1..=STAMP_BYTES_MAX)) = (is_ours, bytes) else {
            return Err((kind.not_one)(self.file.clone()));
        };
        if header != tar::header(kind.stamp, bytes, MODE) {
            let expected = format!("the header of the member {}", kind.stamp);
            return Err(self.damaged("byte 0", expected, "another"));
        }
        let mut text = vec![0; bytes as usize];
        self.read(&mut text)?;
        self.expect_zeros(tar::padding(bytes))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut words = text.split_whitespace();
        let version = words.nth(2).and_then(|word| word.parse::<u64>().ok());
        if let Some(found) = version
            && found > u64::from(kind.version)
        {
            return Err(Error::Newer {
                file: self.file.clone(),
                what: kind.what,
                found,
                known: u64::from(kind.version),
            });
        }
        let (hash, manifest_bytes) = (words.nth(1), words.next().and_then(|word| word.parse::<u64>().ok()));
        let (Some(hash), Some(manifest_bytes)) = (hash, manifest_bytes) else {
            return Err(self.damaged(kind.stamp, "version, hash and length", "something else"));
        };
        // Written as we write it, and in no other way.
        if text != kind.stamp_of(hash, manifest_bytes) {
            return Err(self.damaged(kind.stamp, "version, hash and length", "something else"));
        }
        Ok((hash.to_owned(), manifest_bytes))
    }

    /// A member that is held in memory.
    fn small_member(&mut self, name: &str, bytes: u64) -> Result<Vec<u8>> {
        if bytes > MANIFEST_BYTES_MAX {
            let expected = format!("at most {MANIFEST_BYTES_MAX} bytes");
            return Err(self.damaged(name, expected, bytes.to_string()));
        }
        self.expect_header(name, bytes, MODE)?;
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

    pub fn damaged(&self, place: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::corrupt(&self.file, place, expected, found)
    }
}
