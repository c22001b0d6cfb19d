//! `Read` and `Write` records, cell by cell.
use crate::extent::Extents;
use run_model::Evidence;
use run_model::Extent;
use run_model::Kind;
use run_model::Logs;
use run_model::Record;

pub(crate) const CELL_BYTES: u64 = 8;

/// A `Read` or `Write` record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) cell: u64,
    pub(crate) event: u64,
    pub(crate) version: u64,
    /// The bytes, where they are in the cell; 0 elsewhere, and if nobody knows them.
    pub(crate) value: u64,
    pub(crate) thread: u32,
    /// Index of the record.
    pub(crate) record: u32,
    /// Which bytes of the cell, a bit for each.
    pub(crate) mask: u8,
    /// Those, and all that some access has together with one of them. What happens to others does not matter to it.
    pub(crate) part: u8,
    pub(crate) unknown: bool,
    /// No version changed while it was read.
    pub(crate) quiet: bool,
    /// The same, whether or not that says anything: believed if nothing else explains what was read.
    pub(crate) told: bool,
    /// Nobody was writing, either: a read of exactly its version. Whatever it saw besides was written unseen.
    pub(crate) exact: bool,
    pub(crate) writes: bool,
    /// A write under the cell's lock.
    pub(crate) locked: bool,
    /// A read, whose event also writes the cell. Its version was that of the cell before, not after.
    pub(crate) updates: bool,
}

impl Access {
    fn new(evidence: Evidence, thread: u32, index: u32, record: &Record) -> Option<Access> {
        let extent = Extent::unpack(record.access, record.object).filter(|_| record.kind.is_versioned())?;
        let writes = record.kind == Kind::Write;
        let offset = record.object % CELL_BYTES;
        let mask = (((1u16 << extent.bytes) - 1) << offset) as u8;
        let value = (record.value as u64) << (8 * offset) & bytes_of(mask);
        Some(Access {
            cell: record.object - offset,
            event: record.event,
            version: record.version,
            value: if extent.unknown { 0 } else { value },
            thread,
            record: index,
            mask,
            part: u8::MAX,
            unknown: extent.unknown,
            quiet: extent.quiet && !writes,
            told: extent.quiet && !writes,
            exact: false,
            writes,
            locked: writes && (extent.quiet || evidence == Evidence::Versions),
            updates: false,
        })
    }
}

/// All accesses of replayed events: by cell and part of it, and for each by thread and event.
pub(crate) fn accesses(logs: &Logs, extents: &Extents) -> Vec<Access> {
    let mut accesses = Vec::new();
    for (thread, log) in (0..).zip(&logs.threads) {
        for (index, record) in log.records.iter().enumerate() {
            if extents.contains(thread, record.event) {
                let index = u32::try_from(index).expect("4 billion records of one thread would need 200 GB");
                accesses.extend(Access::new(logs.method.evidence(), thread, index, record));
            }
        }
    }
    // Equal cells stay in the order of threads and events.
    accesses.sort_by_key(|access| access.cell);
    for cell in accesses.chunk_by_mut(|one, other| one.cell == other.cell) {
        if is_locked(cell) {
            cell.iter_mut().for_each(|access| access.exact = access.quiet);
        } else {
            // A relaxed write stores its version before its value: who reads between the two is not disturbed, and sees what was before.
            cell.iter_mut().for_each(|access| access.quiet = false);
            divide(cell);
        }
    }
    let of_event = |one: &Access, other: &Access| {
        are_of_one_part(one, other) && (one.thread, one.event) == (other.thread, other.event)
    };
    for event in accesses.chunk_by_mut(of_event) {
        if event.iter().any(|access| access.writes) {
            event.iter_mut().for_each(|access| access.updates = !access.writes);
        }
    }
    accesses
}

/// Divides a cell into parts that no access has anything to do with more than one of.
fn divide(cell: &mut [Access]) {
    let mut parts: Vec<u8> = Vec::new();
    for access in cell.iter() {
        if !parts.iter().any(|part| access.mask & !part == 0) {
            let (touched, others): (Vec<u8>, Vec<u8>) = parts.iter().partition(|part| *part & access.mask != 0);
            parts = others;
            parts.push(touched.iter().fold(access.mask, |part, other| part | other));
        }
    }
    if parts.len() > 1 {
        for access in cell.iter_mut() {
            let part = parts.iter().find(|part| *part & access.mask != 0);
            access.part = *part.expect("every access is in a part");
        }
        cell.sort_by_key(|access| access.part);
    }
}

/// Do they concern the same part of the same cell?
pub(crate) fn are_of_one_part(one: &Access, other: &Access) -> bool {
    (one.cell, one.part) == (other.cell, other.part)
}

/// Were all versions of this cell given under its lock?
pub(crate) fn is_locked(cell: &[Access]) -> bool {
    cell.iter().all(|access| access.locked || !access.writes)
}

/// All bits of the bytes that `mask` has a bit for.
pub(crate) fn bytes_of(mask: u8) -> u64 {
    const BYTES: [u64; 256] = {
        let mut table = [0; 256];
        let mut mask = 0;
        while mask < 256 {
            let mut byte = 0;
            while byte < 8 {
                if mask >> byte & 1 == 1 {
                    table[mask] |= 0xff << (8 * byte);
                }
                byte += 1;
            }
            mask += 1;
        }
        table
    };
    BYTES[mask as usize]
}

/// A bit for each byte in which they differ.
pub(crate) fn different_bytes(one: u64, other: u64) -> u8 {
    let different = one ^ other;
    let folded = different | different >> 4;
    let folded = folded | folded >> 2;
    let folded = (folded | folded >> 1) & 0x0101_0101_0101_0101;
    (folded.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Which threads were stopped inside an event that wrote what another thread read?
pub(crate) fn seen_in_flight(logs: &Logs) -> Vec<bool> {
    let mut seen = vec![false; logs.threads.len()];
    let mut writes: Vec<Access> = Vec::new();
    for (thread, log) in (0..).zip(&logs.threads) {
        let newest = log.records.iter().enumerate().rev();
        let uncounted = newest.take_while(|(_, record)| record.event >= log.events);
        let in_flight = uncounted.filter(|(_, r)| r.event == log.events && r.kind == Kind::Write);
        writes.extend(
            in_flight.filter_map(|(index, record)| Access::new(logs.method.evidence(), thread, index as u32, record)),
        );
    }
    if writes.is_empty() {
        return seen;
    }
    writes.sort_by_key(|write| (write.cell, write.thread));
    for (thread, log) in (0..).zip(&logs.threads) {
        let reads = log
            .records
            .iter()
            .filter(|r| r.kind == Kind::Read && r.event <= log.events);
        for read in reads.filter_map(|record| Access::new(logs.method.evidence(), thread, 0, record)) {
            let first = writes.partition_point(|write| write.cell < read.cell);
            for write in writes[first..].iter().take_while(|write| write.cell == read.cell) {
                let both = write.mask & read.mask;
                let same = write.unknown || read.unknown || different_bytes(write.value, read.value) & both == 0;
                seen[write.thread as usize] |= write.thread != thread && both != 0 && same;
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_differ() {
        for mask in 0..=u8::MAX {
            for bit in 0..8 {
                let other = bytes_of(mask) & 0x0101_0101_0101_0101 << bit;
                assert_eq!(
                    different_bytes(0x1234_5678_9abc_def0, 0x1234_5678_9abc_def0 ^ other),
                    mask
                );
            }
        }
    }
}
