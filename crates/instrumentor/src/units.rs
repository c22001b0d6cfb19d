//! What is kept of the translation units of a program that was built with `--det`: their bitcode, as it was before anything was done to it, and
//! the numbers by which traces name functions, blocks and values (`pass/units.h`).
//!
//! The pass writes one self-contained piece per unit into the section `refrain_units`, and the linker puts them one after the other.
//!
//! ```text
//! unit:     "RFRNUNIT"  i64 from here to the unit's site table  u32 version  u32 flags (1: the bitcode is compressed by zlib)
//!           u64 total bytes  u64 FNV-1a of the bitcode  u64 bytes of bitcode as stored  u64 and as it is
//!           u32 name  u32 functions  u32 blocks  u32 successors  u32 places  u32 string bytes  u32 values  u32 zero
//!           function × functions  block × blocks  u32 × successors  place × places  strings, NUL-terminated  bitcode  zeros up to a multiple of 16
//! function: u32 name  u32 first block  u32 first value  u32 arguments  u32 traces have its blocks
//! block:    u32 first value  u32 first successor  u32 file  u32 line  (0 if it has none)
//! place:    u32 value  u32 site  u32 ordinal                      (the site's offset in the site table, in units of sixteen bytes)
//! ```
//!
//! The bytes come from a file we did not just write: nothing here panics, whatever they are.
use crate::inflate;
use object::Object;
use object::ObjectSection;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;

const MAGIC: &[u8; 8] = b"RFRNUNIT";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 88;
const PACKED: u32 = 1;
const UNIT_BYTES: usize = 16;
/// Words of the records.
const FUNCTION: usize = 5;
const BLOCK: usize = 4;
const PLACE: usize = 3;

#[derive(Debug, PartialEq, Eq)]
pub enum UnitError {
    Unreadable {
        file: PathBuf,
        why: String,
    },
    NotElf {
        file: PathBuf,
        why: String,
    },
    /// Nothing of it was built with `--det`.
    NothingKept {
        file: PathBuf,
    },
    Corrupt {
        file: PathBuf,
        offset: usize,
        why: String,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::Unreadable { file, why } => write!(f, "cannot read {}: {why}", file.display()),
            UnitError::NotElf { file, why } => write!(f, "{} is not an ELF file: {why}", file.display()),
            UnitError::NothingKept { file } => write!(
                f,
                "{} has no bitcode with it: build it with `refrain cc --det` or `refrain c++ --det`",
                file.display()
            ),
            UnitError::Corrupt { file, offset, why } => write!(
                f,
                "the bitcode that is kept in {} is damaged at byte {offset}: {why}; build it again",
                file.display()
            ),
        }
    }
}

impl std::error::Error for UnitError {}

/// All units of one ELF object.
#[derive(Debug)]
pub struct Units {
    pub units: Vec<Unit>,
}

/// One translation unit.
#[derive(Debug)]
pub struct Unit {
    /// The name of its source.
    pub name: String,
    /// By which traces name it, if its object's first site is number 0. An object file that is not linked has none.
    pub number: Option<u32>,
    pub functions: Vec<Function>,
    /// How many arguments and instructions there are.
    pub values: u32,
    /// Of bitcode, as stored and as it is.
    pub stored_bytes: u64,
    pub bitcode_bytes: u64,
    /// Where it is, in the section, and how much it takes there.
    pub offset: usize,
    pub total_bytes: u64,
    blocks: Vec<Block>,
    successors: Vec<u32>,
    places: Vec<Place>,
    strings: Vec<u8>,
    bitcode: Vec<u8>,
    is_packed: bool,
    hash: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// As the linker knows it.
    pub name: String,
    pub blocks: Range<u32>,
    pub arguments: Range<u32>,
    /// Do traces have its blocks? If not, it is in none, or is computed from what it is given.
    pub is_traced: bool,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first_value: u32,
    first_successor: u32,
    file: u32,
    line: u32,
}

/// By which site and ordinal traces name the accesses of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub value: u32,
    /// Behind the site table's beginning, in units of sixteen bytes.
    pub site: u32,
    pub ordinal: u32,
}

impl Units {
    pub fn read(path: &Path) -> Result<Units, UnitError> {
        let bytes = fs::read(path).map_err(|error| UnitError::Unreadable {
            file: path.to_path_buf(),
            why: error.to_string(),
        })?;
        Units::from_elf(path, &bytes)
    }

