//! A run -> its partial log. One that was recorded by coop has the elements that were chosen; one that was recorded whole, all of them ([`whole`](super::whole)). One of which
//! only inputs were recorded has none of the elements, and the failure: it can be what an attempt begins with.
use super::failure::failure_of;
use super::failure::outcome_of;
use super::names;
use super::whole::elements_of_whole;
use crate::Error;
use crate::Result;
use crate::loaded::LoadedRun;
use log_format::inputs::Entry;
use partial_logs::AccessVector;
use partial_logs::BuildId;
use partial_logs::Digest;
use partial_logs::ElementId;
use partial_logs::InputsDigest;
use partial_logs::PartialLog;
use partial_logs::Pattern;
use partial_logs::RecordedElement;
use partial_logs::ThreadName;
use partial_logs::pattern::WHOLE;
use run_model::Kind;
use run_model::Logs;
use run_model::Method;
use run_model::Record;
use run_model::ThreadIndex;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Scope;
use runtime_abi::vectors_file::CHOSEN_FILE_NAME;
use runtime_abi::vectors_file::ELEMENTS_FILE_NAME;
use runtime_abi::vectors_file::ELEMENTS_MAX;
use runtime_abi::vectors_file::KeptElement;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Calls whose bytes are inputs by which runs differ: those of files, pipes and connections. Clocks, ids, addresses and random bytes are not.
const DATA_CALLS: [i64; 9] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getdents64,
];

/// What this client has recorded: vectors of the elements that were chosen, how it ended. No values, no paths, no arguments.
pub fn partial_log(run: RunDirectory) -> Result<PartialLog> {
    let loaded = LoadedRun::load(run)?;
    let log = outline_of(&loaded)?;
    let elements = match (loaded.logs.method, loaded.meta.settings.scope) {
        (Method::Coop, _) => recorded_elements(&loaded)?,
        (_, Scope::Inputs) => BTreeMap::new(),
        (_, scope) => elements_of_whole(&loaded.run, scope)?,
    };
    Ok(PartialLog { elements, ..log })
}

/// The same without vectors: which program, what it was given, how it ended.
pub fn outline(run: RunDirectory) -> Result<PartialLog> {
    outline_of(&LoadedRun::load(run)?)
}

fn outline_of(loaded: &LoadedRun) -> Result<PartialLog> {
    let ended = loaded.meta.ending.as_ref().map(|ending| ending.outcome);
    let Some(ended) = ended else {
        return Err(Error::Unended {
            path: loaded.run.path().to_owned(),
        });
    };
    let settings = &loaded.meta.settings;
    let share = match loaded.meta.settings.scope {
        Scope::Memory => settings
            .share
            .map_or(WHOLE.into(), |share| share.get().min(WHOLE.into())),
        Scope::Sync | Scope::Inputs => 0,
    };
    Ok(PartialLog {
        build: build_of(&loaded.meta)?,
        inputs: inputs_digest(loaded),
        pattern: Pattern {
            share: share as u16,
            number: settings.pattern.map_or(0, |number| number.get() - 1) as u16,
        },
        outcome: outcome_of(ended),
        failure: failure_of(&loaded.run, ended),
        elements: BTreeMap::new(),
    })
}

fn recorded_elements(loaded: &LoadedRun) -> Result<BTreeMap<ElementId, RecordedElement>> {
    let kept = kept_elements(&loaded.run)?;
    let names = names::of_threads(&loaded.logs);
    let mut vectors = vectors(&loaded.logs, &names, &kept);
    let element = |id| {
        let vector = vectors.remove(&id).unwrap_or_default();
        let has_conflict = kept.get(&id).is_some_and(|kept| kept.has_conflict);
        (ElementId(id), RecordedElement::new(vector, has_conflict))
    };
    Ok(chosen(&loaded.run)?.into_iter().map(element).collect())
}

