//! Short forms of the commonest entries. Their first bit is 1, and two bits say which form it is.
//!
//! ```text
//! clock        1 | number 1 | 0 2 | events 4 | sum 8 | address 48            seconds 34 | fraction 30
//! later clock  1 | number 1 | 3 2 | events 4 | sum 8 | address 16 | fraction 32
//! call         1 | timed 1  | 1 2 | events 4 | number 9 | result 23 | hash 24    time 32 | check 32
//! sync         1 | 0        | 1 2 | events 4 | 511 9    | op 8 | sum 13 | time 26
//! with a range 1 | timed 1  | 2 2 | events 4 | number 9 | result 23 | hash 24    time 32 | check 32    bytes 16 | address 48
//!              and the bytes, padded to a multiple of 8
//! ```
//!
//! `events` is how many the thread had since the entry before, `time` how much later it is than the thread's last entry that
//! has one. A later clock is of the second of the last one of the same number; its fraction is the difference to that one,
//! and its address, in words, that to the last clock's. Every synchronisation has a time, so that 511 without one is a form of its own, for one that
//! returned 0.
use super::SYNC;
use super::mix;
use super::mix_words;

/// What follows from the entries before. Writer and reader have the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    pub event: u64,
    /// The last one that was not 0.
    pub time: u64,
    /// Where the last clock was stored.
    address: u64,
    /// Seconds and fraction of the last one of each number.
    clocks: [(u64, u64); 2],
}

impl Before {
    pub const fn new() -> Before {
        Before {
            event: 0,
            time: 0,
            address: 0,
            clocks: [(0, 0); 2],
        }
    }
}

/// The form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Clock = 0,
    Call = 1,
    CallWithRange = 2,
    LaterClock = 3,
    /// By the number of a call, not by the bits of a form.
    Sync = 4,
}

const FORM_AT: u32 = 60;
const EVENTS_AT: u32 = 56;
const EVENTS_MAX: u64 = 15;

impl Form {
    /// Nothing: it is no short form.
    #[inline]
    pub fn of(first: u64) -> Option<Form> {
        if first >> 63 == 0 {
            return None;
        }
        Some(match first >> FORM_AT & 3 {
            0 => Form::Clock,
            1 if first & TIMED == 0 && first >> CALL_AT & low(CALL_BITS) == SYNC as u64 => Form::Sync,
            1 => Form::Call,
            2 => Form::CallWithRange,
            _ => Form::LaterClock,
        })
    }
}

const fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A clock that was read without an error, shortly after the entry before: most entries of many programs are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub number: ClockNumber,
    /// The thread's event that it was.
    pub event: u64,
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

const NUMBER_AT: u32 = 62;
const SUM_AT: u32 = 48;
const ADDRESS_BITS: u32 = 48;
const FRACTION_BITS: u32 = 30;
const DISTANCE_AT: u32 = 32;
const DISTANCE_BITS: u32 = 16;

impl Clock {
    pub const BYTES_MAX: usize = 16;

    /// The short form, if it can have one, and how many bytes of the two words it has: 8 for a later clock.
    #[inline]
    pub fn encode(&self, before: &mut Before) -> Option<([u64; 2], usize)> {
        let events = self.event.wrapping_sub(before.event);
        let which = (self.number == ClockNumber::Gettimeofday) as usize;
        let fits = events <= EVENTS_MAX
            && self.address >> ADDRESS_BITS == 0
            && self.fraction >> FRACTION_BITS == 0
            && self.seconds >> (64 - FRACTION_BITS) == 0;
        if !fits {
            return None;
        }
        let head = 1 << 63 | (which as u64) << NUMBER_AT | events << EVENTS_AT;
        let distance = self.address.wrapping_sub(before.address) as i64;
        let later = self.fraction.wrapping_sub(before.clocks[which].1);
        let is_near = distance & 7 == 0 && (distance >> 3) as i16 as i64 == distance >> 3;
        let words = if is_near && self.seconds == before.clocks[which].0 && later <= low(FRACTION_BITS) {
            let distance = (distance >> 3) as u64 & low(DISTANCE_BITS);
            let first = head | (Form::LaterClock as u64) << FORM_AT | distance << DISTANCE_AT | later;
            ([first | sum(first, 0) << SUM_AT, 0], 8)
        } else {
            let (first, second) = (head | self.address, self.seconds << FRACTION_BITS | self.fraction);
            ([first | sum(first, second) << SUM_AT, second], 16)
        };
        self.leave(before);
        Some(words)
    }

