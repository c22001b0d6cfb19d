//! Which unordered accesses have to do with the failure? Those nearest to it.
//!
//! From where the failing thread ended we look at its last accesses, and for each that read what another thread had
//! written, at the last accesses of that thread before the write, and so on: what was read is what went wrong, and who
//! wrote it may have been misled in turn. Each access looked at is tried for the patterns below; the nearest one that
//! fits is the likely culprit. Nearness is counted in threads passed through, then in accesses back from there.
//!
//! The interleavings are the unserialisable ones of AVIO (Lu, Tucek, Qin, Zhou, ASPLOS 2006), restricted to those with a
//! write of the other thread in the middle.
use crate::clocks::Order;
use crate::memory::Memory;
use crate::races::is_race;
use crate::timeline::Step;
use crate::timeline::Timeline;
use std::collections::BTreeSet;
use std::collections::VecDeque;

/// What two or three accesses did to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// `mine` touched a block that `theirs` freed, before or unordered.
    UseAfterFree,
    /// `mine` read what `theirs` had written.
    ReadFrom,
    /// `mine` read before `theirs` wrote.
    ReadTooEarly,
    /// `mine` read, `theirs` wrote, `again` wrote over it.
    LostUpdate,
    /// `theirs` wrote between `mine` and `again`, which belong together.
    Interleaved,
    /// `mine` and `theirs` both wrote.
    Overwritten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    pub pattern: Pattern,
    pub mine: Step,
    pub theirs: Step,
    pub again: Option<Step>,
    /// Synchronised, if each is under a lock but not both of mine under the same hold of it.
    pub order: Order,
    /// How many threads lie between the failure and this.
    pub depth: u32,
}

/// Accesses looked at: of the failing thread, and of each thread that leads there.
const WINDOW: usize = 48;
const WINDOW_DEEPER: usize = 24;
const DEPTH_MAX: u32 = 4;
const PLACES_MAX: usize = 64;

// How much farther away a finding counts than an access that is nearer by one.
const DEEPER: i64 = 100;
/// A read that also saw something new.
const TOO_EARLY: i64 = 3;
/// A read of what the thread had read before.
const STALE: i64 = 8;
const ELSEWHERE: i64 = 6;
/// The write that overwrote another is the one that was read.
const DIRECT: i64 = -2;
const OVERWRITTEN: i64 = 40;
/// A write that changed nothing explains little.
const SILENT: i64 = 30;
const SYNCHRONISED: i64 = 1000;
const AFTER_FREE: i64 = -40;
/// The read of the pointer that the thread crashed on.
const POINTER: i64 = -60;

struct Search<'a> {
    timeline: &'a Timeline,
    memory: &'a Memory,
    /// The read of the bad pointer.
    pointer: Option<usize>,
    found: Vec<(i64, Finding)>,
}

/// Findings from the ends of the `failing` threads on, the likeliest first, one for each pattern and pair of sites.
pub fn find(timeline: &Timeline, memory: &Memory, failing: &[u32], pointer: Option<usize>) -> Vec<Finding> {
    let mut search = Search {
        timeline,
        memory,
        pointer,
        found: Vec::new(),
    };
    let mut queue: VecDeque<(u32, usize, u32)> = failing
        .iter()
        .map(|thread| (*thread, timeline.steps.len(), 0))
        .collect();
    let mut seen = BTreeSet::new();
    while let Some((thread, end, depth)) = queue.pop_front() {
        if !seen.insert((thread, end)) || seen.len() > PLACES_MAX {
            continue;
        }
        let window = if depth == 0 { WINDOW } else { WINDOW_DEEPER };
        let accesses = timeline
            .back_from(thread, end)
            .filter(|at| timeline.step(*at).access().is_some());
        for (distance, at) in (0..).zip(accesses.take(window)) {
            search.try_access(at, depth, distance);
            let writer = memory
                .writer(timeline, at)
                .filter(|w| timeline.step(*w).thread != thread);
            if let Some(writer) = writer
                && depth < DEPTH_MAX
                && timeline.step(at).access().is_some_and(|access| access.reads)
            {
                queue.push_back((timeline.step(writer).thread, writer + 1, depth + 1));
            }
        }
    }
    search.found.sort_by_key(|(score, finding)| (*score, finding.pattern));
    let mut kept = BTreeSet::new();
    search
        .found
        .retain(|(_, f)| kept.insert((f.pattern, f.mine.entry.site, f.theirs.entry.site)));
    search.found.into_iter().map(|(_, finding)| finding).collect()
}

