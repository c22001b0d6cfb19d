//! Scope `inputs`, several threads: which code of the program made a call (`log_format::inputs::labels`).
//!
//! A label is the nearest return address above the call that lies neither in libc nor in this library (`turns::labels`): the program's
//! own call of `read`, or of `fread`. The words of the stack are looked at one by one; where one was found is looked at first the
//! next time.
use crate::local::Local;
use crate::turns;
use core::ffi::c_long;
use log_format::inputs::Short;
use log_format::inputs::labels::LABEL;
use log_format::inputs::labels::Labels;
use log_format::inputs::labels::split;

/// A stack is only looked at so near its top: further down it may be another one, with nothing behind it.
const REACH: usize = 1 << 16;
const WORDS_MAX: usize = 128;
const FOUND: usize = 64;

/// What a thread knows of the calls it has made.
pub struct CallLabels {
    expected: Labels,
    found: [Found; FOUND],
}

/// A word of the stack, as it was. Calls that different places make on the same stack are often of different numbers.
#[derive(Clone, Copy)]
struct Found {
    stack: usize,
    at: usize,
    label: u64,
}

impl CallLabels {
    pub const fn new() -> CallLabels {
        CallLabels {
            expected: Labels::new(),
            found: [const {
                Found {
                    stack: 0,
                    at: 0,
                    label: 0,
                }
            }; FOUND],
        }
    }

    /// The label of a call of this number that was made on `stack`, of a thread whose stack ends at `top`; 0: there is none.
    #[inline]
    fn of(&mut self, number: u32, stack: usize, top: usize) -> u64 {
        if stack == 0 || stack >= top || top - stack > REACH {
            return 0;
        }
        let found = &mut self.found[(stack >> 4 ^ number as usize) % FOUND];
        // SAFETY: between `stack` and `top`, as below.
        if found.stack == stack && unsafe { (found.at as *const u64).read() } == found.label {
            return found.label;
        }
        let words = ((top - stack) / size_of::<u64>()).min(WORDS_MAX);
        // SAFETY: the part of the thread's stack that is in use, and what libc has above it: what called us is below.
        let words = unsafe { core::slice::from_raw_parts(stack as *const u64, words) };
        let Some(nth) = words.iter().position(|word| turns::is_return_address(*word)) else {
            return 0;
        };
        *found = Found {
            stack,
            at: &raw const words[nth] as usize,
            label: words[nth],
        };
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
