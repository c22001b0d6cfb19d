//! How long it takes to index the logs of one bug that very many clients have seen, to find the most relevant ones, and to make candidates of them; and how much memory.
//!
//! `cargo run --release -p partial-logs --example large_universe [LOGS]`: 100 elements, each log one of 64 patterns of 25 of them. A quarter of the elements is always the
//! same, a quarter seldom different, a quarter often, and of a quarter no vector comes twice.
use partial_logs::ElementId;
use partial_logs::LogId;
use partial_logs::MergeSettings;
use partial_logs::Merger;
use partial_logs::Metric;
use partial_logs::UniverseBuilder;
use partial_logs::VectorHash;
use partial_logs::Verdict;
use partial_logs::pattern::Family;
use partial_logs::table::Picking;
use partial_logs::table::picked;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

const ELEMENTS: u32 = 100;
const SHARE: u16 = 2_500;
const CANDIDATES: usize = 100;

fn main() {
    let wanted = std::env::args().nth(1).map(|logs| logs.parse());
    let logs: u32 = wanted.and_then(Result::ok).unwrap_or(193_000);
    let costs: BTreeMap<ElementId, u64> = (1..=ELEMENTS).map(|id| (ElementId(id), 1)).collect();
    let elements: BTreeSet<ElementId> = costs.keys().copied().collect();
    let family = Family::new(SHARE, &costs, &BTreeSet::new());
    let patterns = (0..64).map(|nth| picked(Picking::Family(&family), &elements, SHARE, nth));
    let patterns: Vec<BTreeSet<ElementId>> = patterns.collect();
    let before = memory_most_kib();

    let begin = processor_time();
    let mut builder = UniverseBuilder::new(elements.iter().copied());
    for log in 0..logs {
        let pattern = patterns[log as usize % patterns.len()].iter();
        builder.add_failing(pattern.map(|element| (*element, hash(*element, vector(*element, log)))));
    }
    let universe = builder.build();
    let indexed = since(begin);
    let distinct: usize = elements
        .iter()
        .map(|element| universe.vectors_of(*element).count())
        .sum();
    println!(
        "{logs} logs, {} vectors, {distinct} of them different",
        u64::from(logs) * 25
    );
    println!("indexed, with the making of hashes: {indexed}");

    let begin = processor_time();
    let mut merger = Merger::new(&universe, MergeSettings::new(Metric::Dispersion));
    let first: Vec<LogId> = merger.bases().take(3).collect();
    println!("most relevant {first:?}: {}", since(begin));

    let begin = processor_time();
    let given = std::iter::from_fn(|| {
        let candidate = merger.next()?;
        merger.report(candidate.id, Verdict::Passed);
        Some(candidate)
    });
    println!("{} candidates: {}", given.take(CANDIDATES).count(), since(begin));
    let most = memory_most_kib()
        .zip(before)
        .map(|(most, before)| (most - before) / 1024);
    println!(
        "memory at most: {} MiB",
        most.map_or("unknown".to_owned(), |most| most.to_string())
    );
}

fn vector(element: ElementId, log: u32) -> u64 {
    let scattered = (u64::from(log) * 100 + u64::from(element.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    match element.0 % 4 {
        0 => 0,
        1 => scattered % 10,
        2 => scattered % 20_000,
        _ => u64::from(log),
    }
}

/// Not a real one, but as even.
fn hash(element: ElementId, vector: u64) -> VectorHash {
    let mut bytes = [0; 32];
    let mut state = (u64::from(element.0) << 40) ^ vector;
    for word in bytes.chunks_exact_mut(8) {
        state = (state ^ (state >> 30))
            .wrapping_add(1)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(state ^ (state >> 31)).to_le_bytes());
    }
    VectorHash(bytes)
}

/// Of this process, since it began.
fn memory_most_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Nanoseconds of this process on a processor: what others do at the same time does not count.
fn processor_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn since(begin: Option<u64>) -> String {
    let spent = processor_time()
        .zip(begin)
        .map(|(now, begin)| (now - begin) as f64 / 1e9);
    spent.map_or("unknown".to_owned(), |spent| format!("{spent:.2} s of processor time"))
}
