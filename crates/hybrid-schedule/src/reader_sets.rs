//! Which threads have read a granule since it was written, where that is more than one: sets of references, in slabs by their size.

/// A set's place, in the low bits of what a granule keeps for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetId(pub u64);

/// 2, 4, 8 … references.
const SIZES: usize = 20;
const SIZE_SHIFT: u32 = 40;
const INDEX: u64 = (1 << SIZE_SHIFT) - 1;

#[derive(Debug, Default)]
pub(crate) struct ReaderSets {
    /// Each set takes as many words as its size says; behind its last reference are zeros.
    slabs: [Vec<u64>; SIZES],
    free: [Vec<u64>; SIZES],
}

impl ReaderSets {
    fn words(set: SetId) -> (usize, std::ops::Range<usize>) {
        let size = (set.0 >> SIZE_SHIFT) as usize;
        let first = ((set.0 & INDEX) as usize) << (size + 1);
        (size, first..first + (2 << size))
    }

    /// The references, and zeros.
    pub fn get(&self, set: SetId) -> &[u64] {
        let (size, words) = ReaderSets::words(set);
        &self.slabs[size][words]
    }

    pub fn get_mut(&mut self, set: SetId) -> &mut [u64] {
        let (size, words) = ReaderSets::words(set);
        &mut self.slabs[size][words]
    }

    /// `None` if there are more than were provided for.
    pub fn create(&mut self, references: &[u64]) -> Option<SetId> {
        let size = references.len().max(2).next_power_of_two().trailing_zeros() as usize - 1;
        let slab = self.slabs.get_mut(size)?;
        let index = match self.free[size].pop() {
            Some(index) => index,
            None => {
                let index = (slab.len() >> (size + 1)) as u64;
                slab.resize(slab.len() + (2 << size), 0);
                index
            }
        };
        let set = SetId((size as u64) << SIZE_SHIFT | index);
        let words = self.get_mut(set);
        words[..references.len()].copy_from_slice(references);
        words[references.len()..].fill(0);
        Some(set)
    }

    pub fn copy(&mut self, set: SetId) -> Option<SetId> {
        let references = self.get(set).to_vec();
        self.create(&references)
    }

    pub fn remove(&mut self, set: SetId) {
        let size = (set.0 >> SIZE_SHIFT) as usize;
        self.free[size].push(set.0 & INDEX);
    }
}
