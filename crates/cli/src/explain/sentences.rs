//! Findings in words. The same sentences go into the text and into the JSON.
use crate::output::count;
use failure_report::Access;
use failure_report::Awaited;
use failure_report::Ending;
use failure_report::Finding;
use failure_report::Order;
use failure_report::Pattern;
use failure_report::Report;
use failure_report::Step;
use failure_report::Wait;
use failure_report::What;
use replayer::CHUNK_BYTES;
use replayer::Place;
use replayer::SiteBook;
use replayer::Symbols;
use run_model::Op;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

/// Where names of places and variables come from.
pub struct Names<'a> {
    pub sites: &'a SiteBook,
    pub symbols: &'a Symbols,
    /// Files below it are shown relative to it.
    pub directory: PathBuf,
    /// By sequence number, for steps in library code: what the thread did before in code that is not.
    pub before: BTreeMap<u64, Step>,
}

impl Names<'_> {
    pub fn place(&self, step: &Step) -> Option<Place> {
        self.sites.place(step.entry.site)
    }

    /// For a step in library code: the last one of its thread in other code.
    pub fn before(&self, step: &Step) -> Option<&Step> {
        self.before.get(&step.entry.sequence)
    }

    /// `file:line`, for sentences; the file without its directories. What a library has to do with it is in parentheses.
    pub fn line(&self, step: &Step) -> String {
        match (self.place(step), self.before(step)) {
            (Some(place), Some(before)) => {
                let before = self
                    .place(before)
                    .map_or_else(|| "an unknown place".to_owned(), |place| short(&place));
                format!("a call after {before} ({}:{})", name(&place.file), place.line)
            }
            (Some(place), None) => short(&place) + &library(&place),
            (None, _) => "an unknown place".to_owned(),
        }
    }

    /// `file:line:column in function`.
    pub fn whole_place(&self, step: &Step) -> String {
        match (
            self.place(step),
            self.before(step).and_then(|before| self.place(before)),
        ) {
            (Some(place), Some(before)) => format!(
                "a call after {} (in {}:{})",
                self.whole(&before),
                name(&place.file),
                place.line
            ),
            (Some(place), None) => self.whole(&place) + &library(&place),
            (None, _) => "an unknown place".to_owned(),
        }
    }

    fn whole(&self, place: &Place) -> String {
        let Place {
            file,
            line,
            column,
            function,
            ..
        } = place;
        let file = Path::new(file)
            .strip_prefix(&self.directory)
            .unwrap_or(Path::new(file))
            .display();
        match column {
            // Code that the compiler made from several lines has the line of its function, and no column.
            0 => format!("{file}:{line}, somewhere in {function}"),
            _ if function.is_empty() => format!("{file}:{line}:{column}"),
            _ => format!("{file}:{line}:{column} in {function}"),
        }
    }

    /// A variable, or memory without a name.
    pub fn variable(&self, address: u64) -> String {
        match self.symbols.name(address) {
            Some(name) => format!("`{name}`"),
            None => format!("memory at {address:#x}"),
        }
    }

    pub fn variable_of(&self, step: &Step) -> String {
        match step.entry.what {
            What::Access(access) => self.variable(access.address),
            What::Free { address, .. } | What::Allocate { address, .. } => self.variable(address),
            What::Sync { object, .. } => self.variable(object),
            _ => String::new(),
        }
    }
}

fn name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// `file:line`
fn short(place: &Place) -> String {
    match place.column {
        // As in `whole_place`.
        0 => format!("{}, in {}", name(&place.file), place.function),
        _ => format!("{}:{}", name(&place.file), place.line),
    }
}

/// ` (stl_tree.h:21)`, if the library's line was inlined there.
fn library(place: &Place) -> String {
    let library = place.library.as_ref();
    library.map_or_else(String::new, |(file, line)| format!(" ({}:{line})", name(file)))
}

