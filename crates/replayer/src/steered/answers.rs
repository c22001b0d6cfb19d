//! What a steered replay tells the search: how far it came, and which of its accesses race.
use super::attempts::Raw;
use super::log::END;
use super::log::FIRST_LABEL;
use super::races;
use super::races::Clocks;
use super::races::Use;
use crate::supervise::End;
use run_model::AccessId;
use run_model::Spot;
use run_model::ThreadIndex;
use runtime_abi::CELL_BYTES;
use runtime_abi::divergence;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::flag;
use schedule_search::Access;
use schedule_search::Ask;
use schedule_search::Attempt;
use schedule_search::Ending;
use schedule_search::EventLog;
use schedule_search::Label;
use schedule_search::LoggedEvent;
use schedule_search::PointKind;
use schedule_search::SwitchPoint;
use schedule_search::Trace;
use std::collections::BTreeMap;

/// Cells of one access that are looked at: those of a copied block.
const CELLS_MAX: u64 = 8;

/// What answers are made with.
pub struct Facts<'a> {
    pub log: &'a EventLog,
    /// Of each thread: where its events are in the log.
    pub places: Vec<Vec<usize>>,
    pub clocks: Option<&'a Clocks>,
}

impl Facts<'_> {
    pub fn answer(&self, raw: &Raw, entries: &[AccessEntry], ask: &Ask) -> Attempt {
        let (ending, met) = self.ending(raw);
        let mut stands: BTreeMap<u32, Label> = BTreeMap::new();
        let (points, accesses) = self.trace(entries, &mut stands);
        Attempt {
            ending,
            met,
            points,
            accesses: match ask.trace {
                Trace::PointsAndAccesses(_) => accesses,
                _ => Vec::new(),
            },
            followed: Vec::new(),
            stands: stands
                .into_iter()
                .map(|(thread, label)| (ThreadIndex(thread), label))
                .collect(),
        }
    }

    fn ending(&self, raw: &Raw) -> (Ending, usize) {
        let last = self.log.len() - 1;
        if raw.is_identical {
            return (Ending::Complete, self.log.len());
        }
        let done = |thread: usize| raw.observed.slots.get(thread).map_or(0, |slot| slot.count);
        let is_missing = |event: &LoggedEvent| event.index >= done(event.thread.0 as usize);
        let met = self
            .log
            .events()
            .iter()
            .position(is_missing)
            .map_or(last, |met| met.min(last));
        let next = self.log.events()[met];
        let ending = match raw.observed.end {
            End::Diverged(report) if report.kind == divergence::STUCK => Ending::Deadlock {
                thread: ThreadIndex(report.thread),
                label: self.label_at(report.thread, report.event),
            },
            End::Diverged(report) => Ending::Mismatch {
                thread: ThreadIndex(report.thread),
                expected: self.label_at(report.thread, report.event),
                found: Label(FIRST_LABEL + u64::from(report.site) + (u64::from(report.kind) << 40)),
            },
            End::Stuck => Ending::Deadlock {
                thread: next.thread,
                label: next.label,
            },
            End::Program(_) | End::AllStopped | End::GivenUp => Ending::Mismatch {
                thread: next.thread,
                expected: next.label,
                found: Label::NONE,
            },
        };
        (ending, met)
    }

    fn label_at(&self, thread: u32, event: u64) -> Label {
        let place = self.places.get(thread as usize).and_then(|own| own.get(event as usize));
        place
            .and_then(|place| self.log.get(*place))
            .map_or(END, |event| event.label)
    }

    /// Where in the order a thread's event is.
    fn place(&self, thread: u32, event: u64) -> usize {
        let own = self.places.get(thread as usize).and_then(|own| own.get(event as usize));
        own.copied().unwrap_or(self.log.len() - 1)
    }

    /// Events are switch points, as all threads are known to pass them; of the accesses, those that race.
    fn trace(&self, entries: &[AccessEntry], stands: &mut BTreeMap<u32, Label>) -> (Vec<SwitchPoint>, Vec<Access>) {
        let uses: Vec<(usize, Use)> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.flags & flag::EVENT == 0)
            .flat_map(|(index, entry)| cells_of(entry).map(move |cell| (index, use_of(entry, cell))))
            .collect();
        let all: Vec<Use> = uses.iter().map(|(_, one)| *one).collect();
        let racing = races::racing(&all, self.clocks);
        let mut uses = uses.into_iter().zip(racing).peekable();
        let mut made: BTreeMap<(u32, u64, u64), u64> = BTreeMap::new();
        let (mut points, mut accesses) = (Vec::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            let (thread, events) = (entry.place.thread, entry.place.calls);
            let label = Label(FIRST_LABEL + entry.label);
            let is_beyond = entry.flags & flag::BEYOND != 0;
            if !is_beyond {
                stands.insert(thread, label);
            }
            let next = self.place(thread, events);
            if entry.flags & flag::EVENT != 0 && !is_beyond {
                points.push(SwitchPoint {
                    // The block that it ends has number 0.
                    spot: Spot {
                        thread: ThreadIndex(thread),
                        calls: events,
                        nth: 1,
                    },
                    label,
                    kind: PointKind::Call,
                    object: 0,
                    is_after: false,
                    next,
                    to: ThreadIndex(thread),
                    runnable: Vec::new(),
                });
            }
            while let Some(((_, one), is_racing)) = uses.next_if(|((of, _), _)| *of == index) {
                let nth = made.entry((thread, events, one.cell)).or_default();
                if is_racing {
                    accesses.push(Access {
                        id: AccessId {
                            block: Spot {
                                thread: ThreadIndex(thread),
                                calls: events,
                                nth: 0,
                            },
                            address: one.cell,
                            nth: *nth,
                        },
                        label,
                        is_write: one.writes,
                        passed: points.len(),
                        next,
                        is_beyond,
                    });
                }
                *nth += 1;
            }
        }
        (points, accesses)
    }
}

