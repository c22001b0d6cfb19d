//! Vectors and partial logs as bytes.
//!
//! A vector has exactly one encoding, so equal vectors have equal hashes and nobody can send one vector under two names:
//!
//! ```text
//! vector = threads, thread*, turns, turn*        thread = steps, step*        turn = index of the thread, accesses (at least 1)
//! log    = "refrainP", version (2 bytes), build (32), inputs (32), share (2), number (2), outcome, 0 | 1 failure, elements, element*
//! outcome = kind (0 exit, 1 signal, 2 timed out), value        failure = frames, (length, text)*, length, text
//! element = distance from the element before (from -1 for the first), hash (32), 0 | 1 it has a conflict, length, vector
//! ```
//!
//! Fixed numbers are little endian, all others LEB128 in as few bytes as they need.
//!
//! Decoding foreign bytes never panics and never makes room for more than a constant factor of what was sent: counts are compared with the
//! bytes that are left before anything is allocated.
use crate::AccessVector;
use crate::BuildId;
use crate::Corrupt;
use crate::ElementId;
use crate::Failure;
use crate::Fault;
use crate::InputsDigest;
use crate::Outcome;
use crate::PartialLog;
use crate::Pattern;
use crate::RecordedElement;
use crate::Run;
use crate::ThreadName;
use crate::VectorHash;
use crate::bytes::Reader;
use crate::bytes::put_number;
use crate::bytes::put_text;
use std::collections::BTreeMap;

pub const MAGIC: [u8; 8] = *b"refrainP";
pub const VERSION: u16 = 1;
pub const ELEMENTS_MAX: usize = 65_536;
pub const FRAMES_MAX: usize = 64;
pub const FRAME_BYTES_MAX: usize = 512;
pub const TEXT_BYTES_MAX: usize = 4 << 10;
/// A turn names its thread in 16 bits.
pub const THREADS_MAX: usize = 1 << 16;
/// Ancestors of a thread: nobody creates threads that create threads that deep.
pub const STEPS_MAX: usize = 256;

impl AccessVector {
    /// Its canonical bytes: those of equal vectors are equal, those of different ones are not.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * self.runs.len() + 4 * self.threads.len() + 8);
        put_number(&mut bytes, self.threads.len() as u64);
        for ThreadName(steps) in &self.threads {
            put_number(&mut bytes, steps.len() as u64);
            steps.iter().for_each(|step| put_number(&mut bytes, u64::from(*step)));
        }
        put_number(&mut bytes, self.runs.len() as u64);
        for run in &self.runs {
            put_number(&mut bytes, u64::from(run.thread));
            put_number(&mut bytes, run.accesses);
        }
        bytes
    }

    /// The vector whose canonical bytes these are, all of them.
    pub fn decode(bytes: &[u8]) -> Result<AccessVector, Corrupt> {
        read_vector(bytes, 0)
    }

    pub fn hash(&self) -> VectorHash {
        VectorHash(*blake3::hash(&self.encode()).as_bytes())
    }
}

fn read_vector(bytes: &[u8], base: usize) -> Result<AccessVector, Corrupt> {
    let mut reader = Reader::new(bytes, base);
    let threads = read_threads(&mut reader)?;
    let runs = read_runs(&mut reader, threads.len())?;
    reader.end()?;
    Ok(AccessVector { threads, runs })
}

fn read_threads(reader: &mut Reader<'_>) -> Result<Vec<ThreadName>, Corrupt> {
    let begin = reader.offset();
    let count = reader.count("threads", THREADS_MAX, 1)?;
    let mut threads = Vec::with_capacity(count);
    for _ in 0..count {
        let steps = reader.count("ancestors of a thread", STEPS_MAX, 1)?;
        let steps: Result<_, _> = (0..steps).map(|_| reader.number_u32()).collect();
        threads.push(ThreadName(steps?));
    }
    let mut known = BTreeMap::new();
    for (second, name) in threads.iter().enumerate() {
        if let Some(first) = known.insert(name, second) {
            return reader.fault(begin, Fault::SameThread { first, second });
        }
    }
    Ok(threads)
}

