//! When handlers of signals run: at safe points. Those of signals that have come, if inputs are recorded or live; those of signals that came
//! there, if they are answered. Threads are cancelled at the same places, in the order of threads.
use crate::calls;
use crate::calls::cancellation;
use crate::calls::descriptors;
use crate::calls::echoes;
use crate::calls::filters;
use crate::calls::is_to_self;
use crate::calls::signals;
use crate::calls::signals::FIRST;
use crate::calls::table;
use crate::control;
use crate::handlers;
use crate::handles::object_of as object_of_thread;
use crate::inputs;
use crate::inputs::Range;
use crate::inputs::SignalAt;
use crate::local::Came;
use crate::local::Local;
use crate::local::Registers;
use crate::policy;
use crate::sys;
use crate::sys::PUT_OFF;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_long;
use log_format::inputs::Entry;
use log_format::inputs::SignalPlace;
use run_model::Op;
use thread_cells::HandlerWord;

const INFO_BYTES: usize = size_of::<libc::siginfo_t>();
const REGISTERS_BYTES: usize = size_of::<Registers>();

/// May a call be put off that is not logged? Of these the one waits, and the other decides which handlers may run.
pub fn may_be_put_off(number: c_long) -> bool {
    matches!(number, libc::SYS_futex | libc::SYS_rt_sigprocmask)
}

impl Local {
    /// A safe point before an event: runs the handlers of signals that have come (recording), or that came here (replay).
    #[inline]
    pub fn at_safe_point(&self) {
        self.at_place(SignalPlace::Before);
    }

    /// The same when a system call has returned.
    #[inline]
    pub fn after_call(&self) {
        self.at_place(SignalPlace::AfterCall);
    }

    #[inline]
    fn at_place(&self, place: SignalPlace) {
        let has_signal = match policy::are_inputs_answered() {
            true => self.is_signal_due(place),
            false => self.inputs.pending.count.get() != 0,
        };
        let due = has_signal || self.is_to_be_cancelled() || self.was_cancelled_here();
        if due && !self.inside_event.get() && !self.calls_pass.get() {
            self.deliver(place);
        }
    }

    /// Replay: did a signal come here?
    ///
    /// There may be many calls between two events that are not logged, and as many safe points: at scope `inputs` all of them are counted, elsewhere
    /// those that change which signals are blocked.
    #[inline]
    fn is_signal_due(&self, place: SignalPlace) -> bool {
        let Some(next) = self.inputs.recorded.next_signal() else {
            return false;
        };
        if place == SignalPlace::AfterCall && next.place == Some(SignalPlace::Before) || !self.is_at(&next) {
            return false;
        }
        if place == SignalPlace::AfterCall && next.place == Some(SignalPlace::Anywhere) {
            // Somewhere between this call and what comes next.
            let signal = self.inputs.recorded.next_signal_number(next.event);
            self.inputs.spinning.watch(signal.unwrap_or(0) as c_int);
            return false;
        }
        true
    }

    fn is_at(&self, signal: &SignalAt) -> bool {
        signal.event == self.event()
            && match control::inputs_only() {
                true if self.inputs.recorded.has_place() && turns::is_on() => {
                    turns::is_next(self.index) && self.inputs.real_calls.get() as u32 >= signal.calls
                }
                true => signal.calls == self.inputs.real_calls.get() as u32,
                false => signal.place.is_none() || self.inputs.mask_changes.get() as u32 >= signal.calls,
            }
    }

    /// Replay: did a handler come next that ran where the thread was, without any call?
    pub fn is_anywhere_due(&self) -> bool {
        let next = self.inputs.recorded.next_signal();
        next.is_some_and(|next| next.place == Some(SignalPlace::Anywhere) && next.event == self.event())
    }

