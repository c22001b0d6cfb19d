//! Signals, as far as one thread has to remember them.
use crate::handlers;
use crate::sys;
use core::cell::Cell;
use core::ffi::c_int;
use thread_cells::HandlerWord;

const PENDING_MAX: usize = 16;

/// The registers of an interrupted thread, as `ucontext_t` has them.
pub type Registers = [libc::greg_t; 23];

/// A signal that has come.
#[derive(Clone, Copy)]
pub struct Came {
    pub signal: c_int,
    pub info: libc::siginfo_t,
    /// Where the thread was.
    pub registers: Registers,
    /// It came together with the one before it: the thread has done nothing in between.
    pub is_together: bool,
}

impl Came {
    pub fn new(signal: c_int) -> Came {
        Came {
            signal,
            // SAFETY: a siginfo of zeros is valid.
            info: unsafe { core::mem::zeroed() },
            registers: [0; 23],
            is_together: false,
        }
    }
}

/// The call that a thread is in, of those that come by a trampoline.
#[derive(Clone, Copy)]
pub struct CallUnderWay {
    /// Where its registers are, further up on the stack (`calls::entry`).
    pub registers: usize,
    /// Nothing: it is still to be made.
    pub result: Option<isize>,
}

/// Signals that have come to a thread, and whose handlers have not run yet.
#[repr(C)]
pub struct Pending {
    /// Read at every safe point, changed by `on_signal`.
    pub count: HandlerWord,
    /// Changed while signals are blocked: by the handler, which blocks all, and by `deliver`.
    signals: [Cell<Came>; PENDING_MAX],
    /// Where the thread went on when the last one had come, condensed. Changed by the handler.
    went_on_at: HandlerWord,
}

impl Pending {
    pub fn new() -> Pending {
        Pending {
            signals: core::array::from_fn(|_| Cell::new(Came::new(0))),
            count: HandlerWord::new(0),
            went_on_at: HandlerWord::new(0),
        }
    }

    /// Whoever forks has them, and its child none.
    pub fn forget(&self) {
        self.count.set(0);
    }

    /// One more has come. If there are too many, it is lost.
    pub fn add(&self, came: Came) {
        let count = self.count.get();
        if let Some(place) = self.signals.get(count as usize) {
            place.set(came);
            self.count.set(count + 1);
        }
    }

    /// The thread goes on with these registers.
    pub fn note_going_on(&self, registers: &Registers) {
        self.went_on_at.set(condensed(registers));
    }

    /// Has it done nothing since the last signal came?
    pub fn is_where_it_went_on(&self, registers: &Registers) -> bool {
        self.count.get() != 0 && self.went_on_at.get() == condensed(registers)
    }

    /// The one whose handler runs next, taken while no other can come. `during_call`: what was blocked in the call that has just returned, if that is
    /// something else than what is blocked now.
    ///
    /// That is the one that came first; but of those that came together the last one that the handlers of those before it do not block: the kernel
    /// begins one handler after the other, and the first one is interrupted before its first instruction. One that has been blocked since it came, by
    /// a handler that runs, goes back to the kernel.
    pub fn take(&self, during_call: Option<u64>) -> Option<Came> {
        let before = handlers::block_all();
        let blocked = during_call.unwrap_or(before);
        let next = loop {
            match self.take_at(0) {
                Some(came) if is_in(blocked, came.signal) => send_again(&came),
                Some(first) => break Some(self.last_with(first, blocked)),
                None => break None,
            }
        };
        handlers::restore(before);
        next
    }

    /// The last one that interrupts `first`, which waits at its place again; or `first` itself.
    fn last_with(&self, first: Came, blocked: u64) -> Came {
        let mut blocked = blocked | handlers::blocks(first.signal);
        let mut last = None;
        for (at, place) in self.signals[..self.count.get() as usize].iter().enumerate() {
            let came = place.get();
            if !came.is_together {
                break;
            }
            if is_in(blocked, came.signal) {
                continue;
            }
            blocked |= handlers::blocks(came.signal);
            last = Some(at);
        }
        let Some(at) = last else { return first };
        let taken = self.take_at(at).unwrap_or(first);
        let count = self.count.get() as usize;
        for at in (0..count).rev() {
            self.signals[at + 1].set(self.signals[at].get());
        }
        self.signals[0].set(first);
        self.count.set(count as u64 + 1);
        taken
    }

    fn take_at(&self, at: usize) -> Option<Came> {
        let left = self.count.get().checked_sub(1)? as usize;
        let taken = self.signals.get(at).filter(|_| at <= left)?.get();
        for at in at..left {
            self.signals[at].set(self.signals[at + 1].get());
        }
        self.count.set(left as u64);
        Some(taken)
    }
}

fn is_in(set: u64, signal: c_int) -> bool {
    set >> (signal - 1) & 1 != 0
}

fn condensed(registers: &Registers) -> u64 {
    let mix = |sum: u64, register: &i64| {
        (sum ^ *register as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    registers[..=libc::REG_RIP as usize].iter().fold(1, mix)
}

/// To the calling thread, which blocks it.
fn send_again(came: &Came) {
    let (process, thread) = (sys::process_id() as usize, sys::thread_id() as usize);
    let info = &raw const came.info as usize;
    // SAFETY: the kernel reads a siginfo.
    unsafe {
        sys::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            [process, thread, came.signal as usize, info, 0, 0],
        )
    };
}

/// The stack that the program wants its handlers to run on, and the larger one that they run on instead.
pub struct SignalStack {
    pub asked: Cell<libc::stack_t>,
    /// The lowest address of ours; 0 if there is none yet.
    pub ours: Cell<u64>,
}

impl SignalStack {
    pub const fn new() -> SignalStack {
        SignalStack {
            asked: Cell::new(libc::stack_t {
                ss_sp: core::ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            }),
            ours: Cell::new(0),
        }
    }
}
