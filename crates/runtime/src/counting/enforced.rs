//! A hybrid schedule is enforced: points are events, all other plain accesses are none.
use crate::control;
use crate::counting::counting;
use crate::failure;
use crate::local::Local;
use crate::policy;
use crate::replay::PLAIN;
use crate::schedule;
use crate::slots;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use runtime_abi::divergence;
use runtime_abi::memory_map;
use runtime_abi::points_file::FILE_NAME;
use runtime_abi::points_file::LAST_ACCESS;
use runtime_abi::points_file::MAGIC;
use runtime_abi::points_file::NO_ACCESS;
use runtime_abi::points_file::PointEntry;
use runtime_abi::points_file::PointsHeader;
use runtime_abi::points_file::ThreadPoints;

const POINTS: u64 = memory_map::POINTS.start;

/// Maps the points. The tool has written and verified them; here only sizes are checked again.
pub fn open() {
    slots::count_processors();
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
            Some(point) if point.segment < segment => {
                self.miss(point);
                own.limit.store(u64::MAX, Relaxed);
                own.slow.store(0, Relaxed);
            }
            Some(point) if point.segment == segment && point.event == NO_ACCESS => self.stop_before_next(),
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
    fn miss(&self, point: &PointEntry) {
        self.leave_schedule(divergence::POINT, PLAIN, point.site, point.transfers, point.segment);
    }

    /// Passes the gate of a synchronisation, if there is nothing to be done but that: it is the one that the schedule has next, and what it waits for has
    /// happened. Says its recorded result. Most synchronisations follow one of their own thread, and nearly all cost is here.
    #[inline]
    pub fn pass_quickly(&self, op: Op, object: u64) -> Option<i64> {
        if !control::counts_for_points() || policy::is_free() {
            return None;
        }
        let cursor = &self.replay.cursor;
        let (gate, later) = cursor.gates.get().split_first()?;
        let event = self.event();
        let is_next = gate.event == event
            && gate.kind == Kind::Sync as u8
            && gate.op == op as u8
            && gate.object == object
            && event < cursor.events.get().min(cursor.survival.get()).min(cursor.failure.get());
        let is_disturbed = self.inputs.pending.count.get() != 0 || self.chaos.is_on();
        if !is_next || is_disturbed || (gate.waits != 0 && !schedule::is_open(gate)) {
            return None;
        }
        cursor.gates.set(later);
        // The slot's own gate stays where it was: who looks at it comes here too early, and no harm is done.
        self.slot.records.store(self.slot.records.load(Relaxed) + 1, Relaxed);
        Some(gate.value)
    }

    /// Does `access`, a plain one. If it is the next point, it is an event, and waits for others like any other.
    #[inline]
    pub fn perform_at_point<R>(&self, access: impl FnOnce() -> R) -> R {
        if self.counting.is_over.get() {
            self.stop_until_freed();
            return access();
        }
        let Some(point) = self.counting.points.get().first().filter(|_| self.awaits_point()) else {
            self.pass_places(1);
            return access();
        };
        let place = self.next_place();
        if place.transfers > point.transfers {
            self.miss(point);
            return access();
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

    /// Does `access`, an atomic one: NOTE [Atomics] (`counting/mod.rs`).
    pub fn perform_between_steps<R>(&self, access: impl FnOnce() -> R) -> R {
        self.at_safe_point();
        self.pass_gate(PLAIN);
        self.complete();
        counting().ordinal.store(0, Relaxed);
        let result = self.perform_at_point(access);
        self.pass_gate(PLAIN);
        self.complete();
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
