//! Scope `inputs`, several threads: inputs that have a place in the order of all threads' inputs, and those that only advise.
//!
//! Most of what is recorded has to come again. Three kinds need not, because whether a thread comes to them depends on how it met with
//! others at a lock, which is not recorded: waits with a time limit, looks at the clock, which such waits begin with, and the look at a
//! file by which libc's allocator finds out, once, whether it may give memory back. If the recording has one that does not come, it is
//! passed over; if one comes that the recording has not, the wait is one without limit, the clock shows a little more than it did
//! last, and there is no such file.
use crate::calls;
use crate::calls::buffers;
use crate::calls::channels;
use crate::calls::doing;
use crate::calls::is_installed;
use crate::calls::table;
use crate::control;
use crate::handlers;
use crate::inputs;
use crate::inputs::SignalAt;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use crate::replay::Doing;
use crate::turns;
use core::ffi::CStr;
use core::ffi::c_int;
use core::ffi::c_long;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs as inputs_format;
use log_format::inputs::Call;
use log_format::inputs::Entry;
use log_format::inputs::REST;
use log_format::inputs::SYNC;
use log_format::inputs::Short;
use log_format::inputs::SignalPlace;
use log_format::inputs::Sync;
use run_model::Kind;
use run_model::Op;
use runtime_abi::divergence;
use runtime_abi::turns_file::what;

/// Scope `inputs`: a thread is about to be created.
pub fn note_spawn(creator: &Local, index: u32) {
    creator.note_place(inputs_format::SPAWN as c_long, index as isize);
}

/// Scope `inputs`: the calling thread is about to ask for the end of another one.
pub fn note_cancel() {
    if policy::is_free() {
        return;
    }
    // In a process with one thread there is no order.
    let are_several = control::header().progress.threads.load(Relaxed) > 1;
    if let Some(local) = Local::current().filter(|_| control::inputs_only() && are_several) {
        local.note_place(inputs_format::CANCEL as c_long, 0);
    }
}

/// What an input is called where it was not expected.
pub fn named(entry: &Entry) -> u32 {
    match entry.number {
        SYNC => inputs_format::FIRST_SYNC + entry.check,
        number => number,
    }
}

/// Replay: this input was taken, and the program does something else.
pub fn note_difference(entry: &Entry) {
    if entry.time != 0 {
        turns::event_differs();
    }
}

/// Replay: are these bytes, all of which were written, for the process itself? Then they need not be the recorded ones (`channels.rs`).
pub fn is_to_self(number: c_long, arguments: &[usize; 6], written: isize) -> bool {
    turns::is_on() && written == count_of(number, arguments) && channels::is_to_self(arguments[0])
}

/// How many bytes a call is given to be written.
fn count_of(number: c_long, arguments: &[usize; 6]) -> isize {
    let (buffers, count) = match number {
        libc::SYS_write | libc::SYS_sendto => return arguments[2] as isize,
        libc::SYS_writev => (arguments[1], arguments[2]),
        libc::SYS_sendmsg => buffers::of_message(arguments[1]),
        _ => return -1,
    };
    buffers::bytes(buffers, count) as isize
}

/// Is this such a call?
pub fn asks_for_heap(number: c_long, arguments: &[usize; 6]) -> bool {
    const PATH: &CStr = c"/proc/sys/vm/overcommit_memory";
    if number != libc::SYS_openat || !control::inputs_only() || arguments[2] as i32 != libc::O_CLOEXEC {
        return false;
    }
    // SAFETY: the program gives it to the kernel as a string; only as much is read as is equal.
    let is_byte = |(at, byte): (usize, &u8)| unsafe { *(arguments[1] as *const u8).add(at) == *byte };
    arguments[1] != 0 && PATH.to_bytes_with_nul().iter().enumerate().all(is_byte)
}

/// What clocks showed last, by their ids: seconds and nanoseconds. All zero: nobody has looked.
static CLOCKS: [[AtomicU64; 2]; 16] = [const { [const { AtomicU64::new(0) }; 2] }; 16];
/// Clocks that differ by more than this are different clocks: a day.
const NEAR_S: u64 = 86_400;
/// What a clock moves if it is looked at and the recording does not say what it showed.
const STEP_NS: u64 = 1_000;
const SECOND_NS: u64 = 1_000_000_000;

