//! Bytes that a call takes from several buffers.
use crate::calls::condensed;
use crate::inputs;
use core::mem::MaybeUninit;
use log_format::inputs::GATHERED_BYTES;

/// The buffers of a call, of which a program says how many there are.
pub fn all(buffers: usize, count: usize) -> &'static [libc::iovec] {
    match buffers == 0 || count == 0 {
        true => &[],
        // SAFETY: the program gives them to the kernel.
        false => unsafe { core::slice::from_raw_parts(buffers as *const libc::iovec, count) },
    }
}

/// The buffers of a message, and how many there are.
pub fn of_message(message: usize) -> (usize, usize) {
    // SAFETY: the program gives it to the kernel.
    let message = unsafe { &*(message as *const libc::msghdr) };
    (message.msg_iov as usize, message.msg_iovlen)
}

/// How many bytes they have.
pub fn bytes(buffers: usize, count: usize) -> usize {
    all(buffers, count).iter().map(|buffer| buffer.iov_len).sum()
}

/// As if the bytes were in one buffer.
#[inline(never)]
pub fn check(buffers: usize, count: usize) -> u32 {
    let total = bytes(buffers, count);
    let wanted = total.min(GATHERED_BYTES);
    let mut first = MaybeUninit::<[u8; GATHERED_BYTES]>::uninit();
    let start = first.as_mut_ptr() as usize;
    let mut gathered = 0;
    for buffer in all(buffers, count) {
        let part = buffer.iov_len.min(wanted - gathered);
        if part == wanted {
            return condensed(buffer.iov_base as usize, total, GATHERED_BYTES);
        }
        inputs::copy(buffer.iov_base as *const u8, (start + gathered) as *mut u8, part);
        gathered += part;
    }
    condensed(start, total, GATHERED_BYTES)
}
