//! One cell's accesses, and which write each read saw if versions tell.
use crate::versions::access::Access;
use crate::versions::access::bytes_of;
use crate::versions::access::different_bytes;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What a cell held after some write.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    value: u64,
    /// Bytes of which nobody knows what was written.
    unknown: u8,
    /// Bytes that nobody has written.
    initial: u8,
}

/// What a cell held before its first write, as far as reads tell.
#[derive(Clone, Copy, Debug, Default)]
struct Initial {
    value: u64,
    known: u8,
}

/// The order of a cell's writes by versions, and where in it the reads are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linkage {
    /// Indices of the writes, in their order.
    pub(crate) writes: Vec<u32>,
    /// For each access: of a write, its place in the order; of a read, how many writes come before it.
    pub(crate) places: Vec<u32>,
    /// Writes that share their version with another.
    pub(crate) conflicts: u32,
    /// Reads whose value no possible place explains. Each is where its version says.
    pub(crate) unmatched: Vec<u32>,
    /// Those of them that nobody disturbed, and whose value nobody wrote: somebody wrote unseen.
    pub(crate) foreign: Vec<u32>,
    /// Reads of bytes that nobody has written there, by versions that say that somebody may have.
    pub(crate) unwritten: Vec<u32>,
    /// Reads of something that no recorded write wrote: a replay may find something else there, and the program not care.
    pub(crate) unverifiable: Vec<u32>,
    /// Versions are the order of the writes.
    pub(crate) counted: bool,
    /// Versions agree with program order.
    pub(crate) monotonic: bool,
    /// Some read is taken to have seen what was there from the beginning, and a write wrote the same.
    pub(crate) doubtful: bool,
}

/// So many places are tried one by one before the contents are indexed.
const STEPS: usize = 32;

/// How often writes are moved to where reads find them, at most; and how far.
const REPAIRS: usize = 40;
const REACH: usize = 64;

/// What to believe of a read that no version disturbed, and that does not find its value where its version says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belief {
    /// The value, if it was written: a write was under way, or writes came in another order than their versions.
    Values,
    /// The version: somebody wrote unseen.
    Versions,
}

/// `accesses`: of one cell, by thread and record. `locked`: versions were given under a lock.
pub(crate) fn link(accesses: &[Access], locked: bool, belief: Belief) -> Linkage {
    let mut writes = in_order(accesses);
    let mut best = link_in(accesses, writes.clone(), locked, belief);
    if best.counted || belief == Belief::Versions || best.unmatched.len() == best.foreign.len() {
        return best;
    }
    // Versions that nothing orders are nearly in order. A read that does not find its value shows a write that is too early
    // or too late.
    let mut fruitless = 0;
    for _ in 0..REPAIRS {
        if best.unmatched.is_empty() || fruitless > 6 {
            break;
        }
        let current = link_in(accesses, writes.clone(), false, belief);
        if current.unmatched.len() < best.unmatched.len() {
            fruitless = 0;
            best = current.clone();
        } else {
            fruitless += 1;
        }
        if !repair(accesses, &current, &mut writes) {
            break;
        }
    }
    best
}

/// Moves writes to where reads need them. False: there is nothing to move.
fn repair(accesses: &[Access], linkage: &Linkage, writes: &mut Vec<u32>) -> bool {
    let mut places = linkage.places.clone();
    let mut is_moved = false;
    for &read in &linkage.unmatched {
        let access = &accesses[read as usize];
        let wanted = |write: u32| {
            let write = &accesses[write as usize];
            let covers = write.mask & access.mask == access.mask && !write.unknown;
            covers && different_bytes(write.value, access.value) & access.mask == 0
        };
        // Where it has to be found: after the thread's own last write, and before its next one.
        let own = |index: &usize| accesses[*index].thread == access.thread && accesses[*index].writes;
        let is_event = |index: &usize| accesses[*index].event == access.event;
        let later = (read as usize..accesses.len()).take_while(|index| accesses[*index].thread == access.thread);
        let next = later.filter(own).map(|index| places[index] as usize).next();
        let earlier = (0..read as usize).rev();
        let earlier = earlier.take_while(|index| accesses[*index].thread == access.thread);
        let last = earlier
            .filter(|index| !is_event(index))
            .find(own)
            .map(|index| places[index] as usize + 1);
        let here = match access.updates {
            true => next.unwrap_or(writes.len()),
            false => last.unwrap_or(0),
        };
        let before = (here.saturating_sub(REACH)..here)
            .rev()
            .find(|place| wanted(writes[*place]));
        let after = (here..(here + REACH).min(writes.len())).find(|place| wanted(writes[*place]));
        let nearer = match (before, after) {
            (Some(one), Some(other)) if other - here < here - one => (None, after),
            (Some(_), _) => (before, None),
            _ => (None, after),
        };
        let thread = |place: usize| accesses[writes[place] as usize].thread;
        let (from, to) = match nearer {
            (Some(from), _) => (from, here - 1),
            (_, Some(from)) if access.updates => (from, here),
            // It is before the thread's next write, or has to get there.
            (_, Some(from)) => match next.filter(|next| *next <= from) {
                Some(next) => (from, next),
                None => continue,
            },
            _ => continue,
        };
        let mut between = if from < to { from + 1..to + 1 } else { to..from };
        if from == to || between.clone().any(|place| thread(place) == thread(from)) {
            continue;
        }
        let moved = writes.remove(from);
        writes.insert(to, moved);
        between = from.min(to)..from.max(to) + 1;
        for place in between {
            places[writes[place] as usize] = place as u32;
        }
        is_moved = true;
    }
    is_moved
}

