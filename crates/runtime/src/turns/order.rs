//! The recorded order of inputs, mapped from the file `turns`.
use crate::control;
use crate::ending;
use crate::sys;
use crate::turns::accesses;
use crate::turns::checkpoint;
use crate::turns::follow;
use crate::turns::holds;
use crate::turns::points;
use crate::turns::seats::seat;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use run_model::RunKind;
use runtime_abi::RUNTIME_REGION;
use runtime_abi::turns_file::FILE_NAME;
use runtime_abi::turns_file::MAGIC;
use runtime_abi::turns_file::MoveEntry;
use runtime_abi::turns_file::NO_RUN;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;
use runtime_abi::turns_file::TurnsHeader;
use runtime_abi::turns_file::VERSION;

const REST: u32 = RunKind::Rest as u32;
const RETURN: u32 = RunKind::Return as u32;
const TURNS: u64 = RUNTIME_REGION + 0x0a00_0000_0000;
/// Another one, while it is compared with that.
const OTHER_TURNS: u64 = RUNTIME_REGION + 0x0a80_0000_0000;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The run under way, and how many of its inputs have happened.
static RUN: AtomicU32 = AtomicU32::new(0);
static HAPPENED: AtomicU32 = AtomicU32::new(0);

/// Do threads take turns?
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Replay: threads take turns if the tool has written down the order of their inputs.
pub fn open() {
    IS_ON.store(false, Relaxed);
    if map_file(FILE_NAME, TURNS).is_none() {
        return;
    }
    RUN.store(0, Relaxed);
    HAPPENED.store(0, Relaxed);
    IS_ON.store(true, Relaxed);
    points::open();
    follow::open();
    accesses::open();
    checkpoint::open();
}

/// Maps a file of this layout for good, if there is one. Of a process that was forked: in the place of its parent's, as the schedule.
pub fn map_file(name: &str, place: u64) -> Option<&'static TurnsHeader> {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(name.as_bytes(), &mut buffer);
    let file = sys::open(path, libc::O_RDWR).ok()?;
    let bytes = sys::file_bytes(file);
    let is_mapped =
        bytes >= size_of::<TurnsHeader>() as u64 && sys::map_at(place, bytes as usize, file, 0, true).is_ok();
    sys::close(file);
    if !is_mapped {
        ending::die(b"cannot map the order of this run's inputs", 0);
    }
    let header = header_at(place);
    if header.magic != MAGIC || header.version != VERSION || bytes_of(header) != bytes {
        ending::die(b"the order of this run's inputs is damaged", 0);
    }
    Some(header)
}

/// A copy of a process: the order is the same, the moves are others, and so is what is to be written down.
pub fn open_again() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDWR) else {
        ending::die(b"cannot open the order of this run's inputs", 0);
    };
    let bytes = sys::file_bytes(file);
    let is_mapped = |at: u64| sys::map_at(at, bytes as usize, file, 0, true).is_ok();
    if bytes < size_of::<TurnsHeader>() as u64 || !is_mapped(OTHER_TURNS) {
        ending::die(b"cannot map the order of this run's inputs", 0);
    }
    let new = header_at(OTHER_TURNS);
    let old = header();
    if (new.magic, new.version, new.threads, new.runs) != (old.magic, old.version, old.threads, old.runs)
        || bytes != bytes_of(new)
    {
        ending::die(b"this is not the order of this run's inputs", 0);
    }
    holds::number_moves_again(moves(), moves_at(OTHER_TURNS));
    if !is_mapped(TURNS) {
        ending::die(b"cannot map the order of this run's inputs", 0);
    }
    sys::close(file);
    // SAFETY: nobody looks there any more.
    unsafe { sys::unmap(OTHER_TURNS, bytes.next_multiple_of(4096) as usize) };
    points::open();
    accesses::open_file();
}

fn bytes_of(header: &TurnsHeader) -> u64 {
    size_of::<TurnsHeader>() as u64
        + header.threads as u64 * size_of::<ThreadTurns>() as u64
        + header.runs * size_of::<TurnRun>() as u64
        + header.moves * size_of::<MoveEntry>() as u64
}

