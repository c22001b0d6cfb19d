//! What follows for registers without deciding anything: rule after rule, until none has anything to say.
//!
//! A write that comes after the read, or that another one overwrites before the read, was not the one that was seen. If one
//! is left, it was: all other writes that come before the read come before it, and all that come after it come after the
//! read. Vector clocks say what comes before what.
use crate::nodes::Lists;
use crate::problem::ANYTHING;
use crate::search::part::Edges;
use crate::search::part::Part;
use crate::search::registers::Place;
use crate::search::registers::Seen;

/// Give up if clocks would have more entries, or reads more possibilities.
const ENTRIES: usize = 1 << 26;
const POSSIBILITIES: usize = 1 << 22;
const ROUNDS: usize = 50;

/// Adds edges to the part that follow from the rest, and leaves out what reads cannot have seen.
///
/// `near`: so many possibilities of each read, the likeliest by their versions, are taken to be all. What follows then is
/// a guess.
pub(super) fn link(part: &mut Part, places: &mut [Place], chains: usize, near: Option<usize>) {
    if part.chains.len().saturating_mul(chains) > ENTRIES || possibilities(places) > POSSIBILITIES {
        return;
    }
    let mut links = Links::new(part, places, chains, near);
    for _ in 0..ROUNDS {
        let Some(clocks) = Clocks::new(part, chains) else { break };
        let found = links.round(&clocks, places);
        if found.is_empty() {
            break;
        }
        part.edges.extend(found);
    }
    for (place, reads) in places.iter_mut().zip(links.reads) {
        place.possible = reads.into_iter().map(|read| (read.index, read.seen)).collect();
    }
}

fn possibilities(places: &[Place]) -> usize {
    let of = |place: &Place| {
        let reads = place.accesses.iter().filter(|access| !access.writes);
        let number = |content: u32| place.writes.get(&content).map_or(0, Vec::len);
        reads.map(|read| number(read.content) + number(ANYTHING)).sum::<usize>()
    };
    places.iter().map(of).sum()
}

struct Read {
    /// Among the accesses of the register.
    index: u32,
    node: u32,
    seen: Vec<Seen>,
}

struct Links {
    /// For each register, its reads.
    reads: Vec<Vec<Read>>,
    /// For each register, the writes of each chain that has any: nodes, ascending, and indices.
    writes: Vec<Vec<Vec<(u32, u32)>>>,
}

impl Links {
    fn new(part: &Part, places: &[Place], chains: usize, near: Option<usize>) -> Links {
        let mut links = Links {
            reads: Vec::new(),
            writes: Vec::new(),
        };
        for place in places {
            let mut by_chain = vec![Vec::new(); chains];
            let mut reads = Vec::new();
            for (index, access) in (0..).zip(&place.accesses) {
                if access.writes {
                    by_chain[part.chains[access.node as usize] as usize].push((access.node, index));
                } else if access.content != ANYTHING {
                    let of = |content: u32| place.writes.get(&content).into_iter().flatten().copied();
                    let writes = of(access.content).chain(of(ANYTHING));
                    let is_other = |write: &u32| place.accesses[*write as usize].node != access.node;
                    let mut seen: Vec<Seen> = writes.filter(is_other).map(Seen::Write).collect();
                    if let Some(near) = near.filter(|near| *near < seen.len()) {
                        seen.sort_by_key(|seen| match seen {
                            Seen::Write(write) => {
                                let version = place.accesses[*write as usize].version;
                                (version > access.version, version.abs_diff(access.version))
                            }
                            Seen::Initial => (false, 0),
                        });
                        seen.truncate(near);
                    }
                    if place.initial.is_none_or(|initial| initial == access.content) {
                        seen.push(Seen::Initial);
                    }
                    reads.push(Read {
                        index,
                        node: access.node,
                        seen,
                    });
                }
            }
            by_chain.retain(|writes| !writes.is_empty());
            links.reads.push(reads);
            links.writes.push(by_chain);
        }
        links
    }

