//! Runs of scope sync whose threads race: the order of the few accesses that made the difference is searched for, and kept with the run.
//!
//! Gates order what was recorded, synchronisation, and a replay sees every access (`runtime/src/steered`). So the search of scope inputs
//! (`schedule_search`, docs/search.md) serves here, too: the log to be met is that of all events, in one order that the gates
//! allow; an attempt is a replay of one thread at a time along this order; what it varies is the order of accesses which race, as no gate orders them.
mod races;

use crate::Error;
use crate::Result;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::prepare::Observed as Watched;
use crate::prepare::Observer;
use crate::record::Show;
use crate::recovery::Found;
use crate::recovery::judge;
use crate::replay;
use crate::search::SEARCH_FILE_NAME;
use crate::search::SearchOptions;
use crate::search::SearchProgress;
use crate::search::Searched;
use crate::stage::Stage;
use crate::supervise;
use crate::supervise::End;
use crate::supervise::Observed;
use crate::supervise::Watch;
use crate::sys;
use crate::turns;
use crate::verify;
use log_format::turns::Wanted;
use races::Clocks;
use races::Use;
use run_model::AccessId;
use run_model::Kind;
use run_model::Method;
use run_model::Record;
use run_model::Schedule;
use run_model::ScheduleEdit;
use run_model::ScheduleKind;
use run_model::Scope;
use run_model::Spot;
use run_model::ThreadIndex;
use run_model::Turns;
use run_store::write_whole;
use runtime_abi::CELL_BYTES;
use runtime_abi::counting::CountingFor;
use runtime_abi::divergence;
use runtime_abi::policy::Inputs;
use runtime_abi::turns_file::ACCESSES_FILE_NAME;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::flag;
use schedule_search::Access;
use schedule_search::Ask;
use schedule_search::Attempt;
use schedule_search::Ending;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Go;
use schedule_search::Label;
use schedule_search::Layer;
use schedule_search::LoggedEvent;
use schedule_search::Outcome;
use schedule_search::Plan as Edits;
use schedule_search::PointKind;
use schedule_search::Replays;
use schedule_search::Search;
use schedule_search::SwitchPoint;
use schedule_search::Trace;
use schedule_search::Tuning;
use schedule_search::Window;
use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Replays by the gates alone that have to be the same run, one after the other, before nothing is searched for: without delays, and with three kinds of them.
const PROBES: u64 = 4;
/// They take no longer than this, but for the first; and where that is expected to take longer, there is none before somebody asks for a search.
const PROBED_MAX: Duration = Duration::from_secs(3);
/// Entries of a trace: the last so many are kept.
const ENTRIES_MAX: u64 = 1 << 20;
/// Cells of one access that are looked at: those of a copied block.
const CELLS_MAX: u64 = 8;
/// An attempt in which no event happens for so long beyond ten times the time of the recording is given up: accesses that are seen take longer.
const PATIENCE: Duration = Duration::from_millis(300);
/// The same for replays by the gates alone, which others may hold up. If one of them is given up too early, more is searched for than needed.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
/// Plans from anywhere in the run, against one failure: it may show long after its cause, where nothing was recorded on the way.
const SCATTERED_MAX: u64 = 1 << 12;
/// The end of the run, which is no event.
const END: Label = Label(1);
const FIRST_LABEL: u64 = 2;

/// Can what its threads did to each other through memory be searched for?
pub fn is_possible(loaded: &LoadedRun) -> bool {
    loaded.meta.settings.scope == Scope::Sync
        && loaded.logs.method == Method::Light
        && loaded.logs.threads.len() > 1
        && loaded.processes.is_empty()
        && loaded.truncated.is_none()
}

/// Does it take long to see whether gates are enough? Then a replay is it that shows it.
pub fn is_long(loaded: &LoadedRun) -> bool {
    recorded_ms(loaded) > PROBED_MAX.as_millis() as u64
}

