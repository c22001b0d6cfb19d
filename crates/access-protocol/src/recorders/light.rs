//! Method light (Liu, Zhang, Tripp, Zheng: PLDI 2015). All of it is in `runs`, which compiled code helps. This is what is left without O1
//! (lemma 4.3): no runs. Every access takes the lock bit of its cells, and every flow dependence is logged, a thread's own, too,
//! unless the thread has read the same write before. For comparison only.
use crate::Access;
use crate::Reach;
use crate::Thread;
use crate::Values;
use crate::World;
use crate::cell;
use runtime_abi::CELL_BYTES;

pub(super) fn perform<W: World, R, V: Values>(
    thread: &Thread<W>,
    what: Access,
    mut access: impl FnMut() -> R,
    seen: impl FnOnce(Option<&R>) -> V,
) -> R {
    let Access {
        address, bytes, reach, ..
    } = what;
    let cell = address & !(CELL_BYTES - 1);
    if address + bytes - cell > CELL_BYTES {
        let held = thread.lock_cells(address, bytes, |_| true);
        let result = access();
        held.each_locked(|cell, covered, word| {
            cell::log_dependence(thread, cell, word, reach, reach.flags(covered), 0);
            cell::unlock_after::<W>(thread.world.cell_word(cell), thread.point_after(), reach.writes());
        });
        thread.complete();
        return result;
    }
    let word = thread.world.cell_word(cell);
    let before = cell::lock(thread.world, word);
    let result = access();
    let value = if reach == Reach::Writes {
        0
    } else {
        seen(Some(&result)).check()
    };
    cell::log_dependence(thread, cell, before, reach, reach.flags(bytes), value);
    cell::unlock_after::<W>(word, thread.point_after(), reach.writes());
    thread.complete();
    result
}
