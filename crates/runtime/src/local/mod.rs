//! What belongs to one thread: its slot in the control file, its log, and a part for each that has something to remember of it.
pub mod alone;
mod birth;
pub mod counting;
pub mod heap;
mod in_vectors;
mod inputs;
pub mod late_stores;
pub mod open;
mod replay;
mod signals;
mod spinning;
mod stack;
pub mod tasks;
mod unrecorded;

pub use birth::note_unseen_end;
pub use birth::some_end_unseen;
pub use signals::CallUnderWay;
pub use signals::Came;
pub use signals::Pending;
pub use signals::Registers;
pub use spinning::is_tick;
pub use unrecorded::unrecorded;

use crate::chaos::Chaos;
use crate::control;
use crate::log::LogWriter;
use crate::policy;
use crate::policy::Order;
use crate::sys;
use crate::this_machine::ThisMachine;
use birth::Birth;
use core::arch::asm;
use core::arch::global_asm;
use core::cell::Cell;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use heap::ThreadHeap;
use in_vectors::InVectors;
use inputs::InputState;
use late_stores::LateStores;
use replay::ReplayState;
use runtime_abi::ThreadSlot;
use runtime_abi::counting::Counting;
use runtime_abi::memory_map::HOSTED_THREADS;
use runtime_abi::memory_map::LOCALS;
use runtime_abi::thread_state;
use tasks::OfThread;
use thread_cells::HandlerFlag;
use turn_scheduler::gates;

const LOCAL_BYTES: usize = LOCALS.stride as usize;
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
    ".globl __refrain_counting",
    ".type __refrain_counting,@tls_object",
    ".size __refrain_counting, {counting}",
    "__refrain_counting:",
    ".zero {counting}",
    ".hidden __refrain_local",
    ".globl __refrain_local",
    ".type __refrain_local,@tls_object",
    ".size __refrain_local, 8",
    "__refrain_local:",
    ".quad 0",
    ".text",
    unobserved = sym UNOBSERVED,
    counting = const size_of::<Counting>(),
);

/// The private side of an observed thread, by what uses it. The shared side is its `ThreadSlot`.
///
/// Everything that changes is in cells (`thread_cells`), since there may be several references at a time: of what the thread does, of what libc
/// calls meanwhile, and of a handler. Handlers of ours change no more than they have to: each part says what that is, and of
/// the fields here it is `calls_pass`, which they put back. They look at `slot`, whose fields are atomic, and at `index` and `ends_unseen`, which stay
/// what they are when the thread runs.
///
/// In this order, because what every system call needs is together in two lines of the cache.
#[repr(C, align(64))]
pub struct Local {
    pub slot: &'static ThreadSlot,
    pub index: u32,
    /// System calls are none of the program's: they pass as they are.
    pub calls_pass: HandlerFlag,
    /// Inside a real call that is part of an event: what it allocates is no event of its own.
    pub inside_event: Cell<bool>,
    /// A thread of a library that ends its threads when and how it likes (`callers`): its end is no event.
    pub ends_unseen: Cell<bool>,
    /// Inside libc's pthread_create: the new thread may wait for it without having a turn.
    pub is_creating: Cell<bool>,
    pub inputs: InputState,
    pub chaos: Chaos,
    /// Recording: the event before which chaos disturbs the thread next.
    change_point: Cell<u64>,
    pub heap: ThreadHeap,
    pub replay: ReplayState,
    /// What is recorded about its accesses, and its log.
    pub access: access_protocol::Thread<ThisMachine>,
    pub late: LateStores,
    pub tasks: OfThread,
    pub alone: alone::OfThread,
    /// Deterministic runs: where the thread stands among its points.
    pub counting: counting::OfThread,
    pub birth: Birth,
    pub vectors: InVectors,
    /// Where its two thread-local variables are, when it has begun.
    variables: [AtomicUsize; 2],
}

