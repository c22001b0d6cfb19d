//! The quick way of recording a call, at scope `inputs`.
//!
//! Servers make little else than these calls, and the kernel has used the caches in between, so what counts is how
//! much code and memory a call touches. `entry::enter` looks at this table, makes the call itself and has it recorded after
//! that: a system call that is made deep inside of functions costs a wrong prediction at the return of each.
use crate::calls::check;
use crate::calls::echoes;
use crate::calls::entry::Registers;
use crate::calls::inputs::Range;
use crate::calls::now;
use crate::calls::table;
use crate::calls::table::Size;
use crate::calls::table::Treatment;
use crate::control;
use crate::local::Local;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Release;
use log_format::inputs::Short;

/// Calls that the table knows.
pub const CALLS: usize = 512;

/// It is not logged: only counted.
pub const REAL: u8 = 1 << 7;
/// It is logged.
const LOGGED: u8 = 1 << 6;
/// Not if the first argument is a descriptor whose output a replay shows. Its time is when it began (`table::acts_on_others`).
pub const UNLESS_SHOWN: u8 = 1 << 5;
/// Not if the last two arguments ask for a name.
pub const UNLESS_NAMED: u8 = 1 << 4;
/// If it is not logged: unless it waits with a time limit.
pub const UNLESS_TIMED: u8 = 1;
/// As many elements as the result says are written to where the second argument points: the size of one.
const ELEMENT: u8 = UNLESS_NAMED - 1;

/// For each call: 0, it has no quick way; or what it does.
pub static QUICK: [u8; CALLS] = {
    let mut all = [0; CALLS];
    let mut number = 0;
    while number < CALLS {
        all[number] = quick(number as c_long);
        number += 1;
    }
    all
};

/// No call is here that changes what descriptors stand for, or who may do what, or that another part of the runtime must know of.
const fn quick(number: c_long) -> u8 {
    let what = match number {
        libc::SYS_futex => REAL | UNLESS_TIMED,
        libc::SYS_madvise | libc::SYS_sched_yield => REAL,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_epoll_ctl => LOGGED | UNLESS_SHOWN,
        libc::SYS_recvfrom => LOGGED | UNLESS_NAMED | 1,
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_getdents64
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_lseek
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep => LOGGED | element(number),
        _ => 0,
    };
    let treatment = table::look_up_const(number).treatment;
    assert!(what & REAL == 0 || matches!(treatment, Treatment::Real | Treatment::Yield));
    assert!(what & LOGGED == 0 || matches!(treatment, Treatment::Logged));
    assert!(what & LOGGED == 0 || table::acts_on_others(number) == (what & UNLESS_SHOWN != 0));
    what
}

/// The size of what the call writes so many of.
const fn element(number: c_long) -> u8 {
    match table::look_up_const(number).writes {
        [] => 0,
        [written] => match written.size {
            Size::Result(bytes, _) if written.argument == 1 && bytes <= ELEMENT as u32 => bytes as u8,
            _ => panic!("writes something else"),
        },
        _ => panic!("writes several things"),
    }
}

/// The calling thread, if its calls can be recorded the quick way.
#[inline]
pub fn current() -> Option<&'static mut Local> {
    if !control::is_quick() {
        return None;
    }
    Local::current().filter(|local| !(local.calls_pass | local.inside_event | local.ends_unseen))
}

/// Called by `entry::enter` when it has made a call that is logged.
pub extern "C-unwind" fn record(registers: &Registers, result: isize) -> isize {
    let (number, arguments) = (registers.number, &registers.arguments);
    let Some(local) = Local::current() else {
        return result;
    };
    let element = (QUICK[number as usize % CALLS] & ELEMENT) as usize;
    let written = if result > 0 { result as usize * element } else { 0 };
    let mut range = (written != 0).then_some((arguments[1] as u64, written));
    if number == libc::SYS_epoll_ctl && result == 0 {
        range = echoes::range(number, arguments).map(|given| (given.address as u64, given.bytes));
    }
    let mut call = Short {
        event: local.event(),
        number: number as u32,
        check: 0,
        result: result as i64,
        time: 0,
        range,
    };
    if !control::is_threaded() {
        call.check = check(number, arguments, result);
    } else if table::acts_on_others(number) {
        let given = check(number, arguments, result);
        call.time = registers.began;
        call.check = log_format::inputs::with_duration(given, call.time, now());
    } else {
        call.time = now();
        call.check = match log_format::inputs::waits(number as u32) {
            true => log_format::inputs::duration(registers.began, call.time),
            false => check(number, arguments, result),
        };
    }
    local.note_label(call.number, call.time, registers.stack());
    // SAFETY: the kernel has just written the range, or read it.
    if !unsafe { local.inputs.append_short(&call) } {
        local.record_at_length(&call);
    }
    // Release: as in `Local::complete`; nobody waits for events while recording.
    local.slot.count.store(call.event + 1, Release);
    if local.pending.count != 0 {
        local.at_safe_point();
    }
    result
}

/// Called by `entry::enter` when it has made a call that is not logged, and a signal is pending.
pub extern "C-unwind" fn deliver(_: &Registers, result: isize) -> isize {
    if let Some(local) = Local::current() {
        local.at_safe_point();
    }
    result
}

impl Local {
    #[cold]
    fn record_at_length(&mut self, call: &Short) {
        let (address, bytes) = call.range.unwrap_or((0, 0));
        let range = Range {
            address: address as usize,
            from: address as usize,
            bytes,
        };
        let ranges = if bytes == 0 {
            &[][..]
        } else {
            core::slice::from_ref(&range)
        };
        let mut entry = self.input_entry(call.number as c_long, call.result as isize, call.check);
        entry.time = call.time;
        entry.check = call.check;
        self.append_entry(entry, ranges);
    }
}