/// The cells that an access touches, as edits name them.
fn cells_of(entry: &AccessEntry) -> impl Iterator<Item = u64> + use<> {
    let (first, last) = (
        entry.place.address / CELL_BYTES,
        entry.place.address.saturating_add(entry.place.nth.max(1) - 1) / CELL_BYTES,
    );
    (first..=last.min(first + CELLS_MAX)).map(|cell| cell * CELL_BYTES)
}

fn use_of(entry: &AccessEntry, cell: u64) -> Use {
    Use {
        cell,
        thread: entry.place.thread,
        events: entry.place.calls,
        writes: entry.flags & flag::WRITES != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::places_of;
    use super::*;
    use runtime_abi::turns_file::Place;
    use schedule_search::EventKind;

    fn entry(thread: u32, events: u64, address: u64, bytes: u64, flags: u32) -> AccessEntry {
        AccessEntry {
            place: Place {
                thread,
                calls: events,
                nth: bytes,
                address,
                ..Place::default()
            },
            flags,
            ..AccessEntry::default()
        }
    }

    #[test]
    fn accesses_that_race_are_named_by_their_cells_and_how_many_came_before() {
        let event = |thread: u32, index: u64| LoggedEvent {
            thread: ThreadIndex(thread),
            index,
            label: Label(9),
            kind: EventKind::Call,
        };
        let log = EventLog::new(vec![event(0, 0), event(1, 0), event(0, 1)]).expect("a log");
        let facts = Facts {
            places: places_of(&log),
            log: &log,
            clocks: None,
        };
        let entries = [
            entry(0, 0, 100, 4, flag::WRITES),
            // Nobody else comes there.
            entry(0, 0, 200, 8, flag::WRITES),
            entry(0, 0, 0, 0, flag::EVENT),
            // Over the end of a cell.
            entry(1, 0, 92, 12, 0),
            entry(1, 0, 96, 1, 0),
        ];
        let (points, accesses) = facts.trace(&entries, &mut BTreeMap::new());
        let found: Vec<(u32, u64, u64, usize)> = accesses
            .iter()
            .map(|access| {
                (
                    access.id.block.thread.0,
                    access.id.address,
                    access.id.nth,
                    access.passed,
                )
            })
            .collect();
        assert_eq!(found, [(0, 96, 0, 0), (1, 96, 0, 1), (1, 96, 1, 1)]);
        let spot = points[0].spot;
        assert_eq!((points.len(), spot.thread.0, spot.calls, points[0].next), (1, 0, 0, 0));
    }

    #[test]
    fn what_comes_after_the_failure_can_be_waited_for_and_is_not_part_of_it() {
        let event = |thread: u32, index: u64| LoggedEvent {
            thread: ThreadIndex(thread),
            index,
            label: Label(9),
            kind: EventKind::Call,
        };
        let log = EventLog::new(vec![event(0, 0), event(1, 0)]).expect("a log");
        let facts = Facts {
            places: places_of(&log),
            log: &log,
            clocks: None,
        };
        let beyond = AccessEntry {
            label: 77,
            ..entry(1, 1, 96, 8, flag::WRITES | flag::BEYOND)
        };
        let entries = [
            entry(1, 0, 0, 0, flag::EVENT),
            entry(0, 0, 96, 8, 0),
            entry(1, 1, 0, 0, flag::EVENT | flag::BEYOND),
            beyond,
        ];
        let mut stands = BTreeMap::new();
        let (points, accesses) = facts.trace(&entries, &mut stands);
        let are_beyond: Vec<bool> = accesses.iter().map(|access| access.is_beyond).collect();
        assert_eq!((points.len(), are_beyond), (1, vec![false, true]));
        assert_eq!(stands[&1], Label(FIRST_LABEL));
    }
}
