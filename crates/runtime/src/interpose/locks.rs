//! Mutexes, read-write locks, spin locks.
use crate::callers::is_foreign;
use crate::control;
use crate::ghost::Turn;
use crate::ghost::observed_at;
use crate::interpose::Holding;
use crate::interpose::acquire;
use crate::interpose::callers::with_caller;
use crate::interpose::in_order;
use crate::interpose::release;
use crate::interpose::release_again;
use crate::interpose::renew;
use crate::local::Local;
use crate::real;
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use libc::pthread_mutex_t;
use libc::pthread_mutexattr_t;
use libc::pthread_rwlock_t;
use libc::pthread_rwlockattr_t;
use libc::pthread_spinlock_t;
use libc::timespec;
use run_model::Op;

/// Declares the functions of one kind of lock: `name(lock, extra…) = op, what replay calls instead or, not to wait`.
macro_rules! locks {
    ($type:ty: $($name:ident ($($extra:ident: $extra_type:ty),*) = $op:ident, $again:ident or $trying:ident;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(lock: *mut $type $(, $extra: $extra_type)*) -> c_int {
            if let Some(local) = quick(NOBODY) {
                // SAFETY: the program's own call, with its arguments.
                let result = unsafe { real::$name(lock $(, $extra)*) };
                if result != 0 || !local.access.touch_quickly(Op::$op, lock as u64) {
                    end_slowly(local, Op::$op, lock as u64, result);
                }
                return result;
            }
            // SAFETY: the program's own lock; in replay, an attempt that succeeded may wait a moment.
            let again = unsafe { || take_again(|| real::$again(lock), || real::$trying(lock)) };
            // SAFETY: the program's own call, with its arguments.
            unsafe { acquire(Op::$op, lock as u64, Holding::Shared, || real::$name(lock $(, $extra)*), again) }
        }
    )*};
}

/// Replay: takes a lock whose turn has come. It is free, or about to be; but of a replay that goes another way one cannot be sure.
pub(super) fn take_again(lock: impl FnOnce() -> c_int, try_lock: impl Fn() -> c_int) -> c_int {
    match Local::current().filter(|_| control::is_steered()) {
        Some(local) => local.lock_steered(try_lock),
        None => lock(),
    }
}

/// The same for a mutex.
///
/// # Safety
/// As for libc's pthread_mutex_lock.
pub(super) unsafe fn take_mutex_again(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller promises that it is a mutex.
    unsafe {
        take_again(
            || real::pthread_mutex_lock(mutex),
            || real::pthread_mutex_trylock(mutex),
        )
    }
}

/// # Safety
/// As for libc's pthread_mutex_lock.
pub unsafe extern "C-unwind" fn lock_mutex(mutex: *mut pthread_mutex_t, caller: u64) -> c_int {
    let Some(local) = quick(caller) else {
        // SAFETY: the caller promises what libc's pthread_mutex_lock demands.
        return unsafe { lock_slowly(mutex, caller) };
    };
    // SAFETY: the program's own call, with its argument.
    let result = unsafe { real::pthread_mutex_lock(mutex) };
    if result != 0 {
        return not_acquired(local, Op::MutexLock, mutex as u64, result);
    }
    local.access.touch_held_quickly(Op::MutexLock, mutex as u64);
    0
}

/// A caller who is no library's.
const NOBODY: u64 = 0;

/// An operation on a lock that others may use meanwhile has had this result.
#[cold]
#[inline(never)]
fn end_slowly(local: &Local, op: Op, object: u64, result: c_int) {
    local.end_acquiring(op, object, Holding::Shared, result);
}

#[cold]
#[inline(never)]
fn not_acquired(local: &Local, op: Op, object: u64, result: c_int) -> c_int {
    local.end_acquiring(op, object, Holding::Alone, result);
    result
}

