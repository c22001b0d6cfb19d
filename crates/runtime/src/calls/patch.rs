//! Replaces `syscall` instructions by jumps to trampolines, which call us.
use crate::calls::entry;
use crate::calls::instructions;
use crate::control;
use crate::debugger;
use crate::sys;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::JUMP_BYTES;
use runtime_abi::call_sites::LEA_BYTES;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;
use runtime_abi::call_sites::kind;

const PAGE: u64 = 4096;
/// A window's bytes without the `syscall`, the call of our entry, the jump back; and, in the last 8 bytes, where in the
/// window the call would have returned to.
const TRAMPOLINE_BYTES: usize = 64;
const RETURN_AT: usize = TRAMPOLINE_BYTES - 8;
const _: () = assert!(
    WINDOW_BYTES_MAX - 2 + (SET_BYTES - LEA_BYTES) + SKIP_RED_ZONE.len() + JUMP_BYTES + BACK.len() + FAR_JUMP_BYTES
        <= RETURN_AT
);
/// `mov` of 64 bits to a register.
const SET_BYTES: usize = 10;
/// How far from the code a trampoline can be, with room to spare.
pub const REACH: u64 = 1 << 30;
/// `jmp [rip]`, and the address behind it.
const FAR_JUMP_BYTES: usize = 14;
/// Pages for far jumps, one for each trampoline, are this far below the executable.
const STEP_BYTES: usize = 16;
const STEPS_BYTES: u64 = ((SITES_MAX * STEP_BYTES) as u64).next_multiple_of(PAGE);
const STEPS_BELOW: u64 = 1 << 20;
/// How many such pages there can be, and how often a place for them is looked for further below.
const STEPS_MAX: usize = 8;
const STEPS_TRIES: u64 = 64;
/// Objects that have been given trampolines.
const PLACED_MAX: usize = 256;

// Trampolines are in this library, so that unwinders and debuggers find out how to go on through them: at the call of our
// entry the stack pointer is 128 below that of the window, all other registers are the window's, and the return address is
// what the last 8 bytes of the trampoline say (DW_CFA_val_expression of rip: rip & -64, + 56, load).
global_asm!(
    ".section .text.refrain_trampolines, \"ax\", @progbits",
    ".p2align 12",
    ".hidden __refrain_trampolines",
    ".globl __refrain_trampolines",
    ".type __refrain_trampolines, @function",
    "__refrain_trampolines:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 128",
    ".cfi_escape 0x16, 0x10, 0x08, 0x80, 0x00, 0x09, 0xc0, 0x1a, 0x23, 0x38, 0x06",
    ".fill {bytes}, 1, 0xcc",
    ".cfi_endproc",
    ".size __refrain_trampolines, {bytes}",
    ".p2align 12",
    ".text",
    bytes = const SITES_MAX * TRAMPOLINE_BYTES,
);

unsafe extern "C" {
    static __refrain_trampolines: [u8; SITES_MAX * TRAMPOLINE_BYTES];
}

/// `lea rsp, [rsp - 128]`: the function around the call may keep data below its stack pointer.
const SKIP_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// `lea rsp, [rsp + 128]`
const BACK: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
/// `lea rcx, [rip + 5]`: what is behind the jump that follows.
const GOES_ON_BEHIND_JUMP: [u8; 7] = [0x48, 0x8d, 0x0d, JUMP_BYTES as u8, 0, 0, 0];
const BREAKPOINT: u8 = 0xcc;
pub const WRITABLE: c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
pub const RUNNABLE: c_int = libc::PROT_READ | libc::PROT_EXEC;

/// Which trampolines belong to whom.
#[derive(Clone, Copy)]
struct Placed {
    /// Where the object is, or was: one that is loaded there again gets them again.
    base: u64,
    entries: *const Entry,
    count: usize,
    first: usize,
}

