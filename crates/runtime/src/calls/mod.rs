//! System calls: recorded where they happen, answered from the log in replay. See `README.md`.
mod buffers;
pub mod cancellation;
mod channels;
mod descriptors;
mod echoes;
mod entry;
mod in_turn;
mod inputs;
mod instructions;
mod labels;
mod objects;
pub mod patch;
mod places;
mod quick;
pub mod rights;
pub mod signals;
mod stream;
mod table;
mod vdso;
mod written;

pub use channels::share_all as share_channels;
pub use descriptors::alone as write_alone;
pub use descriptors::nobody_writes;
pub use in_turn::note_cancel;
pub use in_turn::note_spawn;
pub use inputs::InputReader;
pub use inputs::InputWriter;
pub use inputs::unmap as unmap_inputs;
pub use instructions::__refrain_instruction as note_instruction;
pub use labels::CallLabels;
pub use labels::stack_top;
pub use objects::consider_guest;
pub use objects::is_installed;
pub use patch::returns_to;
pub use signals::Action;
pub use signals::NEVER_BLOCKED;
pub use signals::Pending;
pub use signals::SignalStack;

use crate::access::Reach;
use crate::control;
use crate::control::Mode;
use crate::ending;
use crate::host;
use crate::local::Local;
use crate::preload;
use crate::processes;
use crate::replay::Doing;
use crate::sys;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_long;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use inputs::Range;
use log_format::inputs::Call;
use log_format::inputs::Clock;
use log_format::inputs::ClockNumber;
use log_format::inputs::Entry;
use log_format::inputs::RangeHash;
use run_model::Kind;
use run_model::Op;
use runtime_abi::divergence;
use table::Size;
use table::Treatment;
use table::Written;
use written::Ranges;
use written::collect;
use written::collect_mapping;
use written::lengths_before;

/// Outgoing bytes that are compared in replay, at most.
const CHECKED_BYTES: usize = 4096;

/// Once, before there is a second thread: system calls come to us from now on, if the tool found libc's.
pub fn install() {
    objects::install();
    if is_installed() {
        control::observe_calls();
        vdso::install();
        cancellation::install();
    }
    descriptors::begin();
    processes::note_calls();
}

/// Does `action`, whose system calls are no part of the run.
pub fn unrecorded<R>(action: impl FnOnce() -> R) -> R {
    let set = |pass: bool| Local::current().map(|local| core::mem::replace(&mut local.calls_pass, pass));
    let before = set(true);
    let result = action();
    set(before.unwrap_or(false));
    result
}

/// A function of libc's that does more, or less, than to make the system call `number`: recorded like that.
pub fn as_one_call(number: c_long, arguments: &[usize; 6], real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
    match (control::mode(), Local::current()) {
        (Mode::Record, Some(local)) if !local.calls_pass && is_installed() => {
            local.record_call(number, arguments, real)
        }
        (Mode::Replay, Some(local)) if !local.calls_pass && is_installed() => local.answer(number, arguments),
        _ => real(arguments),
    }
}

/// Clocks that are read without entering the kernel: like the system call `number`.
#[inline(always)]
pub fn clock(number: c_long, arguments: &[usize; 6], real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
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
    result
}

#[inline(never)]
fn any_clock(number: c_long, arguments: &[usize; 6], real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
    match (control::mode(), Local::current()) {
        (Mode::Record, Some(local)) if !local.calls_pass && is_installed() && !control::observes_memory() => {
            let result = real(arguments);
            if !local.record_clock(number, arguments, result) {
                return local.record_call(number, arguments, |_| result);
            }
            if !local.inside_event {
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
            // SAFETY: the caller's promise.
            let result = unsafe { any_call(number, arguments) };
            turns::after_call(number);
            result
        })
    };
    match preload::path_of(number) {
        None => any_call(arguments),
        // SAFETY: the caller's promise.
        Some(path) => unsafe { preload::executing(arguments, path, any_call) },
    }
}

