//! Conflict-driven search whose literals stand for edges of a graph without circles.
//!
//! Literals that are true have their edges in the graph. If an edge would close a circle, the literals on the circle cannot
//! all be true: a clause. From it the search learns (first unique implication point), goes back as far as the clause
//! allows, and never makes the same mistake again.
use crate::search::incremental::Incremental;
use crate::search::incremental::NOBODY;
use crate::search::incremental::Step;
use crate::search::part::Edges;
use crate::search::part::Part;
use std::collections::BinaryHeap;

/// Twice the number of a variable, and one more if it is negated.
pub(super) type Literal = u32;
pub(super) type Literals = Vec<Literal>;

struct Clause {
    /// The first two are watched.
    literals: Literals,
    activity: f64,
    /// It follows from others, and may be forgotten.
    learned: bool,
}

/// Conflicts from one restart to the next, times Luby's sequence.
const RESTART: u64 = 128;
/// Learned clauses to keep at first.
const LEARNED: usize = 20_000;
const NONE: u32 = u32::MAX;

pub(super) struct Engine<'a> {
    pub(super) graph: Incremental<'a>,
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
    /// Variables by activity, or as they are given; some more than once, or no longer open.
    candidates: BinaryHeap<(u64, u32)>,
    /// By variable, if it is not decided by activity: those with higher numbers first.
    given: Vec<Option<u64>>,
    /// Variables that are decided before all others, and then to be false: by rank. And how many of them are known to have
    /// values.
    unlikely: Vec<(u8, u32)>,
    unlikely_known: usize,
    has_new_unlikely: bool,
    clauses: Vec<Clause>,
    learned: usize,
    learned_max: usize,
    /// By literal: clauses that watch its becoming false.
    watches: Vec<Vec<u32>>,
    trail: Literals,
    /// Where each level begins on the trail.
    level_starts: Vec<usize>,
    /// How much of the trail has been followed up.
    followed: usize,
    /// Edges in the graph, with the place on the trail that they belong to.
    inserted: Vec<(u32, u32, usize)>,
    /// Literals that are true, whatever is decided, and not yet on the trail.
    facts: Literals,
    /// Clauses that were false when they were added. Their watches do not tell, unless they become true for a while.
    conflicting: Vec<Literals>,
    seen: Vec<bool>,
    /// The newest circle that was met.
    pub(super) circle: Edges,
    pub(super) decisions: u64,
    pub(super) conflicts: u64,
    restarts: u64,
    until_restart: u64,
}

pub(super) fn negated(literal: Literal) -> Literal {
    literal ^ 1
}

fn variable(literal: Literal) -> usize {
    literal as usize / 2
}

fn value(values: &[i8], literal: Literal) -> i8 {
    let value = values[variable(literal)];
    if literal & 1 == 0 { value } else { -value }
}

