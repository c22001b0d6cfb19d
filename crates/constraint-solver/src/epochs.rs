//! Who created which epoch.
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::ThreadIndex;
use std::collections::BTreeMap;

/// For each epoch, the moment its creator had completed the event that created it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    creators: BTreeMap<i64, Point>,
}

impl Epochs {
    pub(crate) fn new(logs: &Logs) -> Epochs {
        Epochs::among(logs, |_, _| true)
    }

    /// Only those whose creation `is_replayed`, given its thread and event.
    pub(crate) fn among(logs: &Logs, is_replayed: impl Fn(u32, u64) -> bool) -> Epochs {
        let mut epochs = Epochs::default();
        for (thread, log) in logs.threads.iter().enumerate() {
            let creates = |r: &&Record| matches!(r.kind, Kind::Share | Kind::Exit);
            for record in log
                .records
                .iter()
                .filter(creates)
                .filter(|r| is_replayed(thread as u32, r.event))
            {
                let point = Point {
                    thread: ThreadIndex(thread as u32),
                    count: record.event.saturating_add(1),
                };
                epochs.creators.insert(record.value, point);
            }
        }
        epochs
    }

    pub(crate) fn creator(&self, epoch: i64) -> Option<Point> {
        self.creators.get(&epoch).copied()
    }

    /// The creator of the newest epoch up to `epoch` that a log has.
    pub(crate) fn newest(&self, epoch: i64) -> Option<Point> {
        self.creators.range(..=epoch).next_back().map(|(_, point)| *point)
    }

    /// Epochs are created one after the other: each creator's event, and that of the next.
    pub(crate) fn successions(&self) -> impl Iterator<Item = (Point, Point)> {
        self.creators
            .values()
            .zip(self.creators.values().skip(1))
            .map(|(first, second)| (*first, *second))
    }
}