/// # Safety
/// As the system call demands of its arguments.
unsafe fn any_call(number: c_long, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    let real = |arguments: &[usize; 6]| unsafe { rights::system_call(number, *arguments) };
    // Ours stays: `cancellation.rs`.
    if number == libc::SYS_rt_sigaction && cancellation::is_ours(arguments[0]) {
        return 0;
    }
    if control::mode() == Mode::Off {
        return real(arguments);
    }
    if number == libc::SYS_rt_sigaction && cancellation::is_signal(arguments[0]) {
        // libc installs it inside of a call that passes.
        // SAFETY: the caller's promise.
        return unsafe { signals::set_action(*arguments) };
    }
    if is_shared_mapping(number, arguments) {
        control::share_memory(number == libc::SYS_shmat || arguments[2] as i32 & libc::PROT_WRITE != 0);
    }
    if turns::hides_from_copies(number, arguments) {
        return 0;
    }
    if control::mode() == Mode::Record && rights::gives_up(number) {
        rights::before_giving_up(number, arguments);
    }
    let Some(local) = Local::current() else {
        return real(arguments);
    };
    if turns::is_on() && turns::has_turn(local.index) {
        match number {
            libc::SYS_futex => return local.take_turns_at_futex(arguments, real),
            libc::SYS_exit => turns::leave(local),
            _ => {}
        }
    }
    let treatment = table::look_up(number, arguments).treatment;
    // Also of a child of posix_spawn that found no program: until it is gone, our memory is its own.
    if local.calls_pass {
        return match turns::is_on() {
            true => real(&turns::with_real_names(number, arguments)),
            false => real(arguments),
        };
    }
    if treatment == Treatment::End {
        ending::at_last_call();
        processes::note_exit_status(arguments[0]);
    }
    if local.ends_unseen {
        return real(arguments);
    }
    let is_replay = control::mode() == Mode::Replay;
    let result = match treatment {
        Treatment::Yield if is_replay => {
            local.real_calls += 1;
            if turns::is_on() {
                turns::give_way(local);
            }
            0
        }
        Treatment::Real | Treatment::Yield | Treatment::End => {
            local.real_calls += 1;
            let result = real(arguments);
            if number == libc::SYS_futex && !is_replay {
                local.record_timed_wait(arguments, result);
            }
            result
        }
        Treatment::Fork if is_replay => local.replay_fork(number, *arguments),
        Treatment::Fork => local.record_fork(number, || real(arguments)),
        Treatment::Exec if is_replay => local.replay_exec(number),
        Treatment::Exec => local.record_exec(number, || real(arguments)),
        // SAFETY: the caller's promise.
        Treatment::SignalAction => unsafe { signals::set_action(*arguments) },
        // SAFETY: the caller's promise.
        Treatment::SignalStack => unsafe { signals::set_stack(local, *arguments) },
        Treatment::Refused => {
            note_first(&control::header().refused_call, number);
            -libc::ENOSYS as isize
        }
        Treatment::Logged | Treatment::Unknown => {
            if treatment == Treatment::Unknown {
                note_unknown(number);
            }
            match is_replay {
                true => {
                    let result = local.answer(number, arguments);
                    local.deliver_behind(number, result);
                    result
                }
                false => local.record_call(number, arguments, real),
            }
        }
    };
    local.at_safe_point();
    result
}

/// Memory that others may write, too?
fn is_shared_mapping(number: c_long, arguments: &[usize; 6]) -> bool {
    let of_mapping = arguments[3] as i32 & libc::MAP_TYPE;
    number == libc::SYS_shmat || number == libc::SYS_mmap && of_mapping != libc::MAP_PRIVATE
}

fn note_unknown(number: c_long) {
    note_first(&control::header().unknown_call, number);
}

fn note_first(place: &AtomicU32, number: c_long) {
    // Relaxed: a lone number; the first one wins.
    _ = place.compare_exchange(0, number as u32 + 1, Relaxed, Relaxed);
}

