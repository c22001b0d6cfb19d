//! Is an answer of the solver right? Written against the problem's definition alone, with none of the solver's code.
use constraint_solver::Circle;
use constraint_solver::Resolved;
use constraint_solver::problem::Clause;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Exclusion;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;
use std::collections::BTreeSet;

/// Do the edges, with the chains, decide everything the problem asks for? The error says what they leave open.
pub fn verify(problem: &Problem, resolved: &Resolved) -> Result<(), String> {
    let order = Order::new(&problem.chains, &resolved.edges)?;
    if let Some(edge) = problem.edges.iter().find(|edge| !order.implies(edge)) {
        return Err(format!("{edge:?} of the problem does not follow from the answer"));
    }
    for (index, exclusion) in problem.exclusions.iter().enumerate() {
        if let Some((one, other)) = order.undecided(exclusion) {
            return Err(format!("exclusion {index} may have {one:?} and {other:?} overlap"));
        }
    }
    let mut holding: Vec<Vec<bool>> = Vec::new();
    for choice in &problem.choices {
        let holds = |alternative: &Vec<Edge>| alternative.iter().all(|edge| order.implies(edge));
        holding.push(choice.alternatives.iter().map(holds).collect());
    }
    for clause in &problem.clauses {
        let holds = clause.one_of.iter().any(|edge| order.implies(edge));
        holding[clause.choice as usize][clause.alternative as usize] &= holds;
    }
    match holding.iter().position(|alternatives| !alternatives.contains(&true)) {
        Some(choice) => Err(format!("choice {choice} is left open: {:?}", problem.choices[choice])),
        None => Ok(()),
    }
}

/// Does each edge of the circle lead to where the next begins, and is each one of the problem's?
pub fn verify_circle(problem: &Problem, circle: &Circle) -> Result<(), String> {
    let edges = &circle.edges;
    if edges.is_empty() {
        // A choice without alternatives, or whose alternatives all ask for one of no edges.
        let is_possible = |choice: usize, alternative: usize| {
            let of = |clause: &&Clause| (clause.choice, clause.alternative) == (choice as u32, alternative as u32);
            !problem.clauses.iter().filter(of).any(|clause| clause.one_of.is_empty())
        };
        let mut choices = problem.choices.iter().enumerate();
        return match choices.any(|(index, c)| !(0..c.alternatives.len()).any(|a| is_possible(index, a))) {
            true => Ok(()),
            false => Err("the circle is empty".to_owned()),
        };
    }
    for (edge, next) in edges.iter().zip(edges.iter().cycle().skip(1)) {
        if edge.after.chain != next.before.chain || edge.after.position > next.before.position {
            return Err(format!("{edge:?} does not lead to {next:?}"));
        }
    }
    let known: BTreeSet<Edge> = problem.edges.iter().copied().collect();
    let chosen = problem
        .choices
        .iter()
        .flat_map(|choice| choice.alternatives.iter().flatten());
    let clauses = problem.clauses.iter().flat_map(|clause| &clause.one_of);
    let chosen: BTreeSet<Edge> = chosen.chain(clauses).copied().collect();
    let separates = |edge: &Edge| {
        let ends = |interval: &Interval| interval.ends.contains(&edge.before);
        let starts = |interval: &Interval| interval.start == Some(edge.after);
        let by = |e: &Exclusion| e.iter().any(ends) && e.iter().any(starts);
        problem.exclusions.iter().any(by)
    };
    let is_ours = |edge: &Edge| known.contains(edge) || chosen.contains(edge) || separates(edge);
    match edges.iter().find(|edge| !is_ours(edge)) {
        Some(edge) => Err(format!("{edge:?} of the circle is no constraint of the problem")),
        None => Ok(()),
    }
}

/// What comes before what, for certain: for each node, how many nodes of each chain come before it or are it.
struct Order {
    bases: Vec<usize>,
    width: usize,
    clocks: Vec<u32>,
    places: Vec<usize>,
}

