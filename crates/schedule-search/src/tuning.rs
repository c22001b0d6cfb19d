//! How far a search goes, and in which order.
use crate::Layer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Layers in the order in which they are tried.
    pub layers: Vec<Layer>,
    /// The search goes in rounds. The first tries up to `bound_first` new edits against a failure (the paper's m), each later one
    /// one more, up to `bound_max`.
    pub bound_first: u64,
    pub bound_max: u64,
    /// Windows that the first round looks into, one after the other; each later round looks into twice as many.
    pub windows_first: u64,
    pub windows_max: u64,
    pub scope: Scope,
    pub caching: Caching,
    pub reduction: Reduction,
    pub minimising: Minimising,
    pub advancing: Advancing,
    /// At most so many pairs of a trace of accesses are reversed.
    pub races_max: u64,
    /// Plans with reversals from anywhere in the run that are tried against each failure, in turns with all others. None where nearly every failure shows soon.
    pub scattered_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Windows,
    /// One window, which is the whole run up to the failure.
    WholeRun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    On,
    Off,
}

/// Edits that let threads go on as far as they can, [`crate::ScheduleEdit::Advance`] and [`crate::ScheduleEdit::Delay`], and reversals of synchronisations. The paper has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advancing {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minimising {
    On,
    Off,
}

impl Default for Tuning {
    /// The paper's two layers, the most promising of both first, with caching. One edit first: it was enough for all that the authors saw, and two cost the
    /// square of it.
    fn default() -> Tuning {
        Tuning {
            layers: vec![
                Layer::FirstSynchronisations,
                Layer::FirstAccesses,
                Layer::Synchronisations,
                Layer::Accesses,
                Layer::Calls,
            ],
            bound_first: 1,
            bound_max: 3,
            windows_first: 2,
            windows_max: 64,
            scope: Scope::Windows,
            caching: Caching::On,
            reduction: Reduction::On,
            minimising: Minimising::On,
            advancing: Advancing::On,
            races_max: 10_000,
            scattered_max: 0,
        }
    }
}

impl Tuning {
    /// The paper's edits in the paper's order, and a third layer.
    pub fn of_the_paper() -> Tuning {
        Tuning {
            layers: vec![Layer::Synchronisations, Layer::Accesses, Layer::Calls],
            advancing: Advancing::Off,
            ..Tuning::default()
        }
    }

    /// The search that the paper compares itself with, after PRES: all shared accesses of the run so far are traced, and
    /// racing pairs reversed, the last first.
    pub fn pres_like() -> Tuning {
        Tuning {
            layers: vec![Layer::Accesses],
            scope: Scope::WholeRun,
            caching: Caching::Off,
            reduction: Reduction::Off,
            advancing: Advancing::Off,
            ..Tuning::default()
        }
    }

    pub(crate) fn bound(&self, round: u64) -> u64 {
        self.bound_first.saturating_add(round).min(self.bound_max)
    }

    pub(crate) fn windows(&self, round: u64) -> u64 {
        match self.scope {
            Scope::WholeRun => 1,
            Scope::Windows => {
                let doubled = self
                    .windows_first
                    .checked_mul(1u64.checked_shl(round.min(63) as u32).unwrap_or(u64::MAX));
                doubled.unwrap_or(u64::MAX).min(self.windows_max)
            }
        }
    }

    pub(crate) fn is_last(&self, round: u64) -> bool {
        let has_all_windows =
            self.scope == Scope::WholeRun || self.windows_first == 0 || self.windows(round) >= self.windows_max;
        self.bound(round) >= self.bound_max && has_all_windows
    }
}
