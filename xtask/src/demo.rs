//! The demonstration: a small C program that fails once in a while, caught once, and brought back a hundred times.
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::fs;
use std::process::Command;

const NATIVE_RUNS: u32 = 200;
const ATTEMPTS: u32 = 5000;
const REPLAYS: u32 = 100;

pub fn demo() -> Result<(), Failure> {
    let folder = target().join("demo");
    // A demonstration begins from nothing.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let program = folder.join("heisenbug");
    let source = root().join("tests/guests/demo_heisenbug.c");

    say("1. compile the program with `refrain cc`, a drop-in for the C compiler");
    Command::new(refrain())
        .arg("cc")
        .args(["-O2", "-g", "-pthread"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .run()?;

    say(&format!("2. run it {NATIVE_RUNS} times as it is"));
    let mut failures = 0;
    for _ in 0..NATIVE_RUNS {
        failures += u32::from(!Command::new(&program).output()?.status.success());
    }
    say(&format!("   {failures} of {NATIVE_RUNS} runs failed: a heisenbug"));

    say("3. record it until it fails, with the threads' timing disturbed");
    let with_runs = |arguments: &[&str]| {
        let mut command = Command::new(refrain());
        command.args(arguments).env("REFRAIN_DIR", folder.join("runs"));
        command
    };
    let until = format!("--until-failure={ATTEMPTS}");
    let status = with_runs(&["record", "--chaos=1", "--timeout", "20", &until, "--"])
        .arg(&program)
        .status_shown()?;
    if status.success() {
        return Err(Failure::new(format!(
            "the program did not fail in {ATTEMPTS} recorded runs"
        )));
    }

    say(&format!("4. bring that run back {REPLAYS} times"));
    with_runs(&["replay", "--times", &REPLAYS.to_string()]).run()?;
    say(&format!(
        "done: the failure was caught once and came back {REPLAYS} of {REPLAYS} times: same output, same exit status, \
         same events in every thread"
    ));
    Ok(())
}

fn say(line: &str) {
    eprintln!("demo: {line}");
}
