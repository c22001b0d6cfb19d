//! `unsafe impl Sync` for a counter of plain memory: two threads read it before either writes it back.
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

struct Counter {
    hits: UnsafeCell<u64>,
}

// SAFETY: there is none; that is the bug.
unsafe impl Sync for Counter {}

impl Counter {
    fn hit(&self, pause_ms: u64) {
        // SAFETY: none: `Sync` is not true.
        let seen = unsafe { *self.hits.get() };
        thread::sleep(Duration::from_millis(pause_ms));
        // SAFETY: none; another thread may be writing it, which is the bug.
        unsafe { *self.hits.get() = seen + 1 };
    }
}

fn main() {
    let counter = Arc::new(Counter { hits: UnsafeCell::new(0) });
    let threads: Vec<_> = [40, 80]
        .into_iter()
        .map(|pause_ms| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.hit(pause_ms))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { *counter.hits.get() }, 2);
}
