//! Threads that end: when is the kernel done with one, so that others see all that it writes?
use crate::control;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;

/// Where the kernel writes zero when the main thread ends; 0: not known.
static LEADER_WORD: AtomicU64 = AtomicU64::new(0);

/// The calling thread, which is `thread`, is about to make its last call.
pub fn expect(thread: u32) {
    const PR_GET_TID_ADDRESS: usize = 40;
    let mut place = 0u64;
    if control::slot(thread).os_thread.load(Relaxed) == sys::process_id() {
        // SAFETY: the kernel writes one pointer.
        unsafe {
            sys::syscall(
                libc::SYS_prctl,
                [PR_GET_TID_ADDRESS, &raw mut place as usize, 0, 0, 0, 0],
            )
        };
    }
    LEADER_WORD.store(place, Relaxed);
}

/// Waits until the kernel has done with a thread all that others can see.
pub fn wait_until_gone(os_thread: u32) {
    let place = LEADER_WORD.load(Relaxed);
    if place != 0 {
        // SAFETY: the main thread has told the kernel to write there when it ends; libc keeps the word for as long as the process lasts.
        let word = unsafe { AtomicU32::from_ptr(place as *mut u32) };
        // It stays, as a zombie, as long as the process does.
        while word.load(SeqCst) != 0 {
            sys::yield_now();
        }
        return;
    }
    while os_thread != sys::process_id() && sys::is_thread(os_thread) {
        sys::yield_now();
    }
}
