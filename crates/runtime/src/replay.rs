//! Replay: each thread is held at its gates until what its schedule demands has happened.
//!
//! A gate is `(my event, points of other threads)`. Threads publish their counts anyway, so waiting is reading other
//! slots; nobody has to be woken and threads without a gate run freely, in parallel. Whoever has waited for long asks
//! whether the wait can end at all (`find_stuck`), so that a replay which cannot go on says so at once.
use crate::control;
use crate::control::Mode;
use crate::debugger;
use crate::ending;
use crate::local::Local;
use crate::real;
use crate::sys;
use crate::trace;
use crate::turns;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use run_model::Kind;
use run_model::Op;
use runtime_abi::ENDED_BY_EXIT;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::ThreadSlot;
use runtime_abi::divergence;
use runtime_abi::schedule_file::GateEntry;
use runtime_abi::schedule_file::MAGIC;
use runtime_abi::schedule_file::ScheduleHeader;
use runtime_abi::schedule_file::ThreadGates;
use runtime_abi::schedule_file::WaitEntry;
use runtime_abi::thread_state;

const SCHEDULE: u64 = RUNTIME_REGION + 0x0800_0000_0000;

/// Maps the schedule. The replayer wrote and verified it a moment ago; here only sizes are checked again.
pub fn open_schedule() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(runtime_abi::schedule_file::FILE_NAME.as_bytes(), &mut buffer);
    let file = match sys::open(path, libc::O_RDWR) {
        Ok(file) => file,
        Err(errno) => crate::ending::die(b"cannot open the schedule of this run", errno),
    };
    // SAFETY: lseek touches no memory.
    let bytes = unsafe { sys::syscall(libc::SYS_lseek, [file as usize, 0, libc::SEEK_END as usize, 0, 0, 0]) };
    // The one of the parent, if this process was forked. Whatever is mapped where a longer one ends is left over from it,
    // and never looked at.
    if bytes < size_of::<ScheduleHeader>() as isize || sys::map_at(SCHEDULE, bytes as usize, file, 0, true).is_err() {
        crate::ending::die(b"cannot map the schedule of this run", 0);
    }
    sys::close(file);
    if control::inputs_only() {
        turns::open();
        turns::family::open();
    }
    let header = schedule();
    let expected = size_of::<ScheduleHeader>() as u64
        + header.threads as u64 * size_of::<ThreadGates>() as u64
        + header.gates * size_of::<GateEntry>() as u64
        + header.waits * size_of::<WaitEntry>() as u64;
    if header.magic != MAGIC || expected != bytes as u64 {
        crate::ending::die(b"the schedule of this run is damaged; remove it, and replay again", 0);
    }
}

/// Does the recording say that a thread other than `me` ended the process? The last of several threads that end by
/// themselves ends it, too; which one is the last is libc's affair.
pub fn somebody_else_ends(me: u32) -> bool {
    let ends = |thread: u32| {
        let slot = control::slot(thread);
        slot.signal.load(Relaxed) != 0 && slot.state.load(Acquire) != thread_state::EXITED
    };
    (0..schedule().threads).any(|thread| thread != me && ends(thread))
}

/// Has the recording nothing more of any thread, and do some stand at the end of their events?
pub fn is_over() -> bool {
    let is_over = |(thread, part): (usize, &ThreadGates)| match control::slot(thread as u32).state.load(Acquire) {
        thread_state::STOPPED | thread_state::EXITED => true,
        // Created, perhaps, and about to start.
        thread_state::UNUSED => part.events == 0,
        _ => false,
    };
    threads().iter().enumerate().all(is_over)
}

/// Can no thread but `me` do anything more before `me` does?
pub fn others_stand(me: u32) -> bool {
    let stands = |(thread, part): (usize, &ThreadGates)| {
        let slot = control::slot(thread as u32);
        let waits = || {
            let (awaited, count) = (slot.wait_thread.load(Relaxed), slot.wait_count.load(Relaxed));
            slot.state.load(Acquire) == thread_state::WAITING && control::slot(awaited).count.load(Acquire) < count
        };
        thread == me as usize || slot.count.load(Acquire) >= part.events || waits()
    };
    threads().iter().enumerate().all(stands)
}

