//! Threads and processes of a guest's. It makes them by `clone`; the host's libc makes the thread, and the guest's part of it begins
//! where the call returns, with the stack and the FS that the guest wanted.
//!
//! The kernel's name of the new thread is an input. The new thread waits until its creator knows it, and has written it where the guest
//! wanted it: the thread itself may look there at once, and its end overwrites it.
use crate::calls;
use crate::host::block::Block;
use crate::host::entry;
use crate::host::entry::Frame;
use crate::hosting;
use crate::interpose;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::schedule;
use crate::sys;
use crate::turns;
use core::ffi::c_long;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::THREADS_MAX;

const SIGNAL_OF_END: usize = 0xff;
/// How long to wait at most for a thread that has been made; it looks again then.
const LOOK_EVERY_NS: u64 = 1_000_000;
/// What a fork asks for.
const PLAIN: usize = libc::SIGCHLD as usize;
const VM: usize = libc::CLONE_VM as usize;
const THREAD: usize = libc::CLONE_THREAD as usize;
const VFORK: usize = libc::CLONE_VFORK as usize;
const SET_TLS: usize = libc::CLONE_SETTLS as usize;
const PARENT_SET_TID: usize = libc::CLONE_PARENT_SETTID as usize;
const CHILD_SET_TID: usize = libc::CLONE_CHILD_SETTID as usize;
const CHILD_CLEAR_TID: usize = libc::CLONE_CHILD_CLEARTID as usize;

/// The process's first thread gets its block.
pub fn begin_main(block: &mut Block) {
    block.install();
    use_signal_stack(block);
    entry::divert_calls(block);
    block.tid = 0;
}

/// What a new thread of the host's does first, before any signal can come to it.
pub fn arrive(block: *mut c_void) {
    // SAFETY: `create` gave it to this thread alone.
    let block = unsafe { &mut *block.cast::<Block>() };
    block.install();
    use_signal_stack(block);
    entry::divert_calls(block);
}

fn use_signal_stack(block: &Block) {
    let stack = block.signal_stack();
    let stack = libc::stack_t {
        ss_sp: stack.start as *mut c_void,
        ss_flags: 0,
        ss_size: stack.bytes as usize,
    };
    // SAFETY: the kernel reads a description of memory that nobody else uses.
    unsafe { sys::syscall(libc::SYS_sigaltstack, [&raw const stack as usize, 0, 0, 0, 0, 0]) };
}

/// The id of the calling thread, as it was when it was recorded.
fn ask_tid() -> isize {
    let tid = calls::as_one_call(libc::SYS_gettid, &[0; 6], |_| sys::thread_id() as isize);
    if let Some(local) = Local::current() {
        hosting::TIDS[local.index as usize % THREADS_MAX].store(tid as u32, Relaxed);
    }
    tid
}

/// The guest's: says where a zero is to be written when the thread is gone.
pub fn set_tid_address(address: usize) -> isize {
    let block = Block::current();
    block.clear_tid = address as u64;
    if block.tid == 0 {
        block.tid = ask_tid() as u32;
    }
    block.tid as isize
}

/// The guest's `clone`, `fork` or `vfork`.
pub fn clone(frame: &mut Frame, number: c_long, arguments: &[usize; 6]) -> isize {
    if number != libc::SYS_clone {
        return fork(frame, libc::SIGCHLD as usize, &[0; 6]);
    }
    let flags = arguments[0];
    match flags & (VM | THREAD | VFORK) {
        // The child of a vfork gets memory of its own, as elsewhere.
        0 | VFORK => fork(frame, flags, arguments),
        made if made & (THREAD | VFORK) == VFORK => fork(frame, flags, arguments),
        made if made & (VM | THREAD) == VM | THREAD => create(frame, flags, arguments),
        // A process with the same memory: its calls would be nobody's.
        _ => -libc::ENOSYS as isize,
    }
}

fn fork(frame: &mut Frame, flags: usize, arguments: &[usize; 6]) -> isize {
    let [_, stack, parent_tid, child_tid, tls, _] = *arguments;
    let ours = VM | VFORK | SET_TLS | PARENT_SET_TID | CHILD_SET_TID | CHILD_CLEAR_TID;
    let result = match flags & !ours {
        PLAIN => fork_by_libc(),
        // SAFETY: a fork, which shares nothing.
        others => unsafe { calls::system_call(libc::SYS_clone, &[others, 0, 0, 0, 0, 0]) },
    };
    if result > 0 && flags & PARENT_SET_TID != 0 {
        put(parent_tid, result as u32);
    }
    if result == 0 {
        let block = Block::current();
        // The kernel sends nothing to a child by itself.
        entry::divert_calls(block);
        block.tid = ask_tid() as u32;
        block.clear_tid = 0;
        if flags & CHILD_SET_TID != 0 {
            put(child_tid, block.tid);
        }
        if stack != 0 {
            frame.rsp = stack as u64;
        }
        if flags & SET_TLS != 0 {
            frame.fs = tls as u64;
        }
    }
    result
}

/// The host's libc makes and ends threads for the guest's: it has to know of the fork, or the child would find its locks held by threads that are not there.
fn fork_by_libc() -> isize {
    if let Some(local) = Local::current().filter(|_| policy::are_inputs_answered()) {
        local.wait_for_fork();
    }
    // SAFETY: a fork; its system call is recorded as that of any libc.
    match unsafe { real::fork() } {
        // SAFETY: libc has just said why.
        -1 => unsafe { -*libc::__errno_location() as isize },
        child => child as isize,
    }
}

