//! Tasks of OpenMP, as compiled code calls libomp for them: they wait in queues of ours (`crate::tasks`), and libomp executes each where it
//! is told to.
//!
//! Compiled code tells us of teams (`crates/instrumentor/pass/teams.h`): `fork` and `join` are called by the thread that makes one, `begin` and `end` by each thread of
//! it. What libomp alone knows of (a team of a library that was not built for recording, a region that one thread executes, a task
//! that there is no room for) is left to it, and is executed at once.
use crate::failure;
use crate::ghost::observed;
use crate::local::Local;
use crate::local::open::Open;
use crate::local::tasks::Allocated;
use crate::local::tasks::Routine;
use crate::policy;
use crate::real::Real;
use crate::sys::Backoff;
use crate::tasks::Dependence;
use crate::tasks::Made;
use crate::tasks::Number;
use crate::tasks::Place;
use crate::tasks::Step;
use crate::tasks::Tasks;
use crate::tasks::Until;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::Op;

pub type Ident = *const c_void;

/// Does the program have tasks, and does libomp execute them where it is told to?
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// There was a team before: libomp has read its settings.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Changes whenever a thread that waits may find something.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Looked at inside events of one object only, of which there is one at a time: while recording its word is locked, in replay each comes
/// when the one before is complete.
struct Shared(UnsafeCell<Tasks>);

// SAFETY: one thread at a time, as above.
unsafe impl Sync for Shared {}

static TASKS: Shared = Shared(UnsafeCell::new(Tasks::new()));

/// libomp's function of this name and type.
macro_rules! real {
    ($name:literal as $type:ty) => {{
        static REAL: crate::real::Real = crate::real::Real::new($name);
        $crate::interpose::tasks::libomp_function::<$type>(&REAL)
    }};
}
pub(super) use real;

/// `F` is the type of that function of libomp's.
pub fn libomp_function<F: Copy>(real: &Real) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `real!`, which alone calls this, names each function with its type; of a pointer to a function there is the address.
    unsafe { core::mem::transmute_copy(&real.address()) }
}

type OnTask = unsafe extern "C-unwind" fn(Ident, c_int, *mut c_void) -> c_int;
pub type Bare = unsafe extern "C-unwind" fn(Ident, c_int, *mut c_void);
type OnThread = unsafe extern "C-unwind" fn(Ident, c_int);
pub type Allocate = unsafe extern "C-unwind" fn(Ident, c_int, c_int, usize, usize, *const c_void) -> *mut c_void;
pub type Ask = unsafe extern "C-unwind" fn() -> c_int;

/// Flags of a task, as libomp has them.
const TIED: c_int = 1;
const DETACHABLE: c_int = 1 << 6;

/// What libomp and compiled code share of a task; the program's variables follow.
#[repr(C)]
pub struct TaskHead {
    pub shared: *mut u8,
    routine: Routine,
    part: c_int,
    /// Destroys the task's copies of variables, where there is something to destroy: libomp was told so when it allocated the task.
    destroy: Option<Routine>,
}

/// Inside a final task all others are executed at once.
fn is_in_final() -> bool {
    // SAFETY: it may be asked anywhere.
    unsafe { real!(c"omp_in_final" as Ask)() != 0 }
}

/// A change of what is known of tasks, as one event.
fn ordered<R>(local: &Local, change: impl FnOnce(&mut Tasks) -> R) -> R {
    let object = &raw const TASKS as u64;
    // SAFETY: inside an event of the object; nothing that is called there comes back here.
    local.exclusively(Op::OpenMp, object, |_| change(unsafe { &mut *TASKS.0.get() }))
}

/// libomp gives memory of tasks that are over to the next ones, each thread what it has allocated itself, as soon as it notices that
/// another has given it back. So that it notices at the same place again, what allocates and what gives back for others are events too.
pub fn allocating<R>(allocate: impl FnOnce() -> R) -> R {
    match observed() {
        Some(local) if IS_OURS.load(Relaxed) => ordered(local, |_| allocate()),
        _ => allocate(),
    }
}

