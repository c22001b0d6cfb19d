//! How much of a program was compiled to be observed. A program that was only linked with `refrain`, or of which a small part was built
//! with it, can be recorded, but little of what its threads do is in the record.
use instrumentor::sites::SiteTable;
use object::Object;
use object::ObjectSection;
use run_store::Instrumentation;
use run_store::RunMeta;
use run_store::Scope;
use runtime_abi::RUNTIME_LIBRARY;
use std::fs;
use std::path::Path;

/// Libraries of the system are not expected to be built with `refrain`.
const OF_THE_SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];

/// Of the program and its own libraries. Nothing where no code has to be: at scope inputs.
pub fn of(meta: &RunMeta) -> Option<Instrumentation> {
    if meta.settings.scope == Scope::Inputs {
        return None;
    }
    let files = std::iter::once(&meta.executable).chain(&meta.libraries);
    let paths = files.map(|file| Path::new(file.path.as_os_str()));
    let mut all = Instrumentation::default();
    for path in paths.filter(|path| is_own(path)) {
        let Ok(bytes) = fs::read(path) else { continue };
        all.code_bytes += code_bytes(&bytes).unwrap_or(0);
        if let Ok(table) = SiteTable::from_elf(path, &bytes) {
            all.sites += table.sites() as u64;
            all.sync_only |= table.is_for_sync_only();
        }
    }
    Some(all)
}

/// Is it part of the program, and neither of the system nor of ours?
pub fn is_own(path: &Path) -> bool {
    let is_of_system = OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder));
    !is_of_system && path.file_name().is_none_or(|name| name != RUNTIME_LIBRARY)
}

fn code_bytes(elf: &[u8]) -> Option<u64> {
    let file = object::File::parse(elf).ok()?;
    Some(file.section_by_name(".text")?.size())
}
