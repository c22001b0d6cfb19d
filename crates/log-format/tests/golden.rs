//! Files of every released version still open, and mean what they meant.
//!
//! `REFRAIN_BLESS=1 cargo test -p log-format --test golden` writes those of the newest version anew, which is right
//! only before that version is released.
use log_format::decode;
use log_format::encode_log;
use log_format::schedule;
use run_model::Access;
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

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden-logs/v1")
}

fn point(thread: u32, count: u64) -> Point {
    Point {
        thread: ThreadIndex(thread),
        count,
    }
}

/// Every kind of record, and every field at its limits.
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

#[test]
fn version_1_still_opens() {
    let expected = [
        ("thread-0.log", ThreadIndex(0), main_thread()),
        ("thread-1.log", ThreadIndex(1), second_thread()),
    ];
    if std::env::var_os("REFRAIN_BLESS").is_some() {
        for (name, thread, records) in &expected {
            fs::write(directory().join(name), encode_log(*thread, records)).unwrap();
        }
        fs::write(
            directory().join("schedule"),
            schedule::encode(&schedule_of(main_thread())),
        )
        .unwrap();
    }
    for (name, thread, records) in &expected {
        let file = fs::read(directory().join(name)).unwrap();
        assert_eq!(&decode(&file, *thread).unwrap().records, records, "{name}");
        // While version 1 is the newest, writing it must not have changed either.
        assert_eq!(encode_log(*thread, records), file, "{name}");
    }
    let file = fs::read(directory().join("schedule")).unwrap();
    assert_eq!(schedule::decode(&file).unwrap(), schedule_of(main_thread()));
}
