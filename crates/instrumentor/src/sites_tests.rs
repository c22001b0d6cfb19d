use super::*;
use proptest::prelude::*;

fn blob(sites: &[(u32, u16, u8, u8, u32, u32)], strings: &[u8]) -> Vec<u8> {
    let total = (HEADER_BYTES + sites.len() * RECORD_BYTES + strings.len()).next_multiple_of(16);
    let mut bytes = MAGIC.to_vec();
    for word in [VERSION, sites.len() as u32, strings.len() as u32, total as u32, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for (line, column, kind, size, file, function) in sites {
        bytes.extend(line.to_le_bytes());
        bytes.extend(column.to_le_bytes());
        bytes.extend([*kind, *size]);
        bytes.extend(file.to_le_bytes());
        bytes.extend(function.to_le_bytes());
    }
    bytes.extend(strings);
    bytes.resize(total, 0);
    bytes
}

fn two_blobs() -> Vec<u8> {
    let mut bytes = blob(&[(7, 3, 1, 2, 1, 5), (9, 1, 5, 0, 1, 77)], b"\0a.c\0main\0");
    bytes.extend(blob(&[(1, 2, 2, 3, 0, 4)], b"b.c\0f\0"));
    bytes
}

fn table(bytes: &[u8]) -> Result<SiteTable, SiteError> {
    SiteTable::from_section(Path::new("program"), bytes)
}

#[test]
fn sites_of_several_modules_are_found_by_their_offset() {
    let bytes = two_blobs();
    let table = table(&bytes).unwrap();
    assert_eq!(table.lookup(0), None);
    assert_eq!(table.lookup(1), None);
    let first = table.lookup(2).unwrap();
    assert_eq!(
        (first.file.as_str(), first.line, first.column, first.function.as_str()),
        ("a.c", 7, 3, "main")
    );
    assert_eq!((first.kind, first.bytes), (SiteKind::Load, 4));
    // A string offset out of bounds is an empty name.
    assert_eq!(table.lookup(3).unwrap().function, "");
    assert_eq!(table.lookup(3).unwrap().kind, SiteKind::SyncCall);
    assert_eq!(table.lookup(4), None);
    let units: Vec<u64> = table.iter().map(|(unit, _)| unit).collect();
    assert_eq!(units, [2, 3, 7]);
    assert_eq!(table.lookup(7).unwrap().file, "b.c");
    assert_eq!(table.units(), bytes.len() as u64 / 16);
    assert_eq!(table.lookup(u64::MAX), None);
}

#[test]
fn every_truncation_is_refused_or_ends_at_a_module() {
    let bytes = two_blobs();
    let first = blob(&[(7, 3, 1, 2, 1, 5), (9, 1, 5, 0, 1, 77)], b"\0a.c\0main\0").len();
    for length in 0..bytes.len() {
        let result = table(&bytes[..length]);
        assert_eq!(result.is_ok(), length == 0 || length == first, "length {length}");
    }
}

#[test]
fn files_that_are_not_instrumented_programs_are_named() {
    let missing = SiteTable::read(Path::new("no such file")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read no such file"), "{missing}");
    let text = SiteTable::from_elf(Path::new("notes.txt"), b"hello")
        .unwrap_err()
        .to_string();
    assert!(text.starts_with("notes.txt is not an ELF file"), "{text}");
    let own = std::env::current_exe().unwrap();
    assert_eq!(
        SiteTable::read(&own).unwrap_err(),
        SiteError::NotInstrumented { file: own }
    );
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), magic: bool) {
        if magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(MAGIC);
        }
        if let Ok(table) = table(&bytes) {
            for unit in 0..40 {
                let _ = table.lookup(unit);
            }
        }
        let _ = SiteTable::from_elf(Path::new("x"), &bytes);
    }

    #[test]
    fn damaged_tables_never_panic(at in 0usize..150, with: u8) {
        let mut bytes = two_blobs();
        let at = at % bytes.len();
        bytes[at] ^= with;
        if let Ok(table) = table(&bytes) {
            prop_assert!(table.iter().count() <= bytes.len());
        }
    }
}
