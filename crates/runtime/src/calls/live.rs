//! Inputs are live: calls are made, and nothing is logged. The order of threads is imposed all the same, so a call is the event that it was
//! when it was recorded, and what it brings in is stored where other threads' accesses are ordered by it.
use crate::calls::epolls;
use crate::calls::is_to_self;
use crate::calls::ordered;
use crate::calls::pieces::Piece;
use crate::calls::polls;
use crate::calls::table;
use crate::calls::table::Treatment;
use crate::calls::written::Ranges;
use crate::clones::Asked;
use crate::clones::VM;
use crate::control;
use crate::inputs;
use crate::local::Local;
use crate::policy;
use crate::sys;
use core::ffi::c_long;

/// Does the call nothing but let time pass?
fn is_sleep(number: c_long) -> bool {
    matches!(number, libc::SYS_nanosleep | libc::SYS_clock_nanosleep)
}

impl Local {
    /// Any call of the program's whose treatment depends on where inputs come from.
    pub fn pass_any_call(
        &self,
        treatment: Treatment,
        number: c_long,
        arguments: &[usize; 6],
        real: impl Fn(&[usize; 6]) -> isize,
    ) -> isize {
        match treatment {
            Treatment::Logged | Treatment::Unknown => self.pass_call(number, arguments, real),
            Treatment::Fork => self.pass_fork(|| match Asked::of(number, arguments) {
                Some(asked) if asked.has(VM) => asked.fork_without(VM),
                _ => real(arguments),
            }),
            Treatment::Exec => self.pass_exec(|| real(arguments)),
            _ => {
                let result = self.until_made(|| real(arguments));
                self.count_real_call(number);
                result
            }
        }
    }

    /// A call that was logged.
    pub fn pass_call(
        &self,
        number: c_long,
        arguments: &[usize; 6],
        mut real: impl FnMut(&[usize; 6]) -> isize,
    ) -> isize {
        let outgoing = self.gather_outgoing(number, arguments);
        let mut given = 0;
        let recorded = self.await_turns(number, |bytes| {
            let mut piece = Piece::new(number, &outgoing.arguments, given, bytes);
            let piece = piece.arguments();
            given += self.until_made(|| real(&piece)).max(0) as usize;
        });
        let mut piece;
        let arguments = match given {
            0 => &outgoing.arguments,
            given => {
                piece = Piece::new(number, &outgoing.arguments, given, usize::MAX);
                &piece.arguments()
            }
        };
        if let Some(interrupted) = recorded.filter(|result| ordered::was_interrupted(*result)) {
            polls::let_signal_in(number, arguments);
            self.consider_input(number, &outgoing.arguments, interrupted, &[]);
            self.complete();
            return interrupted;
        }
        if !self.inside_event.get() && self.is_at_end() {
            // It was in this call when the recorded process ended.
            self.stop_until_freed();
        }
        if is_to_self(number, arguments, sys::thread_id) {
            // It may be the end of this thread.
            self.complete();
            return real(arguments);
        }
        if control::counts_for_points() && is_sleep(number) {
            // What it may wait for is ordered by the schedule (PEREGRINE, section 6.4).
            self.complete();
            return 0;
        }
        let mut ranges = Ranges::new();
        // It finds what it found. If it left its schedule while it waited for its turn, it has to wait for that.
        let is_at_once = polls::is_poll(number) && recorded.is_some() && !policy::is_free();
        // Others see that it waits for something outside.
        let result = self.until_made(|| {
            self.make(number, arguments, &mut ranges, |own| match table::blocks(number) {
                true if is_at_once => polls::at_once(number, own, true, &mut real),
                true => self.blocking(|| real(own)),
                false => real(own),
            })
        });
        if control::counts() && result >= 0 {
            // Before anybody else has a turn.
            epolls::follow(number, arguments, result);
        }
        // Before anybody, and the program itself, can do something with it.
        let result = match given {
            0 => result,
            given => given as isize + result.max(0),
        };
        if given != 0 && number == libc::SYS_recvfrom {
            // What came before is in its place already, and all of it came in.
            let last = core::mem::replace(&mut ranges, Ranges::new());
            let [_, address, ..] = outgoing.arguments;
            ranges.add(address, address, result.max(0) as usize);
            for range in last.all() {
                match range.address == arguments[1] {
                    true => inputs::copy(range.from as *const u8, range.address as *mut u8, range.bytes),
                    false => ranges.add(range.address, range.from, range.bytes),
                }
            }
        }
        self.consider_input(number, &outgoing.arguments, result, ranges.all());
        if !self.inside_event.get() {
            self.complete();
            self.take_in(number, ranges.all());
        }
        result
    }
}
