//! Decides which write each read saw, where that is not known (methods stride and oreo).
//!
//! A read has as many possibilities as there are writes of what it read; and for each of them all other writes are
//! before that write or after the read. There are far too many of these to list. So, as with intervals, an order is made
//! that agrees with all that is known, and would rather agree with the hints and the values; reads that do not find their
//! content in it become choices, and writes that come between become clauses.
use crate::Hints;
use crate::nodes::Lists;
use crate::nodes::Numbering;
use crate::order::Graph;
use crate::problem::ANYTHING;
use crate::problem::Edge;
use crate::problem::Node;
use crate::problem::Problem;
use crate::problem::Register;
use crate::problem::Use;
use crate::search::Circle;
use crate::search::Layer;
use crate::search::Resolved;
use crate::search::circle;
use crate::search::engine::Engine;
use crate::search::engine::Literal;
use crate::search::engine::negated;
use crate::search::incremental::Incremental;
use crate::search::links;
use crate::search::part::Edges;
use crate::search::part::Part;
use std::collections::BTreeMap;

/// So many possibilities of a read are looked at, until none of them will do.
const WINDOW: usize = 16;

/// So many possibilities of a read are enough, nearly always: versions are nearly right.
const NEAR: usize = 6;

pub(super) fn search(problem: &Problem, hints: Hints) -> Result<Resolved, Circle> {
    let graph = Graph::new(&problem.chains, &problem.edges);
    if let Err(cycle) = graph.linear_order() {
        return Err(circle(&cycle, &problem.edges, true));
    }
    if hints == Hints::Use
        && let Ok(resolved) = search_among(problem, graph.numbering(), hints, Some(NEAR))
    {
        return Ok(resolved);
    }
    search_among(problem, graph.numbering(), hints, None)
}

/// `near`: reads saw one of so many writes.
fn search_among(
    problem: &Problem,
    numbering: &Numbering,
    hints: Hints,
    near: Option<usize>,
) -> Result<Resolved, Circle> {
    let id = |node: Node| numbering.id(node) as u32;
    let ids = |edges: &[Edge]| -> Edges { edges.iter().map(|e| (id(e.before), id(e.after))).collect() };
    let edge = |&(before, after): &(u32, u32)| Edge {
        before: node(numbering, before),
        after: node(numbering, after),
    };
    let chains = (0..).zip(&problem.chains);
    let mut part = Part {
        chains: chains
            .flat_map(|(chain, length)| std::iter::repeat_n(chain, *length as usize))
            .collect(),
        edges: ids(&problem.edges),
        ..Part::default()
    };
    let soft: Edges = match hints {
        Hints::Use => problem
            .registers
            .iter()
            .flat_map(|register| ids(&register.hints))
            .collect(),
        Hints::Ignore => Edges::new(),
    };
    let registers = problem.registers.iter();
    let mut places: Vec<Place> = registers.map(|register| place(register, numbering, &part)).collect();
    links::link(&mut part, &mut places, numbering.chains(), near);
    // What follows may contradict itself.
    let implied: Vec<Edge> = part.edges.iter().map(edge).collect();
    if let Err(cycle) = Graph::new(&problem.chains, &implied).linear_order() {
        return Err(circle(&cycle, &implied, false));
    }
    let mut search = Search::new(&part, places, numbering, soft);
    if !search.run() {
        return Err(Circle {
            edges: search.engine.circle.iter().map(edge).collect(),
            recorded: false,
        });
    }
    let mut edges = problem.edges.clone();
    edges.extend(search.finish().iter().map(edge));
    edges.sort_unstable();
    edges.dedup();
    Ok(Resolved {
        edges,
        layer: match search.engine.decisions {
            0 => Layer::Greedy,
            _ => Layer::Searched,
        },
        components: 1,
        decisions: search.engine.decisions,
        conflicts: search.engine.conflicts,
        ..Resolved::default()
    })
}

fn node(numbering: &Numbering, number: u32) -> Node {
    let mut chain = 0;
    let mut end = numbering.chains() as u32;
    while end - chain > 1 {
        let middle = chain + (end - chain) / 2;
        let first = Node {
            chain: middle,
            position: 0,
        };
        if numbering.id(first) <= number as usize {
            chain = middle;
        } else {
            end = middle;
        }
    }
    let first = numbering.id(Node { chain, position: 0 });
    Node {
        chain,
        position: number - first as u32,
    }
}

