//! Replaces libc's `syscall` instructions by jumps, at the places the tool has found.
use crate::calls::entry;
use crate::sys;
use core::arch::global_asm;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use libc::dl_phdr_info;
use runtime_abi::CALL_SITES_OFFSET;
use runtime_abi::CONTROL_ADDRESS;
use runtime_abi::call_sites::BUILD_ID_BYTES;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::JUMP_BYTES;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::Table;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;

const PAGE: u64 = 4096;
/// A window's bytes without the `syscall`, the call of our entry, the jump back; and, in the last 8 bytes, where in the
/// window the call would have returned to.
const TRAMPOLINE_BYTES: usize = 64;
const RETURN_AT: usize = TRAMPOLINE_BYTES - 8;
const _: () = assert!(WINDOW_BYTES_MAX + SKIP_RED_ZONE.len() + 13 + BACK.len() + JUMP_BYTES <= RETURN_AT);
/// How far from the code a trampoline can be, with room to spare.
const REACH: u64 = 1 << 30;

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
const BREAKPOINT: u8 = 0xcc;
const WRITABLE: c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Are inputs recorded, or replayed?
pub fn is_installed() -> bool {
    // Relaxed: written once, before there is a second thread.
    INSTALLED.load(Relaxed)
}

/// Finds libc and replaces its calls. Once, before there is a second thread.
pub fn install() {
    INSTALLED.store(try_install(), Relaxed);
}

/// False: nothing was replaced.
fn try_install() -> bool {
    // SAFETY: the control file is mapped, whole, for good; the tool wrote the table before the process began.
    let table = unsafe { &*((CONTROL_ADDRESS as usize + CALL_SITES_OFFSET) as *const Table) };
    let count = (table.count as usize).min(SITES_MAX);
    if count == 0 {
        return false;
    }
    let mut wanted = Wanted {
        build_id: &table.build_id,
        found: None,
    };
    // SAFETY: the callback gets what it expects: a description of each object, and `wanted`.
    unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut wanted).cast()) };
    let Some(object) = wanted.found else { return false };
    object.patch(&table.entries[..count])
}

struct Wanted<'a> {
    build_id: &'a [u8; BUILD_ID_BYTES],
    found: Option<Loaded>,
}

/// A loaded object and its executable part.
struct Loaded {
    base: u64,
    text: u64,
    text_bytes: u64,
}

