//! Which of our threads a `pthread_t` is.
use crate::control;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use libc::pthread_t;

/// pthread_t of each thread by index, to find the index of a thread that is joined.
pub static HANDLES: [AtomicU64; runtime_abi::THREADS_MAX] = [const { AtomicU64::new(0) }; runtime_abi::THREADS_MAX];
/// What stands for a thread as the object of joins and cancellations.
pub fn object_of(index: u32) -> u64 {
    &HANDLES[index as usize] as *const AtomicU64 as u64
}

/// The index of the thread that `object_of` gave this object for.
pub fn index_of_object(object: u64) -> Option<u32> {
    let offset = object.checked_sub(object_of(0))?;
    let index = offset / size_of::<AtomicU64>() as u64;
    (index < HANDLES.len() as u64).then_some(index as u32)
}

/// The index of a thread.
pub fn index_of(thread: pthread_t) -> Option<u32> {
    let count = (control::header().progress.threads.load(Relaxed) as usize).min(runtime_abi::THREADS_MAX);
    // The newest first: libc reuses handles of threads that were joined.
    (0..count)
        .rev()
        .find(|i| HANDLES[*i].load(Relaxed) == thread)
        .map(|i| i as u32)
}
