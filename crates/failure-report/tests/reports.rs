//! Small traces with known answers.
mod common;

use common::LOCK;
use common::OTHER_LOCK;
use common::SEGV;
use common::Script;
use common::X;
use common::Y;
use common::culprit;
use common::died;
use common::died_in;
use failure_report::Access;
use failure_report::Awaited;
use failure_report::Ending;
use failure_report::Finding;
use failure_report::Order;
use failure_report::Pattern;
use failure_report::What;
use failure_report::Writer;
use failure_report::explain;
use run_model::Op;
use run_model::SiteId;

#[test]
fn a_racing_write_that_was_read_is_the_culprit() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.read(2, 14, X, 5);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 14, 20));
    assert_eq!(report.findings[0].order, Order::Unordered);
    assert_eq!(report.races.len(), 1);
    assert!(matches!(report.reads[0].writer, Writer::Step(step, Order::Unordered) if step.thread == 1));
}

#[test]
fn the_same_under_one_lock_is_no_race() {
    let mut script = Script::default();
    for (thread, site) in [(1, 20), (2, 14)] {
        script.sync(thread, 0, Op::MutexLock, LOCK);
        match thread {
            1 => script.write(thread, site, X, 5),
            _ => script.read(thread, site, X, 5),
        };
        script.sync(thread, 0, Op::MutexUnlock, LOCK);
    }
    let report = died(script, 2);
    // Who took the lock first may matter all the same.
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 14, 20));
    assert_eq!(report.findings[0].order, Order::Synchronised);
    assert_eq!(report.races, []);
    assert!(matches!(report.reads[0].writer, Writer::Step(_, Order::Synchronised)));
}

#[test]
fn what_is_read_to_be_printed_is_not_what_was_decided_on() {
    let mut script = Script::default();
    script.write(1, 20, X, 1);
    script.write(1, 21, Y, 7);
    script.read(2, 14, X, 1);
    script.read(2, 15, Y, 7);
    let mut traces = script.traces();
    assert_eq!(culprit(&died_in(&traces, 2)), (Pattern::ReadFrom, 15, 21));
    traces.message_sites = [SiteId(15)].into();
    assert_eq!(culprit(&died_in(&traces, 2)), (Pattern::ReadFrom, 14, 20));
}

#[test]
fn two_different_locks_order_nothing() {
    let mut script = Script::default();
    script.sync(1, 0, Op::MutexLock, LOCK);
    script.write(1, 20, X, 5);
    script.sync(1, 0, Op::MutexUnlock, LOCK);
    script.sync(2, 0, Op::MutexLock, OTHER_LOCK);
    script.read(2, 14, X, 5);
    assert_eq!(culprit(&died(script, 2)), (Pattern::ReadFrom, 14, 20));
}

#[test]
fn a_read_before_the_first_write_is_too_early() {
    let mut script = Script::default();
    script.read(2, 14, X, 0);
    script.write(1, 20, X, 5);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::ReadTooEarly, 14, 20));
    assert_eq!(report.reads[0].writer, Writer::Nobody);
}

#[test]
fn a_lost_update_is_found_behind_the_joins() {
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.read(1, 31, X, 7);
    script.read(2, 41, X, 7);
    script.write(2, 42, X, 8);
    script.write(1, 32, X, 8);
    for thread in [1, 2] {
        script.step(thread, 0, What::Exit);
        script.join(0, thread);
    }
    script.read(0, 50, X, 8);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::LostUpdate, 31, 42));
    assert_eq!(report.findings[0].again.map(|step| step.entry.site.0), Some(32));
    assert!(matches!(report.reads[0].writer, Writer::Step(_, Order::Synchronised)));
}

#[test]
fn a_value_is_followed_to_where_its_writer_was_misled() {
    // T1 tests a flag without a lock and then changes X under it; T0 only sees X.
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    script.read(1, 16, Y, 0);
    script.sync(2, 0, Op::MutexLock, LOCK);
    script.write(2, 20, Y, 1);
    script.sync(2, 0, Op::MutexUnlock, LOCK);
    script.sync(1, 0, Op::MutexLock, LOCK);
    script.write(1, 18, X, 61);
    script.sync(1, 0, Op::MutexUnlock, LOCK);
    script.join(0, 1);
    script.read(0, 28, X, 61);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::ReadTooEarly, 16, 20));
    assert_eq!(report.findings[0].depth, 1);
}

