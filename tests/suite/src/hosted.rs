//! Scope inputs: programs that cannot load the runtime, because they are linked statically or by musl; it loads them.
use crate::Checked;
use crate::guest::Ending;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
const INPUTS: [&str; 2] = ["--scope", "inputs"];
const RECORDINGS: u32 = 2;
const REPLAYS: u32 = 5;
/// Cancellation is libc's affair, and of a libc in a program that is hosted nothing is known.
const NOT_HOSTED: [&str; 1] = ["cancelled"];
/// One has functions that musl does not have. The other waits for the place of a fork while musl holds its locks, and does not always come back
/// (docs/static.md).
const NOT_MUSL: [&str; 2] = ["signal_values", "families"];

/// A way to link a program that loads no library of ours.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
}

const WAYS: [Way; 4] = [
    Way {
        name: "static",
        compiler: "clang-22",
        flags: &["-static"],
    },
    Way {
        name: "static_pie",
        compiler: "clang-22",
        flags: &["-static-pie", "-fPIE"],
    },
    Way {
        name: "musl_static",
        compiler: "musl-gcc",
        flags: &["-static"],
    },
    Way {
        name: "musl",
        compiler: "musl-gcc",
        flags: &[],
    },
];

pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = vec![
        trial("hosted/executed_by_a_shell", executed_by_a_shell),
        trial("hosted/without_symbols", without_symbols),
        trial("hosted/packed", packed),
        trial("hosted/refusals", refusals),
        trial("hosted/busybox", busybox),
    ];
    for folder in ["static", "turns"] {
        for guest in Guest::all_in(&tool::guests().join(folder))? {
            if NOT_HOSTED.contains(&guest.name().as_str()) {
                continue;
            }
            let is_for_musl = !NOT_MUSL.contains(&guest.name().as_str());
            for way in WAYS.into_iter().filter(|way| is_for_musl || way.compiler != "musl-gcc") {
                let (name, guest) = (format!("hosted/{}/{}", way.name, guest.name()), guest.clone());
                trials.push(trial(name, move |sandbox| comes_back(sandbox, &guest, way)));
            }
        }
    }
    Ok(trials)
}

