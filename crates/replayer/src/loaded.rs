//! A run read from disk: metadata, logs and final counts, each checked and checked against each other.
use crate::Error;
use crate::Result;
use crate::memory;
use crate::prepare::Observed;
use crate::prepare::Observer;
use crate::prepare::Unobserved;
use crate::prepare::Work;
use crate::processes;
use crate::sites::SiteBook;
use log_format::Log;
use log_format::LogFile;
use log_format::LogReader;
use log_format::Pieces;
use log_format::inputs;
use log_format::inputs::Entry;
use log_format::inputs::FIRST_SIGNAL;
use log_format::inputs::Lengths;
use log_format::inputs::REST;
use log_format::inputs::SYNC;
use log_format::inputs::labels;
use log_format::inputs::labels::LABEL;
use log_format::inputs::labels::Labels;
use run_model::Kind;
use run_model::Logs;
use run_model::Method;
use run_model::Op;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::ThreadLog;
use run_store::Beginning;
use run_store::Ended;
use run_store::HashingReader;
use run_store::HeaderSnapshot;
use run_store::Origin;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunState;
use run_store::SlotSnapshot;
use run_store::Truncated;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Cursor;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Everything that is known about a recorded run.
#[derive(Debug)]
pub struct LoadedRun {
    pub run: RunDirectory,
    pub meta: RunMeta,
    pub state: RunState,
    pub logs: Logs,
    /// The thread that ended the program and how (`ThreadSlot::signal`). If it was a signal, the thread was in the middle
    /// of an event, or of several at once, that never counted.
    pub ended_in: Option<(u32, u32)>,
    pub truncated: Option<Truncated>,
    /// Bytes of the kept standard output and error that other processes wrote.
    pub others_bytes: [u64; 2],
    /// Identifies the logs and counts: a schedule computed for them is good for nothing else.
    pub hash: String,
    pub sites: SiteBook,
    /// Where its objects entered the kernel, and the process's id: for replays.
    pub call_sites: Vec<u8>,
    pub pid: u32,
    pub origin: Origin,
    /// It has memory in common with other processes of the run, whose threads' inputs have times, too.
    pub shares_memory: bool,
    /// What a replay of it begins with.
    pub beginning: Beginning,
    /// The other processes of the run, if this is the first.
    pub processes: Vec<LoadedRun>,
}

/// What the control file says, without the logs.
#[derive(Debug)]
pub struct Overview {
    pub meta: RunMeta,
    pub state: RunState,
    pub header: HeaderSnapshot,
    pub slots: Vec<SlotSnapshot>,
    /// Of the other processes, if this is the first.
    pub processes: Vec<Overview>,
}

impl Overview {
    pub fn load(run: &RunDirectory) -> Result<Overview> {
        let (meta, state) = run.load()?;
        let mut first = Overview::of(run, meta, state)?;
        if first.header.origin == Origin::First {
            for (number, meta) in processes::describe_all(run, &first.meta)? {
                first.processes.push(Overview::of(&run.process(number), meta, state)?);
            }
        }
        Ok(first)
    }

    fn of(run: &RunDirectory, meta: RunMeta, state: RunState) -> Result<Overview> {
        let control = run.control()?;
        Ok(Overview {
            meta,
            state,
            header: control.header()?,
            slots: control.slots()?,
            processes: Vec::new(),
        })
    }

    /// Events that happened in this process: a forked one goes on counting where its parent was.
    pub fn own_events(&self) -> u64 {
        let header = &self.header;
        let own = |(thread, slot): (u32, &SlotSnapshot)| match header.origin {
            Origin::Forked { .. } if thread == header.main_thread => slot.count.saturating_sub(header.main_count),
            Origin::Forked { .. } if thread < header.first_threads => 0,
            _ => slot.count,
        };
        (0..).zip(&self.slots).map(own).sum()
    }

    /// The reason is in the metadata once sealed; before, only the runtime has given one.
    pub fn truncated(&self) -> Option<Truncated> {
        match &self.meta.ending {
            Some(ending) => ending.truncated,
            None => self.header.truncated,
        }
    }
}

impl LoadedRun {
    /// The events of a thread that were, or contained, system calls; as far as they can be read.
    pub fn call_events(&self, thread: u32) -> BTreeSet<u64> {
        let (inputs, _) = load_inputs(&self.run, thread);
        let calls = inputs.iter().filter(|input| input.what != What::Rest);
        calls.map(|input| input.event).collect()
    }

