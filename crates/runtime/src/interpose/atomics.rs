//! Atomics that are functions of a library: those of libapr, by which the threads of Apache's servers count each other.
//!
//! We do them ourselves, so only those are of interest whose order the inputs have (`--sync-order`): an access and its time
//! are then one step to all others. Elsewhere they are what libapr has: one instruction, and a switch point in a replay
//! of several threads.
use crate::access::cell;
use crate::interpose::in_order;
use crate::local::Local;
use crate::policy;
use crate::this_machine::ThisMachine;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use run_model::Op;
use runtime_abi::turns_file::what;

/// Locks for the addresses of atomics, each for many of them.
const LOCKS: usize = 64;
/// 0, or the lock of a cell (`alone`): held during one atomic access.
static HELD: [AtomicU64; LOCKS] = [const { AtomicU64::new(0) }; LOCKS];
/// Neighbours have the same cache line anyway.
const LINE_SHIFT: u32 = 6;

/// One atomic access, in its place.
#[inline]
fn in_place<R>(address: u64, access: impl Fn() -> R) -> R {
    let Some(local) = in_order::placed() else {
        turns::at_switch_point_of(address, what::ACQUIRE, 0);
        return access();
    };
    match policy::is_imposed() {
        true => replay_in_place(local, access),
        false => record_in_place(local, address, access),
    }
}

#[inline]
fn record_in_place<R>(local: &Local, address: u64, access: impl Fn() -> R) -> R {
    alone(address, || {
        let result = access();
        local.place_sync(Op::Atomic, 0);
        result
    })
}

fn replay_in_place<R>(local: &Local, access: impl Fn() -> R) -> R {
    local.sync_in_place(Op::Atomic);
    let result = access();
    turns::wait_for_return(local);
    result
}

/// One that may fail: `access` returns what it found, as an error if that is not what was expected. What is expected was read by
/// an access that has no place, so a replay may have read something else; whether it failed is recorded. `failed` is what a replay
/// finds then, which is not what is expected either.
#[inline]
fn exchange_in_place<R>(address: u64, access: impl Fn() -> Result<R, R>, failed: impl Fn() -> R) -> R {
    let Some(local) = in_order::placed() else {
        turns::at_switch_point_of(address, what::ACQUIRE, 0);
        return either(access());
    };
    match policy::is_imposed() {
        true => replay_exchange(local, access, failed),
        false => record_exchange(local, address, access),
    }
}

#[inline]
fn record_exchange<R>(local: &Local, address: u64, access: impl Fn() -> Result<R, R>) -> R {
    alone(address, || {
        let result = access();
        local.place_sync(Op::CompareExchange, result.is_err().into());
        either(result)
    })
}

fn replay_exchange<R>(local: &Local, access: impl Fn() -> Result<R, R>, failed: impl Fn() -> R) -> R {
    let has_failed = local.sync_in_place(Op::CompareExchange) != 0;
    let result = if has_failed { failed() } else { either(access()) };
    turns::wait_for_return(local);
    result
}

/// What was found, whether it was expected or not.
fn either<R>(result: Result<R, R>) -> R {
    match result {
        Ok(found) | Err(found) => found,
    }
}

/// Nobody else accesses an atomic at this address meanwhile.
fn alone<R>(address: u64, action: impl FnOnce() -> R) -> R {
    // If there is no such memory, the program finds out before the lock is held.
    // SAFETY: the program is about to access it.
    unsafe { (address as *const u8).read_volatile() };
    let lock = &HELD[(address >> LINE_SHIFT) as usize % LOCKS];
    let free = cell::lock(ThisMachine, lock);
    let result = action();
    cell::unlock_unused::<ThisMachine>(lock, free);
    result
}

/// Declares functions of libapr: `name(arguments) -> result: type of the atomic, what is done with it`.
macro_rules! atomics {
    ($($name:ident($($argument:ident: $argument_type:ty),*) -> $result:ty: $atomic:ty, |$cell:ident| $access:expr;)*) => {$(
        /// # Safety
        /// As for libapr's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(place: *mut c_void $(, $argument: $argument_type)*) -> $result {
            // SAFETY: the caller promises what libapr's function of that name demands: an aligned word, which is only used atomically.
            let $cell = unsafe { &*place.cast::<$atomic>() };
            in_place(place as u64, || $access)
        }
    )*};
}

/// The same for those that compare and exchange: `name: type of the word, type of the atomic, something else than this`.
macro_rules! exchanges {
    ($($name:ident: $word:ty, $atomic:ty, |$expected:ident| $other:expr;)*) => {$(
        /// # Safety
        /// As for libapr's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(place: *mut c_void, new: $word, $expected: $word) -> $word {
            // SAFETY: the caller promises what libapr's function of that name demands: an aligned word, which is only used atomically.
            let cell = unsafe { &*place.cast::<$atomic>() };
            let failed = || match cell.load(SeqCst) {
                found if found != $expected => found,
                _ => $other,
            };
            exchange_in_place(place as u64, || cell.compare_exchange($expected, new, SeqCst, SeqCst), failed)
        }
    )*};
}

atomics! {
    apr_atomic_read32() -> u32: AtomicU32, |cell| cell.load(SeqCst);
    apr_atomic_set32(value: u32) -> (): AtomicU32, |cell| cell.store(value, SeqCst);
    apr_atomic_add32(value: u32) -> u32: AtomicU32, |cell| cell.fetch_add(value, SeqCst);
    apr_atomic_sub32(value: u32) -> (): AtomicU32, |cell| _ = cell.fetch_sub(value, SeqCst);
    apr_atomic_inc32() -> u32: AtomicU32, |cell| cell.fetch_add(1, SeqCst);
    apr_atomic_dec32() -> c_int: AtomicU32, |cell| c_int::from(cell.fetch_sub(1, SeqCst) != 1);
    apr_atomic_xchg32(value: u32) -> u32: AtomicU32, |cell| cell.swap(value, SeqCst);
    apr_atomic_read64() -> u64: AtomicU64, |cell| cell.load(SeqCst);
    apr_atomic_set64(value: u64) -> (): AtomicU64, |cell| cell.store(value, SeqCst);
    apr_atomic_add64(value: u64) -> u64: AtomicU64, |cell| cell.fetch_add(value, SeqCst);
    apr_atomic_sub64(value: u64) -> (): AtomicU64, |cell| _ = cell.fetch_sub(value, SeqCst);
    apr_atomic_inc64() -> u64: AtomicU64, |cell| cell.fetch_add(1, SeqCst);
    apr_atomic_dec64() -> c_int: AtomicU64, |cell| c_int::from(cell.fetch_sub(1, SeqCst) != 1);
    apr_atomic_xchg64(value: u64) -> u64: AtomicU64, |cell| cell.swap(value, SeqCst);
    apr_atomic_xchgptr(value: *mut c_void) -> *mut c_void: AtomicPtr<c_void>, |cell| cell.swap(value, SeqCst);
}

exchanges! {
    apr_atomic_cas32: u32, AtomicU32, |expected| !expected;
    apr_atomic_cas64: u64, AtomicU64, |expected| !expected;
    apr_atomic_casptr: *mut c_void, AtomicPtr<c_void>, |expected| expected.wrapping_byte_add(1);
}
