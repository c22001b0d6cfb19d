//! A budget that tasks spend from, with an audit trail.
//!
//! `spend` reads what is left under the lock, waits for the audit trail, and writes what is left under the lock again.
//! What another task spends during the `await` is forgotten. At fault is `spend`: it has to keep the lock, or subtract
//! from what is there when it comes back.

use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;

pub struct Budget {
    left: Mutex<u64>,
    audit: Sender<u64>,
}

impl Budget {
    pub fn new(left: u64, audit: Sender<u64>) -> Self {
        Budget {
            left: Mutex::new(left),
            audit,
        }
    }

    /// Whether there was enough left.
    pub async fn spend(&self, amount: u64) -> bool {
        let left = *self.left.lock().await;
        let Some(rest) = left.checked_sub(amount) else {
            return false;
        };
        self.audit
            .send(amount)
            .await
            .expect("the audit trail is read to its end");
        *self.left.lock().await = rest;
        true
    }

    pub fn into_left(self) -> u64 {
        self.left.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;
    use std::sync::Arc;
    use tokio::sync::mpsc;

    const BUDGET: u64 = 1000;
    const SPENDS_EACH: u64 = 30;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn task_race() {
        let (audit, mut trail) = mpsc::channel(64);
        let budget = Arc::new(Budget::new(BUDGET, audit));
        let spenders = [(); 2].map(|()| {
            let budget = Arc::clone(&budget);
            tokio::spawn(async move {
                for _ in 0..SPENDS_EACH {
                    assert!(budget.spend(7).await);
                }
            })
        });
        for spender in spenders {
            spender.await.unwrap();
        }
        let left = Arc::into_inner(budget).expect("the spenders are done").into_left();
        let mut spent = 0;
        while let Some(amount) = trail.recv().await {
            spent += amount;
        }
        assert_eq!(left + spent, BUDGET, "some spending was forgotten");
    }
}
