//! What system calls brought into a thread: results, and the bytes the kernel wrote into the program's memory.
//!
//! One file per thread, `thread-N.inputs`: a header as in a log (magic, version, thread, length of the stream), then one
//! entry per call. Written through a mapping, read in place by a replay; hence fixed fields and 8-byte alignment.
//!
//! ```text
//! entry  u64 event | u32 number | u32 check | i64 result | u32 ranges | u32 hash of all this
//! range  u64 address | u64 bytes | the bytes, padded to a multiple of 8
//! ```
use run_model::ThreadIndex;

/// "RFRNINP\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNINP\x01");
pub const VERSION: u32 = 1;
pub const HEADER_BYTES: usize = 64;
/// Where the header keeps the length of the stream: 8-aligned, so that one store publishes it.
pub const LENGTH_OFFSET: usize = 16;
pub const ENTRY_BYTES: usize = 32;
pub const RANGE_BYTES: usize = 16;

/// The header of an empty file of `thread`.
pub fn header(thread: ThreadIndex) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&thread.0.to_le_bytes());
    bytes
}

/// The fixed part of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The thread's event that the call was, or was part of.
    pub event: u64,
    pub number: u32,
    /// Condenses what the program gave to the call; 0: not compared.
    pub check: u32,
    pub result: i64,
    pub ranges: u32,
    /// Of everything else in the entry.
    pub hash: u32,
}

impl Entry {
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..8].copy_from_slice(&self.event.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.check.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.result.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.ranges.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        Entry {
            event: u64_at(bytes, 0),
            number: u32_at(bytes, 8),
            check: u32_at(bytes, 12),
            result: u64_at(bytes, 16) as i64,
            ranges: u32_at(bytes, 24),
            hash: u32_at(bytes, 28),
        }
    }
}

/// The fixed part of a range.
pub fn encode_range(address: u64, bytes: u64) -> [u8; RANGE_BYTES] {
    let mut out = [0; RANGE_BYTES];
    out[0..8].copy_from_slice(&address.to_le_bytes());
    out[8..16].copy_from_slice(&bytes.to_le_bytes());
    out
}

/// A checksum of an entry against torn and flipped bytes: eight at a time, since there may be many.
#[derive(Clone, Copy, Debug)]
pub struct RangeHash(u64);

impl RangeHash {
    /// Begins with the fixed part; its own field `hash` does not count.
    pub fn new(entry: &Entry) -> RangeHash {
        let mut hash = RangeHash(0x9ae1_6a3b_2f90_404f);
        let bytes = Entry { hash: 0, ..*entry }.encode();
        hash.update(0, &bytes);
        hash
    }

    pub fn update(&mut self, address: u64, bytes: &[u8]) {
        let mut state = self.0 ^ address;
        let mut mix = |word: u64| state = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        mix(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
        self.0 = state;
    }

    pub fn fold(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// Why a file of inputs cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    NoHeader,
    Magic,
    NewerVersion {
        found: u32,
    },
    Thread {
        found: u32,
    },
    /// The stream is longer than the file.
    Length {
        expected: u64,
        found: u64,
    },
    /// At this offset there is no whole entry.
    Torn {
        offset: u64,
    },
    /// The ranges of the entry at this offset are not what was written.
    Hash {
        offset: u64,
    },
    /// Events of a thread only grow.
    Event {
        offset: u64,
    },
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Damage::NoHeader => write!(f, "it ends inside its header"),
            Damage::Magic => write!(f, "it is no file of inputs"),
            Damage::NewerVersion { found } => {
                write!(f, "version {found} is newer than {VERSION}, which this refrain knows")
            }
            Damage::Thread { found } => write!(f, "it belongs to thread {found}"),
            Damage::Length { expected, found } => write!(f, "{expected} bytes expected, {found} found"),
            Damage::Torn { offset } => write!(f, "no whole entry at byte {offset}"),
            Damage::Hash { offset } => write!(f, "changed bytes in the entry at byte {offset}"),
            Damage::Event { offset } => write!(f, "the event goes backwards at byte {offset}"),
        }
    }
}

