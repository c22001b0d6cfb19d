//! `snprintf`, `printf`, `sscanf` and their kin, as instrumented code calls them. libc works on copies: what they read of the program's memory is
//! read first, by the access protocol, and what they write there is stored by it. Formats are read as they are: nearly all are constants.
//!
//! Left to libc as it is: formats with positions (`%1$s`), wide characters, and `%n` of what is printed.
use crate::access::copy_text;
use crate::access::observed_functions;
use crate::inputs::Room;
use crate::interpose::streams;
use crate::interpose::variadic::List;
use crate::interpose::variadic::variadic;
use crate::local::Local;
use core::ffi::c_char;
use core::ffi::c_int;
use core::ffi::c_void;
use libc::FILE;

unsafe extern "C" {
    static stdout: *mut FILE;
    fn vsnprintf(to: *mut c_char, room: usize, format: *const c_char, list: *mut List) -> c_int;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, list: *mut List) -> c_int;
    fn vsscanf(text: *const c_char, format: *const c_char, list: *mut List) -> c_int;
    fn __isoc99_vsscanf(text: *const c_char, format: *const c_char, list: *mut List) -> c_int;
    fn __chk_fail() -> !;
}

/// Reads a format, byte by byte.
struct Format(*const c_char);

impl Format {
    /// # Safety
    /// The terminator has not been passed.
    unsafe fn peek(&self) -> u8 {
        // SAFETY: the caller promises that there is a byte.
        unsafe { *self.0 as u8 }
    }

    /// # Safety
    /// The terminator has not been passed. It is never passed by this.
    unsafe fn next(&mut self) -> u8 {
        // SAFETY: the caller promises that there is a byte.
        let byte = unsafe { self.peek() };
        if byte != 0 {
            // SAFETY: it was not the terminator.
            self.0 = unsafe { self.0.add(1) };
        }
        byte
    }

    /// Goes behind the next `%`. False: there is none.
    unsafe fn find(&mut self) -> bool {
        loop {
            // SAFETY: the terminator ends this.
            match unsafe { self.next() } {
                0 => return false,
                b'%' => return true,
                _ => {}
            }
        }
    }

    unsafe fn skip(&mut self, set: &[u8]) {
        // SAFETY: the terminator is in no set.
        while set.contains(&unsafe { self.peek() }) {
            // SAFETY: there is a byte.
            unsafe { self.next() };
        }
    }

