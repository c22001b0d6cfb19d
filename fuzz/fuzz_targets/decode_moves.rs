#![no_main]
//! The file `moves` of a run: whatever is read is written, and read, the same.
use libfuzzer_sys::fuzz_target;
use log_format::moves::decode;
use log_format::moves::encode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(moves) = decode(bytes) {
        assert_eq!(decode(encode(&moves).as_bytes()), Ok(moves));
    }
});
