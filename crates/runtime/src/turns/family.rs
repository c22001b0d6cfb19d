//! Replay: the order of inputs between processes that share memory.
//!
//! What one of them sees in that memory depends on how far the others are. So one process goes on at a time, as its threads do: from its
//! inputs that the file `family` has next to the input after them, where the next process takes over. The order is written as that of
//! threads is, with numbers of processes.
//!
//! A process may never come to another input: it ends, or computes for long. Then the next one waits a moment, and goes on beside it.
use crate::control;
use crate::ending;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::turns_file::FAMILY_FILE_NAME;
use runtime_abi::turns_file::MAGIC;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;
use runtime_abi::turns_file::TurnsHeader;
use runtime_abi::turns_file::VERSION;

const FAMILY: u64 = RUNTIME_REGION + 0x0ac0_0000_0000;
/// How long a process waits for one that has had its inputs, and does not come to the next.
const MOMENT_NS: u64 = 1_000_000_000;
const LONG_NS: u64 = 1_000_000_000;

/// The runs of the order, in the mapped file; none: there is no such order.
static RUNS: AtomicU64 = AtomicU64::new(0);
/// The inputs of the run under way have happened, and this process goes on.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// When a process begins, and when it has been forked.
pub fn open() {
    RUNS.store(0, Relaxed);
    GOES_ON.store(false, Relaxed);
    let mut buffer = [0; 4352];
    let path = control::path_in_run(FAMILY_FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDWR) else {
        return;
    };
    let bytes = sys::file_bytes(file);
    let is_mapped =
        bytes >= size_of::<TurnsHeader>() as u64 && sys::map_at(FAMILY, bytes as usize, file, 0, true).is_ok();
    sys::close(file);
    if !is_mapped {
        ending::die(b"cannot map the order of this run's processes", 0);
    }
    let header = header();
    let needed = size_of::<TurnsHeader>() as u64
        + header.threads as u64 * size_of::<ThreadTurns>() as u64
        + header.runs * size_of::<TurnRun>() as u64;
    if header.magic != MAGIC || header.version != VERSION || needed != bytes {
        ending::die(b"the order of this run's processes is damaged", 0);
    }
    RUNS.store(header.runs, Relaxed);
}

fn header() -> &'static TurnsHeader {
    // SAFETY: `open` mapped at least a header here, for good.
    unsafe { &*(FAMILY as *const TurnsHeader) }
}

fn run_at(index: u32) -> Option<&'static TurnRun> {
    let at = FAMILY as usize + size_of::<TurnsHeader>() + header().threads as usize * size_of::<ThreadTurns>();
    let is_there = u64::from(index) < RUNS.load(Relaxed);
    // SAFETY: `open` found the file to be exactly as long as its header says.
    is_there.then(|| unsafe { &*(at as *const TurnRun).add(index as usize) })
}

fn is_on() -> bool {
    RUNS.load(Relaxed) != 0
}

/// Before an input that has a place: returns when it is this process's turn. `ControlHeader::family` is twice the run under way, and one
/// more if its inputs have happened.
pub fn wait_for_place() {
    if !is_on() {
        return;
    }
    pass_on();
    let me = control::header().process.load(Relaxed);
    let word = &control::root().family;
    loop {
        // Acquire: pairs with the Release of who had the turn: its inputs have happened.
        let now = word.load(Acquire);
        let is_mine = |index: u32| run_at(index).is_none_or(|run| run.thread == me);
        if now.is_multiple_of(2) && is_mine(now / 2) {
            return;
        }
        if control::has_diverged() {
            crate::replay::sleep_forever();
        }
        if now % 2 == 1 && is_mine(now / 2 + 1) {
            sys::shared_futex_wait(word, now, MOMENT_NS);
            // It has come to its end, or is busy.
            _ = word.compare_exchange(now, now + 1, Acquire, Relaxed);
            continue;
        }
        sys::shared_futex_wait(word, now, LONG_NS);
    }
}

/// The input that `wait_for_place` waited for has happened.
pub fn happened() {
    if !is_on() {
        return;
    }
    let root = control::root();
    let now = root.family.load(Relaxed);
    let Some(run) = run_at(now / 2) else { return };
    let count = root.family_happened.load(Relaxed) + 1;
    if count < run.count {
        return root.family_happened.store(count, Relaxed);
    }
    root.family_happened.store(0, Relaxed);
    GOES_ON.store(true, Relaxed);
    // Release: pairs with the Acquire in `wait_for_place`.
    root.family.store(now + 1, Release);
    sys::shared_futex_wake_all(&root.family);
}

/// The process has come to its next input, or to its end.
pub fn pass_on() {
    if !is_on() || !GOES_ON.swap(false, Relaxed) {
        return;
    }
    let word = &control::root().family;
    let now = word.load(Relaxed);
    // Release: as above. If it differs, another one has gone on already.
    if now % 2 == 1 && word.compare_exchange(now, now + 1, Release, Relaxed).is_ok() {
        sys::shared_futex_wake_all(word);
    }
}
