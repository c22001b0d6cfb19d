//! What came into a program while a schedule was learned: `thread-N.learned`, as the runtime writes it, and the file `inputs` that is made of all of them
//! and lies beside the schedule. The layouts are `runtime_abi::inputs_file`; bytes: `docs/log-format.md`.
use crate::Corrupt;
use crate::Fault;
use crate::decode::check_version;
use crate::decode::u32_at;
use crate::decode::u64_at;
use crate::hybrid::check_whole;
use crate::hybrid::checksum;
use crate::points::put_head;
use run_model::ThreadIndex;
use runtime_abi::inputs_file::InputEntry;
use runtime_abi::inputs_file::LEARNED_MAGIC;
use runtime_abi::inputs_file::LearnedHeader;
use runtime_abi::inputs_file::MAGIC;
use runtime_abi::inputs_file::VERSION;
use runtime_abi::lists_file::ListsHeader;
use runtime_abi::lists_file::ThreadList;
use std::mem::size_of;

const HEADER: usize = size_of::<ListsHeader>();
const THREAD: usize = size_of::<ThreadList>();
const ENTRY: usize = size_of::<InputEntry>();
const LEARNED: usize = size_of::<LearnedHeader>();
const CHECKSUM: usize = 8;

/// The bytes of the file `inputs`, from what each thread got, in program order.
pub fn encode(threads: &[Vec<InputEntry>]) -> Vec<u8> {
    let entries: usize = threads.iter().map(Vec::len).sum();
    let mut file = Vec::with_capacity(HEADER + threads.len() * THREAD + entries * ENTRY + CHECKSUM);
    put_head(&mut file, MAGIC, VERSION, threads);
    threads.iter().flatten().for_each(|entry| put(&mut file, entry));
    file.extend(checksum(&file).to_le_bytes());
    file
}

fn put(file: &mut Vec<u8>, entry: &InputEntry) {
    file.extend(entry.number.to_le_bytes());
    file.extend(0u32.to_le_bytes());
    file.extend(entry.result.to_le_bytes());
    file.extend(entry.digest.to_le_bytes());
    file.extend(entry.bytes.to_le_bytes());
}

/// The caller has checked that the bytes are there.
fn entry_at(file: &[u8], at: usize) -> Result<InputEntry, Corrupt> {
    if let Some(reserved) = file[at + 4..at + 8].iter().position(|byte| *byte != 0) {
        let found = file[at + 4 + reserved];
        return Err(Corrupt::at(at + 4 + reserved, Fault::Reserved { found }));
    }
    Ok(InputEntry {
        number: u32_at(file, at),
        reserved: 0,
        result: u64_at(file, at + 8) as i64,
        digest: u64_at(file, at + 16),
        bytes: u64_at(file, at + 24),
    })
}

fn entries_at(file: &[u8], at: usize, count: usize) -> Result<Vec<InputEntry>, Corrupt> {
    (0..count).map(|index| entry_at(file, at + index * ENTRY)).collect()
}

/// What the file `inputs` says, fully checked: one list for each thread.
pub fn decode(file: &[u8]) -> Result<Vec<Vec<InputEntry>>, Corrupt> {
    let found = file.len() as u64;
    if file.len() < HEADER + CHECKSUM {
        let expected = (HEADER + CHECKSUM) as u64;
        return Err(Corrupt::at(file.len(), Fault::NoHeader { expected, found }));
    }
    check_kind(file, MAGIC)?;
    let (threads, entries) = (u64::from(u32_at(file, 12)), u64_at(file, 16));
    let bytes = entries
        .checked_mul(ENTRY as u64)
        .and_then(|bytes| bytes.checked_add((HEADER + CHECKSUM) as u64 + threads * THREAD as u64));
    check_whole(file, bytes)?;
    let (mut lists, mut next) = (Vec::with_capacity(threads as usize), 0);
    let tables = HEADER + threads as usize * THREAD;
    for at in (HEADER..tables).step_by(THREAD) {
        let (first, count) = (u64_at(file, at), u64_at(file, at + 8));
        if first != next {
            let (expected, found) = (next, first);
            return Err(Corrupt::at(at, Fault::Index { expected, found }));
        }
        if count > entries - next {
            let (most, found) = (entries - next, count);
            return Err(Corrupt::at(at + 8, Fault::BeyondEnd { most, found }));
        }
        lists.push(entries_at(file, tables + first as usize * ENTRY, count as usize)?);
        next += count;
    }
    if next != entries {
        let (expected, found) = (entries, next);
        return Err(Corrupt::at(tables, Fault::Index { expected, found }));
    }
    Ok(lists)
}

