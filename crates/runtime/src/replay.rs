//! Replay: each thread is held at its gates until what its schedule demands has happened.
//!
//! A gate is `(my event, points of other threads)`. Threads publish their counts anyway, so waiting is reading other
//! slots; threads without a gate run freely, in parallel. How threads wait, wake each other and find out that a wait can never end
//! is in `turn_scheduler::gates`; a replay which cannot go on says so at once.
use crate::control;
use crate::debugger;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::schedule;
use crate::slots::GATES;
use crate::slots::has_processors;
use crate::standstill;
use crate::sys;
use crate::trace_file;
use crate::turns;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Kind;
use run_model::Op;
use runtime_abi::DIVERGENCE_NAME_BYTES;
use runtime_abi::divergence;
use runtime_abi::schedule_file::GateEntry;
use runtime_abi::thread_state;
use turn_scheduler::gates::SPINS_MAX;
use turn_scheduler::gates::Waited;

/// Maps the schedule, and the orders of inputs that go with it.
pub fn open_schedule() {
    schedule::open();
    if control::inputs_only() {
        if turns::is_on() {
            turns::open();
        }
        turns::process_order::open();
    }
}

/// What the program is about to do, to be compared with what it did when it was recorded.
#[derive(Clone, Copy)]
pub struct Doing {
    pub kind: Kind,
    pub op: Op,
    pub object: u64,
}

/// An access to memory, wherever it is.
pub const PLAIN: Doing = Doing {
    kind: Kind::Run,
    op: Op::None,
    object: 0,
};

