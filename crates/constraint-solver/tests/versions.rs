//! Small logs of leap, stride and oreo by hand, and what the solver makes of them.
use constraint_solver::Hints;
use constraint_solver::Solution;
use constraint_solver::solve;
use run_model::Extent;
use run_model::Kind;
use run_model::Logs;
use run_model::Method;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::ThreadIndex;
use run_model::ThreadLog;

const X: u64 = 0x1000;

fn access(kind: Kind, event: u64, object: u64, bytes: u8, value: i64, version: u64) -> Record {
    let unknown = false;
    Record {
        event,
        kind,
        access: Extent {
            bytes,
            unknown,
            quiet: false,
        }
        .pack(),
        object,
        value,
        version,
        ..Record::default()
    }
}

fn read(event: u64, value: i64, version: u64) -> Record {
    access(Kind::Read, event, X, 8, value, version)
}

fn write(event: u64, value: i64, version: u64) -> Record {
    access(Kind::Write, event, X, 8, value, version)
}

fn unknown(mut record: Record) -> Record {
    record.access = Extent {
        bytes: record.access.0 & 15,
        unknown: true,
        quiet: false,
    }
    .pack();
    record.value = 0;
    record
}

fn logs(method: Method, threads: Vec<Vec<Record>>) -> Logs {
    let log = |records: Vec<Record>| ThreadLog {
        events: records.last().map_or(0, |record| record.event + 1),
        records,
        torn: false,
        ..ThreadLog::default()
    };
    Logs {
        method,
        threads: threads.into_iter().map(log).collect(),
    }
}

/// Each wait as (thread, event, awaited thread, awaited count).
fn waits(solution: &Solution) -> Vec<(u32, u64, u32, u64)> {
    let mut waits = Vec::new();
    for (thread, planned) in (0..).zip(&solution.schedule.threads) {
        for gate in &planned.gates {
            waits.extend(
                gate.waits
                    .iter()
                    .map(|w| (thread, gate.record.event, w.thread.0, w.count)),
            );
        }
    }
    waits
}

fn solved(method: Method, threads: Vec<Vec<Record>>) -> Solution {
    let logs = logs(method, threads);
    let solution = solve(&logs, Hints::Use).unwrap();
    // Without hints there may be other answers, but there is one.
    solve(&logs, Hints::Ignore).unwrap();
    solution
}

#[test]
fn access_vectors_bind_as_they_stand() {
    let vector = |event, sources: Points| Record {
        event,
        kind: Kind::Vector,
        object: X,
        sources,
        ..Record::default()
    };
    let after = |thread, count| {
        Points::one(Point {
            thread: ThreadIndex(thread),
            count,
        })
    };
    let threads = vec![
        vec![vector(0, Points::NONE), vector(3, after(1, 2))],
        vec![vector(0, after(0, 2))],
    ];
    let solution = solved(Method::Leap, threads);
    assert_eq!(waits(&solution)[..1], [(0, 3, 1, 2)]);
    assert_eq!((solution.stats.cells, solution.stats.runs), (1, 3));
}

#[test]
fn a_read_is_linked_to_the_newest_version_with_its_value() {
    // 1, 2, 1, 3: with bound 4 it saw version 3, not version 1.
    let writes = vec![write(0, 1, 1), write(1, 2, 2), write(2, 1, 3), write(3, 3, 4)];
    let solution = solved(Method::Stride, vec![writes, vec![read(0, 1, 4)]]);
    assert_eq!(waits(&solution), [(0, 3, 1, 1), (1, 0, 0, 3)]);
    assert_eq!(solution.stats.counted.linked_by_versions, 1);
    assert_eq!(solution.stats.counted.version_conflicts, 0);
}

