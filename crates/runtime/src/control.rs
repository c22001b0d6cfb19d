//! The control file: mapped once, at a fixed address, for the life of the process.
use crate::failure;
use crate::parts;
use crate::sys;
use crate::zones;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Evidence;
use run_model::Method;
use run_model::Scope;
use runtime_abi::CONTROL_ADDRESS;
use runtime_abi::CONTROL_BYTES;
use runtime_abi::CONTROL_MAGIC;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::ROOT_CONTROL_ADDRESS;
use runtime_abi::RunSettings;
use runtime_abi::ThreadSlot;
use runtime_abi::counting::CountingFor;
use runtime_abi::own_steps_file::compared_object;

/// What every call of ours looks at, in one line of the cache: after a system call, little of ours is left in there.
#[repr(align(64))]
pub struct Switches {
    /// One of `runtime_abi::policy::Order`, and one of `Inputs`: `policy.rs`.
    pub order: AtomicU8,
    pub inputs: AtomicU8,
    /// System calls are recorded, and nothing else that they have to do with: `calls/quick.rs`.
    pub quick: AtomicBool,
    /// Threads and locks are observed.
    sync: AtomicBool,
    /// Plain accesses are observed, as compiled code has it in `__refrain_memory`.
    memory: AtomicBool,
    /// Nothing is observed but what comes from outside, and which threads there are.
    inputs_only: AtomicBool,
    orders_sync: AtomicBool,
    one_at_a_time: AtomicBool,
    /// A log could not grow, or may not: no thread logs any more.
    stopped: AtomicBool,
    /// There has been a second thread, or a second process that shares memory: inputs have times.
    pub threaded: AtomicBool,
    /// Observed: one of `policy::Recorder`.
    pub recorder: AtomicU8,
    /// What recorded orders already say is recorded all the same (without O2).
    pub repeats: AtomicBool,
    /// Recording: an atomic that nobody holds up is recorded the quick way, `Local::perform_quickly`.
    quick_atomics: AtomicBool,
    /// And so is a lock that nobody holds up.
    quick_locks: AtomicBool,
    /// How long threads wait at gates is measured.
    pub measures_waits: AtomicBool,
    /// What compiled code counts control transfers for: one of `runtime_abi::counting::CountingFor`.
    pub counting: AtomicU8,
    /// There is memory that other processes, or the kernel, may write at any time.
    shares_memory: AtomicBool,
    /// And this process may write it.
    writes_shared: AtomicBool,
    /// One of `VectorUse`.
    vectors: AtomicU8,
    steered: AtomicBool,
}

/// What there is to do with access vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum VectorUse {
    None = 0,
    /// Those of chosen elements are recorded.
    Chosen = 1,
    /// Threads keep to them.
    Followed = 2,
}

/// Written before there is a second thread, and in the child of a fork, which has one; `stopped`, `threaded` and the two for shared memory are set later, once
/// and for good, and whoever sees them late has only done a little too much.
pub static SWITCHES: Switches = Switches {
    order: AtomicU8::new(0),
    inputs: AtomicU8::new(0),
    quick: AtomicBool::new(false),
    sync: AtomicBool::new(false),
    memory: AtomicBool::new(false),
    inputs_only: AtomicBool::new(false),
    orders_sync: AtomicBool::new(false),
    one_at_a_time: AtomicBool::new(false),
    stopped: AtomicBool::new(false),
    threaded: AtomicBool::new(false),
    recorder: AtomicU8::new(0),
    repeats: AtomicBool::new(false),
    quick_atomics: AtomicBool::new(false),
    quick_locks: AtomicBool::new(false),
    measures_waits: AtomicBool::new(false),
    counting: AtomicU8::new(0),
    shares_memory: AtomicBool::new(false),
    writes_shared: AtomicBool::new(false),
    vectors: AtomicU8::new(0),
    steered: AtomicBool::new(false),
};

/// Read by compiled code at every function's entry: are plain accesses observed?
#[unsafe(no_mangle)]
pub static __refrain_memory: AtomicI32 = AtomicI32::new(0);

#[inline]
pub fn observes_sync() -> bool {
    SWITCHES.sync.load(Relaxed)
}

/// Scope `inputs`: the program's memory, locks and heap are left alone.
#[inline]
pub fn inputs_only() -> bool {
    SWITCHES.inputs_only.load(Relaxed)
}

