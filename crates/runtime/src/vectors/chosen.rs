//! Method coop: the elements whose vectors are recorded, as the tool has chosen them, and the table of who used each last. The table is a file of the run's: how long the
//! last run of an element is, no record says.
use crate::control;
use crate::control::VectorUse;
use crate::failure;
use crate::run_directory;
use crate::sys;
use crate::this_machine::ThisMachine;
use access_protocol::Element;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::memory_map;
use runtime_abi::vectors_file::CHOSEN_FILE_NAME;
use runtime_abi::vectors_file::ELEMENTS_FILE_NAME;
use runtime_abi::vectors_file::ELEMENTS_MAX;
use runtime_abi::vectors_file::KeptElement;

const _: () = assert!(size_of::<Element<ThisMachine>>() == size_of::<KeptElement>());

/// How many are chosen; written before there is a second thread, as is the other.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);
static IS_KEPT: AtomicBool = AtomicBool::new(false);
/// The same table, where nobody keeps it.
static ELEMENTS: [Element<ThisMachine>; ELEMENTS_MAX] = [const { Element::FREE }; ELEMENTS_MAX];

pub fn open() {
    let chosen = match run_directory::open(CHOSEN_FILE_NAME.as_bytes(), libc::O_RDONLY) {
        Ok(file) => file,
        Err(errno) => failure::die(b"cannot open the list of the elements that are to be recorded", errno),
    };
    let bytes = sys::file_bytes(chosen);
    if bytes > memory_map::CHOSEN.bytes
        || (bytes != 0 && sys::map_to_read(memory_map::CHOSEN.start, bytes as usize, chosen, 0).is_err())
    {
        failure::die(b"cannot map the list of the elements that are to be recorded", 0);
    }
    sys::close(chosen);
    CHOSEN.store(bytes as usize / size_of::<u32>(), Relaxed);
    for element in listed() {
        let (word, bit) = mark(*element);
        word.fetch_or(bit, Relaxed);
    }
    let flags = libc::O_RDWR | libc::O_CREAT;
    let Ok(table) = run_directory::open(ELEMENTS_FILE_NAME.as_bytes(), flags) else {
        failure::die(b"cannot create the table of elements in the run directory", 0)
    };
    sys::make_private(table);
    let table_bytes = ELEMENTS_MAX * size_of::<KeptElement>();
    if sys::set_length(table, table_bytes as u64).is_err()
        || sys::map_at(memory_map::ELEMENTS.start, table_bytes, table, 0, false).is_err()
    {
        failure::die(b"cannot map the table of elements in the run directory", 0);
    }
    sys::close(table);
    IS_KEPT.store(true, Relaxed);
}

/// A forked process: what it does is in none of its parent's vectors, and it keeps to none.
pub fn forget() {
    IS_KEPT.store(false, Relaxed);
    if control::follows_vectors() {
        control::use_vectors(VectorUse::None);
    }
}

/// A bit for what ids are in their lower part: where there is none, no element is chosen. Most elements that are not chosen are told from others by it alone.
static MARKS: [AtomicU64; MARKS_WORDS] = [const { AtomicU64::new(0) }; MARKS_WORDS];
const MARKS_WORDS: usize = 1 << 7;

fn mark(element: u32) -> (&'static AtomicU64, u64) {
    (&MARKS[(element >> 6) as usize % MARKS_WORDS], 1 << (element % 64))
}

/// Is the vector of this element recorded?
#[inline]
pub fn chooses(element: u32) -> bool {
    let (word, bit) = mark(element);
    // Relaxed: written before there is a second thread.
    word.load(Relaxed) & bit != 0 && is_listed(element)
}

fn is_listed(element: u32) -> bool {
    element != 0 && listed().binary_search(&element).is_ok()
}

/// The chosen elements, sorted.
fn listed() -> &'static [u32] {
    match CHOSEN.load(Relaxed) {
        0 => &[],
        // SAFETY: `open` has mapped so many numbers there, and nobody unmaps them.
        count => unsafe { core::slice::from_raw_parts(memory_map::CHOSEN.start as *const u32, count) },
    }
}

/// The table of elements.
#[inline]
pub fn elements() -> &'static [Element<ThisMachine>] {
    match IS_KEPT.load(Relaxed) {
        // SAFETY: `open` has mapped a table of this length there, zeros at first, which is what free elements are; nobody unmaps it.
        true => unsafe { core::slice::from_raw_parts(memory_map::ELEMENTS.start as *const _, ELEMENTS_MAX) },
        false => &ELEMENTS,
    }
}
