//! The site table of an executable or shared library: which source line an observed operation stands on, and which
//! shared program element it accesses.
//!
//! The pass writes one self-contained blob per module into the section `refrain_sites`, and the linker puts them one
//! after the other. A site is named by its offset in that section, in units of sixteen bytes; offset 0 is always a
//! blob's header, so it can mean "unknown".
//!
//! ```text
//! blob:    "RFRNSITE"  u32 version  u32 sites  u32 string bytes  u32 total bytes  u32 elements  u32 flags (1: for scope sync only, 2: with --det, 4: with --coop)
//!          site × sites   element × elements   strings, NUL-terminated   zeros up to a multiple of 16
//! site:    u32 line  u16 column  u8 kind  u8 log2 of the size  u32 file  u32 function   (offsets in the strings)
//!          u32 element  u32 flags (1: may read bytes that nobody has set)
//!          u32 line  u32 file   (in the function of a library that was inlined into the line; the line is 0 if none was)
//! element: u32 id  u32 kind  u32 name  u32 file  u32 line                               (offsets in the strings)
//! ```
//!
//! The element of a site is 0 if the instruction alone does not say what it accesses. Otherwise it is the id of one of
//! the blob's elements, a hash of kind and name (see [`crate::spes`]).
//!
//! The bytes come from a file we did not just write: nothing here panics, whatever they are.
use crate::spes::Spe;
use crate::spes::SpeKind;
use object::Object;
use object::ObjectSection;
use std::fmt;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

const MAGIC: &[u8; 8] = b"RFRNSITE";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 32;
const UNIT_BYTES: usize = 16;
const RECORD_BYTES: usize = 32;
const ELEMENT_BYTES: usize = 20;

/// What kind of operation stands at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    Other,
    Load,
    Store,
    Atomic,
    /// memcpy, strlen and the like.
    Range,
    /// A call of a synchronisation or output function.
    SyncCall,
    Loop,
    /// A call of malloc, operator new or their kin.
    Allocation,
    /// Inline assembly that accesses memory in ways that are not observed.
    Assembly,
}

impl SiteKind {
    fn from_u8(byte: u8) -> SiteKind {
        match byte {
            1 => SiteKind::Load,
            2 => SiteKind::Store,
            3 => SiteKind::Atomic,
            4 => SiteKind::Range,
            5 => SiteKind::SyncCall,
            6 => SiteKind::Loop,
            7 => SiteKind::Allocation,
            8 => SiteKind::Assembly,
            _ => SiteKind::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub file: String,
    pub line: u32,
    pub column: u16,
    pub kind: SiteKind,
    /// Bytes accessed, rounded up to a power of two; 1 where a size makes no sense.
    pub bytes: u64,
    /// As the linker knows it; C++ names are mangled.
    pub function: String,
    /// The id of what is accessed, or 0 if the instruction alone does not say.
    pub element: u32,
    /// File and line in the library's function that is called there, if it was inlined; not in what that calls in turn.
    pub library: Option<(String, u32)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum SiteError {
    /// The file cannot be read at all.
    Unreadable { file: PathBuf, why: String },
    /// It is not an ELF object.
    NotElf { file: PathBuf, why: String },
    /// It was not built with `refrain cc` or `refrain c++`.
    NotInstrumented { file: PathBuf },
    /// The table is damaged.
    Corrupt {
        file: PathBuf,
        offset: usize,
        expected: &'static str,
        found: String,
    },
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteError::Unreadable { file, why } => write!(f, "cannot read {}: {why}", file.display()),
            SiteError::NotElf { file, why } => write!(f, "{} is not an ELF file: {why}", file.display()),
            SiteError::NotInstrumented { file } => write!(
                f,
                "{} has no site table: it was not built with `refrain cc` or `refrain c++`",
                file.display()
            ),
            SiteError::Corrupt {
                file,
                offset,
                expected,
                found,
            } => write!(
                f,
                "the site table of {} is damaged at byte {offset}: expected {expected}, found {found}",
                file.display()
            ),
        }
    }
}

impl std::error::Error for SiteError {}

/// All sites of one ELF object.
#[derive(Debug)]
pub struct SiteTable {
    section: Vec<u8>,
    blobs: Vec<Blob>,
}

#[derive(Clone, Copy, Debug)]
struct Blob {
    start: usize,
    sites: usize,
    elements: usize,
    string_bytes: usize,
    is_for_sync: bool,
    is_counted: bool,
    is_in_parts: bool,
}

impl Blob {
    fn first_site(&self) -> usize {
        self.start + HEADER_BYTES
    }

