//! Every order of steps in which threads can hand the turn over, with x86's store buffers.
use crate::planted;
use crate::planted::Fault;
use crate::tests::programs::Op;
use crate::tests::programs::Program;
use crate::tests::world::World;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::kind;
use simulated_machine::explore::Case;
use simulated_machine::explore::Limits;
use simulated_machine::explore::Report;
use simulated_machine::explore::Simulated;
use simulated_machine::explore::explore;
use std::format;
use std::sync::Arc;
use std::vec;

const LIMITS: Limits = Limits {
    executions: 200_000,
    steps: 20_000,
    all_orders: false,
    delays: None,
};

/// Two threads that wait for each other's inputs, and for a lock.
fn alternating() -> (Program, &'static [u32]) {
    let main = vec![Op::Create(1), Op::Input, Op::Lock(0), Op::Input, Op::Unlock(0)];
    let other = vec![Op::Input, Op::Lock(0), Op::Input, Op::Unlock(0)];
    (vec![main, other], &[0, 1, 0, 1])
}

/// One ends, and the other one waits for that, and decides.
fn joining() -> (Program, &'static [u32]) {
    let main = vec![Op::Create(1), Op::Join(1), Op::Input];
    (vec![main, vec![Op::Input]], &[1, 0])
}

/// Three threads that pass the turn around.
fn round() -> (Program, &'static [u32]) {
    let main = vec![Op::Create(1), Op::Create(2), Op::Input, Op::Yield, Op::Input];
    (
        vec![main, vec![Op::Input, Op::Input], vec![Op::Input]],
        &[0, 1, 2, 1, 0],
    )
}

fn explore_turns(fault: Option<Fault>, (program, order): (Program, &[u32]), edits: &[EditEntry]) -> Report {
    planted::with(fault, || {
        explore(&LIMITS, || {
            let world = Arc::new(World::new(Simulated, &program, order, edits));
            world.turns().open();
            world.turns().begin(0);
            let threads = 0..program.len() as u32;
            let case = threads.fold(Case::new(), |case, thread| {
                let world = world.clone();
                case.thread(move || world.run(thread))
            });
            let order = order.to_vec();
            case.check(move |ending| {
                let model = world.model();
                if let Some(wrong) = model.wrong.first() {
                    return Err(wrong.clone());
                }
                if let Some(due) = model.deadlock {
                    return Err(format!("it stands after {:?}: {due:?}", model.inputs));
                }
                match ending.is_complete() && ending.idle == 0 && model.inputs == order {
                    true => Ok(()),
                    false => Err(format!("a wake-up is missed after {:?}: {ending:?}", model.inputs)),
                }
            })
        })
    })
}

#[test]
fn the_turn_is_never_lost_nor_doubled() {
    for case in [alternating(), joining(), round()] {
        let report = explore_turns(None, case, &[]);
        report.assert_clean();
        std::println!("{} executions, {} steps", report.executions, report.steps_max);
        assert!(report.executions > 1, "there is something to explore");
    }
}

fn finds(fault: Fault, case: (Program, &[u32]), edits: &[EditEntry], message: &str) {
    let report = explore_turns(Some(fault), case, edits);
    let failure = report.failure.unwrap_or_else(|| panic!("{fault:?} is not found"));
    std::println!("{fault:?}: after {} executions: {}", report.executions, failure.message);
    assert!(failure.message.contains(message), "{fault:?}: {}", failure.message);
}

#[test]
fn a_wake_before_the_word_is_found() {
    finds(Fault::WakesBeforeGo, alternating(), &[], "a wake-up is missed");
}

#[test]
fn sleeping_whatever_the_word_says_is_found() {
    finds(Fault::SleepsOnAnything, alternating(), &[], "a wake-up is missed");
}

#[test]
fn a_go_that_is_overwritten_is_found() {
    finds(Fault::TakesInTwoSteps, alternating(), &[], "a wake-up is missed");
}

#[test]
fn deciding_before_the_kernel_is_done_is_found() {
    finds(Fault::DecidesTooEarly, joining(), &[], "it stands");
}

#[test]
fn a_turn_for_who_cannot_go_on_is_found() {
    // Before it locks: thread 1 stands at its input by then, which comes later.
    let edit = EditEntry {
        kind: kind::PREEMPT,
        to: 1,
        at: Place {
            thread: 0,
            calls: 0,
            // The first is behind the creation.
            nth: 2,
            ..Place::default()
        },
        ..EditEntry::default()
    };
    let main = vec![
        Op::Create(1),
        Op::Yield,
        Op::Yield,
        Op::Lock(0),
        Op::Unlock(0),
        Op::Input,
    ];
    let program = vec![main, vec![Op::Input]];
    let order = &[0, 1];
    explore_turns(None, (program.clone(), order), &[edit]).assert_clean();
    finds(Fault::PassesToAnybody, (program, order), &[edit], "cannot go on");
}
