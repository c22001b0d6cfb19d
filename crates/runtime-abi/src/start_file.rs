//! The file `start` of a program that was executed in a recording: strings that end with NUL, and behind them [`CHECKS`] little-endian words: the checksums of
//! the strings, of the file `arguments` and of the file `environment`.

pub const CHECKS: usize = 3;

/// Of no bytes.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The checksum (FNV-1a) of what `sum` is the checksum of, and `bytes` behind it.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

pub fn check(bytes: &[u8]) -> u64 {
    add(EMPTY, bytes)
}
