//! Any bytes as what came in while a schedule was learned: refused, or written again to the same bytes.
//!
//! The checksum at the end, which no fuzzer would find, is made to fit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use log_format::Fault;
use log_format::learned;
use run_model::ThreadIndex;

fuzz_target!(|bytes: &[u8]| {
    let mut file = bytes.to_vec();
    if let Err(corrupt) = learned::decode(&file)
        && let Fault::Checksum { found, .. } = corrupt.fault
    {
        let end = file.len() - 8;
        file[end..].copy_from_slice(&found.to_le_bytes());
    }
    if let Ok(decoded) = learned::decode(&file) {
        assert_eq!(learned::encode(&decoded), file);
    }
    let thread = bytes.get(12).copied().unwrap_or_default();
    if let Ok(entries) = learned::decode_thread(bytes, ThreadIndex(u32::from(thread))) {
        assert!(entries.len() <= bytes.len() / 32);
        assert_eq!(learned::decode(&learned::encode(&[entries.clone()])), Ok(vec![entries]));
    }
});
