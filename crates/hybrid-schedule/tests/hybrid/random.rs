//! Random small traces against trying everything. A failure names its seed.
use crate::oracle::orders_everything;
use crate::trace::Traces;
use crate::trace::judged;
use crate::trace::relaxed;
use run_model::Kind;
use run_model::Op;
use run_model::Place;
use run_model::Record;
use run_model::SiteId;
use run_model::TraceEntry;
use schedule_checker::hybrid::HybridRejection;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub fn traces(seed: u64) -> Traces {
    let mut random = Random(seed);
    let threads = 2 + random.below(3) as usize;
    let entries = 4 + random.below(40);
    // From nearly none to mostly synchronisation.
    let events_of_16 = 1 + random.below(6);
    let span = 8 << random.below(4);
    let mut traces: Traces = vec![Vec::new(); threads];
    let mut places = vec![Place::default(); threads];
    let mut sequence = 0;
    for _ in 0..entries {
        sequence += 1 + random.below(3);
        let thread = random.below(threads as u64) as usize;
        let place = &mut places[thread];
        if random.below(16) < events_of_16 {
            place.transfers = 0;
            traces[thread].push(match random.below(4) {
                0 => TraceEntry::Unordered,
                _ => ordered(sequence, random.below(3)),
            });
            continue;
        }
        // No instruction comes twice with as many transfers behind it.
        place.transfers += random.below(2);
        place.site = SiteId(place.site.0 + 1);
        place.ordinal = random.below(2) as u32;
        // Some instructions are two accesses.
        for _ in 0..1 + random.below(5) / 4 {
            traces[thread].push(access(sequence, *place, span, &mut random));
            sequence += 1;
        }
    }
    traces
}

fn ordered(sequence: u64, object: u64) -> TraceEntry {
    let record = Record {
        kind: Kind::Sync,
        op: Op::MutexLock,
        object,
        ..Record::default()
    };
    TraceEntry::Ordered { sequence, record }
}

fn access(sequence: u64, at: Place, span: u64, random: &mut Random) -> TraceEntry {
    let how = random.below(5);
    TraceEntry::Access {
        sequence,
        // Around a border of blocks and pages.
        address: 4096 - span / 2 + random.below(span),
        bytes: [1, 2, 4, 4, 8, 8, 3, 100][random.below(8) as usize],
        reads: how != 0,
        writes: how < 2,
        at,
    }
}

#[test]
fn every_conflict_is_ordered_and_no_constraint_is_idle() {
    let mut kept = 0;
    for seed in 0..3000 {
        let traces = traces(seed);
        let relaxed = relaxed(&traces).unwrap_or_else(|why| panic!("seed {seed}: {why:?}"));
        let schedule = &relaxed.schedule;
        assert!(orders_everything(&traces, schedule), "seed {seed}: {schedule:?}");
        judged(&traces, schedule).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        for index in 0..schedule.constraints.len() {
            kept += 1;
            let mut less = schedule.clone();
            less.constraints.remove(index);
            assert!(
                !orders_everything(&traces, &less),
                "seed {seed}: constraint {index} is idle"
            );
            let rejection = judged(&traces, &less);
            assert!(
                matches!(rejection, Err(HybridRejection::Unordered { .. })),
                "seed {seed}: without constraint {index}: {rejection:?}"
            );
        }
        let counted = relaxed.statistics;
        assert_eq!(
            counted.races,
            counted.constraints + counted.subsumed + counted.implied,
            "seed {seed}"
        );
    }
    assert!(kept > 5_000, "{kept}: the traces do not race");
}

/// The judge agrees with trying everything on schedules that nobody computed, too.
#[test]
fn the_judge_and_the_oracle_agree() {
    let mut random = Random(7);
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..4000 {
        let traces = traces(seed);
        let mut schedule = relaxed(&traces).unwrap().schedule;
        schedule.constraints.retain(|_| random.below(8) > 0);
        let expected = orders_everything(&traces, &schedule);
        assert_eq!(judged(&traces, &schedule).is_ok(), expected, "seed {seed}");
        *(if expected { &mut accepted } else { &mut refused }) += 1;
    }
    assert!(
        accepted > 100 && refused > 100,
        "{accepted} accepted, {refused} refused"
    );
}