/// An access to a register.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) node: u32,
    pub(super) content: u32,
    pub(super) version: u64,
    pub(super) writes: bool,
}

/// A register, in numbers.
pub(super) struct Place {
    /// Reads before writes of the same node; otherwise by node.
    pub(super) accesses: Vec<Access>,
    pub(super) initial: Option<u32>,
    likely: Option<u32>,
    /// What it may have held from the beginning, each with the literal that says so.
    initials: BTreeMap<u32, Literal>,
    /// By content, the writes of it; indices.
    pub(super) writes: BTreeMap<u32, Vec<u32>>,
    /// What reads may have seen, by index, where that was looked into.
    pub(super) possible: BTreeMap<u32, Vec<Seen>>,
    /// The first write of each chain; indices.
    firsts: Vec<u32>,
    /// For reads that are choices, by index.
    choices: BTreeMap<u32, Choice>,
}

struct Choice {
    taken: Vec<(Literal, Seen)>,
    /// Possibilities that were not looked at yet, the likeliest last, and the literal that says it is one of them.
    others: Vec<Seen>,
    more: Option<Literal>,
}

/// What is unlikely, the most unlikely first.
const OTHER_INITIAL: u8 = 0;
const LIKELY_INITIAL: u8 = 1;

/// What a read saw.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Initial,
    /// Index of the write.
    Write(u32),
}

struct Search<'a> {
    part: &'a Part,
    engine: Engine<'a>,
    places: Vec<Place>,
    /// For each node, register and index of its accesses.
    marks: Lists<(u32, u32)>,
    soft: Lists<u32>,
    soft_count: Vec<u32>,
    /// The first node of each chain.
    heads: Vec<u32>,
    chains: usize,
    /// The literal of an edge.
    literals: BTreeMap<(u32, u32), Literal>,
}

