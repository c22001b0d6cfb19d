//! Which calls are about state of the process's own, and about which: pipes, pairs of sockets and counters of events that it made, and files.
//! Threads pass each other data by them, so a hybrid schedule orders them (PEREGRINE, section 6.2). What comes from elsewhere is not ordered: a pipe
//! that the process has inherited, a terminal, a socket.
//!
//! Asked only while a run is recorded for a schedule. Later the schedule itself says of each call whether it is ordered.
use crate::calls::buffers;
use crate::calls::descriptors;
use crate::calls::epolls;
use crate::calls::polls;
use crate::calls::table;
use crate::line::Line;
use crate::sys;
use core::ffi::c_int;
use core::ffi::c_long;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// What fits into a pipe, or a pair of sockets, that has any room at all, and is not interleaved with what others write.
pub const PIECE_BYTES: usize = libc::PIPE_BUF;

/// What a call uses.
#[derive(Clone, Copy)]
pub struct State {
    /// The ghost object that stands for it.
    pub object: u64,
    /// The call may have to wait: until `poll` has one of these to tell.
    pub waits_for: Option<i16>,
    /// How it is made, if not at once.
    pub pieces: Pieces,
}

/// Whether a call is made piece by piece, each of which has a place in the order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    One,
    /// It gives out more than [`PIECE_BYTES`].
    Given,
    /// It takes bytes until it has as many as it asks for.
    Taken,
}

/// May a call of this number be ordered? It has an event before its own then, whether it is or not.
pub fn may_be_ordered(number: c_long) -> bool {
    is_reading(number)
        || table::writes(number)
        || is_writing(number)
        || is_about_files(number)
        || polls::is_poll(number)
}

fn is_reading(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_preadv2
    )
}

fn is_writing(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
    )
}

/// Neither, but others see what it does.
fn is_about_files(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_lseek | libc::SYS_ftruncate | libc::SYS_close | libc::SYS_shutdown | libc::SYS_epoll_ctl
    )
}

/// What the call uses, if it is to be ordered.
pub fn of(number: c_long, arguments: &[usize; 6]) -> Option<State> {
    let descriptor = arguments[0];
    let is_write = matches!(number, libc::SYS_write | libc::SYS_writev);
    let stream = State {
        object: object_of_descriptor(descriptor as i32),
        waits_for: None,
        pieces: Pieces::One,
    };
    if number == libc::SYS_epoll_ctl {
        return Some(State {
            object: epolls::object(),
            ..stream
        });
    }
    if polls::is_poll(number) {
        // Inside of a function of libc's.
        return None;
    }
    if descriptors::shown(descriptor).is_some() {
        // Streams of libc's are ordered by the same object.
        return is_write.then_some(stream);
    }
    let file = status(descriptor)?;
    let kind = file.st_mode & libc::S_IFMT;
    if kind == libc::S_IFREG {
        return (number != libc::SYS_close).then_some(State {
            object: object_of(key_of(&file)),
            ..stream
        });
    }
    let Some(object) = own_channel(descriptor, &file) else {
        // Who writes first is ordered, wherever it goes.
        return is_write.then_some(stream);
    };
    let is_stream = kind == libc::S_IFIFO || kind == libc::S_IFSOCK && is_stream_socket(descriptor);
    let waits = may_wait(number, arguments);
    let given = match number {
        libc::SYS_write | libc::SYS_sendto => arguments[2],
        libc::SYS_writev => buffers::bytes(arguments[1], arguments[2]),
        libc::SYS_sendmsg => {
            let (list, count) = buffers::of_message(arguments[1]);
            buffers::bytes(list, count)
        }
        _ => 0,
    };
    let pieces = match waits && is_stream {
        true if given > PIECE_BYTES => Pieces::Given,
        true if asks_for_all(number, arguments) => match number {
            libc::SYS_recvfrom if arguments[3] as i32 & libc::MSG_PEEK == 0 => Pieces::Taken,
            // It could wait in the middle, for somebody who waits for the object.
            _ => return None,
        },
        // Who sends messages, and not bytes, has room for all of one if there is any.
        _ => Pieces::One,
    };
    Some(State {
        object,
        waits_for: waits.then_some(if is_reading(number) {
            libc::POLLIN
        } else {
            libc::POLLOUT
        }),
        pieces,
    })
}

