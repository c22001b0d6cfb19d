//! Tasks that wait until a service is ready.
//!
//! `notify_waiters` wakes those who wait *now* and leaves nothing behind for those who come later. A task that has seen
//! "not ready" and has not reached `notified()` yet waits for ever. At fault is `wait`: it has to make the `Notified`
//! first and look at the flag second.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use tokio::sync::Notify;

#[derive(Default)]
pub struct Ready {
    is_ready: AtomicBool,
    changed: Notify,
}

impl Ready {
    pub async fn wait(&self) {
        // Acquire: pairs with the Release in `set`.
        while !self.is_ready.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    pub fn set(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.is_ready.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::Ready;
    use starting_line::StartingLine;
    use std::sync::Arc;

    const SERVICES: usize = 20;

    /// Hangs when the bug shows.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn notify_without_permit() {
        let line = Arc::new(StartingLine::new(2));
        for _ in 0..SERVICES {
            let ready = Arc::new(Ready::default());
            let waiter = tokio::spawn({
                let (ready, line) = (Arc::clone(&ready), Arc::clone(&line));
                async move {
                    line.wait();
                    ready.wait().await;
                }
            });
            // The test itself is not on one of the two workers, so that it cannot be in the waiter's way here.
            line.wait();
            ready.set();
            waiter.await.unwrap();
        }
    }
}
