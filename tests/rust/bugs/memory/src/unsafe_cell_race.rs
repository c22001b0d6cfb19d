//! A histogram that threads count into.
//!
//! `Histogram` says `Sync` and promises nothing to back it: `count` reads, adds and writes plain memory. Two threads in
//! the same bucket lose a count. At fault is the `unsafe impl`; the buckets have to be atomic.
//!
//! Nothing but the memory itself orders these accesses: a replay needs the scope `memory`.

use std::cell::UnsafeCell;

#[derive(Default)]
pub struct Histogram {
    buckets: UnsafeCell<[u64; 4]>,
}

// SAFETY: wrong. "It is only a counter" does not make it safe to share.
unsafe impl Sync for Histogram {}

impl Histogram {
    pub fn count(&self, value: u64) {
        // SAFETY: wrong. Another thread may be counting.
        let buckets = unsafe { &mut *self.buckets.get() };
        buckets[(value % 4) as usize] += 1;
    }

    pub fn into_total(self) -> u64 {
        self.buckets.into_inner().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use starting_line::StartingLine;
    use std::thread;

    const VALUES_EACH: u64 = 60;

    #[test]
    fn unsafe_cell_race() {
        let histogram = Histogram::default();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for seed in [1, 2] {
                let (histogram, line) = (&histogram, &line);
                scope.spawn(move || {
                    line.wait();
                    let mut value: u64 = seed;
                    for _ in 0..VALUES_EACH {
                        value = value
                            .wrapping_mul(6364136223846793005)
                            .wrapping_add(1442695040888963407);
                        histogram.count(value >> 33);
                    }
                });
            }
        });
        assert_eq!(histogram.into_total(), 2 * VALUES_EACH, "some values were not counted");
    }
}
