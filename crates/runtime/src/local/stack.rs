//! Where the calling thread's stack ends.

/// How far the end may be from here, if it is that of the main thread's.
const REACH: usize = 1 << 16;

/// An address at, or a little below, the top of the calling thread's stack.
pub fn top() -> usize {
    unsafe extern "C" {
        static __libc_stack_end: *const u8;
    }
    let here = 0u8;
    let here = &raw const here as usize;
    // SAFETY: the loader set it before anything else ran.
    let main = unsafe { __libc_stack_end } as usize;
    // What libc keeps of a thread is in the same page, or above it.
    if main > here && main - here < REACH {
        main
    } else {
        here | 0xfff
    }
}
