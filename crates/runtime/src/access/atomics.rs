//! Atomic operations: always on contended cells, at scope `sync` and above. All are executed sequentially consistent; but a store
//! may be executed after the load that follows it (`late.rs`).
use crate::access::Reach;
use crate::access::cell;
use crate::access::cell_word;
use crate::access::plain::at_access;
use crate::access::plain::at_site;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::control;
use crate::local::Local;
use crate::policy;
use crate::sys;
use crate::this_machine::ThisMachine;
use crate::trace_file::Atomic;
use crate::vectors;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::AtomicU16;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;
use run_model::Op;
use runtime_abi::CELL_BYTES;

impl Local {
    /// The word of the only cell of an access before which nothing is due.
    #[inline(always)]
    fn free_cell(&self, address: u64, bytes: u64) -> Option<(u64, &'static AtomicU64)> {
        let cell = address & !(CELL_BYTES - 1);
        // The recorder's own reference to the slot: it needs that line of the cache anyway.
        let slot = self.access.slot;
        if self.access.event() >= slot.gate.load(Relaxed) || address + bytes - cell > CELL_BYTES {
            return None;
        }
        Some((cell, cell_word(cell)))
    }

    /// One atomic operation as one event, if it is as simple as most are: scope `sync`, nothing due before it, and this thread has used the
    /// cell last. `None`: nothing has happened.
    #[inline(always)]
    fn perform_in_own_run<R>(&self, address: u64, bytes: u64, reach: Reach, alone: impl FnOnce() -> R) -> Option<R> {
        let (_, word) = self.free_cell(address, bytes)?;
        // The word and what it guards are in two lines of the cache, which another processor may have: both are fetched at once.
        sys::prefetch(address, reach.writes());
        self.access.perform_in_own_run(word, reach, alone)
    }

    /// The same if another has used it last, or several read it.
    #[inline(always)]
    fn perform_quickly<R>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        site: *const u8,
        alone: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> Option<R> {
        let (cell, word) = self.free_cell(address, bytes)?;
        let Some(locked) = cell::try_lock::<ThisMachine>(word) else {
            return match reach {
                Reach::Reads => self.access.read_shared(word, alone),
                Reach::Writes | Reach::Both => None,
            };
        };
        at_site(self, site);
        Some(
            self.access
                .perform_in_cell(cell, word, locked, reach.flags(bytes), reach, alone, seen),
        )
    }

    /// One atomic operation as one event. `alone` is the same operation for somebody who holds the cell.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the operation, in two ways, and where it is")]
    pub fn perform_atomic<R, A: FnMut() -> R, S: FnOnce(Option<&R>) -> Seen>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        site: *const u8,
        access: A,
        alone: impl FnOnce() -> R,
        seen: S,
    ) -> R {
        // SAFETY: compiled code passes a record of its site table.
        unsafe { at_access(self, site) };
        if !policy::is_observed() {
            return self.perform_again(address, bytes, reach, Atomic::Yes, access, seen);
        }
        self.at_change_point();
        self.chaos.at_sync();
        if control::counts() {
            self.enter_turn(Op::None);
        }
        if control::follows_vectors() {
            return self.in_turn(|| self.access.perform_atomic(address, bytes, reach, access, alone, seen));
        }
        self.access.perform_atomic(address, bytes, reach, access, alone, seen)
    }
}

/// The calling thread, if its atomics may be recorded the quick way.
#[inline(always)]
fn quick() -> Option<&'static Local> {
    if control::has_quick_atomics() {
        Local::current()
    } else {
        None
    }
}

/// The calling thread, if atomics are observed in it.
#[inline]
pub fn observed() -> Option<&'static Local> {
    if control::observes_sync() {
        Local::current()
    } else {
        None
    }
}