fn clock_of(number: c_long, arguments: &[usize; 6]) -> usize {
    match number {
        libc::SYS_clock_gettime => arguments[0] % CLOCKS.len(),
        _ => libc::CLOCK_REALTIME as usize,
    }
}

/// Where a look at the clock puts two words, and how many nanoseconds the second one counts.
fn place_of(number: c_long, arguments: &[usize; 6]) -> Option<(usize, u64)> {
    let (address, unit_ns) = match number {
        libc::SYS_clock_gettime => (arguments[1], 1),
        libc::SYS_gettimeofday => (arguments[0], 1_000),
        _ => return None,
    };
    (address != 0).then_some((address, unit_ns))
}

/// Replay: a look at the clock has been answered from the log.
pub fn note_clock(number: c_long, arguments: &[usize; 6]) {
    let Some((address, unit_ns)) = place_of(number, arguments) else {
        return;
    };
    // SAFETY: the clock's answer was put there.
    let [seconds, fraction] = unsafe { (address as *const [u64; 2]).read_unaligned() };
    let [last_s, last_ns] = &CLOCKS[clock_of(number, arguments)];
    last_s.store(seconds, Relaxed);
    last_ns.store(fraction * unit_ns, Relaxed);
}

/// Replay: a look at the clock that the recording does not have.
pub fn invent_clock(number: c_long, arguments: &[usize; 6]) -> isize {
    let [seconds, ns] = &CLOCKS[clock_of(number, arguments)];
    let now_ns = ns.load(Relaxed) + STEP_NS;
    let now_s = seconds.load(Relaxed) + now_ns / SECOND_NS;
    seconds.store(now_s, Relaxed);
    ns.store(now_ns % SECOND_NS, Relaxed);
    if let Some((address, unit_ns)) = place_of(number, arguments) {
        let time = [now_s, now_ns % SECOND_NS / unit_ns];
        inputs::copy(time.as_ptr().cast(), address as *mut u8, size_of_val(&time));
    }
    match number {
        libc::SYS_time => {
            if arguments[0] != 0 {
                inputs::copy((&raw const now_s).cast(), arguments[0] as *mut u8, size_of::<u64>());
            }
            now_s as isize
        }
        _ => 0,
    }
}

impl Local {
    /// Something that is no event, but has a place in the order of inputs.
    fn note_place(&self, number: c_long, result: isize) {
        if !is_installed() {
            return;
        }
        match policy::inputs() {
            Inputs::Recorded => self.log_call(number, result, 0, &[]),
            Inputs::Answered => drop(self.next_call(number)),
            Inputs::Live => {}
        }
    }

    /// Recording: a synchronisation has this place among the inputs. Not an event: those are counted by what is compared between runs.
    #[inline]
    pub fn place_sync(&self, op: Op, result: c_int) {
        // What was done before has been done when the time is read: an atomic of libc's, which others may have waited for.
        // SAFETY: an instruction that waits for others.
        unsafe { core::arch::x86_64::_mm_lfence() };
        let time = calls::now();
        if result == 0 && self.place_sync_at(op, time).is_some() {
            return;
        }
        let sync = Short {
            event: self.event(),
            number: SYNC,
            check: op as u32,
            result: result as i64,
            time,
            range: None,
        };
        // SAFETY: there is no range.
        if !unsafe { self.inputs.writer.append_short(&sync) } {
            let mut entry = self.input_entry(SYNC as c_long, result as isize, op as u32);
            entry.time = sync.time;
            self.log_entry(entry, &[]);
        }
    }

    /// The same at a time that is known, of one that has done what it was asked for: at which time it stands in the log, above all that the thread has
    /// there. `None`: it does not.
    #[inline]
    pub fn place_sync_at(&self, op: Op, time: u64) -> Option<u64> {
        self.inputs.writer.append_sync(&Sync {
            event: self.event(),
            op: op as u8,
            time,
        })
    }

    /// Replay: is this synchronisation the next that the recording has of this thread?
    pub fn comes_to_sync(&self, op: Op) -> bool {
        self.pass_advice(SYNC as c_long);
        self.inputs.recorded.next_sync(self.event()) == Some(op as u32)
    }

