//! `unsafe impl Send` for a reference count that is not atomic: a count is lost, and the value is gone while it is used.
use std::process;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

struct Shared(Rc<u32>);

// SAFETY: there is none; that is the bug.
unsafe impl Send for Shared {}

struct Pool {
    free: *mut u32,
}

unsafe impl Send for Pool {}

impl Pool {
    fn give_back(&self, pause_ms: u64) {
        let free = unsafe { self.free.read() };
        thread::sleep(Duration::from_millis(pause_ms));
        unsafe { self.free.write(free + 1) };
    }
}

fn main() {
    let shared = Shared(Rc::new(3));
    let other = Shared(Rc::clone(&shared.0));
    let free = Box::into_raw(Box::new(0));
    let (mine, theirs) = (Pool { free }, Pool { free });
    let thread = thread::spawn(move || {
        let pool = theirs;
        pool.give_back(40);
        let other = other;
        *other.0
    });
    mine.give_back(100);
    thread.join().unwrap();
    if unsafe { *free } != 2 {
        eprintln!("a place was lost");
        process::abort();
    }
}