/// Operations of `__refrain_atomic_rmw*`, numbered as in the instrumentor's `abi.h`.
#[inline]
fn combine(operation: u32, bits: u32, old: u64, operand: u64) -> u64 {
    let signed = |v: u64| (v << (64 - bits)) as i64 >> (64 - bits);
    match operation {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old.wrapping_sub(operand),
        3 => old & operand,
        4 => !(old & operand),
        5 => old | operand,
        6 => old ^ operand,
        7 => {
            if signed(old) > signed(operand) {
                old
            } else {
                operand
            }
        }
        8 => {
            if signed(old) < signed(operand) {
                old
            } else {
                operand
            }
        }
        9 => old.max(operand),
        10 => old.min(operand),
        _ => unreachable!("atomic operation {operation}"),
    }
}

// NOTE [Sole access]
//
// At scope `sync` an atomic operation happens while its cell's lock bit is held. If all code that uses the memory is
// instrumented, as in a Rust program, nobody else touches it then, and the operation need not be locked a second time: the
// functions `__refrain_sole_*` do it in plain steps. Taking the lock bit is a full fence, so every such operation comes after
// all stores of those before it; what follows the last one is at worst a plain access, which needs no more than the order x86
// gives anyway, or the kernel, which has fences of its own (futexes). The kernel only reads such words. Libraries that
// were not built for recording (libstdc++, which counts references) do not know of the lock bit; so C and C++ use
// `__refrain_atomic_*`. Nor do other processes: as soon as the program maps shared memory, all is locked twice again.

/// Does nobody but instrumented code of this process use the memory of an operation that says so?
#[inline(always)]
fn is_sole(sole: bool) -> bool {
    sole && !control::shares_memory()
}

/// The operation, the quickest way if that is open, else by way of `slowly`, which is out of line: so the quickest way has all it
/// needs in registers.
#[inline(always)]
fn quickly<R>(place: u64, bytes: usize, reach: Reach, alone: impl FnOnce() -> R, slowly: impl FnOnce() -> R) -> R {
    match quick().and_then(|local| local.perform_in_own_run(place, bytes as u64, reach, alone)) {
        Some(result) => result,
        None => slowly(),
    }
}

/// The operation as an event, if events are counted.
#[inline(always)]
fn slowly<R>(
    place: u64,
    bytes: usize,
    reach: Reach,
    site: *const u8,
    operation: impl Fn() -> R,
    alone: impl FnOnce() -> R + Copy,
    seen: impl FnOnce(Option<&R>) -> Seen + Copy,
) -> R {
    if let Some(result) = quick().and_then(|local| local.perform_quickly(place, bytes as u64, reach, site, alone, seen))
    {
        return result;
    }
    // SAFETY: compiled code passes a record of its site table.
    if unsafe { vectors::leaves_out(site) } {
        return operation();
    }
    match observed() {
        Some(local) => local.perform_atomic(place, bytes as u64, reach, site, operation, alone, seen),
        None => operation(),
    }
}