    /// A run with all its processes; or the part of one of them alone, for looking at.
    pub fn load(run: RunDirectory) -> Result<LoadedRun> {
        LoadedRun::load_observed(run, &Unobserved)
    }

    /// The same, for somebody who wants to know how far it is.
    pub fn load_observed(run: RunDirectory, observer: &dyn Observer) -> Result<LoadedRun> {
        let _observed = Observed(observer);
        let mut overview = Overview::load(&run)?;
        if overview.state == RunState::Recording {
            return Err(Error::BeingRecorded {
                path: run.path().to_owned(),
            });
        }
        let mut progress = Progress::new(&run, &overview, observer)?;
        let others_bytes = Output::by_others(&overview);
        let others = std::mem::take(&mut overview.processes);
        let mut first = LoadedRun::from_overview(run, overview, &mut progress)?;
        first.others_bytes = others_bytes;
        for overview in others {
            let number = overview.meta.process.as_ref().map_or(0, |process| process.number);
            let process = LoadedRun::from_overview(first.run.process(number), overview, &mut progress)?;
            first.processes.push(process);
        }
        Ok(first)
    }

    fn from_overview(run: RunDirectory, mut overview: Overview, progress: &mut Progress<'_>) -> Result<LoadedRun> {
        // What the one who started it saw was the end of another program, or of another process of the run.
        if let Some(ending) = &mut overview.meta.ending
            && (overview.header.ended == Ended::Replaced
                || ending.outcome == Outcome::TimedOut && overview.header.ended != Ended::Unknown)
        {
            ending.outcome = processes::outcome(&overview.header);
        }
        let truncated = overview.truncated();
        let mut logs = Logs {
            method: Method::from_name(&overview.meta.method).ok_or_else(|| Error::UnknownMethod {
                run: run.name(),
                method: overview.meta.method.clone(),
            })?,
            threads: Vec::new(),
        };
        let mut identity = Vec::new();
        let mut ended_in = None;
        let mut output = Output::new(&overview);
        for (index, slot) in overview.slots.iter().enumerate() {
            let (mut records, hash) = load_log(&run, index as u32, slot, truncated.is_some(), progress)?;
            if let Some(event) = slot.lost {
                // Stands for the first record that could not be written. A torn log is good up to its last record, so
                // the thread is replayed exactly up to this event, and nobody who depends on more goes further.
                records.push(Record {
                    event,
                    ..Record::default()
                });
            }
            let ends =
                slot.signal != 0 && fits(slot.signal, overview.meta.ending.as_ref().map(|ending| ending.outcome));
            // A thread that was writing what replays show is replayed one event further than it counted.
            let under_way = slot.lost.is_none() && !ends && output.was_under_way(&run, index as u32, slot.count);
            let events = slot.count + u64::from(under_way);
            logs.threads.push(ThreadLog {
                records,
                events,
                torn: slot.lost.is_some(),
            });
            if ends {
                ended_in = Some((index as u32, slot.signal));
            }
            identity.extend([hash, format!("{events} {:?} {}", slot.lost, slot.signal)]);
        }
        drop_unborn(&mut logs, overview.header.first_threads);
        let hash = run_store::hash_bytes(identity.iter().map(String::as_bytes));
        let sites = SiteBook::load(&run);
        let call_sites = run.control()?.call_sites()?;
        let Overview {
            meta,
            state,
            header,
            slots,
            processes: _,
        } = overview;
        let left_behind = match header.origin {
            Origin::Forked { .. } => slots.iter().take(header.first_threads as usize),
            Origin::First | Origin::Executed => slots.iter().take(0),
        };
        let beginning = Beginning {
            process: meta.process.as_ref().map_or(0, |process| process.number),
            shown: header.shown,
            left_behind: left_behind.map(|slot| slot.count).collect(),
        };
        Ok(LoadedRun {
            call_sites,
            pid: header.pid,
            origin: header.origin,
            shares_memory: header.shares_memory,
            beginning,
            processes: Vec::new(),
            run,
            meta,
            state,
            logs,
            ended_in,
            truncated,
            others_bytes: [0; 2],
            hash,
            sites,
        })
    }
}

impl LoadedRun {
    /// A thread whose end is lost with the end of some log cannot end the program again: it stops like the others.
    pub fn forget_lost_end(&mut self, schedule: &Schedule) {
        let is_lost = |thread: u32| {
            let events = |all: Option<u64>| all.unwrap_or(0);
            let recorded = events(self.logs.threads.get(thread as usize).map(|log| log.events));
            events(schedule.threads.get(thread as usize).map(|part| part.events)) < recorded
        };
        self.ended_in = self.ended_in.filter(|(thread, _)| !is_lost(*thread));
    }

