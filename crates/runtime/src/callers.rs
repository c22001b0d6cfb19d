//! Who calls: libraries whose own synchronisation is none of the program's business.
//!
//! The unwinder (libgcc_s) and the OpenMP runtime (libomp) use locks of libc's inside. When they do depends on things we
//! do not record, and what the program sees of it is observed elsewhere (`openmp`, and the accesses themselves). Their
//! calls pass through.
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;

const FOREIGN: [&[u8]; 3] = [b"/libgcc_s.so", b"/libomp.so", b"/libomp5.so"];
const RANGES_MAX: usize = 8;

struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

/// Where they are. Only what counts is looked at.
struct Found {
    ranges: [Range; RANGES_MAX],
    count: AtomicUsize,
    /// All of them lie in between, and mostly none of the program's code.
    all: Range,
}

/// Written by `find` alone, under the loader's lock, and only behind what counts.
static FOUND: Found = Found {
    ranges: [const {
        Range {
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
        }
    }; RANGES_MAX],
    count: AtomicUsize::new(0),
    all: Range {
        start: AtomicU64::new(u64::MAX),
        end: AtomicU64::new(0),
    },
};

/// Does `caller`, a return address, lie in such a library?
#[inline(always)]
pub fn is_foreign(caller: u64) -> bool {
    // Relaxed: as the ranges themselves; who is late has the answer of a moment ago.
    let (start, end) = (FOUND.all.start.load(Relaxed), FOUND.all.end.load(Relaxed));
    (start..end).contains(&caller) && is_in_range(caller)
}

#[cold]
#[inline(never)]
fn is_in_range(caller: u64) -> bool {
    // Acquire: pairs with the Release in `find`.
    let count = FOUND.count.load(Acquire);
    FOUND.ranges[..count]
        .iter()
        .any(|r| (r.start.load(Relaxed)..r.end.load(Relaxed)).contains(&caller))
}

/// Is this the path of such a library?
pub fn is_name_of_foreign(path: &[u8]) -> bool {
    let is_part = |part: &&[u8]| path.windows(part.len()).any(|window| window == *part);
    FOREIGN.iter().any(is_part)
}

/// Finds where they are loaded.
pub fn find() {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description of an object.
        unsafe {
            let info = &*info;
            let name = core::ffi::CStr::from_ptr(info.dlpi_name).to_bytes();
            if !is_name_of_foreign(name) {
                return 0;
            }
            for header in core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) {
                let count = FOUND.count.load(Relaxed);
                if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 && count < RANGES_MAX {
                    let start = info.dlpi_addr + header.p_vaddr;
                    FOUND.ranges[count].start.store(start, Relaxed);
                    FOUND.ranges[count].end.store(start + header.p_memsz, Relaxed);
                    FOUND.all.start.fetch_min(start, Relaxed);
                    FOUND.all.end.fetch_max(start + header.p_memsz, Relaxed);
                    // Release: the range is whole before it counts.
                    FOUND.count.store(count + 1, Release);
                }
            }
        }
        0
    }
    // SAFETY: `visit` has the signature the loader expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::null_mut()) };
}