/// What a thread has written down. The file may be longer than that: room is made ahead.
pub fn decode_thread(file: &[u8], thread: ThreadIndex) -> Result<Vec<InputEntry>, Corrupt> {
    let found = file.len() as u64;
    if file.len() < LEARNED {
        let expected = LEARNED as u64;
        return Err(Corrupt::at(file.len(), Fault::NoHeader { expected, found }));
    }
    check_kind(file, LEARNED_MAGIC)?;
    let (expected, found) = (thread.0, u32_at(file, 12));
    if expected != found {
        return Err(Corrupt::at(12, Fault::Thread { expected, found }));
    }
    let entries = u64_at(file, 16);
    let (most, found) = (((file.len() - LEARNED) / ENTRY) as u64, entries);
    if found > most {
        return Err(Corrupt::at(16, Fault::BeyondEnd { most, found }));
    }
    entries_at(file, LEARNED, entries as usize)
}

fn check_kind(file: &[u8], magic: u64) -> Result<(), Corrupt> {
    let found = u64_at(file, 0);
    if found != magic {
        let expected = magic;
        return Err(Corrupt::at(0, Fault::Magic { expected, found }));
    }
    check_version(u32_at(file, 8), 8, VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(number: u32, result: i64) -> InputEntry {
        InputEntry {
            number,
            reserved: 0,
            result,
            digest: 77,
            bytes: 5,
        }
    }

    fn of_thread(thread: u32, entries: &[InputEntry]) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend(LEARNED_MAGIC.to_le_bytes());
        file.extend(VERSION.to_le_bytes());
        file.extend(thread.to_le_bytes());
        file.extend((entries.len() as u64).to_le_bytes());
        file.resize(LEARNED, 0);
        entries.iter().for_each(|entry| put(&mut file, entry));
        file
    }

    #[test]
    fn a_threads_entries_are_those_that_were_published() {
        let entries = [entry(0, 5), entry(318, -4)];
        let mut file = of_thread(3, &entries);
        // Room that was made ahead.
        file.extend([0; 100]);
        assert_eq!(decode_thread(&file, ThreadIndex(3)), Ok(entries.to_vec()));
        assert!(decode_thread(&file, ThreadIndex(2)).is_err());
        for cut in 0..LEARNED + 2 * ENTRY {
            assert!(decode_thread(&file[..cut], ThreadIndex(3)).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn every_changed_and_missing_byte_is_noticed() {
        let file = encode(&[vec![entry(0, 1)], vec![], vec![entry(17, 2), entry(217, 0)]]);
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(decode(&changed).is_err(), "byte {at}");
            assert!(decode(&file[..at]).is_err(), "cut at {at}");
        }
        assert!(decode(&[file, vec![0]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(lists in prop::collection::vec(prop::collection::vec(
            (any::<u32>(), any::<i64>(), any::<u64>(), any::<u64>()), 0..5), 0..5)) {
            let of = |(number, result, digest, bytes): (u32, i64, u64, u64)| InputEntry { number, reserved: 0, result, digest, bytes };
            let lists: Vec<Vec<InputEntry>> = lists.into_iter().map(|list| list.into_iter().map(of).collect()).collect();
            prop_assert_eq!(decode(&encode(&lists)), Ok(lists));
        }

        #[test]
        fn any_bytes_are_refused_or_read(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
            let _ = decode_thread(&bytes, ThreadIndex(0));
            if bytes.len() >= 12 {
                bytes[..8].copy_from_slice(&LEARNED_MAGIC.to_le_bytes());
                bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
                let _ = decode_thread(&bytes, ThreadIndex(0));
            }
        }
    }
}
