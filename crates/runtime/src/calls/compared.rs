//! Deterministic runs: what of a call is compared with what it was when the schedule was learned, and what happens if it is something else.
//!
//! The same code says it when the schedule is learned and when it is enforced. What may be another thing each time is left out by the table of
//! `runtime_abi::compared`; what is left out of a call that is compared, here.
use crate::calls::buffers;
use crate::calls::doing;
use crate::calls::table;
use crate::calls::table::Size;
use crate::calls::written;
use crate::control;
use crate::inputs::Range;
use crate::line::Line;
use crate::local::Local;
use crate::sys;
use core::ffi::c_long;
use runtime_abi::DIVERGENCE_NAME_BYTES;
use runtime_abi::compared::Compared;
use runtime_abi::compared::compared;
use runtime_abi::divergence;
use runtime_abi::input_difference;
use runtime_abi::inputs_file::Digest;
use runtime_abi::inputs_file::InputEntry;

impl Local {
    /// A call has been made, and the program does not know its result yet: it is learned, or compared.
    #[inline]
    pub fn consider_input(&self, number: c_long, arguments: &[usize; 6], result: isize, ranges: &[Range]) {
        if !control::counts() {
            return;
        }
        let Some(entry) = seen(number, arguments, result, ranges) else {
            return;
        };
        if control::counts_for_learning() {
            self.learn(entry);
        } else if control::counts_for_points() {
            self.compare_input(entry, arguments);
        }
    }

    fn compare_input(&self, entry: InputEntry, arguments: &[usize; 6]) {
        let Some(learned) = self.next_learned() else {
            // It was in this call, or behind it, when the process ended that the schedule was learned from.
            if !self.is_at_end() {
                self.differ(&entry, arguments, input_difference::MORE, 0);
            }
            return;
        };
        if *learned == entry {
            return self.pass_learned(learned);
        }
        match (learned.number == entry.number, learned.result == entry.result) {
            (false, _) => self.differ(&entry, arguments, input_difference::CALL, u64::from(learned.number)),
            (true, false) => self.differ(&entry, arguments, input_difference::RESULT, learned.result as u64),
            (true, true) => self.differ(&entry, arguments, input_difference::BYTES, learned.result as u64),
        }
    }

    /// Something else came in: the schedule says nothing about what the program does with it.
    #[cold]
    fn differ(&self, entry: &InputEntry, arguments: &[usize; 6], difference: u32, learned: u64) {
        let number = c_long::from(entry.number);
        let mut buffer = [0; DIVERGENCE_NAME_BYTES];
        let name = name_of(number, arguments, &mut buffer);
        self.leave_schedule_about(
            divergence::INPUT,
            doing(number),
            difference,
            learned,
            entry.result as u64,
            name,
        );
    }
}

/// What is compared of a call; `None`: nothing.
fn seen(number: c_long, arguments: &[usize; 6], result: isize, ranges: &[Range]) -> Option<InputEntry> {
    let of = match compared(number as u32) {
        Compared::Nothing => return None,
        Compared::Command => by_command(number, arguments)?,
        of => of,
    };
    if is_about_output(number, arguments) {
        return None;
    }
    let mut digest = Digest::default();
    match of {
        Compared::All if writes_unknown(number, arguments) => {}
        Compared::All if is_scattered(number) => add_buffers(arguments[1], arguments[2], result, &mut digest),
        Compared::All => each(ranges, |bytes| digest.add(bytes)),
        Compared::Status => each(ranges, |bytes| {
            add_status(number, bytes, is_only_written(number, arguments), &mut digest);
        }),
        Compared::Directory => each(ranges, |bytes| add_names(number, bytes, &mut digest)),
        Compared::From => each(at(ranges, arguments[1]), |bytes| digest.add(bytes)),
        Compared::Message if result >= 0 => add_message(arguments[1], result, &mut digest),
        Compared::Messages if result >= 0 => add_messages(arguments[1], result, &mut digest),
        Compared::Ready => each(at(ranges, arguments[0]), |bytes| {
            add_parts::<8>(bytes, 6..8, &mut digest)
        }),
        Compared::ReadyEvents => each(ranges, |bytes| add_parts::<12>(bytes, 0..4, &mut digest)),
        Compared::ReadySets => {
            for set in &arguments[1..4] {
                each(at(ranges, *set), |bytes| digest.add(bytes));
            }
        }
        Compared::Mapping => add_mapping(result, arguments[1], ranges, &mut digest),
        _ => {}
    }
    let result = match of {
        Compared::Success | Compared::Mapping => result.min(0),
        _ => result,
    };
    Some(InputEntry {
        number: number as u32,
        reserved: 0,
        result: result as i64,
        digest: digest.value(),
        bytes: digest.bytes(),
    })
}

