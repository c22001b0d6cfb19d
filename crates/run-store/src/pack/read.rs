//! Reading a packed run: its manifest, then its members in order.
use super::framing::Framed;
use super::framing::Kind;
use super::framing::MANIFEST;
use super::framing::Member;
use super::manifest::Manifest;
use super::manifest::PACK_VERSION;
use crate::Error;
use crate::Result;
use std::io::Read;
use std::path::Path;

pub(super) const RUN: Kind = Kind {
    stamp: "refrain-pack",
    words: "refrain pack",
    what: "pack format",
    version: PACK_VERSION,
    not_one: |path| Error::NotAPack { path },
};

/// An archive whose manifest was read and found good. Its members are read in order.
pub struct Reader<R> {
    framed: Framed<R>,
    manifest: Manifest,
    manifest_json: Vec<u8>,
    next: usize,
}

impl<R: Read> Reader<R> {
    /// Reads up to the first member of the run. `bytes` is the length of the whole archive.
    pub fn open(input: R, bytes: u64, file: &Path) -> Result<Reader<R>> {
        let (framed, manifest_json) = Framed::open(&RUN, input, file)?;
        let manifest: Manifest = serde_json::from_slice(&manifest_json)
            .map_err(|e| framed.damaged(MANIFEST, "a manifest in JSON", e.to_string()))?;
        manifest
            .check()
            .map_err(|[place, expected, found]| framed.damaged(place, expected, found))?;
        framed.expect_length(bytes, manifest.entries.iter().map(|entry| entry.stored))?;
        Ok(Reader {
            framed,
            manifest,
            manifest_json,
            next: 0,
        })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes of the manifest.
    pub fn manifest_json(&self) -> &[u8] {
        &self.manifest_json
    }

    /// Passes the stored bytes of the next entry to `write`. What was passed is good only if `Ok` comes back.
    pub fn copy_next(&mut self, write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let entry = &self.manifest.entries[self.next];
        self.next += 1;
        let member = Member {
            path: &entry.path,
            stored: entry.stored,
            mode: entry.mode,
            hash: &entry.hash,
        };
        self.framed.copy(&member, write)
    }

    /// Call after the last entry: the archive ends here, and so does the file.
    pub fn finish(self) -> Result<()> {
        assert!(self.next == self.manifest.entries.len(), "entries were left out");
        self.framed.finish()
    }
}
