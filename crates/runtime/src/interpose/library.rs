//! Further functions of libc that read or write memory that the program gives them, as instrumented code calls them: libc works on copies, which
//! are read first, and stored afterwards, by the access protocol.
use crate::access::copy_text;
use crate::access::observed_functions;
use crate::inputs::Room;
use crate::interpose::formatted::store_address;
use crate::interpose::streams;
use crate::local::Local;
use core::ffi::c_char;
use core::ffi::c_double;
use core::ffi::c_float;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_uint;
use core::ffi::c_ulong;
use core::ffi::c_void;
use libc::FILE;

unsafe extern "C" {
    fn strtof(text: *const c_char, end: *mut *mut c_char) -> c_float;
    fn strtoimax(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long;
    fn strtoumax(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong;
    fn timegm(time: *mut libc::tm) -> libc::time_t;
    fn strsep(place: *mut *mut c_char, set: *const c_char) -> *mut c_char;
    fn rand_r(seed: *mut c_uint) -> c_int;
    fn inet_addr(text: *const c_char) -> c_uint;
    fn inet_aton(text: *const c_char, address: *mut c_uint) -> c_int;
    fn inet_pton(family: c_int, text: *const c_char, address: *mut c_void) -> c_int;
    fn inet_ntop(family: c_int, address: *const c_void, text: *mut c_char, room: c_uint) -> *const c_char;
    fn qsort(base: *mut c_void, count: usize, bytes: usize, compare: *const c_void);
    fn qsort_r(base: *mut c_void, count: usize, bytes: usize, compare: *const c_void, argument: *mut c_void);
}

/// A copy of a text of the program's, with room behind it.
struct Text<'a> {
    room: Room<'a>,
    length: usize,
}

impl Text<'_> {
    fn start(&self) -> *const c_char {
        self.room.start() as *const c_char
    }
}

/// # Safety
/// `text` is NUL-terminated, or has as many bytes as are copied.
unsafe fn copied(text: *const c_char, most: usize, ends: impl FnMut(u8) -> bool) -> Option<Text<'static>> {
    if text.is_null() {
        return None;
    }
    let mut room = Local::current()?.inputs.writer.room()?;
    // SAFETY: the caller promises what is demanded of the text; the room is as large.
    let length = unsafe { copy_text(text, most, ends, room.start() as *mut u8, room.bytes()) }?;
    room.shrink(length + 1);
    Some(Text { room, length })
}

/// A number in a text: of a long text, only what can belong to it is looked at.
///
/// # Safety
/// As for `strtol`.
unsafe fn number<R>(
    text: *const c_char,
    end: *mut *mut c_char,
    convert: impl Fn(*const c_char, *mut *mut c_char) -> R,
) -> R {
    let mut has_begun = false;
    let ends = |byte: u8| {
        let is_space = byte.is_ascii_whitespace() || byte == 0x0b;
        has_begun |= !is_space;
        has_begun && !byte.is_ascii_alphanumeric() && !b"+-.,_()".contains(&byte)
    };
    // SAFETY: the program's text.
    let Some(copy) = (unsafe { copied(text, usize::MAX, ends) }) else {
        return convert(text, end);
    };
    let mut stop = core::ptr::null_mut();
    let result = convert(copy.start(), &mut stop);
    if !end.is_null() {
        let offset = stop as usize - copy.start() as usize;
        // SAFETY: the program gave it to be written; within the text.
        unsafe { store_address(end.cast(), text.add(offset).cast()) };
    }
    result
}

/// What a function does with memory that the program gives it.
#[derive(Clone, Copy)]
enum Use {
    Reads,
    Writes,
    Both,
}

/// Calls `function` with copies of memory: of each area, where it is, how many bytes it has, and what becomes of it.
///
/// # Safety
/// The areas can be read or written as it is said, or are null.
unsafe fn with_areas<const N: usize, R>(
    areas: [(*mut c_void, usize, Use); N],
    function: impl FnOnce([*mut c_void; N]) -> R,
) -> R {
    let given = areas.map(|(address, _, _)| address);
    let Some(local) = Local::current() else {
        return function(given);
    };
    let needed: usize = areas.iter().map(|(_, bytes, _)| bytes.next_multiple_of(16)).sum();
    let Some(mut room) = local.inputs.writer.room().filter(|room| needed <= room.bytes()) else {
        return function(given);
    };
    room.shrink(needed);
    let mut next = room.start();
    let copies = areas.map(|(address, bytes, how)| {
        if address.is_null() {
            return address;
        }
        let copy = next as *mut u8;
        next += bytes.next_multiple_of(16);
        if matches!(how, Use::Reads | Use::Both) {
            // SAFETY: the caller promises that it can be read; the room is large enough for all.
            unsafe { local.load_for_outside(address.cast(), copy, bytes) };
        }
        copy.cast()
    });
    let result = function(copies);
    for ((address, bytes, how), copy) in areas.into_iter().zip(copies) {
        if !address.is_null() && matches!(how, Use::Writes | Use::Both) {
            // SAFETY: the caller promises that it can be written; the copy has as many bytes.
            unsafe { local.store_from_outside(address.cast(), copy.cast(), bytes) };
        }
    }
    result
}

