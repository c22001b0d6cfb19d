//! Accesses to memory that threads may share, one by one: written down for a search, or held back as an edit says.
//!
//! While this is on, the program's memory is protected, so that each access is a fault. The fault's handler lifts the protection of
//! the page and has the processor trap after one instruction; then the page is protected again. Only the thread that has the turn runs, so
//! nobody else gets through meanwhile. Stacks, libc's own data and ours are left alone.
//!
//! The protection is lifted altogether while the thread is in a system call, or in a function of libc's that synchronises
//! (`quietly`): neither can do with faults, and what they do to memory is not what threads race for.
use crate::control;
use crate::failure;
use crate::handlers;
use crate::handlers::Kept;
use crate::local::Local;
use crate::sys;
use crate::this_machine::ThisMachine;
use crate::turns;
use crate::turns::labels;
use crate::turns::order;
use crate::turns::turn_state;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::memory_map;
use runtime_abi::turns_file::ACCESSES_FILE_NAME;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::flag;
use runtime_abi::turns_file::what;
use turn_scheduler::State;
use turn_scheduler::TurnState;
use turn_scheduler::is_synchronisation;

const ACCESSES: u64 = memory_map::ACCESSES.start;
const PAGE: u64 = 4096;
/// Accesses are told apart by cells of this size.
const CELL: u64 = 8;
/// A mapping that is larger is none of the program's.
const REGION_MAX: u64 = 1 << 32;
const REGIONS_MAX: usize = 256;
/// Pages that one instruction can touch.
const PAGES_MAX: usize = 8;
const COUNTS: usize = 1 << 18;
/// Places in which a count may be.
const PROBES: usize = 64;
/// The trap flag of the processor.
const TRAP: i64 = 1 << 8;

/// One of the program's mappings, or a page of it.
struct Region {
    start: AtomicU64,
    end: AtomicU64,
}

static REGIONS: [Region; REGIONS_MAX] = [const {
    Region {
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
    }
}; REGIONS_MAX];
static REGION_COUNT: AtomicUsize = AtomicUsize::new(0);

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Are accesses written down, or only those of reversals of interest?
static IS_TRACED: AtomicBool = AtomicBool::new(false);
/// Protected now?
static IS_SHUT: AtomicBool = AtomicBool::new(false);
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// What was there for faults and traps before.
static OLD: [Kept; 2] = [const { Kept::new() }; 2];

/// The instruction under way: pages that are open for it, the signals its thread had blocked, and its access.
static OPEN: [AtomicU64; PAGES_MAX] = [const { AtomicU64::new(0) }; PAGES_MAX];
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);
static NOW: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// How often each thread has accessed each cell in its block.
struct Count {
    cell: AtomicU64,
    thread: AtomicU32,
    /// The block's calls and number, mixed.
    block: AtomicU64,
    count: AtomicU64,
}

static TIMES: [Count; COUNTS] = [const {
    Count {
        cell: AtomicU64::new(0),
        thread: AtomicU32::new(0),
        block: AtomicU64::new(0),
        count: AtomicU64::new(0),
    }
}; COUNTS];

/// The order has been mapped: nothing is protected yet.
pub fn open() {
    IS_ON.store(false, Relaxed);
    IS_SHUT.store(false, Relaxed);
    WRITTEN.store(0, Relaxed);
    OPEN_COUNT.store(0, Relaxed);
    open_file();
}

/// What is found is written down here, if that is wanted.
pub fn open_file() {
    WRITTEN.store(0, Relaxed);
    let bytes = order::header().accesses_max * size_of::<AccessEntry>() as u64;
    if bytes == 0 {
        return;
    }
    let mut buffer = [0; 4352];
    let path = control::path_in_run(ACCESSES_FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) else {
        return;
    };
    if !memory_map::ACCESSES.has_room_for(bytes)
        || sys::set_length(file, bytes).is_err()
        || sys::map_at(ACCESSES, bytes as usize, file, 0, true).is_err()
    {
        failure::die(b"cannot map the file for accesses", 0);
    }
    sys::close(file);
}

