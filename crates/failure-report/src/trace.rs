//! What all threads did in one replay.
use run_model::Op;
use run_model::SiteId;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// By thread index.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    pub threads: Vec<ThreadTrace>,
    /// Places in code that the program's author did not write, and which was not inlined into theirs.
    pub library_sites: BTreeSet<SiteId>,
    /// Addresses of memory that is a library's own business: its variables, the insides of its locks. It orders what it orders, and is
    /// nobody's mistake.
    pub library_cells: BTreeSet<u64>,
    /// Places inside the parentheses of a call that prints.
    pub message_sites: BTreeSet<SiteId>,
    /// For each site the one that stands for all sites of its line. A site that is not there stands alone.
    pub lines: BTreeMap<SiteId, SiteId>,
}

#[derive(Clone, Debug, Default)]
pub struct ThreadTrace {
    /// In the order of their sequence numbers.
    pub entries: Vec<Entry>,
    /// Accesses to memory that one thread used, older than the trace could hold.
    pub private_lost: u64,
    /// From this sequence number on none of those is missing.
    pub private_from: u64,
    /// The same for shared accesses, synchronisation and atomics.
    pub shared_lost: u64,
    /// From this sequence number on none of these is missing.
    pub complete_from: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Grows over all threads; what is ordered has its numbers in that order.
    pub sequence: u64,
    pub event: u64,
    pub site: SiteId,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Access(Access),
    /// A block of the heap begins a new life.
    Allocate {
        address: u64,
        bytes: u64,
    },
    Free {
        address: u64,
        bytes: u64,
    },
    Sync {
        op: Op,
        object: u64,
        value: i64,
        /// Whom a join is for.
        other: Option<u32>,
    },
    Spawn {
        thread: u32,
    },
    Start,
    Exit,
    /// The thread was about to do this when the recording ended.
    Stopped {
        op: Op,
        object: u64,
        other: Option<u32>,
    },
    Fatal {
        signal: u32,
        address: u64,
    },
    /// An exception is thrown; `is_panic` if it is Rust's. What the thread does next is unwinding, or what catches it.
    Thrown {
        is_panic: bool,
    },
    /// A panic of Rust's is over: something caught it. Known only if its beginning was, and not only its unwinding.
    Caught,
    /// The thread asks for the end of the process. What it does next are handlers and destructors.
    Exiting,
    /// It has begun to panic long ago. Until that ends, accesses to memory of its own are missing.
    Skipping,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub address: u64,
    pub bytes: u64,
    pub reads: bool,
    pub writes: bool,
    pub atomic: bool,
    /// Begun and never finished.
    pub pending: bool,
    /// The memory had not gone to and fro between threads by then.
    pub private: bool,
    /// The first 8 bytes afterwards, if known.
    pub value: Option<u64>,
    /// The same before; atomics only.
    pub before: Option<u64>,
}

impl Access {
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    pub fn overlaps(&self, other: &Access) -> bool {
        self.address < other.end() && other.address < self.end()
    }

    /// Does it write all the bytes of `other`?
    pub fn covers(&self, other: &Access) -> bool {
        self.address <= other.address && other.end() <= self.end()
    }

    /// The value of `part`'s bytes, as this access left or found them.
    pub fn value_of(&self, part: &Access) -> Option<u64> {
        let value = self.value?;
        let shift = part.address.checked_sub(self.address)?;
        if shift + part.bytes > self.bytes.min(8) || part.bytes == 0 {
            return None;
        }
        let mask = u64::MAX >> (64 - 8 * part.bytes);
        Some(value >> (8 * shift) & mask)
    }
}
