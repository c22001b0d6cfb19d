//! Orders that are forced: if one interval's beginning already comes before another's end, it has to be over before the
//! other begins; if all alternatives of a choice but one contradict what is known, that one holds. Repeated until
//! nothing new follows.
//!
//! Reachability is kept as one vector clock per node (k-chain decomposition: nodes × chains, never nodes²). New edges
//! spread through the clocks from where they lead to, and only what has an end where a clock grew is looked at again.
use crate::Step;
use crate::Watch;
use crate::lanes::Lanes;
use crate::lanes::order;
use crate::nodes::Numbering;
use crate::order::Graph;
use crate::problem::Edge;
use crate::problem::Interval;
use crate::problem::Node;
use crate::problem::Problem;
use crate::search::Circle;
use crate::search::circle;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Above this many entries of vector clocks (1 GiB), saturation is left out: it only saves search.
const ENTRIES_MAX: usize = 1 << 28;

pub(crate) struct Saturated {
    /// The problem's edges and those that follow.
    pub(crate) edges: Vec<Edge>,
    /// Of each exclusion.
    pub(crate) lanes: Vec<Lanes>,
    /// Pairs and choices that were decided.
    pub(crate) forced: u64,
    /// What comes before what by now; absent if it would take too much memory.
    pub(crate) clocks: Option<Clocks>,
}

pub(crate) fn saturate(problem: &Problem, watch: &dyn Watch) -> Result<Saturated, Circle> {
    let mut edges = problem.edges.clone();
    let lanes: Vec<Lanes> = problem.exclusions.iter().map(Lanes::of).collect();
    for (exclusion, lanes) in problem.exclusions.iter().zip(&lanes) {
        edges.extend(lanes.edges(exclusion));
    }
    let nodes: usize = problem.chains.iter().map(|length| *length as usize).sum();
    if nodes.saturating_mul(problem.chains.len()) > ENTRIES_MAX {
        let graph = Graph::new(&problem.chains, &edges);
        graph.linear_order().map_err(|cycle| circle(&cycle, &edges, false))?;
        return Ok(Saturated {
            edges,
            lanes,
            forced: 0,
            clocks: None,
        });
    }
    let mut spreading = Spreading::new(problem, &edges)?;
    let items = Items::new(problem, &spreading.clocks);
    // What is to be looked at: everything, at first.
    let mut due: Vec<u32> = (0..items.len()).collect();
    let mut forced = 0;
    while !due.is_empty() {
        watch.at(
            Step::Saturate,
            u64::from(items.len()) - due.len() as u64,
            u64::from(items.len()),
        );
        let known = edges.len();
        for item in due {
            forced += match items.of(item) {
                Item::Interval { exclusion, index } => {
                    let intervals = &problem.exclusions[exclusion as usize];
                    spreading
                        .clocks
                        .force(intervals, &lanes[exclusion as usize], index, &mut edges)
                }
                Item::Choice(choice) => spreading.clocks.force_choice(problem, choice, &mut edges),
            };
        }
        let grown = match spreading.add(&edges[known..]) {
            Some(grown) => grown,
            // They lead in a circle; who walks the whole graph finds a short one.
            None => {
                return Err(Clocks::new(&problem.chains, &edges)
                    .map(|_| ())
                    .expect_err("the edges lead in a circle"));
            }
        };
        due = items.touched(grown);
    }
    Ok(Saturated {
        edges,
        lanes,
        forced,
        clocks: Some(spreading.clocks),
    })
}

/// For each node, how many nodes of each chain come before it or are it.
pub(crate) struct Clocks {
    numbering: Numbering,
    entries: Vec<u32>,
}

impl Clocks {
    fn new(chains: &[u32], edges: &[Edge]) -> Result<(Clocks, Vec<u32>), Circle> {
        let graph = Graph::new(chains, edges);
        let order = graph.linear_order().map_err(|cycle| circle(&cycle, edges, false))?;
        let width = chains.len();
        let mut entries = vec![0; graph.nodes() * width];
        let mut places = vec![0; graph.nodes()];
        let mut clock = vec![0; width];
        for (place, node) in (0..).zip(order) {
            let id = graph.id(node);
            places[id] = place;
            match node.position {
                0 => clock.fill(0),
                _ => clock.copy_from_slice(&entries[(id - 1) * width..id * width]),
            }
            for edge in graph.incoming(node) {
                let other = graph.id(edge.before);
                raise(&mut clock, &entries[other * width..(other + 1) * width]);
            }
            clock[node.chain as usize] = node.position + 1;
            entries[id * width..(id + 1) * width].copy_from_slice(&clock);
        }
        let numbering = graph.numbering().clone();
        Ok((Clocks { numbering, entries }, places))
    }

    fn id(&self, node: Node) -> usize {
        self.numbering.id(node)
    }

    /// How many nodes of `chain` come before `node` or are it.
    fn at(&self, node: Node, chain: u32) -> u32 {
        self.entries[self.id(node) * self.numbering.chains() + chain as usize]
    }

    /// Does `first` come before `second`, or are they the same?
    fn reaches(&self, first: Node, second: Node) -> bool {
        self.at(second, first.chain) > first.position
    }

