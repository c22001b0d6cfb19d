//! The bytes that the threads share.
use crate::explore::Word64;
use machine::Word;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;

/// Where shared memory begins; a multiple of the chunk size. The first chunk is the last of its page.
pub(crate) const BASE: u64 = 0x6000_0000_1000 - CHUNK_BYTES;
pub(crate) const CHUNK_BYTES: u64 = 64;
pub(crate) const CELL_BYTES: u64 = 8;
/// More than programs have.
pub(crate) const CHUNKS_MAX: usize = 16;
pub(crate) const CELLS_MAX: usize = CHUNKS_MAX * (CHUNK_BYTES / CELL_BYTES) as usize;

/// Memory as a replay has it: no threads meet there.
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

static CELLS: [Word64; CELLS_MAX] = [const { Word64::new(0) }; CELLS_MAX];

/// The memory of a recording: each cell that an access covers is a step.
pub(crate) struct SharedMemory;

/// The part of an access that lies in one cell: which one, how far from its beginning in bits, how far from the access's, and
/// the bits that count.
fn parts(address: u64, bytes: u64) -> impl Iterator<Item = (&'static Word64, u64, u64, u64)> {
    let first = address / CELL_BYTES * CELL_BYTES;
    (first..address + bytes).step_by(CELL_BYTES as usize).map(move |cell| {
        let start = cell.max(address);
        let length = (cell + CELL_BYTES).min(address + bytes) - start;
        let mask = u64::MAX >> (64 - 8 * length) << (8 * (start - cell));
        let word = &CELLS[((cell - BASE) / CELL_BYTES) as usize];
        (word, 8 * (start - cell), 8 * (start - address), mask)
    })
}

impl SharedMemory {
    pub(crate) fn load(address: u64, bytes: u64) -> u128 {
        parts(address, bytes).fold(0, |value, (word, inside, before, mask)| {
            value | u128::from((word.load(Relaxed) & mask) >> inside) << before
        })
    }

    pub(crate) fn store(address: u64, bytes: u64, value: u128) {
        for (word, inside, before, mask) in parts(address, bytes) {
            word.store_masked(((value >> before) as u64) << inside, mask);
        }
    }

    fn cell(address: u64) -> &'static Word64 {
        &CELLS[((address - BASE) / CELL_BYTES) as usize]
    }

    pub(crate) fn atomic_load(address: u64) -> u128 {
        u128::from(SharedMemory::cell(address).load(SeqCst))
    }

    pub(crate) fn atomic_store(address: u64, value: u128) {
        SharedMemory::cell(address).store(value as u64, SeqCst);
    }

    pub(crate) fn atomic_add(address: u64, value: u128) -> u128 {
        u128::from(SharedMemory::cell(address).fetch_add(value as u64, SeqCst))
    }
}
