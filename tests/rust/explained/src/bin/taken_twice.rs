//! An `Option` in a `Mutex` is looked at, and taken later: `unwrap` on `None`.
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

struct Slot {
    message: Mutex<Option<String>>,
}

impl Slot {
    fn is_full(&self) -> bool {
        self.message.lock().unwrap().is_some()
    }

    fn take(&self) -> String {
        self.message.lock().unwrap().take().unwrap()
    }
}

fn main() {
    let slot = Arc::new(Slot { message: Mutex::new(Some("hello".to_owned())) });
    let others = Arc::clone(&slot);
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(40));
        others.take().len()
    });
    let mut length = 0;
    if slot.is_full() {
        thread::sleep(Duration::from_millis(120));
        length = slot.take().len();
    }
    println!("{}", length + other.join().unwrap());
}
