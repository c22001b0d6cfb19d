//! Traces as text: a line for each entry, in the order of their sequences.
//!
//! ```text
//! t0 MutexLock 7            an event with a position, on object 7
//! t0 Spawn                  the same, of another kind
//! t0 call                   an event without one
//! t1 L15 rw 100 8 ~2        an access at site 15: reads, writes, address, bytes, control transfers (0 if left out)
//! ```
use hybrid_schedule::Relaxed;
use hybrid_schedule::Unusable;
use hybrid_schedule::relax;
use hybrid_schedule::text::render;
use run_model::HybridSchedule;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::Record;
use run_model::SiteId;
use run_model::TraceEntry;
use schedule_checker::hybrid::HybridRejection;
use schedule_checker::hybrid::HybridVerdict;
use schedule_checker::hybrid::check_hybrid;
use std::convert::Infallible;

pub type Traces = Vec<Vec<TraceEntry>>;

pub fn parse(text: &str) -> Traces {
    let mut threads: Traces = Vec::new();
    for (sequence, line) in (10..).zip(text.lines().filter(|line| !line.trim().is_empty())) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let thread: usize = words[0].trim_start_matches('t').parse().unwrap();
        threads.resize(threads.len().max(thread + 1), Vec::new());
        threads[thread].push(entry(sequence, &words[1..]));
    }
    threads
}

fn entry(sequence: u64, words: &[&str]) -> TraceEntry {
    if words[0] == "call" {
        return TraceEntry::Unordered;
    }
    if let Some(site) = words[0].strip_prefix('L') {
        let transfers = words
            .get(4)
            .map_or(0, |word| word.trim_start_matches('~').parse().unwrap());
        let (site, ordinal) = site.split_once('.').unwrap_or((site, "0"));
        return TraceEntry::Access {
            sequence,
            address: words[2].parse().unwrap(),
            bytes: words[3].parse().unwrap(),
            reads: words[1].contains('r'),
            writes: words[1].contains('w'),
            at: Place {
                site: SiteId(site.parse().unwrap()),
                ordinal: ordinal.parse().unwrap(),
                transfers,
            },
        };
    }
    let (kind, op) = match words[0] {
        "Spawn" => (Kind::Spawn, Op::None),
        "Start" => (Kind::Start, Op::None),
        "Exit" => (Kind::Exit, Op::None),
        name => {
            let op = (0..=Op::LAST)
                .filter_map(Op::from_u8)
                .find(|op| format!("{op:?}") == name);
            (Kind::Sync, op.unwrap_or_else(|| panic!("no operation {name}")))
        }
    };
    let object = words.get(1).map_or(0, |word| word.parse().unwrap());
    let record = Record {
        kind,
        op,
        object,
        ..Record::default()
    };
    TraceEntry::Ordered { sequence, record }
}

pub type Entries = std::vec::IntoIter<Result<TraceEntry, Infallible>>;

pub fn entries(traces: &Traces) -> Vec<Entries> {
    let whole = |thread: &Vec<TraceEntry>| thread.iter().cloned().map(Ok).collect::<Vec<_>>().into_iter();
    traces.iter().map(whole).collect()
}

pub fn relaxed(traces: &Traces) -> Result<Relaxed, Unusable<Infallible>> {
    relax(entries(traces))
}

pub fn judged(traces: &Traces, schedule: &HybridSchedule) -> Result<HybridVerdict, HybridRejection<Infallible>> {
    check_hybrid(entries(traces), schedule)
}

/// The constraints of the trace's schedule as text; the judge accepts it, and refuses it without any one of them.
#[track_caller]
pub fn check(text: &str, constraints: &str) -> Relaxed {
    let traces = parse(text);
    let relaxed = relaxed(&traces).unwrap();
    let rendered = render(&relaxed.schedule, |place| format!("L{}", place.site.0));
    let found: Vec<&str> = rendered
        .split_once("constraints\n")
        .unwrap()
        .1
        .lines()
        .map(str::trim)
        .collect();
    let expected: Vec<&str> = constraints
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(found, expected);
    judged(&traces, &relaxed.schedule).unwrap();
    for index in 0..relaxed.schedule.constraints.len() {
        let mut less = relaxed.schedule.clone();
        less.constraints.remove(index);
        let rejection = judged(&traces, &less).unwrap_err();
        assert!(matches!(rejection, HybridRejection::Unordered { .. }), "{rejection}");
    }
    let counted = relaxed.statistics;
    assert_eq!(counted.races, counted.constraints + counted.subsumed + counted.implied);
    relaxed
}
