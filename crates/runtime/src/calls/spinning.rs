//! Threads that wait for a handler without any call: `while (!flag);`. They come to no safe point, so the handler has to run where they are.
//!
//! A signal that finds a thread in the program's own code comes again every few milliseconds, by a timer, until its handler has run. A thread that is found so
//! time after time, with registers as before, waits; one that computes has others each time, and is left alone for a second, as the place where it is interrupted
//! does not come back in a replay. There, the same is done when a handler that ran so is due.
use crate::handlers;
use crate::local::Local;
use crate::policy;
use crate::turns;
use core::ffi::c_int;
use log_format::inputs::SignalPlace;

impl Local {
    /// In a handler of ours: `signal` has found the thread where this says.
    pub fn watch_if_spinning(&self, signal: c_int, context: &libc::ucontext_t) {
        if self.is_in_program(context) {
            self.inputs.spinning.watch(signal);
        }
    }

    fn is_in_program(&self, context: &libc::ucontext_t) -> bool {
        let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
        turns::is_the_programs(at) && !self.inside_event.get() && !self.calls_pass.get()
    }

    /// In a handler of ours: a tick.
    pub fn on_tick(&self, context: &mut libc::ucontext_t) {
        let is_due = match policy::are_inputs_answered() {
            true => self.is_anywhere_due(),
            false => self.inputs.pending.count.get() != 0,
        };
        if !is_due {
            return self.inputs.spinning.stop();
        }
        if !self.is_in_program(context) || !self.inputs.spinning.is_spinning(&context.uc_mcontext.gregs) {
            return;
        }
        self.inputs.spinning.stop();
        match policy::are_inputs_answered() {
            true => turns::quietly(|| self.deliver_next_in(Some(context))),
            false => self.deliver_pending(SignalPlace::Anywhere, Some(context)),
        }
        // Ours is not to be interrupted.
        handlers::block_all();
    }
}
