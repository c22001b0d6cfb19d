//! Any bytes as the beginning of a program: an answer and no panic, and parts that are in order and in the address space.
#![no_main]

use libfuzzer_sys::fuzz_target;
use program_image::Image;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = Image::read(bytes) {
        let (start, end) = image.extent();
        assert!(start < end && end <= 1 << 47);
        let mut last = start;
        for segment in image.segments() {
            assert!(last <= segment.address && segment.file_bytes <= segment.memory_bytes && segment.end() <= end);
            last = segment.end();
        }
        assert!(image.headers_address().is_none_or(|headers| (start..end).contains(&headers)));
    }
});
