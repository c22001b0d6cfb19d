//! String functions of libc, as instrumented code calls them: every byte they look at is read under the protocol.
use crate::access::Reach;
use crate::access::observed_functions;
use crate::access::ranges::to_chunk_end;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::access::words;
use crate::local::Local;
use access_protocol::Intent;
use core::ffi::c_char;
use core::ffi::c_int;
use core::ffi::c_void;
use runtime_abi::CHUNK_BYTES;

/// Shared memory, byte by byte or in words: whole pieces of chunks are read ahead, one event each.
struct Bytes {
    next: u64,
    buffer: [u8; CHUNK_BYTES as usize],
    at: usize,
    filled: usize,
}

impl Bytes {
    fn new(start: *const c_void) -> Bytes {
        Bytes {
            next: start as u64,
            buffer: [0; CHUNK_BYTES as usize],
            at: 0,
            filled: 0,
        }
    }

    /// What has been read and not passed: at least one byte.
    ///
    /// # Safety
    /// The first may be read. (Read-ahead ends with the chunk, so it stays in the page.)
    unsafe fn ahead(&mut self) -> &[u8] {
        if self.at == self.filled {
            let bytes = to_chunk_end(self.next) as usize;
            let (from, copy) = (self.next as *const u8, self.buffer.as_mut_ptr());
            // SAFETY: the first byte may be read, hence all bytes of its page.
            let load = || unsafe { core::ptr::copy_nonoverlapping(from, copy, bytes) };
            match Local::current() {
                Some(local) => local.perform(from as u64, bytes as u64, Reach::Reads, load, |_| {
                    Seen::read(Moved::At(copy))
                }),
                None => load(),
            }
            self.next += bytes as u64;
            (self.at, self.filled) = (0, bytes);
        }
        &self.buffer[self.at..self.filled]
    }

    fn pass(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The next byte.
    ///
    /// # Safety
    /// It may be read.
    unsafe fn next(&mut self) -> u8 {
        // SAFETY: the caller promises as much.
        let byte = unsafe { self.ahead()[0] };
        self.pass(1);
        byte
    }

    /// How far away the first byte is that is `one` or `other`, if it is less than `most`. Reads no further than one would byte by byte.
    ///
    /// # Safety
    /// There is such a byte, or so many bytes may be read.
    unsafe fn find(&mut self, one: u8, other: u8, most: usize) -> Option<(usize, u8)> {
        let mut passed = 0;
        while passed < most {
            // SAFETY: neither such a byte nor `most` bytes were passed.
            let ahead = unsafe { self.ahead() };
            let part = &ahead[..ahead.len().min(most - passed)];
            let (bytes, found) = (part.len(), words::find(part, one, other));
            if let Some(at) = found {
                let byte = part[at];
                self.pass(at + 1);
                return Some((passed + at, byte));
            }
            self.pass(bytes);
            passed += bytes;
        }
        None
    }
}

/// Copies a text of the program's, read under the protocol, to `to`, with a terminator: up to its own, to `most` bytes, or with the first
/// byte of which `ends` says that it is the last of interest. Returns its length; `None`: there is not so much room.
///
/// # Safety
/// `text` is NUL-terminated, or has as many bytes as are copied; `to` has `room` bytes.
pub unsafe fn copy_text(
    text: *const c_char,
    most: usize,
    mut ends: impl FnMut(u8) -> bool,
    to: *mut u8,
    room: usize,
) -> Option<usize> {
    let mut bytes = Bytes::new(text.cast());
    let mut length = 0;
    while length < most {
        if length + 1 >= room {
            return None;
        }
        // SAFETY: neither the terminator nor the last byte was passed.
        let byte = unsafe { bytes.next() };
        if byte == 0 {
            break;
        }
        // SAFETY: there is room, for the terminator, too.
        unsafe { to.add(length).write(byte) };
        length += 1;
        if ends(byte) {
            break;
        }
    }
    if length >= room {
        return None;
    }
    // SAFETY: there is room.
    unsafe { to.add(length).write(0) };
    Some(length)
}

/// So many bytes are looked at in one window at the most: most texts are shorter, and the words of all their chunks are looked at before.
const WINDOW_BYTES: u64 = 512;
/// Nothing is below, and programs survive that they look there. What comes first is an event before the fault then, as piece by piece.
const LOWEST: u64 = 4096;

/// How many pieces `Bytes` reads for so many bytes.
fn pieces(start: *const c_void, bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        _ => (start as u64 + bytes - 1) / CHUNK_BYTES - start as u64 / CHUNK_BYTES + 1,
    }
}

