//! Mergers against simulated fleets, in which "reproduced" means that all vectors come from runs that were the same.
use partial_logs::Candidate;
use partial_logs::ElementId;
use partial_logs::Ended;
use partial_logs::Feedback;
use partial_logs::LogId;
use partial_logs::MergeSettings;
use partial_logs::Merger;
use partial_logs::Metric;
use partial_logs::Mode;
use partial_logs::Source;
use partial_logs::Stage;
use partial_logs::Universe;
use partial_logs::UniverseBuilder;
use partial_logs::VectorHash;
use partial_logs::Verdict;
use partial_logs::table::Picking;
use partial_logs::table::picked;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A complete run: a number for the vector of each element, from element 1 on.
type Run = Vec<u32>;

fn hash(element: ElementId, vector: u32) -> VectorHash {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&vector.to_le_bytes());
    bytes[4..8].copy_from_slice(&element.0.to_le_bytes());
    VectorHash(*blake3::hash(&bytes).as_bytes())
}

fn vectors(run: &Run) -> BTreeMap<ElementId, VectorHash> {
    let elements = (1..).map(ElementId).zip(run);
    elements
        .map(|(element, vector)| (element, hash(element, *vector)))
        .collect()
}

/// Each run with so much of it recorded, in hundredths of a percent.
fn universe(runs: &[Run], share: u16, seed: u64) -> Universe {
    let elements: BTreeSet<ElementId> = (1..=runs[0].len() as u32).map(ElementId).collect();
    let mut builder = UniverseBuilder::new(elements.iter().copied());
    for (nth, run) in runs.iter().enumerate() {
        let picked = picked(Picking::Random { seed }, &elements, share, nth as u32);
        let of_run = vectors(run).into_iter();
        builder.add_failing(of_run.filter(|(element, _)| picked.contains(element)));
    }
    builder.build()
}

/// All elements, with the vectors of one run.
fn is_of_one_run(runs: &[Run], candidate: &Candidate) -> bool {
    runs.iter().any(|run| {
        let vectors = vectors(run);
        let has = |element: &ElementId| candidate.elements.get(element).map(|chosen| chosen.hash);
        vectors.iter().all(|(element, hash)| has(element) == Some(*hash))
    })
}

/// All that is given, until the oracle says that it is right.
fn candidates(
    universe: &Universe,
    settings: MergeSettings,
    oracle: impl Fn(&Candidate) -> Verdict,
) -> (Vec<Candidate>, Option<Ended>) {
    let mut merger = Merger::new(universe, settings);
    let mut given = Vec::new();
    while let Some(candidate) = merger.next() {
        merger.report(candidate.id, oracle(&candidate));
        given.push(candidate);
    }
    (given, merger.ended())
}

/// Was it not given out before?
fn is_new(candidate: &Candidate) -> bool {
    candidate.stage != Stage::Again
}

/// Attempts until one reproduced.
fn attempts(runs: &[Run], universe: &Universe, settings: MergeSettings) -> Option<usize> {
    let oracle = |candidate: &Candidate| match is_of_one_run(runs, candidate) {
        true => Verdict::Reproduced,
        false => Verdict::Stuck,
    };
    let (given, ended) = candidates(universe, settings, oracle);
    matches!(ended, Some(Ended::Reproduced(_))).then_some(given.len())
}

/// As figure 3 has TwoStage: two elements are always equal, one seldom, one never.
fn two_stage(runs: u32) -> Vec<Run> {
    (0..runs).map(|run| vec![0, 0, run / 2, run]).collect()
}

#[test]
fn a_complete_log_is_tried_first_and_has_nothing_to_fill() {
    let runs = two_stage(40);
    let mut builder = UniverseBuilder::new((1..=4).map(ElementId));
    for run in &runs {
        builder.add_failing(vectors(run).into_iter().take(2));
    }
    let complete = builder.add_failing(vectors(&runs[7]));
    let universe = builder.build();
    for metric in [Metric::Plain, Metric::Dispersion, Metric::None] {
        let mut merger = Merger::new(&universe, MergeSettings::new(metric));
        let first = merger.next().expect("there are logs");
        assert_eq!((first.base, first.elements.len()), (complete, 4));
        assert!(
            first
                .elements
                .values()
                .all(|chosen| chosen.source == Source::Base && chosen.rank == 0)
        );
    }
}

