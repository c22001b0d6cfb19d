//! From logs to points that must be reached before events.
use crate::Rejection;
use crate::Why;
use crate::cells;
use crate::execution::Execution;
use run_model::HIDING_PAGE_BYTES;
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Before `event` of `thread`, `required` has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    pub(crate) thread: ThreadIndex,
    pub(crate) event: u64,
    pub(crate) required: Point,
    pub(crate) why: Why,
}

/// Pages in which some change of hands of a cell may have no record: those that have one bind as they stand.
pub(crate) fn hiding_pages(logs: &Logs) -> BTreeSet<u64> {
    let mut pages = BTreeSet::new();
    for record in logs.threads.iter().flat_map(|log| &log.records) {
        if record.hides() {
            pages.insert(record.object / HIDING_PAGE_BYTES);
        }
    }
    pages
}

/// All of them, by thread and event.
pub(crate) fn requirements(
    logs: &Logs,
    schedule: &Schedule,
    execution: &Execution,
) -> Result<Vec<Requirement>, Rejection> {
    let mut requirements = Vec::new();
    let mut creators: BTreeMap<i64, Point> = BTreeMap::new();
    let replayed = || {
        let threads = logs.threads.iter().zip(&schedule.threads).enumerate();
        threads.flat_map(|(index, (log, planned))| {
            let records = log.records.iter().filter(|r| r.event < planned.events);
            records.map(move |record| (ThreadIndex(index as u32), record))
        })
    };
    let hiding = hiding_pages(logs);
    for (thread, record) in replayed() {
        if record.kind != Kind::Run || hiding.contains(&(record.object / HIDING_PAGE_BYTES)) {
            let require = |source: Point| Requirement {
                thread,
                event: record.event,
                required: source,
                why: Why::Source,
            };
            requirements.extend(record.sources.iter().map(require));
        }
        if matches!(record.kind, Kind::Share | Kind::Exit) {
            creators.insert(
                record.value,
                Point {
                    thread,
                    count: record.event + 1,
                },
            );
        }
    }
    for (thread, record) in replayed().filter(|(_, r)| r.kind == Kind::Seen) {
        // Where nobody created it, all that is known is that earlier ones were seen, too.
        let creator = creators.range(..=record.value).next_back();
        requirements.extend(creator.map(|(_, point)| Requirement {
            thread,
            event: record.event,
            required: *point,
            why: Why::Epoch,
        }));
    }
    for (first, second) in creators.values().zip(creators.values().skip(1)) {
        let event = second.count - 1;
        requirements.push(Requirement {
            thread: second.thread,
            event,
            required: *first,
            why: Why::Epoch,
        });
    }
    cells::require(logs, schedule, execution, &mut requirements)?;
    requirements.sort_unstable();
    Ok(requirements)
}
