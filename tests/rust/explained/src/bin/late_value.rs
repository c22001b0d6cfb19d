//! Double-checked initialisation: the flag goes up before the plain value is written.
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

static DONE: AtomicBool = AtomicBool::new(false);
static mut LIMIT: u32 = 0;

fn limit() -> u32 {
    if !DONE.swap(true, Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(120));
        // SAFETY: none; that others pass by meanwhile is the bug.
        unsafe { LIMIT = 64 };
    }
    // SAFETY: none; another thread may be writing it, which is the bug.
    unsafe { LIMIT }
}

fn main() {
    let first = thread::spawn(limit);
    thread::sleep(Duration::from_millis(50));
    let mine = limit();
    thread::sleep(Duration::from_millis(200));
    assert!(mine > 0, "no limit");
    assert_eq!(first.join().unwrap(), mine);
}
