//! A search as bytes, so that it can go on in another process.
//!
//! The encoding is private to one version of this crate: whoever reads the bytes of another starts anew. Numbers are variable-length (seven bits to a byte, the
//! lowest first, no longer than needed), lists begin with their length, alternatives with their number. The decoder never panics and
//! never allocates more than a constant factor of its input; what it accepts is written again to the same bytes.
use crate::EventLog;
use crate::Search;
use crate::search::Phase;
use std::fmt;

mod fields;

const MAGIC: &[u8; 8] = b"refrsrch";
/// Raised with every change of what a search knows or of the order in which it goes.
const VERSION: u64 = 4;
/// Counts of a search are smaller by far; with greater ones, a sum might overflow.
const COUNT_MAX: u64 = 1 << 60;
/// Layers are numbered by the bits of a word; there are five kinds of them.
const LAYERS_MAX: usize = 8;

/// Why bytes are not a search that can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Not a saved search at all.
    Magic,
    Version {
        found: u64,
    },
    /// A search in another log.
    OtherLog,
    /// Damage shows at this byte.
    Damaged {
        offset: usize,
        what: &'static str,
    },
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Magic => write!(f, "not a saved search"),
            Unusable::Version { found } => {
                write!(
                    f,
                    "a search saved in version {found} of the format; this build reads version {VERSION}"
                )
            }
            Unusable::OtherLog => write!(f, "the saved search is for another log"),
            Unusable::Damaged { offset, what } => write!(f, "the saved search is damaged at byte {offset}: {what}"),
        }
    }
}

impl std::error::Error for Unusable {}

impl Search {
    pub fn save(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        VERSION.write(&mut out);
        self.log.fingerprint().write(&mut out);
        self.tuning.write(&mut out);
        self.admitted.write(&mut out);
        self.admission.write(&mut out);
        self.met.write(&mut out);
        self.cache.write(&mut out);
        self.statistics.write(&mut out);
        self.phase.write(&mut out);
        out
    }

    /// The search that was saved, in the same log.
    pub fn restore(bytes: &[u8], log: EventLog) -> Result<Search, Unusable> {
        let mut from = Reader { bytes, offset: 0 };
        if bytes.get(..MAGIC.len()) != Some(MAGIC) {
            return Err(Unusable::Magic);
        }
        from.offset = MAGIC.len();
        let version = u64::read(&mut from)?;
        if version != VERSION {
            return Err(Unusable::Version { found: version });
        }
        if u64::read(&mut from)? != log.fingerprint() {
            return Err(Unusable::OtherLog);
        }
        let search = Search {
            log,
            tuning: Stored::read(&mut from)?,
            admitted: Stored::read(&mut from)?,
            admission: Stored::read(&mut from)?,
            met: Stored::read(&mut from)?,
            cache: Stored::read(&mut from)?,
            statistics: Stored::read(&mut from)?,
            phase: Stored::read(&mut from)?,
        };
        if from.offset != bytes.len() {
            return Err(from.damaged("more bytes than the search has"));
        }
        search.check().map_err(|what| from.damaged(what))?;
        Ok(search)
    }

    /// What every search keeps to, and its code relies on.
    fn check(&self) -> Result<(), &'static str> {
        let statistics = self.statistics;
        let mut counts = Vec::new();
        statistics.write(&mut counts);
        let mut reader = Reader {
            bytes: &counts,
            offset: 0,
        };
        while reader.offset < counts.len() {
            if u64::read(&mut reader).is_ok_and(|count| count > COUNT_MAX) {
                return Err("an impossible count");
            }
        }
        if self.admission > COUNT_MAX {
            return Err("an impossible count");
        }
        if self.tuning.layers.len() > LAYERS_MAX {
            return Err("too many layers");
        }
        match &self.phase {
            Phase::Minimising(minimisation) if minimisation.part == 0 => Err("parts of nothing"),
            Phase::Failed(failure) if failure.cursor.round > COUNT_MAX => Err("an impossible count"),
            Phase::Over(_) => Ok(()),
            Phase::Failed(failure) if !failure.is_settled(&self.circumstances()) => Err("no place to go on from"),
            _ if self.asks(1).is_empty() => Err("nothing to do, and yet not over"),
            _ => Ok(()),
        }
    }
}

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Reader<'_> {
    fn damaged(&self, what: &'static str) -> Unusable {
        Unusable::Damaged {
            offset: self.offset,
            what,
        }
    }

    fn byte(&mut self) -> Result<u8, Unusable> {
        let byte = self
            .bytes
            .get(self.offset)
            .copied()
            .ok_or(self.damaged("the bytes end"))?;
        self.offset += 1;
        Ok(byte)
    }
}

/// Written, at least one byte, and read again.
pub(crate) trait Stored: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(from: &mut Reader) -> Result<Self, Unusable>;
}

impl Stored for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn read(from: &mut Reader) -> Result<u64, Unusable> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = from.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(from.damaged("a number of more than 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(from.damaged("a number longer than needed"));
                }
                return Ok(value);
            }
        }
        Err(from.damaged("a number of more than 64 bits"))
    }
}

impl Stored for usize {
    fn write(&self, out: &mut Vec<u8>) {
        (*self as u64).write(out);
    }

    fn read(from: &mut Reader) -> Result<usize, Unusable> {
        let number = u64::read(from)?;
        usize::try_from(number).map_err(|_| from.damaged("a number too large for this machine"))
    }
}

impl Stored for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(from: &mut Reader) -> Result<u32, Unusable> {
        let number = u64::read(from)?;
        u32::try_from(number).map_err(|_| from.damaged("a number of more than 32 bits"))
    }
}

impl Stored for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(from: &mut Reader) -> Result<bool, Unusable> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(from.damaged("neither yes nor no")),
        }
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader) -> Result<Option<T>, Unusable> {
        match bool::read(from)? {
            true => Ok(Some(T::read(from)?)),
            false => Ok(None),
        }
    }
}

impl<T: Stored> Stored for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_ref().write(out);
    }

    fn read(from: &mut Reader) -> Result<Box<T>, Unusable> {
        Ok(Box::new(T::read(from)?))
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.len().write(out);
        self.iter().for_each(|element| element.write(out));
    }

    fn read(from: &mut Reader) -> Result<Vec<T>, Unusable> {
        let length = usize::read(from)?;
        // An element has at least one byte: more than there are bytes left cannot come, and nothing is reserved for them.
        if length > from.bytes.len() - from.offset {
            return Err(from.damaged("a list longer than the bytes"));
        }
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(T::read(from)?);
        }
        Ok(list)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader) -> Result<(A, B), Unusable> {
        Ok((A::read(from)?, B::read(from)?))
    }
}