/// Looks at up to `most` bytes of each of `places`, where they are, if that is allowed and no gate is so near. `look` is asked about one piece
/// of each after the other, which end with the first chunk that ends, and says where it stops, if it does. The events are those that `Bytes`
/// has. `None`: nothing has happened, the same is to be done piece by piece. Else how far away it stopped, if before `most` bytes were passed.
///
/// # Safety
/// So many bytes may be read, or those up to where `look` stops.
#[inline(always)]
unsafe fn look_in_window<const N: usize>(
    places: [*const c_void; N],
    most: usize,
    mut look: impl FnMut([&[u8]; N]) -> Option<usize>,
) -> Option<Option<usize>> {
    let local = Local::current()?;
    let most = most as u64;
    let looked_at = most.min(WINDOW_BYTES);
    let events = |bytes| places.iter().map(|place| pieces(*place, bytes)).sum();
    let ranges = places.map(|place| (place as u64, looked_at, Intent::Read));
    if places.iter().any(|place| (*place as u64) < LOWEST) || !local.try_window(&ranges, events(looked_at)) {
        return None;
    }
    let mut passed = 0;
    while passed < looked_at {
        let piece = places.iter().fold(looked_at - passed, |least, place| {
            least.min(to_chunk_end(*place as u64 + passed))
        });
        // SAFETY: the first byte of each may be read, hence all of its chunk. Nobody writes there: the window is open.
        let parts = places.map(|place| unsafe {
            core::slice::from_raw_parts(place.cast::<u8>().add(passed as usize), piece as usize)
        });
        if let Some(at) = look(parts) {
            local.leave_window(events(passed + at as u64 + 1));
            return Some(Some(passed as usize + at));
        }
        passed += piece;
    }
    if looked_at < most {
        local.leave_window(0);
        return None;
    }
    local.leave_window(events(most));
    Some(None)
}

/// # Safety
/// `text` is NUL-terminated within `most` bytes, or has that many.
unsafe fn length(text: *const c_char, most: usize) -> usize {
    if Local::current().is_none() {
        // SAFETY: the caller promises that it ends, or has as many bytes.
        return unsafe { libc::strnlen(text, most) };
    }
    // SAFETY: stops at the terminator or after `most` bytes.
    unsafe { find(text.cast(), 0, 0, most) }.map_or(most, |(at, _)| at)
}

/// Where the first byte is that is `one` or `other`, and which it is, if it is less than `most` away.
///
/// # Safety
/// There is such a byte, or so many bytes may be read.
unsafe fn find(place: *const c_void, one: u8, other: u8, most: usize) -> Option<(usize, u8)> {
    let mut byte = 0;
    let look = |[part]: [&[u8]; 1]| words::find(part, one, other).inspect(|at| byte = part[*at]);
    // SAFETY: the caller promises as much.
    match unsafe { look_in_window([place], most, look) } {
        Some(found) => found.map(|at| (at, byte)),
        // SAFETY: there is such a byte, or so many may be read, says the caller.
        None => unsafe { Bytes::new(place).find(one, other, most) },
    }
}

/// Compares up to `most` bytes, of a text up to its end; `fold` is applied to each.
///
/// # Safety
/// Both may be read as far as the comparison goes.
#[inline(always)]
unsafe fn compare(
    a: *const c_void,
    b: *const c_void,
    most: usize,
    text: bool,
    fold: impl Fn(u8) -> u8 + Copy,
) -> c_int {
    let mut difference = 0;
    let look = |[x, y]: [&[u8]; 2]| {
        let stops = |x: u8, y: u8| fold(x) != fold(y) || (text && x == 0);
        words::compare(x, y, text, stops).inspect(|at| difference = fold(x[*at]) as c_int - fold(y[*at]) as c_int)
    };
    // SAFETY: the caller promises as much.
    match unsafe { look_in_window([a, b], most, look) } {
        Some(_) => difference,
        // SAFETY: both may be read as far as the comparison goes, says the caller.
        None => unsafe { compare_pieces(a, b, most, text, fold) },
    }
}

/// The same piece by piece.
///
/// # Safety
/// Both may be read as far as the comparison goes.
#[inline(never)]
unsafe fn compare_pieces(
    a: *const c_void,
    b: *const c_void,
    most: usize,
    text: bool,
    fold: impl Fn(u8) -> u8,
) -> c_int {
    let (mut a, mut b) = (Bytes::new(a), Bytes::new(b));
    let mut left = most;
    while left > 0 {
        // SAFETY: not past a terminator (text) nor past `most`. Of the first is read before of the second, as it would be byte by byte.
        let (x, y) = unsafe { (a.ahead(), b.ahead()) };
        let bytes = x.len().min(y.len()).min(left);
        let (x, y) = (&x[..bytes], &y[..bytes]);
        let stops = |x: u8, y: u8| fold(x) != fold(y) || (text && x == 0);
        if let Some(at) = words::compare(x, y, text, stops) {
            return fold(x[at]) as c_int - fold(y[at]) as c_int;
        }
        a.pass(bytes);
        b.pass(bytes);
        left -= bytes;
    }
    0
}

fn same(byte: u8) -> u8 {
    byte
}

fn lower(byte: u8) -> u8 {
    byte.to_ascii_lowercase()
}

