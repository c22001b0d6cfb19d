//! A hash that is the same on every machine and in every version.

#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub fn new() -> Hash {
        Hash(0x9e37_79b9_7f4a_7c15)
    }

    pub fn add(&mut self, number: u64) {
        // SplitMix64's finaliser: every bit of the sum depends on every bit before.
        let mixed = self.0.rotate_left(5) ^ number;
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ (mixed >> 31);
    }

    pub fn value(self) -> u64 {
        self.0
    }
}
