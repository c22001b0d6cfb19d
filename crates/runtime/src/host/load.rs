//! Loads a guest as the kernel does: its parts at their addresses, musl's loader if it has one, and what it finds on its stack.
use crate::calls;
use crate::calls::patch::GuestCode;
use crate::executable::Opened;
use crate::failure;
use crate::host::entry;
use crate::host::locked;
use crate::line::Line;
use crate::sys;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ffi::c_char;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use program_image::EXECUTABLE;
use program_image::HEADERS_MAX;
use program_image::INTERPRETER_BYTES_MAX;
use program_image::Image;
use program_image::READABLE;
use program_image::Segment;
use program_image::WRITABLE;
use runtime_abi::memory_map::HOSTED_LOADER;
use runtime_abi::memory_map::HOSTED_PROGRAM;

const PAGE: u64 = 4096;
const PATH_BYTES_MAX: usize = 4096;

/// How its code is changed.
static CODE: GuestCode = GuestCode {
    enter: entry::enter,
    stop_before: locked::stop_before,
};

/// The guest's break: what `brk` says, from where on.
struct Break {
    start: AtomicU64,
    now: AtomicU64,
}

/// Written before the guest runs, and then by its `brk`, which its libc calls under a lock of its own.
static BREAK: Break = Break {
    start: AtomicU64::new(0),
    now: AtomicU64::new(0),
};

/// What is kept of the guest.
struct Kept {
    /// Its path, as the kernel knows it, and that path's length without the terminating zero.
    path: [u8; PATH_BYTES_MAX],
    path_bytes: usize,
    /// Program headers of the guest and of its loader.
    headers: [[libc::Elf64_Phdr; HEADERS_MAX]; 2],
}

struct Shared(UnsafeCell<Kept>);

// SAFETY: written when there is one thread, before the guest runs.
unsafe impl Sync for Shared {}

/// Written when there is one thread, before the guest runs; read after that.
static KEPT: Shared = Shared(UnsafeCell::new(Kept {
    path: [0; PATH_BYTES_MAX],
    path_bytes: 0,
    headers: [[NO_HEADER; HEADERS_MAX]; 2],
}));

const NO_HEADER: libc::Elf64_Phdr = libc::Elf64_Phdr {
    p_type: 0,
    p_flags: 0,
    p_offset: 0,
    p_vaddr: 0,
    p_paddr: 0,
    p_filesz: 0,
    p_memsz: 0,
    p_align: 0,
};

/// A guest that is in memory.
pub struct Guest {
    /// Where to begin: in its loader, if it has one.
    pub entry: u64,
    own_entry: u64,
    headers: u64,
    header_count: usize,
    loader: u64,
    path: &'static CStr,
}

/// Once, before the guest runs.
pub fn load(path: &'static CStr) -> Guest {
    let opened = match Opened::open(path) {
        Ok(opened) => opened,
        Err(errno) => failure::die(b"cannot open the program", errno),
    };
    let image = match Image::read(opened.head()) {
        Ok(image) => image,
        Err(refusal) => failure::die(refusal.words().as_bytes(), 0),
    };
    remember_path(opened.file);
    let base = place(&opened, &image, HOSTED_PROGRAM.start);
    let end = base + image.extent().1;
    BREAK.start.store(end, Relaxed);
    BREAK.now.store(end, Relaxed);
    let own_entry = base + image.entry;
    let mut guest = Guest {
        entry: own_entry,
        own_entry,
        headers: image.headers_address().map_or(0, |headers| base + headers),
        header_count: image.headers,
        loader: 0,
        path,
    };
    replace_calls(&opened, &image, base, 0, own_path());
    let mut name = [0; INTERPRETER_BYTES_MAX + 1];
    if let Some(interpreter) = opened.interpreter(&image, &mut name) {
        let opened = match Opened::open(interpreter) {
            Ok(opened) => opened,
            Err(errno) => failure::die(b"cannot open the program's loader", errno),
        };
        let image = match Image::read(opened.head()) {
            Ok(image) => image,
            Err(refusal) => failure::die(refusal.words().as_bytes(), 0),
        };
        let base = place(&opened, &image, HOSTED_LOADER.start);
        guest.loader = base;
        guest.entry = base + image.entry;
        let mut path = [0; PATH_BYTES_MAX];
        replace_calls(&opened, &image, base, 1, path_of(opened.file, &mut path));
    }
    guest
}