impl Local {
    fn record_call(
        &mut self,
        number: c_long,
        arguments: &[usize; 6],
        real: impl FnOnce(&[usize; 6]) -> isize,
    ) -> isize {
        self.declare_outgoing(number, arguments);
        if is_to_self(number, arguments, sys::thread_id) {
            // It may be the end of this thread, so it is logged before it happens.
            self.log_call(number, 0, check(number, arguments, 0), &[]);
            self.complete();
            return real(arguments);
        }
        let shown = descriptors::shown(arguments[0]).filter(|_| table::writes(number));
        if let (libc::SYS_write, Some(stream)) = (number, shown) {
            return self.record_output(stream, arguments, real);
        }
        let _stream = shown.and_then(descriptors::alone);
        let _turn = shown.and_then(|stream| processes::take_turn(self, stream));
        let began = stamp(number);
        let memory = control::observes_memory();
        let writes = table::look_up(number, arguments).writes;
        let lengths = lengths_before(writes, arguments);
        let replaced;
        let own = if self.inside_event || !memory {
            arguments
        } else {
            replaced = self.with_own_memory(writes, arguments, &lengths);
            &replaced
        };
        // Nobody takes memory from a thread while memory is not observed.
        let result = match memory && table::blocks(number) {
            true => self.blocking(|| real(own)),
            false => real(own),
        };
        let mut ranges = Ranges::new();
        if result >= 0 {
            match number {
                libc::SYS_mmap => collect_mapping(arguments, result, &mut ranges),
                _ => collect(writes, arguments, own, result, &lengths, &mut ranges),
            }
            descriptors::follow(number, arguments, result);
            if number == libc::SYS_writev {
                descriptors::count_shown(arguments[0], result as u64);
            }
            if let Some(given) = echoes::range(number, arguments) {
                ranges.add(given.address, given.from, given.bytes);
            }
        }
        if ranges.is_short {
            note_unknown(number);
        }
        let mut entry = self.input_entry(number, result, check(number, arguments, result));
        if table::acts_on_others(number) && began != 0 {
            entry.check = log_format::inputs::with_duration(entry.check, began, entry.time);
            entry.time = began;
        } else if began != 0 && log_format::inputs::waits(number as u32) {
            entry.check = log_format::inputs::duration(began, entry.time);
        }
        self.log_entry(entry, ranges.all());
        if !self.inside_event {
            self.complete();
            // New memory is nobody else's yet, and may be read-only.
            if memory && number != libc::SYS_mmap {
                for range in ranges.all() {
                    self.take_in(range.address as u64, range.from as *const u8, range.bytes);
                }
            }
        }
        result
    }

    /// The short form of a clock that was read, if it has one. The event is then to be completed.
    #[inline]
    fn record_clock(&mut self, number: c_long, arguments: &[usize; 6], result: isize) -> bool {
        let (number, address) = match number {
            libc::SYS_clock_gettime => (ClockNumber::ClockGettime, arguments[1]),
            libc::SYS_gettimeofday if arguments[1] == 0 => (ClockNumber::Gettimeofday, arguments[0]),
            _ => return false,
        };
        if result != 0 || address == 0 {
            return false;
        }
        // SAFETY: the clock has just stored two words there.
        let [seconds, fraction] = unsafe { (address as *const [u64; 2]).read_unaligned() };
        let clock = Clock {
            number,
            event: self.event(),
            address: address as u64,
            seconds,
            fraction,
        };
        self.inputs.append_clock(&clock)
    }

    /// Output that a replay shows is logged before it happens: when another thread ends the process, a thread inside the
    /// kernel still finishes its call, but comes back no more.
    fn record_output(&mut self, stream: i32, arguments: &[usize; 6], real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
        let _stream = descriptors::alone(stream);
        let _turn = processes::take_turn(self, stream);
        let (number, expected) = (libc::SYS_write, arguments[2] as isize);
        let check = check(number, arguments, expected);
        // Counted first: if it is logged and never happens, the tool finds it missing.
        descriptors::count_shown(arguments[0], expected as u64);
        let began = self.input_entry(number, expected, check);
        self.log_entry(began, &[]);
        let result = self.blocking(|| real(arguments));
        if result != expected {
            let check = if result < 0 { 0 } else { check };
            descriptors::count_shown(arguments[0], (result.max(0) - expected) as u64);
            let mut entry = self.input_entry(number, result, check);
            entry.time = began.time;
            self.inputs.correct_last(entry);
        }
        if !self.inside_event {
            self.complete();
        }
        result
    }

