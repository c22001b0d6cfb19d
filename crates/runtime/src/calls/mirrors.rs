//! Files that the program has mapped, and segments of memory that it has attached.
//!
//! Recording: such a call is logged with which file that is, how long it is, and what is in it. When the program writes to a file that it has mapped, what
//! it wrote, and where, is logged with that call.
//!
//! Replay: each of these files has a *mirror*, a file in memory that is mapped in its place. So a second mapping shows what was written through the first
//! one, a child shares it with its parent, and a mapping that grows, or is thrown away and read again, shows what is in the file.
//! What others write to the file meanwhile does not come in.
//!
//! Behind the ranges that hold memory as it was mapped, a call has one at address `ABOUT_FILE`: which file, its length, and an offset in it. Those
//! at `IN_FILE` are bytes of the file, from that offset on.
//!
//! Which file it is: device and inode are not enough, because file systems give the inode of a file that is gone to the next one, and threads that have nothing
//! to do with each other would share a mirror, in which each finds the other's bytes. The time at which the file was made tells them apart.
use crate::calls::written::Ranges;
use crate::control;
use crate::failure;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::ABOUT_FILE;
use log_format::inputs::Call;
use log_format::inputs::IN_FILE;

/// Files and segments that are followed.
const FILES_MAX: usize = 256;
/// A file that is not mapped as a whole is logged as a whole if it is not longer than this: the mapping may grow.
const WHOLE_BYTES_MAX: usize = 1 << 18;
/// Otherwise, so much of it behind what is mapped.
const NEXT_BYTES: usize = 1 << 16;
/// Parts of a file between its holes that are logged one by one, at most; and how large a hole is at least that is left out.
const PARTS_MAX: usize = 40;
const FIRST_HOLE_BYTES: u64 = 1 << 16;
/// Mirrors have descriptors from here on; in replay the program has none but the first three.
const FIRST_DESCRIPTOR: usize = 700;
/// Stands for the device of segments.
const SEGMENTS: u64 = u64::MAX;
const PAGE: usize = 4096;

/// Which file, as one number that is not 0.
type Identity = u64;

struct File {
    /// 0: nobody's yet. Whoever puts a number there first has the place for that file; it is never changed again.
    identity: AtomicU64,
    /// Replay: the mirror's descriptor.
    mirror: AtomicI32,
}

/// Those in use come first.
static FILES: [File; FILES_MAX] = [const {
    File {
        identity: AtomicU64::new(0),
        mirror: AtomicI32::new(-1),
    }
}; FILES_MAX];

/// Attached segments: where, and how long.
static ATTACHED: [[AtomicUsize; 2]; 64] = [const { [const { AtomicUsize::new(0) }; 2] }; 64];