/// As a person would write it: small numbers with their sign, large ones as addresses.
pub fn value(access: &Access, value: u64) -> String {
    let bits = 8 * access.bytes.clamp(1, 8) as u32;
    let signed = (value << (64 - bits)) as i64 >> (64 - bits);
    if (-0x1_0000..0).contains(&signed) || (0..1 << 32).contains(&value) {
        signed.to_string()
    } else {
        format!("{value:#x}")
    }
}

/// The value that an access found, if known. An update left another one.
pub fn found(access: &Access) -> Option<u64> {
    if access.writes { access.before } else { access.value }
}

/// May it have read less than it says? Functions that compare, or look for the end of a text, are observed in pieces that end with a
/// chunk of memory, however far they came.
pub fn may_stop_early(step: &Step) -> bool {
    step.access().is_some_and(|access| {
        access.reads && !access.writes && !access.atomic && access.bytes > 8 && access.end() % CHUNK_BYTES == 0
    })
}

/// ", if it read so far": of pairs with an access that may have read less.
pub fn so_far(steps: &[&Step]) -> &'static str {
    let is_one = steps.iter().any(|step| may_stop_early(step));
    if is_one { ", if it read so far" } else { "" }
}

/// That no races were found, and how far that goes.
pub fn no_races(report: &Report) -> String {
    let is_free = |found: &Finding| found.pattern == Pattern::UseAfterFree && found.order == Order::Unordered;
    if report.private_lost + report.shared_lost > 0 {
        "no two accesses in the trace, which is not complete, are known to be unordered".to_owned()
    } else if report.findings.iter().any(is_free) {
        "apart from the free, no two observed accesses of this run are unordered".to_owned()
    } else {
        "no two observed accesses of this run are unordered".to_owned()
    }
}

/// "reads 5", "writes", "frees it just after": what a step does, in one verb.
pub fn deed(step: &Step) -> String {
    match &step.entry.what {
        What::Access(access) => {
            let verb = match (access.atomic, access.reads, access.writes) {
                (_, true, false) => "reads",
                (_, false, _) => "writes",
                (true, ..) => "updates (atomically) to",
                (false, ..) => "updates to",
            };
            match access.value {
                _ if access.pending => format!("was about to {}", verb.trim_end_matches('s')),
                Some(found) if access.bytes <= 8 => format!("{verb} {}", value(access, found)),
                _ if may_stop_early(step) => format!("{verb} up to {} bytes", access.bytes),
                _ => format!("{verb} {} bytes", access.bytes),
            }
        }
        What::Free { .. } => "frees it, just after what it did".to_owned(),
        // EBUSY, ETIMEDOUT and the like; a death of the former owner (EOWNERDEAD) gives the lock.
        What::Sync { op, value, .. } if !matches!(value, 0 | 130) && operation(*op).starts_with("locks") => {
            "does not get the lock".to_owned()
        }
        What::Sync { op, .. } | What::Stopped { op, .. } => operation(*op).to_owned(),
        What::Fatal { .. } => "dies".to_owned(),
        _ => "is".to_owned(),
    }
}

fn operation(op: Op) -> &'static str {
    use Op::*;
    match op {
        MutexLock | MutexTryLock | MutexTimedLock | SpinLock | SpinTryLock | StreamLock => "locks",
        RwReadLock | RwTryReadLock | RwTimedReadLock => "locks for reading",
        RwWriteLock | RwTryWriteLock | RwTimedWriteLock => "locks for writing",
        CondRelease | CondWake => "waits",
        CondSignal => "signals",
        CondBroadcast => "broadcasts",
        BarrierArrive | BarrierLeave => "waits at the barrier",
        SemWait | SemTryWait | SemTimedWait => "waits for the semaphore",
        Join => "joins",
        FutexWait => "waits for the futex",
        OnceBegin | OnceReturn => "waits for an initialisation",
        _ => "is",
    }
}

