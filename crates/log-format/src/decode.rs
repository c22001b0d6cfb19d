//! Bytes to records.
use crate::Corrupt;
use crate::FORMAT_VERSION;
use crate::Fault;
use crate::HEADER_BYTES;
use crate::MAGIC;
use crate::RollingHash;
use crate::TAIL_OFFSET;
use crate::Tail;
use crate::predict::Predictor;
use crate::predict::head;
use crate::predict::object_from_code;
use crate::predict::unzigzag;
use run_model::Access;
use run_model::Extent;
use run_model::Kind;
use run_model::MAX_SOURCES;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::SiteId;
use run_model::ThreadIndex;
use std::io;
use std::io::Read;

/// All flags that version 1 knows.
const ACCESS_MAX: u8 = Access::READS | Access::WRITES | Access::PREVIOUS_WROTE | Access::ATOMIC | Access::AFTER_HIDDEN;

/// A thread's log, checked: header, every record, and the hash over all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub thread: ThreadIndex,
    pub records: Vec<Record>,
}

/// What can be read of a log that may be damaged, and where the damage is.
#[derive(Clone, Debug)]
pub struct Prefix {
    pub log: Log,
    pub damage: Option<Corrupt>,
}

/// The whole log of `thread`, or what is wrong with it. The file may be longer than its log (preallocated zeros).
pub fn decode(file: &[u8], thread: ThreadIndex) -> Result<Log, Corrupt> {
    let records = LogReader::open(file, thread)?.collect::<Result<Vec<Record>, Corrupt>>()?;
    Ok(Log { thread, records })
}

/// As much as can be made of a log, for looking at it; not for replaying. A wrong hash damages the whole log, so its
/// records may be wrong too: the hash says that something changed, not where.
pub fn decode_prefix(file: &[u8], thread: ThreadIndex) -> Prefix {
    let mut prefix = Prefix {
        log: Log {
            thread,
            records: Vec::new(),
        },
        damage: None,
    };
    let (reader, damage) = match LogReader::open_damaged(file, thread) {
        Ok(opened) => opened,
        Err(damage) => {
            return Prefix {
                damage: Some(damage),
                ..prefix
            };
        }
    };
    prefix.damage = damage;
    for record in reader {
        match record {
            Ok(record) => prefix.log.records.push(record),
            // A cut file is the cause of whatever follows from it.
            Err(damage) => prefix.damage = prefix.damage.or(Some(damage)),
        }
    }
    prefix
}

/// A log's file, which need not be in memory as a whole.
pub trait LogFile {
    /// How many bytes it has.
    fn length(&self) -> u64;

    /// Bytes from offset `from` on: at least `bytes`, if the file has so many, or as many as there are. Nobody asks for
    /// what lies before again.
    fn window(&mut self, from: usize, bytes: usize) -> &[u8];
}

impl LogFile for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn window(&mut self, from: usize, _bytes: usize) -> &[u8] {
        self.get(from..).unwrap_or(&[])
    }
}

/// A log's file that is read piece by piece.
#[derive(Debug)]
pub struct Pieces<R> {
    reader: R,
    length: u64,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    base: usize,
    /// Why reading ended early.
    failure: Option<io::Error>,
}

/// At least as long as the longest record that a reader could be made to believe in.
const RECORD_BYTES_MAX: usize = 256;
const PIECE_BYTES: usize = 1 << 18;

impl<R: Read> Pieces<R> {
    /// `reader` is at the beginning of a file that has `length` bytes.
    pub fn new(reader: R, length: u64) -> Pieces<R> {
        Pieces {
            reader,
            length,
            buffer: Vec::new(),
            base: 0,
            failure: None,
        }
    }

    /// The reader, and why it could not be read to the end, if so: then what was found is not to be trusted.
    pub fn finish(self) -> (R, Option<io::Error>) {
        (self.reader, self.failure)
    }
}

impl<R: Read> LogFile for Pieces<R> {
    fn length(&self) -> u64 {
        self.length
    }

    fn window(&mut self, from: usize, bytes: usize) -> &[u8] {
        let start = from.saturating_sub(self.base).min(self.buffer.len());
        if self.buffer.len() - start >= bytes || self.failure.is_some() {
            return &self.buffer[start..];
        }
        self.buffer.drain(..start);
        self.base += start;
        let more = (PIECE_BYTES.max(bytes) - self.buffer.len()) as u64;
        self.failure = self.reader.by_ref().take(more).read_to_end(&mut self.buffer).err();
        &self.buffer
    }
}

