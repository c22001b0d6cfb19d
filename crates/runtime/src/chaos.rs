//! Perturbation: delays at random events, so that rare interleavings become less rare.
//!
//! In the manner of PCT (Burckhardt et al., ASPLOS 2010): each thread has a random priority, and there are random
//! change points. Threads run in parallel here, so a low priority cannot mean "does not run"; it means longer and more
//! frequent pauses. Change points are event numbers: compiled code already compares its count with `gate`.
use crate::control;
use crate::policy;
use crate::sys;
use core::cell::Cell;

pub struct Chaos {
    /// 0: no perturbation.
    state: Cell<u64>,
    /// 0 (runs on) to 3 (pauses a lot).
    sluggishness: Cell<u32>,
    /// Change points so far.
    points: Cell<u32>,
    /// Pauses that replay still makes: a schedule may have millions of gates.
    gate_pauses: Cell<u32>,
    /// Accesses that are no events until the next pause at one; nothing: there was none yet.
    unrecorded_left: Cell<Option<u64>>,
}

/// A few seconds of pauses at most, for each thread.
const GATE_PAUSES: u32 = 1000;

impl Chaos {
    pub fn new(thread: u32) -> Chaos {
        let settings = || &control::header().settings;
        let seed = match (policy::is_free(), policy::is_observed()) {
            (true, _) => 0,
            (_, true) => settings().chaos_seed.number(),
            (_, false) => settings().jitter_seed.number(),
        };
        if seed == 0 {
            return Chaos {
                state: Cell::new(0),
                sluggishness: Cell::new(0),
                points: Cell::new(0),
                gate_pauses: Cell::new(GATE_PAUSES),
                unrecorded_left: Cell::new(None),
            };
        }
        let chaos = Chaos {
            state: Cell::new((seed ^ ((thread as u64 + 1) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            sluggishness: Cell::new(0),
            points: Cell::new(0),
            gate_pauses: Cell::new(GATE_PAUSES),
            unrecorded_left: Cell::new(None),
        };
        for _ in 0..4 {
            chaos.next();
        }
        chaos.sluggishness.set((chaos.next() % 4) as u32);
        chaos
    }

    fn next(&self) -> u64 {
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// The event before which the thread is next perturbed. Distances spread over scales, from a few events to 2^14; to more, the more
    /// there have been: whoever does tens of millions of things (reads debug information for a backtrace) is not to take all day.
    pub fn next_gate(&self, event: u64) -> u64 {
        if self.state.get() == 0 {
            return u64::MAX;
        }
        let points = self.points.get().saturating_add(1);
        self.points.set(points);
        let scale = 2 + self.next() % (13 + (1 + points / 64).ilog2() as u64);
        event + 1 + self.next() % (1 << scale)
    }

    /// Is there any perturbation?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.state.get() != 0
    }

    /// Recording: the thread has reached a change point.
    pub fn pause_here(&self) {
        if self.state.get() != 0 {
            self.pause();
        }
    }

    /// Recording a part: an access that is no event, so that no change point is there.
    pub fn at_unrecorded(&self) {
        if self.state.get() == 0 {
            return;
        }
        match self.unrecorded_left.get() {
            Some(left @ 1..) => self.unrecorded_left.set(Some(left - 1)),
            left => {
                if left.is_some() {
                    self.pause();
                }
                self.unrecorded_left.set(Some(self.next_gate(0)));
            }
        }
    }

    /// Recording: before a synchronisation operation.
    pub fn at_sync(&self) {
        if self.state.get() != 0 && self.next() % 8 <= self.sluggishness.get() as u64 {
            self.pause();
        }
    }

    /// Replaying (with a seed): delays where the schedule says nothing must not matter.
    pub fn at_gate(&self) {
        if self.state.get() != 0 && self.gate_pauses.get() > 0 && self.next().is_multiple_of(16) {
            self.gate_pauses.set(self.gate_pauses.get() - 1);
            self.pause();
        }
    }

    fn pause(&self) {
        let longest_us = [20, 100, 500, 2000][self.sluggishness.get() as usize];
        match self.next() % 4 {
            0 | 1 => sys::yield_now(),
            2 => sys::sleep_ns(1000 * (1 + self.next() % longest_us)),
            _ => sys::sleep_ns(1000 * (1 + self.next() % 50)),
        }
    }
}
