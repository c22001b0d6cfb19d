//! The shared libraries of a program that is run deterministically. They decide what it does as its own file does, but who starts it does not
//! know them: the loader finds them, and the program may load more. So a schedule names those of the run that it was learned from, and is used
//! only as long as they are what they were.
use crate::deterministic::Subject;
use crate::instrumentation;
use crate::libraries::check_one;
use instrumentor::sites::SiteTable;
use run_store::FileIdentity;
use run_store::FileState;
use run_store::Library;
use run_store::RunMeta;
use run_store::ScheduleEntry;
use run_store::Text;
use std::fs;
use std::path::Path;

/// Of the libraries that are the program's own, those of which less is known than of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// They are observed, but their functions cannot count.
    pub uncounted: Vec<Text>,
    /// Not compiled with `refrain cc`: nothing is known of their accesses.
    pub unobserved: Vec<Text>,
}

/// All of them, as they are.
pub fn identified(meta: &RunMeta) -> Vec<Library> {
    let identify = |file: &FileIdentity| Library {
        // Before the file is compared: what changes afterwards is in another state.
        state: FileState::of(Path::new(file.path.as_os_str()))
            .ok()
            .filter(|_| check_one(file, "").is_ok()),
        file: file.clone(),
    };
    meta.libraries.iter().map(identify).collect()
}

impl Libraries {
    pub fn of(meta: &RunMeta) -> Libraries {
        let mut found = Libraries::default();
        for library in &meta.libraries {
            let path = Path::new(library.path.as_os_str());
            if !instrumentation::is_own(path) {
                continue;
            }
            // One that cannot be read any more is nothing that is known.
            let table = fs::read(path).ok().map(|bytes| SiteTable::from_elf(path, &bytes));
            match table {
                Some(Ok(table)) if table.is_counted() => {}
                Some(Ok(_)) => found.uncounted.push(library.path.clone()),
                Some(Err(_)) | None => {
                    found.unobserved.push(library.path.clone());
                }
            }
        }
        found
    }
}

impl Subject {
    /// The first library that is not what it was when the schedule was learned.
    pub fn changed_library<'a>(&self, entry: &'a ScheduleEntry) -> Option<&'a Text> {
        let is_untouched = |library: &Library| {
            let path = Path::new(library.file.path.as_os_str());
            library.state.is_some() && library.state == FileState::of(path).ok()
        };
        let mut libraries = entry.meta().learned.libraries.iter();
        let is_changed = |library: &&Library| !is_untouched(library) && check_one(&library.file, "").is_err();
        libraries.find(is_changed).map(|library| &library.file.path)
    }
}
