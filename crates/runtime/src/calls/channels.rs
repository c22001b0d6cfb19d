//! Replay, one thread at a time: pipes and pairs of sockets through which the process writes to itself.
//!
//! Threads send each other addresses that way, and in such a replay those need not be the recorded ones. So what is written now is kept, and who
//! reads gets it, as many bytes as were recorded. What was written is not compared with the recording while both ends are the process's own; if
//! it matters, it shows elsewhere.
//!
//! Which of the kept bytes a read gets: the log has the bytes that were read, and of most that were written a hash. What has the hash of bytes
//! that were read is what was read, so neither threads that wrote at the same time matter, nor other processes at the same pipe. Where that
//! cannot be said, as of a part of what was written, it is the oldest; but if the process has forked since, only what was recorded.
//!
//! Only who has the turn is in here.
use crate::calls::buffers;
use crate::inputs;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::ACTING_BITS;
use log_format::inputs::CHECKED_BYTES;
use log_format::inputs::Entry;
use log_format::inputs::GATHERED_BYTES;
use runtime_abi::memory_map;

/// Descriptors that are followed, and channels there can be at a time.
const FOLLOWED: usize = 1024;
const CHANNELS: usize = memory_map::CHANNELS_MAX;
/// So many bytes are kept for each side. More are not under way, as pipes and sockets hold less by default.
const KEPT_BYTES: usize = memory_map::CHANNELS.stride as usize;
/// Messages that are looked at, at most, for the one that was read.
const LOOKS_MAX: usize = 64;

/// Of each descriptor: 0, or one more than twice its channel and its side.
static ENDS: [AtomicU32; FOLLOWED] = [const { AtomicU32::new(0) }; FOLLOWED];
/// Changed by the thread that makes the call in question, which has the turn.
static TABLE: [Channel; CHANNELS] = [const { Channel::new() }; CHANNELS];

/// A pipe, side 0 of which is read and side 1 is written, or a pair of sockets.
struct Channel {
    sides: [Side; 2],
    keeps_messages: AtomicU32,
    /// Somebody else may write to it, or read from it.
    is_shared: AtomicU32,
}

struct Side {
    /// Descriptors of the process.
    open: AtomicU32,
    /// What was written and not read yet: from there to there.
    first: AtomicU32,
    end: AtomicU32,
    is_mapped: AtomicU32,
}

impl Channel {
    const fn new() -> Channel {
        Channel {
            sides: [const { Side::new() }; 2],
            keeps_messages: AtomicU32::new(0),
            is_shared: AtomicU32::new(0),
        }
    }
}

impl Side {
    const fn new() -> Side {
        Side {
            open: AtomicU32::new(0),
            first: AtomicU32::new(0),
            end: AtomicU32::new(0),
            is_mapped: AtomicU32::new(0),
        }
    }
}

/// The channel and the side of a descriptor.
fn end_of(descriptor: usize) -> Option<(usize, usize)> {
    let end = ENDS.get(descriptor)?.load(Relaxed).checked_sub(1)? as usize;
    Some((end / 2, end % 2))
}

/// Does what is written there come back to this process?
pub fn is_to_self(descriptor: usize) -> bool {
    end_of(descriptor).is_some_and(|(channel, side)| TABLE[channel].sides[1 - side].open.load(Relaxed) != 0)
}

/// The process has forked.
pub fn share_all() {
    TABLE.iter().for_each(|channel| channel.is_shared.store(1, Relaxed));
}

