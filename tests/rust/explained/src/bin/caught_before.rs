//! A panic that is caught and expected comes first; the failure is a later one, of a value read too early.
use std::panic;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

static STARTED: AtomicBool = AtomicBool::new(false);
static mut PORT: u16 = 0;

fn parse(text: &str) -> u32 {
    text.parse().expect("not a number")
}

fn start() {
    STARTED.store(true, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(120));
    // SAFETY: none; that the port is read meanwhile is the bug.
    unsafe { PORT = 80 };
}

fn main() {
    let parsed = panic::catch_unwind(|| parse("seven"));
    let server = thread::spawn(start);
    while !STARTED.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: none; another thread may be writing it, which is the bug.
    let port = unsafe { PORT };
    thread::sleep(Duration::from_millis(250));
    assert!(parsed.is_ok() || port != 0, "no port");
    server.join().unwrap();
}
