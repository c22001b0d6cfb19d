//! What a call that has been made wrote into the program's memory.
use crate::calls::buffers;
use crate::calls::table::Row;
use crate::calls::table::Size;
use crate::calls::table::Written;
use crate::inputs;
use crate::inputs::Range;
use crate::sys;
use core::mem::MaybeUninit;

/// Ranges that one call can write: a message's buffers, its name and its control data.
const RANGES_MAX: usize = 64;

pub struct Ranges {
    /// Most calls need one of them, so they are not cleared.
    ranges: [MaybeUninit<Range>; RANGES_MAX],
    count: usize,
    /// There were more.
    pub is_short: bool,
    /// Words of ours, which a range may be.
    words: [u64; 3],
    /// Memory of ours, which ranges may be copied to: where, how long, and how much of it is used.
    copies: [usize; 3],
    /// It was mapped for them alone.
    are_copies_mapped: bool,
}

impl Ranges {
    #[inline]
    pub fn new() -> Ranges {
        Ranges {
            ranges: [const { MaybeUninit::uninit() }; RANGES_MAX],
            count: 0,
            is_short: false,
            words: [0; 3],
            copies: [0; 3],
            are_copies_mapped: false,
        }
    }

    #[inline]
    pub fn add(&mut self, address: usize, from: usize, bytes: usize) {
        if address == 0 || bytes == 0 {
            return;
        }
        self.is_short |= self.count == RANGES_MAX;
        if self.count < RANGES_MAX {
            self.ranges[self.count].write(Range { address, from, bytes });
            self.count += 1;
        }
    }

    /// A range that holds these words. The ranges must stay where they are from now on.
    pub fn add_words(&mut self, address: usize, words: [u64; 3]) {
        self.words = words;
        self.add(address, self.words.as_ptr() as usize, size_of_val(&words));
    }

    /// Makes room for ranges that are copied, once. If that is too much, they are not. `spare`: memory of the thread's own, which few bytes are
    /// copied to: new memory would have to be mapped, filled with zeros, and unmapped. What is left of it is returned.
    pub fn make_room(&mut self, bytes: usize, spare: Option<[usize; 2]>) -> Option<[usize; 2]> {
        const COPIED_BYTES_MAX: usize = 1 << 26;
        /// More would stay in memory for good.
        const SPARE_BYTES_MAX: usize = 1 << 18;
        if self.copies[1] != 0 || !(1..=COPIED_BYTES_MAX).contains(&bytes) {
            return spare;
        }
        if let Some([memory, end]) = spare
            && bytes <= SPARE_BYTES_MAX.min((end - memory) / 2)
        {
            self.copies = [memory, bytes, 0];
            return Some([memory + bytes, end]);
        }
        match sys::map_anywhere(bytes) {
            0 => {}
            memory => (self.copies, self.are_copies_mapped) = ([memory as usize, bytes, 0], true),
        }
        spare
    }

    /// A range of memory that others may be writing. What is logged has to be one state of it, since it is read twice: to be hashed, and to be written.
    pub fn add_copy(&mut self, address: usize, bytes: usize) {
        let [memory, room, used] = self.copies;
        if bytes > room - used {
            return self.add(address, address, bytes);
        }
        inputs::copy(address as *const u8, (memory + used) as *mut u8, bytes);
        self.copies[2] += bytes;
        self.add(address, memory + used, bytes);
    }

    #[inline]
    pub fn all(&self) -> &[Range] {
        // SAFETY: the first `count` were written.
        unsafe { core::slice::from_raw_parts(self.ranges.as_ptr().cast(), self.count) }
    }
}

impl Drop for Ranges {
    #[inline]
    fn drop(&mut self) {
        let [memory, bytes, _] = self.copies;
        if self.are_copies_mapped {
            // SAFETY: mapped by `make_room`, and known to nobody else any more.
            unsafe { sys::unmap(memory as u64, bytes) };
        }
    }
}

/// Memory is kept, and compared afterwards, up to so far behind where a call may write.
const WINDOW_BYTES: usize = 512;
const WINDOWS_MAX: usize = 4;
/// How much memory that takes, at the end of what is there for the kernel to write into.
pub const KEPT_BYTES: usize = WINDOW_BYTES * WINDOWS_MAX;

/// What is to be known from before a call, to say what it wrote.
pub struct Before {
    /// What pointers to lengths said: the room there was.
    pub lengths: [u32; 6],
    windows: [Window; WINDOWS_MAX],
}

/// Memory as it was: where it is, where it is kept, and how much. By the place among what the call writes.
#[derive(Clone, Copy, Default)]
struct Window {
    address: usize,
    kept: usize,
    bytes: usize,
}

