//! Numbers that look random and follow from a seed: SplitMix64 (Steele, Lea, Flood, 2014).

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is at least 1. The last few numbers are rarer by less than `bound` in 2⁶⁴.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.draw()) * bound as u128) >> 64) as usize
    }

    /// In an order of its own (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
