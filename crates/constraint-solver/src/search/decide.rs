//! Decides one part: conflict-driven search with an incremental topological order as its theory.
//!
//! A literal stands for edges: "this interval before that one", or an alternative of a choice. Literals that are true have
//! their edges in the graph. If an edge would close a circle, the literals on the circle cannot all be true: a clause.
//! From it the search learns (first unique implication point), goes back as far as the clause allows, and never makes the
//! same mistake again.
//!
//! There may be millions of pairs of intervals, nearly all of which come out right by themselves. So pairs become
//! variables only when an order that agrees with all edges so far has them overlapping.
use crate::search::greedy::Greedy;
use crate::search::incremental::Incremental;
use crate::search::incremental::NOBODY;
use crate::search::incremental::Step;
use crate::search::part::Alternative;
use crate::search::part::Edges;
use crate::search::part::Part;
use crate::search::part::Span;
use std::collections::BTreeSet;
use std::collections::BinaryHeap;

/// Twice the number of a variable, and one more if it is negated.
type Literal = u32;
type Literals = Vec<Literal>;

struct Clause {
    /// The first two are watched.
    literals: Literals,
    activity: f64,
    /// It follows from others, and may be forgotten.
    learned: bool,
}

/// What the search found for a part.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    /// Together with the part's edges they put the intervals of each exclusion into a row, and satisfy each choice.
    pub(super) edges: Edges,
    pub(super) decisions: u64,
    pub(super) conflicts: u64,
}

/// Conflicts from one restart to the next, times Luby's sequence.
const RESTART: u64 = 256;
/// Learned clauses to keep at first.
const LEARNED: usize = 20_000;
const NONE: u32 = u32::MAX;

/// An order of the part's nodes; or edges that lead in a circle, with the last decisions in it.
pub(super) fn decide(part: &Part) -> Result<Decided, Vec<(u32, u32)>> {
    Search::new(part).run()
}

struct Search<'a> {
    part: &'a Part,
    greedy: Greedy,
    graph: Incremental<'a>,
    /// By literal: the edges it stands for.
    edges: Vec<Edges>,
    /// By variable: -1 false, 0 open, 1 true.
    values: Vec<i8>,
    levels: Vec<u32>,
    /// The clause that made it so, or `NONE`.
    reasons: Vec<u32>,
    /// The value to try first.
    phases: Vec<bool>,
    activities: Vec<f64>,
    bump: f64,
    /// Variables by activity; some more than once, or no longer open.
    candidates: BinaryHeap<(u64, u32)>,
    clauses: Vec<Clause>,
    learned: usize,
    learned_max: usize,
    /// By literal: clauses that watch its becoming false.
    watches: Vec<Vec<u32>>,
    trail: Vec<Literal>,
    /// Where each level begins on the trail.
    level_starts: Vec<usize>,
    /// How much of the trail has been followed up.
    followed: usize,
    /// Edges in the graph, with the place on the trail that they belong to.
    inserted: Vec<(u32, u32, usize)>,
    circle: Vec<(u32, u32)>,
    /// For each choice that is a clause already, the literal of its first alternative; those of the others follow.
    choices: Vec<Option<Literal>>,
    /// Clauses of alternatives (choice, alternative, place) that are clauses already.
    clauses_of: BTreeSet<(usize, usize, usize)>,
    /// Literals that were found to be true, whatever is decided, and are not yet.
    facts: Vec<Literal>,
    seen: Vec<bool>,
    decided: Decided,
}

fn negated(literal: Literal) -> Literal {
    literal ^ 1
}

fn variable(literal: Literal) -> usize {
    literal as usize / 2
}

/// -1 false, 0 open, 1 true.
fn value(values: &[i8], literal: Literal) -> i8 {
    let value = values[variable(literal)];
    if literal & 1 == 0 { value } else { -value }
}

