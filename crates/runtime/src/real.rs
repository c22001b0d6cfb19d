//! The functions we stand in front of, as the next object in search order has them.
use crate::failure;
use core::ffi::CStr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

/// A function of libc's or libomp's, found when first used.
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<libc::c_void>,
}

impl Real {
    pub const fn new(name: &'static CStr) -> Real {
        Real {
            name,
            address: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Its address. Looking it up twice at once is harmless: both find the same.
    #[inline]
    pub fn address(&self) -> *mut libc::c_void {
        // Relaxed: the address is constant once found, and points to code.
        let known = self.address.load(Relaxed);
        if known.is_null() { self.find() } else { known }
    }

    #[cold]
    fn find(&self) -> *mut libc::c_void {
        // SAFETY: the name is NUL-terminated. dlsym may call our own allocator, which needs nothing of libc's.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = self.find_unseen();
        }
        if found.is_null() {
            failure::die(self.name.to_bytes(), libc::ENOSYS);
        }
        self.address.store(found, Relaxed);
        found
    }

    /// A library that came with a plugin is not in the search order of ours. It stays from here on: the address is kept.
    fn find_unseen(&self) -> *mut libc::c_void {
        const LIBRARIES: [&CStr; 3] = [c"libomp.so.5", c"libomp.so", c"libiomp5.so"];
        for library in LIBRARIES {
            // SAFETY: the names are NUL-terminated, and nothing is loaded that is not there already.
            unsafe {
                let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if !handle.is_null() {
                    let found = libc::dlsym(handle, self.name.as_ptr());
                    if !found.is_null() {
                        return found;
                    }
                }
            }
        }
        core::ptr::null_mut()
    }
}

/// Declares `pub unsafe fn NAME(…)` that calls libc's function of that name.
macro_rules! real_functions {
    ($($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[inline]
        pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
            const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            static REAL: $crate::real::Real = $crate::real::Real::new(NAME);
            // SAFETY: libc's function has this signature; "C-unwind" because cancellation may unwind out of it.
            unsafe {
                let function: unsafe extern "C-unwind" fn($($type),*) $(-> $result)? = core::mem::transmute(REAL.address());
                function($($argument),*)
            }
        }
    )*};
}

use core::ffi::c_char;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_uint;
use core::ffi::c_void;
use libc::pthread_attr_t;
use libc::pthread_barrier_t;
use libc::pthread_cond_t;
use libc::pthread_key_t;
use libc::pthread_mutex_t;
use libc::pthread_mutexattr_t;
use libc::pthread_once_t;
use libc::pthread_rwlock_t;
use libc::pthread_rwlockattr_t;
use libc::pthread_spinlock_t;
use libc::pthread_t;
use libc::sem_t;
use libc::timespec;

/// What libc's `clone` begins a child with.
pub type CloneStart = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
pub type StartRoutine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