    fn first_element(&self) -> usize {
        self.first_site() + self.sites * RECORD_BYTES
    }

    fn strings(&self) -> usize {
        self.first_element() + self.elements * ELEMENT_BYTES
    }
}

impl SiteTable {
    pub fn read(path: &Path) -> Result<SiteTable, SiteError> {
        let bytes = fs::read(path).map_err(|error| SiteError::Unreadable {
            file: path.to_path_buf(),
            why: error.to_string(),
        })?;
        SiteTable::from_elf(path, &bytes)
    }

    /// Was a part of the object compiled for scope sync alone, so that its plain accesses cannot be observed?
    pub fn is_for_sync_only(&self) -> bool {
        self.blobs.iter().any(|blob| blob.is_for_sync)
    }

    /// Was all of the object compiled with `--det`, so that its functions can count?
    pub fn is_counted(&self) -> bool {
        self.blobs.iter().all(|blob| blob.is_counted)
    }

    /// Was all of the object compiled with `--coop`, so that what is not chosen costs a partial recording nothing?
    pub fn is_in_parts(&self) -> bool {
        self.blobs.iter().all(|blob| blob.is_in_parts)
    }

    /// `path` is only used in messages.
    pub fn from_elf(path: &Path, bytes: &[u8]) -> Result<SiteTable, SiteError> {
        let not_elf = |error: object::Error| SiteError::NotElf {
            file: path.to_path_buf(),
            why: error.to_string(),
        };
        let file = object::File::parse(bytes).map_err(not_elf)?;
        let section = file
            .section_by_name(runtime_abi::SITE_SECTION)
            .ok_or_else(|| SiteError::NotInstrumented {
                file: path.to_path_buf(),
            })?;
        SiteTable::from_section(path, section.data().map_err(not_elf)?)
    }

    /// From the bytes of the section alone.
    pub fn from_section(path: &Path, section: &[u8]) -> Result<SiteTable, SiteError> {
        let mut blobs = Vec::new();
        let mut at = 0;
        while at < section.len() {
            let (blob, total) = parse_blob(section, at).map_err(|(expected, found)| SiteError::Corrupt {
                file: path.to_path_buf(),
                offset: at,
                expected,
                found,
            })?;
            blobs.push(blob);
            at += total;
        }
        Ok(SiteTable {
            section: section.to_vec(),
            blobs,
        })
    }

    /// The site whose record begins sixteen times `unit` bytes into the section, if one does.
    pub fn lookup(&self, unit: u64) -> Option<Site> {
        let offset = usize::try_from(unit).ok()?.checked_mul(UNIT_BYTES)?;
        let index = self.blobs.partition_point(|blob| blob.start <= offset).checked_sub(1)?;
        let blob = self.blobs[index];
        let within = offset.checked_sub(blob.first_site())?;
        if offset >= blob.first_element() || !within.is_multiple_of(RECORD_BYTES) {
            return None;
        }
        let record = self.section.get(offset..offset + RECORD_BYTES)?;
        Some(Site {
            line: u32_at(record, 0)?,
            column: u16::from_le_bytes([record[4], record[5]]),
            kind: SiteKind::from_u8(record[6]),
            bytes: 1u64.checked_shl(u32::from(record[7])).unwrap_or(0),
            file: self.string(blob, u32_at(record, 8)?),
            function: self.string(blob, u32_at(record, 12)?),
            element: u32_at(record, 16)?,
            library: match u32_at(record, 24)? {
                0 => None,
                line => Some((self.string(blob, u32_at(record, 28)?), line)),
            },
        })
    }

