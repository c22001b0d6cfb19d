//! OREO's formula as Z3 sees it, and our own answer to the same logs: solvable exactly when Z3 says so, unless we say that
//! a read was left out, and Z3's order of events is a schedule that the checker accepts.
use constraint_solver::Hints;
use constraint_solver::solve;
use constraint_solver::write_formula;
use run_model::Gate;
use run_model::Kind;
use run_model::Logs;
use run_model::Method;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;
use simulated_machine::Fault;
use simulated_machine::Random;
use simulated_machine::Shape;
use simulated_machine::Tuning;
use simulated_machine::generate;
use simulated_machine::record;
use z3::SatResult;
use z3::Solver;
use z3::ast::Int;

fn recorded(seed: u64, method: Method) -> Logs {
    let mut program = generate(seed, Shape::SMALL);
    program.values = [0, 2, 3][(seed / 5 % 3) as usize];
    record(&program, seed, method, Tuning::PLAIN, Fault::None).logs()
}

fn formula(logs: &Logs) -> String {
    let mut text = Vec::new();
    write_formula(logs, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The events of Z3's model, in its order; `None`: there is none.
fn ask(text: &str) -> Option<Vec<(u32, u64)>> {
    let solver = Solver::new();
    solver.from_string(text);
    if solver.check() != SatResult::Sat {
        return None;
    }
    let model = solver.get_model()?;
    let mut events = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("(declare-const O_")) {
        let name = line.split(' ').next()?;
        let (thread, event) = name.split_once('_')?;
        let place = model.eval(&Int::new_const(format!("O_{name}")), true)?.as_i64()?;
        events.push((place, thread.parse().ok()?, event.parse().ok()?));
    }
    events.sort_unstable();
    Some(events.into_iter().map(|(_, thread, event)| (thread, event)).collect())
}

/// Everything in this order, and nothing at once.
fn one_by_one(logs: &Logs, order: &[(u32, u64)]) -> Schedule {
    let mut schedule = Schedule::default();
    for (thread, log) in (0..).zip(&logs.threads) {
        let gate = |record: &Record| {
            let place = order.iter().position(|at| *at == (thread, record.event));
            let before = &order[..place.unwrap_or(0)];
            let others = (0..logs.threads.len() as u32).filter(|other| *other != thread);
            let last = |other| before.iter().rev().find(|at| at.0 == other);
            let waits: Points = others
                .filter_map(last)
                .map(|(other, event)| Point {
                    thread: ThreadIndex(*other),
                    count: event + 1,
                })
                .collect();
            let record = Record {
                sources: Points::NONE,
                version: 0,
                ..record.clone()
            };
            Gate { record, waits }
        };
        schedule.threads.push(ThreadSchedule {
            gates: log.records.iter().map(gate).collect(),
            events: log.events,
        });
    }
    schedule
}

/// `judged`: the checker has to accept Z3's order. Returns whether there is one.
fn compare(logs: &Logs, judged: bool) -> bool {
    let solution = solve(logs, Hints::Use);
    assert_eq!(solve(logs, Hints::Ignore).is_ok(), solution.is_ok());
    let order = ask(&formula(logs));
    let is_satisfiable = order.is_some();
    match solution {
        // Where no order gives a read its value, its version is believed, and we say so; the formula knows no such thing.
        Ok(solution) if !is_satisfiable => assert_ne!(solution.stats.counted.reads_unmatched, 0),
        Ok(_) => {}
        Err(why) => assert!(!is_satisfiable, "Z3 says {order:?}, we say {why:?}"),
    }
    if let Some(order) = order.filter(|_| judged) {
        let verdict = schedule_checker::check(logs, &one_by_one(logs, &order));
        assert!(verdict.is_ok(), "{verdict:?}");
    }
    is_satisfiable
}

#[test]
fn recorded_runs_are_satisfiable() {
    for method in [Method::Stride, Method::Oreo] {
        for seed in 0..150 {
            assert!(compare(&recorded(seed, method), true), "{method:?}, seed {seed}");
        }
    }
}

#[test]
fn changed_values_are_satisfiable_exactly_if_we_say_so() {
    let mut unsatisfiable = 0;
    for seed in 0..300 {
        let mut logs = recorded(seed, Method::Oreo);
        let mut random = Random::new(seed);
        let reads: Vec<(usize, usize)> = (logs.threads.iter().enumerate())
            .flat_map(|(thread, log)| {
                log.records
                    .iter()
                    .enumerate()
                    .map(move |(index, r)| (thread, index, r.kind))
            })
            .filter(|(_, _, kind)| *kind == Kind::Read)
            .map(|(thread, index, _)| (thread, index))
            .collect();
        if reads.len() < 2 {
            continue;
        }
        // Some read has read what another has.
        let pick = |random: &mut Random| reads[random.below(reads.len() as u64) as usize];
        for _ in 0..2 {
            let ((one, first), (other, second)) = (pick(&mut random), pick(&mut random));
            let value = logs.threads[other].records[second].value;
            if logs.threads[one].records[first].access == logs.threads[other].records[second].access {
                logs.threads[one].records[first].value = value;
            }
        }
        // Nobody can have read two things before the first write; the checker takes another one of them for wrong.
        unsatisfiable += u32::from(!compare(&logs, false));
    }
    assert!(unsatisfiable > 5, "{unsatisfiable} of 300 have no solution");
}
