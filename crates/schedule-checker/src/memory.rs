//! What recorded accesses require, where each was recorded with its value (methods stride and oreo).
//!
//! The execution that was tried is taken at its word: cell by cell, its accesses are done in its order, byte by byte. A read
//! has to find what it found when it was recorded. Then it is enough if nothing else can happen: of two accesses to a
//! byte of which one writes, the later has to come after the earlier one in every execution, and between neighbours it
//! has to be said; the rest follows.
//!
//! What a byte held before its first write is not recorded; all who see it have to agree. Bytes that somebody else wrote
//! (`Extent::unknown`) may be anything. A read of what nobody can have written, by the records, saw something that was not
//! recorded; it has to come where its version says, where versions are certain.
use crate::Rejection;
use crate::execution::Execution;
use crate::requirements::Because;
use crate::requirements::Requirement;
use crate::requirements::replayed;
use run_model::Evidence;
use run_model::Extent;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;

const CELL_BYTES: u64 = 8;

/// Where an access is: its cell, when it came, thread and gate.
type Place = (u64, u32, u32, u32);

#[derive(Clone, Copy)]
struct Access<'a> {
    thread: u32,
    gate: u32,
    record: &'a Record,
    extent: Extent,
}

impl Access<'_> {
    fn writes(&self) -> bool {
        self.record.kind == Kind::Write
    }

    fn is_same_event(&self, other: &Access<'_>) -> bool {
        (self.thread, self.record.event) == (other.thread, other.record.event)
    }

    /// When it is over.
    fn over(&self) -> Point {
        Point {
            thread: ThreadIndex(self.thread),
            count: self.record.event + 1,
        }
    }

    /// Its bytes, as places in the cell.
    fn bytes(&self) -> Range<usize> {
        let first = (self.record.object % CELL_BYTES) as usize;
        first..first + usize::from(self.extent.bytes)
    }

    /// What it read or wrote at this place; `None`: unknown.
    fn byte(&self, place: usize) -> Option<u8> {
        let shift = 8 * (place - self.bytes().start);
        (!self.extent.unknown).then_some((self.record.value >> shift) as u8)
    }
}

/// Marks threads of whose last, uncounted event another thread may have read what it wrote.
pub(crate) fn mark_in_flight<'a>(logs: &'a Logs, seen: &mut [bool]) {
    let access = |thread: usize, record: &'a Record| {
        let extent = Extent::unpack(record.access, record.object)?;
        Some(Access {
            thread: thread as u32,
            gate: 0,
            record,
            extent,
        })
    };
    let mut writes: BTreeMap<u64, Vec<Access<'_>>> = BTreeMap::new();
    for (thread, log) in logs.threads.iter().enumerate() {
        let last = log.records.iter().rev().take_while(|r| r.event >= log.events);
        for record in last.filter(|r| r.event == log.events && r.kind == Kind::Write) {
            let cell = writes.entry(record.object / CELL_BYTES).or_default();
            cell.extend(access(thread, record));
        }
    }
    if writes.is_empty() {
        return;
    }
    for (thread, log) in logs.threads.iter().enumerate() {
        for record in log
            .records
            .iter()
            .filter(|r| r.kind == Kind::Read && r.event <= log.events)
        {
            let Some(read) = access(thread, record) else { continue };
            for write in writes.get(&(record.object / CELL_BYTES)).into_iter().flatten() {
                let mut both = read.bytes().filter(|place| write.bytes().contains(place)).peekable();
                let agree = |place| match (read.byte(place), write.byte(place)) {
                    (Some(one), Some(other)) => one == other,
                    _ => true,
                };
                if write.thread != read.thread && both.peek().is_some() && both.all(agree) {
                    seen[write.thread as usize] = true;
                }
            }
        }
    }
}

