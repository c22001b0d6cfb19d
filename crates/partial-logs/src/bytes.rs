//! Numbers and text as bytes, and back. There is one way to write each, and reading takes no other.
use crate::Corrupt;
use crate::corrupt::Fault;

pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// Never reads beyond the end, whatever the bytes are.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    next: usize,
    /// Where `bytes` begin in what the caller's caller sees.
    base: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], base: usize) -> Reader<'a> {
        Reader { bytes, next: 0, base }
    }

    pub fn offset(&self) -> usize {
        self.base + self.next
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.next
    }

    pub fn fault<T>(&self, offset: usize, fault: Fault) -> Result<T, Corrupt> {
        Err(Corrupt::at(offset, fault))
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Corrupt> {
        if count > self.remaining() {
            return self.fault(self.base + self.bytes.len(), Fault::Cut);
        }
        let taken = &self.bytes[self.next..self.next + count];
        self.next += count;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    /// LEB128, in as few bytes as the number needs.
    pub fn number(&mut self) -> Result<u64, Corrupt> {
        let begin = self.offset();
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return match byte == 0 && shift > 0 {
                    true => self.fault(begin, Fault::LongNumber),
                    false => Ok(number),
                };
            }
        }
        self.fault(begin, Fault::TooBig)
    }

    pub fn number_u32(&mut self) -> Result<u32, Corrupt> {
        let begin = self.offset();
        u32::try_from(self.number()?).map_err(|_| Corrupt::at(begin, Fault::TooBig))
    }

    /// How many of something there are, each of which takes at least `bytes_each`: a count that cannot be true is refused before anybody
    /// makes room for it.
    pub fn count(&mut self, what: &'static str, most: usize, bytes_each: usize) -> Result<usize, Corrupt> {
        let begin = self.offset();
        let found = self.number()?;
        if found > most as u64 {
            return self.fault(begin, Fault::TooMany { what, most, found });
        }
        match found as usize > self.remaining() / bytes_each {
            true => self.fault(begin, Fault::Cut),
            false => Ok(found as usize),
        }
    }

    pub fn text(&mut self, what: &'static str, bytes_max: usize) -> Result<&'a str, Corrupt> {
        let count = self.count(what, bytes_max, 1)?;
        let begin = self.offset();
        let bytes = self.take(count)?;
        str::from_utf8(bytes).map_err(|_| Corrupt::at(begin, Fault::Text { what }))
    }

    pub fn end(&self) -> Result<(), Corrupt> {
        match self.remaining() {
            0 => Ok(()),
            bytes => self.fault(self.offset(), Fault::Trailing { bytes }),
        }
    }
}