    /// `path` is only used in messages.
    pub fn from_elf(path: &Path, bytes: &[u8]) -> Result<Units, UnitError> {
        let not_elf = |error: object::Error| UnitError::NotElf {
            file: path.to_path_buf(),
            why: error.to_string(),
        };
        let file = object::File::parse(bytes).map_err(not_elf)?;
        let section = file
            .section_by_name(runtime_abi::UNIT_SECTION)
            .ok_or_else(|| UnitError::NothingKept {
                file: path.to_path_buf(),
            })?;
        // In an object file the linker has not yet said where anything is.
        let is_linked = file.kind() != object::ObjectKind::Relocatable;
        let sites = file.section_by_name(runtime_abi::SITE_SECTION).filter(|_| is_linked);
        let distance = sites.map(|sites| section.address().wrapping_sub(sites.address()) as i64);
        Units::from_section(path, section.data().map_err(not_elf)?, distance)
    }

    /// From the bytes of the section alone, and how far it is behind that of the sites.
    pub fn from_section(path: &Path, section: &[u8], behind_sites: Option<i64>) -> Result<Units, UnitError> {
        let mut units = Vec::new();
        let mut at = 0;
        while at < section.len() {
            let unit = Unit::parse(section, at, behind_sites).ok_or_else(|| UnitError::Corrupt {
                file: path.to_path_buf(),
                offset: at,
                why: "there is no unit whose parts fit in the section".to_owned(),
            })?;
            at += unit.total_bytes as usize;
            units.push(unit);
        }
        Ok(Units { units })
    }

    /// The one with this number.
    pub fn numbered(&self, number: u32) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.number == Some(number))
    }
}

/// Little-endian numbers, one after the other.
struct Words<'a> {
    bytes: &'a [u8],
}

impl<'a> Words<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// `count` records of `N` words.
    fn records<const N: usize>(&mut self, count: u32) -> Option<Vec<[u32; N]>> {
        let bytes = self.take((count as usize).checked_mul(4 * N)?)?;
        let record = |bytes: &[u8]| {
            let mut words = [0; N];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
            }
            words
        };
        Some(bytes.chunks_exact(4 * N).map(record).collect())
    }
}

impl Unit {
    fn parse(section: &[u8], offset: usize, behind_sites: Option<i64>) -> Option<Unit> {
        let mut header = Words {
            bytes: section.get(offset..)?.get(..HEADER_BYTES)?,
        };
        if header.take(8)? != MAGIC {
            return None;
        }
        let to_sites = header.u64()? as i64;
        let (version, flags) = (header.u32()?, header.u32()?);
        let (total_bytes, hash) = (header.u64()?, header.u64()?);
        let (stored_bytes, bitcode_bytes) = (header.u64()?, header.u64()?);
        let (name, functions, blocks) = (header.u32()?, header.u32()?, header.u32()?);
        let (successors, places, string_bytes) = (header.u32()?, header.u32()?, header.u32()?);
        let values = header.u32()?;
        let whole = section.get(offset..)?.get(..usize::try_from(total_bytes).ok()?)?;
        if version != VERSION || !whole.len().is_multiple_of(UNIT_BYTES) {
            return None;
        }
        let mut words = Words {
            bytes: whole.get(HEADER_BYTES..)?,
        };
        let functions = words.records::<FUNCTION>(functions)?;
        let blocks = words.records::<BLOCK>(blocks)?;
        let successors: Vec<u32> = words.records::<1>(successors)?.into_iter().flatten().collect();
        let places = words.records::<PLACE>(places)?;
        let strings = words.take(string_bytes as usize)?;
        let bitcode = words.take(usize::try_from(stored_bytes).ok()?)?;
        let mut unit = Unit {
            name: String::new(),
            number: number(offset, to_sites, behind_sites),
            functions: Vec::new(),
            values,
            stored_bytes,
            bitcode_bytes,
            offset,
            total_bytes,
            blocks: blocks
                .into_iter()
                .map(|[first_value, first_successor, file, line]| Block {
                    first_value,
                    first_successor,
                    file,
                    line,
                })
                .collect(),
            successors,
            places: places
                .into_iter()
                .map(|[value, site, ordinal]| Place { value, site, ordinal })
                .collect(),
            strings: strings.to_vec(),
            bitcode: bitcode.to_vec(),
            is_packed: flags & PACKED != 0,
            hash,
        };
        unit.name = unit.string(name);
        unit.functions = unit.named(&functions)?;
        unit.is_whole().then_some(unit)
    }