/// Reads a stream of entries in place.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    event: u64,
}

/// One call, as read.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub entry: Entry,
    ranges: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Looks at the header of a whole file.
    pub fn open(file: &'a [u8], thread: ThreadIndex) -> Result<Reader<'a>, Damage> {
        let header = file.get(..HEADER_BYTES).ok_or(Damage::NoHeader)?;
        if u64_at(header, 0) != MAGIC {
            return Err(Damage::Magic);
        }
        let version = u32_at(header, 8);
        if version != VERSION {
            return Err(Damage::NewerVersion { found: version });
        }
        if u32_at(header, 12) != thread.0 {
            return Err(Damage::Thread {
                found: u32_at(header, 12),
            });
        }
        let length = u64_at(header, LENGTH_OFFSET);
        let found = (file.len() - HEADER_BYTES) as u64;
        if length > found {
            return Err(Damage::Length {
                expected: length,
                found,
            });
        }
        Ok(Reader {
            bytes: &file[HEADER_BYTES..HEADER_BYTES + length as usize],
            at: 0,
            event: 0,
        })
    }

    /// The next call, or nothing at the end of the stream.
    pub fn next_call(&mut self) -> Result<Option<Call<'a>>, Damage> {
        let offset = (HEADER_BYTES + self.at) as u64;
        let torn = Damage::Torn { offset };
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let entry = Entry::decode(rest.first_chunk().ok_or(torn)?);
        if entry.event < self.event {
            return Err(Damage::Event { offset });
        }
        let mut end = ENTRY_BYTES;
        let mut hash = RangeHash::new(&entry);
        for _ in 0..entry.ranges {
            let (range, next) = range_at(rest, end).ok_or(torn)?;
            hash.update(range.0, range.1);
            end = next;
        }
        if hash.fold() != entry.hash {
            return Err(Damage::Hash { offset });
        }
        self.at += end;
        self.event = entry.event;
        Ok(Some(Call {
            entry,
            ranges: &rest[ENTRY_BYTES..end],
        }))
    }
}

impl<'a> Call<'a> {
    /// What the kernel wrote where.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let mut at = 0;
        let bytes = self.ranges;
        core::iter::from_fn(move || {
            let (range, next) = range_at(bytes, at)?;
            at = next;
            Some(range)
        })
    }
}

/// The last entry, if it has no ranges, from the `ENTRY_BYTES` before `end_of_stream`.
pub fn last_entry(bytes: &[u8; ENTRY_BYTES]) -> Option<Entry> {
    let entry = Entry::decode(bytes);
    // The end of a range is no entry, whatever it looks like: its hash does not fit.
    (entry.ranges == 0 && RangeHash::new(&entry).fold() == entry.hash).then_some(entry)
}

/// Where the stream of entries ends in a file with this header.
pub fn end_of_stream(header: &[u8; HEADER_BYTES]) -> u64 {
    HEADER_BYTES as u64 + u64_at(header, LENGTH_OFFSET)
}

type Range<'a> = (u64, &'a [u8]);

