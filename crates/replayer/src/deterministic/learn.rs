//! Learning a schedule: one recorded run, one traced replay of it, and what they are relaxed into.
use crate::Error;
use crate::Result;
use crate::call_names::call_name;
use crate::campaign::Attempts;
use crate::campaign::Campaign;
use crate::campaign::Keep;
use crate::campaign::Recorded;
use crate::deterministic::Subject;
use crate::deterministic::libraries::Libraries;
use crate::deterministic::libraries::identified;
use crate::deterministic::unordered;
use crate::inputs::What;
use crate::inputs::load_inputs;
use crate::loaded::LoadedRun;
use crate::plan::Temporary;
use crate::prepare::Observer;
use crate::record::Show;
use crate::recovery;
use crate::recovery::RecoverOptions;
use crate::replay;
use crate::supervise;
use crate::supervise::Watch;
use crate::sys;
use hybrid_schedule::Relaxed;
use log_format::hybrid_trace;
use log_format::hybrid_trace::TraceReader;
use run_model::EnforcedPoint;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::Record;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use run_store::LearnGuard;
use run_store::Learned;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::ScheduleEntry;
use run_store::ScheduleFile;
use run_store::Store;
use runtime_abi::compared::is_live;
use runtime_abi::counting::CountingFor;
use runtime_abi::inputs_file::InputEntry;
use runtime_abi::inputs_file::LEARNED_EXTENSION;
use runtime_abi::points_file::LAST_ACCESS;
use runtime_abi::points_file::NO_ACCESS;
use runtime_abi::policy::Inputs;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// In the directory of a traced replay: what the runtime met that no schedule can deal with.
const SEALED_FILE_NAME: &str = "sealed";

/// A run of the program that was recorded so that a schedule can be learned from it.
pub struct Learning<'a> {
    subject: &'a Subject,
    recorded: Recorded,
    interrupted: Option<i32>,
    /// Has the run in it, and goes away with it.
    _folder: Temporary,
}

