//! What system calls brought into a thread: results, and the bytes the kernel wrote into the program's memory.
//!
//! One file per thread, `thread-N.inputs`: a header (magic, version, thread, lengths), then one entry per call. Read in place
//! by a replay; hence fixed fields and 8-byte alignment.
//!
//! ```text
//! entry  u64 event | u32 number | u32 check | i64 result | u64 time | u32 ranges | u32 hash of all this
//! range  u64 address | u64 bytes | the bytes, padded to a multiple of 8
//! ```
//!
//! A clock that was read in the usual way ([`Clock`]) has a short form of two words; its first bit is 1.
//!
//! NOTE [Desk]
//!
//! The newest entries are written through a mapping, so that a killed process loses none. Mapping ever new pages of a file
//! costs four times what writing them does, so the mapped part, the *desk*, stays where it is, behind the header. When it is
//! full, its bytes are written to the end of the file, and it is used again.
//!
//! ```text
//! file    header, padded to a page | desk | shelf
//! stream  the first `shelved` bytes of it are on the shelf, the others, up to `length`, on the desk
//! ```
//!
//! Both numbers are in the header. `shelved` grows when the bytes are on the shelf and before the desk is used again;
//! `length` grows when an entry is whole. Whenever the process is killed, they describe whole entries.
use run_model::ThreadIndex;