    /// How many there are.
    pub fn sites(&self) -> usize {
        self.blobs.iter().map(|blob| blob.sites).sum()
    }

    /// Every site with its unit, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Site)> + '_ {
        self.blobs.iter().flat_map(move |blob| {
            (0..blob.sites).filter_map(move |site| {
                let unit = ((blob.first_site() + site * RECORD_BYTES) / UNIT_BYTES) as u64;
                Some((unit, self.lookup(unit)?))
            })
        })
    }

    /// The elements that the sites of each module access, module by module.
    pub fn elements(&self) -> impl Iterator<Item = Spe> + '_ {
        self.blobs.iter().flat_map(move |blob| {
            (0..blob.elements).filter_map(move |element| {
                let record = self.section.get(blob.first_element() + element * ELEMENT_BYTES..)?;
                Some(Spe {
                    id: u32_at(record, 0)?,
                    kind: SpeKind::from_u32(u32_at(record, 4)?),
                    name: self.string(*blob, u32_at(record, 8)?),
                    file: self.string(*blob, u32_at(record, 12)?),
                    line: u32_at(record, 16)?,
                })
            })
        })
    }

    /// Length of the section in units; the sites of the next object are numbered from here.
    pub fn units(&self) -> u64 {
        (self.section.len() / UNIT_BYTES) as u64
    }

    /// An offset beyond the strings reads as an empty one: a wrong file name must not cost the rest of a report.
    fn string(&self, blob: Blob, offset: u32) -> String {
        let strings = self
            .section
            .get(blob.strings()..blob.strings() + blob.string_bytes)
            .unwrap_or_default();
        let tail = strings.get(offset as usize..).unwrap_or_default();
        let end = tail.iter().position(|byte| *byte == 0).unwrap_or(tail.len());
        String::from_utf8_lossy(&tail[..end]).into_owned()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

type Complaint = (&'static str, String);

fn parse_blob(section: &[u8], start: usize) -> Result<(Blob, usize), Complaint> {
    let rest = &section[start..];
    if rest.get(..8) != Some(MAGIC) {
        return Err(("the magic RFRNSITE", format!("{:02x?}", &rest[..rest.len().min(8)])));
    }
    let field = |at: usize| u32_at(rest, at).ok_or(("a whole header", format!("{} bytes", rest.len())));
    let version = field(8)?;
    if version != VERSION {
        return Err(("version 2", format!("version {version}")));
    }
    let (sites, string_bytes, total) = (field(12)? as usize, field(16)? as usize, field(20)? as usize);
    let elements = field(24)? as usize;
    let needed = sites
        .checked_mul(RECORD_BYTES)
        .and_then(|records| records.checked_add(HEADER_BYTES))
        .and_then(|bytes| bytes.checked_add(elements.checked_mul(ELEMENT_BYTES)?))
        .and_then(|bytes| bytes.checked_add(string_bytes));
    let fits = needed.is_some_and(|needed| needed <= total) && total <= rest.len() && total.is_multiple_of(UNIT_BYTES);
    if !fits {
        return Err((
            "lengths that fit in the section",
            format!(
                "{sites} sites, {elements} elements and {string_bytes} bytes of strings in {total} of {} bytes",
                rest.len()
            ),
        ));
    }
    Ok((
        Blob {
            start,
            sites,
            elements,
            string_bytes,
            is_for_sync: field(28)? & runtime_abi::SITE_TABLE_SYNC_ONLY != 0,
            is_counted: field(28)? & runtime_abi::SITE_TABLE_COUNTED != 0,
            is_in_parts: field(28)? & runtime_abi::SITE_TABLE_PARTS != 0,
        },
        total,
    ))
}

#[cfg(test)]
#[path = "sites_tests.rs"]
mod tests;
