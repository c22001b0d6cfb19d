//! Who created which epoch.
use run_model::Kind;
use run_model::Logs;
use run_model::Point;
use run_model::Record;
use run_model::ThreadIndex;

/// For each epoch, the moment its creator had completed the event that created it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    /// By epoch, each once.
    creators: Vec<(i64, Point)>,
}

impl Epochs {
    pub(crate) fn new(logs: &Logs) -> Epochs {
        Epochs::among(logs, |_, _| true)
    }

    /// Only those whose creation `is_replayed`, given its thread and event.
    pub(crate) fn among(logs: &Logs, is_replayed: impl Fn(u32, u64) -> bool) -> Epochs {
        let mut creators = Vec::new();
        for (thread, log) in (0..).zip(&logs.threads) {
            let creates = |r: &&Record| matches!(r.kind, Kind::Share | Kind::Exit) && is_replayed(thread, r.event);
            creators.extend(log.records.iter().filter(creates).map(|record| {
                let point = Point {
                    thread: ThreadIndex(thread),
                    count: record.event.saturating_add(1),
                };
                (record.value, point)
            }));
        }
        // No epoch is created twice; of damaged logs, the last one counts.
        creators.reverse();
        creators.sort_by_key(|(epoch, _)| *epoch);
        creators.dedup_by_key(|(epoch, _)| *epoch);
        Epochs { creators }
    }

    pub(crate) fn creator(&self, epoch: i64) -> Option<Point> {
        let place = self.creators.binary_search_by_key(&epoch, |(epoch, _)| *epoch).ok()?;
        Some(self.creators[place].1)
    }

    /// The creator of the newest epoch up to `epoch` that a log has.
    pub(crate) fn newest(&self, epoch: i64) -> Option<Point> {
        let end = self.creators.partition_point(|(created, _)| *created <= epoch);
        Some(self.creators[end.checked_sub(1)?].1)
    }

    /// Epochs are created one after the other: each creator's event, and that of the next.
    pub(crate) fn successions(&self) -> impl Iterator<Item = (Point, Point)> {
        self.creators.windows(2).map(|pair| (pair[0].1, pair[1].1))
    }
}