fn build(sandbox: &Sandbox, source: &Path, way: Way) -> Checked<PathBuf> {
    let is_there = Command::new(way.compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if is_there.is_err() {
        return skipped(format!("there is no {}", way.compiler));
    }
    let program = sandbox.work().join("hosted");
    let line = sandbox
        .other(way.compiler, ["-O2", "-pthread"])
        .args(way.flags)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .within(LIMIT);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(program)
}

/// Each of some recordings comes back each time, with the exit status of the program, and nothing is missing from it.
fn comes_back(sandbox: &Sandbox, guest: &Guest, way: Way) -> Checked {
    let program = build(sandbox, &guest.source, way)?;
    let ending = guest.expect.unwrap_or(Ending::Exit(0));
    let timeout = guest.timeout.as_secs().to_string();
    for attempt in 0..RECORDINGS {
        let options = ["--scope", "inputs", "--timeout", &timeout];
        let recorded = record(sandbox, &format!("run-{attempt}"), &options, &program, LIMIT)?;
        recorded.ended.clone().expect_status(ending.status())?;
        recorded.check_passed_through()?;
        for words in ["cannot be recorded", "not recorded"] {
            require(!recorded.ended.stderr_text().contains(words), || {
                recorded.ended.told("some of it is not recorded")
            })?;
        }
        recorded.check_replay(sandbox, REPLAYS, 0, LIMIT)?;
    }
    Ok(())
}

/// A shell that is not hosted, what it executes, which is, and what that executes.
fn executed_by_a_shell(sandbox: &Sandbox) -> Checked {
    for way in WAYS {
        let program = build(sandbox, &tool::guests().join("static/spawns.c"), way)?;
        let name = format!("run-{}", way.name);
        let line = sandbox
            .refrain(["record", "--scope", "inputs", "-o", &name, "--"])
            .args(["/bin/sh", "-c", "./hosted one; ./hosted; ./hosted two | wc -l; exit 7"])
            .within(LIMIT);
        let recorded = Recorded {
            ended: sandbox.run(&line)?.expect_status(7)?,
            directory: sandbox.work().join(&name),
        };
        let info = recorded.info(sandbox)?;
        let processes = info["processes"].as_array().map_or(0, Vec::len);
        require(processes >= 16, || {
            format!("only {processes} other processes are recorded: {info}")
        })?;
        recorded.check_replay(sandbox, 3, 0, LIMIT)?;
        fs::remove_file(&program).or_else(|e| crate::failed(e.to_string()))?;
    }
    Ok(())
}

/// Of stripped programs less is known: calls that cannot be replaced are sent by the kernel. Instructions that lock memory are not. A static
/// program of musl's has no table for unwinders either; its functions are found by a sweep.
fn without_symbols(sandbox: &Sandbox) -> Checked {
    for way in WAYS {
        for guest in ["static/inputs.c", "static/handlers.c", "turns/queue.c"] {
            let program = build(sandbox, &tool::guests().join(guest), way)?;
            sandbox
                .run(&sandbox.other("strip", ["--strip-all"]).arg(&program))?
                .expect_status(0)?;
            let name = format!("run-{}-{}", way.name, guest.len());
            let recorded = record(sandbox, &name, &INPUTS, &program, LIMIT)?;
            recorded.check_passed_through()?;
            recorded.check_replay(sandbox, REPLAYS, 0, LIMIT)?;
        }
    }
    Ok(())
}

/// The program goes with its run.
fn packed(sandbox: &Sandbox) -> Checked {
    for way in WAYS {
        let program = build(sandbox, &tool::guests().join("static/inputs.c"), way)?;
        let name = format!("run-{}", way.name);
        let recorded = record(sandbox, &name, &INPUTS, &program, LIMIT)?;
        recorded.ended.clone().expect_status(3)?;
        let archive = format!("{name}.refrain");
        let unpacked = format!("{name}-again");
        sandbox
            .run(&sandbox.refrain(["pack", "-o", &archive, &name]).within(LIMIT))?
            .expect_status(0)?;
        fs::remove_file(&program).or_else(|e| crate::failed(e.to_string()))?;
        sandbox
            .run(&sandbox.refrain(["unpack", "-o", &unpacked, &archive]).within(LIMIT))?
            .expect_status(0)?;
        let again = Recorded {
            directory: sandbox.work().join(&unpacked),
            ended: recorded.ended,
        };
        again.check_replay(sandbox, 3, 0, LIMIT)?;
    }
    Ok(())
}

/// What cannot be done is refused, with the reason and what to do.
fn refusals(sandbox: &Sandbox) -> Checked {
    for way in WAYS {
        let program = build(sandbox, &tool::guests().join("static/inputs.c"), way)?;
        for scope in ["sync", "memory"] {
            let line = sandbox.refrain(["record", "--scope", scope, "--"]).arg(&program);
            sandbox
                .run(&line.within(LIMIT))?
                .expect_status(2)?
                .expect_refusal(&["linked statically, or by musl", "--scope inputs"])?;
        }
        let run = format!("run-{}", way.name);
        record(sandbox, &run, &INPUTS, &program, LIMIT)?;
        sandbox
            .run(&sandbox.refrain(["replay", "--gdb", &run]).within(LIMIT))?
            .expect_status(3)?
            .expect_refusal(&["loaded by the runtime", "without --gdb"])?;
        let rights = fs::Permissions::from_mode(0o4755);
        fs::set_permissions(&program, rights).or_else(|e| crate::failed(e.to_string()))?;
        let line = sandbox.refrain(["record", "--scope", "inputs", "--"]).arg(&program);
        sandbox
            .run(&line.within(LIMIT))?
            .expect_status(2)?
            .expect_refusal(&["set-user-id", "record a copy"])?;
    }
    Ok(())
}

/// A shell that is one static program with all the others.
fn busybox(sandbox: &Sandbox) -> Checked {
    const PROGRAM: &str = "/bin/busybox";
    if !Path::new(PROGRAM).exists() {
        return skipped(format!("there is no {PROGRAM}"));
    }
    let script = "i=0; while [ $i -lt 3 ]; do (echo $i $$ $(date +%s)); i=$((i+1)); done | sort -r; \
                  ls / | wc -l; head -c 8 /dev/urandom | od -x; exit 6";
    let line = sandbox
        .refrain([
            "record", "--scope", "inputs", "-o", "run", "--", PROGRAM, "sh", "-c", script,
        ])
        .within(LIMIT);
    let recorded = Recorded {
        ended: sandbox.run(&line)?.expect_status(6)?,
        directory: sandbox.work().join("run"),
    };
    recorded.check_replay(sandbox, 3, 0, LIMIT)
}
