//! An attempt to bring a failure back: the program is recorded as ever, but threads keep to access vectors that come from logs of other runs (CoopREP, §IV-D).
//!
//! Each vector says whose turn it is at its element, and for how many accesses. Whoever comes when it is somebody else's turn waits. Vectors of different runs may
//! contradict each other; then all threads stand still. If the attempt is strict, that is its end. If not, the vector that is let go is the softest of those that
//! somebody waits at, and the program goes on with the rest.
//!
//! Only the thread whose turn it is moves the turn on, so nothing here is locked. Whether all stand still, a thread that has waited for a while finds out: a
//! thread that neither waits for a turn nor sleeps in the kernel may still go on. One that sleeps for a time wakes by itself. If all stand and nobody waits for a
//! turn, no vector is to blame: the program hangs, as it may have when it was recorded.
use super::wakes;
use crate::control;
use crate::failure;
use crate::local::Local;
use crate::run_directory;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use runtime_abi::THREADS_MAX;
use runtime_abi::memory_map::FOLLOWED;
use runtime_abi::memory_map::VECTORS;
use runtime_abi::thread_state;
use runtime_abi::vectors_file::ElementEntry;
use runtime_abi::vectors_file::ElementState;
use runtime_abi::vectors_file::FOLLOWED_FILE_NAME;
use runtime_abi::vectors_file::FollowedHeader;
use runtime_abi::vectors_file::HANGS;
use runtime_abi::vectors_file::MAGIC;
use runtime_abi::vectors_file::NO_NAME;
use runtime_abi::vectors_file::NameEntry;
use runtime_abi::vectors_file::RunEntry;
use runtime_abi::vectors_file::UNNAMED_ELEMENT;
use runtime_abi::vectors_file::VECTORS_FILE_NAME;
use runtime_abi::vectors_file::VectorsHeader;

/// How often a turn is looked for before the thread sleeps.
const LOOKS: u32 = 200;
/// How long it sleeps until it asks whether all stand still.
pub const PATIENCE_NS: u64 = 2_000_000;
/// How often in a row all must be seen to stand.
const LOOKS_AT_ALL: u32 = 2;

/// Of each thread: one more than the index of the element at which it waits, and its name in the lower half; or 0.
static WAITS_AT: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(0) }; THREADS_MAX];
/// Of each thread: 1 if it is its turn there, or anybody's, and what it lacks is a wake-up.
static LACKS_WAKE: [AtomicU32; THREADS_MAX] = [const { AtomicU32::new(0) }; THREADS_MAX];
/// Of each thread that libc is about to create: one more than the index of who creates it; or 0.
static CREATED_BY: [AtomicU32; THREADS_MAX] = [const { AtomicU32::new(0) }; THREADS_MAX];
/// What the last look at all threads found: so many changes of turn, and so often in a row that all stood.
static LOOKED: AtomicU64 = AtomicU64::new(0);
static STOOD: AtomicU32 = AtomicU32::new(0);
/// Held by who looks at all threads.
static LOOKING: AtomicU32 = AtomicU32::new(0);

/// Maps the vectors, which the tool has just written, and how far threads have come.
pub fn open() {
    let file = match run_directory::open(VECTORS_FILE_NAME.as_bytes(), libc::O_RDONLY) {
        Ok(file) => file,
        Err(errno) => failure::die(b"cannot open the access vectors of this attempt", errno),
    };
    let bytes = sys::file_bytes(file);
    let fits = bytes >= size_of::<VectorsHeader>() as u64 && VECTORS.has_room_for(bytes);
    if !fits || sys::map_to_read(VECTORS.start, bytes as usize, file, 0).is_err() {
        failure::die(b"cannot map the access vectors of this attempt", 0);
    }
    sys::close(file);
    let header = header();
    let expected = size_of::<VectorsHeader>() as u64
        + u64::from(header.names) * size_of::<NameEntry>() as u64
        + u64::from(header.elements) * size_of::<ElementEntry>() as u64
        + header.runs.saturating_mul(size_of::<RunEntry>() as u64);
    let are_inside = || {
        let ends = |element: &ElementEntry| element.first.checked_add(element.runs);
        elements()
            .iter()
            .all(|element| ends(element).is_some_and(|end| end <= header.runs))
    };
    let state_bytes = size_of::<FollowedHeader>() + header.elements as usize * size_of::<ElementState>();
    if header.magic != MAGIC || expected != bytes || state_bytes as u64 > FOLLOWED.bytes || !are_inside() {
        failure::die(b"the access vectors of this attempt are damaged", 0);
    }
    let Ok(file) = run_directory::open(FOLLOWED_FILE_NAME.as_bytes(), libc::O_RDWR | libc::O_CREAT) else {
        failure::die(b"cannot create a file in the run directory", 0)
    };
    sys::make_private(file);
    if sys::set_length(file, state_bytes as u64).is_err()
        || sys::map_at(FOLLOWED.start, state_bytes, file, 0, false).is_err()
    {
        failure::die(b"cannot map a file of the run directory", 0);
    }
    sys::close(file);
}