fn area<T>(place: *const T, how: Use) -> (*mut c_void, usize, Use) {
    (place.cast_mut().cast(), size_of::<T>(), how)
}

/// The first piece of a text that has delimiters in it.
struct Piece {
    /// Where it begins: behind delimiters, if those are skipped.
    start: usize,
    /// All that was looked at, with the delimiter behind the piece.
    length: usize,
    /// Is there one? Else the text ends.
    is_delimited: bool,
}

/// Looks for the first piece of a text, and ends it with a terminator. `None`: there is no room for copies.
///
/// # Safety
/// Both are texts of the program's, of which the first may be written.
unsafe fn split(text: *mut c_char, delimiters: *const c_char, skips: bool) -> Option<Piece> {
    let local = Local::current()?;
    // SAFETY: the caller promises both texts.
    let set = unsafe { copied(delimiters, usize::MAX, |_| false) }?;
    // SAFETY: a copy of ours.
    let set = unsafe { core::slice::from_raw_parts(set.start().cast::<u8>(), set.length) };
    let (mut start, mut has_begun, mut is_delimited) = (0, !skips, false);
    let ends = |byte: u8| {
        let is_delimiter = set.contains(&byte);
        start += usize::from(!has_begun && is_delimiter);
        has_begun |= !is_delimiter;
        is_delimited = has_begun && is_delimiter;
        is_delimited
    };
    // SAFETY: the caller promises the text.
    let length = unsafe { copied(text, usize::MAX, ends) }?.length;
    if is_delimited {
        // SAFETY: the delimiter, which gives way to a terminator.
        unsafe { local.store_from_outside(text.add(length - 1).cast(), [0u8].as_ptr(), 1) };
    }
    Some(Piece {
        start,
        length,
        is_delimited,
    })
}

/// Where in a text of the program's something is, of which the place in the copy is known.
unsafe fn in_text(text: *const c_char, copy: &Text<'_>, found: *const c_char) -> *mut c_char {
    match found.is_null() {
        true => core::ptr::null_mut(),
        // SAFETY: within the text, as in the copy.
        false => unsafe { text.add(found as usize - copy.start() as usize).cast_mut() },
    }
}

/// Sorts a copy in memory with a shadow, since what compares is the program's own code, and stores it.
///
/// # Safety
/// As for `qsort`.
unsafe fn sort(base: *mut c_void, count: usize, bytes: usize, sort: impl Fn(*mut c_void)) {
    let all = count.checked_mul(bytes).filter(|all| *all > 0);
    let (Some(local), Some(all)) = (Local::current(), all) else {
        return sort(base);
    };
    // SAFETY: a block of the program's heap, which nobody else knows.
    unsafe {
        let block = libc::malloc(all);
        if block.is_null() {
            return sort(base);
        }
        local.copy(block.cast(), base.cast(), all);
        local.in_between(|| sort(block));
        local.copy(base.cast(), block.cast(), all);
        libc::free(block);
    }
}

