//! `unsafe impl Send` for a pool that counts its free places in plain memory: two are given back at the same time, and one is lost.
use std::process;
use std::thread;
use std::time::Duration;

struct Pool {
    free: *mut u32,
}

// SAFETY: there is none; that is the bug.
unsafe impl Send for Pool {}

impl Pool {
    fn give_back(&self, pause_ms: u64) {
        // SAFETY: the memory is never freed; that another thread writes it is the bug.
        let free = unsafe { self.free.read() };
        thread::sleep(Duration::from_millis(pause_ms));
        // SAFETY: never freed; what another thread has written meanwhile is lost, which is the bug.
        unsafe { self.free.write(free + 1) };
    }
}

fn main() {
    let free = Box::into_raw(Box::new(0));
    let (mine, theirs) = (Pool { free }, Pool { free });
    let thread = thread::spawn(move || {
        let pool = theirs;
        pool.give_back(40);
    });
    mine.give_back(100);
    thread.join().unwrap();
    // SAFETY: never freed, and the other thread has ended.
    if unsafe { *free } != 2 {
        eprintln!("a place was lost");
        process::abort();
    }
}
