//! Replay of several threads: the instructions of a guest's that lock memory are switch points, since that is what it makes its locks of.
//! Each gives way to a jump to a trampoline, which calls us and then does what stood there.
use crate::calls::patch;
use crate::calls::patch::Loaded;
use crate::calls::patch::Pages;
use crate::control;
use crate::debugger;
use crate::host::block::Block;
use crate::host::entry::Frame;
use crate::host::entry::each_register;
use crate::sys;
use crate::turns;
use core::arch::naked_asm;
use core::mem::offset_of;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::JUMP_BYTES;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;
use runtime_abi::turns_file::what;

const PAGE: u64 = 4096;
const TRAMPOLINE_BYTES: usize = 64;
/// `mov gs:[…], rcx`; `lea rcx, […]`; `jmp […]`
const BEFORE: usize = 9 + 7 + 6;
/// Our address, in the trampoline's last bytes.
const TARGET_AT: usize = TRAMPOLINE_BYTES - 8;
const _: () = assert!(BEFORE + WINDOW_BYTES_MAX + JUMP_BYTES <= TARGET_AT);
/// Where trampolines are: below what they are for, which is where jumps of system calls may be, too.
const BELOW: u64 = 8 << 20;
const TRIES: u64 = 64;
const ABOVE: u64 = 64 << 20;
const TRIES_ABOVE: u64 = 14;
/// Below, nothing can be mapped.
const LOWEST: u64 = 1 << 16;
/// A thread that has come to so many without a call gives way: it may be waiting for another one.
const SPINS_MAX: u32 = 1000;

/// Makes these instructions of a guest's switch points, if threads take turns. None of them has to be.
pub fn stop_before(object: &Loaded, entries: &[Entry]) {
    if entries.is_empty() || !turns::is_on() || !entries.iter().all(|entry| object.is_as_expected(entry)) {
        return;
    }
    let bytes = ((entries.len() * TRAMPOLINE_BYTES) as u64).next_multiple_of(PAGE);
    let Some(trampolines) = place(object, bytes) else {
        return;
    };
    let code = || object.code().map(|(start, end)| Pages::around(start, end));
    let own = Pages::around(trampolines, trampolines + bytes);
    if own.protect(patch::WRITABLE) && code().all(|pages| pages.protect(patch::WRITABLE)) {
        for (i, entry) in entries.iter().enumerate() {
            // SAFETY: both can be written now, and nobody runs them yet.
            unsafe { replace(object, entry, trampolines + (i * TRAMPOLINE_BYTES) as u64) };
        }
    }
    code().for_each(|pages| _ = pages.protect(patch::RUNNABLE));
    own.protect(patch::RUNNABLE);
}

/// Memory that the object can reach: below it, or, if that is where memory begins, above it, where its heap does not come soon.
fn place(object: &Loaded, bytes: u64) -> Option<u64> {
    let below = |times: u64| object.start().checked_sub(times * BELOW + bytes);
    let above = |times: u64| object.start().checked_add(times * ABOVE);
    let places = (1..=TRIES)
        .filter_map(below)
        .chain((1..=TRIES_ABOVE).rev().filter_map(above));
    let places = places.map(|place| place / PAGE * PAGE).filter(|place| *place >= LOWEST);
    let reaches = |place: u64, address: u64| place.abs_diff(address) < patch::REACH;
    let is_near = |place: &u64| {
        object
            .code()
            .all(|(start, end)| reaches(*place, start) && reaches(*place, end))
    };
    places
        .filter(is_near)
        .find(|place| sys::map_at(*place, bytes as usize, -1, 0, false).is_ok())
}

