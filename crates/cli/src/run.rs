//! `refrain run`: deterministic runs.
use crate::Ended;
use crate::Failure;
use crate::arguments::RunArguments;
use crate::output::count;
use crate::output::say;
use crate::progress::ProgressLine;
use replayer::deterministic::Enforced;
use replayer::deterministic::Enforcing;
use replayer::deterministic::Learning;
use replayer::deterministic::Order;
use replayer::deterministic::Subject;
use run_store::LearnGuard;
use run_store::Lookup;
use run_store::ScheduleCache;
use run_store::ScheduleEntry;

/// The program left its schedule and was stopped.
const LEFT: u8 = 123;
/// The program could not be started.
const NOT_STARTED: u8 = 125;

pub fn run(arguments: RunArguments) -> Ended {
    let subject = Subject::of(arguments.command.clone()).map_err(|error| match error {
        replayer::Error::NotCounted { .. } => Failure::from(error),
        other => not_started(other.into()),
    })?;
    run_or_learn(&arguments, &subject).map_err(not_started)
}

/// All statuses but this one and that of wrong usage are the program's.
fn not_started(failure: Failure) -> Failure {
    Failure {
        status: NOT_STARTED,
        ..failure
    }
}

fn run_or_learn(arguments: &RunArguments, subject: &Subject) -> Ended {
    let cache = ScheduleCache::from_environment(arguments.cache.as_deref())?;
    let found = match cache.lookup(&subject.key)? {
        Lookup::Miss => {
            let guard = cache.learn(&subject.key, || {
                say(format_args!("another process learns this schedule; waiting for it"));
            })?;
            match guard.lookup()? {
                Lookup::Miss => return learn(arguments, subject, guard),
                found => found,
            }
        }
        found => found,
    };
    match found {
        Lookup::Hit(entry) => enforce(arguments, subject, &entry),
        Lookup::Sealed(entry) => {
            let why = entry.meta().learned.sealed.clone().unwrap_or_default();
            Err(Failure {
                sentence: format!(
                    "this program cannot be run deterministically with these arguments: {why} (refrain schedules info {})",
                    entry.name()
                ),
                status: NOT_STARTED,
            })
        }
        Lookup::Miss => unreachable!("a miss is learned"),
    }
}

fn learn(arguments: &RunArguments, subject: &Subject, guard: LearnGuard) -> Ended {
    let learning = Learning::record(subject)?;
    let outcome = learning.outcome();
    if let Some(signal) = learning.interrupted() {
        say(format_args!("stopped by signal {signal}; no schedule was learned"));
        return Ok((128 + signal) as u8);
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
        say(format_args!(
            "when it was learned, the program used {}: what these bring in is live, and not compared",
            outside.join(", ")
        ));
    }
}

fn enforce(arguments: &RunArguments, subject: &Subject, entry: &ScheduleEntry) -> Ended {
    let options = Enforcing {
        order: match arguments.sync_only {
            true => Order::SynchronisationOnly,
            false => Order::Hybrid,
        },
        jitter_seed: arguments.delays.map_or(0, |seed| seed.unwrap_or(1)),
    };
    let enforced = subject.enforce(entry, &options)?;
    if arguments.report {
        report_enforced(entry, &enforced);
    }
    match &enforced.left {
        None => Ok(enforced.outcome.exit_status() as u8),
        Some(left) => {
            say(format_args!(
                "the program left its schedule {} and was stopped: {left}; if what it reads has changed, learn it anew: refrain schedules rm {}",
                entry.name(),
                entry.name()
            ));
            Ok(LEFT)
        }
    }
}

fn report_enforced(entry: &ScheduleEntry, enforced: &Enforced) {
    let learned = &entry.meta().learned;
    say(format_args!(
        "hit: schedule {} enforced: {}, {}, {} in {:.1} ms",
        entry.name(),
        count(u64::from(learned.threads), "thread"),
        count(learned.steps, "synchronisation"),
        count(learned.constraints, "constraint"),
        enforced.elapsed.as_secs_f64() * 1000.0,
    ));
    report_outside(entry);
}
