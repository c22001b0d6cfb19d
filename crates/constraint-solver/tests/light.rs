//! Small logs by hand, and what the solver makes of them.
use constraint_solver::Hints;
use constraint_solver::Layer;
use constraint_solver::solve;
use run_model::Access;
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

const READS: u8 = Access::READS;
const WRITES: u8 = Access::WRITES;
const WROTE: u8 = Access::PREVIOUS_WROTE;
const X: u64 = 0x1000;
const Y: u64 = 0x2000;

fn point(thread: u32, count: u64) -> Point {
    Point {
        thread: ThreadIndex(thread),
        count,
    }
}

fn run(event: u64, object: u64, access: u8, source: Point) -> Record {
    Record {
        event,
        kind: Kind::Run,
        object,
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
        object: Y,
        sources: sources.into(),
        ..Record::default()
    }
}

fn epoch(event: u64, kind: Kind, value: i64, sources: &[Point]) -> Record {
    Record {
        event,
        kind,
        value,
        sources: sources.into(),
        ..Record::default()
    }
}

fn logs(threads: Vec<(u64, Vec<Record>)>) -> Logs {
    let log = |(events, records)| ThreadLog {
        records,
        events,
        torn: false,
        ..ThreadLog::default()
    };
    Logs {
        method: Method::Light,
        threads: threads.into_iter().map(log).collect(),
    }
}

/// Each wait as (thread, event, awaited thread, awaited count).
fn waits(schedule: &Schedule) -> Vec<(u32, u64, u32, u64)> {
    let mut waits = Vec::new();
    for (thread, planned) in schedule.threads.iter().enumerate() {
        for gate in &planned.gates {
            waits.extend(
                gate.waits
                    .iter()
                    .map(|w| (thread as u32, gate.record.event, w.thread.0, w.count)),
            );
        }
    }
    waits
}

/// The example of the paper's section 4.2:
///
/// ```text
///      t0                 t1
///                         c3: W(y)   event 0
///                         c4: W(x)   event 1
///                         c5: R(x)   event 2
///   c1: W(x)   event 0
///   c2: R(y)   event 1
///                         c6: R(x)   event 3
/// ```
fn paper() -> Logs {
    logs(vec![
        (
            2,
            vec![
                run(0, X, WRITES | WROTE, point(1, 3)),
                run(1, Y, READS | WROTE, point(1, 1)),
            ],
        ),
        (4, vec![run(3, X, READS | WROTE, point(0, 1))]),
    ])
}

#[test]
fn the_papers_example() {
    for hints in [Hints::Use, Hints::Ignore] {
        let solution = solve(&paper(), hints).unwrap();
        // c5 before c1 before c6; that c3 comes before c2 follows.
        assert_eq!(waits(&solution.schedule), [(0, 0, 1, 3), (1, 3, 0, 1)]);
        assert_eq!(solution.stats.layer, Layer::Collapsed);
        assert_eq!(
            (solution.stats.cells, solution.stats.runs, solution.stats.intervals),
            (2, 5, 3)
        );
    }
}

/// t0 writes, t1 and t2 read it in either order, t0 writes again: both reads stay before it, unordered among themselves.
#[test]
fn readers_of_one_write_are_not_ordered() {
    let logs = logs(vec![
        (5, vec![run(4, X, WRITES, point(2, 2))]),
        (2, vec![run(0, X, READS | WROTE, point(0, 1))]),
        (2, vec![run(1, X, READS, point(1, 2))]),
    ]);
    let solution = solve(&logs, Hints::Use).unwrap();
    assert_eq!(
        waits(&solution.schedule),
        [(0, 4, 1, 2), (0, 4, 2, 2), (1, 0, 0, 1), (2, 1, 0, 1)]
    );
}

/// Two blind writes that nobody reads were recorded in one order; a lock says the other. The lock is right: the order of
/// such writes is a hint only.
#[test]
fn hints_that_contradict_the_rest_are_given_up() {
    let logs = logs(vec![
        // Thread 2's first use of the cell, then thread 0, then thread 1.
        (2, vec![run(0, X, WRITES, point(2, 1)), sync(0, &[point(1, 1)])]),
        (1, vec![run(0, X, WRITES | WROTE, point(0, 1))]),
        (1, vec![]),
    ]);
    let solution = solve(&logs, Hints::Use).unwrap();
    assert_eq!(solution.stats.layer, Layer::Saturated);
    assert_eq!(waits(&solution.schedule), [(0, 0, 1, 1), (1, 0, 2, 1)]);
}