fn range_at(bytes: &[u8], at: usize) -> Option<(Range<'_>, usize)> {
    let head = bytes.get(at..at.checked_add(RANGE_BYTES)?)?;
    let length = usize::try_from(u64_at(head, 8)).ok()?;
    let start = at + RANGE_BYTES;
    let data = bytes.get(start..start.checked_add(length)?)?;
    let next = start.checked_add(length.checked_next_multiple_of(8)?)?;
    (next <= bytes.len()).then_some(((u64_at(head, 0), data), next))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at) as u64 | (u32_at(bytes, at + 4) as u64) << 32
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    type Written = Vec<(u64, u32, i64, Vec<(u64, Vec<u8>)>)>;

    fn write(thread: u32, calls: &Written) -> Vec<u8> {
        let mut file = header(ThreadIndex(thread)).to_vec();
        for (event, number, result, ranges) in calls {
            let mut entry = Entry {
                event: *event,
                number: *number,
                check: 0,
                result: *result,
                ranges: ranges.len() as u32,
                hash: 0,
            };
            let mut hash = RangeHash::new(&entry);
            for (address, bytes) in ranges {
                hash.update(*address, bytes);
            }
            entry.hash = hash.fold();
            file.extend(entry.encode());
            for (address, bytes) in ranges {
                file.extend(encode_range(*address, bytes.len() as u64));
                file.extend(bytes);
                file.resize(file.len().next_multiple_of(8), 0);
            }
        }
        let length = (file.len() - HEADER_BYTES) as u64;
        file[LENGTH_OFFSET..LENGTH_OFFSET + 8].copy_from_slice(&length.to_le_bytes());
        file
    }

    fn read(file: &[u8], thread: u32) -> Result<Written, Damage> {
        let mut reader = Reader::open(file, ThreadIndex(thread))?;
        let mut calls = Vec::new();
        while let Some(call) = reader.next_call()? {
            let ranges = call
                .ranges()
                .map(|(address, bytes)| (address, bytes.to_vec()))
                .collect();
            calls.push((call.entry.event, call.entry.number, call.entry.result, ranges));
        }
        Ok(calls)
    }

    fn calls() -> impl Strategy<Value = Written> {
        let range = (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40));
        let call = (
            0u64..5,
            any::<u32>(),
            any::<i64>(),
            proptest::collection::vec(range, 0..4),
        );
        proptest::collection::vec(call, 0..12).prop_map(|mut calls| {
            let mut event = 0;
            for call in &mut calls {
                event += call.0;
                call.0 = event;
            }
            calls
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(calls in calls(), thread in 0u32..9) {
            prop_assert_eq!(read(&write(thread, &calls), thread), Ok(calls));
        }

        #[test]
        fn a_changed_byte_is_noticed(calls in calls(), at in any::<usize>(), bit in 0u8..8) {
            let file = write(3, &calls);
            let mut changed = file.clone();
            let at = at % changed.len();
            changed[at] ^= 1 << bit;
            // Padding and reserved bytes do not count.
            prop_assert!(read(&changed, 3).is_err() || read(&changed, 3) == Ok(calls));
        }

        #[test]
        fn a_cut_file_is_refused(calls in calls(), cut in any::<usize>()) {
            let file = write(3, &calls);
            let cut = cut % file.len();
            prop_assert!(read(&file[..cut], 3).is_err());
        }

        #[test]
        fn nonsense_is_refused_in_peace(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut file = write(0, &Vec::new());
            file.extend(&bytes);
            let length = bytes.len() as u64;
            file[LENGTH_OFFSET..LENGTH_OFFSET + 8].copy_from_slice(&length.to_le_bytes());
            let _ = read(&file, 0);
        }
    }

    #[test]
    fn a_changed_byte_inside_a_range_is_refused() {
        let mut file = write(0, &vec![(1, 0, 5, vec![(0x1000, b"hello".to_vec())])]);
        let at = file.len() - 6;
        file[at] ^= 1;
        assert_eq!(
            read(&file, 0),
            Err(Damage::Hash {
                offset: HEADER_BYTES as u64
            })
        );
    }

    #[test]
    fn an_entry_without_ranges_is_found_from_the_end() {
        let last = |calls: Written| {
            let file = write(0, &calls);
            let end = end_of_stream(file.first_chunk().expect("a header")) as usize;
            assert_eq!(end, file.len());
            last_entry(file[..end].last_chunk().expect("an entry or the header"))
                .map(|entry| (entry.event, entry.result))
        };
        let with_ranges = (3, 0, 40, vec![(0x1000, vec![7; 40])]);
        assert_eq!(last(vec![with_ranges.clone(), (4, 1, 5, vec![])]), Some((4, 5)));
        assert_eq!(last(vec![(2, 1, 5, vec![]), with_ranges]), None);
        assert_eq!(last(vec![]), None);
    }
}