impl<'a> Search<'a> {
    fn new(part: &'a Part) -> Search<'a> {
        Search {
            part,
            greedy: Greedy::new(part),
            graph: Incremental::new(part),
            edges: Vec::new(),
            values: Vec::new(),
            levels: Vec::new(),
            reasons: Vec::new(),
            phases: Vec::new(),
            activities: Vec::new(),
            bump: 1.0,
            candidates: BinaryHeap::new(),
            clauses: Vec::new(),
            learned: 0,
            learned_max: LEARNED,
            watches: Vec::new(),
            trail: Vec::new(),
            level_starts: Vec::new(),
            followed: 0,
            inserted: Vec::new(),
            circle: Vec::new(),
            choices: vec![None; part.choices.len()],
            clauses_of: BTreeSet::new(),
            facts: Vec::new(),
            seen: Vec::new(),
            decided: Decided::default(),
        }
    }

    fn run(mut self) -> Result<Decided, Vec<(u32, u32)>> {
        let mut until_restart = RESTART;
        let mut restarts = 0;
        loop {
            if let Some(conflict) = self.propagate() {
                self.decided.conflicts += 1;
                if !self.learn(conflict) {
                    return Err(self.circle);
                }
                until_restart = until_restart.saturating_sub(1);
            } else if until_restart == 0 {
                restarts += 1;
                until_restart = RESTART * luby(restarts);
                self.back_to(0);
                self.forget();
            } else if let Some(literal) = self.next_decision() {
                self.decided.decisions += 1;
                self.level_starts.push(self.trail.len());
                self.assign(literal, NONE);
            } else {
                let order = self.greedy.order(self.part, &self.graph);
                debug_assert_eq!(order.len(), self.part.chains.len(), "the graph has no circles");
                self.graph.reorder(&order);
                if !self.add_violated() {
                    self.finish();
                    return Ok(self.decided);
                }
                if !self.enter_facts() {
                    return Err(self.circle);
                }
            }
        }
    }

    /// A new variable; its edges if true, and if false.
    fn add_variable(&mut self, yes: Edges, no: Edges, phase: bool) -> Literal {
        let variable = self.values.len() as u32;
        self.edges.extend([yes, no]);
        self.values.push(0);
        self.levels.push(0);
        self.reasons.push(NONE);
        self.phases.push(phase);
        self.activities.push(0.0);
        self.seen.push(false);
        self.watches.extend([Vec::new(), Vec::new()]);
        self.candidates.push((0, variable));
        2 * variable
    }

    /// Makes variables of what the graph's order violates. False: nothing is.
    fn add_violated(&mut self) -> bool {
        let known = self.values.len();
        for spans in &self.part.exclusions {
            for (one, other) in self.overlaps(spans) {
                // `one` begins first; the recorded order may have been the other way round.
                let phase = !self.part.hinted || one < other;
                let (one, other) = (&spans[one], &spans[other]);
                self.add_variable(one.before(other), other.before(one), phase);
            }
        }
        for choice in 0..self.part.choices.len() {
            let alternatives = &self.part.choices[choice];
            if alternatives.iter().any(|alternative| self.is_satisfied(alternative)) {
                continue;
            }
            match self.choices[choice] {
                None => self.add_choice(choice),
                Some(first) => {
                    for (index, alternative) in alternatives.iter().enumerate() {
                        let literal = first + 2 * index as u32;
                        if value(&self.values, literal) == 1 {
                            self.add_clauses_of(choice, index, literal, alternative);
                        }
                    }
                }
            }
        }
        self.values.len() > known || !self.facts.is_empty()
    }

    fn add_choice(&mut self, choice: usize) {
        let alternatives = &self.part.choices[choice];
        // That which is violated least is tried first; if hinted, the first.
        let broken = |index: &usize| {
            alternatives[*index]
                .edges
                .iter()
                .filter(|edge| !self.agrees(edge))
                .count()
        };
        let best = match self.part.hinted {
            true => Some(0),
            false => (0..alternatives.len()).min_by_key(broken),
        };
        self.choices[choice] = Some(2 * self.values.len() as u32);
        let add = |(index, alternative): (usize, &Alternative)| {
            self.add_variable(alternative.edges.clone(), Vec::new(), Some(index) == best)
        };
        let literals: Literals = alternatives.iter().enumerate().map(add).collect();
        match literals[..] {
            [only] => self.add_fact(only),
            _ => _ = self.add_clause(literals, false),
        }
    }

    /// The alternative that `literal` stands for was chosen: what else it asks for, and the order does not have.
    fn add_clauses_of(&mut self, choice: usize, index: usize, literal: Literal, alternative: &Alternative) {
        for (place, clause) in alternative.clauses.iter().enumerate() {
            if clause.iter().any(|edge| self.agrees(edge)) || !self.clauses_of.insert((choice, index, place)) {
                continue;
            }
            let add = |(place, &(before, after)): (usize, &(u32, u32))| {
                // No node comes before itself, which needs no edge.
                let reverse = (before != after).then_some((after, before));
                self.add_variable(vec![(before, after)], Vec::from_iter(reverse), place == 0)
            };
            let mut literals: Literals = clause.iter().enumerate().map(add).collect();
            literals.push(negated(literal));
            match literals[..] {
                [only] => self.add_fact(only),
                _ => _ = self.add_clause(literals, false),
            }
        }
    }

    /// `literal` is true, whatever is decided.
    fn add_fact(&mut self, literal: Literal) {
        self.facts.push(literal);
    }

    /// False: one of them is known to be false.
    fn enter_facts(&mut self) -> bool {
        let facts = std::mem::take(&mut self.facts);
        if !facts.is_empty() {
            self.back_to(0);
        }
        for fact in facts {
            match value(&self.values, fact) {
                1 => {}
                0 => self.assign(fact, NONE),
                _ => return false,
            }
        }
        true
    }

    fn add_clause(&mut self, literals: Literals, learned: bool) -> u32 {
        let index = self.clauses.len() as u32;
        self.clauses.push(Clause {
            literals,
            activity: self.bump,
            learned,
        });
        self.learned += usize::from(learned);
        self.watch(index);
        index
    }

    fn watch(&mut self, clause: u32) {
        for place in 0..2 {
            let watched = self.clauses[clause as usize].literals[place];
            self.watches[watched as usize].push(clause);
        }
    }

    fn agrees(&self, &(before, after): &(u32, u32)) -> bool {
        self.graph.place(before) < self.graph.place(after)
    }

    fn is_satisfied(&self, alternative: &Alternative) -> bool {
        let mut clauses = alternative.clauses.iter();
        alternative.edges.iter().all(|edge| self.agrees(edge))
            && clauses.all(|clause| clause.iter().any(|edge| self.agrees(edge)))
    }

    fn end(&self, span: &Span) -> u32 {
        span.ends.iter().map(|end| self.graph.place(*end)).max().unwrap_or(0)
    }

    fn sorted(&self, spans: &[Span]) -> Vec<usize> {
        let mut sorted: Vec<usize> = (0..spans.len()).collect();
        sorted.sort_by_key(|&index| (self.graph.place(spans[index].start), self.end(&spans[index])));
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
            if until >= self.graph.place(span.start) {
                overlaps.push((longest, index));
            }
            if self.end(span) > until {
                (longest, until) = (index, self.end(span));
            }
        }
        overlaps
    }

