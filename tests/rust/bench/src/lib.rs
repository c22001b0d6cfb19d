//! What the programs share: their two arguments, and numbers that are the same in every run.
//!
//! Each program does a fixed amount of work for its size and its number of threads, and prints one line, a checksum that
//! does not depend on timing. Measured are its CPU and wall time from outside.

use std::env;
use std::process;

pub struct Arguments {
    pub size: usize,
    pub threads: usize,
}

impl Arguments {
    /// `[SIZE [THREADS]]` of the command line; a message and an end of the program when they are not numbers.
    pub fn from_command_line(default_size: usize) -> Self {
        let mut arguments = env::args().skip(1).map(|argument| argument.parse::<usize>());
        let mut next = |default: usize| match arguments.next() {
            None => default,
            Some(Ok(number)) if number > 0 => number,
            Some(_) => {
                eprintln!("usage: [SIZE [THREADS]], both numbers above zero");
                process::exit(2);
            }
        };
        Arguments {
            size: next(default_size),
            threads: next(2),
        }
    }
}

/// Numbers that look random and are the same every time (the 64-bit linear generator of Knuth's MMIX).
pub struct Numbers(u64);

impl Numbers {
    pub fn from_seed(seed: u64) -> Self {
        Numbers(seed)
    }
}

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        Some(self.0 >> 16)
    }
}
