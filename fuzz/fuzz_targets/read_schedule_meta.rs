//! Any bytes as the metadata of a learned schedule: an answer and no panic.
//!
//! The input is tried as it is, and again with a checksum that fits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use run_store::ScheduleMeta;
use std::path::Path;

const BEGINNING: &[u8] = b"{\n  \"checksum\": \"";

fuzz_target!(|input: &[u8]| {
    read(input);
    let sum = run_store::hash_bytes([BEGINNING, input]);
    read(&[BEGINNING, sum.as_bytes(), input].concat());
});

fn read(bytes: &[u8]) {
    let Ok(meta) = ScheduleMeta::decode(bytes, Path::new("fuzzed")) else { return };
    assert_eq!(meta.key.name().len(), 16);
    assert!(meta.files().all(|(_, bytes)| bytes <= run_store::SCHEDULE_FILE_BYTES_MAX));
}