/// Adds the requirements of all cells.
pub(crate) fn require(
    logs: &Logs,
    schedule: &Schedule,
    execution: &Execution,
    out: &mut Vec<Requirement>,
) -> Result<(), Rejection> {
    let mut places: Vec<Place> = replayed(logs, schedule)
        .filter(|(_, _, record)| record.kind.is_versioned())
        .filter(|(_, _, record)| Extent::unpack(record.access, record.object).is_some())
        .map(|(thread, gate, record)| {
            let cell = record.object / CELL_BYTES;
            // An event happens when its last gate is passed.
            let records = &logs.threads[thread as usize].records[gate as usize + 1..];
            let more = records.iter().take_while(|r| r.event == record.event).count() as u32;
            (
                cell,
                execution.place[thread as usize][(gate + more) as usize],
                thread,
                gate,
            )
        })
        .collect();
    places.sort_unstable();
    let mut accesses = Vec::new();
    for cell in places.chunk_by(|one, other| one.0 == other.0) {
        accesses.clear();
        accesses.extend(cell.iter().filter_map(|&(_, _, thread, gate)| {
            let record = &logs.threads[thread as usize].records[gate as usize];
            let extent = Extent::unpack(record.access, record.object)?;
            Some(Access {
                thread,
                gate,
                record,
                extent,
            })
        }));
        // What an event reads it reads first.
        for event in accesses.chunk_by_mut(|one, other| one.is_same_event(other)) {
            event.sort_by_key(Access::writes);
        }
        require_order(&accesses, out);
        check_values(logs.method.evidence(), &accesses)?;
    }
    Ok(())
}

/// Ranges of bytes that each access covers wholly or not at all.
fn atoms(accesses: &[Access<'_>]) -> Vec<usize> {
    let mut borders = BTreeSet::new();
    for access in accesses {
        borders.extend([access.bytes().start, access.bytes().end]);
    }
    borders.into_iter().collect()
}

/// Neighbours come after each other.
fn require_order(accesses: &[Access<'_>], out: &mut Vec<Requirement>) {
    let borders = atoms(accesses);
    // For each range of bytes, its last write and who has read it since: the last read of each thread is enough.
    let mut writes: Vec<Option<Access<'_>>> = vec![None; borders.len()];
    let mut reads: Vec<BTreeMap<u32, Access<'_>>> = vec![BTreeMap::new(); borders.len()];
    for access in accesses {
        let mut require = |before: &Access<'_>, because| {
            if before.thread != access.thread {
                out.push(Requirement::new(access.thread, access.gate, before.over(), because));
            }
        };
        let mut last = None;
        for atom in (0..borders.len()).filter(|atom| access.bytes().contains(&borders[*atom])) {
            // One write is the last of several ranges.
            if let Some(write) = &writes[atom]
                && last != Some((write.thread, write.gate))
            {
                last = Some((write.thread, write.gate));
                require(
                    write,
                    if access.writes() {
                        Because::Writes
                    } else {
                        Because::Flow
                    },
                );
            }
            if access.writes() {
                for read in std::mem::take(&mut reads[atom]).values() {
                    require(read, Because::Overwrite);
                }
                writes[atom] = Some(*access);
            } else {
                reads[atom].insert(access.thread, *access);
            }
        }
    }
}

/// What is known of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Byte {
    Initial,
    Unknown,
    Known(u8),
}

/// Does every read find what it found?
fn check_values(evidence: Evidence, accesses: &[Access<'_>]) -> Result<(), Rejection> {
    let mut bytes = [Byte::Initial; CELL_BYTES as usize];
    let mut initial = [None; CELL_BYTES as usize];
    let mut unexplained = None;
    for (index, access) in accesses.iter().enumerate() {
        if access.writes() {
            for place in access.bytes() {
                bytes[place] = access.byte(place).map_or(Byte::Unknown, Byte::Known);
            }
            continue;
        }
        let mut is_found = true;
        for place in access.bytes() {
            let Some(value) = access.byte(place) else { continue };
            is_found &= match bytes[place] {
                Byte::Unknown => true,
                Byte::Known(found) => found == value,
                Byte::Initial => *initial[place].get_or_insert(value) == value,
            };
        }
        if !is_found {
            let unexplained = unexplained.get_or_insert_with(|| Unexplained::new(evidence, accesses));
            if !unexplained.contains(index) {
                return Err(Rejection::Value {
                    address: access.record.object,
                    thread: ThreadIndex(access.thread),
                    event: access.record.event,
                });
            }
        }
    }
    Ok(())
}

/// Finds reads of what nobody can have written.
struct Unexplained<'a> {
    accesses: &'a [Access<'a>],
    around: Around,
    how: Explanations,
}

enum Explanations {
    /// For each range of bytes, all that it may have held; `None`: anything.
    Anywhere {
        borders: Vec<usize>,
        written: Vec<Option<BTreeSet<Vec<u8>>>>,
    },
    /// Writes happened in the order of their versions.
    Versions(Versions),
}

