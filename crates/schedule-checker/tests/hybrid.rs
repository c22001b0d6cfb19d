//! Hybrid schedules: a good one is accepted, and each way of being wrong is named.
use run_model::Constraint;
use run_model::HybridSchedule;
use run_model::Instance;
use run_model::Kind;
use run_model::Place;
use run_model::PointId;
use run_model::Record;
use run_model::SiteId;
use run_model::Step;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use schedule_checker::hybrid::HybridRejection;
use schedule_checker::hybrid::HybridVerdict;
use schedule_checker::hybrid::Traced;
use schedule_checker::hybrid::check_hybrid;

fn record(kind: Kind) -> Record {
    Record {
        kind,
        ..Record::default()
    }
}

fn place(site: u32) -> Place {
    Place {
        site: SiteId(site),
        ..Place::default()
    }
}

fn access(sequence: u64, address: u64, writes: bool, site: u32) -> TraceEntry {
    TraceEntry::Access {
        sequence,
        address,
        bytes: 4,
        reads: !writes,
        writes,
        at: place(site),
    }
}

/// Thread 0 writes a word that thread 1, which has a call behind its start, reads; with the word beside it, nobody has to do.
fn traces() -> Vec<Vec<TraceEntry>> {
    let start = |sequence| TraceEntry::Ordered {
        sequence,
        record: record(Kind::Start),
    };
    vec![
        vec![start(1), access(3, 100, true, 10), access(4, 104, true, 11)],
        vec![
            start(2),
            TraceEntry::Unordered,
            access(5, 108, true, 20),
            access(6, 100, false, 21),
        ],
    ]
}

fn schedule() -> HybridSchedule {
    let step = |thread| Step {
        thread: ThreadIndex(thread),
        record: record(Kind::Start),
    };
    let point = |segment, site| Instance {
        segment,
        place: place(site),
    };
    HybridSchedule {
        steps: vec![step(0), step(1)],
        events: vec![1, 2],
        points: vec![vec![point(1, 10)], vec![point(2, 21)]],
        constraints: vec![Constraint {
            before: id(0, 0),
            after: id(1, 0),
        }],
    }
}

fn id(thread: u32, index: u32) -> PointId {
    PointId {
        thread: ThreadIndex(thread),
        index,
    }
}

fn judge(change: impl FnOnce(&mut HybridSchedule)) -> Result<HybridVerdict, HybridRejection<()>> {
    let mut schedule = schedule();
    change(&mut schedule);
    let entries = |entries: Vec<TraceEntry>| entries.into_iter().map(Ok);
    check_hybrid(traces().into_iter().map(entries).collect(), &schedule)
}

#[test]
fn a_good_one_is_accepted() {
    let verdict = HybridVerdict {
        accesses: 4,
        conflicts: 1,
        steps: 2,
        constraints: 1,
    };
    assert_eq!(judge(|_| {}), Ok(verdict));
}

#[test]
fn the_pair_that_is_not_ordered_is_named() {
    let expected = HybridRejection::Unordered {
        address: 100,
        earlier: Traced {
            thread: ThreadIndex(0),
            access: 0,
        },
        later: Traced {
            thread: ThreadIndex(1),
            access: 1,
        },
        at: Instance {
            segment: 2,
            place: place(21),
        },
    };
    assert_eq!(judge(|schedule| schedule.constraints.clear()), Err(expected));
}

#[test]
fn steps_are_the_traced_ones_in_their_order() {
    let wrong = |rejection| matches!(rejection, Err(HybridRejection::Step { .. }));
    assert!(wrong(judge(|schedule| schedule.steps.swap(0, 1))));
    assert!(wrong(judge(|schedule| _ = schedule.steps.pop())));
    assert!(wrong(judge(|schedule| schedule.steps.push(schedule.steps[0].clone()))));
    assert!(wrong(judge(|schedule| schedule.steps[1].record.object = 7)));
    assert!(wrong(judge(|schedule| schedule.steps[1].record.event = 1)));
}

#[test]
fn events_and_threads_are_counted() {
    let wrong = judge(|schedule| schedule.events[1] = 1);
    assert!(matches!(
        wrong,
        Err(HybridRejection::Events {
            traced: 2,
            scheduled: 1,
            ..
        })
    ));
    let wrong = judge(|schedule| schedule.events.push(0));
    assert!(matches!(
        wrong,
        Err(HybridRejection::Threads {
            traced: 2,
            scheduled: 3
        })
    ));
}

#[test]
fn points_are_accesses() {
    for change in [
        |point: &mut Instance| point.segment = 0,
        |point: &mut Instance| point.place.site = SiteId(12),
        |point: &mut Instance| point.place.transfers = 1,
        |point: &mut Instance| point.place.ordinal = 1,
    ] {
        let wrong = judge(|schedule| change(&mut schedule.points[0][0]));
        // Whoever waits for an access that never comes notices first.
        assert!(matches!(wrong, Err(HybridRejection::Against { index: 0 })), "{wrong:?}");
    }
    let wrong = judge(|schedule| {
        schedule.points[0].push(Instance {
            segment: 1,
            place: place(99),
        });
    });
    assert_eq!(wrong, Err(HybridRejection::Point { point: id(0, 1) }));
}

#[test]
fn constraints_are_between_threads_and_not_backwards() {
    let wrong = judge(|schedule| schedule.constraints[0].before = id(0, 1));
    assert_eq!(wrong, Err(HybridRejection::Constraint { index: 0 }));
    let wrong = judge(|schedule| schedule.constraints[0].before = id(1, 0));
    assert_eq!(wrong, Err(HybridRejection::Constraint { index: 0 }));
    let wrong = judge(|schedule| {
        schedule.constraints.push(Constraint {
            before: id(1, 0),
            after: id(0, 0),
        });
    });
    assert_eq!(wrong, Err(HybridRejection::Against { index: 1 }));
}
