//! OpenMP, as compiled code calls its runtime (libomp).
//!
//! What threads do to each other inside libomp passes through (`callers`); barriers really wait. Recorded is what
//! decides the program's own behaviour: who enters a critical section, combines a reduction, gets a chunk of a loop or a
//! `single` block next. Tasks: `tasks.rs`.
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::interpose::Holding;
use crate::interpose::acquire;
use crate::interpose::tasks;
use crate::policy;
use crate::real::Real;
use core::ffi::c_int;
use core::ffi::c_void;
use run_model::Op;

/// Reductions by critical section: of libomp's three ways it is the one whose order can be given back.
pub fn prepare() {
    if !policy::is_free() {
        // SAFETY: in a constructor, before there is a second thread.
        unsafe { libc::setenv(c"KMP_FORCE_REDUCTION".as_ptr(), c"critical".as_ptr(), 1) };
    }
}

/// Declares `NAME(arguments) -> result`: `how` is given the object to order by and the real call.
macro_rules! openmp_functions {
    ($($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)? = $how:ident($object:expr);)*) => {$(
        /// # Safety
        /// As for libomp's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            static REAL: Real = Real::new(NAME);
            // SAFETY: libomp's function has this signature; the program's own call.
            let real = || unsafe {
                let function: unsafe extern "C-unwind" fn($($type),*) $(-> $result)? = core::mem::transmute(REAL.address());
                function($($argument),*)
            };
            $how($object as u64, real)
        }
    )*};
}

/// The operation really waits for its turn inside: a lock.
fn enter(object: u64, real: impl Fn()) {
    let lock = || {
        real();
        0
    };
    acquire(Op::OpenMp, object, Holding::Shared, lock, lock);
}

/// Some of these also wait at a barrier, so in replay the event is over before: who comes next waits for the real lock.
fn leave(object: u64, real: impl FnOnce()) {
    if let Some(local) = observed() {
        match local.begin(Op::OpenMp, object) {
            Turn::Record => local.touch(Op::OpenMp, object, 0),
            Turn::Replay(_) => local.complete(),
        }
    }
    real();
}

/// The operation takes what is next: its order decides its result.
fn next<R>(object: u64, real: impl FnOnce() -> R) -> R {
    match observed() {
        Some(local) => local.exclusively(Op::OpenMp, object, |_| real()),
        None => real(),
    }
}

/// A reduction begins: libomp locks until it ends, because `prepare` told it so.
fn enter_reduction(object: u64, real: impl Fn() -> c_int) -> c_int {
    let mut result = 0;
    let place = &raw mut result;
    let lock = || {
        // SAFETY: `result` outlives the call; nobody else looks at it.
        unsafe { *place = real() };
        0
    };
    acquire(Op::OpenMp, object, Holding::Shared, lock, lock);
    result
}

type Ident = *const c_void;
type ReduceFunction = *const c_void;

openmp_functions! {
    __kmpc_critical(ident: Ident, thread: c_int, name: *mut c_void) = enter(name);
    __kmpc_critical_with_hint(ident: Ident, thread: c_int, name: *mut c_void, hint: u64) = enter(name);
    __kmpc_end_critical(ident: Ident, thread: c_int, name: *mut c_void) = leave(name);
    __kmpc_reduce(ident: Ident, thread: c_int, count: c_int, bytes: usize, data: *mut c_void, function: ReduceFunction, name: *mut c_void) -> c_int = enter_reduction(name);
    __kmpc_reduce_nowait(ident: Ident, thread: c_int, count: c_int, bytes: usize, data: *mut c_void, function: ReduceFunction, name: *mut c_void) -> c_int = enter_reduction(name);
    __kmpc_end_reduce_nowait(ident: Ident, thread: c_int, name: *mut c_void) = leave(name);
    __kmpc_single(ident: Ident, thread: c_int) -> c_int = next(&raw const SHARED);
    __kmpc_dispatch_init_4(ident: Ident, thread: c_int, schedule: c_int, low: i32, high: i32, step: i32, chunk: i32) = next(&raw const SHARED);
    __kmpc_dispatch_init_4u(ident: Ident, thread: c_int, schedule: c_int, low: u32, high: u32, step: i32, chunk: i32) = next(&raw const SHARED);
    __kmpc_dispatch_init_8(ident: Ident, thread: c_int, schedule: c_int, low: i64, high: i64, step: i64, chunk: i64) = next(&raw const SHARED);
    __kmpc_dispatch_init_8u(ident: Ident, thread: c_int, schedule: c_int, low: u64, high: u64, step: i64, chunk: i64) = next(&raw const SHARED);
    __kmpc_dispatch_next_4(ident: Ident, thread: c_int, last: *mut i32, low: *mut i32, high: *mut i32, step: *mut i32) -> c_int = next(&raw const SHARED);
    __kmpc_dispatch_next_4u(ident: Ident, thread: c_int, last: *mut i32, low: *mut u32, high: *mut u32, step: *mut i32) -> c_int = next(&raw const SHARED);
    __kmpc_dispatch_next_8(ident: Ident, thread: c_int, last: *mut i32, low: *mut i64, high: *mut i64, step: *mut i64) -> c_int = next(&raw const SHARED);
    __kmpc_dispatch_next_8u(ident: Ident, thread: c_int, last: *mut i32, low: *mut u64, high: *mut u64, step: *mut i64) -> c_int = next(&raw const SHARED);
    omp_set_lock(lock: *mut c_void) = enter(lock);
    omp_unset_lock(lock: *mut c_void) = leave(lock);
    omp_set_nest_lock(lock: *mut c_void) = enter(lock);
    omp_unset_nest_lock(lock: *mut c_void) = leave(lock);
}

/// Behind it there is a barrier.
///
/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_end_reduce(ident: Ident, thread: c_int, name: *mut c_void) {
    static REAL: Real = Real::new(c"__kmpc_end_reduce");
    // SAFETY: libomp's function has this signature; the program's own call.
    leave(name as u64, || unsafe {
        let function: unsafe extern "C-unwind" fn(Ident, c_int, *mut c_void) = core::mem::transmute(REAL.address());
        function(ident, thread, name)
    });
    tasks::wait_at_barrier(thread);
}

/// What all worksharing constructs are ordered by: threads steal chunks from each other, once these are set up.
static SHARED: u64 = 0;
