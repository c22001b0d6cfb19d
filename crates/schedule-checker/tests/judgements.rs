//! Schedules by hand, good and bad.
use run_model::Access;
use run_model::Extent;
use run_model::Gate;
use run_model::Kind;
use run_model::Logs;
use run_model::Method;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::ThreadLog;
use run_model::ThreadSchedule;
use schedule_checker::Rejection;
use schedule_checker::Waiting;
use schedule_checker::Why;
use schedule_checker::check;

const READS: u8 = Access::READS;
const WRITES: u8 = Access::WRITES;
const WROTE: u8 = Access::PREVIOUS_WROTE;
const X: u64 = 0x1000;

fn point(thread: u32, count: u64) -> Point {
    Point {
        thread: ThreadIndex(thread),
        count,
    }
}

fn run(event: u64, access: u8, source: Point) -> Record {
    Record {
        event,
        kind: Kind::Run,
        object: X,
        access: Access(access),
        sources: Points::one(source),
        ..Record::default()
    }
}

fn sync(event: u64, sources: &[Point]) -> Record {
    Record {
        event,
        kind: Kind::Sync,
        op: Op::MutexLock,
        sources: sources.into(),
        ..Record::default()
    }
}

/// How many events it has, and its records with what they wait for.
type Thread = (u64, Vec<(Record, Vec<Point>)>);

/// Logs, and a schedule for them with these waits.
fn case(threads: Vec<Thread>) -> (Logs, Schedule) {
    let mut logs = Logs::default();
    let mut schedule = Schedule::default();
    for (events, gates) in threads {
        let records = gates.iter().map(|(record, _)| record.clone()).collect();
        logs.threads.push(ThreadLog {
            records,
            events,
            torn: false,
            ..ThreadLog::default()
        });
        let gates = gates
            .into_iter()
            .map(|(record, waits)| Gate {
                record,
                waits: waits.into(),
            })
            .collect();
        schedule.threads.push(ThreadSchedule { gates, events });
    }
    (logs, schedule)
}

fn verdict(threads: Vec<Thread>) -> Result<u64, Rejection> {
    let (logs, schedule) = case(threads);
    check(&logs, &schedule).map(|verdict| verdict.requirements)
}

#[test]
fn a_source_is_awaited_directly_or_through_others() {
    let source = point(0, 3);
    assert_eq!(
        verdict(vec![(5, vec![]), (5, vec![(sync(2, &[source]), vec![source])])]),
        Ok(1)
    );
    // Thread 2 waits for thread 1, which has waited for thread 0.
    let through = vec![
        (5, vec![]),
        (5, vec![(sync(2, &[source]), vec![source])]),
        (5, vec![(sync(1, &[source, point(1, 3)]), vec![point(1, 3)])]),
    ];
    assert_eq!(verdict(through), Ok(3));
    // Thread 1 has waited, but only after what thread 2 waits for.
    let too_early = vec![
        (5, vec![]),
        (5, vec![(sync(2, &[source]), vec![source])]),
        (5, vec![(sync(1, &[source]), vec![point(1, 2)])]),
    ];
    let thread = ThreadIndex(2);
    assert_eq!(
        verdict(too_early),
        Err(Rejection::Unordered {
            required: source,
            thread,
            event: 1,
            why: Why::Source
        })
    );
}

/// Thread 2 begins when thread 1 is over, so that their clocks have an entry in common; thread 3 must not take what one
/// does for what the other does.
#[test]
fn threads_one_after_the_other_are_told_apart() {
    let threads = |awaited: u64, required: Point, wait: Point| {
        vec![
            (3, vec![]),
            (4, vec![(sync(0, &[]), vec![point(0, 1)])]),
            (4, vec![(sync(0, &[]), vec![point(1, awaited)])]),
            (2, vec![(sync(1, &[required]), vec![wait])]),
        ]
    };
    let rejected = |required| {
        Err(Rejection::Unordered {
            required,
            thread: ThreadIndex(3),
            event: 1,
            why: Why::Source,
        })
    };
    // Whatever thread 2 has done, all of thread 1 was before; and nothing of thread 2 that it has not done.
    assert_eq!(verdict(threads(4, point(1, 4), point(2, 1))), Ok(1));
    assert_eq!(verdict(threads(4, point(2, 2), point(2, 2))), Ok(1));
    assert_eq!(verdict(threads(4, point(2, 3), point(2, 2))), rejected(point(2, 3)));
    assert_eq!(verdict(threads(4, point(2, 1), point(1, 4))), rejected(point(2, 1)));
    // That thread 2 has done nothing is true before thread 1 is over.
    assert_eq!(verdict(threads(4, point(1, 4), point(2, 0))), rejected(point(1, 4)));
    // Thread 2 did not wait for the end of thread 1.
    assert_eq!(verdict(threads(3, point(1, 3), point(2, 1))), Ok(1));
    assert_eq!(verdict(threads(3, point(1, 4), point(2, 4))), rejected(point(1, 4)));
}

