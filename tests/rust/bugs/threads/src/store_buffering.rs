//! Two neighbours share a bench: each puts up a flag and sits down unless the other's flag is up (Dekker's rule).
//!
//! The flag is stored with Release and the other's is loaded with Acquire. Nothing orders a store before a *later load*
//! of another location but `SeqCst`; x86 keeps the store in its buffer while it loads, so both may sit down. At fault
//! are the orders in `try_sit`: all four accesses have to be `SeqCst`.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub struct Bench {
    flags: [Flag; 2],
}

/// A line of the cache to itself, as one would write it for speed; without it the two flags share their fate.
#[derive(Default)]
#[repr(align(128))]
struct Flag(AtomicBool);

impl Bench {
    /// Whether neighbour `me` (0 or 1) has the bench now.
    pub fn try_sit(&self, me: usize) -> bool {
        self.flags[me].0.store(true, Ordering::Release);
        if self.flags[1 - me].0.load(Ordering::Acquire) {
            self.flags[me].0.store(false, Ordering::Release);
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Bench;
    use starting_line::StartingLine;
    use std::thread;

    const DAYS: usize = 20;

    #[test]
    fn store_buffering() {
        let benches: Vec<Bench> = (0..DAYS).map(|_| Bench::default()).collect();
        let line = StartingLine::new(2);
        let days_of = |me: usize| {
            let mut sat = Vec::with_capacity(DAYS);
            for bench in &benches {
                line.wait();
                sat.push(bench.try_sit(me));
            }
            sat
        };
        let (left, right) = thread::scope(|scope| {
            let left = scope.spawn(|| days_of(0));
            let right = days_of(1);
            (left.join().unwrap(), right)
        });
        for (day, both) in left.into_iter().zip(right).enumerate() {
            assert_ne!(both, (true, true), "both neighbours sat on the bench on day {day}");
        }
    }
}