    fn is_before(&self, one: &Interval, other: &Interval) -> bool {
        other
            .start
            .is_some_and(|start| one.ends.iter().all(|&end| end != start && self.reaches(end, start)))
    }

    /// How many nodes of `chain` come before some end of `interval`.
    fn before_end(&self, interval: &Interval, chain: u32) -> u32 {
        interval.ends.iter().map(|&end| self.at(end, chain)).max().unwrap_or(0)
    }

    /// Of each other lane, the newest that has begun before interval `index` is over must be over before it begins.
    /// Returns how many were not.
    fn force(&self, intervals: &[Interval], lanes: &Lanes, index: u32, edges: &mut Vec<Edge>) -> u64 {
        let one = &intervals[index as usize];
        let Some(start) = one.start else { return 0 };
        let mut forced = 0;
        for (chain, lane) in lanes.lanes.iter().filter(|(chain, _)| *chain != start.chain) {
            let begun = self.before_end(one, *chain);
            let begins_before = |other: &u32| position(&intervals[*other as usize]) < begun;
            if let Some(newest) = lane.partition_point(begins_before).checked_sub(1) {
                let other = &intervals[lane[newest] as usize];
                if !self.is_before(other, one) {
                    forced += 1;
                    edges.extend(order(other, one));
                }
            }
        }
        forced
    }

    fn is_possible(&self, edge: &Edge) -> bool {
        !self.reaches(edge.after, edge.before)
    }

    fn holds(&self, edge: &Edge) -> bool {
        edge.before != edge.after && self.reaches(edge.before, edge.after)
    }

    /// The last alternative that is left holds, and the last edge that is left of a clause of it.
    fn force_choice(&self, problem: &Problem, choice: u32, edges: &mut Vec<Edge>) -> u64 {
        let alternatives = &problem.choices[choice as usize].alternatives;
        let is_possible = |&(index, alternative): &(usize, &Vec<Edge>)| {
            let mut clauses = problem.clauses_of(choice, index).iter();
            alternative.iter().all(|edge| self.is_possible(edge))
                && clauses.all(|clause| clause.one_of.iter().any(|edge| self.is_possible(edge)))
        };
        let mut possible = alternatives.iter().enumerate().filter(is_possible);
        let (index, last) = match (possible.next(), possible.next()) {
            (Some(_), Some(_)) => return 0,
            (Some(last), None) => last,
            // Nothing is left: any of them shows the circle.
            (None, _) => {
                let index = problem.first_alternative(choice).unwrap_or(0);
                (index, &alternatives[index])
            }
        };
        let known = edges.len();
        edges.extend(last.iter().filter(|edge| !self.holds(edge)));
        for clause in problem.clauses_of(choice, index) {
            let mut possible = clause.one_of.iter().filter(|edge| self.is_possible(edge));
            let last = match (possible.next(), possible.next()) {
                (Some(_), Some(_)) => continue,
                (last, _) => last.or(clause.one_of.first()),
            };
            edges.extend(last.filter(|edge| !self.holds(edge)));
        }
        u64::from(edges.len() > known)
    }

    /// Does an alternative of this choice hold already?
    pub(crate) fn is_made(&self, problem: &Problem, choice: u32) -> bool {
        let holds = |(index, alternative): (usize, &Vec<Edge>)| {
            let mut clauses = problem.clauses_of(choice, index).iter();
            alternative.iter().all(|edge| self.holds(edge))
                && clauses.all(|clause| clause.one_of.iter().any(|edge| self.holds(edge)))
        };
        problem.choices[choice as usize]
            .alternatives
            .iter()
            .enumerate()
            .any(holds)
    }

    /// Of interval `index` and each other lane, the first that is not known to come before it; unless it comes after it.
    pub(crate) fn undecided<'a>(
        &'a self,
        intervals: &'a [Interval],
        lanes: &'a Lanes,
        index: u32,
    ) -> impl Iterator<Item = u32> + 'a {
        let one = &intervals[index as usize];
        let others = lanes
            .lanes
            .iter()
            .filter(|(chain, _)| one.start.is_some_and(|start| start.chain != *chain));
        others.filter_map(move |(_, lane)| {
            let before = lane.partition_point(|&other| self.is_before(&intervals[other as usize], one));
            let other = *lane.get(before)?;
            (!self.is_before(one, &intervals[other as usize])).then_some(other)
        })
    }
}

fn position(interval: &Interval) -> u32 {
    interval.start.map_or(0, |start| start.position)
}

fn raise(clock: &mut [u32], other: &[u32]) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// Clocks that grow with the edges.
struct Spreading<'a> {
    clocks: Clocks,
    graph: Graph<'a>,
    /// Where each node leads to by edges that were added; `u32::MAX` ends a list.
    added: Vec<(u32, u32)>,
    newest: Vec<u32>,
    /// An order of the nodes before edges were added: clocks spread along it, so that few are raised twice.
    places: Vec<u32>,
    nodes: Vec<Node>,
}

const NONE: u32 = u32::MAX;

