//! Bytes to entries of a whole trace, with a buffer of fixed size.
use super::Expected;
use super::MAGIC;
use super::MAX_TOLD_BYTES;
use super::ToldEncoder;
use super::VERSION;
use super::head;
use super::header;
use crate::Fault;
use crate::hybrid_trace::MAX_ENTRY_BYTES;
use crate::hybrid_trace::TraceEncoder;
use crate::hybrid_trace::TraceError;
use crate::hybrid_trace::TraceReader;
use crate::hybrid_trace::reader;
use crate::hybrid_trace::reader::Bytes;
use crate::hybrid_trace::reader::Undecodable;
use run_model::Data;
use run_model::ThreadIndex;
use run_model::WholeEntry;
use std::io::Read;

/// The entries of one thread's whole trace; it ends as one of [`TraceReader`] does.
#[derive(Debug)]
pub struct WholeReader<R> {
    reader: TraceReader<R>,
    expected: Expected,
}

impl<R: Read> WholeReader<R> {
    /// `reader` is at the beginning of the trace of `thread`.
    pub fn open(reader: R, thread: ThreadIndex) -> Result<WholeReader<R>, TraceError> {
        Ok(WholeReader {
            reader: TraceReader::open_as(reader, thread, MAGIC, VERSION)?,
            expected: Expected::new(),
        })
    }

    /// Did the bytes end within an entry? Known when the last entry has been read.
    pub fn is_torn(&self) -> bool {
        self.reader.is_torn()
    }

    /// Where the next entry begins in the file.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }
}

impl<R: Read> Iterator for WholeReader<R> {
    type Item = Result<WholeEntry, TraceError>;

    fn next(&mut self) -> Option<Result<WholeEntry, TraceError>> {
        let told = &mut self.expected;
        self.reader.next_by(|bytes, expected| match bytes.peek()? & 3 {
            0 => decode(bytes, told),
            _ => Ok(WholeEntry::Step(reader::decode(bytes, expected)?)),
        })
    }
}

fn decode(bytes: &mut Bytes<'_>, expected: &mut Expected) -> Result<WholeEntry, Undecodable> {
    let first = bytes.byte()?;
    let flags = first & !head::WHAT;
    match first & head::WHAT {
        head::BLOCK if flags & head::HAS_OFFSET == 0 => {
            let (unit, block) = match flags & head::AS_BEFORE {
                0 => (unit(flags, bytes, expected)?, number(expected.block, bytes)?),
                _ => expected.next[expected.last],
            };
            expected.learn_block(unit, block);
            Ok(WholeEntry::Block { unit, block })
        }
        head::LEFT if flags == 0 => Ok(WholeEntry::Left),
        head::VALUE => decode_value(flags, bytes, expected),
        head::CALL if flags == 0 => Ok(WholeEntry::Call {
            number: bytes.number32()?,
            result: bytes.difference()?,
        }),
        head::BROUGHT if flags & !head::FOLLOWS == 0 => {
            let address = match flags & head::FOLLOWS {
                0 => expected.end.wrapping_add(bytes.difference()? as u64),
                _ => expected.end,
            };
            let length = length(bytes)?;
            let data = Data::new(bytes.take(usize::from(length))?);
            expected.end = address.wrapping_add(u64::from(length));
            Ok(WholeEntry::Brought { address, data })
        }
        _ => Err(Undecodable::Fault(Fault::Kind { found: first })),
    }
}

fn decode_value(flags: u8, bytes: &mut Bytes<'_>, expected: &mut Expected) -> Result<WholeEntry, Undecodable> {
    let unit = unit(flags, bytes, expected)?;
    let value = number(expected.value, bytes)?;
    let offset = match flags & head::HAS_OFFSET {
        0 => 0,
        _ => bytes.number32()?,
    };
    let length = match flags & head::SAME_LENGTH {
        0 => length(bytes)?,
        // Nothing came before.
        _ if expected.length == 0 => return Err(Undecodable::Fault(Fault::TooBig)),
        _ => expected.length,
    };
    let data = match usize::from(length) {
        length @ 0..=8 => {
            let word = bytes.varint()?;
            if length < 8 && word >> (8 * length) != 0 {
                return Err(Undecodable::Fault(Fault::TooBig));
            }
            Data::of_word(word, length)
        }
        length => Data::new(bytes.take(length)?),
    };
    expected.learn_value(unit, value, length);
    Ok(WholeEntry::Value {
        unit,
        value,
        offset,
        data,
    })
}

fn unit(flags: u8, bytes: &mut Bytes<'_>, expected: &Expected) -> Result<u32, Undecodable> {
    match flags & head::SAME_UNIT {
        0 => number(expected.unit, bytes),
        _ => Ok(expected.unit),
    }
}

fn number(before: u32, bytes: &mut Bytes<'_>) -> Result<u32, Undecodable> {
    Ok(before.wrapping_add(bytes.difference32()?))
}

/// Of data: one byte at least.
fn length(bytes: &mut Bytes<'_>) -> Result<u8, Undecodable> {
    match bytes.byte()? {
        length if (1..=Data::MAX).contains(&usize::from(length)) => Ok(length),
        _ => Err(Undecodable::Fault(Fault::TooBig)),
    }
}

/// The whole file of `thread`, as the runtime would have left it. For tests and tools.
pub fn encode_whole<'a>(thread: ThreadIndex, entries: impl IntoIterator<Item = &'a WholeEntry>) -> Vec<u8> {
    let mut file = header(thread).to_vec();
    let (mut steps, mut told) = (TraceEncoder::new(), ToldEncoder::new());
    for entry in entries {
        let mut out = [0; MAX_TOLD_BYTES];
        let length = match entry {
            WholeEntry::Step(step) => {
                let mut buffer = [0; MAX_ENTRY_BYTES];
                let length = steps.encode(step, &mut buffer);
                file.extend_from_slice(&buffer[..length]);
                continue;
            }
            WholeEntry::Block { unit, block } => told.block(*unit, *block, &mut out),
            WholeEntry::Value {
                unit,
                value,
                offset,
                data,
            } => told.value(*unit, *value, *offset, data, &mut out),
            WholeEntry::Left => told.left(&mut out),
            WholeEntry::Call { number, result } => told.call(*number, *result, &mut out),
            WholeEntry::Brought { address, data } => told.brought(*address, data, &mut out),
        };
        file.extend_from_slice(&out[..length]);
    }
    file
}
