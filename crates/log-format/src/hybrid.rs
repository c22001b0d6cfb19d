//! The file `hybrid`: a [`HybridSchedule`], one sequence of bytes for each, and nothing else accepted.
//!
//! Tables at fixed places, as in `schedule`, each behind the one before; the checksum of everything comes last. Bytes:
//! `docs/log-format.md`.
use crate::Corrupt;
use crate::Fault;
use crate::decode::check_version;
use crate::decode::u32_at;
use crate::decode::u64_at;
use run_model::Access;
use run_model::Constraint;
use run_model::HybridSchedule;
use run_model::Instance;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::PointId;
use run_model::Record;
use run_model::SiteId;
use run_model::Step;
use run_model::ThreadIndex;

/// "RFRNHYB\x01", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RFRNHYB\x01");
pub const VERSION: u32 = 1;
pub const FILE_NAME: &str = "hybrid";

/// Magic, version, threads, steps, points, constraints.
const HEADER: usize = 8 + 4 + 4 + 8 + 8 + 8;
/// Events, points.
const THREAD: usize = 8 + 8;
/// Event, object, value, thread, site, kind, op, access, zeros.
const STEP: usize = 8 + 8 + 8 + 4 + 4 + 3 + 5;
/// Segment, transfers, site, ordinal.
const POINT: usize = 8 + 8 + 4 + 4;
/// Thread and index of both ends.
const CONSTRAINT: usize = 4 * 4;
const CHECKSUM: usize = 8;

/// The bytes of the file. Of the steps' records, sources and versions are not kept: they have none.
pub fn encode(schedule: &HybridSchedule) -> Vec<u8> {
    let points: usize = schedule.points.iter().map(Vec::len).sum();
    let sizes = Sizes {
        threads: schedule.events.len() as u64,
        steps: schedule.steps.len() as u64,
        points: points as u64,
        constraints: schedule.constraints.len() as u64,
    };
    assert_eq!(
        schedule.points.len(),
        schedule.events.len(),
        "a list of points for each thread"
    );
    let mut file = Vec::with_capacity(sizes.bytes().unwrap_or(0) as usize);
    file.extend(MAGIC.to_le_bytes());
    file.extend(VERSION.to_le_bytes());
    file.extend((schedule.events.len() as u32).to_le_bytes());
    for number in [sizes.steps, sizes.points, sizes.constraints] {
        file.extend(number.to_le_bytes());
    }
    for (events, points) in schedule.events.iter().zip(&schedule.points) {
        file.extend(events.to_le_bytes());
        file.extend((points.len() as u64).to_le_bytes());
    }
    for Step { thread, record } in &schedule.steps {
        file.extend(record.event.to_le_bytes());
        file.extend(record.object.to_le_bytes());
        file.extend(record.value.to_le_bytes());
        file.extend(thread.0.to_le_bytes());
        file.extend(record.site.0.to_le_bytes());
        file.extend([record.kind as u8, record.op as u8, record.access.0, 0, 0, 0, 0, 0]);
    }
    for Instance { segment, place } in schedule.points.iter().flatten() {
        file.extend(segment.to_le_bytes());
        file.extend(place.transfers.to_le_bytes());
        file.extend(place.site.0.to_le_bytes());
        file.extend(place.ordinal.to_le_bytes());
    }
    for Constraint { before, after } in &schedule.constraints {
        for number in [before.thread.0, before.index, after.thread.0, after.index] {
            file.extend(number.to_le_bytes());
        }
    }
    file.extend(checksum(&file).to_le_bytes());
    file
}

/// FNV-1a with 64 bits. Against torn and flipped bytes, not against an adversary.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let step = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// How many of each there are.
struct Sizes {
    threads: u64,
    steps: u64,
    points: u64,
    constraints: u64,
}

impl Sizes {
    /// Of the whole file; `None`: more than there can be.
    fn bytes(&self) -> Option<u64> {
        let tables = [
            (self.threads, THREAD),
            (self.steps, STEP),
            (self.points, POINT),
            (self.constraints, CONSTRAINT),
        ];
        tables
            .iter()
            .try_fold((HEADER + CHECKSUM) as u64, |sum, (number, bytes)| {
                sum.checked_add(number.checked_mul(*bytes as u64)?)
            })
    }
}