/// Maps all parts. Returns what has to be added to their addresses.
fn place(opened: &Opened, image: &Image, base: u64) -> u64 {
    let base = if image.is_fixed { 0 } else { base };
    let (start, end) = image.extent();
    // Memory that can be had, and is nobody else's.
    let result = map(
        base + start,
        end - start,
        libc::PROT_NONE,
        libc::MAP_FIXED_NOREPLACE,
        -1,
        0,
    );
    if let Err(errno) = result {
        failure::die(b"the addresses that the program is linked for are not free", errno);
    }
    for segment in image.segments() {
        if let Err(errno) = place_segment(opened.file, segment, base) {
            failure::die(b"cannot map a part of the program", errno);
        }
    }
    base
}

fn place_segment(file: i32, segment: &Segment, base: u64) -> Result<(), i32> {
    let bit = |flag: u32, protection: c_int| if segment.flags & flag != 0 { protection } else { 0 };
    let protection =
        bit(READABLE, libc::PROT_READ) | bit(WRITABLE, libc::PROT_WRITE) | bit(EXECUTABLE, libc::PROT_EXEC);
    let start = base + segment.address;
    let first_page = start / PAGE * PAGE;
    let file_end = start + segment.file_bytes;
    let end = (start + segment.memory_bytes).next_multiple_of(PAGE);
    let mut mapped = first_page;
    if segment.file_bytes > 0 {
        mapped = file_end.next_multiple_of(PAGE);
        let offset = segment.offset - segment.offset % PAGE;
        map(
            first_page,
            mapped - first_page,
            protection,
            libc::MAP_FIXED,
            file,
            offset,
        )?;
        if segment.memory_bytes > segment.file_bytes && segment.flags & WRITABLE != 0 {
            // SAFETY: the rest of the last page, which has just been mapped to be written.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, (mapped - file_end) as usize) };
        }
    }
    match end > mapped {
        true => map(mapped, end - mapped, protection, libc::MAP_FIXED, -1, 0),
        false => Ok(()),
    }
}

fn map(address: u64, bytes: u64, protection: c_int, how: c_int, file: i32, offset: u64) -> Result<(), i32> {
    let kind = if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
    let arguments = [
        address as usize,
        bytes as usize,
        protection as usize,
        (libc::MAP_PRIVATE | how | kind) as usize,
        file as usize,
        offset as usize,
    ];
    // SAFETY: replaces nothing, or what `place` has just reserved.
    let got = unsafe { sys::syscall(libc::SYS_mmap, arguments) };
    match got {
        got if got == address as isize => Ok(()),
        got if got < 0 => Err(-got as i32),
        got => {
            // A kernel that does not know MAP_FIXED_NOREPLACE.
            // SAFETY: new memory that nobody uses.
            unsafe { sys::unmap(got as u64, bytes as usize) };
            Err(libc::EEXIST)
        }
    }
}

/// Its calls become jumps to us.
fn replace_calls(opened: &Opened, image: &Image, base: u64, number: usize, path: &CStr) {
    // SAFETY: there is one thread, and it is here once for each number.
    let kept: &'static mut Kept = unsafe { &mut *KEPT.0.get() };
    let headers = &mut kept.headers[number][..image.headers];
    let bytes = size_of_val(headers);
    let from = image.headers_offset as usize;
    // `Image::read` has found them there.
    let Some(source) = opened.head().get(from..from + bytes) else {
        return;
    };
    // SAFETY: headers are numbers, and there are as many bytes.
    unsafe { core::ptr::copy_nonoverlapping(source.as_ptr(), headers.as_mut_ptr().cast::<u8>(), bytes) };
    calls::consider_guest(base, headers, path.to_bytes(), &CODE);
}

