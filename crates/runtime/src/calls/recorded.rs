//! Inputs are recorded: calls are made, and logged with what they brought in. Mirrored by `answered.rs`.
use crate::calls::check;
use crate::calls::descriptors;
use crate::calls::echoes;
use crate::calls::epolls;
use crate::calls::is_stop;
use crate::calls::is_to_self;
use crate::calls::local_state;
use crate::calls::now;
use crate::calls::ordered::OrderedCall;
use crate::calls::passed_on;
use crate::calls::sent_signal;
use crate::calls::table;
use crate::calls::table::Treatment;
use crate::calls::written::Ranges;
use crate::control;
use crate::handlers;
use crate::hosting;
use crate::inputs::Range;
use crate::local::Local;
use crate::output_order;
use crate::sources;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::Clock;
use log_format::inputs::ClockNumber;
use log_format::inputs::Entry;

impl Local {
    /// Any call of the program's whose treatment depends on where inputs come from.
    pub fn record_any_call(
        &self,
        treatment: Treatment,
        number: c_long,
        arguments: &[usize; 6],
        real: impl Fn(&[usize; 6]) -> isize,
    ) -> isize {
        match treatment {
            Treatment::Logged | Treatment::Unknown => self.record_call(number, arguments, real),
            Treatment::Fork => self.record_fork(number, arguments, real),
            Treatment::Exec => self.record_exec(number, || real(arguments)),
            _ => self.unless_refused(number, arguments, || {
                let result = self.until_made(|| real(arguments));
                self.count_real_call(number);
                if number == libc::SYS_futex {
                    self.record_timed_wait(arguments, result);
                }
                result
            }),
        }
    }

    /// A call that is logged.
    pub fn record_call(
        &self,
        number: c_long,
        arguments: &[usize; 6],
        mut real: impl FnMut(&[usize; 6]) -> isize,
    ) -> isize {
        let outgoing = self.gather_outgoing(number, arguments);
        let arguments = &outgoing.arguments;
        if is_to_self(number, arguments, sys::thread_id) {
            // It may be the end of this thread, so it is logged before it happens.
            self.log_call(number, 0, check(number, arguments, 0), &[]);
            let signal = sent_signal(number, arguments);
            if is_stop(signal) && !handlers::is_handled(signal) {
                // It stands in there until somebody lets it go on: not complete if that never happens.
                let result = real(arguments);
                self.complete();
                return result;
            }
            self.complete();
            return real(arguments);
        }
        let (ordered, polled) = match self.issue_poll(number, arguments) {
            Ok(polled) => (None, polled),
            Err(()) => (self.issue_call(number, arguments), None),
        };
        let shown = descriptors::shown(arguments[0]).filter(|_| table::writes(number));
        if let (libc::SYS_write, Some(stream)) = (number, shown) {
            return self.record_output(stream, arguments, real, ordered.as_ref());
        }
        let _stream = shown.and_then(descriptors::alone);
        let _turn = shown.and_then(|stream| output_order::take_turn(self, stream));
        // Nobody takes memory from a thread while memory is not observed.
        let blocks = control::observes_memory() && table::blocks(number);
        let mut real = |own: &[usize; 6]| match shown {
            Some(stream) => passed_on::write(stream, own[0], || real(own)),
            None => {
                let result = real(own);
                if control::counts() && result >= 0 {
                    // While its objects are held.
                    epolls::follow(number, own, result);
                }
                result
            }
        };
        let blocks = blocks && ordered.is_none() && polled.is_none();
        let mut real = |own: &[usize; 6]| match (&ordered, &polled) {
            (Some(call), _) => self.make_ordered(call, own, &mut real),
            (_, Some(call)) => self.make_polled(call, own, &mut real),
            _ => real(own),
        };
        let mut ranges = Ranges::new();
        let mut began = 0;
        let result = self.until_made(|| {
            began = stamp(number);
            self.make(number, arguments, &mut ranges, |own| match blocks {
                true => self.blocking(|| real(own)),
                false => real(own),
            })
        });
        self.consider_input(number, arguments, result, ranges.all());
        sources::note(self, number, arguments, result);
        if result >= 0
            && let Some(given) = echoes::range(number, arguments)
        {
            ranges.add(given.address, given.from, given.bytes);
        }
        let mut entry = self.input_entry(number, result, check(number, arguments, result));
        if table::acts_on_others(number) && began != 0 {
            entry.check = log_format::inputs::with_duration(entry.check, began, entry.time);
            entry.time = began;
        } else if began != 0 && log_format::inputs::waits(number as u32) {
            entry.check = log_format::inputs::duration(began, entry.time);
        }
        let is_shown = number == libc::SYS_writev && result > 0;
        if is_shown {
            descriptors::count_shown(arguments[0], result as u64);
        }
        if !self.log_entry(entry, ranges.all()) && is_shown {
            uncount_shown(arguments[0], result as u64);
        }
        self.note_return(ordered.as_ref(), result);
        self.note_poll(polled.as_ref(), result);
        if !self.inside_event.get() {
            self.complete();
            self.take_in(number, ranges.all());
        }
        if control::counts() && result >= 0 {
            // When what it brought in is there.
            local_state::follow(number, arguments, result);
        }
        result
    }

