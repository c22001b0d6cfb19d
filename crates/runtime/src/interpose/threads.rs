//! Threads: creation, end, join, cancellation, thread-specific keys.
//!
//! A created thread gets its index from its creator's event, and its stack from its index, so both are the same in
//! every run. Its end is noticed by a destructor of thread-specific data, which libc runs however the thread ends.
use crate::calls;
use crate::calls::cancellation;
use crate::calls::signals;
use crate::control;
use crate::control::Mode;
use crate::ended;
use crate::ending;
use crate::ghost::Turn;
use crate::ghost::observed;
use crate::ghost::recorded;
use crate::heap;
use crate::host;
use crate::interpose::callers::is_foreign;
use crate::interpose::callers::with_caller;
use crate::interpose::conditions::cancellable;
use crate::interpose::conditions::replay_cancellation;
use crate::interpose::in_order;
use crate::local::Local;
use crate::log;
use crate::processes;
use crate::real;
use crate::real::StartRoutine;
use crate::replay::Doing;
use crate::turns;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use libc::pthread_attr_t;
use libc::pthread_key_t;
use libc::pthread_t;
use libc::timespec;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::divergence;
use runtime_abi::thread_state;
use runtime_abi::trace_file::what;
use runtime_abi::truncated;
use runtime_abi::turns_file::what as what_point;

/// pthread_t of each thread by index, to find the index of a thread that is joined.
static HANDLES: [AtomicU64; runtime_abi::THREADS_MAX] = [const { AtomicU64::new(0) }; runtime_abi::THREADS_MAX];
/// The bytes of the guard below a stack that we gave a thread. libc knows of none: to it the stack is the program's.
static GUARDS: [AtomicU32; runtime_abi::THREADS_MAX] = [const { AtomicU32::new(0) }; runtime_abi::THREADS_MAX];
/// The key whose destructor tells that a thread ends; 0: not created.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// Is there a thread whose end is no event?
static END_UNSEEN: AtomicBool = AtomicBool::new(false);

pub fn some_end_unseen() -> bool {
    END_UNSEEN.load(Relaxed)
}

with_caller! {
    pthread_create caller in "r8" = create;
    pthread_join caller in "rdx" = join_forever;
}

