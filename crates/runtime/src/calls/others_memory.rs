//! Memory of other processes of the run: written by `process_vm_writev`, by `ptrace`, or by `/proc/PID/mem`.
//!
//! Recording: whoever writes appends what it wrote to the file `changes` of the process whose memory it is, with how many events that process's thread had
//! completed. It waits in a call then, most often: for its parent, or because it is stopped. Replay: that process changes its memory itself, when it comes to
//! that call. So no process has to wait for another one.
//!
//! The file has entries of whole words: `thread | event | address | bytes`, and the bytes with their padding.
use crate::calls::buffers;
use crate::calls::own_memory;
use crate::control;
use crate::inputs;
use crate::line::Line;
use crate::local::Local;
use crate::relatives;
use crate::sys;
use core::ffi::c_long;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::THREADS_MAX;
use runtime_abi::ThreadSlot;
use runtime_abi::ended;

const FILE_NAME: &[u8] = b"changes";
const WORD: usize = size_of::<u64>();
const HEAD_WORDS: usize = 4;
const HEAD_BYTES: usize = HEAD_WORDS * WORD;
/// Of the bytes of one entry, at most: an entry is written at once, as several processes may append to a file.
const PART_BYTES: usize = 4096 - HEAD_BYTES;
/// How long a process that another one has just forked may take to have a part of the run.
const BEGINNING_NS: u64 = 200_000_000;
const LOOK_EVERY_NS: u64 = 500_000;
/// `ptrace`: writes a word of code, or of data.
const POKE_TEXT: usize = 4;
const POKE_DATA: usize = 5;

/// Recording: a call has succeeded.
pub fn record_write(number: c_long, arguments: &[usize; 6], result: isize) {
    match number {
        libc::SYS_ptrace if matches!(arguments[0], POKE_TEXT | POKE_DATA) => {
            let word = arguments[3];
            note(arguments[1], &[(arguments[2], &raw const word as usize, WORD)]);
        }
        libc::SYS_process_vm_writev if arguments[0] != control::header().identity.pid.load(Relaxed) as usize => {
            note_buffers(arguments, result as usize);
        }
        _ => {
            if let Some((process, address)) = own_memory::of_others(number, arguments, result) {
                own_memory::each_part(number, arguments, result, address, |address, from, bytes| {
                    note(process, &[(address, from, bytes)]);
                });
            }
        }
    }
}

/// `process_vm_writev`: the bytes of some buffers have gone to others, one after the other.
fn note_buffers(arguments: &[usize; 6], mut left: usize) {
    let mut own = buffers::all(arguments[1], arguments[2]).iter();
    let mut others = buffers::all(arguments[3], arguments[4]).iter();
    let (mut from, mut to) = ((0, 0), (0, 0));
    while left != 0 {
        for (place, buffers) in [(&mut from, &mut own), (&mut to, &mut others)] {
            while place.1 == 0 {
                let Some(buffer) = buffers.next() else { return };
                *place = (buffer.iov_base as usize, buffer.iov_len);
            }
        }
        let bytes = left.min(from.1).min(to.1);
        note(arguments[0], &[(to.0, from.0, bytes)]);
        for place in [&mut from, &mut to] {
            *place = (place.0 + bytes, place.1 - bytes);
        }
        left -= bytes;
    }
}

/// The memory of the process with this id has been changed: where, from where, and how many bytes.
#[cold]
fn note(id: usize, changes: &[(usize, usize, usize)]) {
    let Some(target) = find(id as u32) else { return };
    let mut buffer = [0; 4352];
    let path = path_of(target.process, FILE_NAME);
    let path = control::path_in(control::directory_of(control::root()), path.bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND) else {
        return;
    };
    for (address, from, bytes) in changes {
        for at in (0..*bytes).step_by(PART_BYTES) {
            let part = PART_BYTES.min(bytes - at);
            let mut entry = [0u8; HEAD_BYTES + PART_BYTES];
            let head = [
                u64::from(target.thread),
                target.event,
                (address + at) as u64,
                part as u64,
            ];
            for (place, word) in entry.chunks_exact_mut(WORD).zip(head) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            inputs::copy((from + at) as *const u8, entry[HEAD_BYTES..].as_mut_ptr(), part);
            sys::write_all(file, &entry[..HEAD_BYTES + part.next_multiple_of(WORD)]);
        }
    }
    sys::close(file);
}

/// A thread of another process of the run, and how many events it has completed.
struct Target {
    process: u32,
    thread: u32,
    event: u64,
}

/// The name of a process's file, as seen from the directory of the run.
fn path_of(process: u32, name: &[u8]) -> Line {
    let mut path = Line::default();
    if process != 0 {
        path.text(b"process-");
        path.number(u64::from(process));
        path.text(b"/");
    }
    path.text(name);
    path
}

