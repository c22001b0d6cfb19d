//! The logs of one bug: failing ones, which are merged, and passing ones of the same build, which only tell what is not about the bug.
//!
//! Vectors are not held, only their hashes: who merges asks for vectors by hash. A pair of an element and a vector's hash has a small number, a log is a row of
//! such numbers, and for each pair there is the list of failing logs that have it (postings). That is 8 bytes for each vector of each log, and about 60 for each
//! pair that is different from all others.
mod pairs;

use crate::ElementId;
use crate::PartialLog;
use crate::Ratio;
use crate::VectorHash;
use pairs::Pairs;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// A failing log of a universe: logs are numbered as they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u32);

/// An element and one of its vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub element: ElementId,
    pub hash: VectorHash,
}

/// A pair's number: pairs are numbered as they appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PairId(pub u32);

/// An element's number: elements are numbered as they appeared. For tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ElementNumber(pub u32);

/// A set of elements that logs have recorded: there are far fewer of them than logs, if clients record patterns of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShapeId(pub u32);

/// Of how many logs an element, or a pair, is part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub failing: u32,
    pub passing: u32,
}

#[derive(Clone, Debug, Default)]
pub struct UniverseBuilder {
    numbers: BTreeMap<ElementId, ElementNumber>,
    elements: Vec<ElementId>,
    /// Of logs that recorded the element.
    recorded: Vec<Counts>,
    pairs: Pairs,
    /// Of passing logs that have the pair.
    passing: Vec<u32>,
    passing_logs: u32,
    /// Pairs of all failing logs, one log after the other, each sorted by elements.
    rows: Vec<PairId>,
    /// Where the rows of a log end.
    ends: Vec<u32>,
    shapes: BTreeMap<Vec<ElementNumber>, ShapeId>,
    shape_of: Vec<ShapeId>,
}

impl UniverseBuilder {
    /// `elements` are those of the build, as far as they can be recorded. Others that logs have are added to them.
    pub fn new(elements: impl IntoIterator<Item = ElementId>) -> UniverseBuilder {
        let mut builder = UniverseBuilder::default();
        for element in elements {
            builder.number(element);
        }
        builder
    }

    /// A failing log. Of two vectors of one element, the first counts.
    pub fn add_failing(&mut self, vectors: impl IntoIterator<Item = (ElementId, VectorHash)>) -> LogId {
        let row = self.row(vectors);
        for (number, pair) in &row {
            self.recorded[number.0 as usize].failing += 1;
            self.rows.push(*pair);
        }
        let id = LogId(small(self.ends.len()));
        self.ends.push(small(self.rows.len()));
        let shape: Vec<ElementNumber> = row.iter().map(|(number, _)| *number).collect();
        let next = ShapeId(small(self.shapes.len()));
        self.shape_of.push(*self.shapes.entry(shape).or_insert(next));
        id
    }

    pub fn add_passing(&mut self, vectors: impl IntoIterator<Item = (ElementId, VectorHash)>) {
        self.passing_logs += 1;
        for (number, pair) in self.row(vectors) {
            self.recorded[number.0 as usize].passing += 1;
            self.passing[pair.0 as usize] += 1;
        }
    }

    /// One that failed gets a number.
    pub fn add(&mut self, log: &PartialLog) -> Option<LogId> {
        let vectors = log.elements.iter().map(|(id, recorded)| (*id, recorded.hash));
        match log.failure {
            Some(_) => Some(self.add_failing(vectors)),
            None => {
                self.add_passing(vectors);
                None
            }
        }
    }

    pub fn build(self) -> Universe {
        let postings = Lists::group(self.pairs.len(), || {
            let logs = (0..self.ends.len()).map(|log| LogId(log as u32));
            logs.flat_map(|log| self.rows[self.row_range(log)].iter().map(move |pair| (pair.0, log)))
        });
        let of_elements = Lists::group(self.elements.len(), || {
            let failing = self.pairs.ids().filter(|pair| !postings.list(pair.0).is_empty());
            failing.map(|pair| (self.pairs.element(pair).0, pair))
        });
        let mut shapes = vec![Vec::new(); self.shapes.len()];
        for (elements, id) in &self.shapes {
            shapes[id.0 as usize].clone_from(elements);
        }
        Universe {
            postings,
            of_elements,
            shapes,
            rows: self,
        }
    }