/// Has every thread but `me` done all that the recording has of it?
pub fn others_are_done(me: u32) -> bool {
    // Acquire: what those threads did is visible to whoever ends the process.
    let done = |(thread, part): (usize, &ThreadGates)| {
        thread == me as usize || control::slot(thread as u32).count.load(Acquire) >= part.events
    };
    threads().iter().enumerate().all(done)
}

/// Has the recording more of `thread` than it has done?
pub fn is_short(thread: u32) -> bool {
    let part = threads().get(thread as usize);
    part.is_some_and(|part| control::slot(thread).count.load(Acquire) < part.events)
}

/// Has every thread but `me` come to where it stays?
pub fn others_have_stopped(me: u32) -> bool {
    let runs = |thread: u32| {
        let state = control::slot(thread).state.load(Acquire);
        matches!(state, thread_state::RUNNING | thread_state::BLOCKED)
    };
    !(0..schedule().threads).any(|thread| thread != me && runs(thread))
}

fn schedule() -> &'static ScheduleHeader {
    // SAFETY: `open_schedule` mapped at least a header here, for good.
    unsafe { &*(SCHEDULE as *const ScheduleHeader) }
}

fn threads() -> &'static [ThreadGates] {
    let at = SCHEDULE as usize + size_of::<ScheduleHeader>();
    // SAFETY: `open_schedule` found the file to be exactly as long as its header says.
    unsafe { core::slice::from_raw_parts(at as *const ThreadGates, schedule().threads as usize) }
}

fn gates() -> &'static [GateEntry] {
    let at = threads().as_ptr_range().end;
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(at.cast(), schedule().gates as usize) }
}

fn waits() -> &'static [WaitEntry] {
    let at = gates().as_ptr_range().end;
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(at.cast(), schedule().waits as usize) }
}

/// The thread that has created, or is to create, `thread`, if the recording says so: its first event comes after one of that thread's.
pub fn creator_of(thread: u32) -> Option<u32> {
    let part = threads().get(thread as usize).filter(|part| part.gates > 0)?;
    let start = gates().get(part.first as usize)?;
    let is_start = start.kind == Kind::Start as u8 && start.waits > 0;
    let wait = waits().get(start.first_wait as usize).filter(|_| is_start)?;
    Some(wait.thread)
}

/// Does the recording say at which event `thread` was cancelled?
pub fn is_cancelled_at_an_event(thread: u32) -> bool {
    let part = threads()
        .get(thread as usize)
        .map(|t| t.first as usize..(t.first + t.gates) as usize);
    part.and_then(|part| gates().get(part))
        .is_some_and(|gates| gates.iter().any(|g| g.op == Op::Cancelled as u8))
}

/// The thread in which the recorded process ended may complete so many events more, at most: what it dies of is close to its
/// last recorded one.
const SURVIVAL_EVENTS: u64 = 1 << 20;

/// A thread's place in its part of the schedule.
pub struct Cursor {
    gates: &'static [GateEntry],
    events: u64,
    /// If a signal ended the recorded process in this thread: what it had completed then; else u64::MAX.
    death: u64,
    /// If the recorded process ended in this thread: so many events it cannot have had by then; else u64::MAX.
    survival: u64,
    /// The event before which the debugger is told of the failure; u64::MAX: none.
    failure: u64,
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

impl Cursor {
    pub const fn new() -> Cursor {
        Cursor {
            gates: &[],
            events: 0,
            death: u64::MAX,
            survival: u64::MAX,
            failure: u64::MAX,
        }
    }

    /// Goes to the beginning of thread `index`'s part.
    pub fn open(&mut self, index: u32, slot: &ThreadSlot) {
        if let Some(thread) = threads().get(index as usize) {
            let first = thread.first as usize;
            self.gates = gates().get(first..first + thread.gates as usize).unwrap_or(&[]);
            // A thread that a signal killed goes on: it is to be killed again.
            let how = slot.signal.load(Relaxed);
            self.events = if how != 0 { u64::MAX } else { thread.events };
            if how != 0 {
                self.survival = thread.events.saturating_add(SURVIVAL_EVENTS);
            }
            if how != 0 && how != ENDED_BY_EXIT {
                self.death = thread.events;
            }
            self.failure = debugger::failure_of(index);
        }
        self.arm(slot);
    }