#[test]
fn the_bad_pointer_leads_to_who_wrote_it() {
    let mut script = Script::default();
    script.write(1, 20, X, 0);
    script.read(2, 14, X, 0);
    let fatal = Access {
        address: 0x18,
        bytes: 8,
        reads: true,
        pending: true,
        ..Access::default()
    };
    script.step(2, 15, What::Access(fatal));
    let what = What::Fatal {
        signal: SEGV,
        address: 0x18,
    };
    script.step(2, 15, what);
    let report = explain(
        &script.traces(),
        Ending::Signal {
            thread: 2,
            signal: SEGV,
        },
    );
    let fault = report.fault.expect("a fault");
    assert_eq!(fault.access.map(|step| step.entry.site.0), Some(15));
    assert_eq!(fault.pointer.map(|step| step.entry.site.0), Some(14));
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 14, 20));
}

#[test]
fn a_freed_block_is_not_read_by_right() {
    let block = |what: fn(u64, u64) -> What| what(X, 64);
    let allocate = |address, bytes| What::Allocate { address, bytes };
    let free = |address, bytes| What::Free { address, bytes };
    let mut script = Script::default();
    script.step(1, 10, block(allocate));
    script.write(1, 11, X + 8, 9);
    script.step(1, 12, block(free));
    script.read(2, 20, X + 8, 9);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::UseAfterFree, 20, 12));

    // In this replay the free came later, but nothing makes it.
    let mut script = Script::default();
    script.step(1, 10, block(allocate));
    script.write(1, 11, X + 8, 9);
    script.read(2, 20, X + 8, 9);
    script.step(1, 12, block(free));
    assert_eq!(culprit(&died(script, 2)), (Pattern::UseAfterFree, 20, 12));

    // A join does.
    let mut script = Script::default();
    script.step(1, 10, block(allocate));
    script.write(1, 11, X + 8, 9);
    script.read(1, 20, X + 8, 9);
    script.step(1, 0, What::Exit);
    script.join(0, 1);
    script.step(0, 12, block(free));
    assert_eq!(died(script, 1).findings, []);

    // Allocated again, but the pointer is from before.
    let mut script = Script::default();
    script.step(1, 10, block(allocate));
    script.write(1, 11, X + 8, 9);
    script.write(1, 30, Y, X);
    script.read(2, 31, Y, X);
    script.step(1, 12, block(free));
    script.step(1, 13, block(allocate));
    script.read(2, 20, X + 8, 9);
    assert_eq!(culprit(&died(script, 2)), (Pattern::UseAfterFree, 20, 12));

    // The same in the second of three lives: the first one's end has nothing to do with it.
    let mut script = Script::default();
    script.step(1, 10, block(allocate));
    script.step(1, 11, block(free));
    script.step(1, 12, block(allocate));
    script.write(1, 13, X + 8, 9);
    script.write(1, 30, Y, X);
    script.read(2, 31, Y, X);
    script.step(1, 14, block(free));
    script.step(1, 15, block(allocate));
    script.read(2, 20, X + 8, 9);
    assert_eq!(culprit(&died(script, 2)), (Pattern::UseAfterFree, 20, 14));

    // Another life: what the first owner wrote is nobody's business.
    let mut script = Script::default();
    script.step(1, 10, block(allocate));
    script.write(1, 11, X + 8, 9);
    script.step(1, 12, block(free));
    script.step(2, 13, block(allocate));
    script.write(2, 14, X + 8, 1);
    script.read(2, 20, X + 8, 1);
    let report = died(script, 2);
    assert_eq!((report.findings, report.races), (Vec::new(), Vec::new()));
}

#[test]
fn neighbours_in_a_cell_do_not_conflict() {
    let half = |address: u64, writes: bool| {
        What::Access(Access {
            address,
            bytes: 4,
            reads: !writes,
            writes,
            value: Some(1),
            ..Access::default()
        })
    };
    let mut script = Script::default();
    script.step(1, 10, half(X, true));
    script.step(2, 11, half(X + 4, false));
    assert_eq!(died(script, 2).races, []);
}

#[test]
fn a_deadlock_is_a_circle_of_holders() {
    let mut script = Script::default();
    script.sync(1, 14, Op::MutexLock, LOCK);
    script.sync(2, 24, Op::MutexLock, OTHER_LOCK);
    script.stop(1, 15, Op::MutexLock, OTHER_LOCK);
    script.stop(2, 25, Op::MutexLock, LOCK);
    let report = explain(&script.traces(), Ending::Stopped);
    assert_eq!(report.cycle, [1, 2]);
    let Awaited::Lock { object, holders } = &report.waits[0].awaited else {
        panic!("{:?}", report.waits)
    };
    assert_eq!(
        (*object, holders[0].thread, holders[0].taken.entry.site.0),
        (OTHER_LOCK, 2, 24)
    );
}

