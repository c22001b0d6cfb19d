//! From traces to the report: the one call of this crate.
use crate::clocks::Order;
use crate::memory::Memory;
use crate::races;
use crate::races::Race;
use crate::sections;
use crate::suspects;
use crate::suspects::Finding;
use crate::suspects::Pattern;
use crate::suspects::Suspects;
use crate::timeline::Step;
use crate::timeline::Timeline;
use crate::trace::Traces;
use crate::trace::What;
use crate::waits;
use crate::waits::Awaited;
use crate::waits::Wait;
use run_model::SiteId;
use std::collections::BTreeMap;

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `thread` died of `signal`.
    Signal { thread: u32, signal: u32 },
    /// `thread` ended the process with a status other than 0.
    Status { thread: u32, status: i32 },
    /// It was killed from outside, because nothing happened any more or for other reasons.
    Stopped,
    /// It did not fail.
    Success,
}

#[derive(Clone, Debug)]
pub struct Report {
    pub ending: Ending,
    /// Where it began to fail: an exception or panic that was thrown, a call of `exit`. Nothing that this thread did
    /// afterwards is looked at.
    pub anchor: Option<Step>,
    /// What the thread that died of a signal was doing.
    pub fault: Option<Fault>,
    /// The last reads of the failing thread, one for each place in the source, the newest first. What nobody ever
    /// writes is left out.
    pub reads: Vec<Read>,
    /// Where the other threads stood that had not come to their end; if it was stopped, all threads.
    pub waits: Vec<Wait>,
    /// Threads that waited for each other in a circle.
    pub cycle: Vec<u32>,
    /// The likeliest first; the first one is the culprit.
    pub findings: Vec<Finding>,
    /// How many accesses were tried for patterns, back from the failure.
    pub tried: u64,
    /// All races, the one nearest to the end first.
    pub races: Vec<Race>,
    /// By sequence number, for steps in library code that are named above: the last thing that the same thread did before in
    /// code that is not. The library was called after it.
    pub before: BTreeMap<u64, Step>,
    /// Steps that the traces hold, and older ones that they could not: accesses to memory of one thread, and others.
    pub steps: u64,
    pub private_lost: u64,
    pub shared_lost: u64,
    /// Was there any plain access? At scope `sync` there is none.
    pub has_plain_accesses: bool,
    pub uses_openmp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the signal came; its site is that of the thread's last call or access.
    pub step: Option<Step>,
    /// The access that never finished, if it was an observed one.
    pub access: Option<Step>,
    /// The read that the bad address came from.
    pub pointer: Option<Step>,
}

/// A read of the failing thread and where its value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub step: Step,
    pub writer: Writer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Step(Step, Order),
    /// No traced access wrote it: it is as it was at the start, or not all of its bytes were written at once.
    Nobody,
    /// Whoever wrote it did so before the trace begins.
    Unknown,
}

const READS_SHOWN: usize = 6;
/// Accesses on the way out, at most: destructors, handlers, what catches an exception.
const UNWINDING: usize = 256;
/// Accesses of the program's own code after a panic was caught, at most, if that was the end of the thread's work.
const UNWOUND: usize = 8;
/// How far back reads are looked for.
const READS_WINDOW: usize = 64;
/// A field of a structure is at most this far from the pointer to it.
const FIELD_BYTES: u64 = 4096;