/// The program file's hash, which the metadata has.
pub fn build_of(meta: &RunMeta) -> Result<BuildId> {
    let hash = &meta.executable.hash;
    let byte = |at: usize| u8::from_str_radix(hash.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    let digest: Option<Digest> = bytes.and_then(|bytes| bytes.try_into().ok());
    digest.map(BuildId).ok_or_else(|| {
        Error::Store(run_store::Error::Corrupt {
            file: "run.json".into(),
            place: "executable.hash".to_owned(),
            expected: "64 hexadecimal digits".to_owned(),
            found: hash.clone(),
        })
    })
}

/// Of arguments and of everything that was read. Which thread read it, and in which order, does not count: that is up to the threads.
pub fn inputs_digest(loaded: &LoadedRun) -> InputsDigest {
    let mut sum: Digest = [0; 32];
    let mut add = |digest: blake3::Hash| {
        let mut carry = 0;
        for (place, byte) in sum.iter_mut().zip(digest.as_bytes()) {
            let wide = u16::from(*place) + u16::from(*byte) + carry;
            *place = wide as u8;
            carry = wide >> 8;
        }
    };
    let mut hasher = blake3::Hasher::new();
    for argument in loaded.meta.program_arguments().iter().skip(1) {
        hasher.update(argument.as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
    }
    add(hasher.finalize());
    for thread in 0..loaded.logs.threads.len() as u32 {
        for_each_input(&loaded.run, thread, |number, bytes| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&u64::from(number).to_le_bytes());
            hasher.update(bytes);
            add(hasher.finalize());
        });
    }
    InputsDigest(sum)
}

/// Bytes that came in by calls that bring data, as far as they can be read.
fn for_each_input(run: &RunDirectory, thread: u32, mut each: impl FnMut(u32, &[u8])) {
    for_each_call(run, thread, |entry, data| each(entry.number, data));
}