/// Scope `inputs`: synchronisations have places among the inputs.
#[inline]
pub fn orders_sync() -> bool {
    SWITCHES.orders_sync.load(Relaxed)
}

/// Replay at scope `sync`: does one thread run at a time, with its plain accesses seen (`steered/`)?
#[inline]
pub fn is_steered() -> bool {
    SWITCHES.steered.load(Relaxed)
}

/// Does the run's method go by the values of accesses?
pub fn goes_by_values() -> bool {
    let evidence = header().settings.method.get().map(Method::evidence);
    matches!(evidence, Some(Evidence::Versions | Evidence::RelaxedVersions))
}

/// Scope `inputs`: one thread runs at a time, or ran when it was recorded (`alone.rs`).
#[inline]
pub fn one_at_a_time() -> bool {
    SWITCHES.one_at_a_time.load(Relaxed)
}

/// May a call be recorded the quick way?
#[inline]
pub fn is_quick() -> bool {
    SWITCHES.quick.load(Relaxed)
}

/// May an atomic be recorded the quick way: at scope `sync`, with nothing to disturb?
#[inline]
pub fn has_quick_atomics() -> bool {
    SWITCHES.quick_atomics.load(Relaxed)
}

/// The same of operations on locks.
#[inline]
pub fn has_quick_locks() -> bool {
    SWITCHES.quick_locks.load(Relaxed)
}

/// May others write what we write, without asking the runtime of this process?
#[inline]
pub fn shares_memory() -> bool {
    SWITCHES.shares_memory.load(Relaxed)
}

/// Before the program maps memory that it shares.
pub fn share_memory(is_writable: bool) {
    SWITCHES.shares_memory.store(true, Relaxed);
    if is_writable {
        SWITCHES.writes_shared.store(true, Relaxed);
    }
}

/// Has it been told already that such memory is written?
pub fn writes_shared() -> bool {
    SWITCHES.writes_shared.load(Relaxed)
}

/// Recording, before this process forks one that is recorded, and in that one: what they do to memory that they share depends on
/// when they do it.
pub fn note_process_order() {
    if inputs_only() && SWITCHES.writes_shared.load(Relaxed) {
        SWITCHES.threaded.store(true, Relaxed);
        header().progress.shares_memory.store(1, Relaxed);
    }
}

#[inline]
pub fn is_stopped() -> bool {
    SWITCHES.stopped.load(Relaxed)
}

/// No thread logs any more.
pub fn stop() {
    SWITCHES.stopped.store(true, Relaxed);
}

/// Are there several threads, or were there? Or processes that share memory.
#[inline]
pub fn is_threaded() -> bool {
    SWITCHES.threaded.load(Relaxed)
}

#[inline]
pub fn observes_memory() -> bool {
    SWITCHES.memory.load(Relaxed)
}

/// Does this have to do with hybrid schedules (`counting/`)?
#[inline]
pub fn counts() -> bool {
    SWITCHES.counting.load(Relaxed) != CountingFor::Nothing as u8
}

/// Is the run recorded so that a schedule can be learned from it?
#[inline]
pub fn counts_for_learning() -> bool {
    SWITCHES.counting.load(Relaxed) == CountingFor::Recording as u8
}

/// Is every access written down with its place?
#[inline]
pub fn counts_for_trace() -> bool {
    let counting = SWITCHES.counting.load(Relaxed);
    counting == CountingFor::Trace as u8 || counting == CountingFor::WholeTrace as u8
}

/// Is the way through the code written down as well, and what comes in?
#[inline]
pub fn traces_all() -> bool {
    SWITCHES.counting.load(Relaxed) == CountingFor::WholeTrace as u8
}

/// Is it measured how long threads wait at gates?
#[inline]
pub fn measures_waits() -> bool {
    SWITCHES.measures_waits.load(Relaxed)
}

/// Is a hybrid schedule enforced?
#[inline]
pub fn counts_for_points() -> bool {
    SWITCHES.counting.load(Relaxed) == CountingFor::Points as u8
}