fn header() -> &'static VectorsHeader {
    // SAFETY: `open` has mapped at least a header there, and nobody unmaps it.
    unsafe { &*(VECTORS.start as *const VectorsHeader) }
}

fn names() -> &'static [NameEntry] {
    let start = VECTORS.start as usize + size_of::<VectorsHeader>();
    // SAFETY: `open` has found the file as long as its header says.
    unsafe { core::slice::from_raw_parts(start as *const NameEntry, header().names as usize) }
}

fn elements() -> &'static [ElementEntry] {
    let start = names().as_ptr_range().end as usize;
    // SAFETY: the same.
    unsafe { core::slice::from_raw_parts(start as *const ElementEntry, header().elements as usize) }
}

fn runs(element: &ElementEntry) -> &'static [RunEntry] {
    let start = elements().as_ptr_range().end as usize;
    // SAFETY: the same; that an element's runs are among them, `open` has found as well.
    unsafe {
        core::slice::from_raw_parts(
            (start as *const RunEntry).add(element.first as usize),
            element.runs as usize,
        )
    }
}

pub fn followed() -> &'static FollowedHeader {
    // SAFETY: `open` has mapped it there; it consists of atomics.
    unsafe { &*(FOLLOWED.start as *const FollowedHeader) }
}

fn states() -> &'static [ElementState] {
    let start = FOLLOWED.start as usize + size_of::<FollowedHeader>();
    // SAFETY: `open` has mapped a state for each element; they consist of atomics, and zeros are none used yet.
    unsafe { core::slice::from_raw_parts(start as *const ElementState, header().elements as usize) }
}

/// Where an element stands among those that have a vector.
fn place(element: u32) -> Option<usize> {
    let elements = elements();
    elements.binary_search_by_key(&element, |entry| entry.id).ok()
}

/// Has the element a vector, still?
pub fn has(element: u32) -> bool {
    place(element).is_some_and(|at| states()[at].is_let_go.load(Relaxed) == 0)
}

/// Has the element a vector, or had it one?
pub fn had(element: u32) -> bool {
    place(element).is_some()
}

/// The name of the `nth` thread that the one with this name creates.
pub fn child(parent: u32, nth: u32) -> u32 {
    let found = names()
        .iter()
        .skip(1)
        .position(|name| *name == NameEntry { parent, nth });
    found.map_or(NO_NAME, |at| at as u32 + 1)
}

/// Whose turn it is; nothing if the vector is over, or let go.
fn turn(at: usize) -> Option<u32> {
    let state = &states()[at];
    if state.is_let_go.load(Relaxed) != 0 {
        return None;
    }
    // Acquire: pairs with the Release in `pass_turn`; what was done in earlier turns is seen.
    let run = state.run.load(Acquire);
    runs(&elements()[at]).get(run as usize).map(|run| run.name)
}

impl Local {
    /// Waits until it is this thread's turn at the element, if that has a vector.
    pub fn await_turn(&self, element: u32) {
        let name = self.vectors.name.get();
        let Some(at) = place(element).filter(|_| name != NO_NAME) else {
            return;
        };
        let is_free = || turn(at).is_none_or(|whose| whose == name);
        for _ in 0..LOOKS {
            if is_free() {
                return;
            }
            core::hint::spin_loop();
        }
        let state = &states()[at];
        WAITS_AT[self.index as usize].store((at as u64 + 1) << 32 | u64::from(name), Release);
        state.sleepers.fetch_add(1, SeqCst);
        // As if in a call that blocks: who looks at all threads sees what it waits for.
        self.access.blocking(|| {
            loop {
                let seen = state.turn.load(SeqCst);
                if is_free() {
                    break;
                }
                sys::futex_wait(&state.turn, seen, PATIENCE_NS);
                if state.turn.load(Relaxed) == seen {
                    look_at_all();
                }
            }
        });
        state.sleepers.fetch_sub(1, SeqCst);
        WAITS_AT[self.index as usize].store(0, Release);
    }

