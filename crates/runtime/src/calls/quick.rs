//! The quick way of recording a call, at scope `inputs`.
//!
//! Servers make little else than these calls, and the kernel has used the caches in between, so what counts is how
//! much code and memory a call touches. `entry::enter` looks at this table, makes the call itself and has it recorded after
//! that: a system call that is made deep inside of functions costs a wrong prediction at the return of each.
use crate::calls::check;
use crate::calls::descriptors;
use crate::calls::echoes;
use crate::calls::entry::Registers;
use crate::calls::filters;
use crate::calls::now;
use crate::calls::table;
use crate::calls::table::Size;
use crate::calls::table::Treatment;
use crate::calls::table::Written;
use crate::calls::written::Before;
use crate::calls::written::Ranges;
use crate::calls::written::collect;
use crate::control;
use crate::inputs::Range;
use crate::local::Local;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Release;
use log_format::inputs::Short;

/// Calls that the table knows.
pub const CALLS: usize = 512;

/// It is not logged: only counted.
pub const REAL: u32 = 1 << 0;
/// It is logged.
const LOGGED: u32 = 1 << 1;
/// Not if the first argument is a descriptor whose output a replay shows. Its time is when it began (`table::acts_on_others`).
pub const UNLESS_SHOWN: u32 = 1 << 2;
/// Not if the last two arguments ask for a name.
pub const UNLESS_NAMED: u32 = 1 << 3;
/// Not if the first argument is a descriptor of ours, or may be (`rights.rs`).
pub const UNLESS_OURS: u32 = 1 << 4;
/// Only if the second argument is one of the commands that read and write flags of a descriptor.
pub const ONLY_FLAGS: u32 = 1 << 5;
/// Only if the fourth argument asks for memory of the process's own.
pub const ONLY_MEMORY: u32 = 1 << 6;
/// If it is not logged: unless it waits with a time limit.
pub const UNLESS_TIMED: u32 = 1 << 7;
/// It writes a name, for which there is as much room as the word says to which the third argument points, and then how long that is.
pub const NAMES: u32 = 1 << 8;
/// All that is looked at beforehand.
pub const CONDITIONS: u32 = UNLESS_SHOWN | UNLESS_NAMED | UNLESS_OURS | ONLY_FLAGS | ONLY_MEMORY | NAMES;
/// Its result is a descriptor.
const OPENS: u32 = 1 << 9;

/// It writes something, but seldom: the table says when.
const SELDOM_WRITES: u32 = 1 << 10;

/// The range it writes if it succeeds: which argument says where, and how many there are of how many bytes. No bytes: it writes nothing.
const ARGUMENT_AT: u32 = 12;
const COUNT_AT: u32 = 16;
const BYTES_AT: u32 = 20;
/// How many: one, as many as the result says, or as one of the arguments says, counted from this.
const ONE: u32 = 0;
const RESULT: u32 = 1;
const FIRST_ARGUMENT: u32 = 2;

/// For each call: 0, it has no quick way; or what it does.
pub static QUICK: [u32; CALLS] = {
    let mut all = [0; CALLS];
    let mut number = 0;
    while number < CALLS {
        all[number] = quick(number as c_long);
        number += 1;
    }
    all
};

/// No call is here that makes one descriptor stand for what another one does, or changes who may do what, or that another part of the runtime must
/// know of.
const fn quick(number: c_long) -> u32 {
    let what = match number {
        libc::SYS_futex => REAL | UNLESS_TIMED,
        libc::SYS_mmap => REAL | ONLY_MEMORY,
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_brk | libc::SYS_madvise | libc::SYS_sched_yield => REAL,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendfile
        | libc::SYS_shutdown
        | libc::SYS_epoll_ctl => LOGGED | UNLESS_SHOWN,
        libc::SYS_close => LOGGED | UNLESS_SHOWN | UNLESS_OURS,
        libc::SYS_recvfrom => LOGGED | UNLESS_NAMED,
        libc::SYS_openat => LOGGED | OPENS,
        libc::SYS_accept | libc::SYS_accept4 => LOGGED | OPENS | NAMES,
        libc::SYS_getsockname | libc::SYS_getpeername => LOGGED | NAMES,
        libc::SYS_fcntl => LOGGED | ONLY_FLAGS,
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_getdents64
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_fstat
        | libc::SYS_newfstatat
        | libc::SYS_poll
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_lseek
        | libc::SYS_setsockopt
        | libc::SYS_times
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep => LOGGED,
        _ => return 0,
    };
    let row = table::look_up_const(number);
    let is_mapping = number == libc::SYS_mmap;
    assert!(what & REAL == 0 || is_mapping || matches!(row.treatment, Treatment::Real | Treatment::Yield));
    assert!(what & LOGGED == 0 || matches!(row.treatment, Treatment::Logged));
    assert!(what & LOGGED == 0 || table::acts_on_others(number) == (what & UNLESS_SHOWN != 0));
    let writes = match row.writes {
        // The name, which is not asked for.
        [first, _, _] if what & UNLESS_NAMED != 0 => range(first),
        [first, second] if what & NAMES != 0 => {
            assert!(matches!(first.size, Size::LengthAt(2)) && second.argument == 2);
            0
        }
        [] => 0,
        [only] => range(only),
        _ => panic!("writes several things"),
    };
    let is_by_argument = row.by.is_some() && what & (REAL | ONLY_FLAGS) == 0;
    let seldom = if is_by_argument || !row.failing.is_empty() {
        SELDOM_WRITES
    } else {
        0
    };
    what | writes | seldom
}