real_functions! {
    fork() -> libc::pid_t;
    clone(start: Option<CloneStart>, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent_tid: usize, tls: usize, child_tid: usize) -> c_int;
    system(command: *const c_char) -> c_int;
    popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    pclose(stream: *mut libc::FILE) -> c_int;
    posix_spawn(child: *mut libc::pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    posix_spawnp(child: *mut libc::pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    setuid(user: libc::uid_t) -> c_int;
    seteuid(user: libc::uid_t) -> c_int;
    setreuid(real: libc::uid_t, effective: libc::uid_t) -> c_int;
    setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int;
    setgid(group: libc::gid_t) -> c_int;
    setegid(group: libc::gid_t) -> c_int;
    setregid(real: libc::gid_t, effective: libc::gid_t) -> c_int;
    setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) -> c_int;
    setgroups(count: usize, groups: *const libc::gid_t) -> c_int;
    gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int;
    time(place: *mut libc::time_t) -> libc::time_t;
    sched_getcpu() -> c_int;
    getcpu(cpu: *mut c_uint, node: *mut c_uint) -> c_int;
    pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: StartRoutine, argument: *mut c_void) -> c_int;
    pthread_getattr_np(thread: pthread_t, attributes: *mut pthread_attr_t) -> c_int;
    pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, until: *const timespec) -> c_int;
    pthread_detach(thread: pthread_t) -> c_int;
    pthread_cancel(thread: pthread_t) -> c_int;
    pthread_kill(thread: pthread_t, signal: c_int) -> c_int;
    pthread_testcancel();
    sigwait(set: *const libc::sigset_t, signal: *mut c_int) -> c_int;
    sigwaitinfo(set: *const libc::sigset_t, info: *mut libc::siginfo_t) -> c_int;
    sigtimedwait(set: *const libc::sigset_t, info: *mut libc::siginfo_t, timeout: *const timespec) -> c_int;
    kill(process: libc::pid_t, signal: c_int) -> c_int;
    sigqueue(process: libc::pid_t, signal: c_int, value: libc::sigval) -> c_int;
    pthread_mutex_init(mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) -> c_int;
    pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int;
    pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
    pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int;
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec) -> c_int;
    pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: c_int, until: *const timespec) -> c_int;
    pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int;
    pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    pthread_cond_timedwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec) -> c_int;
    pthread_cond_clockwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: c_int, until: *const timespec) -> c_int;
    pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int;
    pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int;
    pthread_rwlock_init(lock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) -> c_int;
    pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int;
    pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int;
    pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int;
    pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int;
    pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    pthread_rwlock_clockrdlock(lock: *mut pthread_rwlock_t, clock: c_int, until: *const timespec) -> c_int;
    pthread_rwlock_clockwrlock(lock: *mut pthread_rwlock_t, clock: c_int, until: *const timespec) -> c_int;
    pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int;
    pthread_spin_init(lock: *mut pthread_spinlock_t, shared: c_int) -> c_int;
    pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int;
    pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int;
    pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int;
    pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int;
    pthread_once(control: *mut pthread_once_t, routine: extern "C-unwind" fn()) -> c_int;
    pthread_key_create(key: *mut pthread_key_t, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
    pthread_key_delete(key: pthread_key_t) -> c_int;
    sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int;
    sem_wait(semaphore: *mut sem_t) -> c_int;
    sem_trywait(semaphore: *mut sem_t) -> c_int;
    sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int;
    sem_clockwait(semaphore: *mut sem_t, clock: c_int, until: *const timespec) -> c_int;
    sem_post(semaphore: *mut sem_t) -> c_int;
    sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int;
    mtx_init(mutex: *mut pthread_mutex_t, kind: c_int) -> c_int;
    _exit(status: c_int) -> !;
    rand() -> c_int;
    srand(seed: c_uint);
    random() -> c_long;
    srandom(seed: c_uint);
    drand48() -> f64;
    lrand48() -> c_long;
    mrand48() -> c_long;
    srand48(seed: c_long);
    malloc(bytes: usize) -> *mut c_void;
    calloc(count: usize, bytes: usize) -> *mut c_void;
    realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    free(block: *mut c_void);
    memalign(alignment: usize, bytes: usize) -> *mut c_void;
    malloc_usable_size(block: *mut c_void) -> usize;
    mmap(address: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    write(file: c_int, bytes: *const c_void, count: usize) -> isize;
    writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    flockfile(stream: *mut libc::FILE);
    funlockfile(stream: *mut libc::FILE);
    ftrylockfile(stream: *mut libc::FILE) -> c_int;
    vfprintf(stream: *mut libc::FILE, format: *const c_char, arguments: *mut c_void) -> c_int;
    vdprintf(file: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    __vfprintf_chk(stream: *mut libc::FILE, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fgets(text: *mut c_char, room: c_int, stream: *mut libc::FILE) -> *mut c_char;
    fgetc(stream: *mut libc::FILE) -> c_int;
    getc(stream: *mut libc::FILE) -> c_int;
    getchar() -> c_int;
    ungetc(byte: c_int, stream: *mut libc::FILE) -> c_int;
    fread(place: *mut c_void, bytes: usize, count: usize, stream: *mut libc::FILE) -> usize;
    getline(line: *mut *mut c_char, room: *mut usize, stream: *mut libc::FILE) -> isize;
    getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: *mut libc::FILE) -> isize;
    __getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: *mut libc::FILE) -> isize;
    fseek(stream: *mut libc::FILE, offset: c_long, from: c_int) -> c_int;
    ftell(stream: *mut libc::FILE) -> c_long;
    rewind(stream: *mut libc::FILE);
    vfscanf(stream: *mut libc::FILE, format: *const c_char, arguments: *mut c_void) -> c_int;
    __isoc99_vfscanf(stream: *mut libc::FILE, format: *const c_char, arguments: *mut c_void) -> c_int;
    fputs(text: *const c_char, stream: *mut libc::FILE) -> c_int;
    fputc(byte: c_int, stream: *mut libc::FILE) -> c_int;
    putc(byte: c_int, stream: *mut libc::FILE) -> c_int;
    putchar(byte: c_int) -> c_int;
    puts(text: *const c_char) -> c_int;
    fwrite(place: *const c_void, bytes: usize, count: usize, stream: *mut libc::FILE) -> usize;
    fflush(stream: *mut libc::FILE) -> c_int;
    perror(text: *const c_char);
}