    /// The order's own decisions as edges: they agree with it, so they cannot contradict each other.
    fn finish(&mut self) {
        for spans in &self.part.exclusions {
            for pair in self.sorted(spans).windows(2) {
                self.decided.edges.extend(spans[pair[0]].before(&spans[pair[1]]));
            }
        }
        for alternatives in &self.part.choices {
            let taken = alternatives.iter().find(|alternative| self.is_satisfied(alternative));
            let taken = taken.expect("nothing is violated");
            self.decided.edges.extend(&taken.edges);
            let agreeing = |clause: &Edges| clause.iter().copied().find(|edge| self.agrees(edge));
            let agreeing: Edges = taken.clauses.iter().filter_map(agreeing).collect();
            self.decided.edges.extend(agreeing);
        }
    }

    fn next_decision(&mut self) -> Option<Literal> {
        while let Some((_, variable)) = self.candidates.pop() {
            if self.values[variable as usize] == 0 {
                return Some(2 * variable + u32::from(!self.phases[variable as usize]));
            }
        }
        None
    }

    fn assign(&mut self, literal: Literal, reason: u32) {
        let variable = variable(literal);
        self.values[variable] = if literal & 1 == 0 { 1 } else { -1 };
        self.levels[variable] = self.level_starts.len() as u32;
        self.reasons[variable] = reason;
        self.phases[variable] = literal & 1 == 0;
        self.trail.push(literal);
    }

