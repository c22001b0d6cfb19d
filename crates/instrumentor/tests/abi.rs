//! `pass/abi.h` repeats what `runtime-abi` defines; they must say the same.
use runtime_abi::ThreadSlot;
use runtime_abi::counting::Counting;
use std::collections::BTreeMap;
use std::mem::offset_of;

fn constants() -> BTreeMap<String, u64> {
    let text = include_str!("../pass/abi.h");
    let lines = text.lines().filter_map(|line| {
        let (left, right) = line.strip_prefix("constexpr ")?.split_once(" = ")?;
        let name = left.rsplit(' ').next()?.to_string();
        let value = right.trim_end_matches(';');
        let number = match value.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
            None => value.parse(),
        };
        Some((name, number.ok()?))
    });
    lines.collect()
}

#[test]
fn the_pass_and_the_runtime_agree() {
    let ours = constants();
    let slot = |offset: usize| offset as u64;
    for (name, theirs) in [
        ("Version", u64::from(runtime_abi::ABI_VERSION)),
        ("SiteTableSyncOnly", u64::from(runtime_abi::SITE_TABLE_SYNC_ONLY)),
        ("SiteMayBeUndefined", u64::from(runtime_abi::SITE_MAY_BE_UNDEFINED)),
        ("AssemblyReads", u64::from(runtime_abi::assembly::READS)),
        ("AssemblyWrites", u64::from(runtime_abi::assembly::WRITES)),
        ("AssemblyBoth", u64::from(runtime_abi::assembly::BOTH)),
        ("CountingTransfers", slot(offset_of!(Counting, transfers))),
        ("CountingLimit", slot(offset_of!(Counting, limit))),
        ("CountingSlow", slot(offset_of!(Counting, slow))),
        ("CountingOrdinal", slot(offset_of!(Counting, ordinal))),
        ("SlowAndTold", u64::from(runtime_abi::counting::SLOW_AND_TOLD)),
        ("UnitNumberOffset", u64::from(runtime_abi::UNIT_NUMBER_OFFSET)),
        ("OrdinalShift", u64::from(runtime_abi::counting::ORDINAL_SHIFT)),
        ("SiteTableCounted", u64::from(runtime_abi::SITE_TABLE_COUNTED)),
        ("SiteTableParts", u64::from(runtime_abi::SITE_TABLE_PARTS)),
        ("PartBits", u64::from(runtime_abi::PART_BITS)),
        ("SpeUnnamed", u64::from(runtime_abi::vectors_file::UNNAMED_ELEMENT)),
        ("ChunkShadow", runtime_abi::CHUNK_SHADOW),
        ("ChunkBytes", runtime_abi::CHUNK_BYTES),
        ("SlotCount", slot(offset_of!(ThreadSlot, count))),
        ("SlotGate", slot(offset_of!(ThreadSlot, gate))),
        ("SlotExclusive", slot(offset_of!(ThreadSlot, exclusive))),
        ("SlotSeen", slot(offset_of!(ThreadSlot, seen))),
        ("SlotWindow", slot(offset_of!(ThreadSlot, window))),
        ("SlotSite", slot(offset_of!(ThreadSlot, site))),
    ] {
        assert_eq!(ours.get(name), Some(&theirs), "{name}");
    }
    let section = format!("SiteSection = \"{}\"", runtime_abi::SITE_SECTION);
    assert!(include_str!("../pass/abi.h").contains(&section));
    let section = format!("UnitSection = \"{}\"", runtime_abi::UNIT_SECTION);
    assert!(include_str!("../pass/abi.h").contains(&section));
}
