//! libc's `clone`, by which a program makes processes and threads itself. libc's own use of the system call is not seen here.
//!
//! A child that shares its maker's memory is a thread to us. libc does not know it, and natively it has its maker's thread pointer, and so
//! its maker's thread-local variables. We find our own state of a thread there, so the child gets a copy of its maker's; all that libc finds
//! behind pointers from there stays its maker's, as natively. It begins in a function of ours, on a stack of ours, and goes on with what the
//! program asked for.
//!
//! What the kernel calls the child is an input without a place in the order: a replay knows it before it makes the child, which may look for it at once.
use crate::calls;
use crate::clones;
use crate::clones::Asked;
use crate::clones::CHILD_CLEAR_TID;
use crate::clones::CHILD_SET_TID;
use crate::clones::PARENT_SET_TID;
use crate::clones::SET_TLS;
use crate::clones::SIGHAND;
use crate::clones::THREAD;
use crate::clones::VM;
use crate::control;
use crate::failure;
use crate::ghost::recorded;
use crate::handlers;
use crate::hosting;
use crate::interpose::threads::begin_spawn;
use crate::interpose::threads::replay_start;
use crate::local::Local;
use crate::policy;
use crate::real;
use crate::real::CloneStart;
use crate::sys;
use crate::turns;
use core::arch::asm;
use core::arch::naked_asm;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use runtime_abi::memory_map::HOSTED_THREADS;
use runtime_abi::turns_file::what;

/// What a replay makes of every child that shares memory.
const AS_THREAD: usize = VM | THREAD | SIGHAND | (libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SYSVSEM) as usize;

macro_rules! clones {
    ($($name:ident;)*) => {$(
        /// Goes on in `clone_from`, with the stack pointer of the caller as one more argument: both it and the last of the program's are on the stack.
        ///
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, [rsp + 8]",
                "lea r11, [rsp + 8]",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov [rsp], rax",
                "mov [rsp + 8], r11",
                "call {target}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                target = sym clone_from,
            )
        }
    )*};
}

clones! {
    clone;
    __clone;
}

/// The last three of the program's arguments are whatever registers and stack hold, if it did not give them.
extern "C-unwind" fn clone_from(
    start: Option<CloneStart>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: usize,
    tls: usize,
    child_tid: usize,
    stack_from: u64,
) -> c_int {
    // SAFETY: the program's own call.
    let real = || unsafe { real::clone(start, stack, flags, argument, parent_tid, tls, child_tid) };
    let Some(local) = recorded().filter(|local| !local.calls_pass.get() && calls::is_installed()) else {
        return real();
    };
    let Some(start) = start.filter(|_| !stack.is_null()) else {
        return result_of(-libc::EINVAL as isize);
    };
    let asked = Asked {
        flags: flags as u32 as usize,
        stack: stack as usize,
        parent_tid,
        child_tid,
        tls,
        pidfd: parent_tid,
    };
    if !asked.is_process() && !asked.is_thread_to_us() {
        // Not in vain if it fails: what follows from it is only done with more care.
        control::note_threads(true);
        let child = real();
        if child > 0 {
            control::note_unrecorded();
        }
        return child;
    }
    if !asked.is_process() {
        return create(local, &asked, start, argument).map_or_else(real, result_of);
    }
    local.inputs.call_stack.set(stack_from);
    let result = fork(&asked, start, argument);
    local.inputs.call_stack.set(0);
    result_of(result)
}