fn read_runs(reader: &mut Reader<'_>, threads: usize) -> Result<Vec<Run>, Corrupt> {
    let count = reader.count("turns", usize::MAX, 2)?;
    let mut runs: Vec<Run> = Vec::with_capacity(count);
    // Threads before this one had their first turn.
    let mut appeared = 0;
    for _ in 0..count {
        let begin = reader.offset();
        let thread = reader.number()?;
        if thread >= threads as u64 {
            return reader.fault(begin, Fault::NoSuchThread { thread, threads });
        }
        if thread > appeared as u64 {
            return reader.fault(
                begin,
                Fault::ThreadOrder {
                    expected: appeared,
                    found: thread,
                },
            );
        }
        appeared = appeared.max(thread as usize + 1);
        if runs.last().is_some_and(|last| u64::from(last.thread) == thread) {
            return reader.fault(begin, Fault::SameTurn);
        }
        let begin = reader.offset();
        let accesses = reader.number()?;
        if accesses == 0 {
            return reader.fault(begin, Fault::EmptyTurn);
        }
        let thread = thread as u16;
        runs.push(Run { thread, accesses });
    }
    match appeared == threads {
        true => Ok(runs),
        false => reader.fault(reader.offset(), Fault::UnusedThread { thread: appeared }),
    }
}