pub fn header() -> &'static TurnsHeader {
    header_at(TURNS)
}

fn header_at(place: u64) -> &'static TurnsHeader {
    // SAFETY: `map_file` mapped at least a header here, for good; and `open_again` as long as it looks at it.
    unsafe { &*(place as *const TurnsHeader) }
}

fn threads() -> &'static [ThreadTurns] {
    threads_at(TURNS)
}

fn threads_at(place: u64) -> &'static [ThreadTurns] {
    let at = place as usize + size_of::<TurnsHeader>();
    // SAFETY: `map_file` found the file to be exactly as long as its header says.
    unsafe { core::slice::from_raw_parts(at as *const ThreadTurns, header_at(place).threads as usize) }
}

fn runs() -> &'static [TurnRun] {
    runs_at(TURNS)
}

/// The runs of a file that `map_file` has mapped there.
pub fn runs_at(place: u64) -> &'static [TurnRun] {
    let at = threads_at(place).as_ptr_range().end;
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(at.cast(), header_at(place).runs as usize) }
}

pub fn moves() -> &'static [MoveEntry] {
    moves_at(TURNS)
}

fn moves_at(place: u64) -> &'static [MoveEntry] {
    let header = header_at(place);
    let before = bytes_of(header) - header.moves * size_of::<MoveEntry>() as u64;
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts((place + before) as *const MoveEntry, header.moves as usize) }
}

/// The inputs that `thread` has had when it enters the window.
pub fn window_of(thread: u32) -> u64 {
    threads().get(thread as usize).map_or(0, |thread| thread.window)
}

/// The run that has the first input of `thread`.
pub fn first_run(thread: u32) -> u32 {
    threads().get(thread as usize).map_or(NO_RUN, |thread| thread.first)
}

/// Whose input is the next one of the order, or who has to come to a stop before it; nobody, if all have happened.
pub fn next_thread() -> Option<u32> {
    loop {
        let run = runs().get(RUN.load(Relaxed) as usize)?;
        let is_passed = match run.kind {
            REST => seat(run.thread).is_at_rest(),
            // Nobody else could go on.
            RETURN => seat(run.thread).next_run() != RUN.load(Relaxed),
            _ => false,
        };
        if !is_passed {
            return Some(run.thread);
        }
        begin_next(run);
    }
}

/// Whose input is next, if nobody has to come to a stop, or to go on, before it.
pub fn next_input() -> Option<u32> {
    let thread = next_thread()?;
    let is_input = runs()[RUN.load(Relaxed) as usize].count != 0;
    is_input.then_some(thread)
}

/// Does `thread` have to wait until the order has it go on behind its last input?
pub fn has_to_return(thread: u32) -> bool {
    let run = runs().get(seat(thread).next_run() as usize);
    run.is_some_and(|run| run.kind == RETURN)
}

/// It goes on.
pub fn pass_return(thread: u32) {
    let index = seat(thread).next_run();
    if let Some(run) = runs().get(index as usize) {
        seat(thread).set_next_run(run.next);
    }
}

/// Nobody can go on: if somebody was to come to a stop first, that one need not.
pub fn pass_rest() -> bool {
    let rest = runs().get(RUN.load(Relaxed) as usize).filter(|run| run.kind == REST);
    rest.map(begin_next).is_some()
}

fn begin_next(run: &TurnRun) {
    let index = RUN.load(Relaxed);
    HAPPENED.store(0, Relaxed);
    RUN.store(index + 1, Relaxed);
    if seat(run.thread).next_run() == index {
        seat(run.thread).set_next_run(run.next);
    }
}

/// The next input of the order has happened.
pub fn advance() {
    let index = RUN.load(Relaxed);
    let Some(run) = runs().get(index as usize) else {
        return;
    };
    let reached = &control::header().order_reached;
    reached.store(reached.load(Relaxed) + 1, Relaxed);
    let happened = HAPPENED.load(Relaxed) + 1;
    if happened < run.count {
        return HAPPENED.store(happened, Relaxed);
    }
    begin_next(run);
}
