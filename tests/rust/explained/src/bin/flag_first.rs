//! Order violation: "ready" is announced before the table is there, and who is ready to use it finds a null pointer.
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

static READY: AtomicBool = AtomicBool::new(false);
static TABLE: AtomicPtr<u32> = AtomicPtr::new(ptr::null_mut());

fn build() {
    READY.store(true, Ordering::Release);
    thread::sleep(Duration::from_millis(120));
    TABLE.store(Box::into_raw(Box::new(7)), Ordering::Release);
}

fn look_up() -> u32 {
    while !READY.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(10));
    }
    let table = TABLE.load(Ordering::Acquire);
    thread::sleep(Duration::from_millis(250));
    // SAFETY: null, or a table that is never freed.
    unsafe { table.as_ref() }.copied().expect("ready, and no table")
}

fn main() {
    let builder = thread::spawn(build);
    let found = look_up();
    builder.join().unwrap();
    println!("{found}");
}
