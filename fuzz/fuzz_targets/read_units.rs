//! Any bytes as the section of kept units, and as an ELF file that has one: an answer and no panic.
#![no_main]

use instrumentor::units::Units;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzzed");
    let _ = Units::from_elf(path, bytes);
    let Ok(units) = Units::from_section(path, bytes, Some(0)) else { return };
    for unit in &units.units {
        let _ = unit.bitcode();
        // Beyond the last, and all others.
        for block in 0..=unit.blocks() {
            let (_, _) = (unit.line(block), unit.instructions(block));
            assert!(unit.successors(block).iter().all(|next| *next < unit.blocks()));
            assert_eq!(unit.function_of(block).is_some(), block < unit.blocks());
        }
    }
});
