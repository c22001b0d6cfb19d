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
    use std::sync::Arc;

    const SERVICES: usize = 100;

    /// Hangs when the bug shows.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn notify_without_permit() {
        let services: Arc<Vec<(Ready, Ready)>> = Arc::new((0..SERVICES).map(|_| Default::default()).collect());
        let pairs = Arc::clone(&services);
        let other = tokio::spawn(async move {
            for (there, back) in pairs.iter() {
                there.wait().await;
                back.set();
            }
        });
        for (there, back) in services.iter() {
            there.set();
            back.wait().await;
        }
        other.await.unwrap();
    }
}