    #[inline]
    fn leave(&self, before: &mut Before) {
        before.event = self.event;
        before.address = self.address;
        before.clocks[(self.number == ClockNumber::Gettimeofday) as usize] = (self.seconds, self.fraction);
    }

    /// `Err`: some bit is not as it was written.
    pub(super) fn decode(first: u64, second: Option<u64>, before: &mut Before) -> Result<Clock, Changed> {
        let without_sum = first & !(0xff << SUM_AT);
        if first != without_sum | sum(without_sum, second.unwrap_or(0)) << SUM_AT {
            return Err(Changed);
        }
        let which = (first >> NUMBER_AT & 1) as usize;
        let (address, seconds, fraction) = match second {
            Some(second) => (
                first & low(ADDRESS_BITS),
                second >> FRACTION_BITS,
                second & low(FRACTION_BITS),
            ),
            None => {
                let distance = (first >> DISTANCE_AT) as u16 as i16 as i64 * 8;
                let (seconds, fraction) = before.clocks[which];
                let fraction = fraction + (first & low(DISTANCE_AT));
                (before.address.wrapping_add(distance as u64), seconds, fraction)
            }
        };
        let clock = Clock {
            number: [ClockNumber::ClockGettime, ClockNumber::Gettimeofday][which],
            event: before
                .event
                .checked_add(first >> EVENTS_AT & EVENTS_MAX)
                .ok_or(Changed)?,
            address,
            seconds,
            fraction,
        };
        if address >> ADDRESS_BITS != 0 || fraction >> FRACTION_BITS != 0 {
            return Err(Changed);
        }
        clock.leave(before);
        Ok(clock)
    }

    /// What the call stored.
    pub(super) fn stored(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[8..].copy_from_slice(&self.fraction.to_le_bytes());
        bytes
    }
}

/// Some bit is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed;

/// Eight bits that change whenever one bit of two words does, and usually when more do.
#[inline]
fn sum(first: u64, second: u64) -> u64 {
    let mut sum = first ^ second.rotate_left(3);
    sum ^= sum >> 32;
    sum ^= sum >> 16;
    (sum ^ sum >> 8) & 0xff
}

/// A call of small numbers, with at most one range, shortly after the entry before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    pub event: u64,
    pub number: u32,
    pub check: u32,
    pub result: i64,
    /// 0: not taken.
    pub time: u64,
    /// Address and length, not above `RANGE_BYTES_MAX`.
    pub range: Option<(u64, usize)>,
}

const TIMED: u64 = 1 << 62;
const CALL_AT: u32 = 47;
const CALL_BITS: u32 = 9;
const RESULT_AT: u32 = 24;
const RESULT_BITS: u32 = 23;
const HASH_BITS: u32 = 24;
const TIME_AT: u32 = 32;
const TIME_BITS: u32 = 32;

impl Short {
    pub const RANGE_BYTES_MAX: usize = 0xffff;
    /// Without a range, and with one; without its bytes.
    pub const BYTES: usize = 16;
    pub const BYTES_WITH_RANGE: usize = 24;

    /// The words of the short form, if it can have one; the third one is for the range. The first one is without its hash:
    /// `with_hash`.
    #[inline]
    pub fn encode(&self, before: &mut Before) -> Option<[u64; 3]> {
        let events = self.event.wrapping_sub(before.event);
        let later = match self.time {
            0 => 0,
            time => time.wrapping_sub(before.time),
        };
        let result = self.result << (64 - RESULT_BITS) >> (64 - RESULT_BITS);
        let (address, bytes) = self.range.unwrap_or((0, 0));
        let fits = events <= EVENTS_MAX
            && later >> TIME_BITS == 0
            && result == self.result
            && u64::from(self.number) >> CALL_BITS == 0
            && (self.number != SYNC || self.time != 0)
            && address >> ADDRESS_BITS == 0
            && bytes <= Short::RANGE_BYTES_MAX;
        if !fits {
            return None;
        }
        before.event = self.event;
        before.time += later;
        let form = if self.range.is_some() {
            Form::CallWithRange
        } else {
            Form::Call
        };
        Some([
            1 << 63
                | if self.time == 0 { 0 } else { TIMED }
                | (form as u64) << FORM_AT
                | events << EVENTS_AT
                | u64::from(self.number) << CALL_AT
                | (result as u64 & low(RESULT_BITS)) << RESULT_AT,
            later << TIME_AT | u64::from(self.check),
            (bytes as u64) << ADDRESS_BITS | address,
        ])
    }

