#![no_main]
//! The file `pauses` of a run: whatever is read is written, and read, the same.
use libfuzzer_sys::fuzz_target;
use log_format::pauses::decode;
use log_format::pauses::encode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(pauses) = decode(bytes) {
        assert_eq!(decode(encode(&pauses).as_bytes()), Ok(pauses));
    }
});