    /// Replay: returns when it is the place of this synchronisation, with what was recorded as its result.
    pub fn sync_in_place(&self, op: Op) -> c_int {
        let number = inputs_format::FIRST_SYNC as c_long + op as c_long;
        if !self.comes_to_sync(op) {
            self.diverge_at_end(number);
            if self.is_at_end() {
                // It was in there when the recorded process ended, or about to come.
                self.stop_here();
            }
        }
        if turns::is_on() && self.inputs.recorded.has_place() {
            turns::wait_for_event(self);
        }
        let (found, event) = match self.take_input() {
            Some(call) => (call.entry, self.event()),
            None => self.diverge(divergence::CALL, doing(number), u32::MAX, self.event(), 0),
        };
        let found_number = named(&found);
        if found_number != number as u32 || found.event != event {
            note_difference(&found);
            self.diverge(divergence::CALL, doing(number), found_number, found.event, 0);
        }
        if self.inputs.recorded.next_signal().is_some() {
            self.arm_gate();
        }
        found.result as c_int
    }

    /// Recording at scope `inputs`, several threads: the thread ends. A replay lets it come there before it goes on with what others did
    /// after this.
    ///
    /// The same for futexes was worse than nothing: a thread that is about to wait for a condition has given up a mutex already, so what another one did
    /// with that has its place before this.
    pub fn record_rest(&self) {
        if !control::inputs_only() || !control::is_threaded() || !is_installed() {
            return;
        }
        let rest = Short {
            event: self.event(),
            number: REST,
            check: 0,
            result: 0,
            time: calls::now(),
            range: None,
        };
        // SAFETY: there is no range.
        if !unsafe { self.inputs.writer.append_short(&rest) } {
            self.log_call(REST as c_long, 0, 0, &[]);
        }
    }

    /// Scope `inputs`, several threads: how a wait with a time limit ended. Not an event: whether a thread has to wait for a
    /// lock depends on the others.
    pub fn record_timed_wait(&self, arguments: &[usize; 6], result: isize) {
        if control::inputs_only() && control::is_threaded() && turns::is_timed(arguments) {
            self.log_call(libc::SYS_futex, result, 0, &[]);
        }
    }

    /// Replay, one thread at a time: a futex call.
    pub fn take_turns_at_futex(&self, arguments: &[usize; 6], real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
        let result = loop {
            let result = turns::futex(self, arguments);
            let is_interrupted = result == -libc::EINTR as isize;
            let signal = self.inputs.recorded.next_signal().filter(|_| is_interrupted);
            if is_interrupted {
                if signal.is_none_or(|signal| signal.place != Some(SignalPlace::Before)) {
                    self.note_result(result);
                }
                self.deliver_next();
            }
            // A wait that a signal has put off goes on.
            if signal.is_none_or(|signal| signal.place != Some(SignalPlace::Before)) {
                break result;
            }
        };
        self.count_real_call(libc::SYS_futex);
        if self.is_creating.get() {
            // The thread that is being created does not take turns yet.
            real(arguments);
        }
        self.note_result(result);
        self.after_call();
        self.after_call_alone(libc::SYS_futex, arguments);
        result
    }