    /// The process and, if it is the first, all others.
    pub fn all(&self) -> impl Iterator<Item = &LoadedRun> {
        core::iter::once(self).chain(&self.processes)
    }
}

/// Output that threads were writing when the process ended. It was logged before it was written (the writer may not come
/// back), and may never have been written.
struct Output {
    /// Of standard output and error: bytes that were logged and did not arrive.
    missing: [u64; 2],
}

impl Output {
    fn new(overview: &Overview) -> Output {
        let arrived = overview
            .meta
            .ending
            .as_ref()
            .map(|ending| [ending.stdout, ending.stderr]);
        let missing = |stream: usize| match arrived {
            // More may have arrived than was logged: from children.
            Some(arrived) if arrived[stream].complete => {
                overview.header.shown_bytes[stream].saturating_sub(arrived[stream].bytes)
            }
            _ => 0,
        };
        Output {
            missing: [missing(0), missing(1)],
        }
    }

    /// Bytes of standard output and error that programs wrote which are not recorded: more arrived than the processes of the
    /// run logged.
    fn by_others(overview: &Overview) -> [u64; 2] {
        let all = || std::iter::once(overview).chain(&overview.processes);
        let were_there = overview.header.forked
            || overview.header.spawned > 0
            || all().any(|process| process.header.ended == Ended::Replaced);
        let Some(ending) = overview.meta.ending.as_ref().filter(|_| were_there) else {
            return [0, 0];
        };
        let logged = |stream: usize| all().map(|process| process.header.shown_bytes[stream]).sum();
        [
            ending.stdout.bytes.saturating_sub(logged(0)),
            ending.stderr.bytes.saturating_sub(logged(1)),
        ]
    }

    /// Had `thread`, which completed `events`, written something in the event that it did not complete?
    fn was_under_way(&mut self, run: &RunDirectory, thread: u32, events: u64) -> bool {
        let written =
            last_write(&run.thread_inputs(thread), thread).filter(|write| write.event == events && write.result > 0);
        let Some(write) = written else { return false };
        match self.missing.iter_mut().find(|missing| **missing == write.result as u64) {
            Some(missing) => {
                *missing = 0;
                false
            }
            None => true,
        }
    }
}

