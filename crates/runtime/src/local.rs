//! What belongs to one thread: its slot in the control file, its log, its place in the schedule.
use crate::access::chunk::Batch;
use crate::access::generations::GENERATION_COST;
use crate::access::generations::Owned;
use crate::access::late::LateStores;
use crate::access::loops::LoopCells;
use crate::access::moves::Ahead;
use crate::access::moves::MoveTime;
use crate::access::vectors::Held;
use crate::calls;
use crate::calls::CallLabels;
use crate::calls::InputReader;
use crate::calls::InputWriter;
use crate::calls::Pending;
use crate::calls::SignalStack;
use crate::chaos::Chaos;
use crate::control;
use crate::control::Mode;
use crate::heap::ThreadHeap;
use crate::log::LogWriter;
use crate::replay;
use crate::replay::Cursor;
use crate::sys;
use crate::trace::Trace;
use core::arch::asm;
use core::arch::global_asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use log_format::RecordRef;
use run_model::Access;
use run_model::Extent;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::ThreadSlot;
use runtime_abi::thread_state;

/// Where the `Local`s live: 64 KiB apart.
const LOCALS: u64 = RUNTIME_REGION + 0x0010_0000_0000;
const LOCAL_BYTES: usize = 1 << 16;
const _: () = assert!(size_of::<Local>() <= LOCAL_BYTES);

/// The slot of threads nobody observes: compiled code may store into it, nothing reads it.
/// All zero, except that the program is not to be stopped.
static UNOBSERVED: ThreadSlot = ThreadSlot {
    count: core::sync::atomic::AtomicU64::new(0),
    gate: core::sync::atomic::AtomicU64::new(u64::MAX),
    exclusive: core::sync::atomic::AtomicU64::new(0),
    seen: core::sync::atomic::AtomicU64::new(0),
    window: core::sync::atomic::AtomicU32::new(0),
    state: core::sync::atomic::AtomicU32::new(0),
    site: core::sync::atomic::AtomicU64::new(0),
    wait_thread: core::sync::atomic::AtomicU32::new(0),
    os_thread: core::sync::atomic::AtomicU32::new(0),
    wait_count: core::sync::atomic::AtomicU64::new(0),
    records: core::sync::atomic::AtomicU64::new(0),
    parent: core::sync::atomic::AtomicU32::new(0),
    signal: core::sync::atomic::AtomicU32::new(0),
    lost: core::sync::atomic::AtomicU64::new(0),
    wake_at: core::sync::atomic::AtomicU64::new(0),
    wakeups: core::sync::atomic::AtomicU32::new(0),
    credit: core::sync::atomic::AtomicU32::new(0),
    stopped_at: core::sync::atomic::AtomicU32::new(0),
    reserved: 0,
    stopped_object: core::sync::atomic::AtomicU64::new(0),
};

// `__refrain_self` is read by compiled code (initial-exec model: one load from fs). `__refrain_local` is ours alone.
global_asm!(
    ".section .tdata,\"awT\",@progbits",
    ".p2align 3",
    ".globl __refrain_self",
    ".type __refrain_self,@tls_object",
    ".size __refrain_self, 8",
    "__refrain_self:",
    ".quad {unobserved}",
    ".hidden __refrain_local",
    ".globl __refrain_local",
    ".type __refrain_local,@tls_object",
    ".size __refrain_local, 8",
    "__refrain_local:",
    ".quad 0",
    ".text",
    unobserved = sym UNOBSERVED,
);

