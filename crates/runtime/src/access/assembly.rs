//! Statements of inline assembly that access one place: executed as they are, each as one atomic event of that place.
//!
//! The compiler pass has put the statement into a function of its own (`crates/instrumentor/pass/assembly.h`). Like an atomic
//! operation, it happens while its cells are held: what it finds and leaves there is nobody else's doing.
use crate::access::Reach;
use crate::access::atomics::observed;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::control;
use runtime_abi::assembly;

/// What a statement found in its place, and what it left there.
#[derive(Clone, Copy)]
struct Change {
    before: u128,
    after: u128,
}

/// # Safety
/// `statement` may be called with `frame`, and accesses `bytes` bytes at `place`, as the program would have there; `site` is a
/// record of a site table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_assembly(
    place: u64,
    bytes: u64,
    reach: u32,
    statement: unsafe extern "C" fn(*mut u8),
    frame: *mut u8,
    site: *const u8,
) {
    // SAFETY: compiled code passes the statement with its frame.
    let run = || unsafe { statement(frame) };
    let Some(local) = observed() else { return run() };
    let reach = match reach {
        // Methods that go by values hold no cell to read it, and what is looked at here might not be what the statement found.
        assembly::READS if control::goes_by_values() => Reach::Both,
        assembly::READS => Reach::Reads,
        assembly::WRITES => Reach::Writes,
        _ => Reach::Both,
    };
    // SAFETY: the statement accesses this memory; what may be written may be read here.
    let look = || unsafe { looked_at(place, bytes) };
    let change = || {
        let before = look();
        run();
        Change { before, after: look() }
    };
    let moved = |value: u128| match bytes {
        1..=8 => Moved::Number(value as u64),
        16 => Moved::Wide(value),
        _ => Moved::Unknown,
    };
    local.perform_atomic(place, bytes, reach, site, change, change, |change| match change {
        Some(change) if reach == Reach::Reads => Seen::read(moved(change.before)),
        Some(change) if reach == Reach::Writes => Seen::written(moved(change.after)),
        Some(change) => Seen {
            read: moved(change.before),
            written: moved(change.after),
        },
        None => Seen::UNKNOWN,
    });
}

/// The place's content, if it fits.
///
/// # Safety
/// The memory may be read.
unsafe fn looked_at(place: u64, bytes: u64) -> u128 {
    let mut content = [0u8; 16];
    if bytes as usize <= content.len() {
        // SAFETY: the caller says so, and there is room.
        unsafe { core::ptr::copy_nonoverlapping(place as *const u8, content.as_mut_ptr(), bytes as usize) };
    }
    u128::from_le_bytes(content)
}
