//! Totals per shop, summed with rayon, under the lock of the report.
//!
//! `add_shop` holds the lock while it sums in parallel. A thread that waits for the other half of its sum does not
//! sleep: rayon gives it other work, which may be another shop, which takes the same lock on the same thread. At fault
//! is `add_shop`: it has to sum first and lock afterwards.

use rayon::prelude::*;
use std::sync::Mutex;

#[derive(Default)]
pub struct Report {
    total: Mutex<u64>,
}

impl Report {
    pub fn add_shop(&self, sales: &[u64]) {
        let mut total = self.total.lock().unwrap();
        *total += sales.par_iter().sum::<u64>();
    }

    pub fn total(&self) -> u64 {
        *self.total.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use rayon::ThreadPoolBuilder;
    use rayon::prelude::*;

    const THREADS: usize = 3;
    const SHOPS: usize = 16;
    const SALES: usize = 500;

    /// Hangs when the bug shows.
    #[test]
    fn lock_across_rayon() {
        let pool = ThreadPoolBuilder::new().num_threads(THREADS).build().unwrap();
        let shops = vec![vec![1; SALES]; SHOPS];
        let report = Report::default();
        pool.install(|| shops.par_iter().for_each(|sales| report.add_shop(sales)));
        assert_eq!(report.total(), (SALES * SHOPS) as u64);
    }
}