impl<'a> Learning<'a> {
    /// Runs the program once, with its own input and output.
    pub fn record(subject: &'a Subject) -> Result<Learning<'a>> {
        let folder = Temporary::create()?;
        let campaign = Campaign {
            recording: subject.recording.clone(),
            output: Some(folder.path.join("run")),
            attempts: Attempts::Once,
            keep: Keep::Always,
            name: None,
            is_quiet: false,
        };
        let recorded = campaign.run(&Store::at(&folder.path)?, |_| ())?;
        // Learning may take minutes, and nobody has to wait for it.
        sys::release_signals();
        Ok(Learning {
            subject,
            recorded,
            interrupted: sys::caught_signal(),
            _folder: folder,
        })
    }

    pub fn outcome(&self) -> Outcome {
        self.recorded.outcome()
    }

    /// A signal that came from outside to end the run: this was not all that the program does, or it has a handler for it.
    pub fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// Makes the schedule and puts it into the cache.
    pub fn learn(self, guard: LearnGuard, observer: &dyn Observer) -> Result<ScheduleEntry> {
        let name = self.subject.key.name();
        let run = self.recorded.run.clone().ok_or(Error::NothingToLearn)?;
        let began = Instant::now();
        let recovered = recovery::recover(run, &RecoverOptions::to_replay(name), observer)?;
        recovery::require_order(&recovered.loaded)?;
        if let Some(why) = never_usable(&recovered.loaded) {
            let learned = Learned {
                sealed: Some(why),
                ..self.learned(&recovered.loaded)
            };
            return Ok(guard.insert(learned, &[])?);
        }
        let (loaded, stage, plan) = recovered.into_temporary_plan()?;
        let solving_ms = began.elapsed().as_millis() as u64;

        let began = Instant::now();
        let watch = Watch {
            patience: replay::default_patience(&loaded),
            jitter_seed: 0,
            trace: false,
            inputs: Inputs::Answered,
            counting: CountingFor::Trace,
        };
        let observed = supervise::replay_once(&loaded, stage.as_ref(), &plan, &watch, Show::Nothing)?;
        let verdict = replay::judge(&loaded, &plan, &observed, name);
        let tracing_ms = began.elapsed().as_millis() as u64;
        if !verdict.identical {
            return Err(Error::NotTracedAgain {
                why: verdict.divergence.map_or_else(String::new, |divergence| {
                    let thread = divergence
                        .thread
                        .map_or_else(String::new, |thread| format!("T{thread}: "));
                    format!(": {thread}{}", divergence.what)
                }),
            });
        }

        let began = Instant::now();
        let threads = loaded.logs.threads.len();
        let sealed = sealed(&loaded, &plan.directory);
        let lone = Rc::new(used_by_one_thread(&loaded));
        let relaxed = hybrid_schedule::relax(traces(&plan.directory, threads, &lone)?).map_err(unusable)?;
        schedule_checker::hybrid::check_hybrid(traces(&plan.directory, threads, &lone)?, &relaxed.schedule)
            .map_err(unusable)?;
        let last = last_accesses(&loaded, traces(&plan.directory, threads, &lone)?, &relaxed)?;
        let inputs = learned_inputs(&loaded.run, threads)?;
        let mut files = files(&loaded, &relaxed, last);
        files.push((ScheduleFile::Inputs, log_format::learned::encode(&inputs)));
        let statistics = relaxed.statistics;
        let learned = Learned {
            steps: relaxed.schedule.steps.len() as u64,
            hand_overs: relaxed.schedule.hand_overs(),
            constraints: statistics.constraints,
            races: statistics.races,
            pruned: statistics.subsumed + statistics.implied,
            accesses: statistics.accesses,
            solving_ms,
            tracing_ms,
            relaxing_ms: began.elapsed().as_millis() as u64,
            sealed,
            ..self.learned(&loaded)
        };
        let files: Vec<(ScheduleFile, &[u8])> = files.iter().map(|(file, bytes)| (*file, bytes.as_slice())).collect();
        Ok(guard.insert(learned, &files)?)
    }
}

impl Learning<'_> {
    /// What is known before anything is learned.
    fn learned(&self, loaded: &LoadedRun) -> Learned {
        Learned {
            learned_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
            libraries: identified(&loaded.meta),
            unobserved: Libraries::of(&loaded.meta).unobserved,
            outcome: self.outcome(),
            ended_in: loaded.ended_in,
            threads: loaded.logs.threads.len() as u32,
            steps: 0,
            hand_overs: 0,
            constraints: 0,
            races: 0,
            pruned: 0,
            accesses: 0,
            unordered_reads: outside(loaded),
            unordered_waits: unordered::waits(loaded),
            recording_ms: self.recorded.elapsed.as_millis() as u64,
            solving_ms: 0,
            tracing_ms: 0,
            relaxing_ms: 0,
            sealed: None,
        }
    }
}

