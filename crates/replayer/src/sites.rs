//! From a site's number in a log to its place in the source.
use instrumentor::sites::SiteTable;
use run_model::SiteId;
use run_store::RunDirectory;
use std::fmt;
use std::fs;
use std::path::Path;

/// The site tables of all objects of a program, in the order in which they registered.
#[derive(Debug, Default)]
pub struct SiteBook {
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    /// Number of the object's first site; its others follow, one for each 16 bytes of its section.
    base: u32,
    sites: u32,
    table: SiteTable,
}

/// A place in the source: `file:line:column in function`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub function: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        if !self.function.is_empty() {
            write!(f, " in {}", self.function)?;
        }
        Ok(())
    }
}

impl SiteBook {
    /// Reads what it can: a report without some of its source lines is better than none.
    pub fn load(run: &RunDirectory) -> SiteBook {
        let Ok(listing) = fs::read_to_string(run.file("objects")) else {
            return SiteBook::default();
        };
        SiteBook {
            objects: listing.lines().filter_map(open_object).collect(),
        }
    }

    pub fn place(&self, site: SiteId) -> Option<Place> {
        if site == SiteId(0) {
            return None;
        }
        let object = self
            .objects
            .iter()
            .find(|object| site.0.wrapping_sub(object.base) < object.sites)?;
        let site = object.table.site(site.0 - object.base)?;
        Some(Place {
            file: site.file.to_owned(),
            line: site.line,
            column: u32::from(site.column),
            function: site.function.to_owned(),
        })
    }
}

/// A line `base bytes path`.
fn open_object(line: &str) -> Option<Object> {
    let mut fields = line.splitn(3, ' ');
    let base = fields.next()?.parse().ok()?;
    let bytes: u32 = fields.next()?.parse().ok()?;
    let table = SiteTable::read(Path::new(fields.next()?)).ok()?;
    Some(Object {
        base,
        sites: bytes / 16,
        table,
    })
}
