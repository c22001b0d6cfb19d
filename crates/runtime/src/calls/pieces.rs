//! Pieces of calls that give out, or take, more bytes than they are sure to do without a wait (`ordered.rs`). The same code makes them when a schedule is learned and when it is enforced.
use crate::calls::buffers;
use core::ffi::c_long;
use core::ffi::c_void;

/// Buffers of one piece.
const BUFFERS_MAX: usize = 16;

/// A part of a call: of `write`, `writev`, `sendto`, `sendmsg` or `recvfrom`.
pub struct Piece {
    number: c_long,
    /// Those of the call, but for what is in the other fields.
    arguments: [usize; 6],
    buffers: [libc::iovec; BUFFERS_MAX],
    count: usize,
    message: Option<libc::msghdr>,
    /// How many bytes it is about.
    pub bytes: usize,
    /// There is more behind it.
    pub is_part: bool,
}

impl Piece {
    /// What comes behind the first `done` bytes: as much as there is room for, and at most `bytes`.
    pub fn new(number: c_long, arguments: &[usize; 6], done: usize, bytes: usize) -> Piece {
        const EMPTY: libc::iovec = libc::iovec {
            iov_base: core::ptr::null_mut(),
            iov_len: 0,
        };
        let mut piece = Piece {
            number,
            arguments: *arguments,
            buffers: [EMPTY; BUFFERS_MAX],
            count: 0,
            message: None,
            bytes: 0,
            is_part: false,
        };
        match number {
            libc::SYS_writev => piece.gather(buffers::all(arguments[1], arguments[2]), done, bytes),
            libc::SYS_sendmsg => {
                let (list, count) = buffers::of_message(arguments[1]);
                piece.gather(buffers::all(list, count), done, bytes);
                // SAFETY: the program gives it to the kernel.
                let mut message = unsafe { (arguments[1] as *const libc::msghdr).read() };
                if done != 0 {
                    // What a message has besides bytes goes with the first of them.
                    message.msg_control = core::ptr::null_mut();
                    message.msg_controllen = 0;
                }
                piece.message = Some(message);
            }
            _ => {
                let left = arguments[2].saturating_sub(done);
                piece.bytes = left.min(bytes);
                piece.is_part = piece.bytes < left;
                piece.arguments[1] += done;
                piece.arguments[2] = piece.bytes;
            }
        }
        if number == libc::SYS_recvfrom {
            // What is there is taken, and nothing is waited for.
            piece.arguments[3] &= !(libc::MSG_WAITALL as usize);
        }
        piece
    }

    fn gather(&mut self, all: &[libc::iovec], mut done: usize, bytes: usize) {
        for buffer in all {
            let passed = done.min(buffer.iov_len);
            done -= passed;
            let left = buffer.iov_len - passed;
            let room = if self.count == BUFFERS_MAX {
                0
            } else {
                bytes - self.bytes
            };
            let taken = left.min(room);
            self.is_part |= taken < left;
            if taken != 0 {
                self.buffers[self.count] = libc::iovec {
                    iov_base: (buffer.iov_base as usize + passed) as *mut c_void,
                    iov_len: taken,
                };
                self.count += 1;
                self.bytes += taken;
            }
        }
    }

    /// Arguments of the call for this piece, which has to stay where it is.
    pub fn arguments(&mut self) -> [usize; 6] {
        let mut arguments = self.arguments;
        if let Some(message) = &mut self.message {
            message.msg_iov = self.buffers.as_mut_ptr();
            message.msg_iovlen = self.count;
            arguments[1] = message as *mut libc::msghdr as usize;
        } else if self.number == libc::SYS_writev {
            arguments[1] = self.buffers.as_mut_ptr() as usize;
            arguments[2] = self.count;
        }
        arguments
    }
}
