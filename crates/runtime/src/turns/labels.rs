//! Which code of the program came to a switch point, and which code is ours.
//!
//! A label is the nearest return address on the stack that lies neither in this library nor in libc. It is found by looking at
//! the words of the stack one by one, so it may be one that a call left behind which is over; two replays that do the same have the
//! same labels all the same.
use core::arch::asm;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

const OBJECTS_MAX: usize = 64;
const WORDS_MAX: usize = 1024;
/// A stack that seems larger is another one.
const STACK_BYTES_MAX: usize = 1 << 30;
/// Longer than any instruction that calls, counted from its end.
const CALL_BYTES: u64 = 7;

struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

impl Range {
    const fn new() -> Range {
        Range {
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
        }
    }

    fn set(&self, start: u64, end: u64) {
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    fn contains(&self, address: u64) -> bool {
        (self.start.load(Relaxed)..self.end.load(Relaxed)).contains(&address)
    }
}

/// Our own code.
static OURS: Range = Range::new();
/// The loader's.
static LOADERS: Range = Range::new();
/// Code of the program and its libraries, without libc's and the loader's.
static OTHERS: [Range; OBJECTS_MAX] = [const { Range::new() }; OBJECTS_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// From the lowest of them to the highest.
static ALL: Range = Range::new();

/// Once for each process, when the loader is done.
pub fn find_objects() {
    COUNT.store(0, Relaxed);
    ALL.set(u64::MAX, 0);
    // SAFETY: `visit` has the signature the loader expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::null_mut()) };
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: asks for a number.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) };
    // SAFETY: the loader passes a valid description of an object.
    let (base, headers) = unsafe {
        let info = &*info;
        (
            info.dlpi_addr,
            core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize),
        )
    };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_X == 0 {
            continue;
        }
        let (start, end) = (base + header.p_vaddr, base + header.p_vaddr + header.p_memsz);
        let holds = |address: u64| (start..end).contains(&address);
        if holds(visit as *const () as u64) {
            OURS.set(start, end);
        } else if base == loader {
            LOADERS.set(start, end);
        } else if !holds(libc::getpid as *const () as u64) {
            let count = COUNT.load(Relaxed);
            if let Some(range) = OTHERS.get(count) {
                range.set(start, end);
                ALL.set(ALL.start.load(Relaxed).min(start), ALL.end.load(Relaxed).max(end));
                COUNT.store(count + 1, Relaxed);
            }
        }
    }
    0
}

pub fn is_ours(address: u64) -> bool {
    OURS.contains(address)
}

/// Is it code that resolves names, whenever it likes to?
pub fn is_the_loaders(address: u64) -> bool {
    LOADERS.contains(address)
}

pub fn is_the_programs(address: u64) -> bool {
    ALL.contains(address) && is_in_some(address)
}

#[inline(never)]
fn is_in_some(address: u64) -> bool {
    OTHERS[..COUNT.load(Relaxed)]
        .iter()
        .any(|range| range.contains(address))
}

/// The nearest code of the program above this function; 0: none is found.
pub fn of_caller() -> u64 {
    let (stack, thread): (usize, usize);
    // SAFETY: reads two registers; libc keeps the address of what it knows of a thread there, above the thread's stack.
    unsafe {
        asm!("mov {0}, rsp", "mov {1}, qword ptr fs:[0x10]", out(reg) stack, out(reg) thread, options(nostack, readonly));
    }
    // SAFETY: asks for a number: where the kernel put the program's name, above everything else on the main thread's stack.
    let top = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    let is_above = |end: &&usize| **end > stack && **end - stack < STACK_BYTES_MAX;
    let Some(end) = [thread, top].iter().find(is_above).copied() else {
        return 0;
    };
    let words = ((end - stack) / size_of::<u64>()).min(WORDS_MAX);
    // SAFETY: the used part of this thread's stack, or of the main thread's with what the kernel put above it.
    let words = unsafe { core::slice::from_raw_parts(stack as *const u64, words) };
    let found = words.iter().find(|word| is_return_address(**word));
    found.copied().unwrap_or(0)
}

/// Is it one of the program's, or of its libraries', which were there from the beginning and stay?
#[inline]
pub fn is_return_address(word: u64) -> bool {
    is_the_programs(word) && follows_call(word)
}

/// Is the instruction before `address`, which is in code, a call?
fn follows_call(address: u64) -> bool {
    if !is_the_programs(address - CALL_BYTES) {
        return false;
    }
    // SAFETY: in the same code.
    let byte = |back: u64| unsafe { ((address - back) as *const u8).read() };
    // Relative; or through a register or memory, `ff /2`, in 2, 3, 6 or 7 bytes.
    byte(5) == 0xe8
        || [2, 3, 6, 7]
            .iter()
            .any(|back| byte(*back) == 0xff && byte(*back - 1) >> 3 & 7 == 2)
}