/// What the recorded run got that may be another thing next time, and is not compared: the names of the calls, each once.
fn outside(loaded: &LoadedRun) -> Vec<String> {
    let threads = 0..loaded.logs.threads.len() as u32;
    let inputs = threads.flat_map(|thread| load_inputs(&loaded.run, thread).0);
    let names = inputs.filter_map(|input| match input.what {
        What::Call(number) if is_live(number) => Some(call_name(number)),
        _ => None,
    });
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

/// What each thread got when the run was recorded. One that got nothing has no file.
fn learned_inputs(run: &RunDirectory, threads: usize) -> Result<Vec<Vec<InputEntry>>> {
    let of_thread = |thread: usize| {
        let thread = ThreadIndex(thread as u32);
        let (name, length) = log_format::file_name(thread, LEARNED_EXTENSION);
        let path = run.path().join(String::from_utf8_lossy(&name[..length]).as_ref());
        match fs::read(&path) {
            Ok(bytes) => log_format::learned::decode_thread(&bytes, thread).map_err(unusable),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(run_store::Error::io("read", &path, e).into()),
        }
    };
    (0..threads).map(of_thread).collect()
}

fn unusable(why: impl std::fmt::Display) -> Error {
    Error::NoHybridSchedule { why: why.to_string() }
}

fn is_about_call(op: Op) -> bool {
    matches!(op, Op::CallIssue | Op::CallPart | Op::CallReturn)
}

/// Calls that ask for several descriptors. Whoever makes them, they have a place: enforced, they are made in another way.
const POLLS: [i64; 7] = [
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];

/// Files and channels that only one thread has used: the order of its calls is its own. A stream of libc's has a record with what it was written to, if others
/// used that before; and if others did so after it, they have one that names it.
fn used_by_one_thread(loaded: &LoadedRun) -> BTreeSet<u64> {
    let mut users = BTreeMap::<u64, BTreeSet<u32>>::new();
    let mut polled = BTreeSet::<u64>::new();
    for (thread, log) in (0u32..).zip(&loaded.logs.threads) {
        let (mut is_poll, mut returned) = (false, None);
        for record in &log.records {
            if record.op == Op::CallIssue {
                is_poll = POLLS.contains(&(record.value - 1));
            }
            let is_return = record.op == Op::CallReturn;
            if is_return && returned.is_some_and(|(event, _)| event == record.event) {
                // One call that uses several things: all of them have places, or none.
                polled.extend(returned.map(|(_, object)| object));
                polled.insert(record.object);
            }
            if is_return {
                returned = Some((record.event, record.object));
            }
            if is_poll && is_about_call(record.op) {
                polled.insert(record.object);
            }
            if is_about_call(record.op) || record.op == Op::Output {
                let users = users.entry(record.object).or_default();
                users.insert(thread);
                users.extend(record.sources.iter().map(|source| source.thread.0));
            }
        }
    }
    users.retain(|object, users| users.len() == 1 && !polled.contains(object));
    users.into_keys().collect()
}

/// The traces of all threads. One that never began has none. Calls on what is `lone` have no position.
fn traces(directory: &Path, threads: usize, lone: &Rc<BTreeSet<u64>>) -> Result<Vec<Trace>> {
    let lone = || Rc::clone(lone);
    let open = |thread: usize| {
        let (name, length) = log_format::file_name(ThreadIndex(thread as u32), hybrid_trace::EXTENSION);
        let path = directory.join(String::from_utf8_lossy(&name[..length]).as_ref());
        match File::open(&path) {
            Ok(file) => {
                let reader = TraceReader::open(file, ThreadIndex(thread as u32)).map_err(unusable)?;
                let reader = Some(reader);
                Ok(Trace { reader, lone: lone() })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Trace {
                reader: None,
                lone: lone(),
            }),
            Err(e) => Err(run_store::Error::io("read", &path, e).into()),
        }
    };
    (0..threads).map(open).collect()
}

struct Trace {
    reader: Option<TraceReader<File>>,
    lone: Rc<BTreeSet<u64>>,
}

impl Iterator for Trace {
    type Item = std::result::Result<TraceEntry, hybrid_trace::TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.reader.as_mut()?.next()?;
        let is_alone = |record: &Record| is_about_call(record.op) && self.lone.contains(&record.object);
        Some(match entry {
            Ok(TraceEntry::Ordered { record, .. }) if is_alone(&record) => Ok(TraceEntry::Unordered),
            entry => entry,
        })
    }
}

/// Why no schedule can be made of this run, if so.
pub(super) fn never_usable(loaded: &LoadedRun) -> Option<String> {
    let ending = loaded.meta.ending.as_ref();
    if let Some(truncated) = ending.and_then(|ending| ending.truncated.as_ref()) {
        return Some(format!("its recording is not complete, because {truncated}"));
    }
    if !loaded.processes.is_empty() || ending.is_some_and(|ending| ending.forked) {
        return Some("the program started other processes".to_owned());
    }
    if ending.is_some_and(|ending| ending.unknown_threads > 0) {
        return Some("it had threads that were made by other means than libc's".to_owned());
    }
    if let [place, ..] = loaded.sites.unobserved_assembly().as_slice() {
        return Some(format!(
            "inline assembly accesses memory in ways that are not observed: {place}"
        ));
    }
    if let [path, ..] = Libraries::of(&loaded.meta).uncounted.as_slice() {
        return Some(format!(
            "the library {path} was built with `refrain cc` without --det; build it with --det, too"
        ));
    }
    None
}