    /// The calling thread's signals whose handlers have not run yet, if a call may be put off for them.
    pub fn pending_before(number: c_long, arguments: &[usize; 6]) -> Option<&'static HandlerWord> {
        let local = Local::current().filter(|local| local.may_put_off(number, arguments))?;
        Some(&local.inputs.pending.count)
    }

    /// Output that a replay shows is not put off, as others wait behind it, nor what is logged before it is made.
    fn may_put_off(&self, number: c_long, arguments: &[usize; 6]) -> bool {
        let is_open = match self.calls_pass.get() {
            true => self.is_open_wait(number),
            false => may_be_put_off(number) || table::is_logged(number, arguments),
        };
        let is_shown = || table::writes(number) && descriptors::shown(arguments[0]).is_some();
        let is_ours = policy::is_free() || self.inside_event.get() || self.ends_unseen.get();
        is_open && !is_ours && !is_shown() && !is_to_self(number, arguments, sys::thread_id)
    }

    /// Is this call, which is part of an event, the wait of one that has not happened yet?
    pub fn is_open_wait(&self, number: c_long) -> bool {
        number == libc::SYS_futex && self.inputs.waits_cancellably.get()
    }

    /// Recording, or live: makes a call. As often as a signal puts it off, that one's handler runs first.
    #[inline]
    pub fn until_made(&self, mut call: impl FnMut() -> isize) -> isize {
        loop {
            let result = call();
            if result != PUT_OFF {
                return result;
            }
            self.at_safe_point();
        }
    }

    /// Recording, or live, inside of a wait of libc's, which has no event before it is over: handlers run where the signal has come, as they do without us. In
    /// replay it is before the wait's event.
    pub fn wait_interruptibly(&self, call: impl Fn() -> isize) -> isize {
        loop {
            let result = call();
            if self.inputs.pending.count.get() != 0 {
                self.access.between_blocks(|| {
                    self.inputs.waits_cancellably.set(false);
                    self.calls_pass.set(false);
                    self.at_safe_point();
                    self.calls_pass.set(true);
                    self.inputs.waits_cancellably.set(true);
                });
                // It may have come while the handler ran.
                self.pass_request_on();
            }
            if result != PUT_OFF {
                return result;
            }
        }
    }

    /// Replay, before a call that is logged: what came before it comes now at the latest.
    pub fn deliver_before_call(&self) {
        while !turns::is_on()
            && !self.inside_event.get()
            && self.inputs.recorded.next_signal_number(self.event()).is_some()
        {
            self.deliver_next();
        }
    }

    #[cold]
    fn deliver(&self, place: SignalPlace) {
        match policy::are_inputs_answered() {
            true => self.deliver_recorded(place),
            false => self.deliver_pending(place, None),
        }
        match policy::is_imposed() {
            true => self.cancel_again(),
            false => self.cancel_if_asked(),
        }
    }

    /// The order is observed: who is to be cancelled, and can be, is.
    fn cancel_if_asked(&self) {
        self.cancel_here();
        self.next_change_point();
    }

    /// The order is imposed: who was cancelled here is.
    fn cancel_again(&self) {
        if self.was_cancelled_here() {
            cancellation::replay(self, object_of_thread(self.index), || ());
        }
        self.arm_gate();
    }

    /// Inputs are recorded, or live: runs the handlers of all signals that have come. `interrupted`: the thread, if it is in a handler of ours.
    pub fn deliver_pending(&self, place: SignalPlace, mut interrupted: Option<&mut libc::ucontext_t>) {
        self.inputs.spinning.stop();
        loop {
            let blocked = match &interrupted {
                Some(context) => Some(signals::blocked_in(context)),
                None => self.inputs.call_mask.get(),
            };
            let Some(mut came) = self.inputs.pending.take(blocked) else {
                return;
            };
            let at = self.handler_stack(came.signal);
            let told = self.registers_told(&came, interrupted.as_deref());
            filters::tell_address(&mut came.info, told[libc::REG_RIP as usize] as u64);
            if policy::are_inputs_recorded() {
                self.log_signal(&came, &told, place, at);
            }
            if handlers::is_cancellation(came.signal as usize) {
                cancellation::stop_coming(&self.inputs.request_timer);
            }
            self.run_handler(&came, &told, at, interrupted.as_deref_mut());
        }
    }

    /// Inputs are answered: runs the handlers of all signals that came here.
    fn deliver_recorded(&self, place: SignalPlace) {
        while self.is_signal_due(place) {
            self.deliver_next();
        }
    }

    /// Replay: the signal that comes next, if one does and its turn has come, is delivered here.
    pub fn deliver_next(&self) {
        self.deliver_next_in(None);
    }

    /// The same. `interrupted`: the thread, if it is in a handler of ours.
    pub fn deliver_next_in(&self, interrupted: Option<&mut libc::ucontext_t>) {
        let is_due = !turns::is_on() || !self.inputs.recorded.has_place() || turns::is_next(self.index);
        if !is_due || self.inputs.recorded.next_signal_number(self.event()).is_none() {
            return;
        }
        let Some(entry) = self.take_input() else {
            return;
        };
        let mut came = Came::new((entry.entry.number - FIRST) as c_int);
        let mut at = None;
        let mut ranges = entry.ranges();
        if let Some((address, bytes)) = ranges.next() {
            let bytes = &bytes[..bytes.len().min(INFO_BYTES)];
            inputs::copy(bytes.as_ptr(), (&raw mut came.info).cast(), bytes.len());
            at = Some(address as usize).filter(|at| self.can_be_stack(came.signal, *at));
        }
        if let Some((_, bytes)) = ranges.next() {
            let bytes = &bytes[..bytes.len().min(REGISTERS_BYTES)];
            inputs::copy(bytes.as_ptr(), (&raw mut came.registers).cast(), bytes.len());
        }
        if turns::is_on() {
            echoes::replace_in_info(&raw mut came.info as usize);
        }
        self.inputs.spinning.stop();
        let at = at.unwrap_or_else(|| self.handler_stack(came.signal));
        // What they were where the thread waited cannot be told otherwise.
        let told = self.registers_told(&came, None);
        self.run_handler(&came, &told, at, interrupted);
    }

    /// The order is imposed: was this thread cancelled at the coming event, by a request of somebody else?
    #[inline]
    fn was_cancelled_here(&self) -> bool {
        let gate = self.replay.cursor.peek(self.event());
        gate.is_some_and(|gate| gate.op == Op::Cancelled as u8 && gate.object == object_of_thread(self.index))
    }

    /// `at`: the stack that its handler runs on.
    fn log_signal(&self, came: &Came, told: &Registers, place: SignalPlace, at: usize) {
        let ranges = [
            Range {
                address: at,
                from: &raw const came.info as usize,
                bytes: INFO_BYTES,
            },
            Range {
                address: 0,
                from: told.as_ptr() as usize,
                bytes: REGISTERS_BYTES,
            },
        ];
        let calls = match control::inputs_only() {
            true => self.inputs.real_calls.get(),
            false => self.inputs.mask_changes.get(),
        };
        let entry = Entry {
            event: self.event(),
            number: FIRST + came.signal as u32,
            check: calls as u32,
            result: place as i64,
            time: calls::now(),
            ..Entry::default()
        };
        // SAFETY: a siginfo and registers of ours.
        unsafe { self.inputs.writer.append(entry, &ranges) };
    }
}
