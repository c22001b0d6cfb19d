//! Deposits into accounts that open with the first deposit.
//!
//! `contains_key` and `insert` are each atomic; the two together are not. Both threads find no account, both open one,
//! and the second `insert` throws away the deposit of the first. At fault is `deposit`: it has to use `entry`.

use dashmap::DashMap;

#[derive(Default)]
pub struct Bank {
    balances: DashMap<u32, u64>,
}

impl Bank {
    pub fn deposit(&self, account: u32, amount: u64) {
        if self.balances.contains_key(&account) {
            *self.balances.get_mut(&account).expect("accounts are never closed") += amount;
        } else {
            self.balances.insert(account, amount);
        }
    }

    pub fn balance(&self, account: u32) -> u64 {
        self.balances.get(&account).map_or(0, |balance| *balance)
    }
}

#[cfg(test)]
mod tests {
    use super::Bank;
    use starting_line::StartingLine;
    use std::thread;

    const ACCOUNTS: u32 = 20;

    #[test]
    fn dashmap_check_then_act() {
        let bank = Bank::default();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    line.wait();
                    for account in 0..ACCOUNTS {
                        bank.deposit(account, 10);
                    }
                });
            }
        });
        for account in 0..ACCOUNTS {
            assert_eq!(bank.balance(account), 20, "a deposit to account {account} is missing");
        }
    }
}
