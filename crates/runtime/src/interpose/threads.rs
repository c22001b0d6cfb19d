//! Threads: creation, end, thread-specific keys. What others do to them: `joins.rs`.
//!
//! A created thread gets its index from its creator's event, and its stack from its index, so both are the same in
//! every run. Its end is noticed by a destructor of thread-specific data, which libc runs however the thread ends.
use crate::callers::is_foreign;
use crate::calls;
use crate::control;
use crate::ended;
use crate::ghost::observed;
use crate::ghost::recorded;
use crate::handlers;
use crate::handles;
use crate::heap;
use crate::hosting;
use crate::interpose::callers::with_caller;
use crate::local;
use crate::local::Local;
use crate::log;
use crate::policy;
use crate::real;
use crate::real::StartRoutine;
use crate::replay::Doing;
use crate::turns;
use crate::vectors;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use libc::pthread_attr_t;
use libc::pthread_key_t;
use libc::pthread_t;
use run_model::Kind;
use run_model::Op;
use runtime_abi::divergence;
use runtime_abi::trace_file::what;
use runtime_abi::truncated;
use runtime_abi::turns_file::what as what_point;

/// The bytes of the guard below a stack that we gave a thread. libc knows of none: to it the stack is the program's.
static GUARDS: [AtomicU32; runtime_abi::THREADS_MAX] = [const { AtomicU32::new(0) }; runtime_abi::THREADS_MAX];
/// The key whose destructor tells that a thread ends; 0: not created.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

with_caller! {
    pthread_create caller in "r8" = create;
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
    vectors::name_child(creator, local);
    local.birth.start.set(Some(start));
    local.birth.argument.set(argument);
    local.ends_unseen.set(is_foreign(caller));
    if local.ends_unseen.get() {
        // Relaxed: a lone flag.
        local::note_unseen_end();
    }
    local.birth.created.set(creator.point_after());
    local.slot.parent.store(creator.index, Relaxed);
    // SAFETY: `own` is initialised; the call is the program's own.
    unsafe {
        // The event is over before: what is allocated for the stack, or by libc in the call, has events of its own.
        creator.complete();
        let result = vectors::followed::creating(creator.index, index, || {
            give_stack(creator, index, &mut own);
            creator.create_steered(index);
            local.birth.blocked.set(handlers::block_all());
            let blocked = local.birth.blocked.get();
            let result = real::pthread_create(thread, &own, begin_thread, (local as *const Local).cast_mut().cast());
            handlers::restore(blocked);
            result
        });
        if result == 0 {
            handles::HANDLES[index as usize].store(*thread, Relaxed);
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
    creator: &Local,
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
    local.birth.start.set(Some(start));
    local.birth.argument.set(argument);
    local.birth.created.set(creator.point_after());
    local.slot.parent.store(creator.index, Relaxed);
    creator.complete();
    let index = local.index;
    local.birth.blocked.set(handlers::block_all());
    let blocked = local.birth.blocked.get();
    creator.is_creating.set(true);
    // SAFETY: the program's own call, with a start routine of ours.
    let create = || unsafe {
        real::pthread_create(
            thread,
            attributes,
            begin_thread,
            (local as *const Local).cast_mut().cast(),
        )
    };
    // Quietly: signals are blocked, faults as well.
    let result = turns::quietly(create);
    creator.is_creating.set(false);
    handlers::restore(blocked);
    if result == 0 {
        turns::created(index);
        turns::at_switch_point(what_point::SPAWN, 0);
    }
    result
}

/// The index of the thread to be created; its creation is an event of the creator's.
pub fn begin_spawn(creator: &Local) -> Option<u32> {
    control::note_threads(true);
    match policy::is_imposed() {
        true => replay_spawn(creator),
        false => record_spawn(creator),
    }
}

/// The next index; none if there are too many threads.
fn record_spawn(creator: &Local) -> Option<u32> {
    control::set_alone(false);
    if !control::inputs_only() {
        creator.at_change_point();
        creator.chaos.at_sync();
        creator.before_release();
    }
    let index = control::new_thread();
    if index as usize >= runtime_abi::THREADS_MAX {
        control::header()
            .progress
            .threads
            .store(runtime_abi::THREADS_MAX as u32, Relaxed);
        log::stop(truncated::THREADS, 0);
        // Noted as the first record that is lost: a replay stands before the thread that it does not know.
        creator.record(Kind::Spawn, Op::None, 0, 0, i64::from(index), &[]);
        creator.complete();
        return None;
    }
    ended::look(index);
    creator.record(Kind::Spawn, Op::None, 0, 0, index as i64, &[]);
    Some(index)
}

/// The index that it had; none if the program goes on without a schedule.
fn replay_spawn(creator: &Local) -> Option<u32> {
    creator.pass_advice(-1);
    let doing = Doing {
        kind: Kind::Spawn,
        op: Op::None,
        object: 0,
    };
    let Some(gate) = creator.pass_gate(doing) else {
        creator.leave_schedule(divergence::THREAD, doing, 0, 0, 0);
        return None;
    };
    let index = gate.value as u32;
    creator.trace_thread(what::SPAWN, u64::from(index));
    control::header().progress.threads.fetch_max(index + 1, Relaxed);
    ended::look(index);
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
unsafe fn give_stack(creator: &Local, index: u32, attributes: &mut pthread_attr_t) {
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
    if result != 0 || policy::is_free() {
        return result;
    }
    // SAFETY: always valid to ask. A thread's own handle may not be known to others yet.
    let is_self = unsafe { libc::pthread_equal(thread, libc::pthread_self()) } != 0;
    let index = match Local::current() {
        Some(local) if is_self => Some(local.index),
        _ => handles::index_of(thread),
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
    let local = unsafe { &*local.cast::<Local>() };
    let (start, argument, created) = (
        local.birth.start.take(),
        local.birth.argument.get(),
        local.birth.created.get(),
    );
    if policy::is_observed() {
        local.access.log.create();
    }
    let (ends_unseen, blocked) = (local.ends_unseen.get(), local.birth.blocked.get());
    let index = local.index;
    Local::install(local);
    hosting::arrive(argument);
    turns::arrive(index);
    local.arrive_steered();
    handlers::restore(blocked);
    if !ends_unseen {
        watch_exit();
    }
    if let Some(local) = Local::current() {
        match policy::is_imposed() {
            true => replay_start(local),
            false => local.record(Kind::Start, Op::None, 0, 0, 0, &[created]),
        }
        local.complete();
        if !hosting::is_on() {
            local.arrive_alone();
        }
    }
    match start {
        Some(start) => start(argument),
        None => core::ptr::null_mut(),
    }
}

pub fn replay_start(local: &Local) {
    local.pass_gate(Doing {
        kind: Kind::Start,
        op: Op::None,
        object: 0,
    });
    local.trace_thread(what::START, 0);
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
    handles::HANDLES[0].store(unsafe { libc::pthread_self() }, Relaxed);
}

/// Arranges for `end_of_thread` to be called when this thread ends.
fn watch_exit() {
    // SAFETY: any non-null value makes libc call the destructor.
    unsafe { libc::pthread_setspecific(EXIT_KEY.load(Relaxed), core::ptr::dangling()) };
}

/// libc runs destructors in rounds, as long as there are values; ours asks for the last round, after the program's.
unsafe extern "C" fn end_of_thread(_: *mut c_void) {
    let Some(local) = recorded() else { return };
    if local.birth.exit_rounds.get() > 1 {
        local.birth.exit_rounds.set(local.birth.exit_rounds.get() - 1);
        watch_exit();
        return;
    }
    local.end_thread();
    hosting::over();
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
