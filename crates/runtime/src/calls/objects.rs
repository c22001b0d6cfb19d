//! Whose `syscall` instructions are replaced: libc's, and those of all objects that the process has or loads.
//!
//! Where they are in libc, the tool has found before the process began. About every other object it is asked when the object
//! is there, and its answer becomes part of the run: in replay the same objects are treated the same, and nobody is asked.
//! The loader says when it has mapped something, before any of that runs: it calls an empty function, for debuggers,
//! which becomes a jump to us.
use crate::callers;
use crate::calls::patch;
use crate::calls::patch::GuestCode;
use crate::calls::patch::Loaded;
use crate::calls::patch::Refusal;
use crate::calls::patch::Whose;
use crate::control;
use crate::failure;
use crate::policy;
use crate::policy::Order;
use crate::sys;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use libc::dl_phdr_info;
use log_format::inputs::RangeHash;
use runtime_abi::CALL_SITES_OFFSET;
use runtime_abi::CONTROL_ADDRESS;
use runtime_abi::QUESTION_PATH_BYTES_MAX;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::IDENTITY_BYTES;
use runtime_abi::call_sites::OBJECTS_MAX;
use runtime_abi::call_sites::Object;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::Table;
use runtime_abi::call_sites::state;
use runtime_abi::origin;
use runtime_abi::question;

/// Objects that a process has at a time; of further ones, calls are not replaced.
const LOADED_MAX: usize = 1024;
/// How long an answer may take, and how often we look for it if nobody wakes us.
const PATIENCE_NS: u64 = 10_000_000_000;
const LOOK_EVERY_NS: u64 = 50_000_000;
/// The same for a process that does not find the tool, and may be where processes have other numbers.
const PATIENCE_WITHOUT_TOOL_NS: u64 = 2_000_000_000;

/// The loader's `r_debug`.
static DEBUGGER_INTERFACE: AtomicU64 = AtomicU64::new(0);

/// Replaces the calls of libc, of all other objects there are, and, from now on, of those that come. Once, before there is
/// a second thread.
pub fn install() {
    let is_installed = replace_libc();
    control::note_calls_installed(is_installed);
    if is_installed {
        look();
        watch_loader();
    }
}

fn table() -> &'static Table {
    // SAFETY: the control memory is mapped, whole, for good. What others write there is behind what `count` says.
    unsafe { &*((CONTROL_ADDRESS as usize + CALL_SITES_OFFSET) as *const Table) }
}

/// The objects that the table has.
fn known() -> &'static [Object] {
    // Acquire: the objects are whole before they count.
    let count = table().count.load(Acquire) as usize;
    &table().objects[..count.min(OBJECTS_MAX)]
}

fn entries_of(object: &Object) -> &'static [Entry] {
    let first = (object.first as usize).min(SITES_MAX);
    let end = (first + object.entries as usize).min(SITES_MAX);
    &table().entries[first..end]
}

fn replace_libc() -> bool {
    let Some(libc) = known().first() else { return false };
    struct Search {
        identity: [u8; IDENTITY_BYTES],
        found: Option<Loaded>,
    }
    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description that is valid during this call, and what we gave it for us. libc stays loaded.
        let (object, search) = unsafe { (Loaded::new(&*info), &mut *search.cast::<Search>()) };
        if identity(&object) == search.identity {
            search.found = Some(object);
        }
        search.found.is_some() as c_int
    }
    let mut search = Search {
        identity: libc.identity,
        found: None,
    };
    // SAFETY: `visit` gets what it expects: a description of each object, and `search`.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let Some(loaded) = search.found else { return false };
    // SAFETY: there is one thread, and this is not libc's code.
    let replaced = unsafe { loaded.replace_calls(entries_of(libc), Whose::Libc) };
    libc.state.store(state::REPLACED, Relaxed);
    replaced.is_ok()
}

/// What tells objects apart: the build-id, or else what can be told from headers and from the unwinder's table. No
/// debugger changes these.
fn identity(object: &Loaded) -> [u8; IDENTITY_BYTES] {
    let is_loaded = |header: &&libc::Elf64_Phdr| {
        let start = object.base + header.p_vaddr;
        object.holds(start) && object.holds(start + header.p_filesz.max(1) - 1)
    };
    let notes = object.headers().iter().filter(|header| header.p_type == libc::PT_NOTE);
    let notes = notes.filter(is_loaded);
    let mut ids = notes.filter_map(|header| build_id_in(object.part(header)));
    if let Some(id) = ids.next() {
        return *id;
    }
    let headers = object.headers();
    // SAFETY: headers are numbers.
    let bytes = unsafe { core::slice::from_raw_parts(headers.as_ptr().cast::<u8>(), size_of_val(headers)) };
    let unwinding = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    let unwinding = unwinding.filter(is_loaded);
    let unwinding = unwinding.map_or(&[][..], |header| object.part(header));
    condense(bytes, unwinding)
}

