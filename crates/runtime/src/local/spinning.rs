//! Is a thread, which a signal has found in the program's own code, only waiting for the handler? (`calls::spinning`)
use crate::sys;
use core::ffi::c_int;
use core::ffi::c_void;
use thread_cells::HandlerWord;

const TICK_NS: u64 = 5_000_000;
/// A thread that was found with known registers so often waits.
const SAME_MAX: u64 = 3;
/// One that computes has so many ticks: a second.
const TICKS_MAX: u64 = 200;
/// A loop has several instructions at which it may be found.
const KNOWN: usize = 4;

/// Says that a signal is a tick of ours, as its value.
static TICK: u8 = 0;

/// What is known of a thread since a signal found it. Changed by handlers of ours alone, which nothing interrupts.
pub struct Spinning {
    /// The timer's number and one, or 0.
    timer: HandlerWord,
    ticks: HandlerWord,
    same: HandlerWord,
    /// What was in its registers, condensed.
    known: [HandlerWord; KNOWN],
}

impl Spinning {
    pub const fn new() -> Spinning {
        Spinning {
            timer: HandlerWord::new(0),
            ticks: HandlerWord::new(0),
            same: HandlerWord::new(0),
            known: [const { HandlerWord::new(0) }; KNOWN],
        }
    }

    /// Whoever forks has the timer, and its child none.
    pub fn forget(&self) {
        self.timer.set(0);
    }

    /// `signal` is to come again, if none does yet.
    pub fn watch(&self, signal: c_int) {
        if self.timer.get() == 0 {
            self.ticks.set(0);
            self.same.set(0);
            self.timer
                .set(begin_timer(signal).map_or(0, |timer| u64::from(timer) + 1));
        }
    }

    /// The handler has run, or is about to.
    pub fn stop(&self) {
        if let Some(timer) = self.timer.get().checked_sub(1) {
            // SAFETY: a timer of ours.
            unsafe { sys::syscall(libc::SYS_timer_delete, [timer as usize, 0, 0, 0, 0, 0]) };
            self.timer.set(0);
        }
    }

    /// The thread was found with these registers: does it wait?
    pub fn is_spinning(&self, registers: &[i64]) -> bool {
        let mix = |sum: u64, register: &i64| {
            (sum ^ *register as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        let general = &registers[libc::REG_R8 as usize..libc::REG_RIP as usize];
        let sum = general.iter().fold(1, mix);
        let ticks = self.ticks.get() + 1;
        self.ticks.set(ticks);
        match self.known.iter().any(|known| known.get() == sum) {
            true => self.same.set(self.same.get() + 1),
            false => self.known[ticks as usize % KNOWN].set(sum),
        }
        self.same.get() >= SAME_MAX || ticks >= TICKS_MAX
    }
}

/// A timer that sends `signal` to the calling thread again and again. Without it, only programs that wait without a call stand still.
fn begin_timer(signal: c_int) -> Option<u32> {
    let timer = sys::create_timer(signal, &raw const TICK as usize)?;
    sys::set_timer(timer, TICK_NS, TICK_NS);
    Some(timer)
}

/// Is this signal a tick of a timer of ours?
pub fn is_tick(info: &libc::siginfo_t) -> bool {
    // SAFETY: signals of timers have a value.
    info.si_code == libc::SI_TIMER
        && unsafe { info.si_value() }.sival_ptr == (&raw const TICK).cast_mut().cast::<c_void>()
}
