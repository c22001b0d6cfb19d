//! Numbers for pairs of an element and a vector's hash.
//!
//! The table is probed one place after the other, from a place that the hash says: hashes of vectors are BLAKE3, whose bits are as good as random. Somebody who
//! searches for vectors whose hashes begin alike makes their own lookups longer; each costs them millions of hashes.
use super::ElementNumber;
use super::PairId;
use super::small;
use crate::VectorHash;

/// Of a place in the table: no pair.
const NONE: u32 = u32::MAX;
const PLACES_MIN: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Pairs {
    elements: Vec<ElementNumber>,
    hashes: Vec<VectorHash>,
    /// A power of two of them, at most three quarters of which are taken.
    places: Vec<u32>,
}

impl Pairs {
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn ids(&self) -> impl Iterator<Item = PairId> + use<> {
        (0..self.hashes.len()).map(|pair| PairId(pair as u32))
    }

    pub fn element(&self, pair: PairId) -> ElementNumber {
        self.elements[pair.0 as usize]
    }

    pub fn hash(&self, pair: PairId) -> VectorHash {
        self.hashes[pair.0 as usize]
    }

    pub fn find(&self, element: ElementNumber, hash: VectorHash) -> Option<PairId> {
        if self.places.is_empty() {
            return None;
        }
        let found = self.places[self.place(element, hash)];
        (found != NONE).then_some(PairId(found))
    }

    pub fn intern(&mut self, element: ElementNumber, hash: VectorHash) -> PairId {
        if (self.len() + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        let place = self.place(element, hash);
        if self.places[place] == NONE {
            self.places[place] = small(self.len());
            self.elements.push(element);
            self.hashes.push(hash);
        }
        PairId(self.places[place])
    }

    /// The pair's place, or the free one where it belongs.
    fn place(&self, element: ElementNumber, hash: VectorHash) -> usize {
        let last = self.places.len() - 1;
        let mut place = first_place(element, hash) & last;
        loop {
            let pair = self.places[place] as usize;
            let is_here = |pair: usize| self.hashes[pair] == hash && self.elements[pair] == element;
            if self.places[place] == NONE || is_here(pair) {
                return place;
            }
            place = (place + 1) & last;
        }
    }

    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        self.places = vec![NONE; places];
        for pair in self.ids() {
            let mut place = first_place(self.element(pair), self.hash(pair)) & (places - 1);
            while self.places[place] != NONE {
                place = (place + 1) & (places - 1);
            }
            self.places[place] = pair.0;
        }
    }
}

/// Vectors of different elements may be equal: then their places are far from each other.
fn first_place(element: ElementNumber, hash: VectorHash) -> usize {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    let bits = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    (bits ^ u64::from(element.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as usize
}
