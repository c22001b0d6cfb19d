//! Any bytes as an object that may enter the kernel: an answer and no panic, and windows that are where it says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = syscall_sites::find(bytes);
    if let Ok(found) = syscall_sites::find_anywhere(bytes) {
        for site in &found.sites {
            assert!(site.syscall_at + 2 <= site.bytes.len());
        }
    }
    if let Ok(found) = syscall_sites::find_all(bytes) {
        for site in &found.locked {
            assert!(site.address_at.is_none_or(|at| at + 4 <= site.bytes.len()));
        }
    }
});
