//! `refrain run`: deterministic runs.
use crate::Ended;
use crate::Failure;
use crate::arguments::OnDivergenceArgument;
use crate::arguments::RelayArgument;
use crate::arguments::RunArguments;
use crate::output::count;
use crate::output::say;
use crate::output::size;
use crate::progress::ProgressLine;
use replayer::deterministic::Enforced;
use replayer::deterministic::Enforcing;
use replayer::deterministic::Learning;
use replayer::deterministic::OnDivergence;
use replayer::deterministic::Order;
use replayer::deterministic::Relay;
use replayer::deterministic::Subject;
use run_store::LearnGuard;
use run_store::Lookup;
use run_store::ScheduleCache;
use run_store::ScheduleEntry;
use run_store::Store;
use std::time::Duration;
use std::time::Instant;

/// The program left its schedule and was stopped.
const LEFT: u8 = 123;
/// The program could not be started.
const NOT_STARTED: u8 = 125;

pub fn run(arguments: RunArguments) -> Ended {
    let began = Instant::now();
    let subject = Subject::of(arguments.command.clone()).map_err(|error| match error {
        replayer::Error::NotCounted { .. } => Failure::from(error),
        other => not_started(other.into()),
    })?;
    // What is temporary is noted there, so that others remove it if this process is killed; without a home nobody does.
    let store = Store::from_environment().ok();
    let command = Command {
        arguments: &arguments,
        subject: &subject,
        store: store.as_ref(),
        began,
    };
    run_or_learn(&command).map_err(not_started)
}

/// One `refrain run`.
struct Command<'a> {
    arguments: &'a RunArguments,
    subject: &'a Subject,
    /// Where runs live.
    store: Option<&'a Store>,
    began: Instant,
}

/// All statuses but this one and that of wrong usage are the program's.
fn not_started(failure: Failure) -> Failure {
    Failure {
        status: NOT_STARTED,
        ..failure
    }
}

fn run_or_learn(command: &Command<'_>) -> Ended {
    let Command { arguments, subject, .. } = *command;
    let cache = ScheduleCache::from_environment(arguments.cache.as_deref())?;
    if let Some(entry) = still_valid(subject, cache.lookup(&subject.key)?, |_| ()) {
        return follow(command, &entry);
    }
    let guard = cache.learn(&subject.key, || {
        say(format_args!("another process learns this schedule; waiting for it"));
    })?;
    let tell = |why: String| say(format_args!("{why}; it is learned anew"));
    match still_valid(subject, guard.lookup()?, tell) {
        Some(entry) => follow(command, &entry),
        None => learn(arguments, subject, guard),
    }
}

/// What the cache has, unless a library has become another one since; `tell` is told which.
fn still_valid(subject: &Subject, found: Lookup, tell: impl FnOnce(String)) -> Option<ScheduleEntry> {
    let entry = match found {
        Lookup::Hit(entry) | Lookup::Sealed(entry) => entry,
        Lookup::Miss => return None,
    };
    let Some(library) = subject.changed_library(&entry) else {
        return Some(entry);
    };
    tell(format!(
        "{library} has changed since schedule {} was learned",
        entry.name()
    ));
    None
}

fn follow(command: &Command<'_>, entry: &ScheduleEntry) -> Ended {
    match &entry.meta().learned.sealed {
        None => enforce(command, entry),
        Some(why) => Err(Failure {
            sentence: format!(
                "this program cannot be run deterministically with these arguments: {why} (refrain schedules info {})",
                entry.name()
            ),
            status: NOT_STARTED,
        }),
    }
}

fn learn(arguments: &RunArguments, subject: &Subject, guard: LearnGuard) -> Ended {
    let learning = Learning::record(subject)?;
    let outcome = learning.outcome();
    if let Some(signal) = learning.interrupted() {
        say(format_args!(
            "signal {signal} came while the program ran; no schedule was learned"
        ));
        return Ok(outcome.exit_status() as u8);
    }
    // The program has run, and its status is what counts; without a schedule the next run learns again.
    match learning.learn(guard, &ProgressLine::new()) {
        Ok(entry) => report_learned(arguments, &entry),
        Err(error) => say(format_args!("{error}")),
    }
    Ok(outcome.exit_status() as u8)
}

