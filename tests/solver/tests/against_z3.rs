//! The solver against Z3: solvable exactly when Z3 says so, with hints, without, and with wrong ones. Every answer is
//! verified: the edges decide the problem, the circle is one.
use constraint_solver::Hints;
use constraint_solver::problem::Problem;
use constraint_solver::resolve;
use refrain_solver_lab::generate::FAMILIES;
use refrain_solver_lab::generate::Family;
use refrain_solver_lab::oracle;
use refrain_solver_lab::oracle::Answer;
use refrain_solver_lab::verify::verify;
use refrain_solver_lab::verify::verify_circle;
use std::time::Duration;

/// How many instances of which size.
struct Load {
    family: Family,
    /// Sizes go from 4 to this.
    small: usize,
    small_count: u64,
    medium: usize,
    medium_count: u64,
}

const fn load(family: Family, small: usize, small_count: u64, medium: usize, medium_count: u64) -> Load {
    Load {
        family,
        small,
        small_count,
        medium,
        medium_count,
    }
}

/// About a minute of one core, most of it Z3's. Raise the sizes as the solver gets better.
const LOADS: [Load; 18] = [
    load(Family::Mixed, 30, 150, 300, 8),
    load(Family::EquationOne, 30, 150, 200, 8),
    load(Family::EquationOneMerged, 30, 50, 200, 8),
    load(Family::EquationOneUpdates, 30, 150, 150, 8),
    load(Family::HotLocation, 30, 150, 300, 8),
    load(Family::ManyLocations, 60, 150, 600, 8),
    load(Family::Threads64, 100, 100, 400, 8),
    load(Family::Updates, 60, 100, 600, 8),
    load(Family::BlindWrites, 30, 150, 200, 8),
    load(Family::Nested, 20, 200, 80, 20),
    load(Family::NestedTied, 20, 200, 80, 20),
    load(Family::BoundedLinkage, 30, 200, 200, 10),
    load(Family::VersionConflicts, 30, 200, 200, 10),
    load(Family::VersionConflictsExpanded, 30, 100, 200, 5),
    load(Family::Planted3Sat, 30, 200, 80, 20),
    load(Family::Random3Sat, 30, 200, 80, 20),
    load(Family::Arbitrary, 24, 600, 60, 100),
    load(Family::Hopeless, 40, 300, 150, 20),
];

/// An instance that takes Z3 longer is left to the verification of our own answer.
const LIMIT: Duration = Duration::from_secs(10);

fn compare(family: Family) {
    let load = LOADS
        .iter()
        .find(|load| load.family == family)
        .expect("every family is listed");
    let mut unsatisfiable = 0;
    for seed in 0..load.small_count {
        let size = 4 + seed as usize % (load.small - 3);
        unsatisfiable += u64::from(!compare_one(family, size, seed));
    }
    for seed in 0..load.medium_count {
        unsatisfiable += u64::from(!compare_one(family, load.medium, seed));
    }
    let count = load.small_count + load.medium_count;
    if family.is_satisfiable() {
        assert_eq!(unsatisfiable, 0, "{family:?} is made from executions");
    } else {
        // A family without the one or the other would test half of it.
        let share = unsatisfiable as f64 / count as f64;
        assert!(
            (0.05..0.95).contains(&share),
            "{unsatisfiable} of {count} of {family:?} have no solution"
        );
    }
}

/// Is there an order?
fn compare_one(family: Family, size: usize, seed: u64) -> bool {
    let expected = oracle::ask(&family.instance(size, seed, false), LIMIT).answer;
    let mut solvable = None;
    for misleading in [false, true] {
        let problem = family.instance(size, seed, misleading);
        for hints in [Hints::Use, Hints::Ignore] {
            let found = decide(&problem, hints).unwrap_or_else(|why| {
                panic!("{family:?}, size {size}, seed {seed}, misleading {misleading}, {hints:?}: {why}")
            });
            let agrees = match expected {
                Answer::Satisfiable => found,
                Answer::Unsatisfiable => !found,
                Answer::Unknown => *solvable.get_or_insert(found) == found,
            };
            assert!(
                agrees,
                "{family:?}, size {size}, seed {seed}, misleading {misleading}, {hints:?}: Z3 says {expected:?}"
            );
            solvable = Some(found);
        }
    }
    solvable == Some(true)
}

fn decide(problem: &Problem, hints: Hints) -> Result<bool, String> {
    match resolve(problem, hints) {
        Ok(resolved) => verify(problem, &resolved).map(|()| true),
        Err(circle) => verify_circle(problem, &circle).map(|()| false),
    }
}

/// A test for each, so that they run side by side.
macro_rules! tests {
    ($($name:ident: $family:ident,)*) => {
        $(#[test]
        fn $name() {
            compare(Family::$family);
        })*

        #[test]
        fn no_family_is_forgotten() {
            let tested = [$(Family::$family),*];
            assert!(FAMILIES.iter().all(|family| tested.contains(family)));
        }
    };
}

tests! {
    mixed: Mixed,
    equation_one: EquationOne,
    equation_one_merged: EquationOneMerged,
    equation_one_updates: EquationOneUpdates,
    hot_location: HotLocation,
    many_locations: ManyLocations,
    threads_64: Threads64,
    updates: Updates,
    blind_writes: BlindWrites,
    nested: Nested,
    nested_tied: NestedTied,
    bounded_linkage: BoundedLinkage,
    version_conflicts: VersionConflicts,
    version_conflicts_expanded: VersionConflictsExpanded,
    planted_3_sat: Planted3Sat,
    random_3_sat: Random3Sat,
    arbitrary: Arbitrary,
    hopeless: Hopeless,
}
