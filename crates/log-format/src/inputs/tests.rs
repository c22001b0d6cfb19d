use super::*;
use proptest::prelude::*;
use std::vec::Vec;

type Written = Vec<(u64, u32, i64, Vec<(u64, Vec<u8>)>)>;

/// A file whose stream is on the shelf as far as it can be.
fn file_of(thread: u32, stream: &[u8], shelved: usize) -> Vec<u8> {
    let mut file = header(ThreadIndex(thread)).to_vec();
    file[LENGTH_OFFSET..LENGTH_OFFSET + 8].copy_from_slice(&(stream.len() as u64).to_le_bytes());
    file[SHELVED_OFFSET..SHELVED_OFFSET + 8].copy_from_slice(&(shelved as u64).to_le_bytes());
    let (shelf, desk) = stream.split_at(shelved);
    file.resize(DESK_AT, 0);
    file.extend(desk);
    if shelved > 0 {
        file.resize(SHELF_AT, 0);
        file.extend(shelf);
    }
    file
}

fn write(thread: u32, calls: &Written) -> Vec<u8> {
    let stream = write_stream(calls);
    file_of(thread, &stream, 0)
}

fn write_stream(calls: &Written) -> Vec<u8> {
    let mut file = Vec::new();
    for (event, number, result, ranges) in calls {
        let mut entry = Entry {
            event: *event,
            number: *number,
            check: 0,
            result: *result,
            time: *event * 3,
            ranges: ranges.len() as u32,
            hash: 0,
        };
        let mut hash = RangeHash::new(&entry);
        for (address, bytes) in ranges {
            hash.update(*address, bytes);
        }
        entry.hash = hash.fold();
        file.extend(entry.encode());
        for (address, bytes) in ranges {
            file.extend(encode_range(*address, bytes.len() as u64));
            file.extend(bytes);
            file.resize(file.len().next_multiple_of(8), 0);
        }
    }
    file
}

fn read(file: &[u8], thread: u32) -> Result<Written, Damage> {
    let stream = stream_of(file, ThreadIndex(thread))?;
    let mut reader = Reader::new(&stream);
    let mut calls = Vec::new();
    while let Some(call) = reader.next_call()? {
        let ranges = call
            .ranges()
            .map(|(address, bytes)| (address, bytes.to_vec()))
            .collect();
        calls.push((call.entry.event, call.entry.number, call.entry.result, ranges));
    }
    Ok(calls)
}

fn calls() -> impl Strategy<Value = Written> {
    let range = (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40));
    let call = (
        0u64..5,
        any::<u32>(),
        any::<i64>(),
        proptest::collection::vec(range, 0..4),
    );
    proptest::collection::vec(call, 0..12).prop_map(|mut calls| {
        let mut event = 0;
        for call in &mut calls {
            event += call.0;
            call.0 = event;
        }
        calls
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(calls in calls(), thread in 0u32..9) {
        prop_assert_eq!(read(&write(thread, &calls), thread), Ok(calls));
    }

    #[test]
    fn a_changed_byte_is_noticed(calls in calls(), at in any::<usize>(), bit in 0u8..8) {
        let file = write(3, &calls);
        let mut changed = file.clone();
        let at = at % changed.len();
        changed[at] ^= 1 << bit;
        // Padding and reserved bytes do not count.
        prop_assert!(read(&changed, 3).is_err() || read(&changed, 3) == Ok(calls));
    }

    #[test]
    fn a_cut_file_is_refused(calls in calls(), cut in any::<usize>()) {
        let file = write(3, &calls);
        let cut = cut % file.len();
        // The rest of the header's page may be missing if there is nothing behind it.
        prop_assert!(read(&file[..cut], 3).is_err() || calls.is_empty());
    }

    #[test]
    fn desk_and_shelf_are_one_stream(calls in calls(), filler in 1usize..9) {
        // Long enough for a page on the shelf.
        let mut calls = calls;
        let event = calls.last().map_or(0, |call| call.0);
        calls.push((event, 0, 0, vec![(0, vec![7; filler * 1000])]));
        let stream = write_stream(&calls);
        let shelved = stream.len() / DESK_AT * DESK_AT;
        prop_assert_eq!(read(&file_of(2, &stream, shelved), 2), Ok(calls));
    }

    #[test]
    fn nonsense_is_refused_in_peace(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&file_of(0, &bytes, 0), 0);
    }
}

#[test]
fn files_of_older_versions_are_read_and_those_of_others_are_named() {
    let calls = vec![(1, 2, 3, vec![(4096, vec![1, 2, 3])])];
    let of_version = |version: u32| {
        let mut file = write(0, &calls);
        file[8..12].copy_from_slice(&version.to_le_bytes());
        read(&file, 0)
    };
    for version in OLDEST_VERSION..=VERSION {
        assert_eq!(of_version(version), Ok(calls.clone()), "version {version}");
    }
    for found in [OLDEST_VERSION - 1, VERSION + 1] {
        assert_eq!(of_version(found), Err(Damage::OtherVersion { found }));
    }
}

proptest! {
    #[test]
    fn a_changed_bit_or_place_changes_the_hash(
        bytes in proptest::collection::vec(any::<u8>(), 1..3000), at in any::<usize>(), to in any::<usize>(), bit in 0u8..8
    ) {
        let hash = |bytes: &[u8]| RangeHash::of(bytes).0;
        let (at, to) = (at % bytes.len(), to % bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        prop_assert_ne!(hash(&changed), hash(&bytes));
        let mut words: Vec<[u8; 8]> = bytes.as_chunks::<8>().0.to_vec();
        if let (Some(one), Some(other)) = (words.get(at / 8).copied(), words.get(to / 8).copied()) {
            let before = hash(words.as_flattened());
            words.swap(at / 8, to / 8);
            prop_assert_eq!(hash(words.as_flattened()) == before, one == other);
        }
    }
}

#[test]
fn a_changed_byte_inside_a_range_is_refused() {
    let mut file = write(0, &vec![(1, 0, 5, vec![(0x1000, b"hello".to_vec())])]);
    let at = file.len() - 6;
    file[at] ^= 1;
    assert_eq!(read(&file, 0), Err(Damage::Hash { offset: 0 }));
}

#[test]
fn an_entry_without_ranges_is_found_from_the_end() {
    let last = |calls: Written| {
        let file = write(0, &calls);
        let lengths = Lengths::read(&file, file.len(), ThreadIndex(0)).expect("a whole file");
        let places = lengths.last_places(ENTRY_BYTES)?;
        let bytes = places.map(|(at, bytes)| &file[at..at + bytes]).concat();
        let entry = last_entry(bytes.as_slice().first_chunk().expect("an entry"));
        entry.map(|entry| (entry.event, entry.result))
    };
    let with_ranges = (3, 0, 40, vec![(0x1000, vec![7; 40])]);
    assert_eq!(last(vec![with_ranges.clone(), (4, 1, 5, vec![])]), Some((4, 5)));
    assert_eq!(last(vec![(2, 1, 5, vec![]), with_ranges]), None);
    assert_eq!(last(vec![]), None);
}
