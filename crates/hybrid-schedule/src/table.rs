//! Numbers for keys, in the order of their appearance. Nothing depends on the hash but the time it takes.

/// Open addressing, never more than half full.
#[derive(Debug)]
pub(crate) struct Table {
    /// Key and its number + 1; 0 where there is none.
    slots: Vec<(u64, u32)>,
    keys: u32,
}

const SLOTS_FIRST: usize = 64;

impl Table {
    pub fn new() -> Table {
        Table {
            slots: vec![(0, 0); SLOTS_FIRST],
            keys: 0,
        }
    }

    fn slot(&self, key: u64) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the key.
        let bits = self.slots.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
    }

    /// Number of `key`, and whether it is new. `None` if there are no more numbers.
    #[inline]
    pub fn number(&mut self, key: u64) -> Option<(u32, bool)> {
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(key);
        loop {
            let (found, number) = self.slots[slot];
            if number == 0 {
                break;
            }
            if found == key {
                return Some((number - 1, false));
            }
            slot = (slot + 1) & mask;
        }
        let number = self.keys;
        self.keys = self.keys.checked_add(1)?;
        self.slots[slot] = (key, self.keys);
        if self.keys as usize > self.slots.len() / 2 {
            self.grow();
        }
        Some((number, true))
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, 0); 2 * old.len()];
        let mask = self.slots.len() - 1;
        for (key, number) in old.into_iter().filter(|(_, number)| *number != 0) {
            let mut slot = self.slot(key);
            while self.slots[slot].1 != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = (key, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_order_of_appearance() {
        let mut table = Table::new();
        let key = |i: u32| u64::from(i).wrapping_mul(0x1000) ^ 7;
        for i in 0..10_000 {
            assert_eq!(table.number(key(i)), Some((i, true)));
        }
        for i in (0..10_000).rev() {
            assert_eq!(table.number(key(i)), Some((i, false)));
        }
    }
}