struct Trampolines {
    placed: [Placed; PLACED_MAX],
    count: usize,
    used: usize,
    /// Where the far jumps are; 0: nowhere yet.
    steps: [u64; STEPS_MAX],
}

struct Shared(UnsafeCell<Trampolines>);

// SAFETY: used when there is one thread, and by `objects::look`, which the loader calls under its lock.
unsafe impl Sync for Shared {}

/// Used when there is one thread, and by `objects::look`, under the loader's lock.
static TRAMPOLINES: Shared = Shared(UnsafeCell::new(Trampolines {
    placed: [Placed {
        base: 0,
        entries: core::ptr::null(),
        count: 0,
        first: 0,
    }; PLACED_MAX],
    count: 0,
    used: 0,
    steps: [0; STEPS_MAX],
}));

/// Whose calls they are.
#[derive(Clone, Copy)]
pub enum Whose {
    Libc,
    Other,
    /// Of a program that we host (`host`): nothing is written to its stack.
    Guest(&'static GuestCode),
}

/// How the host has the code of its guest changed.
pub struct GuestCode {
    /// Where its calls go.
    pub enter: unsafe extern "C" fn(),
    /// Has threads that take turns stop before these instructions.
    pub stop_before: fn(&Loaded, &[Entry]),
}

/// Why an object's calls were not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its code is not what the entries were made for.
    OtherCode,
    /// There is no memory within reach of its code, or none left.
    NoRoom,
}

impl Refusal {
    pub fn sentence(self) -> &'static [u8] {
        match self {
            Refusal::OtherCode => b"the code around a recorded system call has changed",
            Refusal::NoRoom => b"there is no memory near a recorded system call for the jump that replaces it",
        }
    }
}

/// A loaded object.
#[derive(Clone, Copy)]
pub struct Loaded {
    pub base: u64,
    headers: *const libc::Elf64_Phdr,
    header_count: usize,
}

impl Loaded {
    /// # Safety
    /// `info` is the loader's description of an object that stays loaded for as long as this is used.
    pub unsafe fn new(info: &libc::dl_phdr_info) -> Loaded {
        Loaded {
            base: info.dlpi_addr,
            headers: info.dlpi_phdr,
            header_count: info.dlpi_phnum as usize,
        }
    }

    /// One that we have loaded ourselves.
    pub fn at(base: u64, headers: &'static [libc::Elf64_Phdr]) -> Loaded {
        Loaded {
            base,
            headers: headers.as_ptr(),
            header_count: headers.len(),
        }
    }

    pub fn headers(&self) -> &[libc::Elf64_Phdr] {
        // SAFETY: whoever made this promised to `new` that the headers stay where they are as long as it is used.
        unsafe { core::slice::from_raw_parts(self.headers, self.header_count) }
    }

    /// The part of the object that a header speaks of, if it is in memory as it is in the file.
    pub fn part(&self, header: &libc::Elf64_Phdr) -> &[u8] {
        // SAFETY: the object's own header says what is loaded where.
        unsafe { core::slice::from_raw_parts((self.base + header.p_vaddr) as *const u8, header.p_filesz as usize) }
    }

    /// The executable parts: addresses, in memory.
    pub fn code(&self) -> impl Iterator<Item = (u64, u64)> {
        let headers = self.headers().iter();
        let code = headers.filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
        code.map(|header| {
            let start = self.base + header.p_vaddr;
            (start, start + header.p_filesz)
        })
    }