impl Local {
    /// The calling thread's, or nothing if it is not observed (program not recorded; thread not ours; thread ended).
    #[inline]
    pub fn current() -> Option<&'static Local> {
        let local: *const Local;
        // SAFETY: reads our thread-local variable; the offset comes from the GOT.
        unsafe {
            asm!("mov {0}, qword ptr [rip + __refrain_local@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]",
                 out(reg) local, options(nostack, readonly, preserves_flags));
        }
        // SAFETY: null, or the `Local` that `install` gave to this thread, which `prepare` wrote and nobody unmaps.
        // References to it are shared
        // ones, however many there are: of a handler, and of what it has interrupted.
        unsafe { local.as_ref() }
    }

    fn address(index: u32) -> u64 {
        LOCALS.part(index as u64)
    }

    /// Prepares the private side of thread `index`, for its creator. `None` if memory cannot be had.
    pub fn prepare(index: u32) -> Option<&'static Local> {
        // Hosted threads may be created earlier than they were: by a process that is forked after that, now, and has left its thread's side here.
        let is_in_place_of_another = policy::is_imposed();
        sys::map_at(Local::address(index), LOCAL_BYTES, -1, 0, is_in_place_of_another).ok()?;
        let place = Local::address(index) as *mut Local;
        // SAFETY: freshly mapped, zeroed, aligned, large enough, and known to nobody else yet.
        unsafe {
            place.write(Local {
                slot: control::slot(index),
                index,
                calls_pass: HandlerFlag::new(false),
                inside_event: Cell::new(false),
                ends_unseen: Cell::new(false),
                is_creating: Cell::new(false),
                inputs: InputState::new(index),
                chaos: Chaos::new(index),
                change_point: Cell::new(u64::MAX),
                heap: ThreadHeap::new(index),
                replay: ReplayState::new(),
                access: access_protocol::Thread::new(ThisMachine, index, LogWriter::new(index)),
                late: LateStores::new(),
                tasks: OfThread::new(),
                alone: alone::OfThread::new(),
                counting: counting::OfThread::new(index),
                birth: Birth::new(),
                vectors: InVectors::new(),
                variables: [const { AtomicUsize::new(0) }; 2],
            });
            Some(&*place)
        }
    }

    /// Replay: what thread `index`, which is over, had mapped for its inputs.
    pub fn unmap_recorded_inputs(index: u32) {
        // SAFETY: `prepare` wrote it there; the thread itself, and its creator, do not use it any more.
        let local = unsafe { &*(Local::address(index) as *const Local) };
        local.inputs.recorded.unmap();
    }

    /// What thread `index`, which is over, had for its beginning, if the program made it by `clone`. One that is a process of its own may still be there.
    pub fn unmap_clone(index: u32) {
        // SAFETY: `prepare` wrote it there; the thread itself, and its creator, do not use it any more.
        let local = unsafe { &*(Local::address(index) as *const Local) };
        if local.birth.is_cloned.get() && !local.birth.is_process.get() {
            // SAFETY: memory of that thread alone, which the kernel does not know any more.
            unsafe { sys::unmap(HOSTED_THREADS.part(u64::from(index)), HOSTED_THREADS.stride as usize) };
        }
    }

    /// Makes `local` the calling thread's.
    pub fn install(local: &'static Local) {
        local.prepare_slot();
        local.inputs.stack_top.set(stack::top());
        for (place, variable) in local.variables.iter().zip(Local::variables()) {
            // Release: pairs with the Acquire in `uninstall_other`.
            place.store(variable, Release);
        }
        let slot = local.slot;
        // Release: whoever sees the thread running sees its slot ready.
        slot.state.store(thread_state::RUNNING, Release);
        let slot = slot as *const ThreadSlot;
        let local = local as *const Local;
        // SAFETY: stores to our two thread-local variables, found through the GOT.
        unsafe {
            asm!("mov {t}, qword ptr [rip + __refrain_self@GOTTPOFF]", "mov qword ptr fs:[{t}], {slot}",
                 "mov {t}, qword ptr [rip + __refrain_local@GOTTPOFF]", "mov qword ptr fs:[{t}], {local}",
                 t = out(reg) _, slot = in(reg) slot, local = in(reg) local, options(nostack, preserves_flags));
        }
        // Pairs with the fence in `policy::leave_schedule`: who leaves the schedule just now sees this thread's state, or is seen here.
        fence(SeqCst);
        if policy::is_free() {
            Local::uninstall();
        }
    }

    /// Where the two thread-local variables of the calling thread are.
    fn variables() -> [usize; 2] {
        let (own_slot, own_local);
        // SAFETY: computes the addresses of our two thread-local variables; the offsets come from the GOT.
        unsafe {
            asm!("mov {0}, qword ptr [rip + __refrain_self@GOTTPOFF]", "add {0}, qword ptr fs:[0]",
                 "mov {1}, qword ptr [rip + __refrain_local@GOTTPOFF]", "add {1}, qword ptr fs:[0]",
                 out(reg) own_slot, out(reg) own_local, options(nostack, readonly));
        }
        [own_slot, own_local]
    }

    /// Another thread, which has begun and not ended, is observed no longer: `freed.rs`.
    pub fn uninstall_other(index: u32) {
        // SAFETY: `prepare` wrote it there, as the thread has begun.
        let local = unsafe { &*(Local::address(index) as *const Local) };
        // Acquire: pairs with the Release in `install`.
        let [own_slot, own_local] = [0, 1].map(|at| local.variables[at].load(Acquire));
        if own_slot != 0 && own_local != 0 {
            // SAFETY: variables of a thread that has not ended, in words that it reads as a whole.
            unsafe {
                (*(own_slot as *const AtomicUsize)).store(&raw const UNOBSERVED as usize, Relaxed);
                (*(own_local as *const AtomicUsize)).store(0, Relaxed);
            }
        }
    }

    fn prepare_slot(&self) {
        let slot = self.slot;
        slot.os_thread.store(sys::thread_id(), Relaxed);
        match policy::order() {
            Order::Free => {}
            Order::Observed(_) => {
                self.access.begin();
                self.next_change_point();
                self.begin_counting();
            }
            Order::Gated | Order::Turns => {
                slot.exclusive.store(0, Relaxed);
                self.replay.trace.open(self.index);
                self.replay.cursor.open(self.index, slot);
                (self.replay.relay).set(control::header().settings.relay.get().unwrap_or_default());
                self.begin_counting();
            }
        }
        if policy::are_inputs_answered() {
            self.inputs.recorded.open(self.index);
        }
    }

    /// Recording: when chaos disturbs the thread next.
    pub fn next_change_point(&self) {
        self.change_point.set(self.chaos.next_gate(self.event()));
        // If every access is to come to the runtime, every check of compiled code has to fail.
        let gate = if policy::sees_every_access() {
            0
        } else {
            self.change_point.get()
        };
        self.slot.gate.store(gate, Relaxed);
    }

    /// Recording: handlers of signals that have come run here; and is it time for a pause?
    #[inline]
    pub fn at_change_point(&self) {
        if self.event() < self.slot.gate.load(Relaxed) || self.late.any() {
            return;
        }
        self.at_safe_point();
        // A signal opens the gate, too, and an early pause does no harm; but not one at every access.
        if self.event() >= self.change_point.get() || !policy::sees_every_access() {
            self.chaos.pause_here();
            self.next_change_point();
        }
    }

    /// A forked child: logs and inputs are those of its own process from now on.
    pub fn begin_files(&self) {
        self.access.log.begin();
        self.inputs.begin_in_child();
        self.replay.begin_in_child();
    }

    /// Its end is the last that is known of it.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.slot.state.load(Relaxed) == thread_state::EXITED
    }

    /// Replay, a forked child: its control memory and its schedule are in place.
    pub fn install_again(&self) {
        self.prepare_slot();
        self.slot.state.store(thread_state::RUNNING, Release);
    }

    /// The calling thread is observed no longer (child of a fork).
    pub fn uninstall() {
        let slot = &UNOBSERVED as *const ThreadSlot;
        // SAFETY: stores to our two thread-local variables, found through the GOT.
        unsafe {
            asm!("mov {t}, qword ptr [rip + __refrain_self@GOTTPOFF]", "mov qword ptr fs:[{t}], {slot}",
                 "mov {t}, qword ptr [rip + __refrain_local@GOTTPOFF]", "mov qword ptr fs:[{t}], 0",
                 t = out(reg) _, slot = in(reg) slot, options(nostack, preserves_flags));
        }
    }

    /// Replay: wakes who sleeps until this thread has come as far as it has.
    #[inline]
    pub fn wake_sleepers(&self) {
        gates::wake_sleepers(ThisMachine, self.slot);
    }
}