fn link_in(accesses: &[Access], writes: Vec<u32>, locked: bool, belief: Belief) -> Linkage {
    let mut places = vec![0; accesses.len()];
    for (place, write) in (0..).zip(&writes) {
        places[*write as usize] = place;
    }
    let versions: Vec<u64> = writes.iter().map(|write| accesses[*write as usize].version).collect();
    let monotonic = versions.is_sorted();
    let mut sorted = versions.clone();
    sorted.sort_unstable();
    let shared = sorted.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
    let conflicts = shared.map(|same| same.len() as u32).sum();
    let is_orderly = conflicts == 0 && monotonic;
    let counted = locked && is_orderly;
    let mut linker = Linker {
        contents: contents(accesses, &writes),
        initial: Initial::default(),
        indices: BTreeMap::new(),
    };
    // Of all places from this one on, the oldest version.
    let mut oldest = versions.clone();
    for place in (1..oldest.len()).rev() {
        oldest[place - 1] = oldest[place - 1].min(oldest[place]);
    }
    let mut ranges = ranges(accesses, &places, &oldest);
    for (read, (from, to)) in &mut ranges {
        let read = &accesses[*read as usize];
        if read.exact || read.quiet && belief == Belief::Versions {
            *from = *to;
        } else if read.quiet && is_orderly {
            *from = oldest_under_way(accesses, &writes, *from, *to);
        }
    }
    // What nobody can have overwritten before it was read was there from the beginning.
    let mut learned = Vec::new();
    for &(read, range) in &ranges {
        let access = &accesses[read as usize];
        learned.push((read, linker.learn(access, range.1)));
    }
    // Whoever still saw version 0 after it had read saw no write.
    let is_certain = |read: &Access| read.version == 0 && !read.updates;
    learned.retain(|(read, bytes)| *bytes != 0 && !is_certain(&accesses[*read as usize]));
    let (mut unmatched, mut unwritten, mut unverifiable) = (Vec::new(), Vec::new(), Vec::new());
    for &(read, (from, to)) in &ranges {
        let access = &accesses[read as usize];
        let mut place = match access.unknown || linker.matches(access, to) {
            true => Some(to),
            // What nobody is known to have written is no reason to believe that a write was under way.
            false if access.quiet && is_orderly => (from..to).rev().find(|place| linker.is_known(access, *place)),
            false => linker.newest(access, from, to),
        };
        if place.is_none() && counted && !access.updates && !access.quiet {
            // Where program order forbids it, which then has to show.
            let bound = versions.partition_point(|version| *version <= access.version);
            place = linker.newest(access, 0, bound as u32);
        }
        if place.is_none() {
            unmatched.push(read);
        }
        let place = place.unwrap_or(to);
        let from_before = linker.contents[place as usize].initial & access.mask != 0;
        if from_before && !is_certain(access) {
            unwritten.push(read);
        }
        if from_before || unmatched.last() == Some(&read) {
            unverifiable.push(read);
        }
        let bytes = linker.learn(access, place);
        if bytes != 0 {
            learned.push((read, bytes));
        }
        places[read as usize] = place;
    }
    let is_written = |(read, bytes): &(u32, u8)| {
        let read = &accesses[*read as usize];
        let mut writes = accesses.iter().filter(|access| access.writes);
        writes.any(|write| {
            let both = write.mask & bytes;
            both & !different_bytes(write.value, read.value) != 0 || (both != 0 && write.unknown)
        })
    };
    let doubtful = learned.iter().any(is_written);
    let mut foreign = unmatched.clone();
    if !foreign.is_empty() {
        let written = Written::new(accesses);
        foreign.retain(|read| accesses[*read as usize].quiet && !written.contains(&accesses[*read as usize]));
    }
    Linkage {
        writes,
        places,
        conflicts,
        counted,
        unmatched,
        foreign,
        unwritten,
        unverifiable,
        monotonic,
        doubtful,
    }
}

