//! Functions that libc lets the dynamic loader bind to the vDSO directly: recorded like the system calls they replace.
use crate::calls;
use crate::real;
use core::ffi::c_int;
use core::ffi::c_uint;
use core::ffi::c_void;

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the program's own call, or ours in its place.
    let real = |[time, zone, ..]: &[usize; 6]| unsafe {
        kernel_result(real::gettimeofday(*time as *mut libc::timeval, *zone as *mut c_void))
    };
    let arguments = [time as usize, zone as usize, 0, 0, 0, 0];
    with_errno(calls::clock(libc::SYS_gettimeofday, &arguments, real))
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn time(place: *mut libc::time_t) -> libc::time_t {
    // SAFETY: the program's own call, or ours in its place.
    let real = |[place, ..]: &[usize; 6]| unsafe { real::time(*place as *mut libc::time_t) as isize };
    calls::clock(libc::SYS_time, &[place as usize, 0, 0, 0, 0, 0], real) as libc::time_t
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sched_getcpu() -> c_int {
    // SAFETY: no arguments.
    let real = |_: &[usize; 6]| unsafe { real::sched_getcpu() as isize };
    calls::clock(libc::SYS_getcpu, &[0; 6], real) as c_int
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getcpu(cpu: *mut c_uint, node: *mut c_uint) -> c_int {
    // SAFETY: the program's own call, or ours in its place.
    let real = |[cpu, node, ..]: &[usize; 6]| unsafe {
        kernel_result(real::getcpu(*cpu as *mut c_uint, *node as *mut c_uint))
    };
    let arguments = [cpu as usize, node as usize, 0, 0, 0, 0];
    with_errno(calls::clock(libc::SYS_getcpu, &arguments, real))
}

/// libc's -1 and errno, as the kernel would have said it.
pub fn kernel_result(result: c_int) -> isize {
    match result {
        // SAFETY: errno is the calling thread's.
        -1 => unsafe { -(*libc::__errno_location()) as isize },
        result => result as isize,
    }
}

pub fn with_errno(result: isize) -> c_int {
    if result < 0 {
        // SAFETY: errno is the calling thread's.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as c_int
}
