//! Ends with `process::exit` after it found that work is missing: the worker counts, and the end does not wait for it.
use std::process;
use std::thread;
use std::time::Duration;

static mut DONE: u32 = 0;

fn work() {
    thread::sleep(Duration::from_millis(120));
    // SAFETY: none; that nobody waits for it is the bug.
    unsafe { DONE += 1 };
    thread::sleep(Duration::from_millis(400));
}

fn main() {
    let _worker = thread::spawn(work);
    thread::sleep(Duration::from_millis(50));
    // SAFETY: none; another thread may be writing it, which is the bug.
    let done = unsafe { DONE };
    thread::sleep(Duration::from_millis(150));
    if done == 0 {
        eprintln!("nothing was done");
        process::exit(3);
    }
}
