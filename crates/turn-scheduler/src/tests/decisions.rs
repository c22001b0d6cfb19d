//! Who goes on, case by case.
use crate::IfDue;
use crate::Process;
use crate::State;
use crate::Wait;
use crate::Way;
use crate::tests::plain::Plain;
use crate::tests::programs::Op;
use crate::tests::world::World;
use crate::tests::world::lock_at;
use run_model::RunKind;
use runtime_abi::turns_file::TurnRun;
use std::vec;
use std::vec::Vec;

const ETIMEDOUT: i32 = -110;
const EINTR: i32 = -4;

/// Three threads that are there, with nothing to do by themselves, whose inputs have this order.
fn three(order: &[u32]) -> World<Plain> {
    begin(World::new(Plain, &vec![Vec::new(); 3], order, &[]))
}

fn begin(world: World<Plain>) -> World<Plain> {
    world.turns().open();
    world.turns().begin(0);
    world.turns().created(1);
    world.turns().created(2);
    world
}

fn states(world: &World<Plain>, states: [State; 3]) {
    for (thread, state) in states.into_iter().enumerate() {
        world.turns().turn_state(thread as u32).set(state);
    }
}

fn run(thread: u32, kind: RunKind) -> TurnRun {
    TurnRun {
        thread,
        count: u32::from(kind == RunKind::Inputs),
        next: 0,
        kind: kind as u32,
    }
}

fn waits(world: &World<Plain>, thread: u32, address: u64, if_due: IfDue, is_timed: bool) {
    let wait = Wait {
        address,
        expected: (&world).load(address),
        bits: u32::MAX,
        is_shared: false,
        if_due,
        is_timed,
        ended_by: None,
    };
    let turns = world.turns();
    turns.turn_state(thread).begin_wait(&wait, turns.draw_ticket());
}

#[test]
fn of_those_that_can_the_one_with_the_earliest_input() {
    let world = three(&[2, 1, 0]);
    assert_eq!(world.turns().choose(), Some(2));
    states(&world, [State::Ready, State::Ready, State::Gone]);
    assert_eq!(world.turns().choose(), Some(1));
}

#[test]
fn at_an_input_only_who_is_next() {
    let world = three(&[1, 0, 2]);
    states(&world, [State::Event; 3]);
    let can = [0, 1, 2].map(|thread| world.turns().can_go_on(thread));
    assert_eq!(can, [false, true, false]);
    assert_eq!(world.turns().choose(), Some(1));
}

#[test]
fn who_waits_for_a_lock_lends_its_place_to_the_holder() {
    let world = three(&[0, 1, 2]);
    (&world).store(lock_at(0), 2);
    (&world).store(lock_at(0) + 8, (&world).name_of(2));
    states(&world, [State::Ready, State::Ready, State::Ready]);
    waits(&world, 0, lock_at(0), IfDue::Nothing, false);
    assert_eq!(
        world.turns().choose(),
        Some(2),
        "thread 0 is due, and 2 has what it needs"
    );
}

#[test]
fn who_has_given_way_comes_last_until_all_have() {
    let world = three(&[0, 1, 2]);
    let give = |thread: u32, way| world.turns().turn_state(thread).give_way(way);
    give(0, Way::Asked);
    assert_eq!(world.turns().choose(), Some(1));
    give(1, Way::Asked);
    give(2, Way::Asked);
    assert_eq!(world.turns().choose(), Some(0), "all have: the earliest again");
    give(0, Way::Spins);
    assert_eq!(world.turns().choose(), Some(1), "who asked may go on again");
}

#[test]
fn who_spins_comes_last_as_long_as_inputs_happen_without_it() {
    let world = three(&[0, 1, 2]);
    states(&world, [State::Ready, State::Gone, State::Gone]);
    world.turns().turn_state(0).give_way(Way::Spins);
    assert_eq!(world.turns().choose(), Some(0));
    assert!(world.turns().turn_state(0).spins(), "once");
    assert_eq!(world.turns().choose(), Some(0));
    assert!(
        !world.turns().turn_state(0).spins(),
        "no input has happened since: it may"
    );
}

#[test]
fn who_is_to_create_the_thread_that_is_due_comes_first() {
    let program = vec![vec![], vec![Op::Create(2)], vec![]];
    let world = World::new(Plain, &program, &[2, 0, 1], &[]);
    world.turns().open();
    world.turns().begin(0);
    world.turns().created(1);
    assert_eq!(world.turns().choose(), Some(1), "though 0 has an earlier input");
}