impl<'a> Search<'a> {
    fn new(part: &'a Part, places: Vec<Place>, numbering: &Numbering, soft: Edges) -> Search<'a> {
        let nodes = part.chains.len();
        let of_all = (0..).zip(&places).flat_map(|(register, place)| {
            let accesses = (0..).zip(&place.accesses);
            accesses.map(move |(index, access)| (access.node as usize, (register, index)))
        });
        let marks = Lists::new(nodes, of_all, (0, 0));
        let mut soft_count = vec![0; nodes];
        soft.iter().for_each(|(_, after)| soft_count[*after as usize] += 1);
        let is_head = |node: &u32| *node == 0 || part.chains[*node as usize - 1] != part.chains[*node as usize];
        Search {
            part,
            engine: Engine::new(part),
            places,
            marks,
            soft: Lists::new(nodes, soft.iter().map(|(before, after)| (*before as usize, *after)), 0),
            soft_count,
            heads: (0..nodes as u32).filter(is_head).collect(),
            chains: numbering.chains(),
            literals: BTreeMap::new(),
        }
    }

    /// False: there is no order.
    fn run(&mut self) -> bool {
        // Before anything is inserted, the graph has to know an order.
        let order = self.order();
        self.engine.graph.reorder(&order);
        while self.add_violated() {
            if !self.engine.satisfy() {
                return false;
            }
            let order = self.order();
            debug_assert_eq!(order.len(), self.part.chains.len(), "the graph has no circles");
            self.engine.graph.reorder(&order);
        }
        true
    }

    /// All nodes, in an order that agrees with the graph.
    fn order(&self) -> Vec<u32> {
        Walk::new(self).run()
    }

    fn at(&self, node: u32) -> u32 {
        self.engine.graph.place(node)
    }

    /// The accesses of a register as the graph's order has them; indices.
    fn sorted(&self, place: &Place) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..place.accesses.len() as u32).collect();
        sorted.sort_by_key(|&index| {
            let access = place.accesses[index as usize];
            (self.at(access.node), access.writes)
        });
        sorted
    }

    /// Makes choices and clauses of what the graph's order violates. False: nothing is.
    fn add_violated(&mut self) -> bool {
        let mut violated = false;
        for register in 0..self.places.len() {
            let place = &self.places[register];
            let sorted = self.sorted(place);
            let mut wrong = Vec::new();
            let mut content = place.initial;
            for &index in &sorted {
                let access = place.accesses[index as usize];
                if access.writes {
                    content = Some(access.content);
                } else if !self.finds(place, index, content) {
                    wrong.push(index);
                }
            }
            violated |= !wrong.is_empty();
            for read in wrong {
                self.correct(register, read, &sorted);
            }
        }
        violated
    }

    /// Does this read find what it read, if the register has this content? Nobody knows what was there from the beginning, so
    /// nobody may be taken to have seen it unless there is no other way.
    fn finds(&self, place: &Place, read: u32, content: Option<u32>) -> bool {
        let wanted = place.accesses[read as usize].content;
        match content {
            _ if wanted == ANYTHING => true,
            Some(found) => found == wanted || found == ANYTHING,
            None => {
                let taken = place.choices.get(&read).into_iter().flat_map(|choice| &choice.taken);
                let mut initial = taken.filter(|(_, seen)| *seen == Seen::Initial);
                initial.any(|(literal, _)| self.engine.is_true(*literal))
            }
        }
    }

    fn correct(&mut self, register: usize, read: u32, sorted: &[u32]) {
        let Some(choice) = self.places[register].choices.get(&read) else {
            let others = self.possibilities(register, read);
            let choice = Choice {
                taken: Vec::new(),
                others,
                more: None,
            };
            self.places[register].choices.insert(read, choice);
            return self.look_further(register, read);
        };
        if choice.more.is_some_and(|more| self.engine.is_true(more)) {
            return self.look_further(register, read);
        }
        let is_true = |(literal, _): &&(Literal, Seen)| self.engine.is_true(*literal);
        let taken: Vec<(Literal, Seen)> = choice.taken.iter().filter(is_true).copied().collect();
        for (literal, seen) in taken {
            if let Seen::Write(write) = seen {
                self.add_clauses(register, read, write, literal, sorted);
            }
        }
    }

    /// What a read may have seen, the likeliest last.
    fn possibilities(&self, register: usize, read: u32) -> Vec<Seen> {
        let place = &self.places[register];
        let Access {
            node, content, version, ..
        } = place.accesses[read as usize];
        let chain = self.part.chains[node as usize];
        let is_own = |write: u32| self.part.chains[place.accesses[write as usize].node as usize] == chain;
        let node_of = |write: u32| place.accesses[write as usize].node;
        // Accesses are in the order of nodes, and so each chain's are next to each other.
        let before = &place.accesses[..read as usize];
        let own_last = before
            .iter()
            .rposition(|access| access.writes && access.node < node)
            .map(|index| index as u32)
            .filter(|write| is_own(*write));
        let of = |content: u32| place.writes.get(&content).into_iter().flatten().copied();
        let writes = of(content).chain(of(ANYTHING).filter(|_| content != ANYTHING));
        let may_be = |write: &u32| !is_own(*write) || Some(*write) == own_last;
        let mut seen: Vec<Seen> = writes.filter(may_be).map(Seen::Write).collect();
        if own_last.is_none() && place.initial.is_none_or(|initial| initial == content) {
            seen.push(Seen::Initial);
        }
        if let Some(possible) = place.possible.get(&read) {
            seen.clone_from(possible);
        }
        let here = self.at(node);
        seen.sort_by_key(|seen| {
            let there = match seen {
                Seen::Initial => 0,
                Seen::Write(write) => self.at(node_of(*write)),
            };
            let unlikely = match seen {
                Seen::Initial if place.initial.is_some() => None,
                Seen::Initial if place.likely == Some(content) => Some(0),
                Seen::Initial => Some(2),
                Seen::Write(write) => (place.accesses[*write as usize].version > version).then_some(1),
            };
            // The last one before it, or else the first one after it.
            std::cmp::Reverse((unlikely, there > here, here.abs_diff(there)))
        });
        seen
    }

    /// Makes literals of the next possibilities.
    fn look_further(&mut self, register: usize, read: u32) {
        let at = self.at(self.places[register].accesses[read as usize].node);
        let place = &mut self.places[register];
        let node = place.accesses[read as usize].node;
        let content = place.accesses[read as usize].content;
        let choice = place.choices.get_mut(&read).expect("it is a choice already");
        let more = choice.more.take();
        let rest = choice.others.len().saturating_sub(WINDOW);
        let next = choice.others.split_off(rest);
        let is_all = choice.others.is_empty();
        let mut clause: Vec<Literal> = more.map(negated).into_iter().collect();
        for (index, seen) in next.into_iter().rev().enumerate() {
            let place = &mut self.places[register];
            let edges: Edges = match seen {
                Seen::Write(write) => vec![(place.accesses[write as usize].node, node)],
                Seen::Initial => {
                    let firsts = place.firsts.iter().map(|first| place.accesses[*first as usize].node);
                    // What a thread writes itself, it writes later; or with this event.
                    let others = firsts.filter(|first| *first != node);
                    others.map(|first| (node, first)).collect()
                }
            };
            let literal = self
                .engine
                .add_variable(edges, Vec::new(), index == 0 && more.is_none());
            if seen == Seen::Initial && place.initial.is_none() {
                let initials = &mut place.initials;
                if !initials.contains_key(&content) {
                    // A replay finds what was there, whoever is taken to have seen it: so nobody is, unless he must.
                    let is_likely = place.likely == Some(content);
                    let rank = if is_likely { LIKELY_INITIAL } else { OTHER_INITIAL };
                    let said = self.engine.add_unlikely_variable(rank);
                    for other in initials.values() {
                        self.engine.add_clause(vec![negated(said), negated(*other)]);
                    }
                    initials.insert(content, said);
                }
                self.engine.add_clause(vec![negated(literal), initials[&content]]);
            }
            clause.push(literal);
            let choice = place.choices.get_mut(&read).expect("it is a choice already");
            choice.taken.push((literal, seen));
        }
        if !is_all {
            let more = self.engine.add_variable(Vec::new(), Vec::new(), false);
            self.engine.give_order(more, earliness(at));
            clause.push(more);
            let choice = self.places[register].choices.get_mut(&read);
            choice.expect("it is a choice already").more = Some(more);
        }
        self.engine.add_clause(clause);
    }

    /// If the read saw this write, those that the order has between them come before the write or after the read.
    fn add_clauses(&mut self, register: usize, read: u32, write: u32, literal: Literal, sorted: &[u32]) {
        let place = &self.places[register];
        let (from, to) = (place.accesses[write as usize].node, place.accesses[read as usize].node);
        let first = sorted.partition_point(|index| self.at(place.accesses[*index as usize].node) <= self.at(from));
        // The last of each chain: if that has to come before, so have the others.
        let mut between: BTreeMap<u32, u32> = BTreeMap::new();
        for &index in &sorted[first..] {
            let access = place.accesses[index as usize];
            if self.at(access.node) >= self.at(to) {
                break;
            }
            if access.writes {
                between.insert(self.part.chains[access.node as usize], access.node);
            }
        }
        for other in between.into_values() {
            let before = self.literal((other, from), true);
            let after = self.literal((to, other), false);
            self.engine.add_clause(vec![negated(literal), before, after]);
        }
    }

    /// The literal that stands for `edge`, and its negation for the edge in the other direction.
    fn literal(&mut self, edge: (u32, u32), phase: bool) -> Literal {
        if let Some(&literal) = self.literals.get(&edge) {
            return literal;
        }
        let reverse = (edge.1, edge.0);
        let literal = self.engine.add_variable(vec![edge], vec![reverse], phase);
        let at = self.at(edge.0).min(self.at(edge.1));
        self.engine.give_order(literal, earliness(at));
        self.literals.insert(edge, literal);
        self.literals.insert(reverse, negated(literal));
        literal
    }

    /// Neighbours in the order, of which one writes.
    fn finish(&self) -> Edges {
        let mut edges = Edges::new();
        let mut add = |before: u32, after: u32| {
            if self.part.chains[before as usize] != self.part.chains[after as usize] {
                edges.push((before, after));
            }
        };
        for place in &self.places {
            let mut write = None;
            let mut reads = Vec::new();
            for index in self.sorted(place) {
                let access = place.accesses[index as usize];
                if let Some(before) = write {
                    add(before, access.node);
                }
                if access.writes {
                    reads.drain(..).for_each(|read| add(read, access.node));
                    write = Some(access.node);
                } else {
                    reads.push(access.node);
                }
            }
        }
        edges
    }
}

