//! Deterministic runs that somebody wants to end: how it ends is the program's own affair, and nobody waits for a lesson.
use crate::Checked;
use crate::command::Line;
use crate::command::kill_group;
use crate::deterministic::guest;
use crate::deterministic::listed;
use crate::deterministic::only_listed;
use crate::deterministic::run;
use crate::deterministic::run_delayed;
use crate::deterministic::usual_cache;
use crate::failed;
use crate::guest::Guest;
use crate::interrupted::signal;
use crate::interrupted::signal_group;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Learning from `long_lesson.c` takes longer than this anywhere.
const SOON: Duration = Duration::from_secs(10);
/// By when the program has ended, and learning has begun.
const LEARNS_WITHIN: Duration = Duration::from_secs(1);
/// By when a signal has come to the program.
const COMES_WITHIN: Duration = Duration::from_millis(300);

pub fn trials() -> Result<Vec<Trial>, String> {
    let asked = guest("asked_to_stop.c")?;
    let long = guest("long_lesson.c")?;
    let changed = guest("changed_ids.c")?;
    Ok(vec![
        trial("deterministic/signals_reach_the_program", move |s| {
            signals_reach_the_program(s, &asked)
        }),
        trial("deterministic/learning_is_given_up", move |s| {
            learning_is_given_up(s, &long)
        }),
        trial("deterministic/changed_ids", move |s| waits_go_on(s, &changed)),
    ])
}

/// The program ends in good order, whether its schedule is being learned or enforced. What was asked to stop teaches nothing.
fn signals_reach_the_program(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[]).arg(&program);
    type Send = fn(u32, Signal) -> Checked;
    let ways: [(Signal, Send); 3] = [
        (Signal::INT, signal_group),
        (Signal::INT, signal),
        (Signal::TERM, signal),
    ];
    let all_ways = || -> Checked {
        for (which, send) in ways {
            let (status, printed) = finished(&line, |pid| send(pid, which))?;
            require(status == 3 && printed == "asked\n", || {
                format!("{which:?}: status {status}, and it printed {printed:?}")
            })?;
        }
        Ok(())
    };
    all_ways()?;
    let entries = listed(sandbox, &usual_cache(sandbox))?;
    require(entries.is_empty(), || {
        format!("{entries:?} are of runs that were asked to stop")
    })?;
    for _ in 0..2 {
        let (status, printed) = finished(&line, |_| Ok(()))?;
        require(status == 0 && printed == "alone\n", || {
            format!("status {status}, and it printed {printed:?}")
        })?;
    }
    only_listed(sandbox, &usual_cache(sandbox))?;
    all_ways()
}

/// What has run is over, and Ctrl-C ends what is computed behind it at once.
fn learning_is_given_up(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let temporary = sandbox.work().join("temporary");
    fs::create_dir(&temporary)?;
    let line = run(sandbox, &[]).arg(&program).var("TMPDIR", &temporary);
    sandbox.note(format!("{} &   # interrupted when the program has ended", line.typed()));
    let mut child = line.spawn()?;
    printed_first(&mut child, b"done\n")?;
    thread::sleep(LEARNS_WITHIN);
    signal(child.id(), Signal::INT)?;
    let sent = Instant::now();
    while child.try_wait()?.is_none() {
        if sent.elapsed() > SOON {
            kill_group(child.id());
            child.wait()?;
            return failed("it goes on learning");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let entries = listed(sandbox, &usual_cache(sandbox))?;
    require(entries.is_empty(), || {
        format!("{entries:?} were learned in spite of that")
    })?;
    sandbox.run(&sandbox.refrain(["ls"]))?.expect_status(0)?;
    let left = fs::read_dir(&temporary)?.count();
    require(left == 0, || {
        format!("{left} temporaries are left behind the next command")
    })
}

/// Signals of libc's own end no wait, while it is learned or later.
fn waits_go_on(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let learned = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    for seed in 1..=10 {
        let ended = run_delayed(sandbox, &[], seed, &[&program])?.expect_status(0)?;
        require(ended.stdout == learned.stdout, || ended.told("another output"))?;
    }
    only_listed(sandbox, &usual_cache(sandbox))?;
    Ok(())
}

/// The guest's status, and what it printed after its first line; it is sent a signal while it waits.
fn finished(line: &Line, send: impl FnOnce(u32) -> Checked) -> Checked<(i32, String)> {
    let mut child = line.spawn_with(Stdio::piped())?;
    printed_first(&mut child, b"ready\n")?;
    send(child.id())?;
    thread::sleep(COMES_WITHIN);
    if let Some(mut stdin) = child.stdin.take() {
        // It may have ended too early, which its status says.
        let _ = stdin.write_all(b"x");
    }
    let ended = child.wait_with_output()?;
    let status = ended.status;
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok((status, String::from_utf8_lossy(&ended.stdout).into_owned()))
}

fn printed_first(child: &mut Child, expected: &[u8]) -> Checked {
    let mut first = vec![0; expected.len()];
    let read = child.stdout.as_mut().map(|stdout| stdout.read_exact(&mut first));
    require(matches!(read, Some(Ok(()))) && first == expected, || {
        format!("it printed {:?} first", String::from_utf8_lossy(&first))
    })
}