/// # Safety
/// As for libc's pthread_create.
pub unsafe extern "C-unwind" fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: StartRoutine,
    argument: *mut c_void,
    caller: u64,
) -> c_int {
    let Some(creator) = recorded() else {
        // SAFETY: the program's own call.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    };
    if control::inputs_only() {
        // SAFETY: the program's own call.
        return unsafe { create_in_order(creator, thread, attributes, start, argument) };
    }
    // Before the event, because what libc allocates for the copy has events of its own.
    // SAFETY: `attributes` is null or the program's; libc initialises `own` before it is used.
    let mut own = unsafe {
        let mut own: pthread_attr_t = core::mem::zeroed();
        copy_attributes(&mut own, attributes);
        own
    };
    let index = match begin_spawn(creator) {
        Some(index) => index,
        // SAFETY: the program's own call; the thread goes unrecorded, as the run now says.
        None => return unsafe { real::pthread_create(thread, attributes, start, argument) },
    };
    let Some(local) = Local::prepare(index) else {
        creator.complete();
        return libc::EAGAIN;
    };
    local.start = Some(start);
    local.argument = argument;
    local.ends_unseen = is_foreign(caller);
    if local.ends_unseen {
        // Relaxed: a lone flag.
        END_UNSEEN.store(true, Relaxed);
    }
    local.created = creator.point_after();
    local.slot.parent.store(creator.index, Relaxed);
    // SAFETY: `own` is initialised; the call is the program's own.
    unsafe {
        // The event is over before: what is allocated for the stack, or by libc in the call, has events of its own.
        creator.complete();
        give_stack(creator, index, &mut own);
        local.blocked = signals::block_all();
        let blocked = local.blocked;
        let result = real::pthread_create(thread, &own, begin_thread, (local as *mut Local).cast());
        signals::restore(blocked);
        if result == 0 {
            HANDLES[index as usize].store(*thread, Relaxed);
        }
        libc::pthread_attr_destroy(&mut own);
        result
    }
}

/// Scope `inputs`: the new thread gets its index, and is otherwise the program's and libc's affair.
///
/// # Safety
/// As for libc's pthread_create.
unsafe fn create_in_order(
    creator: &mut Local,
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    let index = begin_spawn(creator);
    if let Some(index) = index {
        calls::note_spawn(creator, index);
    }
    let Some(local) = index.and_then(Local::prepare) else {
        // SAFETY: the program's own call; the thread goes unrecorded, as the run now says.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    };
    local.start = Some(start);
    local.argument = argument;
    local.created = creator.point_after();
    local.slot.parent.store(creator.index, Relaxed);
    creator.complete();
    let index = local.index;
    local.blocked = signals::block_all();
    let blocked = local.blocked;
    creator.is_creating = true;
    // SAFETY: the program's own call, with a start routine of ours.
    let create = || unsafe { real::pthread_create(thread, attributes, begin_thread, (local as *mut Local).cast()) };
    // Quietly: signals are blocked, faults as well.
    let result = turns::quietly(create);
    creator.is_creating = false;
    signals::restore(blocked);
    if result == 0 {
        turns::created(index);
        turns::at_switch_point(what_point::SPAWN, 0);
    }
    result
}

/// The index of the thread to be created; its creation is an event of the creator's.
fn begin_spawn(creator: &mut Local) -> Option<u32> {
    if control::mode() == Mode::Replay {
        creator.pass_advice(-1);
        let doing = Doing {
            kind: Kind::Spawn,
            op: Op::None,
            object: 0,
        };
        let Some(gate) = creator.pass_gate(doing) else {
            creator.diverge(divergence::THREAD, doing, 0, 0, 0)
        };
        creator.trace_thread(what::SPAWN, gate.value as u64);
        control::header().threads.fetch_max(gate.value as u32 + 1, Relaxed);
        ended::look(gate.value as u32);
        return Some(gate.value as u32);
    }
    processes::is_alone_no_more();
    if !control::inputs_only() {
        creator.at_change_point();
        creator.chaos.at_sync();
        creator.before_release();
    }
    let index = control::new_thread();
    if index as usize >= runtime_abi::THREADS_MAX {
        control::header()
            .threads
            .store(runtime_abi::THREADS_MAX as u32, Relaxed);
        log::stop(truncated::THREADS, 0);
        return None;
    }
    ended::look(index);
    creator.record(Kind::Spawn, Op::None, 0, 0, index as i64, &[]);
    Some(index)
}

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// # Safety
/// `from` is null or valid; `to` is memory for an attribute object.
unsafe fn copy_attributes(to: &mut pthread_attr_t, from: *const pthread_attr_t) {
    // SAFETY: libc initialises `to`; the getters read a valid `from`.
    unsafe {
        libc::pthread_attr_init(to);
        if from.is_null() {
            return;
        }
        let mut number = 0;
        pthread_attr_getdetachstate(from, &mut number);
        libc::pthread_attr_setdetachstate(to, number);
        let mut bytes = 0;
        libc::pthread_attr_getguardsize(from, &mut bytes);
        libc::pthread_attr_setguardsize(to, bytes);
        libc::pthread_attr_getstacksize(from, &mut bytes);
        libc::pthread_attr_setstacksize(to, bytes);
        let mut cpus: libc::cpu_set_t = core::mem::zeroed();
        if libc::pthread_attr_getaffinity_np(from, size_of::<libc::cpu_set_t>(), &mut cpus) == 0
            // Without a wish of the program's, libc answers with every processor there could be.
            && (1..libc::CPU_SETSIZE).contains(&libc::CPU_COUNT(&cpus))
        {
            libc::pthread_attr_setaffinity_np(to, size_of::<libc::cpu_set_t>(), &cpus);
        }
        let (mut base, mut stack_bytes) = (core::ptr::null_mut(), 0);
        libc::pthread_attr_getstack(from, &mut base, &mut stack_bytes);
        // libc answers "end of the stack minus size", and the end is null if the program has not set one.
        if (base as usize).wrapping_add(stack_bytes) != 0 {
            libc::pthread_attr_setstack(to, base, stack_bytes);
        }
    }
}

/// # Safety
/// `attributes` is initialised.
unsafe fn give_stack(creator: &mut Local, index: u32, attributes: &mut pthread_attr_t) {
    // SAFETY: getters and setters of a valid attribute object; the stack is memory of our arena, unused so far.
    unsafe {
        let (mut base, mut bytes, mut guard) = (core::ptr::null_mut(), 0, 0);
        libc::pthread_attr_getstack(attributes, &mut base, &mut bytes);
        if (base as usize).wrapping_add(bytes) != 0 {
            return;
        }
        libc::pthread_attr_getstacksize(attributes, &mut bytes);
        libc::pthread_attr_getguardsize(attributes, &mut guard);
        if let Some((start, bytes)) = heap::new_stack(creator, index, bytes as u64, guard as u64) {
            libc::pthread_attr_setstack(attributes, start as *mut c_void, bytes as usize);
            // Relaxed: the thread that it is about is created afterwards.
            GUARDS[index as usize].store(guard as u32, Relaxed);
        }
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_getattr_np(thread: pthread_t, attributes: *mut pthread_attr_t) -> c_int {
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_getattr_np(thread, attributes) };
    if result != 0 || control::mode() == Mode::Off {
        return result;
    }
    // SAFETY: always valid to ask. A thread's own handle may not be known to others yet.
    let is_self = unsafe { libc::pthread_equal(thread, libc::pthread_self()) } != 0;
    let index = match Local::current() {
        Some(local) if is_self => Some(local.index),
        _ => index_of(thread),
    };
    if let Some(guard) = index
        .map(|index| GUARDS[index as usize].load(Relaxed))
        .filter(|guard| *guard > 0)
    {
        // SAFETY: libc has just initialised it.
        unsafe { libc::pthread_attr_setguardsize(attributes, guard as usize) };
    }
    result
}

/// The first function of every created thread.
extern "C-unwind" fn begin_thread(local: *mut c_void) -> *mut c_void {
    // SAFETY: the creator prepared it for this thread alone.
    let local = unsafe { &mut *local.cast::<Local>() };
    let (start, argument, created) = (local.start.take(), local.argument, local.created);
    if control::mode() == Mode::Record {
        local.log.create();
    }
    let (ends_unseen, blocked) = (local.ends_unseen, local.blocked);
    let index = local.index;
    Local::install(local);
    if host::is_on() {
        host::arrive(argument);
    }
    turns::arrive(index);
    signals::restore(blocked);
    if !ends_unseen {
        watch_exit();
    }
    if let Some(local) = Local::current() {
        if control::mode() == Mode::Replay {
            local.pass_gate(Doing {
                kind: Kind::Start,
                op: Op::None,
                object: 0,
            });
            local.trace_thread(what::START, 0);
        } else {
            local.record(Kind::Start, Op::None, 0, 0, 0, &[created]);
        }
        local.complete();
    }
    match start {
        Some(start) => start(argument),
        None => core::ptr::null_mut(),
    }
}

/// Notes the main thread, and creates the key for `watch_exit`: at startup, so that the program's own keys get the same numbers in every run.
pub fn prepare() {
    let mut key: pthread_key_t = 0;
    // SAFETY: libc fills `key`. Key 0 is our "not created": if we get it, we ask again.
    unsafe {
        real::pthread_key_create(&mut key, Some(end_of_thread));
        if key == 0 {
            real::pthread_key_create(&mut key, Some(end_of_thread));
        }
    }
    EXIT_KEY.store(key, Relaxed);
    // SAFETY: no arguments. We are in the main thread.
    HANDLES[0].store(unsafe { libc::pthread_self() }, Relaxed);
}

/// Arranges for `end_of_thread` to be called when this thread ends.
fn watch_exit() {
    // SAFETY: any non-null value makes libc call the destructor.
    unsafe { libc::pthread_setspecific(EXIT_KEY.load(Relaxed), core::ptr::dangling()) };
}

/// libc runs destructors in rounds, as long as there are values; ours asks for the last round, after the program's.
unsafe extern "C" fn end_of_thread(_: *mut c_void) {
    let Some(local) = recorded() else { return };
    if local.exit_rounds > 1 {
        local.exit_rounds -= 1;
        watch_exit();
        return;
    }
    if control::mode() == Mode::Replay {
        local.pass_advice(-1);
        local.require_no_more_inputs();
        local.pass_gate(Doing {
            kind: Kind::Exit,
            op: Op::None,
            object: 0,
        });
        local.trace_thread(what::EXIT, 0);
        local.complete();
        ending::be_the_last(local);
    } else if control::inputs_only() {
        local.record_rest();
        local.acquisition(Kind::Exit, 0, 0, &[]);
    } else {
        local.create_epoch(Kind::Exit, 0, &[]);
    }
    // Release: pairs with the Acquire in `chunk::wait_for_owner`: its last access is visible to who sees its end.
    local.slot.state.store(thread_state::EXITED, Release);
    if host::is_on() {
        host::over();
    }
}

/// What stands for a thread as the object of joins and cancellations.
pub fn object_of(index: u32) -> u64 {
    &HANDLES[index as usize] as *const AtomicU64 as u64
}

/// The index of the thread that `object_of` gave this object for.
pub fn index_of_object(object: u64) -> Option<u32> {
    let offset = object.checked_sub(object_of(0))?;
    let index = offset / size_of::<AtomicU64>() as u64;
    (index < HANDLES.len() as u64).then_some(index as u32)
}

fn index_of(thread: pthread_t) -> Option<u32> {
    let count = (control::header().threads.load(Relaxed) as usize).min(runtime_abi::THREADS_MAX);
    // The newest first: libc reuses handles of threads that were joined.
    (0..count)
        .rev()
        .find(|i| HANDLES[*i].load(Relaxed) == thread)
        .map(|i| i as u32)
}

/// A join of any kind. The thread's end is after all its events, so its count is final.
fn join(thread: pthread_t, real: impl FnOnce() -> c_int, again: impl FnOnce() -> c_int) -> c_int {
    let Some(local) = observed() else {
        return in_order::acquire(Op::Join, turns::SEVERAL, 0, real, again);
    };
    let object = index_of(thread).map_or(0, object_of);
    if control::mode() == Mode::Replay {
        replay_cancellation(local, object, || ());
    }
    match local.begin(Op::Join, object) {
        Turn::Record => {
            let joined = index_of(thread);
            let result = cancellable(object, 0, real);
            let ended = match joined {
                Some(index) if result == 0 => Some(Point {
                    thread: ThreadIndex(index),
                    // Acquire is not needed: the kernel ordered the thread's end before our return.
                    count: control::slot(index).count.load(Relaxed),
                }),
                _ => None,
            };
            local.record_sync(Op::Join, object, result as i64, ended.as_slice());
            local.complete();
            result
        }
        Turn::Replay(0) => {
            let result = again();
            local.complete();
            result
        }
        Turn::Replay(value) => {
            local.complete();
            value as c_int
        }
    }
}

/// # Safety
/// As for libc's pthread_join.
pub unsafe extern "C-unwind" fn join_forever(thread: pthread_t, result: *mut *mut c_void, caller: u64) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_join(thread, result) };
    if is_foreign(caller) {
        real()
    } else {
        join(thread, real, real)
    }
}

/// Whether the thread has ended already is not recorded, and need not be: it only decides who frees what libc had for it, the
/// caller here or the thread itself. Its memory is not used again in either case.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_detach(thread: pthread_t) -> c_int {
    if let Some(local) = Local::current() {
        local.frees_nothing = true;
    }
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_detach(thread) };
    if let Some(local) = Local::current() {
        local.frees_nothing = false;
    }
    result
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: the program's own call; in replay, one that succeeded may wait a moment.
    unsafe {
        join(
            thread,
            || real::pthread_tryjoin_np(thread, result),
            || real::pthread_join(thread, result),
        )
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        join(
            thread,
            || real::pthread_timedjoin_np(thread, result, until),
            || real::pthread_join(thread, result),
        )
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the program's own call. How libc does it is not the program's doing.
    let real = || calls::unrecorded(|| unsafe { real::pthread_cancel(thread) });
    let Some((local, index)) = observed().and_then(|local| Some((local, index_of(thread)?))) else {
        calls::note_cancel();
        return real();
    };
    let is_ours = calls::is_installed() && index != local.index;
    crate::interpose::release(Op::Cancel, object_of(index), || {
        match control::mode() {
            // A thread that was cancelled at an event of its own does it itself, when it comes there.
            Mode::Replay if is_ours || crate::replay::is_cancelled_at_an_event(index) => 0,
            Mode::Record if is_ours => {
                cancellation::request(index);
                0
            }
            _ => real(),
        }
    })
}

