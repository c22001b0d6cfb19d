//! Logs → ordering constraints → [`Schedule`], or the reason there is none.
//!
//! [`solve`] is the one arrow: it cuts what cannot be replayed (`extent`), translates records to a [`problem::Problem`]
//! (`light`, with `runs` and `epochs`), decides it ([`resolve`]: `search`, `saturate`, `order`), and turns the decided
//! order into as few waits as possible (`gates`). The derivation, what is guaranteed, and where the techniques come
//! from is in `docs/solving.md`. The same logs give the same schedule, always.
//!
//! Nothing here checks the answer; `schedule-checker` does, and shares no code with this crate.
#![forbid(unsafe_code)]

mod epochs;
mod extent;
mod gates;
mod lanes;
mod light;
mod nodes;
mod order;
pub mod problem;
mod runs;
mod saturate;
mod search;
mod sources;
mod translation;
mod versions;

pub use search::Circle;
pub use search::Layer;
pub use search::Resolved;
pub use search::resolve;
pub use search::resolve_watched;

use run_model::Evidence;
use run_model::Logs;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::fmt;
use std::io;
use translation::Translation;

/// May the solver look at the order in which things were recorded?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// Try it first. For an intact log it is a solution.
    #[default]
    Use,
    /// Solve as if it were not known.
    Ignore,
}

/// Is told how far the solver has come. Calls may come from several threads at once, and often.
pub trait Watch: Sync {
    fn at(&self, step: Step, done: u64, of: u64);
}

/// What the solver does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Turning records into a problem.
    Translate,
    /// Trying the recorded order, or looking for another.
    Order,
    /// Deriving what has one possibility only.
    Saturate,
    /// Deciding the rest; of so many exclusions and choices.
    Search,
    /// Leaving out waits that follow from others.
    Reduce,
}

/// Nobody looks.
pub struct Unwatched;

impl Watch for Unwatched {
    fn at(&self, _: Step, _: u64, _: u64) {}
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Solution {
    pub schedule: Schedule,
    pub stats: Stats,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub layer: Layer,
    pub records: u64,
    /// Events that some order depends on.
    pub nodes: u64,
    /// Orders between threads, before and after those that follow from others are left out.
    pub edges: u64,
    pub waits: u64,
    /// Contended cells, and the runs on them.
    pub cells: u64,
    pub runs: u64,
    /// Stretches of runs that must not overlap.
    pub intervals: u64,
    /// Pairs of intervals that had one possibility only, where that was looked for.
    pub forced: u64,
    /// Parts of what was left that had nothing to do with each other.
    pub components: u64,
    pub decisions: u64,
    pub conflicts: u64,
    /// Threads killed inside an event whose effect others saw; each is replayed one event further than it counted.
    pub in_flight: u64,
    /// Completed events that cannot be replayed, because what they depend on was lost with the end of some log.
    pub events_lost: u64,
    /// Epochs that somebody saw and nobody created, in logs that claim to be whole; the newest one before was used.
    pub epochs_missing: u64,
    pub counted: Counted,
}

/// What methods that count writes add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Writes that share their cell and version with another.
    pub version_conflicts: u64,
    /// Reads of cells whose versions tell what was seen, and reads for which it had to be searched.
    pub linked_by_versions: u64,
    pub linked_by_search: u64,
    /// Reads of what no recorded write wrote: something that is not recorded did.
    pub reads_unmatched: u64,
}

/// No schedule explains these logs: torn in a way nobody noticed, or the run was not sequentially consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsolvable {
    /// Events, each before the next, and the last before the first.
    pub cycle: Vec<(ThreadIndex, u64)>,
    /// The cycle has constraints and the recorded order in it, and nothing that the solver chose itself.
    pub recorded: bool,
}

impl fmt::Display for Unsolvable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order of events explains these logs:")?;
        for (thread, event) in &self.cycle {
            write!(f, " event {event} of thread {} before", thread.0)?;
        }
        match self.cycle.first() {
            Some((thread, event)) => write!(f, " event {event} of thread {}", thread.0),
            None => write!(f, " a choice has no possibility"),
        }
    }
}

impl std::error::Error for Unsolvable {}

/// A schedule under which every read sees what it saw when it was recorded.
pub fn solve(logs: &Logs, hints: Hints) -> Result<Solution, Unsolvable> {
    solve_watched(logs, hints, &Unwatched)
}

/// The same, for somebody who wants to know how far it is.
pub fn solve_watched(logs: &Logs, hints: Hints, watch: &dyn Watch) -> Result<Solution, Unsolvable> {
    watch.at(Step::Translate, 0, 1);
    let epochs = epochs::Epochs::new(logs);
    let mut extents = extent::Extents::new(logs, &epochs);
    let (translation, resolved, counted) = match logs.method.evidence() {
        Evidence::Dependences => resolved(light::translate(logs, &extents), hints, watch)?,
        Evidence::Sources => resolved(sources::translate(logs, &extents), hints, watch)?,
        Evidence::Versions | Evidence::RelaxedVersions => versions::solve(logs, &epochs, &mut extents, hints, watch)
            .map_err(|(circle, events)| unsolvable(&circle, &events))?,
    };
    let problem = &translation.problem;
    watch.at(Step::Reduce, 0, 1);
    let mut schedule = gates::schedule(logs, &extents, &translation.events, &resolved.edges);
    gates::leave_unverified(&mut schedule, &translation.unverifiable);
    let gates = || schedule.threads.iter().flat_map(|t| &t.gates);
    let stats = Stats {
        layer: resolved.layer,
        records: gates().count() as u64,
        nodes: problem.chains.iter().map(|length| u64::from(*length)).sum(),
        edges: resolved
            .edges
            .iter()
            .filter(|e| e.before.chain != e.after.chain)
            .count() as u64,
        waits: gates().map(|gate| gate.waits.len() as u64).sum(),
        cells: translation.cells,
        runs: translation.runs,
        intervals: problem.exclusions.iter().map(|e| e.len() as u64).sum(),
        forced: resolved.forced,
        components: resolved.components,
        decisions: resolved.decisions,
        conflicts: resolved.conflicts,
        in_flight: extents.in_flight,
        events_lost: extents.lost,
        epochs_missing: translation.epochs_missing,
        counted,
    };
    Ok(Solution { schedule, stats })
}

/// Writes, for logs of stride and oreo, the formula that an SMT solver would get instead: SMT-LIB 2.
pub fn write_formula(logs: &Logs, out: &mut dyn io::Write) -> io::Result<()> {
    versions::write_formula(logs, out)
}

fn resolved(
    translation: Translation,
    hints: Hints,
    watch: &dyn Watch,
) -> Result<(Translation, Resolved, Counted), Unsolvable> {
    match resolve_watched(&translation.problem, hints, watch) {
        Ok(resolved) => Ok((translation, resolved, Counted::default())),
        Err(circle) => Err(unsolvable(&circle, &translation.events)),
    }
}

fn unsolvable(circle: &Circle, events: &[Vec<u64>]) -> Unsolvable {
    let mut cycle = Vec::new();
    for node in circle.edges.iter().flat_map(|edge| [edge.before, edge.after]) {
        let event = (
            ThreadIndex(node.chain),
            events[node.chain as usize][node.position as usize],
        );
        // Where one edge leads to the event from which the next one goes on.
        if cycle.last() != Some(&event) {
            cycle.push(event);
        }
    }
    if cycle.len() > 1 && cycle.first() == cycle.last() {
        cycle.pop();
    }
    Unsolvable {
        cycle,
        recorded: circle.recorded,
    }
}
