//! Logs whose records name all that they come after, as those of LEAP do (Huang, Liu, Zhang: FSE 2010): the access vector of each
//! shared program element, as runs of one thread.
//!
//! A `Vector` record names the last access of the run before, which binds as it stands, like every other source. So the
//! problem has edges only, and nothing to decide.
use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::translation::EventCollector;
use crate::translation::ProblemWriter;
use crate::translation::Translation;
use crate::translation::records;
use run_model::Kind;
use run_model::Logs;
use run_model::Record;
use std::collections::BTreeSet;

pub(crate) fn translate(logs: &Logs, extents: &Extents) -> Translation {
    let epochs = Epochs::among(logs, |thread, event| extents.contains(thread, event));
    let mut collector = EventCollector::new(logs.threads.len());
    let epochs_missing = records(logs, extents, &epochs, |_, _, _| true, &mut collector);
    let (events, edges) = collector.finish();
    let mut writer = ProblemWriter::new(logs, &events, edges, 0);
    records(logs, extents, &epochs, |_, _, _| true, &mut writer);
    let vectors = || {
        let threads = (0..).zip(&logs.threads);
        let replayed = threads.flat_map(|(thread, log)| {
            let is_replayed = move |record: &&Record| extents.contains(thread, record.event);
            log.records.iter().filter(is_replayed)
        });
        replayed.filter(|record| record.kind == Kind::Vector)
    };
    Translation {
        problem: writer.problem,
        events,
        cells: vectors().map(|record| record.object).collect::<BTreeSet<_>>().len() as u64,
        runs: vectors().count() as u64,
        epochs_missing,
        unverifiable: Vec::new(),
    }
}