    /// The fast path runs up to the next gate, and never past the end of the recording.
    fn arm(&self, slot: &ThreadSlot) {
        // Traced: every check of compiled code fails, so that the runtime sees every access.
        if trace::is_on() {
            return slot.gate.store(0, Relaxed);
        }
        let next = self.gates.first().map_or(u64::MAX, |gate| gate.event);
        let end = self.events.min(self.survival);
        slot.gate.store(next.min(end).min(self.failure), Relaxed);
    }

    /// The record that the recording has for `event`, if any.
    pub fn peek(&self, event: u64) -> Option<&'static GateEntry> {
        self.gates.first().filter(|gate| gate.event == event)
    }
}

impl Local {
    /// Holds the thread before its next event until the schedule lets it go on. Returns the event's last record.
    pub fn pass_gate(&mut self, doing: Doing) -> Option<&'static GateEntry> {
        self.pass_acquisitions();
        let event = self.event();
        if event >= self.cursor.events && doing.op == Op::Output && self.recorded_inputs.has_call_in(event) {
            // It was writing when the recorded process ended, and nobody else could write there any more.
            ending::wait_until_others_are_done(self.index);
        } else if event >= self.cursor.events {
            // Relaxed: published by the state that `stop_here` sets.
            let what = doing.kind as u32 | (doing.op as u32) << 8;
            self.slot.stopped_at.store(what, Relaxed);
            self.slot.stopped_object.store(doing.object, Relaxed);
            self.trace_stop(doing);
            self.stop_here();
        }
        if event >= self.cursor.survival {
            self.diverge(divergence::SURVIVED, doing, 0, 0, 0);
        }
        // A sleeper may have lowered the gate.
        self.wake_sleepers();
        self.arm_gate();
        let mut last = None;
        while let Some(gate) = self.cursor.peek(event) {
            self.compare(gate, doing);
            self.pass(gate);
            last = Some(gate);
        }
        if event >= self.cursor.failure {
            self.cursor.failure = u64::MAX;
            self.cursor.arm(self.slot);
            debugger::before_failure(self.index);
        }
        last
    }

    /// Has the recording nothing more of this thread?
    pub fn is_at_end(&self) -> bool {
        self.event() >= self.cursor.events
    }

    /// Did the recorded process end in this thread?
    pub fn is_the_end(&self) -> bool {
        self.cursor.survival != u64::MAX
    }

    /// Did this thread die in the recording when it had completed `events`? Then what replay leaves out otherwise has
    /// to be done: it may be what the thread died of.
    pub fn dies_after(&self, events: u64) -> bool {
        events >= self.cursor.death
    }

    /// The fast path runs up to the next gate or signal, whichever comes first.
    pub fn arm_gate(&self) {
        self.cursor.arm(self.slot);
        if let Some((signal, _)) = self.recorded_inputs.next_signal() {
            self.slot.gate.fetch_min(signal, Relaxed);
        }
    }

    /// Does the recording have `op` next?
    pub fn expects(&mut self, op: Op) -> bool {
        self.pass_acquisitions();
        let gate = self.cursor.peek(self.event());
        gate.is_some_and(|gate| gate.kind == Kind::Sync as u8 && gate.op == op as u8)
    }

    /// Acquisitions are events of their own: they happened in the slow path, before the event that needed them.
    pub fn pass_acquisitions(&mut self) {
        while let Some(gate) = self.cursor.peek(self.event())
            && (Kind::Take as u8..=Kind::Seen as u8).contains(&gate.kind)
            && self.event() < self.cursor.events
        {
            self.pass(gate);
            self.complete();
        }
    }

    /// May a loop of so many events run without checks? Records for its first event are of cells it held throughout.
    pub fn pass_loop(&mut self, events: u64) -> bool {
        if trace::is_on() {
            return false;
        }
        let event = self.event();
        let last = event.saturating_add(events);
        let beyond = self
            .cursor
            .gates
            .iter()
            .find(|gate| gate.event > event)
            .map_or(u64::MAX, |gate| gate.event);
        let signal = self.recorded_inputs.next_signal().map_or(u64::MAX, |(event, _)| event);
        let end = self.cursor.events.min(self.cursor.survival);
        let stop = end.min(self.cursor.failure).min(signal);
        if last > beyond.min(stop) {
            return false;
        }
        while let Some(gate) = self.cursor.peek(event) {
            self.compare(gate, PLAIN);
            self.pass(gate);
        }
        true
    }

    fn pass(&mut self, gate: &GateEntry) {
        let first = gate.first_wait as usize;
        for wait in waits().get(first..first + gate.waits as usize).unwrap_or(&[]) {
            self.wait_for(wait.thread, wait.count);
        }
        self.cursor.gates = &self.cursor.gates[1..];
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
                    && (doing.object == 0 || gate.object == doing.object)
            }
        };
        if !same {
            self.diverge(divergence::OPERATION, doing, 0, 0, gate.value as u64);
        }
    }

    /// Waits until `thread` has completed `count` events.
    fn wait_for(&mut self, thread: u32, count: u64) {
        let awaited = control::slot(thread);
        // Acquire: pairs with the Release in `Local::complete_many` and with compiled code's plain stores, which x86
        // keeps in order after the accesses they count.
        let arrived = || awaited.count.load(Acquire) >= count;
        if arrived() {
            return;
        }
        // Compiled code may have come here without waking anybody.
        self.wake_sleepers();
        // Spinning pays if the other thread runs at the same time, which only trying shows.
        for _ in 0..self.spins {
            core::hint::spin_loop();
            if arrived() {
                self.spins = (self.spins + self.spins / 8).min(SPINS_MAX);
                return;
            }
        }
        self.spins = (self.spins / 2).max(SPINS_MIN);
        self.slot.wait_thread.store(thread, Relaxed);
        self.slot.wait_count.store(count, Relaxed);
        self.slot.state.store(thread_state::WAITING, Release);
        let mut look_after_ns = LOOK_AFTER_NS;
        loop {
            sleep_until_woken(awaited, count, look_after_ns);
            if arrived() {
                break;
            }
            // A thousand threads that look all the time would leave no time for those that are awaited.
            look_after_ns = (2 * look_after_ns).min(LOOK_AFTER_NS_MAX);
            if control::has_diverged() {
                sleep_forever();
            }
            if is_stuck(self.index) {
                self.diverge(divergence::STUCK, PLAIN, thread, count, 0);
            }
        }
        self.slot.state.store(thread_state::RUNNING, Relaxed);
    }

    /// The recording has nothing more of this thread: it stays here, as it did when the recording ended.
    pub fn stop_here(&self) -> ! {
        self.wake_sleepers();
        release_streams();
        self.slot.state.store(thread_state::STOPPED, Release);
        turns::stop(self.index);
        debugger::after_stop();
        sleep_forever();
    }

    /// Reports the first divergence and stops the thread; the replayer ends the process.
    pub fn diverge(&self, kind: u32, doing: Doing, other: u32, other_count: u64, value: u64) -> ! {
        static REPORTED: AtomicU64 = AtomicU64::new(0);
        if REPORTED.swap(1, Relaxed) == 0 {
            let header = control::header();
            header.divergence_thread.store(self.index, Relaxed);
            header.divergence_event.store(self.event(), Relaxed);
            header
                .divergence_actual
                .store(doing.kind as u32 | (doing.op as u32) << 8, Relaxed);
            header
                .divergence_site
                .store(crate::sites::number(self.slot.site.load(Relaxed)).0, Relaxed);
            header.divergence_object.store(doing.object, Relaxed);
            header.divergence_value.store(value, Relaxed);
            header.divergence_other_thread.store(other, Relaxed);
            header.divergence_other_count.store(other_count, Relaxed);
            turns::follow_others(self.index);
            // Release: pairs with the Acquire in `has_diverged` and in the replayer.
            header.divergence_kind.store(kind, Release);
            if turns::is_on() {
                ending::by_divergence();
            }
            debugger::after_divergence();
        }
        turns::end_following(self.index);
        sleep_forever();
    }
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
    // SAFETY: the caller's promise, and glibc's layout of `FILE`. Only our own value in it is of interest, which nobody
    // else writes.
    unsafe {
        let lock = stream.byte_add(LOCK).cast::<*const u8>().read();
        lock.add(OWNER).cast::<usize>().read_volatile()
    }
}

