//! Text without allocation.

/// A short text put together without allocating; what does not fit is cut off.
pub struct Line {
    text: [u8; 4352],
    length: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            text: [0; 4352],
            length: 0,
        }
    }
}

impl Line {
    pub fn text(&mut self, bytes: &[u8]) {
        let room = self.text.len() - self.length;
        let bytes = &bytes[..bytes.len().min(room)];
        self.text[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub fn number(&mut self, mut value: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        let from = at;
        self.text(&digits[from..]);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}
