//! Traces and hybrid schedules: what is written comes back, and whatever else there is, is refused or ends.
use log_format::Fault;
use log_format::hybrid;
use log_format::hybrid_trace::HEADER_BYTES;
use log_format::hybrid_trace::MAX_ENTRY_BYTES;
use log_format::hybrid_trace::TraceEncoder;
use log_format::hybrid_trace::TraceError;
use log_format::hybrid_trace::TraceReader;
use log_format::hybrid_trace::encode_trace;
use proptest::prelude::*;
use run_model::Access;
use run_model::Constraint;
use run_model::HybridSchedule;
use run_model::Instance;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::PointId;
use run_model::Record;
use run_model::SiteId;
use run_model::Step;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use std::io;
use std::io::Read;

const ME: ThreadIndex = ThreadIndex(3);

/// Gives a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(buffer.len()).min(self.0.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

fn record() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), any::<i64>(), any::<u32>(), any::<u8>());
    (0..Kind::ALL.len(), 0..=Op::LAST, numbers).prop_map(|(kind, op, (object, value, site, access))| Record {
        kind: Kind::ALL[kind],
        op: Op::from_u8(op).unwrap(),
        access: Access(access),
        object: object >> (object % 64),
        value: value >> (value & 63),
        site: SiteId(site),
        ..Record::default()
    })
}

fn entry() -> impl Strategy<Value = TraceEntry> {
    let small_or_any = || prop_oneof![0..4u64, any::<u64>()];
    let access = (
        any::<u64>(),
        small_or_any(),
        prop_oneof![Just(8), any::<u32>()],
        any::<[bool; 2]>(),
        prop_oneof![0..5u32, any::<u32>()],
        0..3u32,
        small_or_any(),
    );
    prop_oneof![
        1 => (any::<u64>(), record()).prop_map(|(sequence, record)| TraceEntry::Ordered { sequence, record }),
        1 => Just(TraceEntry::Unordered),
        4 => access.prop_map(|(sequence, address, bytes, [reads, writes], site, ordinal, transfers)| TraceEntry::Access {
            sequence,
            address,
            bytes,
            reads,
            writes,
            at: Place { site: SiteId(site), ordinal, transfers },
        }),
    ]
}

fn read(file: &[u8]) -> (Vec<TraceEntry>, bool) {
    let mut reader = TraceReader::open(file, ME).unwrap();
    let entries = reader.by_ref().map(Result::unwrap).collect();
    (entries, reader.is_torn())
}

proptest! {
    #[test]
    fn traces_come_back(entries in prop::collection::vec(entry(), 0..60), zeros in 0..80usize, piece in 1..20usize) {
        let mut file = encode_trace(ME, &entries);
        prop_assert_eq!(read(&file), (entries.clone(), false));
        file.resize(file.len() + zeros, 0);
        prop_assert_eq!(read(&file), (entries.clone(), false));
        let in_pieces: Vec<TraceEntry> = TraceReader::open(Trickle(&file, piece), ME).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(in_pieces, entries);
    }

    #[test]
    fn a_cut_trace_ends_at_its_last_whole_entry(entries in prop::collection::vec(entry(), 1..12)) {
        let mut encoder = TraceEncoder::new();
        let mut ends = vec![HEADER_BYTES];
        for entry in &entries {
            let mut out = [0; MAX_ENTRY_BYTES];
            let length = encoder.encode(entry, &mut out);
            prop_assert!(length > 0 && out[0] != 0);
            ends.push(ends[ends.len() - 1] + length);
        }
        let file = encode_trace(ME, &entries);
        prop_assert_eq!(file.len(), ends[ends.len() - 1]);
        for cut in HEADER_BYTES..file.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            let is_torn = !ends.contains(&cut);
            prop_assert_eq!(read(&file[..cut]), (entries[..whole].to_vec(), is_torn));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = encode_trace(ME, &[]);
        file.extend(&bytes);
        let reader = TraceReader::open(&file[..], ME).unwrap();
        let entries: Vec<TraceEntry> = reader.map_while(Result::ok).collect();
        prop_assert_eq!(read(&encode_trace(ME, &entries)).0, entries);
        let _ = hybrid::decode(&bytes);
    }
}

/// A loop over two arrays and a counter: what a trace is mostly made of.
#[test]
fn accesses_of_a_loop_take_few_bytes() {
    let mut entries = Vec::new();
    for round in 0..1000u64 {
        for (site, address) in [
            (160, 0x7fff_0000_1000),
            (176, 0x5555_0000 + 4 * round),
            (208, 0x6666_0000 + 8 * round),
        ] {
            entries.push(TraceEntry::Access {
                sequence: 1 + entries.len() as u64 * 2,
                address,
                bytes: 4,
                reads: true,
                writes: site == 208,
                at: Place {
                    site: SiteId(site),
                    ordinal: 0,
                    transfers: round,
                },
            });
        }
    }
    let file = encode_trace(ME, &entries);
    assert!(file.len() <= 4 * entries.len(), "{} bytes", file.len());
    assert_eq!(read(&file).0, entries);
}

