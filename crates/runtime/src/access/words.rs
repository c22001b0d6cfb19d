//! Looking for bytes eight at a time.

const BYTES: usize = size_of::<u64>();
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Not zero if a byte of the word is; then its lowest bit that is set is the highest of the first such byte. (A borrow can set bits above that,
/// never below.)
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

/// Where the first byte is that is `one` or `other`.
pub fn find(bytes: &[u8], one: u8, other: u8) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<BYTES>();
    let (ones, others) = (ONES * u64::from(one), ONES * u64::from(other));
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ ones) | zeros(word ^ others);
        if found != 0 {
            // Of each of the two the lowest bit is right, so the lower one is.
            return Some(i * BYTES + first(found));
        }
    }
    let found = rest.iter().position(|byte| *byte == one || *byte == other)?;
    Some(words.len() * BYTES + found)
}

/// Where the first bytes are of which `stops` is true, of two slices of one length; it is asked only for words that differ and, of
/// a text, for those with a terminator.
pub fn compare(a: &[u8], b: &[u8], text: bool, stops: impl Fn(u8, u8) -> bool) -> Option<usize> {
    let ((a_words, a_rest), (b_words, b_rest)) = (a.as_chunks::<BYTES>(), b.as_chunks::<BYTES>());
    let stop = |x: &[u8], y: &[u8]| x.iter().zip(y).position(|(x, y)| stops(*x, *y));
    for (i, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let word = u64::from_le_bytes(*x);
        if word == u64::from_le_bytes(*y) && !(text && zeros(word) != 0) {
            continue;
        }
        if let Some(at) = stop(x, y) {
            return Some(i * BYTES + at);
        }
    }
    Some(a_words.len() * BYTES + stop(a_rest, b_rest)?)
}

#[cfg(test)]
mod tests {
    use super::compare;
    use super::find;

    /// Bytes that are easily taken for one another by arithmetic on words.
    const NEAR: [u8; 6] = [0, 1, 0x7f, 0x80, 0x81, 0xff];

    /// Every so often another one, the same in each run.
    fn bytes(length: usize, seed: usize) -> Vec<u8> {
        let mut state = seed as u64 * 0x9e37_79b9_7f4a_7c15 + 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            NEAR[(state % 6) as usize]
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_is_found_is_the_first() {
        for (length, seed) in (0..40).flat_map(|length| (0..20).map(move |seed| (length, seed))) {
            let bytes = bytes(length, seed);
            for (one, other) in NEAR.into_iter().flat_map(|one| NEAR.map(|other| (one, other))) {
                let expected = bytes.iter().position(|byte| *byte == one || *byte == other);
                assert_eq!(find(&bytes, one, other), expected, "{one} or {other} in {bytes:?}");
            }
        }
    }

    #[test]
    fn comparing_stops_at_the_first_difference_or_terminator() {
        for (length, at) in (1..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
            let same = vec![7u8; length];
            let mut other = same.clone();
            other[at] = 0x80;
            let differ = |x, y| x != y;
            assert_eq!(compare(&same, &same, true, differ), None);
            assert_eq!(compare(&same, &other, false, differ), Some(at));
            let mut ended = same.clone();
            ended[at] = 0;
            let stops = |x, y| x != y || x == 0;
            assert_eq!(compare(&ended, &ended, true, stops), Some(at));
            assert_eq!(compare(&ended, &ended, false, differ), None);
        }
    }
}
