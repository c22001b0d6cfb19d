//! Which unordered accesses have to do with the failure? Those nearest to it.
//!
//! From where the failing thread failed we look at its last accesses, and for each that read what was written by another
//! thread, or by itself long before, at the accesses of the writer before that write, and so on: what was read is what went
//! wrong, and who wrote it may have been misled in turn. Each access looked at is tried for the patterns below; the nearest
//! one that fits is the likely culprit. Nearness is counted in writes passed through, then in accesses back from there.
//!
//! What nothing orders comes first. After it comes what was ordered only because a lock was taken, or an atomic accessed, in
//! this order (`Timeline::is_reversible`): a check and its use in two critical sections, a value seen before or after its
//! time. What a creation, a join or a signal orders is never blamed.
//!
//! The interleavings are the unserialisable ones of AVIO (Lu, Tucek, Qin, Zhou, ASPLOS 2006), restricted to those with a
//! write of the other thread in the middle.
use crate::clocks::Order;
use crate::clocks::gives_back;
use crate::memory::Memory;
use crate::races::is_race;
use crate::timeline::Step;
use crate::timeline::Timeline;
use crate::trace::Access;
use crate::trace::What;
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
    /// `theirs` held the lock between two times at which `mine` and `again` took it.
    Sections,
    /// `mine` asked in vain for a lock that `theirs` had taken.
    Refused,
    /// A wait began at `mine`; `theirs` took the lock after the wait's signal and before `again`, where the waiting thread had it.
    Woken,
    /// `theirs` had taken the lock of `mine` before it, and not yet that of `again` when that was taken.
    Halfway,
    /// `mine` and `theirs` took the same lock, in this order or the other.
    Turns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    pub pattern: Pattern,
    pub mine: Step,
    pub theirs: Step,
    pub again: Option<Step>,
    /// Synchronised, if only the order in which locks were taken or atomics accessed put them in this order.
    pub order: Order,
    /// How many writes lead from this to the failure.
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
/// Only the order of locks orders it.
const LOCKED: i64 = 1000;
/// Under locks, to see what another thread wrote is how threads talk to each other. To miss it says a little more.
const LOCKED_EARLY: i64 = 100;
const LOCKED_READ: i64 = 250;
/// An atomic load with no other atomic access between it and the failure.
const SEEN_LAST: i64 = 20;
/// A thread that looks again after it has written itself.
const AFTER_WRITE: i64 = 20;
/// A read in an earlier critical section than the last, for each that lies between.
const EARLIER_SECTION: i64 = 10;
/// Under locks: what was written in between was neither 0 nor had been, so that a test of it will have had the same outcome.
const SAME_OUTCOME: i64 = 10;
/// An atomic load and an atomic store that overwrites what came in between.
const ATOMIC: i64 = 100;
/// Both are in library code: what the program does itself comes first.
const IN_LIBRARY: i64 = 30;
const AFTER_FREE: i64 = -40;
/// A thread that freed the block itself: what made it do so comes first.
const OWN_FREE: i64 = 60;
/// The count of owners in the freed block was changed between two looks at it: that is why it was freed too early, or twice.
const COUNTED: i64 = AFTER_FREE - 30;
/// Accesses looked at for such a count, back from the use of the freed block.
const COUNT_WINDOW: usize = 64;
/// A value that was read to be printed. What the program decided on was read before.
const MESSAGE: i64 = 50;
/// The read of the pointer that the thread crashed on.
const POINTER: i64 = -60;

struct Search<'a> {
    timeline: &'a Timeline,
    memory: &'a Memory,
    /// The read of the bad pointer.
    pointer: Option<usize>,
    /// Critical sections that the thread left between the access that is tried and where we came from.
    sections: i64,
    /// The place we came from.
    end: usize,
    /// The last atomic access before that.
    last_atomic: Option<usize>,
    found: Vec<(i64, Finding)>,
}

pub struct Suspects {
    pub findings: Vec<Finding>,
    /// How many accesses were tried.
    pub tried: u64,
}

