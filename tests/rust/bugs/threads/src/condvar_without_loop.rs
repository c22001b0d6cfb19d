//! A queue whose consumers sleep on a condition variable.
//!
//! `take` waits once and then believes that there is an item. Between `notify_one` and the moment the woken thread has
//! the lock again, another consumer may have come by and taken it. At fault is `take`: it has to wait in a loop
//! (`wait_while`).

use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;

#[derive(Default)]
pub struct Queue {
    items: Mutex<VecDeque<u32>>,
    has_items: Condvar,
}

impl Queue {
    pub fn put(&self, item: u32) {
        self.items.lock().unwrap().push_back(item);
        self.has_items.notify_one();
    }

    pub fn take(&self) -> u32 {
        let mut items = self.items.lock().unwrap();
        if items.is_empty() {
            items = self.has_items.wait(items).unwrap();
        }
        let item = items.pop_front();
        drop(items);
        item.expect("woken, so there is an item")
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use std::thread;

    const ITEMS_EACH: u32 = 500;

    #[test]
    fn condvar_without_loop() {
        let queue = Queue::default();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..ITEMS_EACH).map(|_| queue.take()).sum::<u32>());
            }
            scope.spawn(|| {
                for item in 0..2 * ITEMS_EACH + 2 {
                    queue.put(item);
                }
            });
        });
    }
}
