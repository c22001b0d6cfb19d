//! System calls: recorded where they happen, answered from the log in replay. See `README.md`.
mod alone;
mod annotated;
mod answered;
mod buffers;
mod by_argument;
pub mod cancellation;
mod channels;
mod compared;
pub mod contexts;
mod delivery;
mod descriptors;
mod echoes;
mod entry;
mod epolls;
mod filters;
mod futexes;
mod in_turn;
mod instructions;
mod labels;
mod live;
mod local_state;
mod mirrors;
mod objects;
mod ordered;
mod others_memory;
mod outgoing;
mod own_memory;
mod passed_on;
pub mod patch;
mod pieces;
mod places;
mod polls;
mod quick;
mod recorded;
mod refused;
pub mod rights;
mod rows;
pub mod signals;
mod spinning;
mod table;
mod vdso;
mod written;

pub use crate::control::are_calls_installed as is_installed;
pub use alone::begin_process as begin_alone;
pub use channels::share_all as share_channels;
pub use descriptors::alone as write_alone;
pub use descriptors::nobody_writes;
pub use futexes::observing_futexes;
pub use in_turn::note_cancel;
pub use in_turn::note_spawn;
pub use instructions::__refrain_instruction as note_instruction;
pub use local_state::object_of_descriptor;
pub use objects::consider_guest;
pub use ordered::is_on as orders_calls;
pub use others_memory::open as open_changes;
pub use patch::returns_to;

use crate::brought_back;
use crate::control;
use crate::ending;
use crate::handlers;
use crate::inputs;
use crate::inputs::Range;
use crate::local::Local;
use crate::local::unrecorded;
use crate::policy;
use crate::policy::Inputs;
use crate::preload;
use crate::replay::Doing;
use crate::sys;
use crate::turns;
use core::ffi::c_long;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use log_format::inputs::CHECKED_BYTES;
use run_model::Kind;
use run_model::Op;
use table::Size;
use table::Treatment;
use table::Written;
use written::Before;
use written::Ranges;
use written::collect;

/// Once, before there is a second thread: system calls come to us from now on, if the tool found libc's.
pub fn install() {
    objects::install();
    if is_installed() {
        control::observe_calls(policy::are_inputs_recorded() && control::inputs_only() && !alone::is_wanted());
        vdso::install();
        cancellation::install();
    }
    descriptors::begin();
    control::header().progress.calls.store(is_installed() as u32, Relaxed);
}

/// A function of libc's that does more, or less, than to make the system call `number`: recorded like that.
pub fn as_one_call(number: c_long, arguments: &[usize; 6], mut real: impl FnMut(&[usize; 6]) -> isize) -> isize {
    let Some(local) = Local::current().filter(|local| !local.calls_pass.get() && is_installed()) else {
        return real(arguments);
    };
    match policy::inputs() {
        Inputs::Live => local.pass_call(number, arguments, real),
        Inputs::Recorded => local.record_call(number, arguments, real),
        Inputs::Answered => local.answer_call(number, arguments),
    }
}

/// Clocks that are read without entering the kernel: like the system call `number`.
#[inline(always)]
pub fn clock(number: c_long, arguments: &[usize; 6], mut real: impl FnMut(&[usize; 6]) -> isize) -> isize {
    let Some(local) = quick::current() else {
        return any_clock(number, arguments, real);
    };
    let result = real(arguments);
    if !local.record_clock(number, arguments, result) {
        // It has been done; the rest is as for any other call.
        return as_one_call(number, arguments, |_| result);
    }
    // Nobody waits for events while recording.
    local.slot.count.store(local.event() + 1, Release);
    if local.inputs.pending.count.get() != 0 {
        local.after_call();
    }
    result
}

#[inline(never)]
fn any_clock(number: c_long, arguments: &[usize; 6], real: impl FnMut(&[usize; 6]) -> isize) -> isize {
    let result = read_clock(number, arguments, real);
    // A program may look at the clock until a handler tells it to stop.
    if let Some(local) = Local::current().filter(|_| !policy::is_free()) {
        local.after_call();
    }
    result
}

fn read_clock(number: c_long, arguments: &[usize; 6], mut real: impl FnMut(&[usize; 6]) -> isize) -> isize {
    match (policy::inputs(), Local::current()) {
        (Inputs::Recorded, Some(local)) if !local.calls_pass.get() && is_installed() && !control::observes_memory() => {
            let result = real(arguments);
            if !local.record_clock(number, arguments, result) {
                return local.record_call(number, arguments, |_| result);
            }
            if !local.inside_event.get() {
                local.complete();
            }
            result
        }
        _ => as_one_call(number, arguments, real),
    }
}