    /// The arguments of a call with memory of ours in the place of what it writes: the program's memory is then written
    /// by the access protocol, at a moment that other threads agree on.
    fn with_own_memory(&mut self, writes: &[Written], arguments: &[usize; 6], lengths: &[u32; 6]) -> [usize; 6] {
        let mut own = *arguments;
        let room = |size: Size| match size {
            Size::Fixed(bytes) => Some((bytes as usize, true)),
            Size::Result(each, room) => Some((arguments[room as usize].checked_mul(each as usize)?, false)),
            Size::Argument(count, each) => Some((arguments[count as usize].checked_mul(each as usize)?, true)),
            Size::LengthAt(at) => Some((lengths[at as usize] as usize, false)),
            Size::Bits(count) => Some((arguments[count as usize].div_ceil(64) * 8, true)),
            // Pointers behind pointers: written in place.
            Size::Buffers(_) | Size::Message => None,
        };
        let Some(mut next) = self.inputs.bounce() else {
            return own;
        };
        let end = next + inputs::BOUNCE_BYTES;
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

    pub fn input_entry(&self, number: c_long, result: isize, mut check: u32) -> Entry {
        let time = stamp(number);
        if time != 0 && table::acts_on_others(number) {
            check = log_format::inputs::with_duration(check, time, time);
        }
        Entry {
            event: self.event(),
            number: number as u32,
            check,
            result: result as i64,
            time,
            ..Entry::default()
        }
    }

    #[inline]
    pub fn log_call(&mut self, number: c_long, result: isize, check: u32, ranges: &[Range]) {
        self.log_entry(self.input_entry(number, result, check), ranges);
    }

    #[inline]
    pub fn log_entry(&mut self, entry: Entry, ranges: &[Range]) {
        self.note_label(entry.number, entry.time, self.call_stack);
        self.append_entry(entry, ranges);
    }

    #[inline]
    fn append_entry(&mut self, entry: Entry, ranges: &[Range]) {
        // SAFETY: the kernel has just written these ranges.
        if !unsafe { self.inputs.append(entry, ranges) } && self.slot.lost.load(Relaxed) == 0 {
            self.slot.lost.store(self.event() + 1, Relaxed);
        }
    }

    /// Replay: the next recorded call, which must be this one.
    pub fn next_call(&mut self, number: c_long) -> Call<'static> {
        if turns::is_on() {
            self.wait_for_input(number);
        }
        let call = match self.is_at_end() {
            // It was logged, but the recorded process ended before it happened.
            true => None,
            false => self.take_input(),
        };
        let Some(call) = call else {
            if turns::is_on() {
                self.diverge_at_end(number);
            }
            // It was in this call when the recorded process ended, or waited for somebody who was. An event that it was
            // to come back to is as complete as it became.
            if self.inside_event && !self.is_at_end() {
                self.complete();
            }
            self.stop_here();
        };
        let (entry, event) = (call.entry, self.event());
        if entry.number != number as u32 || entry.event != event {
            in_turn::note_difference(&entry);
            let label = self.label(number);
            self.diverge(
                divergence::CALL,
                doing(number),
                in_turn::named(&entry),
                entry.event,
                label,
            );
        }
        call
    }

