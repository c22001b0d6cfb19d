//! Bytes to entries, with a buffer of fixed size.
use super::Expected;
use super::HEADER_BYTES;
use super::MAGIC;
use super::MAX_ENTRY_BYTES;
use super::VERSION;
use super::head;
use super::whole::MAX_TOLD_BYTES;
use crate::Corrupt;
use crate::Fault;
use crate::decode::check_version;
use crate::decode::u32_at;
use crate::decode::u64_at;
use crate::predict::unzigzag;
use run_model::Access;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::Record;
use run_model::SiteId;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use std::fmt;
use std::io;
use std::io::Read;

/// Why a trace cannot be read.
#[derive(Debug)]
pub enum TraceError {
    Unreadable(io::Error),
    Corrupt(Corrupt),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Unreadable(error) => error.fmt(f),
            TraceError::Corrupt(corrupt) => corrupt.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<Corrupt> for TraceError {
    fn from(corrupt: Corrupt) -> TraceError {
        TraceError::Corrupt(corrupt)
    }
}

const BUFFER_BYTES: usize = 1 << 16;

/// The entries of one thread's trace. It ends at the end of the bytes, at a zero where an entry would begin (space that was
/// allocated ahead), in the middle of an entry that was being written when the thread ended ([`TraceReader::is_torn`]), or
/// after the first error.
#[derive(Debug)]
pub struct TraceReader<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// What of the buffer is still to be decoded.
    start: usize,
    end: usize,
    /// Offset in the file of the buffer's first byte.
    base: u64,
    /// The reader has no more.
    is_all: bool,
    is_over: bool,
    is_torn: bool,
    expected: Expected,
}

/// Why an entry cannot be decoded: its bytes end, or are none that we write.
pub(super) enum Undecodable {
    Cut,
    Fault(Fault),
}

impl<R: Read> TraceReader<R> {
    /// `reader` is at the beginning of the trace of `thread`.
    pub fn open(reader: R, thread: ThreadIndex) -> Result<TraceReader<R>, TraceError> {
        TraceReader::open_as(reader, thread, MAGIC, VERSION)
    }

    pub(super) fn open_as(
        reader: R,
        thread: ThreadIndex,
        expected_magic: u64,
        newest: u32,
    ) -> Result<TraceReader<R>, TraceError> {
        let mut opened = TraceReader {
            reader,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            base: 0,
            is_all: false,
            is_over: false,
            is_torn: false,
            expected: Expected::new(),
        };
        opened.fill()?;
        let bytes = &opened.buffer[..opened.end];
        if bytes.len() < HEADER_BYTES {
            let (expected, found) = (HEADER_BYTES as u64, bytes.len() as u64);
            return Err(Corrupt::at(bytes.len(), Fault::NoHeader { expected, found }).into());
        }
        let (magic, version, owner) = (u64_at(bytes, 0), u32_at(bytes, 8), u32_at(bytes, 12));
        if magic != expected_magic {
            let expected = expected_magic;
            return Err(Corrupt::at(0, Fault::Magic { expected, found: magic }).into());
        }
        check_version(version, 8, newest)?;
        if owner != thread.0 {
            let expected = thread.0;
            return Err(Corrupt::at(12, Fault::Thread { expected, found: owner }).into());
        }
        opened.start = HEADER_BYTES;
        Ok(opened)
    }

