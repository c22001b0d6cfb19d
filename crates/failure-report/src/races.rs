//! All pairs of conflicting accesses that nothing orders.
use crate::clocks::Order;
use crate::memory::Memory;
use crate::timeline::Step;
use crate::timeline::Timeline;
use run_model::SiteId;
use std::collections::BTreeMap;

/// Two places in the source whose accesses conflicted, unordered; the accesses are the last such pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    pub first: Step,
    pub second: Step,
    pub times: u64,
}

/// Are these two accesses a race?
pub fn is_race(timeline: &Timeline, a: usize, b: usize) -> bool {
    let (Some(one), Some(other)) = (timeline.step(a).access(), timeline.step(b).access()) else {
        return false;
    };
    (one.writes || other.writes)
        && !(one.atomic && other.atomic)
        && one.overlaps(other)
        && timeline.order(a, b) == Order::Unordered
}

/// One race for each pair of sites, the one nearest to the end first.
///
/// Each access is compared with the last accesses of every other thread to the same bytes, so a place that races is
/// found, though not each of its pairs.
pub fn find(timeline: &Timeline, memory: &Memory) -> Vec<Race> {
    let mut found = Found::new();
    for (cell, life) in memory.lives() {
        // (thread, address, does it write, is it atomic) → the last such access. An atomic one must not hide a plain one before it.
        let mut last: BTreeMap<(u32, u64, bool, bool), usize> = BTreeMap::new();
        for at in life {
            let step = timeline.step(at);
            let Some(access) = step.access() else { continue };
            for (_, other) in last.iter().filter(|((thread, ..), _)| *thread != step.thread) {
                // Accesses that share several cells are counted in the first of them.
                let before = timeline.step(*other);
                let shared = before.access().map_or(0, |a| a.address.max(access.address) / 8 * 8);
                if shared == cell && is_race(timeline, *other, at) {
                    note(&mut found, (at, *other), before, step);
                }
            }
            last.insert((step.thread, access.address, access.writes, access.atomic), at);
        }
    }
    let mut races: Vec<((usize, usize), Race)> = found.into_values().collect();
    races.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    races.into_iter().map(|(_, race)| race).collect()
}

/// By sites: the newest race, with its places in the timeline, the second first.
type Found = BTreeMap<(SiteId, SiteId), ((usize, usize), Race)>;

fn note(found: &mut Found, at: (usize, usize), first: &Step, second: &Step) {
    let (a, b) = (first.entry.site, second.entry.site);
    let race = Race {
        first: *first,
        second: *second,
        times: 1,
    };
    let (place, known) = found
        .entry((a.min(b), a.max(b)))
        .or_insert((at, Race { times: 0, ..race }));
    let times = known.times + 1;
    if *place <= at {
        (*place, *known) = (at, race);
    }
    known.times = times;
}