/// A signal to another thread. libc sends it only if that thread has not ended, which in replay it may do earlier:
/// what it waits for comes from the log. So the call as a whole is recorded, and nothing is sent in replay.
///
/// Two events, because the signal may be the end of the process: that it is sent, and the result.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_kill(thread, signal) };
    let Some((local, index)) = observed().and_then(|local| Some((local, index_of(thread)?))) else {
        return real();
    };
    // To oneself: a system call like any other, `calls::Local::signal_self`.
    if index == local.index {
        return real();
    }
    let object = object_of(index);
    let result = match local.begin(Op::Input, object) {
        Turn::Record => {
            local.complete();
            calls::unrecorded(real)
        }
        Turn::Replay(_) => {
            local.complete();
            local.signal_at_end(index, signal);
            0
        }
    };
    local.input(Op::Input, object, || result as i64) as c_int
}

/// Keys are numbered in the order they are asked for.
///
/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_key_create(
    key: *mut pthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_key_create(key, destructor) };
    match observed() {
        Some(local) => local.exclusively(Op::Input, &EXIT_KEY as *const AtomicU32 as u64, |_| real()),
        None => real(),
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_key_delete(key: pthread_key_t) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::pthread_key_delete(key) };
    match observed() {
        Some(local) => local.exclusively(Op::Input, &EXIT_KEY as *const AtomicU32 as u64, |_| real()),
        None => real(),
    }
}