    /// From the words of the fixed part, whose hash is not looked at.
    pub(super) fn decode(first: u64, second: u64, range: Option<u64>, before: &mut Before) -> Result<Short, Changed> {
        let later = second >> TIME_AT;
        let time = match first & TIMED {
            0 if later == 0 => 0,
            0 => return Err(Changed),
            _ => before.time.checked_add(later).ok_or(Changed)?,
        };
        before.event = before
            .event
            .checked_add(first >> EVENTS_AT & EVENTS_MAX)
            .ok_or(Changed)?;
        before.time = time.max(before.time);
        let result = (first >> RESULT_AT & low(RESULT_BITS)) << (64 - RESULT_BITS);
        Ok(Short {
            event: before.event,
            number: (first >> CALL_AT & low(CALL_BITS)) as u32,
            check: second as u32,
            result: result as i64 >> (64 - RESULT_BITS),
            time,
            range: range.map(|range| (range & low(ADDRESS_BITS), (range >> ADDRESS_BITS) as usize)),
        })
    }
}

/// A synchronisation that returned 0, shortly after the entry before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    pub event: u64,
    /// Of `run_model::Op`.
    pub op: u8,
    /// If it is not above that of the entry before, it is taken to be one more.
    pub time: u64,
}

const OP_AT: u32 = 39;
const CHECK_AT: u32 = 26;
const CHECK_BITS: u32 = 13;
const LATER_BITS: u32 = 26;

impl Sync {
    pub const BYTES: usize = 8;

    /// The word of the short form, if it can have one.
    #[inline]
    pub fn encode(&self, before: &mut Before) -> Option<u64> {
        let events = self.event.wrapping_sub(before.event);
        let later = self.time.max(before.time + 1) - before.time;
        if events > EVENTS_MAX || later >> LATER_BITS != 0 {
            return None;
        }
        before.event = self.event;
        before.time += later;
        let word = 1 << 63
            | (Form::Call as u64) << FORM_AT
            | events << EVENTS_AT
            | u64::from(SYNC) << CALL_AT
            | u64::from(self.op) << OP_AT
            | later;
        Some(word | Sync::check(word) << CHECK_AT)
    }

    pub(super) fn decode(word: u64, before: &mut Before) -> Result<Sync, Changed> {
        let without_check = word & !(low(CHECK_BITS) << CHECK_AT);
        if word != without_check | Sync::check(without_check) << CHECK_AT {
            return Err(Changed);
        }
        let events = word >> EVENTS_AT & EVENTS_MAX;
        before.event = before.event.checked_add(events).ok_or(Changed)?;
        before.time = before.time.checked_add(word & low(LATER_BITS)).ok_or(Changed)?;
        Ok(Sync {
            event: before.event,
            op: (word >> OP_AT) as u8,
            time: before.time,
        })
    }

    /// Thirteen bits, one of which changes whenever one bit of the word does.
    #[inline]
    fn check(word: u64) -> u64 {
        (word ^ word >> 13 ^ word >> 26 ^ word >> 39 ^ word >> 52) & low(CHECK_BITS)
    }
}

/// The hash of a short form of a call, word by word: its fixed part and its padded bytes.
#[derive(Clone, Copy, Debug)]
pub struct ShortHash(u64);

impl ShortHash {
    #[inline]
    pub fn new(first: u64, second: u64) -> ShortHash {
        ShortHash(mix(mix(super::BEGINNING, first), second))
    }

    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    /// The padded bytes of a range.
    #[inline]
    pub fn words(&mut self, words: &[[u8; 8]]) {
        self.0 = mix_words(self.0, words);
    }

    /// The first word, which has room for it, with the hash.
    #[inline]
    pub fn into(self, first: u64) -> u64 {
        // All bits: the highest of the last word end up in the middle.
        first | (self.0 ^ self.0 >> HASH_BITS ^ self.0 >> (2 * HASH_BITS)) & low(HASH_BITS)
    }
}

