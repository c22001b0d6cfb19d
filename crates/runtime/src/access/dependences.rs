//! Light without O1 (lemma 4.3): no runs. Every access takes the lock bit of its cells, and every flow dependence is
//! logged, a thread's own, too, unless the thread has read the same write before. For comparison only.
use crate::access::cell;
use crate::access::cell::Reach;
use crate::access::seen::Seen;
use crate::local::Local;
use runtime_abi::CELL_BYTES;

impl Local {
    pub fn perform_with_dependences<R>(
        &mut self,
        address: u64,
        bytes: u64,
        reach: Reach,
        access: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        let cell = address & !(CELL_BYTES - 1);
        if address + bytes - cell > CELL_BYTES {
            let held = self.lock_cells(address, bytes, |_| true);
            let result = access();
            held.each_locked(|cell, covered, word| {
                cell::log_dependence(self, cell, word, reach, reach.flags(covered), 0);
                cell::unlock_after(cell::cell_word(cell), self.point_after(), reach.writes());
            });
            self.complete();
            return result;
        }
        let word = cell::cell_word(cell);
        let before = cell::lock(word);
        let result = access();
        let value = if reach == Reach::Writes {
            0
        } else {
            seen(Some(&result)).check()
        };
        cell::log_dependence(self, cell, before, reach, reach.flags(bytes), value);
        cell::unlock_after(word, self.point_after(), reach.writes());
        self.complete();
        result
    }
}