/// A sleeper that is not woken looks for itself after this long: its wish may have been missed. Then after twice as long.
const LOOK_AFTER_NS: u64 = 1_000_000;
const LOOK_AFTER_NS_MAX: u64 = 64_000_000;
/// Looks at the other thread's count before going to sleep.
pub const SPINS_AT_FIRST: u32 = 512;
const SPINS_MAX: u32 = 4096;
const SPINS_MIN: u32 = 32;

fn sleep_until_woken(awaited: &ThreadSlot, count: u64, look_after_ns: u64) {
    let earlier = |at: u64| if at == 0 { count } else { at.min(count) };
    // SeqCst: the wish is visible before the count is looked at again.
    _ = awaited.wake_at.fetch_update(SeqCst, SeqCst, |at| Some(earlier(at)));
    // Compiled code does not wake anybody, so it must come to the runtime. Relaxed, and perhaps overwritten by the
    // thread itself: as above, a sleeper looks for itself in the end.
    awaited.gate.fetch_min(count, Relaxed);
    let wakeups = awaited.wakeups.load(Acquire);
    if awaited.count.load(Acquire) < count {
        sys::futex_wait(&awaited.wakeups, wakeups, look_after_ns);
    }
}

/// The thread of `slot` has come to where somebody sleeps until it does. Those who sleep for longer say so again.
#[cold]
pub fn wake(slot: &ThreadSlot) {
    slot.wake_at.store(0, SeqCst);
    slot.wakeups.fetch_add(1, Release);
    sys::futex_wake_all(&slot.wakeups);
}

