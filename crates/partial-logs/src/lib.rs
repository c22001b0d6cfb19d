//! What the clients of a fleet record (CoopREP: Machado, Romano, Rodrigues, *Lightweight Cooperative Logging for Fault Replication in
//! Concurrent Programs*): each the access vectors of a part of the shared program elements. How such logs are written down, how alike they
//! are, and how those of one failure are merged until a replay shows it again.
//!
//! Values in, values out: no files, no clock, no network, no randomness but what a seed says. Who replays a merged log is at the edge.
//!
//! - [`PartialLog`]: the nouns. [`pattern`]: who records what.
//! - [`Universe`]: the logs of one bug, by which everything else is asked. [`Similarity`] of two logs, [`Relevant`] logs to begin with, [`Correlation`] of vectors and
//!   failure.
//! - [`Merger`]: which merged logs to try, one after the other. [`Reducer`]: which elements of the one that worked matter.
//!
//! Formulas, and where ours are not the paper's: docs/fleet.md.
#![forbid(unsafe_code)]

pub mod batch;
mod bytes;
pub mod codec;
mod correlation;
mod corrupt;
mod log;
mod merge;
mod neighbours;
pub mod pattern;
mod random;
mod ratio;
mod reduce;
mod relevance;
mod similarity;
pub mod table;
mod thread;
mod universe;
mod vector;

pub use correlation::Correlation;
pub use correlation::FailingTotal;
pub use correlation::Telling;
pub use correlation::by_importance;
pub use correlation::correlation;
pub use correlation::telling_elements;
pub use corrupt::Corrupt;
pub use corrupt::Fault;
pub use log::BuildId;
pub use log::Digest;
pub use log::ElementId;
pub use log::Failure;
pub use log::InputsDigest;
pub use log::Outcome;
pub use log::PartialLog;
pub use log::Pattern;
pub use log::RecordedElement;
pub use merge::Candidate;
pub use merge::CandidateId;
pub use merge::Chosen;
pub use merge::Ended;
pub use merge::Feedback;
pub use merge::MergeSettings;
pub use merge::Merger;
pub use merge::Mode;
pub use merge::Source;
pub use merge::Stage;
pub use merge::Verdict;
pub use neighbours::NeighbourSettings;
pub use neighbours::Neighbours;
pub use neighbours::Similar;
pub use neighbours::Threshold;
pub use ratio::Ratio;
pub use reduce::ReduceSettings;
pub use reduce::Reducer;
pub use relevance::ALPHA;
pub use relevance::Relevant;
pub use relevance::by_relevance;
pub use relevance::relevance;
pub use similarity::Metric;
pub use similarity::Similarity;
pub use similarity::Weights;
pub use similarity::literal_weights;
pub use similarity::similarity;
pub use thread::ThreadName;
pub use universe::Counts;
pub use universe::LogId;
pub use universe::Pair;
pub use universe::Universe;
pub use universe::UniverseBuilder;
pub use vector::AccessVector;
pub use vector::Run;
pub use vector::VectorHash;