/// A call that succeeded has been answered.
pub fn follow(number: c_long, arguments: &[usize; 6], entry: &Entry) {
    let result = entry.result as usize;
    match number {
        libc::SYS_pipe => open_both(arguments[0], 0),
        libc::SYS_pipe2 => open_both(arguments[0], arguments[1] as i32 & libc::O_DIRECT),
        libc::SYS_socketpair => {
            const KIND: i32 = 0xf;
            open_both(arguments[3], (arguments[1] as i32 & KIND != libc::SOCK_STREAM) as i32);
        }
        libc::SYS_close => forget(arguments[0]),
        libc::SYS_close_range if arguments[2] as u32 & libc::CLOSE_RANGE_CLOEXEC == 0 => {
            (arguments[0]..=arguments[1].min(FOLLOWED - 1)).for_each(forget);
        }
        libc::SYS_dup => copy_end(arguments[0], result),
        libc::SYS_dup2 | libc::SYS_dup3 if arguments[0] != result => copy_end(arguments[0], result),
        libc::SYS_fcntl if matches!(arguments[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
            copy_end(arguments[0], result);
        }
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_eventfd2
        | libc::SYS_epoll_create1
        | libc::SYS_timerfd_create
        | libc::SYS_memfd_create => forget(result),
        libc::SYS_splice => [arguments[0], arguments[2]].into_iter().for_each(share),
        libc::SYS_tee | libc::SYS_sendfile => [arguments[0], arguments[1]].into_iter().for_each(share),
        libc::SYS_vmsplice => share(arguments[0]),
        libc::SYS_write | libc::SYS_sendto => {
            let parts = [(arguments[1], result)];
            keep(arguments[0], &parts, entry, arguments[2], CHECKED_BYTES);
        }
        libc::SYS_writev => {
            let count = buffers::bytes(arguments[1], arguments[2]);
            with_buffers(arguments[1], arguments[2], result, |parts| {
                keep(arguments[0], parts, entry, count, GATHERED_BYTES);
            });
        }
        libc::SYS_sendmsg => {
            let (buffers, number) = buffers::of_message(arguments[1]);
            let count = buffers::bytes(buffers, number);
            with_buffers(buffers, number, result, |parts| {
                keep(arguments[0], parts, entry, count, GATHERED_BYTES);
            });
        }
        libc::SYS_read => give(arguments[0], &[(arguments[1], result)], false),
        libc::SYS_recvfrom => give(arguments[0], &[(arguments[1], result)], is_peek(arguments[3])),
        libc::SYS_readv => with_buffers(arguments[1], arguments[2], result, |parts| {
            give(arguments[0], parts, false);
        }),
        libc::SYS_recvmsg => {
            let (buffers, number) = buffers::of_message(arguments[1]);
            with_buffers(buffers, number, result, |parts| {
                give(arguments[0], parts, is_peek(arguments[2]))
            });
        }
        _ => {}
    }
}

fn is_peek(flags: usize) -> bool {
    flags as i32 & libc::MSG_PEEK != 0
}

fn open_both(descriptors: usize, keeps_messages: i32) {
    // SAFETY: the call's answer was put there.
    let both = unsafe { (descriptors as *const [u32; 2]).read_unaligned() };
    both.iter().for_each(|descriptor| forget(*descriptor as usize));
    let is_free = |channel: &&Channel| channel.sides.iter().all(|side| side.open.load(Relaxed) == 0);
    let Some(index) = TABLE.iter().position(|channel| is_free(&channel)) else {
        return;
    };
    let channel = &TABLE[index];
    channel.keeps_messages.store(keeps_messages as u32, Relaxed);
    channel.is_shared.store(0, Relaxed);
    for side in &channel.sides {
        side.first.store(0, Relaxed);
        side.end.store(0, Relaxed);
    }
    for (side, descriptor) in both.iter().enumerate() {
        set_end(*descriptor as usize, (2 * index + side) as u32 + 1);
    }
}

fn set_end(descriptor: usize, end: u32) {
    if let Some(place) = ENDS.get(descriptor) {
        place.store(end, Relaxed);
        if let Some((channel, side)) = end_of(descriptor) {
            let open = &TABLE[channel].sides[side].open;
            open.store(open.load(Relaxed) + 1, Relaxed);
        }
    }
}

fn forget(descriptor: usize) {
    if let Some((channel, side)) = end_of(descriptor) {
        let open = &TABLE[channel].sides[side].open;
        open.store(open.load(Relaxed) - 1, Relaxed);
        ENDS[descriptor].store(0, Relaxed);
    }
}

fn copy_end(from: usize, to: usize) {
    forget(to);
    if let Some(end) = ENDS.get(from) {
        set_end(to, end.load(Relaxed));
    }
}

fn share(descriptor: usize) {
    if let Some((channel, _)) = end_of(descriptor) {
        TABLE[channel].is_shared.store(1, Relaxed);
    }
}

/// Buffers of one call that are looked at.
const PARTS_MAX: usize = 64;

/// Where the first `bytes` bytes of `count` buffers are.
fn with_buffers(buffers: usize, count: usize, bytes: usize, action: impl FnOnce(&[(usize, usize)])) {
    let mut parts = [(0, 0); PARTS_MAX];
    let mut left = bytes;
    if count > PARTS_MAX {
        return;
    }
    for (part, buffer) in parts.iter_mut().zip(buffers::all(buffers, count)) {
        *part = (buffer.iov_base as usize, left.min(buffer.iov_len));
        left -= part.1;
    }
    action(&parts[..count]);
}

/// What comes before the bytes of one message: what one call has written.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    bytes: u32,
    /// As the log has it, without how long it took; 0: not known.
    check: u32,
    /// So many have been read; all: it is gone.
    taken: u32,
    /// The check is of so many bytes at most.
    checked: u32,
}

impl Head {
    fn is_gone(&self) -> bool {
        self.taken == self.bytes
    }

    fn go(&mut self) {
        self.taken = self.bytes;
    }
}

const HEAD_BYTES: usize = size_of::<Head>();

/// What was written to a side, in memory that only who has the turn uses.
struct Queue {
    at: usize,
    side: &'static Side,
}

impl Queue {
    fn of(channel: usize, side: usize) -> Queue {
        Queue {
            at: memory_map::CHANNELS.part((2 * channel + side) as u64) as usize,
            side: &TABLE[channel].sides[side],
        }
    }

    fn first(&self) -> usize {
        self.side.first.load(Relaxed) as usize
    }

    fn end(&self) -> usize {
        self.side.end.load(Relaxed) as usize
    }