/// Of calls whose second argument says what is asked for.
fn by_command(number: c_long, arguments: &[usize; 6]) -> Option<Compared> {
    const TIOCGPGRP: u32 = 0x540f;
    const TIOCGSID: u32 = 0x5429;
    const F_GETOWN_EX: i32 = 16;
    Some(match number {
        // Numbers of processes.
        libc::SYS_ioctl => match arguments[1] as u32 {
            TIOCGPGRP | TIOCGSID => return None,
            _ => Compared::All,
        },
        _ => match arguments[1] as i32 {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Compared::Success,
            libc::F_GETOWN => return None,
            // Processes that hold a lock are named by their numbers.
            libc::F_GETLK | libc::F_OFD_GETLK | F_GETOWN_EX => Compared::Result,
            _ => Compared::All,
        },
    })
}

/// Does it ask what standard output or error are, or where in them it is? When a schedule is learned, they are what the tool passes on.
fn is_about_output(number: c_long, arguments: &[usize; 6]) -> bool {
    let is_asked = matches!(
        number,
        libc::SYS_fstat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_lseek | libc::SYS_ioctl | libc::SYS_fcntl
    );
    is_asked && matches!(arguments[0], 1 | 2)
}

/// Is what it writes only found by comparing memory? That has bytes in it which the call did not write.
fn writes_unknown(number: c_long, arguments: &[usize; 6]) -> bool {
    let writes = table::look_up(number, arguments).writes;
    writes
        .iter()
        .any(|written| matches!(written.size, Size::Changed | Size::ChangedBehind(_)))
}

/// Does it write into the buffers of an iovec? There may be more than there is room for ranges.
fn is_scattered(number: c_long) -> bool {
    matches!(number, libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2)
}

fn each(ranges: impl IntoIterator<Item = impl core::borrow::Borrow<Range>>, mut add: impl FnMut(&[u8])) {
    for range in ranges {
        add(bytes_at(range.borrow().from, range.borrow().bytes));
    }
}

/// Those that belong at an address of the program's.
fn at(ranges: &[Range], address: usize) -> impl Iterator<Item = &Range> {
    ranges.iter().filter(move |range| range.address == address)
}

fn bytes_at(address: usize, bytes: usize) -> &'static [u8] {
    match address == 0 || bytes == 0 {
        true => &[],
        // SAFETY: the kernel has just written these bytes, and the call has not returned to the program.
        false => unsafe { core::slice::from_raw_parts(address as *const u8, bytes) },
    }
}

/// As if the bytes were in one buffer: how they are divided is the program's affair.
fn add_buffers(list: usize, count: usize, result: isize, digest: &mut Digest) {
    let mut left = result.max(0) as usize;
    for buffer in buffers::all(list, count) {
        let part = left.min(buffer.iov_len);
        digest.add(bytes_at(buffer.iov_base as usize, part));
        left -= part;
    }
}

fn add_message(message: usize, bytes: isize, digest: &mut Digest) {
    let (list, count) = buffers::of_message(message);
    add_buffers(list, count, bytes, digest);
}

fn add_messages(messages: usize, count: isize, digest: &mut Digest) {
    for message in (0..count as usize).map(|at| messages + at * written::MESSAGE_BYTES) {
        let length = bytes_at(message + size_of::<libc::msghdr>(), size_of::<u32>());
        let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | isize::from(*byte));
        digest.add_number(length as u64);
        add_message(message, length, digest);
    }
}

/// A part of each of several things of one size.
fn add_parts<const EACH: usize>(bytes: &[u8], part: core::ops::Range<usize>, digest: &mut Digest) {
    for one in bytes.as_chunks::<EACH>().0 {
        digest.add(&one[part.clone()]);
    }
}

