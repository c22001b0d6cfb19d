//! Any bytes as a batch of logs: refused, or joined again to the same bytes; and each of its logs as one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use partial_logs::PartialLog;
use partial_logs::batch::join;
use partial_logs::batch::split;

fuzz_target!(|bytes: &[u8]| {
    let Ok(logs) = split(bytes, 100) else { return };
    assert!(!logs.is_empty() && logs.len() <= 100);
    assert_eq!(join(logs.iter().copied()), bytes);
    for log in logs {
        if let Ok(decoded) = PartialLog::decode(log) {
            assert_eq!(decoded.encode(), log);
        }
    }
});