    fn row_range(&self, log: LogId) -> Range<usize> {
        let log = log.0 as usize;
        let start = log.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[log] as usize
    }

    fn row(&mut self, vectors: impl IntoIterator<Item = (ElementId, VectorHash)>) -> Vec<(ElementNumber, PairId)> {
        let mut vectors: Vec<(ElementId, VectorHash)> = vectors.into_iter().collect();
        vectors.sort_by_key(|(element, _)| *element);
        vectors.dedup_by_key(|(element, _)| *element);
        let pair = |(element, hash)| {
            let number = self.number(element);
            let pair = self.pairs.intern(number, hash);
            self.passing.resize(self.pairs.len(), 0);
            (number, pair)
        };
        vectors.into_iter().map(pair).collect()
    }

    fn number(&mut self, element: ElementId) -> ElementNumber {
        let next = ElementNumber(small(self.elements.len()));
        let number = *self.numbers.entry(element).or_insert(next);
        if number == next {
            self.elements.push(element);
            self.recorded.push(Counts::default());
        }
        number
    }
}

/// Numbers have 32 bits, to be small: 4 thousand million vectors of one bug are more than anybody merges.
fn small(count: usize) -> u32 {
    u32::try_from(count).expect("a universe of less than 2^32 vectors")
}

/// What can be asked of the logs of one bug.
#[derive(Clone, Debug)]
pub struct Universe {
    rows: UniverseBuilder,
    /// Of pairs: the failing logs that have it, in ascending order.
    postings: Lists<LogId>,
    /// Of elements: the pairs that failing logs have, in ascending order.
    of_elements: Lists<PairId>,
    shapes: Vec<Vec<ElementNumber>>,
}

impl Universe {
    /// To add more logs: those that are there keep their numbers.
    pub fn into_builder(self) -> UniverseBuilder {
        self.rows
    }

    /// Failing ones.
    pub fn logs(&self) -> impl ExactSizeIterator<Item = LogId> + use<> {
        (0..self.rows.ends.len()).map(|log| LogId(log as u32))
    }

    /// Logs in all.
    pub fn counts(&self) -> Counts {
        Counts {
            failing: self.rows.ends.len() as u32,
            passing: self.rows.passing_logs,
        }
    }

    /// The paper's S: of the build, or of some log.
    pub fn elements(&self) -> impl Iterator<Item = ElementId> + '_ {
        self.rows.numbers.keys().copied()
    }

    /// #S.
    pub fn element_count(&self) -> usize {
        self.rows.elements.len()
    }

    /// Those of which some failing log has a vector: nothing else can be filled.
    pub fn recorded_elements(&self) -> impl Iterator<Item = ElementId> + '_ {
        self.elements().filter(|element| self.recorded_by(*element).failing > 0)
    }

    /// How many logs recorded the element.
    pub fn recorded_by(&self, element: ElementId) -> Counts {
        let number = self.rows.numbers.get(&element);
        number.map_or(Counts::default(), |number| self.rows.recorded[number.0 as usize])
    }

    /// Different vectors of the element, in failing logs.
    pub fn vectors_of(&self, element: ElementId) -> impl Iterator<Item = VectorHash> + '_ {
        let number = self.rows.numbers.get(&element);
        let pairs = number.map_or(&[][..], |number| self.pairs_of(*number));
        pairs.iter().map(|pair| self.pair(*pair).hash)
    }

    /// What a log has of each element that it recorded, sorted by elements. Nothing, if there is no such log.
    pub fn vectors(&self, log: LogId) -> impl ExactSizeIterator<Item = Pair> + '_ {
        self.row(log).iter().map(|pair| self.pair(*pair))
    }

    /// How many logs have this vector of this element.
    pub fn with_vector(&self, pair: Pair) -> Counts {
        let found = self.lookup(pair);
        found.map_or(Counts::default(), |pair| self.pair_counts(pair))
    }

    /// Failing logs that have this vector of this element.
    pub fn logs_with(&self, pair: Pair) -> &[LogId] {
        self.lookup(pair).map_or(&[], |pair| self.postings(pair))
    }

    /// Different vectors of an element by how often it was recorded: figure 3 of the paper. 1: no two failing logs agree.
    pub fn dispersion(&self, element: ElementId) -> Ratio {
        let distinct = self.vectors_of(element).count() as u128;
        Ratio::new(distinct, u128::from(self.recorded_by(element).failing))
    }

    /// The elements that a log recorded.
    pub fn recorded(&self, log: LogId) -> BTreeSet<ElementId> {
        self.vectors(log).map(|pair| pair.element).collect()
    }
}

