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
//! The commonest entries have short forms of one to three words: a clock that was read in the usual way ([`Clock`]), and a call
//! of small numbers ([`Short`]), and a synchronisation that did what it was asked for ([`Sync`]). Their first bit is 1.
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
pub mod labels;
mod short;
#[cfg(all(test, feature = "std"))]
mod tests;

pub use short::Before;
pub use short::Clock;
pub use short::ClockNumber;
pub use short::Short;
pub use short::ShortHash;
pub use short::Sync;

use run_model::ThreadIndex;
use short::Changed;
use short::Form;

/// "RFRNINP\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNINP\x01");
pub const VERSION: u32 = 7;
/// The oldest that can be read. It has no short form of a synchronisation.
const OLDEST_VERSION: u32 = 6;
pub const HEADER_BYTES: usize = 64;
/// Where the header keeps the length of the stream: 8-aligned, so that one store publishes it.
pub const LENGTH_OFFSET: usize = 16;
/// Where it keeps how much of the stream is on the shelf: a multiple of pages, so that a replay can map desk behind shelf.
pub const SHELVED_OFFSET: usize = 24;
pub const DESK_AT: usize = 4096;
pub const DESK_BYTES: usize = 1 << 17;
pub const SHELF_AT: usize = DESK_AT + DESK_BYTES;
pub const ENTRY_BYTES: usize = 40;
pub const RANGE_BYTES: usize = 16;
/// No call: a thread was created, whose index is the result. At scope `inputs`, what it does has its place after that.
pub const SPAWN: u32 = 0xfff2;
/// The number of an entry that says when, among all processes, the next one's bytes were written to the recorded standard output or error: the
/// result counts, and the check is 1 or 2 for the two streams (0 in runs of earlier versions).
pub const TURN: u32 = 0xfff0;
/// No call: the end of another thread was asked for.
pub const CANCEL: u32 = 0xfff3;
/// No call: the program said that the bytes of the range had just come in (`refrain_input`).
pub const ANNOTATED: u32 = 0xfff4;
/// No call: the program asked for the random bytes that the kernel gives to a process (`AT_RANDOM`).
pub const AUXILIARY: u32 = 0xfff5;
/// The same of an instruction that yields random numbers; in logs it is an instruction like others.
pub const RANDOM: u32 = 0xfff6;
/// No call has this number, and it has a short form: a synchronisation, which is `check`, of `run_model::Op`. The result is what the
/// function returned.
pub const SYNC: u32 = 511;
/// No call either, with a short form: the thread came to a stop for good.
pub const REST: u32 = 510;
/// No call: an instruction asked the processor who it is (`cpuid`). The range is what it put into eax, ebx, ecx and edx.
pub const PROCESSOR: u32 = 505;
/// No call: an instruction asked for the time-stamp counter, which was so much higher than the last time as the check says, or what the range says,
/// if there is one. The result is the number of the processor, if that was asked for, too.
pub const COUNTER: u32 = 506;
/// No call either: one that is done again in a replay failed. The check condenses what was asked for, and how many such calls there were before; the
/// result is the call's.
pub const REFUSED: u32 = 507;
/// No call has this number: it stands for all numbers that the kernel has no call for, and was answered by it.
pub const NO_CALL: u32 = 508;
/// Addresses of ranges that are no memory: which file a call has to do with (a number for the file, its length, an offset), and bytes of it.
pub const ABOUT_FILE: u64 = 1;
pub const IN_FILE: u64 = 2;
/// Where a number has to say it all, a synchronisation's is this, and the `run_model::Op`.
pub const FIRST_SYNC: u32 = 0xfe00;
/// Numbers from here on are signals: this, and the signal's number.
pub const FIRST_SIGNAL: u32 = 0x1_0000;

/// Where a signal's handler ran, as the result of its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalPlace {
    /// When a call had returned.
    AfterCall = 1,
    /// Before the call or the synchronisation that comes next, or while it waited; before an access.
    Before = 2,
    /// Where the thread was, which did nothing else than to wait for it.
    Anywhere = 3,
}

impl SignalPlace {
    /// `None`: the recording does not say.
    pub fn of(result: i64) -> Option<SignalPlace> {
        [SignalPlace::AfterCall, SignalPlace::Before, SignalPlace::Anywhere]
            .into_iter()
            .find(|place| *place as i64 == result)
    }
}

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
    /// Condenses what the program gave to the call; 0: not compared. If it has a time: of a call that waits ([`waits`]), how long it took; of one
    /// that acts on others ([`acts`]), that in the last 12 bits.
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

/// May this call wait until something comes from outside? It gives nothing away that would be worth a comparison.
pub const fn waits(number: u32) -> bool {
    // x86-64: read, poll, readv, pause, nanosleep, accept, recvfrom, recvmsg, select, wait4, flock, rt_sigtimedwait, rt_sigsuspend, clock_nanosleep,
    // epoll_wait, waitid, pselect6, ppoll, epoll_pwait, accept4, epoll_pwait2.
    matches!(
        number,
        0 | 7 | 19 | 23 | 34 | 35 | 43 | 45 | 47 | 61 | 73 | 128 | 130 | 230 | 232 | 247 | 270 | 271 | 281 | 288 | 441
    )
}