/// Who has this id, of a process or of a thread.
fn find(id: u32) -> Option<Target> {
    let began = sys::now_ns();
    loop {
        let count = control::root()
            .shared
            .processes
            .load(Relaxed)
            .min(runtime_abi::PROCESSES_MAX);
        let mut is_one_beginning = false;
        if let Some((process, thread, event)) = relatives::beginning_of_child(id)
            && matches!(look_at(process, id), Look::Beginning)
        {
            // It has done nothing since it was forked.
            let mut buffer = [0; 4352];
            let path = path_of(process, b"");
            _ = sys::make_directory(control::path_in(
                control::directory_of(control::root()),
                path.bytes(),
                &mut buffer,
            ));
            return Some(Target { process, thread, event });
        }
        // The newest first: an id may be used again, or have become another program.
        for process in (0..count).rev() {
            match look_at(process, id) {
                Look::Found(target) => return Some(target),
                Look::Beginning => is_one_beginning = true,
                Look::Another => {}
            }
        }
        if !is_one_beginning || sys::now_ns() - began >= BEGINNING_NS {
            return None;
        }
        sys::sleep_ns(LOOK_EVERY_NS);
    }
}

enum Look {
    Found(Target),
    Another,
    /// It has no part of the run yet.
    Beginning,
}

fn look_at(process: u32, id: u32) -> Look {
    let mut buffer = [0; 4352];
    let path = path_of(process, b"control");
    let path = control::path_in(control::directory_of(control::root()), path.bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDONLY) else {
        return Look::Beginning;
    };
    let look = look_into(file, process, id);
    sys::close(file);
    look
}

fn look_into(control: i32, process: u32, id: u32) -> Look {
    let number_at = |offset: usize| {
        let mut number = 0u32;
        sys::read_at(control, &raw mut number as usize, size_of::<u32>(), offset as u64);
        number
    };
    if number_at(offset_of!(ControlHeader, progress.attached)) == 0 {
        return Look::Beginning;
    }
    if number_at(offset_of!(ControlHeader, progress.ended)) != ended::NOT_SAID {
        return Look::Another;
    }
    let slot = |thread: u32| HEADER_BYTES + thread as usize * size_of::<ThreadSlot>();
    let is_its_process = number_at(offset_of!(ControlHeader, identity.pid)) == id;
    let thread = match is_its_process {
        true => Some(number_at(offset_of!(ControlHeader, identity.main_thread))),
        false => {
            let threads = number_at(offset_of!(ControlHeader, progress.threads)).min(THREADS_MAX as u32);
            (0..threads).find(|thread| number_at(slot(*thread) + offset_of!(ThreadSlot, os_thread)) == id)
        }
    };
    let Some(thread) = thread else { return Look::Another };
    let mut event = 0u64;
    let at = slot(thread) + offset_of!(ThreadSlot, count);
    sys::read_at(control, &raw mut event as usize, size_of::<u64>(), at as u64);
    Look::Found(Target { process, thread, event })
}

/// Replay: where in the file the next change is, of which thread, and behind which event; `u64::MAX`: there is none.
static NEXT_AT: AtomicU64 = AtomicU64::new(0);
static NEXT_THREAD: AtomicU32 = AtomicU32::new(0);
static NEXT_EVENT: AtomicU64 = AtomicU64::new(u64::MAX);

fn open_changes() -> Option<i32> {
    let mut buffer = [0; 4352];
    sys::open(control::path_in_run(FILE_NAME, &mut buffer), libc::O_RDONLY).ok()
}

/// Replay: when a process begins, and when it has been forked.
pub fn open() {
    NEXT_EVENT.store(u64::MAX, Relaxed);
    if let Some(file) = open_changes() {
        look_ahead(file, 0);
        sys::close(file);
    }
}

/// The head of the entry at `at`, if it is whole.
fn head_at(file: i32, at: u64) -> Option<[u64; HEAD_WORDS]> {
    let mut head = [0u64; HEAD_WORDS];
    let is_whole = sys::read_at(file, head.as_mut_ptr() as usize, HEAD_BYTES, at) == HEAD_BYTES;
    (is_whole && head[3] <= PART_BYTES as u64).then_some(head)
}

fn look_ahead(file: i32, at: u64) {
    NEXT_AT.store(at, Relaxed);
    let head = head_at(file, at);
    NEXT_THREAD.store(head.map_or(0, |[thread, ..]| thread as u32), Relaxed);
    NEXT_EVENT.store(head.map_or(u64::MAX, |[_, event, ..]| event), Relaxed);
}

impl Local {
    /// Replay, at a call: what others changed in the memory of this process before the recorded call was over is changed.
    #[inline]
    pub fn take_in_changes(&self) {
        if NEXT_EVENT.load(Relaxed) != u64::MAX {
            self.take_in_due_changes();
        }
    }

    #[cold]
    fn take_in_due_changes(&self) {
        let is_due = || {
            let (thread, event) = (NEXT_THREAD.load(Relaxed), NEXT_EVENT.load(Relaxed));
            match thread == self.index || thread as usize >= THREADS_MAX {
                true => event <= self.event(),
                false => event < control::slot(thread).count.load(Relaxed),
            }
        };
        if !is_due() {
            return;
        }
        let Some(file) = open_changes() else { return };
        while is_due() {
            let at = NEXT_AT.load(Relaxed);
            let Some([_, _, address, bytes]) = head_at(file, at) else {
                break;
            };
            let mut part = [0u8; PART_BYTES];
            let read = sys::read_at(file, part.as_mut_ptr() as usize, bytes as usize, at + HEAD_BYTES as u64);
            own_memory::change(address, &part[..read.min(bytes as usize)]);
            look_ahead(file, at + HEAD_BYTES as u64 + bytes.next_multiple_of(WORD as u64));
        }
        sys::close(file);
    }
}