unsafe extern "C" fn look_at(info: *mut dl_phdr_info, _size: usize, wanted: *mut c_void) -> c_int {
    // SAFETY: the loader's promise, and ours to ourselves.
    let (info, wanted) = unsafe { (&*info, &mut *wanted.cast::<Wanted<'_>>()) };
    // SAFETY: the loader's promise.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    let has_id = notes.into_iter().any(|header| {
        let at = (info.dlpi_addr + header.p_vaddr) as *const u8;
        // SAFETY: notes are in a loaded segment, readable for as long as the object is loaded.
        let notes = unsafe { core::slice::from_raw_parts(at, header.p_memsz as usize) };
        build_id_in(notes) == Some(wanted.build_id)
    });
    let code = headers
        .iter()
        .find(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
    match code {
        Some(code) if has_id => {
            wanted.found = Some(Loaded {
                base: info.dlpi_addr,
                text: info.dlpi_addr + code.p_vaddr,
                text_bytes: code.p_memsz,
            });
            1
        }
        _ => 0,
    }
}

/// The build-id among an object's notes: (name length, description length, type, name, description), 4-aligned.
fn build_id_in(mut notes: &[u8]) -> Option<&[u8; BUILD_ID_BYTES]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let number = |notes: &[u8], at: usize| {
        let bytes = notes.get(at..at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    loop {
        let (name, description, kind) = (number(notes, 0)?, number(notes, 4)?, number(notes, 8)?);
        let start = 12 + (name as usize).next_multiple_of(4);
        let end = start + description as usize;
        if kind == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return notes.get(start..end)?.try_into().ok();
        }
        notes = notes.get(end.next_multiple_of(4)..)?;
    }
}

impl Loaded {
    fn patch(&self, entries: &[Entry]) -> bool {
        // All or nothing: half of libc intercepted would be worse than none.
        if !entries.iter().all(|entry| self.is_as_expected(entry)) {
            return false;
        }
        let bytes = (entries.len() * TRAMPOLINE_BYTES).next_multiple_of(PAGE as usize);
        let trampolines = &raw const __refrain_trampolines as u64;
        if trampolines.abs_diff(self.text) > REACH || !protect(trampolines, bytes as u64, WRITABLE) {
            return false;
        }
        let start = self.text / PAGE * PAGE;
        let length = (self.text + self.text_bytes).next_multiple_of(PAGE) - start;
        if !protect(start, length, WRITABLE) {
            return false;
        }
        for (i, entry) in entries.iter().enumerate() {
            self.replace(entry, trampolines + (i * TRAMPOLINE_BYTES) as u64);
        }
        protect(start, length, libc::PROT_READ | libc::PROT_EXEC);
        protect(trampolines, bytes as u64, libc::PROT_READ | libc::PROT_EXEC);
        true
    }

    fn is_as_expected(&self, entry: &Entry) -> bool {
        let (length, at) = (entry.length as usize, self.base + entry.address);
        if !(JUMP_BYTES..=WINDOW_BYTES_MAX).contains(&length) || entry.syscall_at as usize + 2 > length {
            return false;
        }
        if at < self.text || at + length as u64 > self.text + self.text_bytes {
            return false;
        }
        // SAFETY: inside the object's code, as just checked.
        let found = unsafe { core::slice::from_raw_parts(at as *const u8, length) };
        found == &entry.bytes[..length]
    }

    fn replace(&self, entry: &Entry, trampoline: u64) {
        let site = self.base + entry.address;
        let (length, syscall_at) = (entry.length as usize, entry.syscall_at as usize);
        let mut code = Code {
            bytes: [BREAKPOINT; TRAMPOLINE_BYTES],
            length: 0,
        };
        code.put(&entry.bytes[..syscall_at]);
        code.put(&SKIP_RED_ZONE);
        // mov r11, entry; call r11. The kernel clobbers r11, so the program has nothing in it here.
        code.put(&[0x49, 0xbb]);
        code.put(&(entry::enter as *const () as u64).to_le_bytes());
        code.put(&[0x41, 0xff, 0xd3]);
        code.put(&BACK);
        code.put(&entry.bytes[syscall_at + 2..length]);
        let back = jump(trampoline + code.length as u64, site + length as u64);
        code.put(&back);
        let returns_to = site + syscall_at as u64 + 2;
        code.bytes[RETURN_AT..].copy_from_slice(&returns_to.to_le_bytes());
        let mut window = [BREAKPOINT; WINDOW_BYTES_MAX];
        window[..JUMP_BYTES].copy_from_slice(&jump(site, trampoline));
        // SAFETY: the trampoline is code of ours, the window of libc's; `patch` made both writable, and there is no other
        // thread that could be running them.
        unsafe {
            core::ptr::copy_nonoverlapping(code.bytes.as_ptr(), trampoline as *mut u8, TRAMPOLINE_BYTES);
            core::ptr::copy_nonoverlapping(window.as_ptr(), site as *mut u8, length);
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

/// A near jump; `patch` has made sure that the two are within reach.
fn jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let displacement = to.wrapping_sub(from + JUMP_BYTES as u64) as i32;
    let mut code = [0xe9, 0, 0, 0, 0];
    code[1..].copy_from_slice(&displacement.to_le_bytes());
    code
}

fn protect(address: u64, bytes: u64, protection: c_int) -> bool {
    // SAFETY: changes the protection of libc's code and of our trampolines only, to what each use of them needs.
    let got = unsafe {
        sys::syscall(
            libc::SYS_mprotect,
            [address as usize, bytes as usize, protection as usize, 0, 0, 0],
        )
    };
    got == 0
}
