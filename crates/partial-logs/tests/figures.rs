//! Similarity, relevance, correlation, dispersion: by hand, and by comparing every log with every other.
use partial_logs::ALPHA;
use partial_logs::Counts;
use partial_logs::ElementId;
use partial_logs::FailingTotal;
use partial_logs::LogId;
use partial_logs::Metric;
use partial_logs::NeighbourSettings;
use partial_logs::Neighbours;
use partial_logs::Pair;
use partial_logs::Ratio;
use partial_logs::Similar;
use partial_logs::Threshold;
use partial_logs::Universe;
use partial_logs::UniverseBuilder;
use partial_logs::VectorHash;
use partial_logs::Weights;
use partial_logs::by_importance;
use partial_logs::by_relevance;
use partial_logs::correlation;
use partial_logs::literal_weights;
use partial_logs::relevance;
use partial_logs::similarity;
use partial_logs::table::Picking;
use partial_logs::table::dispersions;
use partial_logs::table::picked;
use partial_logs::telling_elements;
use proptest::collection::btree_map;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Elements and letters for their vectors.
type Row = &'static [(u32, char)];

fn hash(letter: char) -> VectorHash {
    VectorHash([letter as u8; 32])
}

fn pair(element: u32, letter: char) -> Pair {
    Pair {
        element: ElementId(element),
        hash: hash(letter),
    }
}

fn universe(elements: u32, failing: &[Row], passing: &[Row]) -> Universe {
    let mut builder = UniverseBuilder::new((1..=elements).map(ElementId));
    let vectors = |row: &Row| {
        row.iter()
            .map(|(id, letter)| (ElementId(*id), hash(*letter)))
            .collect::<Vec<_>>()
    };
    for (nth, row) in failing.iter().enumerate() {
        assert_eq!(builder.add_failing(vectors(row)), LogId(nth as u32));
    }
    passing.iter().for_each(|row| builder.add_passing(vectors(row)));
    builder.build()
}

fn ratio(universe: &Universe, metric: Metric, one: u32, other: u32) -> Ratio {
    let weights = Weights::new(universe, metric);
    let there = similarity(universe, &weights, LogId(one), LogId(other));
    assert_eq!(there, similarity(universe, &weights, LogId(other), LogId(one)));
    there.ratio()
}

/// The paper's example (§IV-E): x has the same vector in both logs, y has not.
#[test]
fn the_papers_example() {
    let universe = universe(2, &[&[(1, 'x'), (2, 'y')], &[(1, 'x'), (2, 'z')]], &[]);
    let weights = Weights::new(&universe, Metric::Dispersion);
    assert_eq!(weights.weight(&universe, ElementId(1)), Ratio::new(1, 3));
    assert_eq!(weights.weight(&universe, ElementId(2)), Ratio::new(2, 3));
    assert_eq!(weights.weight(&universe, ElementId(3)), Ratio::ZERO);
    let literal = literal_weights(&universe);
    assert_eq!(
        literal,
        BTreeMap::from([(ElementId(1), Ratio::new(1, 3)), (ElementId(2), Ratio::new(2, 3))])
    );
    // 1/2 · (1 − 1/2), and 1/3 · (1 − 2/3).
    assert_eq!(ratio(&universe, Metric::Plain, 0, 1), Ratio::new(1, 4));
    assert_eq!(ratio(&universe, Metric::Dispersion, 0, 1), Ratio::new(1, 9));
    assert_eq!(ratio(&universe, Metric::None, 0, 1), Ratio::ZERO);
    assert_eq!(ratio(&universe, Metric::Plain, 0, 0), Ratio::new(1, 1));
}

/// Both elements were used once, by the same thread: equal vectors of different elements. The paper's #AV is 2, and its weights are 1/2 and 2/2.
#[test]
fn literal_weights_sum_to_more_than_one_where_elements_share_a_vector() {
    let universe = universe(2, &[&[(1, 'a'), (2, 'a')], &[(1, 'a'), (2, 'b')]], &[]);
    let literal = literal_weights(&universe);
    assert_eq!(literal[&ElementId(1)], Ratio::new(1, 2));
    assert_eq!(literal[&ElementId(2)], Ratio::ONE);
    let weights = Weights::new(&universe, Metric::Dispersion);
    assert_eq!(weights.weight(&universe, ElementId(1)), Ratio::new(1, 3));
    assert_eq!(weights.weight(&universe, ElementId(2)), Ratio::new(2, 3));
}

