//! Words of functions that say which version of them runs (`crates/instrumentor/pass/parts.h`): objects built with `--coop` register them when they are loaded, and
//! they are written here, when it is known what is observed. Until then, and where nothing is observed, they are 0: the program's own code.
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::PART_BITS;

const OBJECTS_MAX: usize = 256;
/// Everything is observed.
const WHOLE: u64 = u64::MAX;
/// Of a record: its word, and how many elements it has.
const HEADER_BYTES: u64 = 12;

struct Object {
    /// 0: there is none, or it has gone away.
    start: AtomicU64,
    stop: AtomicU64,
}

/// Written under the loader's lock, as `sites::REGISTERED`.
static OBJECTS: [Object; OBJECTS_MAX] = [const {
    Object {
        start: AtomicU64::new(0),
        stop: AtomicU64::new(0),
    }
}; OBJECTS_MAX];

/// Are plain accesses observed?
static IS_OBSERVED: AtomicBool = AtomicBool::new(false);
/// A `Chooses`, or null: everything is chosen. Written before there is a second thread.
static CHOOSES: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Is the vector of the element with this id recorded?
pub type Chooses = fn(u32) -> bool;

/// A part is recorded: only versions that observe what is chosen run from now on.
pub fn choose_by(chooses: Chooses) {
    CHOOSES.store(chooses as *mut (), Release);
    write_all();
}

fn chooses() -> Option<Chooses> {
    let function = CHOOSES.load(Acquire);
    // SAFETY: `choose_by` alone stores something else than null, and that is such a function.
    (!function.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), Chooses>(function) })
}

/// An object's section is there. If there is no room for it, nothing of it would be observed: an error.
pub fn register(start: *const u8, stop: *const u8) -> Result<(), ()> {
    let mut is_known = OBJECTS.iter().map(|object| object.start.load(Relaxed));
    if is_known.any(|known| known == start as u64) {
        return Ok(());
    }
    let free = OBJECTS
        .iter()
        .find(|object| object.start.load(Relaxed) == 0)
        .ok_or(())?;
    free.stop.store(stop as u64, Relaxed);
    // Release: whoever finds it finds its end.
    free.start.store(start as u64, Release);
    write_words(start as u64, stop as u64);
    Ok(())
}

/// It is about to go away.
pub fn forget(start: *const u8) {
    if let Some(object) = OBJECTS.iter().find(|object| object.start.load(Relaxed) == start as u64) {
        object.start.store(0, Relaxed);
    }
}

/// Plain accesses are observed from now on, or not any more.
pub fn observe(observed: bool) {
    IS_OBSERVED.store(observed, Relaxed);
    write_all();
}

fn write_all() {
    for object in &OBJECTS {
        // Acquire: pairs with the Release in `register`.
        match object.start.load(Acquire) {
            0 => {}
            start => write_words(start, object.stop.load(Relaxed)),
        }
    }
}

fn write_words(start: u64, stop: u64) {
    let chooses = chooses();
    let mut at = start;
    while at + HEADER_BYTES <= stop {
        // SAFETY: the section of an object that is loaded: a record begins here, with a word that only we write, and as many elements behind their number as that
        // says. Compiled code reads the word as it is; who sees it late runs another version of the same code.
        let (word, elements) = unsafe {
            let count = ((at + 8) as *const u32).read();
            let elements = core::slice::from_raw_parts((at + HEADER_BYTES) as *const u32, count as usize);
            (&*(at as *const AtomicU64), elements)
        };
        let wanted = match chooses {
            _ if !IS_OBSERVED.load(Relaxed) => 0,
            Some(chooses) => bits(elements, chooses),
            None => WHOLE,
        };
        // Words that stay what they are cost no page of memory.
        if word.load(Relaxed) != wanted {
            word.store(wanted, Relaxed);
        }
        at = (at + HEADER_BYTES + 4 * elements.len() as u64).next_multiple_of(8);
    }
}

/// The last bit is that of all elements that have none of their own.
fn bits(elements: &[u32], chooses: Chooses) -> u64 {
    let chosen = elements.iter().enumerate().filter(|(_, id)| chooses(**id));
    chosen.fold(0, |bits, (at, _)| bits | 1 << at.min(PART_BITS as usize - 1))
}