/// # Safety
/// As for memmove; both sides are shared.
unsafe fn copy(to: *mut c_char, from: *const c_char, bytes: usize) {
    // SAFETY: the caller promises what memmove demands.
    unsafe {
        match Local::current() {
            Some(local) => local.copy(to.cast(), from.cast(), bytes),
            None => core::ptr::copy(from, to, bytes),
        }
    }
}

/// # Safety
/// As for memset.
unsafe fn fill(to: *mut c_char, byte: u8, bytes: usize) {
    // SAFETY: the caller promises what memset demands.
    unsafe {
        match Local::current() {
            Some(local) => local.fill(to.cast(), byte, bytes),
            None => core::ptr::write_bytes(to.cast::<u8>(), byte, bytes),
        }
    }
}

observed_functions! {
    __refrain_strlen(text: *const c_char) -> usize { length(text, usize::MAX) }
    __refrain_strnlen(text: *const c_char, most: usize) -> usize { length(text, most) }
    __refrain_memcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int { compare(a, b, bytes, false, same) }
    __refrain_bcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int { compare(a, b, bytes, false, same) }
    __refrain_strcmp(a: *const c_char, b: *const c_char) -> c_int {
        compare(a.cast(), b.cast(), usize::MAX, true, same)
    }
    __refrain_strncmp(a: *const c_char, b: *const c_char, most: usize) -> c_int {
        compare(a.cast(), b.cast(), most, true, same)
    }
    __refrain_strcasecmp(a: *const c_char, b: *const c_char) -> c_int {
        compare(a.cast(), b.cast(), usize::MAX, true, lower)
    }
    __refrain_strncasecmp(a: *const c_char, b: *const c_char, most: usize) -> c_int {
        compare(a.cast(), b.cast(), most, true, lower)
    }
    __refrain_memchr(place: *const c_void, byte: c_int, bytes: usize) -> *mut c_void {
        match find(place, byte as u8, byte as u8, bytes) {
            Some((at, _)) => place.byte_add(at).cast_mut(),
            None => core::ptr::null_mut(),
        }
    }
    __refrain_strchr(text: *const c_char, byte: c_int) -> *mut c_char {
        match find(text.cast(), byte as u8, 0, usize::MAX) {
            Some((at, found)) if found == byte as u8 => text.add(at).cast_mut(),
            _ => core::ptr::null_mut(),
        }
    }
    __refrain_strrchr(text: *const c_char, byte: c_int) -> *mut c_char {
        let mut stream = Bytes::new(text.cast());
        let (mut last, mut passed) = (core::ptr::null_mut(), 0);
        while let Some((at, found)) = stream.find(byte as u8, 0, usize::MAX) {
            if found == byte as u8 {
                last = text.add(passed + at).cast_mut();
            }
            if found == 0 {
                break;
            }
            passed += at + 1;
        }
        last
    }
    __refrain_strstr(text: *const c_char, wanted: *const c_char) -> *mut c_char {
        let (text_bytes, wanted_bytes) = (length(text, usize::MAX), length(wanted, usize::MAX));
        for i in 0..=text_bytes.wrapping_sub(wanted_bytes).min(text_bytes) {
            if wanted_bytes > text_bytes {
                break;
            }
            if compare(text.add(i).cast(), wanted.cast(), wanted_bytes, false, same) == 0 {
                return text.add(i).cast_mut();
            }
        }
        core::ptr::null_mut()
    }
    __refrain_strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
        copy(to, from, length(from, usize::MAX) + 1);
        to
    }
    __refrain_stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
        let bytes = length(from, usize::MAX);
        copy(to, from, bytes + 1);
        to.add(bytes)
    }
    __refrain_strncpy(to: *mut c_char, from: *const c_char, most: usize) -> *mut c_char {
        let bytes = length(from, most);
        copy(to, from, bytes);
        fill(to.add(bytes), 0, most - bytes);
        to
    }
    __refrain_strcat(to: *mut c_char, from: *const c_char) -> *mut c_char {
        copy(to.add(length(to, usize::MAX)), from, length(from, usize::MAX) + 1);
        to
    }
    __refrain_strncat(to: *mut c_char, from: *const c_char, most: usize) -> *mut c_char {
        let (end, bytes) = (to.add(length(to, usize::MAX)), length(from, most));
        copy(end, from, bytes);
        fill(end.add(bytes), 0, 1);
        to
    }
    __refrain_strdup(text: *const c_char) -> *mut c_char {
        let bytes = length(text, usize::MAX) + 1;
        let block: *mut c_char = libc::malloc(bytes).cast();
        if !block.is_null() {
            copy(block, text, bytes);
        }
        block
    }
    __refrain_strndup(text: *const c_char, most: usize) -> *mut c_char {
        let bytes = length(text, most);
        let block: *mut c_char = libc::malloc(bytes + 1).cast();
        if !block.is_null() {
            copy(block, text, bytes);
            fill(block.add(bytes), 0, 1);
        }
        block
    }
    __refrain_bzero(to: *mut c_void, bytes: usize) { fill(to.cast(), 0, bytes) }
}
