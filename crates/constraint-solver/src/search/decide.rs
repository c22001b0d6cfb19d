//! Decides one part: which of its intervals and alternatives come to be searched for, and when the search is over.
//!
//! There may be millions of pairs of intervals, nearly all of which come out right by themselves. So pairs and choices
//! become variables only when an order that agrees with all edges so far violates them (`greedy` gives one, `engine`
//! decides).
use crate::search::engine::Engine;
use crate::search::engine::Literal;
use crate::search::engine::Literals;
use crate::search::engine::negated;
use crate::search::greedy::Greedy;
use crate::search::part::Alternative;
use crate::search::part::Edges;
use crate::search::part::Part;
use crate::search::part::Span;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What the search found for a part.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    /// Together with the part's edges they put the intervals of each exclusion into a row, and satisfy each choice.
    pub(super) edges: Edges,
    pub(super) decisions: u64,
    pub(super) conflicts: u64,
}

/// An order of the part's nodes; or edges that lead in a circle, with the last decisions in it.
pub(super) fn decide(part: &Part) -> Result<Decided, Edges> {
    let mut search = Search::new(part);
    loop {
        if !search.engine.satisfy() {
            return Err(search.engine.circle);
        }
        let order = search.greedy.order(part, &search.engine.graph);
        debug_assert_eq!(order.len(), part.chains.len(), "the graph has no circles");
        search.engine.graph.reorder(&order);
        if !search.add_violated() {
            return Ok(search.finish());
        }
    }
}

struct Search<'a> {
    part: &'a Part,
    greedy: Greedy,
    engine: Engine<'a>,
    /// The literal of an edge.
    literals: BTreeMap<(u32, u32), Literal>,
    /// For each choice that is a clause already, the literals of its alternatives.
    choices: Vec<Option<Literals>>,
    /// Clauses of alternatives (choice, alternative, place) that are clauses already.
    clauses: BTreeSet<(usize, usize, usize)>,
}

