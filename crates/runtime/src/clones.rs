//! What a program asks for when it makes a process or a thread by `clone` itself, and the end of a thread that was made so.
//!
//! - A child with memory of its own is a fork, whatever else it is given (`processes.rs`).
//! - One that shares memory and runs beside its maker is a thread to us, also if it is a process to the kernel: it has a log, and a replay makes
//!   a thread for it (`interpose/clones.rs`).
//! - The child of a `vfork` gets a copy of the memory, its maker is suspended as long as natively, and what the child has changed is
//!   brought back (`brought_back.rs`).
use crate::control;
use crate::ending;
use crate::local::Local;
use crate::policy;
use crate::replay::Doing;
use crate::standstill;
use crate::sys;
use crate::turns;
use core::arch::asm;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Release;
use run_model::Kind;
use run_model::Op;
use runtime_abi::thread_state;
use runtime_abi::trace_file::what;

pub const VM: usize = libc::CLONE_VM as usize;
pub const THREAD: usize = libc::CLONE_THREAD as usize;
pub const SIGHAND: usize = libc::CLONE_SIGHAND as usize;
pub const VFORK: usize = libc::CLONE_VFORK as usize;
pub const SET_TLS: usize = libc::CLONE_SETTLS as usize;
pub const PARENT_SET_TID: usize = libc::CLONE_PARENT_SETTID as usize;
pub const CHILD_SET_TID: usize = libc::CLONE_CHILD_SETTID as usize;
pub const CHILD_CLEAR_TID: usize = libc::CLONE_CHILD_CLEARTID as usize;
pub const PIDFD: usize = libc::CLONE_PIDFD as usize;

/// What is asked for, in one form for `clone`, `clone3`, `fork` and `vfork`.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    pub flags: usize,
    pub stack: usize,
    pub parent_tid: usize,
    pub child_tid: usize,
    pub tls: usize,
    pub pidfd: usize,
}

/// The first words of what `clone3` is given.
#[repr(C)]
#[derive(Clone, Copy)]
struct Clone3 {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

impl Asked {
    /// What a call asks for, if it makes a process or a thread.
    pub fn of(number: c_long, arguments: &[usize; 6]) -> Option<Asked> {
        let [first, second, third, fourth, fifth, _] = *arguments;
        match number {
            libc::SYS_fork => Some(Asked {
                flags: libc::SIGCHLD as usize,
                ..Asked::default()
            }),
            libc::SYS_vfork => Some(Asked {
                flags: VM | VFORK | libc::SIGCHLD as usize,
                ..Asked::default()
            }),
            libc::SYS_clone => Some(Asked {
                flags: first,
                stack: second,
                parent_tid: third,
                child_tid: fourth,
                tls: fifth,
                pidfd: third,
            }),
            libc::SYS_clone3 if first != 0 && second >= size_of::<Clone3>() => {
                // SAFETY: the program says that there are so many bytes.
                let asked = unsafe { (first as *const Clone3).read_unaligned() };
                Some(Asked {
                    flags: asked.flags as usize,
                    stack: asked.stack.wrapping_add(asked.stack_size) as usize,
                    parent_tid: asked.parent_tid as usize,
                    child_tid: asked.child_tid as usize,
                    tls: asked.tls as usize,
                    pidfd: asked.pidfd as usize,
                })
            }
            _ => None,
        }
    }

    /// The same without a flag, as a fork on the same stack.
    pub fn fork_without(&self, flag: usize) -> isize {
        let arguments = [self.flags & !flag, 0, self.parent_tid, self.child_tid, 0, 0];
        // SAFETY: a fork, which shares nothing; the kernel writes what the program asked for where it asked for it.
        unsafe { sys::syscall(libc::SYS_clone, arguments) }
    }

    /// Replay: forks. There is no signal when the child ends, since the one that came is in the log; it is not waited for, and its
    /// namespaces and its kin are in the answers.
    pub fn fork_again(&self) -> isize {
        let kept = match self.is_of_libc() {
            true => CHILD_SET_TID | CHILD_CLEAR_TID,
            false => CHILD_CLEAR_TID,
        };
        let arguments = [self.flags & kept, 0, 0, self.child_tid, 0, 0];
        // SAFETY: a fork, which shares nothing; the kernel writes where the program asked for it.
        unsafe { sys::syscall(libc::SYS_clone, arguments) }
    }

