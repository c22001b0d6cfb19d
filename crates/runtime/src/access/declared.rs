//! Functions of libraries that are not instrumented, whose reading and writing was declared (`refrain cc --functions`): they work on copies of the
//! memory that the program gives them, which are read first, and stored afterwards, by the access protocol.
use crate::access::plain::at_site;
use crate::local::Local;
use crate::sys;

/// What the function does with the range; `pass/declared.h` has the same bits.
const READS: u32 = 1;
const WRITES: u32 = 2;

/// So much is mapped for a range.
fn mapped_bytes(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(4096).filter(|_| bytes != 0)
}

fn map(bytes: usize) -> Option<*mut u8> {
    const PROTECTION: i32 = libc::PROT_READ | libc::PROT_WRITE;
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let arguments = [0, bytes, PROTECTION as usize, FLAGS as usize, usize::MAX, 0];
    // SAFETY: new memory, where the kernel likes; nothing that is there changes.
    let address = unsafe { sys::syscall(libc::SYS_mmap, arguments) };
    (address > 0).then_some(address as *mut u8)
}

/// What the function is to be given instead of `place`: a copy, if somebody wants to know what is done with it. Where there is none, the function
/// works in place.
///
/// # Safety
/// The function would be given `place` and use `bytes` bytes there; `site` is a record of a site table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_lend(place: *mut u8, bytes: usize, how: u32, site: *const u8) -> *mut u8 {
    let Some(local) = Local::current() else { return place };
    let Some(copy) = mapped_bytes(bytes).filter(|_| !place.is_null()).and_then(map) else {
        return place;
    };
    at_site(local, site);
    if how & READS != 0 {
        // SAFETY: the caller promises that the range is there; the copy has as much room.
        unsafe { local.load_for_outside(place, copy, bytes) };
    }
    copy
}

/// The function has returned: what it has written is stored.
///
/// # Safety
/// `copy` is what `__refrain_lend` gave for the rest, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_take_back(place: *mut u8, copy: *mut u8, bytes: usize, how: u32, site: *const u8) {
    if copy == place {
        return;
    }
    if let Some(local) = Local::current().filter(|_| how & WRITES != 0) {
        at_site(local, site);
        // SAFETY: the caller promises that the range is there; the copy has as many bytes.
        unsafe { local.store_from_outside(place, copy, bytes) };
    }
    if let Some(mapped) = mapped_bytes(bytes) {
        // SAFETY: mapped by `__refrain_lend` for this call alone.
        unsafe { sys::syscall(libc::SYS_munmap, [copy as usize, mapped, 0, 0, 0, 0]) };
    }
}

/// A result that points into the copy points to the same byte of the range.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_lent_result(result: *mut u8, place: *mut u8, copy: *mut u8, bytes: usize) -> *mut u8 {
    match (result as usize).checked_sub(copy as usize) {
        Some(offset) if offset <= bytes => place.wrapping_add(offset),
        _ => result,
    }
}