impl<'a> Search<'a> {
    fn new(part: &'a Part) -> Search<'a> {
        Search {
            part,
            greedy: Greedy::new(part),
            engine: Engine::new(part),
            literals: BTreeMap::new(),
            choices: vec![None; part.choices.len()],
            clauses: BTreeSet::new(),
        }
    }

    /// Makes variables and clauses of what the graph's order violates. False: nothing is.
    fn add_violated(&mut self) -> bool {
        let mut violated = false;
        for spans in &self.part.exclusions {
            for (one, other) in self.overlaps(spans) {
                violated = true;
                // `one` begins first; the recorded order may have been the other way round.
                let phase = !self.part.hinted || one < other;
                self.add_pair(&spans[one], &spans[other], phase);
            }
        }
        for choice in 0..self.part.choices.len() {
            let alternatives = &self.part.choices[choice];
            if alternatives.iter().any(|alternative| self.is_satisfied(alternative)) {
                continue;
            }
            violated = true;
            let Some(literals) = self.choices[choice].clone() else {
                self.add_choice(choice);
                continue;
            };
            for (index, (alternative, literal)) in alternatives.iter().zip(literals).enumerate() {
                if self.engine.is_true(literal) {
                    self.add_clauses_of(choice, index, literal, alternative);
                }
            }
        }
        violated
    }

    /// One of the two comes first.
    fn add_pair(&mut self, one: &Span, other: &Span, phase: bool) {
        let (yes, no) = (one.before(other), other.before(one));
        let pair = self.engine.add_variable(yes.clone(), no.clone(), phase);
        // As they must not overlap, one edge says it all.
        for (edges, literal) in [(yes, pair), (no, negated(pair))] {
            let [edge] = edges[..] else { continue };
            match self.literals.get(&edge) {
                Some(&same) => {
                    self.engine.add_clause(vec![negated(literal), same]);
                    self.engine.add_clause(vec![literal, negated(same)]);
                }
                None => _ = self.literals.insert(edge, literal),
            }
        }
    }

    /// The literal that stands for `edge`, and its negation for the edge in the other direction.
    fn literal(&mut self, edge: (u32, u32), phase: bool) -> Literal {
        let reverse = (edge.1, edge.0);
        if let Some(&literal) = self.literals.get(&edge) {
            return literal;
        }
        // No node comes before itself, which needs no edge.
        let no = Vec::from_iter((edge.0 != edge.1).then_some(reverse));
        let literal = self.engine.add_variable(vec![edge], no, phase);
        self.literals.insert(edge, literal);
        self.literals.entry(reverse).or_insert(negated(literal));
        literal
    }

    fn add_choice(&mut self, choice: usize) {
        let alternatives = &self.part.choices[choice];
        // That which is violated least is tried first; if hinted, the first.
        let broken = |index: &usize| {
            let edges = alternatives[*index].edges.iter();
            edges.filter(|edge| !self.agrees(edge)).count()
        };
        let best = match self.part.hinted {
            true => Some(0),
            false => (0..alternatives.len()).min_by_key(broken),
        };
        let mut literals = Literals::new();
        for (index, alternative) in alternatives.iter().enumerate() {
            let phase = Some(index) == best;
            literals.push(match alternative.edges[..] {
                [edge] if alternative.clauses.is_empty() => self.literal(edge, phase),
                _ => self.engine.add_variable(alternative.edges.clone(), Vec::new(), phase),
            });
        }
        self.engine.add_clause(literals.clone());
        self.choices[choice] = Some(literals);
    }

    /// The alternative that `literal` stands for was chosen: what else it asks for, and the order does not have.
    fn add_clauses_of(&mut self, choice: usize, index: usize, literal: Literal, alternative: &Alternative) {
        for (place, clause) in alternative.clauses.iter().enumerate() {
            if clause.iter().any(|edge| self.agrees(edge)) || !self.clauses.insert((choice, index, place)) {
                continue;
            }
            let mut literals = vec![negated(literal)];
            for (place, edge) in clause.iter().enumerate() {
                literals.push(self.literal(*edge, place == 0));
            }
            self.engine.add_clause(literals);
        }
    }

    fn agrees(&self, &(before, after): &(u32, u32)) -> bool {
        self.engine.graph.place(before) < self.engine.graph.place(after)
    }

    fn is_satisfied(&self, alternative: &Alternative) -> bool {
        let mut clauses = alternative.clauses.iter();
        alternative.edges.iter().all(|edge| self.agrees(edge))
            && clauses.all(|clause| clause.iter().any(|edge| self.agrees(edge)))
    }

    fn end(&self, span: &Span) -> u32 {
        span.ends
            .iter()
            .map(|end| self.engine.graph.place(*end))
            .max()
            .unwrap_or(0)
    }

    fn sorted(&self, spans: &[Span]) -> Vec<usize> {
        let mut sorted: Vec<usize> = (0..spans.len()).collect();
        sorted.sort_by_key(|&index| (self.engine.graph.place(spans[index].start), self.end(&spans[index])));
        sorted
    }

    /// Pairs that overlap, each interval with at most one that began before it; indices.
    fn overlaps(&self, spans: &[Span]) -> Vec<(usize, usize)> {
        let sorted = self.sorted(spans);
        let mut overlaps = Vec::new();
        let Some(&first) = sorted.first() else { return overlaps };
        let (mut longest, mut until) = (first, self.end(&spans[first]));
        for &index in &sorted[1..] {
            let span = &spans[index];
            // One node may begin one interval and end another, so equal places overlap, too.
            if until >= self.engine.graph.place(span.start) {
                overlaps.push((longest, index));
            }
            if self.end(span) > until {
                (longest, until) = (index, self.end(span));
            }
        }
        overlaps
    }

    /// The order's own decisions as edges: they agree with it, so they cannot contradict each other.
    fn finish(&self) -> Decided {
        let mut edges = Edges::new();
        for spans in &self.part.exclusions {
            for pair in self.sorted(spans).windows(2) {
                edges.extend(spans[pair[0]].before(&spans[pair[1]]));
            }
        }
        for alternatives in &self.part.choices {
            let taken = alternatives.iter().find(|alternative| self.is_satisfied(alternative));
            let taken = taken.expect("nothing is violated");
            edges.extend(&taken.edges);
            let agreeing = |clause: &Edges| clause.iter().copied().find(|edge| self.agrees(edge));
            edges.extend(taken.clauses.iter().filter_map(agreeing));
        }
        Decided {
            edges,
            decisions: self.engine.decisions,
            conflicts: self.engine.conflicts,
        }
    }
}
