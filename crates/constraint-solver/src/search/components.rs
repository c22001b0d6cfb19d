//! Splits what is undecided into parts that have nothing to do with each other.
//!
//! A circle can only run through nodes that reach each other by edges that hold or *might* be decided for. So the strongly
//! connected components of all these edges can be decided one by one, whatever the others decide. Both orders of an
//! undecided pair are possible, so its two intervals, whole, are in one component.
use crate::nodes::Lists;
use crate::nodes::Numbering;
use crate::problem::Edge;
use crate::problem::Node;
use crate::problem::Problem;
use crate::saturate::Clocks;
use crate::saturate::Saturated;
use crate::search::part::Alternative;
use crate::search::part::Part;
use crate::search::part::Span;

/// Parts, and for each the nodes of the problem that its nodes stand for.
pub(super) struct Component {
    pub(super) part: Part,
    pub(super) nodes: Vec<Node>,
    /// Intervals and choices.
    pub(super) weight: u64,
}

/// What nobody has decided yet.
struct Undecided {
    /// By exclusion, which of its intervals.
    exclusions: Vec<(u32, Vec<u32>)>,
    choices: Vec<u32>,
    /// Edges that might be decided for; enough of them to reach whatever all of them reach.
    possible: Vec<Edge>,
}

impl Undecided {
    fn new(problem: &Problem, saturated: &Saturated) -> Undecided {
        let mut undecided = Undecided {
            exclusions: Vec::new(),
            choices: Vec::new(),
            possible: Vec::new(),
        };
        for (number, (intervals, lanes)) in (0..).zip(problem.exclusions.iter().zip(&saturated.lanes)) {
            if !lanes.is_open() {
                continue;
            }
            let Some(clocks) = &saturated.clocks else {
                let begun = (0..).zip(intervals).filter(|(_, interval)| interval.start.is_some());
                undecided
                    .exclusions
                    .push((number, begun.map(|(index, _)| index).collect()));
                continue;
            };
            let mut own: Vec<u32> = Vec::new();
            for (index, one) in (0..).zip(intervals) {
                let known = own.len();
                for other in clocks.undecided(intervals, lanes, index) {
                    own.push(other);
                    // It may be over before the other one begins, and so before all that follow it on its lane.
                    let edges = one.before(&intervals[other as usize]).into_iter().flatten();
                    undecided.possible.extend(edges);
                }
                if own.len() > known {
                    own.push(index);
                }
            }
            own.sort_unstable();
            own.dedup();
            if !own.is_empty() {
                undecided.exclusions.push((number, own));
            }
        }
        for choice in 0..problem.choices.len() as u32 {
            let is_made = |clocks: &Clocks| clocks.is_made(problem, choice);
            if !saturated.clocks.as_ref().is_some_and(is_made) {
                undecided.choices.push(choice);
                undecided.possible.extend(edges_of_choice(problem, choice));
            }
        }
        undecided
    }
}

pub(super) fn components(problem: &Problem, saturated: &Saturated, hinted: bool) -> Vec<Component> {
    let undecided = Undecided::new(problem, saturated);
    if undecided.exclusions.is_empty() && undecided.choices.is_empty() {
        return Vec::new();
    }
    let numbering = Numbering::new(problem.chains.iter().copied());
    let mut groups = match saturated.clocks {
        Some(_) => strongly_connected(&numbering, &saturated.edges, &undecided.possible),
        // Not known what is possible: everything belongs together.
        None => vec![0; numbering.nodes()],
    };
    // A choice ties together the components that its alternatives are in.
    let mut joined: Vec<u32> = (0..=groups.iter().copied().max().unwrap_or(0)).collect();
    for &choice in &undecided.choices {
        let mut nodes = edges_of_choice(problem, choice).flat_map(|edge| [edge.before, edge.after]);
        let Some(first) = nodes.next() else { continue };
        let first = groups[numbering.id(first)];
        for node in nodes {
            let one = find(&mut joined, first);
            let other = find(&mut joined, groups[numbering.id(node)]);
            joined[one.max(other) as usize] = one.min(other);
        }
    }
    // Circles never leave a component, so what lies between two that are joined is not missed.
    for group in &mut groups {
        *group = find(&mut joined, *group);
    }
    assemble(problem, saturated, &undecided, &numbering, &groups, hinted)
}

/// All edges that a choice is about.
fn edges_of_choice(problem: &Problem, choice: u32) -> impl Iterator<Item = &Edge> {
    let alternatives = &problem.choices[choice as usize].alternatives;
    let clauses = (0..alternatives.len()).flat_map(move |index| problem.clauses_of(choice, index));
    alternatives
        .iter()
        .flatten()
        .chain(clauses.flat_map(|clause| &clause.one_of))
}

fn find(joined: &mut [u32], group: u32) -> u32 {
    let mut root = group;
    while joined[root as usize] != root {
        root = joined[root as usize];
    }
    let mut at = group;
    while at != root {
        at = std::mem::replace(&mut joined[at as usize], root);
    }
    root
}