    /// The thread has its turn at a condition, and has not been woken. `sleep` says whether nothing has happened.
    pub fn lack_wake(&self, element: u32, sleep: impl FnOnce() -> bool) {
        let Some(at) = place(element) else { return };
        let me = self.index as usize;
        LACKS_WAKE[me].store(1, Relaxed);
        WAITS_AT[me].store((at as u64 + 1) << 32 | u64::from(self.vectors.name.get()), Release);
        self.access.blocking(|| {
            if sleep() {
                look_at_all();
            }
        });
        WAITS_AT[me].store(0, Release);
        LACKS_WAKE[me].store(0, Relaxed);
    }

    /// An access of this thread's is over: if it was the last of its run, it is the next one's turn.
    pub fn pass_turn(&self, element: u32) {
        let Some(at) = place(element).filter(|at| turn(*at) == Some(self.vectors.name.get())) else {
            return;
        };
        let state = &states()[at];
        let run = state.run.load(Relaxed);
        let done = state.done.load(Relaxed) + 1;
        if done < runs(&elements()[at])[run as usize].accesses {
            state.done.store(done, Relaxed);
            return;
        }
        state.done.store(0, Relaxed);
        // Release: pairs with the Acquire in `turn`.
        state.run.store(run + 1, Release);
        announce(state);
    }

    /// An access, when it is its turn.
    #[inline(never)]
    pub fn in_turn<R>(&self, access: impl FnOnce() -> R) -> R {
        let element = match self.access.element.get() {
            0 => UNNAMED_ELEMENT,
            element => element,
        };
        self.await_turn(element);
        let result = access();
        self.pass_turn(element);
        result
    }
}

/// The turn at an element has changed, or there are no turns there any more.
fn announce(state: &ElementState) {
    followed().advances.fetch_add(1, Relaxed);
    // SeqCst: whoever is about to sleep is counted, or sees the new word.
    state.turn.fetch_add(1, SeqCst);
    if state.sleepers.load(SeqCst) != 0 {
        sys::futex_wake_all(&state.turn);
    }
}

/// Do all threads stand still? Then something has to give.
fn look_at_all() {
    // Acquire and Release: one looks at a time.
    if LOOKING.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        return;
    }
    let before = followed().advances.load(SeqCst);
    let rest = all_rest();
    let stand = rest != Rest::None && followed().advances.load(SeqCst) == before;
    if !stand || LOOKED.swap(before, Relaxed) != before {
        STOOD.store(u32::from(stand), Relaxed);
    } else if STOOD.fetch_add(1, Relaxed) + 1 >= LOOKS_AT_ALL {
        STOOD.store(0, Relaxed);
        give_way(rest);
    }
    LOOKING.store(0, Release);
}

/// How a thread stands still. In ascending order of how sure it is that only another thread can end that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    /// It does not.
    None,
    /// In a call of the kernel's that somebody outside may end.
    InCall,
    /// For a lock, a thread's end, a wake-up, or a turn.
    ForOthers,
}

/// The least sure of all threads.
fn all_rest() -> Rest {
    let threads = 0..control::header().progress.threads.load(Acquire);
    let rests = threads.into_iter().map(rest_of);
    rests.min().unwrap_or(Rest::None)
}

fn rest_of(thread: u32) -> Rest {
    let slot = control::slot(thread);
    let is_resting = match slot.state.load(Acquire) {
        // Created, and not there yet. While its creator waits for a turn in the middle of that (libc allocates memory), it does not come.
        thread_state::UNUSED => match CREATED_BY[thread as usize].load(Acquire) {
            0 => false,
            creator => waits_at(creator - 1).is_some(),
        },
        thread_state::EXITED => true,
        _ => match waits_at(thread) {
            Some(_) if lacks_wake(thread) => !wakes::is_woken(thread),
            // Whose turn has come is about to find out.
            Some((at, name)) => turn(at).is_some_and(|whose| whose != name),
            None => return rest_in_kernel(slot.os_thread.load(Relaxed)),
        },
    };
    if is_resting { Rest::ForOthers } else { Rest::None }
}