/// # Safety
/// The window and the trampoline can be written, and nobody runs them.
unsafe fn replace(object: &Loaded, entry: &Entry, trampoline: u64) {
    let (site, length) = (object.base + entry.address, entry.length as usize);
    let copy = trampoline + BEFORE as u64;
    let mut code = [0xcc; TRAMPOLINE_BYTES];
    let kept = (offset_of!(Block, kept_rcx) as u32).to_le_bytes();
    code[..5].copy_from_slice(&[0x65, 0x48, 0x89, 0x0c, 0x25]);
    code[5..9].copy_from_slice(&kept);
    code[9..12].copy_from_slice(&[0x48, 0x8d, 0x0d]);
    code[12..16].copy_from_slice(&6u32.to_le_bytes());
    code[16..18].copy_from_slice(&[0xff, 0x25]);
    code[18..22].copy_from_slice(&((TARGET_AT - BEFORE) as u32).to_le_bytes());
    code[BEFORE..BEFORE + length].copy_from_slice(&entry.bytes[..length]);
    if let Some(at) = (entry.address_at as usize).checked_sub(1).filter(|at| at + 4 <= length) {
        let place = &mut code[BEFORE + at..BEFORE + at + 4];
        let distance = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
        place.copy_from_slice(&distance.wrapping_add(site.wrapping_sub(copy) as u32).to_le_bytes());
    }
    let back = BEFORE + length;
    let jump = patch::near(patch::JUMP, trampoline + back as u64, site + length as u64);
    code[back..back + JUMP_BYTES].copy_from_slice(&jump);
    code[TARGET_AT..].copy_from_slice(&(enter as *const () as u64).to_le_bytes());
    let mut window = [0xcc; WINDOW_BYTES_MAX];
    window[..JUMP_BYTES].copy_from_slice(&patch::near(patch::JUMP, site, trampoline));
    // SAFETY: the caller promises that the window and the trampoline can be written, and nobody runs them; the window
    // was compared with the entry, which has this length.
    unsafe {
        core::ptr::copy_nonoverlapping(code.as_ptr(), trampoline as *mut u8, TRAMPOLINE_BYTES);
        debugger::write_code(site, &window[..length]);
    }
}

/// What an instruction that is not a call finds again, too.
#[repr(C, align(16))]
struct Kept {
    frame: Frame,
    rcx: u64,
    r11: u64,
    flags: u64,
    fill: u64,
}

const _: () = assert!(offset_of!(Kept, frame) == 0 && size_of::<Kept>().is_multiple_of(16));

/// Jumped to by trampolines; where they go on is in rcx, and what was in it in the block. Nothing is changed, flags neither.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "mov gs:[{kept_rsp}], rsp",
        "mov rsp, gs:[{stack}]",
        "lea rsp, [rsp - {bytes}]",
        "mov [rsp + {rip}], rcx",
        "mov rcx, gs:[{kept_rcx}]",
        "mov [rsp + {rcx}], rcx",
        "mov [rsp + {r11}], r11",
        "mov [rsp + {rdi}], rdi",
        each_register!("rsp", "store"),
        "mov rcx, gs:[{kept_rsp}]",
        "mov [rsp + {rsp}], rcx",
        "pushfq",
        "pop rcx",
        "mov [rsp + {flags}], rcx",
        "rdfsbase rcx",
        "mov [rsp + {fs}], rcx",
        "mov byte ptr gs:[{selector}], 0",
        "mov rcx, gs:[{host_fs}]",
        "wrfsbase rcx",
        "cld",
        "mov rdi, rsp",
        "call {handler}",
        "mov rcx, [rsp + {fs}]",
        "wrfsbase rcx",
        each_register!("rsp", "load"),
        "mov rdi, [rsp + {rdi}]",
        "mov r11, [rsp + {r11}]",
        "mov rcx, [rsp + {rip}]",
        "mov gs:[{kept_rip}], rcx",
        "mov rcx, [rsp + {rsp}]",
        "mov gs:[{kept_rsp}], rcx",
        "mov rcx, [rsp + {flags}]",
        "push rcx",
        "popfq",
        "mov rcx, [rsp + {rcx}]",
        "mov byte ptr gs:[{selector}], 1",
        "mov rsp, gs:[{kept_rsp}]",
        "jmp qword ptr gs:[{kept_rip}]",
        kept_rcx = const offset_of!(Block, kept_rcx),
        kept_rsp = const offset_of!(Block, kept_rsp),
        kept_rip = const offset_of!(Block, kept_rip),
        stack = const offset_of!(Block, host_stack),
        selector = const offset_of!(Block, selector),
        host_fs = const offset_of!(Block, host_fs),
        bytes = const size_of::<Kept>(),
        rsp = const offset_of!(Frame, rsp),
        rip = const offset_of!(Frame, rip),
        fs = const offset_of!(Frame, fs),
        rdi = const offset_of!(Frame, rdi),
        rcx = const offset_of!(Kept, rcx),
        r11 = const offset_of!(Kept, r11),
        flags = const offset_of!(Kept, flags),
        handler = sym on_locked,
    )
}

extern "C" fn on_locked(frame: &Frame) {
    let block = Block::current();
    // The trampoline tells where it is.
    turns::at_switch_point(what::ACQUIRE, frame.rip);
    block.locked += 1;
    if block.locked >= SPINS_MAX && !control::one_at_a_time() {
        block.locked = 0;
        turns::give_way_here();
    }
}
