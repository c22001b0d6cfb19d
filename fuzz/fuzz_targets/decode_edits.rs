#![no_main]
//! The file `moves` of a run: whatever is read is written, and read, the same.
use libfuzzer_sys::fuzz_target;
use log_format::edits::decode;
use log_format::edits::encode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(edits) = decode(bytes) {
        assert_eq!(decode(encode(&edits).as_bytes()), Ok(edits));
    }
});
