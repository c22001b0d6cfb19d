//! Perturbation: delays at random events, so that rare interleavings become less rare.
//!
//! In the manner of PCT (Burckhardt et al., ASPLOS 2010): each thread has a random priority, and there are random
//! change points. Threads run in parallel here, so a low priority cannot mean "does not run"; it means longer and more
//! frequent pauses. Change points are event numbers: compiled code already compares its count with `gate`.
use crate::control;
use crate::control::Mode;
use crate::sys;

pub struct Chaos {
    /// 0: no perturbation.
    state: u64,
    /// 0 (runs on) to 3 (pauses a lot).
    sluggishness: u32,
    /// Change points so far.
    points: u32,
    /// Pauses that replay still makes: a schedule may have millions of gates.
    gate_pauses: u32,
}

/// A few seconds of pauses at most, for each thread.
const GATE_PAUSES: u32 = 1000;

impl Chaos {
    pub fn new(thread: u32) -> Chaos {
        let seed = if control::mode() == Mode::Off {
            0
        } else {
            control::header().chaos_seed
        };
        if seed == 0 {
            return Chaos {
                state: 0,
                sluggishness: 0,
                points: 0,
                gate_pauses: GATE_PAUSES,
            };
        }
        let mut chaos = Chaos {
            state: (seed ^ ((thread as u64 + 1) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            sluggishness: 0,
            points: 0,
            gate_pauses: GATE_PAUSES,
        };
        for _ in 0..4 {
            chaos.next();
        }
        chaos.sluggishness = (chaos.next() % 4) as u32;
        chaos
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// The event before which the thread is next perturbed. Distances spread over scales, from a few events to 2^14; to more, the more
    /// there have been: whoever does tens of millions of things (reads debug information for a backtrace) is not to take all day.
    pub fn next_gate(&mut self, event: u64) -> u64 {
        if self.state == 0 {
            return u64::MAX;
        }
        self.points = self.points.saturating_add(1);
        let scale = 2 + self.next() % (13 + (1 + self.points / 64).ilog2() as u64);
        event + 1 + self.next() % (1 << scale)
    }

    /// Recording: the thread has reached a change point.
    pub fn pause_here(&mut self) {
        if self.state != 0 {
            self.pause();
        }
    }

    /// Recording: before a synchronisation operation.
    pub fn at_sync(&mut self) {
        if self.state != 0 && self.next() % 8 <= self.sluggishness as u64 {
            self.pause();
        }
    }

    /// Replaying (with a seed): delays where the schedule says nothing must not matter.
    pub fn at_gate(&mut self) {
        if self.state != 0 && self.gate_pauses > 0 && self.next().is_multiple_of(16) {
            self.gate_pauses -= 1;
            self.pause();
        }
    }

    fn pause(&mut self) {
        let longest_us = [20, 100, 500, 2000][self.sluggishness as usize];
        match self.next() % 4 {
            0 | 1 => sys::yield_now(),
            2 => sys::sleep_ns(1000 * (1 + self.next() % longest_us)),
            _ => sys::sleep_ns(1000 * (1 + self.next() % 50)),
        }
    }
}
