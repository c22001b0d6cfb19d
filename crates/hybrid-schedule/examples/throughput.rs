//! How fast traces are relaxed and judged, and in how much memory: made-up traces, which are never in memory as a whole.
//!
//! ```console
//! $ cargo run --release -p hybrid-schedule --example throughput -- private 8 40000000
//! ```
//!
//! Patterns: `private` (each thread its own words, a lock now and then), `shared` (all read one table), `bytes` (each thread its own
//! bytes, once), `racey` (all write the same few words, without locks). With `judge` behind it, the judge has a look as well.
use hybrid_schedule::relax;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::Record;
use run_model::SiteId;
use run_model::TraceEntry;
use schedule_checker::hybrid::check_hybrid;
use std::convert::Infallible;
use std::time::Instant;

#[derive(Clone)]
struct Made {
    pattern: String,
    thread: u64,
    threads: u64,
    made: u64,
    most: u64,
    transfers: u64,
}

impl Iterator for Made {
    type Item = Result<TraceEntry, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.made == self.most {
            return None;
        }
        let turn = self.made;
        self.made += 1;
        let sequence = turn * self.threads + self.thread;
        let is_racey = self.pattern == "racey";
        if turn.is_multiple_of(10_000) && (turn == 0 || !is_racey) {
            self.transfers = 0;
            let record = Record {
                kind: Kind::Sync,
                op: Op::MutexLock,
                object: 0x1000,
                ..Record::default()
            };
            return Some(Ok(TraceEntry::Ordered { sequence, record }));
        }
        self.transfers += 1;
        let mixed = mix(sequence);
        let own = (self.thread + 1) << 32;
        let (address, bytes, writes) = match self.pattern.as_str() {
            "private" => (own + mixed % (1 << 20) * 8, 8, mixed.is_multiple_of(3)),
            "shared" => (turn * 8, 8, false),
            "bytes" => (own + turn, 1, true),
            "racey" => (mixed % 64 * 4, 4, mixed.is_multiple_of(2)),
            other => panic!("no pattern {other}"),
        };
        Some(Ok(TraceEntry::Access {
            sequence,
            address,
            bytes,
            reads: !writes,
            writes,
            at: Place {
                site: SiteId((mixed % 200) as u32 * 32),
                ordinal: 0,
                transfers: self.transfers,
            },
        }))
    }
}

/// SplitMix64's finaliser.
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pattern, threads, accesses, rest @ ..] = words.as_slice() else {
        panic!("throughput PATTERN THREADS ACCESSES [judge]");
    };
    let threads: u64 = threads.parse().expect("a number of threads");
    let accesses: u64 = accesses.parse().expect("a number of accesses");
    let made = |thread| Made {
        pattern: pattern.clone(),
        thread,
        threads,
        made: 0,
        most: accesses / threads,
        transfers: 0,
    };
    let began = Instant::now();
    let relaxed = relax((0..threads).map(made).collect()).expect("traces that can be relaxed");
    report("relaxed", accesses, began);
    println!("{:?}", relaxed.statistics);
    if !rest.is_empty() {
        let began = Instant::now();
        let verdict = check_hybrid((0..threads).map(made).collect(), &relaxed.schedule).expect("a good schedule");
        report("judged", accesses, began);
        println!("{verdict:?}");
    }
}

fn report(what: &str, accesses: u64, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or("VmHWM: unknown");
    println!(
        "{what}: {seconds:.1} s, {:.1} million accesses/s, {peak}",
        accesses as f64 / seconds / 1e6
    );
}
