//! For each byte of memory, who used it: its last write, and every thread's last read since.
//!
//! A byte has the number of such a history. Bytes that were always used together have the same one, which knows how many they are.
use std::collections::BTreeMap;

/// An access of a thread, counted from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub thread: u32,
    pub access: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub reads: bool,
    pub writes: bool,
}

/// 19 bits of a thread, 44 bits of an access. The highest bit is not set.
type Packed = u64;
const ACCESS_BITS: u32 = 44;
/// Nobody.
const NONE: u64 = u64::MAX;
/// Instead of the only reader: this, and the number of a list of readers.
const LISTED: u64 = 1 << 63;

fn pack(reference: Reference) -> Packed {
    u64::from(reference.thread) << ACCESS_BITS | reference.access
}

fn unpack(packed: Packed) -> Reference {
    Reference {
        thread: (packed >> ACCESS_BITS) as u32,
        access: packed & ((1 << ACCESS_BITS) - 1),
    }
}

/// The last write, and who has read since. There may be one for each byte of the traces, so it is small.
#[derive(Clone, Copy, Debug)]
struct History {
    write: u64,
    readers: u64,
}

impl History {
    const EMPTY: History = History {
        write: NONE,
        readers: NONE,
    };

    fn list(self) -> Option<usize> {
        (self.readers != NONE && self.readers & LISTED != 0).then_some((self.readers & !LISTED) as usize)
    }
}

/// Lists of several readers.
#[derive(Default)]
struct Lists {
    lists: Vec<Vec<Packed>>,
    free: Vec<usize>,
}

impl Lists {
    fn insert(&mut self, list: Vec<Packed>) -> u64 {
        let place = self.free.pop().unwrap_or(self.lists.len());
        match self.lists.get_mut(place) {
            Some(free) => *free = list,
            None => self.lists.push(list),
        }
        LISTED | place as u64
    }

    fn reads<'a>(&'a self, history: &'a History) -> &'a [Packed] {
        match history.list() {
            Some(list) => &self.lists[list],
            None if history.readers == NONE => &[],
            None => std::slice::from_ref(&history.readers),
        }
    }

    /// Another one that is the same.
    fn copy(&mut self, history: History) -> History {
        match history.list() {
            Some(list) => History {
                readers: self.insert(self.lists[list].clone()),
                ..history
            },
            None => history,
        }
    }

    fn add(&mut self, history: &mut History, me: Reference, how: Use) {
        if how.writes {
            if let Some(list) = history.list() {
                self.lists[list] = Vec::new();
                self.free.push(list);
            }
            *history = History {
                write: pack(me),
                ..History::EMPTY
            };
            return;
        }
        let is_mine = |packed: &Packed| unpack(*packed).thread == me.thread;
        match history.list() {
            Some(list) => match self.lists[list].iter_mut().find(|packed| is_mine(packed)) {
                Some(packed) => *packed = pack(me),
                None => {
                    self.lists[list].reserve_exact(1);
                    self.lists[list].push(pack(me));
                }
            },
            None if history.readers == NONE || is_mine(&history.readers) => history.readers = pack(me),
            None => history.readers = self.insert(vec![history.readers, pack(me)]),
        }
    }

    /// How many accesses of others it conflicts with, or one that `clock` does not know of.
    fn conflicts(&self, history: &History, me: Reference, how: Use, clock: &[u64]) -> Result<u64, Reference> {
        let write = (history.write != NONE).then_some(&history.write);
        let reads = if how.writes { self.reads(history) } else { &[] };
        let mut conflicts = 0;
        for packed in write.into_iter().chain(reads) {
            let earlier = unpack(*packed);
            if earlier.thread == me.thread {
                continue;
            }
            conflicts += 1;
            if clock[earlier.thread as usize] <= earlier.access {
                return Err(earlier);
            }
        }
        Ok(conflicts)
    }
}

