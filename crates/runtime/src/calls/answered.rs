//! Inputs are answered: no call is made, and what comes in is what `recorded.rs` logged.
use crate::calls::buffers;
use crate::calls::channels;
use crate::calls::check;
use crate::calls::delivery::may_be_put_off;
use crate::calls::descriptors;
use crate::calls::doing;
use crate::calls::echoes;
use crate::calls::filters;
use crate::calls::in_turn;
use crate::calls::is_stop;
use crate::calls::is_to_self;
use crate::calls::mirrors;
use crate::calls::own_memory;
use crate::calls::places;
use crate::calls::sent_signal;
use crate::calls::table;
use crate::calls::table::Treatment;
use crate::control;
use crate::ending;
use crate::failure;
use crate::handlers;
use crate::inputs;
use crate::local::Local;
use crate::output_order;
use crate::sys;
use crate::turns;
use crate::zones;
use core::ffi::c_int;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::Call;
use runtime_abi::divergence;

impl Local {
    /// Any call of the program's whose treatment depends on where inputs come from.
    pub fn answer_any_call(
        &self,
        treatment: Treatment,
        number: c_long,
        arguments: &[usize; 6],
        real: impl FnOnce(&[usize; 6]) -> isize,
    ) -> isize {
        match treatment {
            Treatment::Logged | Treatment::Unknown => {
                let result = self.answer_call(number, arguments);
                if number == libc::SYS_set_tid_address {
                    // Done as well: the kernel writes there when the thread ends. What it calls the thread is the recorded number.
                    real(arguments);
                }
                self.note_mask(number, arguments, result);
                self.note_result(filters::result_of(number, result));
                self.deliver_behind(number, result);
                result
            }
            Treatment::Fork => self.answer_fork(number, arguments),
            Treatment::Exec => self.answer_exec(number),
            Treatment::Yield => self.unless_refused(number, arguments, || {
                self.count_real_call(number);
                if turns::is_on() {
                    turns::give_way(self);
                }
                0
            }),
            _ => {
                if may_be_put_off(number) {
                    self.at_safe_point();
                }
                self.unless_refused(number, arguments, || {
                    self.count_real_call(number);
                    real(arguments)
                })
            }
        }
    }

