//! Sorts numbers in parallel with rayon. Size: thousands of numbers.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use rust_bench::Arguments;
use rust_bench::Numbers;

fn main() {
    let arguments = Arguments::from_command_line(8_000);
    let pool = ThreadPoolBuilder::new()
        .num_threads(arguments.threads)
        .build()
        .expect("threads for the pool");
    let mut numbers: Vec<u64> = Numbers::from_seed(1).take(1000 * arguments.size).collect();
    pool.install(|| numbers.par_sort());
    let checksum = numbers
        .iter()
        .fold(0u64, |sum, number| sum.wrapping_mul(31).wrapping_add(*number));
    println!("{checksum:016x}");
}