#[test]
fn a_lock_that_was_given_back_is_waited_for_by_nobody() {
    let mut script = Script::default();
    script.sync(1, 14, Op::MutexLock, LOCK);
    script.sync(1, 15, Op::MutexUnlock, LOCK);
    script.stop(2, 25, Op::MutexLock, LOCK);
    let report = explain(&script.traces(), Ending::Stopped);
    assert_eq!(report.cycle, Vec::<u32>::new());
    let waiting = report.waits.iter().find(|wait| wait.thread == 2).expect("T2 waits");
    assert!(matches!(&waiting.awaited, Awaited::Lock { holders, .. } if holders.is_empty()));
}

#[test]
fn a_signal_before_the_wait_was_missed() {
    const CONDITION: u64 = 0x30;
    for missed in [true, false] {
        let mut script = Script::default();
        if missed {
            script.sync(1, 19, Op::CondSignal, CONDITION);
        }
        script.sync(2, 22, Op::MutexLock, LOCK);
        script.sync(2, 23, Op::CondRelease, LOCK);
        if !missed {
            script.sync(1, 19, Op::CondSignal, CONDITION);
        }
        script.stop(2, 23, Op::CondWake, CONDITION);
        let report = explain(&script.traces(), Ending::Stopped);
        let waiting = report.waits.iter().find(|wait| wait.thread == 2).expect("T2 waits");
        assert!(
            matches!(waiting.awaited, Awaited::Signal { missed: found, last_signal: Some(_), .. } if found == missed)
        );
    }
}

#[test]
fn a_signal_by_which_another_thread_woke_is_told() {
    const CONDITION: u64 = 0x30;
    for waits_again in [true, false] {
        let mut script = Script::default();
        for thread in [1, 2] {
            script.sync(thread, 10, Op::MutexLock, LOCK);
            script.sync(thread, 11, Op::CondRelease, LOCK);
        }
        script.sync(3, 20, Op::CondSignal, CONDITION);
        script.sync(2, 11, Op::CondWake, CONDITION);
        script.sync(2, 11, Op::CondRelease, LOCK);
        if waits_again {
            script.stop(2, 11, Op::CondWake, CONDITION);
        }
        script.stop(1, 11, Op::CondWake, CONDITION);
        let report = explain(&script.traces(), Ending::Stopped);
        let waiting = report.waits.iter().find(|wait| wait.thread == 1).expect("T1 waits");
        let expected = waits_again.then_some(2);
        assert!(matches!(waiting.awaited, Awaited::Signal { woken, .. } if woken == expected));
    }
}

#[test]
fn a_block_that_another_thread_freed_comes_before_one_of_its_own() {
    let mut script = Script::default();
    script.step(1, 20, What::Free { address: X, bytes: 8 });
    script.read(2, 10, X, 5);
    script.step(2, 11, What::Free { address: Y, bytes: 8 });
    script.read(2, 12, Y, 5);
    assert_eq!(culprit(&died(script, 2)), (Pattern::UseAfterFree, 10, 20));
}

#[test]
fn a_run_that_did_not_fail_still_has_its_races() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.write(2, 14, X, 6);
    let report = explain(&script.traces(), Ending::Success);
    assert_eq!(
        (report.races.len(), report.findings.len(), report.reads.len()),
        (1, 0, 0)
    );
}

#[test]
fn what_the_trace_has_lost_is_not_called_unordered() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.read(2, 14, X, 5);
    script.sync(1, 0, Op::MutexLock, LOCK);
    let mut traces = script.traces();
    traces.threads[1].shared_lost = 3;
    traces.threads[1].complete_from = 3;
    let report = died_in(&traces, 2);
    assert_eq!(report.races, []);
    assert_eq!(report.reads[0].writer, Writer::Unknown);
    assert_eq!(report.shared_lost, 3);
}

#[test]
fn what_a_thread_may_have_written_itself_has_no_certain_writer() {
    let private = |writes: bool| {
        What::Access(Access {
            address: X,
            bytes: 8,
            reads: !writes,
            writes,
            private: true,
            value: Some(1),
            ..Access::default()
        })
    };
    for lost in [0, 2] {
        let mut script = Script::default();
        script.step(1, 10, private(true));
        script.step(2, 20, private(false));
        let mut traces = script.traces();
        traces.threads[2].private_lost = lost;
        traces.threads[2].private_from = lost;
        let report = explain(&traces, Ending::Status { thread: 2, status: 1 });
        assert_eq!(report.reads[0].writer == Writer::Unknown, lost > 0);
        // The race is one, whatever came between.
        assert_eq!(report.races.len(), 1);
    }
}

