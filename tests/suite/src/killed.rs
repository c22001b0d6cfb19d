//! Processes that are killed while they write, or fork: what they had done comes back, and the others go on.
use crate::Checked;
use crate::command::kill_group;
use crate::failed;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(120);
const SCOPES: [&str; 3] = ["inputs", "sync", "memory"];

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for scope in SCOPES {
        trials.push(trial(format!("killed/writers_{scope}"), move |s| writers(s, scope)));
        trials.push(trial(format!("killed/family_{scope}"), move |s| family(s, scope)));
        trials.push(trial(format!("killed/recorder_too_{scope}"), move |s| {
            recorder_too(s, scope)
        }));
    }
    trials
}

/// At scope inputs as any compiler makes it.
fn build(sandbox: &Sandbox, name: &str, scope: &str) -> Checked<PathBuf> {
    let source = tool::guests().join("killed").join(name);
    let program = sandbox.work().join("program");
    let line = match scope {
        "inputs" => sandbox.other("clang-22", ["-O1", "-w"]),
        _ => sandbox.refrain(["cc", "-O1", "-w"]),
    };
    let line = line.arg("-o").arg(&program).arg(source).within(LIMIT);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(program)
}

/// The first process ends as usual, and all that anybody wrote comes back.
fn writers(sandbox: &Sandbox, scope: &str) -> Checked {
    let program = build(sandbox, "writers.c", scope)?;
    for attempt in 0..5 {
        let recorded = record(sandbox, &format!("run-{attempt}"), &["--scope", scope], &program, LIMIT)?;
        recorded.ended.clone().expect_status(0)?;
        recorded.check_passed_through()?;
        recorded.check_replay(sandbox, 2, 0, LIMIT)?;
    }
    Ok(())
}

/// All of the program is killed, by itself: what is replayed is a beginning of what was recorded.
fn family(sandbox: &Sandbox, scope: &str) -> Checked {
    let program = build(sandbox, "family.c", scope)?;
    for last in 1..=24 {
        let directory = sandbox.work().join(format!("run-{last}"));
        let line = sandbox
            .refrain(["record", "--scope", scope, "-o"])
            .arg(&directory)
            .arg("--")
            .arg(&program)
            .arg(last.to_string());
        sandbox.run(&line.within(LIMIT))?.expect_status(128 + 9)?;
        beginning_comes_back(sandbox, &directory)?;
    }
    Ok(())
}

/// The recorder dies with its program, when so many bytes have been printed.
fn recorder_too(sandbox: &Sandbox, scope: &str) -> Checked {
    let program = build(sandbox, "family.c", scope)?;
    for bytes in (0..24).map(|step| step * 37) {
        let directory = sandbox.work().join(format!("run-{bytes}"));
        let line = sandbox
            .refrain(["record", "--scope", scope, "-o"])
            .arg(&directory)
            .arg("--")
            .arg(&program)
            .arg("1000");
        sandbox.note(format!("{} &   # killed after {bytes} bytes", line.typed()));
        let mut child = line.spawn()?;
        let id = child.id();
        let mut printed = vec![0; bytes];
        let Some(stdout) = child.stdout.as_mut() else {
            return failed("the output of the recorder is not there");
        };
        let read = stdout.read_exact(&mut printed);
        kill_group(id);
        let ended = child.wait_with_output()?;
        read.or_else(|e| failed(format!("the recorder printed less than {bytes} bytes: {e}")))?;
        require(ended.status.code().is_none(), || {
            "the recorder was not killed".to_owned()
        })?;
        // So early that there is no run yet.
        if directory.join("control").exists() {
            beginning_comes_back(sandbox, &directory)?;
        }
    }
    Ok(())
}

/// The replay is the same run as far as that goes.
fn beginning_comes_back(sandbox: &Sandbox, run: &Path) -> Checked {
    let line = sandbox.refrain(["replay"]).arg(run).within(LIMIT);
    let began = Instant::now();
    let mut ended = sandbox.run(&line)?;
    // Who was killed is gone a moment later.
    while ended.stderr_text().contains("is being recorded right now") && began.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(5));
        ended = sandbox.run(&line)?;
    }
    let ended = ended.expect_status(0)?;
    let kept = fs::read(run.join("stdout"))?;
    let same = kept.iter().zip(&ended.stdout).take_while(|(a, b)| a == b).count();
    require(same == kept.len().min(ended.stdout.len()), || {
        ended.told("what was replayed is no beginning of what was recorded")
    })
}