fn put(place: usize, value: u32) {
    // SAFETY: the guest gave it to the kernel to be written.
    unsafe { (place as *mut u32).write_unaligned(value) };
}

/// musl's libc creates threads while it holds a lock, the word that the kernel is to clear when a thread ends. In which order that was acquired is
/// not recorded, so these threads are created in any order; they have their numbers by who creates them.
fn holds_lock(flags: usize, [_, _, parent_tid, child_tid, ..]: &[usize; 6]) -> bool {
    let is_another = flags & CHILD_CLEAR_TID != 0 && (flags & PARENT_SET_TID == 0 || parent_tid != child_tid);
    // SAFETY: the guest gives it to the kernel as the address of a word.
    is_another && *child_tid != 0 && unsafe { (*child_tid as *const u32).read_unaligned() } != 0
}

/// Is the calling thread creating one whose creation has no place in the order of inputs?
pub fn creates_in_any_order() -> bool {
    hosting::is_on() && Block::current().holds_lock
}

fn create(frame: &Frame, flags: usize, arguments: &[usize; 6]) -> isize {
    let [_, stack, parent_tid, child_tid, tls, _] = *arguments;
    let Some(block) = Block::create() else {
        return -libc::EAGAIN as isize;
    };
    block.first = *frame;
    block.first.rax = 0;
    if stack != 0 {
        block.first.rsp = stack as u64;
    }
    if flags & SET_TLS != 0 {
        block.first.fs = tls as u64;
    }
    block.flags = flags & !SIGNAL_OF_END;
    block.tid_places = [parent_tid, child_tid];
    let own = block.stack();
    let mut thread = 0;
    // SAFETY: attributes of ours, with memory that nobody else uses; the new thread has the block for itself but for two words.
    let result = unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstack(&mut attributes, own.start as *mut c_void, own.bytes as usize);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let argument: *mut c_void = (&raw mut *block).cast();
        Block::current().holds_lock = holds_lock(flags, arguments);
        let result = interpose::create_thread(&mut thread, &attributes, run, argument, 0);
        Block::current().holds_lock = false;
        libc::pthread_attr_destroy(&mut attributes);
        result
    };
    if result != 0 {
        block.forget();
        return -result as isize;
    }
    let tid = calls::as_one_call(libc::SYS_set_tid_address, &[0; 6], |_| {
        wait_for(&block.told_tid) as isize
    });
    if flags & PARENT_SET_TID != 0 {
        put(parent_tid, tid as u32);
    }
    // Release: the new thread sees what was written.
    block.may_go.store(1, Release);
    sys::futex_wake_all(&block.may_go);
    tid
}

/// Waits until somebody has written something there.
fn wait_for(word: &AtomicU32) -> u32 {
    loop {
        // Acquire: pairs with the Release of who writes it.
        match word.load(Acquire) {
            0 => sys::futex_wait(word, 0, LOOK_EVERY_NS),
            value => return value,
        }
    }
}

/// The function of every thread that the guest creates.
extern "C-unwind" fn run(block: *mut c_void) -> *mut c_void {
    // SAFETY: `create` gave it to this thread, but for the two words that its creator uses.
    let block = unsafe { &mut *block.cast::<Block>() };
    if !block.is_current() {
        // It is not observed, so nobody has called it yet.
        arrive((&raw mut *block).cast());
    }
    let tid = ask_tid() as u32;
    block.tid = tid;
    block.told_tid.store(tid, Release);
    sys::futex_wake_all(&block.told_tid);
    match Local::current().filter(|local| turns::is_on() && turns::has_turn(local.index)) {
        Some(local) => turns::wait_for_thread(local, &block.may_go, schedule::creator_of(local.index)),
        None => _ = wait_for(&block.may_go),
    }
    if block.flags & CHILD_SET_TID != 0 {
        put(block.tid_places[1], tid);
    }
    if block.flags & CHILD_CLEAR_TID != 0 {
        block.clear_tid = block.tid_places[1] as u64;
    }
    if let Some(local) = Local::current() {
        local.arrive_alone();
    }
    // SAFETY: the registers are those that the guest asked for its new thread to begin with. Our code begins below this function's.
    unsafe { entry::start(&block.first, 0) };
    if Local::current().is_none() {
        over();
    }
    core::ptr::null_mut()
}

/// The guest ends the calling thread.
pub fn exit(status: usize) -> isize {
    let block = Block::current();
    if block.first.rip != 0 {
        // SAFETY: nothing of what is on our stack is needed.
        unsafe { entry::leave() };
    }
    // The process's first thread has no function of ours to return to.
    clear_tid(block);
    // SAFETY: ends the thread.
    unsafe { calls::system_call(libc::SYS_exit, &[status, 0, 0, 0, 0, 0]) }
}

/// The calling thread has had its last event: others may know that it is over.
pub fn over() {
    let block = Block::current();
    clear_tid(block);
    block.give_back();
}

/// As the kernel does when a thread ends.
fn clear_tid(block: &mut Block) {
    let address = core::mem::take(&mut block.clear_tid);
    if address == 0 || !address.is_multiple_of(4) {
        return;
    }
    // SAFETY: the guest has said that there is a word.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    word.store(0, Release);
    // In a replay, who waits for it sees that it has changed.
    if !turns::is_on() {
        // SAFETY: wakes at most one thread that waits for the word.
        unsafe {
            sys::syscall(
                libc::SYS_futex,
                [address as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0],
            )
        };
    }
}