    fn head(&self, at: usize) -> &'static mut Head {
        // SAFETY: a head was put there, 16-aligned, and one is used at a time.
        unsafe { &mut *((self.at + at) as *mut Head) }
    }

    fn bytes_at(&self, at: usize) -> usize {
        self.at + at + HEAD_BYTES
    }

    /// Where the message behind that one begins.
    fn behind(&self, at: usize) -> usize {
        at + HEAD_BYTES + (self.head(at).bytes as usize).next_multiple_of(HEAD_BYTES)
    }

    /// The next one from there on that is not gone.
    fn next(&self, mut at: usize) -> Option<usize> {
        while at < self.end() {
            if !self.head(at).is_gone() {
                return Some(at);
            }
            at = self.behind(at);
        }
        None
    }

    /// Forgets those at the beginning that are gone.
    fn tidy(&self) {
        let first = self.next(self.first());
        self.side.first.store(first.unwrap_or(0) as u32, Relaxed);
        if first.is_none() {
            self.side.end.store(0, Relaxed);
        }
    }

    /// Makes room for so many bytes, at the cost of the oldest messages if need be.
    fn make_room(&self, bytes: usize) -> bool {
        if bytes > KEPT_BYTES {
            return false;
        }
        while self.end() + bytes > KEPT_BYTES {
            if self.first() == 0 {
                self.head(0).go();
                self.tidy();
            }
            let (first, end) = (self.first(), self.end());
            inputs::copy((self.at + first) as *const u8, self.at as *mut u8, end - first);
            self.side.first.store(0, Relaxed);
            self.side.end.store((end - first) as u32, Relaxed);
        }
        true
    }

    fn push(&self, parts: &[(usize, usize)], check: u32, checked: usize) {
        let bytes: usize = parts.iter().map(|part| part.1).sum();
        let is_mapped =
            self.side.is_mapped.load(Relaxed) != 0 || sys::map_at(self.at as u64, KEPT_BYTES, -1, 0, true).is_ok();
        let needed = HEAD_BYTES + bytes.next_multiple_of(HEAD_BYTES);
        if !is_mapped {
            return;
        }
        self.side.is_mapped.store(1, Relaxed);
        if bytes == 0 || !self.make_room(needed) {
            return;
        }
        let at = self.end();
        *self.head(at) = Head {
            bytes: bytes as u32,
            check,
            taken: 0,
            checked: checked as u32,
        };
        let mut to = self.bytes_at(at);
        for (from, bytes) in parts {
            inputs::copy(*from as *const u8, to as *mut u8, *bytes);
            to += bytes;
        }
        self.side.end.store((at + needed) as u32, Relaxed);
    }

    /// The message that the recorded bytes at `address` begin with.
    fn find(&self, address: usize, bytes: usize) -> Option<usize> {
        let mut at = self.next(self.first())?;
        for _ in 0..LOOKS_MAX {
            let head = self.head(at);
            let length = head.bytes as usize;
            if head.check != 0
                && length <= bytes
                && head.check == super::condensed(address, length, head.checked as usize) & !ACTING_BITS
            {
                return Some(at);
            }
            at = self.next(self.behind(at))?;
        }
        None
    }
}

/// The call has written the parts, and was given `count` bytes for that.
fn keep(descriptor: usize, parts: &[(usize, usize)], entry: &Entry, count: usize, checked: usize) {
    // The check is of all it was given.
    let check = if entry.result as usize == count {
        entry.check & !ACTING_BITS
    } else {
        0
    };
    if let Some((channel, side)) = end_of(descriptor)
        && TABLE[channel].sides[1 - side].open.load(Relaxed) != 0
    {
        Queue::of(channel, 1 - side).push(parts, check, checked);
    }
}

/// Puts what is written now in the place of what was read.
fn give(descriptor: usize, parts: &[(usize, usize)], is_peek: bool) {
    let Some((channel, side)) = end_of(descriptor) else {
        return;
    };
    let queue = Queue::of(channel, side);
    let is_shared = TABLE[channel].is_shared.load(Relaxed) != 0;
    let keeps_messages = TABLE[channel].keeps_messages.load(Relaxed) != 0;
    for (address, bytes) in parts {
        let mut done = 0;
        while done < *bytes {
            let (to, left) = (address + done, bytes - done);
            let Some(oldest) = queue.next(queue.first()) else {
                return;
            };
            let head = queue.head(oldest);
            let begun = head.taken != 0;
            let is_whole = head.check != 0 && head.bytes as usize <= left;
            let found = (!begun).then(|| queue.find(to, left)).flatten();
            let at = match found {
                Some(at) => at,
                // It has come from elsewhere.
                None if !begun && (is_whole || is_shared) => return,
                None => oldest,
            };
            let head = queue.head(at);
            let part = left.min((head.bytes - head.taken) as usize);
            inputs::copy(
                (queue.bytes_at(at) + head.taken as usize) as *const u8,
                to as *mut u8,
                part,
            );
            if is_peek {
                return;
            }
            head.taken += part as u32;
            done += part;
            queue.tidy();
        }
    }
    if keeps_messages
        && !is_peek
        && let Some(rest) = queue.next(queue.first())
        && queue.head(rest).taken != 0
    {
        queue.head(rest).go();
        queue.tidy();
    }
}
