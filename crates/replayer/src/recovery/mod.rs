//! From a run directory to judged schedules of all its processes, by whatever method it was recorded.
//!
//! [`recover`] reads the run, once, and hands it to the recovery of its method: a file in this folder with a function `recover`,
//! found through the table in `run_model::methods!`. Nothing here prints: an [`Observer`] hears how far it is, and may stop a search.
mod kept;
mod solve;

pub use kept::Statistics;
pub use kept::write_schedule;
pub use solve::Answer;
pub use solve::Found;
pub use solve::SolveOptions;
pub use solve::judge;

use crate::Error;
use crate::Result;
use crate::libraries;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::prepare::Observed;
use crate::prepare::Observer;
use crate::search::SearchOptions;
use crate::search::Searched;
use crate::stage::Stage;
use crate::turns::Attempts;
use run_model::Method;
use run_model::Schedule;
use run_store::Origin;
use run_store::RunDirectory;
use run_store::RunMeta;

/// What is wanted of a recovery.
#[derive(Clone, Debug)]
pub struct RecoverOptions {
    /// How the run is named on a command line, for the commands that reports suggest.
    pub run_name: String,
    pub solve: SolveOptions,
    pub search: Search,
    /// It is an error if this build, or what there is on the disk, cannot replay it.
    pub to_replay: bool,
}

impl RecoverOptions {
    /// What is known of a run is used, and nothing searched for.
    pub fn to_replay(run_name: &str) -> RecoverOptions {
        RecoverOptions {
            run_name: run_name.to_owned(),
            solve: SolveOptions::default(),
            search: Search::Never,
            to_replay: true,
        }
    }
}

/// Is the order of threads searched for, if it is not recorded?
#[derive(Clone, Debug)]
pub enum Search {
    Never,
    /// If nobody has tried yet.
    Once(SearchOptions),
    /// Also on from where another search stopped.
    Always(SearchOptions),
}

/// What is known about the order of threads that is not recorded.
#[derive(Clone, Debug)]
pub enum Sought {
    /// All is recorded that a replay needs, or was found before.
    Nothing,
    /// It was searched for before, and not found.
    InVain,
    Now(Box<Searched>),
}

/// A run, and a schedule for each of its processes that the checker accepted.
#[derive(Debug)]
pub struct Recovered {
    pub loaded: LoadedRun,
    /// What its replays stand on, if its files are not where they were.
    pub(crate) stage: Option<Stage>,
    /// Of the process itself, then of the others.
    pub(crate) found: Vec<Found>,
    pub sought: Sought,
}

impl Recovered {
    /// How hard it was, for each process.
    pub fn answers(&self) -> Vec<Answer> {
        self.found.iter().map(|found| found.answer.clone()).collect()
    }

    /// Replays that depart from the schedule, one after the other.
    pub fn attempts<'a>(&'a self, run_name: &'a str) -> Result<Attempts<'a>> {
        Attempts::prepare(&self.loaded, self.stage.as_ref(), &self.found, run_name)
    }

    /// Where a replay that leaves nothing behind has its schedules.
    pub(crate) fn into_plan(self) -> Result<(LoadedRun, Option<Stage>, Plan)> {
        let plan = Plan::in_run(&self.loaded, self.found)?;
        Ok((self.loaded, self.stage, plan))
    }

    /// The same for one that leaves files behind.
    pub(crate) fn into_temporary_plan(self) -> Result<(LoadedRun, Option<Stage>, Plan)> {
        let schedules = self.found.into_iter().map(|found| found.schedule).collect();
        let plan = Plan::in_temporary(&self.loaded, schedules)?;
        Ok((self.loaded, self.stage, plan))
    }
}

/// Reads a run and finds the schedules of all its processes: those that are kept with it, or new ones.
pub fn recover(run: RunDirectory, options: &RecoverOptions, observer: &dyn Observer) -> Result<Recovered> {
    let loaded = LoadedRun::load_observed(run, observer)?;
    let stage = if options.to_replay { provide(&loaded)? } else { None };
    recover_loaded(loaded, stage, options, observer)
}

/// The same for a run that was read, and that has its stage.
pub(crate) fn recover_loaded(
    loaded: LoadedRun,
    stage: Option<Stage>,
    options: &RecoverOptions,
    observer: &dyn Observer,
) -> Result<Recovered> {
    let mut run = Recovering {
        loaded,
        stage,
        options,
        observer,
        sought: Sought::Nothing,
    };
    let found = by_method(&mut run)?;
    Ok(Recovered {
        loaded: run.loaded,
        stage: run.stage,
        found,
        sought: run.sought,
    })
}

/// The stage that replays of this run need, if this build and what there is on the disk can replay it.
pub(crate) fn provide(loaded: &LoadedRun) -> Result<Option<Stage>> {
    let (recorded, known) = (loaded.meta.abi_version, runtime_abi::ABI_VERSION);
    if recorded != known {
        return Err(Error::OtherAbi { recorded, known });
    }
    if loaded.origin != Origin::First {
        return Err(Error::PartOfARun {
            path: loaded.run.path().to_owned(),
        });
    }
    let metas: Vec<&RunMeta> = loaded.all().map(|process| &process.meta).collect();
    let stage = libraries::provide(&loaded.run, &metas)?;
    if loaded.logs.threads.is_empty() {
        return Err(Error::NothingRecorded {
            path: loaded.run.path().to_owned(),
        });
    }
    Ok(stage)
}

/// A run on its way to its schedules: what a method's recovery works on.
struct Recovering<'a> {
    loaded: LoadedRun,
    stage: Option<Stage>,
    options: &'a RecoverOptions,
    observer: &'a dyn Observer,
    sought: Sought,
}

impl Recovering<'_> {
    /// Gates for each process: those that are kept with it, or solved from what its logs say.
    fn solve(&mut self) -> Result<Vec<Found>> {
        let _observed = Observed(self.observer);
        let solve = |loaded: &LoadedRun| solve::solve(loaded, &self.options.solve, self.observer);
        let found: Vec<Found> = self.loaded.all().map(solve).collect::<Result<_>>()?;
        let schedules: Vec<&Schedule> = found.iter().map(|found| &found.schedule).collect();
        self.loaded.forget_lost_ends(&schedules);
        Ok(found)
    }
}

macro_rules! recoveries {
    ($($name:ident: $variant:ident = $number:literal { $($columns:tt)* })+) => {
        $(mod $name;)+

        fn by_method(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
            match run.loaded.logs.method {
                $(Method::$variant => $name::recover(run),)+
            }
        }
    };
}

use run_model::methods;

methods!(recoveries);

pub(crate) use inputs::order_threads;
pub(crate) use inputs::require_order;