/// Out of line, so that what is short needs no more registers than it uses.
///
/// # Safety
/// As for libc's pthread_mutex_lock.
#[inline(never)]
unsafe fn lock_slowly(mutex: *mut pthread_mutex_t, caller: u64) -> c_int {
    // SAFETY: the program's own call, with its argument.
    let real = || unsafe { real::pthread_mutex_lock(mutex) };
    if is_unobserved(caller) {
        // SAFETY: the program says that it is a mutex.
        return match unsafe { is_usual(mutex) } {
            true => in_order::lock(mutex as u64, caller, real),
            false => in_order::acquire(Op::MutexLock, mutex as u64, caller, real, real),
        };
    }
    if let Some(local) = at_own_step(Op::MutexLock, mutex as u64) {
        return local.do_own_step(Op::MutexLock, real);
    }
    // SAFETY: the program's own mutex.
    let again = || unsafe { take_mutex_again(mutex) };
    out_of_line(|| acquire(Op::MutexLock, mutex as u64, Holding::Alone, real, again))
}

/// A deterministic run: the calling thread, if this is the step that it has next and nobody has to be waited for. Most synchronisations of such a run are like
/// that, so it comes before all else.
#[inline]
fn at_own_step(op: Op, object: u64) -> Option<&'static Local> {
    Local::current().filter(|local| local.has_own_step(op, object))
}

/// The calling thread, if its operations on locks may be recorded the quick way: scope `sync`, nothing is due before its next event, and nothing disturbs it.
#[inline(always)]
pub fn quick(caller: u64) -> Option<&'static Local> {
    if !control::has_quick_locks() || is_foreign(caller) {
        return None;
    }
    // The recorder's own reference to the slot: it needs that line of the cache anyway.
    Local::current().filter(|local| local.access.event() < local.access.slot.gate.load(Relaxed))
}

/// Is what the caller, a return address, does with mutexes nobody's business?
#[inline]
fn is_unobserved(caller: u64) -> bool {
    !control::observes_sync() || is_foreign(caller)
}

/// So that what is short needs no more registers than it uses: it is called often where locks are not observed.
#[inline(never)]
fn out_of_line<R>(action: impl FnOnce() -> R) -> R {
    action()
}

/// # Safety
/// As for libc's pthread_mutex_trylock.
pub unsafe extern "C-unwind" fn try_lock_mutex(mutex: *mut pthread_mutex_t, caller: u64) -> c_int {
    // SAFETY: the program's own call, with its argument.
    let real = || unsafe { real::pthread_mutex_trylock(mutex) };
    // SAFETY: the program's own mutex; in replay, a trylock that succeeded may wait a moment.
    let again = || unsafe { take_mutex_again(mutex) };
    if is_unobserved(caller) {
        return in_order::acquire(Op::MutexTryLock, mutex as u64, caller, real, again);
    }
    out_of_line(|| acquire(Op::MutexTryLock, mutex as u64, Holding::Alone, real, again))
}

/// # Safety
/// As for libc's pthread_mutex_unlock.
pub unsafe extern "C-unwind" fn unlock_mutex(mutex: *mut pthread_mutex_t, caller: u64) -> c_int {
    if let Some(local) = quick(caller)
        // SAFETY: the program says that it is a mutex.
        && unsafe { owner_and_kind(mutex) }.0 == local.slot.os_thread.load(Relaxed)
    {
        local.access.touch_held_quickly(Op::MutexUnlock, mutex as u64);
        // SAFETY: the program's own call, with its argument.
        return unsafe { real::pthread_mutex_unlock(mutex) };
    }
    // SAFETY: the caller promises what libc's pthread_mutex_unlock demands.
    unsafe { unlock_slowly(mutex, caller) }
}

/// # Safety
/// As for libc's pthread_mutex_unlock.
#[inline(never)]
unsafe fn unlock_slowly(mutex: *mut pthread_mutex_t, caller: u64) -> c_int {
    // SAFETY: the program's own call, with its argument.
    let real = || unsafe { real::pthread_mutex_unlock(mutex) };
    if is_unobserved(caller) {
        // SAFETY: the program says that it is a mutex.
        return match unsafe { is_usual(mutex) } {
            true => in_order::unlock(mutex as u64, caller, real),
            false => in_order::release(Op::MutexUnlock, mutex as u64, caller, real),
        };
    }
    if let Some(local) = at_own_step(Op::MutexUnlock, mutex as u64) {
        return local.do_own_step(Op::MutexUnlock, real);
    }
    // SAFETY: the caller promises what libc's pthread_mutex_unlock demands.
    out_of_line(|| unsafe { unlock_observed(mutex) })
}