/// One sentence: who did what to whom.
pub fn finding(finding: &Finding, names: &Names<'_>) -> String {
    let (mine, theirs) = (finding.mine.thread, finding.theirs.thread);
    let (here, there) = (names.line(&finding.mine), names.line(&finding.theirs));
    let variable = names.variable_of(&finding.mine);
    let end = finding.again.map(|step| names.line(&step)).unwrap_or_default();
    let unordered = match finding.order {
        Order::Unordered if finding.again.is_some() => "no observed synchronisation keeps it out",
        Order::Unordered => "no observed synchronisation orders the two",
        Order::Synchronised if finding.again.is_some() => {
            "synchronisation orders each of them, but does not hold the two together"
        }
        Order::Synchronised if finding.pattern == Pattern::UseAfterFree => "synchronisation puts them in this order",
        Order::Synchronised => {
            "of what was observed, only who came first to a lock or an atomic puts them in this order"
        }
        Order::Same => "one thread did both",
        Order::Unknown => "whether anything orders the two is beyond the trace",
    };
    let both = [
        &finding.mine,
        finding.again.as_ref().unwrap_or(&finding.mine),
        &finding.theirs,
    ];
    let unordered = format!("{unordered}{}", so_far(&both));
    // Of sections nothing more is known.
    let dark = "no plain access to shared memory was observed there";
    match finding.pattern {
        Pattern::UseAfterFree => {
            format!("T{mine} used {variable} at {here}, which T{theirs} freed just after {there}; {unordered}")
        }
        Pattern::ReadFrom => {
            format!("T{mine} read {variable} at {here} after T{theirs} wrote it at {there}; {unordered}")
        }
        Pattern::ReadTooEarly => {
            format!("T{mine} read {variable} at {here} before T{theirs} wrote it at {there}; {unordered}")
        }
        Pattern::LostUpdate => format!(
            "T{mine} read {variable} at {here} and wrote it at {end}, over what T{theirs} wrote in between at {there}; {unordered}"
        ),
        Pattern::Interleaved => format!(
            "T{theirs} wrote {variable} at {there} between two accesses of T{mine}, at {here} and {end}; {unordered}"
        ),
        Pattern::Sections => format!(
            "T{theirs} locked {variable} at {there} between two critical sections of T{mine}, locked at {here} and {end}; {dark}"
        ),
        Pattern::Refused => {
            format!("T{mine} did not get {variable} at {here}, because T{theirs} had locked it at {there}")
        }
        Pattern::Woken => {
            let lock = names.variable_of(&finding.theirs);
            format!(
                "T{theirs} locked {lock} at {there} after what T{mine} waited for at {here} was signalled, and before T{mine} had the lock again; {dark}"
            )
        }
        Pattern::Halfway => {
            let second = finding.again.map(|again| names.variable_of(&again)).unwrap_or_default();
            format!(
                "T{theirs} had locked {variable} at {there} before T{mine} did at {here}, but had not locked {second} since when T{mine} did at {end}; {dark}"
            )
        }
        Pattern::Turns => {
            let is_second = finding.theirs.entry.sequence < finding.mine.entry.sequence;
            let when = if is_second { "after" } else { "before" };
            format!("T{mine} locked {variable} at {here} {when} T{theirs} did at {there}; {dark}")
        }
        Pattern::Overwritten => {
            format!("T{mine} wrote {variable} at {here} over what T{theirs} wrote at {there}; {unordered}")
        }
    }
}

