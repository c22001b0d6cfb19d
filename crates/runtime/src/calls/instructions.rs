//! Results of instructions that ask the machine (`rdtsc`, `rdrand`, `cpuid` and their kin), in compiled code: inputs
//! like those of system calls.
use crate::calls;
use crate::inputs;
use crate::inputs::Range;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use core::ffi::c_long;

/// Stands for such an instruction in the inputs.
const INSTRUCTION: c_long = 0xfff1;

/// Called by compiled code with what an instruction has just yielded: it is recorded, or becomes what was recorded.
///
/// # Safety
/// `place` has so many bytes, which are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_instruction(place: *mut u8, bytes: u64) {
    let Some(local) = Local::current().filter(|local| !local.calls_pass.get() && calls::is_installed()) else {
        return;
    };
    match policy::inputs() {
        Inputs::Recorded => {
            let range = Range {
                address: 0,
                from: place as usize,
                bytes: bytes as usize,
            };
            local.log_call(INSTRUCTION, 0, 0, &[range]);
        }
        Inputs::Answered => {
            let call = local.next_call(INSTRUCTION);
            if let Some((_, recorded)) = call.ranges().next() {
                inputs::copy(recorded.as_ptr(), place, recorded.len().min(bytes as usize));
            }
        }
        Inputs::Live => {}
    }
    if !local.inside_event.get() {
        local.complete();
    }
}