    /// Is the address in one of its parts?
    pub fn holds(&self, address: u64) -> bool {
        let mut loads = self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD);
        loads.any(|header| {
            let start = self.base + header.p_vaddr;
            (start..start + header.p_memsz).contains(&address)
        })
    }

    /// Where its lowest part begins.
    pub fn start(&self) -> u64 {
        let loads = self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD);
        self.base + loads.map(|header| header.p_vaddr).min().unwrap_or(0)
    }

    /// Replaces all of the calls, or none: half of an object intercepted would be worse.
    ///
    /// # Safety
    /// Nobody runs the object's code, nor loads or replaces another, at this time.
    pub unsafe fn replace_calls(&self, entries: &'static [Entry], whose: Whose) -> Result<(), Refusal> {
        let (entries, locked) = entries.split_at(entries.partition_point(|entry| entry.kind != kind::LOCKED));
        // Compiled code says by itself what it asks the processor.
        let replaced = match control::inputs_only() {
            true => entries.len(),
            false => entries.partition_point(|entry| entry.kind == kind::CALL),
        };
        let entries = &entries[..replaced];
        if let Whose::Guest(code) = whose {
            (code.stop_before)(self, locked);
        }
        if !entries.iter().all(|entry| self.is_as_expected(entry)) {
            return Err(Refusal::OtherCode);
        }
        // SAFETY: the caller promises that nobody runs the object's code, nor loads or replaces another, at this time.
        let trampolines = unsafe { &mut *TRAMPOLINES.0.get() };
        let first = trampolines.place(self.base, entries).ok_or(Refusal::NoRoom)?;
        let near = &raw const __refrain_trampolines as u64;
        let is_near = self
            .code()
            .all(|(start, end)| near.abs_diff(start) < REACH && near.abs_diff(end) < REACH);
        let steps = match is_near {
            true => None,
            false => Some(trampolines.steps_for(self).ok_or(Refusal::NoRoom)?),
        };
        let used = Pages::around(
            near + (first * TRAMPOLINE_BYTES) as u64,
            near + ((first + entries.len()) * TRAMPOLINE_BYTES) as u64,
        );
        let writable = used.protect(WRITABLE)
            && steps.is_none_or(|steps| Pages::around(steps, steps + STEPS_BYTES).protect(WRITABLE))
            && self
                .code()
                .all(|(start, end)| Pages::around(start, end).protect(WRITABLE));
        if writable {
            for (i, entry) in (first..).zip(entries) {
                let trampoline = near + (i * TRAMPOLINE_BYTES) as u64;
                let step = steps.map(|steps| steps + (i * STEP_BYTES) as u64);
                // SAFETY: the caller promises that nobody runs the object's code, nor loads or replaces another, at
                // this time; all three are writable now.
                unsafe { self.replace(entry, trampoline, step, whose) };
            }
            if !matches!(whose, Whose::Guest(_)) {
                note_replaced(self.base, entries, first);
            }
        }
        self.code()
            .for_each(|(start, end)| _ = Pages::around(start, end).protect(RUNNABLE));
        used.protect(RUNNABLE);
        if let Some(steps) = steps {
            Pages::around(steps, steps + STEPS_BYTES).protect(RUNNABLE);
        }
        if writable { Ok(()) } else { Err(Refusal::NoRoom) }
    }

    pub fn is_as_expected(&self, entry: &Entry) -> bool {
        let (length, at) = (entry.length as usize, self.base.wrapping_add(entry.address));
        if !(JUMP_BYTES..=WINDOW_BYTES_MAX).contains(&length)
            || entry.syscall_at as usize + replaced_bytes(entry) > length
        {
            return false;
        }
        if !self.code().any(|(start, end)| start <= at && at + length as u64 <= end) {
            return false;
        }
        // SAFETY: inside the object's code, as just checked.
        let found = unsafe { core::slice::from_raw_parts(at as *const u8, length) };
        debugger::is_same_code(found, &entry.bytes[..length])
    }

    /// `step`: where the far jump to the trampoline is to be, if the trampoline is out of reach.
    ///
    /// # Safety
    /// All three can be written, and nobody runs them.
    unsafe fn replace(&self, entry: &Entry, trampoline: u64, step: Option<u64>, whose: Whose) {
        let site = self.base + entry.address;
        let (length, syscall_at) = (entry.length as usize, entry.syscall_at as usize);
        let target = match whose {
            _ if entry.kind == kind::INSTRUCTION => instructions::enter_for(&entry.bytes[syscall_at..]),
            Whose::Libc => entry::enter as *const () as u64,
            Whose::Other => entry::enter_from_elsewhere as *const () as u64,
            Whose::Guest(code) => code.enter as *const () as u64,
        };
        let mut code = Code {
            bytes: [BREAKPOINT; TRAMPOLINE_BYTES],
            length: 0,
        };
        put_part(&mut code, entry, 0..syscall_at, site);
        if matches!(whose, Whose::Guest(_)) {
            code.put(&GOES_ON_BEHIND_JUMP);
            code.put(&near(JUMP, trampoline + code.length as u64, target));
        } else {
            code.put(&SKIP_RED_ZONE);
            code.put(&near(CALL, trampoline + code.length as u64, target));
            code.put(&BACK);
        }
        put_part(&mut code, entry, syscall_at + replaced_bytes(entry)..length, site);
        match step {
            None => code.put(&near(JUMP, trampoline + code.length as u64, site + length as u64)),
            Some(_) => code.put(&far_jump(site + length as u64)),
        }
        let returns_to = site + (syscall_at + replaced_bytes(entry)) as u64;
        code.bytes[RETURN_AT..].copy_from_slice(&returns_to.to_le_bytes());
        let mut window = [BREAKPOINT; WINDOW_BYTES_MAX];
        window[..JUMP_BYTES].copy_from_slice(&near(JUMP, site, step.unwrap_or(trampoline)));
        // SAFETY: the caller promises that all three can be written, and nobody runs them; the window was compared with
        // the entry, which has this length.
        unsafe {
            core::ptr::copy_nonoverlapping(code.bytes.as_ptr(), trampoline as *mut u8, TRAMPOLINE_BYTES);
            if let Some(step) = step {
                core::ptr::copy_nonoverlapping(far_jump(trampoline).as_ptr(), step as *mut u8, FAR_JUMP_BYTES);
            }
            debugger::write_code(site, &window[..length]);
        }
    }
}