/// How the run ended.
pub fn ending(report: &Report) -> String {
    let first = report.anchor.map(|anchor| (anchor.thread, anchor.entry.what));
    match report.ending {
        Ending::Signal { thread, signal } if first.is_some_and(|(_, what)| is_thrown(what)) => {
            let what = thrown(report);
            format!("{what}, and T{thread} died of {}", signal_name(signal))
        }
        Ending::Status { thread, status } if first.is_some_and(|(_, what)| is_thrown(what)) => {
            let what = thrown(report);
            format!("{what}, and T{thread} ended the program with status {status}")
        }
        Ending::Signal { thread, signal } => format!("T{thread} died of {}", signal_name(signal)),
        Ending::Status { thread, status } => format!("T{thread} ended the program with status {status}"),
        Ending::Stopped if first.is_some_and(|(_, what)| is_thrown(what)) => {
            format!("{}, and the program was stopped from outside", thrown(report))
        }
        Ending::Stopped if !report.cycle.is_empty() => "the program stood still: a deadlock".to_owned(),
        Ending::Stopped => "the program was stopped from outside".to_owned(),
        Ending::Success => "the run did not fail".to_owned(),
    }
}

fn is_thrown(what: What) -> bool {
    matches!(what, What::Thrown { .. })
}

fn thrown(report: &Report) -> String {
    match report.anchor {
        Some(step) if step.entry.what == What::Thrown { is_panic: true } => format!("T{} panicked", step.thread),
        Some(step) => format!("T{} threw an exception", step.thread),
        None => String::new(),
    }
}

