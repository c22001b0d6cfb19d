//! Lets the threads of a test go at the same moment.
//!
//! The threads of `std::sync::Barrier` are woken one after the other, which takes longer than the whole race in most of
//! our tests. Here nobody sleeps, so that everybody is on a processor when the last one arrives.

use std::hint;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;

/// Looks at the line before the processor is offered to somebody else.
const SPINS: usize = 100;

pub struct StartingLine {
    runners: usize,
    arrivals: AtomicUsize,
}

impl StartingLine {
    pub fn new(runners: usize) -> Self {
        StartingLine {
            runners,
            arrivals: AtomicUsize::new(0),
        }
    }

    /// Returns when all runners are here. May be used again, round after round.
    pub fn wait(&self) {
        // AcqRel: pairs with itself and the Acquire below; what a runner did in the last round is seen in this one.
        let place = self.arrivals.fetch_add(1, Ordering::AcqRel);
        let everybody = (place / self.runners + 1) * self.runners;
        loop {
            for _ in 0..SPINS {
                if self.arrivals.load(Ordering::Acquire) >= everybody {
                    return;
                }
                hint::spin_loop();
            }
            thread::yield_now();
        }
    }
}
