//! A program that was not built with refrain has us by `LD_PRELOAD`. That is nobody's business but the loader's: children
//! are started without us.
use core::ffi::c_char;

const NAME: &[u8] = b"LD_PRELOAD=";
const LIBRARY: &[u8] = runtime_abi::RUNTIME_LIBRARY.as_bytes();

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Takes us out of `LD_PRELOAD`, if the tool put us there: always as the first of the list. Once, before there is a second
/// thread. In place, so that no address changes.
pub fn hide() {
    // SAFETY: the list of pointers to strings that the kernel made; nobody else uses it now.
    unsafe {
        let mut place = environ;
        if place.is_null() {
            return;
        }
        while !(*place).is_null() {
            match is_ours(*place) {
                Some(rest) if *rest == 0 => return remove(place),
                Some(rest) => return copy_down(rest, (*place).add(NAME.len())),
                None => place = place.add(1),
            }
        }
    }
}

/// What follows us in the list, if this is the variable and begins with us.
///
/// # Safety
/// `variable` is a string.
unsafe fn is_ours(variable: *const c_char) -> Option<*const c_char> {
    // SAFETY: the caller's promise; nothing behind the end is read.
    unsafe {
        let text = core::ffi::CStr::from_ptr(variable).to_bytes();
        let list = text.strip_prefix(NAME)?;
        let first = list.split(|byte| *byte == b':').next()?;
        let name = first.rsplit(|byte| *byte == b'/').next()?;
        let followed = first.len() < list.len();
        (name == LIBRARY).then(|| variable.add(NAME.len() + first.len() + followed as usize))
    }
}

/// # Safety
/// `place` is in a list of pointers that ends with null.
unsafe fn remove(mut place: *mut *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe {
        while !(*place).is_null() {
            *place = *place.add(1);
            place = place.add(1);
        }
    }
}

/// # Safety
/// `from` is the end of a string, `to` a place before it.
unsafe fn copy_down(mut from: *const c_char, mut to: *mut c_char) {
    // SAFETY: the caller's promise; the terminating zero is copied, too.
    unsafe {
        loop {
            *to = *from;
            if *from == 0 {
                return;
            }
            (from, to) = (from.add(1), to.add(1));
        }
    }
}