#[test]
fn parts_of_a_cell_are_put_together() {
    let writes = vec![
        write(0, 0x1111_1111_1111_1111, 1),
        access(Kind::Write, 1, X + 2, 2, 0x2222, 2),
        access(Kind::Write, 2, X + 6, 1, 0x33, 3),
    ];
    let half = access(Kind::Read, 0, X, 4, 0x2222_1111, 3);
    let whole = read(1, 0x1133_1111_2222_1111, 3);
    let solution = solved(Method::Stride, vec![writes, vec![half, whole]]);
    // The half does not wait for the write of other bytes.
    assert_eq!(waits(&solution), [(1, 0, 0, 2), (1, 1, 0, 3)]);
    assert_eq!(solution.stats.counted.reads_unmatched, 0);
}

#[test]
fn unknown_bytes_match_anything_and_unknown_reads_are_at_their_version() {
    let writes = vec![write(0, 1, 1), unknown(write(1, 0, 2)), write(2, 3, 3)];
    let solution = solved(Method::Stride, vec![writes.clone(), vec![read(0, 77, 3)]]);
    assert_eq!(waits(&solution), [(0, 2, 1, 1), (1, 0, 0, 2)]);
    let solution = solved(Method::Stride, vec![writes, vec![unknown(read(0, 0, 1))]]);
    assert_eq!(waits(&solution), [(0, 1, 1, 1), (1, 0, 0, 1)]);
}

#[test]
fn what_was_there_from_the_beginning_is_one_thing() {
    let readers = vec![read(0, 9, 0), read(1, 9, 1)];
    let solution = solved(Method::Stride, vec![vec![write(0, 1, 1)], readers]);
    assert_eq!(waits(&solution), [(0, 0, 1, 2)]);
    assert_eq!(solution.stats.counted.reads_unmatched, 0);
    let readers = vec![read(0, 9, 0), read(1, 8, 1)];
    let solution = solved(Method::Stride, vec![vec![write(0, 1, 1)], readers]);
    assert_eq!(solution.stats.counted.reads_unmatched, 1);
}

#[test]
fn an_update_sees_the_version_before_its_own() {
    let update = |thread: i64, version: u64| vec![read(0, thread, version - 1), write(0, thread + 1, version)];
    let solution = solved(Method::Stride, vec![update(2, 3), update(1, 2), update(0, 1)]);
    assert_eq!(waits(&solution), [(0, 0, 1, 1), (1, 0, 2, 1)]);
}

#[test]
fn equal_versions_are_told_apart_by_what_was_read() {
    // Both wrote version 1; the first one's own read saw the other's value.
    let one = vec![write(0, 5, 1), read(1, 6, 1)];
    let other = vec![write(0, 6, 1)];
    let solution = solved(Method::Oreo, vec![one, other]);
    assert_eq!(waits(&solution), [(0, 1, 1, 1), (1, 0, 0, 1)]);
    assert_eq!(solution.stats.counted.version_conflicts, 2);
    assert_eq!(solution.stats.counted.linked_by_search, 1);
}

#[test]
fn versions_that_run_backwards_are_no_obstacle() {
    // The second thread was late: it stored version 1 over version 3.
    let one = vec![
        write(0, 1, 1),
        write(1, 2, 2),
        write(2, 3, 3),
        read(3, 9, 1),
        write(4, 4, 2),
    ];
    let other = vec![write(0, 9, 1)];
    let solution = solved(Method::Oreo, vec![one, other]);
    assert_eq!(waits(&solution), [(0, 3, 1, 1), (1, 0, 0, 3)]);
}

#[test]
fn store_buffers_have_no_order() {
    // Each read before the other's write was seen, after its own: not sequentially consistent.
    let thread = |mine: u64, theirs: u64| {
        vec![
            access(Kind::Write, 0, mine, 8, 1, 1),
            access(Kind::Read, 1, theirs, 8, 0, 0),
        ]
    };
    let logs = logs(Method::Oreo, vec![thread(X, X + 8), thread(X + 8, X)]);
    for hints in [Hints::Use, Hints::Ignore] {
        assert!(solve(&logs, hints).is_err());
    }
}
