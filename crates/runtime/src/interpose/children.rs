//! Programs that libc starts for the program. If they were built with refrain they join the run (`processes.rs`); in replay
//! none is started here, and what they answered comes from the log. `fork` and `exec` are seen as system calls.
use crate::calls;
use crate::control;
use crate::ghost::Turn;
use crate::local;
// Children are the world outside, at every scope.
use crate::ghost::recorded as observed;
use crate::local::Local;
use crate::processes;
use crate::real;
use core::arch::naked_asm;
use core::ffi::c_char;
use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;
use libc::FILE;
use libc::pid_t;
use libc::posix_spawn_file_actions_t;
use libc::posix_spawnattr_t;
use run_model::Op;

/// What stands for the world outside as the object of these operations.
static WORLD: u64 = 0;

fn world() -> u64 {
    &raw const WORLD as u64
}

/// Recording: does `action`, whose system calls are not the program's, and keeps its result. Replay: the kept result.
fn outside(local: &Local, action: impl FnOnce() -> i64) -> i64 {
    local.input(Op::Input, world(), || local::unrecorded(action))
}

/// The same for an action that starts a program.
fn starting(local: &Local, action: impl FnOnce() -> i64) -> i64 {
    outside(local, || {
        processes::note_spawn();
        processes::with_open_door(action)
    })
}

/// With system calls recorded, this one is too. Without, the child runs on unobserved, and in replay there is none.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    // SAFETY: the program's own call.
    let real = || unsafe { real::fork() };
    let Some(local) = observed() else {
        return real();
    };
    if calls::is_installed() {
        local.wait_for_fork();
        return real();
    }
    match local.begin(Op::Input, world()) {
        Turn::Replay(child) => {
            local.complete();
            child as pid_t
        }
        Turn::Record => {
            let child = real();
            // The child is not observed any more (`ending::watch`).
            if child != 0 {
                local.record_sync(Op::Input, world(), child as i64, &[]);
                local.complete();
            }
            child
        }
    }
}

/// A child that shares its parent's stack cannot return through us: it is a fork, whose parent waits and gets what the child has changed (`brought_back.rs`).
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn vfork() {
    naked_asm!(
        ".cfi_startproc",
        "lea rdi, [rsp + 8]",
        "jmp {target}",
        ".cfi_endproc",
        target = sym fork_sharing,
    )
}

/// `stack`: the stack pointer of the caller of `vfork`, when that has returned.
extern "C-unwind" fn fork_sharing(stack: u64) -> pid_t {
    let is_alone = || control::inputs_only() && calls::is_installed() && control::has_one_thread();
    let Some(local) = observed().filter(|local| !local.calls_pass.get() && is_alone()) else {
        // POSIX allows it to be `fork`. With several threads, the child is not to find libc's locks held by threads that it does not have.
        // SAFETY: the program's own call.
        return unsafe { fork() };
    };
    local.inputs.call_stack.set(stack);
    // SAFETY: a fork of the program's own.
    let result = unsafe { calls::system_call(libc::SYS_vfork, &[0; 6]) };
    local.inputs.call_stack.set(0);
    if result < 0 {
        // SAFETY: errno is the calling thread's.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as pid_t
}

macro_rules! spawns {
    ($($name:ident;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            child: *mut pid_t,
            path: *const c_char,
            actions: *const posix_spawn_file_actions_t,
            attributes: *const posix_spawnattr_t,
            arguments: *const *mut c_char,
            environment: *const *mut c_char,
        ) -> c_int {
            // SAFETY: the program's own call.
            let start = |child| unsafe { real::$name(child, path, actions, attributes, arguments, environment) };
            // SAFETY: the program's own variable.
            unsafe { spawn(child, start) }
        }
    )*};
}

spawns! {
    posix_spawn;
    posix_spawnp;
}

/// # Safety
/// `child` is null, or may be written.
unsafe fn spawn(child: *mut pid_t, start: impl FnOnce(*mut pid_t) -> c_int) -> c_int {
    let Some(local) = observed() else { return start(child) };
    let mut started: pid_t = 0;
    let result = starting(local, || start(&raw mut started) as i64);
    let started = outside(local, || started as i64) as pid_t;
    if result == 0 && !child.is_null() {
        // SAFETY: the program's own variable.
        unsafe { *child = started };
    }
    result as c_int
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::system(command) };
    let Some(local) = observed() else { return real() };
    starting(local, || real() as i64) as c_int
}

/// The processes behind streams of `popen`, by descriptor.
static BEHIND: [AtomicI32; 1024] = [const { AtomicI32::new(0) }; 1024];

/// Like libc's, but made of parts that are recorded.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's own call; everything below is what libc does for it.
    unsafe {
        if observed().is_none() {
            return real::popen(command, mode);
        }
        let reads = !libc::strchr(mode, c_int::from(b'r')).is_null();
        let mut ends = [0; 2];
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return core::ptr::null_mut();
        }
        let (ours, theirs) = if reads { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let mut actions: posix_spawn_file_actions_t = core::mem::zeroed();
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawn_file_actions_adddup2(&mut actions, theirs, reads as c_int);
        let arguments = [c"sh".as_ptr(), c"-c".as_ptr(), command, core::ptr::null()];
        let mut child = 0;
        unsafe extern "C" {
            static environ: *const *mut c_char;
        }
        let started = posix_spawn(
            &mut child,
            c"/bin/sh".as_ptr(),
            &actions,
            core::ptr::null(),
            arguments.as_ptr().cast(),
            environ,
        );
        libc::posix_spawn_file_actions_destroy(&mut actions);
        libc::close(theirs);
        if started != 0 {
            libc::close(ours);
            *libc::__errno_location() = started;
            return core::ptr::null_mut();
        }
        if let Some(place) = BEHIND.get(ours as usize) {
            place.store(child, Relaxed);
        }
        libc::fdopen(ours, if reads { c"r".as_ptr() } else { c"w".as_ptr() })
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pclose(stream: *mut FILE) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        let place = BEHIND.get(libc::fileno(stream) as usize);
        let child = place.map_or(0, |place| place.swap(0, Relaxed));
        if child == 0 {
            return real::pclose(stream);
        }
        libc::fclose(stream);
        let mut status = 0;
        while libc::waitpid(child, &mut status, 0) == -1 {
            if *libc::__errno_location() != libc::EINTR {
                return -1;
            }
        }
        status
    }
}