/// Findings from where the `failing` threads failed on, the likeliest first, one for each pattern and pair of sites. Of each
/// thread only what it did before that place in the timeline counts.
pub fn find(timeline: &Timeline, memory: &Memory, failing: &[(u32, usize)], pointer: Option<usize>) -> Suspects {
    let mut search = Search {
        timeline,
        memory,
        pointer,
        sections: 0,
        end: 0,
        last_atomic: None,
        found: Vec::new(),
    };
    let mut queue: VecDeque<(u32, usize, u32)> = failing.iter().map(|(thread, end)| (*thread, *end, 0)).collect();
    let mut seen = BTreeSet::new();
    let mut tried = BTreeSet::new();
    while let Some((thread, end, depth)) = queue.pop_front() {
        if !seen.insert((thread, end)) || seen.len() > PLACES_MAX {
            continue;
        }
        let window = if depth == 0 { WINDOW } else { WINDOW_DEEPER };
        let mut sections = 0;
        let accesses = timeline.back_from(thread, end).filter_map(|at| {
            let step = timeline.step(at);
            sections += i64::from(matches!(step.entry.what, What::Sync { op, .. } if gives_back(op)));
            step.access().map(|_| (at, sections))
        });
        // What a library does to memory of its own, or of this thread alone, is neither evidence nor a step on the way.
        let says_something =
            |at: usize| !timeline.is_internal(at) && (!timeline.is_in_library(at) || memory.is_shared(timeline, at));
        let accesses = accesses.filter(|(at, _)| says_something(*at));
        let window: Vec<(usize, i64)> = accesses.take(window).collect();
        let is_atomic = |at: usize| timeline.step(at).access().is_some_and(|access| access.atomic);
        search.last_atomic = window.iter().map(|(at, _)| *at).find(|at| is_atomic(*at));
        let oldest = window.last().map_or(0, |(at, _)| *at);
        for (distance, (at, sections)) in (0..).zip(window) {
            search.sections = sections;
            search.end = end;
            search.try_access(at, depth, distance);
            tried.insert(at);
            // What the thread wrote itself, nearby, is in the window.
            let writer = memory
                .writer(timeline, at)
                .filter(|writer| timeline.step(*writer).thread != thread || *writer < oldest);
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
    Suspects {
        findings: search.found.into_iter().map(|(_, finding)| finding).collect(),
        tried: tried.len() as u64,
    }
}

impl Search<'_> {
    fn note(&mut self, score: i64, depth: u32, pattern: Pattern, mine: usize, theirs: usize, again: Option<usize>) {
        let orders = [Some(mine), again]
            .into_iter()
            .flatten()
            .map(|at| self.timeline.order(at, theirs));
        // Two atomic accesses are no race: which of them comes first is for the program to put up with.
        let races = |at: usize| pattern == Pattern::UseAfterFree || is_race(self.timeline, at, theirs);
        let pairs = [Some(mine), again].into_iter().flatten().zip(orders.clone());
        let unordered = pairs
            .into_iter()
            .any(|(at, order)| order == Order::Unordered && races(at));
        let order = match orders.max().unwrap_or(Order::Same) {
            _ if unordered => Order::Unordered,
            Order::Unordered => Order::Synchronised,
            other => other,
        };
        let is_in_library = self.timeline.is_in_library(mine) && self.timeline.is_in_library(theirs);
        // Atomics of a library that the program only calls are the library's way to do its work.
        if is_in_library && self.are_atomic(mine, theirs) {
            return;
        }
        let score = score + if is_in_library { IN_LIBRARY } else { 0 };
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

    /// Are both atomic? That one sees the other, or does not, is what atomics are for; only an update can get lost between them.
    fn are_atomic(&self, a: usize, b: usize) -> bool {
        let is_atomic = |at: usize| self.timeline.step(at).access().is_some_and(|access| access.atomic);
        is_atomic(a) && is_atomic(b)
    }

    /// Of writes of the same value, one after the other and the last at `writer`: the first. It made the value what it is.
    fn origin(&self, before: &[usize], writer: usize) -> usize {
        let Some(access) = self.timeline.step(writer).access() else {
            return writer;
        };
        let here = before.partition_point(|at| *at < writer);
        let writes = before[..here].iter().rev().copied().filter(|at| self.writes(*at));
        let value_of = |at: usize| {
            self.timeline
                .step(at)
                .access()
                .and_then(|earlier| earlier.value_of(access))
        };
        let same = writes.take_while(|at| access.value.is_some() && value_of(*at) == access.value);
        same.last().unwrap_or(writer)
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
        if timeline.is_message(at) {
            score += MESSAGE;
        }
        if let Some(free) = memory.freed(timeline, at) {
            let is_own = timeline.step(free).thread == timeline.step(at).thread;
            let own = if is_own { OWN_FREE } else { 0 };
            self.note(score + AFTER_FREE + own, depth, Pattern::UseAfterFree, at, free, None);
            self.try_count(at, free, score, depth);
        }
        let (before, after) = memory.around(timeline, at);
        if access.reads {
            self.try_read(&before, &after, at, score, depth);
            self.try_atomic_load(&before, &after, at, score, depth);
        }
        self.try_interleaving(&before, at, score, depth);
        if depth == 0 || access.reads {
            self.try_history(&before, score, depth);
        }
    }

    /// Does the freed block that is used at `at` hold a count of its owners, on which the freeing thread and this one took turns? A thread
    /// that counts with one atomic operation and looks with another sees what others have counted meanwhile.
    fn try_count(&mut self, at: usize, free: usize, score: i64, depth: u32) {
        let timeline = self.timeline;
        let (me, other) = (timeline.step(at).thread, timeline.step(free).thread);
        let What::Free { address, bytes } = timeline.step(free).entry.what else {
            return;
        };
        let is_in_block = |look: &usize| {
            let access = timeline.step(*look).access();
            access.is_some_and(|access| (address..address.saturating_add(bytes)).contains(&access.address))
        };
        let looks = timeline.back_from(me, at + 1).take(COUNT_WINDOW);
        for look in looks.filter(|look| self.is_atomic_load(*look)).filter(is_in_block) {
            let (before, _) = self.memory.around(timeline, look);
            let Some(mine) = before.iter().rposition(|b| timeline.step(*b).thread == me) else {
                continue;
            };
            let is_theirs = |b: &&usize| timeline.step(**b).thread == other && self.writes(**b);
            let Some(theirs) = before[mine + 1..].iter().rfind(is_theirs).copied() else {
                continue;
            };
            let mine = before[mine];
            let is_loose = self.looseness(mine, theirs).is_some() && self.looseness(theirs, look).is_some();
            if is_loose && self.are_atomic(mine, theirs) && timeline.line(mine) != timeline.line(look) {
                self.note(score + COUNTED, depth, Pattern::Interleaved, mine, theirs, Some(look));
                return;
            }
        }
    }

    /// How much less it says that the two came in this order than if nothing had ordered them; `None` if they had to.
    fn looseness(&self, a: usize, b: usize) -> Option<i64> {
        let timeline = self.timeline;
        if is_race(timeline, a, b) {
            return Some(0);
        }
        let (one, other) = (timeline.step(a).access()?, timeline.step(b).access()?);
        let conflict = (one.writes || other.writes) && one.overlaps(other);
        let atomic = if one.atomic && other.atomic { ATOMIC } else { 0 };
        (conflict && timeline.is_reversible(a, b)).then_some(LOCKED + atomic)
    }

    /// Did the read at `at` see a write it need not have seen, or miss one it might have seen?
    fn try_read(&mut self, before: &[usize], after: &[usize], at: usize, score: i64, depth: u32) {
        let timeline = self.timeline;
        let writer = self.memory.writer(timeline, at);
        let loose = writer.and_then(|writer| match self.looseness(writer, at)? {
            0 => Some((writer, 0)),
            _ => {
                let origin = self.origin(before, writer);
                Some((origin, self.looseness(origin, at)?))
            }
        });
        let loose = loose.filter(|(writer, _)| !self.are_atomic(*writer, at));
        let is_news = loose.is_some_and(|(writer, _)| !self.has_read_before(before, writer, at));
        if let Some((writer, looseness)) = loose {
            let stale = if is_news { 0 } else { STALE };
            let usual = match looseness {
                0 => 0,
                _ => looseness + LOCKED_READ + EARLIER_SECTION * self.sections,
            };
            let score = score + stale + usual + self.silence(before, writer);
            self.note(score, depth, Pattern::ReadFrom, at, writer, None);
        }
        let writes = || after.iter().copied().filter(|next| self.writes(*next));
        let racing = writes().find(|next| is_race(timeline, at, *next));
        // Under locks only the very next write: over what the thread wrote itself, it is another matter.
        let locked = || Some((writes().next()?, self.looseness(at, writes().next()?)? + LOCKED_EARLY));
        let next = racing.map(|next| (next, 0)).or_else(locked);
        let next = next.filter(|(next, _)| !self.are_atomic(at, *next));
        if let (Some((next, looseness)), Some(access)) = (next, timeline.step(at).access()) {
            let changes = timeline.step(next).access().and_then(|a| a.value_of(access)) != access.value;
            let early = if is_news { TOO_EARLY } else { 0 };
            let score = score + early + looseness + if changes { 0 } else { SILENT };
            self.note(score, depth, Pattern::ReadTooEarly, at, next, None);
        }
    }

    /// The same for two atomics. That one sees the other, or does not, is what atomics are for, so this is the last thing to be said,
    /// and nothing is said of loads with which a thread waits, or begins an update.
    fn try_atomic_load(&mut self, before: &[usize], after: &[usize], at: usize, score: i64, depth: u32) {
        let timeline = self.timeline;
        let (me, line) = (timeline.step(at).thread, timeline.line(at));
        if !self.is_atomic_load(at) || self.is_meeting_place(before, at) {
            return;
        }
        let is_mine = |b: &&usize| timeline.step(**b).thread == me;
        let later = after.iter().take_while(|b| **b < self.end).find(is_mine);
        let earlier = before.iter().rfind(is_mine);
        let waits = earlier.is_some_and(|earlier| timeline.line(*earlier) == line);
        let access = timeline.step(at).access();
        let is_update = later.is_some_and(|later| timeline.line(*later) == line);
        let writer = self
            .memory
            .writer(timeline, at)
            .filter(|writer| self.are_atomic(*writer, at));
        if let Some((writer, looseness)) = writer.and_then(|writer| Some((writer, self.looseness(writer, at)?)))
            && !waits
            && !is_update
        {
            // What the thread saw last of all is what it failed on.
            let is_last = depth == 0 && self.last_atomic == Some(at);
            let usual = if is_last { SEEN_LAST } else { LOCKED_READ };
            let score = score + looseness + usual + self.silence(before, writer);
            self.note(score, depth, Pattern::ReadFrom, at, writer, None);
        }
        let next = after.iter().copied().find(|next| self.writes(*next));
        let changes = |next: &usize| {
            let written = timeline.step(*next).access();
            access.is_some_and(|access| written.and_then(|written| written.value_of(access)) != access.value)
        };
        let next = next.filter(|next| later.is_none() && self.are_atomic(at, *next) && changes(next));
        if let Some((next, looseness)) = next.and_then(|next| Some((next, self.looseness(at, next)?))) {
            self.note(
                score + looseness + LOCKED_EARLY,
                depth,
                Pattern::ReadTooEarly,
                at,
                next,
                None,
            );
        }
    }

    /// Does the thread begin with an update of this atomic? So it announces itself where threads wait for each other, and its loads
    /// are how it waits.
    fn is_meeting_place(&self, before: &[usize], at: usize) -> bool {
        let me = self.timeline.step(at).thread;
        let first = before.iter().find(|b| self.timeline.step(**b).thread == me);
        let access = first.and_then(|first| self.timeline.step(*first).access());
        access.is_some_and(|access| access.reads && access.writes)
            && first.is_some_and(|first| !self.is_atomic_load(*first))
    }

    /// An atomic access that left things as they were.
    fn is_atomic_load(&self, at: usize) -> bool {
        let access = self.timeline.step(at).access();
        access.is_some_and(|a| a.atomic && a.reads && (!a.writes || a.before.is_some() && a.before == a.value))
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
        let pattern = match (first.reads, second.reads, second.writes) {
            (true, false, true) => Pattern::LostUpdate,
            (_, true, _) => Pattern::Interleaved,
            _ => return,
        };
        // Of atomics: a load, and another access elsewhere that relies on it. Not the next look of a thread that waits.
        let relies =
            self.is_atomic_load(mine) && timeline.line(mine) != timeline.line(at) && !self.is_meeting_place(before, at);
        if pattern != Pattern::LostUpdate && self.are_atomic(mine, theirs) && self.are_atomic(theirs, at) && !relies {
            return;
        }
        // The other thread could have come before both, or after both.
        let (Some(before_it), Some(after_it)) = (self.looseness(mine, theirs), self.looseness(theirs, at)) else {
            return;
        };
        let looseness = if before_it.min(after_it) == 0 {
            0
        } else {
            before_it.max(after_it)
        };
        // A write that is lost says more than a read that saw it.
        let preference = i64::from(pattern != Pattern::LostUpdate) + if first.reads { 0 } else { AFTER_WRITE };
        let same = |access: &Access, other: &Access| match (access.value, other.value_of(access)) {
            (Some(value), Some(other)) => (value == 0) == (other == 0),
            _ => false,
        };
        let wrote = timeline.step(theirs).access();
        let is_same = looseness > 0 && wrote.is_some_and(|wrote| same(first, wrote));
        let outcome = if is_same { SAME_OUTCOME } else { 0 };
        let penalty = looseness + preference + outcome + self.silence(before, theirs);
        self.note(score + penalty, depth, pattern, mine, theirs, Some(at));
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
            let loose = theirs.and_then(|theirs| Some((theirs, self.looseness(before[theirs], *write)?)));
            let Some((theirs, looseness)) = loose else {
                continue;
            };
            let other = before[theirs];
            if looseness == 0 {
                self.note(score + OVERWRITTEN, depth, Pattern::Overwritten, *write, other, None);
            }
            let mine = before[..theirs].iter().rposition(|b| timeline.step(*b).thread == me);
            let reads = |at: usize| timeline.step(at).access().is_some_and(|access| access.reads);
            let read_between = before[theirs + 1..i]
                .iter()
                .any(|b| timeline.step(*b).thread == me && reads(*b));
            let is_loose = |mine: usize| self.looseness(before[mine], other).is_some();
            // Who reads as it writes has seen what it writes over.
            let is_blind = !read_between && !reads(*write);
            if let Some(mine) = mine.filter(|mine| reads(before[*mine]) && is_blind && is_loose(*mine)) {
                let (mine, again) = (before[mine], Some(*write));
                let farther = looseness + if Some(i) == last_write { DIRECT } else { ELSEWHERE };
                self.note(score + farther, depth, Pattern::LostUpdate, mine, other, again);
                return;
            }
        }
    }
}