fn patience(loaded: &LoadedRun) -> Duration {
    PATIENCE + Duration::from_millis(recorded_ms(loaded).saturating_mul(10))
}

fn recorded_ms(loaded: &LoadedRun) -> u64 {
    loaded.meta.ending.as_ref().map_or(0, |ending| ending.duration_ms)
}

/// A replay of the run by its gates, of which they were thought to be enough, was not the same run: the next search knows better. Returns whether it was so.
pub fn doubt(loaded: &LoadedRun) -> bool {
    let (edits_file, state_file) = (
        loaded.run.file(log_format::edits::FILE_NAME),
        loaded.run.file(SEARCH_FILE_NAME),
    );
    let is_without_edits = fs::read(&edits_file).map_or(true, |edits| edits.is_empty());
    if !is_possible(loaded) || !is_without_edits || state_file.exists() || write_whole(&state_file, &[]).is_err() {
        return false;
    }
    let _ = fs::remove_file(&edits_file);
    true
}

/// Puts the edits that were found for the run into its schedule. None: its gates are enough.
pub fn apply_kept(loaded: &LoadedRun, found: &mut [Found]) -> Result<()> {
    match turns::edits_of(&loaded.run)?.filter(|edits| !edits.is_empty()) {
        Some(edits) => steer(loaded, &mut found[0].schedule, edits),
        None => Ok(()),
    }
}

fn steer(loaded: &LoadedRun, schedule: &mut Schedule, edits: Vec<ScheduleEdit>) -> Result<()> {
    let order = Turns::along_gates(schedule).ok_or_else(|| Error::UnusableOrder {
        run: loaded.run.name(),
        why: "its gates do not open".to_owned(),
    })?;
    schedule.kind = ScheduleKind::Steered(Turns { edits, ..order });
    judge(loaded, schedule)
}

/// Finds the order of racing accesses that brings the run back, and keeps it with the run and in its schedule. Nothing: the gates alone bring it back.
pub fn search(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    found: &mut [Found],
    run_name: &str,
    options: &SearchOptions,
    observer: &dyn Observer,
) -> Result<Option<Searched>> {
    let started = Instant::now();
    let _watched = Watched(observer);
    let run = &loaded.run;
    let (edits_file, state_file) = (run.file(log_format::edits::FILE_NAME), run.file(SEARCH_FILE_NAME));
    let kept = turns::edits_of(run)?.filter(|_| !options.again);
    if kept.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    sys::catch_signals();
    let mut gates = found[0].schedule.clone();
    gates.kind = ScheduleKind::Gates;
    let saved = (!options.again).then(|| fs::read(&state_file).ok()).flatten();
    if kept.is_none() && saved.is_none() && comes_back_by_gates(loaded, stage, &gates, run_name)? {
        // If it cannot be kept, the next one tries as well.
        let _ = write_whole(&edits_file, &[]);
        found[0].schedule = gates;
        return Ok(None);
    }
    let mut steered = gates;
    steer(loaded, &mut steered, Vec::new())?;
    let order = steered.steered().cloned().unwrap_or_default();
    let log = event_log(loaded, &order)?;
    let events = log.len();
    let searched = |outcome, search: Option<&Search>, attempts_before, met| Searched {
        kept: search.is_none(),
        interrupted: sys::caught_signal().filter(|_| outcome == Outcome::Stopped),
        outcome,
        statistics: search.map(|search| *search.statistics()).unwrap_or_default(),
        attempts_before,
        checkpoints: Default::default(),
        late_resumes: 0,
        events,
        met,
        elapsed: started.elapsed(),
        of_accesses: true,
    };
    if let Some(edits) = kept {
        let edits = edits.into_iter().filter(|made| *made != no_edit()).collect();
        let outcome = Outcome::Found(Edits { edits });
        return Ok(Some(searched(outcome, None, 0, events)));
    }
    let restored = saved.and_then(|bytes| Search::restore(&bytes, log.clone()).ok());
    let mut search = restored.unwrap_or_else(|| Search::new(log.clone(), tuning()));
    let attempts_before = search.statistics().attempts;
    let clocks = Clocks::along(&steered, &order);
    let worker = |_| Worker::prepare(loaded, stage, &steered);
    let mut executor = Executor {
        workers: (0..options.workers.max(1)).map(worker).collect::<Result<_>>()?,
        facts: Facts {
            places: places_of(&log),
            log: &log,
            clocks: clocks.as_ref(),
        },
        traced: None,
        error: None,
    };
    let outcome = loop {
        let asks = search.asks(options.workers.max(1));
        if let Some(outcome) = search.outcome() {
            break outcome.clone();
        }
        let answers = executor.attempts(&asks);
        if sys::caught_signal().is_some() {
            break Outcome::Stopped;
        }
        if let Some(error) = executor.error.take() {
            return Err(error);
        }
        search.take(&asks, answers);
        let elapsed = started.elapsed();
        let progress = SearchProgress {
            search: search.progress(),
            elapsed,
            attempts_before,
        };
        let is_late = options.time_max.is_some_and(|most| elapsed >= most);
        if (observer.searching(&progress) == Go::Stop || is_late) && search.outcome().is_none() {
            break Outcome::Stopped;
        }
    };
    match &outcome {
        // A plan without edits is one all the same: the order alone did it.
        Outcome::Found(plan) => {
            let edits = match plan.edits.is_empty() {
                true => vec![no_edit()],
                false => plan.edits.clone(),
            };
            steer(loaded, &mut found[0].schedule, edits.clone())?;
            write_whole(&edits_file, log_format::edits::encode(&edits).as_bytes())?;
            let _ = fs::remove_file(&state_file);
        }
        // Also if nothing is to be found: it is not searched for again.
        _ => {
            let saved = search.save();
            let is_room = loaded.room.take(saved.len() as u64);
            write_whole(&state_file, if is_room { &saved } else { &[] })?;
        }
    }
    let met = search.progress().met;
    Ok(Some(searched(outcome, Some(&search), attempts_before, met)))
}