impl Search<'_> {
    fn note(&mut self, score: i64, depth: u32, pattern: Pattern, mine: usize, theirs: usize, again: Option<usize>) {
        let orders = [Some(mine), again]
            .into_iter()
            .flatten()
            .map(|at| self.timeline.order(at, theirs));
        let unordered = orders.clone().any(|order| order == Order::Unordered);
        let order = if unordered {
            Order::Unordered
        } else {
            orders.max().unwrap_or(Order::Same)
        };
        let step = |at: usize| *self.timeline.step(at);
        let finding = Finding {
            pattern,
            mine: step(mine),
            theirs: step(theirs),
            again: again.map(step),
            order,
            depth,
        };
        self.found.push((score, finding));
    }

    /// Tries all patterns on the access at `at`, `distance` accesses before the place we came from.
    fn try_access(&mut self, at: usize, depth: u32, distance: i64) {
        let (timeline, memory) = (self.timeline, self.memory);
        let Some(access) = timeline.step(at).access() else {
            return;
        };
        let mut score = i64::from(depth) * DEEPER + distance;
        if self.pointer == Some(at) {
            score += POINTER;
        }
        if let Some(free) = memory.freed(timeline, at) {
            self.note(score + AFTER_FREE, depth, Pattern::UseAfterFree, at, free, None);
        }
        let (before, after) = memory.around(timeline, at);
        if access.reads {
            self.try_read(&before, &after, at, score, depth);
        }
        self.try_interleaving(&before, at, score, depth);
        if depth == 0 || access.reads {
            self.try_history(&before, score, depth);
        }
    }

    /// Did the read at `at` see a write it need not have seen, or miss one it might have seen?
    fn try_read(&mut self, before: &[usize], after: &[usize], at: usize, score: i64, depth: u32) {
        let timeline = self.timeline;
        let writer = self.memory.writer(timeline, at);
        let racing = writer.filter(|writer| is_race(timeline, *writer, at));
        let is_news = racing.is_some_and(|writer| !self.has_read_before(before, writer, at));
        if let Some(writer) = racing {
            let stale = if is_news { 0 } else { STALE };
            let score = score + stale + self.silence(before, writer);
            self.note(score, depth, Pattern::ReadFrom, at, writer, None);
        }
        let next = after
            .iter()
            .find(|next| self.writes(**next) && is_race(timeline, at, **next));
        if let (Some(next), Some(access)) = (next, timeline.step(at).access()) {
            let changes = timeline.step(*next).access().and_then(|a| a.value_of(access)) != access.value;
            let early = if is_news { TOO_EARLY } else { 0 };
            let score = score + early + if changes { 0 } else { SILENT };
            self.note(score, depth, Pattern::ReadTooEarly, at, *next, None);
        }
    }

    /// Had the thread read the same write before? Then it is not what is new.
    fn has_read_before(&self, before: &[usize], writer: usize, at: usize) -> bool {
        let me = self.timeline.step(at).thread;
        let mut since = before.iter().rev().take_while(|b| **b > writer);
        since.any(|b| self.timeline.step(*b).thread == me)
    }

    fn writes(&self, at: usize) -> bool {
        let access = self.timeline.step(at).access();
        access.is_some_and(|access| access.writes && !access.pending)
    }

    /// Did the write at `at` leave what was there? `before` are the accesses before some later one, with `at` among them.
    fn silence(&self, before: &[usize], at: usize) -> i64 {
        let access = self.timeline.step(at).access();
        let here = before.binary_search(&at).unwrap_or(0);
        let earlier = before[..here].last().and_then(|b| self.timeline.step(*b).access());
        match (access, earlier) {
            (Some(access), Some(earlier)) if access.value.is_some() && earlier.value_of(access) == access.value => {
                SILENT
            }
            _ => 0,
        }
    }

    /// Did somebody write between the access at `at` and the thread's own one before it?
    fn try_interleaving(&mut self, before: &[usize], at: usize, score: i64, depth: u32) {
        let timeline = self.timeline;
        let me = timeline.step(at).thread;
        let Some(mine) = before.iter().rposition(|b| timeline.step(*b).thread == me) else {
            return;
        };
        let between = &before[mine + 1..];
        let Some(theirs) = between.iter().rev().find(|b| self.writes(**b)).copied() else {
            return;
        };
        let mine = before[mine];
        let (Some(first), Some(second)) = (timeline.step(mine).access(), timeline.step(at).access()) else {
            return;
        };
        if first.atomic && second.atomic && timeline.step(theirs).access().is_some_and(|a| a.atomic) {
            return;
        }
        let pattern = match (first.reads, second.reads, second.writes) {
            (true, false, true) => Pattern::LostUpdate,
            (_, true, _) => Pattern::Interleaved,
            _ => return,
        };
        let unordered = is_race(timeline, mine, theirs) || is_race(timeline, theirs, at);
        // A write that is lost says more than a read that saw it.
        let preference = i64::from(pattern != Pattern::LostUpdate);
        let penalty = if unordered { 0 } else { SYNCHRONISED } + self.silence(before, theirs);
        self.note(score + preference + penalty, depth, pattern, mine, theirs, Some(at));
    }

    /// What happened to the same bytes before: the last update that was lost, and the last two unordered writes.
    fn try_history(&mut self, before: &[usize], score: i64, depth: u32) {
        let timeline = self.timeline;
        let last_write = before.iter().rposition(|b| self.writes(*b));
        for (i, write) in before.iter().enumerate().rev() {
            if !self.writes(*write) {
                continue;
            }
            let me = timeline.step(*write).thread;
            let theirs = before[..i].iter().rposition(|b| self.writes(*b));
            let Some(theirs) = theirs.filter(|theirs| is_race(timeline, before[*theirs], *write)) else {
                continue;
            };
            let other = before[theirs];
            self.note(score + OVERWRITTEN, depth, Pattern::Overwritten, *write, other, None);
            let mine = before[..theirs].iter().rposition(|b| timeline.step(*b).thread == me);
            let reads = |at: usize| timeline.step(at).access().is_some_and(|access| access.reads);
            let read_between = before[theirs + 1..i]
                .iter()
                .any(|b| timeline.step(*b).thread == me && reads(*b));
            if let Some(mine) = mine.filter(|mine| reads(before[*mine]) && !read_between) {
                let (mine, again) = (before[mine], Some(*write));
                let farther = if Some(i) == last_write { DIRECT } else { ELSEWHERE };
                self.note(score + farther, depth, Pattern::LostUpdate, mine, other, again);
                return;
            }
        }
    }
}