/// May it end a wait of another thread's, or be seen by it, by what it does? Then its time is when it began: when it is over, the other one may
/// have gone on for a while.
pub const fn acts(number: u32) -> bool {
    // x86-64: write, pwrite64, writev, sendfile, connect, sendto, sendmsg, shutdown, kill, close, rt_sigqueueinfo, tkill, epoll_ctl, tgkill,
    // splice, pwritev, rt_tgsigqueueinfo, copy_file_range, pwritev2, close_range.
    matches!(
        number,
        1 | 18 | 20 | 40 | 42 | 44 | 46 | 48 | 62 | 3 | 129 | 200 | 233 | 234 | 275 | 296 | 297 | 326 | 328 | 436
    )
}

/// Units of the duration of a call that waits, in powers of two of the time-stamp counter: some 20 ns, up to minutes.
const DURATION_UNIT: u32 = 6;

/// The check of a call that waited.
#[inline]
pub fn duration(began: u64, time: u64) -> u32 {
    (time.saturating_sub(began) >> DURATION_UNIT).min(u32::MAX as u64) as u32
}

/// Bits of a check that are the duration of a call that acts: four of an exponent, eight of a number.
pub const ACTING_BITS: u32 = 0xfff;
const NUMBER_BITS: u32 = 8;

/// The check of a call that acts on others, with how long it took.
#[inline]
pub fn with_duration(check: u32, began: u64, ended: u64) -> u32 {
    let units = duration(began, ended).min(0xff << 15);
    let exponent = (u32::BITS - units.leading_zeros()).saturating_sub(NUMBER_BITS);
    check & !ACTING_BITS | exponent << NUMBER_BITS | units >> exponent
}

impl Entry {
    /// When the thread went on behind a call that acts on others.
    pub fn ended(&self) -> Option<u64> {
        let units = u64::from(self.check & 0xff) << (self.check >> NUMBER_BITS & 0xf);
        (self.time != 0 && acts(self.number)).then(|| self.time + (units << DURATION_UNIT))
    }

    /// What is to be compared of the check: if `given` is what it would be now, the same of that.
    pub fn compared(&self, given: u32) -> (u32, u32) {
        match self.time != 0 && acts(self.number) {
            true => (self.check & !ACTING_BITS, given & !ACTING_BITS),
            false => (self.check, given),
        }
    }

    /// When the thread came to a call that waits.
    pub fn began(&self) -> Option<u64> {
        (self.time != 0 && waits(self.number))
            .then(|| self.time - (u64::from(self.check) << DURATION_UNIT).min(self.time))
    }
}

/// The fixed part of a range.
pub fn encode_range(address: u64, bytes: u64) -> [u8; RANGE_BYTES] {
    let mut out = [0; RANGE_BYTES];
    out[0..8].copy_from_slice(&address.to_le_bytes());
    out[8..16].copy_from_slice(&bytes.to_le_bytes());
    out
}

/// A checksum of an entry against torn and flipped bytes, eight at a time.
#[derive(Clone, Copy, Debug)]
pub struct RangeHash(u64);