impl Universe {
    pub(crate) fn lookup(&self, pair: Pair) -> Option<PairId> {
        let number = self.rows.numbers.get(&pair.element)?;
        self.rows.pairs.find(*number, pair.hash)
    }

    pub(crate) fn row(&self, log: LogId) -> &[PairId] {
        match (log.0 as usize) < self.rows.ends.len() {
            true => &self.rows.rows[self.rows.row_range(log)],
            false => &[],
        }
    }

    pub(crate) fn pair(&self, pair: PairId) -> Pair {
        Pair {
            element: self.element(self.number_of(pair)),
            hash: self.rows.pairs.hash(pair),
        }
    }

    pub(crate) fn number_of(&self, pair: PairId) -> ElementNumber {
        self.rows.pairs.element(pair)
    }

    pub(crate) fn element(&self, number: ElementNumber) -> ElementId {
        self.rows.elements[number.0 as usize]
    }

    pub(crate) fn postings(&self, pair: PairId) -> &[LogId] {
        self.postings.list(pair.0)
    }

    pub(crate) fn pair_counts(&self, pair: PairId) -> Counts {
        Counts {
            failing: self.postings(pair).len() as u32,
            passing: self.rows.passing[pair.0 as usize],
        }
    }

    pub(crate) fn pairs_of(&self, element: ElementNumber) -> &[PairId] {
        self.of_elements.list(element.0)
    }

    pub(crate) fn recorded_number(&self, element: ElementNumber) -> Counts {
        self.rows.recorded[element.0 as usize]
    }

    /// In the order of their ids.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = ElementNumber> + '_ {
        self.rows.numbers.values().copied()
    }

    pub(crate) fn shape_of(&self, log: LogId) -> ShapeId {
        self.rows.shape_of[log.0 as usize]
    }

    pub(crate) fn shape_count(&self) -> usize {
        self.shapes.len()
    }

    /// Sorted by ids.
    pub(crate) fn shape(&self, shape: ShapeId) -> &[ElementNumber] {
        &self.shapes[shape.0 as usize]
    }
}

/// Lists behind each other.
#[derive(Clone, Debug)]
struct Lists<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// `of` is gone through twice: each item with the number of its list.
    fn group<I: Iterator<Item = (u32, T)>>(lists: usize, of: impl Fn() -> I) -> Lists<T> {
        let mut starts = vec![0u32; lists + 1];
        of().for_each(|(list, _)| starts[list as usize + 1] += 1);
        for list in 0..lists {
            starts[list + 1] += starts[list];
        }
        let mut next = starts.clone();
        let mut items: Vec<T> = Vec::new();
        if let Some((_, any)) = of().next() {
            items.resize(starts[lists] as usize, any);
        }
        for (list, item) in of() {
            items[next[list as usize] as usize] = item;
            next[list as usize] += 1;
        }
        Lists { starts, items }
    }

    fn list(&self, list: u32) -> &[T] {
        let list = list as usize;
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }
}