#[test]
fn a_log_without_vectors_can_be_the_base() {
    let runs = vec![vec![3, 3, 3]; 4];
    let mut builder = UniverseBuilder::new((1..=3).map(ElementId));
    for run in &runs {
        builder.add_failing(vectors(run));
    }
    let empty = builder.add_failing([]);
    let universe = builder.build();
    for settings in [
        MergeSettings::new(Metric::Dispersion),
        MergeSettings::paper(Metric::Plain),
    ] {
        let settings = MergeSettings {
            first_bases: vec![empty],
            ..settings
        };
        let first = Merger::new(&universe, settings).next().expect("there are logs");
        assert_eq!(first.base, empty);
        assert!(is_of_one_run(&runs, &first), "{first:?}");
        assert!(
            first
                .elements
                .values()
                .all(|chosen| chosen.source == Source::Importance)
        );
    }
}

#[test]
fn nothing_recorded_is_tried_once_and_nothing_at_all_never() {
    for settings in [
        MergeSettings::new(Metric::Plain),
        MergeSettings::paper(Metric::Plain),
        MergeSettings::random(1),
    ] {
        let universe = UniverseBuilder::new([ElementId(1)]).build();
        let (given, ended) = candidates(&universe, settings.clone(), |_| Verdict::Passed);
        assert_eq!((given.len(), ended), (0, Some(Ended::Exhausted)));
        let mut builder = UniverseBuilder::new([ElementId(1)]);
        builder.add_failing([]);
        let (given, ended) = candidates(&builder.build(), settings, |_| Verdict::Passed);
        assert_eq!((given.len(), ended), (1, Some(Ended::Exhausted)));
    }
}

/// Logs 0 and 1 share a rare vector, 1 and 2 another one; 3 is of another run and as old.
#[test]
fn gaps_are_filled_by_similars_of_similars() {
    let rows: [&[(u32, u32)]; 4] = [
        &[(1, 5), (2, 5)],
        &[(2, 5), (3, 5)],
        &[(3, 5), (4, 5)],
        &[(1, 6), (4, 6)],
    ];
    let mut builder = UniverseBuilder::new((1..=4).map(ElementId));
    for row in rows {
        builder.add_failing(
            row.iter()
                .map(|(id, vector)| (ElementId(*id), hash(ElementId(*id), *vector))),
        );
    }
    let universe = builder.build();
    for settings in [
        MergeSettings::new(Metric::Plain),
        MergeSettings {
            is_strict: true,
            ..MergeSettings::paper(Metric::Dispersion)
        },
    ] {
        let settings = MergeSettings {
            first_bases: vec![LogId(0)],
            ..settings
        };
        let first = Merger::new(&universe, settings).next().expect("there are logs");
        let sources: Vec<_> = first
            .elements
            .values()
            .map(|chosen| (chosen.source, chosen.log))
            .collect();
        let expected = [
            (Source::Base, Some(LogId(0))),
            (Source::Base, Some(LogId(0))),
            (Source::Similar, Some(LogId(1))),
            (Source::Transitive, Some(LogId(2))),
        ];
        assert_eq!(sources, expected);
        assert!(
            first
                .elements
                .values()
                .all(|chosen| chosen.hash == vectors(&vec![5; 4])[&ElementId(4)] || chosen.rank < 4)
        );
    }
}

/// The paper's table III: DSIM finds TwoStage's bug in fewer attempts than PSIM, which is led astray by elements that are always equal.
#[test]
fn dispersion_needs_fewer_attempts_than_plain_similarity() {
    let runs = two_stage(500);
    for share in [5_000, 7_500] {
        let universe = universe(&runs, share, 1);
        let needed = |metric| attempts(&runs, &universe, MergeSettings::paper(metric)).unwrap_or(usize::MAX);
        let (plain, dispersion) = (needed(Metric::Plain), needed(Metric::Dispersion));
        assert!(dispersion < plain, "{share}: {dispersion} and {plain}");
        assert!(dispersion <= 10, "{share}: {dispersion}");
        let ours = attempts(&runs, &universe, MergeSettings::new(Metric::Dispersion));
        assert!(
            ours.is_some_and(|ours| ours <= dispersion),
            "{share}: {ours:?} and {dispersion}"
        );
    }
}

