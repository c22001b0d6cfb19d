//! Looks at the flag without the lock, then waits: the signal came in between, and nobody signals again.
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Bell {
    fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        self.bell.notify_all();
    }

    fn wait(&self) {
        if !self.rung.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(120));
            let guard = self.lock.lock().unwrap();
            drop(self.bell.wait(guard).unwrap());
        }
    }
}

fn main() {
    let bell = Arc::new(Bell::default());
    let waiter = Arc::clone(&bell);
    let guest = thread::spawn(move || waiter.wait());
    thread::sleep(Duration::from_millis(50));
    bell.ring();
    guest.join().unwrap();
}
