//! What compiled code and the runtime tell each other about control transfers, in deterministic runs: the thread-local variable
//! `__refrain_counting`. Functions that were built with `--det` have a slow version, which counts (`crates/instrumentor/pass/counted.h`).
use crate::settings::Text;
use crate::settings::Value;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;

#[repr(C)]
#[derive(Debug, Default)]
pub struct Counting {
    /// Control transfers since the thread's last event: branches that could have gone elsewhere, returns, and entries of functions.
    pub transfers: AtomicU64,
    /// From so many transfers on, every access comes to the runtime.
    pub limit: AtomicU64,
    /// 1: the slow version is to be run. [`SLOW_AND_TOLD`]: and it is to tell everything it does.
    pub slow: AtomicU32,
    /// Which instruction asks, of those of its function that have one site; and how many accesses the runtime has done for it.
    pub ordinal: AtomicU32,
}

/// What `Counting::slow` is where the slow version tells everything it does.
pub const SLOW_AND_TOLD: u32 = 2;

pub const ORDINAL_SHIFT: u32 = 20;
/// Accesses that the runtime does for one instruction, at most: one for each chunk of a copy.
pub const ACCESSES_MAX: u32 = (1 << ORDINAL_SHIFT) - 1;

const _: () = assert!(offset_of!(Counting, transfers) == 0);
const _: () = assert!(size_of::<Counting>() == 24);

/// What a replay, or a deterministic run, counts control transfers for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountingFor {
    #[default]
    Nothing,
    /// The run is recorded so that a schedule can be learned from it: nothing is counted yet, but events.
    Recording,
    /// Every access is written down with its place: `log_format::hybrid_trace`.
    Trace,
    /// The same, and the way through the code, what is loaded, what calls return, and what comes in: `log_format::hybrid_trace::whole`.
    WholeTrace,
    /// Those accesses are events that a hybrid schedule orders: `points_file`.
    Points,
}

const ALL: [(CountingFor, &str); 5] = [
    (CountingFor::Nothing, "nothing"),
    (CountingFor::Recording, "recording"),
    (CountingFor::Trace, "trace"),
    (CountingFor::WholeTrace, "whole-trace"),
    (CountingFor::Points, "points"),
];

impl Value for CountingFor {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Option<CountingFor> {
        ALL.get(usize::try_from(word).ok()?).map(|(value, _)| *value)
    }

    fn to_text(self) -> Text<'static> {
        Text::Word(ALL[self as usize].1)
    }

    fn from_text(text: Text<'_>) -> Option<CountingFor> {
        let Text::Word(word) = text else { return None };
        ALL.iter().find(|(_, name)| *name == word).map(|(value, _)| *value)
    }
}
