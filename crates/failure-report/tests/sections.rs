//! Small traces of critical sections in which nothing is seen: who had the lock before, between and after whom.
mod common;

use common::LOCK;
use common::OTHER_LOCK;
use common::Script;
use common::X;
use common::Y;
use common::culprit;
use common::died;
use failure_report::Ending;
use failure_report::Order;
use failure_report::Pattern;
use failure_report::Report;
use failure_report::What;
use failure_report::explain;
use run_model::Op;

const CONDITION: u64 = 0x30;
const BUSY: i64 = 16;

fn section(script: &mut Script, thread: u32, site: u32, lock: u64) {
    script.sync(thread, site, Op::MutexLock, lock);
    script.sync(thread, site, Op::MutexUnlock, lock);
}

/// Something that is seen, and has nothing to do with it.
fn plain_accesses(script: &mut Script) {
    script.write(1, 90, Y, 1);
    script.read(1, 91, Y, 1);
}

fn again(report: &Report) -> Option<u32> {
    report.findings[0].again.map(|step| step.entry.site.0)
}

#[test]
fn a_check_and_its_use_are_named_though_other_memory_is_seen() {
    let mut script = Script::default();
    plain_accesses(&mut script);
    section(&mut script, 2, 10, LOCK);
    section(&mut script, 1, 20, LOCK);
    section(&mut script, 2, 11, LOCK);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::Sections, 10, 20));
    assert_eq!(again(&report), Some(11));
    assert_eq!(report.findings[0].order, Order::Synchronised);
}

#[test]
fn sections_are_not_named_if_what_was_done_there_is_seen() {
    let mut script = Script::default();
    section(&mut script, 2, 10, LOCK);
    script.sync(1, 20, Op::MutexLock, LOCK);
    script.read(1, 21, X, 0);
    script.sync(1, 20, Op::MutexUnlock, LOCK);
    script.sync(2, 11, Op::MutexLock, LOCK);
    script.read(2, 12, X, 0);
    script.sync(2, 11, Op::MutexUnlock, LOCK);
    assert_eq!(died(script, 2).findings, []);
}

#[test]
fn a_look_after_an_update_of_its_own_is_no_use_of_a_check() {
    let mut script = Script::default();
    for (thread, site, op) in [
        (2, 10, Op::RwWriteLock),
        (1, 20, Op::RwWriteLock),
        (2, 11, Op::RwReadLock),
    ] {
        script.sync(thread, site, op, LOCK);
        script.sync(thread, site, Op::RwUnlock, LOCK);
    }
    assert_eq!(died(script, 2).findings, []);
}

#[test]
fn who_did_not_get_a_lock_is_told_who_had_it() {
    let refused = What::Sync {
        op: Op::MutexTryLock,
        object: LOCK,
        value: BUSY,
        other: None,
    };
    let mut script = Script::default();
    plain_accesses(&mut script);
    script.sync(1, 20, Op::MutexLock, LOCK);
    script.step(2, 10, refused);
    script.sync(1, 21, Op::MutexUnlock, LOCK);
    assert_eq!(culprit(&died(script, 2)), (Pattern::Refused, 10, 20));

    // It was given back before, so that it was somebody whom we did not see.
    let mut script = Script::default();
    section(&mut script, 1, 20, LOCK);
    script.step(2, 10, refused);
    assert_eq!(died(script, 2).findings, []);

    // It got another one since.
    let mut script = Script::default();
    script.sync(1, 20, Op::MutexLock, LOCK);
    script.step(2, 10, refused);
    section(&mut script, 2, 11, OTHER_LOCK);
    assert_eq!(died(script, 2).findings, []);
}

/// T2 waits, is woken, and fails; what is in between is up to the caller.
fn woken(between: impl FnOnce(&mut Script)) -> Report {
    let mut script = Script::default();
    plain_accesses(&mut script);
    script.sync(2, 9, Op::MutexLock, LOCK);
    script.sync(2, 10, Op::CondRelease, LOCK);
    script.sync(1, 20, Op::MutexLock, LOCK);
    script.sync(1, 21, Op::CondSignal, CONDITION);
    script.sync(1, 22, Op::MutexUnlock, LOCK);
    between(&mut script);
    script.sync(2, 10, Op::CondWake, CONDITION);
    died(script, 2)
}

#[test]
fn who_came_between_a_signal_and_the_woken_thread_is_named() {
    let report = woken(|script| section(script, 3, 30, LOCK));
    assert_eq!(culprit(&report), (Pattern::Woken, 10, 30));
    // Nobody came: the signalling thread is no intruder.
    let found = woken(|_| ()).findings;
    assert!(found.iter().all(|found| found.pattern != Pattern::Woken), "{found:?}");
}

#[test]
fn an_update_under_two_locks_may_be_seen_half_done() {
    let read_both = |script: &mut Script| {
        section(script, 2, 10, LOCK);
        section(script, 2, 11, OTHER_LOCK);
    };
    let mut script = Script::default();
    plain_accesses(&mut script);
    section(&mut script, 1, 20, LOCK);
    read_both(&mut script);
    section(&mut script, 1, 21, OTHER_LOCK);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::Halfway, 10, 20));
    assert_eq!(again(&report), Some(11));

    // The other thread had done both, or never does the second.
    let mut script = Script::default();
    section(&mut script, 1, 20, LOCK);
    section(&mut script, 1, 21, OTHER_LOCK);
    read_both(&mut script);
    assert_eq!(died(script, 2).findings, []);
    let mut script = Script::default();
    section(&mut script, 1, 20, LOCK);
    read_both(&mut script);
    script.step(1, 22, What::Exit);
    assert_eq!(died(script, 2).findings, []);
}

#[test]
fn who_fails_holding_a_lock_is_told_who_had_it_before_or_only_after() {
    let mut script = Script::default();
    plain_accesses(&mut script);
    section(&mut script, 1, 20, LOCK);
    script.sync(2, 10, Op::MutexLock, LOCK);
    assert_eq!(culprit(&died(script, 2)), (Pattern::Turns, 10, 20));

    let mut script = Script::default();
    script.sync(2, 10, Op::MutexLock, LOCK);
    script.step(2, 11, What::Thrown { is_panic: true });
    script.sync(2, 12, Op::MutexUnlock, LOCK);
    section(&mut script, 1, 20, LOCK);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 101 });
    assert_eq!(culprit(&report), (Pattern::Turns, 10, 20));

    // What a join puts in order is nobody's turn.
    let mut script = Script::default();
    script.spawn(2, 1);
    section(&mut script, 1, 20, LOCK);
    script.step(1, 0, What::Exit);
    script.join(2, 1);
    script.sync(2, 10, Op::MutexLock, LOCK);
    assert_eq!(died(script, 2).findings, []);
}

#[test]
fn what_joined_threads_did_to_each_other_is_found_where_nothing_nearer_is() {
    // T1 tests X without the lock, and uses it afterwards; T2 was there in between. T0 has only what they returned.
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.write(2, 20, Y, 7);
    script.read(1, 10, X, 3);
    script.read(1, 11, Y, 7);
    script.write(2, 21, X, 4);
    script.read(1, 12, X, 4);
    script.join(0, 1);
    script.join(0, 2);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::Interleaved, 10, 21));
    assert_eq!(report.findings[0].order, Order::Unordered);

    // The same of sections.
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    section(&mut script, 1, 10, LOCK);
    section(&mut script, 2, 20, LOCK);
    section(&mut script, 1, 11, LOCK);
    script.join(0, 1);
    script.join(0, 2);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::Sections, 10, 20));
}
