//! Two critical sections that may belong together, with another thread's between them.
//!
//! What is done under a lock is seen at scope memory alone. At scope sync this is what is left of a check and its use in two sections:
//! that the other thread was there is certain, that it changed anything is not.
use crate::clocks::Order;
use crate::clocks::has_succeeded;
use crate::clocks::takes;
use crate::clocks::takes_to_write;
use crate::suspects::Finding;
use crate::suspects::Pattern;
use crate::timeline::Timeline;
use crate::trace::What;
use run_model::Op;

/// Locks looked at, back from the failure.
const SECTIONS: usize = 8;

/// Of the last locks that the failing thread took: the first that it had taken before at another line, and another thread in
/// between.
pub fn find(timeline: &Timeline, failing: &[(u32, usize)]) -> Option<Finding> {
    let [(thread, end)] = *failing else { return None };
    let taken = |at: usize| match timeline.step(at).entry.what {
        What::Sync { op, object, value, .. } if takes(op) && has_succeeded(value) => Some((op, object)),
        _ => None,
    };
    let excludes = |op: Op| takes_to_write(op) || matches!(op, Op::MutexLock | Op::MutexTryLock | Op::MutexTimedLock);
    let mine = || timeline.back_from(thread, end).filter(|at| taken(*at).is_some());
    for again in mine().take(SECTIONS) {
        let Some((_, object)) = taken(again) else { continue };
        let of_object = |at: &usize| taken(*at).is_some_and(|(_, other)| other == object);
        let earlier = timeline.back_from(thread, again).find(of_object);
        let Some(first) = earlier.filter(|first| timeline.line(*first) != timeline.line(again)) else {
            continue;
        };
        let is_theirs = |at: &usize| {
            let excludes = taken(*at).is_some_and(|(op, other)| other == object && excludes(op));
            excludes && timeline.step(*at).thread != thread
        };
        let theirs = (first + 1..again).rev().find(is_theirs);
        let is_loose =
            |theirs: &usize| timeline.is_reversible(first, *theirs) && timeline.is_reversible(*theirs, again);
        if let Some(theirs) = theirs.filter(is_loose) {
            let step = |at: usize| *timeline.step(at);
            return Some(Finding {
                pattern: Pattern::Sections,
                mine: step(first),
                theirs: step(theirs),
                again: Some(step(again)),
                order: Order::Synchronised,
                depth: 0,
            });
        }
    }
    None
}