/// The records of one log, one at a time. The hash is compared at the end: after the last record comes an error if it
/// is wrong, and nothing after any error.
#[derive(Clone, Debug)]
pub struct LogReader<F> {
    file: F,
    /// Offset in the file of the next byte.
    next: usize,
    /// Offset in the file of the end of the stream.
    end: usize,
    tail: Tail,
    hash: RollingHash,
    predictor: Predictor,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Records,
    Done,
}

impl<F: LogFile> LogReader<F> {
    /// Reads the header. Fails if it is not that of a log of `thread`, or promises more than the file has.
    pub fn open(file: F, thread: ThreadIndex) -> Result<LogReader<F>, Corrupt> {
        match LogReader::open_damaged(file, thread)? {
            (reader, None) => Ok(reader),
            (_, Some(damage)) => Err(damage),
        }
    }

    /// Bytes of the stream that were read so far.
    pub fn bytes_read(&self) -> u64 {
        (self.next - HEADER_BYTES) as u64
    }

    pub fn tail(&self) -> Tail {
        self.tail
    }

    pub fn into_file(self) -> F {
        self.file
    }

    /// Like `open`, but a file that is too short is read as far as it goes.
    fn open_damaged(mut file: F, thread: ThreadIndex) -> Result<(LogReader<F>, Option<Corrupt>), Corrupt> {
        let expected = HEADER_BYTES as u64;
        let found = file.length();
        let header = file.window(0, HEADER_BYTES).first_chunk::<HEADER_BYTES>();
        let header = header.ok_or_else(|| Corrupt::at(found as usize, Fault::NoHeader { expected, found }))?;
        check_header(header, thread)?;
        let tail = Tail::unpack(u64_at(header, TAIL_OFFSET));
        let there = found - expected;
        let damage = (tail.bytes > there).then(|| {
            Corrupt::at(
                TAIL_OFFSET,
                Fault::Cut {
                    expected: expected + tail.bytes,
                    found,
                },
            )
        });
        let reader = LogReader {
            file,
            next: HEADER_BYTES,
            end: HEADER_BYTES + tail.bytes.min(there) as usize,
            tail,
            hash: RollingHash::new(),
            predictor: Predictor::new(),
            state: State::Records,
        };
        Ok((reader, damage))
    }

    fn finish(&mut self) -> Option<Result<Record, Corrupt>> {
        self.state = State::Done;
        let found = self.hash.fold();
        let expected = self.tail.hash;
        (found != expected).then(|| Err(Corrupt::at(TAIL_OFFSET, Fault::Hash { expected, found })))
    }
}

/// Reads one record.
struct RecordReader<'a> {
    /// From the record's first byte on.
    bytes: &'a [u8],
    next: usize,
    /// Offset in the file of the record's first byte.
    base: usize,
    predictor: &'a mut Predictor,
}