impl Local {
    /// Holds the thread before its next event until the schedule lets it go on. Returns the event's last record.
    pub fn pass_gate(&self, doing: Doing) -> Option<&'static GateEntry> {
        if policy::is_free() {
            return None;
        }
        self.pass_acquisitions();
        let event = self.event();
        if event >= self.replay.cursor.events.get() && doing.op == Op::Output && self.inputs.recorded.has_call_in(event)
        {
            // It was writing when the recorded process ended, and nobody else could write there any more.
            self.wait_for_others_steered();
            schedule::wait_until_others_are_done(self.index);
        } else if event >= self.replay.cursor.events.get() {
            // Relaxed: published by the state that `stop_here` sets.
            let what = doing.kind as u32 | (doing.op as u32) << 8;
            self.slot.stopped_at.store(what, Relaxed);
            self.slot.stopped_object.store(doing.object, Relaxed);
            self.trace_stop(doing);
            self.stop_until_freed();
            return None;
        }
        if event >= self.replay.cursor.survival.get() {
            self.leave_schedule(divergence::SURVIVED, doing, 0, 0, 0);
            return None;
        }
        self.await_place(event);
        self.require_no_call(event, doing);
        // A sleeper may have lowered the gate.
        self.wake_sleepers();
        self.arm_gate();
        if control::counts_for_points() {
            self.pass_own_step_slowly(doing);
        }
        let mut last = None;
        while let Some(gate) = self.replay.cursor.peek(event) {
            self.compare(gate, doing);
            self.pass(gate);
            if policy::is_free() {
                return None;
            }
            last = Some(gate);
        }
        if event >= self.replay.cursor.failure.get() {
            self.replay.cursor.failure.set(u64::MAX);
            self.replay.cursor.arm(self.slot);
            debugger::before_failure(|| schedule::others_stand(self.index));
        }
        if control::counts_for_trace() && doing.kind != Kind::Run {
            self.note_ordered(doing, last);
        }
        self.note_event(doing);
        last
    }

    /// Has the recording nothing more of this thread?
    pub fn is_at_end(&self) -> bool {
        self.event() >= self.replay.cursor.events.get()
    }

    /// Did the recorded process end in this thread?
    pub fn is_the_end(&self) -> bool {
        self.replay.cursor.survival.get() != u64::MAX
    }

    /// Did this thread die in the recording when it had completed `events`? Then what replay leaves out otherwise has
    /// to be done: it may be what the thread died of.
    pub fn dies_after(&self, events: u64) -> bool {
        events >= self.replay.cursor.death.get()
    }

    /// The fast path runs up to the next gate or signal, whichever comes first.
    pub fn arm_gate(&self) {
        self.replay.cursor.arm(self.slot);
        if let Some(signal) = self.inputs.recorded.next_signal() {
            self.slot.gate.fetch_min(signal.event, Relaxed);
        }
    }

    /// Does the recording have `op` next?
    pub fn expects(&self, op: Op) -> bool {
        self.pass_acquisitions();
        let gate = self.replay.cursor.peek(self.event());
        gate.is_some_and(|gate| gate.kind == Kind::Sync as u8 && gate.op == op as u8)
    }

    /// Acquisitions are events of their own: they happened in the slow path, before the event that needed them.
    pub fn pass_acquisitions(&self) {
        while let Some(gate) = self.replay.cursor.peek(self.event())
            && (Kind::Take as u8..=Kind::Seen as u8).contains(&gate.kind)
            && self.event() < self.replay.cursor.events.get()
        {
            self.pass(gate);
            self.complete_plain();
        }
    }

    /// May a loop of so many events run without checks? Records for its first event are of cells it held throughout.
    pub fn pass_loop(&self, events: u64) -> bool {
        if trace_file::is_on() || control::is_steered() {
            return false;
        }
        let event = self.event();
        let last = event.saturating_add(events);
        let beyond = self
            .replay
            .cursor
            .gates
            .get()
            .iter()
            .find(|gate| gate.event > event)
            .map_or(u64::MAX, |gate| gate.event);
        let signal = self.inputs.recorded.next_signal();
        let signal = signal.map_or(u64::MAX, |signal| signal.event);
        let end = self.replay.cursor.events.get().min(self.replay.cursor.survival.get());
        let stop = end.min(self.replay.cursor.failure.get()).min(signal);
        if last > beyond.min(stop) {
            return false;
        }
        while let Some(gate) = self.replay.cursor.peek(event) {
            self.compare(gate, PLAIN);
            self.pass(gate);
        }
        true
    }

    fn pass(&self, gate: &GateEntry) {
        let first = gate.first_wait as usize;
        for wait in schedule::waits().get(first..first + gate.waits as usize).unwrap_or(&[]) {
            self.wait_for(wait.thread, wait.count);
        }
        self.replay.cursor.gates.set(&self.replay.cursor.gates.get()[1..]);
        self.slot.records.store(self.slot.records.load(Relaxed) + 1, Relaxed);
        self.arm_gate();
        self.chaos.at_gate();
    }

    fn compare(&self, gate: &GateEntry, doing: Doing) {
        let same = match doing.kind {
            // Whether a plain access needs a record, and which, was up to the recording.
            Kind::Run => gate.kind == Kind::Run as u8 || gate.kind >= Kind::Vector as u8,
            kind => {
                gate.kind == kind as u8
                    && gate.op == doing.op as u8
                    && (doing.object == 0
                        || gate.object == doing.object
                        || !control::compares_object(doing.object)
                        || is_of_channel(doing))
            }
        };
        if !same {
            self.leave_schedule(divergence::OPERATION, doing, 0, 0, gate.value as u64);
        }
    }

    /// Waits until `thread` has completed `count` events.
    fn wait_for(&self, thread: u32, count: u64) {
        if control::is_steered() {
            return self.wait_steered(thread, count);
        }
        // Acquire: as in `Gates::wait_for`, which looks again.
        if control::counts_for_trace() && control::slot(thread).count.load(Acquire) < count {
            self.leave_turn();
        }
        let began = self.begin_wait(thread, count);
        let relay = self.replay.relay.get();
        let (waited, spins) = GATES.wait_for(self.index, thread, count, relay, self.spins());
        self.replay.spins.set(spins);
        if let Some(began) = began {
            note_wait(began);
        }
        match waited {
            Waited::Arrived => {}
            // It may have been waiting when the program left its schedule.
            _ if policy::is_free() => self.slot.state.store(thread_state::RUNNING, Relaxed),
            Waited::Diverged => standstill::sleep_forever(),
            Waited::Stuck => self.leave_schedule(divergence::STUCK, PLAIN, thread, count, 0),
        }
    }

    /// When a wait begins, if that is of interest; `None` as well if there is nothing to wait for.
    fn begin_wait(&self, thread: u32, count: u64) -> Option<u64> {
        // Relaxed: only to measure; whoever waits looks again.
        let waits = control::measures_waits() && control::slot(thread).count.load(Relaxed) < count;
        waits.then(sys::now_ns)
    }

    /// How often it looks before it sleeps. Threads of an enforced run that have a processor each come soon, most of the time, and waking them takes longer.
    fn spins(&self) -> u32 {
        match control::counts_for_points() && has_processors() {
            true => SPINS_MAX,
            false => self.replay.spins.get(),
        }
    }

    /// The recording has nothing more of this thread: it stays here, as it did when the recording ended.
    pub fn stop_here(&self) -> ! {
        self.wake_sleepers();
        release_streams();
        self.slot.state.store(thread_state::STOPPED, Release);
        turns::stop(self.index);
        self.leave_steered();
        debugger::after_stop(schedule::is_over);
        standstill::sleep_forever();
    }

    /// Reports the first divergence and stops the thread; the replayer ends the process.
    pub fn diverge(&self, kind: u32, doing: Doing, other: u32, other_count: u64, value: u64) -> ! {
        self.report(kind, doing, other, other_count, value, &[]);
        turns::end_following(self.index);
        standstill::sleep_forever();
    }

    /// Reports the first divergence; `name` is that of a file that it is about.
    pub fn report(&self, kind: u32, doing: Doing, other: u32, other_count: u64, value: u64, name: &[u8]) {
        /// Set by the first one, which alone writes what the tool is told.
        static REPORTED: AtomicU64 = AtomicU64::new(0);
        self.stop_beyond();
        if REPORTED.swap(1, Relaxed) == 0 {
            let header = control::header();
            header.divergence.thread.store(self.index, Relaxed);
            header.divergence.event.store(self.event(), Relaxed);
            header
                .divergence
                .actual
                .store(doing.kind as u32 | (doing.op as u32) << 8, Relaxed);
            header
                .divergence
                .site
                .store(crate::sites::number(self.slot.site.load(Relaxed)).0, Relaxed);
            header.divergence.object.store(doing.object, Relaxed);
            header.divergence.value.store(value, Relaxed);
            header.divergence.other_thread.store(other, Relaxed);
            header.divergence.other_count.store(other_count, Relaxed);
            // The last one stays 0.
            let places = header.divergence.name.iter().take(DIVERGENCE_NAME_BYTES - 1);
            places.zip(name).for_each(|(place, byte)| place.store(*byte, Relaxed));
            turns::follow_others(self.index);
            // Release: pairs with the Acquire in `has_diverged` and in the replayer.
            header.divergence.kind.store(kind, Release);
            if turns::is_on() || control::is_steered() {
                standstill::by_divergence();
            }
            debugger::after_divergence();
        }
    }
}

