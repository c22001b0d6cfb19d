//! Any bytes as a file of recorded inputs: read to the end, or refused, in peace.
#![no_main]
use libfuzzer_sys::fuzz_target;
use log_format::inputs::Reader;
use log_format::inputs::stream_of;
use run_model::ThreadIndex;

fuzz_target!(|bytes: &[u8]| {
    let Ok(stream) = stream_of(bytes, ThreadIndex(0)) else {
        return;
    };
    let mut reader = Reader::new(&stream);
    let mut event = 0;
    while let Ok(Some(call)) = reader.next_call() {
        assert!(call.entry.event >= event);
        event = call.entry.event;
        assert_eq!(call.ranges().count(), call.entry.ranges as usize);
    }
});