/// Is this object at the address that it had when it was recorded? Where a hybrid schedule is enforced, it may lie elsewhere; and where other versions
/// of functions run than were recorded, what is on a stack does.
pub fn compares_object(object: u64) -> bool {
    !(counts_for_points() || is_steered() && zones::is_of_stack(object)) || compared_object(object) != 0
}

#[inline]
pub fn vector_use() -> VectorUse {
    match SWITCHES.vectors.load(Relaxed) {
        1 => VectorUse::Chosen,
        2 => VectorUse::Followed,
        _ => VectorUse::None,
    }
}

pub fn use_vectors(to: VectorUse) {
    SWITCHES.vectors.store(to as u8, Relaxed);
}

/// Do threads keep to access vectors?
#[inline]
pub fn follows_vectors() -> bool {
    SWITCHES.vectors.load(Relaxed) == VectorUse::Followed as u8
}

/// Are orders recorded that other records already imply?
#[inline]
pub fn repeats_orders() -> bool {
    SWITCHES.repeats.load(Relaxed)
}

#[inline]
pub fn header() -> &'static ControlHeader {
    // SAFETY: called only when the order is not free, that is after `processes::join` mapped the control file here for good.
    unsafe { &*(CONTROL_ADDRESS as *const ControlHeader) }
}

/// The header of the run's first process, with what all its processes share.
pub fn root() -> &'static ControlHeader {
    // SAFETY: called only in a process that has joined a run: `processes::join` maps it here for good.
    unsafe { &*(ROOT_CONTROL_ADDRESS as *const ControlHeader) }
}

#[inline]
pub fn slot(thread: u32) -> &'static ThreadSlot {
    assert!((thread as usize) < runtime_abi::THREADS_MAX);
    let address = CONTROL_ADDRESS as usize + HEADER_BYTES + thread as usize * size_of::<ThreadSlot>();
    // SAFETY: the mapping has THREADS_MAX slots after its header; slots consist of atomics only.
    unsafe { &*(address as *const ThreadSlot) }
}

/// The directory of this process's part of the run.
pub fn run_directory() -> &'static [u8] {
    directory_of(header())
}

pub fn directory_of(header: &'static ControlHeader) -> &'static [u8] {
    &header.run_directory[..(header.identity.run_directory_bytes as usize).min(header.run_directory.len())]
}

/// `run directory/name`, NUL-terminated, in `buffer`.
pub fn path_in_run<'a>(name: &[u8], buffer: &'a mut [u8; 4352]) -> &'a [u8] {
    path_in(run_directory(), name, buffer)
}

/// `directory/name`, NUL-terminated, in `buffer`.
pub fn path_in<'a>(directory: &[u8], name: &[u8], buffer: &'a mut [u8; 4352]) -> &'a [u8] {
    let bytes = directory.len() + 1 + name.len();
    buffer[..directory.len()].copy_from_slice(directory);
    buffer[directory.len()] = b'/';
    buffer[directory.len() + 1..bytes].copy_from_slice(name);
    buffer[bytes] = 0;
    &buffer[..=bytes]
}

/// The descriptor on which a program finds its control file.
pub fn descriptor() -> i32 {
    let [_, most] = sys::limit(libc::RLIMIT_NOFILE);
    runtime_abi::control_descriptor(most)
}

/// Was the process started with a control file?
pub fn is_offered() -> bool {
    let mut head = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes into `head`; a descriptor that is not ours at worst fails.
    let got = unsafe {
        sys::syscall(
            libc::SYS_pread64,
            [descriptor() as usize, head.as_mut_ptr() as usize, head.len(), 0, 0, 0],
        )
    };
    let magic = u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
    got == 16 && magic == CONTROL_MAGIC
}

/// The control file is mapped (`processes::join`): everything is as it says from now on.
pub fn attach(settings: &RunSettings) {
    let is_sync = settings.scope >= Scope::Sync;
    SWITCHES.sync.store(is_sync, Relaxed);
    SWITCHES.inputs_only.store(!is_sync, Relaxed);
    SWITCHES.orders_sync.store(!is_sync && settings.sync_order, Relaxed);
    SWITCHES
        .one_at_a_time
        .store(!is_sync && settings.one_at_a_time, Relaxed);
    SWITCHES.counting.store(settings.counting as u8, Relaxed);
    SWITCHES.measures_waits.store(settings.measure_waits, Relaxed);
    SWITCHES.steered.store(settings.steered, Relaxed);
}