/// Nobody writes this.
const NEVER: u16 = 256;

struct Versions {
    /// Version and index of each write, ascending.
    writes: Vec<(u64, usize)>,
    /// For each byte what it held before the first write; `None`: nobody knows. `NEVER`: those who read it do not agree.
    initial: [Option<u16>; CELL_BYTES as usize],
    /// By the bytes that reads are about.
    contents: BTreeMap<(usize, usize), Contents>,
}

/// For each access, the newest version that is written before it, and the oldest that is written after it.
struct Around {
    newest_before: Vec<u64>,
    oldest_after: Vec<u64>,
}

impl Around {
    fn new(accesses: &[Access<'_>]) -> Around {
        let mut newest_before = Vec::with_capacity(accesses.len());
        let mut newest = 0;
        for access in accesses {
            newest_before.push(newest);
            if access.writes() {
                newest = newest.max(access.record.version);
            }
        }
        let mut oldest_after = vec![u64::MAX; accesses.len()];
        let mut oldest = u64::MAX;
        for (access, place) in accesses.iter().zip(&mut oldest_after).rev() {
            *place = oldest;
            if access.writes() {
                oldest = oldest.min(access.record.version);
            }
        }
        Around {
            newest_before,
            oldest_after,
        }
    }

    /// Is the read where its version says?
    fn is_at_its_version(&self, index: usize, read: &Access<'_>) -> bool {
        let bound = read.record.version;
        self.newest_before[index] <= bound && self.oldest_after[index] > bound
    }
}

/// The oldest version with each content; and versions after which not all of it is known, with what is.
#[derive(Default)]
struct Contents {
    oldest: BTreeMap<Vec<u16>, u64>,
    uncertain: Vec<(u64, Vec<Option<u16>>)>,
}

impl<'a> Unexplained<'a> {
    fn new(evidence: Evidence, accesses: &'a [Access<'a>]) -> Unexplained<'a> {
        let how = match evidence {
            Evidence::Versions if are_counted(accesses) => Explanations::Versions(Versions::new(accesses)),
            _ => anywhere(accesses),
        };
        Unexplained {
            accesses,
            around: Around::new(accesses),
            how,
        }
    }

    /// Is there no way to explain this read?
    fn contains(&mut self, index: usize) -> bool {
        let read = &self.accesses[index];
        let is_at_its_version = self.around.is_at_its_version(index, read);
        // A read that nobody disturbed is where its version says; what it saw besides was written unseen.
        if is_at_its_version && read.extent.quiet {
            return true;
        }
        match &mut self.how {
            Explanations::Anywhere { borders, written } => {
                let is_unwritten = |(atom, range): (usize, Range<usize>)| {
                    let content = range.map(|place| read.byte(place)).collect::<Option<Vec<u8>>>();
                    let all: &Option<BTreeSet<Vec<u8>>> = &written[atom];
                    content.is_some_and(|content| all.as_ref().is_some_and(|all| !all.contains(&content)))
                };
                ranges(borders, read).any(is_unwritten)
            }
            Explanations::Versions(versions) => is_at_its_version && versions.cannot_explain(self.accesses, index),
        }
    }
}

