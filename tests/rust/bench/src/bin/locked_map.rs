//! Threads that update a hash map behind one lock of parking_lot. Size: thousands of updates, shared by the threads.

use parking_lot::Mutex;
use rust_bench::Arguments;
use rust_bench::Numbers;
use std::collections::HashMap;
use std::thread;

const KEYS: u64 = 10_000;

fn main() {
    let arguments = Arguments::from_command_line(20_000);
    let counts: Mutex<HashMap<u64, u64>> = Mutex::new(HashMap::new());
    thread::scope(|scope| {
        for thread in 0..arguments.threads {
            let counts = &counts;
            let updates = 1000 * arguments.size / arguments.threads;
            scope.spawn(move || {
                for number in Numbers::from_seed(thread as u64).take(updates) {
                    *counts.lock().entry(number % KEYS).or_default() += 1;
                }
            });
        }
    });
    // The order of a hash map differs from run to run; a sum does not care.
    let checksum = counts
        .into_inner()
        .iter()
        .fold(0u64, |sum, (key, count)| sum.wrapping_add(key * key * count));
    println!("{checksum:016x}");
}