#[test]
fn who_spins_on_a_lost_update_learns_of_the_update() {
    let mut script = Script::default();
    script.read(1, 16, X, 0);
    script.read(2, 16, X, 0);
    script.write(2, 17, X, 2);
    script.write(1, 18, X, 1);
    script.read(2, 20, X, 1);
    script.read(2, 20, X, 1);
    let report = explain(&script.traces(), Ending::Stopped);
    assert_eq!(culprit(&report), (Pattern::LostUpdate, 16, 17));
}

/// One critical section of `thread` under LOCK.
fn locked(script: &mut Script, thread: u32, body: impl FnOnce(&mut Script)) {
    script.sync(thread, 0, Op::MutexLock, LOCK);
    body(script);
    script.sync(thread, 0, Op::MutexUnlock, LOCK);
}

#[test]
fn a_block_that_was_allocated_again_has_a_new_life() {
    let allocate = What::Allocate { address: X, bytes: 64 };
    let free = What::Free { address: X, bytes: 64 };
    // T1 frees it and allocates it again, and hands it to T2 under a lock; what T2 finds there was not set.
    let mut script = Script::default();
    script.step(1, 10, allocate);
    script.write(1, 11, X + 8, 9);
    script.step(1, 12, free);
    script.step(1, 13, allocate);
    locked(&mut script, 1, |script| _ = script.write(1, 14, Y, X));
    locked(&mut script, 2, |script| _ = script.read(2, 20, Y, X));
    script.read(2, 21, X + 8, 9);
    let report = died(script, 2);
    assert!(
        report
            .findings
            .iter()
            .all(|found| found.pattern != Pattern::UseAfterFree)
    );
    assert_eq!(report.races, []);
    // What was written in the earlier life is not what T2 read.
    assert!(report.reads.iter().all(|read| read.step.entry.site.0 != 21));

    // The same, handed over without a lock: that is the mistake, not the free before.
    let mut script = Script::default();
    script.step(1, 10, allocate);
    script.write(1, 11, X + 8, 9);
    script.step(1, 12, free);
    script.step(1, 13, allocate);
    script.write(1, 14, Y, X);
    script.read(2, 20, Y, X);
    script.read(2, 21, X + 8, 9);
    assert_eq!(culprit(&died(script, 2)), (Pattern::ReadFrom, 20, 14));
}

#[test]
fn what_was_done_before_a_thread_was_created_is_not_blamed() {
    let mut script = Script::default();
    script.write(0, 10, X, 1);
    script.spawn(0, 1);
    locked(&mut script, 1, |script| _ = script.write(1, 20, X, 2));
    script.step(1, 0, What::Exit);
    script.join(0, 1);
    script.read(0, 11, X, 2);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(report.findings, []);

    // It races with what came after the creation alone.
    let mut script = Script::default();
    script.write(0, 10, X, 1);
    script.spawn(0, 1);
    script.write(1, 20, X, 2);
    script.read(0, 11, X, 2);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 11, 20));
    let blames_10 = |found: &Finding| [found.mine, found.theirs].iter().any(|step| step.entry.site.0 == 10);
    assert!(!report.findings.iter().any(blames_10));
}

#[test]
fn what_came_after_exit_is_not_blamed() {
    let mut script = Script::default();
    script.write(1, 20, X, 5);
    script.write(1, 21, Y, 6);
    script.read(0, 10, X, 5);
    script.step(0, 10, What::Exiting);
    script.read(0, 11, Y, 6);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
    assert!(report.findings.iter().all(|found| found.mine.entry.site.0 == 10));
}

#[test]
fn a_flag_that_a_race_set_leads_back_to_it() {
    // T1 reads X, racing, and notes it in Y; much later it tests Y and fails.
    let mut script = Script::default();
    script.write(2, 20, X, 5);
    script.read(1, 10, X, 5);
    script.write(1, 11, Y, 1);
    for word in 0..200 {
        script.write(1, 12, 0x9000 + 8 * word, 0);
    }
    script.read(1, 13, Y, 1);
    let report = died(script, 1);
    assert_eq!(culprit(&report), (Pattern::ReadFrom, 10, 20));
    assert_eq!(report.findings[0].depth, 1);
}