impl<'a> Engine<'a> {
    pub(super) fn new(part: &'a Part) -> Engine<'a> {
        Engine {
            graph: Incremental::new(part),
            edges: Vec::new(),
            values: Vec::new(),
            levels: Vec::new(),
            reasons: Vec::new(),
            phases: Vec::new(),
            activities: Vec::new(),
            bump: 1.0,
            candidates: BinaryHeap::new(),
            given: Vec::new(),
            unlikely: Vec::new(),
            unlikely_known: 0,
            has_new_unlikely: false,
            clauses: Vec::new(),
            learned: 0,
            learned_max: LEARNED,
            watches: Vec::new(),
            trail: Vec::new(),
            level_starts: Vec::new(),
            followed: 0,
            inserted: Vec::new(),
            facts: Vec::new(),
            conflicting: Vec::new(),
            seen: Vec::new(),
            circle: Vec::new(),
            decisions: 0,
            conflicts: 0,
            restarts: 0,
            until_restart: RESTART,
        }
    }

    /// Gives every variable a value. False: there is no way to.
    pub(super) fn satisfy(&mut self) -> bool {
        if std::mem::take(&mut self.has_new_unlikely) {
            self.back_to(0);
            self.unlikely_known = 0;
        }
        if !self.enter_facts() {
            return false;
        }
        loop {
            if let Some(conflict) = self.next_conflicting().or_else(|| self.propagate()) {
                self.conflicts += 1;
                if !self.learn(conflict) {
                    return false;
                }
                self.until_restart = self.until_restart.saturating_sub(1);
            } else if self.until_restart == 0 {
                self.restarts += 1;
                self.until_restart = RESTART * luby(self.restarts);
                self.back_to(0);
                self.forget();
            } else if let Some(literal) = self.next_decision() {
                self.decisions += 1;
                self.level_starts.push(self.trail.len());
                self.assign(literal, NONE);
            } else {
                return true;
            }
        }
    }

    pub(super) fn is_true(&self, literal: Literal) -> bool {
        value(&self.values, literal) == 1
    }

    /// A new variable; its edges if true, and if false.
    pub(super) fn add_variable(&mut self, yes: Edges, no: Edges, phase: bool) -> Literal {
        let variable = self.values.len() as u32;
        self.edges.extend([yes, no]);
        self.values.push(0);
        self.levels.push(0);
        self.reasons.push(NONE);
        self.phases.push(phase);
        self.activities.push(0.0);
        self.seen.push(false);
        self.watches.extend([Vec::new(), Vec::new()]);
        self.given.push(None);
        self.candidates.push((0, variable));
        2 * variable
    }

    /// Decide it before others with lower numbers, whatever conflicts it has been in. What lies close together is then
    /// decided together, and a conflict takes back little else.
    pub(super) fn give_order(&mut self, literal: Literal, order: u64) {
        self.given[variable(literal)] = Some(order);
        self.candidates.push((order, variable(literal) as u32));
    }

    fn priority(&self, variable: usize) -> u64 {
        self.given[variable].unwrap_or(self.activities[variable].to_bits())
    }

    /// A new variable without edges that is true only if whatever was decided about other such variables leaves no other way.
    /// Those of a higher rank rather than those of a lower one.
    pub(super) fn add_unlikely_variable(&mut self, rank: u8) -> Literal {
        let literal = self.add_variable(Vec::new(), Vec::new(), false);
        let place = self.unlikely.partition_point(|(other, _)| *other <= rank);
        self.unlikely.insert(place, (rank, variable(literal) as u32));
        self.has_new_unlikely = true;
        literal
    }

    /// At least one of `literals` is to be true, whatever they are now.
    pub(super) fn add_clause(&mut self, mut literals: Literals) {
        literals.sort_unstable();
        literals.dedup();
        if literals.windows(2).any(|pair| pair[0] == negated(pair[1])) {
            return;
        }
        // Those that are not false are watched, and then those that became so last.
        literals.sort_by_key(|&literal| match value(&self.values, literal) {
            -1 => std::cmp::Reverse(self.levels[variable(literal)]),
            _ => std::cmp::Reverse(u32::MAX),
        });
        match literals[..] {
            [] => self.conflicting.push(literals),
            [only] => self.facts.push(only),
            [first, ..] => {
                if value(&self.values, first) == -1 {
                    self.conflicting.push(literals.clone());
                }
                self.enter(literals, false);
            }
        }
    }

    fn next_conflicting(&mut self) -> Option<Literals> {
        while let Some(literals) = self.conflicting.pop() {
            if literals.iter().all(|&literal| value(&self.values, literal) == -1) {
                return Some(literals);
            }
        }
        None
    }

    fn enter(&mut self, literals: Literals, learned: bool) -> u32 {
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

    fn watch(&mut self, clause: u32) {
        for place in 0..2 {
            let watched = self.clauses[clause as usize].literals[place];
            self.watches[watched as usize].push(clause);
        }
    }

    fn next_decision(&mut self) -> Option<Literal> {
        while let Some((_, variable)) = self.unlikely.get(self.unlikely_known) {
            if self.values[*variable as usize] == 0 {
                return Some(2 * variable + 1);
            }
            self.unlikely_known += 1;
        }
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
        for literal in self.trail.split_off(length) {
            let variable = variable(literal);
            self.values[variable] = 0;
            self.candidates.push((self.priority(variable), variable as u32));
        }
        self.level_starts.truncate(level);
        self.unlikely_known = 0;
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
            let index = self.enter(learned, true);
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
        // What follows from the others need not be said.
        let is_needed = |engine: &Engine<'_>, literal: Literal| {
            let reason = engine.clauses.get(engine.reasons[variable(literal)] as usize);
            let known = |other: &Literal| {
                let variable = variable(*other);
                *other == negated(literal) || engine.seen[variable] || engine.levels[variable] == 0
            };
            reason.is_none_or(|clause| !clause.literals.iter().all(known))
        };
        let mut place = 0;
        learned.retain(|&literal| {
            place += 1;
            place == 1 || is_needed(self, literal)
        });
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
        self.candidates = (0..self.values.len())
            .map(|variable| (self.priority(variable), variable as u32))
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
        let is_long = |clause: &Clause| clause.literals.len() > 2;
        learned.sort_by(|one, other| {
            let by_length = is_long(one).cmp(&is_long(other));
            by_length.then(other.activity.total_cmp(&one.activity))
        });
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
