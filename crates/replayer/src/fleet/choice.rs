//! The shared program elements of a program, and the file that says which of them are recorded.
use crate::Error;
use crate::Result;
use instrumentor::sites::SiteKind;
use instrumentor::sites::SiteTable;
use instrumentor::spes::NAMELESS;
use instrumentor::spes::SpeKind;
use partial_logs::ElementId;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// An element that code of the program accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub id: ElementId,
    /// Nothing: memory that has no name.
    pub kind: Option<SpeKind>,
    pub name: String,
    /// Where it is declared; empty if that is not known.
    pub file: String,
    pub line: u32,
    /// Places that access it.
    pub sites: u64,
}

/// The elements of the program's own code, by their ids. Libraries of the program's are not looked at.
pub fn elements_of(program: &Path) -> Result<Vec<Element>> {
    let bytes = fs::read(program).map_err(|e| run_store::Error::io("read", program, e))?;
    let table = SiteTable::from_elf(program, &bytes).map_err(|_| Error::NotInstrumented {
        path: program.to_owned(),
    })?;
    let mut sites: BTreeMap<u32, u64> = BTreeMap::new();
    for (_, site) in table.iter() {
        let element = match (site.kind, site.element) {
            // What is allocated somewhere is accessed elsewhere.
            (SiteKind::Allocation | SiteKind::Other, _) => continue,
            (SiteKind::SyncCall | SiteKind::Assembly, 0) => continue,
            (_, 0) => NAMELESS,
            (_, element) => element,
        };
        *sites.entry(element).or_default() += 1;
    }
    let named: BTreeMap<u32, _> = table.elements().map(|spe| (spe.id, spe)).collect();
    let element = |(id, sites): (u32, u64)| {
        let spe = named.get(&id);
        Element {
            id: ElementId(id),
            kind: spe.map(|spe| spe.kind),
            name: spe.map_or("memory without a name".to_owned(), |spe| spe.name.clone()),
            file: spe.map_or(String::new(), |spe| spe.file.clone()),
            line: spe.map_or(0, |spe| spe.line),
            sites,
        }
    };
    Ok(sites.into_iter().map(element).collect())
}

/// Was all of the program compiled with `--coop`, so that what is not chosen costs next to nothing?
pub fn is_in_parts(program: &Path) -> bool {
    SiteTable::read(program).is_ok_and(|table| table.is_in_parts())
}

/// The run's file `chosen`.
pub fn chosen_file(chosen: &BTreeSet<ElementId>) -> Vec<u8> {
    chosen.iter().flat_map(|element| element.0.to_le_bytes()).collect()
}
