//! The other processes of the run, as this one knows them: those that it has forked, and the control memory of all in replay.
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::CONTROL_BYTES;
use runtime_abi::CONTROL_MAGIC;
use runtime_abi::CONTROL_STRIDE;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::ROOT_CONTROL_ADDRESS;
use runtime_abi::ThreadSlot;
use runtime_abi::ended;
use runtime_abi::thread_state;

/// Bytes mapped at `ROOT_CONTROL_ADDRESS`.
static ROOT_BYTES: AtomicU64 = AtomicU64::new(0);

/// So many bytes have been mapped there.
pub fn note_root(bytes: u64) {
    ROOT_BYTES.store(bytes, Relaxed);
}

/// A process that this one has forked.
struct Child {
    /// The id that it has, or had when it was recorded, and its number: `id << 32 | number`.
    id_and_number: AtomicU64,
    /// The thread that forked it, and how many events that had completed.
    thread: AtomicU32,
    event: AtomicU64,
}

/// The newest are kept.
static CHILDREN: [Child; CHILDREN_MAX] = [const {
    Child {
        id_and_number: AtomicU64::new(0),
        thread: AtomicU32::new(0),
        event: AtomicU64::new(0),
    }
}; CHILDREN_MAX];
const CHILDREN_MAX: usize = 256;

/// A thread that has completed so many events has forked a process, which has this id.
pub fn note_child(id: isize, process: u32, thread: u32, event: u64) {
    let place = &CHILDREN[process as usize % CHILDREN_MAX];
    place.thread.store(thread, Relaxed);
    place.event.store(event, Relaxed);
    place
        .id_and_number
        .store((id as u64) << 32 | u64::from(process), Relaxed);
}

/// The newest one that has this id, and its number.
fn find(id: u32) -> Option<(&'static Child, u32)> {
    let children = CHILDREN.iter().map(|child| (child.id_and_number.load(Relaxed), child));
    let (number, child) = children
        .filter(|(number, _)| (number >> 32) as u32 == id)
        .max_by_key(|(number, _)| *number)?;
    Some((child, number as u32))
}

/// Recording: the number of a process that this one has forked; the thread that it begins with, and how many events that has completed then.
pub fn beginning_of_child(id: u32) -> Option<(u32, u32, u64)> {
    let (child, process) = find(id)?;
    Some((process, child.thread.load(Relaxed), child.event.load(Relaxed)))
}

/// Replay: does the process that was forked here, and had this id, still do something? Not if it has ended, or stands where the recording has its end.
pub fn is_child_at_work(id: u32) -> bool {
    let child = find(id).map(|(_, process)| process);
    let Some(process) = child.filter(|process| has_part(*process)) else {
        return false;
    };
    let control = ROOT_CONTROL_ADDRESS + process as u64 * CONTROL_STRIDE as u64;
    // SAFETY: `has_part` has found it inside of what `processes::join` mapped, for good; there are THREADS_MAX slots behind the header.
    let (header, slots) = unsafe {
        let header = &*(control as *const ControlHeader);
        let threads = (header.progress.threads.load(Acquire) as usize).min(runtime_abi::THREADS_MAX);
        let first = (control as usize + HEADER_BYTES) as *const ThreadSlot;
        (header, core::slice::from_raw_parts(first, threads))
    };
    // Acquire: pairs with the Release of who ends, whose writes to memory that is shared have happened.
    let is_over = |slot: &ThreadSlot| {
        matches!(
            slot.state.load(Acquire),
            thread_state::STOPPED | thread_state::EXITED | thread_state::UNUSED
        )
    };
    header.progress.ended.load(Acquire) == ended::NOT_SAID
        && (header.progress.attached.load(Acquire) == 0 || !slots.iter().all(is_over))
}

/// Replay: is there a part of the run for this process? One that could not be created has none.
pub fn has_part(process: u32) -> bool {
    let offset = process as u64 * CONTROL_STRIDE as u64;
    if process == 0 || offset + CONTROL_BYTES as u64 > ROOT_BYTES.load(Relaxed) {
        return false;
    }
    // SAFETY: inside what `processes::join` mapped, for good; the tool filled the parts of the processes that there are.
    unsafe { (*((ROOT_CONTROL_ADDRESS + offset) as *const ControlHeader)).magic == CONTROL_MAGIC }
}