/// The first word without its hash.
#[inline]
pub(super) fn without_hash(first: u64) -> u64 {
    first & !low(HASH_BITS)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::inputs::Damage;
    use crate::inputs::Entry;
    use crate::inputs::Reader;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// A call and its ranges.
    type Read = (Entry, Vec<(u64, Vec<u8>)>);

    /// What a thread may do, as the runtime writes it: in the short form, if there is one.
    #[derive(Clone, Debug)]
    enum Done {
        Clock(Clock),
        Call(Short, Vec<u8>),
        Sync(Sync),
    }

    fn done() -> impl Strategy<Value = Vec<Done>> {
        let number = prop_oneof![Just(ClockNumber::ClockGettime), Just(ClockNumber::Gettimeofday)];
        let address = prop_oneof![0x7ffe_0000u64..0x7fff_0000, 0u64..1 << 50];
        let seconds = prop_oneof![3u64..5, 0u64..1 << 35];
        let clock =
            (number, address.clone(), seconds, 0u64..1 << 31).prop_map(|(number, address, seconds, fraction)| {
                Done::Clock(Clock {
                    number,
                    event: 0,
                    address,
                    seconds,
                    fraction,
                })
            });
        let bytes = prop_oneof![Just(0usize), 1usize..40, 100usize..300, 60_000usize..70_000];
        let result = prop_oneof![-200i64..200, any::<i64>()];
        let time = prop_oneof![Just(0u64), 1u64..1 << 30, 1u64..1 << 34];
        let call = (0u32..600, any::<u32>(), result, time, address, bytes, any::<u8>());
        let call = call.prop_map(|(number, check, result, time, address, bytes, seed)| {
            let data: Vec<u8> = (0..bytes).map(|i| (i as u8).wrapping_mul(seed)).collect();
            let range = (bytes > 0).then_some((address, bytes));
            Done::Call(
                Short {
                    event: 0,
                    number,
                    check,
                    result,
                    time,
                    range,
                },
                data,
            )
        });
        let sync = (any::<u8>(), prop_oneof![0u64..1 << 20, 0u64..1 << 28]);
        let sync = sync.prop_map(|(op, time)| Done::Sync(Sync { event: 0, op, time }));
        let events = prop_oneof![0u64..16, 0u64..40];
        proptest::collection::vec((events, prop_oneof![clock, call, sync]), 1..12).prop_map(|all| {
            let (mut event, mut time) = (0, 0);
            let place = |(events, mut done)| {
                event += events;
                match &mut done {
                    Done::Clock(clock) => clock.event = event,
                    Done::Call(call, _) => {
                        call.event = event;
                        if call.time != 0 {
                            time += call.time;
                            call.time = time;
                        }
                    }
                    Done::Sync(sync) => {
                        sync.event = event;
                        time += sync.time;
                        sync.time = time;
                    }
                }
                done
            };
            all.into_iter().map(place).collect()
        })
    }

    /// The stream, and what is in it: those that have a short form.
    fn write_short(all: &[Done]) -> (Vec<u8>, Vec<Read>) {
        let (mut before, mut stream, mut expected) = (Before::new(), Vec::new(), Vec::new());
        for done in all {
            match done {
                Done::Clock(clock) => {
                    let Some((words, bytes)) = clock.encode(&mut before) else {
                        continue;
                    };
                    stream.extend(words.map(u64::to_le_bytes).concat().iter().take(bytes));
                    let entry = Entry {
                        event: clock.event,
                        number: clock.number as u32,
                        ranges: 1,
                        ..Entry::default()
                    };
                    expected.push((entry, vec![(clock.address, clock.stored().to_vec())]));
                }
                Done::Sync(sync) => {
                    let time = sync.time.max(before.time + 1);
                    let Some(word) = sync.encode(&mut before) else {
                        continue;
                    };
                    stream.extend(word.to_le_bytes());
                    let entry = Entry {
                        event: sync.event,
                        number: SYNC,
                        check: sync.op.into(),
                        time,
                        ..Entry::default()
                    };
                    expected.push((entry, Vec::new()));
                }
                Done::Call(call, data) => {
                    let Some([first, second, range]) = call.encode(&mut before) else {
                        continue;
                    };
                    let mut padded = data.clone();
                    padded.resize(data.len().next_multiple_of(8), 0);
                    let mut hash = ShortHash::new(first, second);
                    if call.range.is_some() {
                        hash.word(range);
                        hash.words(padded.as_chunks::<8>().0);
                    }
                    stream.extend(hash.into(first).to_le_bytes());
                    stream.extend(second.to_le_bytes());
                    if call.range.is_some() {
                        stream.extend(range.to_le_bytes());
                        stream.extend(padded);
                    }
                    let Short {
                        event,
                        number,
                        check,
                        result,
                        time,
                        range,
                    } = *call;
                    let ranges = range.is_some() as u32;
                    let entry = Entry {
                        event,
                        number,
                        check,
                        result,
                        time,
                        ranges,
                        hash: 0,
                    };
                    expected.push((entry, range.map(|range| (range.0, data.clone())).into_iter().collect()));
                }
            }
        }
        (stream, expected)
    }

    fn read_short(stream: &[u8]) -> Result<Vec<Read>, Damage> {
        let mut reader = Reader::new(stream);
        let mut calls = Vec::new();
        while let Some(call) = reader.next_call()? {
            let ranges = call.ranges().map(|(address, bytes)| (address, bytes.to_vec()));
            calls.push((call.entry, ranges.collect()));
        }
        Ok(calls)
    }

    proptest! {
        #[test]
        fn short_forms_are_read(done in done()) {
            let (stream, expected) = write_short(&done);
            prop_assert_eq!(read_short(&stream), Ok(expected));
        }

        #[test]
        fn a_changed_bit_of_a_short_form_is_noticed(done in done(), at in any::<usize>(), bit in 0u8..8) {
            let (mut stream, expected) = write_short(&done);
            if !stream.is_empty() {
                let at = at % stream.len();
                stream[at] ^= 1 << bit;
                prop_assert_ne!(read_short(&stream), Ok(expected));
            }
        }

        #[test]
        fn a_cut_short_form_is_refused(done in done(), cut in any::<usize>()) {
            let (stream, expected) = write_short(&done);
            if !stream.is_empty() {
                let read = read_short(&stream[..cut % stream.len()]);
                prop_assert!(read.is_err() || read.is_ok_and(|calls| calls.len() < expected.len()));
            }
        }

        #[test]
        fn nonsense_in_short_forms_is_refused_in_peace(words in proptest::collection::vec(any::<u64>(), 0..40)) {
            let stream: Vec<u8> = words.iter().flat_map(|word| (word | 1 << 63).to_le_bytes()).collect();
            let _ = read_short(&stream);
        }
    }

    #[test]
    fn no_bit_of_padded_bytes_is_left_out_of_the_hash() {
        let done = [Done::Call(
            Short {
                event: 0,
                number: 0,
                check: 0,
                result: 0,
                time: 0,
                range: Some((4096, 9)),
            },
            vec![0; 9],
        )];
        let (stream, _) = write_short(&done);
        for bit in 8 * (stream.len() - 16)..8 * stream.len() {
            let mut changed = stream.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read_short(&changed).is_err(), "bit {bit} of {}", 8 * stream.len());
        }
    }

    #[test]
    fn what_is_too_large_for_a_short_form_has_none() {
        let clock = Clock {
            number: ClockNumber::ClockGettime,
            event: 15,
            address: 1,
            seconds: 1,
            fraction: 1,
        };
        assert!(clock.encode(&mut Before::new()).is_some());
        for large in [
            Clock { event: 16, ..clock },
            Clock {
                address: 1 << 48,
                ..clock
            },
            Clock {
                seconds: 1 << 34,
                ..clock
            },
            Clock {
                fraction: 1 << 30,
                ..clock
            },
        ] {
            assert_eq!(large.encode(&mut Before::new()), None);
        }
        let range = Some((1, Short::RANGE_BYTES_MAX));
        let call = Short {
            event: 15,
            number: 511,
            check: u32::MAX,
            result: (1 << 22) - 1,
            time: 1,
            range,
        };
        assert!(call.encode(&mut Before::new()).is_some());
        for large in [
            Short { event: 16, ..call },
            Short { number: 512, ..call },
            Short {
                result: 1 << 22,
                ..call
            },
            Short {
                result: -1 << 23,
                ..call
            },
            Short { time: 1 << 32, ..call },
            Short {
                range: Some((1 << 48, 1)),
                ..call
            },
            Short {
                range: Some((1, Short::RANGE_BYTES_MAX + 1)),
                ..call
            },
        ] {
            assert_eq!(large.encode(&mut Before::new()), None);
        }
    }

    #[test]
    fn a_clock_of_the_same_second_needs_one_word() {
        let mut before = Before::new();
        let clock = Clock {
            number: ClockNumber::Gettimeofday,
            event: 1,
            address: 0x7ffe_0010,
            seconds: 9,
            fraction: 5,
        };
        assert!(matches!(clock.encode(&mut before), Some((_, 16))));
        let later = Clock {
            event: 2,
            address: 0x7ffe_0000,
            fraction: 1_000_000,
            ..clock
        };
        assert!(matches!(later.encode(&mut before), Some((_, 8))));
        let earlier = Clock { fraction: 4, ..later };
        assert!(matches!(earlier.encode(&mut before), Some((_, 16))));
        let next_second = Clock {
            seconds: 10,
            fraction: 6,
            ..earlier
        };
        assert!(matches!(next_second.encode(&mut before), Some((_, 16))));
    }
}