impl Trampolines {
    /// The first of as many trampolines as there are entries.
    fn place(&mut self, base: u64, entries: &'static [Entry]) -> Option<usize> {
        let same =
            |placed: &&Placed| (placed.base, placed.entries, placed.count) == (base, entries.as_ptr(), entries.len());
        if let Some(placed) = self.placed[..self.count].iter().find(same) {
            return Some(placed.first);
        }
        let first = self.used;
        if self.count == PLACED_MAX || first + entries.len() > SITES_MAX {
            return None;
        }
        self.placed[self.count] = Placed {
            base,
            entries: entries.as_ptr(),
            count: entries.len(),
            first,
        };
        self.count += 1;
        self.used += entries.len();
        Some(first)
    }

    /// Memory for far jumps that the object can reach: below it, where neither its heap nor anything else comes to lie.
    fn steps_for(&mut self, object: &Loaded) -> Option<u64> {
        let is_near = |steps: &u64| {
            let reaches = |address: u64| steps.abs_diff(address) < REACH;
            object.code().all(|(start, end)| reaches(start) && reaches(end))
        };
        let known = self.steps.iter().copied().filter(|steps| *steps != 0).find(is_near);
        if known.is_some() {
            return known;
        }
        let place = self.steps.iter_mut().find(|steps| **steps == 0)?;
        let below = |times: u64| Some(object.start().checked_sub(times * STEPS_BELOW + STEPS_BYTES)? / PAGE * PAGE);
        let is_free = |steps: &u64| sys::map_at(*steps, STEPS_BYTES as usize, -1, 0, false).is_ok();
        *place = (1..=STEPS_TRIES).filter_map(below).filter(is_near).find(is_free)?;
        Some(*place)
    }
}

