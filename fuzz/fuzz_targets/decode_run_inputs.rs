//! Inputs that a client sent: what is taken is written as it was read, and has nothing by which code is loaded.
#![no_main]
use libfuzzer_sys::fuzz_target;
use replayer::fleet::RunInputs;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(inputs) = RunInputs::decode(bytes) {
        assert_eq!(RunInputs::decode(&inputs.encode()).as_ref(), Ok(&inputs));
        assert!(inputs.files.values().all(|file| !file.starts_with(b"\x7fELF")));
    }
});
