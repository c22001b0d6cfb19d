//! A hybrid schedule is enforced: points are events, all other plain accesses are none.
use crate::control;
use crate::counting::counting;
use crate::failure;
use crate::local::Local;
use crate::replay::PLAIN;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Place;
use runtime_abi::divergence;
use runtime_abi::memory_map;
use runtime_abi::points_file::FILE_NAME;
use runtime_abi::points_file::LAST_ACCESS;
use runtime_abi::points_file::MAGIC;
use runtime_abi::points_file::PointEntry;
use runtime_abi::points_file::PointsHeader;
use runtime_abi::points_file::ThreadPoints;

const POINTS: u64 = memory_map::POINTS.start;

/// Maps the points. The tool has written and verified them; here only sizes are checked again.
pub fn open() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(FILE_NAME.as_bytes(), &mut buffer);
    let file = match sys::open(path, libc::O_RDWR) {
        Ok(file) => file,
        Err(errno) => failure::die(b"cannot open the points of this schedule", errno),
    };
    // SAFETY: lseek touches no memory.
    let bytes = unsafe { sys::syscall(libc::SYS_lseek, [file as usize, 0, libc::SEEK_END as usize, 0, 0, 0]) };
    if !memory_map::POINTS.has_room_for(bytes.max(0) as u64)
        || bytes < size_of::<PointsHeader>() as isize
        || sys::map_at(POINTS, bytes as usize, file, 0, true).is_err()
    {
        failure::die(b"cannot map the points of this schedule", 0);
    }
    sys::close(file);
    let header = header();
    let expected = size_of::<PointsHeader>() as u64
        + u64::from(header.threads) * size_of::<ThreadPoints>() as u64
        + header.points * size_of::<PointEntry>() as u64;
    if header.magic != MAGIC || expected != bytes as u64 {
        failure::die(b"the points of this schedule are damaged", 0);
    }
}

fn header() -> &'static PointsHeader {
    // SAFETY: `open` mapped at least a header here, for good.
    unsafe { &*(POINTS as *const PointsHeader) }
}

fn threads() -> &'static [ThreadPoints] {
    let at = POINTS as usize + size_of::<PointsHeader>();
    // SAFETY: `open` found the file to be exactly as long as its header says.
    unsafe { core::slice::from_raw_parts(at as *const ThreadPoints, header().threads as usize) }
}

fn points() -> &'static [PointEntry] {
    let at = threads().as_ptr_range().end;
    // SAFETY: `open` found the file to be exactly as long as its header says; the points follow the threads.
    unsafe { core::slice::from_raw_parts(at.cast(), header().points as usize) }
}

fn is_at(point: &PointEntry, place: &Place) -> bool {
    (point.transfers, point.site, point.ordinal) == (place.transfers, place.site.0, place.ordinal)
}

impl Local {
    pub fn begin_points(&self) {
        let part = threads().get(self.index as usize);
        let part = part.and_then(|part| points().get(part.first as usize..(part.first + part.count) as usize));
        self.counting.points.set(part.unwrap_or(&[]));
        self.arm_point();
    }

    /// Is one of the accesses before the next event a point?
    pub fn awaits_point(&self) -> bool {
        let next = self.counting.points.get().first();
        next.is_some_and(|point| point.segment == self.counting.segment.get())
    }

    /// Which version of its functions the thread is to run, and up to where.
    pub fn arm_point(&self) {
        let (segment, next) = (self.counting.segment.get(), self.counting.points.get().first());
        let own = counting();
        match next {
            Some(point) if point.segment < segment => self.miss(point),
            Some(point) if point.segment == segment => {
                own.limit.store(point.transfers, Relaxed);
                own.slow.store(1, Relaxed);
            }
            _ => {
                own.limit.store(u64::MAX, Relaxed);
                own.slow.store(0, Relaxed);
            }
        }
    }

    /// The schedule orders an access that did not come.
    #[cold]
    fn miss(&self, point: &PointEntry) -> ! {
        self.diverge(divergence::POINT, PLAIN, point.site, point.transfers, point.segment)
    }

    /// Does `access`, a plain one. If it is the next point, it is an event, and waits for others like any other.
    #[inline]
    pub fn perform_at_point<R>(&self, access: impl FnOnce() -> R) -> R {
        if self.counting.is_over.get() {
            self.stop_here();
        }
        let Some(point) = self.counting.points.get().first().filter(|_| self.awaits_point()) else {
            return access();
        };
        let place = self.next_place();
        if place.transfers > point.transfers {
            self.miss(point);
        }
        if !is_at(point, &place) {
            return access();
        }
        self.chaos.at_gate();
        if point.event == LAST_ACCESS {
            let result = access();
            self.stop_before_next();
            return result;
        }
        self.pass_gate(PLAIN);
        let result = access();
        self.complete_plain();
        self.counting.points.set(&self.counting.points.get()[1..]);
        match self.counting.points.get().first() {
            Some(next) if next.event == LAST_ACCESS && is_at(next, &place) => self.stop_before_next(),
            _ => self.arm_point(),
        }
        result
    }

    /// The process ended when the thread had done what it has just done.
    fn stop_before_next(&self) {
        self.counting.is_over.set(true);
        let own = counting();
        own.limit.store(0, Relaxed);
        own.slow.store(1, Relaxed);
    }
}
