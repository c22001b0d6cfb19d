//! What a call reads of the program's memory is read first, as events of the calling thread's, and the call is given the copy. The kernel
//! would read at a moment of its own: a thread that writes meanwhile would change what goes out in one run and not in another.
use crate::access::Reach;
use crate::calls::buffers;
use crate::calls::is_on_stack;
use crate::calls::table;
use crate::control;
use crate::inputs::Room;
use crate::local::Local;
use crate::sys;
use core::ffi::c_long;
use core::ffi::c_void;

/// As many as the kernel takes at a time.
const BUFFERS_MAX: usize = 1024;

/// The arguments of a call, with copies in the place of what it reads.
pub struct Outgoing<'a> {
    pub arguments: [usize; 6],
    _room: Option<Room<'a>>,
}

/// Buffers with the same bytes as the program's.
pub struct GatheredBuffers<'a> {
    room: Room<'a>,
    count: usize,
}

impl GatheredBuffers<'_> {
    pub fn buffers(&self) -> &[libc::iovec] {
        buffers::all(self.room.start(), self.count)
    }
}

impl Local {
    /// Reads what the call is going to read, if others may be writing it.
    pub fn gather_outgoing(&self, number: c_long, arguments: &[usize; 6]) -> Outgoing<'_> {
        let mut outgoing = Outgoing {
            arguments: *arguments,
            _room: None,
        };
        if self.inside_event.get() || !control::observes_memory() {
            return outgoing;
        }
        if let Some((bytes, count)) = table::outgoing(number) {
            if !is_on_stack(arguments[bytes])
                && let Some(room) = self.gather(arguments[bytes], arguments[count])
            {
                outgoing.arguments[bytes] = room.start();
                outgoing._room = Some(room);
            }
            return outgoing;
        }
        match number {
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                if let Some(gathered) = self.gather_given_buffers(arguments[1], arguments[2]) {
                    outgoing.arguments[1] = gathered.room.start();
                    outgoing._room = Some(gathered.room);
                }
            }
            libc::SYS_sendmsg if sys::is_readable(arguments[1], size_of::<libc::msghdr>()) => {
                let (given, count) = buffers::of_message(arguments[1]);
                if let Some(gathered) = self.gather_given_buffers(given, count) {
                    // SAFETY: the program's message, which can be read. The room begins with the buffers, whose list has a
                    // message's room behind it (`gather_buffers`).
                    unsafe {
                        let copy = (gathered.room.start() + list_bytes(count)) as *mut libc::msghdr;
                        copy.write(*(arguments[1] as *const libc::msghdr));
                        (*copy).msg_iov = gathered.room.start() as *mut libc::iovec;
                        outgoing.arguments[1] = copy as usize;
                    }
                    outgoing._room = Some(gathered.room);
                }
            }
            _ => {}
        }
        outgoing
    }

    /// Bytes that go out, copied. `None`: they are where they were; what can be known of them is declared.
    fn gather(&self, address: usize, bytes: usize) -> Option<Room<'_>> {
        let room = self.inputs.writer.room().filter(|room| bytes <= room.bytes());
        let Some(mut room) = room.filter(|_| bytes == 0 || sys::is_readable(address, bytes)) else {
            // Not looked at: the kernel may refuse what we would crash on.
            self.declare(address as u64, bytes as u64, Reach::Reads);
            return None;
        };
        room.shrink(bytes);
        // SAFETY: the bytes can be read, and the room is large enough.
        unsafe { self.load_for_outside(address as *const u8, room.start() as *mut u8, bytes) };
        Some(room)
    }

    fn gather_given_buffers(&self, list: usize, count: usize) -> Option<GatheredBuffers<'_>> {
        if count > BUFFERS_MAX || !sys::is_readable(list, count * size_of::<libc::iovec>()) {
            return None;
        }
        self.gather_buffers(buffers::all(list, count), is_on_stack)
    }

    /// Several buffers that go out, copied, but for those that `stay` says are this thread's own.
    pub fn gather_buffers(&self, given: &[libc::iovec], stay: impl Fn(usize) -> bool) -> Option<GatheredBuffers<'_>> {
        let moves = |buffer: &&libc::iovec| buffer.iov_len > 0 && !stay(buffer.iov_base as usize);
        let bytes = given.iter().filter(moves).try_fold(
            list_bytes(given.len()) + size_of::<libc::msghdr>(),
            |sum: usize, buffer| sum.checked_add(buffer.iov_len),
        );
        let is_readable = |buffer: &libc::iovec| sys::is_readable(buffer.iov_base as usize, buffer.iov_len);
        let room = self.inputs.writer.room();
        let fits = |room: &Room<'_>| bytes.is_some_and(|bytes| bytes <= room.bytes());
        let room = room
            .filter(fits)
            .filter(|_| given.iter().filter(moves).all(is_readable));
        let (Some(mut room), Some(bytes)) = (room, bytes) else {
            for buffer in given.iter().filter(moves) {
                self.declare(buffer.iov_base as u64, buffer.iov_len as u64, Reach::Reads);
            }
            return None;
        };
        room.shrink(bytes);
        let mut next = room.start() + list_bytes(given.len()) + size_of::<libc::msghdr>();
        for (index, buffer) in given.iter().enumerate() {
            let mut copy = *buffer;
            if moves(&buffer) {
                // SAFETY: the bytes can be read, and the room is large enough for all.
                unsafe { self.load_for_outside(buffer.iov_base.cast(), next as *mut u8, buffer.iov_len) };
                copy.iov_base = next as *mut c_void;
                next += buffer.iov_len;
            }
            // SAFETY: the room begins with as many.
            unsafe { (room.start() as *mut libc::iovec).add(index).write(copy) };
        }
        Some(GatheredBuffers {
            room,
            count: given.len(),
        })
    }
}

fn list_bytes(count: usize) -> usize {
    count * size_of::<libc::iovec>()
}
