//! The examples of the paper's section 3.
use crate::trace::check;
use crate::trace::parse;
use crate::trace::relaxed;
use hybrid_schedule::text::render;

/// Figure 4, with what its text says of clocks: t0 is in [4, 8) behind its unlock, t1's access in [5, 6).
const FIGURE_4: &str = "
    t0 Spawn
    t1 Start
    t0 L10 w 500 1 ~4
    t1 L10 w 600 1 ~1
    t0 MutexLock 7
    t0 L15 rw 100 8
    t0 MutexUnlock 7
    t1 MutexLock 7
    t1 L15 rw 100 8
    t0 L9 r 100 8 ~2
    t1 MutexUnlock 7
    t1 Exit
    t0 Exit";

#[test]
fn figure_4_has_one_constraint() {
    let relaxed = check(FIGURE_4, "<L15, t1, 5, 0> -> <L9, t0, 4, 2>");
    assert_eq!(relaxed.statistics.races, 1);
    assert_eq!(relaxed.statistics.accesses, 5);
    assert_eq!(relaxed.schedule.events, [4, 4]);
}

#[test]
fn figure_4_as_text() {
    let schedule = relaxed(&parse(FIGURE_4)).unwrap().schedule;
    let text = render(&schedule, |place| format!("L{}", place.site.0));
    let expected = "\
steps
     1  t0  Spawn
     2  t1  Start
     3  t0  MutexLock o1
     4  t0  MutexUnlock o1
     5  t1  MutexLock o1
     6  t1  MutexUnlock o1
     7  t1  Exit
     8  t0  Exit
constraints
    <L15, t1, 5, 0> -> <L9, t0, 4, 2>
";
    assert_eq!(text, expected);
}

/// Different locks, and t1 is first: detectors that ask for common locks, or for orders by the locks themselves, find a race.
#[test]
fn figure_6_has_no_race() {
    let relaxed = check(
        "t0 Spawn
         t1 Start
         t1 MutexLock 8
         t1 L15 rw 100 8
         t1 MutexUnlock 8
         t0 MutexLock 7
         t0 L15 rw 100 8
         t0 MutexUnlock 7
         t0 L9 r 100 8 ~2
         t1 Exit
         t0 Exit",
        "",
    );
    assert_eq!(relaxed.statistics.races, 0);
    assert_eq!(relaxed.schedule.points, [vec![], vec![]]);
}

/// inst1 → inst4 is subsumed by inst2 → inst3.
#[test]
fn figure_7_is_subsumed() {
    let relaxed = check(
        "t0 Start
         t1 Start
         t0 L1 w 100 8
         t0 L2 w 200 8
         t1 L3 r 200 8
         t1 L4 r 100 8",
        "<L2, t0, 1, 0> -> <L3, t1, 2, 0>",
    );
    let counted = relaxed.statistics;
    assert_eq!((counted.races, counted.subsumed, counted.implied), (2, 1, 0));
}

/// The paper's example of what its own rule misses: a third thread is between.
#[test]
fn through_a_third_thread_it_is_implied() {
    let relaxed = check(
        "t0 Start
         t1 Start
         t2 Start
         t0 L1 w 100 8
         t0 L2 w 200 8
         t2 L5 r 200 8
         t2 L6 w 300 8
         t1 L3 r 300 8
         t1 L4 r 100 8",
        "<L2, t0, 1, 0> -> <L5, t2, 3, 0>
         <L6, t2, 3, 0> -> <L3, t1, 2, 0>",
    );
    let counted = relaxed.statistics;
    assert_eq!((counted.races, counted.subsumed, counted.implied), (3, 0, 1));
}

/// The frontier of two chains that go to and fro.
#[test]
fn what_is_not_subsumed_is_kept() {
    let relaxed = check(
        "t0 Start
         t1 Start
         t0 L1 w 100 8
         t1 L2 r 100 8
         t0 L3 w 200 8
         t1 L4 r 200 8
         t1 L5 r 100 8",
        "<L1, t0, 1, 0> -> <L2, t1, 2, 0>
         <L3, t0, 1, 0> -> <L4, t1, 2, 0>",
    );
    assert_eq!((relaxed.statistics.races, relaxed.statistics.subsumed), (3, 1));
}

/// Positions are of synchronisation alone; segments count calls as well, and the text says so.
#[test]
fn calls_have_no_position() {
    let relaxed = check(
        "t0 Start
         t1 Start
         t0 call
         t0 L1 w 100 8 ~1
         t0 call
         t1 call
         t1 call
         t1 L2 w 100 8
         t0 Exit
         t1 L2 w 100 8 ~1",
        "<L1, t0, 1+1, 1> -> <L2, t1, 2+2, 0>",
    );
    assert_eq!(relaxed.schedule.events, [4, 3]);
    assert_eq!(relaxed.schedule.points[0][0].segment, 2);
    let events: Vec<u64> = relaxed.schedule.steps.iter().map(|step| step.record.event).collect();
    assert_eq!(events, [0, 0, 3]);
}
