//! What surrounds the records in a log file: the header, the tail word that says how much is valid, the hash.
use run_model::ThreadIndex;

/// "RFRNLOG\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNLOG\x01");
pub const FORMAT_VERSION: u32 = 2;
/// The stream of records begins here.
pub const HEADER_BYTES: usize = 64;
/// Where the header keeps its tail word: 8-aligned, so that one store publishes it.
pub const TAIL_OFFSET: usize = 16;
/// The tail word has 40 bits for the length of the stream.
pub const STREAM_BYTES_MAX: u64 = (1 << 40) - 1;

const _: () = assert!(TAIL_OFFSET.is_multiple_of(8));

/// The header of an empty log of `thread`.
pub fn header(thread: ThreadIndex) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&thread.0.to_le_bytes());
    let tail = Tail::new(0, RollingHash::new());
    bytes[TAIL_OFFSET..TAIL_OFFSET + 8].copy_from_slice(&tail.pack().to_le_bytes());
    bytes
}

/// `thread-N.EXTENSION` without allocation: the name's bytes and how many of them count (no terminating zero).
///
/// # Panics
/// If the extension has more than six letters.
pub fn file_name(thread: ThreadIndex, extension: &str) -> ([u8; 24], usize) {
    let mut digits = [0; 10];
    let mut first = digits.len();
    let mut rest = thread.0;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut name = [0; 24];
    let mut length = 0;
    let parts = [b"thread-", &digits[first..], b".", extension.as_bytes()];
    for &byte in parts.into_iter().flatten() {
        name[length] = byte;
        length += 1;
    }
    (name, length)
}

/// How many bytes of the stream are valid, and their hash, in one word.
///
/// The writer appends a record, then publishes its new tail with one 8-byte store; whatever moment a `kill -9` chooses,
/// the log is whole up to the tail that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Bytes of the stream, without the header.
    pub bytes: u64,
    /// The folded hash, 24 bits.
    pub hash: u32,
}

impl Tail {
    pub fn new(bytes: u64, hash: RollingHash) -> Tail {
        debug_assert!(
            bytes <= STREAM_BYTES_MAX,
            "a log of {bytes} bytes does not fit its tail"
        );
        Tail {
            bytes,
            hash: hash.fold(),
        }
    }

    #[inline]
    pub fn pack(self) -> u64 {
        (self.bytes & STREAM_BYTES_MAX) | (self.hash as u64) << 40
    }

    pub fn unpack(word: u64) -> Tail {
        Tail {
            bytes: word & STREAM_BYTES_MAX,
            hash: (word >> 40) as u32,
        }
    }
}

/// FNV-1a with 32 bits of state over all bytes of the stream.
///
/// A checksum against torn and flipped bytes, not against an adversary. Each step is a bijection of the state, so a
/// single changed byte always changes the 32-bit state; only folding it to 24 bits can hide the change, once in 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingHash {
    state: u32,
}

impl RollingHash {
    pub const fn new() -> RollingHash {
        RollingHash { state: 0x811c_9dc5 }
    }

    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        let mut state = self.state;
        for &byte in bytes {
            state = (state ^ byte as u32).wrapping_mul(0x0100_0193);
        }
        self.state = state;
    }

    #[inline]
    pub fn fold(self) -> u32 {
        (self.state ^ (self.state >> 24)) & 0x00ff_ffff
    }
}

impl Default for RollingHash {
    fn default() -> RollingHash {
        RollingHash::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_packs_both_parts() {
        let tail = Tail {
            bytes: STREAM_BYTES_MAX,
            hash: 0x00ab_cdef,
        };
        assert_eq!(Tail::unpack(tail.pack()), tail);
        assert_eq!(tail.pack(), 0xabcd_efff_ffff_ffff);
    }

    #[test]
    fn hash_is_fnv_1a() {
        let mut hash = RollingHash::new();
        hash.update(b"foobar");
        assert_eq!(hash.state, 0xbf9c_f968);
        assert_eq!(hash.fold(), (0xbf9c_f968 ^ 0xbf) & 0x00ff_ffff);
    }

    #[test]
    fn names_are_decimal() {
        for thread in [0, 7, 10, 31_999, u32::MAX] {
            for extension in ["log", "inputs"] {
                let (name, length) = file_name(ThreadIndex(thread), extension);
                assert_eq!(&name[..length], format!("thread-{thread}.{extension}").as_bytes());
            }
        }
    }
}