    /// Is it libc's own fork? Then the number of the child is for libc, which wants the kernel's.
    pub fn is_of_libc(&self) -> bool {
        const NEAR: usize = 4096;
        let own: usize;
        // SAFETY: the psABI has a thread's pointer to itself there.
        unsafe { asm!("mov {}, fs:[0]", out(reg) own, options(nostack, readonly, preserves_flags)) };
        (own..own + NEAR).contains(&self.child_tid)
    }

    /// Is it a process, with memory of its own or borrowed until it leaves?
    pub fn is_process(&self) -> bool {
        self.flags & (VM | VFORK) != VM
    }

    pub fn has(&self, flag: usize) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a thread's or a process's number where the program has asked for it.
pub fn put(place: usize, value: u32) {
    // SAFETY: the program gave it to the kernel to be written.
    unsafe { (place as *mut u32).write_unaligned(value) };
}

/// When a call has been made: a forked child that asked for a thread pointer of its own gets it. We would not find ourselves there: it is not recorded any more
/// (`Local::record_fork`), and the run says so.
pub fn take_pointer(number: c_long, arguments: &[usize; 6], result: isize) {
    const ARCH_SET_FS: usize = 0x1002;
    if result != 0 || !matches!(number, libc::SYS_clone | libc::SYS_clone3) || !policy::is_free() {
        return;
    }
    if let Some(asked) = Asked::of(number, arguments).filter(|asked| asked.has(SET_TLS)) {
        // SAFETY: what the program asked for; nothing of ours is found by that register from here on.
        unsafe { sys::syscall(libc::SYS_arch_prctl, [ARCH_SET_FS, asked.tls, 0, 0, 0, 0]) };
    }
}

impl Local {
    /// Does this call end the thread, which libc does not know, and nobody else?
    pub fn ends_by(&self, number: c_long) -> bool {
        number == libc::SYS_exit || number == libc::SYS_exit_group && self.birth.is_process.get()
    }

    /// The thread is the first one of a process of its own from now on.
    pub fn leave_clone(&self) {
        self.birth.is_cloned.set(false);
        self.birth.is_process.set(false);
        control::note_threads(false);
    }

    /// Replay: a thread that was a process of its own has gone without a word: it was killed, or became another program.
    pub fn vanish(&self) -> ! {
        self.slot.state.store(thread_state::STOPPED, Release);
        if turns::is_on() && turns::has_turn(self.index) {
            turns::leave(self);
        }
        // SAFETY: ends the thread.
        unsafe { sys::syscall(libc::SYS_exit, [0; 6]) };
        standstill::sleep_forever()
    }

    /// The last call of a thread that libc does not know.
    pub fn end_clone(&self, number: c_long, arguments: &[usize; 6]) -> isize {
        self.end_thread();
        if turns::is_on() && turns::has_turn(self.index) {
            turns::leave(self);
        }
        let number = if policy::is_imposed() { libc::SYS_exit } else { number };
        // SAFETY: ends the thread.
        unsafe { sys::syscall(number, *arguments) }
    }

    /// The thread has done what it does: its end is an event.
    pub fn end_thread(&self) {
        match policy::is_imposed() {
            true => {
                self.pass_advice(-1);
                self.require_no_more_inputs();
                self.pass_gate(Doing {
                    kind: Kind::Exit,
                    op: Op::None,
                    object: 0,
                });
                self.trace_thread(what::EXIT, 0);
                self.complete();
                ending::be_the_last(self);
            }
            false if control::inputs_only() => {
                self.record_rest();
                self.acquisition(Kind::Exit, 0, 0, &[]);
            }
            false => self.create_epoch(Kind::Exit, 0, &[]),
        }
        // Release: pairs with the Acquire in `Owned::is_idle`: its last access is visible to who sees its end.
        self.slot.state.store(thread_state::EXITED, Release);
        self.leave_steered();
    }
}