/// A system call of the program's, or of libc's in its name.
///
/// # Safety
/// As the system call demands of its arguments.
pub unsafe fn system_call(number: c_long, arguments: &[usize; 6]) -> isize {
    let any_call = |arguments: &[usize; 6]| {
        turns::quietly(|| {
            // SAFETY: the caller promises what the system call demands of its arguments.
            let result = unsafe { any_call(number, arguments) };
            turns::after_call(number);
            filters::result_of(number, result)
        })
    };
    match preload::path_of(number) {
        None => any_call(arguments),
        // SAFETY: the caller promises what the system call demands of its arguments.
        Some(path) => unsafe { preload::executing(arguments, path, any_call) },
    }
}

/// # Safety
/// As the system call demands of its arguments.
unsafe fn any_call(mut number: c_long, arguments: &[usize; 6]) -> isize {
    if number == libc::SYS_exit && !policy::is_free() && control::has_one_thread() {
        // The end of its only thread is the end of the process.
        number = libc::SYS_exit_group;
    }
    let asked = number;
    // SAFETY: the caller promises what the system call demands of its arguments.
    let real = |arguments: &[usize; 6]| unsafe {
        if matches!(asked, libc::SYS_seccomp | libc::SYS_prctl)
            && let Some(result) = filters::install(asked, arguments)
        {
            return result;
        }
        alone::make(asked, arguments, || {
            rights::system_call(asked, *arguments, Local::pending_before(asked, arguments))
        })
    };
    let number = table::logged_as(number);
    // Ours stays: `cancellation.rs`.
    if number == libc::SYS_rt_sigaction && cancellation::is_ours(arguments[0]) {
        return 0;
    }
    if policy::is_free() {
        // Without a look at the thread, which may have a thread pointer of the program's (`clones::take_pointer`).
        // SAFETY: the caller promises what the system call demands of its arguments.
        return unsafe { rights::system_call(number, *arguments, None) };
    }
    if number == libc::SYS_rt_sigaction && handlers::is_cancellation(arguments[0]) {
        // libc installs it inside of a call that passes.
        // SAFETY: the caller promises what the system call demands of its arguments.
        return unsafe { signals::set_action(*arguments) };
    }
    if is_shared_mapping(number, arguments) {
        control::share_memory(control::writes_shared() || may_be_written(number, arguments));
    }
    if turns::hides_from_copies(number, arguments) {
        return 0;
    }
    if policy::are_inputs_recorded() && rights::gives_up(number) {
        rights::before_giving_up(number, arguments);
    }
    let Some(local) = Local::current() else {
        return real(arguments);
    };
    if local.birth.is_cloned.get() && local.ends_by(number) && !local.calls_pass.get() {
        return local.end_clone(number, arguments);
    }
    let number = match alone::logs(local, number, arguments) {
        true => alone::FUTEX,
        false => number,
    };
    if number == libc::SYS_exit {
        local.leave_alone();
    }
    if turns::is_on() && turns::has_turn(local.index) {
        match number {
            libc::SYS_futex => return local.take_turns_at_futex(arguments, real),
            libc::SYS_exit => turns::leave(local),
            _ => {}
        }
    }
    let treatment = table::look_up(number, arguments).treatment;
    // Also of a child of posix_spawn that found no program: until it is gone, our memory is its own.
    if local.calls_pass.get() {
        return match turns::is_on() {
            true => real(&turns::with_real_names(number, arguments)),
            false if local.is_open_wait(number) => local.wait_interruptibly(|| real(arguments)),
            false => real(arguments),
        };
    }
    if treatment == Treatment::End {
        ending::at_last_call();
        brought_back::leave();
        note_exit_status(arguments[0]);
    }
    if local.ends_unseen.get() {
        return real(arguments);
    }
    if treatment == Treatment::Unknown {
        note_unknown(number);
    }
    let result = match treatment {
        Treatment::SignalAction => local.unless_refused(number, arguments, || {
            // SAFETY: the caller promises what the system call demands of its arguments.
            unsafe { signals::set_action(*arguments) }
        }),
        Treatment::SignalStack => local.unless_refused(number, arguments, || {
            // SAFETY: the caller promises what the system call demands of its arguments.
            unsafe { signals::set_stack(local, *arguments) }
        }),
        Treatment::Refused => {
            note_first(&control::header().progress.refused_call, number);
            -libc::ENOSYS as isize
        }
        _ => match policy::inputs() {
            Inputs::Live => local.pass_any_call(treatment, number, arguments, real),
            Inputs::Recorded => local.record_any_call(treatment, number, arguments, real),
            Inputs::Answered => local.answer_any_call(treatment, number, arguments, real),
        },
    };
    local.note_mask(number, arguments, result);
    local.note_result(filters::result_of(asked, result));
    local.after_call();
    local.inputs.call_mask.set(None);
    local.after_call_alone(number, arguments);
    result
}