/// As `replayer::call_sites` does it.
fn condense(headers: &[u8], unwinding: &[u8]) -> [u8; IDENTITY_BYTES] {
    let half = unwinding.len() / 2;
    let numbers = [
        RangeHash::of(headers).fold(),
        RangeHash::of(unwinding).fold(),
        RangeHash::of(&unwinding[..half]).fold(),
        RangeHash::of(&unwinding[half..]).fold(),
        unwinding.len() as u32,
    ];
    let mut identity = [0; IDENTITY_BYTES];
    for (place, number) in identity.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    identity
}

/// The build-id among an object's notes: (name length, description length, type, name, description), 4-aligned.
fn build_id_in(mut notes: &[u8]) -> Option<&[u8; IDENTITY_BYTES]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let number = |notes: &[u8], at: usize| {
        let bytes = notes.get(at..at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    loop {
        let (name, description, kind) = (number(notes, 0)?, number(notes, 4)?, number(notes, 8)?);
        let start = 12 + (name as usize).next_multiple_of(4);
        let end = start + description as usize;
        if kind == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return notes.get(start..end)?.try_into().ok();
        }
        notes = notes.get(end.next_multiple_of(4)..)?;
    }
}

/// An object that the process has.
#[derive(Clone, Copy)]
struct Seen {
    object: Loaded,
    name: *const core::ffi::c_char,
    is_new: bool,
}

/// All of them, as the loader said last time.
struct List {
    seen: [Option<Seen>; LOADED_MAX],
    count: usize,
}

struct Shared(UnsafeCell<List>);

// SAFETY: used by `look` alone, of which there is one at a time.
unsafe impl Sync for Shared {}

/// Used by `look` alone: when there is one thread, or under the loader's lock.
static LIST: Shared = Shared(UnsafeCell::new(List {
    seen: [None; LOADED_MAX],
    count: 0,
}));

/// Looks for objects that were not there last time. Called when there is one thread, and by the loader, under its lock.
fn look() {
    // SAFETY: `look` runs when there is one thread, or under the lock of the loader, so nobody else has a reference to the list.
    let list = unsafe { &mut *LIST.0.get() };
    let before = list.count;
    list.count = 0;
    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description that is valid during this call, and what `look` gave it. Objects are not closed while `look` is at work.
        let (info, list) = unsafe { (&*info, &mut *list.cast::<(&mut List, usize)>()) };
        let (list, before) = (&mut *list.0, list.1);
        // SAFETY: the loader gives a description of an object that is loaded, and none is closed while `look` is at work.
        let object = unsafe { Loaded::new(info) };
        let is_same = |seen: &Seen| {
            seen.object.base == object.base
                && core::ptr::eq(seen.object.headers(), object.headers())
                && seen.name == info.dlpi_name
        };
        // The order of objects stays, so what has been seen of them is at this place or behind it.
        let rest = list.count..before.max(list.count);
        let old = rest.clone().find(|i| list.seen[*i].as_ref().is_some_and(is_same));
        let Some(place) = list.seen.get_mut(list.count) else {
            return 1;
        };
        *place = Some(Seen {
            object,
            name: info.dlpi_name,
            is_new: old.is_none(),
        });
        list.count += 1;
        0
    }
    let mut both = (&mut *list, before);
    // SAFETY: `visit` gets what it expects: a description of each object, and `both`.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut both).cast()) };
    for seen in list.seen[..list.count].iter().flatten().filter(|seen| seen.is_new) {
        consider(seen);
    }
}

/// Replaces the calls of an object that has come.
fn consider(seen: &Seen) {
    let object = &seen.object;
    // SAFETY: the loader keeps the name for as long as the object.
    let name = unsafe { CStr::from_ptr(seen.name) }.to_bytes();
    if is_left_alone(object, name) {
        return;
    }
    consider_as(object, name, Whose::Other);
}

fn consider_as(object: &Loaded, name: &[u8], whose: Whose) {
    let identity = identity(object);
    let find = || known().iter().skip(1).find(|known| known.identity == identity);
    match policy::order() {
        Order::Free => {}
        Order::Gated | Order::Turns => {
            let Some(known) = find().filter(|known| known.state.load(Relaxed) == state::REPLACED) else {
                return;
            };
            if let Err(refusal) = replace(object, known, whose) {
                failure::die(refusal.sentence(), 0);
            }
        }
        Order::Observed(_) => {
            if find().is_none() {
                ask(name, whose);
            }
            if let Some(known) = find() {
                // The process that the table was copied from may have had more luck.
                let state = replace(object, known, whose).map_or(state::NEW, |()| state::REPLACED);
                known.state.store(state, Relaxed);
            }
        }
    }
}

fn replace(object: &Loaded, known: &Object, whose: Whose) -> Result<(), Refusal> {
    // SAFETY: the object has just been mapped, and nobody runs it yet; or there is one thread, which is here.
    unsafe { object.replace_calls(entries_of(known), whose) }
}