/// As functions of libc's return it.
fn result_of(result: isize) -> c_int {
    if result >= 0 {
        return result as c_int;
    }
    // SAFETY: errno is the calling thread's.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}

impl Asked {
    /// Can it be made one of our threads? With a thread pointer of the program's we would not find ourselves, and at other scopes its accesses would have to be
    /// observed.
    fn is_thread_to_us(&self) -> bool {
        let is_allowed = self.flags & (THREAD | SIGHAND) != THREAD;
        is_allowed && !self.has(SET_TLS) && control::inputs_only() && !hosting::is_on()
    }
}

/// A child with memory of its own, which begins with a function on a stack.
fn fork(asked: &Asked, start: CloneStart, argument: *mut c_void) -> isize {
    let arguments = [asked.flags, 0, asked.parent_tid, asked.child_tid, asked.tls, 0];
    // SAFETY: the program's own call, but for what its child does below.
    let result = unsafe { calls::system_call(libc::SYS_clone, &arguments) };
    if result != 0 {
        return result;
    }
    clones::take_pointer(libc::SYS_clone, &arguments, result);
    // SAFETY: the program's function, on the stack that it gave for it.
    unsafe { run_on(asked.stack, start, argument, over) }
}

/// What a child begins with.
struct Begin {
    local: &'static Local,
    start: CloneStart,
    argument: *mut c_void,
    stack: usize,
}

/// Nothing, if it cannot be followed.
fn create(creator: &Local, asked: &Asked, start: CloneStart, argument: *mut c_void) -> Option<isize> {
    let index = begin_spawn(creator)?;
    calls::note_spawn(creator, index);
    let local = Local::prepare(index)?;
    local.birth.created.set(creator.point_after());
    local.birth.is_cloned.set(true);
    local.birth.is_process.set(!asked.has(THREAD));
    local.slot.parent.store(creator.index, Relaxed);
    creator.complete();
    let Some((begin, thread_pointer)) = prepare_memory(index) else {
        failure::die(
            b"cannot map memory for a thread that the program makes by clone",
            libc::ENOMEM,
        )
    };
    // SAFETY: memory of ours that nobody else uses yet.
    unsafe {
        begin.write(Begin {
            local,
            start,
            argument,
            stack: asked.stack,
        })
    };
    let name = policy::is_imposed().then(|| creator.answer_child_name());
    if let Some(error) = name.filter(|name| *name < 0) {
        return Some(error);
    }
    let flags = match name {
        Some(_) => AS_THREAD | asked.flags & CHILD_CLEAR_TID,
        None => asked.flags,
    };
    let blocked = handlers::block_all();
    local.birth.blocked.set(blocked);
    // Quietly: signals are blocked, faults as well.
    let result = turns::quietly(|| {
        if let Some(name) = name {
            let places = [(PARENT_SET_TID, asked.parent_tid), (CHILD_SET_TID, asked.child_tid)];
            for (_, place) in places.into_iter().filter(|(flag, _)| asked.has(*flag)) {
                clones::put(place, name as u32);
            }
        }
        let (parent_tid, child_tid) = (asked.parent_tid, asked.child_tid);
        // SAFETY: what the program asked for, with a beginning of ours, on memory that nobody else uses.
        unsafe {
            make(
                flags | SET_TLS,
                begin as usize,
                parent_tid,
                child_tid,
                thread_pointer,
                begin,
            )
        }
    });
    handlers::restore(blocked);
    let result = match name {
        Some(_) if result < 0 => failure::die(b"cannot make a thread, as the recorded process did", -result as i32),
        Some(name) => name,
        None => {
            creator.log_child_name(result);
            result
        }
    };
    if result > 0 {
        turns::created(index);
        turns::at_switch_point(what::SPAWN, 0);
    }
    Some(result)
}

impl Local {
    /// Recording: what the kernel calls a child, or why there is none.
    fn log_child_name(&self, name: isize) {
        let mut entry = self.input_entry(libc::SYS_gettid, name, 0);
        entry.time = 0;
        self.log_entry(entry, &[]);
        self.complete();
    }

    /// Replay: the same.
    fn answer_child_name(&self) -> isize {
        let name = self.next_call(libc::SYS_gettid).entry.result as isize;
        self.complete();
        name
    }
}

/// Room for what libc keeps at a thread pointer, if it does not say how much that is.
const THREAD_BYTES: usize = 2304;
/// Of a thread's part, so much at the beginning is a guard, and so much at the end is for its thread pointer's neighbourhood at most.
const GUARD_BYTES: u64 = 4096;
const POINTED_BYTES_MAX: u64 = HOSTED_THREADS.stride / 2;
/// Below the copied variables there is room for those of libraries that are loaded later.
const SURPLUS_BYTES: usize = 4096;

/// Memory for thread `index`: where its beginning is described, which is also the top of its first stack; and its thread pointer.
fn prepare_memory(index: u32) -> Option<(*mut Begin, u64)> {
    let start = HOSTED_THREADS.part(u64::from(index));
    let end = start + HOSTED_THREADS.stride;
    sys::map_at(start, HOSTED_THREADS.stride as usize, -1, 0, true).ok()?;
    sys::forbid(start, GUARD_BYTES as usize);
    let own: usize;
    // SAFETY: the psABI has a thread's pointer to itself there.
    unsafe { asm!("mov {}, fs:[0]", out(reg) own, options(nostack, readonly, preserves_flags)) };
    let first = first_variable(own);
    let behind = thread_bytes();
    // Variables may be aligned to a page.
    let pointer = (end as usize - behind - 4096) / 4096 * 4096 + own % 4096;
    if own - first + SURPLUS_BYTES + behind > POINTED_BYTES_MAX as usize - 8192 {
        return None;
    }
    // SAFETY: the calling thread's own variables, and what libc keeps behind its pointer; to memory of ours that has room for both.
    unsafe {
        core::ptr::copy_nonoverlapping(
            first as *const u8,
            (pointer - (own - first)) as *mut u8,
            own - first + behind,
        );
        (pointer as *mut usize).write(pointer);
    }
    let begin = (start + HOSTED_THREADS.stride - POINTED_BYTES_MAX - 4096) as *mut Begin;
    Some((begin, pointer as u64))
}

/// Where the calling thread's first variable is of those that are found by their distance from its pointer, which is `own`.
fn first_variable(own: usize) -> usize {
    const REACH: usize = POINTED_BYTES_MAX as usize;
    struct Search {
        own: usize,
        first: usize,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and what `first_variable` gave.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        let variables = info.dlpi_tls_data as usize;
        if variables < search.own && search.own - variables < REACH {
            search.first = search.first.min(variables);
        }
        0
    }
    let mut search = Search { own, first: own };
    // SAFETY: `look` is called for each object, with the search.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.first
}

/// How much libc keeps behind a thread's pointer: a number that it has for debuggers.
fn thread_bytes() -> usize {
    // SAFETY: a name; libc's number is there if it has the name.
    unsafe {
        let number = libc::dlsym(libc::RTLD_DEFAULT, c"_thread_db_sizeof_pthread".as_ptr()).cast::<u32>();
        number.as_ref().map_or(THREAD_BYTES, |number| *number as usize)
    }
}

/// The system call, whose child goes on in `begin_child`.
///
/// # Safety
/// As for `clone`, with a stack that nobody uses.
#[unsafe(naked)]
unsafe extern "C" fn make(
    flags: usize,
    stack: usize,
    parent_tid: usize,
    child_tid: usize,
    thread_pointer: u64,
    begin: *const Begin,
) -> isize {
    naked_asm!(
        // The two places are in rdx and rcx, the pointer in r8, the description in r9.
        "mov r10, rcx",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "je 2f",
        "ret",
        "2:",
        "xor ebp, ebp",
        "mov rdi, r9",
        "call {begin}",
        "ud2",
        clone = const libc::SYS_clone,
        begin = sym begin_child,
    )
}

/// The first that a child does that shares memory.
extern "C-unwind" fn begin_child(begin: *const Begin) -> ! {
    // SAFETY: its creator wrote it for this thread alone.
    let begin = unsafe { begin.read() };
    let Begin {
        local,
        start,
        argument,
        stack,
    } = begin;
    if policy::is_observed() {
        local.access.log.create();
    }
    Local::install(local);
    local.inputs.stack_top.set(stack);
    turns::arrive(local.index);
    handlers::restore(local.birth.blocked.get());
    match policy::is_imposed() {
        true => replay_start(local),
        false => local.record(Kind::Start, Op::None, 0, 0, 0, &[local.birth.created.get()]),
    }
    local.complete();
    local.arrive_alone();
    // SAFETY: the program's function, on the stack that it gave for it.
    unsafe { run_on(stack, start, argument, over) }
}

/// Calls `start` on another stack, and `over` with what it returns.
///
/// # Safety
/// There is such a stack, and nobody needs this one any more.
#[unsafe(naked)]
unsafe extern "C" fn run_on(
    stack: usize,
    start: CloneStart,
    argument: *mut c_void,
    over: extern "C-unwind" fn(c_int) -> !,
) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "and rsp, -16",
        "xor ebp, ebp",
        "push rcx",
        "push rcx",
        "mov rdi, rdx",
        "call rsi",
        "mov edi, eax",
        "call [rsp]",
        "ud2",
    )
}

/// A child's function has returned.
extern "C-unwind" fn over(status: c_int) -> ! {
    // SAFETY: ends the thread.
    unsafe { calls::system_call(libc::SYS_exit, &[status as usize, 0, 0, 0, 0, 0]) };
    failure::die(b"a thread did not end", 0)
}
