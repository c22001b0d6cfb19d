//! Random small programs, each recorded by chance: what the scheduler does is compared with what can be done at all.
use crate::tests::programs::Op;
use crate::tests::programs::Program;
use crate::tests::programs::can_get_stuck;
use crate::tests::programs::record;
use crate::tests::world::World;
use proptest::prelude::*;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::kind;
use simulated_machine::explore::Case;
use simulated_machine::explore::Simulated;
use simulated_machine::explore::run_once;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

const STEPS_MAX: usize = 200_000;

/// A part of what a thread does: an input, a critical section with inputs in it or without, two that nest, asking others to go first.
fn part() -> impl Strategy<Value = Vec<Op>> {
    let inside = prop_oneof![Just(Vec::new()), Just(vec![Op::Input]), Just(vec![Op::Yield])];
    let section = (0..2u64, inside.clone()).prop_map(|(lock, inside)| {
        let mut ops = vec![Op::Lock(lock)];
        ops.extend(inside);
        ops.push(Op::Unlock(lock));
        ops
    });
    // Always in this order: a program that can stop by itself is of no use here.
    let nested = inside.prop_map(|inside| {
        let mut ops = vec![Op::Lock(0), Op::Lock(1)];
        ops.extend(inside);
        ops.extend([Op::Unlock(1), Op::Unlock(0)]);
        ops
    });
    prop_oneof![
        3 => Just(vec![Op::Input]),
        3 => section,
        1 => nested,
        1 => Just(vec![Op::Yield]),
    ]
}

fn thread() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(part(), 0..4).prop_map(|parts| parts.concat())
}

/// The main thread creates the others, at once or later, and waits for their ends or not.
fn program() -> impl Strategy<Value = Program> {
    (proptest::collection::vec(thread(), 2..4), any::<bool>(), any::<bool>()).prop_map(|(mut threads, late, joins)| {
        let others = 1..threads.len() as u32;
        let creations: Vec<Op> = others.clone().map(Op::Create).collect();
        let at = if late { threads[0].len() } else { 0 };
        threads[0].splice(at..at, creations);
        if joins {
            threads[0].extend(others.map(Op::Join));
        }
        threads
    })
}

/// At some switch point of some thread, another one goes on.
fn edit() -> impl Strategy<Value = EditEntry> {
    (0..3u32, 0..3u64, 1..5u64, 0..3u32, any::<bool>()).prop_map(|(thread, calls, nth, to, advances)| EditEntry {
        kind: if advances { kind::ADVANCE } else { kind::PREEMPT },
        to,
        at: Place {
            thread,
            calls,
            nth,
            ..Place::default()
        },
        ..EditEntry::default()
    })
}

fn replay(program: &Program, order: &[u32], edits: &[EditEntry], seed: u64) -> Arc<World<Simulated>> {
    let world = Arc::new(World::new(Simulated, program, order, edits));
    run_once(seed, STEPS_MAX, None, || {
        world.turns().open();
        world.turns().begin(0);
        (0..program.len() as u32).fold(Case::new(), |case, thread| {
            let world = world.clone();
            case.thread(move || world.run(thread))
        })
    });
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_kept_and_nobody_stands_who_could_go_on(
        program in program(),
        edits in proptest::collection::vec(edit(), 0..3),
        draws in proptest::collection::vec(any::<prop::sample::Index>(), 64),
        seed in any::<u64>(),
    ) {
        let mut draws = draws.iter().cycle();
        let order = record(&program, |count| draws.next().expect("a cycle").index(count));
        let Some(order) = order else { return Ok(()) };
        let edits = edits.iter().filter(|edit| (edit.to as usize) < program.len()).copied().collect::<Vec<_>>();
        let world = replay(&program, &order, &edits, seed);
        {
            let model = world.model();
            prop_assert!(model.wrong.is_empty(), "{:?}", model.wrong);
            prop_assert_eq!(&model.inputs[..], &order[..model.inputs.len()]);
        }
        // It stands only if it says so, and only where some order of critical sections leads to.
        prop_assert_eq!(world.is_over(), world.model().deadlock.is_none());
        if world.is_over() {
            prop_assert_eq!(&world.model().inputs, &order);
        } else {
            prop_assert!(can_get_stuck(&program, &order), "it stands, and could not have");
        }
        // Whatever the machine does in between: the same is decided.
        let again = replay(&program, &order, &edits, seed ^ 0x5555_5555);
        prop_assert_eq!(&world.model().trace, &again.model().trace);
    }
}

/// The comparison compares something: there are programs in which who goes on where decides whether all come through.
#[test]
fn programs_of_all_kinds_are_drawn() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut over, mut can_stand) = (0, 0);
    for seed in 0..400 {
        let program = program().new_tree(&mut runner).expect("a program").current();
        let mut random = simulated_machine::Random::new(seed);
        let order = record(&program, |count| random.below(count as u64) as usize).expect("locks nest in one order");
        let world = replay(&program, &order, &[], seed);
        can_stand += usize::from(can_get_stuck(&program, &order));
        over += usize::from(world.is_over());
    }
    std::println!("{over} of 400 come through, {can_stand} need not have");
    assert!(over > 350 && can_stand > 10, "{over} {can_stand}");
}
