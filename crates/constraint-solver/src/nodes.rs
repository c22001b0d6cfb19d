//! The nodes of all chains as numbers, and lists of what belongs to each.
use crate::problem::Node;

/// Numbers nodes, one chain after the other.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    /// The number of each chain's first node, and how many nodes there are.
    bases: Vec<u32>,
}

impl Numbering {
    pub(crate) fn new(chains: impl IntoIterator<Item = u32>) -> Numbering {
        let mut bases = vec![0];
        for length in chains {
            bases.push(bases[bases.len() - 1] + length);
        }
        Numbering { bases }
    }

    pub(crate) fn id(&self, node: Node) -> usize {
        self.bases[node.chain as usize] as usize + node.position as usize
    }

    pub(crate) fn nodes(&self) -> usize {
        self.bases[self.chains()] as usize
    }

    pub(crate) fn chains(&self) -> usize {
        self.bases.len() - 1
    }

    pub(crate) fn length(&self, chain: u32) -> u32 {
        self.bases[chain as usize + 1] - self.bases[chain as usize]
    }
}

/// For each number below some other, a list.
pub(crate) struct Lists<T> {
    /// Where each begins; and where the last one ends.
    firsts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// `empty` stands where nothing is yet.
    pub(crate) fn new(lists: usize, pairs: impl Iterator<Item = (usize, T)> + Clone, empty: T) -> Lists<T> {
        let mut firsts = vec![0; lists + 2];
        // One place further than the first of the next, to which filling will move it.
        for (list, _) in pairs.clone() {
            firsts[list + 2] += 1;
        }
        for list in 2..firsts.len() {
            firsts[list] += firsts[list - 1];
        }
        let mut items = vec![empty; firsts[lists + 1] as usize];
        for (list, item) in pairs {
            let place = &mut firsts[list + 1];
            items[*place as usize] = item;
            *place += 1;
        }
        Lists { firsts, items }
    }

    /// The items of all lists.
    pub(crate) fn all(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn of(&self, list: usize) -> &[T] {
        &self.items[self.firsts[list] as usize..self.firsts[list + 1] as usize]
    }
}
