//! Looks under the lock whether there is something left, and takes it under the lock again: in between it was sold.
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

struct Shop {
    stock: Mutex<u32>,
}

impl Shop {
    fn has_some(&self) -> bool {
        let stock = self.stock.lock().unwrap();
        *stock > 0
    }

    fn sell(&self) {
        let mut stock = self.stock.lock().unwrap();
        *stock = stock.checked_sub(1).expect("sold what is not there");
    }
}

fn main() {
    let shop = Arc::new(Shop { stock: Mutex::new(1) });
    let other = Arc::clone(&shop);
    let thread = thread::spawn(move || {
        thread::sleep(Duration::from_millis(40));
        if other.has_some() {
            other.sell();
        }
    });
    if shop.has_some() {
        thread::sleep(Duration::from_millis(120));
        shop.sell();
    }
    thread.join().unwrap();
}