/// What was written to each range of bytes that every access covers wholly or not at all.
struct Written {
    atoms: Vec<u8>,
    contents: BTreeSet<(u8, u64)>,
    unknown: u8,
}

impl Written {
    fn new(accesses: &[Access]) -> Written {
        let atoms = atoms(accesses);
        let (mut contents, mut unknown) = (BTreeSet::new(), 0);
        for write in accesses.iter().filter(|access| access.writes) {
            if write.unknown {
                unknown |= write.mask;
            }
            let covered = atoms.iter().filter(|atom| **atom & write.mask != 0);
            contents.extend(covered.map(|atom| (*atom, write.value & bytes_of(*atom))));
        }
        Written {
            atoms,
            contents,
            unknown,
        }
    }

    /// May somebody have written all that was read?
    fn contains(&self, read: &Access) -> bool {
        let mut covered = self.atoms.iter().filter(|atom| **atom & read.mask != 0);
        covered.all(|atom| atom & self.unknown != 0 || self.contents.contains(&(*atom, read.value & bytes_of(*atom))))
    }
}

/// The first place at or after `from` where a read may be that is at `to` by its version, if no version changed meanwhile.
///
/// Only writes can come after the read that had raised the version before and not yet stored their value: one of each
/// thread at most.
fn oldest_under_way(accesses: &[Access], writes: &[u32], from: u32, to: u32) -> u32 {
    let mut threads = BTreeSet::new();
    let is_under_way = |write: &&u32| threads.insert(accesses[**write as usize].thread);
    let newest_first = writes[from as usize..to as usize].iter().rev();
    to - newest_first.take_while(is_under_way).count() as u32
}

/// Writes by version, as far as program order allows.
fn in_order(accesses: &[Access]) -> Vec<u32> {
    let mut writes: Vec<u32> = (0..accesses.len() as u32)
        .filter(|&index| accesses[index as usize].writes)
        .collect();
    // A write with an older version than one before it in its thread comes as if it had that one's.
    let mut newest: Option<(u32, u64)> = None;
    let mut as_if = Vec::with_capacity(writes.len());
    for &write in &writes {
        let Access { thread, version, .. } = accesses[write as usize];
        let version = match newest {
            Some((same, before)) if same == thread => version.max(before),
            _ => version,
        };
        newest = Some((thread, version));
        as_if.push((version, write));
    }
    as_if.sort_unstable();
    writes.clear();
    writes.extend(as_if.iter().map(|(_, write)| *write));
    writes
}

fn contents(accesses: &[Access], writes: &[u32]) -> Vec<Content> {
    let mut contents = Vec::with_capacity(writes.len() + 1);
    let mut content = Content {
        initial: u8::MAX,
        ..Content::default()
    };
    contents.push(content);
    for &write in writes {
        let Access {
            mask, value, unknown, ..
        } = accesses[write as usize];
        content.initial &= !mask;
        content.value &= !bytes_of(mask);
        if unknown {
            content.unknown |= mask;
        } else {
            content.unknown &= !mask;
            content.value |= value;
        }
        contents.push(content);
    }
    contents
}

/// For each read, from which place to which it may be: its version, and program order, bound it.
///
/// `oldest`: of all places from each one on, the oldest version.
fn ranges(accesses: &[Access], places: &[u32], oldest: &[u64]) -> Vec<(u32, (u32, u32))> {
    let mut ranges = Vec::new();
    let mut end_of_thread = 0;
    for own in accesses.chunk_by(|one, other| one.thread == other.thread) {
        let base = end_of_thread;
        end_of_thread += own.len();
        let place = |index: usize| places[base + index];
        let mut from = 0;
        let mut next_write = 0;
        let mut index = 0;
        for event in own.chunk_by(|one, other| one.event == other.event) {
            let end = index + event.len();
            // The thread's own next write; one of the same event is no exception.
            next_write = next_write.max(index);
            while next_write < own.len() && !own[next_write].writes {
                next_write += 1;
            }
            let until = match next_write < own.len() {
                true => place(next_write),
                false => oldest.len() as u32,
            };
            let is_update = next_write < end;
            for read in (index..end).filter(|&read| !own[read].writes) {
                let bound = oldest.partition_point(|version| *version <= own[read].version) as u32;
                let range = match is_update {
                    // It was one moment: whatever comes between would have come between its halves.
                    true => (until, until),
                    false => (from, bound.clamp(from, until)),
                };
                ranges.push(((base + read) as u32, range));
            }
            for write in (index..end).filter(|&write| own[write].writes) {
                from = from.max(place(write) + 1);
            }
            index = end;
        }
    }
    ranges
}

struct Linker {
    /// After so many writes.
    contents: Vec<Content>,
    initial: Initial,
    /// For the bytes of some reads, where the cell had which content.
    indices: BTreeMap<u8, Index>,
}

