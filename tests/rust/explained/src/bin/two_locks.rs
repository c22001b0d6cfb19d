//! Deadlock: a transfer locks both accounts, each in its own order.
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

static LEFT: Mutex<i64> = Mutex::new(10);

fn transfer(from: &Mutex<i64>, to: &Mutex<i64>) {
    let mut from = from.lock().unwrap();
    thread::sleep(Duration::from_millis(60));
    let mut to = to.lock().unwrap();
    *from -= 1;
    *to += 1;
}

fn main() {
    let right = Arc::new(Mutex::new(10));
    let same = Arc::clone(&right);
    let thread = thread::spawn(move || transfer(&same, &LEFT));
    transfer(&LEFT, &right);
    thread.join().unwrap();
}