impl Before {
    /// Of a call that needs no look.
    pub fn with_lengths(lengths: [u32; 6]) -> Before {
        Before {
            lengths,
            windows: [Window::default(); WINDOWS_MAX],
        }
    }

    #[inline]
    pub fn look(row: &Row, arguments: &[usize; 6], memory: impl FnOnce() -> Option<[usize; 2]>) -> Before {
        let mut before = Before::with_lengths([0; 6]);
        let mut is_compared = false;
        for written in row.writes {
            match written.size {
                Size::LengthAt(at) if arguments[at as usize] != 0 => {
                    // SAFETY: the program gave it to the kernel as a pointer to a length.
                    before.lengths[at as usize] = unsafe { (arguments[at as usize] as *const u32).read_unaligned() };
                }
                Size::Changed | Size::ChangedBehind(_) => is_compared = true,
                _ => {}
            }
        }
        if is_compared && let Some([_, end]) = memory() {
            before.keep(row.writes, arguments, end - KEPT_BYTES);
        }
        before
    }

    #[cold]
    fn keep(&mut self, writes: &[Written], arguments: &[usize; 6], memory: usize) {
        for (at, (written, window)) in writes.iter().zip(&mut self.windows).enumerate() {
            let Some(address) = compared(written, arguments) else {
                continue;
            };
            let kept = memory + at * WINDOW_BYTES;
            *window = Window {
                address,
                kept,
                bytes: sys::copy_own(address, kept, WINDOW_BYTES),
            };
        }
    }
}

/// Where memory is that has to be compared.
fn compared(written: &Written, arguments: &[usize; 6]) -> Option<usize> {
    let address = arguments[written.argument as usize];
    let address = match written.size {
        Size::Changed => address,
        Size::ChangedBehind(at) => word_at(address, at)?,
        _ => return None,
    };
    (address != 0).then_some(address)
}

/// A word of the program's, if there is one.
pub fn word_at(address: usize, offset: u8) -> Option<usize> {
    let mut word = 0usize;
    let is_there = address != 0
        && sys::copy_own(address + offset as usize, &raw mut word as usize, size_of::<usize>()) == size_of::<usize>();
    is_there.then_some(word)
}

fn number_at(address: usize, offset: u8) -> usize {
    // SAFETY: the program gave the kernel a structure there, which has this number in it.
    unsafe { ((address + offset as usize) as *const u32).read_unaligned() as usize }
}

/// So much more is logged: bytes that the call wrote may have been there by chance, and not be there in replay.
const BEHIND_BYTES: usize = 64;

/// Of memory that was kept: up to where it has changed.
fn changed(window: &Window) -> usize {
    let differs = |at: &usize| {
        // SAFETY: as many bytes as were copied a moment ago; and the copy.
        unsafe { *((window.address + at) as *const u8) != *((window.kept + at) as *const u8) }
    };
    let last = (0..window.bytes).rev().find(differs);
    last.map_or(0, |last| (last + BEHIND_BYTES).min(window.bytes))
}

/// The memory a call has written: the program's, or ours in its place.
pub fn collect(
    writes: &[Written],
    arguments: &[usize; 6],
    own: &[usize; 6],
    result: isize,
    before: &Before,
    ranges: &mut Ranges,
) {
    let count = result.max(0) as usize;
    for (index, written) in writes.iter().enumerate() {
        let (address, from) = (arguments[written.argument as usize], own[written.argument as usize]);
        if address == 0 {
            continue;
        }
        match written.size {
            Size::Fixed(bytes) => ranges.add(address, from, bytes as usize),
            Size::Part(at, bytes) => ranges.add(address + at as usize, from + at as usize, bytes as usize),
            Size::Result(each, room) => {
                ranges.add(address, from, count.min(arguments[room as usize]) * each as usize);
            }
            Size::Headed(head) => ranges.add(address, from, count + head as usize),
            Size::Argument(count, each) => ranges.add(address, from, arguments[count as usize] * each as usize),
            Size::Bits(count) => ranges.add(address, from, arguments[count as usize].div_ceil(64) * 8),
            Size::LengthAt(at) => {
                let place = own[at as usize] as *const u32;
                if !place.is_null() {
                    // SAFETY: the kernel has just written it.
                    let after = unsafe { place.read_unaligned() };
                    ranges.add(address, from, after.min(before.lengths[at as usize]) as usize);
                }
            }
            Size::Buffers(buffers) => add_buffers(address, arguments[buffers as usize], count, ranges),
            Size::Message => add_message(address, count, ranges),
            Size::Messages => (0..count).for_each(|at| add_counted_message(address + at * MESSAGE_BYTES, ranges)),
            Size::Sent => (0..count).for_each(|at| add_length(address + at * MESSAGE_BYTES, ranges)),
            Size::Command => ranges.add(address, from, command_bytes(arguments)),
            Size::Tail(head, count_at, each) => {
                ranges.add(address, from, head as usize + number_at(from, count_at) * each as usize);
            }
            Size::Behind(pointer_at, count_at, each) => {
                let bytes = number_at(address, count_at) * each as usize;
                add_in_place(word_at(address, pointer_at).unwrap_or(0), bytes, ranges);
            }
            Size::ResultBehind(pointer_at, room_at) => {
                let bytes = count.min(number_at(address, room_at));
                add_in_place(word_at(address, pointer_at).unwrap_or(0), bytes, ranges);
            }
            Size::Changed | Size::ChangedBehind(_) => {
                let window = before.windows.get(index).copied().unwrap_or_default();
                add_in_place(window.address, changed(&window), ranges);
            }
            Size::Handle => ranges.add(address, from, HANDLE_HEAD_BYTES + number_at(from, 0)),
            Size::Completed => add_completed(address, count, ranges),
            Size::Semaphores => ranges.add(address, from, 2 * semaphores(arguments[0])),
        }
    }
}