/// Holds nobody: the first thread's access of an address that there is not.
fn no_edit() -> ScheduleEdit {
    ScheduleEdit::Delay {
        hold: AccessId::default(),
    }
}

/// What is to be said of a replay with this schedule, if its accesses were searched for.
pub fn note(schedule: &Schedule) -> Option<String> {
    let edits = &schedule.steered()?.edits;
    let count = edits.iter().filter(|made| **made != no_edit()).count();
    Some(format!(
        "its threads race, and at scope sync that is not recorded: {} found by searching. Synchronisation, system calls and output are the recorded ones; \
         other orders of what raced may explain them as well",
        match count {
            0 => "an order of their accesses was".to_owned(),
            1 => "the order of one racing access was".to_owned(),
            more => format!("the order of {more} racing accesses was"),
        }
    ))
}

/// Accesses alone are varied: the order of synchronisations is known.
fn tuning() -> Tuning {
    Tuning {
        layers: vec![Layer::FirstAccesses, Layer::Accesses],
        scattered_max: SCATTERED_MAX,
        ..Tuning::default()
    }
}

fn comes_back_by_gates(loaded: &LoadedRun, stage: Option<&Stage>, gates: &Schedule, run_name: &str) -> Result<bool> {
    let plan = Plan::in_temporary(loaded, vec![gates.clone()])?;
    let started = Instant::now();
    for probe in 0..PROBES {
        if probe > 0 && started.elapsed() > PROBED_MAX {
            break;
        }
        let watch = Watch {
            patience: PROBE_PATIENCE + patience(loaded),
            jitter_seed: probe,
            ..watch()
        };
        let observed = supervise::replay_once(loaded, stage, &plan, &watch, Show::Nothing)?;
        if !replay::judge(loaded, &plan, &observed, run_name).identical {
            return Ok(false);
        }
    }
    Ok(true)
}

