//! Whole traces, to bytes and back: the entries of [`super`] with others between them, which say where in its code the thread was, what it
//! loaded and what came in. The first byte of an entry says which it is; one of `super` has bits in its lowest two.
use super::Cursor;
use super::HEADER_BYTES;
use super::header_of;
use crate::predict::zigzag;
use run_model::Data;
use run_model::ThreadIndex;

#[cfg(feature = "std")]
mod reader;

#[cfg(feature = "std")]
pub use reader::WholeReader;
#[cfg(feature = "std")]
pub use reader::encode_whole;

/// "RFRNWTR\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNWTR\x01");
pub const VERSION: u32 = 1;

/// First byte, unit, value, offset, length, each at its longest, and data.
pub const MAX_TOLD_BYTES: usize = 1 + 5 + 5 + 5 + 1 + Data::MAX;

/// What stands before a thread's entries.
pub fn header(thread: ThreadIndex) -> [u8; HEADER_BYTES] {
    header_of(MAGIC, VERSION, thread)
}

/// Bits of an entry's first byte; the lowest two are zero.
mod head {
    /// What the entry is.
    #[cfg(feature = "std")]
    pub(super) const WHAT: u8 = 0x1f;
    pub(super) const BLOCK: u8 = 1 << 2;
    pub(super) const VALUE: u8 = 2 << 2;
    pub(super) const CALL: u8 = 3 << 2;
    pub(super) const BROUGHT: u8 = 4 << 2;
    pub(super) const LEFT: u8 = 5 << 2;

    /// Of blocks and values: in the unit of the entry before.
    pub(super) const SAME_UNIT: u8 = 0x20;
    /// Of blocks: the one that came after the last block when the thread was there before; nothing follows.
    pub(super) const AS_BEFORE: u8 = 0x40;
    /// Of values: as many bytes as the one before.
    pub(super) const SAME_LENGTH: u8 = 0x40;
    /// Of values: it is not the first part.
    pub(super) const HAS_OFFSET: u8 = 0x80;
    /// Of what was brought: it lies behind the last that was.
    pub(super) const FOLLOWS: u8 = 0x20;
}

/// Blocks whose successor is remembered. A power of two.
const BLOCKS: usize = 128;

/// What encoder and decoder expect of the next entry.
#[derive(Clone, Debug)]
struct Expected {
    unit: u32,
    block: u32,
    value: u32,
    length: u8,
    /// Behind what was brought last.
    end: u64,
    /// By the slot of a block: unit and number of the one that came after it.
    next: [(u32, u32); BLOCKS],
    last: usize,
}

impl Expected {
    const fn new() -> Expected {
        Expected {
            unit: 0,
            block: 0,
            value: 0,
            length: 0,
            end: 0,
            next: [(0, 0); BLOCKS],
            last: 0,
        }
    }

    fn learn_block(&mut self, unit: u32, block: u32) {
        self.next[self.last] = (unit, block);
        let mixed = (unit.rotate_left(16) ^ block).wrapping_mul(0x9e37_79b9);
        self.last = mixed as usize >> (u32::BITS - BLOCKS.trailing_zeros());
        (self.unit, self.block) = (unit, block);
    }

    fn learn_value(&mut self, unit: u32, value: u32, length: u8) {
        (self.unit, self.value, self.length) = (unit, value, length);
    }
}

fn difference(new: u32, old: u32) -> u64 {
    zigzag(i64::from(new.wrapping_sub(old) as i32))
}

/// The encoder of what a thread's whole trace has besides accesses and events, which the one of [`super`] writes.
#[derive(Clone, Debug)]
pub struct ToldEncoder {
    expected: Expected,
}

impl ToldEncoder {
    pub const fn new() -> ToldEncoder {
        ToldEncoder {
            expected: Expected::new(),
        }
    }

    pub fn block(&mut self, unit: u32, block: u32, out: &mut [u8; MAX_TOLD_BYTES]) -> usize {
        let expected = &mut self.expected;
        let mut out = Cursor { bytes: out, length: 0 };
        if expected.next[expected.last] == (unit, block) {
            out.byte(head::BLOCK | head::AS_BEFORE);
        } else {
            let same = if unit == expected.unit { head::SAME_UNIT } else { 0 };
            out.byte(head::BLOCK | same);
            if same == 0 {
                out.varint(difference(unit, expected.unit));
            }
            out.varint(difference(block, expected.block));
        }
        expected.learn_block(unit, block);
        out.length
    }

    pub fn left(&mut self, out: &mut [u8; MAX_TOLD_BYTES]) -> usize {
        out[0] = head::LEFT;
        1
    }

    /// A value, or the part of it that begins at `offset`.
    pub fn value(&mut self, unit: u32, value: u32, offset: u32, data: &Data, out: &mut [u8; MAX_TOLD_BYTES]) -> usize {
        let expected = &mut self.expected;
        let length = data.bytes().len() as u8;
        let mut first = head::VALUE;
        first |= if unit == expected.unit { head::SAME_UNIT } else { 0 };
        first |= if length == expected.length {
            head::SAME_LENGTH
        } else {
            0
        };
        first |= if offset != 0 { head::HAS_OFFSET } else { 0 };
        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(first);
        if unit != expected.unit {
            out.varint(difference(unit, expected.unit));
        }
        out.varint(difference(value, expected.value));
        if offset != 0 {
            out.varint(u64::from(offset));
        }
        if length != expected.length {
            out.byte(length);
        }
        match data.word() {
            Some(word) => out.varint(word),
            None => data.bytes().iter().for_each(|byte| out.byte(*byte)),
        }
        expected.learn_value(unit, value, length);
        out.length
    }

    pub fn call(&mut self, number: u32, result: i64, out: &mut [u8; MAX_TOLD_BYTES]) -> usize {
        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(head::CALL);
        out.varint(u64::from(number));
        out.varint(zigzag(result));
        out.length
    }

    pub fn brought(&mut self, address: u64, data: &Data, out: &mut [u8; MAX_TOLD_BYTES]) -> usize {
        let expected = &mut self.expected;
        let follows = if address == expected.end { head::FOLLOWS } else { 0 };
        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(head::BROUGHT | follows);
        if follows == 0 {
            out.varint(zigzag(address.wrapping_sub(expected.end) as i64));
        }
        out.byte(data.bytes().len() as u8);
        data.bytes().iter().for_each(|byte| out.byte(*byte));
        expected.end = address.wrapping_add(data.bytes().len() as u64);
        out.length
    }
}

impl Default for ToldEncoder {
    fn default() -> ToldEncoder {
        ToldEncoder::new()
    }
}