/// Threads that wait may find something now.
fn changed() {
    // Release: pairs with the Acquire in `wait`; but what counts is read inside events.
    CHANGES.fetch_add(1, Release);
}

/// Where the calling thread is, if its tasks are ours.
pub fn place() -> Option<(&'static Local, Place)> {
    if !IS_OURS.load(Relaxed) {
        return None;
    }
    let local = observed()?;
    let place = local.tasks.place.get();
    if place.task == 0 {
        return None;
    }
    let level: Ask = real!(c"omp_get_level" as Ask);
    // SAFETY: it may be asked anywhere.
    (unsafe { level() } == local.tasks.level.get()).then_some((local, place))
}

/// A module with tasks has been loaded: its constructor says so, before `main` as a rule.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_openmp_tasks() {
    let is_for_us = observed().is_some() && !HAS_BEGUN.load(Relaxed);
    // SAFETY: in a constructor, before there is a second thread.
    unsafe {
        let wanted = libc::getenv(c"KMP_TASKING".as_ptr());
        // Who wants them at once, natively too, gets that from libomp itself.
        if is_for_us && !IS_OURS.load(Relaxed) && wanted.is_null() {
            libc::setenv(c"KMP_TASKING".as_ptr(), c"0".as_ptr(), 1);
            IS_OURS.store(true, Relaxed);
        }
    }
}

/// A thread is about to make a team. Its number, for the threads of it.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_openmp_fork() -> usize {
    HAS_BEGUN.store(true, Relaxed);
    match observed() {
        Some(local) if IS_OURS.load(Relaxed) => ordered(local, Tasks::fork) as usize,
        _ => 0,
    }
}

/// The team is over.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_openmp_join(team: usize) {
    if team != 0
        && let Some(local) = observed()
    {
        ordered(local, |tasks| tasks.join(team as Number));
    }
}

/// A thread begins its part of a team. How many regions were around it.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_openmp_begin(team: usize) -> c_int {
    let Some(local) = observed().filter(|_| team != 0) else {
        return 0;
    };
    let (level, threads) = (real!(c"omp_get_level" as Ask), real!(c"omp_get_num_threads" as Ask));
    // SAFETY: both may be asked anywhere.
    let (level, threads) = unsafe { (level(), threads()) };
    let from = local.tasks.place.get();
    let place = ordered(local, |tasks| {
        tasks.begin(team as Number, threads as u32, from, local.index)
    });
    local.tasks.place.set(place);
    local.tasks.level.replace(level)
}

/// It ends it: all tasks of the team are executed.
///
/// # Safety
/// `thread` is libomp's number of it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __refrain_openmp_end(team: usize, thread: *const c_int, level: c_int) {
    let Some(local) = observed().filter(|local| team != 0 && local.tasks.place.get().task != 0) else {
        return;
    };
    // SAFETY: libomp passes its number to the function that compiled code made of the region.
    wait_for_team(local, unsafe { *thread });
    let place = local.tasks.place.get();
    local.tasks.place.set(ordered(local, |tasks| tasks.end(place)));
    local.tasks.level.set(level);
}

/// Executes tasks until what the thread waits for is there.
fn wait(local: &Local, thread: c_int, until: Until<'_>) {
    loop {
        // Acquire: pairs with the Release in `changed`.
        let before = CHANGES.load(Acquire);
        let place = local.tasks.place.get();
        match ordered(local, |tasks| tasks.step(place, local.index, until)) {
            Step::Done => {
                // Whoever came last has found that all are here; the others look again.
                if matches!(until, Until::Barrier(_)) {
                    changed();
                }
                return;
            }
            Step::Run(task) => {
                execute(local, thread, task);
                if matches!(until, Until::Once) {
                    return;
                }
            }
            Step::Nothing => {
                // In replay the next look has its turn.
                let mut backoff = Backoff::default();
                while !policy::is_imposed() && CHANGES.load(Acquire) == before {
                    backoff.wait();
                }
            }
        }
    }
}

