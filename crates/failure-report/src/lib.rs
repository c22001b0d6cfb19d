//! Why did this run fail? From what every thread did, in order, to the accesses a person is looking for.
//!
//! Input: [`Traces`], everything all threads did in one replay, and [`Ending`], how the run ended. Output: a [`Report`].
//! Values in, values out: no files, no source lines (sites are numbers here), no words for people.
//!
//! Two accesses *conflict* if they overlap, come from different threads, and at least one of them writes. They are
//! *unordered* if no chain of synchronisation leads from one to the other (`clocks`): then nothing in the program
//! keeps them in the order they had. Two atomic accesses are never said to race; reading from an atomic write orders.
//!
//! What is *not* guaranteed: the culprit is a guess by nearness to the failure (`suspects`); it is always two accesses that
//! did happen and that nothing orders, but the mistake may be elsewhere. Memory that was not observed is not seen, and
//! synchronisation that was not observed makes pairs look unordered that are not.
//!
//! Start at [`explain`].
#![forbid(unsafe_code)]

mod clocks;
mod memory;
mod races;
mod report;
mod sections;
mod suspects;
mod timeline;
mod trace;
mod waits;

pub use clocks::Order;
pub use races::Race;
pub use report::Ending;
pub use report::Fault;
pub use report::Read;
pub use report::Report;
pub use report::Writer;
pub use report::explain;
pub use suspects::Finding;
pub use suspects::Pattern;
pub use timeline::Step;
pub use timeline::Timeline;
pub use trace::Access;
pub use trace::Entry;
pub use trace::ThreadTrace;
pub use trace::Traces;
pub use trace::What;
pub use waits::Awaited;
pub use waits::Holder;
pub use waits::Wait;