    /// The short form of a clock that was read, if it has one. The event is then to be completed.
    #[inline]
    pub fn record_clock(&self, number: c_long, arguments: &[usize; 6], result: isize) -> bool {
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
        self.inputs.writer.append_clock(&clock)
    }

    /// Output that a replay shows is logged before it happens: when another thread ends the process, a thread inside the
    /// kernel still finishes its call, but comes back no more.
    fn record_output(
        &self,
        stream: i32,
        arguments: &[usize; 6],
        mut real: impl FnMut(&[usize; 6]) -> isize,
        ordered: Option<&OrderedCall>,
    ) -> isize {
        let _stream = descriptors::alone(stream);
        let _turn = output_order::take_turn(self, stream);
        if let Some(call) = ordered {
            self.hold_at_once(call);
        }
        let (number, expected) = (libc::SYS_write, arguments[2] as isize);
        let check = check(number, arguments, expected);
        // Counted first: if it is logged and never happens, the tool finds it missing.
        descriptors::count_shown(arguments[0], expected as u64);
        let began = self.input_entry(number, expected, check);
        let is_logged = self.log_entry(began, &[]);
        if !is_logged {
            uncount_shown(arguments[0], expected as u64);
        }
        let result = self.blocking(|| passed_on::write(stream, arguments[0], || real(arguments)));
        self.consider_input(number, arguments, result, &[]);
        if result != expected && is_logged {
            let check = if result < 0 { 0 } else { check };
            descriptors::count_shown(arguments[0], (result.max(0) - expected) as u64);
            let mut entry = self.input_entry(number, result, check);
            entry.time = began.time;
            self.inputs.writer.correct_last(entry);
        }
        self.note_return(ordered, result);
        if !self.inside_event.get() {
            self.complete();
        }
        result
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
    pub fn log_call(&self, number: c_long, result: isize, check: u32, ranges: &[Range]) {
        self.log_entry(self.input_entry(number, result, check), ranges);
    }

    /// False: recording has stopped, and a replay ends before this call.
    #[inline]
    pub fn log_entry(&self, entry: Entry, ranges: &[Range]) -> bool {
        self.note_label(entry.number, entry.time, self.inputs.call_stack.get() as usize);
        self.append_entry(entry, ranges)
    }

    /// The same, of an entry that needs no label.
    #[inline]
    pub fn append_entry(&self, entry: Entry, ranges: &[Range]) -> bool {
        // SAFETY: the kernel has just written these ranges.
        let is_logged = unsafe { self.inputs.writer.append(entry, ranges) };
        if !is_logged && self.slot.lost.load(Relaxed) == 0 {
            self.slot.lost.store(self.event() + 1, Relaxed);
        }
        is_logged
    }
}

/// What could not be logged is not written again in replay, and belongs to those who are not recorded.
fn uncount_shown(descriptor: usize, bytes: u64) {
    descriptors::count_shown(descriptor, bytes.wrapping_neg());
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
        SPAWN => hosting::creates_in_any_order(),
        libc::SYS_gettid | libc::SYS_set_tid_address => hosting::is_on(),
        _ => false,
    }
}
