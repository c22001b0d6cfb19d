//! A run read from disk: metadata, logs and final counts, each checked and checked against each other.
use crate::Error;
use crate::Result;
use crate::inputs::Input;
use crate::inputs::What;
use crate::inputs::load_inputs;
use crate::memory;
use crate::output::ByOthers;
use crate::prepare::Observed;
use crate::prepare::Observer;
use crate::prepare::Unobserved;
use crate::prepare::Work;
use crate::processes;
use crate::room::Room;
use crate::sites::SiteBook;
use crate::turns;
use crate::unfinished;
use crate::unfinished::Unfinished;
use log_format::Log;
use log_format::LogFile;
use log_format::LogReader;
use log_format::Pieces;
use run_model::Kind;
use run_model::Logs;
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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

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
    pub others: [ByOthers; 2],
    /// Turns to write there that were taken, and not used.
    pub skipped_turns: [BTreeSet<u32>; 2],
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
    /// For each thread, its inputs that have a place in an order, and where it came to a stop; if anybody asks for such an order.
    pub inputs: Vec<Vec<Input>>,
    /// The other processes of the run, if this is the first.
    pub processes: Vec<LoadedRun>,
    /// For what replays keep with the run.
    pub room: Arc<Room>,
    /// How long it took to read all of them.
    pub read_time: Duration,
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
        run.check_files(&meta)?;
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

    /// Which process of the run it is.
    pub fn number(&self) -> u32 {
        self.meta.process.as_ref().map_or(0, |process| process.number)
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

    /// The first of the other processes whose log ends before it did, and why.
    pub fn truncated_process(&self) -> Option<(u32, Truncated)> {
        let number = |process: &Overview| Some((process.number(), process.truncated()?));
        self.processes.iter().find_map(number)
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
        let started = Instant::now();
        let mut overview = Overview::load(&run)?;
        run.check_output(&overview.meta)?;
        if overview.state == RunState::Recording {
            return Err(Error::BeingRecorded {
                path: run.path().to_owned(),
            });
        }
        let mut progress = Progress::new(&run, &overview, observer)?;
        let unfinished = Unfinished::of(&run, &overview);
        let others = std::mem::take(&mut overview.processes);
        let room = Arc::new(Room::in_run(&run, &overview.meta));
        let mut first = LoadedRun::from_overview(run, overview, &unfinished, &room, &mut progress)?;
        for overview in others {
            let part = first.run.process(overview.number());
            let process = LoadedRun::from_overview(part, overview, &unfinished, &room, &mut progress)?;
            first.processes.push(process);
        }
        first.others = unfinished.others;
        first.skipped_turns = unfinished.skipped_turns;
        first.read_time = started.elapsed();
        Ok(first)
    }

    fn from_overview(
        run: RunDirectory,
        mut overview: Overview,
        unfinished: &Unfinished,
        room: &Arc<Room>,
        progress: &mut Progress<'_>,
    ) -> Result<LoadedRun> {
        // What the one who started it saw was the end of another program, or of another process of the run.
        if let Some(ending) = &mut overview.meta.ending
            && (overview.header.ended == Ended::Replaced
                || ending.outcome == Outcome::TimedOut && overview.header.ended != Ended::Unknown)
        {
            ending.outcome = processes::outcome(&overview.header);
        }
        let truncated = overview.truncated();
        let mut logs = Logs {
            method: overview.meta.settings.method,
            threads: Vec::new(),
        };
        let mut identity = Vec::new();
        let mut ended_in = None;
        let mut missing = unfinished::missing_bytes(&overview);
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
            // A thread that was writing what replays show, or forking, is replayed one event further than it counted.
            let thread = (overview.number(), index as u32);
            let under_way =
                slot.lost.is_none() && !ends && unfinished.has_happened(&run, thread, slot.count, &mut missing);
            let events = slot.count + u64::from(under_way);
            logs.threads.push(ThreadLog {
                records,
                events,
                torn: slot.lost.is_some(),
                inputs: Vec::new(),
            });
            if ends {
                ended_in = Some((index as u32, slot.signal));
            }
            identity.extend([hash, format!("{events} {:?} {}", slot.lost, slot.signal)]);
        }
        drop_unborn(&mut logs, overview.header.first_threads);
        let mut inputs = Vec::new();
        if turns::are_taken_in(&logs) || overview.header.shares_memory {
            inputs = turns::placed_inputs(&run, &logs, ended_in)?;
        }
        if turns::are_taken_in(&logs) {
            turns::place(&mut logs, &inputs);
        }
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
            inputs,
            room: Arc::clone(room),
            read_time: Duration::ZERO,
            processes: Vec::new(),
            run,
            meta,
            state,
            logs,
            ended_in,
            truncated,
            others: Default::default(),
            skipped_turns: Default::default(),
            hash,
            sites,
        })
    }
}

impl LoadedRun {
    /// A thread whose end is lost with the end of some log cannot end the program again: it stops like the others. `schedules` are
    /// those of all processes.
    pub fn forget_lost_ends(&mut self, schedules: &[&Schedule]) {
        let Some((own, others)) = schedules.split_first() else {
            return;
        };
        self.forget_lost_end(own);
        for (process, schedule) in self.processes.iter_mut().zip(others) {
            process.forget_lost_end(schedule);
        }
    }

    fn forget_lost_end(&mut self, schedule: &Schedule) {
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
            records += logged(&run.process(process.number()), process);
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
