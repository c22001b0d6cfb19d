//! An atomic counter that is loaded and stored, not added to.
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

fn count(done: &AtomicUsize, pause_ms: u64) {
    let before = done.load(Ordering::SeqCst);
    thread::sleep(Duration::from_millis(pause_ms));
    done.store(before + 1, Ordering::SeqCst);
}

fn main() {
    let done = Arc::new(AtomicUsize::new(0));
    let other = Arc::clone(&done);
    let thread = thread::spawn(move || count(&other, 40));
    count(&done, 90);
    thread.join().unwrap();
    if done.load(Ordering::SeqCst) != 2 {
        panic!("a job was not counted");
    }
}
