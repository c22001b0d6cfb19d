use super::UnitError;
use super::Units;
use std::path::Path;

const BITCODE: &[u8] = b"BC\xc0\xde, or so";

/// A unit of one function: block 0 leads to 1 and 2, which end.
fn unit() -> Vec<u8> {
    let strings = b"\0prog.c\0main\0";
    let tables: [&[u32]; 4] = [
        &[8, 0, 0, 2, 1],
        &[2, 0, 1, 10, 5, 2, 1, 11, 6, 2, 0, 0],
        &[1, 2],
        &[3, 4, 0],
    ];
    let mut tail: Vec<u8> = tables.concat().iter().flat_map(|word| word.to_le_bytes()).collect();
    tail.extend_from_slice(strings);
    tail.extend_from_slice(BITCODE);
    let total = (super::HEADER_BYTES + tail.len()).next_multiple_of(16);
    let hash = BITCODE.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut bytes = b"RFRNUNIT".to_vec();
    bytes.extend((-64i64).to_le_bytes());
    [1u32, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let sizes = [total as u64, hash, BITCODE.len() as u64, BITCODE.len() as u64];
    sizes.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let counts = [1, 1, 3, 2, 1, strings.len() as u32, 8, 0];
    counts.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend(tail);
    bytes.resize(total, 0);
    bytes
}

fn read(section: &[u8]) -> Result<Units, UnitError> {
    Units::from_section(Path::new("prog"), section, Some(64))
}

#[test]
fn what_is_kept_is_read() {
    let twice = [unit(), unit()].concat();
    let units = read(&twice).unwrap().units;
    assert_eq!(units.len(), 2);
    let first = &units[0];
    // The site table is where the section of the sites begins; the number is of what is 16 bytes behind that.
    assert_eq!((first.name.as_str(), first.number), ("prog.c", Some(1)));
    assert_eq!((first.blocks(), first.branches()), (3, 1));
    assert_eq!([0, 1, 2, 3].map(|block| first.successors(block).len()), [2, 0, 0, 0]);
    assert_eq!(first.line(0), Some(("prog.c".to_owned(), 10)));
    assert_eq!(first.line(2), None);
    let main = first.function_of(2).unwrap();
    assert_eq!(
        (main.name.as_str(), main.arguments.clone(), main.is_traced),
        ("main", 0..2, true)
    );
    assert_eq!(
        [0, 1, 2].map(|block| first.instructions(block)),
        [Some(2..5), Some(5..6), Some(6..8)]
    );
    assert_eq!(first.bitcode().as_deref(), Some(BITCODE));
    assert_eq!((first.places()[0].value, first.places()[0].site), (3, 4));
}

#[test]
fn damage_is_refused_or_seen() {
    let whole = unit();
    for end in 1..whole.len() {
        assert!(read(&whole[..end]).is_err(), "cut at {end}");
    }
    for offset in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[offset] ^= 1 << bit;
            // An answer, whatever it is.
            if let Ok(units) = read(&damaged) {
                for block in 0..=units.units[0].blocks() {
                    let _ = (units.units[0].line(block), units.units[0].instructions(block));
                }
                let _ = units.units[0].bitcode();
            }
        }
    }
    let mut damaged = whole.clone();
    let at = whole.windows(3).position(|bytes| bytes == b"BC\xc0").unwrap();
    damaged[at] ^= 1;
    assert_eq!(read(&damaged).unwrap().units[0].bitcode(), None);
}
