//! Steered replays for the search, and what of them it asks for.
use super::answers::Facts;
use super::patience;
use super::watch;
use crate::Error;
use crate::Result;
use crate::driven;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::record::Show;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::turns;
use crate::verify;
use log_format::turns::Wanted;
use run_model::Schedule;
use run_model::Turns;
use runtime_abi::turns_file::ACCESSES_FILE_NAME;
use runtime_abi::turns_file::AccessEntry;
use schedule_search::Ask;
use schedule_search::Attempt;
use schedule_search::Plan as Edits;
use schedule_search::Replays;
use schedule_search::Trace;
use schedule_search::Window;
use std::fs::File;
use std::io::Read;
use std::thread;

/// Entries of a trace: the last so many are kept.
const ENTRIES_MAX: u64 = 1 << 20;

/// A place for replays, one after the other.
pub struct Worker<'a> {
    loaded: &'a LoadedRun,
    stage: Option<&'a Stage>,
    plan: Plan,
    watch: Watch,
}

/// What came of a replay.
pub struct Raw {
    pub observed: Observed,
    pub is_identical: bool,
    pub entries: Vec<AccessEntry>,
}

impl<'a> Worker<'a> {
    pub fn prepare(loaded: &'a LoadedRun, stage: Option<&'a Stage>, schedule: &Schedule) -> Result<Worker<'a>> {
        Ok(Worker {
            loaded,
            stage,
            plan: Plan::in_temporary(loaded, vec![schedule.clone()])?,
            watch: Watch {
                patience: patience(loaded),
                ..watch()
            },
        })
    }

    /// A replay with these edits, and what happened in the window.
    fn attempt(&self, edits: &Edits, window: Option<&Window>) -> Result<Raw> {
        let order = self.plan.schedule.steered().cloned().unwrap_or_default();
        let order = Turns {
            edits: edits.edits.clone(),
            ..order
        };
        let wanted = Wanted {
            window: window.map_or(&[], |window| &window.from),
            points_max: 0,
            accesses_max: if window.is_some() { ENTRIES_MAX } else { 0 },
        };
        turns::write(&self.plan.directory, &order, &wanted)?;
        let observed = supervise::replay_once(self.loaded, self.stage, &self.plan, &self.watch, Show::Nothing)?;
        let checks = verify::verify(self.loaded, &self.plan, &observed);
        let entries = window.map_or_else(Vec::new, |_| self.entries(observed.turns.accesses_written));
        Ok(Raw {
            is_identical: checks.iter().all(|check| check.passed),
            observed,
            entries,
        })
    }

    /// The trace in its order: the file is a ring.
    fn entries(&self, written: u64) -> Vec<AccessEntry> {
        let mut bytes = Vec::new();
        let most = written.min(ENTRIES_MAX) * size_of::<AccessEntry>() as u64;
        // A replay that did not come so far has made no file.
        if let Ok(file) = File::open(self.plan.directory.join(ACCESSES_FILE_NAME)) {
            let _ = file.take(most).read_to_end(&mut bytes);
        }
        let mut entries = log_format::turns::decode_accesses(&bytes);
        if written > ENTRIES_MAX {
            entries.rotate_left((written % ENTRIES_MAX) as usize);
        }
        entries
    }
}

fn window_of(trace: &Trace) -> Option<&Window> {
    match trace {
        Trace::Nothing => None,
        Trace::Points(window) | Trace::PointsAndAccesses(window) => Some(window),
    }
}

/// Replays for the search.
pub struct Executor<'a> {
    pub workers: Vec<Worker<'a>>,
    pub facts: Facts<'a>,
    /// The replay whose accesses were asked for last, with those of the whole run: other windows of it are asked for next.
    pub traced: Option<(Edits, Raw)>,
    /// The first thing that went wrong with replaying itself.
    pub error: Option<Error>,
}

impl Replays for Executor<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        let mut answers = self.attempts(std::slice::from_ref(ask));
        answers.pop().expect("one answer to each ask")
    }

    fn attempts(&mut self, batch: &[Ask]) -> Vec<Attempt> {
        if let [ask] = batch
            && let Trace::PointsAndAccesses(window) = &ask.trace
            && let Some(answer) = self.answer_from_whole(ask, window)
        {
            return vec![answer];
        }
        let mut answers = Vec::with_capacity(batch.len());
        for part in batch.chunks(self.workers.len()) {
            let results: Vec<Result<Raw>> = thread::scope(|scope| {
                let pairs = self.workers.iter().zip(part);
                let begun: Vec<_> = pairs
                    .map(|(worker, ask)| scope.spawn(move || worker.attempt(&ask.plan, window_of(&ask.trace))))
                    .collect();
                begun
                    .into_iter()
                    .map(|thread| thread.join().expect("a replay does not panic"))
                    .collect()
            });
            for (result, ask) in results.into_iter().zip(part) {
                answers.push(match result {
                    Ok(raw) => self.facts.answer(&raw, &raw.entries, ask),
                    Err(error) => {
                        self.error.get_or_insert(error);
                        driven::nothing()
                    }
                });
            }
        }
        answers
    }
}

impl driven::Executor for Executor<'_> {
    fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

impl Executor<'_> {
    /// A window of a replay whose accesses are all known. None, if there are too many of them.
    fn answer_from_whole(&mut self, ask: &Ask, window: &Window) -> Option<Attempt> {
        if self.traced.as_ref().is_none_or(|(plan, _)| *plan != ask.plan) {
            let whole = Window::whole(self.facts.log);
            match self.workers[0].attempt(&ask.plan, Some(&whole)) {
                Ok(raw) => self.traced = Some((ask.plan.clone(), raw)),
                Err(error) => {
                    self.error.get_or_insert(error);
                    return Some(driven::nothing());
                }
            }
        }
        let (_, raw) = self.traced.as_ref()?;
        let is_whole = raw.observed.turns.accesses_written <= ENTRIES_MAX;
        is_whole.then(|| self.facts.answer(raw, &inside(&raw.entries, window), ask))
    }
}

/// What the runtime writes down if it is asked for this window.
fn inside(entries: &[AccessEntry], window: &Window) -> Vec<AccessEntry> {
    let from = |thread: u32| window.from.get(thread as usize).copied().unwrap_or(0);
    let is_inside = |entry: &&AccessEntry| entry.place.calls >= from(entry.place.thread);
    entries.iter().filter(is_inside).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime_abi::turns_file::Place;
    use runtime_abi::turns_file::flag;

    fn entry(thread: u32, events: u64, flags: u32) -> AccessEntry {
        AccessEntry {
            place: Place {
                thread,
                calls: events,
                ..Place::default()
            },
            flags,
            ..AccessEntry::default()
        }
    }

    #[test]
    fn a_window_of_a_whole_trace_is_what_the_runtime_would_write() {
        let entries = [
            entry(0, 0, 0),
            entry(1, 0, 0),
            entry(0, 1, flag::WRITES),
            entry(0, 2, flag::EVENT),
            entry(2, 0, 0),
        ];
        // Of a thread that the window does not name, all.
        let window = Window { from: vec![1, 1] };
        let places = |entries: &[AccessEntry]| entries.iter().map(|entry| entry.place).collect::<Vec<Place>>();
        assert_eq!(places(&inside(&entries, &window)), places(&entries[2..]));
    }
}