/// The same, with the calls.
pub(super) fn for_each_call(run: &RunDirectory, thread: u32, mut each: impl FnMut(&Entry, &[u8])) {
    let Ok(bytes) = fs::read(run.thread_inputs(thread)) else {
        return;
    };
    let Ok(stream) = log_format::inputs::stream_of(&bytes, ThreadIndex(thread)) else {
        return;
    };
    let mut reader = log_format::inputs::Reader::new(&stream);
    while let Ok(Some(call)) = reader.next_call() {
        if DATA_CALLS.contains(&i64::from(call.entry.number)) && call.entry.result > 0 {
            let data: Vec<u8> = call.ranges().flat_map(|(_, bytes)| bytes).copied().collect();
            each(&call.entry, &data);
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    Ok(fs::read(path).map_err(|e| run_store::Error::io("read", path, e))?)
}

/// The ids in the run's file `chosen`.
fn chosen(run: &RunDirectory) -> Result<Vec<u32>> {
    let bytes = read(&run.file(CHOSEN_FILE_NAME))?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// What no record says of an element.
struct Kept {
    /// How many accesses its last run has.
    last: u64,
    has_conflict: bool,
}

fn kept_elements(run: &RunDirectory) -> Result<BTreeMap<u32, Kept>> {
    let bytes = read(&run.file(ELEMENTS_FILE_NAME))?;
    let number = |record: &[u8], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let records = bytes.chunks_exact(size_of::<KeptElement>()).take(ELEMENTS_MAX);
    let kept = records.map(|record| {
        let first = number(record, 0);
        let has_conflict = first >> 32 != 0;
        let last = number(record, 16);
        (first as u32, Kept { last, has_conflict })
    });
    Ok(kept.filter(|(id, _)| *id != 0).collect())
}

/// A run of an element's vector, as its first access was logged.
struct Begun {
    thread: u32,
    event: u64,
    /// The run before: its thread, how many events that had completed with its last access, and how many accesses it had.
    after: Option<(u32, u64, u64)>,
}

/// The vectors of all elements that somebody has accessed. One whose records do not make a chain, as in a log that was cut, ends where the chain does.
fn vectors(logs: &Logs, names: &[Option<ThreadName>], kept: &BTreeMap<u32, Kept>) -> BTreeMap<u32, AccessVector> {
    let mut begun: BTreeMap<u32, Vec<Begun>> = BTreeMap::new();
    for (thread, log) in (0..).zip(&logs.threads) {
        for record in log.records.iter().filter(|record| record.kind == Kind::Vector) {
            begun
                .entry(record.object as u32)
                .or_default()
                .push(begun_by(thread, record));
        }
    }
    let vector = |(id, runs): (u32, Vec<Begun>)| {
        let last = kept.get(&id).map_or(1, |kept| kept.last);
        (id, chain(&runs, names, last))
    };
    begun.into_iter().map(vector).collect()
}

fn begun_by(thread: u32, record: &Record) -> Begun {
    let source = record.sources.first();
    Begun {
        thread,
        event: record.event,
        after: source.map(|point| (point.thread.0, point.count, record.value.max(0) as u64)),
    }
}

/// Puts runs into their order. `last` is how many accesses the last one has.
fn chain(runs: &[Begun], names: &[Option<ThreadName>], last: u64) -> AccessVector {
    // Of each thread, where its runs are, in the order of their events.
    let mut of_thread: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        of_thread.entry(run.thread).or_default().push(at);
    }
    let run_at = |thread: u32, count: u64| {
        let of_thread = of_thread.get(&thread)?;
        let behind = of_thread.partition_point(|at| runs[*at].event < count);
        of_thread.get(behind.checked_sub(1)?).copied()
    };
    let mut next: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    let mut first = None;
    for (at, run) in runs.iter().enumerate() {
        match run.after {
            None => first = Some(at),
            Some((thread, count, accesses)) => {
                if let Some(before) = run_at(thread, count) {
                    next.insert(before, (at, accesses));
                }
            }
        }
    }
    let mut vector = AccessVector::default();
    let mut here = first;
    while let Some(at) = here {
        let Some(name) = names.get(runs[at].thread as usize).and_then(Option::as_ref) else {
            break;
        };
        // Removed: a chain that leads back to itself ends there.
        let followed = next.remove(&at);
        vector.push(name, followed.map_or(last, |(_, accesses)| accesses));
        here = followed.map(|(at, _)| at);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(thread: u32, event: u64, after: Option<(u32, u64, u64)>) -> Begun {
        Begun { thread, event, after }
    }

    #[test]
    fn runs_are_put_into_their_order() {
        let names: Vec<Option<ThreadName>> = vec![
            Some(ThreadName::FIRST),
            Some(ThreadName::FIRST.child(0)),
            Some(ThreadName::FIRST.child(1)),
        ];
        // T0 twice, T1 three times, T0 once, T2 four times.
        let runs = [
            run(0, 5, None),
            run(0, 20, Some((1, 9, 3))),
            run(1, 3, Some((0, 7, 2))),
            run(2, 0, Some((0, 21, 1))),
        ];
        let vector = chain(&runs, &names, 4);
        let turns: Vec<(String, u64)> = vector.turns().map(|(name, n)| (name.to_string(), n)).collect();
        let expected = [("T", 2), ("T.0", 3), ("T", 1), ("T.1", 4)];
        assert_eq!(turns, expected.map(|(name, n)| (name.to_owned(), n)));
    }

    #[test]
    fn a_chain_that_is_broken_ends_there() {
        let names = vec![Some(ThreadName::FIRST), Some(ThreadName::FIRST.child(0))];
        // Nobody knows of a run of T1 before T0's second.
        let runs = [run(0, 5, None), run(0, 20, Some((1, 9, 3)))];
        assert_eq!(chain(&runs, &names, 1).accesses(), 1);
        assert_eq!(chain(&[], &names, 1).accesses(), 0);
    }
}