/// Replaces the calls of an object that we have loaded ourselves, in the place of the kernel.
pub fn consider_guest(base: u64, headers: &'static [libc::Elf64_Phdr], path: &[u8], code: &'static GuestCode) {
    if control::are_calls_installed() {
        consider_as(&Loaded::at(base, headers), path, Whose::Guest(code));
    }
}

/// Ourselves, libc, the loader, the kernel's own object, and libraries whose calls pass wherever they come from.
fn is_left_alone(object: &Loaded, name: &[u8]) -> bool {
    // SAFETY: asks for numbers.
    let (loader, kernel) = unsafe { (libc::getauxval(libc::AT_BASE), libc::getauxval(libc::AT_SYSINFO_EHDR)) };
    let is_ours = object.holds(look as *const () as u64);
    let is_libc = known().first().is_some_and(|libc| libc.identity == identity(object));
    is_ours || is_libc || object.holds(loader) || object.holds(kernel) || !control::inputs_only() && passes(name)
}

/// Is it a library whose calls pass where synchronisation is recorded? Scope `inputs` has nothing else to know its threads by.
fn passes(name: &[u8]) -> bool {
    const LIBGOMP: &[u8] = b"/libgomp.so";
    callers::is_name_of_foreign(name) || name.windows(LIBGOMP.len()).any(|window| window == LIBGOMP)
}

/// Asks the tool about an object. If there is an answer in time, the table has it.
fn ask(name: &[u8], whose: Whose) {
    let mut buffer = [0; QUESTION_PATH_BYTES_MAX];
    let path = match name {
        b"" => sys::read_link(b"/proc/self/exe\0", &mut buffer),
        name => name,
    };
    let root = control::root();
    let mut waited = 0;
    // Acquire, Release: what a question says is written by one at a time, and read by the tool.
    while let Err(now) = root
        .question
        .state
        .compare_exchange(question::FREE, question::TAKEN, Acquire, Relaxed)
    {
        if now == question::CLOSED || !wait_while(&root.question.state, now, &mut waited) {
            return;
        }
    }
    let length = path.len().min(QUESTION_PATH_BYTES_MAX);
    for (place, byte) in root.question.path.iter().zip(&path[..length]) {
        place.store(*byte, Relaxed);
    }
    root.question.path_bytes.store(length as u32, Relaxed);
    root.question.pid.store(sys::process_id(), Relaxed);
    root.question
        .is_of_guest
        .store(matches!(whose, Whose::Guest(_)) as u32, Relaxed);
    root.question
        .process
        .store(control::header().identity.process.load(Relaxed), Relaxed);
    root.question.state.store(question::ASKED, Release);
    sys::shared_futex_wake_all(&root.question.state);
    while root.question.state.load(Acquire) == question::ASKED {
        if !wait_while(&root.question.state, question::ASKED, &mut waited) {
            return;
        }
    }
    _ = root
        .question
        .state
        .compare_exchange(question::ANSWERED, question::FREE, Release, Relaxed);
    sys::shared_futex_wake_all(&root.question.state);
}

/// False: it has taken too long, and nobody is to wait any more.
fn wait_while(word: &AtomicU32, value: u32, waited: &mut u64) -> bool {
    if *waited >= PATIENCE_NS || is_tool_gone(*waited) {
        word.store(question::CLOSED, Relaxed);
        return false;
    }
    sys::shared_futex_wait(word, value, LOOK_EVERY_NS);
    *waited += LOOK_EVERY_NS;
    true
}

/// Was the tool killed, so that nobody answers any more? The program goes on without it.
fn is_tool_gone(waited: u64) -> bool {
    let root = control::root();
    // The first process is the tool's child, and sees it.
    let sees_tool = control::header().identity.origin.load(Relaxed) == origin::FIRST;
    waited > 0 && !sys::is_process(root.identity.tool) && (sees_tool || waited >= PATIENCE_WITHOUT_TOOL_NS)
}

/// What the loader tells debuggers (`link.h`).
#[repr(C)]
struct DebuggerInterface {
    version: c_int,
    map: *const c_void,
    function: u64,
    state: AtomicU32,
}

/// Has the loader call us whenever it has mapped or unmapped objects.
fn watch_loader() {
    // SAFETY: asks for a symbol by name.
    let interface = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) } as *const DebuggerInterface;
    if interface.is_null() {
        return;
    }
    DEBUGGER_INTERFACE.store(interface as u64, Relaxed);
    // SAFETY: the loader's, for good. There is one thread, and it is not in the loader.
    unsafe { patch::replace_empty_function((*interface).function, loader_changed as *const () as u64) };
}

/// Called by the loader in the place of its empty function.
extern "C" fn loader_changed() {
    const CONSISTENT: u32 = 0;
    // SAFETY: stored before the loader could call this.
    let interface = unsafe { &*(DEBUGGER_INTERFACE.load(Relaxed) as *const DebuggerInterface) };
    if !policy::is_free() && interface.state.load(Relaxed) == CONSISTENT {
        look();
    }
}
