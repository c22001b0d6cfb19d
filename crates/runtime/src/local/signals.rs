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
}

impl Came {
    pub fn new(signal: c_int) -> Came {
        Came {
            signal,
            // SAFETY: a siginfo of zeros is valid.
            info: unsafe { core::mem::zeroed() },
            registers: [0; 23],
        }
    }
}

/// Signals that have come to a thread, and whose handlers have not run yet.
#[repr(C)]
pub struct Pending {
    /// Read at every safe point, changed by `on_signal`.
    pub count: HandlerWord,
    /// Changed while signals are blocked: by the handler, which blocks all, and by `deliver`.
    signals: [Cell<Came>; PENDING_MAX],
}

impl Pending {
    pub fn new() -> Pending {
        Pending {
            signals: core::array::from_fn(|_| Cell::new(Came::new(0))),
            count: HandlerWord::new(0),
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

    /// The one that came first, taken while no other can come. `during_call`: what was blocked in the call that has just returned, if that is
    /// something else than what is blocked now.
    ///
    /// One that has been blocked since it came, by a handler that runs, goes back to the kernel.
    pub fn take(&self, during_call: Option<u64>) -> Option<Came> {
        let before = handlers::block_all();
        let blocked = during_call.unwrap_or(before);
        let first = loop {
            match self.take_blocked() {
                Some(came) if blocked >> (came.signal - 1) & 1 != 0 => send_again(&came),
                first => break first,
            }
        };
        handlers::restore(before);
        first
    }

    fn take_blocked(&self) -> Option<Came> {
        let left = self.count.get().checked_sub(1)?;
        let first = self.signals[0].get();
        for (place, next) in self.signals[..left as usize].iter().zip(&self.signals[1..]) {
            place.set(next.get());
        }
        self.count.set(left);
        Some(first)
    }
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
