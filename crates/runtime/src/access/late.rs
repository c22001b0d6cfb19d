//! Stores that wait in a buffer, as they do in an x86 processor, while the thread that made them goes on to load.
//!
//! Atomics are executed one after the other, each under the lock bit of its cell; a load could never come before a
//! store that precedes it in the program. On the processor it does, and programs with the wrong memory order fail by it. So
//! the pass marks the stores that may wait (`crates/instrumentor/pass/late_stores.h`), and here they do: from
//! `__refrain_late_store` to the end of the first atomic load, or to `__refrain_late_finish`, which stands before everything that
//! has to come after them: locked instructions, fences, other stores, calls, returns. So nothing that could use the
//! memory for something else, or end the thread, happens meanwhile; and the thread itself never reads what it has stored
//! before it is done. What others see is an order of whole events, like any other: the load's is before the store's.
//!
//! Whether a store waits depends on the run's seed, the thread and the number of its event, so a replay decides the same.
use crate::access::atomics::__refrain_atomic_load1;
use crate::access::atomics::__refrain_atomic_load2;
use crate::access::atomics::__refrain_atomic_load4;
use crate::access::atomics::__refrain_atomic_load8;
use crate::access::atomics::__refrain_atomic_store1;
use crate::access::atomics::__refrain_atomic_store2;
use crate::access::atomics::__refrain_atomic_store4;
use crate::access::atomics::__refrain_atomic_store8;
use crate::access::atomics::__refrain_sole_load1;
use crate::access::atomics::__refrain_sole_load2;
use crate::access::atomics::__refrain_sole_load4;
use crate::access::atomics::__refrain_sole_load8;
use crate::access::atomics::__refrain_sole_store1;
use crate::access::atomics::__refrain_sole_store2;
use crate::access::atomics::__refrain_sole_store4;
use crate::access::atomics::__refrain_sole_store8;
use crate::access::atomics::observed;
use crate::control;
use crate::local::Local;
use crate::local::late_stores::SOLE;
use crate::local::late_stores::Store;
use crate::local::late_stores::WAITING_MAX;
use crate::local::late_stores::bytes_of;
use crate::policy;

/// # Safety
/// It is the program's, at a place that is valid for it.
unsafe fn make(store: &Store) {
    let Store { place, value, site, .. } = *store;
    let at = place as usize;
    // SAFETY: the caller promises that it is the program's, at a place that is valid for it.
    unsafe {
        match (bytes_of(store.extent), store.extent & SOLE != 0) {
            (1, false) => __refrain_atomic_store1(at as *const _, value as u8, site),
            (2, false) => __refrain_atomic_store2(at as *const _, value as u16, site),
            (4, false) => __refrain_atomic_store4(at as *const _, value as u32, site),
            (_, false) => __refrain_atomic_store8(at as *const _, value, site),
            (1, true) => __refrain_sole_store1(at as *const _, value as u8, site),
            (2, true) => __refrain_sole_store2(at as *const _, value as u16, site),
            (4, true) => __refrain_sole_store4(at as *const _, value as u32, site),
            (_, true) => __refrain_sole_store8(at as *const _, value, site),
        }
    }
}

impl Local {
    /// Without chaos as in a processor, where the load is nearly always first.
    fn is_late(&self) -> bool {
        let seed = control::header().settings.chaos_seed.number();
        let mixed = (seed ^ (self.index as u64) << 48 ^ self.event()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        seed == 0 || mixed >> 62 != 0
    }

    #[cold]
    fn finish_late(&self) {
        for i in 0..self.late.count.get() {
            let store = self.late.waiting[i].get();
            // SAFETY: the program made it a moment ago, and has done nothing since that could end the place's life.
            unsafe { make(&store) };
        }
        self.late.count.set(0);
    }
}

/// An atomic store that may be seen later than the load which follows it.
///
/// # Safety
/// `place` is valid and aligned for an atomic store of `extent` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_late_store(place: u64, value: u64, extent: u32, site: *const u8) {
    let store = Store {
        place,
        value,
        extent,
        site,
    };
    if let Some(local) = observed() {
        if local.late.count.get() == WAITING_MAX {
            local.finish_late();
        }
        if local.late.any() || local.is_late() {
            let count = local.late.count.get();
            local.late.waiting[count].set(store);
            local.late.count.set(count + 1);
            return;
        }
    }
    // SAFETY: the caller promises that `place` is valid and aligned for an atomic store of `extent` bytes.
    unsafe { make(&store) }
}

/// An atomic load, and then the stores that have waited; or, if it is of what one of them stores, the other way round.
///
/// # Safety
/// `place` is valid and aligned for an atomic load of `extent` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_late_load(place: u64, extent: u32, site: *const u8) -> u64 {
    // SAFETY: it demands nothing of its arguments.
    unsafe { __refrain_late_read(place, bytes_of(extent)) };
    let at = place as usize;
    // SAFETY: the caller promises that `place` is valid and aligned for an atomic load of `extent` bytes.
    let value = unsafe {
        match (bytes_of(extent), extent & SOLE != 0) {
            (1, false) => __refrain_atomic_load1(at as *const _, site) as u64,
            (2, false) => __refrain_atomic_load2(at as *const _, site) as u64,
            (4, false) => __refrain_atomic_load4(at as *const _, site) as u64,
            (_, false) => __refrain_atomic_load8(at as *const _, site),
            (1, true) => __refrain_sole_load1(at as *const _, site) as u64,
            (2, true) => __refrain_sole_load2(at as *const _, site) as u64,
            (4, true) => __refrain_sole_load4(at as *const _, site) as u64,
            (_, true) => __refrain_sole_load8(at as *const _, site),
        }
    };
    if let Some(local) = observed().filter(|local| local.late.any()) {
        if policy::is_observed() {
            local.chaos.at_sync();
        }
        local.finish_late();
    }
    value
}

/// Before a plain load of `bytes` at `place`.
///
/// # Safety
/// None of the caller's; as the other functions, only compiled code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_late_read(place: u64, bytes: u64) {
    let Some(local) = observed().filter(|local| local.late.any()) else {
        return;
    };
    if local.late.waiting[..local.late.count.get()]
        .iter()
        .any(|store| store.get().overlaps(place, bytes))
    {
        local.finish_late();
    }
}

/// What follows has to come after all stores.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_late_finish() {
    if let Some(local) = observed().filter(|local| local.late.any()) {
        local.finish_late();
    }
}
