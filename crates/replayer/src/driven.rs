//! What searches for edits have in common, whatever their replays are: attempts one batch after the other, who may stop them, and the file in
//! which a search that is not over is kept with the run.
use crate::Error;
use crate::Result;
use crate::loaded::LoadedRun;
use crate::prepare::Observer;
use crate::search::SEARCH_FILE_NAME;
use crate::search::SearchOptions;
use crate::search::SearchProgress;
use crate::sys;
use log_format::edits;
use run_model::ScheduleEdit;
use run_model::ThreadIndex;
use run_store::RunDirectory;
use run_store::write_whole;
use schedule_search::Attempt;
use schedule_search::Ending;
use schedule_search::EventLog;
use schedule_search::Go;
use schedule_search::Label;
use schedule_search::Outcome;
use schedule_search::Replays;
use schedule_search::Search;
use schedule_search::Tuning;
use std::fs;
use std::time::Instant;

/// Who makes the replays.
pub trait Executor: Replays {
    /// The first thing that went wrong with replaying itself.
    fn take_error(&mut self) -> Option<Error>;

    /// An attempt has met so many events.
    fn note_met(&mut self, _met: usize) {}
}

/// A search of a run.
pub struct Driven {
    pub search: Search,
    /// Attempts that it had made when it was stopped the last time.
    pub attempts_before: u64,
}

impl Driven {
    /// The search that is kept with the run, or a new one.
    pub fn open(run: &RunDirectory, log: &EventLog, tuning: &Tuning, options: &SearchOptions) -> Driven {
        let saved = saved(run, options);
        let restored = saved.and_then(|bytes| Search::restore(&bytes, log.clone()).ok());
        let search = restored.unwrap_or_else(|| Search::new(log.clone(), tuning.clone()));
        Driven {
            attempts_before: search.statistics().attempts,
            search,
        }
    }

    /// Goes on until it is over, or somebody stops it.
    pub fn run(
        &mut self,
        executor: &mut impl Executor,
        started: Instant,
        options: &SearchOptions,
        observer: &dyn Observer,
    ) -> Result<Outcome> {
        loop {
            let asks = self.search.asks(options.workers.max(1));
            if let Some(outcome) = self.search.outcome() {
                return Ok(outcome.clone());
            }
            executor.note_met(self.search.progress().met);
            let answers = executor.attempts(&asks);
            // What ends the search goes to the replays as well: their answers are none.
            if sys::caught_signal().is_some() {
                return Ok(Outcome::Stopped);
            }
            if let Some(error) = executor.take_error() {
                return Err(error);
            }
            self.search.take(&asks, answers);
            let elapsed = started.elapsed();
            let progress = SearchProgress {
                search: self.search.progress(),
                elapsed,
                attempts_before: self.attempts_before,
            };
            let is_late = options.time_max.is_some_and(|most| elapsed >= most);
            if (observer.searching(&progress) == Go::Stop || is_late) && self.search.outcome().is_none() {
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// Keeps it with the run, to go on from there. Also if nothing is to be found: it is not searched for again.
    pub fn keep(&self, loaded: &LoadedRun) -> Result<()> {
        let saved = self.search.save();
        // Without it, whoever wants to go on searching begins anew.
        let is_room = loaded.room.take(saved.len() as u64);
        write_whole(&loaded.run.file(SEARCH_FILE_NAME), if is_room { &saved } else { &[] })?;
        Ok(())
    }
}

/// What is kept of a search that is not over, unless it is to begin anew.
pub fn saved(run: &RunDirectory, options: &SearchOptions) -> Option<Vec<u8>> {
    (!options.again)
        .then(|| fs::read(run.file(SEARCH_FILE_NAME)).ok())
        .flatten()
}

/// Keeps the edits that were found with the run. The search that found them is over.
pub fn keep_edits(run: &RunDirectory, found: &[ScheduleEdit]) -> run_store::Result<()> {
    write_whole(&run.file(edits::FILE_NAME), edits::encode(found).as_bytes())?;
    let _ = fs::remove_file(run.file(SEARCH_FILE_NAME));
    Ok(())
}

/// The answer of a replay that was none.
pub fn nothing() -> Attempt {
    Attempt {
        ending: Ending::Deadlock {
            thread: ThreadIndex(0),
            label: Label::NONE,
        },
        met: 0,
        points: Vec::new(),
        accesses: Vec::new(),
        followed: Vec::new(),
        stands: Vec::new(),
    }
}