fn identity(device: u64, inode: u64, birth_ns: u64) -> Identity {
    [device, inode, birth_ns]
        .iter()
        .fold(0, |identity: u64, word| {
            (identity.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
        .max(1)
}

fn find(identity: Identity) -> Option<&'static File> {
    FILES
        .iter()
        .map_while(|file| match file.identity.load(Relaxed) {
            0 => None,
            found => Some((found, file)),
        })
        .find_map(|(found, file)| (found == identity).then_some(file))
}

/// Of several threads that ask for the same file all get the same place.
fn find_or_add(identity: Identity) -> Option<&'static File> {
    FILES.iter().find(
        |file| match file.identity.compare_exchange(0, identity, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(found) => found == identity,
        },
    )
}

/// The descriptor of a file's mirror, which is made if there is none.
fn mirror_of(file: &File) -> Option<i32> {
    let there = file.mirror.load(Relaxed);
    if there != -1 {
        return Some(there);
    }
    let made = sys::memory_file(FIRST_DESCRIPTOR).ok()?;
    match file.mirror.compare_exchange(-1, made, Relaxed, Relaxed) {
        Ok(_) => Some(made),
        Err(others) => {
            sys::close(made);
            Some(others)
        }
    }
}

/// Recording: a file has been mapped.
pub fn record_mapping(
    arguments: &[usize; 6],
    result: isize,
    ranges: &mut Ranges,
    memory: impl Fn() -> Option<[usize; 2]>,
) {
    let (bytes, protection, descriptor, offset) = (arguments[1], arguments[2], arguments[4] as i32, arguments[5]);
    let Some(status) = sys::extended_status(descriptor) else {
        return;
    };
    let file_bytes = status.bytes as usize;
    let identity = identity(status.device, status.inode, status.birth_ns);
    let there = bytes.min(file_bytes.saturating_sub(offset));
    let is_readable = protection as i32 & libc::PROT_READ != 0;
    // What is left of the thread's own memory, if it is needed.
    let mut spare = None;
    if is_readable {
        let is_private = arguments[3] as i32 & libc::MAP_TYPE == libc::MAP_PRIVATE;
        let is_sparse = status.held_bytes < status.bytes / 2 && there > WHOLE_BYTES_MAX;
        let data = is_sparse.then(|| sys::open_again(descriptor).ok()).flatten();
        if !is_private {
            let mut held = 0;
            each_part(data, offset, there, |_, bytes| held += bytes);
            spare = Some(ranges.make_room(held, memory()));
        }
        each_part(data, offset, there, |at, bytes| {
            let address = result as usize + (at - offset);
            match is_private {
                true => ranges.add(address, address, bytes),
                false => ranges.add_copy(address, bytes),
            }
        });
        if let Some(data) = data {
            sys::close(data);
        }
    }
    if status.mode & libc::S_IFMT != libc::S_IFREG || find_or_add(identity).is_none() {
        return;
    }
    if control::is_quick() && sys::is_open_to_write(descriptor) {
        // From now on each call that writes is looked at.
        control::observe_calls(false);
    }
    // What is not in memory now: the whole file, if it is short, or what comes next in it.
    let (from, missing) = match is_readable && offset == 0 && there == file_bytes {
        true => (0, 0),
        false if file_bytes <= WHOLE_BYTES_MAX => (0, file_bytes),
        false => (
            offset + there,
            NEXT_BYTES.min(file_bytes.saturating_sub(offset + there)),
        ),
    };
    ranges.add_words(ABOUT_FILE as usize, [identity, file_bytes as u64, from as u64]);
    if missing != 0
        && let Some([memory, end]) = spare.unwrap_or_else(memory)
    {
        ranges.is_short |= missing > end - memory;
        let wanted = missing.min(end - memory);
        ranges.add(
            IN_FILE as usize,
            memory,
            sys::read_at(descriptor, memory, wanted, from as u64),
        );
    }
}

/// Says where the parts of a file are, within `bytes` bytes from an offset on, that are not holes: those of a mirror are zeros as well, as long as nobody has
/// written there. `file`: of one that has holes. If there are too many parts, the smaller holes are said with them.
fn each_part(file: Option<i32>, offset: usize, bytes: usize, mut say: impl FnMut(usize, usize)) {
    let Some(file) = file else {
        return say(offset, bytes);
    };
    let end = (offset + bytes) as u64;
    let mut hole_bytes = FIRST_HOLE_BYTES;
    loop {
        let parts = parts_between_holes(file, [offset as u64, end], hole_bytes);
        if parts.clone().nth(PARTS_MAX).is_none() || hole_bytes >= end {
            parts.for_each(|[start, stop]| say(start as usize, (stop - start) as usize));
            return;
        }
        hole_bytes *= 2;
    }
}

/// The parts of a file between holes of at least so many bytes.
fn parts_between_holes(file: i32, [mut at, end]: [u64; 2], hole_bytes: u64) -> impl Iterator<Item = [u64; 2]> + Clone {
    core::iter::from_fn(move || {
        let data = |from: u64| sys::next_data(file, from).filter(|[start, _]| *start < end);
        let [start, mut stop] = data(at)?;
        while let Some([_, next_stop]) = data(stop).filter(|[next, _]| next - stop < hole_bytes) {
            stop = next_stop;
        }
        at = stop;
        Some([start, stop.min(end)])
    })
}

/// Recording: a segment has been attached.
pub fn record_segment(arguments: &[usize; 6], result: isize, ranges: &mut Ranges) {
    const BYTES_AT: usize = 48;
    let mut state = [0u8; 112];
    let asked = [
        arguments[0],
        libc::IPC_STAT as usize,
        state.as_mut_ptr() as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes as much as this.
    if unsafe { sys::syscall(libc::SYS_shmctl, asked) } != 0 {
        return;
    }
    let bytes = state[BYTES_AT..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
    ranges.make_room(bytes as usize, None);
    ranges.add_copy(result as usize, bytes as usize);
    ranges.add_words(
        ABOUT_FILE as usize,
        [identity(SEGMENTS, arguments[0] as u64, 0), bytes, 0],
    );
}

/// Recording: a call has succeeded. If it has written to a file that is mapped, so that is seen there, what and where is logged.
pub fn record_write(
    number: c_long,
    arguments: &[usize; 6],
    result: isize,
    ranges: &mut Ranges,
    memory: impl FnOnce() -> Option<[usize; 2]>,
) {
    if FILES[0].identity.load(Relaxed) == 0 {
        return;
    }
    // Where in the file, if the call says so.
    let given = |place: usize| {
        (place != 0).then(|| {
            // SAFETY: the kernel has just written this word.
            unsafe { (place as *const u64).read_unaligned() }.wrapping_sub(result as u64)
        })
    };
    let (descriptor, place, bytes) = match number {
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile => (arguments[0], None, result),
        libc::SYS_pwrite64 | libc::SYS_pwritev => (arguments[0], Some(arguments[3] as u64), result),
        libc::SYS_pwritev2 => (
            arguments[0],
            (arguments[3] != usize::MAX).then_some(arguments[3] as u64),
            result,
        ),
        libc::SYS_copy_file_range | libc::SYS_splice => (arguments[2], given(arguments[3]), result),
        libc::SYS_ftruncate => (arguments[0], Some(0), 0),
        libc::SYS_fallocate => (arguments[0], Some(arguments[2] as u64), arguments[3] as isize),
        _ => return,
    };
    let Some(status) = sys::extended_status(descriptor as i32) else {
        return;
    };
    let identity = identity(status.device, status.inode, status.birth_ns);
    if find(identity).is_none() {
        return;
    }
    let offset = place.unwrap_or_else(|| sys::position(descriptor as i32).wrapping_sub(result as u64));
    ranges.add_words(ABOUT_FILE as usize, [identity, status.bytes, offset]);
    if number == libc::SYS_write || number == libc::SYS_pwrite64 {
        return ranges.add(IN_FILE as usize, arguments[1], result as usize);
    }
    if bytes == 0 {
        return;
    }
    // Read again: it may have been opened to be written only.
    if let (Some([memory, end]), Ok(file)) = (memory(), sys::open_again(descriptor as i32)) {
        let wanted = (bytes as usize).min(WHOLE_BYTES_MAX).min(end - memory);
        ranges.is_short |= wanted < bytes as usize;
        ranges.add(IN_FILE as usize, memory, sys::read_at(file, memory, wanted, offset));
        sys::close(file);
    }
}

/// What a recorded call says about a file: which, how long, and an offset.
fn about(call: &Call<'_>) -> Option<(Identity, u64, u64)> {
    let (_, words) = call.ranges().find(|(address, _)| *address == ABOUT_FILE)?;
    let word = |at: usize| {
        words
            .get(8 * at..)
            .and_then(|bytes| bytes.first_chunk())
            .map(|word| u64::from_le_bytes(*word))
    };
    Some((word(0)?, word(1)?, word(2)?))
}

/// Is this range no memory of the program's?
pub fn is_of_file(address: u64) -> bool {
    matches!(address, ABOUT_FILE | IN_FILE)
}

/// Replay: what a call has written to a file that is mapped.
pub fn answer_write(call: &Call<'_>) {
    if let Some((identity, bytes, offset)) = about(call) {
        write_to_mirror(identity, bytes, offset, call);
    }
}

/// Brings the mirror of a file to the length, and with the contents, that it had. Returns its descriptor.
fn write_to_mirror(identity: Identity, bytes: u64, mut offset: u64, call: &Call<'_>) -> Option<i32> {
    let mirror = mirror_of(find_or_add(identity)?)?;
    sys::set_length(mirror, bytes).ok()?;
    for (_, part) in call.ranges().filter(|(address, _)| *address == IN_FILE) {
        sys::write_at(mirror, [part, &[]], offset).ok()?;
        offset += part.len() as u64;
    }
    Some(mirror)
}

/// Replay: a file was mapped. Maps its mirror, where it was if there is room, and returns where. `None`: it has none.
pub fn answer_mapping(arguments: &[usize; 6], call: &Call<'_>) -> Option<isize> {
    let (identity, bytes, offset) = about(call)?;
    let mirror = write_to_mirror(identity, bytes, offset, call)?;
    let recorded = call.entry.result as u64;
    for (address, part) in call.ranges().filter(|(address, _)| !is_of_file(*address)) {
        let at = address.wrapping_sub(recorded) + arguments[5] as u64;
        sys::write_at(mirror, [part, &[]], at).ok()?;
    }
    let sharing = arguments[3] as i32 & libc::MAP_TYPE;
    let fixed = arguments[3] as i32 & libc::MAP_FIXED != 0;
    let wanted = if fixed { arguments[0] as u64 } else { recorded };
    Some(map_mirror(
        mirror,
        wanted,
        fixed,
        [arguments[1], arguments[2], arguments[5]],
        sharing,
    ))
}

/// Replay: a segment was attached.
pub fn answer_segment(arguments: &[usize; 6], call: &Call<'_>) -> Option<isize> {
    let (identity, bytes, _) = about(call)?;
    let mirror = write_to_mirror(identity, bytes, 0, call)?;
    for (_, part) in call.ranges().filter(|(address, _)| !is_of_file(*address)) {
        sys::write_at(mirror, [part, &[]], 0).ok()?;
    }
    let protection = match arguments[2] as i32 & libc::SHM_RDONLY {
        0 => libc::PROT_READ | libc::PROT_WRITE,
        _ => libc::PROT_READ,
    };
    let is_given = arguments[1] != 0;
    let wanted = call.entry.result as u64;
    let address = map_mirror(
        mirror,
        wanted,
        is_given,
        [bytes as usize, protection as usize, 0],
        libc::MAP_SHARED,
    );
    if let Some([place, length]) = ATTACHED.iter().find(|[place, _]| place.load(Relaxed) == 0) {
        length.store(bytes as usize, Relaxed);
        place.store(address as usize, Relaxed);
    }
    Some(address)
}

/// Replay: a segment was detached.
pub fn answer_detached(address: usize) {
    if let Some([place, length]) = ATTACHED.iter().find(|[place, _]| place.load(Relaxed) == address) {
        place.store(0, Relaxed);
        // SAFETY: the program's own mapping, which it is done with.
        unsafe { sys::unmap(address as u64, length.load(Relaxed).next_multiple_of(PAGE)) };
    }
}

fn map_mirror(mirror: i32, wanted: u64, fixed: bool, [bytes, protection, offset]: [usize; 3], sharing: i32) -> isize {
    let map = |address: u64, flags: i32| {
        let arguments = [
            address as usize,
            bytes,
            protection,
            (sharing | flags) as usize,
            mirror as usize,
            offset,
        ];
        // SAFETY: the program's own mapping, where it asked for it, or where there is nothing.
        unsafe { sys::syscall(libc::SYS_mmap, arguments) }
    };
    let first = map(
        wanted,
        if fixed {
            libc::MAP_FIXED
        } else {
            libc::MAP_FIXED_NOREPLACE
        },
    );
    let got = if first < 0 { map(0, 0) } else { first };
    if got < 0 {
        failure::die(b"cannot map memory in the place of a file", -got as i32);
    }
    got
}