    fn back_to(&mut self, level: usize) {
        let Some(&length) = self.level_starts.get(level) else {
            return;
        };
        while let Some(&(before, after, _)) = self.inserted.last().filter(|(.., place)| *place >= length) {
            self.graph.remove(before, after);
            self.inserted.pop();
        }
        for literal in self.trail.drain(length..) {
            let variable = variable(literal);
            self.values[variable] = 0;
            self.candidates
                .push((self.activities[variable].to_bits(), variable as u32));
        }
        self.level_starts.truncate(level);
        self.followed = self.followed.min(length);
    }

    /// Follows up everything on the trail. Returns literals that are all false and of which one has to be true.
    fn propagate(&mut self) -> Option<Literals> {
        while self.followed < self.trail.len() {
            let place = self.followed;
            let literal = self.trail[place];
            self.followed += 1;
            for edge in 0..self.edges[literal as usize].len() {
                let (before, after) = self.edges[literal as usize][edge];
                match self.graph.insert(before, after, literal) {
                    Ok(()) => self.inserted.push((before, after, place)),
                    Err(way) => {
                        self.circle = circle((before, after), &way);
                        return Some(clause(literal, &way));
                    }
                }
            }
            if let Some(conflict) = self.follow_clauses(negated(literal)) {
                return Some(conflict);
            }
        }
        None
    }

    /// Looks at the clauses that watch `falsified`.
    fn follow_clauses(&mut self, falsified: Literal) -> Option<Literals> {
        let mut watchers = std::mem::take(&mut self.watches[falsified as usize]);
        let mut conflict = None;
        let mut kept = 0;
        for at in 0..watchers.len() {
            let index = watchers[at];
            let clause = &mut self.clauses[index as usize].literals;
            if clause[0] == falsified {
                clause.swap(0, 1);
            }
            let other = clause[0];
            if value(&self.values, other) != 1
                && let Some(free) = (2..clause.len()).find(|&i| value(&self.values, clause[i]) != -1)
            {
                clause.swap(1, free);
                self.watches[clause[1] as usize].push(index);
                continue;
            }
            watchers[kept] = index;
            kept += 1;
            match value(&self.values, other) {
                1 => {}
                0 => self.assign(other, index),
                _ => {
                    conflict = Some(self.clauses[index as usize].literals.clone());
                    watchers.copy_within(at + 1.., kept);
                    kept += watchers.len() - at - 1;
                    break;
                }
            }
        }
        watchers.truncate(kept);
        self.watches[falsified as usize] = watchers;
        conflict
    }

    /// Learns from a conflict, and goes back to where what was learned makes a difference. False: there is no order.
    fn learn(&mut self, conflict: Literals) -> bool {
        let newest = conflict.iter().map(|l| self.levels[variable(*l)]).max().unwrap_or(0);
        if newest == 0 {
            return false;
        }
        // A circle of older decisions may have been found late.
        self.back_to(newest as usize);
        let (learned, level) = self.analyse(conflict, newest);
        self.back_to(level as usize);
        let first = learned[0];
        if learned.len() == 1 {
            self.assign(first, NONE);
        } else {
            let index = self.add_clause(learned, true);
            self.assign(first, index);
        }
        self.bump *= 1.0 / 0.95;
        if self.bump > 1e100 {
            self.rescale();
        }
        true
    }

