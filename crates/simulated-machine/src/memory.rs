//! The bytes that the threads share.

/// Where shared memory begins; a multiple of the chunk size. The first chunk is the last of its page.
pub(crate) const BASE: u64 = 0x6000_0000_1000 - CHUNK_BYTES;
pub(crate) const CHUNK_BYTES: u64 = 64;
pub(crate) const CELL_BYTES: u64 = 8;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    pub(crate) fn new(chunks: u64) -> Memory {
        Memory {
            bytes: vec![0; (chunks * CHUNK_BYTES) as usize],
        }
    }

    /// Up to 16 bytes, little-endian.
    pub(crate) fn load(&self, address: u64, bytes: u64) -> u128 {
        let start = (address - BASE) as usize;
        self.bytes[start..start + bytes as usize]
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u128::from(*byte))
    }

    pub(crate) fn store(&mut self, address: u64, bytes: u64, value: u128) {
        let start = (address - BASE) as usize;
        let value = value.to_le_bytes();
        self.bytes[start..start + bytes as usize].copy_from_slice(&value[..bytes as usize]);
    }
}