/// A `mmsghdr`: a message, and how long it is.
pub const MESSAGE_BYTES: usize = 64;
/// In front of a file's handle: its length and kind.
const HANDLE_HEAD_BYTES: usize = 8;

/// As many bytes as the number of an ioctl says.
fn command_bytes(arguments: &[usize; 6]) -> usize {
    arguments[1] >> 16 & 0x3fff
}

/// Where it says how long it is: behind the message.
const LENGTH_AT: u8 = size_of::<libc::msghdr>() as u8;

fn add_length(message: usize, ranges: &mut Ranges) {
    add_in_place(message + LENGTH_AT as usize, size_of::<u32>(), ranges);
}

fn add_counted_message(message: usize, ranges: &mut Ranges) {
    add_length(message, ranges);
    add_message(message, number_at(message, LENGTH_AT), ranges);
}

/// How many semaphores are in a set.
fn semaphores(set: usize) -> usize {
    const COUNT_AT: usize = 80;
    let mut state = [0u8; 104];
    let arguments = [set, 0, libc::IPC_STAT as usize, state.as_mut_ptr() as usize, 0, 0];
    // SAFETY: the kernel writes as much as this.
    match unsafe { sys::syscall(libc::SYS_semctl, arguments) } {
        0 => number_at(state.as_ptr() as usize + COUNT_AT, 0),
        _ => 0,
    }
}

/// What the kernel has done in the meantime: its events, and what was read where each control block says.
fn add_completed(events: usize, count: usize, ranges: &mut Ranges) {
    const EVENT_BYTES: usize = 32;
    const PREAD: u16 = 0;
    const PREADV: u16 = 7;
    add_in_place(events, count * EVENT_BYTES, ranges);
    for event in (0..count).map(|at| events + at * EVENT_BYTES) {
        // SAFETY: the kernel has just written the event.
        let [_, block, read, _] = unsafe { (event as *const [usize; 4]).read_unaligned() };
        let (Some(kind), Some(buffer), Some(bytes)) = (word_at(block, 16), word_at(block, 24), word_at(block, 32))
        else {
            continue;
        };
        if (read as isize) <= 0 {
            continue;
        }
        match kind as u16 {
            PREAD => add_in_place(buffer, read, ranges),
            PREADV => add_buffers(buffer, bytes, read, ranges),
            _ => {}
        }
    }
}

/// The first `bytes` bytes of `count` buffers.
fn add_buffers(buffers: usize, count: usize, mut bytes: usize, ranges: &mut Ranges) {
    for buffer in buffers::all(buffers, count) {
        let part = bytes.min(buffer.iov_len);
        add_in_place(buffer.iov_base as usize, part, ranges);
        bytes -= part;
    }
}

fn add_in_place(address: usize, bytes: usize, ranges: &mut Ranges) {
    ranges.add(address, address, bytes);
}

fn add_message(message: usize, bytes: usize, ranges: &mut Ranges) {
    // SAFETY: the kernel has accepted it.
    let parts = unsafe { &*(message as *const libc::msghdr) };
    add_in_place(message, size_of::<libc::msghdr>(), ranges);
    add_in_place(parts.msg_name as usize, parts.msg_namelen as usize, ranges);
    add_in_place(parts.msg_control as usize, parts.msg_controllen, ranges);
    add_buffers(parts.msg_iov as usize, parts.msg_iovlen, bytes, ranges);
}
