//! Steps of a hybrid schedule that follow one of their own thread: nobody is waited for, and most steps are of this kind. What the thread does is
//! compared with what the schedule has, as at a gate. The list is `runtime_abi::own_steps_file`.
use crate::counting::counting;
use crate::counting::lists::Lists;
use crate::local::Local;
use crate::policy;
use crate::replay::Doing;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Kind;
use run_model::Op;
use runtime_abi::divergence;
use runtime_abi::memory_map;
use runtime_abi::own_steps_file::Entry;
use runtime_abi::own_steps_file::FILE_NAME;
use runtime_abi::own_steps_file::MAGIC;
use runtime_abi::own_steps_file::VERSION;
use runtime_abi::own_steps_file::compared_object;
use runtime_abi::own_steps_file::step;

pub static OWN_STEPS: Lists<u64> = Lists {
    region: &memory_map::OWN_STEPS,
    name: FILE_NAME,
    magic: MAGIC,
    version: VERSION,
    bytes_behind: 0,
    entries: PhantomData,
};

impl Local {
    pub fn begin_own_steps(&self) {
        self.counting.own_steps.set(OWN_STEPS.of(self.index));
        self.counting.own_step_before.set(u64::MAX);
    }

    /// Is the coming event the step that the schedule has next, with nothing else to be done about it? Then `do_own_step` is, or `pass_own_step` and
    /// `complete`.
    #[inline]
    pub fn has_own_step(&self, op: Op, object: u64) -> bool {
        let Some(next) = self.counting.own_steps.get().first() else {
            return false;
        };
        let distance = self.event().wrapping_sub(self.counting.own_step_before.get());
        *next == step(op as u8, object, distance)
            && self.inputs.pending.count.get() == 0
            && !self.chaos.is_on()
            && !policy::is_free()
    }

    /// Passes the event, which is the next step. Its result is 0.
    #[inline]
    pub fn pass_own_step(&self) {
        self.counting.own_steps.set(&self.counting.own_steps.get()[1..]);
        self.counting.own_step_before.set(self.event());
    }

    /// Does `real`, which is the next step. Nearly all that an enforced run costs is here.
    #[inline]
    pub fn do_own_step<R>(&self, op: Op, real: impl FnOnce() -> R) -> R {
        self.pass_own_step();
        self.replay.releasing.set(op.releases());
        let result = real();
        self.replay.releasing.set(false);
        self.counting.segment.set(self.counting.segment.get() + 1);
        counting().transfers.store(0, Relaxed);
        if !self.counting.points.get().is_empty() {
            self.arm_point();
        }
        self.complete_plain();
        result
    }

    /// The same for a thread that is disturbed, and where the program may have left its schedule.
    pub fn pass_own_step_slowly(&self, doing: Doing) {
        let event = self.event();
        while let Some((next, later)) = self.counting.own_steps.get().split_first() {
            let before = self.counting.own_step_before.get();
            match Entry::of(*next) {
                Entry::Gap { events } => self.counting.own_step_before.set(before.wrapping_add(events)),
                Entry::Step { distance, .. } if before.wrapping_add(distance) > event => return,
                Entry::Step { op, object, distance } => {
                    let is_kind = match doing.kind {
                        Kind::Run => op == Op::None as u8,
                        kind => kind == Kind::Sync && op == doing.op as u8,
                    };
                    let is_object = doing.object == 0 || object == compared_object(doing.object);
                    if before.wrapping_add(distance) != event || !is_kind || !is_object {
                        return self.leave_schedule(divergence::OPERATION, doing, 0, 0, 0);
                    }
                    self.counting.own_step_before.set(event);
                    self.counting.own_steps.set(later);
                    return self.chaos.at_gate();
                }
            }
            self.counting.own_steps.set(later);
        }
    }
}
