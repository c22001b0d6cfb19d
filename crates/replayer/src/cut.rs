//! Logs that end before the program did: where do they stop making sense together?
//!
//! When recording stops early, threads stop logging at different moments while their counts run on. What remains
//! usable is a *consistent cut*: each thread up to some event, such that every record that is kept refers only to
//! events that are kept. It is found by starting from each thread's last record and lowering limits until nothing
//! changes; limits only fall, so this ends.
use log_format::Log;
use run_model::Kind;
use std::collections::BTreeMap;

/// Shortens logs and counts to the largest consistent cut.
pub fn to_what_was_logged(logs: &mut [Log], counts: &mut [u64]) {
    for (log, count) in logs.iter().zip(counts.iter_mut()) {
        // The last event may have had more records than came into the log, so it is not part of the cut.
        *count = log.records.last().map_or(0, |record| record.event.min(*count));
    }
    while lower(logs, counts) {}
    for (log, count) in logs.iter_mut().zip(counts.iter()) {
        let kept = log.records.partition_point(|record| record.event < *count);
        log.records.truncate(kept);
    }
}

/// One round; says whether any limit fell.
fn lower(logs: &[Log], counts: &mut [u64]) -> bool {
    let last_epoch = last_whole_epoch(logs, counts);
    let mut changed = false;
    for (thread, log) in logs.iter().enumerate() {
        for record in log.records.iter().take_while(|record| record.event < counts[thread]) {
            let source_lost = record.sources.iter().any(|source| {
                counts
                    .get(source.thread.0 as usize)
                    .is_none_or(|count| source.count > *count)
            });
            let names_epoch = matches!(record.kind, Kind::Share | Kind::Seen | Kind::Exit);
            if source_lost || (names_epoch && record.value > last_epoch) {
                counts[thread] = record.event;
                changed = true;
                break;
            }
        }
    }
    changed
}

/// Epochs are ordered by their numbers, so one whose creation was lost takes all later ones with it.
fn last_whole_epoch(logs: &[Log], counts: &[u64]) -> i64 {
    let mut created = BTreeMap::new();
    for (log, count) in logs.iter().zip(counts) {
        for record in &log.records {
            if matches!(record.kind, Kind::Share | Kind::Exit) {
                created.insert(record.value, record.event < *count);
            }
        }
    }
    let mut last = 0;
    for (epoch, is_kept) in created {
        if !is_kept || epoch > last + 1 {
            break;
        }
        last = last.max(epoch);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::Point;
    use run_model::Record;
    use run_model::ThreadIndex;

    fn log(thread: u32, records: &[(u64, Kind, i64, &[(u32, u64)])]) -> Log {
        let record = |(event, kind, value, sources): &(u64, Kind, i64, &[(u32, u64)])| Record {
            event: *event,
            kind: *kind,
            value: *value,
            sources: sources
                .iter()
                .map(|&(t, count)| Point {
                    thread: ThreadIndex(t),
                    count,
                })
                .collect(),
            ..Record::default()
        };
        Log {
            thread: ThreadIndex(thread),
            records: records.iter().map(record).collect(),
        }
    }

    fn cut(mut logs: Vec<Log>, mut counts: Vec<u64>) -> (Vec<u64>, Vec<usize>) {
        to_what_was_logged(&mut logs, &mut counts);
        (counts, logs.iter().map(|log| log.records.len()).collect())
    }

    #[test]
    fn a_thread_is_kept_up_to_its_last_record() {
        let logs = vec![log(0, &[(3, Kind::Take, 0, &[]), (9, Kind::Take, 0, &[])]), log(1, &[])];
        assert_eq!(cut(logs, vec![100, 50]), (vec![9, 0], vec![1, 0]));
    }

    #[test]
    fn lost_sources_cut_those_who_need_them_in_turn() {
        let logs = vec![
            log(0, &[(5, Kind::Take, 0, &[]), (6, Kind::Take, 0, &[])]),
            log(1, &[(2, Kind::Take, 0, &[(0, 7)]), (40, Kind::Take, 0, &[])]),
            log(
                2,
                &[
                    (1, Kind::Take, 0, &[(1, 2)]),
                    (8, Kind::Take, 0, &[(1, 3)]),
                    (90, Kind::Take, 0, &[]),
                ],
            ),
        ];
        assert_eq!(cut(logs, vec![100, 100, 100]), (vec![6, 2, 8], vec![1, 0, 1]));
    }

    #[test]
    fn epochs_are_kept_up_to_the_first_lost_one() {
        let logs = vec![
            log(
                0,
                &[
                    (1, Kind::Share, 1, &[]),
                    (2, Kind::Share, 3, &[]),
                    (9, Kind::Take, 0, &[]),
                ],
            ),
            log(
                1,
                &[
                    (4, Kind::Seen, 1, &[]),
                    (5, Kind::Seen, 3, &[]),
                    (9, Kind::Take, 0, &[]),
                ],
            ),
        ];
        assert_eq!(cut(logs, vec![100, 100]), (vec![2, 5], vec![1, 1]));
    }
}
