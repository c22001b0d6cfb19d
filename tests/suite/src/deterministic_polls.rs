//! Deterministic runs (`refrain run`): threads that ask what could be read or written, wait for it or do not, and give out or take much at once.
//!
//! Which run comes back is up to who asks first: each guest is learned until two of its runs differ, and then all runs with delays have to be the learned one.
use crate::Checked;
use crate::deterministic::directory_of;
use crate::deterministic::guest;
use crate::deterministic::only_listed;
use crate::deterministic::run;
use crate::deterministic::run_delayed;
use crate::deterministic::says;
use crate::deterministic::usual_cache;
use crate::deterministic_calls::calls_come_back;
use crate::deterministic_calls::is_as_learned;
use crate::deterministic_calls::times;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// Guests whose threads meet by such calls, and what they are given.
const GUESTS: [(&str, &str, &[&str]); 8] = [
    ("pollers", "pollers.c", &[]),
    ("epoll_levels", "epollers.c", &["0"]),
    ("epoll_once", "epollers.c", &["1"]),
    ("epoll_edges", "epollers.c", &["2"]),
    ("event_loop", "event_loop.c", &[]),
    ("gathered", "gathered.c", &[]),
    ("fifos", "fifos.c", &[]),
    ("spinners", "spinners.c", &[]),
];
const NOT_ENFORCED: &str = "the order of these is not enforced";

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    for (name, source, arguments) in GUESTS {
        let guest = guest(source)?;
        trials.push(trial(format!("deterministic/polls/{name}"), move |s| {
            calls_come_back(s, &guest, arguments)?;
            nothing_is_left_out(s, &guest, arguments)
        }));
    }
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let others: [(&str, &str, Check); 3] = [
        ("interrupted", "interrupted.c", interrupted),
        ("time_over", "time_over.c", time_over),
        ("from_both", "from_both.c", from_both),
    ];
    for (name, source, check) in others {
        let guest = guest(source)?;
        trials.push(trial(format!("deterministic/polls/{name}"), move |s| check(s, &guest)));
    }
    Ok(trials)
}

/// All calls by which the threads met had a place.
fn nothing_is_left_out(sandbox: &Sandbox, guest: &Guest, arguments: &[&str]) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &["--report"]).arg(&program).args(arguments);
    for _ in 0..2 {
        let ended = sandbox.run(&line)?.expect_status(0)?;
        require(!ended.stderr_text().contains(NOT_ENFORCED), || {
            ended.told("expected that all of it is ordered")
        })?;
    }
    Ok(())
}

/// What was waited for in vain when it was learned is not waited for.
fn time_over(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let learned = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    require(
        learned.stdout_text().starts_with("0 0 0 0 0, 0 in the set, 0.000000 s"),
        || learned.told("expected that all waits were over in vain"),
    )?;
    for _ in 0..5 {
        let began = Instant::now();
        let ended = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
        is_as_learned(&ended, &learned)?;
        let elapsed = began.elapsed();
        // When it was learned it waited for 1.5 s.
        require(elapsed < Duration::from_millis(1200), || {
            ended.told(&format!("it took {elapsed:?}"))
        })?;
    }
    for seed in 1..=5 {
        is_as_learned(
            &run_delayed(sandbox, &[], seed, &[&program])?.expect_status(0)?,
            &learned,
        )?;
    }
    Ok(())
}

/// A wait that a signal ended ends so again, and the handler runs, also where only the wait lets the signal in.
fn interrupted(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    for arguments in [&[][..], &["mask"]] {
        let learned = sandbox.run(&run(sandbox, &[]).arg(&program).args(arguments))?;
        let learned = learned.expect_status(0)?;
        let mut command = vec![program.as_path()];
        command.extend(arguments.iter().map(Path::new));
        for seed in 1..=times() {
            is_as_learned(&run_delayed(sandbox, &[], seed, &command)?.expect_status(0)?, &learned)?;
        }
    }
    Ok(())
}

/// Who asks for something of the outside as well is not ordered, and it is said.
fn from_both(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &["--report"]).arg(&program);
    sandbox.run(&line)?.expect_status(0)?;
    let steps = fs::read_to_string(directory_of(&only_listed(sandbox, &usual_cache(sandbox))?).join("steps"))?;
    let ended = sandbox.run(&line)?.expect_status(0)?;
    says(&ended, &format!("its threads used poll: {NOT_ENFORCED}"))?;
    let of_main = steps.lines().filter(|line| line.contains("t0  CallReturn"));
    require(of_main.count() == 0, || format!("expected no place for poll:\n{steps}"))
}
