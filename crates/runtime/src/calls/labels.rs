//! Scope `inputs`, several threads: which code of the program made a call (`log_format::inputs::labels`).
//!
//! A label is the nearest return address above the call that lies neither in libc nor in this library (`turns::labels`): the program's
//! own call of `read`, or of `fread`. The words of the stack are looked at one by one; but first, whether the one that is expected is where it was
//! the last time.
use crate::local::Local;
use crate::turns;
use core::ffi::c_long;
use log_format::inputs::Short;
use log_format::inputs::labels::LABEL;
use log_format::inputs::labels::Labels;
use log_format::inputs::labels::split;

impl Local {
    /// Recording: the entry of a call with this number and time comes next.
    #[inline]
    pub fn note_label(&self, number: u32, time: u64, stack: usize) {
        if !Labels::has_one(number, time) {
            return;
        }
        let (label, is_expected) = self.inputs.labels.with(|labels| {
            let label = labels.of(number, stack, self.inputs.stack_top.get(), turns::is_return_address);
            (label, labels.expected.is_expected(number, label))
        });
        if !is_expected {
            self.write_label(label);
        }
    }

    #[cold]
    fn write_label(&self, label: u64) {
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
        if !unsafe { self.inputs.writer.append_short(&written) } {
            let mut entry = self.input_entry(LABEL as _, result as isize, check);
            entry.time = 0;
            self.append_entry(entry, &[]);
        }
    }

    /// Replay: the label of the call under way.
    pub fn label(&self, number: c_long) -> u64 {
        self.inputs.labels.with(|labels| {
            labels.of(
                number as u32,
                self.inputs.call_stack.get() as usize,
                self.inputs.stack_top.get(),
                turns::is_return_address,
            )
        })
    }
}
