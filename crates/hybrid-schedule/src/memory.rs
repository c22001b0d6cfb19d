//! Who used which byte last: its last write, and each thread's last read since.
//!
//! Blocks of 64 bytes are kept in granules of one size each, 64 bytes down to 1: the largest with which no access to the block was
//! ever smaller than a granule or crossed its border. So two accesses meet in a granule exactly if they share a byte, and no
//! access to one half of a word hides one to the other half.
use crate::Unusable;
use crate::reader_sets::ReaderSets;
use crate::reader_sets::SetId;
use crate::table::Table;

/// An instance: thread and number. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference(u64);

const NUMBER_BITS: u32 = 43;
/// The highest bit says that a word is no reference but a set of them.
pub(crate) const THREADS_MAX: usize = 1 << (63 - NUMBER_BITS);
pub(crate) const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 2;
const SET: u64 = 1 << 63;

impl Reference {
    pub fn new(thread: usize, number: u64) -> Reference {
        Reference((thread as u64) << NUMBER_BITS | (number + 1))
    }

    #[inline]
    pub fn thread(self) -> usize {
        (self.0 >> NUMBER_BITS) as usize
    }

    pub fn number(self) -> u64 {
        (self.0 & (NUMBER_MAX + 1)) - 1
    }
}

/// What there is to know of some bytes; all zero if nobody used them.
#[derive(Clone, Copy, Debug, Default)]
struct Granule {
    write: u64,
    /// Nobody, one thread, or a set of them.
    reads: u64,
}

const BLOCK_BYTES: u64 = 64;
const BLOCKS: usize = 64;
const PAGE_BYTES: u64 = BLOCK_BYTES * BLOCKS as u64;
/// Granules of 64, 32, 16, 8, 4, 2, 1 bytes.
const LEVELS: usize = 7;
const LEVEL_SHIFT: u32 = 29;
const CACHED_PAGES: usize = 8;
const NO_PAGE: u64 = u64::MAX;

/// What of a granule conflicts with an access, and what it knows afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub reads: bool,
    pub writes: bool,
}

/// Is this instance ordered before the one that is being looked at, by synchronisation alone?
pub(crate) trait Ordered {
    fn is_before(&mut self, earlier: Reference) -> bool;
}

#[derive(Debug)]
pub(crate) struct Memory {
    pages: Table,
    /// A word for each block of each page: 0, or level + 1 and its index among the blocks of that level.
    blocks: Vec<u32>,
    /// Blocks of one level, granule by granule.
    levels: [Vec<Granule>; LEVELS],
    free: [Vec<u32>; LEVELS],
    readers: ReaderSets,
    /// The last pages that each thread used.
    cache: Vec<[(u64, u32); CACHED_PAGES]>,
}

impl Memory {
    pub fn new(threads: usize) -> Memory {
        Memory {
            pages: Table::new(),
            blocks: Vec::new(),
            levels: Default::default(),
            free: Default::default(),
            readers: ReaderSets::default(),
            cache: vec![[(NO_PAGE, 0); CACHED_PAGES]; threads],
        }
    }

    /// `me` uses these bytes. Everything that conflicts with it and is the nearest to do so is added to `conflicts`, repeatedly
    /// perhaps, whether or not it is ordered; but `ordered` may make it leave out what follows from others.
    #[inline]
    pub fn access<E>(
        &mut self,
        me: Reference,
        address: u64,
        bytes: u32,
        how: Use,
        ordered: &mut impl Ordered,
        conflicts: &mut Vec<Reference>,
    ) -> Result<(), Unusable<E>> {
        let end = address.saturating_add(u64::from(bytes));
        let mut at = address;
        while at < end {
            let page = self.page(me.thread(), at / PAGE_BYTES)?;
            let page_end = (at / PAGE_BYTES).saturating_add(1).saturating_mul(PAGE_BYTES).min(end);
            while at < page_end {
                let first = at % BLOCK_BYTES;
                let last = (first + (page_end - at)).min(BLOCK_BYTES);
                let block = page * BLOCKS + (at % PAGE_BYTES / BLOCK_BYTES) as usize;
                self.access_block(block, first as usize..last as usize, me, how, ordered, conflicts)
                    .ok_or(Unusable::TooLarge {
                        what: "bytes of memory",
                    })?;
                at += last - first;
            }
        }
        Ok(())
    }

    #[inline]
    fn page<E>(&mut self, thread: usize, number: u64) -> Result<usize, Unusable<E>> {
        let cached = &mut self.cache[thread][number as usize % CACHED_PAGES];
        if cached.0 == number {
            return Ok(cached.1 as usize);
        }
        let (page, is_new) = self.pages.number(number).ok_or(Unusable::TooLarge {
            what: "pages of memory",
        })?;
        if is_new {
            self.blocks.resize(self.blocks.len() + BLOCKS, 0);
        }
        *cached = (number, page);
        Ok(page as usize)
    }

