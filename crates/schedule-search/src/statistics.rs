//! What a search cost, in the columns of the paper's tables 3 to 5.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Replays whose result was used. The sum of the next eight.
    pub attempts: u64,
    /// Without a trace, to begin with.
    pub opening: u64,
    /// To learn the switch points of a window.
    pub point_traces: u64,
    /// To learn its accesses ("Log Mem").
    pub access_traces: u64,
    /// By recipes of the cache.
    pub recalled: u64,
    /// With one more preemption, at a synchronisation ("CG") or before a logged event.
    pub coarse: u64,
    /// With one more reversal ("FG").
    pub fine: u64,
    /// With reversals from anywhere in the run.
    pub scattered: u64,
    /// To find out which edits are not needed.
    pub minimising: u64,
    /// Replays whose result was not used, because one before it in the batch had helped.
    pub unused: u64,
    /// Failures of replay that were overcome or are being worked at.
    pub failures: u64,
    /// Those of them that a recipe of the cache overcame ("Cache Hit").
    pub cache_hits: u64,
    /// Windows that were looked into, the preemptions possible in them, and the races of those whose accesses were traced.
    pub windows: u64,
    pub windows_traced: u64,
    pub window_preemptions: u64,
    pub window_races: u64,
    /// Preemptions not tried, since they would come to the same as others.
    pub left_out: u64,
    /// Replays that did the same as one before.
    pub duplicates: u64,
    /// Edits admitted, and what minimising left of them.
    pub edits_admitted: u64,
    pub edits_needed: u64,
}