impl Order {
    /// Kahn's topological sort, with a vector clock for each node.
    fn new(chains: &[u32], edges: &[Edge]) -> Result<Order, String> {
        let width = chains.len();
        let mut bases = vec![0];
        for length in chains {
            bases.push(bases[bases.len() - 1] + *length as usize);
        }
        let nodes = bases[width];
        let mut order = Order {
            bases,
            width,
            clocks: vec![0; nodes * width],
            places: vec![0; nodes],
        };
        let (mut after, mut waits_for) = (vec![Vec::new(); nodes], vec![0; nodes]);
        for (chain, length) in chains.iter().enumerate() {
            for position in 1..*length as usize {
                let id = order.bases[chain] + position;
                after[id - 1].push(id);
                waits_for[id] += 1;
            }
        }
        for edge in edges {
            let is_node = |node: Node| {
                chains
                    .get(node.chain as usize)
                    .is_some_and(|length| node.position < *length)
            };
            if !is_node(edge.before) || !is_node(edge.after) {
                return Err(format!("{edge:?} names nodes that do not exist"));
            }
            after[order.id(edge.before)].push(order.id(edge.after));
            waits_for[order.id(edge.after)] += 1;
        }
        for chain in 0..width {
            for id in order.bases[chain]..order.bases[chain + 1] {
                order.clocks[id * width + chain] = (id - order.bases[chain]) as u32 + 1;
            }
        }
        let mut ready: Vec<usize> = (0..nodes).filter(|id| waits_for[*id] == 0).collect();
        let mut done = 0;
        while let Some(id) = ready.pop() {
            done += 1;
            order.places[id] = done;
            for &next in &after[id] {
                order.pass_on(id, next);
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.push(next);
                }
            }
        }
        match done == nodes {
            true => Ok(order),
            false => Err(format!("the answer has a circle among {} nodes", nodes - done)),
        }
    }

    fn pass_on(&mut self, from: usize, to: usize) {
        for chain in 0..self.width {
            let theirs = self.clocks[from * self.width + chain];
            let mine = &mut self.clocks[to * self.width + chain];
            *mine = (*mine).max(theirs);
        }
    }

    fn id(&self, node: Node) -> usize {
        self.bases[node.chain as usize] + node.position as usize
    }

    fn is_before(&self, first: Node, second: Node) -> bool {
        first != second && self.clocks[self.id(second) * self.width + first.chain as usize] > first.position
    }

    fn implies(&self, edge: &Edge) -> bool {
        self.is_before(edge.before, edge.after)
    }

    fn are_apart(&self, one: &Interval, other: &Interval) -> bool {
        let over_before = |one: &Interval, start: Option<Node>| {
            start.is_some_and(|start| one.ends.iter().all(|end| self.is_before(*end, start)))
        };
        over_before(one, other.start) || over_before(other, one.start)
    }

    /// Two intervals that may overlap. By the places of their beginnings, it is enough to look at neighbours if each
    /// interval begins before it ends.
    fn undecided<'a>(&self, exclusion: &'a [Interval]) -> Option<(&'a Interval, &'a Interval)> {
        let mut sorted: Vec<&Interval> = exclusion.iter().collect();
        sorted.sort_by_key(|interval| interval.start.map_or(0, |start| self.places[self.id(start)]));
        let ends_later = |interval: &&Interval| {
            let start = interval.start;
            interval
                .ends
                .iter()
                .any(|end| start.is_none_or(|start| start == *end || self.is_before(start, *end)))
        };
        let distance_max = if sorted.iter().all(ends_later) { 1 } else { sorted.len() };
        let pairs = (0..sorted.len()).flat_map(|one| {
            (one + 1..sorted.len())
                .take(distance_max)
                .map(move |other| (one, other))
        });
        pairs
            .map(|(one, other)| (sorted[one], sorted[other]))
            .find(|(one, other)| !self.are_apart(one, other))
    }
}