    /// Replay: the next recorded call, which must be this one. Handlers of signals that came before it run first.
    pub fn next_call(&self, number: c_long) -> Call<'static> {
        self.pass_refusals();
        self.deliver_before_call();
        if turns::is_on() {
            self.wait_for_input(number);
        }
        self.take_in_changes();
        let call = match self.is_at_end() {
            // It was logged, but the recorded process ended before it happened.
            true => None,
            false => self.take_input(),
        };
        let Some(call) = call else {
            if turns::is_on() && !self.birth.is_process.get() {
                self.diverge_at_end(number);
            }
            if self.birth.is_process.get() {
                self.vanish();
            }
            // It was in this call when the recorded process ended, or waited for somebody who was. An event that it was
            // to come back to is as complete as it became.
            if self.inside_event.get() && !self.is_at_end() {
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
    pub fn answer_call(&self, number: c_long, arguments: &[usize; 6]) -> isize {
        let outgoing = self.gather_outgoing(number, arguments);
        let arguments = &outgoing.arguments;
        if turns::is_on() {
            if table::is_clock(number) && !self.has_clock(number, arguments) {
                // A handler may have run before it.
                self.at_safe_point();
                if !self.has_clock(number, arguments) {
                    return in_turn::invent_clock(number, arguments);
                }
            }
            if in_turn::asks_for_heap(number, arguments) && !self.inputs.recorded.asks_for_heap() {
                return -libc::ENOENT as isize;
            }
            self.pass_advice(number);
        }
        self.await_turns(number, |_| ());
        let is_in_turn = self.inputs.recorded.next_number() == Some(output_order::TURN as u32);
        let turn = is_in_turn.then(|| self.next_call(output_order::TURN).entry.result as u32);
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
            Some(stream) => output_order::in_turn(turn, stream, show),
            None => show(),
        }
        if result >= 0 {
            descriptors::follow(number, arguments, result);
        }
        if !self.inside_event.get() {
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
        if result >= 0 && !matches!(number, libc::SYS_mmap | libc::SYS_shmat) {
            mirrors::answer_write(&call);
        }
        let written = match number {
            libc::SYS_mmap | libc::SYS_shmat => 0,
            _ if own_memory::writes(number) => {
                own_memory::answer_write(number, arguments, &call, mirrors::is_of_file);
                0
            }
            _ if turns::is_on() => 0,
            _ => entry.ranges as usize - echoes::is_last_of(number, arguments, &call) as usize,
        };
        if written != 0 && self.inputs.recorded.next_signal().is_some() {
            // It may have come between two of the stores below.
            self.arm_gate();
        }
        if control::traces_all() {
            self.tell_call(number, result, call.ranges());
        }
        // Other versions of functions run than were recorded: what was on a stack lies elsewhere, where the program says now.
        let is_moved = control::is_steered()
            && call
                .ranges()
                .take(written)
                .any(|(address, _)| zones::is_of_stack(address));
        if is_moved {
            places::put(number, arguments, &call);
        }
        for (address, bytes) in call.ranges().take(written).filter(|_| !is_moved) {
            if mirrors::is_of_file(address) {
                continue;
            }
            match self.inside_event.get() || !control::observes_memory() {
                true => inputs::copy(bytes.as_ptr(), address as *mut u8, bytes.len()),
                // SAFETY: the program gave this memory to the kernel to be written, when it was recorded and now; the log has as
                // many bytes.
                false => unsafe { self.store_answer(address as *mut u8, bytes.as_ptr(), bytes.len()) },
            }
        }
        let mut answer = result;
        match number {
            libc::SYS_mmap if result > 0 => answer = map_again(arguments, &call),
            libc::SYS_shmat if result > 0 => answer = mirrors::answer_segment(arguments, &call).unwrap_or(result),
            libc::SYS_shmdt if result == 0 => mirrors::answer_detached(arguments[0]),
            libc::SYS_setrlimit | libc::SYS_prlimit64 if result == 0 => limit_stack_again(number, arguments),
            libc::SYS_gettid => self.replay.recorded_tid.set(result as usize),
            libc::SYS_wait4 if result > 0 && has_ended(arguments[1]) => {
                turns::process_order::wait_for_end_of(result as u32);
            }
            libc::SYS_waitid if result == 0 => {
                if let Some(child) = ended_child(arguments[2]) {
                    turns::process_order::wait_for_end_of(child);
                }
            }
            _ if is_to_self(number, arguments, || self.replay.recorded_tid.get() as u32) => {
                self.signal_self(number, *arguments)
            }
            _ => {}
        }
        if self.inputs.recorded.next_signal().is_some() {
            self.arm_gate();
        }
        turns::wait_for_return(self);
        answer
    }

    /// A signal the program sent to itself is sent again. Of the ids it knows, those it asked for are recorded ones.
    fn signal_self(&self, number: c_long, mut arguments: [usize; 6]) {
        let signal = sent_signal(number, &arguments);
        // One with a handler comes from the log; one that is ignored, or waited for, has no effect but what the log says.
        let is_fatal = ending::is_fatal(signal as i32);
        if handlers::is_handled(signal) || is_stop(signal) || !(is_fatal || self.is_at_end()) {
            return;
        }
        if is_fatal && !ending::is_death_by(signal as u32) {
            // Somebody who traced the process kept the signal from it, and killed it there, or let it go on.
            if self.is_at_end() && !ending::is_by_itself() {
                self.stop_here();
            }
            return;
        }
        if !is_fatal {
            ending::at_last_call();
        }
        let thread = sys::thread_id() as usize;
        match number {
            libc::SYS_tkill => arguments[0] = thread,
            _ => arguments[0] = sys::process_id() as usize,
        }
        if number == libc::SYS_tgkill && arguments[1] == self.replay.recorded_tid.get() {
            arguments[1] = thread;
        }
        // SAFETY: the program's own call, to its own process.
        unsafe { sys::syscall(number, arguments) };
    }

    /// Replay: a signal to another thread is sent again if nothing more is recorded of the sender: it ended the process.
    pub fn signal_at_end(&self, thread: u32, signal: c_int) {
        if handlers::is_handled(signal as usize) || ending::is_fatal(signal) || !self.is_at_end() {
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
}

/// Does the status at this address, if there is one, say that a process has ended, and not that it stands or goes on?
fn has_ended(status: usize) -> bool {
    // SAFETY: the program gave it to the kernel to be written, and it has just been written as it was.
    let status = (status != 0).then(|| unsafe { (status as *const i32).read_unaligned() });
    status.is_none_or(|status| libc::WIFEXITED(status) || libc::WIFSIGNALED(status))
}

/// Which child has ended, by what `waitid` said.
fn ended_child(info: usize) -> Option<u32> {
    if info == 0 {
        return None;
    }
    // SAFETY: the program gave it to the kernel to be written, and it has just been written as it was.
    let info = unsafe { (info as *const libc::siginfo_t).read_unaligned() };
    let is_end = matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
    // SAFETY: that is what such information has, whoever it is about.
    is_end.then(|| unsafe { info.si_pid() } as u32)
}

/// Replay: how far a stack grows shows without any call, so its limit is in force again.
fn limit_stack_again(number: c_long, arguments: &[usize; 6]) {
    let own = control::header().identity.pid.load(Relaxed) as usize;
    let (resource, new) = match number {
        libc::SYS_prlimit64 if arguments[0] == 0 || arguments[0] == own => (arguments[1], arguments[2]),
        libc::SYS_setrlimit => (arguments[0], arguments[1]),
        _ => return,
    };
    if resource == libc::RLIMIT_STACK as usize && new != 0 {
        // SAFETY: the kernel has read the limit there when it was recorded.
        unsafe { sys::syscall(libc::SYS_setrlimit, [resource, new, 0, 0, 0, 0]) };
    }
}

/// Replay: the mirror of the mapped file, or memory in its place, with what was in it. Returns where.
fn map_again(arguments: &[usize; 6], call: &Call<'_>) -> isize {
    if let Some(address) = mirrors::answer_mapping(arguments, call) {
        return address;
    }
    if turns::is_on() {
        return places::map(arguments, call);
    }
    let address = call.entry.result as u64;
    if sys::map_at(address, arguments[1], -1, 0, true).is_err() {
        failure::die(b"cannot map memory where the recording had a file", libc::ENOMEM);
    }
    for (at, bytes) in call.ranges() {
        inputs::copy(bytes.as_ptr(), at as *mut u8, bytes.len());
    }
    sys::protect(address, arguments[1].next_multiple_of(4096), arguments[2]);
    address as isize
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
                // SAFETY: the program gave these buffers to the kernel, which has read that many bytes of them when it was recorded.
                sys::write_all(descriptor, unsafe {
                    core::slice::from_raw_parts(buffer.iov_base.cast(), part)
                });
                left -= part;
            }
        }
        _ => {}
    }
}
