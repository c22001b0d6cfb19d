//! Bytes that come in by ways that nobody here sees, as the program says: `refrain_input` of `refrain.h`; and the random bytes that the kernel leaves beside
//! a program's arguments.
use crate::access::Reach;
use crate::calls;
use crate::calls::own_memory;
use crate::inputs::Range;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use crate::sys;
use core::ffi::c_long;
use core::ffi::c_ulong;
use log_format::inputs::ANNOTATED;
use log_format::inputs::AUXILIARY;

/// As many bytes as the kernel leaves there.
const RANDOM_BYTES: usize = 16;

/// The program says that these bytes have just come in: they are recorded, or become what was recorded, or are compared.
///
/// # Safety
/// So many bytes can be read there, and nobody writes them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_input(address: *const u8, bytes: usize) {
    has_come_in(ANNOTATED, address as usize, bytes);
}

/// As libc's function of that name. A program that asks where the random bytes are is about to read them.
#[unsafe(no_mangle)]
pub extern "C" fn getauxval(kind: c_ulong) -> c_ulong {
    unsafe extern "C" {
        fn __getauxval(kind: c_ulong) -> c_ulong;
    }
    // SAFETY: libc's function by its other name; it has no requirements.
    let value = unsafe { __getauxval(kind) };
    if kind == libc::AT_RANDOM && value != 0 {
        has_come_in(AUXILIARY, value as usize, RANDOM_BYTES);
    }
    value
}

fn has_come_in(number: u32, address: usize, bytes: usize) {
    let local = Local::current().filter(|local| !local.calls_pass.get() && calls::is_installed());
    let Some(local) = local.filter(|_| !policy::is_free() && bytes != 0) else {
        return;
    };
    // What cannot be read is no input. The program finds that out itself.
    if sys::is_readable(address, bytes) {
        local.take_annotated(c_long::from(number), address, bytes);
    }
}

impl Local {
    fn take_annotated(&self, number: c_long, address: usize, bytes: usize) {
        let range = Range {
            address,
            from: address,
            bytes,
        };
        match policy::inputs() {
            Inputs::Recorded => {
                self.consider_input(number, &[0; 6], 0, &[range]);
                self.log_call(number, 0, 0, &[range]);
            }
            Inputs::Answered => {
                let call = self.next_call(number);
                if let Some((_, recorded)) = call.ranges().next() {
                    let recorded = &recorded[..recorded.len().min(bytes)];
                    // SAFETY: so many bytes can be read there, as the caller has seen.
                    let there = unsafe { core::slice::from_raw_parts(address as *const u8, recorded.len()) };
                    if there != recorded {
                        // They may be protected.
                        own_memory::change(address as u64, recorded);
                    }
                }
            }
            Inputs::Live => self.consider_input(number, &[0; 6], 0, &[range]),
        }
        if self.inside_event.get() {
            return;
        }
        self.complete();
        // Whoever writes there later, and is seen, does it after this.
        if crate::control::observes_memory() {
            self.declare(address as u64, bytes as u64, Reach::Reads);
        }
    }
}