/// Are versions the order of the writes? No two are equal, and they agree with program order.
fn are_counted(accesses: &[Access<'_>]) -> bool {
    let writes = accesses.iter().filter(|access| access.writes());
    let mut writes: Vec<(u64, u32, u64, u32)> = writes
        .map(|write| (write.record.version, write.thread, write.record.event, write.gate))
        .collect();
    writes.sort_unstable();
    let mut last: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    let is_next = |&(_, thread, event, gate): &(u64, u32, u64, u32)| {
        last.insert(thread, (event, gate))
            .is_none_or(|before| before < (event, gate))
    };
    writes.windows(2).all(|pair| pair[0].0 != pair[1].0) && writes.iter().all(is_next)
}

/// What was written, and what must have been there before, because nobody wrote it.
fn anywhere(accesses: &[Access<'_>]) -> Explanations {
    let borders = atoms(accesses);
    let contents = |writes: bool| {
        let mut contents = vec![Some(BTreeSet::new()); borders.len()];
        for access in accesses.iter().filter(|access| access.writes() == writes) {
            for (atom, range) in ranges(&borders, access) {
                match range.map(|place| access.byte(place)).collect::<Option<Vec<u8>>>() {
                    Some(content) => _ = contents[atom].as_mut().map(|all: &mut BTreeSet<_>| all.insert(content)),
                    None if writes => contents[atom] = None,
                    None => {}
                }
            }
        }
        contents
    };
    let (mut written, read) = (contents(true), contents(false));
    for (written, read) in written.iter_mut().zip(read) {
        if let (Some(written), Some(read)) = (written, read) {
            let mut unwritten = read.difference(written).cloned();
            // If there are two, one was not there from the beginning; nobody knows which.
            if let (Some(initial), None) = (unwritten.next(), unwritten.next()) {
                drop(unwritten);
                written.insert(initial);
            }
        }
    }
    Explanations::Anywhere { borders, written }
}

impl Versions {
    fn new(accesses: &[Access<'_>]) -> Versions {
        let indexed = accesses.iter().enumerate().filter(|(_, access)| access.writes());
        let mut writes: Vec<(u64, usize)> = indexed.map(|(index, write)| (write.record.version, index)).collect();
        writes.sort_unstable();
        let mut firsts = [u64::MAX; CELL_BYTES as usize];
        for &(version, index) in &writes {
            for place in accesses[index].bytes() {
                firsts[place] = firsts[place].min(version);
            }
        }
        let mut initial = [None; CELL_BYTES as usize];
        for read in accesses.iter().filter(|access| !access.writes()) {
            for place in read.bytes().filter(|place| read.record.version < firsts[*place]) {
                if let Some(value) = read.byte(place).map(u16::from) {
                    let before = initial[place].get_or_insert(value);
                    if *before != value {
                        *before = NEVER;
                    }
                }
            }
        }
        Versions {
            writes,
            initial,
            contents: BTreeMap::new(),
        }
    }

    fn cannot_explain(&mut self, accesses: &[Access<'_>], index: usize) -> bool {
        let read = &accesses[index];
        let bytes = read.bytes();
        let contents = self
            .contents
            .entry((bytes.start, bytes.end))
            .or_insert_with(|| Contents::new(accesses, &self.writes, &self.initial, bytes.clone()));
        let bound = read.record.version;
        let wanted: Vec<u16> = bytes.filter_map(|place| read.byte(place)).map(u16::from).collect();
        let may_be = |(version, content): &(u64, Vec<Option<u16>>)| {
            let mut pairs = content.iter().zip(&wanted);
            *version <= bound && pairs.all(|(one, other)| one.is_none_or(|one| one == *other))
        };
        // An update is where its own write is.
        let is_update = accesses[index + 1..]
            .iter()
            .take_while(|other| other.is_same_event(read))
            .any(Access::writes);
        let is_explained = contents.oldest.get(&wanted).is_some_and(|oldest| *oldest <= bound)
            || contents.uncertain.iter().any(may_be);
        is_update || !is_explained
    }
}

impl Contents {
    /// `versions`: version and index of each write, ascending.
    fn new(
        accesses: &[Access<'_>],
        versions: &[(u64, usize)],
        initial: &[Option<u16>],
        bytes: Range<usize>,
    ) -> Contents {
        let mut contents = Contents::default();
        let mut content = initial[bytes.clone()].to_vec();
        contents.enter(0, &content);
        for &(version, index) in versions {
            let write = &accesses[index];
            for place in bytes.clone().filter(|place| write.bytes().contains(place)) {
                content[place - bytes.start] = write.byte(place).map(u16::from);
            }
            contents.enter(version, &content);
        }
        contents
    }

    fn enter(&mut self, version: u64, content: &[Option<u16>]) {
        match content.iter().copied().collect::<Option<Vec<u16>>>() {
            Some(known) => _ = self.oldest.entry(known).or_insert(version),
            None => self.uncertain.push((version, content.to_vec())),
        }
    }
}

/// The ranges of bytes between borders that an access covers.
fn ranges<'a>(borders: &'a [usize], access: &'a Access<'_>) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
    let pairs = borders.windows(2).enumerate();
    pairs
        .map(|(atom, pair)| (atom, pair[0]..pair[1]))
        .filter(|(_, range)| access.bytes().contains(&range.start))
}