/// The thread has had another input, or begins: is this where its accesses are of interest?
pub fn look(thread: u32) {
    // Before the program begins there is nothing of interest, and much that is not in place.
    if IS_ON.load(Relaxed) || control::header().progress.attached.load(Relaxed) == 0 {
        return;
    }
    let calls = turn_state(thread).place(thread).calls;
    let is_traced = order::header().accesses_max > 0 && calls >= turns::now().window_of(thread);
    let concerns = |place: &Place| !is_synchronisation(place) && place.thread == thread && calls >= place.calls;
    let is_reversed = || {
        turns::now()
            .reversals()
            .any(|(_, made)| concerns(&made.at) || concerns(&made.until))
    };
    if is_traced || is_reversed() {
        begin(thread, is_traced);
    }
}

fn begin(me: u32, is_traced: bool) {
    IS_TRACED.store(is_traced, Relaxed);
    find_regions(is_traced);
    for (which, signal) in [libc::SIGSEGV, libc::SIGTRAP].into_iter().enumerate() {
        let handler = if which == 0 { on_fault } else { on_trap };
        OLD[which].set(&handlers::replace(signal as usize, handler));
    }
    IS_ON.store(true, Relaxed);
    if !turn_state(me).is_quiet() {
        shut();
    }
}

/// The writable mappings of the program; of those, only the pages of reversals if that is enough.
fn find_regions(is_traced: bool) {
    REGION_COUNT.store(0, Relaxed);
    let Ok(file) = sys::open(b"/proc/self/maps\0", libc::O_RDONLY) else {
        return;
    };
    let mut line = Line::new();
    let (mut after_foreign, mut after_guard) = (0, 0);
    let mut buffer = [0; 1024];
    loop {
        let got = sys::read(file, &mut buffer);
        if got <= 0 {
            break;
        }
        for byte in &buffer[..got as usize] {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            let (start, end) = (line.start, line.end);
            let is_foreign = line.is_foreign() || line.is_anonymous() && start == after_foreign;
            if is_foreign {
                after_foreign = end;
            }
            let holds = |address: &u64| (start..end).contains(address);
            let is_of_thread = |state: &TurnState<ThisMachine>| state.own_memory().iter().any(holds);
            // The stack of a thread, perhaps of one that has not begun.
            let is_stack = line.is_anonymous() && start == after_guard;
            if line.is_guard() {
                after_guard = end;
            }
            if line.is_writable()
                && !is_foreign
                && end - start <= REGION_MAX
                && !memory_map::RUNTIME.contains(start)
                && !is_stack
                && !turns::now().all().any(is_of_thread)
            {
                add(start, end, is_traced);
            }
            line = Line::new();
        }
    }
    sys::close(file);
}

fn add(start: u64, end: u64, is_traced: bool) {
    if is_traced {
        return push(start, end);
    }
    for (_, made) in turns::now().reversals() {
        let is_access = |place: &&Place| !is_synchronisation(place);
        for place in [&made.at, &made.until].into_iter().filter(is_access) {
            let page = place.address / PAGE * PAGE;
            if (start..end).contains(&page) && region_of(page).is_none() {
                push(page, page + PAGE);
            }
        }
    }
}

fn push(start: u64, end: u64) {
    let count = REGION_COUNT.load(Relaxed);
    if let Some(region) = REGIONS.get(count) {
        region.start.store(start, Relaxed);
        region.end.store(end, Relaxed);
        REGION_COUNT.store(count + 1, Relaxed);
    }
}

fn regions() -> &'static [Region] {
    &REGIONS[..REGION_COUNT.load(Relaxed)]
}

fn region_of(address: u64) -> Option<&'static Region> {
    let holds = |region: &&Region| (region.start.load(Relaxed)..region.end.load(Relaxed)).contains(&address);
    regions().iter().find(holds)
}

/// As much of a line of `/proc/self/maps` as is of interest.
struct Line {
    start: u64,
    end: u64,
    at: usize,
    field: usize,
    permissions: [u8; 4],
    /// The last bytes of the name.
    name: [u8; 32],
    name_bytes: usize,
}

