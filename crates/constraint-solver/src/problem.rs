//! The ordering problem itself, with nothing in it of how the run was recorded.
//!
//! Nodes lie on chains (a thread's events, in program order). The question is for an order of all nodes that agrees
//! with the chains and the edges, keeps the intervals of every exclusion apart, and satisfies one alternative of every
//! choice. Light needs edges and exclusions only; choices are for methods that know less than which write a read saw. There, "r
//! saw w" is an alternative: w before r, and for each other write x that versions do not order, a clause: x before w, or r
//! before x.

/// A place on a chain. Nodes of one chain are ordered by `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    pub chain: u32,
    pub position: u32,
}

/// `before` is over when `after` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    pub before: Node,
    pub after: Node,
}

/// From `start` to the last of `ends`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// `None`: begins with the run itself, so no other interval of its exclusion comes before it.
    pub start: Option<Node>,
    /// At most one per chain, by chain. Chains and edges put each after `start`, or it is the same node.
    pub ends: Vec<Node>,
}

/// Intervals that must not overlap. They stand in the order in which they happened when they were recorded, which is
/// a hint and not a constraint.
pub type Exclusion = Vec<Interval>;

/// All edges of at least one alternative hold, and what clauses ask for besides. The first is the likeliest, which is a
/// hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub alternatives: Vec<Vec<Edge>>,
}

/// An alternative of a choice asks for more: at least one of these edges. The first is the likeliest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clause {
    pub choice: u32,
    pub alternative: u32,
    pub one_of: Vec<Edge>,
}

/// Something unknown: as what was written it is what every read may have read, and a read of it may have read everything.
pub const ANYTHING: u32 = u32::MAX;

/// A read or a write of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub node: Node,
    /// Equal numbers for equal contents.
    pub content: u32,
    /// A read has hardly seen a write with a newer version than its own.
    pub version: u64,
}

/// A place in memory. Each read finds what the last write before it wrote, or what was there from the beginning. A node that
/// reads and writes reads first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    /// A node writes once.
    pub writes: Vec<Use>,
    pub reads: Vec<Use>,
    /// What was there from the beginning; `None`: nobody knows, but it was one thing.
    pub initial: Option<u32>,
    /// What it probably was, if nobody knows.
    pub likely: Option<u32>,
    /// Orders between the accesses that are likely.
    pub hints: Vec<Edge>,
    /// The hints put every read where it finds what it read.
    pub hints_suffice: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Length of each chain.
    pub chains: Vec<u32>,
    pub edges: Vec<Edge>,
    pub exclusions: Vec<Exclusion>,
    pub choices: Vec<Choice>,
    /// By choice and alternative.
    pub clauses: Vec<Clause>,
    /// No method has these and exclusions or choices, and no problem may.
    pub registers: Vec<Register>,
}

impl Interval {
    /// The edges that put `self` before `other`; `None` if nothing comes before `other`.
    pub(crate) fn before<'a>(&'a self, other: &'a Interval) -> Option<impl Iterator<Item = Edge> + 'a> {
        let after = other.start?;
        Some(self.ends.iter().map(move |&before| Edge { before, after }))
    }
}

impl Problem {
    /// Edges that put each exclusion's intervals into the order in which they stand, and the first alternatives.
    pub(crate) fn hinted_edges(&self) -> Vec<Edge> {
        let pairs = self.exclusions.iter().flat_map(|exclusion| {
            // What was there from the beginning comes first, wherever it stands.
            let first = exclusion.iter().filter(|interval| interval.start.is_none());
            let others = || exclusion.iter().filter(|interval| interval.start.is_some());
            let in_order = first.clone().chain(others());
            in_order.zip(others().skip(1 - first.count()))
        });
        let firsts = self.choices.iter().filter_map(|choice| choice.alternatives.first());
        let clauses = self.clauses.iter().filter(|clause| clause.alternative == 0);
        pairs
            .flat_map(|(one, other)| one.before(other).into_iter().flatten())
            .chain(firsts.flatten().copied())
            .chain(clauses.filter_map(|clause| clause.one_of.first().copied()))
            .chain(
                self.registers
                    .iter()
                    .flat_map(|register| register.hints.iter().copied()),
            )
            .collect()
    }

    /// The first alternative of a choice that does not ask for one of no edges.
    pub(crate) fn first_alternative(&self, choice: u32) -> Option<usize> {
        let is_possible = |index: &usize| {
            self.clauses_of(choice, *index)
                .iter()
                .all(|clause| !clause.one_of.is_empty())
        };
        (0..self.choices[choice as usize].alternatives.len()).find(is_possible)
    }

    /// What this alternative of this choice asks for besides its edges.
    pub(crate) fn clauses_of(&self, choice: u32, alternative: usize) -> &[Clause] {
        let key = (choice, alternative as u32);
        let of = |clause: &Clause| (clause.choice, clause.alternative);
        let first = self.clauses.partition_point(|clause| of(clause) < key);
        let length = self.clauses[first..].partition_point(|clause| of(clause) == key);
        &self.clauses[first..first + length]
    }

    /// Is anything left to decide? One interval has nothing to keep away from, and two may be ordered by one having no
    /// beginning.
    pub(crate) fn is_decided(&self) -> bool {
        let decided =
            |e: &Exclusion| e.len() < 2 || (e.len() == 2 && e.iter().any(|interval| interval.start.is_none()));
        self.choices.is_empty() && self.registers.is_empty() && self.exclusions.iter().all(decided)
    }
}