/// "RFRNINP\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNINP\x01");
pub const VERSION: u32 = 2;
pub const HEADER_BYTES: usize = 64;
/// Where the header keeps the length of the stream: 8-aligned, so that one store publishes it.
pub const LENGTH_OFFSET: usize = 16;
/// Where it keeps how much of the stream is on the shelf: a multiple of pages, so that a replay can map desk behind shelf.
pub const SHELVED_OFFSET: usize = 24;
pub const DESK_AT: usize = 4096;
pub const DESK_BYTES: usize = 1 << 16;
pub const SHELF_AT: usize = DESK_AT + DESK_BYTES;
pub const ENTRY_BYTES: usize = 40;
pub const RANGE_BYTES: usize = 16;
/// Numbers from here on are signals: this, and the signal's number.
pub const FIRST_SIGNAL: u32 = 0x1_0000;

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
    /// The processor's time-stamp counter when the call was over; 0: not taken. Comparable between threads.
    pub time: u64,
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
        bytes[24..32].copy_from_slice(&self.time.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.ranges.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        Entry {
            event: u64_at(bytes, 0),
            number: u32_at(bytes, 8),
            check: u32_at(bytes, 12),
            result: u64_at(bytes, 16) as i64,
            time: u64_at(bytes, 24),
            ranges: u32_at(bytes, 32),
            hash: u32_at(bytes, 36),
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

/// A checksum of an entry against torn and flipped bytes: eight at a time, since there may be many, and in four lanes, since
/// a processor can multiply several numbers at once but not one several times.
#[derive(Clone, Copy, Debug)]
pub struct RangeHash(u64);

const LANES: usize = 4;
const BEGINNING: u64 = 0x9ae1_6a3b_2f90_404f;

#[inline]
fn mix(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

impl RangeHash {
    /// Begins with the fixed part; its own field `hash` does not count.
    #[inline]
    pub fn new(entry: &Entry) -> RangeHash {
        let words = [
            entry.event,
            u64::from(entry.number) << 32 | u64::from(entry.check),
            entry.result as u64,
            entry.time,
            u64::from(entry.ranges),
        ];
        RangeHash(words.into_iter().fold(BEGINNING, mix))
    }

    /// Of bytes alone.
    #[inline]
    pub fn of(bytes: &[u8]) -> RangeHash {
        let mut hash = RangeHash(BEGINNING);
        hash.update(0, bytes);
        hash
    }

    #[inline]
    pub fn update(&mut self, address: u64, bytes: &[u8]) {
        let mut state = mix(self.0 ^ address, bytes.len() as u64);
        let (blocks, rest) = bytes.as_chunks::<{ 8 * LANES }>();
        if !blocks.is_empty() {
            state = hash_blocks(state, blocks);
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            state = mix(state, u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            state = mix(state, last);
        }
        self.0 = state;
    }

    #[inline]
    pub fn fold(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

fn hash_blocks(state: u64, blocks: &[[u8; 8 * LANES]]) -> u64 {
    let mut lanes = [state, state ^ 1, state ^ 2, state ^ 3];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    lanes.into_iter().fold(state, mix)
}

/// A clock that was read without an error, shortly after the entry before: most entries of many programs are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub number: ClockNumber,
    /// How many events the thread had since the entry before: up to 15.
    pub events: u64,
    /// Where the time was stored.
    pub address: u64,
    pub seconds: u64,
    /// Nano- or microseconds, as the call has it.
    pub fraction: u64,
}

/// The calls that have a short form. They store two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockNumber {
    ClockGettime = 228,
    Gettimeofday = 96,
}

impl Clock {
    pub const BYTES: usize = 16;
    const ADDRESS_BITS: u32 = 48;
    const FRACTION_BITS: u32 = 30;

    /// The short form, if it can have one: 1 bit, bit for the number, 0, 0, 4 bits events, 8 bits sum, 48 bits address;
    /// 34 bits seconds, 30 bits fraction.
    #[inline]
    pub fn encode(&self) -> Option<[u64; 2]> {
        let fits = self.events < 16
            && self.address >> Clock::ADDRESS_BITS == 0
            && self.fraction >> Clock::FRACTION_BITS == 0
            && self.seconds >> (64 - Clock::FRACTION_BITS) == 0;
        if !fits {
            return None;
        }
        let is_other = (self.number == ClockNumber::Gettimeofday) as u64;
        let first = 1 << 63 | is_other << 62 | self.events << 56 | self.address;
        let second = self.seconds << Clock::FRACTION_BITS | self.fraction;
        Some([first | sum(first, second) << Clock::ADDRESS_BITS, second])
    }

    /// Nothing: some bit is not as it was written.
    fn decode(first: u64, second: u64) -> Option<Clock> {
        let without_sum = first & !(0xff << Clock::ADDRESS_BITS);
        let is_whole = first == without_sum | sum(without_sum, second) << Clock::ADDRESS_BITS && first >> 60 & 3 == 0;
        is_whole.then_some(Clock {
            number: match first >> 62 & 1 {
                0 => ClockNumber::ClockGettime,
                _ => ClockNumber::Gettimeofday,
            },
            events: first >> 56 & 15,
            address: first & ((1 << Clock::ADDRESS_BITS) - 1),
            seconds: second >> Clock::FRACTION_BITS,
            fraction: second & ((1 << Clock::FRACTION_BITS) - 1),
        })
    }

    /// What the call stored.
    fn stored(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[8..].copy_from_slice(&self.fraction.to_le_bytes());
        bytes
    }
}

/// Eight bits that change whenever one bit of two words does, and usually when more do.
#[inline]
fn sum(first: u64, second: u64) -> u64 {
    let mut sum = first ^ second.rotate_left(3);
    sum ^= sum >> 32;
    sum ^= sum >> 16;
    (sum ^ sum >> 8) & 0xff
}

/// Why a file of inputs cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    NoHeader,
    Magic,
    OtherVersion {
        found: u32,
    },
    Thread {
        found: u32,
    },
    /// A length that the file does not have, or that cannot be.
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
            Damage::OtherVersion { found } => {
                write!(
                    f,
                    "it has version {found} of the format, and this refrain knows {VERSION}"
                )
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
    /// A clock's address, and what it stored.
    clock: Option<(u64, [u8; 16])>,
}

/// Where the stream is in a file: see NOTE [Desk].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Of the whole stream.
    pub stream: usize,
    /// The part of it on the shelf, which may have more.
    pub on_shelf: usize,
    /// The part on the desk.
    pub on_desk: usize,
}

impl Lengths {
    /// What the header of a file of so many bytes says.
    pub fn read(header: &[u8], file_bytes: usize, thread: ThreadIndex) -> Result<Lengths, Damage> {
        let header = header.get(..HEADER_BYTES).ok_or(Damage::NoHeader)?;
        if u64_at(header, 0) != MAGIC {
            return Err(Damage::Magic);
        }
        let version = u32_at(header, 8);
        if version != VERSION {
            return Err(Damage::OtherVersion { found: version });
        }
        if u32_at(header, 12) != thread.0 {
            return Err(Damage::Thread {
                found: u32_at(header, 12),
            });
        }
        let (length, shelved) = (u64_at(header, LENGTH_OFFSET), u64_at(header, SHELVED_OFFSET));
        let on_shelf = length.min(shelved);
        let on_desk = length - on_shelf;
        // A file that was cut, or was never completed, has no shelf.
        let shelf = file_bytes.saturating_sub(SHELF_AT) as u64;
        let desk = file_bytes.saturating_sub(DESK_AT).min(DESK_BYTES) as u64;
        if shelved > shelf || on_desk > desk || !shelved.is_multiple_of(DESK_AT as u64) {
            return Err(Damage::Length {
                expected: length,
                found: shelf + desk,
            });
        }
        Ok(Lengths {
            stream: length as usize,
            on_shelf: on_shelf as usize,
            on_desk: on_desk as usize,
        })
    }
}

impl Lengths {
    /// Where in the file the last `bytes` bytes of the stream are: the offsets and lengths of two parts, one behind the other.
    pub fn last_places(&self, bytes: usize) -> Option<[(usize, usize); 2]> {
        let from = self.stream.checked_sub(bytes)?;
        let on_shelf = self.on_shelf.saturating_sub(from);
        let on_desk = bytes - on_shelf;
        // A part that is empty is nowhere.
        let place = |at: usize, bytes: usize| if bytes == 0 { (0, 0) } else { (at, bytes) };
        Some([
            place(SHELF_AT + from, on_shelf),
            place(DESK_AT + self.on_desk - on_desk, on_desk),
        ])
    }
}

/// The stream of a whole file.
#[cfg(feature = "std")]
pub fn stream_of(file: &[u8], thread: ThreadIndex) -> Result<std::vec::Vec<u8>, Damage> {
    let lengths = Lengths::read(file, file.len(), thread)?;
    let part = |at: usize, bytes: usize| file.get(at..at + bytes).unwrap_or(&[]);
    Ok([part(SHELF_AT, lengths.on_shelf), part(DESK_AT, lengths.on_desk)].concat())
}

impl<'a> Reader<'a> {
    /// Reads a stream from its beginning.
    pub fn new(stream: &'a [u8]) -> Reader<'a> {
        Reader {
            bytes: stream,
            at: 0,
            event: 0,
        }
    }

    /// The next call, or nothing at the end of the stream.
    pub fn next_call(&mut self) -> Result<Option<Call<'a>>, Damage> {
        let offset = self.at as u64;
        let torn = Damage::Torn { offset };
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        if let Some(words) = rest.get(..Clock::BYTES)
            && u64_at(words, 0) >> 63 == 1
        {
            let clock = Clock::decode(u64_at(words, 0), u64_at(words, 8)).ok_or(Damage::Hash { offset })?;
            self.at += Clock::BYTES;
            return self.clock(&clock).ok_or(Damage::Event { offset }).map(Some);
        }
        let entry = Entry::decode(rest.first_chunk().ok_or(torn)?);
        if entry.event < self.event || entry.event >> 63 != 0 {
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
            clock: None,
        }))
    }

    /// The call that a short form stands for.
    fn clock(&mut self, clock: &Clock) -> Option<Call<'a>> {
        self.event = self.event.checked_add(clock.events)?;
        Some(Call {
            entry: Entry {
                event: self.event,
                number: clock.number as u32,
                ranges: 1,
                ..Entry::default()
            },
            ranges: &[],
            clock: Some((clock.address, clock.stored())),
        })
    }
}

