//! A warehouse whose books are kept under one lock.
//!
//! `ship` books the parcel first and panics when the goods are not there, while it holds the lock. The lock is poisoned,
//! which is std's way to say "half done"; everybody else reads on with `into_inner`. Whether the goods are there depends
//! on who came first, the shipper or the supplier. At fault is `books`: it hides the poison (and `ship`, which writes
//! before it checks).

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

pub struct Books {
    pub in_stock: u32,
    pub shipped: u32,
    pub received: u32,
}

pub struct Warehouse {
    books: Mutex<Books>,
}

impl Warehouse {
    pub fn new(in_stock: u32) -> Self {
        Warehouse {
            books: Mutex::new(Books {
                in_stock,
                shipped: 0,
                received: in_stock,
            }),
        }
    }

    /// The books, whatever became of the last one who held them.
    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn supply(&self, goods: u32) {
        let mut books = self.books();
        books.received += goods;
        books.in_stock += goods;
    }

    pub fn ship(&self, goods: u32) {
        let mut books = self.books();
        books.shipped += goods;
        books.in_stock = books.in_stock.checked_sub(goods).expect("the supplier comes first");
    }
}

#[cfg(test)]
mod tests {
    use super::Warehouse;
    use std::sync::Arc;
    use std::thread;

    const DAYS: u32 = 2;

    #[test]
    fn poisoned_lock() {
        for day in 0..DAYS {
            let warehouse = Arc::new(Warehouse::new(3));
            let supplier = thread::spawn({
                let warehouse = Arc::clone(&warehouse);
                move || warehouse.supply(5)
            });
            let shipper = thread::spawn({
                let warehouse = Arc::clone(&warehouse);
                move || warehouse.ship(4)
            });
            supplier.join().unwrap();
            // A shipper that gave up has its own report; the books are what is checked here.
            let _gave_up = shipper.join();
            let books = warehouse.books();
            assert_eq!(
                books.shipped + books.in_stock,
                books.received,
                "the books of day {day} do not balance"
            );
        }
    }
}
