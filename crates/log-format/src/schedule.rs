//! The file `schedule`: tables at fixed places, so that the runtime maps it and reads it in place.
//!
//! The layout is `runtime_abi::schedule_file`. Each table begins where the one before ends, and the entries of a thread
//! or gate stand together in order; a file that breaks any of this is refused here, so that the runtime, which reads
//! the same file without looking twice, never sees it.
use crate::Corrupt;
use crate::Fault;
use crate::decode::check_version;
use crate::decode::u32_at;
use crate::decode::u64_at;
use run_model::Access;
use run_model::Gate;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::SiteId;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;
use runtime_abi::schedule_file::GateEntry;
use runtime_abi::schedule_file::MAGIC;
use runtime_abi::schedule_file::ScheduleHeader;
use runtime_abi::schedule_file::ThreadGates;
use runtime_abi::schedule_file::WaitEntry;
use std::mem::size_of;

pub const VERSION: u32 = 1;

const HEADER: usize = size_of::<ScheduleHeader>();
const THREAD: usize = size_of::<ThreadGates>();
const GATE: usize = size_of::<GateEntry>();
const WAIT: usize = size_of::<WaitEntry>();

/// So much is encoded before it is passed on.
const CHUNK: usize = 1 << 16;

/// The bytes of the file. The sources of the records are not kept: a replay needs the waits.
pub fn encode(schedule: &Schedule) -> Vec<u8> {
    let gates = || schedule.threads.iter().flat_map(|t| &t.gates);
    let waits: usize = gates().map(|g| g.waits.len()).sum();
    let bytes = HEADER + schedule.threads.len() * THREAD + gates().count() * GATE + waits * WAIT;
    let mut file = Vec::with_capacity(bytes);
    let written = encode_to(schedule, |part| {
        file.extend_from_slice(part);
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(()) = written;
    file
}

/// The same, passed to `write` piece by piece: the file is as large as the schedule in memory.
pub fn encode_to<E>(schedule: &Schedule, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let gates = || schedule.threads.iter().flat_map(|t| &t.gates);
    let waits: usize = gates().map(|g| g.waits.len()).sum();
    let mut out = Vec::with_capacity(2 * CHUNK);
    let mut pass_on = |out: &mut Vec<u8>, least: usize| {
        if out.len() >= least {
            write(out)?;
            out.clear();
        }
        Ok(())
    };
    out.extend(MAGIC.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend((schedule.threads.len() as u32).to_le_bytes());
    out.extend((gates().count() as u64).to_le_bytes());
    out.extend((waits as u64).to_le_bytes());
    let mut first = 0;
    for thread in &schedule.threads {
        let number = thread.gates.len() as u64;
        out.extend(
            [first, number, thread.events]
                .iter()
                .flat_map(|n: &u64| n.to_le_bytes()),
        );
        first += number;
        pass_on(&mut out, CHUNK)?;
    }
    let mut first_wait = 0;
    for gate in gates() {
        let record = &gate.record;
        out.extend(record.event.to_le_bytes());
        out.extend(record.object.to_le_bytes());
        out.extend(record.value.to_le_bytes());
        out.extend(u64::to_le_bytes(first_wait));
        out.extend((gate.waits.len() as u32).to_le_bytes());
        out.extend(record.site.0.to_le_bytes());
        out.extend([record.kind as u8, record.op as u8, record.access.0, 0, 0, 0, 0, 0]);
        first_wait += gate.waits.len() as u64;
        pass_on(&mut out, CHUNK)?;
    }
    for wait in gates().flat_map(|g| &g.waits) {
        out.extend(wait.count.to_le_bytes());
        out.extend(wait.thread.0.to_le_bytes());
        out.extend([0; 4]);
        pass_on(&mut out, CHUNK)?;
    }
    pass_on(&mut out, 0)
}

/// The schedule in these bytes, fully checked. Its records come back without their sources.
pub fn decode(file: &[u8]) -> Result<Schedule, Corrupt> {
    let tables = Tables::open(file)?;
    let mut events = Vec::with_capacity(tables.threads);
    for thread in 0..tables.threads {
        events.push(u64_at(file, HEADER + thread * THREAD + 16));
    }
    let mut schedule = Schedule::default();
    let (mut gate, mut wait) = (0, 0);
    for thread in 0..tables.threads {
        let entry = HEADER + thread * THREAD;
        expect_index(file, entry, gate)?;
        let number = tables.count(entry + 8, tables.gates - gate)?;
        let mut gates = Vec::with_capacity(number);
        for _ in 0..number {
            gates.push(tables.gate(gate, &mut wait, thread, &events)?);
            gate += 1;
        }
        check_order(&gates, &tables, gate - number)?;
        schedule.threads.push(ThreadSchedule {
            gates,
            events: events[thread],
        });
    }
    if gate != tables.gates {
        let fault = Fault::Index {
            expected: tables.gates as u64,
            found: gate as u64,
        };
        return Err(Corrupt::at(16, fault));
    }
    if wait != tables.waits {
        let fault = Fault::Index {
            expected: tables.waits as u64,
            found: wait as u64,
        };
        return Err(Corrupt::at(24, fault));
    }
    Ok(schedule)
}

/// Sizes of the tables, checked against the length of the file: all offsets computed from them are inside.
struct Tables<'a> {
    file: &'a [u8],
    threads: usize,
    gates: usize,
    waits: usize,
}

impl<'a> Tables<'a> {
    fn open(file: &'a [u8]) -> Result<Tables<'a>, Corrupt> {
        let found = file.len() as u64;
        if file.len() < HEADER {
            return Err(Corrupt::at(
                file.len(),
                Fault::NoHeader {
                    expected: HEADER as u64,
                    found,
                },
            ));
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
        let threads = u32_at(file, 12);
        let (gates, waits) = (u64_at(file, 16), u64_at(file, 24));
        // 128 bits: the numbers may be anything.
        let expected = HEADER as u128
            + u128::from(threads) * THREAD as u128
            + u128::from(gates) * GATE as u128
            + u128::from(waits) * WAIT as u128;
        let shown = u64::try_from(expected).unwrap_or(u64::MAX);
        match expected.cmp(&u128::from(found)) {
            std::cmp::Ordering::Greater => Err(Corrupt::at(file.len(), Fault::Cut { expected: shown, found })),
            std::cmp::Ordering::Less => Err(Corrupt::at(shown as usize, Fault::Longer { expected: shown, found })),
            std::cmp::Ordering::Equal => Ok(Tables {
                file,
                threads: threads as usize,
                gates: gates as usize,
                waits: waits as usize,
            }),
        }
    }

    fn gate_offset(&self, gate: usize) -> usize {
        HEADER + self.threads * THREAD + gate * GATE
    }

    /// A number of entries, at most `most`.
    fn count(&self, offset: usize, most: usize) -> Result<usize, Corrupt> {
        let found = u64_at(self.file, offset);
        if found > most as u64 {
            return Err(Corrupt::at(
                offset,
                Fault::BeyondEnd {
                    most: most as u64,
                    found,
                },
            ));
        }
        Ok(found as usize)
    }

    fn gate(&self, gate: usize, wait: &mut usize, thread: usize, events: &[u64]) -> Result<Gate, Corrupt> {
        let at = self.gate_offset(gate);
        let event = u64_at(self.file, at);
        // A gate may stand before the event that the thread began but never completed.
        if event > events[thread] {
            return Err(Corrupt::at(
                at,
                Fault::BeyondEnd {
                    most: events[thread],
                    found: event,
                },
            ));
        }
        expect_index(self.file, at + 24, *wait)?;
        let waits = u32_at(self.file, at + 32) as usize;
        if waits > self.waits - *wait {
            let fault = Fault::BeyondEnd {
                most: (self.waits - *wait) as u64,
                found: waits as u64,
            };
            return Err(Corrupt::at(at + 32, fault));
        }
        let [kind, op, access] = [self.file[at + 40], self.file[at + 41], self.file[at + 42]];
        let record = Record {
            event,
            kind: Kind::from_u8(kind).ok_or(Corrupt::at(at + 40, Fault::Kind { found: kind }))?,
            op: Op::from_u8(op).ok_or(Corrupt::at(at + 41, Fault::Op { found: op }))?,
            access: Access(access),
            object: u64_at(self.file, at + 8),
            site: SiteId(u32_at(self.file, at + 36)),
            value: u64_at(self.file, at + 16) as i64,
            sources: Points::NONE,
            version: 0,
        };
        expect_zeros(self.file, at + 43, 5)?;
        let first = *wait;
        *wait += waits;
        let waits = (first..*wait)
            .map(|w| self.wait(w, thread, events))
            .collect::<Result<Points, Corrupt>>()?;
        Ok(Gate { record, waits })
    }

    fn wait(&self, wait: usize, own: usize, events: &[u64]) -> Result<Point, Corrupt> {
        let at = self.gate_offset(self.gates) + wait * WAIT;
        let (count, thread) = (u64_at(self.file, at), u32_at(self.file, at + 8));
        let most = match events.get(thread as usize) {
            Some(most) if thread as usize != own => *most,
            _ => {
                return Err(Corrupt::at(
                    at + 8,
                    Fault::NoSuchThread {
                        threads: self.threads as u32,
                        found: thread,
                    },
                ));
            }
        };
        if count > most {
            return Err(Corrupt::at(at, Fault::BeyondEnd { most, found: count }));
        }
        expect_zeros(self.file, at + 12, 4)?;
        Ok(Point {
            thread: ThreadIndex(thread),
            count,
        })
    }
}

fn check_order(gates: &[Gate], tables: &Tables<'_>, first: usize) -> Result<(), Corrupt> {
    for (index, pair) in gates.windows(2).enumerate() {
        let (previous, found) = (pair[0].record.event, pair[1].record.event);
        if found < previous {
            return Err(Corrupt::at(
                tables.gate_offset(first + index + 1),
                Fault::GateBackwards { previous, found },
            ));
        }
    }
    Ok(())
}

fn expect_index(file: &[u8], offset: usize, expected: usize) -> Result<(), Corrupt> {
    let (found, expected) = (u64_at(file, offset), expected as u64);
    if found == expected {
        Ok(())
    } else {
        Err(Corrupt::at(offset, Fault::Index { expected, found }))
    }
}

fn expect_zeros(file: &[u8], offset: usize, number: usize) -> Result<(), Corrupt> {
    match file[offset..offset + number].iter().position(|byte| *byte != 0) {
        Some(index) => Err(Corrupt::at(
            offset + index,
            Fault::Reserved {
                found: file[offset + index],
            },
        )),
        None => Ok(()),
    }
}