#[test]
fn a_circle_is_shown() {
    let logs = logs(vec![
        (9, vec![sync(3, &[point(1, 6)])]),
        (9, vec![sync(4, &[point(0, 7)])]),
    ]);
    let unsolvable = solve(&logs, Hints::Use).unwrap_err();
    let mut cycle: Vec<(u32, u64)> = unsolvable
        .cycle
        .iter()
        .map(|(thread, event)| (thread.0, *event))
        .collect();
    cycle.sort_unstable();
    assert_eq!(cycle, [(0, 3), (0, 6), (1, 4), (1, 5)]);
    assert!(
        unsolvable
            .to_string()
            .contains("event 5 of thread 1 before event 3 of thread 0"),
        "{unsolvable}"
    );
}

/// One moment per event: thread 0 shares something in its event 3, thread 1 uses that in its event 2, and *then* thread 0
/// takes something from thread 1, still in event 3. Each is true, but no order of whole events has both.
#[test]
fn an_event_that_gives_before_it_has_all_it_needs_is_a_circle() {
    let logs = logs(vec![
        (
            4,
            vec![epoch(3, Kind::Share, 1, &[]), epoch(3, Kind::Take, 0, &[point(1, 3)])],
        ),
        (5, vec![epoch(2, Kind::Seen, 1, &[])]),
    ]);
    let unsolvable = solve(&logs, Hints::Use).unwrap_err();
    assert_eq!(unsolvable.cycle.len(), 2);
}

#[test]
fn one_seen_follows_all_epochs_before() {
    let logs = logs(vec![
        (1, vec![epoch(0, Kind::Exit, 1, &[])]),
        (1, vec![epoch(0, Kind::Exit, 2, &[])]),
        (9, vec![epoch(5, Kind::Seen, 2, &[])]),
    ]);
    let solution = solve(&logs, Hints::Use).unwrap();
    assert_eq!(waits(&solution.schedule), [(1, 0, 0, 1), (2, 5, 1, 1)]);
}

#[test]
fn an_epoch_that_nobody_created_stands_for_the_one_before() {
    let logs = logs(vec![
        (2, vec![epoch(1, Kind::Exit, 1, &[])]),
        (9, vec![epoch(5, Kind::Seen, 2, &[])]),
    ]);
    let solution = solve(&logs, Hints::Use).unwrap();
    assert_eq!(waits(&solution.schedule), [(1, 5, 0, 2)]);
    assert_eq!(solution.stats.epochs_missing, 1);
}

/// Thread 0's log lost its end after event 4: thread 1, which needed its event 6, goes no further than that, and so on.
#[test]
fn what_depends_on_a_lost_end_is_cut() {
    let mut logs = logs(vec![
        (20, vec![sync(4, &[])]),
        (20, vec![sync(3, &[point(0, 2)]), sync(8, &[point(0, 7)])]),
        (20, vec![sync(5, &[point(1, 8)]), sync(6, &[point(1, 9)])]),
    ]);
    logs.threads[0].torn = true;
    let solution = solve(&logs, Hints::Use).unwrap();
    let events: Vec<u64> = solution.schedule.threads.iter().map(|t| t.events).collect();
    assert_eq!(events, [4, 8, 6]);
    assert_eq!(solution.stats.events_lost, 16 + 12 + 14);
}

/// Thread 0 was killed in its event 3, which thread 1 had already seen.
#[test]
fn an_event_in_flight_is_replayed() {
    let logs = logs(vec![(3, vec![]), (9, vec![sync(5, &[point(0, 4)])])]);
    let solution = solve(&logs, Hints::Use).unwrap();
    assert_eq!(solution.schedule.threads[0].events, 4);
    assert_eq!(solution.stats.in_flight, 1);
    assert_eq!(waits(&solution.schedule), [(1, 5, 0, 4)]);
}

/// A thousand threads that come and go, one hot cell: linear enough to be done at once.
#[test]
fn many_threads_at_one_cell() {
    let mut threads = vec![(2000, vec![])];
    for thread in 1..1000u32 {
        let access = if thread % 3 == 0 { WRITES } else { READS | WRITES };
        threads.push((1, vec![run(0, X, access | WROTE, point(thread - 1, 1))]));
    }
    let solution = solve(&logs(threads), Hints::Use).unwrap();
    assert_eq!(solution.stats.waits, 999);
    assert_eq!(solution.stats.layer, Layer::Hinted);
}

/// Without O1 every access works on cells, and a thread's read may have a record after its own write.
#[test]
fn a_run_may_follow_one_of_its_own_thread() {
    let logs = logs(vec![
        (2, vec![run(1, X, READS | WROTE, point(0, 1))]),
        (
            3,
            vec![
                run(0, X, WRITES, point(0, 2)),
                run(1, X, READS | WROTE, point(1, 1)),
                run(2, X, WRITES, point(1, 2)),
            ],
        ),
    ]);
    for hints in [Hints::Use, Hints::Ignore] {
        let solution = solve(&logs, hints).unwrap();
        assert_eq!(waits(&solution.schedule), [(1, 0, 0, 2)]);
    }
}
