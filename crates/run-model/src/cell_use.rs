//! Who has used a cell of memory (8 bytes), as far as that says whether the order of its uses matters.
//!
//! It does not as long as one thread alone uses the cell, nor if nobody writes to it once there is a second thread: whoever comes first, the values are the same. Memory that is given
//! back and used anew counts as the same cell, so some conflicts that are said to be there are none.

/// As one word: who (32 bits), and whether somebody wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellUse(u64);

const WROTE: u64 = 1 << 32;
/// In the place of a thread's index, which is kept with one added.
const SEVERAL: u64 = u32::MAX as u64;
const USER: u64 = u32::MAX as u64;

impl CellUse {
    pub fn from_word(word: u64) -> CellUse {
        CellUse(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// After a use by `thread`. `writes`: it writes, and there is more than one thread.
    #[must_use]
    pub fn used_by(self, thread: u32, writes: bool) -> CellUse {
        let thread = u64::from(thread) + 1;
        let user = match self.0 & USER {
            0 => thread,
            user if user == thread => thread,
            _ => SEVERAL,
        };
        CellUse(user | self.0 & WROTE | if writes { WROTE } else { 0 })
    }

    /// Have several threads used it, of which one wrote when there were several?
    pub fn has_conflict(self) -> bool {
        self.0 & USER == SEVERAL && self.0 & WROTE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uses: &[(u32, bool)], has_conflict: bool) {
        let cell = uses.iter().fold(CellUse::default(), |cell, (thread, writes)| {
            cell.used_by(*thread, *writes)
        });
        assert_eq!(CellUse::from_word(cell.word()).has_conflict(), has_conflict, "{uses:?}");
    }

    #[test]
    fn there_is_a_conflict_if_several_use_it_and_one_writes() {
        check(&[], false);
        check(&[(0, true), (0, false), (0, true)], false);
        check(&[(0, false), (1, false), (2, false)], false);
        check(&[(0, true), (1, false)], true);
        check(&[(0, false), (1, true)], true);
        check(&[(0, false), (1, false), (0, true)], true);
        check(&[(0, true), (1, true), (0, false), (0, false)], true);
    }
}