/// Executes a task here, now: libomp was told to do so whenever it is given one.
fn execute(local: &Local, thread: c_int, task: Number) {
    let (it, place) = (ordered(local, |tasks| *tasks.task(task)), local.tasks.place.get());
    local.tasks.place.set(Place {
        task,
        group: it.group,
        ..place
    });
    let head = it.task.cast::<TaskHead>();
    // SAFETY: the program has passed this task on, and it is executed once.
    let outer = unsafe {
        let outer = local.tasks.routine.replace(Some((*head).routine));
        (*head).routine = execute_and_open;
        hand_over(it.place, thread, it.task);
        outer
    };
    local.tasks.routine.set(outer);
    local.tasks.place.set(place);
    // libomp has given the task's memory back, inside the event; it executes no task of a group that was cancelled.
    let open = local.tasks.open.take().unwrap_or_else(|| open(local));
    // SAFETY: inside an event of the object.
    unsafe { &mut *TASKS.0.get() }.finish(task);
    local.close(open);
    changed();
}

fn open(local: &Local) -> Open {
    local.open(Op::OpenMp, &raw const TASKS as u64)
}

/// What libomp calls as the routine of a task that waited here; then the event is open that the end of the task is.
///
/// # Safety
/// `execute` has passed the task to libomp.
unsafe extern "C-unwind" fn execute_and_open(thread: c_int, task: *mut c_void) -> c_int {
    unsafe extern "C-unwind" fn destroy_nothing(_: c_int, _: *mut c_void) -> c_int {
        0
    }
    let head = task.cast::<TaskHead>();
    let known = observed().and_then(|local| Some((local, local.tasks.routine.get()?)));
    let Some((local, routine)) = known else {
        failure::die(b"a task of OpenMP is executed by a thread that is not observed", 0);
    };
    // SAFETY: what libomp would call without us, in its order; `destroy` was cleared when the task was allocated.
    let result = unsafe {
        (*head).routine = routine;
        let result = routine(thread, task);
        if let Some(destroy) = (*head).destroy.replace(destroy_nothing) {
            destroy(thread, task);
        }
        result
    };
    local.tasks.open.set(Some(open(local)));
    result
}

/// A new task: later, or now.
///
/// # Safety
/// As for `__kmpc_omp_task_with_deps`.
pub unsafe fn submit(ident: Ident, thread: c_int, task: *mut c_void, dependences: [&[Dependence]; 2]) -> c_int {
    if observed().is_some_and(|local| IS_OURS.load(Relaxed) && local.tasks.running.get() == task) {
        // A part of an untied task asks for its next part.
        // SAFETY: libomp would call the same function; the thread is inside the task.
        return unsafe { ((*task.cast::<TaskHead>()).routine)(thread, task) };
    }
    let Some((local, place)) = place() else {
        // SAFETY: the program's own call.
        return unsafe { hand_over(ident, thread, task) };
    };
    let (detached, event) = local
        .tasks
        .detached
        .replace((core::ptr::null_mut(), core::ptr::null_mut()));
    let event = if detached == task { event } else { core::ptr::null_mut() };
    let at_once = is_in_final();
    match ordered(local, |tasks| {
        tasks.add(place, local.index, task, ident, event, dependences, at_once)
    }) {
        Made::Queued => changed(),
        Made::Now(0) => {
            wait(local, thread, Until::Dependences(dependences));
            // SAFETY: the program's own call.
            return unsafe { hand_over(ident, thread, task) };
        }
        Made::Now(number) => execute(local, thread, number),
    }
    0
}

/// libomp executes the task, here and now, if tasks are ours.
///
/// # Safety
/// As for `__kmpc_omp_task`.
unsafe fn hand_over(ident: Ident, thread: c_int, task: *mut c_void) -> c_int {
    let running = observed().map(|local| &local.tasks.running);
    let before = running.map(|running| running.replace(task));
    // SAFETY: the caller keeps the function's contract.
    let result = unsafe { real!(c"__kmpc_omp_task" as OnTask)(ident, thread, task) };
    if let (Some(running), Some(before)) = (running, before) {
        running.set(before);
    }
    result
}

