//! Scope `inputs`, several threads: which code of the program made a call (`log_format::inputs::labels`).
//!
//! A label is the nearest return address above the call that lies neither in libc nor in this library (`turns::labels`): the program's
//! own call of `read`, or of `fread`. The words of the stack are looked at one by one; but first, whether the one that is expected is where it was
//! the last time.
use crate::local::Local;
use crate::turns;
use core::ffi::c_long;
use log_format::inputs::Short;
use log_format::inputs::labels::EXPECTED;
use log_format::inputs::labels::LABEL;
use log_format::inputs::labels::Labels;
use log_format::inputs::labels::split;

/// A stack is only looked at so near its top: further down it may be another one, with nothing behind it.
const REACH: usize = 1 << 16;
const WORDS_MAX: usize = 128;

/// What a thread knows of the calls it has made.
pub struct CallLabels {
    expected: Labels,
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
    fn of(&mut self, number: u32, stack: usize, top: usize) -> u64 {
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
        let Some(nth) = words.iter().position(|word| turns::is_return_address(*word)) else {
            return 0;
        };
        *found = nth as u8;
        words[nth]
    }
}

/// An address at, or a little below, the top of the calling thread's stack.
pub fn stack_top() -> usize {
    unsafe extern "C" {
        static __libc_stack_end: *const u8;
    }
    let here = 0u8;
    let here = &raw const here as usize;
    // SAFETY: the loader set it before anything else ran.
    let main = unsafe { __libc_stack_end } as usize;
    // What libc keeps of a thread is in the same page, or above it.
    if main > here && main - here < REACH {
        main
    } else {
        here | 0xfff
    }
}

impl Local {
    /// Recording: the entry of a call with this number and time comes next.
    #[inline]
    pub fn note_label(&mut self, number: u32, time: u64, stack: usize) {
        if !Labels::has_one(number, time) {
            return;
        }
        let label = self.labels.of(number, stack, self.stack_top);
        if !self.labels.expected.is_expected(number, label) {
            self.write_label(label);
        }
    }

    #[cold]
    fn write_label(&mut self, label: u64) {
        let (check, result) = split(label);
        let written = Short {
            event: self.event(),
            number: LABEL,
            check,
            result,
            time: 0,
            range: None,
        };
        // SAFETY: there is no range.
        if !unsafe { self.inputs.append_short(&written) } {
            let mut entry = self.input_entry(LABEL as _, result as isize, check);
            entry.time = 0;
            self.append_entry(entry, &[]);
        }
    }

    /// Replay: the label of the call under way.
    pub fn label(&mut self, number: c_long) -> u64 {
        self.labels.of(number as u32, self.call_stack, self.stack_top)
    }
}