/// The private side of an observed thread. The shared side is its `ThreadSlot`.
///
/// In this order, because what every system call needs is together in two lines of the cache.
#[repr(C, align(64))]
pub struct Local {
    pub slot: &'static ThreadSlot,
    pub index: u32,
    /// System calls are none of the program's: they pass as they are.
    pub calls_pass: bool,
    /// Inside a real call that is part of an event: what it allocates is no event of its own.
    pub inside_event: bool,
    /// A thread of a library that ends its threads when and how it likes (`interpose::callers`): its end is no event.
    pub ends_unseen: bool,
    /// Inside libc's pthread_create: the new thread may wait for it without having a turn.
    pub is_creating: bool,
    /// Scope `inputs`: the end of its stack, as far as that is known.
    pub stack_top: usize,
    /// The same, in a system call: the stack that the call was made on; 0: it was made otherwise.
    pub call_stack: usize,
    pub labels: CallLabels,
    /// Scope `inputs`, recording: what makes a request for the thread's end come again.
    pub request_timer: Option<libc::c_int>,
    /// Calls that were made and not logged: where between two events a signal came, at scope `inputs`.
    pub real_calls: u64,
    /// What system calls bring in: where it is recorded.
    pub inputs: InputWriter,
    /// Signals whose handlers have not run yet.
    pub pending: Pending,
    pub signal_stack: SignalStack,
    /// What is freed now is not used again.
    pub frees_nothing: bool,
    /// What system calls brought in.
    pub recorded_inputs: InputReader,
    pub log: LogWriter,
    /// Recording: in a wait of libc's at which it may be cancelled.
    pub waits_cancellably: bool,
    /// Recording: on its way out because it was cancelled, or about to be: further requests change nothing.
    pub is_cancelled: bool,
    /// Replay: this thread's id in the recording, if it has asked for it.
    pub recorded_tid: usize,
    pub cursor: Cursor,
    pub trace: Trace,
    /// Replay: how long to spin at a gate before sleeping.
    pub spins: u32,
    pub chaos: Chaos,
    /// Recording: the event before which chaos disturbs the thread next.
    change_point: u64,
    /// Recording access vectors: the shared program element of the access under way; 0: its code does not say.
    pub element: u32,
    pub late: LateStores,
    /// Recording by oreo: since the last fence.
    pub has_relaxed_writes: bool,
    /// The elements that are locked for it.
    pub held_elements: *const Held,
    pub heap: ThreadHeap,
    /// Destructor rounds still to wait for before the thread counts as ended.
    pub exit_rounds: u32,
    /// Start routine of a thread that has not begun yet, and its argument.
    pub start: Option<extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void>,
    pub argument: *mut libc::c_void,
    /// The signals it begins with blocked, once it is observed.
    pub blocked: u64,
    /// The creator's point that the first event depends on.
    pub created: Point,
    /// The initialisation routine that `pthread_once` is to run, while it runs it.
    pub once: Option<(extern "C-unwind" fn(), u64)>,
    /// For some threads, by their index modulo the length: a point that recorded orders put before our next event.
    known: [Point; 64],
    pub ahead: Ahead,
    /// Chunks taken without a barrier.
    pub takes: u32,
    /// Chunks of earlier generations of this thread that it went on using in the current one.
    pub made_own_again: u32,
    /// What the current generation cost at its beginning: the price expected of the next one.
    pub generation_cost: u32,
    pub batch: Batch,
    pub move_time: MoveTime,
    pub loop_cells: LoopCells,
    /// Replay: inside a real call that releases something. When it was recorded, its event was complete by then.
    pub releasing: bool,
}