impl<'a> Call<'a> {
    /// What the kernel wrote where.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = 0;
        let bytes = self.ranges;
        let others = core::iter::from_fn(move || {
            let (range, next) = range_at(bytes, at)?;
            at = next;
            Some(range)
        });
        let clock = self.clock.as_ref().map(|(address, stored)| (*address, &stored[..]));
        clock.into_iter().chain(others)
    }
}

/// The last entry, if it has no ranges, from the last `ENTRY_BYTES` of a stream (`Lengths::last_places`).
pub fn last_entry(bytes: &[u8; ENTRY_BYTES]) -> Option<Entry> {
    let entry = Entry::decode(bytes);
    // The end of a range is no entry, whatever it looks like: its hash does not fit.
    (entry.ranges == 0 && RangeHash::new(&entry).fold() == entry.hash).then_some(entry)
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

    /// A file whose stream is on the shelf as far as it can be.
    fn file_of(thread: u32, stream: &[u8], shelved: usize) -> Vec<u8> {
        let mut file = header(ThreadIndex(thread)).to_vec();
        file[LENGTH_OFFSET..LENGTH_OFFSET + 8].copy_from_slice(&(stream.len() as u64).to_le_bytes());
        file[SHELVED_OFFSET..SHELVED_OFFSET + 8].copy_from_slice(&(shelved as u64).to_le_bytes());
        let (shelf, desk) = stream.split_at(shelved);
        file.resize(DESK_AT, 0);
        file.extend(desk);
        if shelved > 0 {
            file.resize(SHELF_AT, 0);
            file.extend(shelf);
        }
        file
    }

    fn write(thread: u32, calls: &Written) -> Vec<u8> {
        let stream = write_stream(calls);
        file_of(thread, &stream, 0)
    }

    fn write_stream(calls: &Written) -> Vec<u8> {
        let mut file = Vec::new();
        for (event, number, result, ranges) in calls {
            let mut entry = Entry {
                event: *event,
                number: *number,
                check: 0,
                result: *result,
                time: *event * 3,
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
        file
    }

    fn read(file: &[u8], thread: u32) -> Result<Written, Damage> {
        let stream = stream_of(file, ThreadIndex(thread))?;
        let mut reader = Reader::new(&stream);
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
            // The rest of the header's page may be missing if there is nothing behind it.
            prop_assert!(read(&file[..cut], 3).is_err() || calls.is_empty());
        }

        #[test]
        fn desk_and_shelf_are_one_stream(calls in calls(), filler in 1usize..9) {
            // Long enough for a page on the shelf.
            let mut calls = calls;
            let event = calls.last().map_or(0, |call| call.0);
            calls.push((event, 0, 0, vec![(0, vec![7; filler * 1000])]));
            let stream = write_stream(&calls);
            let shelved = stream.len() / DESK_AT * DESK_AT;
            prop_assert_eq!(read(&file_of(2, &stream, shelved), 2), Ok(calls));
        }

        #[test]
        fn nonsense_is_refused_in_peace(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&file_of(0, &bytes, 0), 0);
        }
    }

    proptest! {
        #[test]
        fn clocks_are_read(address in 0u64..1 << 48, seconds in 0u64..1 << 34, fraction in 0u64..1 << 30, bit in 0usize..128) {
            let clock = |events, number| Clock { number, events, address, seconds, fraction };
            let clocks = [clock(3, ClockNumber::ClockGettime), clock(0, ClockNumber::Gettimeofday)];
            let words: Vec<u64> = clocks.iter().filter_map(Clock::encode).flatten().collect();
            let mut stream: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let read = read(&file_of(1, &stream, 0), 1);
            let stored = || vec![(address, [seconds.to_le_bytes(), fraction.to_le_bytes()].concat())];
            prop_assert_eq!(read, Ok(vec![(3, 228, 0, stored()), (3, 96, 0, stored())]));
            stream[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Reader::new(&stream).next_call().is_err());
        }
    }

    #[test]
    fn what_is_too_large_for_the_short_form_has_none() {
        let small = Clock {
            number: ClockNumber::ClockGettime,
            events: 15,
            address: 1,
            seconds: 1,
            fraction: 1,
        };
        assert!(small.encode().is_some());
        for large in [
            Clock { events: 16, ..small },
            Clock {
                address: 1 << 48,
                ..small
            },
            Clock {
                seconds: 1 << 34,
                ..small
            },
            Clock {
                fraction: 1 << 30,
                ..small
            },
        ] {
            assert_eq!(large.encode(), None);
        }
    }

    #[test]
    fn a_changed_byte_inside_a_range_is_refused() {
        let mut file = write(0, &vec![(1, 0, 5, vec![(0x1000, b"hello".to_vec())])]);
        let at = file.len() - 6;
        file[at] ^= 1;
        assert_eq!(read(&file, 0), Err(Damage::Hash { offset: 0 }));
    }

    #[test]
    fn an_entry_without_ranges_is_found_from_the_end() {
        let last = |calls: Written| {
            let file = write(0, &calls);
            let lengths = Lengths::read(&file, file.len(), ThreadIndex(0)).expect("a whole file");
            let places = lengths.last_places(ENTRY_BYTES)?;
            let bytes = places.map(|(at, bytes)| &file[at..at + bytes]).concat();
            let entry = last_entry(bytes.as_slice().first_chunk().expect("an entry"));
            entry.map(|entry| (entry.event, entry.result))
        };
        let with_ranges = (3, 0, 40, vec![(0x1000, vec![7; 40])]);
        assert_eq!(last(vec![with_ranges.clone(), (4, 1, 5, vec![])]), Some((4, 5)));
        assert_eq!(last(vec![(2, 1, 5, vec![]), with_ranges]), None);
        assert_eq!(last(vec![]), None);
    }
}