#[derive(Default)]
struct Index {
    places: BTreeMap<u64, Vec<u32>>,
    /// Places where not all is known.
    uncertain: Vec<u32>,
}

impl Linker {
    /// The newest place in this range at which the cell had the value that was read.
    fn newest(&mut self, read: &Access, from: u32, to: u32) -> Option<u32> {
        let first = (from as usize).max((to as usize + 1).saturating_sub(STEPS)) as u32;
        if let Some(place) = (first..=to).rev().find(|&place| self.matches(read, place)) {
            return Some(place);
        }
        if first <= from {
            return None;
        }
        if !self.indices.contains_key(&read.mask) {
            let index = self.index(read.mask);
            self.indices.insert(read.mask, index);
        }
        let index = &self.indices[&read.mask];
        let within = |places: &[u32]| {
            let end = places.partition_point(|place| *place < first);
            let start = places.partition_point(|place| *place < from);
            start..end
        };
        let same = index.places.get(&read.value).map_or(&[][..], |places| &places[..]);
        let certain = same[within(same)].last().copied();
        let uncertain = &index.uncertain[within(&index.uncertain)];
        let newer = uncertain.iter().rev().take_while(|place| Some(**place) > certain);
        let uncertain = newer.copied().find(|&place| self.matches(read, place));
        certain.max(uncertain)
    }

    fn index(&self, mask: u8) -> Index {
        let mut index = Index::default();
        for (place, content) in (0..).zip(&self.contents) {
            let unsure = content.unknown | content.initial & !self.initial.known;
            if unsure & mask != 0 {
                index.uncertain.push(place);
            } else {
                let value = content.value | self.initial.value & bytes_of(content.initial);
                index.places.entry(value & bytes_of(mask)).or_default().push(place);
            }
        }
        index
    }

    /// Is it known to have had this content? Memory that nobody has written is mostly zero.
    fn is_known(&self, read: &Access, place: u32) -> bool {
        let content = self.contents[place as usize];
        let unwritten = content.initial & !self.initial.known & read.mask;
        let is_zero = read.value & bytes_of(unwritten) == 0;
        content.unknown & read.mask == 0 && is_zero && self.matches(read, place)
    }

    fn matches(&self, read: &Access, place: u32) -> bool {
        let content = self.contents[place as usize];
        let unsure = content.unknown | content.initial & !self.initial.known;
        let value = content.value | self.initial.value & bytes_of(content.initial);
        different_bytes(value, read.value) & read.mask & !unsure == 0
    }

    /// A read at this place saw what had been there from the beginning, where nobody had written.
    ///
    /// Returns the bytes of which that was not known.
    fn learn(&mut self, read: &Access, place: u32) -> u8 {
        if read.unknown {
            return 0;
        }
        let new = self.contents[place as usize].initial & read.mask & !self.initial.known;
        self.initial.known |= new;
        self.initial.value |= read.value & bytes_of(new);
        new
    }
}

impl Linkage {
    /// Orders that put the cell's accesses where they are, as pairs of indices: of any two to the same bytes of which one
    /// writes.
    pub(crate) fn edges(&self, accesses: &[Access], mut edge: impl FnMut(u32, u32)) {
        for atom in atoms(accesses) {
            let touches = |index: &u32| accesses[*index as usize].mask & atom != 0;
            let writes: Vec<u32> = self.writes.iter().copied().filter(touches).collect();
            for pair in writes.windows(2) {
                edge(pair[0], pair[1]);
            }
            // How many of them come before each place.
            let mut before = Vec::new();
            if writes.len() < self.writes.len() {
                before.push(0);
                for write in &self.writes {
                    before.push(before[before.len() - 1] + u32::from(touches(write)));
                }
            }
            for read in (0..accesses.len() as u32).filter(touches) {
                if accesses[read as usize].writes {
                    continue;
                }
                let place = self.places[read as usize] as usize;
                let place = before.get(place).map_or(place, |before| *before as usize);
                if let Some(before) = place.checked_sub(1) {
                    edge(writes[before], read);
                }
                if let Some(after) = writes.get(place) {
                    edge(read, *after);
                }
            }
        }
    }
}

/// The coarsest sets of bytes that every access covers wholly or not at all.
pub(crate) fn atoms(accesses: &[Access]) -> Vec<u8> {
    let mut atoms = vec![u8::MAX];
    let mut masks: Vec<u8> = Vec::new();
    for access in accesses {
        if !masks.contains(&access.mask) {
            masks.push(access.mask);
        }
    }
    for mask in &masks {
        let parts = atoms.iter().flat_map(|atom| [atom & mask, atom & !mask]);
        atoms = parts.filter(|part| *part != 0).collect();
    }
    let any = masks.iter().fold(0, |any, mask| any | mask);
    atoms.retain(|atom| atom & any != 0);
    atoms.sort_unstable();
    atoms
}
