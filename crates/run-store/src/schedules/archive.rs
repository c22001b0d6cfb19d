//! Several entries in one file, to be put into another cache: how it is described, written and read.
//!
//! The frame is that of packed runs (NOTE [Packed runs]), with the members `schedules/N/NAME`. Names in it are of that form and mean nothing else: where
//! an entry belongs is computed from its key when it is unpacked.
use super::entry::META;
use super::entry::ScheduleEntry;
use super::key::is_hash;
use super::meta::META_BYTES_MAX;
use super::meta::SCHEDULE_FILE_BYTES_MAX;
use super::meta::ScheduleFile;
use super::owned;
use crate::Error;
use crate::Result;
use crate::pack::framing::Framed;
use crate::pack::framing::Kind;
use crate::pack::framing::MANIFEST;
use crate::pack::framing::Member;
use crate::pack::tar;
use crate::pack::write::copy;
use crate::pack::write::write_new;
use serde::Deserialize;
use serde::Serialize;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

const VERSION: u32 = 1;
/// More are not put into one file.
const SCHEDULES_MAX: usize = 1 << 16;
/// Of all members.
const MODE: u32 = 0o600;

const KIND: Kind = Kind {
    stamp: "refrain-schedules",
    words: "refrain schedules",
    what: "format of packed schedules",
    version: VERSION,
    not_one: |path| Error::NotSchedules { path },
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    /// Version of the tool that packed.
    refrain: String,
    schedules: Vec<Vec<PackedFile>>,
}

/// A file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PackedFile {
    name: String,
    bytes: u64,
    hash: String,
}

/// A member that is about to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedMember {
    /// The number of its entry.
    pub schedule: usize,
    /// A plain name: that of the metadata, or of a [`ScheduleFile`].
    pub name: String,
    pub bytes: u64,
    hash: String,
}

impl PackedMember {
    fn path(&self) -> String {
        format!("schedules/{}/{}", self.schedule, self.name)
    }
}

impl Manifest {
    fn members(&self) -> Vec<PackedMember> {
        let each = self.schedules.iter().enumerate();
        let member = |schedule: usize, file: &PackedFile| PackedMember {
            schedule,
            name: file.name.clone(),
            bytes: file.bytes,
            hash: file.hash.clone(),
        };
        each.flat_map(|(schedule, files)| files.iter().map(move |file| member(schedule, file)))
            .collect()
    }

    /// What is wrong with it: the place, what was expected, what was found.
    fn check(&self) -> std::result::Result<(), [&'static str; 3]> {
        let wrong = |expected| Err([MANIFEST, expected, "something else"]);
        if !(1..=SCHEDULES_MAX).contains(&self.schedules.len()) {
            return wrong("at least one schedule, and not too many");
        }
        for files in &self.schedules {
            let Some((first, rest)) = files.split_first() else {
                return wrong("files of each schedule");
            };
            if first.name != META || first.bytes > META_BYTES_MAX {
                return wrong("the metadata of each schedule first");
            }
            let place = |file: &PackedFile| ScheduleFile::ALL.iter().position(|known| known.name() == file.name);
            let places: Option<Vec<usize>> = rest.iter().map(place).collect();
            if !places.is_some_and(|places| places.is_sorted_by(|one, next| one < next)) {
                return wrong("files that schedules have, in their order");
            }
            let is_right = |file: &PackedFile| file.bytes <= SCHEDULE_FILE_BYTES_MAX && is_hash(&file.hash);
            if !files.iter().all(is_right) {
                return wrong("lengths and hashes of files of a schedule");
            }
        }
        Ok(())
    }
}

/// An archive whose manifest was read and found good. Its members are read in order.
pub struct ScheduleArchive<R> {
    framed: Framed<R>,
    members: std::vec::IntoIter<PackedMember>,
}

impl<R: Read> ScheduleArchive<R> {
    /// Reads up to the first member. `bytes` is the length of the whole archive, `file` its name in messages.
    pub fn open(input: R, bytes: u64, file: &Path) -> Result<ScheduleArchive<R>> {
        let (framed, json) = Framed::open(&KIND, input, file)?;
        let manifest: Manifest =
            serde_json::from_slice(&json).map_err(|e| framed.damaged(MANIFEST, "a manifest in JSON", e.to_string()))?;
        manifest
            .check()
            .map_err(|[place, expected, found]| framed.damaged(place, expected, found))?;
        let members = manifest.members();
        framed.expect_length(bytes, members.iter().map(|member| member.bytes))?;
        Ok(ScheduleArchive {
            framed,
            members: members.into_iter(),
        })
    }

    /// Passes the bytes of the next member to what `begin` makes for it. They are good only if `Ok` comes back; `None` after the last one.
    pub fn copy_next<W: FnMut(&[u8]) -> Result<()>>(
        &mut self,
        begin: impl FnOnce(&PackedMember) -> Result<W>,
    ) -> Result<Option<PackedMember>> {
        let Some(member) = self.members.next() else {
            return Ok(None);
        };
        let write = begin(&member)?;
        let (path, hash) = (member.path(), member.hash.clone());
        let described = Member {
            path: &path,
            stored: member.bytes,
            mode: MODE,
            hash: &hash,
        };
        self.framed.copy(&described, write)?;
        Ok(Some(member))
    }

    /// Call after the last member: the archive ends here, and so does the file.
    pub fn finish(self) -> Result<()> {
        assert!(self.members.as_slice().is_empty(), "members were left out");
        self.framed.finish()
    }
}

/// Writes `output`, which must not exist, in full or not at all.
pub(super) fn pack(entries: &[ScheduleEntry], output: &Path) -> Result<()> {
    assert!(!entries.is_empty(), "there is nothing to pack");
    write_new(output, |out| write(entries, out, output))
}

fn write(entries: &[ScheduleEntry], out: &mut impl Write, output: &Path) -> Result<()> {
    let mut manifest = Manifest {
        refrain: env!("CARGO_PKG_VERSION").to_owned(),
        schedules: Vec::new(),
    };
    let mut sources: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.place().metadata();
        let (hash, bytes) = crate::hash_file(&path)?;
        let metadata = PackedFile {
            name: META.to_owned(),
            bytes,
            hash,
        };
        sources.push(path);
        let files = entry.meta().files.iter().map(|(file, sum)| {
            sources.push(entry.place().file(*file));
            PackedFile {
                name: file.name().to_owned(),
                bytes: sum.bytes,
                hash: sum.hash.clone(),
            }
        });
        let files = [metadata].into_iter().chain(files).collect();
        manifest.schedules.push(files);
    }
    if let Err([place, expected, found]) = manifest.check() {
        return Err(Error::corrupt(output, place, expected, found));
    }
    let json = serde_json::to_vec_pretty(&manifest).expect("a manifest has only string keys");
    let failed = |e: io::Error| Error::io("write", output, e);
    KIND.begin(&json, out).map_err(failed)?;
    for (member, source) in manifest.members().iter().zip(&sources) {
        let changed = || Error::ChangedMeanwhile { path: source.clone() };
        let (file, _) = owned::file(source)?.ok_or_else(changed)?;
        let described = Member {
            path: &member.path(),
            stored: member.bytes,
            mode: MODE,
            hash: &member.hash,
        };
        copy(&described, file, source, out, output)?;
    }
    out.write_all(&[0; tar::END_BYTES as usize]).map_err(failed)
}
