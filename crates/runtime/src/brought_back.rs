//! The child of a `vfork` has its parent's memory until it executes a program or ends, and its parent is suspended as long. Here it is a fork, with a copy of
//! that memory; the parent is suspended just so (the kernel does that without shared memory, too), and gets what the child has changed.
//!
//! Recording: the parent maps memory that both share. When the child is about to leave, it puts there which pages it has written, as the kernel tells
//! them: those that nobody else has. The parent compares them with its own, takes over what differs, and logs that like something that a system call
//! wrote. Replay: it comes from the log.
//!
//! What is ours is left out, and so is the stack below the function that called `vfork`: the parent is still in functions that the child has returned from.
//! It is done in processes with one thread: the others' writes, too, would seem to be the child's.
use crate::control;
use crate::inputs::Range;
use crate::local::Local;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::memory_map;
use runtime_abi::memory_map::BROUGHT_BACK;

/// By what the log knows these inputs: calls that nobody makes in the place of a fork.
const BREAK: c_long = libc::SYS_brk;
const MAPPED: c_long = libc::SYS_mremap;
const MEMORY: c_long = libc::SYS_process_vm_writev;
/// The log of one input has so many ranges at most.
const RANGES: usize = 32;
/// Memory is compared in pieces of this many bytes.
const PIECE: usize = 32;
const PAGE: usize = 4096;

/// In the place of a length: it is that of a mapping, and no bytes follow.
const IS_MAPPING: usize = 1 << 63;

/// What the child leaves: a head, then for each mapping and each run of bytes its address and length, and the bytes.
#[repr(C)]
struct Head {
    /// Bytes that follow.
    bytes: usize,
    /// Where its heap ends.
    end_of_heap: usize,
    /// There was not room for all.
    is_short: usize,
}

const ROOM: usize = BROUGHT_BACK.bytes as usize - size_of::<Head>();
const EACH: usize = size_of::<[usize; 2]>();

/// This process has memory that it leaves for its parent.
static IS_BORROWING: AtomicBool = AtomicBool::new(false);
/// Below this address, the stack is not its parent's business.
static STACK_FROM: AtomicUsize = AtomicUsize::new(0);

fn head() -> *mut Head {
    BROUGHT_BACK.start as *mut Head
}

/// Recording, before a fork in place of a `vfork`: false if nothing can be brought back.
pub fn prepare() -> bool {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let (start, bytes) = (BROUGHT_BACK.start as usize, BROUGHT_BACK.bytes as usize);
    let arguments = [start, bytes, sys::PROTECTION, flags as usize, usize::MAX, 0];
    // A child that borrows memory itself has its own parent's there.
    control::inputs_only()
        && control::has_one_thread()
        && !IS_BORROWING.load(Relaxed)
        // SAFETY: memory at an address that is ours.
        && unsafe { sys::syscall(libc::SYS_mmap, arguments) } == start as isize
}

fn give_up_memory() {
    // SAFETY: nobody uses it any more.
    unsafe { sys::unmap(BROUGHT_BACK.start, BROUGHT_BACK.bytes as usize) };
}

/// The child: whatever it does to its memory is its parent's business, but for the stack below `stack_from`; 0: no part of the stack is.
pub fn begin_child(is_prepared: bool, stack_from: usize) {
    STACK_FROM.store(stack_from, Relaxed);
    IS_BORROWING.store(is_prepared, Relaxed);
}

/// A fork of a child has nothing to bring back.
pub fn forget() {
    if IS_BORROWING.swap(false, Relaxed) {
        give_up_memory();
    }
}

/// Recording: the process is about to end, or to become another program. If it is the child of a `vfork`, its parent gets what it has changed.
pub fn leave() {
    if IS_BORROWING.load(Relaxed) {
        // SAFETY: mapped before the process was forked; its parent looks when this process has left.
        let head = unsafe { &mut *head() };
        // SAFETY: asks where the heap ends.
        head.end_of_heap = unsafe { sys::syscall(libc::SYS_brk, [0; 6]) } as usize;
        (head.bytes, head.is_short) = (0, 0);
        let pagemap = sys::open(b"/proc/self/pagemap\0", libc::O_RDONLY);
        let maps = sys::open(b"/proc/self/maps\0", libc::O_RDONLY);
        if let (Ok(pagemap), Ok(maps)) = (pagemap, maps) {
            for_each_part(maps, |start, end| {
                keep(head, start, end - start, IS_MAPPING);
                keep_written(head, pagemap, start, end);
            });
        } else {
            head.is_short = 1;
        }
        for file in [pagemap, maps].into_iter().flatten() {
            sys::close(file);
        }
    }
}

