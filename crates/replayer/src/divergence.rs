//! A replay that went another way: where, what was expected, what happened, and what everybody else was doing.
use crate::call_names::call_name;
use crate::call_names::sync_of;
use crate::describe;
use crate::describe::push;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::redaction;
use crate::supervise::End;
use crate::supervise::Observed;
use crate::supervise::ObservedProcess;
use crate::verify;
use crate::verify::Check;
use crate::verify::expected_events;
use run_model::Access;
use run_model::Kind;
use run_model::Op;
use run_model::Record;
use run_model::Schedule;
use run_model::SiteId;
use run_store::DivergenceReport;
use run_store::Scope;
use run_store::SlotSnapshot;
use run_store::ThreadState;
use runtime_abi::divergence;
use serde::Serialize;

/// Records shown before and after the place of the divergence.
const AROUND: usize = 3;
/// Threads whose state is shown one by one.
const THREADS_SHOWN: usize = 32;

/// The report, for people (`Display`) and for programs (serde).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// What kind of difference, in words.
    pub what: String,
    pub thread: Option<u32>,
    pub event: Option<u64>,
    pub expected: Option<String>,
    pub actual: Option<String>,
    /// The thread's records around the event, those that differ marked with `-` and `+`.
    pub around: Vec<String>,
    /// Where every thread was at the end.
    pub threads: Vec<String>,
    /// The command that shows more.
    pub more: String,
    /// What could help, if there is something.
    pub hint: Option<String>,
}

/// Which process of a replay that did not end as recorded went wrong first: 0 is the first one, the others follow in the run's order. One that
/// says so comes before one that ended otherwise.
pub fn guilty(loaded: &LoadedRun, plan: &Plan, observed: &Observed, checks: &[Check]) -> usize {
    let has_diverged = |end: End| matches!(end, End::Diverged(_));
    if has_diverged(observed.end) {
        return 0;
    }
    let others = loaded.processes.iter().zip(&plan.processes).zip(&observed.processes);
    let differs = |((loaded, plan), observed): ((&LoadedRun, &Plan), &ObservedProcess)| {
        let checks = verify::process_checks(loaded, &plan.schedule, observed);
        checks.iter().any(|check| !check.passed)
    };
    let is_first_same = checks.iter().all(|check| check.passed || check.name == "others");
    let diverged = observed.processes.iter().position(|other| has_diverged(other.end));
    let different = || {
        others
            .map(differs)
            .position(|differs| differs)
            .filter(|_| is_first_same)
    };
    diverged.or_else(different).map_or(0, |other| other + 1)
}

/// Explains a replay that did not end as recorded: the process that went wrong first.
pub fn explain_run(
    loaded: &LoadedRun,
    plan: &Plan,
    observed: &Observed,
    checks: &[Check],
    run_name: &str,
) -> Divergence {
    let whole = ObservedProcess {
        end: observed.end,
        slots: observed.slots.clone(),
        turns: observed.turns,
    };
    let (mut explained, plan, turns) = match guilty(loaded, plan, observed, checks).checked_sub(1) {
        None => {
            let explained = explain(loaded, &plan.schedule, &whole, checks, run_name);
            (explained, plan, observed.turns)
        }
        Some(other) => {
            let (loaded, plan, observed) = (
                &loaded.processes[other],
                &plan.processes[other],
                &observed.processes[other],
            );
            let number = loaded.beginning.process;
            let name = format!("{run_name}/process-{number}");
            let checks = verify::process_checks(loaded, &plan.schedule, observed);
            let mut explained = explain(loaded, &plan.schedule, observed, &checks, &name);
            explained.what = format!("process {number}: {}", explained.what);
            (explained, plan, observed.turns)
        }
    };
    if let Some(order) = plan.schedule.turns() {
        let more = match loaded.meta.settings.one_at_a_time {
            true => "what they did to each other was not all recorded",
            false => {
                "what they did to each other is not recorded at scope inputs, so the order alone may not be enough: with \
                 `refrain record --one-at-a-time` more is"
            }
        };
        explained.hint = Some(format!(
            "its threads were replayed one at a time, in the order of their inputs, of which {} of {} came again; {more} (docs/turns.md)",
            turns.reached,
            order.events()
        ));
    }
    if let Some(hint) = redaction::hint(&loaded.meta) {
        explained.hint = Some(match explained.hint {
            Some(other) => format!("{hint}; {other}"),
            None => hint,
        });
    }
    explained
}

