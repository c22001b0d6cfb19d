//! Any bytes as a log file: an answer and no panic; what is accepted is exactly what the encoder would have written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use log_format::HEADER_BYTES;
use log_format::decode;
use log_format::decode_prefix;
use log_format::encode_log;
use run_model::ThreadIndex;

fuzz_target!(|file: &[u8]| {
    let prefix = decode_prefix(file, ThreadIndex(0));
    assert!(prefix.log.records.len() <= file.len());
    if let Ok(log) = decode(file, ThreadIndex(0)) {
        assert_eq!(prefix.damage, None);
        assert_eq!(log.records, prefix.log.records);
        // The encoder has one way to write each record; a decoder accepts a few more (long varints), never others.
        let again = encode_log(ThreadIndex(0), &log.records);
        assert!(again.len() <= file.len().max(HEADER_BYTES));
        assert_eq!(decode(&again, ThreadIndex(0)).unwrap(), log);
    }
});