/// # Safety
/// As for libc's pthread_mutex_unlock.
unsafe fn unlock_observed(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's own call, with its argument.
    let real = || unsafe { real::pthread_mutex_unlock(mutex) };
    let Some(local) = observed_at(Op::MutexUnlock, mutex as u64) else {
        return real();
    };
    match local.begin(Op::MutexUnlock, mutex as u64) {
        Turn::Record => {
            // SAFETY: the program says that it is a mutex.
            let (owner, kind) = unsafe { owner_and_kind(mutex) };
            if owner == local.slot.os_thread.load(Relaxed) {
                local.touch_held(Op::MutexUnlock, mutex as u64, 0);
                local.operate_mutex(Op::MutexUnlock, mutex as u64, real)
            } else if refuses_others(kind) {
                // Not ours, and so it remains: only the result is of interest. Its holder goes on using it meanwhile.
                let result = real();
                local.record_sync(Op::MutexUnlock, mutex as u64, result as i64, &[]);
                local.complete();
                result
            } else {
                local.touch(Op::MutexUnlock, mutex as u64, 0);
                real()
            }
        }
        Turn::Replay(0) => release_again(local, real),
        Turn::Replay(refusal) => {
            local.complete();
            refusal as c_int
        }
    }
}

/// Who holds a mutex (the kernel's name of the thread; 0: nobody), and what kind it is: fields of glibc's, at places
/// that its binary interface fixes.
///
/// # Safety
/// `mutex` is one.
unsafe fn owner_and_kind(mutex: *const pthread_mutex_t) -> (u32, u32) {
    // SAFETY: the caller promises that `mutex` is one. Others may write meanwhile: our own name is there exactly if we wrote it, and the
    // kind does not change.
    unsafe {
        (
            mutex.byte_add(8).cast::<u32>().read_volatile(),
            mutex.byte_add(16).cast::<u32>().read_volatile(),
        )
    }
}

/// Is a mutex of the usual kind, and the process's own?
///
/// # Safety
/// `mutex` is one.
#[inline]
unsafe fn is_usual(mutex: *const pthread_mutex_t) -> bool {
    // SAFETY: the caller promises that `mutex` is one.
    unsafe { owner_and_kind(mutex) }.1 == libc::PTHREAD_MUTEX_NORMAL as u32
}

impl Local {
    // NOTE [Fences of libc]
    //
    // To lock or unlock a mutex that is of the usual kind, and the process's own, libc exchanges its word, by a locked instruction. It
    // does without if it knows of no other thread. Then nobody takes chunks from us: threads that libc does not know are not
    // recorded where memory is, and one that begins later does so by way of the kernel. A mutex of another kind may be ours already, so
    // that libc only counts; and to try may be only to look.

    /// Does `real`, libc's operation on a mutex: a fence point, by libc's own locked instruction if there is one.
    #[inline]
    pub(super) fn operate_mutex(&self, op: Op, mutex: u64, real: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: the program says that it is a mutex.
        if unsafe { is_usual(mutex as *const pthread_mutex_t) } && op != Op::MutexTryLock {
            self.access.passing_fence(real)
        } else {
            self.access.pass_fence();
            real()
        }
    }
}

/// Does libc let only its holder unlock a mutex of this kind? Those that are recursive or check for errors, and those
/// that are robust or inherit priorities.
fn refuses_others(kind: u32) -> bool {
    const ROBUST_OR_INHERITING: u32 = 16 | 32;
    const DESTROYED: u32 = u32::MAX;
    let kind_proper = (kind & 3) as c_int;
    if kind == DESTROYED {
        return false;
    }
    kind & ROBUST_OR_INHERITING != 0
        || kind_proper == libc::PTHREAD_MUTEX_RECURSIVE
        || kind_proper == libc::PTHREAD_MUTEX_ERRORCHECK
}