/// The last of a thread's recorded calls, if it is a write.
fn last_write(path: &Path, thread: u32) -> Option<Entry> {
    let file = File::open(path).ok()?;
    let mut header = [0; inputs::HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    let bytes = file.metadata().ok()?.len() as usize;
    let lengths = Lengths::read(&header, bytes, ThreadIndex(thread)).ok()?;
    let mut entry = [0; inputs::ENTRY_BYTES];
    let [shelf, desk] = lengths.last_places(entry.len())?;
    let (first, second) = entry.split_at_mut(shelf.1);
    file.read_exact_at(first, shelf.0 as u64).ok()?;
    file.read_exact_at(second, desk.0 as u64).ok()?;
    inputs::last_entry(&entry).filter(|entry| entry.number == libc::SYS_write as u32)
}

/// Two threads may both have been about to end the program; the outcome tells which one did.
fn fits(signal: u32, outcome: Option<Outcome>) -> bool {
    match outcome {
        Some(Outcome::Signaled(ended)) => signal == ended as u32,
        Some(Outcome::Exited(_) | Outcome::Replaced) => signal == runtime_abi::ENDED_BY_EXIT,
        Some(Outcome::TimedOut | Outcome::Lost) => false,
        None => true,
    }
}

/// Threads that were numbered but not created when the program ended: nobody's log speaks of them.
fn drop_unborn(logs: &mut Logs, first_threads: u32) {
    // The record of a creation is written before its event is complete; only then there is a thread.
    let records = logs
        .threads
        .iter()
        .flat_map(|log| log.records.iter().map(|record| (log.events, record)));
    let newest = records
        .filter(|(events, record)| record.kind == Kind::Spawn && record.event < *events)
        .map(|(_, record)| record)
        .map(|r| r.value as usize)
        .max();
    let created = newest.map_or(0, |newest| newest + 1).max(first_threads as usize);
    while logs.threads.len() > created && logs.threads.last().is_some_and(|log| log.events == 0) {
        logs.threads.pop();
    }
}

/// What one system call, or one signal, brought in.
#[derive(Clone, Debug)]
pub struct Input {
    pub event: u64,
    pub what: What,
    pub result: i64,
    /// Bytes that were written into the program's memory.
    pub bytes: u64,
    /// The processor's time-stamp counter; 0: not taken.
    pub time: u64,
    /// Where the program went on behind it, the nearest address of its own code; 0: not known.
    pub label: u64,
    /// The same when the thread came to it, if it may have waited there; otherwise 0.
    pub began: u64,
    /// The same when the thread went on, if it may have done something before; otherwise 0.
    pub ended: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Call(u32),
    /// The order of synchronisations was recorded.
    Sync(Op),
    Signal(u32),
    /// Nothing: the thread came to a stop.
    Rest,
}

impl What {
    fn of(entry: &Entry) -> What {
        match entry.number.checked_sub(FIRST_SIGNAL) {
            Some(signal) => What::Signal(signal),
            None if entry.number == SYNC => What::Sync(Op::from_u8(entry.check as u8).unwrap_or_default()),
            None if entry.number == REST => What::Rest,
            None => What::Call(entry.number),
        }
    }
}

/// As much of a thread's inputs as can be read, for looking at; the error says what is wrong with the rest.
pub fn load_inputs(run: &RunDirectory, thread: u32) -> (Vec<Input>, Option<Error>) {
    let file = run.thread_inputs(thread);
    let mut inputs = Vec::new();
    let damaged = |file: &Path, damage| {
        Some(Error::Inputs {
            file: file.to_owned(),
            damage,
        })
    };
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        // A thread that made no call has none.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (inputs, None),
        Err(e) => return (inputs, Some(run_store::Error::io("read", &file, e).into())),
    };
    // The process ended when the thread was about to make its first.
    if bytes.is_empty() {
        return (inputs, None);
    }
    let stream = match log_format::inputs::stream_of(&bytes, ThreadIndex(thread)) {
        Ok(stream) => stream,
        Err(damage) => return (inputs, damaged(&file, damage)),
    };
    let mut reader = log_format::inputs::Reader::new(&stream);
    let (mut labels, mut written) = (Labels::new(), None);
    loop {
        match reader.next_call() {
            Ok(Some(call)) if call.entry.number == LABEL => {
                written = Some(labels::join(call.entry.check, call.entry.result));
            }
            Ok(Some(call)) => inputs.push(Input {
                event: call.entry.event,
                what: What::of(&call.entry),
                result: call.entry.result,
                bytes: call.ranges().map(|(_, bytes)| bytes.len() as u64).sum(),
                time: call.entry.time,
                label: match Labels::has_one(call.entry.number, call.entry.time) {
                    true => labels.next(call.entry.number, written.take()),
                    false => 0,
                },
                began: call.entry.began().unwrap_or(0),
                ended: call.entry.ended().unwrap_or(0),
            }),
            Ok(None) => return (inputs, None),
            Err(damage) => return (inputs, damaged(&file, damage)),
        }
    }
}

/// As much of a thread's log as can be read, for looking at; the error says what is wrong with the rest.
pub fn load_prefix(run: &RunDirectory, thread: u32) -> (Log, Option<Error>) {
    let path = run.thread_log(thread);
    match fs::read(&path) {
        Ok(bytes) => {
            let prefix = log_format::decode_prefix(&bytes, ThreadIndex(thread));
            (
                prefix.log,
                prefix.damage.map(|damage| Error::Log { file: path, damage }),
            )
        }
        Err(e) => {
            let log = Log {
                thread: ThreadIndex(thread),
                records: Vec::new(),
            };
            // A log is created with its first record.
            let error = (e.kind() != io::ErrorKind::NotFound).then(|| run_store::Error::io("read", &path, e).into());
            (log, error)
        }
    }
}

/// How many records the logs of a process have: what it counted, if the files are long enough for so many.
fn logged(run: &RunDirectory, overview: &Overview) -> u64 {
    let logged = |(thread, slot): (u32, &SlotSnapshot)| {
        let bytes = fs::metadata(run.thread_log(thread)).map_or(0, |file| file.len());
        slot.records.min(bytes / log_format::MIN_RECORD_BYTES as u64)
    };
    (0..).zip(&overview.slots).map(logged).sum()
}

/// How many of the records of all logs were read.
struct Progress<'a> {
    done: u64,
    all: u64,
    observer: &'a dyn Observer,
}

