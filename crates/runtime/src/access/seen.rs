//! The values that an access moved: methods that record values need them, and checks of a replay.
use access_protocol::Values;

/// What an access read and what it wrote.
#[derive(Clone, Copy)]
pub struct Seen {
    pub read: Moved,
    pub written: Moved,
}

/// Bytes that went between the program's memory and the thread: their copy in the thread's own hands.
#[derive(Clone, Copy)]
pub enum Moved {
    /// None, or nobody here knows them.
    Unknown,
    /// As many of its low bytes as the access has.
    Number(u64),
    Wide(u128),
    /// A private copy.
    At(*const u8),
    Repeated(u8),
}

impl Seen {
    pub const UNKNOWN: Seen = Seen {
        read: Moved::Unknown,
        written: Moved::Unknown,
    };

    pub fn read(read: Moved) -> Seen {
        Seen { read, ..Seen::UNKNOWN }
    }

    /// A load that has brought this; nothing, as long as it is not done.
    pub fn loaded<N: Copy + Into<u64>>(value: Option<&N>) -> Seen {
        Seen::read(value.map_or(Moved::Unknown, |value| Moved::Number((*value).into())))
    }

    pub fn written(written: Moved) -> Seen {
        Seen {
            written,
            ..Seen::UNKNOWN
        }
    }

    /// An atomic update that has found this, and makes something of it.
    pub fn updated<N: Copy + Into<u64>>(before: Option<&N>, after: impl FnOnce(N) -> u64) -> Seen {
        let Some(before) = before.copied() else {
            return Seen::UNKNOWN;
        };
        Seen {
            read: Moved::Number(before.into()),
            written: Moved::Number(after(before)),
        }
    }
}

impl Values for Seen {
    #[inline(always)]
    fn check(&self) -> i64 {
        let condense = |value: u64| 1 + (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as i64;
        match self.read {
            Moved::Number(value) => condense(value),
            Moved::Wide(value) => condense(value as u64 ^ (value >> 64) as u64),
            Moved::Unknown | Moved::At(_) | Moved::Repeated(_) => 0,
        }
    }

    #[inline]
    fn read(&self, offset: u64, bytes: u64) -> Option<u64> {
        self.read.piece(offset, bytes)
    }

    #[inline]
    fn written(&self, offset: u64, bytes: u64) -> Option<u64> {
        self.written.piece(offset, bytes)
    }
}

impl Moved {
    /// Up to 8 of the access's bytes, from `offset` on, as a number.
    pub fn piece(self, offset: u64, bytes: u64) -> Option<u64> {
        let number = match self {
            Moved::Unknown => return None,
            Moved::Number(value) => value >> (8 * offset),
            Moved::Wide(value) => (value >> (8 * offset)) as u64,
            Moved::Repeated(byte) => u64::from_le_bytes([byte; 8]),
            Moved::At(copy) => {
                let mut value = [0u8; 8];
                // SAFETY: a private copy of all bytes of the access, of which these are some.
                unsafe {
                    core::ptr::copy_nonoverlapping(copy.add(offset as usize), value.as_mut_ptr(), bytes as usize);
                }
                u64::from_le_bytes(value)
            }
        };
        Some(number & (u64::MAX >> (64 - 8 * bytes)))
    }
}