impl Local {
    /// The calling thread's, or nothing if it is not observed (program not recorded; thread not ours; thread ended).
    #[inline]
    pub fn current() -> Option<&'static mut Local> {
        let local: *mut Local;
        // SAFETY: reads our thread-local variable; the offset comes from the GOT.
        unsafe {
            asm!("mov {0}, qword ptr [rip + __refrain_local@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]",
                 out(reg) local, options(nostack, readonly, preserves_flags));
        }
        // SAFETY: null, or the `Local` that `install` gave to this thread. No two references are used at once: only
        // this thread asks for it, and signal handlers of ours do not.
        unsafe { local.as_mut() }
    }

    fn address(index: u32) -> u64 {
        LOCALS + index as u64 * LOCAL_BYTES as u64
    }

    /// Prepares the private side of thread `index`, for its creator. `None` if memory cannot be had.
    pub fn prepare(index: u32) -> Option<&'static mut Local> {
        // Hosted threads may be created earlier than they were: by a process that is forked after that, now, and has left its thread's side here.
        let is_in_place_of_another = control::mode() == Mode::Replay;
        sys::map_at(Local::address(index), LOCAL_BYTES, -1, 0, is_in_place_of_another).ok()?;
        let place = Local::address(index) as *mut Local;
        // SAFETY: freshly mapped, zeroed, aligned, large enough, and known to nobody else yet.
        unsafe {
            place.write(Local {
                slot: control::slot(index),
                index,
                log: LogWriter::new(index),
                real_calls: 0,
                inputs: InputWriter::new(index),
                recorded_inputs: InputReader::new(),
                pending: Pending::new(),
                signal_stack: SignalStack::new(),
                calls_pass: false,
                frees_nothing: false,
                waits_cancellably: false,
                is_cancelled: false,
                recorded_tid: 0,
                cursor: Cursor::new(),
                trace: Trace::new(),
                spins: replay::SPINS_AT_FIRST,
                chaos: Chaos::new(index),
                change_point: u64::MAX,
                element: 0,
                late: LateStores::new(),
                has_relaxed_writes: false,
                held_elements: core::ptr::null(),
                heap: ThreadHeap::new(index),
                exit_rounds: 4,
                start: None,
                argument: core::ptr::null_mut(),
                blocked: 0,
                ends_unseen: false,
                is_creating: false,
                stack_top: 0,
                call_stack: 0,
                labels: CallLabels::new(),
                request_timer: None,
                created: Point::default(),
                once: None,
                known: [Point::default(); 64],
                ahead: Ahead::new(),
                takes: 0,
                made_own_again: 0,
                generation_cost: GENERATION_COST,
                batch: Batch::new(),
                move_time: MoveTime::new(),
                loop_cells: LoopCells::new(),
                inside_event: false,
                releasing: false,
            });
            Some(&mut *place)
        }
    }

    /// Replay: what thread `index`, which is over, had mapped for its inputs.
    pub fn unmap_recorded_inputs(index: u32) {
        // SAFETY: `prepare` wrote it there; the thread itself, and its creator, do not use it any more.
        let local = unsafe { &mut *(Local::address(index) as *mut Local) };
        local.recorded_inputs.unmap();
    }

    /// Makes `local` the calling thread's.
    pub fn install(local: &'static mut Local) {
        local.prepare_slot();
        local.stack_top = calls::stack_top();
        let slot = local.slot;
        // Release: whoever sees the thread running sees its slot ready.
        slot.state.store(thread_state::RUNNING, Release);
        let slot = slot as *const ThreadSlot;
        let local = local as *mut Local;
        // SAFETY: stores to our two thread-local variables, found through the GOT.
        unsafe {
            asm!("mov {t}, qword ptr [rip + __refrain_self@GOTTPOFF]", "mov qword ptr fs:[{t}], {slot}",
                 "mov {t}, qword ptr [rip + __refrain_local@GOTTPOFF]", "mov qword ptr fs:[{t}], {local}",
                 t = out(reg) _, slot = in(reg) slot, local = in(reg) local, options(nostack, preserves_flags));
        }
    }

    fn prepare_slot(&mut self) {
        let slot = self.slot;
        slot.os_thread.store(sys::thread_id(), Relaxed);
        match control::mode() {
            Mode::Record => {
                slot.exclusive.store(Owned::first(self.index).word(), Relaxed);
                self.next_change_point();
            }
            Mode::Replay => {
                slot.exclusive.store(0, Relaxed);
                self.trace.open(self.index);
                self.cursor.open(self.index, slot);
                self.recorded_inputs.open(self.index);
            }
            Mode::Off => {}
        }
    }

    /// Recording: when chaos disturbs the thread next.
    pub fn next_change_point(&mut self) {
        self.change_point = self.chaos.next_gate(self.event());
        // If every access is to come to the runtime, every check of compiled code has to fail.
        let gate = if control::sees_every_access() {
            0
        } else {
            self.change_point
        };
        self.slot.gate.store(gate, Relaxed);
    }

    /// Recording: handlers of signals that have come run here; and is it time for a pause?
    #[inline]
    pub fn at_change_point(&mut self) {
        if self.event() < self.slot.gate.load(Relaxed) || self.late.any() {
            return;
        }
        self.at_safe_point();
        // A signal opens the gate, too, and an early pause does no harm; but not one at every access.
        if self.event() >= self.change_point || !control::sees_every_access() {
            self.chaos.pause_here();
            self.next_change_point();
        }
    }

    /// A forked child: logs and inputs are those of its own process from now on.
    pub fn begin_files(&mut self) {
        self.log = LogWriter::new(self.index);
        self.inputs = self.inputs.of_child();
        self.recorded_inputs = InputReader::new();
        self.pending = Pending::new();
        self.cursor = Cursor::new();
        self.trace = Trace::new();
    }

    /// Replay, a forked child: its control memory and its schedule are in place.
    pub fn install_again(&mut self) {
        self.prepare_slot();
        self.slot.state.store(thread_state::RUNNING, Release);
    }

    /// The calling thread is observed no longer (child of a fork).
    pub fn uninstall() {
        let slot = &UNOBSERVED as *const ThreadSlot;
        // SAFETY: as in `install`.
        unsafe {
            asm!("mov {t}, qword ptr [rip + __refrain_self@GOTTPOFF]", "mov qword ptr fs:[{t}], {slot}",
                 "mov {t}, qword ptr [rip + __refrain_local@GOTTPOFF]", "mov qword ptr fs:[{t}], 0",
                 t = out(reg) _, slot = in(reg) slot, options(nostack, preserves_flags));
        }
    }

    /// Index of the event about to happen.
    #[inline]
    pub fn event(&self) -> u64 {
        // Relaxed: only this thread writes it.
        self.slot.count.load(Relaxed)
    }

    /// The event about to happen, once it has happened.
    #[inline]
    pub fn point_after(&self) -> Point {
        Point {
            thread: run_model::ThreadIndex(self.index),
            count: self.event() + 1,
        }
    }

    /// What the thread has completed.
    #[inline]
    pub fn point(&self) -> Point {
        Point {
            thread: run_model::ThreadIndex(self.index),
            count: self.event(),
        }
    }

    /// The current event is complete.
    #[inline]
    pub fn complete(&self) {
        self.complete_many(1);
    }

    #[inline]
    pub fn complete_many(&self, events: u64) {
        let count = self.event() + events;
        // Release: whoever waits for this count sees what the events did (pairs with the Acquire in `replay::wait_for`).
        self.slot.count.store(count, Release);
        self.wake_sleepers();
    }

    /// Replay: wakes who sleeps until this thread has come as far as it has.
    #[inline]
    pub fn wake_sleepers(&self) {
        // Relaxed: a sleeper that is missed looks again by itself before long. 0 wraps around: nobody sleeps.
        if self.slot.wake_at.load(Relaxed).wrapping_sub(1) < self.event() {
            replay::wake(self.slot);
        }
    }

    /// Recording: runs `call`, which may block. Meanwhile chunks can be taken from this thread without a barrier.
    pub fn blocking<R>(&self, call: impl FnOnce() -> R) -> R {
        use core::sync::atomic::Ordering::SeqCst;
        // SeqCst, as locked instructions: whoever finds us blocked after marking a chunk as moving knows that we see
        // the mark when we come back (access/README.md). A call that is cancelled does not come
        // back here; `conditions::cancellable` sets the state then.
        self.slot.state.swap(thread_state::BLOCKED, SeqCst);
        let result = call();
        self.slot.state.swap(thread_state::RUNNING, SeqCst);
        result
    }

    /// Does a record of ours, or several, already say that `point` comes before our current event?
    ///
    /// No transitivity over other threads: a "no" costs a record, never the truth.
    #[inline]
    pub fn knows(&self, point: Point) -> bool {
        if control::repeats_orders() {
            return false;
        }
        let known = &self.known[point.thread.0 as usize % self.known.len()];
        known.thread == point.thread && known.count >= point.count
    }

    #[inline]
    fn learn(&mut self, point: Point) {
        let known = &mut self.known[point.thread.0 as usize % self.known.len()];
        if known.thread != point.thread || known.count < point.count {
            *known = point;
        }
    }

    /// An acquisition (`Take`, `Share`, `Seen`, `Exit`): an event of its own, complete before anybody can see what it
    /// acquired. Whoever takes it from us in turn is so ordered after everything we were ordered after.
    pub fn acquisition(&mut self, kind: Kind, object: u64, value: i64, sources: &[Point]) {
        self.record(kind, Op::None, 0, object, value, sources);
        self.complete();
    }

    /// Logs one record for the current event.
    pub fn record(&mut self, kind: Kind, op: Op, access: u8, object: u64, value: i64, sources: &[Point]) {
        assert!(sources.len() <= run_model::MAX_SOURCES);
        let record = RecordRef {
            event: self.event(),
            kind,
            op,
            access: Access(access),
            object,
            site: crate::sites::number(self.slot.site.load(Relaxed)),
            value,
            sources,
            version: 0,
        };
        self.log.append(self.slot, &record);
        // The order of two runs binds only where there is a flow dependence; all other records bind as they stand.
        if kind != Kind::Run || Access(access).flows() {
            for point in sources {
                self.learn(*point);
            }
        }
    }

    /// Logs an access of the current event with its value and version.
    pub fn record_access(&mut self, kind: Kind, object: u64, extent: Extent, value: u64, version: u64) {
        let record = RecordRef {
            event: self.event(),
            kind,
            op: Op::None,
            access: extent.pack(),
            object,
            site: crate::sites::number(self.slot.site.load(Relaxed)),
            value: extent.signed(value),
            sources: &[],
            version,
        };
        self.log.append(self.slot, &record);
    }
}