/// Explains the end of the run that `traces` are of.
pub fn explain(traces: &Traces, ending: Ending) -> Report {
    let timeline = Timeline::new(traces);
    let memory = Memory::new(&timeline);
    let mut waits = waits::find(&timeline);
    match ending {
        Ending::Signal { thread, .. } | Ending::Status { thread, .. } => waits.retain(|wait| wait.thread != thread),
        Ending::Stopped => {}
        Ending::Success => waits.clear(),
    }
    let all = timeline.steps.len();
    let anchor = anchor(&timeline, ending);
    let failing: Vec<(u32, usize)> = match (anchor, ending) {
        (Some(anchor), _) => vec![(timeline.step(anchor).thread, anchor)],
        (None, Ending::Signal { thread, .. } | Ending::Status { thread, .. }) => vec![(thread, all)],
        (None, Ending::Stopped) => waits.iter().map(|wait| (wait.thread, all)).collect(),
        (None, Ending::Success) => Vec::new(),
    };
    let (fault, pointer) = match ending {
        Ending::Signal { thread, .. } => fault(&timeline, thread),
        _ => (None, None),
    };
    let private_lost = traces.threads.iter().map(|trace| trace.private_lost).sum();
    let shared_lost = traces.threads.iter().map(|trace| trace.shared_lost).sum();
    let is_openmp = |step: &Step| {
        matches!(
            step.entry.what,
            What::Sync {
                op: run_model::Op::OpenMp,
                ..
            }
        )
    };
    let has_plain_accesses = timeline
        .steps
        .iter()
        .any(|step| step.access().is_some_and(|access| !access.atomic));
    let Suspects { mut findings, tried } = suspects::find(&timeline, &memory, &failing, pointer);
    if findings.is_empty() {
        findings.extend(sections::find(&timeline, &memory, &failing));
    }
    if findings.is_empty() {
        // What the failing thread was given by those it joined is not observed. They may have been misled.
        let joined = joined(&timeline, &failing);
        findings = suspects::find(&timeline, &memory, &joined, None).findings;
        // To read what others wrote is how these threads talk to each other: what came between two accesses says more.
        let is_talk = |found: &Finding| !matches!(found.pattern, Pattern::LostUpdate | Pattern::Interleaved);
        findings.retain(|found| found.order == Order::Unordered || !is_talk(found));
        findings.sort_by_key(is_talk);
        if findings.is_empty() {
            findings.extend(sections::find_in_joined(&timeline, &memory, &joined));
        }
    }
    let races = races::find(&timeline, &memory);
    let mut report = Report {
        ending,
        anchor: anchor.map(|at| *timeline.step(at)),
        fault,
        reads: match failing[..] {
            [(thread, end)] => {
                let is_incomplete = private_lost + shared_lost > 0 || timeline.has_skipped();
                last_reads(&timeline, &memory, thread, end, is_incomplete)
            }
            _ => Vec::new(),
        },
        cycle: if ending == Ending::Stopped {
            waits::cycle(&waits)
        } else {
            Vec::new()
        },
        waits,
        findings,
        tried,
        races,
        before: BTreeMap::new(),
        steps: timeline.steps.len() as u64,
        private_lost,
        shared_lost,
        has_plain_accesses,
        uses_openmp: timeline.steps.iter().any(is_openmp),
    };
    report.before = callers(traces, &timeline, &report);
    report
}

/// For all steps of the report that are in library code, what their thread did before in other code.
fn callers(traces: &Traces, timeline: &Timeline, report: &Report) -> BTreeMap<u64, Step> {
    let is_library = |step: &Step| traces.library_sites.contains(&step.entry.site);
    let found = report
        .findings
        .iter()
        .flat_map(|f| [Some(f.mine), Some(f.theirs), f.again]);
    let races = report
        .races
        .iter()
        .flat_map(|race| [Some(race.first), Some(race.second)]);
    let reads = report.reads.iter().flat_map(|read| match read.writer {
        Writer::Step(writer, _) => [Some(read.step), Some(writer)],
        _ => [Some(read.step), None],
    });
    let waits = report.waits.iter().flat_map(|wait| match &wait.awaited {
        Awaited::Lock { holders, .. } => {
            let taken = holders.iter().map(|holder| Some(holder.taken));
            taken.chain([wait.step]).collect()
        }
        Awaited::Signal { last_signal, .. } => vec![wait.step, *last_signal],
        _ => vec![wait.step],
    });
    let fault = report
        .fault
        .into_iter()
        .flat_map(|fault| [fault.step, fault.access, fault.pointer]);
    let named = found
        .chain(races)
        .chain(reads)
        .chain(waits)
        .chain(fault)
        .chain([report.anchor]);
    let mut before = BTreeMap::new();
    for step in named.flatten().filter(is_library) {
        let at = timeline
            .steps
            .partition_point(|other| other.entry.sequence < step.entry.sequence);
        let mut back = timeline.back_from(step.thread, at).map(|at| *timeline.step(at));
        // A place without a name is no help.
        let caller = back.find(|other| !is_library(other) && other.entry.site != SiteId(0));
        if let Some(caller) = caller {
            before.insert(step.entry.sequence, caller);
        }
    }
    before
}

/// The place where the program began to fail, if the failing thread did more after it.
///
/// Rust: the first panic that ended its thread, whoever noticed. Otherwise what the ending thread threw or decided last,
/// unless it did so much since that this cannot be its end.
fn anchor(timeline: &Timeline, ending: Ending) -> Option<usize> {
    let thread = match ending {
        // A crash is where it is, whatever came before.
        Ending::Success | Ending::Signal { signal: 7 | 11, .. } => return None,
        Ending::Signal { thread, .. } | Ending::Status { thread, .. } => Some(thread),
        Ending::Stopped => None,
    };
    let is_panic = |at: &usize| matches!(timeline.step(*at).entry.what, What::Thrown { is_panic: true });
    let mut panics = (0..timeline.steps.len()).filter(is_panic);
    let first = panics.find(|at| ended_its_thread(timeline, *at));
    first.or_else(|| thrown_or_exiting(timeline, thread?))
}

