//! Random records and schedules that a recorder could have written.
use proptest::collection::vec;
use proptest::prelude::*;
use run_model::Access;
use run_model::Extent;
use run_model::Gate;
use run_model::Kind;
use run_model::MAX_SOURCES;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::SiteId;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;

/// Mostly small, sometimes anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..200u64, 2 => 0x6000_0000_0000..0x6000_0001_0000u64, 1 => any::<u64>()]
}

fn point() -> impl Strategy<Value = Point> {
    let thread = prop_oneof![6 => 0..20u32, 1 => any::<u32>()];
    (thread, number()).prop_map(|(thread, count)| Point {
        thread: ThreadIndex(thread),
        count,
    })
}

pub fn record() -> impl Strategy<Value = Record> {
    let kind = (0..Kind::ALL.len()).prop_map(|i| Kind::ALL[i]);
    let site = prop_oneof![4 => 0..5000u32, 1 => any::<u32>()];
    let sources = prop_oneof![4 => vec(point(), 1), 1 => vec(point(), 0..=MAX_SOURCES)];
    (
        kind,
        0..=Op::LAST,
        0..16u8,
        number(),
        number(),
        site,
        any::<bool>(),
        any::<i64>(),
        (number(), sources),
    )
        .prop_map(
            |(kind, op, access, event, object, site, any_value, value, (version, sources))| Record {
                event,
                kind,
                op: if kind == Kind::Sync {
                    Op::from_u8(op).unwrap()
                } else {
                    Op::None
                },
                access: match kind {
                    Kind::Run => Access(access),
                    Kind::Read | Kind::Write => extent(access, object).pack(),
                    _ => Access(0),
                },
                object,
                site: SiteId(site),
                value: if any_value { value } else { value % 100 },
                version: if kind.is_versioned() { version } else { 0 },
                sources: if kind.is_versioned() {
                    Points::NONE
                } else {
                    sources.into()
                },
            },
        )
}

/// One of those that there are at this address.
fn extent(choice: u8, object: u64) -> Extent {
    Extent {
        bytes: 1 + choice % (8 - (object % 8) as u8),
        unknown: choice >= 8,
        quiet: choice.is_multiple_of(3),
    }
}

/// Records in the order of their events.
pub fn records() -> impl Strategy<Value = Vec<Record>> {
    vec(record(), 0..40).prop_map(|mut records| {
        records.sort_by_key(|r| r.event);
        records
    })
}

/// A schedule as it comes back from its file: without sources.
#[allow(dead_code, reason = "each test binary uses its part of this module")]
pub fn schedule() -> impl Strategy<Value = Schedule> {
    let gate = (record(), vec((any::<u32>(), any::<u64>()), 0..4));
    let thread = (number(), vec(gate, 0..10));
    vec(thread, 1..6).prop_map(|threads| {
        let events: Vec<u64> = threads.iter().map(|t| t.0).collect();
        let mut schedule = Schedule::default();
        for (index, (_, gates)) in threads.into_iter().enumerate() {
            let mut gates: Vec<Gate> = gates.into_iter().map(|(r, w)| gate_of(index, r, w, &events)).collect();
            gates.sort_by_key(|g| g.record.event);
            schedule.threads.push(ThreadSchedule {
                gates,
                events: events[index],
            });
        }
        schedule
    })
}

fn gate_of(thread: usize, mut record: Record, waits: Vec<(u32, u64)>, events: &[u64]) -> Gate {
    record.event = record.event.min(events[thread]);
    record.sources = Points::NONE;
    record.version = 0;
    let waits = waits.into_iter().map(|(other, count)| {
        let other = other as usize % events.len();
        Point {
            thread: ThreadIndex(other as u32),
            count: count.min(events[other]),
        }
    });
    Gate {
        record,
        waits: waits.filter(|w| w.thread.0 as usize != thread).collect(),
    }
}
