//! Which code made a call: written down where it does not follow from the calls before.
//!
//! A thread makes the same calls from the same places again and again. Writer and reader both expect, of a call, the label that
//! the last call of the same number behind the same label had. Only another one is written, in an entry of its own before the call's.
use super::mix;

/// No call has this number, and it has a short form: the label of the call that follows. The low half of it is the check, the high half the result.
pub const LABEL: u32 = 509;

/// How many pairs of a label and a number are remembered.
pub const EXPECTED: usize = 256;
/// Where the highest bits of the product end up, which depend on all others.
const INDEX_AT: u32 = 29 - EXPECTED.trailing_zeros();

/// What is expected of the next calls. Writer and reader have the same.
#[derive(Clone, Copy, Debug)]
pub struct Labels {
    last: u64,
    next: [u64; EXPECTED],
}

impl Default for Labels {
    fn default() -> Labels {
        Labels::new()
    }
}

impl Labels {
    pub const fn new() -> Labels {
        Labels {
            last: 0,
            next: [0; EXPECTED],
        }
    }

    /// Does an entry of the stream have a label? Calls of programs with several threads do.
    #[inline]
    pub fn has_one(number: u32, time: u64) -> bool {
        time != 0 && number < LABEL
    }

    /// The label that is expected of the next call, if it has this number, and which of all that are remembered it is.
    #[inline]
    pub fn look(&self, number: u32) -> (usize, u64) {
        let index = (mix(self.last.rotate_left(32), u64::from(number)) >> INDEX_AT) as usize % EXPECTED;
        (index, self.next[index])
    }

    /// Writer: the next call has this number and this label. False: the label has to be written.
    #[inline]
    pub fn is_expected(&mut self, number: u32, label: u64) -> bool {
        self.take(number, Some(label)).1
    }

    /// Reader: the label of the next call, if this one was `written` before it.
    #[inline]
    pub fn next(&mut self, number: u32, written: Option<u64>) -> u64 {
        self.take(number, written).0
    }

    #[inline]
    fn take(&mut self, number: u32, label: Option<u64>) -> (u64, bool) {
        let (index, expected) = self.look(number);
        let label = label.unwrap_or(expected);
        self.next[index] = label;
        self.last = label;
        (label, label == expected)
    }
}

/// A label as the check and the result of its entry.
#[inline]
pub fn split(label: u64) -> (u32, i64) {
    (label as u32, (label >> 32) as i64)
}

/// And back.
pub fn join(check: u32, result: i64) -> u64 {
    u64::from(check) | (result as u64) << 32
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_loop_writes_its_labels_once() {
        let mut labels = Labels::new();
        let calls = [(232, 0x5555_0001), (0, 0x5555_0002), (1, 0x5555_0003), (0, 0x5555_0004)];
        let mut written = 0;
        for _ in 0..1000 {
            for (number, label) in calls {
                written += u32::from(!labels.is_expected(number, label));
            }
        }
        // The first one twice: nothing was before it at first.
        assert!(written <= 5, "{written}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(calls in prop::collection::vec((0u32..400, 0u64..1 << 47), 0..300)) {
            let (mut writer, mut reader) = (Labels::new(), Labels::new());
            for (number, label) in calls {
                let (check, result) = split(label);
                let written = (!writer.is_expected(number, label)).then(|| join(check, result));
                prop_assert_eq!(reader.next(number, written), label);
            }
        }
    }
}
