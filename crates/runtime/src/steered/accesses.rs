//! Plain accesses of a steered replay: each is seen, counted where an edit names one like it, and written down if that is wanted.
use super::BEYOND;
use super::BEYOND_MAX;
use super::GIVEN_UP;
use super::LOOKED;
use super::PREFERRED;
use super::is_beyond;
use super::waits;
use crate::access::Reach;
use crate::control;
use crate::failure;
use crate::local::Local;
use crate::replay::Doing;
use crate::sys;
use crate::trace_file;
use crate::trace_file::Atomic;
use crate::turns;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::CELL_BYTES;
use runtime_abi::memory_map;
use runtime_abi::turns_file::ACCESSES_FILE_NAME;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::flag;
use runtime_abi::turns_file::kind;

/// More edits than a search would find in time.
const EDITS_MAX: usize = 1 << 10;
/// Looks at one place, with nothing written in between, after which a thread counts as waiting for a change.
const LOOKS_AT_ONE_PLACE: u32 = 200;
/// Looks at other places after which it counts as doing something else.
const OTHER_PLACES: u32 = 16;
/// Accesses without an event after which others have their turn, whatever it does.
const ACCESSES_AT_A_TIME: u64 = 1 << 16;

/// Of an edit. Relaxed: words of the holder, as in `mod.rs`.
struct State {
    /// Accesses like the one before which a thread is held; and like the one for which it waits.
    held: AtomicU64,
    awaited: AtomicU64,
    is_over: AtomicBool,
}

static STATES: [State; EDITS_MAX] = [const {
    State {
        held: AtomicU64::new(0),
        awaited: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    }
}; EDITS_MAX];

/// Entries that were wanted, with the last of which the file is full; and those that were written.
static ROOM: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);

pub fn open() {
    if turns::edits().len() > EDITS_MAX {
        failure::die(b"more edits than a steered replay can make", 0);
    }
    let room = turns::accesses_max();
    let bytes = room * size_of::<AccessEntry>() as u64;
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
        || sys::map_at(memory_map::ACCESSES.start, bytes as usize, file, 0, true).is_err()
    {
        failure::die(b"cannot map the file for accesses", 0);
    }
    sys::close(file);
    ROOM.store(room, Relaxed);
}

/// Is what this edit waits for over?
pub fn is_over(edit: usize) -> bool {
    STATES[edit].is_over.load(Relaxed)
}

/// It will not come, or others had their turn for long enough.
pub fn give_in(edit: usize) {
    STATES[edit].is_over.store(true, Relaxed);
    control::header().turns.edits_missed.fetch_add(1, Relaxed);
}

/// Whom the edit waits for, if that is somebody.
pub fn awaited(edit: usize) -> Option<u32> {
    let entry = turns::edits().get(edit)?;
    (entry.until.calls != u64::MAX).then_some(entry.until.thread)
}

/// Writes down what the holder is about to do. If there are more than are wanted, the last ones stay.
fn write(place: Place, label: u64, flags: u32) {
    let room = ROOM.load(Relaxed);
    if room == 0 || place.calls < turns::window_of(place.thread) {
        return;
    }
    let written = WRITTEN.load(Relaxed);
    let beyond = if is_beyond() { flag::BEYOND } else { 0 };
    let entry = AccessEntry {
        place,
        label,
        passed: written,
        reached: 0,
        flags: flags | beyond,
        reserved: 0,
    };
    // SAFETY: `open` mapped so many; the holder alone writes.
    unsafe {
        (memory_map::ACCESSES.start as *mut AccessEntry)
            .add((written % room) as usize)
            .write(entry);
    }
    WRITTEN.store(written + 1, Relaxed);
    // Release: the tool reads as many as it says.
    control::header().turns.accesses_written.store(written + 1, Release);
}

impl Local {
    /// A plain access, which is no event.
    pub fn perform_steered<R>(&self, address: u64, bytes: u64, reach: Reach, access: impl FnOnce() -> R) -> R {
        let edits = turns::edits();
        for (index, edit) in edits.iter().enumerate().filter(|(_, edit)| edit.kind == kind::REVERSE) {
            if self.is_like(&edit.at, address, bytes)
                && STATES[index].held.fetch_add(1, Relaxed) == edit.at.access
                && !is_over(index)
            {
                self.give_up(waits::EDIT, edit.to, index as u64);
            }
        }
        self.look_around(address, reach);
        if is_beyond() && BEYOND.fetch_add(1, Relaxed) + 1 >= BEYOND_MAX {
            self.give_up(waits::CHANGE, 0, GIVEN_UP.load(Relaxed));
        }
        let flags = if reach.writes() { flag::WRITES } else { 0 };
        let place = Place {
            thread: self.index,
            reserved: 0,
            calls: self.event(),
            nth: bytes,
            address,
            access: 0,
        };
        let site = crate::sites::number(self.slot.site.load(Relaxed));
        write(place, u64::from(site.0), flags);
        let result = match trace_file::is_on() {
            true => self.traced(address, bytes, reach, Atomic::No, access),
            false => access(),
        };
        for (index, edit) in edits.iter().enumerate().filter(|(_, edit)| edit.kind == kind::REVERSE) {
            if self.is_like(&edit.until, address, bytes)
                && STATES[index].awaited.fetch_add(1, Relaxed) == edit.until.access
            {
                self.have_done(index, edit);
            }
        }
        result
    }

    /// The access that an edit waits for has been made. Who is held there goes on at once.
    fn have_done(&self, index: usize, edit: &EditEntry) {
        STATES[index].is_over.store(true, Relaxed);
        let held = &super::STANDINGS[edit.at.thread as usize];
        if held.waits.load(Relaxed) == waits::EDIT && held.count.load(Relaxed) == index as u64 {
            PREFERRED.store(edit.at.thread + 1, Relaxed);
            self.give_up(waits::NOTHING, 0, 0);
        }
    }

    fn is_like(&self, place: &Place, address: u64, bytes: u64) -> bool {
        place.thread == self.index
            && place.calls == self.event()
            && address < place.address + CELL_BYTES
            && place.address < address + bytes
    }

    /// A thread that waits for others without synchronising does so by looking at memory.
    fn look_around(&self, address: u64, reach: Reach) {
        let looking = &self.replay.looking;
        looking.accesses.set(looking.accesses.get() + 1);
        if reach.writes() {
            looking.looks.set(0);
        } else if address == looking.place.get() {
            looking.looks.set(looking.looks.get() + 1);
            looking.others.set(0);
        } else if looking.others.replace(looking.others.get() + 1) >= OTHER_PLACES {
            looking.place.set(address);
            looking.looks.set(0);
            looking.others.set(0);
        }
        if looking.looks.get() >= LOOKS_AT_ONE_PLACE || looking.accesses.get() >= ACCESSES_AT_A_TIME {
            looking.looks.set(0);
            looking.accesses.set(0);
            LOOKED.fetch_add(1, Relaxed);
            self.give_up(waits::CHANGE, 0, GIVEN_UP.load(Relaxed));
        }
    }

    /// Its gate has been passed: an event, among the accesses.
    pub fn note_event(&self, doing: Doing) {
        if control::is_steered() {
            self.replay.looking.accesses.set(0);
            let place = Place {
                thread: self.index,
                reserved: 0,
                calls: self.event(),
                nth: 0,
                address: doing.object,
                access: doing.kind as u64 | (doing.op as u64) << 8,
            };
            let site = crate::sites::number(self.slot.site.load(Relaxed));
            write(place, u64::from(site.0), flag::EVENT);
        }
    }
}
