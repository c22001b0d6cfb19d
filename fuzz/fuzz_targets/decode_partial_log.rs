//! Any bytes as a partial log, and as a vector: refused, or written again to the same bytes.
//!
//! The hash beside a vector, which no fuzzer would find, is made to fit: the bytes are also tried as the head of a log and a vector in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use partial_logs::AccessVector;
use partial_logs::PartialLog;
use partial_logs::codec::MAGIC;
use partial_logs::codec::VERSION;

/// Build, inputs, pattern.
const DIGESTS_AND_PATTERN: [u8; 32 + 32 + 4] = [0; 68];

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    if let Ok(vector) = AccessVector::decode(bytes) {
        assert_eq!(vector.encode(), bytes);
        let turns = vector.turns().map(|(name, accesses)| (name.clone(), accesses));
        assert_eq!(AccessVector::of_turns(turns), vector);
    }
    // The first byte says how much of the rest is how the run ended; then comes a vector of less than 128 bytes.
    let Some((length, rest)) = bytes.split_first() else { return };
    let (ended, vector) = rest.split_at(usize::from(*length).min(rest.len()));
    let vector = &vector[..vector.len().min(127)];
    let head = [&MAGIC[..], &VERSION.to_le_bytes(), &DIGESTS_AND_PATTERN].concat();
    let hash = blake3::hash(vector);
    read(&[&head[..], ended, &[1, 1], hash.as_bytes(), &[vector.len() as u8], vector].concat());
});

fn read(bytes: &[u8]) {
    if let Ok(log) = PartialLog::decode(bytes) {
        assert_eq!(log.encode(), bytes);
    }
}