    /// Replay: takes the next input, whose turn it is.
    pub fn take_input(&self) -> Option<Call<'static>> {
        if !self.inputs.recorded.has_place() {
            return self.inputs.recorded.next();
        }
        turns::process_order::wait_for_place();
        if turns::is_on() {
            turns::event_happened();
        }
        let taken = self.inputs.recorded.next();
        turns::process_order::happened();
        taken
    }

    /// Replay: does the recording have a look at this clock next?
    pub fn has_clock(&self, number: c_long, arguments: &[usize; 6]) -> bool {
        let Some(recorded) = self.inputs.recorded.next_clock(number as u32) else {
            return self.inputs.recorded.next_number() == Some(number as u32);
        };
        let last = CLOCKS[clock_of(number, arguments)][0].load(Relaxed);
        last == 0 || recorded.abs_diff(last) < NEAR_S
    }

    /// Replay: passes over what the recording has next and the program, which is about to do `number`, does not do: looks at the clock, and
    /// waits with a time limit. Signals are delivered here at the latest.
    pub fn pass_advice(&self, number: c_long) {
        if !turns::is_on() {
            return;
        }
        self.pass_refusals();
        loop {
            let event = self.event();
            let next = self.inputs.recorded.next_number();
            if self.inputs.recorded.next_signal_number(event).is_some() {
                if self.inputs.recorded.has_place() {
                    turns::wait_for_event(self);
                }
                self.deliver_next();
            } else if self.inputs.recorded.next_timed_wait(event).is_some() {
                turns::wait_for_event(self);
                self.take_input();
            } else if !self.is_at_end()
                && !table::is_clock(number)
                && next.is_some_and(|next| table::is_clock(next as c_long))
            {
                self.take_input();
                self.complete();
            } else if !self.is_at_end() && number != libc::SYS_openat && self.inputs.recorded.asks_for_heap() {
                self.pass_heap_question();
            } else {
                return;
            }
        }
    }

    /// Replay: a call has been answered. If it was one by which the thread sent itself a signal, or one that a signal interrupted, the
    /// signal's handler runs now, however the others' inputs lie in between.
    pub fn deliver_behind(&self, number: c_long, result: isize) {
        if !turns::is_on() || result != -libc::EINTR as isize && !table::sends_signal(number) {
            return;
        }
        let Some(first) = self.inputs.recorded.next_signal() else {
            return;
        };
        let is_behind = |next: SignalAt| next.calls == first.calls && next.place != Some(SignalPlace::Before);
        // One that is blocked comes later, however often the thread had to wait for a lock.
        let is_open = |signal: u32| {
            let blocked = handlers::mask(libc::SIG_BLOCK, 0);
            result == -libc::EINTR as isize || blocked >> signal.saturating_sub(1) & 1 == 0
        };
        while self
            .inputs
            .recorded
            .next_signal_number(self.event())
            .is_some_and(is_open)
            && self.inputs.recorded.next_signal().is_some_and(is_behind)
            && !self.inside_event.get()
        {
            if self.inputs.recorded.has_place() {
                turns::wait_for_event(self);
            }
            self.deliver_next();
        }
    }

    /// Replay: the allocator's file is opened, read and closed.
    fn pass_heap_question(&self) {
        for number in [libc::SYS_openat, libc::SYS_read, libc::SYS_close] {
            if self.inputs.recorded.next_number() != Some(number as u32) {
                return;
            }
            if self.inputs.recorded.has_place() {
                turns::wait_for_event(self);
            }
            self.take_input();
            self.complete();
        }
    }

    /// Replay: returns when it is the turn of the next input, if it has a place in the order.
    pub fn wait_for_input(&self, number: c_long) {
        self.pass_advice(number);
        if self.is_at_end() {
            return;
        }
        if !self.inputs.recorded.has_place() {
            return turns::at_switch_point(what::INPUT, 0);
        }
        if table::sleeps(number) {
            // So did others run, when it slept.
            turns::give_way(self);
        }
        turns::wait_for_event(self);
    }

    /// Replay: libc is about to fork, and takes all of its locks before it makes the call. Who waited for the call's place then would keep others
    /// from coming to theirs: from allocating memory, and so from creating threads. So it waits here.
    pub fn wait_for_fork(&self) {
        if !turns::is_on() || !turns::has_turn(self.index) {
            return;
        }
        self.pass_advice(libc::SYS_clone);
        // The program may have more to do before: its handlers for forks.
        let is_next = self.inputs.recorded.next_number() == Some(libc::SYS_clone as u32);
        if is_next && !self.is_at_end() && self.inputs.recorded.has_place() {
            turns::wait_for_event(self);
        }
    }

    /// Replay: the thread ends. If the recording has more calls of it, it has gone another way.
    pub fn require_no_more_inputs(&self) {
        self.pass_refusals();
        if turns::is_on() && !self.is_at_end() && self.inputs.recorded.next_number().is_some() {
            let doing = Doing {
                kind: Kind::Exit,
                op: Op::None,
                object: 0,
            };
            self.diverge(divergence::SHORT, doing, 0, 0, 0);
        }
    }

    /// Replay: the recording has no more calls of this thread, and here is one. It may have been in it when the process ended.
    pub fn diverge_at_end(&self, number: c_long) {
        if self.is_the_end() {
            self.diverge(divergence::SURVIVED, doing(number), 0, 0, 0);
        }
        if !self.is_at_end() {
            let label = self.label(number);
            self.diverge(divergence::CALL, doing(number), u32::MAX, self.event(), label);
        }
    }
}
