//! What is written comes back, and nothing else does.
mod common;

use log_format::Fault;
use log_format::HEADER_BYTES;
use log_format::LogReader;
use log_format::Pieces;
use log_format::TAIL_OFFSET;
use log_format::decode;
use log_format::decode_prefix;
use log_format::encode_log;
use log_format::schedule;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use run_model::Access;
use run_model::Kind;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::SiteId;
use run_model::ThreadIndex;
use std::io;
use std::io::Read;

/// Gives a few bytes at a time.
struct Trickle<'a> {
    bytes: &'a [u8],
    piece: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.piece.min(buffer.len()).min(self.bytes.len());
        buffer[..length].copy_from_slice(&self.bytes[..length]);
        self.bytes = &self.bytes[length..];
        Ok(length)
    }
}

const ME: ThreadIndex = ThreadIndex(3);

proptest! {
    #[test]
    fn logs_come_back(records in common::records(), zeros in 0..100usize) {
        let mut file = encode_log(ME, &records);
        file.resize(file.len() + zeros, 0);
        prop_assert_eq!(decode(&file, ME).unwrap().records, records.clone());
        let prefix = decode_prefix(&file, ME);
        prop_assert_eq!(prefix.log.records, records);
        prop_assert_eq!(prefix.damage, None);
    }

    #[test]
    fn a_log_in_pieces_is_the_same_log(records in common::records(), zeros in 0..100usize, piece in 1..20usize, cut in 0..40usize) {
        let mut file = encode_log(ME, &records);
        file.resize(file.len() + zeros, 0);
        for file in [&file[..], &file[..file.len().saturating_sub(cut)]] {
            let pieces = Pieces::new(Trickle { bytes: file, piece }, file.len() as u64);
            let in_pieces = LogReader::open(pieces, ME).and_then(|reader| reader.collect::<Result<Vec<Record>, _>>());
            prop_assert_eq!(in_pieces, decode(file, ME).map(|log| log.records));
        }
    }

    #[test]
    fn a_cut_log_is_refused_at_every_byte(records in common::records()) {
        let file = encode_log(ME, &records);
        for length in 0..file.len() {
            prop_assert!(decode(&file[..length], ME).is_err());
            let prefix = decode_prefix(&file[..length], ME);
            prop_assert!(prefix.damage.is_some());
            prop_assert!(records.starts_with(&prefix.log.records));
        }
    }

    #[test]
    fn schedules_come_back(schedule in common::schedule()) {
        let file = schedule::encode(&schedule);
        prop_assert_eq!(schedule::decode(&file).unwrap(), schedule);
    }

    #[test]
    fn a_cut_schedule_is_refused_at_every_byte(schedule in common::schedule()) {
        let file = schedule::encode(&schedule);
        for length in 0..file.len() {
            prop_assert!(schedule::decode(&file[..length]).is_err());
        }
    }

    /// A schedule has no hash; a changed one is refused, or is one that the runtime can follow.
    #[test]
    fn a_changed_schedule_is_refused_or_well_formed(schedule in common::schedule(), bits in proptest::collection::vec(any::<proptest::sample::Index>(), 20)) {
        let file = schedule::encode(&schedule);
        for bit in bits {
            let mut changed = file.clone();
            let bit = bit.index(file.len() * 8);
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(decoded) = schedule::decode(&changed) {
                prop_assert_eq!(schedule::encode(&decoded), changed);
            }
        }
    }
}