/// The hybrid schedule in these bytes, fully checked: all that it names is there, steps and points are in order, constraints are
/// between different threads, in order and each once.
pub fn decode(file: &[u8]) -> Result<HybridSchedule, Corrupt> {
    let sizes = open(file)?;
    let mut reader = Reader { file, at: HEADER };
    let mut events = Vec::with_capacity(sizes.threads as usize);
    let mut numbers = Vec::with_capacity(sizes.threads as usize);
    let mut left = sizes.points;
    for _ in 0..sizes.threads {
        events.push(reader.u64());
        let at = reader.at;
        let number = reader.u64();
        left = left.checked_sub(number).ok_or(Corrupt::at(
            at,
            Fault::BeyondEnd {
                most: left,
                found: number,
            },
        ))?;
        numbers.push(number as usize);
    }
    if left != 0 {
        let (expected, found) = (sizes.points, sizes.points - left);
        return Err(Corrupt::at(reader.at, Fault::Index { expected, found }));
    }
    let steps = read_steps(&mut reader, &sizes, &events)?;
    let points = read_points(&mut reader, &numbers, &events)?;
    let constraints = read_constraints(&mut reader, &sizes, &points)?;
    Ok(HybridSchedule {
        steps,
        events,
        points,
        constraints,
    })
}

/// After this, the file has as many bytes as its tables take, so whoever reads them may allocate what they say.
fn open(file: &[u8]) -> Result<Sizes, Corrupt> {
    let found = file.len() as u64;
    if file.len() < HEADER + CHECKSUM {
        let expected = (HEADER + CHECKSUM) as u64;
        return Err(Corrupt::at(file.len(), Fault::NoHeader { expected, found }));
    }
    let magic = u64_at(file, 0);
    if magic != MAGIC {
        return Err(Corrupt::at(
            0,
            Fault::Magic {
                expected: MAGIC,
                found: magic,
            },
        ));
    }
    check_version(u32_at(file, 8), 8, VERSION)?;
    let sizes = Sizes {
        threads: u64::from(u32_at(file, 12)),
        steps: u64_at(file, 16),
        points: u64_at(file, 24),
        constraints: u64_at(file, 32),
    };
    check_whole(file, sizes.bytes())?;
    Ok(sizes)
}

/// Is the file as long as its header says (`None`: longer than any file), and what was written? Its last bytes are the checksum of the others.
pub(crate) fn check_whole(file: &[u8], expected: Option<u64>) -> Result<(), Corrupt> {
    let expected = expected.ok_or(Corrupt::at(16, Fault::TooBig))?;
    let found = file.len() as u64;
    if found < expected {
        return Err(Corrupt::at(file.len(), Fault::Cut { expected, found }));
    }
    if found > expected {
        return Err(Corrupt::at(expected as usize, Fault::Longer { expected, found }));
    }
    let end = file.len() - CHECKSUM;
    let (expected, found) = (u64_at(file, end), checksum(&file[..end]));
    match expected == found {
        true => Ok(()),
        false => Err(Corrupt::at(end, Fault::Checksum { expected, found })),
    }
}

/// The caller has seen to it that the bytes are there.
struct Reader<'a> {
    file: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u64(&mut self) -> u64 {
        self.at += 8;
        u64_at(self.file, self.at - 8)
    }

    fn u32(&mut self) -> u32 {
        self.at += 4;
        u32_at(self.file, self.at - 4)
    }

    fn u8(&mut self) -> u8 {
        self.at += 1;
        self.file[self.at - 1]
    }

    fn fault(&self, before: usize, fault: Fault) -> Corrupt {
        Corrupt::at(self.at - before, fault)
    }
}