/// # Safety
/// As for libc's pthread_mutex_init.
pub unsafe extern "C-unwind" fn init_mutex(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
    caller: u64,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    let real = || unsafe { real::pthread_mutex_init(mutex, attributes) };
    if is_foreign(caller) {
        real()
    } else {
        renew(Op::Init, mutex as u64, real)
    }
}

/// # Safety
/// As for libc's pthread_mutex_destroy.
pub unsafe extern "C-unwind" fn destroy_mutex(mutex: *mut pthread_mutex_t, caller: u64) -> c_int {
    // SAFETY: the program's own call, with its argument.
    let real = || unsafe { real::pthread_mutex_destroy(mutex) };
    if is_foreign(caller) {
        real()
    } else {
        renew(Op::Destroy, mutex as u64, real)
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    renew(Op::Init, lock as u64, || unsafe {
        real::pthread_rwlock_init(lock, attributes)
    })
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_spin_init(lock: *mut pthread_spinlock_t, shared: c_int) -> c_int {
    // SAFETY: the program's own call, with its arguments.
    renew(Op::Init, lock as u64, || unsafe {
        real::pthread_spin_init(lock, shared)
    })
}

with_caller! {
    pthread_mutex_init caller in "rdx" = init_mutex;
    pthread_mutex_destroy caller in "rsi" = destroy_mutex;
    pthread_mutex_lock caller in "rsi" = lock_mutex;
    pthread_mutex_trylock caller in "rsi" = try_lock_mutex;
    pthread_mutex_unlock caller in "rsi" = unlock_mutex;
}

locks! { pthread_mutex_t:
    pthread_mutex_timedlock(until: *const timespec) = MutexTimedLock, pthread_mutex_lock or pthread_mutex_trylock;
    pthread_mutex_clocklock(clock: c_int, until: *const timespec) = MutexTimedLock, pthread_mutex_lock or pthread_mutex_trylock;
}

locks! { pthread_rwlock_t:
    pthread_rwlock_rdlock() = RwReadLock, pthread_rwlock_rdlock or pthread_rwlock_tryrdlock;
    pthread_rwlock_wrlock() = RwWriteLock, pthread_rwlock_wrlock or pthread_rwlock_trywrlock;
    pthread_rwlock_tryrdlock() = RwTryReadLock, pthread_rwlock_rdlock or pthread_rwlock_tryrdlock;
    pthread_rwlock_trywrlock() = RwTryWriteLock, pthread_rwlock_wrlock or pthread_rwlock_trywrlock;
    pthread_rwlock_timedrdlock(until: *const timespec) = RwTimedReadLock, pthread_rwlock_rdlock or pthread_rwlock_tryrdlock;
    pthread_rwlock_timedwrlock(until: *const timespec) = RwTimedWriteLock, pthread_rwlock_wrlock or pthread_rwlock_trywrlock;
    pthread_rwlock_clockrdlock(clock: c_int, until: *const timespec) = RwTimedReadLock, pthread_rwlock_rdlock or pthread_rwlock_tryrdlock;
    pthread_rwlock_clockwrlock(clock: c_int, until: *const timespec) = RwTimedWriteLock, pthread_rwlock_wrlock or pthread_rwlock_trywrlock;
}

locks! { pthread_spinlock_t:
    pthread_spin_lock() = SpinLock, pthread_spin_lock or pthread_spin_trylock;
    pthread_spin_trylock() = SpinTryLock, pthread_spin_lock or pthread_spin_trylock;
}

macro_rules! unlocks {
    ($($name:ident ($type:ty) = $op:ident;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(lock: *mut $type) -> c_int {
            if let Some(local) = quick(NOBODY)
                && local.access.touch_quickly(Op::$op, lock as u64)
            {
                // SAFETY: the program's own call, with its argument.
                return unsafe { real::$name(lock) };
            }
            // SAFETY: the program's own call, with its argument.
            unsafe { release(Op::$op, lock as u64, || real::$name(lock)) }
        }
    )*};
}

unlocks! {
    pthread_rwlock_unlock(pthread_rwlock_t) = RwUnlock;
    pthread_spin_unlock(pthread_spinlock_t) = SpinUnlock;
}
