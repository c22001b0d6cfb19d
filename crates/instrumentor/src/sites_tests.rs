use super::*;
use proptest::prelude::*;

type TestSite = (u32, u16, u8, u8, u32, u32, u32);

fn blob(sites: &[TestSite], elements: &[[u32; 5]], strings: &[u8]) -> Vec<u8> {
    let records = sites.len() * RECORD_BYTES + elements.len() * ELEMENT_BYTES;
    let total = (HEADER_BYTES + records + strings.len()).next_multiple_of(UNIT_BYTES);
    let mut bytes = MAGIC.to_vec();
    let (sites_len, strings_len, elements_len) = (sites.len() as u32, strings.len() as u32, elements.len() as u32);
    for word in [VERSION, sites_len, strings_len, total as u32, elements_len, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for (line, column, kind, size, file, function, element) in sites {
        bytes.extend(line.to_le_bytes());
        bytes.extend(column.to_le_bytes());
        bytes.extend([*kind, *size]);
        bytes.extend(file.to_le_bytes());
        bytes.extend(function.to_le_bytes());
        bytes.extend(element.to_le_bytes());
        bytes.extend([0; 12]);
    }
    bytes.extend(elements.iter().flatten().flat_map(|word| word.to_le_bytes()));
    bytes.extend(strings);
    bytes.resize(total, 0);
    bytes
}

fn first_blob() -> Vec<u8> {
    blob(
        &[(7, 3, 1, 2, 1, 5, 0x12345678), (9, 1, 5, 0, 1, 77, 0)],
        &[[0x12345678, 2, 10, 1, 33]],
        b"\0a.c\0main\0s.x\0",
    )
}

fn two_blobs() -> Vec<u8> {
    let mut bytes = first_blob();
    bytes.extend(blob(
        &[(1, 2, 2, 3, 0, 4, 9)],
        &[[9, 1, 4, 99, 0], [9, 57, 0, 0, 0]],
        b"b.c\0f\0",
    ));
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
    assert_eq!(
        (first.kind, first.bytes, first.element),
        (SiteKind::Load, 4, 0x12345678)
    );
    assert_eq!(first.library, None);
    let mut inlined = bytes.clone();
    inlined[HEADER_BYTES + 24] = 33;
    inlined[HEADER_BYTES + 28] = 5;
    let inlined = SiteTable::from_section(Path::new("program"), &inlined).unwrap();
    assert_eq!(inlined.lookup(2).unwrap().library, Some(("main".to_owned(), 33)));
    // A string offset out of bounds is an empty name.
    assert_eq!(table.lookup(4).unwrap().function, "");
    assert_eq!(table.lookup(4).unwrap().kind, SiteKind::SyncCall);
    // A site is two units, and what follows the sites is none.
    for unit in [3, 5, 6, 7] {
        assert_eq!(table.lookup(unit), None);
    }
    let second = first_blob().len() as u64 / 16 + 2;
    let units: Vec<u64> = table.iter().map(|(unit, _)| unit).collect();
    assert_eq!(units, [2, 4, second]);
    assert_eq!(table.lookup(second).unwrap().file, "b.c");
    assert_eq!(table.units(), bytes.len() as u64 / 16);
    assert_eq!(table.lookup(u64::MAX), None);
}

#[test]
fn elements_of_several_modules_are_listed() {
    let table = table(&two_blobs()).unwrap();
    let spe = |id, kind, name: &str, file: &str, line| Spe {
        id,
        kind,
        name: name.to_owned(),
        file: file.to_owned(),
        line,
    };
    let elements: Vec<Spe> = table.elements().collect();
    assert_eq!(
        elements,
        [
            spe(0x12345678, SpeKind::Field, "s.x", "a.c", 33),
            spe(9, SpeKind::Global, "f", "", 0),
            spe(9, SpeKind::Other, "b.c", "b.c", 0),
        ]
    );
    let list = crate::spes::SpeList::of([&table]);
    assert_eq!((list.sites, list.sites_indefinite), (2, 0));
    let sites: Vec<(&str, usize)> = list
        .elements
        .iter()
        .map(|listed| (listed.spe.name.as_str(), listed.sites))
        .collect();
    assert_eq!(sites, [("f", 1), ("s.x", 1), ("b.c", 1)]);
    let collisions = list.collisions();
    assert_eq!(collisions.len(), 1);
    assert_eq!(
        (collisions[0][0].name.as_str(), collisions[0][1].name.as_str()),
        ("f", "b.c")
    );
}

#[test]
fn a_table_of_another_version_is_refused() {
    let mut bytes = first_blob();
    bytes[8] = 1;
    let why = table(&bytes).unwrap_err().to_string();
    assert!(why.contains("expected version 2, found version 1"), "{why}");
}

#[test]
fn every_truncation_is_refused_or_ends_at_a_module() {
    let bytes = two_blobs();
    let first = first_blob().len();
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
            let _ = crate::spes::SpeList::of([&table]).collisions();
        }
        let _ = SiteTable::from_elf(Path::new("x"), &bytes);
    }

    #[test]
    fn damaged_tables_never_panic(at in 0usize..400, with: u8) {
        let mut bytes = two_blobs();
        let at = at % bytes.len();
        bytes[at] ^= with;
        if let Ok(table) = table(&bytes) {
            prop_assert!(table.iter().count() + table.elements().count() <= bytes.len());
        }
    }
}
