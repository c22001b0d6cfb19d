//! Files of every released version still open, and mean what they meant.
//!
//! `REFRAIN_BLESS=1 cargo test -p log-format --test golden` writes those of the newest version anew, which is right
//! only before that version is released.
use log_format::decode;
use log_format::encode_log;
use log_format::schedule;
use run_model::Access;
use run_model::Extent;
use run_model::Gate;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::SiteId;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;
use std::fs;
use std::path::PathBuf;

fn directory(version: u32) -> PathBuf {
    let all = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden-logs");
    all.join(format!("v{version}"))
}

fn point(thread: u32, count: u64) -> Point {
    Point {
        thread: ThreadIndex(thread),
        count,
    }
}

/// Every kind of record that version 1 has, and every field at its limits.
fn main_thread() -> Vec<Record> {
    let record = |event, kind, object, site, value, sources: &[Point]| Record {
        event,
        kind,
        object,
        site: SiteId(site),
        value,
        sources: sources.into(),
        ..Record::default()
    };
    let chunk = 0x6000_0000_1040;
    vec![
        record(0, Kind::Spawn, 0, 17, 1, &[]),
        record(3, Kind::Share, chunk, 18, 1, &[point(1, 9)]),
        record(3, Kind::Take, chunk + 64, 19, 0, &[point(1, 12), point(0, 2)]),
        record(4, Kind::Seen, 0, 0, 2, &[]),
        Record {
            access: Access(7),
            ..record(9, Kind::Run, chunk + 8, 20, 0, &[point(1, 20)])
        },
        Record {
            access: Access(10),
            ..record(11, Kind::Run, chunk + 8, 20, 0, &[point(1, 22)])
        },
        Record {
            op: Op::MutexTryLock,
            ..record(12, Kind::Sync, 0x5555_5555_8010, 21, 16, &[point(1, 23)])
        },
        Record {
            op: Op::Input,
            ..record(200, Kind::Sync, 0, u32::MAX, i64::MIN, &[])
        },
        Record {
            op: Op::StreamUnlock,
            ..record(200, Kind::Sync, u64::MAX, 1, i64::MAX, &[])
        },
        record(
            1 << 40,
            Kind::Take,
            64,
            1,
            0,
            &[1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|t| point(t, u64::MAX)),
        ),
        record(u64::MAX, Kind::Exit, 0, 0, 3, &[]),
    ]
}

fn second_thread() -> Vec<Record> {
    vec![Record {
        kind: Kind::Start,
        sources: Points::one(point(0, 1)),
        ..Record::default()
    }]
}

fn schedule_of(records: Vec<Record>) -> Schedule {
    let mut schedule = Schedule::default();
    let gate = |mut record: Record| {
        let waits = record
            .sources
            .iter()
            .filter(|p| p.thread.0 == 1)
            .map(|p| point(1, p.count.min(30)))
            .collect();
        record.sources = Points::NONE;
        Gate { record, waits }
    };
    schedule.threads.push(ThreadSchedule {
        gates: records.into_iter().map(gate).collect(),
        events: u64::MAX,
    });
    schedule.threads.push(ThreadSchedule {
        gates: vec![],
        events: 30,
    });
    schedule
}

/// What version 2 added: access vectors, and accesses with values and versions.
fn third_thread() -> Vec<Record> {
    let vector = |event, object, value, sources: &[Point]| Record {
        event,
        kind: Kind::Vector,
        object,
        site: SiteId(3),
        value,
        sources: sources.into(),
        ..Record::default()
    };
    let access = |event, kind, object, bytes, value, version| Record {
        event,
        kind,
        access: Extent {
            bytes,
            unknown: event == 9,
            quiet: event % 2 == 0,
        }
        .pack(),
        object,
        site: SiteId(4),
        value,
        version,
        ..Record::default()
    };
    vec![
        vector(0, 0x8926_737f, 0, &[]),
        vector(1, 0x8926_737f, 17, &[point(0, 5)]),
        vector(1, u64::from(u32::MAX), i64::MAX, &[point(1, 6)]),
        access(2, Kind::Read, 0x6000_0000_1040, 8, -1, 0),
        access(2, Kind::Write, 0x6000_0000_1040, 8, i64::MIN, 1),
        access(3, Kind::Read, 0x6000_0000_1044, 4, 1000, 1),
        access(9, Kind::Write, 0x6000_0000_1047, 1, 0, u64::MAX),
    ]
}

#[test]
fn version_1_still_opens() {
    for (name, thread, records) in [
        ("thread-0.log", ThreadIndex(0), main_thread()),
        ("thread-1.log", ThreadIndex(1), second_thread()),
    ] {
        let file = fs::read(directory(1).join(name)).unwrap();
        assert_eq!(decode(&file, thread).unwrap().records, records, "{name}");
    }
    let file = fs::read(directory(1).join("schedule")).unwrap();
    assert_eq!(schedule::decode(&file).unwrap(), schedule_of(main_thread()));
    assert_eq!(schedule::encode(&schedule_of(main_thread())), file);
}

#[test]
fn version_2_is_what_it_was() {
    for (name, thread, records) in [
        ("thread-0.log", ThreadIndex(0), main_thread()),
        ("thread-2.log", ThreadIndex(2), third_thread()),
    ] {
        let path = directory(2).join(name);
        if std::env::var_os("REFRAIN_BLESS").is_some() {
            fs::write(&path, encode_log(thread, &records)).unwrap();
        }
        let file = fs::read(&path).unwrap();
        assert_eq!(decode(&file, thread).unwrap().records, records, "{name}");
        // While version 2 is the newest, writing it must not have changed either.
        assert_eq!(encode_log(thread, &records), file, "{name}");
    }
}