/// If there is a trampoline at this address: where in the window the call would have returned to.
pub fn returns_to(address: u64) -> Option<u64> {
    let trampolines = &raw const __refrain_trampolines as u64;
    let offset = address.checked_sub(trampolines)? as usize;
    let last = offset / TRAMPOLINE_BYTES * TRAMPOLINE_BYTES + RETURN_AT;
    (offset < SITES_MAX * TRAMPOLINE_BYTES).then(|| {
        // SAFETY: inside of the trampolines.
        unsafe { ((trampolines + last as u64) as *const u64).read() }
    })
}

/// An object whose calls have been replaced, for whoever looks for one of its windows.
struct Replaced {
    base: AtomicU64,
    entries: AtomicPtr<Entry>,
    count: AtomicUsize,
    /// The number of its first trampoline.
    first: AtomicUsize,
}

/// As many as have been replaced, in the order in which they were.
static REPLACED: [Replaced; PLACED_MAX] = [const {
    Replaced {
        base: AtomicU64::new(0),
        entries: AtomicPtr::new(core::ptr::null_mut()),
        count: AtomicUsize::new(0),
        first: AtomicUsize::new(0),
    }
}; PLACED_MAX];
static REPLACED_COUNT: AtomicUsize = AtomicUsize::new(0);

fn note_replaced(base: u64, entries: &'static [Entry], first: usize) {
    let count = REPLACED_COUNT.load(Relaxed);
    if let Some(place) = REPLACED.get(count) {
        place.base.store(base, Relaxed);
        place.entries.store(entries.as_ptr().cast_mut(), Relaxed);
        place.count.store(entries.len(), Relaxed);
        place.first.store(first, Relaxed);
        // Release: pairs with the Acquire in `goes_on_at`.
        REPLACED_COUNT.store(count + 1, Release);
    }
}

/// Where the instruction is that was at this address: in a trampoline, if it has given way to a jump.
pub fn goes_on_at(address: u64) -> u64 {
    // Acquire: pairs with the Release in `note_replaced`.
    let count = REPLACED_COUNT.load(Acquire).min(PLACED_MAX);
    for object in &REPLACED[..count] {
        let base = object.base.load(Relaxed);
        // SAFETY: a part of the table in the control memory, which is mapped for good and not written any more where it has entries.
        let entries = unsafe { core::slice::from_raw_parts(object.entries.load(Relaxed), object.count.load(Relaxed)) };
        let is_inside =
            |entry: &Entry| (1..u64::from(entry.length)).contains(&address.wrapping_sub(base + entry.address));
        if let Some(at) = entries.iter().position(is_inside) {
            let offset = (address - base - entries[at].address) as usize;
            let trampoline =
                &raw const __refrain_trampolines as usize + (object.first.load(Relaxed) + at) * TRAMPOLINE_BYTES;
            return (trampoline + moved(&entries[at], offset)) as u64;
        }
    }
    address
}

/// How long the instruction is that a call of ours stands for.
fn replaced_bytes(entry: &Entry) -> usize {
    match entry.bytes.get(entry.syscall_at as usize + 1) {
        // `rdtscp` has a third byte.
        Some(0x01) => 3,
        _ => 2,
    }
}

/// Where in its trampoline an instruction of a window is.
fn moved(entry: &Entry, offset: usize) -> usize {
    let lea = (entry.address_at as usize).wrapping_sub(1);
    let longer = if lea < offset { SET_BYTES - LEA_BYTES } else { 0 };
    match offset.checked_sub(entry.syscall_at as usize + replaced_bytes(entry)) {
        None => offset + longer,
        Some(behind) => {
            let (call, start) = (SKIP_RED_ZONE.len() + JUMP_BYTES + BACK.len(), entry.syscall_at as usize);
            start + longer + call + behind
        }
    }
}