/// Four elements, two of them in each log: PSIM cannot be above 1/4 for logs that have one of them in common.
#[test]
fn the_literal_threshold_leaves_no_neighbours_where_the_scaled_one_does() {
    let universe = universe(
        4,
        &[&[(1, 'a'), (2, 'a')], &[(2, 'a'), (3, 'a')], &[(1, 'b'), (4, 'a')]],
        &[],
    );
    assert_eq!(ratio(&universe, Metric::Plain, 0, 1), Ratio::new(1, 4));
    let of_first = |threshold| {
        let settings = NeighbourSettings {
            threshold,
            ..NeighbourSettings::new(Metric::Plain)
        };
        relevance(&universe, &mut Neighbours::new(&universe, settings), ALPHA, LogId(0))
    };
    let scaled = of_first(Threshold::Scaled);
    assert_eq!(
        scaled.similars.iter().map(|similar| similar.log).collect::<Vec<_>>(),
        [LogId(1)]
    );
    // 0.7 · 3/4 + 0.3 · 1/4.
    assert_eq!((scaled.fill, scaled.relevance), (3, Ratio::new(6, 10)));
    let literal = of_first(Threshold::Literal);
    // 0.7 · 2/4.
    assert_eq!((literal.fill, literal.relevance), (2, Ratio::new(35, 100)));
    assert!(literal.similars.is_empty());
}

/// Of complete logs both thresholds ask the same.
#[test]
fn thresholds_agree_on_complete_logs() {
    let universe = universe(
        3,
        &[
            &[(1, 'a'), (2, 'a'), (3, 'a')],
            &[(1, 'a'), (2, 'a'), (3, 'b')],
            &[(1, 'a'), (2, 'b'), (3, 'c')],
        ],
        &[],
    );
    for metric in [Metric::Plain, Metric::Dispersion] {
        let similars = [Threshold::Literal, Threshold::Scaled].map(|threshold| {
            let settings = NeighbourSettings {
                threshold,
                ..NeighbourSettings::new(metric)
            };
            Neighbours::new(&universe, settings).similars(LogId(0))
        });
        assert_eq!(similars[0], similars[1]);
        assert!(!similars[0].is_empty());
    }
}

/// Logs 0 and 1 fill what the other one has not; 2 is like 0 and fills nothing.
#[test]
fn only_those_that_fill_are_wanted() {
    let universe = universe(
        3,
        &[&[(1, 'a'), (2, 'a')], &[(2, 'a'), (3, 'a')], &[(1, 'a'), (2, 'a')]],
        &[],
    );
    let similars = |only_filling| {
        let settings = NeighbourSettings {
            only_filling,
            ..NeighbourSettings::new(Metric::Plain)
        };
        let found = Neighbours::new(&universe, settings).similars(LogId(0));
        found.iter().map(|similar| similar.log.0).collect::<Vec<_>>()
    };
    assert_eq!(similars(false), [2, 1]);
    assert_eq!(similars(true), [1]);
}

#[test]
fn correlation_by_hand() {
    let failing: [Row; 4] = [&[(1, 'v')], &[(1, 'v')], &[(1, 'u')], &[(2, 'c')]];
    let passing: [Row; 3] = [&[(1, 'v')], &[(1, 'u')], &[(1, 'p'), (2, 'c')]];
    let universe = universe(2, &failing, &passing);
    let of = |total| correlation(&universe, pair(1, 'v'), total).unwrap();
    let paper = of(FailingTotal::AllLogs);
    assert_eq!(paper.with, Counts { failing: 2, passing: 1 });
    assert_eq!(paper.sensitivity(), Ratio::new(2, 4));
    assert_eq!(paper.specificity(), Ratio::new(2, 3));
    // 2/(2 + 3/2).
    assert_eq!(paper.importance(), Ratio::new(4, 7));
    let ours = of(FailingTotal::OfElement);
    assert_eq!(ours.sensitivity(), Ratio::new(2, 3));
    assert_eq!(ours.importance(), Ratio::new(2, 3));
    // 2/3 of failing logs, 1/3 of passing ones.
    assert_eq!(ours.contrast(), Ratio::new(1, 3));
    let never = correlation(&universe, pair(1, 'p'), FailingTotal::OfElement).unwrap();
    assert_eq!((never.importance(), never.contrast()), (Ratio::ZERO, Ratio::ZERO));
    assert_eq!(correlation(&universe, pair(1, 'x'), FailingTotal::OfElement), None);
    let order = by_importance(&universe, ElementId(1), FailingTotal::OfElement);
    assert_eq!(
        order.iter().map(|(pair, _)| pair.hash).collect::<Vec<_>>(),
        [hash('v'), hash('u')]
    );
}