/// Calls `act` with each part of the memory that is private, writable and the program's, or libc's.
fn for_each_part(maps: i32, mut act: impl FnMut(usize, usize)) {
    let mut line = Line::default();
    let mut behind_ours = 0;
    let mut buffer = [0; 1024];
    loop {
        let got = sys::read(maps, &mut buffer);
        if got <= 0 {
            return;
        }
        for byte in &buffer[..got as usize] {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            let Line { start, end, .. } = line;
            // Variables that begin as zero are in a mapping without a name behind the others.
            let is_ours = line.is_of_runtime() || line.name_bytes == 0 && start == behind_ours;
            if is_ours {
                behind_ours = end;
            }
            let stack_from = STACK_FROM.load(Relaxed);
            let from = match line.is_stack() {
                true if stack_from == 0 => end,
                true => start.max(stack_from),
                false => start,
            };
            let is_private = line.rights[1] == b'w' && line.rights[3] == b'p';
            if is_private && !is_ours && from < end && !memory_map::RUNTIME.contains(start as u64) {
                act(from, end);
            }
            line = Line::default();
        }
    }
}

/// Keeps those pages of a part of the memory that this process alone has.
fn keep_written(head: &mut Head, pagemap: i32, start: usize, end: usize) {
    const PRESENT_AND_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
    let mut words = [0u64; 128];
    let mut page = start / PAGE;
    while page < end.div_ceil(PAGE) {
        let wanted = (end.div_ceil(PAGE) - page).min(words.len());
        let got = sys::read_at(pagemap, words.as_mut_ptr() as usize, wanted * 8, page as u64 * 8) / 8;
        if got == 0 {
            return;
        }
        for word in &words[..got] {
            let (from, to) = ((page * PAGE).max(start), ((page + 1) * PAGE).min(end));
            if word & PRESENT_AND_EXCLUSIVE == PRESENT_AND_EXCLUSIVE {
                keep(head, from, to - from, 0);
            }
            page += 1;
        }
    }
}

/// `kind`: `IS_MAPPING`, or 0 if the bytes follow.
fn keep(head: &mut Head, address: usize, bytes: usize, kind: usize) {
    let copied = if kind == 0 { bytes } else { 0 };
    if head.bytes + EACH + copied.next_multiple_of(8) > ROOM {
        head.is_short = 1;
        return;
    }
    let place = BROUGHT_BACK.start as usize + size_of::<Head>() + head.bytes;
    // SAFETY: there is so much room; the memory is mapped and writable, as the kernel has just said.
    unsafe {
        (place as *mut [usize; 2]).write([address, bytes | kind]);
        core::ptr::copy_nonoverlapping(address as *const u8, (place + EACH) as *mut u8, copied);
    }
    head.bytes += EACH + copied.next_multiple_of(8);
}

impl Local {
    /// Recording, the parent, when its child has left: takes over what that has changed.
    pub fn bring_back(&self) {
        // SAFETY: mapped by `prepare`, and the child has left.
        let head = unsafe { head().read() };
        set_end_of_heap(head.end_of_heap);
        self.log_brought(BREAK, head.end_of_heap as isize, 0, &[]);
        for (address, bytes, _) in
            left_by_child(&head, IS_MAPPING).filter(|(address, bytes, _)| !is_mapped(*address, *bytes))
        {
            make_room(address, bytes);
            self.log_brought(MAPPED, address as isize, bytes.div_ceil(PAGE) as u32, &[]);
        }
        let mut ranges = [Range::default(); RANGES];
        let mut count = 0;
        for (address, bytes, from) in left_by_child(&head, 0) {
            let mut piece = 0;
            while let Some((first, length)) = next_difference(address, from, piece, bytes) {
                piece = first + length;
                if write_own(address + first, from + first, length) {
                    ranges[count] = Range {
                        address: address + first,
                        from: from + first,
                        bytes: length,
                    };
                    count += 1;
                }
                if count == RANGES {
                    self.log_brought(MEMORY, count as isize, 0, &ranges);
                    count = 0;
                }
            }
        }
        if count > 0 {
            self.log_brought(MEMORY, count as isize, 0, &ranges[..count]);
        }
        self.log_brought(MEMORY, 0, 0, &[]);
        if head.is_short != 0 {
            control::note_unrecorded();
        }
        give_up_memory();
    }

    fn log_brought(&self, number: c_long, result: isize, check: u32, ranges: &[Range]) {
        self.log_entry(self.input_entry(number, result, check), ranges);
        self.complete();
    }

    /// Replay: the same, from the log. Nothing if the recording has none of it.
    pub fn bring_back_again(&self) {
        if self.inputs.recorded.next_number() != Some(BREAK as u32) {
            return;
        }
        set_end_of_heap(self.next_call(BREAK).entry.result as usize);
        self.complete();
        while self.inputs.recorded.next_number() == Some(MAPPED as u32) {
            let entry = self.next_call(MAPPED).entry;
            make_room(entry.result as usize, entry.check as usize * PAGE);
            self.complete();
        }
        loop {
            let call = self.next_call(MEMORY);
            for (address, bytes) in call.ranges() {
                write_own(address as usize, bytes.as_ptr() as usize, bytes.len());
            }
            self.complete();
            if call.entry.result == 0 {
                return;
            }
        }
    }
}