const PAGE_BYTES: u64 = 1 << 12;
/// Bytes that are usually used together have one number.
const WORD_BYTES: usize = 8;
const PAGE_WORDS: usize = PAGE_BYTES as usize / WORD_BYTES;
/// The history of bytes that nobody has used.
const UNUSED: u32 = 0;
/// Instead of a history: the bytes of the word have different ones, and this is the number of a list of them.
const DIVIDED: u32 = 1 << 31;

pub(super) struct Bytes {
    pages: BTreeMap<u64, usize>,
    /// Page after page, the number of each word's history.
    words: Vec<u32>,
    /// The numbers of bytes' histories, of words that are divided.
    divided: Vec<[u32; WORD_BYTES]>,
    undivided: Vec<u32>,
    histories: Vec<History>,
    /// How many bytes have each.
    users: Vec<u32>,
    lists: Lists,
    /// Each thread's last page.
    last: Vec<(u64, usize)>,
}

impl Bytes {
    pub fn new(threads: usize) -> Bytes {
        Bytes {
            pages: BTreeMap::new(),
            words: Vec::new(),
            divided: Vec::new(),
            undivided: Vec::new(),
            histories: vec![History::EMPTY],
            users: vec![0],
            lists: Lists::default(),
            last: vec![(u64::MAX, 0); threads],
        }
    }

    /// How many accesses of others it conflicts with, or the first of them that `clock` does not know of, with its address.
    pub fn access(
        &mut self,
        me: Reference,
        address: u64,
        bytes: u32,
        how: Use,
        clock: &[u64],
    ) -> Result<u64, (u64, Reference)> {
        // It conflicts with nobody, and leaves nothing behind.
        if !how.reads && !how.writes {
            return Ok(0);
        }
        let end = address.saturating_add(u64::from(bytes));
        let (mut at, mut conflicts) = (address, 0);
        while at < end {
            let page = self.page(me.thread as usize, at / PAGE_BYTES);
            let length = (end - at).min(PAGE_BYTES - at % PAGE_BYTES) as usize;
            let mut from = page * WORD_BYTES + (at % PAGE_BYTES) as usize;
            let to = from + length;
            while from < to {
                let (number, run) = self.run(from, to);
                conflicts += self
                    .lists
                    .conflicts(&self.histories[number as usize], me, how, clock)
                    .map_err(|earlier| (at, earlier))?;
                self.renew(number, from, run, me, how);
                from += run;
                at += run as u64;
            }
        }
        Ok(conflicts)
    }

    /// Where the words of a page begin.
    fn page(&mut self, thread: usize, number: u64) -> usize {
        let (last, page) = self.last[thread];
        if last == number {
            return page;
        }
        let page = *self.pages.entry(number).or_insert_with(|| {
            let page = self.words.len();
            self.words.resize(page + PAGE_WORDS, UNUSED);
            page
        });
        self.last[thread] = (number, page);
        page
    }

    /// The history of the byte at `from`, and how many bytes have it from there on, up to `to`.
    fn run(&self, from: usize, to: usize) -> (u32, usize) {
        let number_of = |at: usize| match self.words[at / WORD_BYTES] {
            divided if divided & DIVIDED != 0 => self.divided[(divided & !DIVIDED) as usize][at % WORD_BYTES],
            number => number,
        };
        let number = number_of(from);
        let mut at = from;
        while at < to {
            let word_end = (at / WORD_BYTES + 1) * WORD_BYTES;
            if self.words[at / WORD_BYTES] == number {
                at = word_end.min(to);
            } else if number_of(at) == number {
                at += 1;
            } else {
                break;
            }
        }
        (number, at - from)
    }

    /// `run` bytes, which had this history, are used.
    fn renew(&mut self, number: u32, from: usize, run: usize, me: Reference, how: Use) {
        if number != UNUSED && self.users[number as usize] == run as u32 {
            return self.lists.add(&mut self.histories[number as usize], me, how);
        }
        // Who writes begins anew.
        let mut history = match how.writes {
            true => History::EMPTY,
            false => self.lists.copy(self.histories[number as usize]),
        };
        self.lists.add(&mut history, me, how);
        if number != UNUSED {
            // Others keep it: a history is never without bytes.
            self.users[number as usize] -= run as u32;
        }
        let renewed = self.histories.len() as u32;
        assert!(renewed < DIVIDED, "{renewed} histories of bytes are too many");
        self.histories.push(history);
        self.users.push(run as u32);
        self.set(from, run, renewed);
    }

