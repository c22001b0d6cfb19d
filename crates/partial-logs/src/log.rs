//! One client's partial log.
use crate::AccessVector;
use crate::VectorHash;
use std::collections::BTreeMap;

/// BLAKE3.
pub type Digest = [u8; 32];

/// A shared program element, as `refrain spes` numbers it: the same in every run of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub u32);

/// Of the program file: two clients with the same run the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(pub Digest);

/// Of everything that came into the run from outside and is not a clock, an id or an address. It says that inputs are equal, and nothing else about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputsDigest(pub Digest);

/// Which elements a client was to record: one of a small family, so that how far two logs overlap is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// How much of the elements, in hundredths of a percent.
    pub share: u16,
    /// Which one of the family.
    pub number: u16,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Exit(u8),
    Signal(u8),
    /// It was stopped because it took too long.
    TimedOut,
}

/// What tells one failure from others: how the process ended, where (functions, innermost first; no addresses, no paths), and what an assertion said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Failure {
    pub outcome: Outcome,
    pub frames: Vec<String>,
    pub text: String,
}

/// What a log has of one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedElement {
    pub hash: VectorHash,
    pub vector: AccessVector,
    /// Several threads used some memory of it, of which one wrote when there were several; or it is a lock: who came first may have mattered.
    pub has_conflict: bool,
}

impl RecordedElement {
    pub fn new(vector: AccessVector, has_conflict: bool) -> RecordedElement {
        RecordedElement {
            hash: vector.hash(),
            vector,
            has_conflict,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialLog {
    pub build: BuildId,
    pub inputs: InputsDigest,
    pub pattern: Pattern,
    pub outcome: Outcome,
    /// Absent if the run passed.
    pub failure: Option<Failure>,
    /// The elements that were chosen. One that nobody accessed has an empty vector.
    pub elements: BTreeMap<ElementId, RecordedElement>,
}