    /// Replay: the recorded call must be this one; its answer is given, and nothing is done.
    fn answer(&mut self, number: c_long, arguments: &[usize; 6]) -> isize {
        self.declare_outgoing(number, arguments);
        if turns::is_on() {
            if table::is_clock(number) && !self.has_clock(number, arguments) {
                return in_turn::invent_clock(number, arguments);
            }
            if in_turn::asks_for_heap(number, arguments) && !self.recorded_inputs.asks_for_heap() {
                return -libc::ENOENT as isize;
            }
            self.pass_advice(number);
        }
        let is_in_turn = self.recorded_inputs.next_number() == Some(processes::TURN as u32);
        let turn = is_in_turn.then(|| self.next_call(processes::TURN).entry.result as u32);
        let call = self.next_call(number);
        let entry = call.entry;
        let result = entry.result as isize;
        let given = check(number, arguments, result);
        let (recorded, given) = entry.compared(given);
        let is_compared = recorded != 0 && entry.began().is_none();
        if is_compared && recorded != given && !in_turn::is_to_self(number, arguments, result) {
            in_turn::note_difference(&entry);
            self.diverge(divergence::VALUE, doing(number), 0, recorded as u64, given as u64);
        }
        let show = || {
            if result >= 0 {
                show(number, arguments, result);
            }
        };
        match descriptors::shown(arguments[0]).filter(|_| table::writes(number)) {
            Some(stream) => processes::in_turn(turn, stream, show),
            None => show(),
        }
        if result >= 0 {
            descriptors::follow(number, arguments, result);
        }
        if !self.inside_event {
            self.complete();
        }
        if turns::is_on() && number != libc::SYS_mmap {
            places::put(number, arguments, &call);
            in_turn::note_clock(number, arguments);
            if result >= 0 {
                echoes::follow(number, arguments, &call);
                channels::follow(number, arguments, &entry);
            }
        }
        let written = match number {
            libc::SYS_mmap => 0,
            _ if turns::is_on() => 0,
            _ => entry.ranges as usize - echoes::is_last_of(number, arguments, &call) as usize,
        };
        for (address, bytes) in call.ranges().take(written) {
            match self.inside_event {
                true => inputs::copy(bytes.as_ptr(), address as *mut u8, bytes.len()),
                false => self.take_in(address, bytes.as_ptr(), bytes.len()),
            }
        }
        match number {
            libc::SYS_mmap if result > 0 && turns::is_on() => return places::map(arguments, &call),
            libc::SYS_mmap if result > 0 => map_again(arguments, result as u64, &call),
            libc::SYS_gettid => self.recorded_tid = result as usize,
            _ if is_to_self(number, arguments, || self.recorded_tid as u32) => self.signal_self(number, *arguments),
            _ => {}
        }
        if self.recorded_inputs.next_signal().is_some() {
            self.arm_gate();
        }
        turns::wait_for_return(self);
        result
    }

    /// A signal the program sent to itself is sent again. Of the ids it knows, those it asked for are recorded ones.
    fn signal_self(&self, number: c_long, mut arguments: [usize; 6]) {
        let signal = arguments[if number == libc::SYS_tgkill { 2 } else { 1 }];
        // One with a handler comes from the log; one that is ignored, or waited for, has no effect but what the log says.
        if signals::is_handled(signal) || !(ending::is_fatal(signal as i32) || self.is_at_end()) {
            return;
        }
        if !ending::is_fatal(signal as i32) {
            ending::at_last_call();
        }
        let thread = sys::thread_id() as usize;
        match number {
            libc::SYS_tkill => arguments[0] = thread,
            _ => arguments[0] = sys::process_id() as usize,
        }
        if number == libc::SYS_tgkill && arguments[1] == self.recorded_tid {
            arguments[1] = thread;
        }
        // SAFETY: the program's own call, to its own process.
        unsafe { sys::syscall(number, arguments) };
    }

    /// Replay: a signal to another thread is sent again if nothing more is recorded of the sender: it ended the process.
    pub fn signal_at_end(&self, thread: u32, signal: c_int) {
        if signals::is_handled(signal as usize) || ending::is_fatal(signal) || !self.is_at_end() {
            return;
        }
        ending::at_last_call();
        let thread = control::slot(thread).os_thread.load(Relaxed);
        // SAFETY: touches no memory.
        unsafe {
            sys::syscall(
                libc::SYS_tgkill,
                [sys::process_id() as usize, thread as usize, signal as usize, 0, 0, 0],
            )
        };
    }

    /// What the kernel reads is a read of this thread's.
    fn declare_outgoing(&mut self, number: c_long, arguments: &[usize; 6]) {
        if self.inside_event || !control::observes_memory() {
            return;
        }
        if let Some((bytes, count)) = table::outgoing(number)
            && !is_on_stack(arguments[bytes])
        {
            self.declare(arguments[bytes] as u64, arguments[count] as u64, Reach::Reads);
        }
    }