/// Why a schedule of this run cannot be used again, as the runtime found when it traced it.
fn sealed(loaded: &LoadedRun, directory: &Path) -> Option<String> {
    let text = fs::read_to_string(directory.join(SEALED_FILE_NAME)).ok()?;
    let (what, site) = text.trim().split_once(' ')?;
    let place = site
        .parse()
        .ok()
        .and_then(|site| loaded.sites.place(run_model::SiteId(site)));
    let place = place.map_or_else(|| "a place that is not known".to_owned(), |place| place.to_string());
    Some(match what {
        "function" => {
            format!("a function cannot count its control transfers (it returns twice, or jumps to labels): {place}")
        }
        "large-copy" => format!("more memory is copied at once than can be told apart: {place}"),
        _ => "its trace could not be written: there was no room".to_owned(),
    })
}

/// Of each thread that was cut off when the process ended: its last access. What it would do next may race with the end.
fn last_accesses(loaded: &LoadedRun, traces: Vec<Trace>, relaxed: &Relaxed) -> Result<Vec<Option<EnforcedPoint>>> {
    let threads = loaded.logs.threads.len();
    let ending = loaded.ended_in.map_or(0, |(thread, _)| thread as usize);
    let mut is_cut_off = vec![true; threads];
    is_cut_off[ending] = false;
    for step in relaxed
        .schedule
        .steps
        .iter()
        .filter(|step| step.record.kind == Kind::Exit)
    {
        is_cut_off[step.thread.0 as usize] = false;
    }
    let last = |(thread, trace): (usize, Trace)| {
        if !is_cut_off[thread] || trace.reader.is_none() {
            return Ok(None);
        }
        let (mut segment, mut last) = (0, None);
        for entry in trace {
            match entry.map_err(unusable)? {
                TraceEntry::Access { at: place, .. } => {
                    last = Some(EnforcedPoint {
                        segment,
                        place,
                        event: LAST_ACCESS,
                    });
                }
                TraceEntry::Ordered { .. } | TraceEntry::Unordered => segment += 1,
            }
        }
        // Events stop a thread by themselves. If it has done nothing since the last one, as far as anybody saw, it does no access at all.
        let nothing = EnforcedPoint {
            segment,
            place: Place::default(),
            event: NO_ACCESS,
        };
        let last = last.filter(|last: &EnforcedPoint| last.segment == segment);
        Ok(Some(last.unwrap_or(nothing)))
    };
    traces.into_iter().enumerate().map(last).collect()
}

fn files(loaded: &LoadedRun, relaxed: &Relaxed, last: Vec<Option<EnforcedPoint>>) -> Vec<(ScheduleFile, Vec<u8>)> {
    let (mut schedule, mut points) = hybrid_schedule::compile(&relaxed.schedule);
    let own_steps = hybrid_schedule::take_own_steps(&mut schedule);
    for (points, last) in points.iter_mut().zip(last) {
        points.extend(last);
    }
    let line = |place: &Place| match loaded.sites.place(place.site) {
        Some(found) => {
            let file = Path::new(&found.file).file_name().unwrap_or_default();
            format!("{}:{}", file.to_string_lossy(), found.line)
        }
        None => "?".to_owned(),
    };
    vec![
        (ScheduleFile::Hybrid, log_format::hybrid::encode(&relaxed.schedule)),
        (ScheduleFile::Schedule, log_format::schedule::encode(&schedule)),
        (ScheduleFile::Points, log_format::points::encode(&points)),
        (ScheduleFile::OwnSteps, log_format::own_steps::encode(&own_steps)),
        (
            ScheduleFile::Steps,
            hybrid_schedule::text::render(&relaxed.schedule, line).into_bytes(),
        ),
    ]
}