impl<'a> Spreading<'a> {
    fn new(problem: &'a Problem, edges: &[Edge]) -> Result<Spreading<'a>, Circle> {
        let (clocks, places) = Clocks::new(&problem.chains, edges)?;
        let chains = (0..).zip(&problem.chains);
        let nodes = chains
            .flat_map(|(chain, length)| (0..*length).map(move |position| Node { chain, position }))
            .collect();
        let mut spreading = Spreading {
            newest: vec![NONE; places.len()],
            graph: Graph::new(&problem.chains, &problem.edges),
            clocks,
            added: Vec::new(),
            places,
            nodes,
        };
        for edge in &edges[problem.edges.len()..] {
            spreading.remember(edge);
        }
        Ok(spreading)
    }

    fn remember(&mut self, edge: &Edge) {
        let (before, after) = (self.clocks.id(edge.before), self.clocks.id(edge.after));
        self.added.push((after as u32, self.newest[before]));
        self.newest[before] = (self.added.len() - 1) as u32;
    }

    /// Returns the nodes whose clocks grew; `None` if the edges lead in a circle.
    fn add(&mut self, edges: &[Edge]) -> Option<Vec<u32>> {
        let mut due = BinaryHeap::new();
        let mut grown = Vec::new();
        for edge in edges {
            self.remember(edge);
            self.lift(edge.before, edge.after, &mut due)?;
        }
        let mut last = NONE;
        while let Some(Reverse((_, id))) = due.pop() {
            if last == id {
                continue;
            }
            last = id;
            grown.push(id);
            let node = self.nodes[id as usize];
            let next = Node {
                chain: node.chain,
                position: node.position + 1,
            };
            if self.nodes.get(id as usize + 1) == Some(&next) {
                self.lift(node, next, &mut due)?;
            }
            let after: Vec<Node> = self.graph.outgoing(node).map(|edge| edge.after).collect();
            for after in after {
                self.lift(node, after, &mut due)?;
            }
            let mut entry = self.newest[id as usize];
            while let Some(&(after, earlier)) = self.added.get(entry as usize) {
                self.lift(node, self.nodes[after as usize], &mut due)?;
                entry = earlier;
            }
        }
        grown.sort_unstable();
        grown.dedup();
        Some(grown)
    }

    /// `None`: `after` comes before `before`.
    fn lift(&mut self, before: Node, after: Node, due: &mut BinaryHeap<Reverse<(u32, u32)>>) -> Option<()> {
        if self.clocks.reaches(after, before) {
            return None;
        }
        let width = self.clocks.numbering.chains();
        let (from, to) = (self.clocks.id(before) * width, self.clocks.id(after) * width);
        let mut grew = false;
        for chain in 0..width {
            let theirs = self.clocks.entries[from + chain];
            let mine = &mut self.clocks.entries[to + chain];
            grew |= theirs > *mine;
            *mine = theirs.max(*mine);
        }
        if grew {
            let id = to / width;
            due.push(Reverse((self.places[id], id as u32)));
        }
        Some(())
    }
}

/// What may be forced: intervals, and after them choices, with the nodes on which that depends.
struct Items {
    intervals: Vec<(u32, u32)>,
    choices: u32,
    /// (node, item), sorted.
    depends: Vec<(u32, u32)>,
}

enum Item {
    Interval { exclusion: u32, index: u32 },
    Choice(u32),
}

impl Items {
    fn new(problem: &Problem, clocks: &Clocks) -> Items {
        let mut items = Items {
            intervals: Vec::new(),
            choices: problem.choices.len() as u32,
            depends: Vec::new(),
        };
        for (exclusion, intervals) in (0..).zip(&problem.exclusions) {
            for (index, interval) in (0..).zip(intervals) {
                let item = items.intervals.len() as u32;
                items.intervals.push((exclusion, index));
                items
                    .depends
                    .extend(interval.ends.iter().map(|end| (clocks.id(*end) as u32, item)));
            }
        }
        for (item, choice) in (items.intervals.len() as u32..).zip(&problem.choices) {
            let number = item - items.intervals.len() as u32;
            let own = (0..choice.alternatives.len()).flat_map(|index| problem.clauses_of(number, index));
            let edges = choice.alternatives.iter().flatten();
            let edges = edges.chain(own.flat_map(|clause| &clause.one_of));
            items
                .depends
                .extend(edges.map(|edge| (clocks.id(edge.before) as u32, item)));
        }
        items.depends.sort_unstable();
        items
    }

    fn len(&self) -> u32 {
        self.intervals.len() as u32 + self.choices
    }

    fn of(&self, item: u32) -> Item {
        match self.intervals.get(item as usize) {
            Some(&(exclusion, index)) => Item::Interval { exclusion, index },
            None => Item::Choice(item - self.intervals.len() as u32),
        }
    }

    /// The items that depend on some of `nodes`.
    fn touched(&self, nodes: Vec<u32>) -> Vec<u32> {
        let mut touched = Vec::new();
        for node in nodes {
            let first = self.depends.partition_point(|(other, _)| *other < node);
            let own = self.depends[first..].iter().take_while(|(other, _)| *other == node);
            touched.extend(own.map(|(_, item)| *item));
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }
}
