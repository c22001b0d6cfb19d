//! malloc and its kin, as the program and its libraries call them.
use crate::blocks;
use crate::blocks::class;
use crate::control;
use crate::ghost::Turn;
use crate::heap;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::schedule;
use crate::startup;
use crate::sys::Backoff;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use runtime_abi::schedule_file::GateEntry;
use runtime_abi::schedule_file::WaitEntry;
use runtime_abi::trace_file::what;

/// Whose heap the program uses: known once the process has been taken over.
static WHOSE: AtomicU8 = AtomicU8::new(NOT_KNOWN);
const NOT_KNOWN: u8 = 0;
const OURS: u8 = 1;
const ITS_OWN: u8 = 2;

/// The calling thread's heap is ours; otherwise the program's own allocator serves.
#[inline]
fn ours() -> Option<&'static Local> {
    // Relaxed: a lone decision, made before there is a second thread.
    match WHOSE.load(Relaxed) {
        ITS_OWN => None,
        // The child of a fork has no `Local`.
        OURS => Local::current(),
        _ => decide(),
    }
}

#[cold]
fn decide() -> Option<&'static Local> {
    startup::ensure();
    if !startup::is_done() {
        return None;
    }
    let its_own = policy::is_free() || control::inputs_only();
    WHOSE.store(if its_own { ITS_OWN } else { OURS }, Relaxed);
    if its_own { None } else { Local::current() }
}

fn allocate(local: &Local, bytes: u64) -> u64 {
    let block = local.allocate(bytes);
    if block != 0 {
        local.trace_block(what::ALLOCATE, block, bytes);
        local.give_element(block, bytes);
    }
    block
}

fn out_of_memory() -> *mut c_void {
    // SAFETY: errno is the calling thread's.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    core::ptr::null_mut()
}

fn pointer(block: u64) -> *mut c_void {
    if block == 0 {
        out_of_memory()
    } else {
        block as *mut c_void
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    match ours() {
        Some(local) => pointer(allocate(local, bytes as u64)),
        // SAFETY: libc's own contract.
        None => unsafe { real::malloc(bytes) },
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    let Some(local) = ours() else {
        // SAFETY: libc's own contract.
        return unsafe { real::calloc(count, bytes) };
    };
    let Some(total) = count.checked_mul(bytes) else {
        return out_of_memory();
    };
    let block = pointer(allocate(local, total as u64));
    if !block.is_null() {
        // SAFETY: a new block of at least `total` bytes. A recorded write: somebody may still use its former life.
        unsafe {
            match control::observes_memory() && !local.inside_event.get() {
                true => local.fill(block.cast(), 0, total),
                false => core::ptr::write_bytes(block.cast::<u8>(), 0, total),
            }
        }
    }
    block
}

/// # Safety
/// As for libc's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    if !blocks::is_ours(block as u64) {
        // SAFETY: not of our arena, so libc's (a program that is not recorded) or from before we were there.
        return unsafe { real::free(block) };
    }
    // A thread nobody observes any more (it ended, or the process is a fork's child) leaks: its lists are gone.
    if let Some(local) = Local::current()
        && !local.heap.frees_nothing.get()
    {
        let block = blocks::whole_block(block as u64);
        let bytes = class::bytes(blocks::class_of(block));
        if local.frees_twice_again(block) || blocks::mark_freed(block) {
            local.free_twice(block);
        }
        local.trace_block(what::FREE, block, bytes);
        local.release(block);
    }
}

/// Who freed a block that is freed twice: values of such a record.
const AFTER_ITSELF: i64 = 1;
const AFTER_ANOTHER: i64 = 2;

impl Local {
    /// Replay: was the block freed by another thread before, in the recording?
    fn frees_twice_again(&self, block: u64) -> bool {
        let is_that = |gate: &GateEntry| {
            let is_kind = gate.kind == Kind::Sync as u8 && gate.op == Op::FreeTwice as u8;
            is_kind && gate.object == block && gate.value == AFTER_ANOTHER
        };
        policy::is_imposed() && self.replay.cursor.peek(self.event()).is_some_and(is_that)
    }

    /// Somebody has freed the block already, or is about to; this is an event after that.
    #[cold]
    fn free_twice(&self, block: u64) -> ! {
        if control::observes_sync() && !self.inside_event.get() {
            let awaited = self.awaited_next();
            match self.begin(Op::FreeTwice, block) {
                Turn::Record => self.record_second_free(block),
                Turn::Replay(_) => replay_second_free(block, awaited),
            }
            self.complete();
        }
        blocks::end_by(b"free(): double free detected\n")
    }

    fn record_second_free(&self, block: u64) {
        let first = blocks::freed_by(block);
        let other = Some(first).filter(|first| first.thread.0 != self.index && first.count != 0);
        let after = if first.thread.0 == self.index {
            AFTER_ITSELF
        } else {
            AFTER_ANOTHER
        };
        self.record_sync(Op::FreeTwice, block, after, other.as_slice());
    }

