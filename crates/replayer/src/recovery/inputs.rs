//! Recovery of inputs: gates for what there are records of, such as the creation of threads. Several threads are replayed one at a
//! time, in the order of their inputs (docs/turns.md); where that is not enough, what is missing is searched for (docs/search.md).
use super::Found;
use super::Recovering;
use super::Search;
use super::Sought;
use super::judge;
use super::provide;
use crate::Error;
use crate::Result;
use crate::late_resumes;
use crate::loaded::LoadedRun;
use crate::search;
use crate::search::Searching;
use crate::turns;
use run_model::ScheduleKind;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    let options = match &run.options.search {
        Search::Always(_) if !may_need_search(&run.loaded) => {
            require_order(&run.loaded)?;
            None
        }
        _ if !may_need_search(&run.loaded) => None,
        Search::Never => None,
        Search::Always(options) => Some(options),
        Search::Once(options) => match search::searching(&run.loaded.run) {
            Searching::NotBegun => Some(options),
            Searching::Unfound => {
                run.sought = Sought::InVain;
                None
            }
            Searching::Found => None,
        },
    };
    let mut found = run.solve()?;
    order_threads(&run.loaded, &mut found)?;
    if let Some(options) = options {
        if !run.options.to_replay {
            run.stage = provide(&run.loaded)?;
        }
        let name = &run.options.run_name;
        let searched = search::search(&run.loaded, run.stage.as_ref(), &mut found, name, options, run.observer)?;
        run.sought = Sought::Now(Box::new(searched));
    }
    Ok(found)
}

/// Are there threads that are replayed one at a time, and for which something can be searched?
fn may_need_search(loaded: &LoadedRun) -> bool {
    turns::are_taken(loaded) || late_resumes::are_possible(loaded)
}

/// Puts the order of inputs, with what was found for it, into the schedules of processes whose threads take turns.
pub(crate) fn order_threads(loaded: &LoadedRun, found: &mut [Found]) -> Result<()> {
    for (loaded, found) in loaded.all().zip(found) {
        if let Some(turns) = turns::order_of(loaded)? {
            found.schedule.kind = ScheduleKind::Turns(turns);
            judge(loaded, &found.schedule)?;
        }
    }
    Ok(())
}

/// What cannot be done with a run that has several threads and does not say what they did to each other.
pub(crate) fn require_order(loaded: &LoadedRun) -> Result<()> {
    match loaded.all().find(|process| turns::are_taken(process)) {
        Some(process) => Err(Error::OrderUnknown {
            run: process.run.name(),
            threads: process.logs.threads.len(),
        }),
        None => Ok(()),
    }
}