fn set_end_of_heap(end: usize) {
    if end != 0 {
        // SAFETY: as the child of this process has asked for in its name.
        unsafe { sys::syscall(libc::SYS_brk, [end, 0, 0, 0, 0, 0]) };
    }
}

/// The mappings, or the runs of bytes, that the child has left: address, length, and where the bytes are.
fn left_by_child(head: &Head, kind: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut at = BROUGHT_BACK.start as usize + size_of::<Head>();
    let end = at + head.bytes.min(ROOM);
    core::iter::from_fn(move || {
        while at < end {
            // SAFETY: inside of what the child wrote.
            let [address, length] = unsafe { (at as *const [usize; 2]).read() };
            let (from, found) = (at + EACH, length & IS_MAPPING);
            at = from + if found == 0 { length.next_multiple_of(8) } else { 0 };
            if found == kind {
                return Some((address, length & !IS_MAPPING, from));
            }
        }
        None
    })
}

/// Is all of it mapped?
fn is_mapped(address: usize, bytes: usize) -> bool {
    let start = address / PAGE * PAGE;
    let arguments = [start, address + bytes - start, libc::MS_ASYNC as usize, 0, 0, 0];
    // SAFETY: does nothing but say whether there is memory.
    unsafe { sys::syscall(libc::SYS_msync, arguments) == 0 }
}

/// Maps those pages that the child has mapped.
fn make_room(address: usize, bytes: usize) {
    let pages = address / PAGE..(address + bytes).div_ceil(PAGE);
    for page in pages {
        // Replaces nothing.
        _ = sys::map_at((page * PAGE) as u64, PAGE, -1, 0, false);
    }
}

/// The first run of pieces from `piece` on that differ: where it begins and how long it is.
fn next_difference(address: usize, from: usize, mut piece: usize, bytes: usize) -> Option<(usize, usize)> {
    let differs = |at: usize| {
        let length = PIECE.min(bytes - at);
        let mut own = [0u8; PIECE];
        // SAFETY: inside of what the child wrote.
        let theirs = unsafe { core::slice::from_raw_parts((from + at) as *const u8, length) };
        let got = sys::copy_own(address + at, own.as_mut_ptr() as usize, length);
        got != length || own[..length] != *theirs
    };
    while piece < bytes && !differs(piece) {
        piece += PIECE;
    }
    let first = piece;
    while piece < bytes && differs(piece) {
        piece += PIECE;
    }
    (first < bytes).then(|| (first, piece.min(bytes) - first))
}

/// Writes to memory of this process, if it can be written.
fn write_own(address: usize, from: usize, bytes: usize) -> bool {
    let piece = |base: usize| libc::iovec {
        iov_base: base as *mut core::ffi::c_void,
        iov_len: bytes,
    };
    let (own, to) = (piece(from), piece(address));
    let arguments = [
        sys::process_id() as usize,
        &raw const own as usize,
        1,
        &raw const to as usize,
        1,
        0,
    ];
    // SAFETY: what the program's child has written in its name; the kernel checks that it can be written.
    unsafe { sys::syscall(libc::SYS_process_vm_writev, arguments) == bytes as isize }
}

/// As much of a line of `/proc/self/maps` as is of interest.
#[derive(Default)]
struct Line {
    start: usize,
    end: usize,
    field: usize,
    at: usize,
    rights: [u8; 4],
    /// The last bytes of the name.
    name: [u8; 24],
    name_bytes: usize,
}

impl Line {
    fn push(&mut self, byte: u8) {
        let hex = || (byte as char).to_digit(16).unwrap_or(0) as usize;
        match (self.field, byte) {
            (0, b'-') | (1..=5, b' ') if self.at > 0 => (self.field, self.at) = (self.field + 1, 0),
            (_, b' ') if self.at == 0 => {}
            (0, _) => (self.start, self.at) = (self.start << 4 | hex(), 1),
            (1, _) => (self.end, self.at) = (self.end << 4 | hex(), 1),
            (2, letter) => {
                if let Some(place) = self.rights.get_mut(self.at) {
                    *place = letter;
                }
                self.at += 1;
            }
            (3..=5, _) => self.at = 1,
            (_, letter) => {
                self.name.rotate_left(1);
                self.name[23] = letter;
                self.name_bytes += 1;
                self.at = 1;
            }
        }
    }

    fn is_of_runtime(&self) -> bool {
        self.name.ends_with(b"librefrain_runtime.so")
    }

    fn is_stack(&self) -> bool {
        self.name.ends_with(b"[stack]")
    }
}
