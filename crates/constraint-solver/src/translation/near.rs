//! Binary search for answers that lie close to the last one.

/// `partition_point` over `0..length`, in time that grows with the distance from `hint`, not with `length`.
pub(crate) fn partition_point_near(length: usize, hint: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let hint = hint.min(length);
    // Everything below `low` is before, nothing from `high` on is.
    let (mut low, mut high);
    let mut step = 1;
    if hint < length && is_before(hint) {
        (low, high) = (hint + 1, length);
        while let Some(probe) = low.checked_add(step - 1).filter(|probe| *probe < length) {
            if !is_before(probe) {
                high = probe;
                break;
            }
            low = probe + 1;
            step *= 2;
        }
    } else {
        (low, high) = (0, hint);
        while let Some(probe) = high.checked_sub(step) {
            if is_before(probe) {
                low = probe + 1;
                break;
            }
            high = probe;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_makes_no_difference() {
        for length in 0..40 {
            for answer in 0..=length {
                for hint in 0..length + 3 {
                    let found = partition_point_near(length, hint, |index| index < answer);
                    assert_eq!(found, answer, "of {length}, from {hint}");
                }
            }
        }
    }
}
