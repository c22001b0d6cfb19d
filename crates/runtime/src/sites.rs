//! Site tables of the program's objects: they register when they are loaded, logs name sites by number.
use crate::line::Line;
use crate::policy;
use crate::run_directory;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use run_model::SiteId;

const OBJECTS_MAX: usize = 256;
const SITE_BYTES: u64 = 16;

struct Object {
    start: AtomicU64,
    stop: AtomicU64,
    /// Number of the object's first site.
    base: AtomicU32,
}

/// All that have registered. Only what counts is looked at.
struct Registered {
    objects: [Object; OBJECTS_MAX],
    count: AtomicU32,
}

/// Written by `register` alone, under the loader's lock, and only behind what counts; so what was found once stays as it is.
static REGISTERED: Registered = Registered {
    objects: [const {
        Object {
            start: AtomicU64::new(0),
            stop: AtomicU64::new(0),
            base: AtomicU32::new(0),
        }
    }; OBJECTS_MAX],
    count: AtomicU32::new(0),
};

/// The number of the site record at `address`; 0 if it is unknown.
pub fn number(address: u64) -> SiteId {
    // Acquire: pairs with the Release in `register`.
    for object in &REGISTERED.objects[..REGISTERED.count.load(Acquire) as usize] {
        let start = object.start.load(Relaxed);
        if (start..object.stop.load(Relaxed)).contains(&address) {
            return SiteId(object.base.load(Relaxed) + ((address - start) / SITE_BYTES) as u32);
        }
    }
    SiteId(0)
}

/// The shared program element that a site's code accesses; 0 if it does not say.
///
/// # Safety
/// `site` is a record of a site table.
#[inline]
pub unsafe fn element(site: *const u8) -> u32 {
    // SAFETY: the caller promises that `site` is a record of a site table; records are aligned to 16 bytes.
    unsafe { site.add(runtime_abi::SITE_ELEMENT_OFFSET).cast::<u32>().read() }
}

/// May what is read at the site with this address be bytes that nobody has set?
pub fn may_be_undefined(address: u64) -> bool {
    if address == 0 {
        return false;
    }
    // SAFETY: within the site table of an object; sites are only stored by its own code.
    let flags = unsafe {
        (address as *const u8)
            .add(runtime_abi::SITE_FLAGS_OFFSET)
            .cast::<u32>()
            .read()
    };
    flags & runtime_abi::SITE_MAY_BE_UNDEFINED != 0
}

/// The element of the lock that is operated on at the site with this address; 0 if it is no such site, or does not say.
pub fn lock_element(address: u64) -> u32 {
    if address == 0 {
        return 0;
    }
    let site = address as *const u8;
    // SAFETY: within the site table of an object; sites are only stored by its own code.
    let (kind, element) = unsafe { (site.add(runtime_abi::SITE_KIND_OFFSET).read(), element(site)) };
    match kind {
        runtime_abi::SITE_KIND_SYNC_CALL => element,
        _ => 0,
    }
}

/// The element of what is allocated at the site with this address, if it is one where something is allocated.
pub fn allocation_element(address: u64) -> Option<u32> {
    if number(address) == SiteId(0) {
        return None;
    }
    let site = address as *const u8;
    // SAFETY: within the site table of an object; sites are only stored by its own code.
    let (kind, element) = unsafe { (site.add(runtime_abi::SITE_KIND_OFFSET).read(), element(site)) };
    (kind == runtime_abi::SITE_KIND_ALLOCATION && element != 0).then_some(element)
}

/// An instrumented object with this site section is there; the loader runs constructors one at a time.
pub fn register(start: *const u8, stop: *const u8) {
    let count = REGISTERED.count.load(Relaxed) as usize;
    if count == OBJECTS_MAX
        || REGISTERED.objects[..count]
            .iter()
            .any(|o| o.start.load(Relaxed) == start as u64)
    {
        return;
    }
    let base = match count {
        0 => 0,
        n => {
            let last = &REGISTERED.objects[n - 1];
            let bytes = last.stop.load(Relaxed) - last.start.load(Relaxed);
            last.base.load(Relaxed) + bytes.div_ceil(SITE_BYTES) as u32
        }
    };
    let object = &REGISTERED.objects[count];
    object.start.store(start as u64, Relaxed);
    object.stop.store(stop as u64, Relaxed);
    object.base.store(base, Relaxed);
    // Release: the entry is whole before it counts.
    REGISTERED.count.store(count as u32 + 1, Release);
    if policy::is_observed() {
        list_object(start, stop, base);
    }
}

/// Adds a line `base bytes path` to the run's `objects`.
fn list_object(start: *const u8, stop: *const u8, base: u32) {
    // SAFETY: Dl_info is plain old data; dladdr fills it for any address and takes none of the program's locks that
    // a constructor could hold.
    let (found, info) = unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        (libc::dladdr(start.cast(), &mut info), info)
    };
    if found == 0 || info.dli_fname.is_null() {
        return;
    }
    // SAFETY: dladdr gave a NUL-terminated string that lives as long as the object is loaded.
    let path = unsafe { core::ffi::CStr::from_ptr(info.dli_fname) }.to_bytes();
    let mut target = [0u8; 4096];
    // The loader knows the program itself only by the name it was called with.
    let path = if path.first() == Some(&b'/') {
        path
    } else {
        sys::read_link(b"/proc/self/exe\0", &mut target)
    };
    let mut line = Line::default();
    line.number(base as u64);
    line.text(b" ");
    line.number(stop as u64 - start as u64);
    line.text(b" ");
    line.text(path);
    line.text(b"\n");
    if let Ok(file) = run_directory::open(b"objects", libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND) {
        sys::write_all(file, line.bytes());
        sys::close(file);
    }
}
