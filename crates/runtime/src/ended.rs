//! What threads that have ended leave behind, given back: files that are mapped for them alone.
//!
//! The kernel allows a process some 65,000 mappings. A program that makes one short thread after the other would have
//! used them up after ten thousand, and could make no more. So now and then the creator of a thread looks for those that are
//! over: their last event is counted, and the kernel does not know them any more, so nobody uses their files.
use crate::control;
use crate::inputs;
use crate::local::Local;
use crate::log;
use crate::sys;
use crate::trace_file;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::THREADS_MAX;
use runtime_abi::thread_state;

/// Threads between two looks, and how many are looked at.
const BETWEEN: u32 = 64;
const LOOKS: usize = 512;

/// Which threads have been cleared away.
struct Cleared {
    /// Somebody is looking.
    is_busy: AtomicBool,
    /// All below this one.
    first: AtomicU32,
    threads: [AtomicBool; THREADS_MAX],
}

/// Written by who is looking, of whom there is one at a time: who has set `is_busy`.
static CLEARED: Cleared = Cleared {
    is_busy: AtomicBool::new(false),
    first: AtomicU32::new(1),
    threads: [const { AtomicBool::new(false) }; THREADS_MAX],
};

/// Thread `newest` is about to be created.
#[inline]
pub fn look(newest: u32) {
    if newest.is_multiple_of(BETWEEN) && newest != 0 {
        clear_away(newest);
    }
}

#[cold]
fn clear_away(newest: u32) {
    // Acquire and Release: one after the other.
    if CLEARED.is_busy.swap(true, Acquire) {
        return;
    }
    let is_cleared = |thread: u32| CLEARED.threads[thread as usize].load(Relaxed);
    let first = CLEARED.first.load(Relaxed);
    for thread in (first..newest).filter(|thread| !is_cleared(*thread)).take(LOOKS) {
        let slot = control::slot(thread);
        // Acquire: pairs with the Release at its end.
        if slot.state.load(Acquire) == thread_state::EXITED && !sys::is_thread(slot.os_thread.load(Relaxed)) {
            log::unmap(thread);
            trace_file::unmap(thread);
            inputs::unmap(thread);
            Local::unmap_recorded_inputs(thread);
            Local::unmap_clone(thread);
            CLEARED.threads[thread as usize].store(true, Relaxed);
        }
    }
    let first = (first..newest).find(|thread| !is_cleared(*thread)).unwrap_or(newest);
    CLEARED.first.store(first, Relaxed);
    CLEARED.is_busy.store(false, Release);
}
