//! What a call that has been made wrote into the program's memory.
use crate::calls::buffers;
use crate::calls::inputs::Range;
use crate::calls::table::Size;
use crate::calls::table::Written;
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
}

impl Ranges {
    #[inline]
    pub fn new() -> Ranges {
        Ranges {
            ranges: [const { MaybeUninit::uninit() }; RANGES_MAX],
            count: 0,
            is_short: false,
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

    #[inline]
    pub fn all(&self) -> &[Range] {
        // SAFETY: the first `count` were written.
        unsafe { core::slice::from_raw_parts(self.ranges.as_ptr().cast(), self.count) }
    }
}

/// What pointers to lengths said before the call: the room there was.
#[inline]
pub fn lengths_before(writes: &[Written], arguments: &[usize; 6]) -> [u32; 6] {
    let mut lengths = [0; 6];
    for written in writes {
        if let Size::LengthAt(at) = written.size
            && arguments[at as usize] != 0
        {
            // SAFETY: the program gave it to the kernel as a pointer to a length.
            lengths[at as usize] = unsafe { (arguments[at as usize] as *const u32).read_unaligned() };
        }
    }
    lengths
}

/// The memory a successful call has written: the program's, or ours in its place.
pub fn collect(
    writes: &[Written],
    arguments: &[usize; 6],
    own: &[usize; 6],
    result: isize,
    before: &[u32; 6],
    ranges: &mut Ranges,
) {
    for written in writes {
        let (address, from) = (arguments[written.argument as usize], own[written.argument as usize]);
        if address == 0 {
            continue;
        }
        match written.size {
            Size::Fixed(bytes) => ranges.add(address, from, bytes as usize),
            Size::Result(each, _) => ranges.add(address, from, result as usize * each as usize),
            Size::Argument(count, each) => ranges.add(address, from, arguments[count as usize] * each as usize),
            Size::Bits(count) => ranges.add(address, from, arguments[count as usize].div_ceil(64) * 8),
            Size::LengthAt(at) => {
                let place = own[at as usize] as *const u32;
                if !place.is_null() {
                    // SAFETY: the kernel has just written it.
                    let after = unsafe { place.read_unaligned() };
                    ranges.add(address, from, after.min(before[at as usize]) as usize);
                }
            }
            Size::Buffers(count) => add_buffers(address, arguments[count as usize], result as usize, ranges),
            Size::Message => add_message(address, result as usize, ranges),
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

/// A mapped file: as much of it as there is.
pub fn collect_mapping(arguments: &[usize; 6], result: isize, ranges: &mut Ranges) {
    let readable = arguments[2] as i32 & libc::PROT_READ != 0;
    let file_bytes = sys::file_bytes(arguments[4] as i32).saturating_sub(arguments[5] as u64);
    if readable {
        add_in_place(result as usize, arguments[1].min(file_bytes as usize), ranges);
    }
}