impl Line {
    fn new() -> Line {
        Line {
            start: 0,
            end: 0,
            at: 0,
            field: 0,
            permissions: [0; 4],
            name: [0; 32],
            name_bytes: 0,
        }
    }

    fn push(&mut self, byte: u8) {
        match (self.field, byte) {
            (0, b'-') | (1..=5, b' ') if self.at > 0 => (self.field, self.at) = (self.field + 1, 0),
            (_, b' ') if self.at == 0 => {}
            (0, digit) => (self.start, self.at) = (self.start << 4 | hex(digit), 1),
            (1, digit) => (self.end, self.at) = (self.end << 4 | hex(digit), 1),
            (2, letter) => {
                if let Some(place) = self.permissions.get_mut(self.at) {
                    *place = letter;
                }
                self.at += 1;
            }
            (3..=5, _) => self.at = 1,
            (_, letter) => {
                self.name.rotate_left(1);
                self.name[31] = letter;
                self.name_bytes += 1;
                self.at = 1;
            }
        }
    }

    fn is_writable(&self) -> bool {
        self.permissions == *b"rw-p"
    }

    fn is_guard(&self) -> bool {
        self.permissions == *b"---p" && self.is_anonymous()
    }

    fn is_anonymous(&self) -> bool {
        self.name_bytes == 0
    }

    /// libc's, the loader's, ours, the main stack.
    fn is_foreign(&self) -> bool {
        let names: [&[u8]; 5] = [
            b"libc.so.6",
            b"ld-linux-x86-64.so.2",
            b"librefrain_runtime.so",
            b"[stack]",
            b"libpthread.so.0",
        ];
        names
            .iter()
            .any(|name| self.name_bytes >= name.len() && self.name.ends_with(name))
    }
}

fn hex(digit: u8) -> u64 {
    (digit as char).to_digit(16).unwrap_or(0).into()
}

fn protect(start: u64, end: u64, protection: c_int) {
    // SAFETY: pages of the program that were writable when they were found. If they are gone, nothing happens.
    unsafe {
        sys::syscall(
            libc::SYS_mprotect,
            [start as usize, (end - start) as usize, protection as usize, 0, 0, 0],
        )
    };
}

fn set_all(protection: c_int) {
    for region in regions() {
        protect(region.start.load(Relaxed), region.end.load(Relaxed), protection);
    }
}

pub fn shut() {
    if !IS_SHUT.swap(true, Relaxed) {
        set_all(libc::PROT_NONE);
    }
}

