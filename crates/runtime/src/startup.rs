//! How a process is taken over: once, by whoever calls us first (an allocation, usually, before any constructor).
use crate::control;
use crate::control::Mode;
use crate::ending;
use crate::heap;
use crate::local::Local;
use crate::preload;
use crate::processes;
use crate::real;
use crate::replay;
use crate::sys;
use crate::turns;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::CELL_XOR;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::CHUNK_SHADOW;
use runtime_abi::GHOST_XOR;
use runtime_abi::HIDING_PAGES;
use runtime_abi::HIDING_PAGES_BYTES;
use runtime_abi::REGIONS;

static STATE: AtomicU32 = AtomicU32::new(NEW);
const NEW: u32 = 0;
const UNDER_WAY: u32 = 1;
const DONE: u32 = 2;

/// Takes the process over, if that has not happened yet. There is one thread only the first time.
#[inline]
pub fn ensure() {
    if STATE.load(Acquire) != DONE {
        start();
    }
}

pub fn is_done() -> bool {
    STATE.load(Acquire) == DONE
}

#[cold]
fn start() {
    if STATE.compare_exchange(NEW, UNDER_WAY, Relaxed, Relaxed).is_err() {
        return;
    }
    if control::attach() != Mode::Off {
        take_over();
    }
    STATE.store(DONE, Release);
    // Found now: later, `dlsym` may want to free the text of an error, by the function that is looked for.
    // SAFETY: nothing is freed.
    unsafe { real::free(core::ptr::null_mut()) };
}

/// Runs before the program's constructors, in case nothing has called us by then.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn begin() {
        construct();
    }
    begin
};

/// The rest of it, when the loader is done. Once.
pub fn construct() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    ensure();
    if control::mode() == Mode::Off || IS_DONE.swap(true, Relaxed) {
        return;
    }
    if control::mode() == Mode::Record {
        control::header().pid.store(sys::process_id(), Relaxed);
    }
    preload::hide();
    preload::remember();
    if !control::inputs_only() {
        load_unwinder();
    }
    crate::calls::install();
    ending::watch();
    if !control::inputs_only() {
        crate::interpose::find_foreign_callers();
        crate::interpose::prepare_openmp();
    }
    crate::interpose::prepare_threads();
    turns::watch_time();
    if control::inputs_only() {
        fix_arenas();
    }
}

/// libc loads its unwinder when it is first needed, by whichever thread ends or cancels first, and allocates in that
/// thread's heap. In replay that could be another thread than in the recording; so, now.
fn load_unwinder() {
    unsafe extern "C" {
        fn backtrace(frames: *mut *mut libc::c_void, room: libc::c_int) -> libc::c_int;
    }
    let mut frame = core::ptr::null_mut();
    // SAFETY: room for one frame.
    unsafe { backtrace(&mut frame, 1) };
}

/// libc asks how many processors there are when it first needs more than eight arenas for its heaps, in whichever thread that
/// is: which one may be another in replay, at scope `inputs`. So it is asked here, and libc is told the answer.
fn fix_arenas() {
    const ARENAS_MAX: libc::c_int = -8;
    const ARENAS_EACH: u64 = 8;
    unsafe extern "C" {
        fn mallopt(parameter: libc::c_int, value: libc::c_int) -> libc::c_int;
    }
    // The user's wish, which libc knows already.
    // SAFETY: names are strings; the environment is as the kernel made it.
    let is_set = [c"MALLOC_ARENA_MAX", c"MALLOC_ARENA_TEST", c"GLIBC_TUNABLES"]
        .iter()
        .any(|name| unsafe { !libc::getenv(name.as_ptr()).is_null() });
    let mut processors = sys::processors();
    // SAFETY: a number of ours.
    unsafe { crate::calls::note_instruction((&raw mut processors).cast(), size_of::<u64>() as u64) };
    if !is_set {
        // SAFETY: sets a number of libc's.
        unsafe { mallopt(ARENAS_MAX, (processors * ARENAS_EACH) as libc::c_int) };
    }
}

fn take_over() {
    if !control::inputs_only() {
        if control::mode() == Mode::Record && !sys::register_barrier() {
            ending::die(
                b"this kernel has no membarrier(PRIVATE_EXPEDITED), which recording needs",
                libc::ENOSYS,
            );
        }
        reserve_shadow();
        heap::reserve();
    }
    if control::mode() == Mode::Replay {
        replay::open_schedule();
    }
    let index = control::new_thread();
    assert!(index == 0, "the control file has been used before");
    let Some(local) = Local::prepare(index) else {
        ending::die(b"cannot map memory for the main thread", libc::ENOMEM)
    };
    if control::mode() == Mode::Record {
        local.log.create();
        // Which libraries the program has: the tool hashes them.
        processes::copy_to_run(b"/proc/self/maps\0", b"maps");
    }
    Local::install(local);
    turns::begin(index);
    control::observe();
}

/// Reserves the shadow of all regions. Nothing of it uses memory until it is touched.
fn reserve_shadow() {
    let reserve = |address: u64, bytes: u64| {
        if let Err(errno) = sys::map_at(address, bytes as usize, -1, 0, false) {
            ending::die(
                b"cannot reserve address space for shadow memory (see vm.overcommit_memory, ulimit -v)",
                errno,
            );
        }
    };
    reserve(HIDING_PAGES, HIDING_PAGES_BYTES);
    for (start, bytes) in REGIONS {
        reserve(CHUNK_SHADOW + start / CHUNK_BYTES * 8, bytes / CHUNK_BYTES * 8);
        // The XOR has bits below the region's size: whole pages are permuted inside, nothing leaves the region.
        let high = !0xfffu64;
        reserve(start ^ (CELL_XOR & high), bytes);
        reserve(start ^ (GHOST_XOR & high), bytes);
    }
}