struct Code {
    bytes: [u8; TRAMPOLINE_BYTES],
    length: usize,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

/// Puts some of a window's instructions, which all mean the same elsewhere, except the `lea` that `address_at` says.
fn put_part(code: &mut Code, entry: &Entry, part: Range<usize>, site: u64) {
    let lea = (entry.address_at as usize).wrapping_sub(1);
    if !part.contains(&lea) || lea + LEA_BYTES > part.end {
        code.put(&entry.bytes[part]);
        return;
    }
    code.put(&entry.bytes[part.start..lea]);
    let [prefix, _, register, distance @ ..] = &entry.bytes[lea..lea + LEA_BYTES] else {
        unreachable!()
    };
    let distance = i32::from_le_bytes([distance[0], distance[1], distance[2], distance[3]]);
    let address = (site + (lea + LEA_BYTES) as u64).wrapping_add_signed(distance as i64);
    // The register's number is in bits 3 to 5 of the third byte, and in bit 2 of the prefix; in a `mov` of 64 bits to a
    // register it is in the lowest bits of opcode and prefix.
    let is_high = prefix >> 2 & 1;
    code.put(&[0x48 | is_high, 0xb8 | (register >> 3 & 7)]);
    code.put(&address.to_le_bytes());
    code.put(&entry.bytes[lea + LEA_BYTES..part.end]);
}

pub const JUMP: u8 = 0xe9;
const CALL: u8 = 0xe8;

/// A jump or call; the caller has made sure that the two are within reach.
pub fn near(what: u8, from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let displacement = to.wrapping_sub(from + JUMP_BYTES as u64) as i32;
    let mut code = [what, 0, 0, 0, 0];
    code[1..].copy_from_slice(&displacement.to_le_bytes());
    code
}

fn far_jump(to: u64) -> [u8; FAR_JUMP_BYTES] {
    let mut code = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    code[6..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Makes the function at `address` jump to `target`, if it does nothing but return, and what follows it is filling.
///
/// # Safety
/// Nobody runs the function at this time.
pub unsafe fn replace_empty_function(address: u64, target: u64) -> bool {
    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const RET: u8 = 0xc3;
    // SAFETY: a function, and at least as many bytes after it as functions are aligned to.
    let bytes = unsafe { &*(address as *const [u8; 16]) };
    let body = match debugger::is_same_code(&bytes[..ENDBR.len()], &ENDBR) {
        true => &bytes[ENDBR.len()..],
        false => bytes,
    };
    let is_empty = debugger::is_same_code(&body[..1], &[RET])
        && body[1..JUMP_BYTES.min(body.len())]
            .iter()
            .all(|byte| FILLING.contains(byte));
    let is_aligned = address.is_multiple_of(16) && matches!(body[1], 0x66 | 0x0f | 0x90 | BREAKPOINT);
    let pages = Pages::around(address, address + JUMP_BYTES as u64);
    if !is_empty || !is_aligned || address.abs_diff(target) > REACH || !pages.protect(WRITABLE) {
        return false;
    }
    // SAFETY: writable now; the caller promises that nobody runs the function at this time.
    unsafe { debugger::write_code(address, &near(JUMP, address, target)) };
    pages.protect(RUNNABLE)
}

/// Bytes of the instructions without effect that assemblers fill up with.
const FILLING: [u8; 10] = [0x66, 0x2e, 0x0f, 0x1f, 0x40, 0x44, 0x80, 0x84, 0x00, 0x90];

#[derive(Clone, Copy)]
pub struct Pages {
    start: u64,
    end: u64,
}

impl Pages {
    pub fn around(start: u64, end: u64) -> Pages {
        Pages {
            start: start / PAGE * PAGE,
            end: end.next_multiple_of(PAGE),
        }
    }

    pub fn protect(self, protection: c_int) -> bool {
        let bytes = (self.end - self.start) as usize;
        // SAFETY: changes the protection of code that is being replaced, of our trampolines and of our steps, to what each
        // use of them needs.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mprotect,
                [self.start as usize, bytes, protection as usize, 0, 0, 0],
            )
        };
        got == 0
    }
}
