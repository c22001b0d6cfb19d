//! What one thread did in a traced replay, to bytes and back: [`TraceEntry`] by [`TraceEntry`], as they happen.
//!
//! The encoder runs inside the program: no allocation, a fixed amount of state. An access is written as its difference from what
//! was to be expected: of the instruction that came after this one the last time, and of where that accessed memory the last time.
//! The reader, which needs the feature `std`, has one buffer of fixed size, whatever the trace is. Bytes: `docs/log-format.md`.
use crate::predict::zigzag;
use run_model::Place;
use run_model::Record;
use run_model::SiteId;
use run_model::ThreadIndex;
use run_model::TraceEntry;

#[cfg(feature = "std")]
mod reader;
pub mod whole;

#[cfg(feature = "std")]
pub use reader::TraceError;
#[cfg(feature = "std")]
pub use reader::TraceReader;

/// "RFRNHTR\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNHTR\x01");
pub const VERSION: u32 = 1;
/// As much as a growing file of a thread begins with.
pub const HEADER_BYTES: usize = 64;
/// `thread-N.` and this.
pub const EXTENSION: &str = "trace";

/// First byte, sequence, site, ordinal, address, number of bytes, transfers, each at its longest. Events take less.
pub const MAX_ENTRY_BYTES: usize = 1 + 10 + 5 + 5 + 10 + 5 + 10;

/// What stands before a thread's entries.
pub fn header(thread: ThreadIndex) -> [u8; HEADER_BYTES] {
    header_of(MAGIC, VERSION, thread)
}

fn header_of(magic: u64, version: u32, thread: ThreadIndex) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(&magic.to_le_bytes());
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..16].copy_from_slice(&thread.0.to_le_bytes());
    bytes
}

/// Bits of an entry's first byte, which is never zero.
mod head {
    /// What the entry is: the lowest two bits.
    #[cfg(feature = "std")]
    pub(super) const WHAT: u8 = 3;
    pub(super) const UNORDERED: u8 = 1;
    pub(super) const ORDERED: u8 = 2;
    pub(super) const ACCESS: u8 = 3;

    /// Of accesses.
    pub(super) const READS: u8 = 4;
    pub(super) const WRITES: u8 = 8;
    /// Each of these says that a field is as expected and left out.
    pub(super) const SAME_PLACE: u8 = 0x10;
    pub(super) const SAME_BYTES: u8 = 0x20;
    pub(super) const NEXT_SEQUENCE: u8 = 0x40;
    pub(super) const SAME_TRANSFERS: u8 = 0x80;

    /// Of ordered events, where the upper four bits are the kind.
    pub(super) const SAME_OBJECT: u8 = 4;
    pub(super) const SAME_SITE: u8 = 8;
    pub(super) const KIND_SHIFT: u32 = 4;
}

/// Instructions whose last access is remembered. A power of two.
const INSTRUCTIONS: usize = 128;

/// What is remembered of the instructions that share a slot.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    /// Its last access.
    address: u64,
    bytes: u32,
    /// The instruction that came after it.
    next_site: u32,
    next_ordinal: u32,
}

/// What encoder and decoder expect of the next entry, from the ones before.
#[derive(Clone, Debug)]
struct Expected {
    sequence: u64,
    transfers: u64,
    /// Of the last ordered event.
    object: u64,
    sync_site: u32,
    /// Slot of the last access.
    last: usize,
    /// Where the last access was.
    site: u32,
    ordinal: u32,
    instructions: [Instruction; INSTRUCTIONS],
}

impl Expected {
    const fn new() -> Expected {
        const NONE: Instruction = Instruction {
            address: 0,
            bytes: 0,
            next_site: 0,
            next_ordinal: 0,
        };
        Expected {
            sequence: 0,
            transfers: 0,
            object: 0,
            sync_site: 0,
            last: 0,
            site: 0,
            ordinal: 0,
            instructions: [NONE; INSTRUCTIONS],
        }
    }

    fn slot(site: u32, ordinal: u32) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the instruction.
        let mixed = (site ^ ordinal.rotate_left(16)).wrapping_mul(0x9e37_79b9);
        mixed as usize >> (u32::BITS - INSTRUCTIONS.trailing_zeros())
    }

    /// The instruction that came next the last time.
    fn next(&self) -> (u32, u32) {
        let last = &self.instructions[self.last];
        (last.next_site, last.next_ordinal)
    }

    fn learn_access(&mut self, sequence: u64, address: u64, bytes: u32, at: &Place) {
        let last = &mut self.instructions[self.last];
        (last.next_site, last.next_ordinal) = (at.site.0, at.ordinal);
        self.last = Expected::slot(at.site.0, at.ordinal);
        (self.site, self.ordinal) = (at.site.0, at.ordinal);
        let this = &mut self.instructions[self.last];
        (this.address, this.bytes) = (address, bytes);
        self.sequence = sequence;
        self.transfers = at.transfers;
    }

    fn learn_ordered(&mut self, sequence: u64, object: u64, site: SiteId) {
        self.sequence = sequence;
        self.object = object;
        self.sync_site = site.0;
        self.transfers = 0;
    }

    /// Control transfers are counted from the last event on.
    fn learn_unordered(&mut self) {
        self.transfers = 0;
    }
}