    /// What the kernel wrote is a write of this thread's: stored (once more, if recording) by the access protocol.
    fn take_in(&mut self, address: u64, from: *const u8, bytes: usize) {
        if control::observes_memory() {
            // SAFETY: the program gave this memory to the kernel to be written; `from` has as many bytes.
            unsafe { self.store_from_outside(address as *mut u8, from, bytes) };
        } else if control::mode() == Mode::Replay {
            inputs::copy(from, address as *mut u8, bytes);
        }
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

/// Replay: memory in the place of the mapped file, with what was in it.
fn map_again(arguments: &[usize; 6], address: u64, call: &log_format::inputs::Call<'_>) {
    if sys::map_at(address, arguments[1], -1, 0, true).is_err() {
        ending::die(b"cannot map memory where the recording had a file", libc::ENOMEM);
    }
    for (at, bytes) in call.ranges() {
        inputs::copy(bytes.as_ptr(), at as *mut u8, bytes.len());
    }
    // SAFETY: the program's own mapping, as it asked for it.
    unsafe {
        sys::syscall(
            libc::SYS_mprotect,
            [
                address as usize,
                arguments[1].next_multiple_of(4096),
                arguments[2],
                0,
                0,
                0,
            ],
        )
    };
}

/// Replay: output to the recorded standard output and error appears.
fn show(number: c_long, arguments: &[usize; 6], written: isize) {
    let Some(descriptor) = descriptors::shown(arguments[0]) else {
        return;
    };
    if matches!(number, libc::SYS_write | libc::SYS_writev) {
        turns::note_shown(descriptor, written as usize);
    }
    match number {
        // SAFETY: the program gave these bytes to the kernel to be read.
        libc::SYS_write => sys::write_all(descriptor, unsafe {
            core::slice::from_raw_parts(arguments[1] as *const u8, written as usize)
        }),
        libc::SYS_writev => {
            let mut left = written as usize;
            for buffer in buffers::all(arguments[1], arguments[2]) {
                let part = left.min(buffer.iov_len);
                // SAFETY: as above.
                sys::write_all(descriptor, unsafe {
                    core::slice::from_raw_parts(buffer.iov_base.cast(), part)
                });
                left -= part;
            }
        }
        _ => {}
    }
}

/// Does the program, or the calling thread, send itself a signal? The ids it knows are the recorded ones.
fn is_to_self(number: c_long, arguments: &[usize; 6], thread: impl FnOnce() -> u32) -> bool {
    match number {
        libc::SYS_kill | libc::SYS_tgkill => arguments[0] == control::header().pid.load(Relaxed) as usize,
        libc::SYS_tkill => arguments[0] as u32 == thread(),
        _ => false,
    }
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
        _ if in_turn::asks_for_heap(number, arguments) => in_turn::ASKS_FOR_HEAP,
        _ => number as u32 | 1,
    }
}

/// Condenses bytes that the program gives out, or has given out: the first ones of them.
#[inline]
fn condensed(address: usize, count: usize, bytes_max: usize) -> u32 {
    // SAFETY: the kernel has read them, or written them; or they are a copy of ours.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, count.min(bytes_max)) };
    (RangeHash::of(bytes).fold() ^ count as u32) | 1
}

/// When a call of several threads' was over: scope `inputs` knows nothing else about their order. A clock that was read
/// says it itself.
#[inline]
fn stamp(number: c_long) -> u64 {
    if table::is_clock(number) || is_about_threads(number) {
        0
    } else {
        now()
    }
}

/// In a host: the ids of threads do not change, and some threads are created in no order.
fn is_about_threads(number: c_long) -> bool {
    const SPAWN: c_long = log_format::inputs::SPAWN as c_long;
    match number {
        SPAWN => host::creates_in_any_order(),
        libc::SYS_gettid | libc::SYS_set_tid_address => host::is_on(),
        _ => false,
    }
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