/// Memory that others may write, too?
fn is_shared_mapping(number: c_long, arguments: &[usize; 6]) -> bool {
    let of_mapping = arguments[3] as i32 & libc::MAP_TYPE;
    number == libc::SYS_shmat || number == libc::SYS_mmap && of_mapping != libc::MAP_PRIVATE
}

/// Shared memory: through this mapping, or by writing to its file?
fn may_be_written(number: c_long, arguments: &[usize; 6]) -> bool {
    let is_of_file = arguments[3] as i32 & libc::MAP_ANONYMOUS == 0;
    number == libc::SYS_shmat
        || arguments[2] as i32 & libc::PROT_WRITE != 0
        || is_of_file && policy::are_inputs_recorded() && sys::is_open_to_write(arguments[4] as i32)
}

fn note_unknown(number: c_long) {
    note_first(&control::header().progress.unknown_call, number);
}

fn note_first(place: &AtomicU32, number: c_long) {
    // Relaxed: a lone number; the first one wins.
    _ = place.compare_exchange(0, number as u32 + 1, Relaxed, Relaxed);
}

impl Local {
    /// A call that is made and not logged.
    fn count_real_call(&self, number: c_long) {
        self.inputs.real_calls.set(self.inputs.real_calls.get() + 1);
        if number != libc::SYS_futex {
            self.inputs.sure_calls.set(self.inputs.sure_calls.get() + 1);
        }
        if number == libc::SYS_rt_sigprocmask {
            self.inputs.mask_changes.set(self.inputs.mask_changes.get() + 1);
        }
    }

    /// Makes a call so that what it writes can become writes of this thread's: `take_in`. Collects what that is.
    #[inline]
    fn make(
        &self,
        number: c_long,
        arguments: &[usize; 6],
        ranges: &mut Ranges,
        real: impl FnOnce(&[usize; 6]) -> isize,
    ) -> isize {
        let row = table::look_up(number, arguments);
        let writes = row.writes;
        let before = Before::look(&row, arguments, || self.inputs.writer.spare());
        let replaced;
        let own = if self.inside_event.get() || !control::observes_memory() {
            arguments
        } else {
            replaced = self.with_own_memory(writes, arguments, &before.lengths);
            &replaced
        };
        let result = real(own);
        if result >= 0 {
            match number {
                libc::SYS_mmap => mirrors::record_mapping(arguments, result, ranges, || self.inputs.writer.spare()),
                libc::SYS_shmat => mirrors::record_segment(arguments, result, ranges),
                _ => collect(writes, arguments, own, result, &before, ranges),
            }
            descriptors::follow(number, arguments, result);
            mirrors::record_write(number, arguments, result, ranges, || self.inputs.writer.spare());
            own_memory::record_write(number, arguments, result, ranges);
            others_memory::record_write(number, arguments, result);
        } else if let failing @ [_, ..] = row.written(result) {
            collect(failing, arguments, own, result, &before, ranges);
        }
        if ranges.is_short {
            note_unknown(number);
        }
        result
    }

    /// The arguments of a call with memory of ours in the place of what it writes: the program's memory is then written
    /// by the access protocol, at a moment that other threads agree on.
    fn with_own_memory(&self, writes: &[Written], arguments: &[usize; 6], lengths: &[u32; 6]) -> [usize; 6] {
        let mut own = *arguments;
        let room = |size: Size| match size {
            Size::Fixed(bytes) => Some((bytes as usize, true)),
            Size::Result(each, room) => Some((arguments[room as usize].checked_mul(each as usize)?, false)),
            Size::Argument(count, each) => Some((arguments[count as usize].checked_mul(each as usize)?, true)),
            Size::LengthAt(at) => Some((lengths[at as usize] as usize, false)),
            Size::Bits(count) => Some((arguments[count as usize].div_ceil(64) * 8, true)),
            Size::Headed(head) => Some((arguments[2].checked_add(head as usize)?, false)),
            // Pointers behind pointers, or what is found by comparing: written in place.
            _ => None,
        };
        // Not kept: no handler runs before it is taken in.
        let Some([mut next, end]) = self.inputs.writer.spare() else {
            return own;
        };
        let end = end - written::KEPT_BYTES;
        for written in writes {
            let address = arguments[written.argument as usize];
            let Some((bytes, is_read)) = room(written.size) else {
                return *arguments;
            };
            if address == 0 || bytes == 0 {
                continue;
            }
            if bytes > end - next {
                return *arguments;
            }
            if is_read {
                inputs::copy(address as *const u8, next as *mut u8, bytes);
            }
            own[written.argument as usize] = next;
            next += bytes.next_multiple_of(16);
        }
        own
    }

