//! Functions that change the ids of all threads: libc has each make the system call, by a signal of its own. To the run
//! it is one call.
use crate::calls;
use crate::interpose::clocks::kernel_result;
use crate::interpose::clocks::with_errno;
use crate::local;
use crate::real;
use core::ffi::c_int;
use core::ffi::c_long;
use libc::gid_t;
use libc::uid_t;

/// What libc does for `real` is done in recording only, and is not the program's doing.
fn change(number: c_long, arguments: &[usize], real: impl Fn() -> c_int) -> c_int {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    with_errno(calls::as_one_call(number, &all, |_| {
        local::unrecorded(|| kernel_result(real()))
    }))
}

macro_rules! changes {
    ($($name:ident ($($argument:ident: $type:ty),*) = $number:ident($($given:expr),*);)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's own call.
            change(libc::$number, &[$($given as usize),*], || unsafe { real::$name($($argument),*) })
        }
    )*};
}

const SAME: u32 = u32::MAX;

changes! {
    setuid(user: uid_t) = SYS_setuid(user);
    seteuid(user: uid_t) = SYS_setresuid(SAME, user, SAME);
    setreuid(real: uid_t, effective: uid_t) = SYS_setreuid(real, effective);
    setresuid(real: uid_t, effective: uid_t, saved: uid_t) = SYS_setresuid(real, effective, saved);
    setgid(group: gid_t) = SYS_setgid(group);
    setegid(group: gid_t) = SYS_setresgid(SAME, group, SAME);
    setregid(real: gid_t, effective: gid_t) = SYS_setregid(real, effective);
    setresgid(real: gid_t, effective: gid_t, saved: gid_t) = SYS_setresgid(real, effective, saved);
    setgroups(count: usize, groups: *const gid_t) = SYS_setgroups(count, groups);
}
