//! Shared program elements: the source-level identity of what instrumented code accesses.
//!
//! The pass names them (`pass/names.h`, docs/spes.md) and writes them into the site table; this is the list of all that
//! the sites of some objects access. The same name of the same kind is the same element, whichever module it is in.
use crate::sites::SiteKind;
use crate::sites::SiteTable;
use std::collections::BTreeMap;
use std::fmt;

/// Memory that nothing gave a name to.
pub const NAMELESS: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeKind {
    /// A variable that is not a struct, with all its elements if it is an array.
    Global,
    /// A field of a struct or class, in all objects of that type.
    Field,
    /// What an allocation site allocates.
    Array,
    /// A lock, condition, semaphore, barrier or the like.
    Lock,
    /// Local variables that others may see.
    Other,
}

impl SpeKind {
    pub(crate) fn from_u32(word: u32) -> SpeKind {
        match word {
            1 => SpeKind::Global,
            2 => SpeKind::Field,
            3 => SpeKind::Array,
            4 => SpeKind::Lock,
            _ => SpeKind::Other,
        }
    }
}

impl fmt::Display for SpeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SpeKind::Global => "global",
            SpeKind::Field => "field",
            SpeKind::Array => "array",
            SpeKind::Lock => "lock",
            SpeKind::Other => "other",
        })
    }
}

/// One shared program element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spe {
    /// A hash of kind and name; 0 and [`NAMELESS`] are never used.
    pub id: u32,
    pub kind: SpeKind,
    pub name: String,
    /// Of the declaration or of the allocation; empty if it is not known.
    pub file: String,
    pub line: u32,
}

/// An element, and how many sites access it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub spe: Spe,
    pub sites: usize,
}

/// All elements of some objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SpeList {
    /// By kind and name.
    pub elements: Vec<Listed>,
    /// Sites that access memory or a lock, and those whose instruction does not say what it accesses.
    pub sites: usize,
    pub sites_indefinite: usize,
}

impl SpeList {
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a SiteTable>) -> SpeList {
        let mut found: BTreeMap<(SpeKind, String), Listed> = BTreeMap::new();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        let mut list = SpeList::default();
        for table in tables {
            for (_, site) in table.iter() {
                match (site.kind, site.element) {
                    // A call that is no operation on a lock, such as printf, accesses nothing of the program's.
                    (SiteKind::SyncCall | SiteKind::Assembly, 0) => continue,
                    (_, 0) => list.sites_indefinite += 1,
                    (_, id) => *counts.entry(id).or_default() += 1,
                }
                list.sites += 1;
            }
            for spe in table.elements() {
                let listed = found.entry((spe.kind, spe.name.clone())).or_insert_with(|| Listed {
                    spe: spe.clone(),
                    sites: 0,
                });
                // A module that only uses a variable does not know where it is declared.
                if listed.spe.file.is_empty() {
                    listed.spe = spe;
                }
            }
        }
        list.elements = found.into_values().collect();
        for listed in &mut list.elements {
            listed.sites = counts.get(&listed.spe.id).copied().unwrap_or(0);
        }
        list
    }

    /// Elements whose names differ and whose ids do not: they are told apart by nobody. Each group has at least two.
    pub fn collisions(&self) -> Vec<Vec<&Spe>> {
        let mut by_id: BTreeMap<u32, Vec<&Spe>> = BTreeMap::new();
        for listed in &self.elements {
            by_id.entry(listed.spe.id).or_default().push(&listed.spe);
        }
        by_id.into_values().filter(|group| group.len() > 1).collect()
    }
}
