//! What compiled code does with an access whose chunk word allows it, step by step.
//!
//! The instrumentor emits these steps (`crates/instrumentor/pass/groups.cpp`); the simulated machine runs its model of them, which is
//! these tables; and a test of the instrumentor's compares them with the code that it emits.

/// A step that others can come between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `window = 1`.
    OpenWindow,
    /// Of the thread's own slot.
    LoadCount,
    LoadGate,
    /// Of each chunk that the access lies in.
    LoadChunkWord,
    LoadExclusive,
    LoadSeen,
    /// If the event is before the gate, and each chunk word is `exclusive` or, for a read, an epoch up to `seen`: goes on with
    /// the next step. Else with [`REFUSED`].
    Branch,
    Access,
    /// `count += 1`.
    StoreCount,
    /// `window = 0`.
    CloseWindow,
    /// The runtime does the access.
    Call,
}

pub const READ: &[Step] = &[
    Step::OpenWindow,
    Step::LoadCount,
    Step::LoadGate,
    Step::LoadChunkWord,
    Step::LoadExclusive,
    Step::LoadSeen,
    Step::Branch,
    Step::Access,
    Step::StoreCount,
    Step::CloseWindow,
];

pub const WRITE: &[Step] = &[
    Step::OpenWindow,
    Step::LoadCount,
    Step::LoadGate,
    Step::LoadChunkWord,
    Step::LoadExclusive,
    Step::Branch,
    Step::Access,
    Step::StoreCount,
    Step::CloseWindow,
];

/// What follows a branch that was not taken.
pub const REFUSED: &[Step] = &[Step::CloseWindow, Step::Call];