    /// A number, if one is here.
    unsafe fn number(&mut self) -> Option<usize> {
        let mut number = None;
        // SAFETY: the terminator is no digit.
        while let digit @ b'0'..=b'9' = unsafe { self.peek() } {
            let before: usize = number.unwrap_or(0);
            number = Some(before.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
            // SAFETY: there is a byte.
            unsafe { self.next() };
        }
        number
    }

    /// How large a number or an address is meant to be, from none to `ll`: in bytes, by default `int`.
    unsafe fn size(&mut self) -> Size {
        let mut size = Size::Plain;
        loop {
            // SAFETY: a terminator ends this.
            size = match (unsafe { self.peek() }, size) {
                (b'h', Size::Plain) => Size::Short,
                (b'h', _) => Size::Byte,
                (b'l' | b'q' | b'j' | b'z' | b'Z' | b't', _) => Size::Long,
                (b'L', _) => Size::LongDouble,
                _ => return size,
            };
            // SAFETY: there is a byte.
            unsafe { self.next() };
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Plain,
    Byte,
    Short,
    Long,
    LongDouble,
}

impl Size {
    fn of_integer(self) -> usize {
        match self {
            Size::Byte => 1,
            Size::Short => 2,
            Size::Plain => 4,
            Size::Long | Size::LongDouble => 8,
        }
    }

    fn of_float(self) -> usize {
        match self {
            Size::LongDouble => 16,
            Size::Long => 8,
            _ => 4,
        }
    }
}

/// Goes through the arguments of a format for output; calls `text` with the place of each text, and how many bytes of it count. False: there
/// are arguments that it does not know.
///
/// # Safety
/// The arguments are as the format says.
unsafe fn each_text(format: *const c_char, list: &mut List, mut text: impl FnMut(*mut u64, usize)) -> bool {
    let mut format = Format(format);
    // SAFETY: each argument is taken as the format says, which the caller promises to be true; a terminator ends the loop.
    unsafe {
        while format.find() {
            format.skip(b"-+ #0'I");
            if format.peek() == b'*' {
                format.next();
                list.word();
            } else if format.number().is_some() && format.peek() == b'$' {
                return false;
            }
            let mut most = usize::MAX;
            if format.peek() == b'.' {
                format.next();
                if format.peek() == b'*' {
                    format.next();
                    most = usize::try_from(*list.word() as i32).unwrap_or(usize::MAX);
                } else {
                    most = format.number().unwrap_or(0);
                }
            }
            let size = format.size();
            match format.next() {
                b's' if size == Size::Plain => text(list.word(), most),
                b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'c' | b'C' | b's' | b'S' | b'p' | b'n' => {
                    list.word();
                }
                b'e' | b'f' | b'g' | b'a' | b'E' | b'F' | b'G' | b'A' => match size {
                    Size::LongDouble => list.pass_long_double(),
                    _ => list.pass_double(),
                },
                b'm' | b'%' => {}
                _ => return false,
            }
        }
    }
    true
}

/// The rest of a room.
struct Rest {
    start: usize,
    end: usize,
}

impl Rest {
    fn of(room: &Room<'_>) -> Rest {
        Rest {
            start: room.start(),
            end: room.end(),
        }
    }

    fn bytes(&self) -> usize {
        self.end - self.start
    }

    fn take(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(16)?;
        let start = self.start;
        (bytes <= self.bytes()).then(|| {
            self.start += bytes;
            start
        })
    }
}

/// The arguments with copies of all texts.
///
/// # Safety
/// The arguments are as the format says.
unsafe fn with_copies(format: *const c_char, list: &List, rest: &mut Rest) -> Option<List> {
    let mut texts = 0;
    let mut end = *list;
    // SAFETY: the caller promises that the arguments are as the format says.
    if !unsafe { each_text(format, &mut end, |_, _| texts += 1) } {
        return None;
    }
    if texts == 0 {
        return Some(*list);
    }
    let room = rest.take(list.copy_bytes(&end))?;
    // SAFETY: just taken.
    let copied = unsafe { list.copied(&end, room as *mut u8) };
    let mut has_all = true;
    let mut passed = copied;
    let replace = |place: *mut u64, most: usize| {
        // SAFETY: an argument of ours, which is a text.
        let text = unsafe { *place } as *const c_char;
        if text.is_null() || !has_all {
            return;
        }
        // SAFETY: the program's text: it ends, or has as many bytes as the format says.
        let length = unsafe { copy_text(text, most, |_| false, rest.start as *mut u8, rest.bytes()) };
        match length.and_then(|length| rest.take(length + 1)) {
            // SAFETY: an argument of ours.
            Some(copy) => unsafe { *place = copy as u64 },
            None => has_all = false,
        }
    };
    // SAFETY: a copy of the arguments.
    unsafe { each_text(format, &mut passed, replace) };
    has_all.then_some(copied)
}

/// Does `print` with copies of the texts among its arguments.
///
/// # Safety
/// The arguments are as the format says.
unsafe fn print_copies<R>(format: *const c_char, list: *mut List, print: impl FnOnce(*mut List) -> R) -> R {
    let room = Local::current().and_then(|local| local.inputs.writer.room());
    let Some(mut room) = room else {
        return print(list);
    };
    let mut rest = Rest::of(&room);
    // SAFETY: the program's list; the caller promises that it is as the format says.
    let Some(mut copied) = (unsafe { with_copies(format, &*list, &mut rest) }) else {
        drop(room);
        return print(list);
    };
    room.shrink(rest.start - room.start());
    print(&mut copied)
}

/// `vsnprintf`; the text is made in memory of ours and then stored.
///
/// # Safety
/// As for the function of libc's.
unsafe fn print_to(to: *mut c_char, bytes: usize, format: *const c_char, list: *mut List) -> c_int {
    // SAFETY: the caller promises what libc's function demands.
    let directly = || unsafe { vsnprintf(to, bytes, format, &mut *list) };
    let Some(local) = Local::current() else {
        return directly();
    };
    let Some(room) = local.inputs.writer.room() else {
        return directly();
    };
    let mut rest = Rest::of(&room);
    // SAFETY: the caller promises what libc's function demands.
    let Some(copied) = (unsafe { with_copies(format, &*list, &mut rest) }) else {
        return directly();
    };
    let here = bytes.min(rest.bytes());
    // SAFETY: memory of ours, and copies of the arguments.
    let length = unsafe { vsnprintf(rest.start as *mut c_char, here, format, &mut { copied }) };
    if length < 0 || bytes == 0 {
        return length;
    }
    if here < bytes && length as usize >= here {
        // More than there is room for.
        // SAFETY: the caller promises what libc's function demands; copies of the arguments.
        return unsafe { vsnprintf(to, bytes, format, &mut { copied }) };
    }
    let stored = (length as usize).min(bytes - 1) + 1;
    // SAFETY: the caller promises room for as many bytes as libc would write.
    unsafe { local.store_from_outside(to.cast(), rest.start as *const u8, stored) };
    length
}

observed_functions! {
    __refrain_vsnprintf(to: *mut c_char, bytes: usize, format: *const c_char, list: *mut List) -> c_int {
        print_to(to, bytes, format, list)
    }
    __refrain_vsprintf(to: *mut c_char, format: *const c_char, list: *mut List) -> c_int {
        print_to(to, c_int::MAX as usize, format, list)
    }
    __refrain___vsnprintf_chk(to: *mut c_char, bytes: usize, _flag: c_int, room: usize, format: *const c_char, list: *mut List) -> c_int {
        if room < bytes {
            __chk_fail();
        }
        print_to(to, bytes, format, list)
    }
    __refrain___vsprintf_chk(to: *mut c_char, _flag: c_int, room: usize, format: *const c_char, list: *mut List) -> c_int {
        let length = print_to(to, room.min(c_int::MAX as usize), format, list);
        if length >= 0 && length as usize >= room {
            __chk_fail();
        }
        length
    }
    __refrain_vasprintf(to: *mut *mut c_char, format: *const c_char, list: *mut List) -> c_int {
        let mut text = core::ptr::null_mut();
        let length = print_copies(format, list, |list| vasprintf(&mut text, format, list));
        if length >= 0 {
            store_address(to.cast(), text.cast());
        }
        length
    }
    __refrain_vfprintf(stream: *mut FILE, format: *const c_char, list: *mut List) -> c_int {
        print_copies(format, list, |list| streams::vfprintf(stream, format, list.cast()))
    }
    __refrain_vprintf(format: *const c_char, list: *mut List) -> c_int {
        __refrain_vfprintf(stdout, format, list)
    }
    __refrain_vdprintf(file: c_int, format: *const c_char, list: *mut List) -> c_int {
        print_copies(format, list, |list| streams::vdprintf(file, format, list.cast()))
    }
    __refrain___vfprintf_chk(stream: *mut FILE, flag: c_int, format: *const c_char, list: *mut List) -> c_int {
        print_copies(format, list, |list| streams::__vfprintf_chk(stream, flag, format, list.cast()))
    }
    __refrain___vprintf_chk(flag: c_int, format: *const c_char, list: *mut List) -> c_int {
        __refrain___vfprintf_chk(stdout, flag, format, list)
    }
    __refrain_vsscanf(text: *const c_char, format: *const c_char, list: *mut List) -> c_int {
        scan(text, format, list, |text, list| vsscanf(text, format, list))
    }
    __refrain___isoc99_vsscanf(text: *const c_char, format: *const c_char, list: *mut List) -> c_int {
        scan(text, format, list, |text, list| __isoc99_vsscanf(text, format, list))
    }
}

variadic! {
    __refrain_snprintf after 3 arguments, list in "rcx", calls __refrain_vsnprintf;
    __refrain_sprintf after 2 arguments, list in "rdx", calls __refrain_vsprintf;
    __refrain___snprintf_chk after 5 arguments, list in "r9", calls __refrain___vsnprintf_chk;
    __refrain___sprintf_chk after 4 arguments, list in "r8", calls __refrain___vsprintf_chk;
    __refrain_asprintf after 2 arguments, list in "rdx", calls __refrain_vasprintf;
    __refrain_printf after 1 arguments, list in "rsi", calls __refrain_vprintf;
    __refrain_fprintf after 2 arguments, list in "rdx", calls __refrain_vfprintf;
    __refrain_dprintf after 2 arguments, list in "rdx", calls __refrain_vdprintf;
    __refrain___printf_chk after 2 arguments, list in "rdx", calls __refrain___vprintf_chk;
    __refrain___fprintf_chk after 3 arguments, list in "rcx", calls __refrain___vfprintf_chk;
    __refrain_sscanf after 2 arguments, list in "rdx", calls __refrain_vsscanf;
    __refrain___isoc99_sscanf after 2 arguments, list in "rdx", calls __refrain___isoc99_vsscanf;
}

/// Stores an address where the program asked for it.
///
/// # Safety
/// `to` may be written.
pub unsafe fn store_address(to: *mut u8, address: *const c_void) {
    let bytes = (address as usize).to_le_bytes();
    // SAFETY: the caller promises that `to` may be written.
    unsafe {
        match Local::current() {
            Some(local) => local.store_from_outside(to, bytes.as_ptr(), bytes.len()),
            None => core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()),
        }
    }
}

/// What one conversion of a scan writes.
#[derive(Clone, Copy)]
enum Written {
    Bytes(usize),
    /// Up to so many bytes and a terminator.
    Text(usize),
    /// Where the scan is: not counted as a conversion.
    Position(usize),
}

/// Goes through the targets of a format for input: calls `target` with the place of each address, and what is written there.
/// False: there are some that it does not know.
///
/// # Safety
/// The arguments are as the format says.
unsafe fn each_target(
    format: *const c_char,
    list: &mut List,
    input_bytes: usize,
    mut target: impl FnMut(*mut u64, Written),
) -> bool {
    let mut format = Format(format);
    // SAFETY: each argument is taken as the format says, which the caller promises to be true; a terminator ends the loop.
    unsafe {
        while format.find() {
            format.skip(b"'I");
            let is_dropped = format.peek() == b'*';
            format.skip(b"*");
            let width = format.number();
            if format.peek() == b'$' {
                return false;
            }
            let is_allocated = format.peek() == b'm';
            format.skip(b"m");
            let size = format.size();
            let text = Written::Text(width.unwrap_or(input_bytes).min(input_bytes));
            let written = match format.next() {
                b'%' => continue,
                b'd' | b'i' | b'o' | b'u' | b'x' | b'X' => Written::Bytes(size.of_integer()),
                b'n' => Written::Position(size.of_integer()),
                b'p' => Written::Bytes(8),
                b'e' | b'f' | b'g' | b'a' | b'E' | b'F' | b'G' | b'A' => Written::Bytes(size.of_float()),
                b's' if size == Size::Plain => text,
                b'c' if size == Size::Plain => Written::Bytes(width.unwrap_or(1)),
                b'[' if size == Size::Plain => {
                    format.skip(b"^");
                    // A bracket that comes first is one of the set.
                    format.next();
                    while !matches!(format.peek(), 0 | b']') {
                        format.next();
                    }
                    format.next();
                    text
                }
                _ => return false,
            };
            if !is_dropped {
                target(list.word(), if is_allocated { Written::Bytes(8) } else { written });
            }
        }
    }
    true
}

const TARGETS_MAX: usize = 32;

/// `vsscanf`, of a copy of the text into memory of ours; what was converted is then stored.
///
/// # Safety
/// As for the function of libc's.
unsafe fn scan(
    text: *const c_char,
    format: *const c_char,
    list: *mut List,
    scan: impl Fn(*const c_char, *mut List) -> c_int,
) -> c_int {
    let Some(local) = Local::current() else {
        return scan(text, list);
    };
    let Some(room) = local.inputs.writer.room() else {
        return scan(text, list);
    };
    let mut rest = Rest::of(&room);
    // SAFETY: the program's text.
    let length = unsafe { copy_text(text, usize::MAX, |_| false, rest.start as *mut u8, rest.bytes()) };
    let Some((copy, length)) = length.and_then(|length| Some((rest.take(length + 1)?, length))) else {
        return scan(text, list);
    };
    // SAFETY: the program's list.
    let given = unsafe { *list };
    let (mut end, mut targets) = (given, 0);
    // SAFETY: the caller promises that the arguments are as the format says.
    let is_known = unsafe { each_target(format, &mut end, length, |_, _| targets += 1) };
    let list_room = rest.take(given.copy_bytes(&end));
    let (true, Some(list_room)) = (is_known && targets <= TARGETS_MAX, list_room) else {
        return scan(copy as *const c_char, list);
    };
    // SAFETY: just taken.
    let copied = unsafe { given.copied(&end, list_room as *mut u8) };
    let mut all = [(0u64, 0usize, Written::Bytes(0)); TARGETS_MAX];
    let (mut count, mut has_room) = (0, true);
    let mut passed = copied;
    let replace = |place: *mut u64, written: Written| {
        let bytes = match written {
            Written::Bytes(bytes) | Written::Position(bytes) => bytes,
            Written::Text(bytes) => bytes + 1,
        };
        let Some(own) = rest.take(bytes) else {
            has_room = false;
            return;
        };
        // SAFETY: an argument of ours; memory of ours. No position has all bits set.
        unsafe {
            core::ptr::write_bytes(own as *mut u8, 0xff, bytes);
            all[count] = (*place, own, written);
            *place = own as u64;
        }
        count += 1;
    };
    // SAFETY: a copy of the arguments.
    unsafe { each_target(format, &mut passed, length, replace) };
    if !has_room {
        return scan(copy as *const c_char, list);
    }
    let converted = scan(copy as *const c_char, &mut { copied });
    let mut left = converted.max(0);
    for (target, own, written) in &all[..count] {
        let bytes = match *written {
            Written::Position(bytes) => {
                // SAFETY: memory of ours.
                let found = unsafe { core::slice::from_raw_parts(*own as *const u8, bytes) };
                if found.iter().all(|byte| *byte == 0xff) {
                    continue;
                }
                bytes
            }
            _ if left == 0 => continue,
            Written::Bytes(bytes) => {
                left -= 1;
                bytes
            }
            Written::Text(_) => {
                left -= 1;
                // SAFETY: libc has written a text there, with its terminator.
                unsafe { libc::strlen(*own as *const c_char) + 1 }
            }
        };
        // SAFETY: the program gave this address to be written.
        unsafe { local.store_from_outside(*target as *mut u8, *own as *const u8, bytes) };
    }
    converted
}
