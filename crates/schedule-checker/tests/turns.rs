//! What the judge of turns accepts and rejects.
use run_model::AccessId;
use run_model::Logs;
use run_model::Method;
use run_model::Placed;
use run_model::RunKind;
use run_model::Schedule;
use run_model::ScheduleEdit;
use run_model::ScheduleKind;
use run_model::Spot;
use run_model::Stamp;
use run_model::ThreadIndex;
use run_model::ThreadLog;
use run_model::ThreadSchedule;
use run_model::TurnRun;
use run_model::Turns;
use schedule_checker::Disorder;
use schedule_checker::Rejection;
use schedule_checker::check;

/// Is `turns` the order of these inputs? Their threads did nothing else.
fn check_turns(inputs: &[Vec<Placed>], turns: &Turns) -> Result<(), Disorder> {
    let log = |inputs: &Vec<Placed>| ThreadLog {
        inputs: inputs.clone(),
        ..ThreadLog::default()
    };
    let logs = Logs {
        method: Method::Inputs,
        threads: inputs.iter().map(log).collect(),
    };
    let schedule = Schedule {
        threads: vec![ThreadSchedule::default(); inputs.len()],
        kind: ScheduleKind::Turns(turns.clone()),
    };
    match check(&logs, &schedule) {
        Ok(_) => Ok(()),
        Err(Rejection::Order(why)) => Err(why),
        Err(other) => panic!("{other}"),
    }
}

fn placed(times: &[u64]) -> Vec<Placed> {
    let input = |time: &u64| Placed {
        time: *time,
        created: None,
    };
    times.iter().map(input).collect()
}

fn turns(threads: u32, runs: &[(u32, u32)]) -> Turns {
    let run = |(thread, count): &(u32, u32)| TurnRun {
        thread: ThreadIndex(*thread),
        count: *count,
        kind: RunKind::Inputs,
    };
    Turns {
        threads,
        runs: runs.iter().map(run).collect(),
        edits: Vec::new(),
    }
}

fn spot(thread: u32, calls: u64) -> Spot {
    Spot {
        thread: ThreadIndex(thread),
        calls,
        nth: 1,
    }
}

#[test]
fn accepts_the_order_of_times() {
    let inputs = [placed(&[1, 4, 9]), placed(&[2, 3]), placed(&[])];
    assert_eq!(check_turns(&inputs, &turns(3, &[(0, 1), (1, 2), (0, 2)])), Ok(()));
}

#[test]
fn accepts_what_merging_gives_and_rejects_it_when_two_neighbours_change_places() {
    // Every order of two threads' six inputs, and clocks that go back within a thread.
    for pattern in 0u32..64 {
        for back in [0, 3] {
            let mut times = [Vec::new(), Vec::new()];
            for place in 0..6u64 {
                let thread = (pattern >> place & 1) as usize;
                times[thread].push(100 + 10 * place - if place == 4 { back } else { 0 });
            }
            let stamp = |time: &u64| Stamp {
                time: *time,
                ..Stamp::default()
            };
            let stamps = times.each_ref().map(|times| times.iter().map(stamp).collect());
            let merged = Turns::merge(&stamps);
            let inputs = [placed(&times[0]), placed(&times[1])];
            assert_eq!(check_turns(&inputs, &merged), Ok(()), "{times:?}");
            for at in 1..merged.runs.len() {
                let mut wrong = merged.clone();
                wrong.runs.swap(at - 1, at);
                assert!(check_turns(&inputs, &wrong).is_err(), "{times:?}, {at}");
            }
        }
    }
}

#[test]
fn rejects_orders_that_lack_an_input_or_have_one_too_many() {
    let inputs = [placed(&[1, 4]), placed(&[2])];
    let wrong = |recorded, ordered, thread| {
        Err(Disorder::Inputs {
            thread: ThreadIndex(thread),
            recorded,
            ordered,
        })
    };
    assert_eq!(check_turns(&inputs, &turns(2, &[(0, 1), (1, 1)])), wrong(2, 1, 0));
    assert_eq!(
        check_turns(&inputs, &turns(2, &[(0, 1), (1, 2), (0, 1)])),
        wrong(1, 2, 1)
    );
    assert_eq!(
        check_turns(&inputs, &turns(2, &[(0, 1), (7, 1)])),
        Err(Disorder::Run { index: 1 })
    );
    assert_eq!(
        check_turns(&inputs, &turns(2, &[(0, 0), (1, 1)])),
        Err(Disorder::Run { index: 0 })
    );
    assert!(matches!(
        check_turns(&inputs, &turns(1, &[])),
        Err(Disorder::Threads { .. })
    ));
}

#[test]
fn rejects_threads_that_are_not_born() {
    let mut inputs = [placed(&[5, 7]), placed(&[2])];
    inputs[0][0].created = Some(ThreadIndex(1));
    let order = turns(2, &[(1, 1), (0, 2)]);
    let unborn = Disorder::Unborn { thread: ThreadIndex(1) };
    assert_eq!(check_turns(&inputs, &order), Err(unborn));
    inputs[1][0].time = 6;
    assert_eq!(check_turns(&inputs, &turns(2, &[(0, 1), (1, 1), (0, 1)])), Ok(()));
}

#[test]
fn rejects_edits_at_places_that_are_not_there() {
    let inputs = [placed(&[1, 4]), placed(&[2])];
    let judge = |edits: &[ScheduleEdit]| {
        let order = Turns {
            edits: edits.to_vec(),
            ..turns(2, &[(0, 1), (1, 1), (0, 1)])
        };
        check_turns(&inputs, &order)
    };
    let preempt = |at: Spot, to: u32| ScheduleEdit::Preempt {
        at,
        to: ThreadIndex(to),
    };
    let access = |thread, calls| AccessId {
        block: spot(thread, calls),
        address: 64,
        nth: 0,
    };
    let reverse = |hold, until| ScheduleEdit::Reverse { hold, until };
    assert_eq!(
        judge(&[preempt(spot(0, 2), 1), reverse(access(1, 1), access(0, 0))]),
        Ok(())
    );
    for wrong in [
        preempt(spot(0, 3), 1),
        preempt(spot(0, 0), 2),
        preempt(spot(2, 0), 1),
        reverse(access(1, 2), access(0, 0)),
        reverse(access(1, 0), access(4, 0)),
        ScheduleEdit::Advance {
            at: spot(0, 3),
            to: ThreadIndex(1),
        },
        ScheduleEdit::Delay { hold: access(1, 2) },
    ] {
        assert_eq!(judge(&[wrong]), Err(Disorder::Nowhere { index: 0 }));
    }
    assert_eq!(judge(&[preempt(spot(0, 0), 0)]), Ok(()));
    assert_eq!(
        judge(&[reverse(access(1, 0), access(1, 1))]),
        Err(Disorder::Alone { index: 0 })
    );
    let twice = [preempt(spot(0, 1), 1), preempt(spot(0, 1), 1)];
    assert_eq!(judge(&twice), Err(Disorder::Twice { index: 1 }));
}