observed_functions! {
    __refrain_atoi(text: *const c_char) -> c_int { number(text, core::ptr::null_mut(), |text, end| libc::strtol(text, end, 10) as c_int) }
    __refrain_atol(text: *const c_char) -> c_long { number(text, core::ptr::null_mut(), |text, end| libc::strtol(text, end, 10)) }
    __refrain_atoll(text: *const c_char) -> c_long { number(text, core::ptr::null_mut(), |text, end| libc::strtol(text, end, 10)) }
    __refrain_atof(text: *const c_char) -> c_double { number(text, core::ptr::null_mut(), |text, end| libc::strtod(text, end)) }
    __refrain_strtol(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long { number(text, end, |text, end| libc::strtol(text, end, base)) }
    __refrain_strtoll(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long { number(text, end, |text, end| libc::strtol(text, end, base)) }
    __refrain_strtoul(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong { number(text, end, |text, end| libc::strtoul(text, end, base)) }
    __refrain_strtoull(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong { number(text, end, |text, end| libc::strtoul(text, end, base)) }
    __refrain_strtoimax(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long { number(text, end, |text, end| strtoimax(text, end, base)) }
    __refrain_strtoumax(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong { number(text, end, |text, end| strtoumax(text, end, base)) }
    __refrain_strtod(text: *const c_char, end: *mut *mut c_char) -> c_double { number(text, end, |text, end| libc::strtod(text, end)) }
    __refrain_strtof(text: *const c_char, end: *mut *mut c_char) -> c_float { number(text, end, |text, end| strtof(text, end)) }

    __refrain_strspn(text: *const c_char, set: *const c_char) -> usize {
        match (copied(text, usize::MAX, |_| false), copied(set, usize::MAX, |_| false)) {
            (Some(text), Some(set)) => libc::strspn(text.start(), set.start()),
            _ => libc::strspn(text, set),
        }
    }
    __refrain_strcspn(text: *const c_char, set: *const c_char) -> usize {
        match (copied(text, usize::MAX, |_| false), copied(set, usize::MAX, |_| false)) {
            (Some(text), Some(set)) => libc::strcspn(text.start(), set.start()),
            _ => libc::strcspn(text, set),
        }
    }
    __refrain_strpbrk(text: *const c_char, set: *const c_char) -> *mut c_char {
        match (copied(text, usize::MAX, |_| false), copied(set, usize::MAX, |_| false)) {
            (Some(copy), Some(set)) => in_text(text, &copy, libc::strpbrk(copy.start(), set.start())),
            _ => libc::strpbrk(text, set),
        }
    }
    __refrain_strcoll(one: *const c_char, other: *const c_char) -> c_int {
        match (copied(one, usize::MAX, |_| false), copied(other, usize::MAX, |_| false)) {
            (Some(one), Some(other)) => libc::strcoll(one.start(), other.start()),
            _ => libc::strcoll(one, other),
        }
    }
    __refrain_strtok_r(text: *mut c_char, set: *const c_char, place: *mut *mut c_char) -> *mut c_char {
        let mut from = text;
        if from.is_null() {
            with_areas([area(place, Use::Reads)], |[place]| from = *place.cast::<*mut c_char>());
        }
        let Some(piece) = split(from, set, true) else {
            return libc::strtok_r(text, set, place);
        };
        store_address(place.cast(), from.add(piece.length).cast());
        match piece.start == piece.length {
            true => core::ptr::null_mut(),
            false => from.add(piece.start),
        }
    }
    __refrain_strsep(place: *mut *mut c_char, set: *const c_char) -> *mut c_char {
        let mut from = core::ptr::null_mut();
        with_areas([area(place, Use::Reads)], |[place]| from = *place.cast::<*mut c_char>());
        if from.is_null() {
            return from;
        }
        let Some(piece) = split(from, set, false) else {
            return strsep(place, set);
        };
        let rest = match piece.is_delimited {
            true => from.add(piece.length),
            false => core::ptr::null_mut(),
        };
        store_address(place.cast(), rest.cast());
        from
    }

    __refrain_qsort(base: *mut c_void, count: usize, bytes: usize, compare: *const c_void) {
        sort(base, count, bytes, |base| qsort(base, count, bytes, compare))
    }
    __refrain_qsort_r(base: *mut c_void, count: usize, bytes: usize, compare: *const c_void, argument: *mut c_void) {
        sort(base, count, bytes, |base| qsort_r(base, count, bytes, compare, argument))
    }

    __refrain_localtime_r(time: *const libc::time_t, to: *mut libc::tm) -> *mut libc::tm {
        let found = with_areas([area(time, Use::Reads), area(to, Use::Writes)], |[time, to]| libc::localtime_r(time.cast(), to.cast()));
        if found.is_null() { core::ptr::null_mut() } else { to }
    }
    __refrain_gmtime_r(time: *const libc::time_t, to: *mut libc::tm) -> *mut libc::tm {
        let found = with_areas([area(time, Use::Reads), area(to, Use::Writes)], |[time, to]| libc::gmtime_r(time.cast(), to.cast()));
        if found.is_null() { core::ptr::null_mut() } else { to }
    }
    __refrain_mktime(time: *mut libc::tm) -> libc::time_t { with_areas([area(time, Use::Both)], |[time]| libc::mktime(time.cast())) }
    __refrain_timegm(time: *mut libc::tm) -> libc::time_t { with_areas([area(time, Use::Both)], |[time]| timegm(time.cast())) }
    __refrain_strftime(to: *mut c_char, most: usize, format: *const c_char, time: *const libc::tm) -> usize {
        let Some(mut room) = Local::current().and_then(|local| local.inputs.writer.room()).filter(|room| most <= room.bytes()) else {
            return libc::strftime(to, most, format, time);
        };
        room.shrink(most);
        let made = room.start() as *mut c_char;
        let length = with_areas([area(time, Use::Reads)], |[time]| libc::strftime(made, most, format, time.cast()));
        if let Some(local) = Local::current().filter(|_| length > 0) {
            local.store_from_outside(to.cast(), made.cast(), length + 1);
        }
        length
    }
    __refrain_rand_r(seed: *mut c_uint) -> c_int { with_areas([area(seed, Use::Both)], |[seed]| rand_r(seed.cast())) }

    __refrain_inet_addr(text: *const c_char) -> c_uint {
        match copied(text, usize::MAX, |_| false) {
            Some(text) => inet_addr(text.start()),
            None => inet_addr(text),
        }
    }
    __refrain_inet_aton(text: *const c_char, address: *mut c_uint) -> c_int {
        let text_copy = copied(text, usize::MAX, |_| false);
        let text = text_copy.as_ref().map_or(text, Text::start);
        let mut found = 0;
        let result = inet_aton(text, &mut found);
        if result != 0 && !address.is_null() {
            with_areas([area(address, Use::Writes)], |[address]| *address.cast::<c_uint>() = found);
        }
        result
    }
    __refrain_inet_pton(family: c_int, text: *const c_char, address: *mut c_void) -> c_int {
        let text_copy = copied(text, usize::MAX, |_| false);
        let text = text_copy.as_ref().map_or(text, Text::start);
        let mut found = [0u8; 16];
        let result = inet_pton(family, text, found.as_mut_ptr().cast());
        let bytes = if family == libc::AF_INET { 4 } else { 16 };
        if result == 1 {
            with_areas([(address, bytes, Use::Writes)], |[address]| core::ptr::copy_nonoverlapping(found.as_ptr(), address.cast(), bytes));
        }
        result
    }
    __refrain_inet_ntop(family: c_int, address: *const c_void, to: *mut c_char, room: c_uint) -> *const c_char {
        let bytes = if family == libc::AF_INET { 4 } else { 16 };
        let mut made: [c_char; 64] = [0; 64];
        let most = room.min(made.len() as c_uint);
        let found = with_areas([(address.cast_mut(), bytes, Use::Reads)], |[address]| inet_ntop(family, address, made.as_mut_ptr(), most));
        if found.is_null() {
            return found;
        }
        let length = libc::strlen(found) + 1;
        with_areas([(to.cast(), length, Use::Writes)], |[to]| core::ptr::copy_nonoverlapping(made.as_ptr(), to.cast(), length));
        to
    }

    __refrain_fputs(text: *const c_char, stream: *mut FILE) -> c_int {
        let copy = copied(text, usize::MAX, |_| false);
        streams::fputs(copy.as_ref().map_or(text, Text::start), stream)
    }
    __refrain_puts(text: *const c_char) -> c_int {
        let copy = copied(text, usize::MAX, |_| false);
        streams::puts(copy.as_ref().map_or(text, Text::start))
    }
    __refrain_fwrite(place: *const c_void, bytes: usize, count: usize, stream: *mut FILE) -> usize {
        match bytes.checked_mul(count) {
            Some(all) => with_areas([(place.cast_mut(), all, Use::Reads)], |[place]| streams::fwrite(place, bytes, count, stream)),
            None => streams::fwrite(place, bytes, count, stream),
        }
    }
    __refrain_fread(place: *mut c_void, bytes: usize, count: usize, stream: *mut FILE) -> usize {
        let all = bytes.saturating_mul(count);
        let room = Local::current().and_then(|local| local.inputs.writer.room()).filter(|room| all <= room.bytes());
        let (Some(local), Some(mut room)) = (Local::current(), room) else {
            return streams::fread(place, bytes, count, stream);
        };
        room.shrink(all);
        let read = streams::fread(room.start() as *mut c_void, bytes, count, stream);
        local.store_from_outside(place.cast(), room.start() as *const u8, read * bytes);
        read
    }
    __refrain_fgets(text: *mut c_char, most: c_int, stream: *mut FILE) -> *mut c_char {
        let room = Local::current().and_then(|local| local.inputs.writer.room());
        let (Some(local), Some(mut room)) = (Local::current(), room.filter(|room| most > 0 && most as usize <= room.bytes())) else {
            return streams::fgets(text, most, stream);
        };
        room.shrink(most as usize);
        let read = streams::fgets(room.start() as *mut c_char, most, stream);
        if read.is_null() {
            return read;
        }
        local.store_from_outside(text.cast(), read.cast(), libc::strlen(read) + 1);
        text
    }
}
