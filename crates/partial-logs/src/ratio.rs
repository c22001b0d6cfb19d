//! Fractions that are compared exactly: which of two logs is more similar must not depend on how a division was rounded.
use std::cmp::Ordering;

/// Not negative. Nothing of nothing is 0.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    pub const ZERO: Ratio = Ratio::new(0, 1);
    pub const ONE: Ratio = Ratio::new(1, 1);

    /// A denominator of 0 makes it 0.
    pub const fn new(numerator: u128, denominator: u128) -> Ratio {
        match denominator {
            0 => Ratio {
                numerator: 0,
                denominator: 1,
            },
            _ => Ratio { numerator, denominator },
        }
    }

    pub const fn numerator(self) -> u128 {
        self.numerator
    }

    /// At least 1.
    pub const fn denominator(self) -> u128 {
        self.denominator
    }

    /// For people to read; nothing is decided by it.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl Ord for Ratio {
    /// By whole parts, and if those are equal, by what is left, turned over: no product that could overflow.
    fn cmp(&self, other: &Ratio) -> Ordering {
        let (mut one, mut two) = (*self, *other);
        loop {
            let wholes = (one.numerator / one.denominator).cmp(&(two.numerator / two.denominator));
            if wholes != Ordering::Equal {
                return wholes;
            }
            let left = (one.numerator % one.denominator, two.numerator % two.denominator);
            match left {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Less,
                (_, 0) => return Ordering::Greater,
                // a/b < c/d exactly if d/c < b/a.
                (one_left, two_left) => {
                    let turned = Ratio::new(two.denominator, two_left);
                    two = Ratio::new(one.denominator, one_left);
                    one = turned;
                }
            }
        }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Ratio) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_fractions_are_equal_however_they_are_written() {
        assert_eq!(Ratio::new(2, 6), Ratio::new(1, 3));
        assert_eq!(Ratio::new(0, 6), Ratio::ZERO);
        assert_eq!(Ratio::new(5, 0), Ratio::ZERO);
        assert_eq!(Ratio::new(7, 7), Ratio::ONE);
    }

    #[test]
    fn the_largest_fractions_are_compared_without_overflow() {
        let most = Ratio::new(u128::MAX - 1, u128::MAX);
        assert!(most < Ratio::ONE && most > Ratio::new(u128::MAX - 2, u128::MAX - 1));
    }

    proptest! {
        #[test]
        fn small_fractions_compare_as_their_products_do(a in 0u128..40, b in 1u128..40, c in 0u128..40, d in 1u128..40) {
            prop_assert_eq!(Ratio::new(a, b).cmp(&Ratio::new(c, d)), (a * d).cmp(&(c * b)));
        }
    }
}
