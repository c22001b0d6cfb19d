//! Traces that there is no schedule for are refused by name, never taken for traces without races.
use crate::trace::Traces;
use crate::trace::judged;
use crate::trace::parse;
use crate::trace::relaxed;
use hybrid_schedule::Unusable;
use hybrid_schedule::relax;
use run_model::HybridSchedule;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use schedule_checker::hybrid::HybridRejection;

#[test]
fn a_trace_that_cannot_be_read_is_no_shorter_trace() {
    let threads = vec![vec![Ok(TraceEntry::Unordered), Err("torn")].into_iter()];
    assert_eq!(
        relax(threads),
        Err(Unusable::Unreadable {
            thread: ThreadIndex(0),
            error: "torn"
        })
    );
}

#[test]
fn sequences_only_grow() {
    let mut traces = parse("t0 L1 w 100 8\nt1 L2 r 100 8\nt0 L3 r 100 8");
    let set = |traces: &mut Traces, thread: usize, index: usize, to: u64| {
        if let TraceEntry::Access { sequence, .. } = &mut traces[thread][index] {
            *sequence = to;
        }
    };
    set(&mut traces, 1, 0, 10);
    assert!(matches!(relaxed(&traces), Err(Unusable::Sequence { found: 10, .. })));
    let any = HybridSchedule {
        events: vec![0, 0],
        points: vec![vec![], vec![]],
        ..HybridSchedule::default()
    };
    assert!(matches!(judged(&traces, &any), Err(HybridRejection::Sequence { .. })));
    set(&mut traces, 1, 0, 11);
    set(&mut traces, 0, 1, 9);
    assert!(matches!(relaxed(&traces), Err(Unusable::Sequence { found: 9, .. })));
}

#[test]
fn transfers_only_grow_between_events() {
    let traces = parse("t0 L1 w 100 8 ~2\nt0 L2 w 100 8 ~1");
    assert!(matches!(relaxed(&traces), Err(Unusable::Transfers { found: 1, .. })));
    let traces = parse("t0 L1 w 100 8 ~2\nt0 call\nt0 L2 w 100 8 ~1");
    assert!(relaxed(&traces).is_ok());
}

/// An end of a constraint that cannot be found again would be a constraint that is not enforced.
#[test]
fn instances_that_look_the_same_are_refused() {
    let traces = parse(
        "t0 L1 r 100 8
         t0 L2 r 200 8
         t0 L1 w 100 8
         t1 L3 r 100 8",
    );
    assert!(matches!(relaxed(&traces), Err(Unusable::Ambiguous { .. })));
    // Only ends of constraints have to be found.
    let traces = parse(
        "t0 L1 r 100 8
         t0 L2 w 200 8
         t0 L1 w 100 8
         t1 L3 r 200 8",
    );
    assert!(relaxed(&traces).is_ok());
}

#[test]
fn an_instruction_may_be_several_accesses() {
    crate::trace::check(
        "t0 L1 r 100 64
         t0 L1 w 200 64
         t1 L2 w 100 1
         t1 L3 r 200 1",
        "<L1, t0, 0, 0> -> <L2, t1, 0, 0>",
    );
}

/// Another thread between the two accesses of an instruction cannot be enforced.
#[test]
fn an_instruction_that_was_torn_is_refused() {
    let traces = parse(
        "t0 L1 r 100 64
         t1 L2 w 100 1
         t1 L3 w 200 1
         t0 L1 w 200 64",
    );
    assert!(matches!(relaxed(&traces), Err(Unusable::Circle { .. })));
}

/// There is no circle, and holding back the whole instruction would do; but it is not the traced order, so the judge does not take it.
#[test]
fn an_instruction_that_began_before_what_it_waits_for_is_refused_by_the_judge() {
    let traces = parse(
        "t0 L1 r 100 64
         t1 L2 w 200 1
         t0 L1 w 200 64",
    );
    let schedule = relaxed(&traces).unwrap().schedule;
    assert_eq!(schedule.constraints.len(), 1);
    assert_eq!(judged(&traces, &schedule), Err(HybridRejection::Against { index: 0 }));
}
