//! Small traces of panics, and of what libraries do: what is evidence, and what is not.
mod common;

use common::SEGV;
use common::Script;
use common::X;
use common::Y;
use common::culprit;
use common::died;
use common::died_in;
use failure_report::Ending;
use failure_report::Pattern;
use failure_report::What;
use failure_report::Writer;
use failure_report::explain;
use run_model::SiteId;

#[test]
fn what_came_after_a_panic_is_not_blamed() {
    // T1 panics on what it read of X; while it unwinds, it reads Y, on which T2 races, too. T0 only notices.
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.write(2, 20, X, 5);
    script.write(2, 21, Y, 6);
    script.read(1, 10, X, 5);
    script.step(1, 10, What::Thrown { is_panic: true });
    script.read(1, 11, Y, 6);
    script.step(1, 0, What::Exit);
    script.join(0, 1);
    script.read(0, 30, Y, 6);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 101 });
    assert_eq!(report.anchor.map(|step| step.thread), Some(1));
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
    assert!(report.findings.iter().all(|found| found.mine.entry.site.0 == 10));
    assert!(report.reads.iter().all(|read| read.step.entry.site.0 == 10));
}

#[test]
fn library_code_is_named_with_what_was_done_before_it_was_called() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.read(2, 13, Y, 0);
    script.read(2, 14, X, 5);
    let mut traces = script.traces();
    traces.library_sites.insert(run_model::SiteId(14));
    let report = died_in(&traces, 2);
    let read = report.findings[0].mine;
    assert_eq!(
        report.before.get(&read.entry.sequence).map(|step| step.entry.site.0),
        Some(13)
    );
    assert!(!report.before.contains_key(&report.findings[0].theirs.entry.sequence));
}

#[test]
fn a_panic_that_was_caught_is_not_the_reason() {
    // T0 catches a panic and goes on; what it fails on comes later.
    let mut script = Script::default();
    script.write(1, 20, Y, 6);
    script.read(0, 9, Y, 6);
    script.step(0, 9, What::Thrown { is_panic: true });
    script.step(0, 9, What::Caught);
    script.spawn(0, 2);
    script.write(2, 21, X, 5);
    script.read(0, 10, X, 5);
    let second = script.step(0, 10, What::Thrown { is_panic: true });
    script.step(0, 0, What::Caught);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 101 });
    assert_eq!(report.anchor.map(|step| step.entry.sequence), Some(second));
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 21));
}

#[test]
fn the_first_panic_is_the_reason_though_printing_it_takes_long() {
    let printing = SiteId(90);
    let mut script = Script::default();
    script.write(2, 20, X, 5);
    script.read(1, 10, X, 5);
    let first = script.step(1, 90, What::Thrown { is_panic: true });
    for _ in 0..1000 {
        script.read(1, 90, Y, 0);
    }
    // Another thread panics because the lock is poisoned; it ends the program.
    script.step(0, 30, What::Thrown { is_panic: true });
    let mut traces = script.traces();
    traces.library_sites.insert(printing);
    let report = explain(&traces, Ending::Status { thread: 0, status: 101 });
    assert_eq!(report.anchor.map(|step| step.entry.sequence), Some(first));
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
}

#[test]
fn a_crash_is_where_it_is_whoever_panicked_before() {
    let mut script = Script::default();
    script.step(1, 9, What::Thrown { is_panic: true });
    script.write(1, 20, X, 5);
    script.read(2, 10, X, 5);
    let report = explain(
        &script.traces(),
        Ending::Signal {
            thread: 2,
            signal: SEGV,
        },
    );
    assert_eq!(report.anchor, None);
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
}

#[test]
fn memory_of_the_library_is_no_evidence() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.write(1, 21, Y, 6);
    script.read(2, 10, X, 5);
    script.read(2, 11, Y, 6);
    let mut traces = script.traces();
    traces.library_cells.insert(Y);
    let report = died_in(&traces, 2);
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
    assert!(report.findings.iter().all(|found| found.mine.entry.site.0 == 10));
    assert!(report.reads.iter().all(|read| read.step.entry.site.0 == 10));
}

#[test]
fn what_a_library_does_to_memory_of_one_thread_does_not_push_out_the_rest() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.read(2, 10, X, 5);
    for i in 0..200 {
        script.write(2, 90, Y + 8 * i, 1);
    }
    let mut traces = script.traces();
    traces.library_sites.insert(SiteId(90));
    let report = died_in(&traces, 2);
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
}

#[test]
fn what_was_not_written_down_in_a_panic_leaves_the_writer_open() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.step(1, 90, What::Skipping);
    script.read(2, 10, X, 5);
    let report = died(script, 2);
    assert!(report.findings.iter().all(|found| found.pattern != Pattern::ReadFrom));
    assert!(report.reads.iter().all(|read| read.writer == Writer::Unknown));
}