    /// What the kernel wrote is a write of this thread's: stored once more, by the access protocol. New memory is nobody else's
    /// yet, and may be read-only.
    fn take_in(&self, number: c_long, ranges: &[Range]) {
        // What a call to write brought in is in the program's memory already, as it may be protected (`own_memory.rs`).
        let is_there = matches!(number, libc::SYS_mmap | libc::SYS_shmat) || own_memory::writes(number);
        if policy::is_free() && !is_there {
            // It was made when its memory was still observed.
            for range in ranges {
                inputs::copy(range.from as *const u8, range.address as *mut u8, range.bytes);
            }
        }
        if !control::observes_memory() || is_there {
            return;
        }
        for range in ranges.iter().filter(|range| !mirrors::is_of_file(range.address as u64)) {
            // SAFETY: the program gave this memory to the kernel to be written; `from` has as many bytes.
            unsafe { self.store_answer(range.address as *mut u8, range.from as *const u8, range.bytes) };
        }
    }

    /// Stores a part of what a call brings in. No handler runs before all of it is there: that is when the call has returned.
    ///
    /// # Safety
    /// As for `store_from_outside`.
    unsafe fn store_answer(&self, to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: the caller promises what that demands.
        unrecorded(|| unsafe { self.store_from_outside(to, from, bytes) });
    }
}

/// A call, for reports of divergence.
fn doing(number: c_long) -> Doing {
    Doing {
        kind: Kind::Sync,
        op: Op::Call,
        object: number as u64,
    }
}

/// Is this in the part of the caller's stack that has just been used? Nobody else writes there.
fn is_on_stack(address: usize) -> bool {
    const NEAR: usize = 1 << 16;
    let here = &raw const address as usize;
    (here..here + NEAR).contains(&address)
}

/// Does the program, or the calling thread, send itself a signal? The ids it knows are the recorded ones.
fn is_to_self(number: c_long, arguments: &[usize; 6], thread: impl FnOnce() -> u32) -> bool {
    match number {
        // To the group that it is in.
        libc::SYS_kill if arguments[0] as i32 == 0 => true,
        libc::SYS_kill | libc::SYS_tgkill => arguments[0] == control::header().identity.pid.load(Relaxed) as usize,
        libc::SYS_tkill => arguments[0] as u32 == thread(),
        _ => false,
    }
}

/// The signal that a call sends.
fn sent_signal(number: c_long, arguments: &[usize; 6]) -> usize {
    arguments[if number == libc::SYS_tgkill { 2 } else { 1 }]
}

/// Does this signal stop a process that does not handle it?
fn is_stop(signal: usize) -> bool {
    matches!(
        signal as i32,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
    )
}

/// Condenses what the program gives to a call: the bytes it sends out, or its small arguments.
fn check(number: c_long, arguments: &[usize; 6], result: isize) -> u32 {
    // A call that failed may have been given nonsense.
    if result < 0 {
        return 0;
    }
    if let Some((bytes, count)) = table::outgoing(number) {
        return condensed(arguments[bytes], arguments[count], CHECKED_BYTES);
    }
    match number {
        libc::SYS_writev => buffers::check(arguments[1], arguments[2]),
        libc::SYS_sendmsg => {
            let (buffers, count) = buffers::of_message(arguments[1]);
            buffers::check(buffers, count)
        }
        _ if in_turn::asks_for_heap(number, arguments) => inputs::ASKS_FOR_HEAP,
        _ => number as u32 | 1,
    }
}

/// Condenses bytes that the program gives out, or has given out: the first ones of them.
#[inline]
fn condensed(address: usize, count: usize, bytes_max: usize) -> u32 {
    // SAFETY: the kernel has read them, or written them; or they are a copy of ours.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, count.min(bytes_max)) };
    log_format::inputs::condensed(bytes, count)
}

/// The processor's time-stamp counter, if it is of interest.
#[inline]
pub fn now() -> u64 {
    if !control::inputs_only() || !control::is_threaded() {
        return 0;
    }
    // SAFETY: an instruction that reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Tells the tool how the process is about to end.
fn note_exit_status(status: usize) {
    control::header()
        .progress
        .ended
        .store((status as u32 & 0xff) + 1, Release);
}
