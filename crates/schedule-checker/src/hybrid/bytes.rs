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

/// One reader needs no memory of its own.
#[derive(Clone, Debug, Default)]
enum Readers {
    #[default]
    Nobody,
    One(Packed),
    Many(Box<[Packed]>),
}

/// 20 bits of a thread, 44 bits of an access.
type Packed = u64;
const ACCESS_BITS: u32 = 44;

fn pack(reference: Reference) -> Packed {
    u64::from(reference.thread) << ACCESS_BITS | reference.access
}

fn unpack(packed: Packed) -> Reference {
    Reference {
        thread: (packed >> ACCESS_BITS) as u32,
        access: packed & ((1 << ACCESS_BITS) - 1),
    }
}

#[derive(Clone, Debug, Default)]
struct History {
    write: Option<Packed>,
    readers: Readers,
}

impl History {
    fn reads(&self) -> &[Packed] {
        match &self.readers {
            Readers::Nobody => &[],
            Readers::One(packed) => std::slice::from_ref(packed),
            Readers::Many(packed) => packed,
        }
    }

    fn add_read(&mut self, me: Reference) {
        let is_mine = |packed: &Packed| unpack(*packed).thread == me.thread;
        match &mut self.readers {
            Readers::Nobody => self.readers = Readers::One(pack(me)),
            Readers::One(packed) if is_mine(packed) => *packed = pack(me),
            Readers::One(packed) => self.readers = Readers::Many(Box::new([*packed, pack(me)])),
            Readers::Many(all) => match all.iter_mut().find(|packed| is_mine(packed)) {
                Some(packed) => *packed = pack(me),
                None => *all = all.iter().copied().chain([pack(me)]).collect(),
            },
        }
    }

    fn add(&mut self, me: Reference, how: Use) {
        if how.writes {
            *self = History {
                write: Some(pack(me)),
                readers: Readers::Nobody,
            };
        } else if how.reads {
            self.add_read(me);
        }
    }

    /// How many accesses of others it conflicts with, or one that `clock` does not know of.
    fn conflicts(&self, me: Reference, how: Use, clock: &[u64]) -> Result<u64, Reference> {
        let reads = if how.writes { self.reads() } else { &[] };
        let mut conflicts = 0;
        for packed in self.write.iter().chain(reads) {
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
/// The history of bytes that nobody has used.
const UNUSED: u32 = 0;

pub(super) struct Bytes {
    pages: BTreeMap<u64, usize>,
    /// Page after page, the number of each byte's history.
    numbers: Vec<u32>,
    histories: Vec<History>,
    /// How many bytes have each.
    users: Vec<u32>,
    /// Each thread's last page.
    last: Vec<(u64, usize)>,
}

impl Bytes {
    pub fn new(threads: usize) -> Bytes {
        Bytes {
            pages: BTreeMap::new(),
            numbers: Vec::new(),
            histories: vec![History::default()],
            users: vec![0],
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
            let in_page = (at % PAGE_BYTES) as usize;
            let length = (end - at).min(PAGE_BYTES - at % PAGE_BYTES) as usize;
            let mut from = page + in_page;
            let to = from + length;
            while from < to {
                let number = self.numbers[from];
                let run = self.numbers[from..to]
                    .iter()
                    .take_while(|other| **other == number)
                    .count();
                conflicts += self.histories[number as usize]
                    .conflicts(me, how, clock)
                    .map_err(|earlier| (at, earlier))?;
                self.renew(from, run, me, how);
                from += run;
                at += run as u64;
            }
        }
        Ok(conflicts)
    }

    fn page(&mut self, thread: usize, number: u64) -> usize {
        let (last, page) = self.last[thread];
        if last == number {
            return page;
        }
        let page = *self.pages.entry(number).or_insert_with(|| {
            let page = self.numbers.len();
            self.numbers.resize(page + PAGE_BYTES as usize, UNUSED);
            page
        });
        self.last[thread] = (number, page);
        page
    }

    /// `run` bytes, which had the same history, are used.
    fn renew(&mut self, from: usize, run: usize, me: Reference, how: Use) {
        let number = self.numbers[from];
        if number != UNUSED && self.users[number as usize] == run as u32 {
            self.histories[number as usize].add(me, how);
            return;
        }
        let mut history = self.histories[number as usize].clone();
        history.add(me, how);
        if number != UNUSED {
            // Others keep it: a history is never without bytes.
            self.users[number as usize] -= run as u32;
        }
        let renewed = self.histories.len() as u32;
        self.histories.push(history);
        self.users.push(run as u32);
        self.numbers[from..from + run].fill(renewed);
    }
}
