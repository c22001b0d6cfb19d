//! The intervals of an exclusion, sorted into lanes: those that begin on the same chain.
//!
//! Of two intervals on one lane the one that begins first is over before the other begins: its beginning comes before the
//! other's, and so before the other's end, and they must not overlap. So a lane is in order from the outset, and what
//! is left to find is how lanes merge. Whatever is before (or after) an interval is then a beginning (or an end) of each
//! lane, found by bisection; nobody ever looks at all pairs.
use crate::problem::Edge;
use crate::problem::Exclusion;
use crate::problem::Interval;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// Indices of intervals, by their beginning; each lane by its chain.
    pub(crate) lanes: Vec<(u32, Vec<u32>)>,
    /// The interval that was there from the beginning: it comes before all others.
    pub(crate) first: Option<u32>,
}

impl Lanes {
    pub(crate) fn of(exclusion: &Exclusion) -> Lanes {
        let mut first = None;
        let mut starts = Vec::with_capacity(exclusion.len());
        for (index, interval) in (0..).zip(exclusion) {
            match interval.start {
                Some(start) => starts.push((start, index)),
                None => first = Some(index),
            }
        }
        starts.sort_unstable();
        let mut lanes: Vec<(u32, Vec<u32>)> = Vec::new();
        for (start, index) in starts {
            match lanes.last_mut() {
                Some((chain, lane)) if *chain == start.chain => lane.push(index),
                _ => lanes.push((start.chain, vec![index])),
            }
        }
        Lanes { lanes, first }
    }

    /// The orders that hold from the outset: along each lane, and from the first interval to all.
    pub(crate) fn edges<'a>(&'a self, exclusion: &'a Exclusion) -> impl Iterator<Item = Edge> + 'a {
        let along = self.lanes.iter().flat_map(|(_, lane)| lane.windows(2));
        let along = along.map(|pair| (pair[0], pair[1]));
        let heads = self.lanes.iter().filter_map(|(_, lane)| lane.first());
        let from_first = self
            .first
            .into_iter()
            .flat_map(move |first| heads.clone().map(move |&head| (first, head)));
        along
            .chain(from_first)
            .flat_map(move |(one, other)| order(&exclusion[one as usize], &exclusion[other as usize]))
    }

    /// Is there more than one way to merge the lanes, for all that is known here?
    pub(crate) fn is_open(&self) -> bool {
        self.lanes.len() > 1
    }
}

/// The edges that put `one` before `other`, without those that their chain has anyway.
pub(crate) fn order<'a>(one: &'a Interval, other: &'a Interval) -> impl Iterator<Item = Edge> + 'a {
    let edges = one.before(other).into_iter().flatten();
    edges.filter(|edge| edge.before.chain != edge.after.chain || edge.before.position >= edge.after.position)
}
