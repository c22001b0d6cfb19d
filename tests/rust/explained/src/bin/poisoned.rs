//! One thread panics while it holds a lock, because of a racy check; the other one panics because the lock is poisoned. The
//! first panic is the reason.
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

struct Till {
    change: AtomicU32,
    book: Mutex<Vec<u32>>,
}

impl Till {
    fn pay(&self, sum: u32, pause_ms: u64) {
        if self.change.load(Ordering::SeqCst) >= sum {
            thread::sleep(Duration::from_millis(pause_ms));
            let mut book = self.book.lock().unwrap();
            let left = self.change.fetch_sub(sum, Ordering::SeqCst);
            assert!(left >= sum, "paid more than there was");
            book.push(sum);
        }
    }
}

fn main() {
    let till = Arc::new(Till { change: AtomicU32::new(5), book: Mutex::new(Vec::new()) });
    let pay = |pause_ms: u64| {
        let till = Arc::clone(&till);
        thread::spawn(move || till.pay(4, pause_ms))
    };
    let clerks = [pay(40), pay(100)];
    thread::sleep(Duration::from_millis(250));
    println!("{} entries", till.book.lock().unwrap().len());
    for clerk in clerks {
        clerk.join().unwrap();
    }
}
