//! One part of a problem, with what is decided about it left out.

/// Nodes are numbered along the chains; a chain's nodes follow each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// The chain of each node.
    pub(super) chains: Vec<u32>,
    pub(super) edges: Vec<(u32, u32)>,
    /// In the recorded order.
    pub(super) exclusions: Vec<Vec<Span>>,
    pub(super) choices: Vec<Vec<Alternative>>,
    /// The recorded order is to be preferred.
    pub(super) hinted: bool,
}

pub(super) type Edges = Vec<(u32, u32)>;

/// One way to satisfy a choice.
#[derive(Clone, Debug, Default)]
pub(super) struct Alternative {
    pub(super) edges: Edges,
    /// At least one edge of each.
    pub(super) clauses: Vec<Edges>,
}

/// An interval.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) ends: Box<[u32]>,
}

impl Span {
    /// The edges that put `self` before `other`.
    pub(super) fn before(&self, other: &Span) -> Edges {
        self.ends.iter().map(|&end| (end, other.start)).collect()
    }
}
