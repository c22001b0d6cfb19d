//! Transfers between accounts, each under its own lock.
//!
//! `transfer` locks the account it takes from, then the one it gives to. Two transfers in opposite directions wait for
//! each other for ever. At fault is `transfer`: locks of one kind need an order, such as that of the account numbers.

use std::sync::Mutex;

pub struct Account {
    balance: Mutex<u64>,
}

impl Account {
    pub fn new(balance: u64) -> Self {
        Account {
            balance: Mutex::new(balance),
        }
    }

    pub fn balance(&self) -> u64 {
        *self.balance.lock().unwrap()
    }
}

pub fn transfer(from: &Account, to: &Account, amount: u64) {
    let mut from = from.balance.lock().unwrap();
    let mut to = to.balance.lock().unwrap();
    if let Some(rest) = from.checked_sub(amount) {
        *from = rest;
        *to += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::Account;
    use super::transfer;
    use starting_line::StartingLine;
    use std::thread;

    const TRANSFERS: u64 = 20;

    /// Hangs when the bug shows.
    #[test]
    fn abba_deadlock() {
        let savings = Account::new(1000);
        let current = Account::new(1000);
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                line.wait();
                for amount in 0..TRANSFERS {
                    transfer(&savings, &current, amount);
                }
            });
            scope.spawn(|| {
                line.wait();
                for amount in 0..TRANSFERS {
                    transfer(&current, &savings, amount);
                }
            });
        });
        assert_eq!(savings.balance() + current.balance(), 2000);
    }
}