/// From a fixed seed, because the 24-bit hash may miss one change in 2^24 and a test that fails by chance teaches nothing.
#[test]
fn a_changed_bit_is_never_another_log() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..6 {
        let file = encode_log(ME, &common::records().new_tree(&mut runner).unwrap().current());
        let mut changed = file.clone();
        for bit in 0..file.len() * 8 {
            changed[bit / 8] ^= 1 << (bit % 8);
            let _ = decode_prefix(&changed, ME);
            assert!(decode(&changed, ME).is_err(), "bit {bit} changed and nobody saw it");
            changed[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Two threads that take turns on neighbouring cells: the common case of a racy program.
#[test]
fn a_typical_run_record_takes_at_most_eight_bytes() {
    let records: Vec<Record> = (0..1000u64)
        .map(|i| Record {
            event: i * 37,
            kind: Kind::Run,
            access: Access(Access::READS | Access::PREVIOUS_WROTE),
            object: 0x6000_0001_0000 + (i * 7919 % 64) * 8,
            site: SiteId(100 + (i * 31 % 40) as u32),
            sources: Points::one(Point {
                thread: ThreadIndex(1),
                count: i * 41,
            }),
            ..Record::default()
        })
        .collect();
    let bytes = encode_log(ME, &records).len() - HEADER_BYTES;
    assert!(
        bytes <= 8 * records.len(),
        "{bytes} bytes for {} records",
        records.len()
    );
}

#[test]
fn each_kind_of_damage_has_its_name() {
    let records = [Record {
        kind: Kind::Spawn,
        event: 4,
        value: 1,
        ..Record::default()
    }];
    let good = encode_log(ME, &records);
    let fault = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = good.clone();
        change(&mut file);
        decode(&file, ME).unwrap_err().fault
    };
    assert!(matches!(
        fault(&|f| f.truncate(10)),
        Fault::NoHeader {
            expected: 64,
            found: 10
        }
    ));
    assert!(matches!(fault(&|f| f[0] = b'X'), Fault::Magic { .. }));
    assert!(matches!(
        fault(&|f| f[8] = 9),
        Fault::NewerVersion { newest: 2, found: 9 }
    ));
    assert!(matches!(fault(&|f| f[8] = 0), Fault::NoSuchVersion { found: 0 }));
    assert!(matches!(fault(&|f| f[12] = 4), Fault::Thread { expected: 3, found: 4 }));
    assert!(matches!(fault(&|f| f[63] = 1), Fault::Reserved { found: 1 }));
    assert!(matches!(fault(&|f| f[TAIL_OFFSET + 1] = 1), Fault::Cut { .. }));
    assert!(matches!(fault(&|f| f[TAIL_OFFSET + 5] ^= 1), Fault::Hash { .. }));
    assert!(matches!(fault(&|f| f[HEADER_BYTES] = 0x0e), Fault::Kind { found: 14 }));
    assert!(matches!(fault(&|f| f[HEADER_BYTES] = 0), Fault::Kind { found: 0 }));
    assert!(matches!(
        fault(&|f| *f.last_mut().unwrap() = 9),
        Fault::TooManySources { most: 8, found: 9 }
    ));
    assert!(matches!(fault(&|f| *f.last_mut().unwrap() = 1), Fault::RecordCut));
}

#[test]
fn extents_stay_within_their_cell() {
    let write = |object: u64, extent: u8| {
        let record = Record {
            kind: Kind::Write,
            access: Access(extent),
            object,
            version: 1,
            ..Record::default()
        };
        decode(&encode_log(ME, &[record]), ME).map_err(|damage| damage.fault)
    };
    assert!(write(0x1000, 8).is_ok());
    assert!(write(0x1007, 1 | 16 | 32).is_ok());
    for (object, extent) in [(0x1000, 0), (0x1000, 9), (0x1001, 8), (0x1000, 64 | 1)] {
        assert_eq!(write(object, extent).unwrap_err(), Fault::Access { found: extent });
    }
}

#[test]
fn numbers_that_do_not_fit_are_damage() {
    // A Spawn record with everything left out but its event.
    let stream = |event: &[u8]| {
        let mut file = encode_log(ME, &[]);
        file.push(0x70 | Kind::Spawn as u8);
        file.extend(event);
        file.push(0);
        let length = file.len() - HEADER_BYTES;
        file[TAIL_OFFSET] = length as u8;
        decode(&file, ME).unwrap_err().fault
    };
    assert_eq!(stream(&[0xff; 10]), Fault::TooBig);
    assert_eq!(
        stream(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
        Fault::TooBig
    );
    // The greatest event, then one more record whose difference is one.
    let greatest = [
        0xff,
        0xff,
        0xff,
        0xff,
        0xff,
        0xff,
        0xff,
        0xff,
        0xff,
        1,
        0,
        0x70 | Kind::Spawn as u8,
        1,
    ];
    assert_eq!(stream(&greatest), Fault::EventBackwards { previous: u64::MAX });
}

#[test]
fn nothing_comes_after_an_error() {
    let mut file = encode_log(
        ME,
        &[Record {
            kind: Kind::Start,
            ..Record::default()
        }],
    );
    file[HEADER_BYTES] = 0;
    let mut reader = LogReader::open(file.as_slice(), ME).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}
