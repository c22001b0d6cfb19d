//! Which descriptors are the recorded standard output and error: what is written there appears in replay, too.
use crate::calls::own_memory;
use crate::control;
use crate::policy;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;

const NOWHERE: u8 = 0;

/// Descriptors that are followed.
pub const FOLLOWED: usize = 1024;
/// For each of them: 0, or the real descriptor that it stands for.
pub static STREAMS: [AtomicU8; FOLLOWED] = [const { AtomicU8::new(NOWHERE) }; FOLLOWED];

/// What the process begins with.
pub fn begin() {
    for (stream, shown) in STREAMS.iter().zip(&control::header().identity.shown) {
        stream.store(shown.load(Relaxed), Relaxed);
    }
}

fn stream(descriptor: usize) -> Option<&'static AtomicU8> {
    STREAMS.get(descriptor)
}

/// The real descriptor, 1 or 2, that `descriptor` stands for.
pub fn shown(descriptor: usize) -> Option<i32> {
    match stream(descriptor)?.load(Relaxed) {
        NOWHERE => None,
        stream => Some(stream as i32),
    }
}

/// Recording: so many bytes go where `descriptor` stands for, if they are shown in replay; less than nothing wraps around.
pub fn count_shown(descriptor: usize, bytes: u64) {
    if let Some(stream) = shown(descriptor) {
        // Relaxed: the tool reads it when the process has ended.
        control::header().progress.shown_bytes[stream as usize - 1].fetch_add(bytes, Relaxed);
    }
}

/// One for each stream. Free, held, or held and awaited.
static HELD: [AtomicU32; 2] = [const { AtomicU32::new(FREE) }; 2];
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// While this exists, no other thread of the process writes to the same stream.
pub struct Alone(&'static AtomicU32);

impl Drop for Alone {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `alone`.
        if self.0.swap(FREE, Release) == AWAITED {
            sys::futex_wake_all(self.0);
        }
    }
}

/// Recording: when only times tell the order of threads, who writes to a stream, 1 or 2, does so alone. Otherwise two that
/// write at the same time could have written in another order than their times say.
pub fn alone(stream: i32) -> Option<Alone> {
    if !policy::are_inputs_recorded() || !control::inputs_only() || !control::is_threaded() {
        return None;
    }
    let held = &HELD[stream as usize - 1];
    // Acquire: pairs with the Release in `drop`.
    if held.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_err() {
        while held.swap(AWAITED, Acquire) != FREE {
            sys::futex_wait(held, AWAITED, LOOK_AGAIN_NS);
        }
    }
    Some(Alone(held))
}

/// A forked child: nobody writes.
pub fn nobody_writes() {
    HELD.iter().for_each(|held| held.store(FREE, Relaxed));
}

/// Follows descriptors through a call that succeeded.
pub fn follow(number: c_long, arguments: &[usize; 6], result: isize) {
    let copied = |from: usize| {
        let value = stream(from).map_or(NOWHERE, |stream| stream.load(Relaxed));
        if let Some(to) = stream(result as usize) {
            to.store(value, Relaxed);
        }
    };
    match number {
        libc::SYS_open | libc::SYS_creat => own_memory::note_opened(arguments[0], result),
        libc::SYS_openat | libc::SYS_openat2 => own_memory::note_opened(arguments[1], result),
        _ => {}
    }
    match number {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => copied(arguments[0]),
        libc::SYS_fcntl if matches!(arguments[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => copied(arguments[0]),
        // Of a relative, which mostly has there what we have.
        libc::SYS_pidfd_getfd => copied(arguments[1]),
        libc::SYS_close => {
            if let Some(closed) = stream(arguments[0]) {
                closed.store(NOWHERE, Relaxed);
            }
        }
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_eventfd2
        | libc::SYS_epoll_create1
        | libc::SYS_timerfd_create
        | libc::SYS_memfd_create => {
            if let Some(opened) = stream(result as usize) {
                opened.store(NOWHERE, Relaxed);
            }
        }
        _ => {}
    }
}
