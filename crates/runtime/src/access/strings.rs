//! String functions of libc, as instrumented code calls them: every byte they look at is read under the protocol.
use crate::access::Reach;
use crate::access::observed_functions;
use crate::access::ranges::to_chunk_end;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::local::Local;
use core::ffi::c_char;
use core::ffi::c_int;
use core::ffi::c_void;
use runtime_abi::CHUNK_BYTES;

/// Shared memory, byte by byte: whole pieces of chunks are read ahead, one event each.
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

    /// The next byte.
    ///
    /// # Safety
    /// It may be read. (Read-ahead ends with the chunk, so it stays in the page.)
    #[inline]
    unsafe fn next(&mut self) -> u8 {
        // SAFETY: the caller promises that the next byte may be read.
        let byte = unsafe { self.ahead() }[0];
        self.at += 1;
        byte
    }

    /// The next bytes, at least one.
    ///
    /// # Safety
    /// As for `next`.
    #[inline]
    unsafe fn ahead(&mut self) -> &[u8] {
        if self.at == self.filled {
            // SAFETY: the caller promises that the next byte may be read.
            unsafe { self.read_on() };
        }
        &self.buffer[self.at..self.filled]
    }

    /// Reads up to the end of the chunk.
    ///
    /// # Safety
    /// As for `next`.
    #[inline(never)]
    unsafe fn read_on(&mut self) {
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

/// # Safety
/// `text` is NUL-terminated within `most` bytes, or has that many.
unsafe fn length(text: *const c_char, most: usize) -> usize {
    if Local::current().is_none() {
        // SAFETY: the caller promises that it ends, or has as many bytes.
        return unsafe { libc::strnlen(text, most) };
    }
    let mut bytes = Bytes::new(text.cast());
    // SAFETY: stops at the terminator or after `most` bytes.
    (0..most).find(|_| unsafe { bytes.next() } == 0).unwrap_or(most)
}

/// Compares texts of up to `most` bytes; `fold` is applied to each byte.
///
/// # Safety
/// Both may be read as far as the comparison goes.
unsafe fn compare(a: *const c_void, b: *const c_void, most: usize, fold: impl Fn(u8) -> u8) -> c_int {
    let (mut a, mut b) = (Bytes::new(a), Bytes::new(b));
    for _ in 0..most {
        // SAFETY: not past a terminator nor past `most`.
        let (x, y) = unsafe { (fold(a.next()), fold(b.next())) };
        if x != y {
            return x as c_int - y as c_int;
        }
        if x == 0 {
            return 0;
        }
    }
    0
}

/// Compares bytes, a chunk's at a time: the same events as if it was done byte by byte.
///
/// # Safety
/// Both may be read as far as they are equal, and one byte more, up to `bytes`.
unsafe fn compare_memory(a: *const c_void, b: *const c_void, bytes: usize) -> c_int {
    let (mut a, mut b) = (Bytes::new(a), Bytes::new(b));
    let mut left = bytes;
    while left > 0 {
        // SAFETY: all bytes before were equal.
        let (x, y) = unsafe { (a.ahead(), b.ahead()) };
        let count = left.min(x.len()).min(y.len());
        if x[..count] != y[..count]
            && let Some((x, y)) = x.iter().zip(y).find(|(x, y)| x != y)
        {
            return *x as c_int - *y as c_int;
        }
        a.at += count;
        b.at += count;
        left -= count;
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
    __refrain_memcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int { compare_memory(a, b, bytes) }
    __refrain_bcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int { compare_memory(a, b, bytes) }
    __refrain_strcmp(a: *const c_char, b: *const c_char) -> c_int {
        compare(a.cast(), b.cast(), usize::MAX, same)
    }
    __refrain_strncmp(a: *const c_char, b: *const c_char, most: usize) -> c_int {
        compare(a.cast(), b.cast(), most, same)
    }
    __refrain_strcasecmp(a: *const c_char, b: *const c_char) -> c_int {
        compare(a.cast(), b.cast(), usize::MAX, lower)
    }
    __refrain_strncasecmp(a: *const c_char, b: *const c_char, most: usize) -> c_int {
        compare(a.cast(), b.cast(), most, lower)
    }
    __refrain_memchr(place: *const c_void, byte: c_int, bytes: usize) -> *mut c_void {
        let mut stream = Bytes::new(place);
        match (0..bytes).find(|_| stream.next() == byte as u8) {
            Some(i) => place.byte_add(i).cast_mut(),
            None => core::ptr::null_mut(),
        }
    }
    __refrain_strchr(text: *const c_char, byte: c_int) -> *mut c_char {
        let mut stream = Bytes::new(text.cast());
        for i in 0.. {
            let found = stream.next();
            if found == byte as u8 {
                return text.add(i).cast_mut();
            }
            if found == 0 {
                break;
            }
        }
        core::ptr::null_mut()
    }
    __refrain_strrchr(text: *const c_char, byte: c_int) -> *mut c_char {
        let mut stream = Bytes::new(text.cast());
        let mut last = core::ptr::null_mut();
        for i in 0.. {
            let found = stream.next();
            if found == byte as u8 {
                last = text.add(i).cast_mut();
            }
            if found == 0 {
                break;
            }
        }
        last
    }
    __refrain_strstr(text: *const c_char, wanted: *const c_char) -> *mut c_char {
        let (text_bytes, wanted_bytes) = (length(text, usize::MAX), length(wanted, usize::MAX));
        for i in 0..=text_bytes.wrapping_sub(wanted_bytes).min(text_bytes) {
            if wanted_bytes > text_bytes {
                break;
            }
            if compare_memory(text.add(i).cast(), wanted.cast(), wanted_bytes) == 0 {
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
