//! What a thread knows of the code that makes its calls (`calls::labels`).
use log_format::inputs::labels::EXPECTED;
use log_format::inputs::labels::Labels;

/// A stack is only looked at so near its top: further down it may be another one, with nothing behind it.
pub const REACH: usize = 1 << 16;
const WORDS_MAX: usize = 128;

/// What a thread knows of the calls it has made.
pub struct CallLabels {
    pub expected: Labels,
    /// Of each label that is expected, the word of the stack, above that of the call, in which it was found.
    found: [u8; EXPECTED],
}

const _: () = assert!(WORDS_MAX <= u8::MAX as usize);

impl CallLabels {
    pub const fn new() -> CallLabels {
        CallLabels {
            expected: Labels::new(),
            found: [0; EXPECTED],
        }
    }

    /// The label of a call of this number that was made on `stack`, of a thread whose stack ends at `top`; 0: there is none.
    #[inline]
    pub fn of(&mut self, number: u32, stack: usize, top: usize, is_return_address: impl Fn(u64) -> bool) -> u64 {
        if stack == 0 || stack >= top || top - stack > REACH {
            return 0;
        }
        let words = ((top - stack) / size_of::<u64>()).min(WORDS_MAX);
        // SAFETY: the part of the thread's stack that is in use, and what libc has above it: what called us is below.
        let words = unsafe { core::slice::from_raw_parts(stack as *const u64, words) };
        let (index, label) = self.expected.look(number);
        let found = &mut self.found[index];
        if label != 0 && words.get(*found as usize) == Some(&label) {
            return label;
        }
        let Some(nth) = words.iter().position(|word| is_return_address(*word)) else {
            return 0;
        };
        *found = nth as u8;
        words[nth]
    }
}
