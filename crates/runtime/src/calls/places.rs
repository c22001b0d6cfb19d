//! Replay, one thread at a time: where the bytes belong that a call brought in.
//!
//! Elsewhere they are written where they were written when it was recorded. Here the heap is the program's own, and what a thread
//! allocates may lie elsewhere than it did, as what it has in common with others is not recorded. So the bytes go where the
//! program asks for them now.
use crate::calls::buffers;
use crate::calls::table;
use crate::calls::table::Size;
use crate::calls::table::Written;
use crate::calls::written;
use crate::calls::written::MESSAGE_BYTES;
use crate::failure;
use crate::inputs;
use crate::sys;
use core::ffi::c_long;
use log_format::inputs::Call;

/// Puts what the recorded call wrote where this one wants it.
pub fn put(number: c_long, arguments: &[usize; 6], call: &Call<'_>) {
    let result = call.entry.result.max(0) as usize;
    let writes = table::look_up(number, arguments).written(call.entry.result as isize);
    let mut ranges = call.ranges().map(|(_, bytes)| bytes);
    let mut left = call.entry.ranges as usize;
    for (index, written) in writes.iter().enumerate() {
        let address = arguments[written.argument as usize];
        if address == 0 || left == 0 {
            continue;
        }
        let has_length = left > behind(&writes[index + 1..], arguments);
        let mut next = |address: usize| {
            left = left.saturating_sub(1);
            copy(ranges.next(), address);
        };
        match written.size {
            Size::Fixed(_) | Size::Headed(_) | Size::Command | Size::Tail(..) | Size::Handle | Size::Semaphores => {
                next(address);
            }
            Size::Part(at, _) => next(address + at as usize),
            Size::Result(_, room) if result == 0 || arguments[room as usize] == 0 => {}
            Size::Result(..) => next(address),
            Size::Argument(count, _) | Size::Bits(count) if arguments[count as usize] == 0 => {}
            Size::Argument(..) | Size::Bits(_) => next(address),
            // Nothing, if it has no length; then only what comes behind it.
            Size::LengthAt(_) if !has_length => {}
            Size::LengthAt(_) => next(address),
            Size::Buffers(count) => put_into_buffers(address, arguments[count as usize], result, next),
            Size::Message => return put_message(address, result, &mut ranges),
            Size::Messages => return put_messages(address, result, &mut ranges),
            Size::Sent => (0..result).for_each(|at| next(address + at * MESSAGE_BYTES + size_of::<libc::msghdr>())),
            // Where the program wants it now is in its control blocks, which only the kernel knew.
            Size::Completed => return put_where_it_was(call),
            Size::Changed if has_length => next(address),
            Size::Behind(at, ..) | Size::ResultBehind(at, _) | Size::ChangedBehind(at) if has_length => {
                if let Some(address) = written::word_at(address, at).filter(|address| *address != 0) {
                    next(address);
                }
            }
            Size::Changed | Size::Behind(..) | Size::ResultBehind(..) | Size::ChangedBehind(_) => {}
        }
    }
}

fn copy(bytes: Option<&[u8]>, address: usize) {
    let bytes = bytes.unwrap_or(&[]);
    inputs::copy(bytes.as_ptr(), address as *mut u8, bytes.len());
}

fn put_where_it_was(call: &Call<'_>) {
    call.ranges()
        .for_each(|(address, bytes)| copy(Some(bytes), address as usize));
}

fn behind(writes: &[Written], arguments: &[usize; 6]) -> usize {
    let there = |written: &&Written| arguments[written.argument as usize] != 0;
    writes.iter().filter(there).count()
}

fn put_into_buffers(buffers: usize, count: usize, mut bytes: usize, mut next: impl FnMut(usize)) {
    for buffer in buffers::all(buffers, count) {
        let part = bytes.min(buffer.iov_len);
        if part != 0 && !buffer.iov_base.is_null() {
            next(buffer.iov_base as usize);
        }
        bytes -= part;
    }
}

fn put_messages<'a>(messages: usize, count: usize, ranges: &mut impl Iterator<Item = &'a [u8]>) {
    for message in (0..count).map(|at| messages + at * MESSAGE_BYTES) {
        let length_at = message + size_of::<libc::msghdr>();
        copy(ranges.next(), length_at);
        // SAFETY: a number of the program's, which has just been written.
        let bytes = unsafe { (length_at as *const u32).read_unaligned() };
        put_message(message, bytes as usize, ranges);
    }
}

/// Of the message itself only the lengths and flags are the kernel's; the rest are pointers.
fn put_message<'a>(message: usize, result: usize, ranges: &mut impl Iterator<Item = &'a [u8]>) {
    let Some(recorded) = ranges.next().filter(|bytes| bytes.len() == size_of::<libc::msghdr>()) else {
        return;
    };
    // SAFETY: the bytes of a message, as the kernel left it; and the program's own.
    let (recorded, own) = unsafe {
        (
            recorded.as_ptr().cast::<libc::msghdr>().read_unaligned(),
            &mut *(message as *mut libc::msghdr),
        )
    };
    let mut next = |address: usize| copy(ranges.next(), address);
    for (pointer, is_there) in [
        (own.msg_name as usize, recorded.msg_namelen != 0),
        (own.msg_control as usize, recorded.msg_controllen != 0),
    ] {
        if pointer != 0 && is_there {
            next(pointer);
        }
    }
    put_into_buffers(own.msg_iov as usize, own.msg_iovlen, result, next);
    own.msg_namelen = recorded.msg_namelen;
    own.msg_controllen = recorded.msg_controllen;
    own.msg_flags = recorded.msg_flags;
}

/// Memory in the place of a mapped file, with what was in it: where it was, if there is room. Returns where.
pub fn map(arguments: &[usize; 6], call: &Call<'_>) -> isize {
    let recorded = call.entry.result as u64;
    let (bytes, flags) = (arguments[1], arguments[3] as i32);
    let wanted = if flags & libc::MAP_FIXED != 0 {
        arguments[0] as u64
    } else {
        recorded
    };
    let is_there = sys::map_at(wanted, bytes, -1, 0, flags & libc::MAP_FIXED != 0).is_ok();
    let address = if is_there { wanted } else { sys::map_anywhere(bytes) };
    if address == 0 {
        failure::die(b"cannot map memory in the place of a file", libc::ENOMEM);
    }
    for (at, bytes) in call.ranges() {
        inputs::copy(bytes.as_ptr(), (at - recorded + address) as *mut u8, bytes.len());
    }
    sys::protect(address, bytes.next_multiple_of(4096), arguments[2]);
    address as isize
}
