//! The schedule of a replay, as the replayer wrote it: for each thread, the gates at which it waits for others.
use crate::control;
use crate::debugger;
use crate::failure;
use crate::policy;
use crate::standstill;
use crate::sys;
use crate::this_machine::ThisMachine;
use crate::trace_file;
use core::cell::Cell;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use runtime_abi::ENDED_BY_EXIT;
use runtime_abi::ThreadSlot;
use runtime_abi::memory_map;
use runtime_abi::schedule_file::GateEntry;
use runtime_abi::schedule_file::MAGIC;
use runtime_abi::schedule_file::ScheduleHeader;
use runtime_abi::schedule_file::ThreadGates;
use runtime_abi::schedule_file::WaitEntry;
use runtime_abi::thread_state;
use turn_scheduler::gates;

const SCHEDULE: u64 = memory_map::SCHEDULE.start;

/// How long an ending replay waits for other threads; the replayer then reports what is missing.
const PATIENCE_NS: u64 = 20_000_000_000;
const LOOK_EVERY_NS: u64 = 100_000;

/// Maps the schedule. The replayer wrote and verified it a moment ago; here only sizes are checked again.
pub fn open() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(runtime_abi::schedule_file::FILE_NAME.as_bytes(), &mut buffer);
    let file = match sys::open(path, libc::O_RDWR) {
        Ok(file) => file,
        Err(errno) => failure::die(b"cannot open the schedule of this run", errno),
    };
    // SAFETY: lseek touches no memory.
    let bytes = unsafe { sys::syscall(libc::SYS_lseek, [file as usize, 0, libc::SEEK_END as usize, 0, 0, 0]) };
    // The one of the parent, if this process was forked. Whatever is mapped where a longer one ends is left over from it,
    // and never looked at.
    let has_room = memory_map::SCHEDULE.has_room_for(bytes.max(0) as u64);
    if !has_room
        || bytes < size_of::<ScheduleHeader>() as isize
        || sys::map_at(SCHEDULE, bytes as usize, file, 0, true).is_err()
    {
        failure::die(b"cannot map the schedule of this run", 0);
    }
    sys::close(file);
    let header = schedule();
    let expected = size_of::<ScheduleHeader>() as u64
        + header.threads as u64 * size_of::<ThreadGates>() as u64
        + header.gates * size_of::<GateEntry>() as u64
        + header.waits * size_of::<WaitEntry>() as u64;
    if header.magic != MAGIC || expected != bytes as u64 {
        failure::die(b"the schedule of this run is damaged; remove it, and replay again", 0);
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

pub fn schedule() -> &'static ScheduleHeader {
    // SAFETY: `open_schedule` mapped at least a header here, for good.
    unsafe { &*(SCHEDULE as *const ScheduleHeader) }
}

pub fn threads() -> &'static [ThreadGates] {
    let at = SCHEDULE as usize + size_of::<ScheduleHeader>();
    // SAFETY: `open_schedule` found the file to be exactly as long as its header says.
    unsafe { core::slice::from_raw_parts(at as *const ThreadGates, schedule().threads as usize) }
}

pub fn gates() -> &'static [GateEntry] {
    let at = threads().as_ptr_range().end;
    // SAFETY: `open_schedule` found the file to be exactly as long as its header says; the gates follow the threads.
    unsafe { core::slice::from_raw_parts(at.cast(), schedule().gates as usize) }
}

pub fn waits() -> &'static [WaitEntry] {
    let at = gates().as_ptr_range().end;
    // SAFETY: `open_schedule` found the file to be exactly as long as its header says; the waits follow the gates.
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

/// The same where plain accesses are no events.
const STEERED_SURVIVAL_EVENTS: u64 = 16;

/// A thread's place in its part of the schedule.
pub struct Cursor {
    pub gates: Cell<&'static [GateEntry]>,
    pub events: Cell<u64>,
    /// If a signal ended the recorded process in this thread: what it had completed then; else u64::MAX.
    pub death: Cell<u64>,
    /// If the recorded process ended in this thread: so many events it cannot have had by then; else u64::MAX.
    pub survival: Cell<u64>,
    /// The event before which the debugger is told of the failure; u64::MAX: none.
    pub failure: Cell<u64>,
}

impl Cursor {
    pub const fn new() -> Cursor {
        Cursor {
            gates: Cell::new(&[]),
            events: Cell::new(0),
            death: Cell::new(u64::MAX),
            survival: Cell::new(u64::MAX),
            failure: Cell::new(u64::MAX),
        }
    }

    /// A forked child has a schedule of its own.
    pub fn close(&self) {
        self.gates.set(&[]);
        self.events.set(0);
        self.death.set(u64::MAX);
        self.survival.set(u64::MAX);
        self.failure.set(u64::MAX);
    }

    /// Goes to the beginning of thread `index`'s part.
    pub fn open(&self, index: u32, slot: &ThreadSlot) {
        if let Some(thread) = threads().get(index as usize) {
            let first = thread.first as usize;
            self.gates
                .set(gates().get(first..first + thread.gates as usize).unwrap_or(&[]));
            // A thread that a signal killed goes on: it is to be killed again.
            let how = slot.signal.load(Relaxed);
            self.events.set(if how != 0 { u64::MAX } else { thread.events });
            if how != 0 {
                let more = match control::is_steered() {
                    true => STEERED_SURVIVAL_EVENTS,
                    false => SURVIVAL_EVENTS,
                };
                self.survival.set(thread.events.saturating_add(more));
            }
            if how != 0 && how != ENDED_BY_EXIT {
                self.death.set(thread.events);
            }
            self.failure.set(debugger::failure_of(index));
        }
        self.arm(slot);
    }

    /// The fast path runs up to the next gate, and never past the end of the recording.
    pub fn arm(&self, slot: &ThreadSlot) {
        // Traced: every check of compiled code fails, so that the runtime sees every access.
        if trace_file::is_on() || control::counts_for_trace() || control::is_steered() {
            return slot.gate.store(0, Relaxed);
        }
        let next = self.gates.get().first().map_or(u64::MAX, |gate| gate.event);
        let end = self.events.get().min(self.survival.get());
        gates::arm::<ThisMachine>(slot, next.min(end).min(self.failure.get()));
    }

    /// The record that the recording has for `event`, if any.
    pub fn peek(&self, event: u64) -> Option<&'static GateEntry> {
        self.gates.get().first().filter(|gate| gate.event == event)
    }
}

/// Replay: waits until every thread but `me` has completed all the events that it had.
pub fn wait_until_others_are_done(me: u32) {
    let mut waited = 0;
    // A traced replay is slow; whether it moves at all, the tool sees.
    while (waited < PATIENCE_NS || trace_file::is_on()) && !others_are_done(me) {
        if policy::is_free() {
            return;
        }
        if control::has_diverged() {
            standstill::sleep_forever();
        }
        sys::sleep_ns(LOOK_EVERY_NS);
        waited += LOOK_EVERY_NS;
    }
}