fn add_status(number: c_long, bytes: &[u8], is_only_written: bool, digest: &mut Digest) {
    const OF_STAT: [usize; 2] = [24, 48];
    const OF_STATX: [usize; 2] = [28, 40];
    let [mode_at, size_at] = if number == libc::SYS_statx { OF_STATX } else { OF_STAT };
    let (Some(mode), Some(size)) = (bytes.get(mode_at..mode_at + 2), bytes.get(size_at..size_at + 8)) else {
        return;
    };
    let mode_bits = u32::from(mode[0]) | u32::from(mode[1]) << 8;
    if is_only_written {
        // It is for output: what matters is whether it may be a terminal.
        return digest.add_number(u64::from(mode_bits & libc::S_IFMT == libc::S_IFCHR));
    }
    digest.add(mode);
    // Sizes of directories are the file system's affair; others than these two have none.
    if matches!(mode_bits & libc::S_IFMT, libc::S_IFREG | libc::S_IFLNK) {
        digest.add(size);
    }
}

/// Is it asked about a descriptor that nothing is read from? How long a file is that is written to depends on what was there before.
fn is_only_written(number: c_long, arguments: &[usize; 6]) -> bool {
    let is_of_descriptor = match number {
        libc::SYS_fstat => true,
        libc::SYS_newfstatat => arguments[3] as i32 & libc::AT_EMPTY_PATH != 0,
        libc::SYS_statx => arguments[2] as i32 & libc::AT_EMPTY_PATH != 0,
        _ => false,
    };
    is_of_descriptor && sys::is_only_written(arguments[0] as i32)
}

/// The names in a directory, and what they are, as far as that is said there.
fn add_names(number: c_long, mut bytes: &[u8], digest: &mut Digest) {
    const LENGTH_AT: usize = 16;
    let name_at = if number == libc::SYS_getdents64 { 19 } else { 18 };
    while let Some(length) = bytes.get(LENGTH_AT..LENGTH_AT + 2) {
        let length = usize::from(length[0]) | usize::from(length[1]) << 8;
        let Some(entry) = bytes.get(..length).filter(|entry| entry.len() > name_at) else {
            return;
        };
        let name = &entry[name_at..];
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        digest.add(&name[..end]);
        // Behind the name is the kind of the old call.
        digest.add(&[if number == libc::SYS_getdents64 {
            entry[name_at - 1]
        } else {
            entry[length - 1]
        }]);
        bytes = &bytes[length..];
    }
}

/// What is in memory, and where in it; which file that is does not matter.
fn add_mapping(result: isize, bytes: usize, ranges: &[Range], digest: &mut Digest) {
    let mapped = result as usize..(result as usize).saturating_add(bytes);
    for range in ranges
        .iter()
        .filter(|range| result > 0 && mapped.contains(&range.address))
    {
        digest.add_number((range.address - mapped.start) as u64);
        digest.add(bytes_at(range.from, range.bytes));
    }
}

/// The file that a call is about: its path as the program gave it, or where its descriptor leads.
fn name_of<'a>(number: c_long, arguments: &[usize; 6], buffer: &'a mut [u8; DIVERGENCE_NAME_BYTES]) -> &'a [u8] {
    let path = match number {
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_readlink
        | libc::SYS_getxattr
        | libc::SYS_lgetxattr
        | libc::SYS_listxattr
        | libc::SYS_llistxattr
        | libc::SYS_truncate
        | libc::SYS_chdir
        | libc::SYS_rename
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink => arguments[0],
        libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_readlinkat
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_renameat => arguments[1],
        _ => 0,
    };
    if path != 0 {
        let there = sys::copy_own(path, buffer.as_mut_ptr() as usize, DIVERGENCE_NAME_BYTES);
        let length = buffer[..there].iter().position(|byte| *byte == 0).unwrap_or(there);
        if length != 0 {
            return &buffer[..length];
        }
    }
    let descriptor = match number {
        libc::SYS_mmap => arguments[4],
        _ if has_descriptor(number) => arguments[0],
        _ => return &[],
    };
    let mut link = Line::default();
    link.text(b"/proc/self/fd/");
    link.number(descriptor as u64);
    link.text(b"\0");
    sys::read_link(link.bytes(), buffer)
}

/// Is its first argument a descriptor?
fn has_descriptor(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_fstat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_lseek
            | libc::SYS_ioctl
            | libc::SYS_fcntl
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_preadv2
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_getdents
            | libc::SYS_getdents64
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_ftruncate
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_fgetxattr
            | libc::SYS_flistxattr
    )
}