macro_rules! atomics {
    ($sole:literal: $($load:ident $store:ident $rmw:ident $cas:ident $type:ty, $atomic:ty;)*) => {$(
        /// # Safety
        /// `place` is valid and aligned, as the program's atomic operation demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $load(place: *const $atomic, site: *const u8) -> $type {
            #[inline(never)]
            fn out_of_line(place: *const $atomic, site: *const u8) -> $type {
                // SAFETY: the program's own operation.
                let load = || unsafe { (*place).load(SeqCst) };
                slowly(place as u64, size_of::<$type>(), Reach::Reads, site, load, load, Seen::loaded)
            }
            // SAFETY: the program's own operation.
            let load = move || unsafe { (*place).load(SeqCst) };
            quickly(place as u64, size_of::<$type>(), Reach::Reads, load, move || out_of_line(place, site))
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(place: *const $atomic, value: $type, site: *const u8) {
            #[inline(always)]
            fn alone(place: *const $atomic, value: $type) {
                let order = if is_sole($sole) { Relaxed } else { SeqCst };
                // SAFETY: the program's own operation. Relaxed: NOTE [Sole access].
                unsafe { (*place).store(value, order) }
            }
            #[inline(never)]
            fn out_of_line(place: *const $atomic, value: $type, site: *const u8) {
                // SAFETY: the program's own operation.
                let store = || unsafe { (*place).store(value, SeqCst) };
                let seen = |_: Option<&()>| Seen::written(Moved::Number(value as u64));
                let alone = || alone(place, value);
                slowly(place as u64, size_of::<$type>(), Reach::Writes, site, store, alone, seen)
            }
            let alone = move || alone(place, value);
            let slowly = move || out_of_line(place, value, site);
            quickly(place as u64, size_of::<$type>(), Reach::Writes, alone, slowly)
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $rmw(place: *const $atomic, operand: $type, operation: u32, site: *const u8) -> $type {
            #[inline(always)]
            fn updated(old: $type, operand: $type, operation: u32) -> u64 {
                combine(operation, <$type>::BITS, old as u64, operand as u64)
            }
            fn update(place: *const $atomic, operand: $type, operation: u32) -> $type {
                let update = |old| Some(updated(old, operand, operation) as $type);
                // SAFETY: the program's own operation.
                unsafe { (*place).fetch_update(SeqCst, SeqCst, update).unwrap_or(0) }
            }
            #[inline(always)]
            fn alone(place: *const $atomic, operand: $type, operation: u32) -> $type {
                if !is_sole($sole) {
                    return update(place, operand, operation);
                }
                // SAFETY: the program's own operation. Relaxed: NOTE [Sole access].
                unsafe {
                    let old = (*place).load(Relaxed);
                    (*place).store(updated(old, operand, operation) as $type, Relaxed);
                    old
                }
            }
            #[inline(never)]
            fn out_of_line(place: *const $atomic, operand: $type, operation: u32, site: *const u8) -> $type {
                let update = || update(place, operand, operation);
                let alone = || alone(place, operand, operation);
                let seen = |old: Option<&$type>| Seen::updated(old, |old| updated(old, operand, operation));
                slowly(place as u64, size_of::<$type>(), Reach::Both, site, update, alone, seen)
            }
            let alone = move || alone(place, operand, operation);
            let slowly = move || out_of_line(place, operand, operation, site);
            quickly(place as u64, size_of::<$type>(), Reach::Both, alone, slowly)
        }

        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $cas(place: *const $atomic, expected: $type, desired: $type, site: *const u8) -> $type {
            #[inline(always)]
            fn updated(old: $type, expected: $type, desired: $type) -> u64 {
                if old == expected { desired as u64 } else { old as u64 }
            }
            fn exchange(place: *const $atomic, expected: $type, desired: $type) -> $type {
                // SAFETY: the program's own operation.
                unsafe { (*place).compare_exchange(expected, desired, SeqCst, SeqCst).unwrap_or_else(|old| old) }
            }
            #[inline(always)]
            fn alone(place: *const $atomic, expected: $type, desired: $type) -> $type {
                if !is_sole($sole) {
                    return exchange(place, expected, desired);
                }
                // SAFETY: the program's own operation. Relaxed: NOTE [Sole access].
                unsafe {
                    let old = (*place).load(Relaxed);
                    if old == expected {
                        (*place).store(desired, Relaxed);
                    }
                    old
                }
            }
            #[inline(never)]
            fn out_of_line(place: *const $atomic, expected: $type, desired: $type, site: *const u8) -> $type {
                let exchange = || exchange(place, expected, desired);
                let alone = || alone(place, expected, desired);
                let seen = |old: Option<&$type>| Seen::updated(old, |old| updated(old, expected, desired));
                slowly(place as u64, size_of::<$type>(), Reach::Both, site, exchange, alone, seen)
            }
            let alone = move || alone(place, expected, desired);
            let slowly = move || out_of_line(place, expected, desired, site);
            quickly(place as u64, size_of::<$type>(), Reach::Both, alone, slowly)
        }
    )*};
}

atomics! {
    false:
    __refrain_atomic_load1 __refrain_atomic_store1 __refrain_atomic_rmw1 __refrain_atomic_cas1 u8, AtomicU8;
    __refrain_atomic_load2 __refrain_atomic_store2 __refrain_atomic_rmw2 __refrain_atomic_cas2 u16, AtomicU16;
    __refrain_atomic_load4 __refrain_atomic_store4 __refrain_atomic_rmw4 __refrain_atomic_cas4 u32, AtomicU32;
    __refrain_atomic_load8 __refrain_atomic_store8 __refrain_atomic_rmw8 __refrain_atomic_cas8 u64, AtomicU64;
}

atomics! {
    true:
    __refrain_sole_load1 __refrain_sole_store1 __refrain_sole_rmw1 __refrain_sole_cas1 u8, AtomicU8;
    __refrain_sole_load2 __refrain_sole_store2 __refrain_sole_rmw2 __refrain_sole_cas2 u16, AtomicU16;
    __refrain_sole_load4 __refrain_sole_store4 __refrain_sole_rmw4 __refrain_sole_cas4 u32, AtomicU32;
    __refrain_sole_load8 __refrain_sole_store8 __refrain_sole_rmw8 __refrain_sole_cas8 u64, AtomicU64;
}

/// `lock cmpxchg16b`, which every x86-64 CPU since 2006 has: (old value, was it equal).
///
/// # Safety
/// `place` is valid and 16-aligned.
unsafe fn cas16(place: *mut u128, expected: u128, desired: u128) -> u128 {
    let (mut low, mut high) = (expected as u64, (expected >> 64) as u64);
    // SAFETY: the caller promises that `place` is valid and 16-aligned. rbx belongs to LLVM, so it is saved around the use; the
    // others are named, because LLVM may choose rbx for an unnamed one.
    unsafe {
        core::arch::asm!("xchg rbx, rsi", "lock cmpxchg16b [rdi]", "mov rbx, rsi",
             in("rdi") place, inout("rsi") desired as u64 => _, in("rcx") (desired >> 64) as u64,
             inout("rax") low, inout("rdx") high, options(nostack));
    }
    (high as u128) << 64 | low as u128
}

/// # Safety
/// `place` is valid and 16-aligned, `out` is the caller's scratch memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_atomic_load16(place: *mut u128, out: *mut u128, site: *const u8) {
    // SAFETY: comparing with a value and storing the same back is a load; the program's own operation.
    let load = || unsafe { cas16(place, 0, 0) };
    let value = match observed() {
        None => load(),
        Some(local) => local.perform_atomic(place as u64, 16, Reach::Reads, site, load, load, |value| {
            Seen::read(value.map_or(Moved::Unknown, |value| Moved::Wide(*value)))
        }),
    };
    // SAFETY: `out` is the caller's scratch memory.
    unsafe { out.write_unaligned(value) };
}