/// As figure 3 has Manager: no two logs have a vector in common.
#[test]
fn where_nothing_agrees_bases_are_tried_alone() {
    let runs: Vec<Run> = (0..100).map(|run| vec![run; 4]).collect();
    let universe = universe(&runs, 2_500, 3);
    let (given, ended) = candidates(&universe, MergeSettings::new(Metric::Dispersion), |_| Verdict::Passed);
    assert_eq!((given.len(), ended), (500, Some(Ended::Budget)));
    let alone = given.iter().take(40).filter(|candidate| candidate.elements.len() == 1);
    // Each of them another run; and not all at the same element.
    let elements: BTreeSet<_> = alone
        .clone()
        .map(|candidate| *candidate.elements.keys().next().unwrap())
        .collect();
    assert!(alone.count() >= 10);
    assert_eq!(elements.len(), 4);
    assert!(given.iter().all(|candidate| !candidate.is_strict));
}

#[test]
fn brute_force_replaces_one_vector_at_a_time_at_first_and_ends_when_all_were_tried() {
    let runs: Vec<Run> = (0..9).map(|run| vec![run; 3]).collect();
    let universe = universe(&runs, 3_333, 5);
    let of_element = [1, 2, 3].map(|id| universe.vectors_of(ElementId(id)).count());
    let distinct: usize = of_element.iter().product();
    assert!((3..500).contains(&distinct), "{of_element:?}");
    let (given, ended) = candidates(&universe, MergeSettings::paper(Metric::Dispersion), |_| Verdict::Stuck);
    assert_eq!((given.len(), ended), (distinct, Some(Ended::Exhausted)));
    let replaced = |candidate: &Candidate| {
        let all = candidate.elements.values();
        all.filter(|chosen| chosen.source == Source::BruteForce).count()
    };
    let counts: Vec<usize> = given
        .iter()
        .filter(|candidate| candidate.base == given[0].base)
        .map(replaced)
        .collect();
    assert!(counts.is_sorted(), "{counts:?}");
}

#[test]
fn blamed_vectors_are_not_combined_again_until_nothing_else_is_left() {
    let runs: Vec<Run> = (0..12).map(|run| vec![run, run]).collect();
    let universe = universe(&runs, 5_000, 8);
    let mut merger = Merger::new(
        &universe,
        MergeSettings {
            budget: 60,
            ..MergeSettings::new(Metric::Dispersion)
        },
    );
    let mut blamed: BTreeSet<(VectorHash, VectorHash)> = BTreeSet::new();
    let mut repeated = Vec::new();
    while let Some(candidate) = merger.next().filter(is_new) {
        let hashes: Vec<VectorHash> = candidate.elements.values().map(|chosen| chosen.hash).collect();
        let [one, other] = hashes[..] else { continue };
        repeated.push(!blamed.insert((one, other)));
        let elements: BTreeSet<ElementId> = candidate.elements.keys().copied().collect();
        merger.report(
            candidate.id,
            Feedback {
                verdict: Verdict::Stuck,
                blamed: elements.clone(),
                let_go: elements,
            },
        );
    }
    assert!(repeated.iter().all(|repeated| !repeated));
    // All of the 36 pairs that there are come all the same.
    assert_eq!(
        blamed.len(),
        universe.vectors_of(ElementId(1)).count() * universe.vectors_of(ElementId(2)).count()
    );
}

