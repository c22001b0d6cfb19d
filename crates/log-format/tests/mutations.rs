//! The fuzz targets' oracle without a fuzzer: golden files, mutated at random from fixed seeds, never panic the
//! decoders and never make them allocate more than their bytes allow.
use log_format::decode;
use log_format::decode_prefix;
use log_format::schedule;
use run_model::ThreadIndex;
use std::path::Path;

#[test]
fn mutated_files_never_panic() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden-logs/v1");
    let mut mutator = Mutator(0x9e37_79b9_7f4a_7c15);
    for name in ["thread-0.log", "thread-1.log", "schedule"] {
        let golden = std::fs::read(directory.join(name)).unwrap();
        for _ in 0..5000 {
            let mut file = golden.clone();
            mutator.mutate(&mut file);
            let prefix = decode_prefix(&file, ThreadIndex(0));
            assert!(prefix.log.records.len() <= file.len());
            if let Ok(log) = decode(&file, ThreadIndex(0)) {
                assert_eq!(log.records, prefix.log.records);
            }
            if let Ok(schedule) = schedule::decode(&file) {
                assert_eq!(schedule::encode(&schedule), file);
            }
        }
    }
}

/// Xorshift64*.
struct Mutator(u64);

impl Mutator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn mutate(&mut self, file: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            let at = self.below(file.len());
            match self.below(6) {
                0 => file.truncate(at),
                1 => file.extend((0..at % 40).map(|i| i as u8)),
                2 if at < file.len() => _ = file.remove(at),
                3 if at < file.len() => file[at] = [0, 0x7f, 0x80, 0xff][self.below(4)],
                _ if at < file.len() => file[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
    }
}