    fn named(&self, records: &[[u32; FUNCTION]]) -> Option<Vec<Function>> {
        let ends = records
            .iter()
            .skip(1)
            .map(|next| next[1])
            .chain([self.blocks.len() as u32]);
        let function = |([name, first, value, arguments, traced], end): (&[u32; FUNCTION], u32)| {
            Some(Function {
                name: self.string(*name),
                blocks: (*first < end).then_some(*first..end)?,
                arguments: *value..value.checked_add(*arguments)?,
                is_traced: *traced != 0,
            })
        };
        records.iter().zip(ends).map(function).collect()
    }

    /// Do all numbers name something?
    fn is_whole(&self) -> bool {
        let blocks = self.blocks.len() as u32;
        let begins = self
            .functions
            .first()
            .map_or(blocks == 0, |first| first.blocks.start == 0);
        let ends = self.functions.last().is_none_or(|last| last.blocks.end == blocks);
        let grows = self.blocks.windows(2).all(|pair| {
            pair[0].first_value <= pair[1].first_value && pair[0].first_successor <= pair[1].first_successor
        });
        let fits = self.blocks.last().is_none_or(|last| {
            last.first_value <= self.values && last.first_successor as usize <= self.successors.len()
        });
        let leads = self.successors.iter().all(|next| *next < blocks);
        begins && ends && grows && fits && leads && self.places.iter().all(|place| place.value < self.values)
    }

    fn string(&self, offset: u32) -> String {
        let tail = self.strings.get(offset as usize..).unwrap_or_default();
        let end = tail.iter().position(|byte| *byte == 0).unwrap_or(tail.len());
        String::from_utf8_lossy(&tail[..end]).into_owned()
    }

    pub fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Blocks that end with a branch which could go elsewhere.
    pub fn branches(&self) -> u32 {
        (0..self.blocks())
            .filter(|block| self.successors(*block).len() > 1)
            .count() as u32
    }

    /// The blocks that may come after `block` in its function.
    pub fn successors(&self, block: u32) -> &[u32] {
        let Some(own) = self.blocks.get(block as usize) else {
            return &[];
        };
        let next = self.blocks.get(block as usize + 1);
        let end = next.map_or(self.successors.len(), |next| next.first_successor as usize);
        self.successors
            .get(own.first_successor as usize..end)
            .unwrap_or_default()
    }

    /// Where the block is in the source: file and line, if it has one.
    pub fn line(&self, block: u32) -> Option<(String, u32)> {
        let block = self.blocks.get(block as usize).filter(|block| block.line != 0)?;
        Some((self.string(block.file), block.line))
    }

    pub fn function_of(&self, block: u32) -> Option<&Function> {
        let at = self.functions.partition_point(|function| function.blocks.end <= block);
        self.functions
            .get(at)
            .filter(|function| function.blocks.contains(&block))
    }

    /// The instructions of a block.
    pub fn instructions(&self, block: u32) -> Option<Range<u32>> {
        let own = self.blocks.get(block as usize)?;
        let function = self.function_of(block)?;
        let end = match block + 1 == function.blocks.end {
            false => self.blocks.get(block as usize + 1)?.first_value,
            true => self
                .function_of(block + 1)
                .map_or(self.values, |next| next.arguments.start),
        };
        Some(own.first_value..end)
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The bitcode, if it is what was kept.
    pub fn bitcode(&self) -> Option<Vec<u8>> {
        let whole = usize::try_from(self.bitcode_bytes).ok()?;
        let bytes = match self.is_packed {
            true => inflate::inflate(&self.bitcode, whole)?,
            false => self.bitcode.clone(),
        };
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (bytes.len() == whole && hash == self.hash).then_some(bytes)
    }
}

fn number(offset: usize, to_sites: i64, behind_sites: Option<i64>) -> Option<u32> {
    let table = behind_sites?
        .checked_add(i64::try_from(offset).ok()?)?
        .checked_add(to_sites)?;
    let inside = table.checked_add(i64::from(runtime_abi::UNIT_NUMBER_OFFSET))?;
    u32::try_from(inside / UNIT_BYTES as i64).ok()
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
