//! Reducers against simulated programs that need certain elements to fail.
use partial_logs::ElementId;
use partial_logs::ReduceSettings;
use partial_logs::Reducer;
use proptest::collection::btree_set;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn reduce(elements: u32, settings: ReduceSettings, fails: impl Fn(&BTreeSet<ElementId>) -> bool) -> Reducer {
    let mut reducer = Reducer::new((0..elements).map(ElementId), settings);
    while let Some(kept) = reducer.next() {
        assert_eq!(reducer.next(), Some(kept.clone()));
        reducer.report(fails(&kept));
    }
    reducer
}

fn many() -> ReduceSettings {
    ReduceSettings {
        times: 2,
        budget: 100_000,
    }
}

#[test]
fn a_failure_that_needs_no_vector_has_no_element_that_matters() {
    let reducer = reduce(9, many(), |_| true);
    assert_eq!((reducer.enough(), reducer.attempts()), (BTreeSet::new(), 2));
}

#[test]
fn one_reproduction_that_was_luck_is_not_enough() {
    let count = std::cell::Cell::new(0);
    let reducer = reduce(6, many(), |kept| {
        count.set(count.get() + 1);
        kept.contains(&ElementId(2)) || count.get() == 1
    });
    assert_eq!(reducer.enough(), [ElementId(2)].into());
}

#[test]
fn without_attempts_nothing_is_left_out() {
    let reducer = reduce(5, ReduceSettings { times: 1, budget: 0 }, |_| true);
    assert_eq!(reducer.enough().len(), 5);
    assert_eq!(reduce(0, many(), |_| false).attempts(), 0);
}

proptest! {
    #[test]
    fn exactly_what_is_needed_is_left(needed in btree_set((0u32..40).prop_map(ElementId), 0..6), times in 1u32..4) {
        let settings = ReduceSettings { times, budget: 100_000 };
        let reducer = reduce(40, settings, |kept| needed.is_subset(kept));
        prop_assert_eq!(reducer.enough(), needed);
    }

    #[test]
    fn attempts_are_bounded_and_what_is_left_is_enough(needed in btree_set((0u32..20).prop_map(ElementId), 0..20), budget in 0u32..60) {
        let settings = ReduceSettings { times: 1, budget };
        let reducer = reduce(20, settings, |kept| needed.is_subset(kept));
        prop_assert!(reducer.attempts() <= budget);
        prop_assert!(needed.is_subset(&reducer.enough()));
    }
}