/// # Safety
/// `list` has so many.
unsafe fn listed<'a>(count: c_int, list: *const Dependence) -> &'a [Dependence] {
    if count <= 0 || list.is_null() {
        &[]
    } else {
        // SAFETY: the caller promises it.
        unsafe { core::slice::from_raw_parts(list, count as usize) }
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_task_alloc(
    ident: Ident,
    thread: c_int,
    flags: c_int,
    bytes: usize,
    shared_bytes: usize,
    entry: *const c_void,
) -> *mut c_void {
    let ours = place();
    // Whether it goes on in parts, and what completes it, is our business.
    let mut our_flags = flags;
    if IS_OURS.load(Relaxed) {
        our_flags |= TIED;
    }
    if ours.is_some() {
        our_flags &= !DETACHABLE;
    }
    let flags = our_flags;
    // SAFETY: the program's own call; all tasks have a head.
    let task = unsafe {
        let allocate = real!(c"__kmpc_omp_task_alloc" as Allocate);
        let task = allocating(|| allocate(ident, thread, flags, bytes, shared_bytes, entry));
        (*task.cast::<TaskHead>()).destroy = None;
        task
    };
    if let Some((local, _)) = ours {
        local.tasks.allocated.set(Allocated {
            task,
            flags,
            bytes,
            shared_bytes,
            entry,
        });
    }
    task
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_task(ident: Ident, thread: c_int, task: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { submit(ident, thread, task, [&[], &[]]) }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_task_with_deps(
    ident: Ident,
    thread: c_int,
    task: *mut c_void,
    count: c_int,
    list: *const Dependence,
    more: c_int,
    more_list: *const Dependence,
) -> c_int {
    type WithDependences = unsafe extern "C-unwind" fn(
        Ident,
        c_int,
        *mut c_void,
        c_int,
        *const Dependence,
        c_int,
        *const Dependence,
    ) -> c_int;
    // SAFETY: the program's own call.
    unsafe {
        if place().is_none() {
            let function = real!(c"__kmpc_omp_task_with_deps" as WithDependences);
            return function(ident, thread, task, count, list, more, more_list);
        }
        submit(ident, thread, task, [listed(count, list), listed(more, more_list)])
    }
}

/// A task that its thread executes itself, in the midst of the program's code: only who its children are is to be known.
///
/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_task_begin_if0(ident: Ident, thread: c_int, task: *mut c_void) {
    if let Some((local, place)) = place() {
        let none = core::ptr::null_mut();
        let made = ordered(local, |tasks| {
            tasks.add(place, local.index, task, ident, none, [&[], &[]], true)
        });
        if let Made::Now(number) = made
            && number != 0
        {
            local.tasks.place.set(Place { task: number, ..place });
        }
        local.tasks.running.set(task);
    }
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_omp_task_begin_if0" as Bare)(ident, thread, task) }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_task_complete_if0(ident: Ident, thread: c_int, task: *mut c_void) {
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_omp_task_complete_if0" as Bare)(ident, thread, task) };
    if let Some((local, place)) = place() {
        let back = ordered(local, |tasks| {
            let it = *tasks.task(place.task);
            (it.task == task).then(|| {
                tasks.finish(place.task);
                (it.resumes, tasks.task(it.resumes.task).task)
            })
        });
        if let Some((back, running)) = back {
            local.tasks.place.set(back);
            local.tasks.running.set(running);
            changed();
        }
    }
}

/// Waits here for what libomp would wait for there; then libomp finds nothing to do.
fn wait_here(thread: c_int, until: Until<'_>) {
    if let Some((local, _)) = place() {
        wait(local, thread, until);
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_taskwait(ident: Ident, thread: c_int) -> c_int {
    wait_here(thread, Until::Children);
    type Wait = unsafe extern "C-unwind" fn(Ident, c_int) -> c_int;
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_omp_taskwait" as Wait)(ident, thread) }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_taskyield(ident: Ident, thread: c_int, part: c_int) -> c_int {
    wait_here(thread, Until::Once);
    type Yield = unsafe extern "C-unwind" fn(Ident, c_int, c_int) -> c_int;
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_omp_taskyield" as Yield)(ident, thread, part) }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_wait_deps(
    ident: Ident,
    thread: c_int,
    count: c_int,
    list: *const Dependence,
    more: c_int,
    more_list: *const Dependence,
) {
    type Wait = unsafe extern "C-unwind" fn(Ident, c_int, c_int, *const Dependence, c_int, *const Dependence);
    // SAFETY: the program's own call.
    unsafe {
        wait_here(
            thread,
            Until::Dependences([listed(count, list), listed(more, more_list)]),
        );
        real!(c"__kmpc_omp_wait_deps" as Wait)(ident, thread, count, list, more, more_list);
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_omp_taskwait_deps_51(
    ident: Ident,
    thread: c_int,
    count: c_int,
    list: *const Dependence,
    more: c_int,
    more_list: *const Dependence,
    no_wait: c_int,
) {
    type Wait = unsafe extern "C-unwind" fn(Ident, c_int, c_int, *const Dependence, c_int, *const Dependence, c_int);
    // SAFETY: the program's own call.
    unsafe {
        wait_here(
            thread,
            Until::Dependences([listed(count, list), listed(more, more_list)]),
        );
        real!(c"__kmpc_omp_taskwait_deps_51" as Wait)(ident, thread, count, list, more, more_list, no_wait);
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_taskgroup(ident: Ident, thread: c_int) {
    // SAFETY: the program's own call.
    allocating(|| unsafe { real!(c"__kmpc_taskgroup" as OnThread)(ident, thread) });
    if let Some((local, place)) = place() {
        let group = ordered(local, |tasks| tasks.open_group(place.group));
        local.tasks.place.set(Place { group, ..place });
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_end_taskgroup(ident: Ident, thread: c_int) {
    if let Some((local, place)) = place().filter(|(_, place)| place.group != 0) {
        wait(local, thread, Until::Group);
        let group = ordered(local, |tasks| tasks.close_group(place.group));
        local.tasks.place.set(Place { group, ..place });
    }
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_end_taskgroup" as OnThread)(ident, thread) };
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_barrier(ident: Ident, thread: c_int) {
    wait_at_barrier(thread);
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_barrier" as OnThread)(ident, thread) };
}

/// All threads of the team come by; its tasks are complete afterwards.
pub fn wait_at_barrier(thread: c_int) {
    if let Some((local, _)) = place() {
        wait_for_team(local, thread);
    }
}

fn wait_for_team(local: &Local, thread: c_int) {
    let place = local.tasks.place.get();
    let barrier = ordered(local, |tasks| tasks.arrive(place));
    wait(local, thread, Until::Barrier(barrier));
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_task_allow_completion_event(
    ident: Ident,
    thread: c_int,
    task: *mut c_void,
) -> *mut c_void {
    if let Some((local, _)) = place() {
        let event = ordered(local, Tasks::new_event);
        local.tasks.detached.set((task, event));
        return event;
    }
    type Allow = unsafe extern "C-unwind" fn(Ident, c_int, *mut c_void) -> *mut c_void;
    // SAFETY: the program's own call.
    unsafe { real!(c"__kmpc_task_allow_completion_event" as Allow)(ident, thread, task) }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn omp_fulfill_event(event: *mut c_void) {
    // Any thread may do this, of whichever team.
    match observed() {
        Some(local) if Tasks::is_event(event) => {
            ordered(local, |tasks| tasks.fulfil(event));
            changed();
        }
        _ => {
            type Fulfil = unsafe extern "C-unwind" fn(*mut c_void);
            // SAFETY: the program's own call.
            unsafe { real!(c"omp_fulfill_event" as Fulfil)(event) }
        }
    }
}