/// Builds a part for each group with something undecided in it, in the order of their first nodes.
fn assemble(
    problem: &Problem,
    saturated: &Saturated,
    undecided: &Undecided,
    numbering: &Numbering,
    groups: &[u32],
    hinted: bool,
) -> Vec<Component> {
    const NONE: u32 = u32::MAX;
    let mut component_of = vec![NONE; groups.len().max(1)];
    let mut used = vec![false; groups.len().max(1)];
    for (exclusion, own) in &undecided.exclusions {
        let intervals = &problem.exclusions[*exclusion as usize];
        for start in own.iter().filter_map(|&index| intervals[index as usize].start) {
            used[groups[numbering.id(start)] as usize] = true;
        }
    }
    for &choice in &undecided.choices {
        if let Some(edge) = edges_of_choice(problem, choice).next() {
            used[groups[numbering.id(edge.before)] as usize] = true;
        }
    }
    let mut components: Vec<Component> = Vec::new();
    // The number of each node within its component.
    let mut local = vec![NONE; numbering.nodes()];
    for (chain, length) in (0..).zip(&problem.chains) {
        for position in 0..*length {
            let node = Node { chain, position };
            let id = numbering.id(node);
            let group = groups[id] as usize;
            if !used[group] {
                continue;
            }
            if component_of[group] == NONE {
                component_of[group] = components.len() as u32;
                components.push(Component {
                    part: Part {
                        hinted,
                        ..Part::default()
                    },
                    nodes: Vec::new(),
                    weight: 0,
                });
            }
            let component = &mut components[component_of[group] as usize];
            local[id] = component.nodes.len() as u32;
            component.nodes.push(node);
            component.part.chains.push(chain);
        }
    }
    let place = |node: Node| local[numbering.id(node)];
    let component_at = |node: Node| component_of[groups[numbering.id(node)] as usize];
    for edge in &saturated.edges {
        let component = component_at(edge.before);
        if component != NONE && component == component_at(edge.after) {
            let edges = &mut components[component as usize].part.edges;
            edges.push((place(edge.before), place(edge.after)));
        }
    }
    for (exclusion, own) in &undecided.exclusions {
        let intervals = &problem.exclusions[*exclusion as usize];
        let mut spans: Vec<(u32, Span)> = Vec::with_capacity(own.len());
        for interval in own.iter().map(|&index| &intervals[index as usize]) {
            let start = interval.start.expect("what was there from the beginning is decided");
            let span = Span {
                start: place(start),
                ends: interval.ends.iter().map(|end| place(*end)).collect(),
            };
            spans.push((component_at(start), span));
        }
        // Stable: the recorded order remains.
        spans.sort_by_key(|(component, _)| *component);
        for group in spans.chunk_by(|one, other| one.0 == other.0) {
            let component = &mut components[group[0].0 as usize];
            component.weight += group.len() as u64;
            let spans = group.iter().map(|(_, span)| span.clone()).collect();
            component.part.exclusions.push(spans);
        }
    }
    for &choice in &undecided.choices {
        // Without any edge there is nothing to decide.
        let Some(component) = edges_of_choice(problem, choice)
            .next()
            .map(|edge| component_at(edge.before))
        else {
            continue;
        };
        let component = &mut components[component as usize];
        component.weight += 1;
        let translate = |edges: &Vec<Edge>| {
            edges
                .iter()
                .map(|edge| (place(edge.before), place(edge.after)))
                .collect()
        };
        let alternatives = problem.choices[choice as usize].alternatives.iter().enumerate();
        let alternatives = alternatives.map(|(index, edges)| Alternative {
            edges: translate(edges),
            clauses: problem
                .clauses_of(choice, index)
                .iter()
                .map(|clause| translate(&clause.one_of))
                .collect(),
        });
        component.part.choices.push(alternatives.collect());
    }
    components
}

/// Tarjan's algorithm (1972), without recursion. For each node the number of its component.
fn strongly_connected(numbering: &Numbering, edges: &[Edge], possible: &[Edge]) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let nodes = numbering.nodes();
    let all = edges.iter().chain(possible);
    let all = all.map(|edge| (numbering.id(edge.before), numbering.id(edge.after) as u32));
    let targets = Lists::new(nodes, all, 0);
    let mut ends_chain = vec![false; nodes];
    for chain in 0..numbering.chains() as u32 {
        if let Some(position) = numbering.length(chain).checked_sub(1) {
            ends_chain[numbering.id(Node { chain, position })] = true;
        }
    }
    let mut index = vec![UNSEEN; nodes];
    let mut low = vec![0u32; nodes];
    let mut groups = vec![UNSEEN; nodes];
    let mut stack = Vec::new();
    let mut walk: Vec<(u32, u32)> = Vec::new();
    let (mut next_index, mut next_group) = (0, 0);
    for root in 0..nodes as u32 {
        if index[root as usize] != UNSEEN {
            continue;
        }
        walk.push((root, 0));
        while let Some((node, edge)) = walk.last_mut() {
            let at = *node as usize;
            if index[at] == UNSEEN {
                index[at] = next_index;
                low[at] = next_index;
                next_index += 1;
                stack.push(at as u32);
            }
            // The edges, and one step beyond them the next node of the chain.
            let own = targets.of(at);
            let target = match *edge as usize {
                e if e < own.len() => Some(own[e]),
                e if e == own.len() && !ends_chain[at] => Some(at as u32 + 1),
                _ => None,
            };
            *edge += 1;
            match target.map(|target| target as usize) {
                Some(target) if index[target] == UNSEEN => walk.push((target as u32, 0)),
                Some(target) => {
                    if groups[target] == UNSEEN {
                        low[at] = low[at].min(index[target]);
                    }
                }
                None => {
                    walk.pop();
                    if let Some((parent, _)) = walk.last() {
                        low[*parent as usize] = low[*parent as usize].min(low[at]);
                    }
                    if low[at] == index[at] {
                        while let Some(member) = stack.pop() {
                            groups[member as usize] = next_group;
                            if member as usize == at {
                                break;
                            }
                        }
                        next_group += 1;
                    }
                }
            }
        }
    }
    groups
}