#[test]
fn everyone_waiting_for_everyone_is_stuck() {
    let rejection = verdict(vec![
        (9, vec![(sync(3, &[]), vec![point(1, 5)])]),
        (9, vec![(sync(4, &[]), vec![point(0, 4)])]),
    ]);
    let waiting = vec![
        Waiting {
            thread: ThreadIndex(0),
            event: 3,
            wait: point(1, 5),
            reached: 4,
        },
        Waiting {
            thread: ThreadIndex(1),
            event: 4,
            wait: point(0, 4),
            reached: 3,
        },
    ];
    assert_eq!(rejection, Err(Rejection::Stuck { waiting }));
}

/// Thread 0 used the cell first, thread 1 overwrote it blindly, thread 2 read that.
fn write_and_read(first: Vec<Point>, second: Vec<Point>) -> Result<u64, Rejection> {
    verdict(vec![
        (4, vec![]),
        (1, vec![(run(0, WRITES | WROTE, point(0, 4)), first)]),
        (1, vec![(run(0, READS | WROTE, point(1, 1)), second)]),
    ])
}

#[test]
fn a_read_comes_after_its_write_and_the_write_after_those_it_replaces() {
    assert!(write_and_read(vec![point(0, 4)], vec![point(1, 1)]).is_ok());
    let flow = write_and_read(vec![point(0, 4)], vec![point(0, 4)]).unwrap_err();
    assert!(
        matches!(
            flow,
            Rejection::Unordered {
                why: Why::Flow { cell: X },
                ..
            }
        ),
        "{flow}"
    );
    let output = write_and_read(vec![point(0, 3)], vec![point(1, 1)]).unwrap_err();
    assert!(
        matches!(
            output,
            Rejection::Unordered {
                why: Why::Writes { cell: X },
                ..
            }
        ),
        "{output}"
    );
}

/// Two blind writes, each read by another thread: either order of the pairs is good, mixing them is not.
#[test]
fn blind_writes_may_come_in_another_order_with_their_readers() {
    let pairs = |waits: [Vec<Point>; 4]| {
        let [a, b, c, d] = waits;
        verdict(vec![
            (1, vec![]),
            (1, vec![(run(0, WRITES | WROTE, point(0, 1)), a)]),
            (1, vec![(run(0, READS | WROTE, point(1, 1)), b)]),
            (1, vec![(run(0, WRITES, point(2, 1)), c)]),
            (1, vec![(run(0, READS | WROTE, point(3, 1)), d)]),
        ])
    };
    let recorded = [
        vec![point(0, 1)],
        vec![point(1, 1)],
        vec![point(2, 1)],
        vec![point(3, 1)],
    ];
    assert!(pairs(recorded).is_ok());
    // The second pair first: the write of the other waits until its reader's thread is done.
    let swapped = [
        vec![point(4, 1)],
        vec![point(1, 1)],
        vec![point(0, 1)],
        vec![point(3, 1)],
    ];
    assert!(pairs(swapped).is_ok());
    let mixed = [
        vec![point(0, 1)],
        vec![point(3, 1)],
        vec![point(1, 1)],
        vec![point(3, 1)],
    ];
    let rejection = pairs(mixed).unwrap_err();
    assert!(
        matches!(
            rejection,
            Rejection::Unordered {
                why: Why::Overwrite { cell: X },
                ..
            }
        ),
        "{rejection}"
    );
}

#[test]
fn a_read_modify_write_follows_the_write_it_read() {
    // Thread 1 and then thread 2 add to the cell; the schedule lets thread 2 come first.
    let rejection = verdict(vec![
        (1, vec![]),
        (
            1,
            vec![(run(0, READS | WRITES | WROTE, point(0, 1)), vec![point(2, 1)])],
        ),
        (
            1,
            vec![(run(0, READS | WRITES | WROTE, point(1, 1)), vec![point(0, 1)])],
        ),
    ]);
    let expected = Rejection::OtherWriteBetween {
        cell: X,
        thread: ThreadIndex(1),
        event: 0,
    };
    assert_eq!(rejection, Err(expected));
}

#[test]
fn a_schedule_of_another_run_is_refused() {
    let (logs, schedule) = case(vec![(5, vec![(sync(2, &[]), vec![])]), (5, vec![])]);
    let changed = |change: &dyn Fn(&mut Schedule)| {
        let mut schedule = schedule.clone();
        change(&mut schedule);
        check(&logs, &schedule).unwrap_err()
    };
    assert!(matches!(
        changed(&|s| _ = s.threads.pop()),
        Rejection::Threads {
            recorded: 2,
            scheduled: 1
        }
    ));
    assert!(matches!(
        changed(&|s| s.threads[1].events = 4),
        Rejection::Events {
            recorded: 5,
            scheduled: 4,
            ..
        }
    ));
    assert!(matches!(
        changed(&|s| s.threads[1].events = 6),
        Rejection::Events {
            recorded: 5,
            scheduled: 6,
            ..
        }
    ));
    assert!(matches!(
        changed(&|s| s.threads[0].gates.clear()),
        Rejection::Records {
            recorded: 1,
            scheduled: 0,
            ..
        }
    ));
    assert!(matches!(
        changed(&|s| s.threads[0].gates[0].record.object = 1),
        Rejection::Record { gate: 0, .. }
    ));
    for wait in [point(0, 1), point(1, 6), point(2, 0)] {
        assert!(matches!(
            changed(&|s| s.threads[0].gates[0].waits.push(wait)),
            Rejection::Wait { event: 2, .. }
        ));
    }
}