const LANES: usize = 4;
/// Words that are hashed one after the other. If there are more, it is in four lanes, since a processor can multiply several
/// numbers at once but not one several times.
pub const WORDS_IN_ORDER: usize = 16;
/// From so many on, sums of them are hashed: it can add many more.
const WORDS_SUMMED: usize = 64;
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
        let (words, rest) = bytes.as_chunks::<8>();
        self.0 = mix_words(mix(self.0 ^ address, bytes.len() as u64), words);
        if !rest.is_empty() {
            let last = match bytes.last_chunk::<8>() {
                Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
                None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            self.0 = mix(self.0, last);
        }
    }

    #[inline]
    pub fn fold(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

#[inline]
fn mix_words(state: u64, words: &[[u8; 8]]) -> u64 {
    if words.len() > WORDS_IN_ORDER {
        return mix_in_lanes(state, words);
    }
    words
        .iter()
        .fold(state, |state, word| mix(state, u64::from_le_bytes(*word)))
}

#[inline(never)]
fn mix_in_lanes(state: u64, words: &[[u8; 8]]) -> u64 {
    let (blocks, rest) = words.as_chunks::<LANES>();
    let mut lanes = [state, state ^ 1, state ^ 2, state ^ 3];
    let mut mix_block = |block: [u64; LANES]| {
        for (lane, word) in lanes.iter_mut().zip(block) {
            *lane = mix(*lane, word);
        }
    };
    match words.len() < WORDS_SUMMED {
        true => blocks.iter().for_each(|block| mix_block(block.map(u64::from_le_bytes))),
        false => sums(blocks).into_iter().for_each(mix_block),
    }
    let state = lanes.into_iter().fold(state, mix);
    rest.iter()
        .fold(state, |state, word| mix(state, u64::from_le_bytes(*word)))
}

/// The sums of the words of each lane, and the sums of these sums on the way. Another word changes the first, words that have changed
/// places the second.
#[inline]
fn sums(blocks: &[[[u8; 8]; LANES]]) -> [[u64; LANES]; 2] {
    let (mut sums, mut of_sums) = ([0u64; LANES], [0u64; LANES]);
    for block in blocks {
        for lane in 0..LANES {
            sums[lane] = sums[lane].wrapping_add(u64::from_le_bytes(block[lane]));
            of_sums[lane] = of_sums[lane].wrapping_add(sums[lane]);
        }
    }
    [sums, of_sums]
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
    before: Before,
}

/// One call, as read.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub entry: Entry,
    ranges: &'a [u8],
    /// The range of a short form.
    only: Option<(u64, Stored<'a>)>,
}

/// What a call stored that has a short form.
#[derive(Clone, Copy, Debug)]
enum Stored<'a> {
    Clock([u8; 16]),
    Bytes(&'a [u8]),
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
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
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
            before: Before::new(),
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
        if rest.len() >= 8
            && let Some(form) = Form::of(u64_at(rest, 0))
        {
            return self.short(form, rest, offset).map(Some);
        }
        let entry = Entry::decode(rest.first_chunk().ok_or(torn)?);
        if entry.event < self.before.event || entry.event >> 63 != 0 {
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
        self.before.event = entry.event;
        if entry.time != 0 {
            self.before.time = entry.time;
        }
        Ok(Some(Call {
            entry,
            ranges: &rest[ENTRY_BYTES..end],
            only: None,
        }))
    }

    /// The call that a short form stands for.
    fn short(&mut self, form: Form, rest: &'a [u8], offset: u64) -> Result<Call<'a>, Damage> {
        let torn = Damage::Torn { offset };
        let changed = |Changed| Damage::Hash { offset };
        let word = |i: usize| rest.get(8 * i..8 * i + 8).map(|word| u64_at(word, 0)).ok_or(torn);
        let first = word(0)?;
        let (entry, only, end) = match form {
            Form::Clock | Form::LaterClock => {
                let second = (form == Form::Clock).then(|| word(1)).transpose()?;
                let clock = Clock::decode(first, second, &mut self.before).map_err(changed)?;
                let entry = Entry {
                    event: clock.event,
                    number: clock.number as u32,
                    ranges: 1,
                    ..Entry::default()
                };
                let end = if second.is_some() { 16 } else { 8 };
                (entry, Some((clock.address, Stored::Clock(clock.stored()))), end)
            }
            Form::Sync => {
                let sync = Sync::decode(first, &mut self.before).map_err(changed)?;
                let entry = Entry {
                    event: sync.event,
                    number: SYNC,
                    check: sync.op.into(),
                    time: sync.time,
                    ..Entry::default()
                };
                (entry, None, Sync::BYTES)
            }
            Form::Call | Form::CallWithRange => {
                let range = (form == Form::CallWithRange).then(|| word(2)).transpose()?;
                let second = word(1)?;
                let mut hash = ShortHash::new(short::without_hash(first), second);
                let call = Short::decode(first, second, range, &mut self.before).map_err(changed)?;
                let (mut only, mut end) = (None, Short::BYTES);
                if let (Some(word), Some((address, bytes))) = (range, call.range) {
                    let start = Short::BYTES_WITH_RANGE;
                    end = start + bytes.next_multiple_of(8);
                    let padded = rest.get(start..end).ok_or(torn)?;
                    hash.word(word);
                    hash.words(padded.as_chunks::<8>().0);
                    only = Some((address, Stored::Bytes(&padded[..bytes])));
                }
                if hash.into(short::without_hash(first)) != first {
                    return Err(Damage::Hash { offset });
                }
                let entry = Entry {
                    event: call.event,
                    number: call.number,
                    check: call.check,
                    result: call.result,
                    time: call.time,
                    ranges: only.is_some() as u32,
                    hash: 0,
                };
                (entry, only, end)
            }
        };
        if entry.event >> 63 != 0 {
            return Err(Damage::Event { offset });
        }
        self.at += end;
        Ok(Call {
            entry,
            ranges: &[],
            only,
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
        let only = self.only.as_ref().map(|(address, stored)| match stored {
            Stored::Clock(bytes) => (*address, &bytes[..]),
            Stored::Bytes(bytes) => (*address, *bytes),
        });
        only.into_iter().chain(others)
    }
}

/// Bytes that a call gives out and that are compared in replay, at most; if they are in one buffer, and in several.
pub const CHECKED_BYTES: usize = 4096;
pub const GATHERED_BYTES: usize = 1024;

/// The check of a call that gives out `count` bytes, from the first of them.
#[inline]
pub fn condensed(first: &[u8], count: usize) -> u32 {
    (RangeHash::of(first).fold() ^ count as u32) | 1
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
