//! One cell's accesses, and which write each read saw if versions tell.
use crate::versions::access::Access;
use crate::versions::access::bytes_of;
use crate::versions::access::different_bytes;
use crate::versions::access::is_locked;
use crate::versions::interleaving::Held;
use crate::versions::interleaving::Touch;
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

/// The order of a cell's writes by versions, and where in it the reads are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linkage {
    /// Indices of the writes, in their order.
    pub(crate) writes: Vec<u32>,
    /// For each access: of a write, its place in the order; of a read, how many writes come before it.
    pub(crate) places: Vec<u32>,
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
    /// No two writes have the same version, and versions agree with program order.
    pub(crate) orderly: bool,
    /// Bytes of which some read is taken to have seen what was there from the beginning, and a write not far from it wrote
    /// the same. Zero is believed: most memory that nobody has written is.
    pub(crate) doubtful: u8,
    /// What the cell held before its first write; and the bytes of which reads tell it.
    pub(crate) initial: Held,
}

/// So many places are tried one by one before the contents are indexed.
const STEPS: usize = 32;

/// A write that is so many places later may be what a read saw, rather than what was there before all.
const NEAR: u32 = 256;

/// What to believe of a read that no version disturbed, and that does not find its value where its version says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belief {
    /// The value, if it was written: a write was under way, or writes came in another order than their versions.
    Values,
    /// The version: somebody wrote unseen.
    Versions,
}

/// `accesses`: of one cell, by thread and record.
pub(crate) fn link(accesses: &[Access], belief: Belief) -> Linkage {
    let writes = in_order(accesses);
    let mut places = vec![0; accesses.len()];
    for (place, write) in (0..).zip(&writes) {
        places[*write as usize] = place;
    }
    let versions: Vec<u64> = writes.iter().map(|write| accesses[*write as usize].version).collect();
    let is_orderly = versions.is_sorted() && conflicts(versions.iter().copied()) == 0;
    let counted = is_orderly && is_locked(accesses);
    let mut linker = Linker {
        contents: contents(accesses, &writes),
        initial: Held::default(),
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
        if read.exact || read.told && belief == Belief::Versions {
            *from = *to;
        } else if read.quiet && is_orderly {
            *from = oldest_under_way(accesses, &writes, *from, *to);
        }
    }
    // What nobody can have overwritten before it was read was there from the beginning.
    let mut learned = Vec::new();
    for &(read, range) in &ranges {
        learned.push((read, linker.learn(&accesses[read as usize], range.1)));
    }
    // Whoever still saw version 0 after it had read saw no write.
    let is_certain = |read: &Access| read.version == 0 && !read.updates;
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
        learned.push((read, linker.learn(access, place)));
        places[read as usize] = place;
    }
    learned.retain(|(read, bytes)| *bytes != 0 && !is_certain(&accesses[*read as usize]));
    let mut doubtful = 0;
    for &(read, bytes) in &learned {
        let access = &accesses[read as usize];
        let near = places[read as usize].saturating_add(NEAR) as usize;
        for write in &writes[..near.min(writes.len())] {
            let write = &accesses[*write as usize];
            let same = match write.unknown {
                true => u8::MAX,
                false => !different_bytes(write.value, access.value) & different_bytes(access.value, 0),
            };
            doubtful |= write.mask & bytes & same;
        }
    }
    let mut foreign = unmatched.clone();
    if !foreign.is_empty() {
        let written = Written::new(accesses);
        foreign.retain(|read| accesses[*read as usize].told && !written.contains(&accesses[*read as usize]));
    }
    Linkage {
        writes,
        places,
        counted,
        unmatched,
        foreign,
        unwritten,
        unverifiable,
        orderly: is_orderly,
        doubtful,
        initial: linker.initial,
    }
}

/// Writes that share their version with another.
pub(crate) fn conflicts(versions: impl Iterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = versions.collect();
    sorted.sort_unstable();
    let shared = sorted.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
    shared.map(|same| same.len() as u64).sum()
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
    initial: Held,
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
    /// What each event has to do with the cell: the index of its first access, and that. `None`: an event writes twice.
    /// `is_torn`: what is read, and not known to have been there from the beginning, may have been written by a lost event.
    pub(crate) fn touches(&self, part: u32, accesses: &[Access], is_torn: bool) -> Option<Vec<(u32, Touch)>> {
        let of_event = |one: &Access, other: &Access| (one.thread, one.event) == (other.thread, other.event);
        let mut touches = Vec::new();
        let mut index = 0;
        for event in accesses.chunk_by(of_event) {
            let mut touch = Touch {
                part,
                ..Touch::default()
            };
            let first = index;
            for access in event {
                let place = self.places[index as usize];
                // Where it writes, if it does.
                if access.writes || touch.written == 0 {
                    touch.rank = place;
                }
                if access.writes && touch.written != 0 {
                    return None;
                } else if access.writes {
                    touch.written = access.mask;
                    touch.value = access.value;
                    touch.unknown = access.unknown;
                } else if self.foreign.binary_search(&index).is_err() {
                    if !access.unknown {
                        touch.read |= access.mask;
                        touch.saw |= access.value;
                    }
                    touch.saw_write |= is_torn && access.version != 0;
                }
                index += 1;
            }
            touches.push((first, touch));
        }
        Some(touches)
    }

    /// Puts the accesses into this order, by which all reads but the foreign ones see what they saw.
    pub(crate) fn put_into(&mut self, accesses: &[Access], order: impl Fn(&Access) -> usize) {
        let order: Vec<usize> = accesses.iter().map(order).collect();
        self.orderly &= self.writes.is_sorted_by_key(|write| order[*write as usize]);
        self.writes.sort_by_key(|write| order[*write as usize]);
        let contents = contents(accesses, &self.writes);
        self.unmatched.clone_from(&self.foreign);
        self.unverifiable.clone_from(&self.foreign);
        for (index, access) in (0..).zip(accesses) {
            let before = |write: &u32| order[*write as usize] < order[index as usize];
            let place = self.writes.partition_point(before);
            self.places[index as usize] = place as u32;
            if !access.writes && contents[place].initial & access.mask != 0 {
                self.unverifiable.push(index);
            }
        }
        self.unverifiable.sort_unstable();
        self.unverifiable.dedup();
        self.doubtful = 0;
    }

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
