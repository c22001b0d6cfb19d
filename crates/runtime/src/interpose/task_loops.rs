//! Loops of OpenMP whose iterations are tasks (`tasks.rs`): how many tasks they become, and which iterations each has, as libomp has it.
use crate::interpose::tasks;
use crate::interpose::tasks::Allocate;
use crate::interpose::tasks::Ask;
use crate::interpose::tasks::Bare;
use crate::interpose::tasks::Ident;
use crate::interpose::tasks::TaskHead;
use crate::interpose::tasks::real;
use core::ffi::c_int;
use core::ffi::c_void;

type Duplicate = Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int)>;
type TaskLoop = unsafe extern "C-unwind" fn(
    Ident,
    c_int,
    *mut c_void,
    c_int,
    *mut u64,
    *mut u64,
    i64,
    c_int,
    c_int,
    u64,
    Duplicate,
);
type TaskLoop5 = unsafe extern "C-unwind" fn(
    Ident,
    c_int,
    *mut c_void,
    c_int,
    *mut u64,
    *mut u64,
    i64,
    c_int,
    c_int,
    u64,
    c_int,
    Duplicate,
);

/// A loop whose iterations are tasks.
struct Loop {
    low: *mut u64,
    high: *mut u64,
    step: i64,
    schedule: c_int,
    amount: u64,
    is_strict: bool,
    duplicate: Duplicate,
}

impl Loop {
    const BY_GRAIN: c_int = 1;
    const BY_TASKS: c_int = 2;

    /// How many iterations there are, and how many tasks they become: as libomp has it.
    fn tasks(&self, low: u64, high: u64, threads: u64) -> (u64, u64) {
        let (low, high) = (low as i64, high as i64);
        let iterations = match self.step {
            1 => (high - low + 1) as u64,
            step if step > 0 => ((high - low) / step + 1) as u64,
            step => ((low - high) / -step + 1) as u64,
        };
        let tasks = match self.schedule {
            Loop::BY_GRAIN if self.is_strict => iterations.div_ceil(self.amount.max(1)),
            Loop::BY_GRAIN => iterations / self.amount.max(1),
            Loop::BY_TASKS => self.amount,
            _ => threads * 10,
        };
        (iterations, tasks.clamp(1, iterations))
    }
}

/// Makes the tasks of a loop; false if libomp is to do it.
///
/// # Safety
/// As for `__kmpc_taskloop`.
unsafe fn loop_of_tasks(ident: Ident, thread: c_int, pattern: *mut c_void, over: &Loop) -> bool {
    let Some((local, _)) = tasks::place() else { return false };
    let known = local.tasks.allocated.get();
    let threads = real!(c"omp_get_num_threads" as Ask);
    // SAFETY: bounds lie in the task; libomp may be asked anywhere.
    let (low, high, threads) = unsafe { (*over.low, *over.high, threads() as u64) };
    let is_empty = if over.step > 0 {
        (high as i64) < low as i64
    } else {
        (high as i64) > low as i64
    };
    if known.task != pattern || is_empty {
        return false;
    }
    let (iterations, count) = over.tasks(low, high, threads);
    let (low_at, high_at) = (
        over.low as usize - pattern as usize,
        over.high as usize - pattern as usize,
    );
    let strict_grain = (over.schedule == Loop::BY_GRAIN && over.is_strict).then_some(over.amount.max(1));
    let mut from = low;
    for number in 0..count {
        let is_last = number + 1 == count;
        let share = match strict_grain {
            Some(grain) => grain.min(iterations - number * grain),
            None => iterations / count + u64::from(number < iterations % count),
        };
        let to = from.wrapping_add((share - 1).wrapping_mul(over.step as u64));
        // SAFETY: a task of the same shape, of which libomp has filled in what is its own; the compiler's function completes the copy.
        unsafe {
            let allocate = real!(c"__kmpc_omp_task_alloc" as Allocate);
            let task = tasks::allocating(|| {
                allocate(ident, thread, known.flags, known.bytes, known.shared_bytes, known.entry)
            });
            let shared = (*task.cast::<TaskHead>()).shared;
            core::ptr::copy_nonoverlapping(pattern.cast::<u8>(), task.cast::<u8>(), known.bytes);
            (*task.cast::<TaskHead>()).shared = shared;
            if !shared.is_null() && known.shared_bytes != 0 {
                core::ptr::copy_nonoverlapping((*pattern.cast::<TaskHead>()).shared, shared, known.shared_bytes);
            }
            task.byte_add(low_at).cast::<u64>().write(from);
            task.byte_add(high_at).cast::<u64>().write(to);
            if let Some(duplicate) = over.duplicate {
                duplicate(task, pattern, c_int::from(is_last));
            }
            tasks::submit(ident, thread, task, [&[], &[]]);
        }
        from = to.wrapping_add(over.step as u64);
    }
    // SAFETY: the pattern is over without having been executed, as libomp ends it.
    unsafe {
        real!(c"__kmpc_omp_task_begin_if0" as Bare)(ident, thread, pattern);
        real!(c"__kmpc_omp_task_complete_if0" as Bare)(ident, thread, pattern);
    }
    true
}

/// A loop of tasks, whichever function of libomp's was called for it: `libomp` is that. It waits for the tasks, unless it says otherwise.
///
/// # Safety
/// As for `__kmpc_taskloop`.
unsafe fn execute(
    ident: Ident,
    thread: c_int,
    task: *mut c_void,
    is_wanted: bool,
    without_group: bool,
    over: &Loop,
    libomp: impl FnOnce(),
) {
    if tasks::place().is_none() {
        return libomp();
    }
    // SAFETY: as the program would have a group around its loop.
    unsafe {
        if !without_group {
            tasks::__kmpc_taskgroup(ident, thread);
        }
        if !(is_wanted && loop_of_tasks(ident, thread, task, over)) {
            libomp();
        }
        if !without_group {
            tasks::__kmpc_end_taskgroup(ident, thread);
        }
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_taskloop(
    ident: Ident,
    thread: c_int,
    task: *mut c_void,
    condition: c_int,
    low: *mut u64,
    high: *mut u64,
    step: i64,
    without_group: c_int,
    schedule: c_int,
    amount: u64,
    duplicate: Duplicate,
) {
    let over = Loop {
        low,
        high,
        step,
        schedule,
        amount,
        is_strict: false,
        duplicate,
    };
    // SAFETY: the program's own call.
    unsafe {
        execute(ident, thread, task, condition != 0, without_group != 0, &over, || {
            let function = real!(c"__kmpc_taskloop" as TaskLoop);
            function(
                ident,
                thread,
                task,
                condition,
                low,
                high,
                step,
                without_group,
                schedule,
                amount,
                duplicate,
            );
        });
    }
}

/// # Safety
/// As for libomp's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __kmpc_taskloop_5(
    ident: Ident,
    thread: c_int,
    task: *mut c_void,
    condition: c_int,
    low: *mut u64,
    high: *mut u64,
    step: i64,
    without_group: c_int,
    schedule: c_int,
    amount: u64,
    modifier: c_int,
    duplicate: Duplicate,
) {
    let over = Loop {
        low,
        high,
        step,
        schedule,
        amount,
        is_strict: modifier != 0,
        duplicate,
    };
    // SAFETY: the program's own call.
    unsafe {
        execute(ident, thread, task, condition != 0, without_group != 0, &over, || {
            let function = real!(c"__kmpc_taskloop_5" as TaskLoop5);
            function(
                ident,
                thread,
                task,
                condition,
                low,
                high,
                step,
                without_group,
                schedule,
                amount,
                modifier,
                duplicate,
            );
        });
    }
}