/// Was this panic the end of what the thread did for the program? Panics inside it are part of it.
fn ended_its_thread(timeline: &Timeline, panic: usize) -> bool {
    let me = timeline.step(panic).thread;
    let since = || (panic + 1..timeline.steps.len()).filter(|at| timeline.step(*at).thread == me);
    let mut depth = 1;
    let caught = since().find(|at| {
        match timeline.step(*at).entry.what {
            What::Thrown { is_panic: true } => depth += 1,
            What::Caught => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let own_accesses = |from: usize| {
        let own = since().filter(|at| *at > from && !timeline.is_in_library(*at) && !timeline.is_internal(*at));
        own.filter(|at| timeline.step(*at).access().is_some()).count()
    };
    let goes_on = |at: usize| matches!(timeline.step(at).entry.what, What::Spawn { .. } | What::Thrown { .. });
    match caught {
        Some(caught) => !since().any(|at| at > caught && goes_on(at)) && own_accesses(caught) <= UNWOUND,
        None => own_accesses(panic) <= UNWINDING,
    }
}

/// What the thread that ended the program threw, or that it asked for the end.
fn thrown_or_exiting(timeline: &Timeline, thread: u32) -> Option<usize> {
    let mut accesses = 0;
    let mut found = None;
    for at in timeline.back_from(thread, timeline.steps.len()) {
        match timeline.step(at).entry.what {
            What::Thrown { is_panic: false } | What::Exiting => found = Some(at),
            What::Access(_) => accesses += 1,
            _ => {}
        }
        if accesses > UNWINDING {
            break;
        }
    }
    found
}

/// The threads that the failing thread joined, the last one first, and up to where what they did counts.
fn joined(timeline: &Timeline, failing: &[(u32, usize)]) -> Vec<(u32, usize)> {
    let [(thread, end)] = *failing else { return Vec::new() };
    let join = |at: usize| match timeline.step(at).entry.what {
        What::Sync {
            op: run_model::Op::Join,
            value: 0,
            other: Some(other),
            ..
        } => Some((other, at)),
        _ => None,
    };
    timeline.back_from(thread, end).filter_map(join).collect()
}

/// What the thread died in, and the place of the read that gave it a bad pointer.
fn fault(timeline: &Timeline, thread: u32) -> (Option<Fault>, Option<usize>) {
    let back = || timeline.back_from(thread, timeline.steps.len()).take(READS_WINDOW);
    let step = back().find(|at| matches!(timeline.step(*at).entry.what, What::Fatal { .. }));
    let address = step.and_then(|at| match timeline.step(at).entry.what {
        // SIGBUS and SIGSEGV come from an address.
        What::Fatal {
            signal: 7 | 11,
            address,
        } => Some(address),
        _ => None,
    });
    let access = back().find(|at| timeline.step(*at).access().is_some_and(|access| access.pending));
    let target = access
        .and_then(|at| timeline.step(at).access())
        .map(|access| access.address);
    let is_pointer = |at: &usize| {
        let access = timeline
            .step(*at)
            .access()
            .filter(|a| a.reads && !a.pending && a.bytes == 8);
        let Some(value) = access.and_then(|access| access.value) else {
            return false;
        };
        match target {
            Some(target) => target.wrapping_sub(value) < FIELD_BYTES,
            // It was not observed: a value that cannot be an address will have been used as one.
            None => !(FIELD_BYTES..1 << 47).contains(&value),
        }
    };
    let pointer = address.and_then(|_| back().find(is_pointer));
    let at = |place: Option<usize>| place.map(|place| *timeline.step(place));
    let fault = Fault {
        step: at(step),
        access: at(access),
        pointer: at(pointer),
    };
    (Some(fault), pointer)
}

fn last_reads(timeline: &Timeline, memory: &Memory, thread: u32, end: usize, incomplete: bool) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    for at in timeline.back_from(thread, end).take(READS_WINDOW) {
        let step = *timeline.step(at);
        let is_read = step.access().is_some_and(|access| access.reads && !access.pending);
        if !is_read
            || timeline.is_internal(at)
            || !memory.is_ever_written(timeline, at)
            || reads.iter().any(|read| read.step.entry.site == step.entry.site)
        {
            continue;
        }
        let writer = match memory.writer(timeline, at) {
            Some(writer) => Writer::Step(*timeline.step(writer), timeline.order(writer, at)),
            None if incomplete => Writer::Unknown,
            None => Writer::Nobody,
        };
        reads.push(Read { step, writer });
        if reads.len() == READS_SHOWN {
            break;
        }
    }
    reads
}