/// What is written, as the table has it.
const fn range(written: &Written) -> u32 {
    let (count, bytes) = match written.size {
        Size::Fixed(bytes) => (ONE, bytes),
        Size::Result(bytes, _) => (RESULT, bytes),
        Size::Argument(count, bytes) => (FIRST_ARGUMENT + count as u32, bytes),
        _ => panic!("writes something else"),
    };
    assert!(bytes < 1 << (u32::BITS - BYTES_AT));
    (written.argument as u32) << ARGUMENT_AT | count << COUNT_AT | bytes << BYTES_AT
}

/// What a call of this kind has written: where, and how many bytes.
#[inline]
fn written(what: u32, arguments: &[usize; 6], result: isize) -> Option<(u64, usize)> {
    let field = |at: u32| (what >> at & 0xf) as usize;
    let bytes = (what >> BYTES_AT) as usize;
    if bytes == 0 || result < 0 {
        return None;
    }
    let address = arguments[field(ARGUMENT_AT) % arguments.len()];
    let count = match field(COUNT_AT) as u32 {
        ONE => 1,
        RESULT => result as usize,
        argument => arguments[(argument - FIRST_ARGUMENT) as usize % arguments.len()],
    };
    (address != 0 && count != 0).then_some((address as u64, count * bytes))
}

/// The calling thread, if its calls can be recorded the quick way.
#[inline]
pub fn current() -> Option<&'static Local> {
    if !control::is_quick() {
        return None;
    }
    Local::current().filter(|local| !(local.calls_pass.get() | local.inside_event.get() | local.ends_unseen.get()))
}

/// Called by `entry::enter` when it has made a call that is logged.
pub extern "C-unwind" fn record(registers: &Registers, result: isize) -> isize {
    let (number, arguments) = (registers.number, &registers.arguments);
    let Some(local) = Local::current() else {
        return result;
    };
    let what = QUICK[number as usize % CALLS];
    let mut range = written(what, arguments, result);
    if what & OPENS != 0 && result >= 0 {
        descriptors::follow(number, arguments, result);
    }
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
    if what & NAMES != 0 && arguments[2] != 0 && result >= 0 {
        local.record_name(&call, registers);
    } else if what & SELDOM_WRITES != 0 && local.record_seldom(&call, arguments) {
        // SAFETY: the kernel has just written the range, or read it.
    } else if !unsafe { local.inputs.writer.append_short(&call) } {
        local.record_at_length(&call);
    }
    // Release: as in `Local::complete`; nobody waits for events while recording.
    local.slot.count.store(call.event + 1, Release);
    if local.inputs.pending.count.get() != 0 {
        return local.deliver_after_quick_call(registers, result);
    }
    result
}

/// Called by `entry::enter` when it has made a call that is not logged, and it has failed, or a signal is pending.
pub extern "C-unwind" fn look_behind(registers: &Registers, result: isize) -> isize {
    let Some(local) = Local::current() else {
        return result;
    };
    local.record_refusal(registers.number, &registers.arguments, result);
    local.deliver_after_quick_call(registers, result)
}

impl Local {
    /// Handlers run, and are told what the call has left in the registers.
    #[cold]
    fn deliver_after_quick_call(&self, registers: &Registers, result: isize) -> isize {
        let result = filters::result_of(registers.number, result);
        if self.inputs.pending.count.get() != 0 {
            self.inputs.call.set(Some(registers.under_way(Some(result))));
            self.after_call();
            self.inputs.call.set(None);
        }
        result
    }

    #[cold]
    fn record_at_length(&self, call: &Short) {
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
        self.record_ranges(call, ranges);
    }

    /// A call that wrote a name and its length.
    #[inline(never)]
    fn record_name(&self, call: &Short, registers: &Registers) {
        let arguments = &registers.arguments;
        let writes = table::look_up(registers.number, arguments).writes;
        let mut lengths = [0; 6];
        lengths[2] = registers.room;
        let before = Before::with_lengths(lengths);
        let mut ranges = Ranges::new();
        collect(writes, arguments, arguments, call.result as isize, &before, &mut ranges);
        self.record_ranges(call, ranges.all());
    }

    /// A call that seldom writes something. False: this one did not.
    #[inline(never)]
    fn record_seldom(&self, call: &Short, arguments: &[usize; 6]) -> bool {
        let result = call.result as isize;
        let writes = table::look_up(call.number as c_long, arguments).written(result);
        if !writes.is_empty() {
            let mut ranges = Ranges::new();
            let before = Before::with_lengths([0; 6]);
            collect(writes, arguments, arguments, result, &before, &mut ranges);
            self.record_ranges(call, ranges.all());
        }
        !writes.is_empty()
    }

    fn record_ranges(&self, call: &Short, ranges: &[Range]) {
        let mut entry = self.input_entry(call.number as c_long, call.result as isize, call.check);
        entry.time = call.time;
        entry.check = call.check;
        self.append_entry(entry, ranges);
    }
}
