//! Small traces of atomics: when they are named, and when they are nobody's mistake.
mod common;

use common::Script;
use common::X;
use common::Y;
use common::culprit;
use common::died;
use common::died_in;
use failure_report::Access;
use failure_report::Ending;
use failure_report::Order;
use failure_report::Pattern;
use failure_report::What;
use failure_report::explain;
use run_model::SiteId;

#[test]
fn atomics_do_not_race_with_each_other() {
    let mut script = Script::default();
    script.atomic(1, 10, X, false, true);
    script.atomic(2, 11, X, false, true);
    assert_eq!(died(script, 2).races, []);
    let mut script = Script::default();
    script.atomic(1, 10, X, false, true);
    script.write(2, 11, X, 3);
    assert_eq!(died(script, 2).races.len(), 1);
}

#[test]
fn an_atomic_access_does_not_hide_the_plain_one_before_it() {
    let mut script = Script::default();
    script.write(1, 10, X, 3);
    script.atomic(1, 11, X, false, true);
    script.atomic(2, 20, X, false, true);
    let sites = died(script, 2)
        .races
        .iter()
        .map(|race| race.first.entry.site.0)
        .collect::<Vec<_>>();
    assert_eq!(sites, [10]);
}

#[test]
fn two_atomics_in_one_word_order_nothing() {
    let half = |address: u64, reads: bool| {
        What::Access(Access {
            address,
            bytes: 4,
            reads,
            writes: !reads,
            atomic: true,
            value: Some(1),
            before: Some(0),
            ..Access::default()
        })
    };
    for (beside, races) in [(X, 0), (X + 4, 1)] {
        let mut script = Script::default();
        script.write(1, 10, Y, 3);
        script.step(1, 11, half(X, false));
        script.step(2, 20, half(beside, true));
        script.read(2, 21, Y, 3);
        assert_eq!(died(script, 2).races.len(), races, "{beside:#x}");
    }
}

#[test]
fn of_a_freed_block_the_count_of_its_owners_is_named_first() {
    const COUNT: u64 = X + 8;
    let free = What::Free { address: X, bytes: 16 };
    // Both count down, both look, and both find nobody left.
    let script = |looks: bool| {
        let mut script = Script::default();
        script.atomic(2, 10, COUNT, true, true);
        script.atomic(1, 10, COUNT, true, true);
        if looks {
            script.atomic(2, 11, COUNT, true, false);
        }
        script.step(1, 12, free);
        script.read(2, 13, X, 5);
        script
    };
    let report = died(script(true), 2);
    assert_eq!(culprit(&report), (Pattern::Interleaved, 10, 10));
    assert_eq!(report.findings[0].again.map(|step| step.entry.site.0), Some(11));
    assert_eq!(report.findings[1].pattern, Pattern::UseAfterFree);
    // Who relies on what its own operation found has counted well.
    assert_eq!(culprit(&died(script(false), 2)), (Pattern::UseAfterFree, 13, 12));
}

#[test]
fn an_atomic_update_loses_nothing() {
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.atomic(1, 10, X, true, false);
    script.atomic(2, 20, X, true, true);
    script.atomic(1, 11, X, true, true);
    script.join(0, 1);
    script.join(0, 2);
    script.read(0, 30, X, 2);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert!(report.findings.iter().all(|found| found.pattern != Pattern::LostUpdate));
    assert!(report.findings.iter().all(|found| found.order == Order::Synchronised));

    // A load and a store do, though they are atomic.
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.atomic(1, 10, X, true, false);
    script.atomic(2, 20, X, true, true);
    script.atomic(1, 11, X, false, true);
    script.join(0, 1);
    script.join(0, 2);
    script.read(0, 30, X, 2);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::LostUpdate, 10, 20));
    assert_eq!(report.findings[0].order, Order::Synchronised);
}

#[test]
fn atomics_that_threads_wait_for_each_other_with_are_not_blamed() {
    let mut script = Script::default();
    script.atomic(1, 10, X, true, true);
    script.atomic(1, 11, X, true, false);
    script.atomic(2, 10, X, true, true);
    script.atomic(1, 11, X, true, false);
    assert_eq!(died(script, 1).findings, []);
}

#[test]
fn an_atomic_that_was_loaded_before_its_time_is_the_last_thing_said() {
    let mut script = Script::default();
    script.atomic(2, 10, X, true, false);
    script.atomic(1, 20, X, false, true);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::ReadTooEarly, 10, 20));
    assert_eq!(report.findings[0].order, Order::Synchronised);

    // Who looks again has seen it.
    let mut script = Script::default();
    script.atomic(2, 10, X, true, false);
    script.atomic(1, 20, X, false, true);
    script.atomic(2, 10, X, true, false);
    assert_eq!(died(script, 2).findings, []);
}

#[test]
fn an_atomic_check_and_its_use_belong_together() {
    let mut script = Script::default();
    script.atomic(2, 10, X, true, false);
    script.atomic(1, 20, X, true, true);
    script.atomic(2, 11, X, true, true);
    assert_eq!(culprit(&died(script, 2)), (Pattern::Interleaved, 10, 20));

    // On one line they are the two halves of an update, which is tried again.
    let mut script = Script::default();
    script.atomic(2, 10, X, true, false);
    script.atomic(1, 20, X, true, true);
    script.atomic(2, 11, X, true, true);
    let mut traces = script.traces();
    traces.lines = [(SiteId(10), SiteId(10)), (SiteId(11), SiteId(10))].into();
    let report = died_in(&traces, 2);
    assert_eq!(report.findings, []);
}

#[test]
fn where_threads_meet_no_atomic_is_blamed() {
    // Each announces itself and waits for the other, round after round.
    let mut script = Script::default();
    for _ in 0..2 {
        script.atomic(2, 30, X, true, true);
        script.atomic(2, 34, X, true, false);
        script.atomic(1, 30, X, true, true);
        script.atomic(2, 34, X, true, false);
    }
    script.atomic(1, 30, X, true, true);
    assert_eq!(died(script, 2).findings, []);
}

#[test]
fn atomics_inside_a_library_are_not_blamed() {
    let mut script = Script::default();
    script.atomic(2, 10, X, true, false);
    script.atomic(1, 20, X, true, true);
    script.atomic(2, 11, X, true, true);
    let mut traces = script.traces();
    traces.library_sites = [10, 11, 20].map(SiteId).into();
    let report = died_in(&traces, 2);
    assert_eq!(report.findings, []);
}

#[test]
fn what_joined_threads_did_to_each_other_is_found_where_nothing_else_is_seen() {
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.atomic(1, 10, X, true, false);
    script.atomic(2, 10, X, true, false);
    script.atomic(2, 11, X, false, true);
    script.atomic(1, 11, X, false, true);
    script.join(0, 1);
    script.join(0, 2);
    script.step(0, 30, What::Thrown { is_panic: true });
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 101 });
    assert_eq!(culprit(&report), (Pattern::LostUpdate, 10, 11));
}