#[test]
fn what_left_something_to_chance_is_tried_again_when_nothing_else_is_left() {
    // One element of four in each log, and no two runs agree: each base alone leaves three elements free.
    let runs: Vec<Run> = (0..3).map(|run| vec![run; 4]).collect();
    let universe = universe(&runs, 2_500, 3);
    let budget = 90;
    let settings = MergeSettings {
        budget,
        ..MergeSettings::new(Metric::Dispersion)
    };
    let (given, ended) = candidates(&universe, settings.clone(), |_| Verdict::Passed);
    assert_eq!((given.len(), ended), (budget as usize, Some(Ended::Budget)));
    let (first, again): (Vec<&Candidate>, Vec<&Candidate>) = given.iter().partition(|candidate| is_new(candidate));
    let vectors = |candidate: &Candidate| -> BTreeMap<ElementId, VectorHash> {
        let all = candidate.elements.iter();
        all.map(|(id, chosen)| (*id, chosen.hash)).collect()
    };
    let recorded = universe.recorded_elements().count();
    let of_chance: Vec<_> = first
        .iter()
        .map(|candidate| vectors(candidate))
        .filter(|vectors| vectors.len() < recorded)
        .collect();
    assert!(!of_chance.is_empty() && of_chance.len() < first.len());
    // In turn, beginning with the first.
    let expected = of_chance.iter().cycle();
    assert!(again.len() >= 2 * of_chance.len());
    assert!(
        again
            .iter()
            .map(|candidate| vectors(candidate))
            .zip(expected)
            .all(|(one, other)| one == *other)
    );
    // A set in which nothing is free is tried again only if vectors of it were let go.
    let lets_go = |candidate: &Candidate| Feedback {
        let_go: candidate.elements.keys().take(1).copied().collect(),
        ..Feedback::from(Verdict::Passed)
    };
    let mut merger = Merger::new(&universe, settings);
    let mut are_complete = false;
    while let Some(candidate) = merger.next() {
        merger.report(candidate.id, lets_go(&candidate));
        are_complete |= !is_new(&candidate) && candidate.elements.len() == recorded;
    }
    assert!(are_complete);
}

fn fleets() -> impl Strategy<Value = (Vec<Run>, u16, u64)> {
    let runs = (1usize..6).prop_flat_map(|elements| vec(vec(0u32..4, elements), 1..24));
    (
        runs,
        prop_oneof![Just(2_500u16), Just(5_000), Just(7_500), Just(10_000)],
        any::<u64>(),
    )
}

fn all_settings(seed: u64) -> Vec<MergeSettings> {
    let metrics = [Metric::Plain, Metric::Dispersion, Metric::None];
    let of_both = |metric| [MergeSettings::new(metric), MergeSettings::paper(metric)];
    let mut all: Vec<MergeSettings> = metrics.into_iter().flat_map(of_both).collect();
    all.push(MergeSettings::random(seed));
    all
}

/// Some verdict that depends on the candidate alone.
fn any_feedback(candidate: &Candidate) -> Feedback {
    let bits = candidate.elements.values().map(|chosen| chosen.hash.0[0]);
    let bits = bits.fold(0u8, |bits, byte| bits.rotate_left(3) ^ byte);
    let some = |of: u8| {
        candidate
            .elements
            .keys()
            .copied()
            .filter(|id| (of >> (id.0 % 8)) & 1 == 1)
            .collect()
    };
    let verdicts = [Verdict::Passed, Verdict::OtherFailure, Verdict::Stuck];
    Feedback {
        verdict: verdicts[usize::from(bits % 3)],
        blamed: some(bits),
        let_go: some(bits.rotate_left(2)),
    }
}

fn combinations_of(runs: &[Run], base: usize, universe: &Universe) -> usize {
    let recorded: BTreeSet<ElementId> = universe.vectors(LogId(base as u32)).map(|pair| pair.element).collect();
    let free = (1..=runs[0].len() as u32)
        .map(ElementId)
        .filter(|id| !recorded.contains(id));
    free.map(|id| universe.vectors_of(id).count()).product()
}

/// All that a base can be completed to comes, also where attempts have changed in between what it is completed to at first.
#[test]
fn brute_force_leaves_out_no_combination() {
    let runs = vec![vec![0, 1, 0], vec![2, 0, 2], vec![0, 2, 1], vec![1, 2, 1]];
    let universe = universe(&runs, 5_000, 12_008_769_653_421_047_987);
    for settings in [MergeSettings::new(Metric::Plain), MergeSettings::paper(Metric::Plain)] {
        let (given, ended) = candidates(&universe, settings, |_| Verdict::Stuck);
        let given: Vec<Candidate> = given.into_iter().filter(is_new).collect();
        assert!(given.len() < 100, "{ended:?}");
        for base in 0..runs.len() {
            let of_base = given.iter().filter(|candidate| candidate.base == LogId(base as u32));
            let complete = of_base.filter(|candidate| candidate.elements.len() == runs[0].len());
            assert_eq!(
                complete.count(),
                combinations_of(&runs, base, &universe),
                "of log {base}"
            );
        }
    }
}