/// Until the tool ends us; or until the tool itself is gone, if we were forked and nobody would.
pub fn sleep_forever() -> ! {
    loop {
        sys::sleep_ns(1_000_000_000);
        if control::mode() == Mode::Replay && !sys::is_process(control::header().tool) {
            // SAFETY: ends the process.
            unsafe { sys::syscall(libc::SYS_exit_group, [1, 0, 0, 0, 0, 0]) };
        }
    }
}

/// Can the wait of `thread` never end? True if it leads to a thread that is gone, or around in a circle.
///
/// Threads go on while they are looked at, so what was seen counts only if it is seen twice. A wait that has ended is
/// not seen again, because counts only grow; hence all waits of the second look lasted from the first to the second.
fn is_stuck(thread: u32) -> bool {
    follow_waits(thread).is_some_and(|first| follow_waits(thread) == Some(first))
}

/// Follows the waits from `thread` on; if they lead nowhere, a number that stands for the path.
fn follow_waits(thread: u32) -> Option<u64> {
    let mut path = 0u64;
    let mut at = thread;
    for _ in 0..control::header().threads.load(Relaxed) + 1 {
        let slot = control::slot(at);
        if slot.state.load(Acquire) != thread_state::WAITING {
            return None;
        }
        let (next, count) = (slot.wait_thread.load(Relaxed), slot.wait_count.load(Relaxed));
        path = (path ^ (next as u64) << 48 ^ count).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let awaited = control::slot(next);
        let state = awaited.state.load(Acquire);
        if awaited.count.load(Acquire) >= count {
            return None;
        }
        if state == thread_state::EXITED || state == thread_state::STOPPED || next == thread {
            return Some(path);
        }
        at = next;
    }
    // A circle that does not contain `thread`: those on it find out for themselves.
    None
}