    /// Replay: what the next event has to come after, if that is not known by then.
    fn awaited_next(&self) -> Option<WaitEntry> {
        let gate = self.replay.cursor.peek(self.event()).filter(|_| policy::is_imposed())?;
        let last = (gate.first_wait + u64::from(gate.waits))
            .checked_sub(1)
            .filter(|_| gate.waits > 0)?;
        schedule::waits().get(last as usize).copied()
    }
}

/// Whoever freed it had completed what we have waited for, and does so before its next event. It may be ahead of us by now, and may have been given
/// the block anew: that is not ordered with us, who come to an end.
fn replay_second_free(block: u64, awaited: Option<WaitEntry>) {
    let was_freed = |awaited: WaitEntry| {
        let first = blocks::freed_by(block);
        // Acquire: pairs with the Release in `complete_many`.
        control::slot(awaited.thread).count.load(Acquire) > awaited.count
            || (first.thread.0, first.count) == (awaited.thread, awaited.count)
    };
    let mut backoff = Backoff::default();
    while !blocks::is_freed(block) && !awaited.is_none_or(was_freed) && !control::has_diverged() {
        backoff.wait();
    }
}

/// # Safety
/// As for libc's realloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(bytes);
    }
    if !blocks::is_ours(block as u64) {
        // SAFETY: not of our arena, so libc's (a program that is not recorded) or from before we were there.
        return unsafe { real::realloc(block, bytes) };
    }
    if bytes == 0 {
        // SAFETY: the caller promises what libc's realloc demands: the block is allocated, and not used again.
        unsafe { free(block) };
        return core::ptr::null_mut();
    }
    let old = usable(block as u64);
    if bytes as u64 <= old && bytes as u64 >= old / 2 {
        return block;
    }
    let new = malloc(bytes);
    if !new.is_null() {
        let bytes = bytes.min(old as usize);
        // SAFETY: both blocks have at least that many bytes, and the new one is nobody else's. Recorded, as in `calloc`.
        unsafe {
            match Local::current() {
                Some(local) if control::observes_memory() && !local.inside_event.get() => {
                    local.copy(new.cast(), block.cast(), bytes)
                }
                _ => core::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), bytes),
            }
            free(block);
        }
    }
    new
}

fn usable(address: u64) -> u64 {
    let block = blocks::whole_block(address);
    class::bytes(blocks::class_of(block)) - (address - block)
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    match block as u64 {
        0 => 0,
        address if blocks::is_ours(address) => usable(address) as usize,
        // SAFETY: not of our arena, so libc's (a program that is not recorded) or from before we were there.
        _ => unsafe { real::malloc_usable_size(block) },
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    let Some(local) = ours() else {
        // SAFETY: libc's own contract.
        return unsafe { real::memalign(alignment, bytes) };
    };
    let alignment = alignment.next_power_of_two().max(16) as u64;
    if alignment == 16 {
        return pointer(allocate(local, bytes as u64));
    }
    let Some(total) = (bytes as u64).checked_add(alignment + class::HEADER) else {
        return out_of_memory();
    };
    let block = allocate(local, total);
    if block == 0 {
        return out_of_memory();
    }
    let inner = block.next_multiple_of(alignment);
    if inner != block {
        // 16-aligned and different, so there is room for the note before it.
        blocks::mark_aligned(block, inner);
    }
    pointer(inner)
}

#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    memalign(alignment, bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    memalign(4096, bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    memalign(4096, bytes.next_multiple_of(4096))
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let block = memalign(alignment, bytes);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller promises what posix_memalign demands: there is room for a pointer at `place`.
    unsafe { *place = block };
    0
}

/// Mappings whose place the program, or the kernel for its own reasons, decides.
const PLACED: c_int =
    libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_32BIT | libc::MAP_HUGETLB | libc::MAP_GROWSDOWN;

/// Other mappings get addresses that do not depend on what other threads map.
///
/// # Safety
/// As for libc's mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let placed = match ours() {
        Some(local) if flags & PLACED == 0 => heap::place_mapping(local, bytes as u64),
        _ => None,
    };
    // SAFETY: the caller promises what libc's mmap demands; a fixed place is one that `place_mapping` gave to nobody else.
    unsafe {
        match placed {
            Some(place) => real::mmap(
                place as *mut c_void,
                bytes,
                protection,
                flags | libc::MAP_FIXED,
                file,
                offset,
            ),
            None => real::mmap(address, bytes, protection, flags, file, offset),
        }
    }
}

/// # Safety
/// As for libc's mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the same function on this architecture.
    unsafe { mmap(address, bytes, protection, flags, file, offset) }
}
