//! How a process is taken over: once, by whoever calls us first (an allocation, usually, before any constructor).
use crate::callers;
use crate::control;
use crate::counting;
use crate::ending;
use crate::failure;
use crate::handlers;
use crate::heap;
use crate::local::Local;
use crate::parts;
use crate::policy;
use crate::preload;
use crate::processes;
use crate::real;
use crate::replay;
use crate::run_directory;
use crate::sites;
use crate::steered;
use crate::sys;
use crate::turns;
use crate::vectors;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::memory_map;
use runtime_abi::memory_map::Region;

/// How far it has come. `DONE` is written when all is ready, with Release; whoever sees it, with Acquire, sees that.
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
    if control::is_offered() && processes::join() {
        let settings = policy::choose(control::header());
        control::attach(&settings);
    }
    if !policy::is_free() {
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
    /// Set by the first one to come here.
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    ensure();
    if policy::is_free() || IS_DONE.swap(true, Relaxed) {
        return;
    }
    if !policy::are_inputs_answered() {
        control::header().identity.pid.store(sys::process_id(), Relaxed);
    }
    preload::hide();
    preload::remember();
    if !control::inputs_only() {
        load_unwinder();
    }
    handlers::begin();
    crate::calls::install();
    ending::watch();
    processes::watch();
    if !control::inputs_only() {
        callers::find();
        crate::interpose::prepare_openmp();
    }
    crate::interpose::prepare_threads();
    crate::interpose::prepare_direct_calls();
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
        if policy::is_observed() && !sys::register_barrier() {
            failure::die(
                b"this kernel has no membarrier(PRIVATE_EXPEDITED), which recording needs",
                libc::ENOSYS,
            );
        }
        reserve_shadow();
        heap::reserve();
    }
    if policy::is_imposed() {
        replay::open_schedule();
        steered::open();
        counting::open();
        crate::calls::open_changes();
    }
    if policy::is_observed() {
        match control::header().settings.read() {
            Ok(settings) => vectors::open(&settings),
            Err(unknown) => failure::die(unknown.why.as_bytes(), 0),
        }
    }
    let index = control::new_thread();
    assert!(index == 0, "the control file has been used before");
    let Some(local) = Local::prepare(index) else {
        failure::die(b"cannot map memory for the main thread", libc::ENOMEM)
    };
    if policy::is_observed() {
        local.access.log.create();
        // Which libraries the program has: the tool hashes them.
        run_directory::copy_in(b"/proc/self/maps\0", b"maps");
    }
    Local::install(local);
    turns::begin(index);
    local.begin_steered();
    control::observe(policy::may_be_quick());
}

/// Reserves the shadow of all regions. Nothing of it uses memory until it is touched.
fn reserve_shadow() {
    let reserve = |region: &Region| {
        if let Err(errno) = sys::map_at(region.start, region.bytes as usize, -1, 0, false) {
            failure::die(
                b"cannot reserve address space for shadow memory (see vm.overcommit_memory, ulimit -v)",
                errno,
            );
        }
    };
    reserve(&memory_map::HIDING_PAGES);
    memory_map::PROGRAM
        .iter()
        .for_each(|program| reserve(&program.chunk_words()));
    memory_map::CELLS.iter().chain(&memory_map::GHOSTS).for_each(reserve);
    reserve(&memory_map::FREE_BLOCKS);
}

/// Called by each instrumented object's constructor.
///
/// # Safety
/// `start..stop` is the object's site section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_register(start: *const u8, stop: *const u8, abi_version: u32) {
    ensure();
    if policy::is_free() {
        return;
    }
    if abi_version != runtime_abi::ABI_VERSION {
        failure::die(
            b"an object of this program was built by another version of refrain; rebuild it",
            0,
        );
    }
    sites::register(start, stop);
}

/// Called by each object that has words of functions, by its constructor and its destructor.
///
/// # Safety
/// `start..stop` is the object's section of words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_register_parts(start: *const u8, stop: *const u8) {
    ensure();
    if parts::register(start, stop).is_err() {
        failure::die(
            b"the program has loaded more than 256 objects that were built with --coop",
            0,
        );
    }
}

/// # Safety
/// As for `__refrain_register_parts`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_forget_parts(start: *const u8, _: *const u8) {
    parts::forget(start);
}
