//! From a site's number in a log to its place in the source.
use instrumentor::sites::Site;
use instrumentor::sites::SiteKind;
use instrumentor::sites::SiteTable;
use run_model::SiteId;
use run_store::RunDirectory;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// The site tables of all objects of a program, in the order in which they registered.
#[derive(Debug, Default)]
pub struct SiteBook {
    objects: Vec<Object>,
    /// Names of shared program elements, by id.
    elements: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Object {
    /// Number of the object's first site; its others follow, one for each 16 bytes of its section.
    base: u32,
    sites: u32,
    table: SiteTable,
}

/// A place in the source: `file:line:column in function (what stands there)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub column: u16,
    /// As the source spells it; empty if unknown.
    pub function: String,
    /// File and line in the library's function that is called there, if it was inlined.
    pub library: Option<(String, u32)>,
    /// "4-byte store", "atomic", …; empty if the record says it better.
    pub access: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        if !self.function.is_empty() {
            write!(f, " in {}", self.function)?;
        }
        if !self.access.is_empty() {
            write!(f, " ({})", self.access)?;
        }
        Ok(())
    }
}

impl Place {
    /// Is it in a library that comes with the system or with the compiler, or in a package from a registry? Then it is where a mistake
    /// shows, not where it is.
    pub fn is_of_library(&self) -> bool {
        let file = normalised(&self.file);
        // Rust's standard library is compiled below /rustc, its packages in /rust/deps; units without a line are named relative to there.
        let starts = [
            "/usr/include/",
            "/usr/lib/",
            "/usr/local/include/",
            "/rustc/",
            "/rust/deps/",
            "library/std/",
            "library/core/",
            "library/alloc/",
        ];
        let parts = ["/lib/rustlib/src/", "/registry/src/", "/.cargo/git/checkouts/"];
        starts.iter().any(|start| file.starts_with(start)) || parts.iter().any(|part| file.contains(part))
    }
}

/// Without `..` and what it takes back: compilers name their headers from where they are themselves.
fn normalised(file: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

impl SiteBook {
    /// Reads what it can: a report without some of its source lines is better than none.
    pub fn load(run: &RunDirectory) -> SiteBook {
        let Ok(listing) = fs::read_to_string(run.file("objects")) else {
            return SiteBook::default();
        };
        // An unpacked run has its objects with it.
        let manifest = run.packed().ok().flatten();
        let copy_of = |path: &Path| Some(run.packed_file(manifest.as_ref()?.file_at(path)?));
        let open = |line| open_object(line, &copy_of);
        let objects: Vec<Object> = listing.lines().filter_map(open).collect();
        let elements = objects.iter().flat_map(|object| object.table.elements());
        let elements = elements.map(|element| (u64::from(element.id), element.name)).collect();
        SiteBook { objects, elements }
    }

    /// What the source calls a shared program element.
    pub fn element(&self, id: u64) -> Option<&str> {
        self.elements.get(&id).map(String::as_str)
    }

    /// What the code of a site accesses, and which shared program element that is; 0 if it does not say.
    pub fn accessed(&self, site: SiteId) -> Option<(SiteKind, u32)> {
        self.find(site).map(|site| (site.kind, site.element))
    }

    fn find(&self, site: SiteId) -> Option<Site> {
        if site == SiteId(0) {
            return None;
        }
        let object = self
            .objects
            .iter()
            .find(|object| site.0.wrapping_sub(object.base) < object.sites)?;
        object.table.lookup(u64::from(site.0 - object.base))
    }

    /// Where inline assembly accesses memory in ways that are not observed: `FILE:LINE`, each once.
    pub fn unobserved_assembly(&self) -> Vec<String> {
        let sites = self.objects.iter().flat_map(|object| object.table.iter());
        let places: BTreeSet<(String, u32)> = sites
            .filter(|(_, site)| site.kind == SiteKind::Assembly)
            .map(|(_, site)| (site.file, site.line))
            .collect();
        places
            .into_iter()
            .map(|(file, line)| format!("{file}:{line}"))
            .collect()
    }

    pub fn place(&self, site: SiteId) -> Option<Place> {
        let site = self.find(site)?;
        let access = match site.kind {
            SiteKind::Load => format!("{}-byte load", site.bytes),
            SiteKind::Store => format!("{}-byte store", site.bytes),
            SiteKind::Atomic => format!("{}-byte atomic", site.bytes),
            SiteKind::Range => "memory function".to_owned(),
            SiteKind::Loop => "loop".to_owned(),
            SiteKind::Allocation => "allocation".to_owned(),
            SiteKind::Other | SiteKind::SyncCall | SiteKind::Assembly => String::new(),
        };
        let function = demangled(&site.function);
        Some(Place {
            file: site.file,
            line: site.line,
            column: site.column,
            function,
            library: site.library,
            access,
        })
    }
}

/// C++ and Rust names as people write them.
pub fn demangled(name: &str) -> String {
    // Without the hash that tells versions of a crate apart.
    if let Ok(path) = rustc_demangle::try_demangle(name) {
        return format!("{path:#}");
    }
    // `a` is a name of C's, and also how a mangled name spells a type.
    let symbol = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok());
    symbol
        .flatten()
        .and_then(|symbol| symbol.demangle().ok())
        .unwrap_or_else(|| name.to_owned())
}

/// A line `base bytes path`; the object is read from its copy if there is one.
fn open_object(line: &str, copy_of: &dyn Fn(&Path) -> Option<PathBuf>) -> Option<Object> {
    let mut fields = line.splitn(3, ' ');
    let base = fields.next()?.parse().ok()?;
    let bytes: u32 = fields.next()?.parse().ok()?;
    let path = Path::new(fields.next()?);
    let copy = copy_of(path);
    let table = SiteTable::read(copy.as_deref().unwrap_or(path)).ok()?;
    Some(Object {
        base,
        sites: bytes / 16,
        table,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_where_they_are() {
        let place = |file: &str| Place {
            file: file.to_owned(),
            line: 1,
            column: 1,
            function: String::new(),
            library: None,
            access: String::new(),
        };
        assert!(
            place("/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/stl_tree.h").is_of_library()
        );
        assert!(place("/rustc/0123/library/core/src/mem/mod.rs").is_of_library());
        assert!(place("/rust/deps/object-0.37.3/src/lib.rs/@/object.4f4c-cgu.0").is_of_library());
        assert!(place("library/std/src/lib.rs/@/std.4f4c-cgu.0").is_of_library());
        assert!(place("/home/me/.cargo/registry/src/index-0123/dashmap-6.1.0/src/lib.rs").is_of_library());
        assert!(!place("/home/me/project/src/usr/include/mine.h").is_of_library());
        assert!(!place("src/main.rs").is_of_library());
        assert!(!place("/home/me/library/std/src/mine.rs").is_of_library());
    }

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(
            demangled("_ZN4bank8transferEPNS_7AccountEl"),
            "bank::transfer(bank::Account*, long)"
        );
        assert_eq!(
            demangled("_ZN2t27Counter4bump17h1d2479ad72ffa9e9E"),
            "t2::Counter::bump"
        );
        assert_eq!(
            demangled("_RNvNtCsjrHSEGnQ3l9_3std9panicking11panic_count"),
            "std::panicking::panic_count"
        );
        assert_eq!(demangled("main"), "main");
        assert_eq!(demangled("a"), "a");
        assert_eq!(demangled("_Znonsense"), "_Znonsense");
        assert_eq!(demangled(""), "");
    }
}
