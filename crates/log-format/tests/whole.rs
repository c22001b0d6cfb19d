//! Whole traces: what is written comes back, and whatever else there is, is refused or ends.
use log_format::hybrid_trace::HEADER_BYTES;
use log_format::hybrid_trace::TraceReader;
use log_format::hybrid_trace::encode_trace;
use log_format::hybrid_trace::whole::WholeReader;
use log_format::hybrid_trace::whole::encode_whole;
use log_format::hybrid_trace::whole::header;
use proptest::prelude::*;
use run_model::Data;
use run_model::Place;
use run_model::SiteId;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use run_model::WholeEntry;

const ME: ThreadIndex = ThreadIndex(3);

fn data() -> impl Strategy<Value = Data> {
    prop::collection::vec(any::<u8>(), 1..=Data::MAX).prop_map(|bytes| Data::new(&bytes))
}

fn small_or_any() -> impl Strategy<Value = u32> {
    prop_oneof![0..4u32, any::<u32>()]
}

fn entry() -> impl Strategy<Value = WholeEntry> {
    let access = (any::<u64>(), any::<u32>()).prop_map(|(address, site)| {
        WholeEntry::Step(TraceEntry::Access {
            sequence: address >> 32,
            address,
            bytes: 8,
            reads: true,
            writes: site % 2 == 0,
            at: Place {
                site: SiteId(site),
                ordinal: 0,
                transfers: 0,
            },
        })
    });
    prop_oneof![
        access,
        Just(WholeEntry::Step(TraceEntry::Unordered)),
        Just(WholeEntry::Left),
        (small_or_any(), small_or_any()).prop_map(|(unit, block)| WholeEntry::Block { unit, block }),
        (small_or_any(), small_or_any(), small_or_any(), data()).prop_map(|(unit, value, offset, data)| {
            WholeEntry::Value {
                unit,
                value,
                offset,
                data,
            }
        }),
        (any::<u32>(), any::<i64>()).prop_map(|(number, result)| WholeEntry::Call { number, result }),
        (any::<u64>(), data()).prop_map(|(address, data)| WholeEntry::Brought { address, data }),
    ]
}

fn read(bytes: &[u8]) -> Vec<WholeEntry> {
    WholeReader::open(bytes, ME).unwrap().map_while(Result::ok).collect()
}

proptest! {
    #[test]
    fn what_is_written_comes_back(entries in prop::collection::vec(entry(), 0..200)) {
        let file = encode_whole(ME, &entries);
        let reader = WholeReader::open(&file[..], ME).unwrap();
        prop_assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), entries);
    }

    /// A trace that was cut anywhere is the beginning of the whole one.
    #[test]
    fn a_cut_trace_ends(entries in prop::collection::vec(entry(), 1..12)) {
        let file = encode_whole(ME, &entries);
        for end in HEADER_BYTES..file.len() {
            let found = read(&file[..end]);
            prop_assert!(found.len() <= entries.len());
            prop_assert_eq!(&found[..], &entries[..found.len()]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let file: Vec<u8> = header(ME).into_iter().chain(bytes).collect();
        let entries = read(&file);
        prop_assert_eq!(read(&encode_whole(ME, &entries)), entries);
    }
}

/// The two kinds of traces are not taken for each other.
#[test]
fn they_are_told_apart() {
    let plain = encode_trace(ME, [&TraceEntry::Unordered]);
    let whole = encode_whole(ME, [&WholeEntry::Left]);
    assert!(WholeReader::open(&plain[..], ME).is_err());
    assert!(TraceReader::open(&whole[..], ME).is_err());
    assert!(WholeReader::open(&whole[..], ThreadIndex(4)).is_err());
}

/// A block that comes after another one as it did before takes one byte.
#[test]
fn a_loop_is_short() {
    let round = [1, 2, 3].map(|block| WholeEntry::Block { unit: 1, block });
    let entries: Vec<WholeEntry> = round.iter().cycle().take(3000).cloned().collect();
    assert!(encode_whole(ME, &entries).len() < HEADER_BYTES + 3020);
}