impl PartialLog {
    /// What is beyond the limits, or not canonical, becomes bytes that [`decode`](PartialLog::decode) refuses: see [`Failure::clipped`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.build.0);
        bytes.extend(self.inputs.0);
        bytes.extend(self.pattern.share.to_le_bytes());
        bytes.extend(self.pattern.number.to_le_bytes());
        put_outcome(&mut bytes, self.outcome);
        match &self.failure {
            None => bytes.push(0),
            Some(failure) => {
                bytes.push(1);
                put_outcome(&mut bytes, failure.outcome);
                put_number(&mut bytes, failure.frames.len() as u64);
                failure.frames.iter().for_each(|frame| put_text(&mut bytes, frame));
                put_text(&mut bytes, &failure.text);
            }
        }
        put_number(&mut bytes, self.elements.len() as u64);
        let mut previous = -1;
        for (ElementId(element), recorded) in &self.elements {
            let element = i64::from(*element);
            put_number(&mut bytes, (element - previous) as u64);
            previous = element;
            bytes.extend(recorded.hash.0);
            bytes.push(recorded.has_conflict.into());
            let vector = recorded.vector.encode();
            put_number(&mut bytes, vector.len() as u64);
            bytes.extend(vector);
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<PartialLog, Corrupt> {
        let mut reader = Reader::new(bytes, 0);
        read_head(&mut reader)?;
        let build = BuildId(reader.array()?);
        let inputs = InputsDigest(reader.array()?);
        let pattern = Pattern {
            share: u16::from_le_bytes(reader.array()?),
            number: u16::from_le_bytes(reader.array()?),
        };
        let outcome = read_outcome(&mut reader)?;
        let failure = read_failure(&mut reader, outcome)?;
        let elements = read_elements(&mut reader)?;
        reader.end()?;
        Ok(PartialLog {
            build,
            inputs,
            pattern,
            outcome,
            failure,
            elements,
        })
    }
}

fn read_head(reader: &mut Reader<'_>) -> Result<(), Corrupt> {
    if reader.take(MAGIC.len()).ok() != Some(&MAGIC) {
        return reader.fault(0, Fault::Magic);
    }
    let offset = reader.offset();
    match u16::from_le_bytes(reader.array()?) {
        VERSION => Ok(()),
        0 => reader.fault(offset, Fault::NoSuchVersion { found: 0 }),
        found => reader.fault(offset, Fault::NewerVersion { newest: VERSION, found }),
    }
}

fn put_outcome(bytes: &mut Vec<u8>, outcome: Outcome) {
    bytes.extend(match outcome {
        Outcome::Exit(status) => [0, status],
        Outcome::Signal(signal) => [1, signal],
        Outcome::TimedOut => [2, 0],
    });
}

fn read_outcome(reader: &mut Reader<'_>) -> Result<Outcome, Corrupt> {
    let offset = reader.offset();
    match reader.array()? {
        [0, status] => Ok(Outcome::Exit(status)),
        [1, signal] => Ok(Outcome::Signal(signal)),
        [2, 0] => Ok(Outcome::TimedOut),
        [found, _] => reader.fault(offset, Fault::Kind { what: "outcome", found }),
    }
}

fn read_failure(reader: &mut Reader<'_>, of_run: Outcome) -> Result<Option<Failure>, Corrupt> {
    let offset = reader.offset();
    match reader.byte()? {
        0 => return Ok(None),
        1 => {}
        found => return reader.fault(offset, Fault::Kind { what: "failure", found }),
    }
    let offset = reader.offset();
    let outcome = read_outcome(reader)?;
    if outcome != of_run {
        return reader.fault(offset, Fault::OtherOutcome);
    }
    let frames = reader.count("frames", FRAMES_MAX, 1)?;
    let frames: Result<_, _> = (0..frames)
        .map(|_| reader.text("bytes of a frame", FRAME_BYTES_MAX).map(str::to_owned))
        .collect();
    Ok(Some(Failure {
        outcome,
        frames: frames?,
        text: reader.text("bytes of text", TEXT_BYTES_MAX)?.to_owned(),
    }))
}

fn read_elements(reader: &mut Reader<'_>) -> Result<BTreeMap<ElementId, RecordedElement>, Corrupt> {
    // The distance, the hash, whether it has a conflict, the length, and a vector without threads and turns.
    let count = reader.count("elements", ELEMENTS_MAX, 1 + 32 + 1 + 1 + 2)?;
    let mut elements = BTreeMap::new();
    // The least number that the next element may have, less one.
    let mut previous = None;
    for _ in 0..count {
        let offset = reader.offset();
        let distance = reader.number_u32_or_one_more()?;
        let element = match previous {
            _ if distance == 0 => return reader.fault(offset, Fault::ElementOrder),
            None => distance - 1,
            Some(previous) => previous + distance,
        };
        let Ok(number) = u32::try_from(element) else {
            return reader.fault(offset, Fault::TooBig);
        };
        previous = Some(element);
        let hash = VectorHash(reader.array()?);
        let offset = reader.offset();
        let has_conflict = match reader.byte()? {
            0 => false,
            1 => true,
            found => return reader.fault(offset, Fault::Kind { what: "element", found }),
        };
        let length = reader.count("bytes of a vector", usize::MAX, 1)?;
        let offset = reader.offset();
        let bytes = reader.take(length)?;
        let vector = read_vector(bytes, offset)?;
        if *blake3::hash(bytes).as_bytes() != hash.0 {
            return reader.fault(offset, Fault::Hash);
        }
        let recorded = RecordedElement {
            hash,
            vector,
            has_conflict,
        };
        elements.insert(ElementId(number), recorded);
    }
    Ok(elements)
}

impl Reader<'_> {
    /// The first element may be the last there is, whose distance from -1 does not fit into 32 bits.
    fn number_u32_or_one_more(&mut self) -> Result<u64, Corrupt> {
        let begin = self.offset();
        match self.number()? {
            number if number <= 1 << 32 => Ok(number),
            _ => self.fault(begin, Fault::TooBig),
        }
    }
}

impl Failure {
    /// This failure with what fits into a log: the innermost frames and the beginning of each text.
    pub fn clipped(mut self) -> Failure {
        self.frames.truncate(FRAMES_MAX);
        self.frames.iter_mut().for_each(|frame| clip(frame, FRAME_BYTES_MAX));
        clip(&mut self.text, TEXT_BYTES_MAX);
        self
    }
}

fn clip(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
}
