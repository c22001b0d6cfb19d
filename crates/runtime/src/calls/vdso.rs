//! The clocks of the vDSO, which libc reads without a system call: libc keeps pointers to them, which become pointers to us.
use crate::calls;
use crate::sys;
use core::ffi::CStr;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of the loader's `_rtld_global_ro` that are looked at. The pointers are near its middle, in all versions since 2.31.
const LOOKED_AT: usize = 1024;
const PAGE: usize = 4096;

/// The kernel's functions, written by `install`, before there is a second thread.
static CLOCK_GETTIME: AtomicUsize = AtomicUsize::new(0);
/// The other one, as well.
static CLOCK_GETRES: AtomicUsize = AtomicUsize::new(0);

type Clock = unsafe extern "C" fn(c_int, *mut libc::timespec) -> c_int;

/// Finds libc's pointers and replaces them. Once, before there is a second thread.
pub fn install() {
    // SAFETY: asks for an object that the kernel has mapped, and for symbols by name.
    unsafe {
        let vdso = libc::dlopen(c"linux-vdso.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let table = libc::dlsym(libc::RTLD_DEFAULT, c"_rtld_global_ro".as_ptr());
        if vdso.is_null() || table.is_null() {
            return;
        }
        replace(vdso, table, c"__vdso_clock_gettime", &CLOCK_GETTIME, clock_gettime);
        replace(vdso, table, c"__vdso_clock_getres", &CLOCK_GETRES, clock_getres);
    }
}

/// # Safety
/// `vdso` is a handle of the vDSO, `table` is the loader's `_rtld_global_ro`.
unsafe fn replace(vdso: *mut c_void, table: *mut c_void, name: &CStr, kept: &AtomicUsize, ours: Clock) {
    // SAFETY: asks for a symbol by name.
    let function = unsafe { libc::dlsym(vdso, name.as_ptr()) } as usize;
    if function == 0 {
        return;
    }
    kept.store(function, Relaxed);
    for place in (table as usize..table as usize + LOOKED_AT).step_by(size_of::<usize>()) {
        // SAFETY: `_rtld_global_ro` is longer than this in the versions we know, and followed by more of the loader's data.
        if unsafe { (place as *const usize).read() } != function {
            continue;
        }
        let page = place / PAGE * PAGE;
        // SAFETY: makes the page of this one pointer writable for as long as it is written; there is no other thread.
        unsafe {
            let protect =
                |protection: c_int| sys::syscall(libc::SYS_mprotect, [page, PAGE, protection as usize, 0, 0, 0]) == 0;
            if protect(libc::PROT_READ | libc::PROT_WRITE) {
                (place as *mut usize).write(ours as *const () as usize);
                protect(libc::PROT_READ);
            }
        }
    }
}

/// Called by libc in the place of the vDSO's function, which returns an errno like the kernel: negative.
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    through(libc::SYS_clock_gettime, &CLOCK_GETTIME, clock, time)
}

unsafe extern "C" fn clock_getres(clock: c_int, time: *mut libc::timespec) -> c_int {
    through(libc::SYS_clock_getres, &CLOCK_GETRES, clock, time)
}

fn through(number: libc::c_long, kept: &AtomicUsize, clock: c_int, time: *mut libc::timespec) -> c_int {
    let real = |[clock, time, ..]: &[usize; 6]| {
        // SAFETY: the address of the vDSO's function, which has this signature; the program's arguments, or ours.
        unsafe {
            let function: Clock = core::mem::transmute(kept.load(Relaxed));
            function(*clock as c_int, *time as *mut libc::timespec) as isize
        }
    };
    calls::clock(number, &[clock as usize, time as usize, 0, 0, 0, 0], real) as c_int
}