/// The element at which a thread waits, and the thread's name.
fn waits_at(thread: u32) -> Option<(usize, u32)> {
    let word = WAITS_AT[thread as usize].load(Acquire);
    (word != 0).then(|| ((word >> 32) as usize - 1, word as u32))
}

/// `create` has libc create a thread.
pub fn creating<R>(creator: u32, child: u32, create: impl FnOnce() -> R) -> R {
    let place = &CREATED_BY[child as usize];
    // Release: pairs with the Acquire in `rest_of`.
    place.store(creator + 1, Release);
    let result = create();
    place.store(0, Release);
    result
}

fn lacks_wake(thread: u32) -> bool {
    LACKS_WAKE[thread as usize].load(Relaxed) != 0
}

/// Does a thread sleep in the kernel, until another one does something?
fn rest_in_kernel(id: u32) -> Rest {
    let mut path = crate::line::Line::default();
    path.text(b"/proc/self/task/");
    path.number(u64::from(id));
    path.text(b"/syscall\0");
    let Ok(file) = sys::open(path.bytes(), libc::O_RDONLY) else {
        // It is gone.
        return Rest::ForOthers;
    };
    let mut text = [0u8; 192];
    let got = sys::read(file, &mut text).max(0) as usize;
    sys::close(file);
    // "running", or the number of the call and its arguments.
    let mut words = text[..got].split(|byte| *byte == b' ');
    let word = words.next().unwrap_or(&[]);
    let is_call = word.first().is_some_and(u8::is_ascii_digit);
    let number = word
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0i64, |number, byte| number * 10 + i64::from(byte - b'0'));
    // Behind the address, the operation and the value.
    let mut has_timeout = || words.nth(3).is_none_or(|timeout| timeout != b"0x0");
    match number {
        _ if !is_call => Rest::None,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Rest::None,
        libc::SYS_futex if has_timeout() => Rest::InCall,
        libc::SYS_futex => Rest::ForOthers,
        _ => Rest::InCall,
    }
}

/// All stand: the softest vector that somebody waits at is let go, or that was the end.
fn give_way(rest: Rest) {
    let threads = || 0..control::header().progress.threads.load(Acquire);
    // Whom the vector lets go on, and nobody has woken, is kept up by the vector, too: it says that somebody has.
    let is_kept_up = |thread: u32, at: usize, name: u32| match turn(at) {
        Some(whose) => whose != name || lacks_wake(thread),
        None => false,
    };
    let kept_up_at = |at: usize| {
        threads()
            .any(|thread| waits_at(thread).is_some_and(|(place, name)| place == at && is_kept_up(thread, place, name)))
    };
    let waited = || (0..elements().len()).filter(|at| has(elements()[*at].id) && kept_up_at(*at));
    waited().for_each(|at| states()[at].was_blamed.store(1, Relaxed));
    let softest = waited().max_by_key(|at| (elements()[*at].rank, elements()[*at].id));
    match softest {
        None if rest == Rest::ForOthers => hang(),
        None => {}
        Some(_) if header().is_strict != 0 => {
            followed().is_stuck.store(1, SeqCst);
            // SAFETY: ends the process.
            unsafe { sys::syscall(libc::SYS_exit_group, [STUCK_STATUS, 0, 0, 0, 0, 0]) };
        }
        Some(softest) => {
            states()[softest].is_let_go.store(1, SeqCst);
            announce(&states()[softest]);
        }
    }
}

/// Nobody goes on, whatever vectors say. Waiting for the time-out would show nothing else, so it has come.
fn hang() {
    followed().is_stuck.store(HANGS, SeqCst);
    // SAFETY: ends the process, as the tool does that waits no longer.
    unsafe {
        let process = sys::syscall(libc::SYS_getpid, [0; 6]) as usize;
        sys::syscall(libc::SYS_kill, [process, libc::SIGKILL as usize, 0, 0, 0, 0]);
    }
}

/// The tool looks at the file; this is for people who look at the process.
const STUCK_STATUS: usize = 124;