    /// Did the bytes end within an entry? Known when the last entry has been read.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Where the next entry begins in the file.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Moves what is left to the front and reads until the buffer is full or the reader at its end.
    fn fill(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        while self.end < self.buffer.len() && !self.is_all {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_all = true,
                // A reader that claims more than it was asked for is wrong, and must not make us panic.
                Ok(bytes) => self.end = (self.end + bytes).min(self.buffer.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::Unreadable(error)),
            }
        }
        Ok(())
    }

    /// The next entry by `decode`; none behind the last, nor behind an error.
    pub(super) fn next_by<T>(
        &mut self,
        decode: impl FnOnce(&mut Bytes<'_>, &mut Expected) -> Result<T, Undecodable>,
    ) -> Option<Result<T, TraceError>> {
        if self.is_over {
            return None;
        }
        let read = self.read_entry(decode).transpose();
        self.is_over = !matches!(read, Some(Ok(_)));
        read
    }

    fn read_entry<T>(
        &mut self,
        decode: impl FnOnce(&mut Bytes<'_>, &mut Expected) -> Result<T, Undecodable>,
    ) -> Result<Option<T>, TraceError> {
        if self.end - self.start < MAX_ENTRY_BYTES.max(MAX_TOLD_BYTES) && !self.is_all {
            self.fill()?;
        }
        let mut bytes = Bytes {
            bytes: &self.buffer[self.start..self.end],
            read: 0,
        };
        if bytes.bytes.first().is_none_or(|first| *first == 0) {
            return Ok(None);
        }
        match decode(&mut bytes, &mut self.expected) {
            Ok(entry) => {
                self.start += bytes.read;
                Ok(Some(entry))
            }
            Err(Undecodable::Cut) => {
                self.is_torn = true;
                Ok(None)
            }
            Err(Undecodable::Fault(fault)) => {
                let offset = self.offset();
                Err(Corrupt { offset, fault }.into())
            }
        }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<TraceEntry, TraceError>;

    fn next(&mut self) -> Option<Result<TraceEntry, TraceError>> {
        self.next_by(decode)
    }
}

pub(super) fn decode(bytes: &mut Bytes<'_>, expected: &mut Expected) -> Result<TraceEntry, Undecodable> {
    let first = bytes.byte()?;
    match first & head::WHAT {
        head::ACCESS => decode_access(first, bytes, expected),
        head::ORDERED => decode_ordered(first, bytes, expected),
        head::UNORDERED if first == head::UNORDERED => {
            expected.learn_unordered();
            Ok(TraceEntry::Unordered)
        }
        _ => Err(Undecodable::Fault(Fault::Kind { found: first })),
    }
}

fn decode_ordered(first: u8, bytes: &mut Bytes<'_>, expected: &mut Expected) -> Result<TraceEntry, Undecodable> {
    let found = first >> head::KIND_SHIFT;
    let kind = Kind::from_u8(found).ok_or(Undecodable::Fault(Fault::Kind { found }))?;
    let found = bytes.byte()?;
    let op = Op::from_u8(found).ok_or(Undecodable::Fault(Fault::Op { found }))?;
    let access = Access(bytes.byte()?);
    let sequence = expected.sequence.wrapping_add(bytes.varint()?);
    let object = match first & head::SAME_OBJECT {
        0 => expected.object.wrapping_add(bytes.difference()? as u64),
        _ => expected.object,
    };
    let site = match first & head::SAME_SITE {
        0 => expected.sync_site.wrapping_add(bytes.difference32()?),
        _ => expected.sync_site,
    };
    let record = Record {
        kind,
        op,
        access,
        object,
        site: SiteId(site),
        value: bytes.difference()?,
        ..Record::default()
    };
    expected.learn_ordered(sequence, object, record.site);
    Ok(TraceEntry::Ordered { sequence, record })
}

fn decode_access(first: u8, bytes: &mut Bytes<'_>, expected: &mut Expected) -> Result<TraceEntry, Undecodable> {
    let sequence_difference = match first & head::NEXT_SEQUENCE {
        0 => bytes.varint()?,
        _ => 1,
    };
    let sequence = expected.sequence.wrapping_add(sequence_difference);
    let (site, ordinal) = match first & head::SAME_PLACE {
        0 => (
            expected.site.wrapping_add(bytes.difference32()?),
            expected.ordinal.wrapping_add(bytes.difference32()?),
        ),
        _ => expected.next(),
    };
    let slot = expected.instructions[Expected::slot(site, ordinal)];
    let address = slot.address.wrapping_add(bytes.difference()? as u64);
    let length = match first & head::SAME_BYTES {
        0 => bytes.number32()?,
        _ => slot.bytes,
    };
    let transfers = match first & head::SAME_TRANSFERS {
        0 => expected.transfers.wrapping_add(bytes.varint()?),
        _ => expected.transfers,
    };
    let at = Place {
        site: SiteId(site),
        ordinal,
        transfers,
    };
    expected.learn_access(sequence, address, length, &at);
    Ok(TraceEntry::Access {
        sequence,
        address,
        bytes: length,
        reads: first & head::READS != 0,
        writes: first & head::WRITES != 0,
        at,
    })
}

pub(super) struct Bytes<'a> {
    bytes: &'a [u8],
    read: usize,
}

impl Bytes<'_> {
    /// The next one, which stays to be read.
    pub(super) fn peek(&self) -> Result<u8, Undecodable> {
        self.bytes.get(self.read).copied().ok_or(Undecodable::Cut)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&[u8], Undecodable> {
        let taken = self.bytes.get(self.read..).and_then(|rest| rest.get(..length));
        self.read += length;
        taken.ok_or(Undecodable::Cut)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Undecodable> {
        let byte = *self.bytes.get(self.read).ok_or(Undecodable::Cut)?;
        self.read += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                break;
            }
            number |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Undecodable::Fault(Fault::TooBig))
    }

    pub(super) fn difference(&mut self) -> Result<i64, Undecodable> {
        Ok(unzigzag(self.varint()?))
    }

    /// A signed difference of 32 bits.
    pub(super) fn difference32(&mut self) -> Result<u32, Undecodable> {
        let difference = i32::try_from(self.difference()?).map_err(|_| Undecodable::Fault(Fault::TooBig))?;
        Ok(difference as u32)
    }

    pub(super) fn number32(&mut self) -> Result<u32, Undecodable> {
        u32::try_from(self.varint()?).map_err(|_| Undecodable::Fault(Fault::TooBig))
    }
}