/// System calls come to us from now on, the commonest ones the quick way if that is enough.
pub fn observe_calls(is_quick: bool) {
    SWITCHES.quick.store(is_quick, Relaxed);
}

/// Everything is in place: plain accesses are observed from now on, and the tool knows that we are here.
pub fn observe(has_quick_atomics: bool) {
    // Release: pairs with nothing in this process; the tool looks at it.
    header().progress.attached.store(1, Release);
    observe_memory(header().settings.scope.is(Scope::Memory) || is_steered());
    SWITCHES.quick_atomics.store(has_quick_atomics, Relaxed);
    let is_plain = has_quick_atomics && !counts() && vector_use() == VectorUse::None;
    SWITCHES.quick_locks.store(is_plain, Relaxed);
}

fn observe_memory(observed: bool) {
    SWITCHES.memory.store(observed, Relaxed);
    // Functions that can count look first whether they are to; where they are traced, the others are observed as they were in the recording.
    __refrain_memory.store((observed && !counts_for_points()) as i32, Relaxed);
    parts::observe(__refrain_memory.load(Relaxed) != 0);
}

/// Nothing is of interest any more.
pub fn observe_nothing() {
    SWITCHES.quick.store(false, Relaxed);
    SWITCHES.sync.store(false, Relaxed);
    SWITCHES.orders_sync.store(false, Relaxed);
    SWITCHES.one_at_a_time.store(false, Relaxed);
    SWITCHES.quick_atomics.store(false, Relaxed);
    SWITCHES.quick_locks.store(false, Relaxed);
    SWITCHES.counting.store(0, Relaxed);
    use_vectors(VectorUse::None);
    SWITCHES.steered.store(false, Relaxed);
    observe_memory(false);
}

/// The child of a fork that is not recorded: everything passes through from here on. Called by `policy::let_go`.
pub fn detach() {
    root().progress.forked.store(1, Release);
    observe_nothing();
    // Functions that were running when the process was forked go on counting in the slot they know: in memory of the
    // child's own from now on. If that fails, there is nothing left to go on with.
    if let Err(errno) = sys::map_at(CONTROL_ADDRESS, CONTROL_BYTES, -1, 0, true) {
        failure::die(b"cannot give a forked child memory of its own", errno);
    }
}

/// The next thread index.
pub fn new_thread() -> u32 {
    let index = header().progress.threads.fetch_add(1, Relaxed);
    if index > 0 {
        SWITCHES.threaded.store(true, Relaxed);
    }
    index
}

pub fn has_diverged() -> bool {
    // Acquire: pairs with the Release in `replay::diverge`.
    header().divergence.kind.load(Acquire) != 0
}

/// System calls come to us: inputs are recorded, or replayed. Written once, before there is a second thread.
static CALLS_INSTALLED: AtomicBool = AtomicBool::new(false);

pub fn note_calls_installed(are_installed: bool) {
    CALLS_INSTALLED.store(are_installed, Relaxed);
}

/// Are inputs recorded, or replayed?
pub fn are_calls_installed() -> bool {
    CALLS_INSTALLED.load(Relaxed)
}

/// This process was forked, and its one thread has created no other: locks that others held will never be given back. Written while there is one thread.
static IS_ALONE: AtomicBool = AtomicBool::new(false);

/// Must a lock of ours that is held be the remains of a thread that the fork left behind?
pub fn is_alone() -> bool {
    IS_ALONE.load(Relaxed)
}

/// Has this process made a thread?
static HAS_MADE_THREADS: AtomicBool = AtomicBool::new(false);

/// Has the process had no thread but its first?
pub fn has_one_thread() -> bool {
    // Relaxed: written by the only thread.
    !HAS_MADE_THREADS.load(Relaxed)
}

/// The only thread of the process is about to make another one; or the process is a forked one, and has one again.
pub fn note_threads(are_there: bool) {
    HAS_MADE_THREADS.store(are_there, Relaxed);
}

/// A thread or process has been made that is not recorded.
pub fn note_unrecorded() {
    root().progress.forked.store(1, Relaxed);
}

/// The one thread of a forked process is about to go on; or there will be a second one.
pub fn set_alone(is_alone: bool) {
    IS_ALONE.store(is_alone, Relaxed);
}