/// Explains one process that did not end as recorded.
pub fn explain(
    loaded: &LoadedRun,
    schedule: &Schedule,
    observed: &ObservedProcess,
    checks: &[Check],
    run_name: &str,
) -> Divergence {
    let mut explained = match observed.end {
        End::Diverged(report) => from_report(loaded, schedule, observed, &report),
        End::Stuck => {
            let what = "no thread moved any more, and none of them is at the end of its log".to_owned();
            without_place(loaded, schedule, observed, what)
        }
        End::GivenUp => {
            let what = "it did not come to its end, or never began, because something else went wrong first";
            without_place(loaded, schedule, observed, what.to_owned())
        }
        End::Program(_) | End::AllStopped => {
            let failed: Vec<&str> = checks
                .iter()
                .filter(|check| !check.passed)
                .map(|check| check.name)
                .collect();
            let what = format!("the program ran to its end, but differs in: {}", failed.join(", "));
            let mut found = without_place(loaded, schedule, observed, what);
            if let Some(thread) = first_short_thread(loaded, schedule, observed) {
                let event = observed.slots.get(thread as usize).map_or(0, |slot| slot.count);
                found.around = around(loaded, thread, event, None);
                (found.thread, found.event) = (Some(thread), Some(event));
            }
            found
        }
    };
    explained.more = match (explained.thread, explained.event) {
        (Some(thread), Some(event)) => format!("refrain dump {run_name} --thread {thread} --around {event}"),
        _ => format!("refrain dump {run_name}"),
    };
    if loaded.meta.settings.scope == Scope::Sync {
        explained.hint = Some(format!(
            "it was recorded at scope sync, without plain accesses to memory. If unsafe or C code may race, `refrain solve --again {run_name}` searches for \
             the order of what raced; or record it with --scope memory (cargo refrain builds for it)"
        ));
    }
    explained
}

fn from_report(
    loaded: &LoadedRun,
    schedule: &Schedule,
    observed: &ObservedProcess,
    report: &DivergenceReport,
) -> Divergence {
    let (thread, event) = (report.thread, report.event);
    let expected = record_at(loaded, thread, event);
    let actual = actual(loaded, report);
    let what = match report.kind {
        divergence::OPERATION => "it did something else than recorded".to_owned(),
        divergence::STUCK => {
            let awaited = observed.slots.get(report.other_thread as usize);
            let situation = awaited.map_or_else(String::new, |slot| {
                format!(
                    ": thread {} {}",
                    report.other_thread,
                    situation(loaded, schedule, report.other_thread as usize, slot)
                )
            });
            let (thread, count) = (report.other_thread, report.other_count);
            format!("it waits for thread {thread} to complete {count} events, which can never happen{situation}")
        }
        divergence::SHORT => "it ended before all its recorded events were done".to_owned(),
        divergence::VALUE if report.actual >> 8 == run_model::Op::Call as u32 => {
            format!(
                "it gave something else to the system call {} than recorded",
                named(report.object)
            )
        }
        divergence::VALUE => format!("it read {:#x}, recorded was {:#x}", report.value, report.other_count),
        divergence::THREAD => "it created a thread that the recording does not have".to_owned(),
        divergence::CALL if report.other_thread == u32::MAX => {
            format!("it {} there, recorded was none any more", made(report.object as u32))
        }
        divergence::CALL => format!(
            "it {} there, recorded was {} at event {}",
            made(report.object as u32),
            named(u64::from(report.other_thread)),
            report.other_count
        ),
        divergence::DEADLOCK => {
            let doing = match report.object {
                0 => "it does not come to that".to_owned(),
                futex => format!("it waits for the futex {futex:#x}"),
            };
            format!("no thread can go on, and its next input is due: {doing}")
        }
        divergence::SURVIVED => "the recorded process ended in it, and it goes on and on".to_owned(),
        other => format!("it differs in a way this build has no word for ({other})"),
    };
    let shown_actual = (report.kind == divergence::OPERATION).then_some(actual.as_str());
    Divergence {
        what,
        thread: Some(thread),
        event: Some(event),
        expected: expected.map(|record| describe::record(record, &loaded.sites)),
        around: around(loaded, thread, event, shown_actual),
        // A thread that is stuck has not done anything yet.
        actual: (!matches!(report.kind, divergence::STUCK | divergence::DEADLOCK)).then_some(actual),
        threads: threads(loaded, schedule, observed),
        more: String::new(),
        hint: None,
    }
}

fn without_place(loaded: &LoadedRun, schedule: &Schedule, observed: &ObservedProcess, what: String) -> Divergence {
    Divergence {
        what,
        thread: None,
        event: None,
        expected: None,
        actual: None,
        around: Vec::new(),
        threads: threads(loaded, schedule, observed),
        more: String::new(),
        hint: None,
    }
}

