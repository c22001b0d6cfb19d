//! What zlib has compressed (RFC 1950, RFC 1951), back to bytes of which we know how many they are.
//!
//! The bytes come from a file we did not just write: nothing here panics, and no more is allocated than was said beforehand.

const LENGTH_BASE: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
];
const LENGTH_BITS: [u8; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
];
const DISTANCE_BASE: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
    8193, 12289, 16385, 24577,
];
const DISTANCE_BITS: [u8; 30] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
];
/// In which order the lengths of codes for lengths of codes are given.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const LONGEST: usize = 15;

/// At most so many bytes come of one.
pub const RATIO_MAX: u64 = 1032;

/// The `whole` bytes that `packed` is made of, or nothing if it is not made of so many.
pub fn inflate(packed: &[u8], whole: usize) -> Option<Vec<u8>> {
    if whole as u64 > (packed.len() as u64).checked_mul(RATIO_MAX)? {
        return None;
    }
    let (header, rest) = packed.split_at_checked(2)?;
    // The method is deflate, there is no dictionary, and the check of the two bytes.
    let is_ours = header[0] & 0x0f == 8 && header[1] & 0x20 == 0;
    if !is_ours || !(u16::from(header[0]) << 8 | u16::from(header[1])).is_multiple_of(31) {
        return None;
    }
    let mut bits = Bits { bytes: rest, at: 0 };
    let mut out = Vec::with_capacity(whole);
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => stored(&mut bits, &mut out, whole)?,
            1 => coded(&mut bits, &fixed_codes()?, &mut out, whole)?,
            2 => {
                let codes = own_codes(&mut bits)?;
                coded(&mut bits, &codes, &mut out, whole)?;
            }
            _ => return None,
        }
        if is_last {
            return (out.len() == whole).then_some(out);
        }
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u8) -> Option<u32> {
        let mut number = 0;
        for bit in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            number |= u32::from(byte >> (self.at % 8) & 1) << bit;
            self.at += 1;
        }
        Some(number)
    }
}

fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>, whole: usize) -> Option<()> {
    bits.at = bits.at.next_multiple_of(8);
    let (length, complement) = (bits.take(16)?, bits.take(16)?);
    let start = bits.at / 8;
    let data = bits.bytes.get(start..start.checked_add(length as usize)?)?;
    if length != complement ^ 0xffff || out.len() + data.len() > whole {
        return None;
    }
    out.extend_from_slice(data);
    bits.at += 8 * data.len();
    Some(())
}

/// A code: how many of its words have each length, and what they mean, by length and then by word.
struct Code {
    counts: [u16; LONGEST + 1],
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Option<Code> {
        let mut counts = [0; LONGEST + 1];
        for length in lengths {
            *counts.get_mut(usize::from(*length))? += 1;
        }
        let mut symbols = Vec::with_capacity(lengths.len());
        for length in 1..=LONGEST {
            let of_length = (0..).zip(lengths).filter(|(_, own)| usize::from(**own) == length);
            symbols.extend(of_length.map(|(symbol, _)| symbol));
        }
        Some(Code { counts, symbols })
    }

    fn next(&self, bits: &mut Bits<'_>) -> Option<u16> {
        let (mut word, mut first, mut index) = (0i32, 0i32, 0i32);
        for length in 1..=LONGEST {
            word |= bits.take(1)? as i32;
            let count = i32::from(self.counts[length]);
            if word - first < count {
                return self.symbols.get(usize::try_from(index + word - first).ok()?).copied();
            }
            index += count;
            first = (first + count) << 1;
            word <<= 1;
        }
        None
    }
}

/// For bytes and lengths, and for distances.
struct Codes {
    literals: Code,
    distances: Code,
}

fn fixed_codes() -> Option<Codes> {
    let mut lengths = [8; 288];
    lengths[144..256].fill(9);
    lengths[256..280].fill(7);
    Some(Codes {
        literals: Code::new(&lengths)?,
        distances: Code::new(&[5; 30])?,
    })
}

fn own_codes(bits: &mut Bits<'_>) -> Option<Codes> {
    let literals = bits.take(5)? as usize + 257;
    let distances = bits.take(5)? as usize + 1;
    let given = bits.take(4)? as usize + 4;
    let mut lengths = [0u8; 19];
    for at in ORDER.iter().take(given) {
        lengths[*at] = bits.take(3)? as u8;
    }
    let code = Code::new(&lengths)?;
    let mut lengths: Vec<u8> = Vec::with_capacity(literals + distances);
    while lengths.len() < literals + distances {
        let (length, times) = match code.next(bits)? {
            length @ 0..=15 => (length as u8, 1),
            16 => (*lengths.last()?, 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            _ => (0, 11 + bits.take(7)?),
        };
        lengths.extend(std::iter::repeat_n(length, times as usize));
    }
    if lengths.len() != literals + distances {
        return None;
    }
    Some(Codes {
        literals: Code::new(&lengths[..literals])?,
        distances: Code::new(&lengths[literals..])?,
    })
}

fn coded(bits: &mut Bits<'_>, codes: &Codes, out: &mut Vec<u8>, whole: usize) -> Option<()> {
    loop {
        let symbol = usize::from(codes.literals.next(bits)?);
        match symbol {
            0..=255 if out.len() < whole => out.push(symbol as u8),
            0..=255 => return None,
            256 => return Some(()),
            _ => {
                let at = symbol - 257;
                let length = usize::from(*LENGTH_BASE.get(at)?) + bits.take(LENGTH_BITS[at])? as usize;
                let at = usize::from(codes.distances.next(bits)?);
                let distance = usize::from(*DISTANCE_BASE.get(at)?) + bits.take(DISTANCE_BITS[at])? as usize;
                let from = out.len().checked_sub(distance)?;
                if out.len() + length > whole {
                    return None;
                }
                for byte in from..from + length {
                    out.push(out[byte]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::inflate;

    /// "hello hello hello\n", by zlib at level 9.
    const FIXED: [u8; 17] = [
        0x78, 0xda, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90, 0x5c, 0x00, 0x40, 0xb5, 0x06, 0x87,
    ];

    #[test]
    fn a_short_text() {
        assert_eq!(inflate(&FIXED, 18).as_deref(), Some(&b"hello hello hello\n"[..]));
        for wrong in [0, 1, 17, 19, 1 << 40] {
            assert_eq!(inflate(&FIXED, wrong), None);
        }
        for end in 0..FIXED.len() - 4 {
            assert_eq!(inflate(&FIXED[..end], 18), None, "cut at {end}");
        }
    }

    #[test]
    fn stored_bytes() {
        let packed = [0x78, 0x01, 0x01, 0x03, 0x00, 0xfc, 0xff, b'a', b'b', b'c', 0, 0, 0, 0];
        assert_eq!(inflate(&packed, 3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(inflate(&packed, 2), None);
    }
}
