//! So many at a time, of all merges together.
use std::sync::Condvar;
use std::sync::Mutex;

pub struct Slots {
    most: usize,
    taken: Mutex<usize>,
    freed: Condvar,
}

/// Given back when it is dropped.
pub struct Slot<'a>(&'a Slots);

impl Slots {
    pub fn new(most: usize) -> Slots {
        Slots {
            most: most.max(1),
            taken: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Waits for one.
    pub fn take(&self) -> Slot<'_> {
        let taken = self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waited = self.freed.wait_while(taken, |taken| *taken >= self.most);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) -= 1;
        self.0.freed.notify_one();
    }
}
