//! Average, median, extremes; and what is added, compared.
use crate::bench::table::geometric_mean;
use crate::bench::table::median;

/// As the papers' tables have it.
pub struct Summary {
    pub average: f64,
    pub median: f64,
    pub minimum: f64,
    pub maximum: f64,
}

impl Summary {
    /// `None` if there is nothing to summarise.
    pub fn of(values: &[f64]) -> Option<Summary> {
        if values.is_empty() {
            return None;
        }
        Some(Summary {
            average: values.iter().sum::<f64>() / values.len() as f64,
            median: median(values.iter().copied()),
            minimum: values.iter().copied().fold(f64::INFINITY, f64::min),
            maximum: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    pub fn rows(&self) -> [(&'static str, f64); 4] {
        [
            ("average", self.average),
            ("median", self.median),
            ("minimum", self.minimum),
            ("maximum", self.maximum),
        ]
    }
}

/// Less added time than this is noise, and counts as so much: it must not make a quotient small.
pub const TIME_FLOOR: f64 = 0.02;

/// The geometric mean of the quotients of two added times, both in units of the native run, and of how many. Programs that
/// neither slows down are left out.
pub fn added_time(pairs: &[(f64, f64)]) -> Option<(f64, usize)> {
    let quotients: Vec<f64> = pairs
        .iter()
        .filter(|(ours, other)| *ours > TIME_FLOOR || *other > TIME_FLOOR)
        .map(|(ours, other)| ours.max(TIME_FLOOR) / other.max(TIME_FLOOR))
        .collect();
    mean_of(quotients)
}

/// The same of sizes.
pub fn sizes(pairs: &[(f64, f64)]) -> Option<(f64, usize)> {
    mean_of(pairs.iter().map(|(ours, other)| ours / other).collect())
}

fn mean_of(quotients: Vec<f64>) -> Option<(f64, usize)> {
    let count = quotients.len();
    (count > 0).then(|| (geometric_mean(quotients), count))
}

/// How much each of two optimisations takes away, and what is left, as shares of what there was without both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breakdown {
    pub first: f64,
    pub second: f64,
    pub rest: f64,
}

impl Breakdown {
    /// `basic`: without both; `one`: with the first; `both`. `None` if there is nothing to reduce.
    pub fn of(basic: f64, one: f64, both: f64, floor: f64) -> Option<Breakdown> {
        (basic > floor).then(|| Breakdown {
            first: (basic - one) / basic,
            second: (one - both) / basic,
            rest: both / basic,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_have_extremes() {
        let summary = Summary::of(&[1.0, 2.0, 6.0]).expect("there are values");
        assert_eq!(summary.rows().map(|row| row.1), [3.0, 2.0, 1.0, 6.0]);
        assert!(Summary::of(&[]).is_none());
    }

    #[test]
    fn noise_makes_no_small_quotients() {
        let (mean, count) = added_time(&[(0.0, 2.0), (-0.01, 0.01), (1.0, 1.0)]).expect("two count");
        assert_eq!(count, 2);
        assert!((mean - (0.01f64).sqrt()).abs() < 1e-12);
        assert!(added_time(&[]).is_none());
    }

    #[test]
    fn parts_make_a_whole() {
        let parts = Breakdown::of(10.0, 4.0, 3.0, 0.0).expect("something to reduce");
        assert_eq!(
            parts,
            Breakdown {
                first: 0.6,
                second: 0.1,
                rest: 0.3
            }
        );
        assert!(Breakdown::of(0.01, 0.0, 0.0, 0.02).is_none());
    }
}