/// Where schedules are learned, a stream's event has another record for what it was written to, or read from (`calls/ordered.rs`).
fn is_of_channel(doing: Doing) -> bool {
    doing.op == Op::Output && control::counts()
}

fn note_wait(began: u64) {
    let progress = &control::header().progress;
    // Relaxed: lone numbers, which the tool reads when the process has ended.
    progress.waits.fetch_add(1, Relaxed);
    progress
        .waited_ns
        .fetch_add(sys::now_ns().saturating_sub(began), Relaxed);
}

/// A thread that stops inside libc must not keep others from printing: which of two that print by ways of libc's own
/// (failed assertions do) came first is not recorded.
fn release_streams() {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
        static stderr: *mut libc::FILE;
    }
    // SAFETY: libc's streams exist as long as the process; the lock of one that is ours may be given back by us.
    unsafe {
        for stream in [stdout, stderr] {
            while stream_owner(stream) == libc::pthread_self() as usize {
                real::funlockfile(stream);
            }
        }
    }
}

/// The thread that holds a stream's lock: a field of glibc's, at a place that its binary interface fixes.
///
/// # Safety
/// `stream` is one of libc's.
unsafe fn stream_owner(stream: *mut libc::FILE) -> usize {
    const LOCK: usize = 0x88;
    const OWNER: usize = 8;
    // SAFETY: the caller promises that `stream` is one of libc's; this is glibc's layout of `FILE`. Only our own value
    // in it is of interest, which nobody
    // else writes.
    unsafe {
        let lock = stream.byte_add(LOCK).cast::<*const u8>().read();
        lock.add(OWNER).cast::<usize>().read_volatile()
    }
}