fn place(register: &Register, numbering: &Numbering, part: &Part) -> Place {
    let access = |of: &Use, writes| Access {
        node: numbering.id(of.node) as u32,
        content: of.content,
        version: of.version,
        writes,
    };
    let reads = register.reads.iter().map(|read| access(read, false));
    let all = reads.chain(register.writes.iter().map(|write| access(write, true)));
    let mut accesses: Vec<Access> = all.collect();
    accesses.sort_by_key(|access| (access.node, access.writes));
    let mut writes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut firsts: Vec<u32> = Vec::new();
    for (index, access) in (0..).zip(&accesses).filter(|(_, access)| access.writes) {
        writes.entry(access.content).or_default().push(index);
        let chain = |index: u32| part.chains[accesses[index as usize].node as usize];
        if firsts.last().is_none_or(|first| chain(*first) != chain(index)) {
            firsts.push(index);
        }
    }
    Place {
        accesses,
        initial: register.initial,
        likely: register.likely,
        initials: BTreeMap::new(),
        writes,
        possible: BTreeMap::new(),
        firsts,
        choices: BTreeMap::new(),
    }
}

/// What comes early is decided first.
fn earliness(at: u32) -> u64 {
    u64::from(u32::MAX - at)
}

/// Makes an order: whoever reads what is there, or comes next by the hints, goes on.
struct Walk<'s, 'a> {
    search: &'s Search<'a>,
    graph: &'s Incremental<'a>,
    /// For each node, how many edges and how many hints are still before it.
    hard: Vec<u32>,
    soft: Vec<u32>,
    /// The next node of each chain that has one.
    next: Vec<Option<u32>>,
    /// What each register holds.
    contents: Vec<Option<u32>>,
    order: Vec<u32>,
}

