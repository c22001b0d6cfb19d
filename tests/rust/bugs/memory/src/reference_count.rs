//! A shared pointer of one's own, because `Arc` was thought too slow.
//!
//! `drop` counts down with one atomic operation and reads the count with another. When the last two owners leave
//! together, both read zero, and both free the value. At fault is `drop`: the answer of `fetch_sub` is the one that
//! counts. The second owner finds what is left of a freed value: "dropped twice", garbage, or an abort by the allocator.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

pub struct Shared<T> {
    inner: NonNull<Inner<T>>,
}

struct Inner<T> {
    value: T,
    owners: AtomicUsize,
}

// SAFETY: like that of an `Arc`, the value is only reached by reference until its (one, we hope) drop.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        let inner = Box::new(Inner {
            value,
            owners: AtomicUsize::new(1),
        });
        Shared {
            inner: NonNull::from(Box::leak(inner)),
        }
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: `inner` is alive as long as it has an owner, and we are one.
        unsafe { self.inner.as_ref() }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        self.inner().owners.fetch_add(1, Ordering::Relaxed);
        Shared { inner: self.inner }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.inner().owners.fetch_sub(1, Ordering::AcqRel);
        if self.inner().owners.load(Ordering::Acquire) == 0 {
            // SAFETY: wrong. Another owner may have counted down after us and read zero too.
            drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shared;
    use starting_line::StartingLine;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::thread;

    const VALUES: usize = 8;

    /// Counts its own drops, in memory that outlives it.
    struct Counted<'a> {
        drops: &'a AtomicUsize,
    }

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.drops.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn reference_count() {
        let drops: Vec<AtomicUsize> = (0..VALUES).map(|_| AtomicUsize::new(0)).collect();
        let ours: Vec<Shared<Counted>> = drops.iter().map(|drops| Shared::new(Counted { drops })).collect();
        let theirs = ours.clone();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for owned in [ours, theirs] {
                let line = &line;
                scope.spawn(move || {
                    for value in owned {
                        line.wait();
                        drop(value);
                    }
                });
            }
        });
        for (value, drops) in drops.iter().enumerate() {
            assert_eq!(
                drops.load(Ordering::SeqCst),
                1,
                "value {value} was dropped that many times"
            );
        }
    }
}