pub fn lift() {
    if IS_SHUT.swap(false, Relaxed) {
        set_all(libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// Does `action` with all memory open, if the calling thread has the turn. It may pass the turn meanwhile.
#[inline]
pub fn quietly<R>(action: impl FnOnce() -> R) -> R {
    // First: without turns, the thread may have a thread pointer of the program's (`clones::take_pointer`).
    if !turns::is_on() {
        return action();
    }
    let has_turn = |local: &&Local| turns::has_turn(local.index);
    let Some(me) = Local::current().filter(has_turn).map(|local| local.index) else {
        return action();
    };
    let was_quiet = turn_state(me).set_quiet(true);
    if IS_ON.load(Relaxed) {
        lift();
    }
    let result = action();
    turn_state(me).set_quiet(was_quiet);
    if !was_quiet {
        turn_state(me).leave_object();
    }
    if IS_ON.load(Relaxed) && !was_quiet {
        shut();
    }
    result
}

/// The turn is about to pass to `next`: memory is as that thread needs it.
pub fn pass_to(next: u32) {
    if !IS_ON.load(Relaxed) {
        return;
    }
    if turn_state(next).is_quiet() { lift() } else { shut() }
}

/// A call of the thread that has the turn may have changed mappings: what is a stack now, or somebody else's, is left alone.
pub fn after_call(number: c_long) {
    let changes_mappings = matches!(
        number,
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mremap | libc::SYS_mprotect | libc::SYS_brk
    );
    // All is open meanwhile: what is protected is no mapping of the program's for whoever looks for some.
    if changes_mappings && IS_ON.load(Relaxed) && !IS_SHUT.load(Relaxed) {
        find_regions(IS_TRACED.load(Relaxed));
    }
}

/// Not one of ours: as it would be without us.
fn leave_to_others(signal: c_int) {
    lift();
    IS_ON.store(false, Relaxed);
    REGION_COUNT.store(0, Relaxed);
    for (which, other) in [libc::SIGSEGV, libc::SIGTRAP].into_iter().enumerate() {
        handlers::set_real(other as usize, &OLD[which].get());
    }
    // A fault comes again by itself when we return.
    if signal == libc::SIGTRAP {
        // SAFETY: touches no memory.
        unsafe {
            sys::syscall(
                libc::SYS_tgkill,
                [
                    sys::process_id() as usize,
                    sys::thread_id() as usize,
                    signal as usize,
                    0,
                    0,
                    0,
                ],
            )
        };
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes what it knows about the fault.
    let address = unsafe { (*info).si_addr() } as u64;
    // SAFETY: the kernel's context of this thread.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let me = Local::current().map(|local| local.index);
    let Some(me) = me.filter(|me| IS_SHUT.load(Relaxed) && turns::has_turn(*me) && region_of(address).is_some()) else {
        return leave_to_others(signal);
    };
    if OPEN_COUNT.load(Relaxed) == 0 && is_full() {
        return leave_to_others(signal);
    }
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as u64;
    let is_write = registers[libc::REG_ERR as usize] & 2 != 0;
    let open = OPEN_COUNT.load(Relaxed);
    if open == 0 {
        let place = if labels::is_ours(at) || labels::is_the_loaders(at) {
            Place::default()
        } else {
            let place = identify(me, address / CELL * CELL);
            turns::now().hold_back(me, &place);
            write(&place, at, is_write);
            place
        };
        let words = [place.thread as u64, place.calls, place.nth, place.address, place.access];
        for (word, value) in NOW.iter().zip(words) {
            word.store(value, Relaxed);
        }
        // SAFETY: the kernel's set of signals is its first eight bytes.
        let mask = unsafe { &mut *(&raw mut context.uc_sigmask).cast::<u64>() };
        MASK.store(*mask, Relaxed);
        // All but faults: nothing may come between.
        *mask = !(1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGTRAP - 1));
        registers[libc::REG_EFL as usize] |= TRAP;
    }
    if open == PAGES_MAX {
        return leave_to_others(signal);
    }
    let page = address / PAGE * PAGE;
    OPEN[open].store(page, Relaxed);
    OPEN_COUNT.store(open + 1, Relaxed);
    protect(page, page + PAGE, libc::PROT_READ | libc::PROT_WRITE);
}

extern "C" fn on_trap(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let open = OPEN_COUNT.load(Relaxed);
    let Some(local) = Local::current().filter(|_| open != 0) else {
        return leave_to_others(signal);
    };
    for page in &OPEN[..open] {
        let page = page.load(Relaxed);
        protect(page, page + PAGE, libc::PROT_NONE);
    }
    OPEN_COUNT.store(0, Relaxed);
    // SAFETY: the kernel's context of this thread.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
    // SAFETY: the kernel's set of signals is its first eight bytes.
    unsafe { *(&raw mut context.uc_sigmask).cast::<u64>() = MASK.load(Relaxed) };
    let word = |i: usize| NOW[i].load(Relaxed);
    let place = Place {
        thread: word(0) as u32,
        reserved: 0,
        calls: word(1),
        nth: word(2),
        address: word(3),
        access: word(4),
    };
    if let Some(held) = turns::now().let_go(&place) {
        turns::now().go_to(local.index, held);
    }
}

/// The access in its thread's own terms.
fn identify(me: u32, cell: u64) -> Place {
    let mut place = turn_state(me).place(me);
    place.address = cell;
    let block = mixed(&place);
    let start = ((cell / CELL) ^ u64::from(me) << 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let places = || (0..PROBES).map(|step| &TIMES[(start as usize + step) % COUNTS]);
    let is_own = |count: &&Count| count.cell.load(Relaxed) == cell && count.thread.load(Relaxed) == me;
    // What a thread counted in an earlier block is of no use any more.
    let is_over = |count: &&Count| {
        let thread = count.thread.load(Relaxed);
        count.cell.load(Relaxed) == 0 || mixed(&turn_state(thread).place(thread)) != count.block.load(Relaxed)
    };
    // If there is no room, some accesses of a block look like its first ones.
    if let Some(count) = places().find(is_own).or_else(|| places().find(is_over)) {
        if !is_own(&count) || count.block.load(Relaxed) != block {
            count.cell.store(cell, Relaxed);
            count.thread.store(me, Relaxed);
            count.block.store(block, Relaxed);
            count.count.store(0, Relaxed);
        }
        place.access = count.count.load(Relaxed);
        count.count.store(place.access + 1, Relaxed);
    }
    place
}

/// A block of some thread, as a number.
fn mixed(block: &Place) -> u64 {
    block.calls.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.nth
}

fn write(place: &Place, label: u64, is_write: bool) {
    if place.calls < turns::now().window_of(place.thread) {
        return;
    }
    let writes = if is_write { flag::WRITES } else { 0 };
    let beyond = if turns::now().is_following() { flag::BEYOND } else { 0 };
    append(place, label, writes | beyond);
}

fn append(place: &Place, label: u64, flags: u32) {
    let written = WRITTEN.load(Relaxed);
    if written >= order::header().accesses_max {
        return;
    }
    let header = control::header();
    let entry = AccessEntry {
        place: *place,
        label,
        passed: header.turns.points_written.load(Relaxed),
        reached: header.turns.order_reached.load(Relaxed),
        flags,
        reserved: 0,
    };
    // SAFETY: `open` mapped so many; only who has the turn writes.
    unsafe {
        (ACCESSES as *mut AccessEntry)
            .wrapping_add(written as usize)
            .write(entry)
    };
    WRITTEN.store(written + 1, Relaxed);
    // Release: the tool reads as many as it says.
    header.turns.accesses_written.store(written + 1, Release);
}

/// Is there nothing more to write down, and nobody to hold back?
fn is_full() -> bool {
    WRITTEN.load(Relaxed) >= order::header().accesses_max && turns::now().reversals().next().is_none()
}

/// Are they so slow that time says nothing?
pub fn are_slow() -> bool {
    IS_SHUT.load(Relaxed)
}

/// Are accesses written down, now?
pub fn are_wanted() -> bool {
    order::header().accesses_max > 0 && IS_ON.load(Relaxed)
}

/// From this block on, its thread is followed.
pub fn note_followed(place: &Place) {
    append(place, 0, flag::BEYOND | flag::FOLLOWED);
}

/// A thread that is followed has come to a switch point.
pub fn note_synchronisation(place: &Place, what: u32, object: u64) {
    if what != what::INPUT && what != what::EVENT {
        let place = Place {
            address: object,
            ..*place
        };
        append(&place, 0, flag::BEYOND | flag::SYNCHRONISES);
    }
}

/// A copy of a process goes on, in the thread `me`: its edits may concern other memory, and have begun to.
pub fn go_on(me: u32) {
    let concerns = |thread: u32, place: &Place| {
        let is_there = place.thread == thread && turn_state(thread).state() != State::Gone;
        is_there && !is_synchronisation(place) && turn_state(thread).place(thread).calls >= place.calls
    };
    let has_begun = |place: &Place| concerns(place.thread.min(turns::now().count() - 1), place);
    let is_reversed = || {
        turns::now()
            .reversals()
            .any(|(_, made)| has_begun(&made.at) || has_begun(&made.until))
    };
    if IS_ON.load(Relaxed) {
        lift();
        REGION_COUNT.store(0, Relaxed);
        find_regions(false);
        if !turn_state(me).is_quiet() {
            shut();
        }
    } else if is_reversed() {
        begin(me, false);
    }
}
