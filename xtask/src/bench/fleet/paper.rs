//! The paper's figures (Machado, Romano, Rodrigues), and the guests that stand for its programs.

/// In hundredths of a percent.
pub const SHARES: [u32; 6] = [1_000, 1_250, 1_670, 2_500, 5_000, 7_500];

/// Failed within the budget.
pub const FAILED: u32 = 0;
/// Less than one element.
pub const NOT_TRIED: u32 = u32::MAX;
use FAILED as X;
use NOT_TRIED as N;

pub struct Guest {
    pub name: &'static str,
    pub source: &'static str,
    pub flags: &'static [&'static str],
    pub timeout_ms: u32,
    /// Tables II and III; of Tomcat, table IV.
    pub elements: u32,
    pub accesses: u32,
    pub psim: [u32; 6],
    pub dsim: [u32; 6],
}

impl Guest {
    /// As many elements, and within 5 % as many accesses; how many Tomcat made, the paper does not say.
    pub fn is_like(&self, elements: u64, accesses: u64) -> bool {
        let expected = u64::from(self.accesses);
        elements == u64::from(self.elements) && (expected == 0 || accesses.abs_diff(expected) * 20 <= expected)
    }

    /// The paper has it where a share is a whole element, or it was measured all the same.
    pub fn has_share(&self, share: u32) -> bool {
        let column = SHARES.iter().position(|known| *known == share);
        column.is_none_or(|column| self.psim[column] != NOT_TRIED)
    }
}

const fn guest(
    name: &'static str,
    source: &'static str,
    (elements, accesses): (u32, u32),
    psim: [u32; 6],
    dsim: [u32; 6],
) -> Guest {
    Guest {
        name,
        source,
        flags: &[],
        timeout_ms: 700,
        elements,
        accesses,
        psim,
        dsim,
    }
}

pub const GUESTS: [Guest; 8] = [
    guest(
        "bounded_buffer",
        "tests/guests/fleet/bounded_buffer.c",
        (12, 1_376),
        [X, X, X, X, X, 1],
        [X, X, X, X, 3, 1],
    ),
    guest(
        "bubble_sort",
        "tests/guests/fleet/bubble_sort.c",
        (10, 49_964),
        [1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 1],
    ),
    guest(
        "producer_consumer",
        "tests/guests/fleet/producer_consumer.c",
        (8, 997),
        [N, 1, 5, 5, 2, 1],
        [N, 1, 1, 1, 1, 1],
    ),
    guest(
        "piper",
        "tests/guests/fleet/piper.c",
        (6, 347),
        [N, N, 1, 2, 1, 1],
        [N, N, 1, 1, 1, 1],
    ),
    guest(
        "manager",
        "tests/guests/fleet/manager.c",
        (4, 30_240),
        [N, N, N, X, X, X],
        [N, N, N, X, X, X],
    ),
    guest(
        "two_stage",
        "tests/guests/fleet/two_stage.c",
        (4, 27_103),
        [N, N, N, 34, 13, X],
        [N, N, N, 7, 1, 1],
    ),
    guest(
        "buffer_writer",
        "tests/guests/fleet/buffer_writer.c",
        (3, 50_417),
        [N, N, N, 11, 3, 1],
        [N, N, N, 11, 3, 1],
    ),
    guest(
        "tomcat_37458",
        "tests/guests/fleet/tomcat_37458.cpp",
        (15, 0),
        [10, N, N, 2, 1, 1],
        [8, N, N, 1, 1, 1],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_may_differ_by_a_twentieth() {
        let piper = GUESTS.iter().find(|guest| guest.name == "piper");
        assert!(piper.is_some_and(|piper| piper.is_like(6, 360) && !piper.is_like(6, 365) && !piper.is_like(5, 347)));
    }

    #[test]
    fn shares_of_less_than_an_element_are_not_tried() {
        let piper = GUESTS.iter().find(|guest| guest.name == "piper");
        assert!(piper.is_some_and(|piper| !piper.has_share(1_250) && piper.has_share(1_670)));
    }
}
