//! Runs a program under the recorder or under a schedule; ends in a recorded run, in "the same run", or in a
//! [`Divergence`] that says where it went another way.
//!
//! The two ways in are [`Campaign::run`] (record) and [`replay`]. Both start the program through `launch`, so that
//! it finds the same stack, environment and descriptors every time, and watch it through the control file
//! (`runtime_abi`) without touching it: no ptrace, no signals.
//!
//! Solving and judging are the core's (`constraint-solver`, `schedule-checker`); directories are `run-store`'s. All
//! unsafe code is in `sys`. Nothing here prints: what is to be said comes back as values.
mod call_names;
mod call_sites;
mod campaign;
mod checkpoints;
mod debug;
pub mod describe;
mod divergence;
mod error;
mod explain;
mod family;
mod launch;
mod libraries;
mod loaded;
mod loader;
mod memory;
mod output;
mod pack;
mod pauses;
mod plan;
mod prepare;
mod processes;
mod program;
mod record;
mod replay;
mod search;
mod sites;
mod stage;
mod supervise;
mod symbols;
mod sys;
mod trace;
mod turns;
mod verify;

pub use call_names::call_name;
pub use campaign::Attempts;
pub use campaign::Campaign;
pub use campaign::Keep;
pub use campaign::Prepared;
pub use campaign::Progress;
pub use campaign::Recorded;
pub use checkpoints::CheckpointStatistics;
pub use checkpoints::Checkpoints;
pub use constraint_solver::Hints;
pub use constraint_solver::Step;
pub use constraint_solver::write_formula;
pub use debug::DebugOptions;
pub use debug::Debugged;
pub use debug::debug;
pub use debug::enter;
pub use divergence::Divergence;
pub use error::Error;
pub use error::Result;
pub use explain::Explained;
pub use explain::explain;
pub use loaded::Input;
pub use loaded::LoadedRun;
pub use loaded::Overview;
pub use loaded::What;
pub use loaded::load_inputs;
pub use loaded::load_prefix;
pub use pack::pack;
pub use plan::Answer;
pub use plan::SolveOptions;
pub use plan::Statistics;
pub use plan::solve;
pub use prepare::Observer;
pub use prepare::Unobserved;
pub use prepare::Work;
pub use record::Recording;
pub use record::Show;
pub use record::Without;
pub use replay::ReplayOptions;
pub use replay::Replayed;
pub use replay::Verdict;
pub use replay::replay;
pub use run_model::Method;
pub use schedule_search::Caching;
pub use schedule_search::Go;
pub use schedule_search::Outcome as SearchOutcome;
pub use schedule_search::Reduction;
pub use schedule_search::Scope as SearchScope;
pub use schedule_search::Tuning;
pub use search::SEARCH_FILE_NAME;
pub use search::SearchOptions;
pub use search::SearchProgress;
pub use search::Searched;
pub use search::Searching;
pub use search::describe as describe_moves;
pub use search::search;
pub use search::searching;
pub use sites::Place;
pub use sites::SiteBook;
pub use symbols::Symbols;
pub use turns::Attempt;
pub use turns::Attempts as TurnAttempts;
pub use turns::Came;
pub use turns::are_taken_by_any as takes_turns;
pub use verify::Check;
