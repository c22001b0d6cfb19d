//! A hybrid schedule is enforced: points are events, all other plain accesses are none.
use crate::counting::counting;
use crate::counting::lists::Lists;
use crate::local::Local;
use crate::replay::PLAIN;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;
use run_model::Place;
use runtime_abi::divergence;
use runtime_abi::memory_map;
use runtime_abi::points_file::FILE_NAME;
use runtime_abi::points_file::LAST_ACCESS;
use runtime_abi::points_file::MAGIC;
use runtime_abi::points_file::NO_ACCESS;
use runtime_abi::points_file::PointEntry;
use runtime_abi::points_file::VERSION;

pub static POINTS: Lists<PointEntry> = Lists {
    region: &memory_map::POINTS,
    name: FILE_NAME,
    magic: MAGIC,
    version: VERSION,
    bytes_behind: 0,
    entries: PhantomData,
};

fn is_at(point: &PointEntry, place: &Place) -> bool {
    (point.transfers, point.site, point.ordinal) == (place.transfers, place.site.0, place.ordinal)
}

impl Local {
    pub fn begin_points(&self) {
        self.counting.points.set(POINTS.of(self.index));
        self.run_freely();
        self.arm_point();
    }

    /// Is one of the accesses before the next event a point?
    pub fn awaits_point(&self) -> bool {
        let next = self.counting.points.get().first();
        next.is_some_and(|point| point.segment == self.counting.segment.get())
    }

    /// Which version of its functions the thread is to run, and up to where.
    #[inline]
    pub fn arm_point(&self) {
        let (segment, next) = (self.counting.segment.get(), self.counting.points.get().first());
        let own = counting();
        match next {
            Some(point) if point.segment < segment => {
                self.miss(point);
                self.run_freely();
            }
            Some(point) if point.segment == segment && point.event == NO_ACCESS => self.stop_before_next(),
            Some(point) if point.segment == segment => {
                own.limit.store(point.transfers, Relaxed);
                own.slow.store(1, Relaxed);
            }
            _ if own.slow.load(Relaxed) != 0 => self.run_freely(),
            _ => {}
        }
    }

    /// No point is near.
    fn run_freely(&self) {
        let own = counting();
        own.limit.store(u64::MAX, Relaxed);
        own.slow.store(0, Relaxed);
    }

    /// The schedule orders an access that did not come.
    #[cold]
    fn miss(&self, point: &PointEntry) {
        self.leave_schedule(divergence::POINT, PLAIN, point.site, point.transfers, point.segment);
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
        match self.has_own_step(Op::None, 0) {
            true => self.pass_own_step(),
            false => {
                self.at_safe_point();
                self.pass_gate(PLAIN);
            }
        }
        self.complete();
        counting().ordinal.store(0, Relaxed);
        let result = self.perform_at_point(access);
        match self.has_own_step(Op::None, 0) {
            true => self.pass_own_step(),
            false => _ = self.pass_gate(PLAIN),
        }
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
