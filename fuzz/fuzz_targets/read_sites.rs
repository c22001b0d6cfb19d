//! Any bytes as a site section, and as an ELF file that has one: an answer and no panic.
#![no_main]

use instrumentor::sites::SiteTable;
use instrumentor::spes::SpeList;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzzed");
    let _ = SiteTable::from_elf(path, bytes);
    if let Ok(table) = SiteTable::from_section(path, bytes) {
        assert!(table.iter().count() + table.elements().count() <= bytes.len());
        let _ = SpeList::of([&table]).collisions();
        // Beyond the end, and everywhere else.
        for unit in 0..=table.units() {
            let _ = table.lookup(unit);
        }
    }
});
