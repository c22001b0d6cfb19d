#![no_main]
//! The file `pauses` of a run: whatever is read is written, and read, the same.
use libfuzzer_sys::fuzz_target;
use log_format::late_resumes::decode;
use log_format::late_resumes::encode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(late_resumes) = decode(bytes) {
        assert_eq!(decode(encode(&late_resumes).as_bytes()), Ok(late_resumes));
    }
});