/// Element 1 is always the same: as sensitive and nearly as specific as can be, and it tells nothing. Element 2 does.
#[test]
fn an_element_that_is_always_the_same_tells_nothing() {
    let failing: Vec<Row> = [&[(1, 'c'), (2, 'f'), (3, 'a')][..]; 8].to_vec();
    let passing: Vec<Row> = [&[(1, 'c'), (2, 'p'), (3, 'a')][..], &[(1, 'c'), (2, 'p'), (3, 'b')]].to_vec();
    let universe = universe(3, &failing, &passing);
    let constant = correlation(&universe, pair(1, 'c'), FailingTotal::OfElement).unwrap();
    assert_eq!(constant.importance(), Ratio::new(16, 18));
    let told = telling_elements(&universe, FailingTotal::OfElement, 3);
    let told: Vec<_> = told
        .iter()
        .map(|telling| (telling.element.0, telling.correlation.contrast()))
        .collect();
    assert_eq!(told, [(2, Ratio::ONE), (3, Ratio::new(1, 2))]);
    assert_eq!(telling_elements(&universe, FailingTotal::OfElement, 1).len(), 1);
}

#[test]
fn dispersion_is_that_of_failing_logs() {
    let failing: [Row; 3] = [&[(1, 'a'), (2, 'a')], &[(1, 'a'), (2, 'b')], &[(1, 'a'), (2, 'c')]];
    let universe = universe(4, &failing, &[&[(1, 'x'), (3, 'x')]]);
    assert_eq!(
        dispersions(&universe),
        [(ElementId(1), Ratio::new(1, 3)), (ElementId(2), Ratio::ONE)]
    );
    assert_eq!(universe.element_count(), 4);
    assert_eq!(universe.with_vector(pair(1, 'x')), Counts { failing: 0, passing: 1 });
    assert_eq!(universe.logs_with(pair(1, 'a')), [LogId(0), LogId(1), LogId(2)]);
    assert_eq!(universe.logs_with(pair(9, 'a')), []);
}

#[test]
fn logs_can_be_added_later_and_keep_their_numbers() {
    let rows: [Row; 4] = [&[(1, 'a'), (2, 'b')], &[(2, 'b')], &[(3, 'c'), (1, 'a')], &[]];
    let at_once = universe(2, &rows, &[]);
    let mut builder = universe(2, &rows[..2], &[]).into_builder();
    for row in &rows[2..] {
        builder.add_failing(row.iter().map(|(id, letter)| (ElementId(*id), hash(*letter))));
    }
    let later = builder.build();
    assert_eq!(
        later.elements().collect::<Vec<_>>(),
        at_once.elements().collect::<Vec<_>>()
    );
    for log in at_once.logs() {
        assert_eq!(
            later.vectors(log).collect::<Vec<_>>(),
            at_once.vectors(log).collect::<Vec<_>>()
        );
        for pair in later.vectors(log) {
            assert_eq!(later.logs_with(pair), at_once.logs_with(pair));
        }
    }
    assert_eq!(later.vectors(LogId(4)).count(), 0);
}

#[test]
fn random_picking_is_even_and_follows_from_the_seed() {
    let elements: BTreeSet<ElementId> = (1..=12).map(ElementId).collect();
    let mut often: BTreeMap<ElementId, u32> = BTreeMap::new();
    for nth in 0..1_200 {
        let of_log = picked(Picking::Random { seed: 7 }, &elements, 2_500, nth);
        assert_eq!(of_log.len(), 3);
        assert_eq!(of_log, picked(Picking::Random { seed: 7 }, &elements, 2_500, nth));
        of_log.into_iter().for_each(|id| *often.entry(id).or_default() += 1);
    }
    // 300 each, on average; seven standard deviations.
    assert!(often.values().all(|often| often.abs_diff(300) < 105), "{often:?}");
    let differs = |nth| {
        picked(Picking::Random { seed: 7 }, &elements, 2_500, nth)
            != picked(Picking::Random { seed: 8 }, &elements, 2_500, nth)
    };
    assert!((0..100).filter(|nth| differs(*nth)).count() > 90);
}

fn rows() -> impl Strategy<Value = Vec<BTreeMap<u32, u8>>> {
    vec(btree_map(1u32..7, prop_oneof![0u8..2, 0u8..9], 0..6), 1..30)
}

fn of_rows(rows: &[BTreeMap<u32, u8>]) -> Universe {
    let mut builder = UniverseBuilder::new((1..=7).map(ElementId));
    for row in rows {
        builder.add_failing(
            row.iter()
                .map(|(id, vector)| (ElementId(*id), VectorHash([*vector; 32]))),
        );
    }
    builder.build()
}