#[test]
fn other_headers_are_refused() {
    let file = encode_trace(ME, &[TraceEntry::Unordered]);
    for cut in 0..HEADER_BYTES {
        let Err(TraceError::Corrupt(corrupt)) = TraceReader::open(&file[..cut], ME) else {
            panic!("cut at {cut}")
        };
        assert!(matches!(corrupt.fault, Fault::NoHeader { .. }));
    }
    let refused = |at: usize, byte: u8| {
        let mut file = file.clone();
        file[at] = byte;
        match TraceReader::open(&file[..], ME) {
            Err(TraceError::Corrupt(corrupt)) => corrupt.fault,
            _ => panic!("byte {at}"),
        }
    };
    assert!(matches!(refused(0, 1), Fault::Magic { .. }));
    assert!(matches!(refused(8, 0), Fault::NoSuchVersion { .. }));
    assert!(matches!(refused(8, 9), Fault::NewerVersion { .. }));
    assert!(matches!(refused(12, 9), Fault::Thread { expected: 3, found: 9 }));
}

/// A record that is adjacent to others of its kind is read as itself: each says what it is.
#[test]
fn unknown_entries_are_errors_and_no_ends() {
    let file = encode_trace(ME, &[TraceEntry::Unordered]);
    for bad in [
        &[0x05][..],
        &[0xf2, 0, 0, 0, 0],
        &[0x52, 0xff, 0, 0, 0],
        &[0x43, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    ] {
        let file: Vec<u8> = file.iter().chain(bad).copied().collect();
        let mut reader = TraceReader::open(&file[..], ME).unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), TraceEntry::Unordered);
        assert!(reader.next().unwrap().is_err(), "{bad:?}");
        assert!(reader.next().is_none());
        assert!(!reader.is_torn());
    }
}

fn schedule() -> HybridSchedule {
    let step = |thread, event, object| Step {
        thread: ThreadIndex(thread),
        record: Record {
            event,
            kind: Kind::Sync,
            op: Op::MutexLock,
            object,
            value: -1,
            site: SiteId(5),
            ..Record::default()
        },
    };
    let point = |segment, transfers, ordinal| Instance {
        segment,
        place: Place {
            site: SiteId(9),
            ordinal,
            transfers,
        },
    };
    let id = |thread, index| PointId {
        thread: ThreadIndex(thread),
        index,
    };
    HybridSchedule {
        steps: vec![step(0, 0, 0x1000), step(1, 1, 0x2000), step(0, 2, 0x1000)],
        events: vec![4, 2, 0],
        points: vec![
            vec![point(1, 0, 1), point(1, 0, 0), point(4, 3, 0)],
            vec![point(2, 7, 0)],
            vec![],
        ],
        constraints: vec![
            Constraint {
                before: id(0, 1),
                after: id(1, 0),
            },
            Constraint {
                before: id(1, 0),
                after: id(0, 2),
            },
        ],
    }
}

#[test]
fn hybrid_schedules_come_back() {
    for schedule in [schedule(), HybridSchedule::default()] {
        assert_eq!(hybrid::decode(&hybrid::encode(&schedule)), Ok(schedule));
    }
}

#[test]
fn a_hybrid_schedule_has_no_byte_too_few_or_changed() {
    let file = hybrid::encode(&schedule());
    for end in 0..file.len() {
        assert!(hybrid::decode(&file[..end]).is_err(), "cut at {end}");
    }
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x10;
        assert!(hybrid::decode(&changed).is_err(), "byte {at}");
    }
    let longer: Vec<u8> = file.iter().copied().chain([0]).collect();
    assert!(hybrid::decode(&longer).is_err());
}

/// With a checksum that fits, so that what is behind it is looked at.
#[test]
fn hybrid_schedules_that_make_no_sense_are_refused() {
    let refused = |change: &dyn Fn(&mut HybridSchedule)| {
        let mut changed = schedule();
        change(&mut changed);
        hybrid::decode(&hybrid::encode(&changed)).unwrap_err().fault
    };
    assert!(matches!(
        refused(&|s| s.steps[0].thread = ThreadIndex(3)),
        Fault::NoSuchThread { .. }
    ));
    assert!(matches!(
        refused(&|s| s.steps[1].record.event = 2),
        Fault::BeyondEnd { .. }
    ));
    assert!(matches!(
        refused(&|s| s.steps[2].record.event = 0),
        Fault::EventBackwards { .. }
    ));
    assert!(matches!(
        refused(&|s| s.points[0][0].segment = 2),
        Fault::PointBackwards
    ));
    assert!(matches!(
        refused(&|s| s.points[0][1] = s.points[0][0]),
        Fault::PointBackwards
    ));
    assert!(matches!(
        refused(&|s| s.points[1][0].segment = 3),
        Fault::BeyondEnd { .. }
    ));
    assert!(matches!(
        refused(&|s| s.constraints[0].after.index = 1),
        Fault::BeyondEnd { .. }
    ));
    assert!(matches!(
        refused(&|s| s.constraints[0].after.thread = ThreadIndex(9)),
        Fault::NoSuchThread { .. }
    ));
    assert!(matches!(
        refused(&|s| s.constraints[0].after = s.constraints[0].before),
        Fault::NoSuchThread { .. }
    ));
    assert!(matches!(
        refused(&|s| s.constraints.swap(0, 1)),
        Fault::ConstraintBackwards
    ));
    assert!(matches!(
        refused(&|s| s.constraints[1] = s.constraints[0]),
        Fault::ConstraintBackwards
    ));
}