fn watch() -> Watch {
    Watch {
        patience: PATIENCE,
        jitter_seed: 0,
        trace: false,
        inputs: Inputs::Answered,
        counting: CountingFor::Nothing,
    }
}

/// What a replay has to meet: all events in the order, and the end.
fn event_log(loaded: &LoadedRun, order: &Turns) -> Result<EventLog> {
    let mut next = vec![0u64; order.threads as usize];
    let mut records = vec![0usize; order.threads as usize];
    let mut events = Vec::new();
    for run in &order.runs {
        let thread = run.thread.0 as usize;
        let own: &[Record] = loaded.logs.threads.get(thread).map_or(&[], |log| &log.records);
        for _ in 0..run.count {
            let event = next[thread];
            while own.get(records[thread]).is_some_and(|record| record.event < event) {
                records[thread] += 1;
            }
            let record = own.get(records[thread]).filter(|record| record.event == event);
            let kind = match record.map(|record| (record.kind, record.value)) {
                Some((Kind::Spawn, child)) => EventKind::Spawn {
                    child: ThreadIndex(child as u32),
                },
                Some((Kind::Exit, _)) => EventKind::End,
                _ => EventKind::Call,
            };
            events.push(LoggedEvent {
                thread: run.thread,
                index: event,
                label: record.map_or(Label::NONE, |record| Label(FIRST_LABEL + u64::from(record.site.0))),
                kind,
            });
            next[thread] += 1;
        }
    }
    let ended = loaded.ended_in.map_or(0, |(thread, _)| thread);
    events.push(LoggedEvent {
        thread: ThreadIndex(ended),
        index: next.get(ended as usize).copied().unwrap_or(0),
        label: END,
        kind: EventKind::Failure,
    });
    EventLog::new(events).map_err(|why| Error::UnusableOrder {
        run: loaded.run.name(),
        why: why.to_string(),
    })
}

/// Of each thread: where its events are in the order.
fn places_of(log: &EventLog) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); log.threads()];
    for (place, event) in log.events().iter().enumerate() {
        places[event.thread.0 as usize].push(place);
    }
    places
}

/// A place for replays, one after the other.
struct Worker<'a> {
    loaded: &'a LoadedRun,
    stage: Option<&'a Stage>,
    plan: Plan,
    watch: Watch,
}

/// What came of a replay.
struct Raw {
    observed: Observed,
    is_identical: bool,
    entries: Vec<AccessEntry>,
}

impl<'a> Worker<'a> {
    fn prepare(loaded: &'a LoadedRun, stage: Option<&'a Stage>, schedule: &Schedule) -> Result<Worker<'a>> {
        Ok(Worker {
            loaded,
            stage,
            plan: Plan::in_temporary(loaded, vec![schedule.clone()])?,
            watch: Watch {
                patience: patience(loaded),
                ..watch()
            },
        })
    }

    /// A replay with these edits, and what happened in the window.
    fn attempt(&self, edits: &Edits, window: Option<&Window>) -> Result<Raw> {
        let order = self.plan.schedule.steered().cloned().unwrap_or_default();
        let order = Turns {
            edits: edits.edits.clone(),
            ..order
        };
        let wanted = Wanted {
            window: window.map_or(&[], |window| &window.from),
            points_max: 0,
            accesses_max: if window.is_some() { ENTRIES_MAX } else { 0 },
        };
        turns::write(&self.plan.directory, &order, &wanted)?;
        let observed = supervise::replay_once(self.loaded, self.stage, &self.plan, &self.watch, Show::Nothing)?;
        let checks = verify::verify(self.loaded, &self.plan, &observed);
        let entries = window.map_or_else(Vec::new, |_| self.entries(observed.turns.accesses_written));
        Ok(Raw {
            is_identical: checks.iter().all(|check| check.passed),
            observed,
            entries,
        })
    }

    /// The trace in its order: the file is a ring.
    fn entries(&self, written: u64) -> Vec<AccessEntry> {
        let mut bytes = Vec::new();
        let most = written.min(ENTRIES_MAX) * size_of::<AccessEntry>() as u64;
        // A replay that did not come so far has made no file.
        if let Ok(file) = File::open(self.plan.directory.join(ACCESSES_FILE_NAME)) {
            let _ = file.take(most).read_to_end(&mut bytes);
        }
        let mut entries = log_format::turns::decode_accesses(&bytes);
        if written > ENTRIES_MAX {
            entries.rotate_left((written % ENTRIES_MAX) as usize);
        }
        entries
    }
}

