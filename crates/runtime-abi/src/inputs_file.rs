//! The file `inputs` as the runtime maps it where a hybrid schedule is enforced: what came into the program when the schedule was learned.
//! `log-format` writes it; all numbers little-endian.
//!
//! ```text
//! ListsHeader | ThreadList × threads | InputEntry × entries (thread by thread, in program order) | u64 checksum
//! ```
//!
//! Bytes themselves are not kept, only a digest of them. Which calls have an entry, and what of them goes into it, says [`crate::compared`].

/// "RFRNINP\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNINP\x01");
pub const VERSION: u32 = 1;
pub const FILE_NAME: &str = "inputs";

/// While the run is recorded that a schedule is learned from, each thread writes its own entries down: `thread-N.learned`, a [`LearnedHeader`] and
/// the entries behind it.
pub const LEARNED_EXTENSION: &str = "learned";
/// "RFRNLRN\x01", little-endian.
pub const LEARNED_MAGIC: u64 = u64::from_le_bytes(*b"RFRNLRN\x01");

/// One call that brought something in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputEntry {
    /// The number of the call, or one of the numbers that stand for what is none (`log_format::inputs`).
    pub number: u32,
    pub reserved: u32,
    /// What it returned; of calls that return a descriptor or an address: 0, or the error.
    pub result: i64,
    /// Of what is compared of the bytes that it wrote.
    pub digest: u64,
    /// How many those are.
    pub bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LearnedHeader {
    pub magic: u64,
    pub version: u32,
    pub thread: u32,
    /// Entries that are whole. Written after them.
    pub entries: u64,
    pub reserved: [u64; 5],
}

const _: () = assert!(size_of::<InputEntry>() == 32);
const _: () = assert!(size_of::<LearnedHeader>() == 64);

/// Condenses bytes, however they are divided into parts of a call. It tells inputs apart that differ by chance; whoever wants two to
/// have the same one can find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    state: u64,
    bytes: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest {
            state: 0x243f_6a88_85a3_08d3,
            bytes: 0,
        }
    }
}

impl Digest {
    /// Adds a part: other parts that hold the same bytes in sequence are another digest.
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
        // So that zeros at the end count, and where a part ends.
        self.mix(bytes.len() as u64 | 1 << 63);
        self.bytes += bytes.len() as u64;
    }

    /// Adds a number that is no byte of an input, but says something about it.
    pub fn add_number(&mut self, number: u64) {
        self.mix(number);
    }

    #[inline]
    fn mix(&mut self, word: u64) {
        // Both halves of a product with an odd number depend on the word; what is added keeps the state where the product is 0.
        let product = u128::from(self.state ^ word) * 0xf39c_c060_5ced_c835;
        self.state = (product as u64 ^ (product >> 64) as u64)
            .rotate_left(29)
            .wrapping_add(word ^ 0x1319_8a2e_0370_7344);
    }

    pub fn value(&self) -> u64 {
        self.state ^ self.state >> 32
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    fn of(parts: &[&[u8]]) -> u64 {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.add(part));
        digest.value()
    }

    #[test]
    fn every_bit_and_every_length_is_another_digest() {
        let bytes = [0u8; 96];
        let mut found: [u64; 96 * 8 + 97] = [0; 96 * 8 + 97];
        for bit in 0..96 * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            found[bit] = of(&[&changed]);
        }
        for length in 0..=96 {
            found[96 * 8 + length] = of(&[&bytes[..length]]);
        }
        for (at, one) in found.iter().enumerate() {
            assert!(!found[..at].contains(one), "digest {at} is not alone");
        }
    }

    #[test]
    fn parts_count() {
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab"]), of(&[b"ab", b""]));
        assert_eq!(of(&[b"ab", b"c"]), of(&[b"ab", b"c"]));
    }

    #[test]
    fn words_that_meet_the_state_do_not_hide_what_was_before() {
        // A word equal to the state makes the product 0.
        let mut one = Digest::default();
        let mut other = Digest::default();
        one.add_number(1);
        other.add_number(2);
        let (at_one, at_other) = (one.state, other.state);
        one.add_number(at_one);
        other.add_number(at_other);
        assert_ne!(one.value(), other.value());
    }
}