pub fn signal_name(signal: u32) -> String {
    run_store::signal_name(signal as i32).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// What a thread that stood still was waiting for.
pub fn wait(wait: &Wait, names: &Names<'_>) -> String {
    let thread = wait.thread;
    match &wait.awaited {
        Awaited::Lock { object, holders } if holders.is_empty() => {
            format!(
                "T{thread} was about to lock {}, which no thread was seen to hold",
                names.variable(*object)
            )
        }
        Awaited::Lock { object, holders } => {
            let holders: Vec<String> = holders
                .iter()
                .map(|holder| {
                    let who = if holder.thread == thread {
                        "itself".to_owned()
                    } else {
                        format!("T{}", holder.thread)
                    };
                    format!("{who} since {}", names.line(&holder.taken))
                })
                .collect();
            let object = names.variable(*object);
            format!("T{thread} waits for {object}, held by {}", holders.join(", "))
        }
        Awaited::Signal {
            object,
            last_signal,
            missed,
            woken,
        } => {
            let signal = match last_signal {
                Some(signal) if woken.is_some() => format!(
                    "after the last one, from T{} at {}, only T{} woke, which waits again",
                    signal.thread,
                    names.line(signal),
                    woken.unwrap_or_default()
                ),
                Some(signal) if *missed => format!(
                    "the last signal came before it began to wait, from T{} at {}",
                    signal.thread,
                    names.line(signal)
                ),
                Some(signal) => format!(
                    "the last signal, from T{} at {}, did not wake it",
                    signal.thread,
                    names.line(signal)
                ),
                None => "no signal of it was observed".to_owned(),
            };
            format!("T{thread} waits for a signal of {}; {signal}", names.variable(*object))
        }
        Awaited::Thread(Some(other)) => format!("T{thread} waits for the end of T{other}"),
        Awaited::Thread(None) => format!("T{thread} waits for the end of a thread"),
        Awaited::Other { op, object } => {
            let object = names.variable(*object);
            format!("T{thread} {} {object}", operation(*op))
        }
        Awaited::Nothing if wait.step.is_none() => format!("T{thread} had been created and had not begun"),
        Awaited::Nothing => format!("T{thread} was running"),
    }
}

/// "T1 waits for T2, which waits for T1".
pub fn cycle(cycle: &[u32]) -> String {
    let mut text = String::new();
    for (index, thread) in cycle.iter().enumerate() {
        let next = cycle[(index + 1) % cycle.len()];
        let link = if index == 0 {
            format!("T{thread} waits for")
        } else {
            ", which waits for".to_owned()
        };
        text.push_str(&format!("{link} T{next}"));
    }
    text
}

/// The one sentence of conclusion.
pub fn conclusion(report: &Report, names: &Names<'_>) -> String {
    if !report.cycle.is_empty() {
        return cycle(&report.cycle);
    }
    match (report.findings.first(), report.ending) {
        (_, Ending::Success) if report.races.is_empty() => no_races(report),
        (_, Ending::Success) => format!("{} places in the source raced all the same", report.races.len()),
        (Some(found), _) if culprit(report).is_some() => finding(found, names),
        (Some(_), Ending::Stopped) => lost_wake(report).map_or_else(String::new, |lost| wait(lost, names)),
        (None, Ending::Stopped) if stolen_wake(report).is_some() => {
            stolen_wake(report).map_or_else(String::new, |stolen| wait(stolen, names))
        }
        _ if !report.has_plain_accesses && !leaves_threads(report) => {
            "no plain access was observed, so it cannot be said what was read; was it recorded at scope memory?"
                .to_owned()
        }
        (_, Ending::Status { thread, .. }) if !report.waits.is_empty() => {
            let others: Vec<String> = report.waits.iter().map(|wait| format!("T{}", wait.thread)).collect();
            format!(
                "T{thread} ended the program, and did not wait for {}",
                others.join(", ")
            )
        }
        _ => {
            let races = match report.races.len() {
                0 => no_races(report),
                pairs => format!(
                    "{} of this run, farther away or of other threads, are listed below",
                    count(pairs as u64, "unordered pair")
                ),
            };
            let tried = report.tried;
            format!(
                "none of the {tried} accesses that were tried, on the way back from the failure, fits a pattern; {races}"
            )
        }
    }
}

/// The finding that is named as the culprit. A circle says it all; and a signal that came too early, or to another, explains a thread
/// that waits for it better than what locks allowed. So do threads that nobody waited for, if `main` returned.
pub fn culprit(report: &Report) -> Option<&Finding> {
    let first = report.findings.first().filter(|_| report.cycle.is_empty())?;
    let has_other_reason = lost_wake(report).is_some() || leaves_threads(report);
    (first.order == Order::Unordered || !has_other_reason).then_some(first)
}

/// Did the main thread return, with a status that is no success, while others had not come to their end? Who calls `exit` means to leave them.
fn leaves_threads(report: &Report) -> bool {
    let returned = matches!(report.ending, Ending::Status { thread: 0, .. }) && report.anchor.is_none();
    returned && !report.waits.is_empty()
}

/// A thread that waits for a signal that went to another, or had come before.
fn lost_wake(report: &Report) -> Option<&Wait> {
    let is_missed = |wait: &&Wait| {
        matches!(
            wait.awaited,
            Awaited::Signal {
                missed: true,
                last_signal: Some(_),
                ..
            }
        )
    };
    let missed = report.waits.iter().rfind(is_missed);
    stolen_wake(report).or_else(|| missed.filter(|_| report.ending == Ending::Stopped))
}

/// A thread that waits for a signal by which another woke, which waits again. Not so of one that was missed: where there is nothing else to
/// say, that is how idle threads of a library wait for work.
fn stolen_wake(report: &Report) -> Option<&Wait> {
    let is_stolen = |wait: &&Wait| matches!(wait.awaited, Awaited::Signal { woken: Some(_), .. });
    let stolen = report.waits.iter().find(is_stolen);
    stolen.filter(|_| report.ending == Ending::Stopped)
}

/// Is it about critical sections in which nothing was seen?
pub fn is_dark(pattern: Pattern) -> bool {
    use Pattern::*;
    matches!(pattern, Sections | Woken | Halfway | Turns)
}

/// The pattern's name, for programs.
pub fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::UseAfterFree => "use after free",
        Pattern::ReadFrom => "read from",
        Pattern::ReadTooEarly => "read too early",
        Pattern::LostUpdate => "lost update",
        Pattern::Interleaved => "interleaved",
        Pattern::Overwritten => "overwritten",
        Pattern::Sections => "sections",
        Pattern::Refused => "refused",
        Pattern::Woken => "woken",
        Pattern::Halfway => "halfway",
        Pattern::Turns => "turns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use failure_report::Entry;
    use failure_report::ThreadTrace;
    use failure_report::Traces;
    use run_model::SiteId;

    #[test]
    fn an_update_found_another_value_than_it_left() {
        let read = Access {
            reads: true,
            value: Some(1),
            before: Some(1),
            ..Access::default()
        };
        assert_eq!(found(&read), Some(1));
        let update = Access {
            writes: true,
            value: Some(2),
            ..read
        };
        assert_eq!(found(&update), Some(1));
        // Of a plain one it is not known.
        assert_eq!(found(&Access { before: None, ..update }), None);
    }

    #[test]
    fn a_piece_of_a_text_may_not_have_been_read_to_its_end() {
        let step = |address: u64, bytes: u64| Step {
            thread: 1,
            entry: Entry {
                sequence: 1,
                event: 1,
                site: SiteId(1),
                what: What::Access(Access {
                    address,
                    bytes,
                    reads: true,
                    ..Access::default()
                }),
            },
        };
        assert_eq!(deed(&step(0x1030, 16)), "reads up to 16 bytes");
        assert_eq!(so_far(&[&step(0x1030, 16)]), ", if it read so far");
        // What is loaded at once, or ends elsewhere, was read.
        assert_eq!(deed(&step(0x1020, 16)), "reads 16 bytes");
        assert_eq!(so_far(&[&step(0x1038, 8), &step(0x1020, 16)]), "");
    }

    #[test]
    fn an_absence_is_stated_as_far_as_the_trace_goes() {
        let report = |shared_lost: u64| {
            let trace = ThreadTrace {
                shared_lost,
                ..ThreadTrace::default()
            };
            let traces = Traces {
                threads: vec![trace],
                ..Traces::default()
            };
            failure_report::explain(&traces, Ending::Success)
        };
        assert_eq!(
            no_races(&report(0)),
            "no two observed accesses of this run are unordered"
        );
        assert!(no_races(&report(5)).contains("not complete"));
    }

    #[test]
    fn threads_that_main_left_behind_explain_more_than_the_order_of_locks() {
        let access = |reads: bool| {
            What::Access(Access {
                address: 0x1000,
                bytes: 8,
                reads,
                writes: !reads,
                value: Some(1),
                ..Access::default()
            })
        };
        let sync = |op: Op| What::Sync {
            op,
            object: 1,
            value: 0,
            other: None,
        };
        let steps = [
            (1, sync(Op::MutexLock)),
            (1, access(false)),
            (1, sync(Op::MutexUnlock)),
            (0, sync(Op::MutexLock)),
            (0, access(true)),
            (0, sync(Op::MutexUnlock)),
        ];
        let report = |last: What| {
            let mut traces = Traces {
                threads: vec![ThreadTrace::default(); 2],
                ..Traces::default()
            };
            for (sequence, (thread, what)) in (1..).zip(steps.into_iter().chain([(1, last)])) {
                let site = SiteId(sequence as u32);
                let event = sequence;
                traces.threads[thread].entries.push(Entry {
                    sequence,
                    event,
                    site,
                    what,
                });
            }
            failure_report::explain(&traces, Ending::Status { thread: 0, status: 1 })
        };
        // T1 goes on, or has ended.
        assert_eq!(culprit(&report(sync(Op::MutexLock))), None);
        assert!(culprit(&report(What::Exit)).is_some());
    }

    #[test]
    fn a_lock_that_was_refused_was_not_locked() {
        let step = |value: i64| Step {
            thread: 1,
            entry: Entry {
                sequence: 1,
                event: 1,
                site: SiteId(1),
                what: What::Sync {
                    op: Op::MutexTryLock,
                    object: 1,
                    value,
                    other: None,
                },
            },
        };
        assert_eq!(deed(&step(0)), "locks");
        assert_eq!(deed(&step(130)), "locks");
        assert_eq!(deed(&step(16)), "does not get the lock");
    }
}