impl<'a> Progress<'a> {
    /// Fails if the logs will not fit into memory.
    fn new(run: &RunDirectory, first: &Overview, observer: &'a dyn Observer) -> Result<Progress<'a>> {
        let mut records = logged(run, first);
        for process in &first.processes {
            let number = process.meta.process.as_ref().map_or(0, |process| process.number);
            records += logged(&run.process(number), process);
        }
        let needed = records.saturating_mul(size_of::<Record>() as u64);
        if let Some(available) = memory::available().filter(|available| *available < needed) {
            return Err(Error::TooLittleMemory {
                run: run.name(),
                records,
                needed,
                available,
            });
        }
        Ok(Progress {
            done: 0,
            all: records,
            observer,
        })
    }

    fn add(&mut self, records: u64) {
        self.done += records;
        self.observer.at(Work::Load, self.done.min(self.all), self.all);
    }
}

fn load_log(
    run: &RunDirectory,
    thread: u32,
    slot: &SlotSnapshot,
    truncated: bool,
    progress: &mut Progress<'_>,
) -> Result<(Vec<Record>, String)> {
    let path = run.thread_log(thread);
    let file = match open_used_part(&path) {
        // A full disk may have refused even the first block.
        Ok(file) if file.length() == 0 && slot.records == 0 => return Ok((Vec::new(), String::new())),
        Ok(file) => file,
        // A log is created with its first record.
        Err(e) if e.kind() == io::ErrorKind::NotFound && slot.records == 0 => {
            return Ok((Vec::new(), String::new()));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Error::LogMissing {
                file: path,
                records: slot.records,
            });
        }
        Err(e) => return Err(run_store::Error::io("read", &path, e).into()),
    };
    let damaged = |damage| Error::Log {
        file: path.clone(),
        damage,
    };
    // No record takes fewer bytes than this; whoever counted them may have been wrong.
    let most = file.length() / log_format::MIN_RECORD_BYTES as u64;
    let mut records = Vec::with_capacity(most.min(slot.records) as usize);
    let mut reader = LogReader::open(file, ThreadIndex(thread)).map_err(damaged)?;
    let mut damage = None;
    for record in reader.by_ref() {
        match record {
            Ok(record) => records.push(record),
            Err(e) => damage = Some(e),
        }
        if records.len().is_multiple_of(RECORDS_PER_LOOK) {
            progress.add(RECORDS_PER_LOOK as u64);
        }
    }
    progress.add((records.len() % RECORDS_PER_LOOK) as u64);
    // What could not be read is not damaged.
    let (hashing, failure) = reader.into_file().finish();
    if let Some(e) = failure {
        return Err(run_store::Error::io("read", &path, e).into());
    }
    damage.map_or(Ok(()), |damage| Err(damaged(damage)))?;
    let hash = hashing.hash();
    // The slot counts a record just before the log publishes it; a kill may come between.
    let found = records.len() as u64;
    if found != slot.records && found + 1 != slot.records && !truncated {
        return Err(Error::LogDoesNotFit {
            file: path,
            place: "number of records".to_owned(),
            expected: format!("{} as in the file control", slot.records),
            found: found.to_string(),
        });
    }
    if let Some(last) = records.last()
        && last.event > slot.count
        && !truncated
    {
        return Err(Error::LogDoesNotFit {
            file: path,
            place: "last event".to_owned(),
            expected: format!("at most {} as in the file control", slot.count),
            found: last.event.to_string(),
        });
    }
    Ok((records, hash))
}

/// An observer is told so often.
const RECORDS_PER_LOOK: usize = 1 << 16;

/// A log up to its end, as its header has it, or as far as there is a file; preallocated zeros do not count.
fn open_used_part(path: &Path) -> io::Result<Pieces<HashingReader<impl Read + use<>>>> {
    let mut file = File::open(path)?;
    let mut header = Vec::new();
    file.by_ref()
        .take(log_format::HEADER_BYTES as u64)
        .read_to_end(&mut header)?;
    let tail = header.get(log_format::TAIL_OFFSET..log_format::TAIL_OFFSET + 8);
    let tail = tail.filter(|_| header.len() == log_format::HEADER_BYTES);
    let used = tail.map_or(0, |tail| {
        let tail = u64::from_le_bytes(std::array::from_fn(|i| tail[i]));
        log_format::Tail::unpack(tail).bytes
    });
    let there = file.metadata()?.len().saturating_sub(header.len() as u64);
    let length = header.len() as u64 + used.min(there);
    let reader = Cursor::new(header).chain(file.take(used));
    Ok(Pieces::new(HashingReader::new(reader, length), length))
}