fn window_of(trace: &Trace) -> Option<&Window> {
    match trace {
        Trace::Nothing => None,
        Trace::Points(window) | Trace::PointsAndAccesses(window) => Some(window),
    }
}

/// What answers are made with.
struct Facts<'a> {
    log: &'a EventLog,
    /// Of each thread: where its events are in the log.
    places: Vec<Vec<usize>>,
    clocks: Option<&'a Clocks>,
}

/// Replays for the search.
struct Executor<'a> {
    workers: Vec<Worker<'a>>,
    facts: Facts<'a>,
    /// The replay whose accesses were asked for last, with those of the whole run: other windows of it are asked for next.
    traced: Option<(Edits, Raw)>,
    /// The first thing that went wrong with replaying itself.
    error: Option<Error>,
}

impl Replays for Executor<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        let mut answers = self.attempts(std::slice::from_ref(ask));
        answers.pop().expect("one answer to each ask")
    }

    fn attempts(&mut self, batch: &[Ask]) -> Vec<Attempt> {
        if let [ask] = batch
            && let Trace::PointsAndAccesses(window) = &ask.trace
            && let Some(answer) = self.answer_from_whole(ask, window)
        {
            return vec![answer];
        }
        let mut answers = Vec::with_capacity(batch.len());
        for part in batch.chunks(self.workers.len()) {
            let results: Vec<Result<Raw>> = thread::scope(|scope| {
                let pairs = self.workers.iter().zip(part);
                let begun: Vec<_> = pairs
                    .map(|(worker, ask)| scope.spawn(move || worker.attempt(&ask.plan, window_of(&ask.trace))))
                    .collect();
                begun
                    .into_iter()
                    .map(|thread| thread.join().expect("a replay does not panic"))
                    .collect()
            });
            for (result, ask) in results.into_iter().zip(part) {
                answers.push(match result {
                    Ok(raw) => self.facts.answer(&raw, &raw.entries, ask),
                    Err(error) => {
                        self.error.get_or_insert(error);
                        nothing()
                    }
                });
            }
        }
        answers
    }
}

impl Executor<'_> {
    /// A window of a replay whose accesses are all known. None, if there are too many of them.
    fn answer_from_whole(&mut self, ask: &Ask, window: &Window) -> Option<Attempt> {
        if self.traced.as_ref().is_none_or(|(plan, _)| *plan != ask.plan) {
            let whole = Window::whole(self.facts.log);
            match self.workers[0].attempt(&ask.plan, Some(&whole)) {
                Ok(raw) => self.traced = Some((ask.plan.clone(), raw)),
                Err(error) => {
                    self.error.get_or_insert(error);
                    return Some(nothing());
                }
            }
        }
        let (_, raw) = self.traced.as_ref()?;
        let is_whole = raw.observed.turns.accesses_written <= ENTRIES_MAX;
        is_whole.then(|| self.facts.answer(raw, &inside(&raw.entries, window), ask))
    }
}

/// What the runtime writes down if it is asked for this window.
fn inside(entries: &[AccessEntry], window: &Window) -> Vec<AccessEntry> {
    let from = |thread: u32| window.from.get(thread as usize).copied().unwrap_or(0);
    let is_inside = |entry: &&AccessEntry| entry.place.calls >= from(entry.place.thread);
    entries.iter().filter(is_inside).copied().collect()
}