    fn set(&mut self, from: usize, run: usize, number: u32) {
        let (mut at, to) = (from, from + run);
        while at < to {
            let word = at / WORD_BYTES;
            let until = to.min((word + 1) * WORD_BYTES);
            let old = self.words[word];
            let is_divided = old & DIVIDED != 0;
            if until - at == WORD_BYTES {
                if is_divided {
                    self.undivided.push(old);
                }
                self.words[word] = number;
            } else {
                if !is_divided {
                    self.divide(word);
                }
                let list = (self.words[word] & !DIVIDED) as usize;
                self.divided[list][at % WORD_BYTES..at % WORD_BYTES + until - at].fill(number);
            }
            at = until;
        }
    }

    fn divide(&mut self, word: usize) {
        let numbers = [self.words[word]; WORD_BYTES];
        self.words[word] = match self.undivided.pop() {
            Some(free) => {
                self.divided[(free & !DIVIDED) as usize] = numbers;
                free
            }
            None => {
                self.divided.push(numbers);
                (self.divided.len() - 1) as u32 | DIVIDED
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// One byte at a time, and everything written down.
    #[derive(Default)]
    struct Plain {
        uses: BTreeMap<u64, (Option<Reference>, Vec<Reference>)>,
    }

    impl Plain {
        /// All accesses of others that conflict with it.
        fn access(&mut self, me: Reference, address: u64, bytes: u32, how: Use) -> Vec<(u64, Reference)> {
            let mut met = Vec::new();
            for at in address..address + u64::from(bytes) {
                let (write, reads) = self.uses.entry(at).or_default();
                let others = write.iter().chain(reads.iter().filter(|_| how.writes));
                met.extend(
                    others
                        .filter(|other| other.thread != me.thread)
                        .map(|other| (at, *other)),
                );
                if how.writes {
                    (*write, *reads) = (Some(me), Vec::new());
                } else {
                    reads.retain(|other| other.thread != me.thread);
                    reads.push(me);
                }
            }
            met
        }
    }

    fn mix(number: u64) -> u64 {
        let mixed = (number ^ 0x5851_f42d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    #[test]
    fn it_finds_what_a_plain_list_finds() {
        for seed in 0..40 {
            let (mut bytes, mut plain) = (Bytes::new(3), Plain::default());
            for turn in 0..2_000u64 {
                let mixed = mix(mix(seed) + turn);
                let me = Reference {
                    thread: (mixed % 3) as u32,
                    access: turn,
                };
                // Across words, and across pages.
                let address = PAGE_BYTES - 40 + (mixed >> 8) % 80;
                let length = [1, 2, 4, 8, 8, 8, 16, 64][(mixed >> 20) as usize % 8];
                let writes = (mixed >> 30).is_multiple_of(3);
                let how = Use { reads: !writes, writes };
                let met = plain.access(me, address, length, how);
                // Everything is known but, sometimes, one thread's accesses.
                let mut clock = vec![u64::MAX; 3];
                let unknown = met.iter().find(|_| mixed.is_multiple_of(5)).copied();
                if let Some((_, other)) = unknown {
                    clock[other.thread as usize] = 0;
                }
                let found = bytes.access(me, address, length, how, &clock);
                match unknown {
                    None => assert_eq!(
                        found.is_ok_and(|met| met != 0),
                        !met.is_empty(),
                        "seed {seed}, turn {turn}"
                    ),
                    Some((at, _)) => {
                        assert!(found.is_err_and(|(found, _)| found == at), "seed {seed}, turn {turn}");
                        break;
                    }
                }
            }
        }
    }
}
