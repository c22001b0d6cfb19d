//! Any bytes as a hybrid schedule: refused, or written again to the same bytes, and said in gates and in text.
//!
//! The checksum at the end, which no fuzzer would find, is made to fit.
#![no_main]

use hybrid_schedule::compile;
use hybrid_schedule::text::render;
use libfuzzer_sys::fuzz_target;
use log_format::Fault;
use log_format::hybrid;
use log_format::schedule;

fuzz_target!(|bytes: &[u8]| {
    let mut file = bytes.to_vec();
    if let Err(corrupt) = hybrid::decode(&file)
        && let Fault::Checksum { found, .. } = corrupt.fault
    {
        let end = file.len() - 8;
        file[end..].copy_from_slice(&found.to_le_bytes());
    }
    if let Ok(decoded) = hybrid::decode(&file) {
        assert_eq!(hybrid::encode(&decoded), file);
        // Numbers of events that no thread reaches.
        if decoded.events.iter().any(|events| *events > 1 << 40) {
            return;
        }
        let _ = render(&decoded, |place| place.site.0.to_string());
        let (gates, _) = compile(&decoded);
        assert_eq!(schedule::decode(&schedule::encode(&gates)), Ok(gates));
    }
});
