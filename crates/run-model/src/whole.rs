//! What a whole trace has besides what hybrid schedules are made of: the way of every thread through its code, and what came into it.
//!
//! Functions, blocks and values have the numbers that the compiler gave them in their unit, whose bitcode is kept in the program.
use crate::TraceEntry;

/// One thing that a thread did, in the order of the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WholeEntry {
    /// A plain access, or an event.
    Step(TraceEntry),
    /// The thread came to this block. The first block of a function says that it was entered.
    Block { unit: u32, block: u32 },
    /// The function that it is in returns, or an exception leaves it by its own code; one without code for that is left without notice.
    Left,
    /// What an instruction of the current block loaded or returned, or an argument of a function, or where a local variable lies.
    /// What is longer than [`Data::MAX`] comes in several entries.
    Value {
        unit: u32,
        value: u32,
        /// Bytes of the value that came before.
        offset: u32,
        data: Data,
    },
    /// A system call came back.
    Call { number: u32, result: i64 },
    /// The last call brought these bytes to this address.
    Brought { address: u64, data: Data },
}

/// A few bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Data {
    bytes: [u8; Data::MAX],
    length: u8,
}

impl Data {
    pub const MAX: usize = 64;

    /// `bytes` are at least one, and at most [`Data::MAX`]: what is beyond is left out.
    pub fn new(bytes: &[u8]) -> Data {
        let length = bytes.len().min(Data::MAX);
        let mut data = Data {
            bytes: [0; Data::MAX],
            length: length as u8,
        };
        data.bytes[..length].copy_from_slice(&bytes[..length]);
        data
    }

    /// The lowest `length` bytes of a number, at most eight, as they lie in memory.
    pub fn of_word(word: u64, length: usize) -> Data {
        Data::new(&word.to_le_bytes()[..length.min(8)])
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// As a number, if it has no more than eight bytes.
    pub fn word(&self) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..self.bytes().len())?.copy_from_slice(self.bytes());
        Some(u64::from_le_bytes(word))
    }
}

impl core::fmt::Debug for Data {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}
