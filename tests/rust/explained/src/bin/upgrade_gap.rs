//! Read lock, let go, write lock: what was read is no longer true.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::RwLock;
use std::thread;
use std::time::Duration;

struct Seats {
    taken: RwLock<BTreeMap<u32, u32>>,
}

impl Seats {
    fn is_free(&self, seat: u32) -> bool {
        !self.taken.read().unwrap().contains_key(&seat)
    }

    fn take(&self, seat: u32, who: u32) {
        let former = self.taken.write().unwrap().insert(seat, who);
        assert!(former.is_none(), "seat {seat} was taken");
    }
}

fn main() {
    let seats = Arc::new(Seats { taken: RwLock::new(BTreeMap::new()) });
    let others = Arc::clone(&seats);
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(40));
        if others.is_free(12) {
            others.take(12, 1);
        }
    });
    if seats.is_free(12) {
        thread::sleep(Duration::from_millis(120));
        seats.take(12, 0);
    }
    other.join().unwrap();
}