fn report_learned(arguments: &RunArguments, entry: &ScheduleEntry) {
    let learned = &entry.meta().learned;
    if let Some(why) = &learned.sealed {
        say(format_args!("the schedule cannot be used again: {why}"));
    }
    for library in &learned.unobserved {
        say(format_args!(
            "{library} was not built with `refrain cc --det`: what it does to shared memory is not ordered"
        ));
    }
    if !arguments.report {
        return;
    }
    say(format_args!(
        "miss: learned schedule {} from this run: {}, {}, {} ({} found, {} of them implied by others)",
        entry.name(),
        count(u64::from(learned.threads), "thread"),
        count(learned.steps, "synchronisation"),
        count(learned.constraints, "constraint"),
        count(learned.races, "race"),
        learned.pruned,
    ));
    say(format_args!(
        "recorded in {} ms; solved in {} ms, traced in {} ms, {} accesses relaxed and checked in {} ms",
        learned.recording_ms, learned.solving_ms, learned.tracing_ms, learned.accesses, learned.relaxing_ms
    ));
}

/// What it got from outside is not part of the schedule.
fn report_outside(entry: &ScheduleEntry) {
    let outside = &entry.meta().learned.unordered_reads;
    if !outside.is_empty() {
        say(format_args!("live, and not compared: {}", outside.join(", ")));
    }
    let waits = &entry.meta().learned.unordered_waits;
    if !waits.is_empty() {
        say(format_args!(
            "when it was learned, its threads used {}: the order of these is not enforced",
            waits.join(", ")
        ));
    }
}

fn enforce(command: &Command<'_>, entry: &ScheduleEntry) -> Ended {
    let arguments = command.arguments;
    let options = Enforcing {
        store: command.store,
        order: match arguments.sync_only {
            true => Order::SynchronisationOnly,
            false => Order::Hybrid,
        },
        jitter_seed: arguments.delays.map_or(0, |seed| seed.unwrap_or(1)),
        relay: match arguments.relay {
            RelayArgument::Auto => Relay::Auto,
            RelayArgument::Flag => Relay::Flag,
            RelayArgument::Semaphore => Relay::Semaphore,
        },
        on_divergence: match arguments.on_divergence {
            OnDivergenceArgument::Stop => OnDivergence::Stop,
            OnDivergenceArgument::Free => OnDivergence::Free,
        },
        measure_waits: arguments.report,
    };
    let enforced = command.subject.enforce(entry, &options)?;
    if arguments.report {
        report_enforced(entry, &enforced, enforced.started.duration_since(command.began));
    }
    match &enforced.left {
        None => Ok(enforced.outcome.exit_status() as u8),
        Some(left) if options.on_divergence == OnDivergence::Free => {
            say(format_args!(
                "the program left its schedule {}: {left}; it went on without one; if what it reads has changed, learn it anew: refrain schedules rm {}",
                entry.name(),
                entry.name()
            ));
            Ok(enforced.outcome.exit_status() as u8)
        }
        Some(left) => {
            if let Some(signal) = enforced.signal {
                say(format_args!(
                    "the program left its schedule {} and was stopped, when signal {signal} had come: {left}",
                    entry.name()
                ));
                return Ok(LEFT);
            }
            let remedy = match left.is_input() {
                true => "if that is to stay, learn it anew",
                false => "learn it anew",
            };
            say(format_args!(
                "the program left its schedule {} and was stopped: {left}; {remedy}: refrain schedules rm {}",
                entry.name(),
                entry.name()
            ));
            Ok(LEFT)
        }
    }
}

/// `before`: what this process took to get the program started.
fn report_enforced(entry: &ScheduleEntry, enforced: &Enforced, before: Duration) {
    let learned = &entry.meta().learned;
    say(format_args!(
        "hit: schedule {} enforced: {}, {}, {} in {:.1} ms",
        entry.name(),
        count(u64::from(learned.threads), "thread"),
        count(learned.steps, "synchronisation"),
        count(learned.constraints, "constraint"),
        enforced.elapsed.as_secs_f64() * 1000.0,
    ));
    say(format_args!(
        "order: {}; threads had to wait {} at gates, {:.1} ms in all of them together",
        count(learned.hand_overs, "hand-over"),
        count(enforced.waits, "time"),
        enforced.waited.as_secs_f64() * 1000.0,
    ));
    say(format_args!(
        "added: {:.1} ms before the program was started, to find its schedule and to compare it with its checksums",
        before.as_secs_f64() * 1000.0,
    ));
    say(format_args!(
        "inputs: {} with {} came in as when it was learned",
        count(enforced.compared_calls, "call"),
        size(enforced.compared_bytes),
    ));
    report_outside(entry);
}