/// What stands for a channel, if it is the process's own: one object for both ends.
fn own_channel(descriptor: usize, file: &libc::stat) -> Option<u64> {
    let key = match file.st_mode & libc::S_IFMT {
        libc::S_IFIFO | libc::S_IFSOCK => OWN.key_of_both_ends(key_of(file)),
        0 => is_event_counter(descriptor).then(|| key_of(file)),
        _ => None,
    };
    key.map(object_of)
}

/// Who decides what could be done with a descriptor?
pub enum Whose {
    /// The process, by calls on what this ghost object stands for.
    Own(u64),
    /// Nobody: files are always ready.
    File,
    Outside,
}

pub fn whose(descriptor: usize) -> Whose {
    match status(descriptor) {
        Some(file) if matches!(file.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR) => Whose::File,
        Some(file) => own_channel(descriptor, &file).map_or(Whose::Outside, Whose::Own),
        None => Whose::Outside,
    }
}

/// May the call wait for other threads?
fn may_wait(number: c_long, arguments: &[usize; 6]) -> bool {
    let flags = match number {
        libc::SYS_recvfrom | libc::SYS_sendto => arguments[3],
        libc::SYS_recvmsg | libc::SYS_sendmsg => arguments[2],
        _ => 0,
    };
    if !is_reading(number) && !is_writing(number) || flags as i32 & libc::MSG_DONTWAIT != 0 {
        return false;
    }
    // SAFETY: touches no memory.
    let flags = unsafe { sys::syscall(libc::SYS_fcntl, [arguments[0], libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as i32 & libc::O_NONBLOCK == 0
}

fn asks_for_all(number: c_long, arguments: &[usize; 6]) -> bool {
    let flags = match number {
        libc::SYS_recvfrom => arguments[3],
        libc::SYS_recvmsg => arguments[2],
        _ => 0,
    };
    flags as i32 & libc::MSG_WAITALL != 0
}

fn status(descriptor: usize) -> Option<libc::stat> {
    let mut file = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes what `file` has room for.
    let result = unsafe { sys::syscall(libc::SYS_fstat, [descriptor, file.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: the kernel has filled it.
    (result == 0).then(|| unsafe { file.assume_init() })
}

/// Never 0.
fn key_of(file: &libc::stat) -> u64 {
    (file.st_ino ^ file.st_dev.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// What stands for a descriptor: streams and direct writes to the same one are ordered together. Larger numbers share.
pub fn object_of_descriptor(file: c_int) -> u64 {
    static DESCRIPTORS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    &DESCRIPTORS[file as usize % DESCRIPTORS.len()] as *const AtomicU64 as u64
}

/// What stands for a file or a channel; some share.
fn object_of(key: u64) -> u64 {
    static OBJECTS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    &OBJECTS[(key >> 32) as usize % OBJECTS.len()] as *const AtomicU64 as u64
}

/// An eventfd: others of its kind, such as timers, tell of the outside.
fn is_event_counter(descriptor: usize) -> bool {
    const NAME: &[u8] = b"anon_inode:[eventfd]";
    let mut path = Line::default();
    path.text(b"/proc/self/fd/");
    path.number(descriptor as u64);
    path.text(b"\0");
    let mut name = [0u8; NAME.len() + 1];
    let arguments = [
        path.bytes().as_ptr() as usize,
        name.as_mut_ptr() as usize,
        name.len(),
        0,
        0,
        0,
    ];
    // SAFETY: a path that ends, and as much room as is said.
    let bytes = unsafe { sys::syscall(libc::SYS_readlink, arguments) };
    bytes == NAME.len() as isize && name.starts_with(NAME)
}

fn is_stream_socket(descriptor: usize) -> bool {
    let (mut kind, mut bytes) = (0i32, size_of::<i32>() as u32);
    let arguments = [
        descriptor,
        libc::SOL_SOCKET as usize,
        libc::SO_TYPE as usize,
        &raw mut kind as usize,
        &raw mut bytes as usize,
        0,
    ];
    // SAFETY: room for a number, and for its length.
    let result = unsafe { sys::syscall(libc::SYS_getsockopt, arguments) };
    result == 0 && kind == libc::SOCK_STREAM
}

/// Is one of `events` to be told of the descriptor? Waits at most so long; an error is negative.
pub fn poll(descriptor: usize, events: i16, wait_ms: usize) -> isize {
    let mut asked = libc::pollfd {
        fd: descriptor as i32,
        events,
        revents: 0,
    };
    // SAFETY: the kernel reads and writes one such structure.
    unsafe { sys::syscall(libc::SYS_poll, [&raw mut asked as usize, 1, wait_ms, 0, 0, 0]) }
}

/// A call that succeeded may have made a channel, or opened an end of one.
pub fn follow(number: c_long, arguments: &[usize; 6], result: isize) {
    let both = match number {
        libc::SYS_pipe | libc::SYS_pipe2 => arguments[0],
        libc::SYS_socketpair => arguments[3],
        libc::SYS_open | libc::SYS_openat => {
            let flags = arguments[if number == libc::SYS_open { 1 } else { 2 }] as i32 & libc::O_ACCMODE;
            let ends = match flags {
                libc::O_RDONLY => READ_END,
                libc::O_WRONLY => WRITTEN_END,
                _ => READ_END | WRITTEN_END,
            };
            if let Some(file) = status(result as usize).filter(|file| file.st_mode & libc::S_IFMT == libc::S_IFIFO) {
                OWN.add(key_of(&file), key_of(&file), ends);
            }
            return;
        }
        _ => return,
    };
    // SAFETY: the call has put two numbers there.
    let ends = unsafe { (both as *const [u32; 2]).read_unaligned() };
    if let [Some(first), Some(second)] = ends.map(|descriptor| status(descriptor as usize)) {
        // Sockets have a number each, and what is written to one is read from the other.
        for end in [&first, &second] {
            OWN.add(key_of(end), key_of(&first), READ_END | WRITTEN_END);
        }
    }
}

const READ_END: u32 = 1;
const WRITTEN_END: u32 = 2;

static OWN: Channels = Channels([const { Channel::new() }; CHANNELS_MAX]);
/// When there have been more, calls on those that come later are not ordered.
const CHANNELS_MAX: usize = 4096;

/// Pipes and sockets that the process has made, by their keys; and which ends it has opened.
struct Channels([Channel; CHANNELS_MAX]);

struct Channel {
    key: AtomicU64,
    /// The key that both ends have in common.
    common: AtomicU64,
    ends: AtomicU32,
}

impl Channel {
    const fn new() -> Channel {
        Channel {
            key: AtomicU64::new(0),
            common: AtomicU64::new(0),
            ends: AtomicU32::new(0),
        }
    }
}

impl Channels {
    fn find(&self, key: u64, is_new: bool) -> Option<&Channel> {
        let first = (key >> 32) as usize % CHANNELS_MAX;
        for channel in self.0[first..].iter().chain(&self.0[..first]) {
            // Relaxed: whoever knows a descriptor has it from the thread that made it, or learns it by other means.
            match channel.key.load(Relaxed) {
                found if found == key => return Some(channel),
                0 if !is_new => return None,
                0 => match channel.key.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => return Some(channel),
                    Err(found) if found == key => return Some(channel),
                    Err(_) => {}
                },
                _ => {}
            }
        }
        None
    }

    fn add(&self, key: u64, common: u64, ends: u32) {
        if let Some(known) = self.find(key, true) {
            known.common.store(common, Relaxed);
            known.ends.fetch_or(ends, Relaxed);
        }
    }

    fn key_of_both_ends(&self, key: u64) -> Option<u64> {
        let both = READ_END | WRITTEN_END;
        let channel = self.find(key, false)?;
        (channel.ends.load(Relaxed) == both).then(|| channel.common.load(Relaxed))
    }
}