impl<'s, 'a> Walk<'s, 'a> {
    fn new(search: &'s Search<'a>) -> Walk<'s, 'a> {
        let graph = &search.engine.graph;
        let nodes = search.part.chains.len();
        let mut next = vec![None; search.chains];
        for head in &search.heads {
            next[search.part.chains[*head as usize] as usize] = Some(*head);
        }
        Walk {
            search,
            graph,
            hard: (0..nodes as u32).map(|node| graph.incoming_count(node)).collect(),
            soft: search.soft_count.clone(),
            next,
            contents: search.places.iter().map(|place| place.initial).collect(),
            order: Vec::with_capacity(nodes),
        }
    }

    fn run(mut self) -> Vec<u32> {
        let chains = self.next.len();
        let mut last = 0;
        loop {
            // How bad it would be to let a chain go on; those after the last one first.
            let mut best: Option<((bool, u32), usize)> = None;
            for chain in (0..chains).map(|offset| (last + offset) % chains) {
                let Some(badness) = self.badness(chain) else { continue };
                if best.is_none_or(|(least, _)| badness < least) {
                    best = Some((badness, chain));
                }
                if badness == (false, 0) {
                    break;
                }
            }
            let Some((_, chain)) = best else { break };
            last = chain;
            self.pass(chain);
            while self.badness(chain) == Some((false, 0)) {
                self.pass(chain);
            }
        }
        self.order
    }

    /// Does the chain's next node read what is not there, and how many hints does it not follow? `None`: it cannot go on.
    fn badness(&self, chain: usize) -> Option<(bool, u32)> {
        let node = self.next[chain].filter(|node| self.hard[*node as usize] == 0)?;
        let is_wrong = |&(register, index): &(u32, u32)| {
            let place = &self.search.places[register as usize];
            let there = self.contents[register as usize];
            !place.accesses[index as usize].writes && !self.search.finds(place, index, there)
        };
        let wrong = self.search.marks.of(node as usize).iter().any(is_wrong);
        Some((wrong, self.soft[node as usize]))
    }

    fn pass(&mut self, chain: usize) {
        let Some(node) = self.next[chain] else { return };
        self.order.push(node);
        self.next[chain] = self.graph.next_on_chain(node);
        for after in self.graph.outgoing(node) {
            self.hard[after as usize] -= 1;
        }
        for after in self.search.soft.of(node as usize) {
            self.soft[*after as usize] -= 1;
        }
        for &(register, index) in self.search.marks.of(node as usize) {
            let access = self.search.places[register as usize].accesses[index as usize];
            if access.writes {
                self.contents[register as usize] = Some(access.content);
            }
        }
    }
}