    /// First unique implication point: a clause of which one literal is of the newest level, and the level of the next.
    fn analyse(&mut self, conflict: Literals, newest: u32) -> (Literals, u32) {
        let mut learned = vec![NONE];
        let mut touched = Vec::new();
        let mut open = 0;
        let mut reason = conflict;
        let mut at = self.trail.len();
        loop {
            for literal in reason {
                let variable = variable(literal);
                let level = self.levels[variable];
                if level == 0 || std::mem::replace(&mut self.seen[variable], true) {
                    continue;
                }
                touched.push(variable);
                self.activities[variable] += self.bump;
                if level == newest {
                    open += 1;
                } else {
                    learned.push(literal);
                }
            }
            at -= 1;
            while !self.seen[variable(self.trail[at])] {
                at -= 1;
            }
            let literal = self.trail[at];
            open -= 1;
            if open == 0 {
                learned[0] = negated(literal);
                break;
            }
            let clause = &mut self.clauses[self.reasons[variable(literal)] as usize];
            clause.activity += self.bump;
            reason = clause.literals.clone();
            reason.retain(|other| *other != literal);
        }
        for variable in touched {
            self.seen[variable] = false;
        }
        // The second is watched, too: the newest of the others.
        let by_level = |place: &usize| self.levels[variable(learned[*place])];
        let second = (1..learned.len()).max_by_key(by_level);
        let level = second.map_or(0, |place| self.levels[variable(learned[place])]);
        if let Some(place) = second {
            learned.swap(1, place);
        }
        (learned, level)
    }

    fn rescale(&mut self) {
        let of_clauses = self.clauses.iter_mut().map(|clause| &mut clause.activity);
        let all = self.activities.iter_mut().chain(of_clauses);
        all.for_each(|activity| *activity *= 1e-100);
        self.bump *= 1e-100;
        self.candidates = (0..)
            .zip(&self.activities)
            .map(|(variable, activity): (u32, &f64)| (activity.to_bits(), variable))
            .collect();
    }

    /// At level 0: forgets the less useful half of what was learned, if that is much.
    fn forget(&mut self) {
        if self.learned <= self.learned_max {
            return;
        }
        self.learned_max += self.learned_max / 10;
        let (mut learned, mut kept): (Vec<Clause>, Vec<Clause>) = std::mem::take(&mut self.clauses)
            .into_iter()
            .partition(|clause| clause.learned);
        learned.sort_by(|one, other| other.activity.total_cmp(&one.activity));
        learned.truncate(self.learned_max / 2);
        self.learned = learned.len();
        kept.append(&mut learned);
        self.clauses = kept;
        // What is true at level 0 needs no reason any more.
        self.reasons.fill(NONE);
        self.watches.iter_mut().for_each(Vec::clear);
        for clause in 0..self.clauses.len() as u32 {
            // Watched literals must not be false, unless the clause is true.
            let values = &self.values;
            self.clauses[clause as usize]
                .literals
                .sort_by_key(|&literal| -value(values, literal));
            self.watch(clause);
        }
        self.followed = 0;
        while let Some((before, after, _)) = self.inserted.pop() {
            self.graph.remove(before, after);
        }
    }
}

/// Not all that closed the circle can be true.
fn clause(literal: Literal, way: &[Step]) -> Literals {
    let mut clause: Literals = way
        .iter()
        .map(|step| step.2)
        .filter(|owner| *owner != NOBODY)
        .chain([literal])
        .map(negated)
        .collect();
    clause.sort_unstable();
    clause.dedup();
    clause
}

fn circle(edge: (u32, u32), way: &[Step]) -> Vec<(u32, u32)> {
    let way = way.iter().map(|(before, after, _)| (*before, *after));
    std::iter::once(edge).chain(way).collect()
}

/// 1, 1, 2, 1, 1, 2, 4, … (Luby, Sinclair, Zuckerman: *Optimal speedup of Las Vegas algorithms*, 1993)
fn luby(index: u64) -> u64 {
    let mut index = index;
    loop {
        let bits = 64 - index.leading_zeros();
        if index == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        index -= (1 << (bits - 1)) - 1;
    }
}
