//! Filters of system calls (`seccomp`) that the program installs: they are to hold for its own calls, and not for ours.
//!
//! The program's calls are made by four instructions, which are used for nothing else (`entry`, `sys`); all others of this library are ours. A filter
//! is told where the instruction is, so the kernel gets the program's filter with a few instructions before it, which let ours through. The strict
//! mode, which has no filter, becomes one.
//!
//! A call that a filter traps (SIGSYS) has not been made: it has the result `sys::TRAPPED`, here and in the log, and its number for the program, as
//! without us; the handler of SIGSYS, which is like that of any signal that comes when a call has returned, may say otherwise (`contexts.rs`).
use crate::calls::entry;
use crate::calls::patch::Loaded;
use crate::hosting;
use crate::sys;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// `seccomp_data`: the number, and the address behind the instruction in two halves.
const INSTRUCTION_LOW: u32 = 8;
const INSTRUCTION_HIGH: u32 = 12;
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_CONSTANT: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_IMM) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_NOT_BELOW: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const PROGRAMS: usize = entry::PROGRAMS_CALLS;
/// Two looks at the address, three comparisons, one for each instruction that makes calls of the program's, the permission, and a clean beginning for what
/// follows.
const OURS: usize = 2 + 3 + PROGRAMS + 2;
const LENGTH_MAX: usize = libc::BPF_MAXINSNS as usize;

fn instruction(code: u16, if_true: usize, if_false: usize, constant: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: if_true as u8,
        jf: if_false as u8,
        k: constant,
    }
}

/// What the program's filter begins with. `None`: our code is in an unusual place.
fn beginning() -> Option<[libc::sock_filter; OURS]> {
    let (start, end) = own_code();
    let is_near = start != 0 && start >> 32 == end >> 32;
    let low = |address: u64| address as u32;
    // The distance from the instruction at `at` to where the program's filter begins.
    let to_programs = |at: usize| OURS - 2 - at;
    let mut all = [instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW); OURS];
    all[0] = instruction(LOAD, 0, 0, INSTRUCTION_HIGH);
    all[1] = instruction(IF_EQUAL, 0, to_programs(1), (start >> 32) as u32);
    all[2] = instruction(LOAD, 0, 0, INSTRUCTION_LOW);
    all[3] = instruction(IF_NOT_BELOW, 0, to_programs(3), low(start));
    all[4] = instruction(IF_NOT_BELOW, to_programs(4), 0, low(end));
    for (at, call) in (5..).zip(entry::programs_calls()) {
        all[at] = instruction(IF_EQUAL, to_programs(at), 0, low(call));
    }
    // Filters begin with a zero.
    all[OURS - 1] = instruction(LOAD_CONSTANT, 0, 0, 0);
    is_near.then_some(all)
}

/// From where to where this library has code.
fn own_code() -> (u64, u64) {
    static START: AtomicU64 = AtomicU64::new(0);
    static END: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description that is valid during this call, and we are not closed.
        let object = unsafe { Loaded::new(&*info) };
        let here = own_code as *const () as u64;
        let Some((start, end)) = object.code().find(|(start, end)| (*start..*end).contains(&here)) else {
            return 0;
        };
        START.store(start, Relaxed);
        END.store(end, Relaxed);
        1
    }
    if END.load(Relaxed) == 0 {
        // SAFETY: `visit` gets what it expects.
        unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::null_mut()) };
    }
    (START.load(Relaxed), END.load(Relaxed))
}

/// If this call installs a filter: installs it so that it holds for the program alone, and returns the result.
///
/// # Safety
/// As the system call demands of its arguments.
pub unsafe fn install(number: c_long, arguments: &[usize; 6]) -> Option<isize> {
    let place = match number {
        libc::SYS_seccomp if arguments[0] == libc::SECCOMP_SET_MODE_FILTER as usize => 2,
        libc::SYS_prctl
            if arguments[0] == libc::PR_SET_SECCOMP as usize && arguments[1] == libc::SECCOMP_MODE_FILTER as usize =>
        {
            2
        }
        _ => return None,
    };
    let given = arguments[place];
    if given == 0 || !sys::is_readable(given, size_of::<libc::sock_fprog>()) {
        return None;
    }
    // SAFETY: it can be read, and the program says that it is one.
    let program = unsafe { (given as *const libc::sock_fprog).read_unaligned() };
    let length = program.len as usize;
    let bytes = length * size_of::<libc::sock_filter>();
    if length == 0 || length > LENGTH_MAX - OURS || !sys::is_readable(program.filter as usize, bytes) {
        return None;
    }
    let beginning = beginning().filter(|_| !hosting::is_on())?;
    let room_bytes = LENGTH_MAX * size_of::<libc::sock_filter>();
    let room = sys::map_anywhere(room_bytes);
    if room == 0 {
        return None;
    }
    let whole = room as *mut libc::sock_filter;
    let changed = libc::sock_fprog {
        len: (OURS + length) as u16,
        filter: whole,
    };
    let mut with_ours = *arguments;
    with_ours[place] = &raw const changed as usize;
    // SAFETY: new memory with room for both, the second of which can be read; the caller promises what the call demands of its other arguments. The kernel
    // copies the filter.
    unsafe {
        core::ptr::copy_nonoverlapping(beginning.as_ptr(), whole, OURS);
        core::ptr::copy_nonoverlapping(program.filter, whole.add(OURS), length);
        let result = sys::programs_syscall(number, with_ours);
        sys::unmap(room, room_bytes);
        Some(result)
    }
}

/// In a handler of ours: has a filter trapped a call that the program makes by us? Then it has been made, with a result that says so.
pub fn is_trapped_call(info: &libc::siginfo_t, context: &mut libc::ucontext_t) -> bool {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as u64;
    let is_trapped = is_by_filter(info) && entry::programs_calls().contains(&at);
    if is_trapped {
        registers[libc::REG_RAX as usize] = sys::TRAPPED as i64;
    }
    is_trapped
}

/// Has a filter sent this signal?
pub fn is_by_filter(info: &libc::siginfo_t) -> bool {
    const SYS_SECCOMP: c_int = 1;
    info.si_signo == libc::SIGSYS && info.si_code == SYS_SECCOMP
}

/// The siginfo of a trapped call has the address of the program's instruction.
pub fn tell_address(info: &mut libc::siginfo_t, address: u64) {
    const ADDRESS_AT: usize = 16;
    if is_by_filter(info) {
        // SAFETY: a signal of this kind has an address there, behind four numbers.
        unsafe {
            (info as *mut libc::siginfo_t)
                .byte_add(ADDRESS_AT)
                .cast::<u64>()
                .write(address)
        };
    }
}

/// What a program finds in the result of its call `number`.
pub fn result_of(number: c_long, result: isize) -> isize {
    match result {
        sys::TRAPPED => number as isize,
        result => result,
    }
}