fn accessed(kind: Kind, event: u64, value: i64, version: u64) -> Record {
    let extent = Extent {
        bytes: 8,
        unknown: false,
        quiet: false,
    };
    Record {
        event,
        kind,
        object: X,
        access: extent.pack(),
        value,
        version,
        ..Record::default()
    }
}

/// Thread 0 writes 1 and 2, thread 1 reads 1.
fn read_between(method: Method, waits_of_write: Vec<Point>, waits_of_read: Vec<Point>) -> Result<(), Rejection> {
    let writes = vec![
        (accessed(Kind::Write, 0, 1, 1), vec![]),
        (accessed(Kind::Write, 1, 2, 2), waits_of_write),
    ];
    let reads = vec![(accessed(Kind::Read, 0, 1, 2), waits_of_read)];
    let (mut logs, schedule) = case(vec![(2, writes), (1, reads)]);
    logs.method = method;
    check(&logs, &schedule).map(|_| ())
}

#[test]
fn a_recorded_read_is_certain_to_find_its_value() {
    for method in [Method::Stride, Method::Oreo] {
        assert_eq!(read_between(method, vec![point(1, 1)], vec![point(0, 1)]), Ok(()));
        // Too early, perhaps too late, and certainly too late.
        assert!(read_between(method, vec![point(1, 1)], vec![]).is_err());
        assert!(read_between(method, vec![], vec![point(0, 1)]).is_err());
        let wrong = Rejection::Value {
            address: X,
            thread: ThreadIndex(1),
            event: 0,
        };
        assert_eq!(read_between(method, vec![], vec![point(0, 2)]), Err(wrong));
    }
}

#[test]
fn nothing_comes_between_the_halves_of_an_update() {
    // Both read 0 and write 1: one of them did not.
    let update = || {
        vec![
            (accessed(Kind::Read, 0, 0, 0), vec![]),
            (accessed(Kind::Write, 0, 1, 1), vec![]),
        ]
    };
    let mut second = update();
    second[0].1 = vec![point(0, 1)];
    let (mut logs, schedule) = case(vec![(1, update()), (1, second)]);
    logs.method = Method::Oreo;
    assert_eq!(
        check(&logs, &schedule),
        Err(Rejection::Value {
            address: X,
            thread: ThreadIndex(1),
            event: 0
        })
    );
}

#[test]
fn what_was_there_from_the_beginning_is_one_thing() {
    // 7 was read, and 8 by somebody else; nobody wrote 7, and 8 was written later.
    let write = vec![(accessed(Kind::Write, 0, 8, 1), vec![point(1, 2)])];
    let reads = vec![
        (accessed(Kind::Read, 0, 7, 1), vec![]),
        (accessed(Kind::Read, 1, 8, 1), vec![]),
    ];
    let (mut logs, schedule) = case(vec![(1, write), (2, reads)]);
    logs.method = Method::Oreo;
    assert!(check(&logs, &schedule).is_err());
}

#[test]
fn access_vectors_are_kept() {
    let vector = |event, sources: &[Point]| Record {
        event,
        kind: Kind::Vector,
        object: X,
        sources: sources.into(),
        ..Record::default()
    };
    for (waits, is_good) in [(vec![point(0, 2)], true), (vec![point(0, 1)], false), (vec![], false)] {
        let first = vec![(vector(0, &[]), vec![])];
        let second = vec![(vector(0, &[point(0, 2)]), waits)];
        let (mut logs, schedule) = case(vec![(2, first), (1, second)]);
        logs.method = Method::Leap;
        assert_eq!(check(&logs, &schedule).is_ok(), is_good);
    }
}

#[test]
fn a_run_may_follow_one_of_its_own_thread() {
    // Written by 0, read by 0 with a record of its own, written by 1, read by 1.
    let first = vec![(run(1, READS | WROTE, point(0, 1)), vec![])];
    let second = vec![
        (run(0, WRITES, point(0, 2)), vec![point(0, 2)]),
        (run(1, READS | WROTE, point(1, 1)), vec![]),
    ];
    let (logs, schedule) = case(vec![(2, first), (2, second)]);
    assert!(check(&logs, &schedule).is_ok());
}