fn nothing() -> Attempt {
    Attempt {
        ending: Ending::Deadlock {
            thread: ThreadIndex(0),
            label: Label::NONE,
        },
        met: 0,
        points: Vec::new(),
        accesses: Vec::new(),
        followed: Vec::new(),
        stands: Vec::new(),
    }
}

impl Facts<'_> {
    fn answer(&self, raw: &Raw, entries: &[AccessEntry], ask: &Ask) -> Attempt {
        let (ending, met) = self.ending(raw);
        let mut stands: BTreeMap<u32, Label> = BTreeMap::new();
        let (points, accesses) = self.trace(entries, &mut stands);
        Attempt {
            ending,
            met,
            points,
            accesses: match ask.trace {
                Trace::PointsAndAccesses(_) => accesses,
                _ => Vec::new(),
            },
            followed: Vec::new(),
            stands: stands
                .into_iter()
                .map(|(thread, label)| (ThreadIndex(thread), label))
                .collect(),
        }
    }

    fn ending(&self, raw: &Raw) -> (Ending, usize) {
        let last = self.log.len() - 1;
        if raw.is_identical {
            return (Ending::Complete, self.log.len());
        }
        let done = |thread: usize| raw.observed.slots.get(thread).map_or(0, |slot| slot.count);
        let is_missing = |event: &LoggedEvent| event.index >= done(event.thread.0 as usize);
        let met = self
            .log
            .events()
            .iter()
            .position(is_missing)
            .map_or(last, |met| met.min(last));
        let next = self.log.events()[met];
        let ending = match raw.observed.end {
            End::Diverged(report) if report.kind == divergence::STUCK => Ending::Deadlock {
                thread: ThreadIndex(report.thread),
                label: self.label_at(report.thread, report.event),
            },
            End::Diverged(report) => Ending::Mismatch {
                thread: ThreadIndex(report.thread),
                expected: self.label_at(report.thread, report.event),
                found: Label(FIRST_LABEL + u64::from(report.site) + (u64::from(report.kind) << 40)),
            },
            End::Stuck => Ending::Deadlock {
                thread: next.thread,
                label: next.label,
            },
            End::Program(_) | End::AllStopped | End::GivenUp => Ending::Mismatch {
                thread: next.thread,
                expected: next.label,
                found: Label::NONE,
            },
        };
        (ending, met)
    }

    fn label_at(&self, thread: u32, event: u64) -> Label {
        let place = self.places.get(thread as usize).and_then(|own| own.get(event as usize));
        place
            .and_then(|place| self.log.get(*place))
            .map_or(END, |event| event.label)
    }

    /// Where in the order a thread's event is.
    fn place(&self, thread: u32, event: u64) -> usize {
        let own = self.places.get(thread as usize).and_then(|own| own.get(event as usize));
        own.copied().unwrap_or(self.log.len() - 1)
    }

    /// Events are switch points, as all threads are known to pass them; of the accesses, those that race.
    fn trace(&self, entries: &[AccessEntry], stands: &mut BTreeMap<u32, Label>) -> (Vec<SwitchPoint>, Vec<Access>) {
        let uses: Vec<(usize, Use)> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.flags & flag::EVENT == 0)
            .flat_map(|(index, entry)| cells_of(entry).map(move |cell| (index, use_of(entry, cell))))
            .collect();
        let all: Vec<Use> = uses.iter().map(|(_, one)| *one).collect();
        let racing = races::racing(&all, self.clocks);
        let mut uses = uses.into_iter().zip(racing).peekable();
        let mut made: BTreeMap<(u32, u64, u64), u64> = BTreeMap::new();
        let (mut points, mut accesses) = (Vec::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            let (thread, events) = (entry.place.thread, entry.place.calls);
            let label = Label(FIRST_LABEL + entry.label);
            stands.insert(thread, label);
            let next = self.place(thread, events);
            if entry.flags & flag::EVENT != 0 {
                points.push(SwitchPoint {
                    // The block that it ends has number 0.
                    spot: Spot {
                        thread: ThreadIndex(thread),
                        calls: events,
                        nth: 1,
                    },
                    label,
                    kind: PointKind::Call,
                    object: 0,
                    is_after: false,
                    next,
                    to: ThreadIndex(thread),
                    runnable: Vec::new(),
                });
            }
            while let Some(((_, one), is_racing)) = uses.next_if(|((of, _), _)| *of == index) {
                let nth = made.entry((thread, events, one.cell)).or_default();
                if is_racing {
                    accesses.push(Access {
                        id: AccessId {
                            block: Spot {
                                thread: ThreadIndex(thread),
                                calls: events,
                                nth: 0,
                            },
                            address: one.cell,
                            nth: *nth,
                        },
                        label,
                        is_write: one.writes,
                        passed: points.len(),
                        next,
                        is_beyond: false,
                    });
                }
                *nth += 1;
            }
        }
        (points, accesses)
    }
}