/// By comparing with all others.
fn similars_by_all(
    universe: &Universe,
    settings: NeighbourSettings,
    log: LogId,
    is_found: impl Fn(LogId) -> bool,
) -> Vec<Similar> {
    let weights = Weights::new(universe, settings.metric);
    let compared = universe.logs().map(|other| Similar {
        log: other,
        similarity: similarity(universe, &weights, log, other),
    });
    let fills = |other: LogId| !settings.only_filling || !universe.recorded(other).is_subset(&universe.recorded(log));
    let mut similars: Vec<Similar> = compared
        .filter(|similar| similar.log != log && settings.is_similar(similar.similarity))
        .filter(|similar| fills(similar.log) && is_found(similar.log))
        .collect();
    similars.sort_by_key(|similar| (Reverse(similar.similarity), similar.log));
    similars.truncate(settings.similars_max);
    similars
}

proptest! {
    #[test]
    fn similarity_is_what_the_formula_says(rows in rows()) {
        let universe = of_rows(&rows);
        let weights = Weights::new(&universe, Metric::Dispersion);
        let all: u128 = universe.elements().map(|element| universe.vectors_of(element).count() as u128).sum();
        for (one, other) in universe.logs().zip(universe.logs().skip(1)) {
            let [first, second] = [one, other].map(|log| &rows[log.0 as usize]);
            let both = || first.iter().filter_map(|(id, vector)| Some((id, vector == second.get(id)?)));
            let equal = both().filter(|(_, is_equal)| *is_equal).count() as u128;
            let differing = both().count() as u128 - equal;
            prop_assert_eq!(ratio(&universe, Metric::Plain, one.0, other.0), Ratio::new(equal * (7 - differing), 49));
            let weigh = |wanted: bool| both().filter(move |(_, is)| *is == wanted).map(|(id, _)| universe.vectors_of(ElementId(*id)).count() as u128).sum::<u128>();
            let expected = Ratio::new(weigh(true) * (all - weigh(false)), all * all);
            prop_assert_eq!(similarity(&universe, &weights, one, other).ratio(), expected);
        }
    }

    #[test]
    fn the_index_finds_what_comparing_all_finds(rows in rows(), only_filling: bool, similars_max in 1usize..8) {
        let universe = of_rows(&rows);
        for metric in [Metric::Plain, Metric::Dispersion, Metric::None] {
            for threshold in [Threshold::Literal, Threshold::Scaled] {
                let settings = NeighbourSettings { threshold, only_filling, similars_max, ..NeighbourSettings::new(metric) };
                // As if it were large, but nothing is left out.
                let large = NeighbourSettings { exact_logs_max: 0, frequency_max: usize::MAX, candidates_max: usize::MAX, ..settings };
                for mut neighbours in [settings, large].map(|settings| Neighbours::new(&universe, settings)) {
                    for log in universe.logs() {
                        prop_assert_eq!(neighbours.similars(log), similars_by_all(&universe, settings, log, |_| true));
                    }
                }
            }
        }
    }

    #[test]
    fn a_capped_index_finds_all_that_share_a_rare_vector(rows in rows(), frequency_max in 1usize..6) {
        let universe = of_rows(&rows);
        let settings = NeighbourSettings { exact_logs_max: 0, frequency_max, candidates_max: usize::MAX, ..NeighbourSettings::new(Metric::Dispersion) };
        let mut neighbours = Neighbours::new(&universe, settings);
        for log in universe.logs() {
            let rare: BTreeSet<LogId> = universe.vectors(log).map(|pair| universe.logs_with(pair)).filter(|logs| logs.len() <= frequency_max).flatten().copied().collect();
            prop_assert_eq!(neighbours.similars(log), similars_by_all(&universe, settings, log, |other| rare.contains(&other)));
        }
    }

    #[test]
    fn relevance_is_what_the_formula_says(rows in rows()) {
        let universe = of_rows(&rows);
        for metric in [Metric::Plain, Metric::Dispersion] {
            let settings = NeighbourSettings::new(metric);
            let sorted = by_relevance(&universe, &mut Neighbours::new(&universe, settings), ALPHA);
            prop_assert_eq!(sorted.len(), rows.len());
            prop_assert!(sorted.is_sorted_by_key(|relevant| (Reverse(relevant.relevance), relevant.log)));
            for relevant in sorted {
                let similars = similars_by_all(&universe, settings, relevant.log, |_| true);
                let fill: BTreeSet<ElementId> = similars.iter().map(|similar| similar.log).chain([relevant.log]).flat_map(|log| universe.recorded(log)).collect();
                let mean = similars.iter().map(|similar| similar.similarity.ratio().as_f64()).sum::<f64>() / similars.len().max(1) as f64;
                let expected = 0.7 * fill.len() as f64 / 7.0 + 0.3 * mean;
                prop_assert!((relevant.relevance.as_f64() - expected).abs() < 1e-9);
            }
        }
    }
}