/// # Safety
/// As above, for `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_atomic_store16(place: *mut u128, value: *const u128, site: *const u8) {
    // SAFETY: `value` is the caller's scratch memory.
    let desired = unsafe { value.read_unaligned() };
    let store = || {
        let mut old = 0;
        loop {
            // SAFETY: the program's own operation.
            let found = unsafe { cas16(place, old, desired) };
            if found == old {
                return;
            }
            old = found;
        }
    };
    let Some(local) = observed() else { return store() };
    local.perform_atomic(place as u64, 16, Reach::Writes, site, store, store, |_| {
        Seen::written(Moved::Wide(desired))
    })
}

/// Stores the value found in `expected`; 1 if it was the expected one.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_atomic_cas16(
    place: *mut u128,
    expected: *mut u128,
    desired: *const u128,
    site: *const u8,
) -> i32 {
    // SAFETY: `expected` and `desired` are the caller's scratch memory.
    let (wanted, desired) = unsafe { (expected.read_unaligned(), desired.read_unaligned()) };
    // SAFETY: the program's own operation.
    let cas = || unsafe { cas16(place, wanted, desired) };
    let found = match observed() {
        None => cas(),
        Some(local) => local.perform_atomic(place as u64, 16, Reach::Both, site, cas, cas, |old| match old {
            Some(old) => Seen {
                read: Moved::Wide(*old),
                written: Moved::Wide(if *old == wanted { desired } else { *old }),
            },
            None => Seen::UNKNOWN,
        }),
    };
    // SAFETY: the program lets the operation change what it expected: it can be written.
    unsafe { expected.write_unaligned(found) };
    (found == wanted) as i32
}