#[test]
fn a_check_and_its_use_in_two_critical_sections_are_found() {
    // Lost update: both read before either writes, each under the lock.
    let mut script = Script::default();
    script.spawn(0, 1);
    script.spawn(0, 2);
    locked(&mut script, 1, |script| _ = script.read(1, 31, X, 0));
    locked(&mut script, 2, |script| _ = script.read(2, 31, X, 0));
    locked(&mut script, 2, |script| _ = script.write(2, 38, X, 20));
    locked(&mut script, 1, |script| _ = script.write(1, 38, X, 7));
    script.join(0, 1);
    script.join(0, 2);
    script.read(0, 92, X, 7);
    let report = explain(&script.traces(), Ending::Status { thread: 0, status: 1 });
    assert_eq!(culprit(&report), (Pattern::LostUpdate, 31, 38));
    assert_eq!(report.findings[0].order, Order::Synchronised);
    assert_eq!(report.races, []);

    // Check, then use: what was checked has changed by then.
    let mut script = Script::default();
    locked(&mut script, 1, |script| _ = script.read(1, 10, X, 3));
    locked(&mut script, 2, |script| _ = script.write(2, 20, X, 0));
    locked(&mut script, 1, |script| _ = script.read(1, 11, X, 0));
    let report = died(script, 1);
    assert_eq!(culprit(&report), (Pattern::Interleaved, 10, 20));
    assert_eq!(report.findings[0].again.map(|step| step.entry.site.0), Some(11));
}

#[test]
fn a_waiter_that_was_signalled_is_not_blamed_for_waiting() {
    const CONDITION: u64 = 0x30;
    let mut script = Script::default();
    script.sync(1, 0, Op::MutexLock, LOCK);
    script.read(1, 10, X, 0);
    script.sync(1, 11, Op::CondRelease, LOCK);
    locked(&mut script, 2, |script| {
        script.write(2, 20, X, 1);
        script.sync(2, 21, Op::CondSignal, CONDITION);
    });
    script.sync(1, 11, Op::CondWake, CONDITION);
    script.read(1, 10, X, 1);
    let report = died(script, 1);
    assert!(
        report
            .findings
            .iter()
            .all(|found| found.pattern != Pattern::Interleaved)
    );
}

#[test]
fn what_is_read_before_its_time_under_a_lock_is_found() {
    // T2 passes on what T1 has not written yet; T3 sees that they differ.
    let mut script = Script::default();
    locked(&mut script, 2, |script| {
        script.read(2, 25, X, 1);
        script.write(2, 25, Y, 1);
    });
    locked(&mut script, 1, |script| _ = script.write(1, 17, X, 2));
    locked(&mut script, 3, |script| {
        script.read(3, 42, X, 2);
        script.read(3, 42, Y, 1);
    });
    assert_eq!(culprit(&died(script, 3)), (Pattern::ReadTooEarly, 25, 17));
}

#[test]
fn who_first_wrote_the_value_is_named() {
    // T1 sets the flag again and again; what T2 saw it by is the first time.
    let mut script = Script::default();
    locked(&mut script, 1, |script| _ = script.write(1, 74, X, 1));
    locked(&mut script, 1, |script| _ = script.write(1, 75, X, 1));
    locked(&mut script, 2, |script| _ = script.read(2, 87, X, 1));
    assert_eq!(culprit(&died(script, 2)), (Pattern::ReadFrom, 87, 74));
}

#[test]
fn without_plain_accesses_two_sections_of_a_lock_are_named() {
    let section = |script: &mut Script, thread: u32, site: u32| {
        script.sync(thread, site, Op::MutexLock, LOCK);
        script.sync(thread, site, Op::MutexUnlock, LOCK);
    };
    let mut script = Script::default();
    section(&mut script, 2, 10);
    section(&mut script, 1, 20);
    section(&mut script, 2, 11);
    let report = died(script, 2);
    assert_eq!(culprit(&report), (Pattern::Sections, 10, 20));
    assert_eq!(report.findings[0].again.map(|step| step.entry.site.0), Some(11));

    // The same line again is a loop, and what nobody came between belongs to nobody else.
    for sites in [[10, 20, 10], [20, 10, 11]] {
        let mut script = Script::default();
        for (thread, site) in [2, 1, 2].into_iter().zip(sites) {
            section(&mut script, if site == 20 { 1 } else { thread.max(2) }, site);
        }
        assert_eq!(died(script, 2).findings, []);
    }
}