fn remember_path(file: i32) {
    // SAFETY: there is one thread.
    let kept = unsafe { &mut *KEPT.0.get() };
    kept.path_bytes = path_of(file, &mut kept.path).count_bytes();
}

/// As the kernel knows it.
fn path_of(file: i32, path: &mut [u8; PATH_BYTES_MAX]) -> &CStr {
    let mut link = Line::default();
    link.text(b"/proc/self/fd/");
    link.number(file as u64);
    link.text(b"\0");
    let bytes = sys::read_link(link.bytes(), &mut path[..PATH_BYTES_MAX - 1]).len();
    path[bytes] = 0;
    CStr::from_bytes_until_nul(path).unwrap_or(c"")
}

/// The guest's path.
pub fn own_path() -> &'static CStr {
    // SAFETY: written once, before the guest runs.
    let kept = unsafe { &*KEPT.0.get() };
    CStr::from_bytes_with_nul(&kept.path[..=kept.path_bytes]).unwrap_or(c"")
}

/// Makes the stack that the kernel made for us the guest's: without our own two arguments, and about the guest. Returns where it is.
///
/// # Safety
/// The arguments are those of the process, where the kernel put them; all that is on the stack below is not needed any more when
/// the guest begins.
pub unsafe fn describe(guest: &Guest, count: c_int, arguments: *mut *mut c_char) -> u64 {
    const AT_IGNORE: u64 = 1;
    // SAFETY: the kernel's list of arguments ends with null, then come the variables and another null, then pairs of numbers
    // up to AT_NULL.
    unsafe {
        let mut next = arguments.add(count as usize + 1);
        while !(*next).is_null() {
            next = next.add(1);
        }
        let mut pair = next.add(1).cast::<[u64; 2]>();
        while (*pair)[0] != libc::AT_NULL {
            let [kind, value] = &mut *pair;
            match *kind {
                libc::AT_PHDR => *value = guest.headers,
                libc::AT_PHNUM => *value = guest.header_count as u64,
                libc::AT_ENTRY => *value = guest.own_entry,
                libc::AT_BASE => *value = guest.loader,
                libc::AT_EXECFN => *value = guest.path.as_ptr() as u64,
                // The clocks of the vDSO would be read behind our back.
                libc::AT_SYSINFO_EHDR => *kind = AT_IGNORE,
                // Sixteen random bytes: an input like any other.
                libc::AT_RANDOM => calls::note_instruction(*value as *mut u8, 16),
                _ => {}
            }
            pair = pair.add(1);
        }
        // Ours was at an address that 16 divides; so is this.
        let place = arguments.add(1).cast::<u64>();
        *place = count as u64 - 2;
        place as u64
    }
}

/// The guest's `brk`. Its heap is behind it, where the kernel would have put it; ours is elsewhere.
pub fn set_break(wanted: u64) -> u64 {
    let (start, now) = (BREAK.start.load(Relaxed), BREAK.now.load(Relaxed));
    let (top, wanted_top) = (now.next_multiple_of(PAGE), wanted.wrapping_add(PAGE - 1) / PAGE * PAGE);
    if wanted < start || wanted >= 1 << 47 {
        return now;
    }
    if wanted_top > top {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        if map(top, wanted_top - top, protection, libc::MAP_FIXED_NOREPLACE, -1, 0).is_err() {
            return now;
        }
    } else if wanted_top < top {
        // SAFETY: memory of the guest's that it gives back.
        unsafe { sys::unmap(wanted_top, (top - wanted_top) as usize) };
    }
    BREAK.now.store(wanted, Relaxed);
    wanted
}