    /// What follows from what the clocks know; edges that they do not.
    fn round(&mut self, clocks: &Clocks<'_>, places: &[Place]) -> Edges {
        let mut found = Edges::new();
        let mut before: Vec<(u32, u32)> = Vec::new();
        for ((place, reads), writes) in places.iter().zip(&mut self.reads).zip(&self.writes) {
            for read in reads {
                // The last write of each chain that is certain to come before the read.
                before.clear();
                for own in writes {
                    let end = own.partition_point(|(node, _)| clocks.is_before(*node, read.node));
                    before.extend(end.checked_sub(1).map(|last| own[last]));
                }
                let node = |write: u32| place.accesses[write as usize].node;
                if read.seen.len() > 1 {
                    read.seen.retain(|seen| match seen {
                        Seen::Initial => before.is_empty(),
                        Seen::Write(write) => {
                            let is_later = clocks.is_before(read.node, node(*write));
                            !is_later && !before.iter().any(|(other, _)| clocks.is_before(node(*write), *other))
                        }
                    });
                }
                let mut add = |before: u32, after: u32| {
                    if before != after && !clocks.is_before(before, after) {
                        found.push((before, after));
                    }
                };
                match read.seen[..] {
                    [Seen::Write(write)] => {
                        let write = node(write);
                        add(write, read.node);
                        before.iter().for_each(|(other, _)| add(*other, write));
                        for own in writes {
                            let first = own.partition_point(|(other, _)| !clocks.is_before(write, *other));
                            if let Some((other, _)) = own.get(first) {
                                add(read.node, *other);
                            }
                        }
                    }
                    [Seen::Initial] => writes.iter().for_each(|own| add(read.node, own[0].0)),
                    _ => {}
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// For each node, how many nodes of each chain come before it or are it.
struct Clocks<'a> {
    chains: &'a [u32],
    /// The first node of each chain.
    heads: Vec<u32>,
    width: usize,
    entries: Vec<u32>,
}

impl<'a> Clocks<'a> {
    /// `None`: there is a circle.
    fn new(part: &'a Part, width: usize) -> Option<Clocks<'a>> {
        let nodes = part.chains.len();
        let mut heads = vec![0; width];
        for (node, chain) in (0..nodes as u32).zip(&part.chains).rev() {
            heads[*chain as usize] = node;
        }
        let outgoing = Lists::new(nodes, part.edges.iter().map(|(b, a)| (*b as usize, *a)), 0);
        let mut pending = vec![0; nodes];
        part.edges.iter().for_each(|(_, after)| pending[*after as usize] += 1);
        let next = |node: u32| {
            let next = node + 1;
            (part.chains.get(next as usize) == Some(&part.chains[node as usize])).then_some(next)
        };
        (0..nodes as u32)
            .filter_map(next)
            .for_each(|node| pending[node as usize] += 1);
        let mut clocks = Clocks {
            chains: &part.chains,
            heads,
            width,
            entries: vec![0; nodes * width],
        };
        let mut ready: Vec<u32> = (0..nodes as u32).filter(|node| pending[*node as usize] == 0).collect();
        let mut done = 0;
        while let Some(node) = ready.pop() {
            done += 1;
            let chain = part.chains[node as usize] as usize;
            clocks.entries[node as usize * width + chain] = node - clocks.heads[chain] + 1;
            for after in outgoing.of(node as usize).iter().copied().chain(next(node)) {
                let (from, to) = (node as usize * width, after as usize * width);
                for entry in 0..width {
                    clocks.entries[to + entry] = clocks.entries[to + entry].max(clocks.entries[from + entry]);
                }
                pending[after as usize] -= 1;
                if pending[after as usize] == 0 {
                    ready.push(after);
                }
            }
        }
        (done == nodes).then_some(clocks)
    }

    fn is_before(&self, first: u32, second: u32) -> bool {
        let chain = self.chains[first as usize] as usize;
        let known = self.entries[second as usize * self.width + chain];
        first != second && known > first - self.heads[chain]
    }
}