    #[inline]
    fn access_block(
        &mut self,
        block: usize,
        bytes: std::ops::Range<usize>,
        me: Reference,
        how: Use,
        ordered: &mut impl Ordered,
        conflicts: &mut Vec<Reference>,
    ) -> Option<()> {
        // Both ends are borders of granules.
        let wanted = 6 - (bytes.start | bytes.end | BLOCK_BYTES as usize).trailing_zeros() as usize;
        let word = self.blocks[block];
        let (level, index) = match word {
            0 => self.create(block, wanted)?,
            _ => ((word >> LEVEL_SHIFT) as usize - 1, word & ((1 << LEVEL_SHIFT) - 1)),
        };
        let (level, index) = if level < wanted {
            self.refine(block, level, index, wanted)?
        } else {
            (level, index)
        };
        let first = (index as usize) << level;
        let granule_shift = 6 - level;
        let granules = first + (bytes.start >> granule_shift)..first + (bytes.end >> granule_shift);
        for granule in &mut self.levels[level][granules] {
            if how.writes {
                write(granule, me, &mut self.readers, conflicts);
            } else if how.reads {
                read(granule, me, &mut self.readers, ordered, conflicts)?;
            }
        }
        Some(())
    }

    /// `None`: there are too many.
    fn create(&mut self, block: usize, level: usize) -> Option<(usize, u32)> {
        let index = match self.free[level].pop() {
            Some(index) => index,
            None => {
                let granules = &mut self.levels[level];
                let index = u32::try_from(granules.len() >> level)
                    .ok()
                    .filter(|index| index >> LEVEL_SHIFT == 0)?;
                granules.resize(granules.len() + (1 << level), Granule::default());
                index
            }
        };
        self.blocks[block] = (level as u32 + 1) << LEVEL_SHIFT | index;
        Some((level, index))
    }

    /// The block's granules, each cut into equal smaller ones that know what it knew.
    fn refine(&mut self, block: usize, level: usize, index: u32, wanted: usize) -> Option<(usize, u32)> {
        let created = self.create(block, wanted)?;
        let (from, to) = ((index as usize) << level, (created.1 as usize) << wanted);
        let pieces = 1 << (wanted - level);
        for granule in 0..1 << level {
            let known = std::mem::take(&mut self.levels[level][from + granule]);
            for piece in 0..pieces {
                let reads = match known.reads & SET {
                    0 => known.reads,
                    // The last piece inherits the set itself.
                    _ if piece + 1 == pieces => known.reads,
                    _ => SET | self.readers.copy(SetId(known.reads & !SET))?.0,
                };
                self.levels[wanted][to + granule * pieces + piece] = Granule { reads, ..known };
            }
        }
        self.free[level].push(index);
        Some(created)
    }
}

/// After a write nothing before it matters: whatever conflicts with that conflicts with the write as well.
#[inline]
fn write(granule: &mut Granule, me: Reference, readers: &mut ReaderSets, conflicts: &mut Vec<Reference>) {
    let mut found = |word: u64| {
        if Reference(word).thread() != me.thread() {
            conflicts.push(Reference(word));
        }
    };
    match granule.reads {
        // Where there are reads since the last write, they follow it, and we follow them.
        0 if granule.write != 0 => found(granule.write),
        0 => {}
        reads if reads & SET == 0 => found(reads),
        reads => {
            let set = SetId(reads & !SET);
            readers
                .get(set)
                .iter()
                .take_while(|word| **word != 0)
                .for_each(|word| found(*word));
            readers.remove(set);
        }
    }
    *granule = Granule { write: me.0, reads: 0 };
}

#[inline]
fn read(
    granule: &mut Granule,
    me: Reference,
    readers: &mut ReaderSets,
    ordered: &mut impl Ordered,
    conflicts: &mut Vec<Reference>,
) -> Option<()> {
    if granule.write != 0 && Reference(granule.write).thread() != me.thread() {
        conflicts.push(Reference(granule.write));
    }
    // An earlier read that is ordered before this one need not be kept: whoever writes later comes after this one.
    let mut is_past = |word: u64| {
        let reference = Reference(word);
        reference.thread() == me.thread() || ordered.is_before(reference)
    };
    match granule.reads {
        0 => granule.reads = me.0,
        reads if reads & SET == 0 => {
            granule.reads = match is_past(reads) {
                true => me.0,
                false => SET | readers.create(&[reads, me.0])?.0,
            };
        }
        reads => {
            let set = SetId(reads & !SET);
            let words = readers.get_mut(set);
            let mut kept = 0;
            for at in 0..words.len() {
                let word = std::mem::take(&mut words[at]);
                if word == 0 {
                    break;
                }
                if !is_past(word) {
                    words[kept] = word;
                    kept += 1;
                }
            }
            if kept < words.len() {
                words[kept] = me.0;
            } else {
                let mut references = words.to_vec();
                references.push(me.0);
                readers.remove(set);
                granule.reads = SET | readers.create(&references)?.0;
            }
        }
    }
    Some(())
}