#[test]
fn a_thread_has_to_come_to_a_stop_before_others_go_on() {
    let mut world = World::new(Plain, &vec![Vec::new(); 3], &[0, 1], &[]);
    world.set_runs(vec![
        run(1, RunKind::Rest),
        run(0, RunKind::Inputs),
        run(1, RunKind::Inputs),
    ]);
    let world = begin(world);
    assert_eq!(world.turns().next_thread(), Some(1));
    assert_eq!(world.turns().next_input(), None);
    world.turns().turn_state(1).set(State::Event);
    assert_eq!(world.turns().next_input(), Some(0), "it has");
}

#[test]
fn nobody_need_come_to_a_stop_if_nobody_can_go_on() {
    let mut world = World::new(Plain, &vec![Vec::new(); 3], &[0, 1], &[]);
    world.set_runs(vec![run(1, RunKind::Rest), run(0, RunKind::Inputs)]);
    let world = begin(world);
    states(&world, [State::Event, State::Ready, State::Gone]);
    // It is about to, and waits for a thread of ours meanwhile.
    let wait = Wait {
        address: lock_at(0),
        expected: 0,
        bits: u32::MAX,
        is_shared: false,
        if_due: IfDue::Nothing,
        is_timed: false,
        ended_by: Some(2),
    };
    world.turns().turn_state(1).begin_wait(&wait, 1);
    assert_eq!(world.turns().next_thread(), Some(1));
    assert_eq!(world.turns().choose(), Some(0));
}

#[test]
fn who_acted_on_others_goes_on_when_the_order_says_or_if_nobody_can() {
    let mut world = World::new(Plain, &vec![Vec::new(); 3], &[0, 1], &[]);
    let runs = [(0, RunKind::Inputs), (1, RunKind::Inputs), (0, RunKind::Return)];
    world.set_runs(runs.map(|(thread, kind)| run(thread, kind)).to_vec());
    let world = begin(world);
    world.turns().event_happened();
    assert!(world.turns().has_to_return(0));
    states(&world, [State::Event, State::Ready, State::Gone]);
    assert_eq!(world.turns().choose(), Some(1));
    world.turns().turn_state(1).set(State::Gone);
    assert_eq!(world.turns().choose(), Some(0));
    assert!(!world.turns().has_to_return(0), "it has, before its time");
}

#[test]
fn a_wait_that_was_interrupted_ends_when_that_is_due_and_before_any_time_limit() {
    let world = three(&[1, 0]);
    states(&world, [State::Ready, State::Ready, State::Gone]);
    waits(&world, 0, lock_at(0), IfDue::Nothing, true);
    waits(&world, 1, lock_at(1), IfDue::AtLast(EINTR), false);
    assert_eq!(world.turns().choose(), Some(1));
    assert_eq!(world.turns().turn_state(1).result(), EINTR);
    assert_eq!(world.turns().turn_state(0).state(), State::Futex);
}

#[test]
fn a_time_limit_is_over_if_nobody_can_go_on_but_not_for_ever() {
    let world = three(&[1, 0]);
    states(&world, [State::Ready, State::Event, State::Gone]);
    world.turns().turn_state(1).set(State::Gone);
    for _ in 0..64 {
        waits(&world, 0, lock_at(0), IfDue::Nothing, true);
        assert_eq!(world.turns().choose(), Some(0));
        assert_eq!(world.turns().turn_state(0).result(), ETIMEDOUT);
    }
    waits(&world, 0, lock_at(0), IfDue::Nothing, true);
    assert_eq!(
        world.turns().choose(),
        None,
        "it waits again and again, and no input happens"
    );
}

#[test]
fn two_that_wait_for_each_other_are_a_deadlock() {
    let world = three(&[0, 1]);
    states(&world, [State::Ready, State::Ready, State::Gone]);
    for (lock, holder) in [(0, 1), (1, 0)] {
        (&world).store(lock_at(lock), 2);
        (&world).store(lock_at(lock) + 8, (&world).name_of(holder));
    }
    waits(&world, 0, lock_at(0), IfDue::Nothing, false);
    waits(&world, 1, lock_at(1), IfDue::Nothing, false);
    assert_eq!(world.turns().choose(), None);
}