fn first_short_thread(loaded: &LoadedRun, schedule: &Schedule, observed: &ObservedProcess) -> Option<u32> {
    let done = |thread: usize| observed.slots.get(thread).map_or(0, |slot| slot.count);
    let expected = expected_events(loaded, schedule);
    (0..expected.len())
        .find(|thread| !expected[*thread].contains(&done(*thread)))
        .map(|thread| thread as u32)
}

fn records(loaded: &LoadedRun, thread: u32) -> &[Record] {
    loaded.logs.threads.get(thread as usize).map_or(&[], |log| &log.records)
}

fn record_at(loaded: &LoadedRun, thread: u32, event: u64) -> Option<&Record> {
    records(loaded, thread).iter().find(|record| record.event == event)
}

/// A system call, for people and for those who look it up.
fn made(number: u32) -> String {
    match sync_of(number) {
        Some(op) => format!("came to a synchronisation ({})", describe::sync(op)),
        None => format!("made the system call {}", named(u64::from(number))),
    }
}

fn named(number: u64) -> String {
    if let Some(op) = sync_of(number as u32) {
        return format!("a {}", describe::sync(op));
    }
    format!("{number} ({})", call_name(number as u32))
}

/// What the program was doing, from the runtime's numbers.
fn actual(loaded: &LoadedRun, report: &DivergenceReport) -> String {
    let kind = Kind::from_u8((report.actual & 0xff) as u8);
    let op = Op::from_u8((report.actual >> 8 & 0xff) as u8).unwrap_or_default();
    let mut line = match kind {
        Some(Kind::Take | Kind::Share | Kind::Seen | Kind::Run) => "an access to memory".to_owned(),
        Some(kind) => describe::operation(kind, op, Access(0)),
        None => "an unknown operation".to_owned(),
    };
    if report.object != 0 {
        push(&mut line, format_args!(" {:#x}", report.object));
    }
    if let Some(place) = loaded.sites.place(SiteId(report.site)) {
        push(&mut line, format_args!(" at {place}"));
    }
    line
}

/// The records next to `event`; those of the event itself are marked `-`, what happened instead `+`.
fn around(loaded: &LoadedRun, thread: u32, event: u64, actual: Option<&str>) -> Vec<String> {
    let records = records(loaded, thread);
    let (from, to) = (
        records.partition_point(|record| record.event < event),
        records.partition_point(|record| record.event <= event),
    );
    let line = |mark: char, record: &Record| {
        format!(
            "{mark} {:>8}  {}",
            record.event,
            describe::record(record, &loaded.sites)
        )
    };
    let mut lines: Vec<String> = records[from.saturating_sub(AROUND)..from]
        .iter()
        .map(|record| line(' ', record))
        .collect();
    let mark = if actual.is_some() { '-' } else { '>' };
    lines.extend(records[from..to].iter().map(|record| line(mark, record)));
    if let Some(actual) = actual {
        lines.push(format!("+ {event:>8}  {actual}"));
    } else if from == to {
        lines.push(format!("> {event:>8}  (no record: the thread was on its own here)"));
    }
    lines.extend(records[to..].iter().take(AROUND).map(|record| line(' ', record)));
    lines
}

fn threads(loaded: &LoadedRun, schedule: &Schedule, observed: &ObservedProcess) -> Vec<String> {
    let mut lines: Vec<String> = observed
        .slots
        .iter()
        .enumerate()
        .take(THREADS_SHOWN)
        .map(|(thread, slot)| format!("thread {thread}: {}", situation(loaded, schedule, thread, slot)))
        .collect();
    if observed.slots.len() > THREADS_SHOWN {
        lines.push(format!("… and {} more threads", observed.slots.len() - THREADS_SHOWN));
    }
    lines
}

fn situation(loaded: &LoadedRun, schedule: &Schedule, thread: usize, slot: &SlotSnapshot) -> String {
    let of = expected_events(loaded, schedule)
        .get(thread)
        .map_or(0, |events| *events.start());
    let done = format!("{} of {of} events", slot.count);
    let next = || {
        let record = records(loaded, thread as u32)
            .iter()
            .find(|record| record.event >= slot.count);
        record
            .map(|record| format!(", before: {}", describe::record(record, &loaded.sites)))
            .unwrap_or_default()
    };
    match slot.state {
        ThreadState::Unused => "never started".to_owned(),
        ThreadState::Blocked => format!("blocked, {done}{}", next()),
        ThreadState::Running => format!("running, {done}{}", next()),
        ThreadState::Exited => format!("ended, {done}"),
        ThreadState::Stopped => format!("stopped at the end of its log, {done}"),
        ThreadState::Waiting => format!(
            "waits for thread {} to complete {} events, {done}{}",
            slot.wait_thread,
            slot.wait_count,
            next()
        ),
    }
}