impl RecordReader<'_> {
    fn record(&mut self) -> Result<Record, Corrupt> {
        let first_offset = self.offset();
        let first = self.byte()?;
        let kind = Kind::from_u8(first & head::KIND).ok_or_else(|| {
            Corrupt::at(
                first_offset,
                Fault::Kind {
                    found: first & head::KIND,
                },
            )
        })?;
        let op = if kind == Kind::Sync { self.op()? } else { Op::None };
        let extent_offset = self.offset();
        let access = match kind {
            Kind::Run => self.access()?,
            Kind::Read | Kind::Write => Access(self.byte()?),
            _ => Access(0),
        };
        let event = self.event()?;
        let object = if first & head::SAME_OBJECT != 0 {
            self.predictor.object(kind)
        } else {
            object_from_code(kind, self.varint()?, self.predictor.object(kind))
        };
        let site = if first & head::SAME_SITE != 0 {
            self.predictor.site(kind)
        } else {
            self.site(kind)?
        };
        let value = if first & head::SAME_VALUE != 0 {
            self.predictor.value(kind)
        } else {
            self.predictor.value(kind).wrapping_add(unzigzag(self.varint()?))
        };
        let (mut sources, mut version) = (Points::NONE, 0);
        if kind.is_versioned() {
            if Extent::unpack(access, object).is_none() {
                return Err(Corrupt::at(extent_offset, Fault::Access { found: access.0 }));
            }
            version = self.version(first & head::ONE_SOURCE != 0)?;
        } else {
            sources = self.sources(first & head::ONE_SOURCE != 0)?;
        }
        let site = SiteId(site);
        self.predictor.learn(event, kind, object, site, value);
        Ok(Record {
            event,
            kind,
            op,
            access,
            object,
            site,
            value,
            sources,
            version,
        })
    }

    fn version(&mut self, same: bool) -> Result<u64, Corrupt> {
        let difference = if same { 0 } else { unzigzag(self.varint()?) };
        let version = self.predictor.version().wrapping_add(difference as u64);
        self.predictor.learn_version(version);
        Ok(version)
    }

    fn op(&mut self) -> Result<Op, Corrupt> {
        let offset = self.offset();
        let found = self.byte()?;
        Op::from_u8(found).ok_or_else(|| Corrupt::at(offset, Fault::Op { found }))
    }

    fn access(&mut self) -> Result<Access, Corrupt> {
        let offset = self.offset();
        let found = self.byte()?;
        if found > ACCESS_MAX {
            Err(Corrupt::at(offset, Fault::Access { found }))
        } else {
            Ok(Access(found))
        }
    }

    fn event(&mut self) -> Result<u64, Corrupt> {
        let offset = self.offset();
        let previous = self.predictor.event();
        let event = previous.checked_add(self.varint()?);
        event.ok_or_else(|| Corrupt::at(offset, Fault::EventBackwards { previous }))
    }

    fn site(&mut self, kind: Kind) -> Result<u32, Corrupt> {
        let offset = self.offset();
        let difference = i32::try_from(unzigzag(self.varint()?)).map_err(|_| Corrupt::at(offset, Fault::TooBig))?;
        Ok(self.predictor.site(kind).wrapping_add(difference as u32))
    }

    fn sources(&mut self, one: bool) -> Result<Points, Corrupt> {
        let offset = self.offset();
        let number = if one { 1 } else { self.byte()? as usize };
        if number > MAX_SOURCES {
            let (most, found) = (MAX_SOURCES as u64, number as u64);
            return Err(Corrupt::at(offset, Fault::TooManySources { most, found }));
        }
        let mut sources = Points::default();
        for _ in 0..number {
            let offset = self.offset();
            let thread = u32::try_from(self.varint()?).map_err(|_| Corrupt::at(offset, Fault::TooBig))?;
            let difference = unzigzag(self.varint()?);
            let count = self.predictor.count(thread).wrapping_add(difference as u64);
            let source = Point {
                thread: ThreadIndex(thread),
                count,
            };
            self.predictor.learn_source(source);
            sources.push(source);
        }
        Ok(sources)
    }

    /// In the file, of the next byte.
    fn offset(&self) -> usize {
        self.base + self.next
    }

    fn byte(&mut self) -> Result<u8, Corrupt> {
        let byte = self.bytes.get(self.next).copied();
        self.next += 1;
        byte.ok_or_else(|| Corrupt::at(self.base + self.next - 1, Fault::RecordCut))
    }

    fn varint(&mut self) -> Result<u64, Corrupt> {
        let offset = self.offset();
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
                return Ok(number);
            }
        }
        Err(Corrupt::at(offset, Fault::TooBig))
    }
}

impl<F: LogFile> Iterator for LogReader<F> {
    type Item = Result<Record, Corrupt>;

    fn next(&mut self) -> Option<Result<Record, Corrupt>> {
        if self.state == State::Done {
            return None;
        }
        if self.next >= self.end {
            return self.finish();
        }
        let window = self.file.window(self.next, RECORD_BYTES_MAX);
        let mut reader = RecordReader {
            bytes: &window[..window.len().min(self.end - self.next)],
            next: 0,
            base: self.next,
            predictor: &mut self.predictor,
        };
        let record = reader.record();
        let length = reader.next;
        match record {
            Ok(_) => self.hash.update(&window[..length]),
            Err(_) => self.state = State::Done,
        }
        self.next += length;
        Some(record)
    }
}

fn check_header(header: &[u8; HEADER_BYTES], thread: ThreadIndex) -> Result<(), Corrupt> {
    let magic = u64_at(header, 0);
    if magic != MAGIC {
        return Err(Corrupt::at(
            0,
            Fault::Magic {
                expected: MAGIC,
                found: magic,
            },
        ));
    }
    let version = u32_at(header, 8);
    check_version(version, 8, FORMAT_VERSION)?;
    let found = u32_at(header, 12);
    if found != thread.0 {
        return Err(Corrupt::at(
            12,
            Fault::Thread {
                expected: thread.0,
                found,
            },
        ));
    }
    match header
        .iter()
        .enumerate()
        .skip(TAIL_OFFSET + 8)
        .find(|(_, byte)| **byte != 0)
    {
        Some((offset, &found)) => Err(Corrupt::at(offset, Fault::Reserved { found })),
        None => Ok(()),
    }
}

pub(crate) fn check_version(found: u32, offset: usize, newest: u32) -> Result<(), Corrupt> {
    match found {
        0 => Err(Corrupt::at(offset, Fault::NoSuchVersion { found })),
        _ if found > newest => Err(Corrupt::at(offset, Fault::NewerVersion { newest, found })),
        _ => Ok(()),
    }
}

/// The caller has checked that the bytes are there.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[offset + i]))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[offset + i]))
}