proptest! {
    #[test]
    fn only_what_left_something_to_chance_comes_twice_and_all_come_in_the_same_order((runs, share, seed) in fleets(), budget in 0u32..120) {
        let universe = universe(&runs, share, seed);
        for settings in all_settings(seed) {
            let settings = MergeSettings { budget, ..settings };
            let run = |batch: usize| {
                let mut merger = Merger::new(&universe, settings.clone());
                let mut given = Vec::new();
                loop {
                    let some: Vec<Candidate> = std::iter::from_fn(|| merger.next()).take(batch).collect();
                    some.iter().for_each(|candidate| merger.report(candidate.id, any_feedback(candidate)));
                    if some.is_empty() {
                        break (given, merger.ended());
                    }
                    given.extend(some);
                }
            };
            let (given, ended) = run(1);
            prop_assert_eq!(&(given.clone(), ended), &run(1));
            let batches = run(3);
            for (given, ended) in [(given, ended), batches] {
                prop_assert!(given.len() <= budget as usize);
                prop_assert!(matches!(ended, Some(Ended::Budget | Ended::Exhausted)), "{:?}", ended);
                let mut seen = BTreeSet::new();
                for candidate in &given {
                    let set: Vec<_> = candidate.elements.iter().map(|(id, chosen)| (*id, chosen.hash)).collect();
                    prop_assert!(seen.insert(set) == is_new(candidate), "{:?} twice, or not", candidate);
                    let of_base = candidate.elements.values().filter(|chosen| chosen.source == Source::Base);
                    prop_assert!(settings.mode == Mode::Random || of_base.count() == universe.recorded(candidate.base).len());
                }
            }
        }
    }

    /// Brute force finds whatever there is to find, if it is given the time: all combinations of the first ten bases.
    #[test]
    fn what_can_be_merged_of_a_base_is_found((runs, share, seed) in fleets()) {
        let universe = universe(&runs, share, seed);
        let has = |element: ElementId, hash: VectorHash| universe.vectors_of(element).any(|other| other == hash);
        for settings in [MergeSettings::new(Metric::Plain), MergeSettings::paper(Metric::Dispersion)] {
            let settings = MergeSettings { budget: 5_000, ..settings };
            let bases: Vec<LogId> = Merger::new(&universe, settings.clone()).bases().take(10).collect();
            let recorded: BTreeSet<ElementId> = universe.recorded_elements().collect();
            let can_be = runs.iter().any(|run| {
                let vectors = vectors(run);
                let fits = |base: &LogId| universe.vectors(*base).all(|pair| vectors[&pair.element] == pair.hash);
                vectors.iter().all(|(id, hash)| has(*id, *hash)) && bases.iter().any(fits)
            });
            if can_be && recorded.len() == runs[0].len() {
                prop_assert!(attempts(&runs, &universe, settings).is_some());
            }
        }
    }

    /// Three different runs, many times each, and any two elements together in some log of each: overlaps lead from one to the other.
    #[test]
    fn hidden_classes_are_found_by_overlaps(seed: u64, elements in 4usize..9) {
        let classes: Vec<Run> = (0..3).map(|class| (0..elements).map(|element| if element == 0 { 0 } else { class }).collect()).collect();
        let runs: Vec<Run> = (0..180).map(|nth| classes[nth % 3].clone()).collect();
        let universe = universe(&runs, 5_000, seed);
        for metric in [Metric::Plain, Metric::Dispersion] {
            let needed = attempts(&runs, &universe, MergeSettings::new(metric));
            prop_assert!(needed.is_some_and(|needed| needed <= 3), "{:?}", needed);
        }
    }
}

#[test]
fn stages_come_in_their_order() {
    let runs = two_stage(60);
    let universe = universe(&runs, 5_000, 2);
    let (given, _) = candidates(&universe, MergeSettings::paper(Metric::Plain), |_| Verdict::Stuck);
    let paper = given
        .iter()
        .take_while(|candidate| candidate.stage == Stage::Paper)
        .count();
    assert!((1..=10).contains(&paper));
    assert!(
        given[paper..]
            .iter()
            .all(|candidate| candidate.stage == Stage::BruteForce && candidate.is_strict)
    );
    assert_eq!(given.len(), 500);
}
