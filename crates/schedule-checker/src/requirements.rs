//! From logs to points that must be reached before events.
use crate::Rejection;
use crate::Why;
use crate::cells;
use crate::execution::Execution;
use crate::memory;
use run_model::Evidence;
use run_model::HIDING_PAGE_BYTES;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;

/// Before the event at gate `gate` of `thread`, `required` has been reached.
///
/// There are more of these than records, so they are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    pub(crate) thread: u32,
    pub(crate) gate: u32,
    pub(crate) because: Because,
    required_thread: u32,
    required_count: u64,
}

/// `Why`, without the cell: that is the object of the gate's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Because {
    Source,
    Epoch,
    Flow,
    Overwrite,
    Writes,
}

impl Requirement {
    pub(crate) fn new(thread: u32, gate: u32, required: Point, because: Because) -> Requirement {
        Requirement {
            thread,
            gate,
            because,
            required_thread: required.thread.0,
            required_count: required.count,
        }
    }

    pub(crate) fn required(&self) -> Point {
        Point {
            thread: ThreadIndex(self.required_thread),
            count: self.required_count,
        }
    }

    pub(crate) fn why(&self, schedule: &Schedule) -> Why {
        let cell = schedule.threads[self.thread as usize].gates[self.gate as usize]
            .record
            .object;
        match self.because {
            Because::Source => Why::Source,
            Because::Epoch => Why::Epoch,
            Because::Flow => Why::Flow { cell },
            Because::Overwrite => Why::Overwrite { cell },
            Because::Writes => Why::Writes { cell },
        }
    }
}

/// Pages in which some change of hands of a cell may have no record: those that have one bind as they stand.
pub(crate) struct HidingPages(Vec<u64>);

impl HidingPages {
    fn of(logs: &Logs) -> HidingPages {
        let records = logs.threads.iter().flat_map(|log| &log.records);
        let mut pages: Vec<u64> = records.filter(|r| r.hides()).map(page).collect();
        pages.sort_unstable();
        pages.dedup();
        HidingPages(pages)
    }

    pub(crate) fn contain(&self, record: &Record) -> bool {
        self.0.binary_search(&page(record)).is_ok()
    }
}

fn page(record: &Record) -> u64 {
    record.object / HIDING_PAGE_BYTES
}

/// The records that are replayed: thread, index of the gate, record.
pub(crate) fn replayed<'a>(logs: &'a Logs, schedule: &'a Schedule) -> impl Iterator<Item = (u32, u32, &'a Record)> {
    let threads = (0..).zip(logs.threads.iter().zip(&schedule.threads));
    threads.flat_map(|(thread, (log, planned))| {
        let records = log.records.iter().take_while(|r| r.event < planned.events);
        (0..).zip(records).map(move |(gate, record)| (thread, gate, record))
    })
}

/// All of them, by thread and gate.
pub(crate) fn requirements(
    logs: &Logs,
    schedule: &Schedule,
    execution: &Execution,
) -> Result<Vec<Requirement>, Rejection> {
    let evidence = logs.method.evidence();
    let mut requirements = Vec::new();
    let hiding = HidingPages::of(logs);
    for (thread, gate, record) in replayed(logs, schedule) {
        if evidence != Evidence::Dependences || record.kind != Kind::Run || hiding.contain(record) {
            let require = |source| Requirement::new(thread, gate, source, Because::Source);
            requirements.extend(record.sources.iter().map(require));
        }
    }
    require_epochs(logs, schedule, &mut requirements);
    match evidence {
        Evidence::Dependences => cells::require(logs, schedule, execution, &hiding, &mut requirements)?,
        // The sources of records say it all.
        Evidence::Sources => {}
        Evidence::Versions | Evidence::RelaxedVersions => {
            memory::require(logs, schedule, execution, &mut requirements)?;
        }
    }
    requirements.sort_unstable();
    Ok(requirements)
}

/// An epoch, and the thread and gate that created it.
#[derive(Clone, Copy)]
struct Creation {
    epoch: i64,
    thread: u32,
    gate: u32,
    /// When its event is over.
    point: Point,
}

fn require_epochs(logs: &Logs, schedule: &Schedule, requirements: &mut Vec<Requirement>) {
    let creates = |(_, _, record): &(u32, u32, &Record)| matches!(record.kind, Kind::Share | Kind::Exit);
    let mut creations: Vec<Creation> = replayed(logs, schedule)
        .filter(creates)
        .map(|(thread, gate, record)| Creation {
            epoch: record.value,
            thread,
            gate,
            point: Point {
                thread: ThreadIndex(thread),
                count: record.event + 1,
            },
        })
        .collect();
    // Should one have been created twice, the last one counts.
    creations.reverse();
    creations.sort_by_key(|creation| creation.epoch);
    creations.dedup_by_key(|creation| creation.epoch);
    for (thread, gate, record) in replayed(logs, schedule).filter(|(_, _, r)| r.kind == Kind::Seen) {
        // Where nobody created it, all that is known is that earlier ones were seen, too.
        let seen = creations.partition_point(|creation| creation.epoch <= record.value);
        let newest = creations[..seen].last();
        requirements.extend(newest.map(|creation| Requirement::new(thread, gate, creation.point, Because::Epoch)));
    }
    for pair in creations.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        requirements.push(Requirement::new(
            second.thread,
            second.gate,
            first.point,
            Because::Epoch,
        ));
    }
}