fn read_steps(reader: &mut Reader<'_>, sizes: &Sizes, events: &[u64]) -> Result<Vec<Step>, Corrupt> {
    let mut steps = Vec::with_capacity(sizes.steps as usize);
    // Of each thread, the first event that its next step may be.
    let mut firsts = vec![0; events.len()];
    for _ in 0..sizes.steps {
        let start = reader.at;
        let mut record = Record {
            event: reader.u64(),
            object: reader.u64(),
            value: reader.u64() as i64,
            ..Record::default()
        };
        let thread = reader.u32();
        let (threads, found) = (events.len() as u32, thread);
        let most = *events
            .get(thread as usize)
            .ok_or(reader.fault(4, Fault::NoSuchThread { threads, found }))?;
        let (previous, found) = (firsts[thread as usize], record.event);
        if found >= most {
            return Err(Corrupt::at(start, Fault::BeyondEnd { most, found }));
        }
        if found < previous {
            return Err(Corrupt::at(start, Fault::EventBackwards { previous }));
        }
        firsts[thread as usize] = found + 1;
        record.site = SiteId(reader.u32());
        let found = reader.u8();
        record.kind = Kind::from_u8(found).ok_or(reader.fault(1, Fault::Kind { found }))?;
        let found = reader.u8();
        record.op = Op::from_u8(found).ok_or(reader.fault(1, Fault::Op { found }))?;
        record.access = Access(reader.u8());
        for _ in 0..5 {
            let found = reader.u8();
            if found != 0 {
                return Err(reader.fault(1, Fault::Reserved { found }));
            }
        }
        let thread = ThreadIndex(thread);
        steps.push(Step { thread, record });
    }
    Ok(steps)
}

fn read_points(reader: &mut Reader<'_>, numbers: &[usize], events: &[u64]) -> Result<Vec<Vec<Instance>>, Corrupt> {
    let mut points = Vec::with_capacity(numbers.len());
    let moment = |point: &Instance| (point.segment, point.place.transfers);
    for (number, most) in numbers.iter().zip(events) {
        let mut own: Vec<Instance> = Vec::with_capacity(*number);
        for _ in 0..*number {
            let start = reader.at;
            let (segment, transfers) = (reader.u64(), reader.u64());
            let place = Place {
                transfers,
                site: SiteId(reader.u32()),
                ordinal: reader.u32(),
            };
            if segment > *most {
                let (most, found) = (*most, segment);
                return Err(Corrupt::at(start, Fault::BeyondEnd { most, found }));
            }
            let point = Instance { segment, place };
            if own.last().is_some_and(|last| moment(last) > moment(&point)) {
                return Err(Corrupt::at(start, Fault::PointBackwards));
            }
            own.push(point);
        }
        // Instructions between two control transfers may be in any order, but none comes twice.
        for same in own.chunk_by(|a, b| moment(a) == moment(b)) {
            let mut places: Vec<Place> = same.iter().map(|point| point.place).collect();
            places.sort_unstable();
            if places.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(Corrupt::at(reader.at, Fault::PointBackwards));
            }
        }
        points.push(own);
    }
    Ok(points)
}

fn read_constraints(
    reader: &mut Reader<'_>,
    sizes: &Sizes,
    points: &[Vec<Instance>],
) -> Result<Vec<Constraint>, Corrupt> {
    let mut constraints: Vec<Constraint> = Vec::with_capacity(sizes.constraints as usize);
    for _ in 0..sizes.constraints {
        let start = reader.at;
        let mut end = || {
            let (thread, index) = (reader.u32(), reader.u32());
            let threads = points.len() as u32;
            let found = thread;
            let own = points
                .get(thread as usize)
                .ok_or(reader.fault(8, Fault::NoSuchThread { threads, found }))?;
            if index as usize >= own.len() {
                let (most, found) = (own.len() as u64, u64::from(index));
                return Err(reader.fault(4, Fault::BeyondEnd { most, found }));
            }
            let thread = ThreadIndex(thread);
            Ok(PointId { thread, index })
        };
        let constraint = Constraint {
            before: end()?,
            after: end()?,
        };
        if constraint.before.thread == constraint.after.thread {
            let (threads, found) = (points.len() as u32, constraint.after.thread.0);
            return Err(Corrupt::at(start + 8, Fault::NoSuchThread { threads, found }));
        }
        if constraints.last().is_some_and(|last| *last >= constraint) {
            return Err(Corrupt::at(start, Fault::ConstraintBackwards));
        }
        constraints.push(constraint);
    }
    Ok(constraints)
}
