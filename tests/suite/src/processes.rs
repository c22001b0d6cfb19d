//! Runs of several processes: what the tool says of them, and what can be done with the parts.
use crate::Checked;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Result<Vec<Trial>, String> {
    type Test = fn(&Sandbox) -> Checked;
    let tests: [(&str, Test); 5] = [
        ("are_listed_and_can_be_looked_at", are_listed),
        ("that_are_not_followed_are_declared", are_declared),
        ("travel_in_a_packed_run", travel),
        ("are_removed_with_their_run", are_removed),
        ("are_waited_for_and_timed_out", are_waited_for),
    ];
    Ok(tests
        .into_iter()
        .map(|(name, test)| trial(format!("processes/{name}"), test))
        .collect())
}

fn build(sandbox: &Sandbox, name: &str) -> Checked<PathBuf> {
    let path = tool::guests().join("coverage").join(name);
    let guest = Guest::read(&path).or_else(crate::failed)?;
    guest.build(sandbox, &[])
}

fn forked(sandbox: &Sandbox, extra: &[&str]) -> Checked<Recorded> {
    record(sandbox, "run", extra, &build(sandbox, "processes_forked.c")?, LIMIT)
}

fn processes(info: &Value) -> Vec<&Value> {
    info["processes"]
        .as_array()
        .map(|all| all.iter().collect())
        .unwrap_or_default()
}

/// The outcome of the process with this number, as `info --json` has it.
fn outcome(info: &Value, number: u64) -> &Value {
    let all = processes(info);
    let found = all
        .iter()
        .find(|process| process["meta"]["process"]["number"] == number);
    found.map_or(&Value::Null, |process| &process["meta"]["ending"]["outcome"])
}

fn are_listed(sandbox: &Sandbox) -> Checked {
    let recorded = forked(sandbox, &[])?;
    let info = recorded.info(sandbox)?;
    require(processes(&info).len() == 5, || {
        format!("five processes were forked: {info}")
    })?;
    require(info["unrecorded_processes"] == false, || {
        format!("all are recorded: {info}")
    })?;
    // Some child crashed, and some was killed, whatever their numbers.
    let outcomes: Vec<String> = (1..=5).map(|number| outcome(&info, number).to_string()).collect();
    let has = |wanted: &str| outcomes.iter().any(|outcome| outcome == wanted);
    require(has("{\"signaled\":11}") && has("\"lost\""), || {
        format!("ends of processes: {outcomes:?}")
    })?;
    let part = recorded.directory.join("process-1");
    for command in ["info", "dump", "solve"] {
        sandbox.run(&sandbox.refrain([command]).arg(&part))?.expect_status(0)?;
    }
    let ended = sandbox.run(&sandbox.refrain(["replay"]).arg(&part))?.expect_status(3)?;
    require(ended.stderr_text().contains("replayed as a whole"), || {
        ended.told("a part cannot be replayed alone, and replay must say so")
    })?;
    let explained = sandbox
        .run(&sandbox.refrain(["explain"]).arg(&part).within(LIMIT))?
        .expect_status(0)?;
    require(explained.stdout_text().contains("process-1"), || {
        explained.told("explain must speak of the process it was asked about")
    })
}

fn are_declared(sandbox: &Sandbox) -> Checked {
    let recorded = forked(sandbox, &["--follow", "none"])?;
    require(
        recorded.ended.stderr_text().contains("processes that are not recorded"),
        || recorded.ended.told("record must say that children are not recorded"),
    )?;
    let info = recorded.info(sandbox)?;
    require(
        processes(&info).is_empty() && info["unrecorded_processes"] == true,
        || format!("no process is followed, and that is declared: {info}"),
    )?;
    // What the children printed is not there, and not asked for.
    let ended = sandbox
        .run(&sandbox.refrain(["replay"]).arg(&recorded.directory))?
        .expect_status(0)?;
    require(!ended.stdout_text().contains("grandchild"), || {
        ended.told("nobody may be started in a replay of a run that follows none")
    })
}

fn travel(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, "processes_executed.c")?;
    let recorded = record(sandbox, "run", &[], &program, LIMIT)?;
    let (archive, unpacked) = (sandbox.work().join("archive"), sandbox.work().join("unpacked"));
    let line = sandbox
        .refrain(["pack"])
        .arg(&recorded.directory)
        .arg("-o")
        .arg(&archive);
    sandbox.run(&line)?.expect_status(0)?;
    let line = sandbox.refrain(["unpack"]).arg(&archive).arg("-o").arg(&unpacked);
    sandbox.run(&line)?.expect_status(0)?;
    let ended = sandbox
        .run(&sandbox.refrain(["replay"]).arg(&unpacked).within(LIMIT))?
        .expect_status(0)?;
    require(ended.stdout == recorded.kept("stdout")?, || {
        ended.told("the unpacked run prints something else")
    })
}

fn are_removed(sandbox: &Sandbox) -> Checked {
    let recorded = forked(sandbox, &[])?;
    sandbox
        .run(&sandbox.refrain(["rm"]).arg(&recorded.directory))?
        .expect_status(0)?;
    require(!recorded.directory.exists(), || {
        "rm left the run, or a part of it".to_owned()
    })
}

fn are_waited_for(sandbox: &Sandbox) -> Checked {
    let source = sandbox.work().join("daemon.c");
    let text = "#include <unistd.h>\nint main(void) { if (fork() == 0) for (;;) pause(); return 0; }\n";
    std::fs::write(&source, text).or_else(|e| crate::failed(format!("cannot write {}: {e}", source.display())))?;
    let program = sandbox.work().join("daemon");
    let line = sandbox.refrain(["cc"]).arg(&source).arg("-o").arg(&program);
    sandbox.run(&line)?.expect_status(0)?;
    let recorded = record(sandbox, "run", &["--timeout", "3", "--wait", "60"], &program, LIMIT)?;
    let stderr = recorded.ended.stderr_text();
    require(
        recorded.ended.status == 124 && stderr.contains("waiting for 1 process"),
        || {
            recorded
                .ended
                .told("record waits for what the program left running, says so, and keeps its time limit")
        },
    )?;
    sandbox
        .run(&sandbox.refrain(["replay"]).arg(&recorded.directory))?
        .expect_status(0)?;
    Ok(())
}
