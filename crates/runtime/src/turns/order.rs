//! The recorded order of inputs, mapped from the file `turns`.
use crate::control;
use crate::failure;
use crate::sys;
use crate::turns;
use crate::turns::accesses;
use crate::turns::checkpoint;
use crate::turns::points;
use runtime_abi::memory_map;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::FILE_NAME;
use runtime_abi::turns_file::MAGIC;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;
use runtime_abi::turns_file::TurnsHeader;
use runtime_abi::turns_file::VERSION;
use turn_scheduler::Order;

const TURNS: u64 = memory_map::TURNS.start;
/// Another one, while it is compared with that.
const OTHER_TURNS: u64 = memory_map::OTHER_TURNS.start;

/// Threads take turns: by the order of their inputs that the tool has written down.
pub fn open() {
    if map_file(FILE_NAME, &memory_map::TURNS).is_none() {
        failure::die(
            b"threads are to take turns, and nobody has written down the order of their inputs",
            0,
        );
    }
    turns::now().open();
    points::open();
    accesses::open();
    checkpoint::open();
}

/// Threads follow an order of their events: nothing else of this module is of use to them.
pub fn map_order() -> Option<&'static TurnsHeader> {
    map_file(FILE_NAME, &memory_map::TURNS)
}

/// What `map_order` has mapped.
pub fn runs() -> &'static [TurnRun] {
    runs_at(TURNS)
}

pub fn edits() -> &'static [EditEntry] {
    edits_at(TURNS)
}

pub fn accesses_max() -> u64 {
    header().accesses_max
}

/// So many events of the thread come before what is to be written down.
pub fn window_of(thread: u32) -> u64 {
    threads_at(TURNS).get(thread as usize).map_or(0, |thread| thread.window)
}

/// The order, as it is mapped.
#[inline]
pub fn now() -> Order<'static> {
    Order {
        threads: threads_at(TURNS),
        runs: runs_at(TURNS),
        edits: edits_at(TURNS),
    }
}

/// Maps a file of this layout for good, if there is one. Of a process that was forked: in the place of its parent's, as the schedule.
pub fn map_file(name: &str, region: &memory_map::Region) -> Option<&'static TurnsHeader> {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(name.as_bytes(), &mut buffer);
    let file = sys::open(path, libc::O_RDWR).ok()?;
    let (place, bytes) = (region.start, sys::file_bytes(file));
    let is_mapped = bytes >= size_of::<TurnsHeader>() as u64
        && region.has_room_for(bytes)
        && sys::map_at(place, bytes as usize, file, 0, true).is_ok();
    sys::close(file);
    if !is_mapped {
        failure::die(b"cannot map the order of this run's inputs", 0);
    }
    let header = header_at(place);
    if header.magic != MAGIC || header.version != VERSION || bytes_of(header) != bytes {
        failure::die(b"the order of this run's inputs is damaged", 0);
    }
    Some(header)
}

/// A copy of a process: the order is the same, the edits are others, and so is what is to be written down.
pub fn open_again() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDWR) else {
        failure::die(b"cannot open the order of this run's inputs", 0);
    };
    let bytes = sys::file_bytes(file);
    let is_mapped = |at: u64| sys::map_at(at, bytes as usize, file, 0, true).is_ok();
    if bytes < size_of::<TurnsHeader>() as u64
        || !memory_map::OTHER_TURNS.has_room_for(bytes)
        || !is_mapped(OTHER_TURNS)
    {
        failure::die(b"cannot map the order of this run's inputs", 0);
    }
    let new = header_at(OTHER_TURNS);
    let old = header();
    if (new.magic, new.version, new.threads, new.runs) != (old.magic, old.version, old.threads, old.runs)
        || bytes != bytes_of(new)
    {
        failure::die(b"this is not the order of this run's inputs", 0);
    }
    turns::now().number_edits_again(edits_at(TURNS), edits_at(OTHER_TURNS));
    if !is_mapped(TURNS) {
        failure::die(b"cannot map the order of this run's inputs", 0);
    }
    sys::close(file);
    // SAFETY: nobody looks there any more.
    unsafe { sys::unmap(OTHER_TURNS, bytes.next_multiple_of(4096) as usize) };
    turns::now().forget_points();
    points::open();
    accesses::open_file();
}

fn bytes_of(header: &TurnsHeader) -> u64 {
    size_of::<TurnsHeader>() as u64
        + header.threads as u64 * size_of::<ThreadTurns>() as u64
        + header.runs * size_of::<TurnRun>() as u64
        + header.edits * size_of::<EditEntry>() as u64
}

pub fn header() -> &'static TurnsHeader {
    header_at(TURNS)
}

fn header_at(place: u64) -> &'static TurnsHeader {
    // SAFETY: `map_file` mapped at least a header here, for good; and `open_again` as long as it looks at it.
    unsafe { &*(place as *const TurnsHeader) }
}

fn threads_at(place: u64) -> &'static [ThreadTurns] {
    let at = place as usize + size_of::<TurnsHeader>();
    // SAFETY: `map_file` found the file to be exactly as long as its header says.
    unsafe { core::slice::from_raw_parts(at as *const ThreadTurns, header_at(place).threads as usize) }
}

/// The runs of a file that `map_file` has mapped there.
pub fn runs_at(place: u64) -> &'static [TurnRun] {
    let at = threads_at(place).as_ptr_range().end;
    // SAFETY: `map_file` found the file to be exactly as long as its header says; the runs follow the threads.
    unsafe { core::slice::from_raw_parts(at.cast(), header_at(place).runs as usize) }
}

fn edits_at(place: u64) -> &'static [EditEntry] {
    let header = header_at(place);
    let before = bytes_of(header) - header.edits * size_of::<EditEntry>() as u64;
    // SAFETY: `map_file` found the file to be exactly as long as its header says; it ends with the edits.
    unsafe { core::slice::from_raw_parts((place + before) as *const EditEntry, header.edits as usize) }
}