/// The encoder of one thread's trace, from its first entry to its last.
#[derive(Clone, Debug)]
pub struct TraceEncoder {
    expected: Expected,
}

impl TraceEncoder {
    pub const fn new() -> TraceEncoder {
        TraceEncoder {
            expected: Expected::new(),
        }
    }

    /// Writes `entry` to the front of `out` and returns how many bytes it takes. The first is never zero.
    ///
    /// Of a record, its event, sources and version are not written.
    #[inline]
    pub fn encode(&mut self, entry: &TraceEntry, out: &mut [u8; MAX_ENTRY_BYTES]) -> usize {
        match entry {
            TraceEntry::Ordered { sequence, record } => self.ordered(*sequence, record, out),
            TraceEntry::Unordered => self.unordered(out),
            TraceEntry::Access {
                sequence,
                address,
                bytes,
                reads,
                writes,
                at,
            } => self.access(*sequence, *address, *bytes, (*reads, *writes), at, out),
        }
    }

    /// [`TraceEntry::Unordered`].
    pub fn unordered(&mut self, out: &mut [u8; MAX_ENTRY_BYTES]) -> usize {
        self.expected.learn_unordered();
        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(head::UNORDERED);
        out.length
    }

    /// [`TraceEntry::Ordered`].
    pub fn ordered(&mut self, sequence: u64, record: &Record, out: &mut [u8; MAX_ENTRY_BYTES]) -> usize {
        let expected = &mut self.expected;
        let object_difference = record.object.wrapping_sub(expected.object) as i64;
        let site_difference = record.site.0.wrapping_sub(expected.sync_site) as i32;
        let mut first = head::ORDERED | (record.kind as u8) << head::KIND_SHIFT;
        first |= if object_difference == 0 { head::SAME_OBJECT } else { 0 };
        first |= if site_difference == 0 { head::SAME_SITE } else { 0 };

        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(first);
        out.byte(record.op as u8);
        out.byte(record.access.0);
        out.varint(sequence.wrapping_sub(expected.sequence));
        if object_difference != 0 {
            out.varint(zigzag(object_difference));
        }
        if site_difference != 0 {
            out.varint(zigzag(i64::from(site_difference)));
        }
        out.varint(zigzag(record.value));
        expected.learn_ordered(sequence, record.object, record.site);
        out.length
    }

    /// [`TraceEntry::Access`]; `uses`: does it read, does it write?
    #[inline]
    pub fn access(
        &mut self,
        sequence: u64,
        address: u64,
        bytes: u32,
        uses: (bool, bool),
        at: &Place,
        out: &mut [u8; MAX_ENTRY_BYTES],
    ) -> usize {
        let expected = &mut self.expected;
        let (reads, writes) = uses;
        let same_place = expected.next() == (at.site.0, at.ordinal);
        let slot = &expected.instructions[Expected::slot(at.site.0, at.ordinal)];
        let sequence_difference = sequence.wrapping_sub(expected.sequence);
        let transfers_difference = at.transfers.wrapping_sub(expected.transfers);
        let mut first = head::ACCESS;
        first |= if reads { head::READS } else { 0 };
        first |= if writes { head::WRITES } else { 0 };
        first |= if same_place { head::SAME_PLACE } else { 0 };
        first |= if bytes == slot.bytes { head::SAME_BYTES } else { 0 };
        first |= if sequence_difference == 1 {
            head::NEXT_SEQUENCE
        } else {
            0
        };
        first |= if transfers_difference == 0 {
            head::SAME_TRANSFERS
        } else {
            0
        };

        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(first);
        if sequence_difference != 1 {
            out.varint(sequence_difference);
        }
        if !same_place {
            out.varint(zigzag(i64::from(at.site.0.wrapping_sub(expected.site) as i32)));
            out.varint(zigzag(i64::from(at.ordinal.wrapping_sub(expected.ordinal) as i32)));
        }
        out.varint(zigzag(address.wrapping_sub(slot.address) as i64));
        if bytes != slot.bytes {
            out.varint(u64::from(bytes));
        }
        if transfers_difference != 0 {
            out.varint(transfers_difference);
        }
        expected.learn_access(sequence, address, bytes, at);
        out.length
    }
}

impl Default for TraceEncoder {
    fn default() -> TraceEncoder {
        TraceEncoder::new()
    }
}

struct Cursor<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Cursor<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Little-endian groups of seven bits; the high bit says that more follow.
    #[inline]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }
}

/// The whole file of `thread`, as the runtime would have left it. For tests and tools.
#[cfg(feature = "std")]
pub fn encode_trace<'a>(thread: ThreadIndex, entries: impl IntoIterator<Item = &'a TraceEntry>) -> Vec<u8> {
    let mut file = header(thread).to_vec();
    let mut encoder = TraceEncoder::new();
    let mut buffer = [0; MAX_ENTRY_BYTES];
    for entry in entries {
        let length = encoder.encode(entry, &mut buffer);
        file.extend_from_slice(&buffer[..length]);
    }
    file
}
