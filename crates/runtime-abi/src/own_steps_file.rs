//! The file `own_steps` as the runtime maps it where a hybrid schedule is enforced: the steps of each thread at which nobody is waited for, since the step
//! before is the thread's own, and whose result is 0. Most are of this kind, so one has eight bytes; all other steps are gates of the `schedule` beside it.
//! `log-format` writes it; all numbers little-endian.
//!
//! ```text
//! ListsHeader | ThreadList × threads | u64 × entries (thread by thread, in program order)
//! ```
use crate::memory_map::FIXED_PROGRAM;
use crate::memory_map::PROGRAM_ANYWHERE;

/// "RFRNOWN\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNOWN\x01");
pub const VERSION: u32 = 1;
pub const FILE_NAME: &str = "own_steps";

const OBJECT_BITS: u32 = 48;
const OP_SHIFT: u32 = 56;
/// Events from one step to the next, at most.
pub const DISTANCE_MAX: u64 = 255;
/// Stands for no step, but for more events up to the next one than a step has room for.
const GAP: u64 = 255 << OP_SHIFT;

const _: () = assert!(PROGRAM_ANYWHERE.end() <= 1 << OBJECT_BITS);

/// The object of a step as far as it is compared: where a hybrid schedule is enforced, stacks, and so what is allocated later, may lie elsewhere than when it
/// was learned. 0: it is not.
#[inline]
pub const fn compared_object(object: u64) -> u64 {
    match FIXED_PROGRAM.contains(object) || PROGRAM_ANYWHERE.contains(object) {
        true => object,
        false => 0,
    }
}

/// The entry of a step: `op` on `object`, so many events after the step before, from 1 to [`DISTANCE_MAX`]. (The first of a thread has its event and one more.) A
/// distance beyond that gives no entry that there is.
#[inline]
pub const fn step(op: u8, object: u64, distance: u64) -> u64 {
    let distance = if distance > DISTANCE_MAX { 0 } else { distance };
    (op as u64) << OP_SHIFT | distance << OBJECT_BITS | compared_object(object)
}

/// So many events without a step.
pub const fn gap(events: u64) -> u64 {
    GAP | events
}

/// The most that a gap has.
pub const GAP_MAX: u64 = (1 << OP_SHIFT) - 1;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Step { op: u8, object: u64, distance: u64 },
    Gap { events: u64 },
}

impl Entry {
    pub const fn of(word: u64) -> Entry {
        match word >= GAP {
            true => Entry::Gap { events: word & GAP_MAX },
            false => Entry::Step {
                op: (word >> OP_SHIFT) as u8,
                object: word & ((1 << OBJECT_BITS) - 1),
                distance: word >> OBJECT_BITS & DISTANCE_MAX,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let object = 0x5555_5555_a040;
        let expected = Entry::Step {
            op: 3,
            object,
            distance: 255,
        };
        assert_eq!(Entry::of(step(3, object, 255)), expected);
        assert_eq!(Entry::of(gap(GAP_MAX)), Entry::Gap { events: GAP_MAX });
    }

    #[test]
    fn what_lies_elsewhere_is_not_compared() {
        assert_eq!(step(1, 0x6000_0000_1000, 1), step(1, 0x6000_0000_2000, 1));
        assert_ne!(step(1, 0x40_1000, 1), step(1, 0x40_2000, 1));
    }

    #[test]
    fn no_step_is_too_far_away() {
        for distance in [0, 256, 511, u64::MAX] {
            let Entry::Step { distance, .. } = Entry::of(step(1, 7, distance)) else {
                panic!("a gap");
            };
            assert_eq!(distance, 0);
        }
    }
}
