//! Any bytes as a schedule: refused, or written again to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use log_format::schedule;

fuzz_target!(|file: &[u8]| {
    if let Ok(decoded) = schedule::decode(file) {
        assert_eq!(schedule::encode(&decoded), file);
    }
});
