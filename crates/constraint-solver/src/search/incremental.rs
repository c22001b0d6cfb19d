//! A topological order that is mended when edges come, and need not be when they go (Pearce and Kelly, *A dynamic
//! topological sort algorithm for directed acyclic graphs*, 2006).
use crate::nodes::Lists;
use crate::search::part::Part;
use std::collections::VecDeque;

/// Who is answerable for an edge: a literal of the search, or nobody.
pub(super) type Owner = u32;
pub(super) const NOBODY: Owner = u32::MAX;

pub(super) struct Incremental<'a> {
    chains: &'a [u32],
    /// For each node, where fixed edges lead to, and where they come from.
    fixed_out: Lists<u32>,
    fixed_in: Lists<u32>,
    /// Edges that came later, and whose they are.
    out: Vec<Vec<(u32, Owner)>>,
    into: Vec<Vec<(u32, Owner)>>,
    /// Where each node stands.
    place: Vec<u32>,
    /// Of the current search: its number, how many owned edges the best way to a node has, and the last step of it.
    search: u32,
    seen: Vec<u32>,
    owned: Vec<u32>,
    step: Vec<(u32, Owner)>,
}

/// An edge with its owner.
pub(super) type Step = (u32, u32, Owner);

impl<'a> Incremental<'a> {
    /// The fixed edges, in no order yet: `reorder` first.
    pub(super) fn new(part: &'a Part) -> Incremental<'a> {
        let nodes = part.chains.len();
        Incremental {
            chains: &part.chains,
            fixed_out: Lists::new(
                nodes,
                part.edges.iter().map(|&(before, after)| (before as usize, after)),
                0,
            ),
            fixed_in: Lists::new(
                nodes,
                part.edges.iter().map(|&(before, after)| (after as usize, before)),
                0,
            ),
            out: vec![Vec::new(); nodes],
            into: vec![Vec::new(); nodes],
            place: (0..nodes as u32).collect(),
            search: 0,
            seen: vec![0; nodes],
            owned: vec![0; nodes],
            step: vec![(0, NOBODY); nodes],
        }
    }

    pub(super) fn next_on_chain(&self, node: u32) -> Option<u32> {
        let next = node + 1;
        (self.chains.get(next as usize) == Some(&self.chains[node as usize])).then_some(next)
    }

    fn previous_on_chain(&self, node: u32) -> Option<u32> {
        let previous = node.checked_sub(1)?;
        (self.chains[previous as usize] == self.chains[node as usize]).then_some(previous)
    }

    /// Where edges lead from `node`, apart from its chain.
    pub(super) fn outgoing(&self, node: u32) -> impl Iterator<Item = u32> {
        let fixed = self.fixed_out.of(node as usize).iter().copied();
        fixed.chain(self.out[node as usize].iter().map(|(after, _)| *after))
    }

    pub(super) fn incoming_count(&self, node: u32) -> u32 {
        (self.fixed_in.of(node as usize).len() + self.into[node as usize].len()) as u32
    }

    /// Takes over an order that agrees with all edges.
    pub(super) fn reorder(&mut self, order: &[u32]) {
        for (place, node) in (0..).zip(order) {
            self.place[*node as usize] = place;
        }
    }

    pub(super) fn place(&self, node: u32) -> u32 {
        self.place[node as usize]
    }

    /// Adds an edge; or returns a way from `after` to `before`, with as few owned edges as possible, and adds nothing.
    pub(super) fn insert(&mut self, before: u32, after: u32, owner: Owner) -> Result<(), Vec<Step>> {
        if before == after {
            return Err(Vec::new());
        }
        if self.place[before as usize] > self.place[after as usize] {
            let forward = self.forward(after, before)?;
            let backward = self.backward(before, after);
            self.mend(backward, forward);
        }
        self.out[before as usize].push((after, owner));
        self.into[after as usize].push((before, owner));
        Ok(())
    }

    /// Takes the newest edge back.
    pub(super) fn remove(&mut self, before: u32, after: u32) {
        let out = self.out[before as usize].pop();
        let into = self.into[after as usize].pop();
        debug_assert_eq!(
            (out.map(|edge| edge.0), into.map(|edge| edge.0)),
            (Some(after), Some(before))
        );
    }

    /// All nodes from `from` on that stand before `to`; `Err` if `to` is one of them.
    fn forward(&mut self, from: u32, to: u32) -> Result<Vec<u32>, Vec<Step>> {
        let bound = self.place[to as usize];
        self.search += 1;
        let mut found = Vec::new();
        let mut queue = VecDeque::from([(from, 0)]);
        self.seen[from as usize] = self.search;
        self.owned[from as usize] = 0;
        while let Some((node, owned)) = queue.pop_front() {
            // A better way was found after this one.
            if self.owned[node as usize] != owned {
                continue;
            }
            if node == to {
                return Err(self.way(from, to));
            }
            found.push(node);
            let chain = self.next_on_chain(node);
            let fixed = self.fixed_out.of(node as usize).iter().copied().chain(chain);
            let free = self.out[node as usize].iter().copied();
            for (next, owner) in fixed.map(|next| (next, NOBODY)).chain(free) {
                let cost = owned + u32::from(owner != NOBODY);
                let is_new = self.seen[next as usize] != self.search;
                if self.place[next as usize] > bound || !(is_new || cost < self.owned[next as usize]) {
                    continue;
                }
                self.seen[next as usize] = self.search;
                self.owned[next as usize] = cost;
                self.step[next as usize] = (node, owner);
                match owner {
                    NOBODY => queue.push_front((next, cost)),
                    _ => queue.push_back((next, cost)),
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The way that `forward` found, without steps along chains.
    fn way(&self, from: u32, to: u32) -> Vec<Step> {
        let mut way = Vec::new();
        let mut node = to;
        while node != from {
            let (before, owner) = self.step[node as usize];
            if owner != NOBODY || self.chains[before as usize] != self.chains[node as usize] || before > node {
                way.push((before, node, owner));
            }
            node = before;
        }
        way.reverse();
        way
    }

    /// All nodes from which `to` is reached that stand behind `bound`.
    fn backward(&mut self, to: u32, bound: u32) -> Vec<u32> {
        let bound = self.place[bound as usize];
        self.search += 1;
        self.seen[to as usize] = self.search;
        let mut found = vec![to];
        let mut at = 0;
        while let Some(&node) = found.get(at) {
            at += 1;
            let fixed = self.fixed_in.of(node as usize).iter().copied();
            let free = self.into[node as usize].iter().map(|(before, _)| *before);
            for before in fixed.chain(self.previous_on_chain(node)).chain(free) {
                if self.seen[before as usize] != self.search && self.place[before as usize] >= bound {
                    self.seen[before as usize] = self.search;
                    found.push(before);
                }
            }
        }
        found
    }

    /// Puts all of `backward` before all of `forward`, at the places that they have together.
    fn mend(&mut self, mut backward: Vec<u32>, mut forward: Vec<u32>) {
        backward.sort_unstable_by_key(|node| self.place[*node as usize]);
        forward.sort_unstable_by_key(|node| self.place[*node as usize]);
        backward.extend(forward);
        let mut places: Vec<u32> = backward.iter().map(|node| self.place[*node as usize]).collect();
        places.sort_unstable();
        for (node, place) in backward.into_iter().zip(places) {
            self.place[node as usize] = place;
        }
    }
}
