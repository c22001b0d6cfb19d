//! Where in its threads' events a run failed, and what others had done just before.
use crate::describe;
use crate::describe::push;
use crate::loaded::LoadedRun;
use run_model::Kind;
use run_model::Op;
use run_model::Point;
use run_model::Record;
use run_store::FailurePoint;
use run_store::Outcome;
use runtime_abi::CHUNK_BYTES;
use runtime_abi::ENDED_BY_EXIT;
use serde::Serialize;

/// Lines of the account that the debugger gets; it shows the last ones that have happened.
const ACCOUNT_LINES: usize = 64;
const SIGABRT: u32 = 6;

/// The failure of a run, as a debugger is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// `None`: no thread failed alone; all stand where the recording ended.
    pub thread: Option<u32>,
    /// Where to stop; `None` if there will be something else to stop at.
    pub point: Option<FailurePoint>,
    pub how: How,
    pub account: Vec<Line>,
}

/// How a debugger notices the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The runtime's handler of fatal signals runs. The access that caused the signal has not happened.
    Fault,
    /// The thread ended the process by `abort`; its last event decided about that, or is part of saying so.
    Abort,
    /// The same by `exit`, or by returning from `main`.
    Exit,
    /// A hang, or the end of the log.
    End,
}

/// One step of the account, and the memory or object that it is about (0: none).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub event: u64,
    pub text: String,
    pub object: u64,
    /// Whether `object` is memory of the program's that can be read there.
    pub is_cell: bool,
}

impl Failure {
    /// `None` if the program ended well.
    pub fn find(loaded: &LoadedRun) -> Option<Failure> {
        if loaded.truncated.is_none() {
            let outcome = loaded.meta.ending.as_ref().map(|ending| ending.outcome);
            if outcome.is_some_and(|outcome| !outcome.is_failure()) {
                return None;
            }
            if let (Some((thread, how)), Some(Outcome::Exited(_) | Outcome::Signaled(_))) = (loaded.ended_in, outcome) {
                return Some(Failure::of_thread(loaded, thread, how));
            }
        }
        Some(Failure {
            thread: None,
            point: None,
            how: How::End,
            account: Vec::new(),
        })
    }

    fn of_thread(loaded: &LoadedRun, thread: u32, how: u32) -> Failure {
        let events = loaded.logs.threads.get(thread as usize).map_or(0, |log| log.events);
        let how = match how {
            ENDED_BY_EXIT => How::Exit,
            SIGABRT => How::Abort,
            _ => How::Fault,
        };
        // A fault hits before the event that would come next; whoever ended the program had done its last one.
        // Printing a message and sending oneself a signal are events, too, but what decided came before them.
        let calls = loaded.call_events(thread);
        let point = FailurePoint {
            thread,
            event: (0..events).rev().find(|event| !calls.contains(event)).unwrap_or(0),
        };
        Failure {
            thread: Some(thread),
            point: (how != How::Fault).then_some(point),
            how,
            account: account(loaded, thread),
        }
    }
}

/// The last records of the thread in which memory or a lock came from another thread.
fn account(loaded: &LoadedRun, thread: u32) -> Vec<Line> {
    let records = records(loaded, thread);
    let conflicts = records.iter().filter(|record| {
        let is_taken = matches!(record.kind, Kind::Take | Kind::Share | Kind::Run | Kind::Sync);
        !record.sources.is_empty() && is_taken && record.op != Op::Join
    });
    let mut lines: Vec<Line> = conflicts
        .rev()
        .take(ACCOUNT_LINES)
        .map(|record| line(loaded, thread, record))
        .collect();
    lines.reverse();
    lines
}

fn records(loaded: &LoadedRun, thread: u32) -> &[Record] {
    loaded.logs.threads.get(thread as usize).map_or(&[], |log| &log.records)
}

fn line(loaded: &LoadedRun, thread: u32, record: &Record) -> Line {
    let mut text = format!("T{thread} event {}: {}", record.event, step(loaded, record));
    for (index, source) in record.sources.iter().enumerate() {
        text.push_str(if index == 0 { "; after " } else { " and " });
        text.push_str(&whose(loaded, source, record));
    }
    Line {
        event: record.event,
        text,
        object: record.object,
        is_cell: record.kind == Kind::Run,
    }
}

/// What the thread of `source` did with the object of `record`, as far as its log knows. The access itself may have
/// had no record, because the thread was on its own by then.
fn whose(loaded: &LoadedRun, source: Point, record: &Record) -> String {
    let (thread, last) = (source.thread.0, source.count.saturating_sub(1));
    let records = records(loaded, thread);
    let before = &records[..records.partition_point(|other| other.event <= last)];
    let is_same = |other: &&Record| match (record.kind, other.kind) {
        (Kind::Sync, Kind::Sync) | (Kind::Run, Kind::Run) => other.object == record.object,
        (Kind::Sync, _) | (_, Kind::Sync) => false,
        _ => other.object != 0 && other.object / CHUNK_BYTES == record.object / CHUNK_BYTES,
    };
    match before.iter().rev().find(is_same) {
        Some(nearest) if nearest.event == last => format!("T{thread} event {last}: {}", step(loaded, nearest)),
        Some(nearest) => {
            let since = nearest.event;
            format!(
                "T{thread} event {last}, in use there since event {since}: {}",
                step(loaded, nearest)
            )
        }
        None => format!("T{thread} event {last}"),
    }
}

/// What a record is about, in few words: `mutex lock at queue.c:22 in dequeue`.
fn step(loaded: &LoadedRun, record: &Record) -> String {
    let mut text = describe::operation(record.kind, record.op, record.access);
    if record.kind == Kind::Sync && record.value != 0 {
        push(&mut text, format_args!(" = {}", record.value));
    }
    if let Some(place) = loaded.sites.place(record.site) {
        let file = place.file.rsplit('/').next().unwrap_or_default();
        push(&mut text, format_args!(" at {file}:{}", place.line));
        if !place.function.is_empty() {
            push(&mut text, format_args!(" in {}", place.function));
        }
    }
    text
}