/// The cells that an access touches, as edits name them.
fn cells_of(entry: &AccessEntry) -> impl Iterator<Item = u64> + use<> {
    let (first, last) = (
        entry.place.address / CELL_BYTES,
        entry.place.address.saturating_add(entry.place.nth.max(1) - 1) / CELL_BYTES,
    );
    (first..=last.min(first + CELLS_MAX)).map(|cell| cell * CELL_BYTES)
}

fn use_of(entry: &AccessEntry, cell: u64) -> Use {
    Use {
        cell,
        thread: entry.place.thread,
        events: entry.place.calls,
        writes: entry.flags & flag::WRITES != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime_abi::turns_file::Place;

    fn entry(thread: u32, events: u64, address: u64, bytes: u64, flags: u32) -> AccessEntry {
        AccessEntry {
            place: Place {
                thread,
                calls: events,
                nth: bytes,
                address,
                ..Place::default()
            },
            flags,
            ..AccessEntry::default()
        }
    }

    #[test]
    fn accesses_that_race_are_named_by_their_cells_and_how_many_came_before() {
        let event = |thread: u32, index: u64| LoggedEvent {
            thread: ThreadIndex(thread),
            index,
            label: Label(9),
            kind: EventKind::Call,
        };
        let log = EventLog::new(vec![event(0, 0), event(1, 0), event(0, 1)]).expect("a log");
        let facts = Facts {
            places: places_of(&log),
            log: &log,
            clocks: None,
        };
        let entries = [
            entry(0, 0, 100, 4, flag::WRITES),
            // Nobody else comes there.
            entry(0, 0, 200, 8, flag::WRITES),
            entry(0, 0, 0, 0, flag::EVENT),
            // Over the end of a cell.
            entry(1, 0, 92, 12, 0),
            entry(1, 0, 96, 1, 0),
        ];
        let (points, accesses) = facts.trace(&entries, &mut BTreeMap::new());
        let found: Vec<(u32, u64, u64, usize)> = accesses
            .iter()
            .map(|access| {
                (
                    access.id.block.thread.0,
                    access.id.address,
                    access.id.nth,
                    access.passed,
                )
            })
            .collect();
        assert_eq!(found, [(0, 96, 0, 0), (1, 96, 0, 1), (1, 96, 1, 1)]);
        let spot = points[0].spot;
        assert_eq!((points.len(), spot.thread.0, spot.calls, points[0].next), (1, 0, 0, 0));
    }

    #[test]
    fn a_window_of_a_whole_trace_is_what_the_runtime_would_write() {
        let entries = [
            entry(0, 0, 96, 8, 0),
            entry(1, 0, 96, 8, 0),
            entry(0, 1, 96, 8, flag::WRITES),
            entry(0, 2, 0, 0, flag::EVENT),
            entry(2, 0, 96, 8, 0),
        ];
        // Of a thread that the window does not name, all.
        let window = Window { from: vec![1, 1] };
        let places = |entries: &[AccessEntry]| entries.iter().map(|entry| entry.place).collect::<Vec<Place>>();
        assert_eq!(places(&inside(&entries, &window)), places(&entries[2..]));
    }
}
