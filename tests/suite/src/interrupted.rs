//! Recordings that end before they should: killed, out of space, at their limit. What was logged stays readable.
use crate::Checked;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Guest;
use crate::kept::disk_bytes;
use crate::recording::Recorded;
use crate::recording::field_in;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process;
use rustix::process::kill_process_group;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Result<Vec<Trial>, String> {
    let endless = Guest::read(&tool::guests().join("probes/endless.c"))?;
    let chatty = Guest::read(&tool::guests().join("probes/chatty.c"))?;
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let all: [(&str, Check, &Guest); 10] = [
        ("program_killed", program_killed, &endless),
        ("everything_killed", everything_killed, &endless),
        ("recorder_asked_to_stop", recorder_asked_to_stop, &endless),
        ("group_asked_to_stop", group_asked_to_stop, &endless),
        ("stopped_at_once", stopped_at_once, &endless),
        ("time_out", time_out, &endless),
        ("size_limit", size_limit, &chatty),
        ("time_limit", time_limit, &chatty),
        ("kept_on_failure", kept_on_failure, &endless),
        ("disk_full", disk_full, &chatty),
    ];
    let trials = all.map(|(name, check, guest)| {
        let guest = guest.clone();
        trial(format!("interrupted/{name}"), move |s| check(s, &guest))
    });
    Ok(trials.into())
}

/// A recording of the endless guest that is under way; whatever still lives of it dies with this value.
struct Underway {
    child: std::process::Child,
    line: Line,
}

impl Underway {
    fn start(sandbox: &Sandbox, guest: &Guest) -> Checked<Underway> {
        let program = guest.build(sandbox, &[])?;
        Underway::start_with(sandbox, &[], &program)
    }

    fn start_with(sandbox: &Sandbox, extra: &[&str], program: &Path) -> Checked<Underway> {
        let _ = fs::remove_dir_all(sandbox.work().join("run"));
        let line = sandbox
            .refrain(["record"])
            .args(extra)
            .args(["-o", "run", "--"])
            .arg(program);
        sandbox.note(format!("{} &   # then killed after a moment", line.typed()));
        let child = line.spawn()?;
        let underway = Underway { child, line };
        let log = sandbox.work().join("run/thread-3.log");
        let start = Instant::now();
        while !log.exists() {
            require(start.elapsed() < LIMIT, || format!("{} did not appear", log.display()))?;
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(200));
        Ok(underway)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn finish(mut self) -> Checked<i32> {
        use std::os::unix::process::ExitStatusExt;
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
            }
            require(start.elapsed() < LIMIT, || format!("{} did not end", self.line.typed()))?;
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        kill_group(self.child.id());
        // Collected, so that no zombie keeps its number.
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) -> Checked {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return failed(format!("{pid} is no process"));
    };
    kill_process(pid, signal).or_else(|e| failed(format!("cannot send a signal to {pid:?}: {e}")))
}

/// To it and its program, as from a terminal.
pub(crate) fn signal_group(pid: u32, signal: Signal) -> Checked {
    let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return failed(format!("{pid} is no process"));
    };
    kill_process_group(group, signal).or_else(|e| failed(format!("cannot send a signal to {group:?}: {e}")))
}

/// The programs that a process has started.
pub(crate) fn children(pid: u32) -> Checked<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(entry?.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    Ok(found)
}

/// The run says what happened to it, and its logs can be read.
fn check_readable(sandbox: &Sandbox, run: &str) -> Checked {
    let info = sandbox.run(&sandbox.refrain(["info", run]))?.expect_status(0)?;
    require(!info.stdout.is_empty(), || info.told("info says nothing"))?;
    let json = sandbox
        .run(&sandbox.refrain(["info", "--json", run]))?
        .expect_status(0)?;
    let value: Value =
        serde_json::from_slice(&json.stdout).or_else(|e| failed(json.told(&format!("not JSON: {e}"))))?;
    require(events_of_threads(&value) > 100, || {
        json.told("expected the events before the end")
    })?;
    let dump = sandbox
        .run(&sandbox.refrain(["dump", "--limit", "5", run]).within(LIMIT))?
        .expect_status(0)?;
    require(!dump.stdout.is_empty(), || dump.told("dump says nothing"))?;
    // How far such a run can be replayed differs; that the answer is a clear one does not.
    let line = sandbox.refrain(["replay", run]).within(LIMIT * 3);
    let replay = sandbox.run(&line)?;
    require([0, 1, 3].contains(&replay.status), || {
        replay.told("expected exit status 0, 1 or 3")
    })
}

fn events_of_threads(info: &Value) -> u64 {
    let threads = info.get("threads").and_then(Value::as_array);
    let events = |thread: &Value| thread.get("events").and_then(Value::as_u64);
    threads.map_or(0, |threads| threads.iter().filter_map(events).sum())
}

fn program_killed(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let underway = Underway::start(sandbox, guest)?;
    let programs = children(underway.pid())?;
    require(!programs.is_empty(), || "the recorder has started nothing".to_owned())?;
    for program in programs {
        signal(program, Signal::KILL)?;
    }
    let status = underway.finish()?;
    require(status == 128 + 9, || format!("expected exit status 137, got {status}"))?;
    check_readable(sandbox, "./run")
}

fn everything_killed(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let underway = Underway::start(sandbox, guest)?;
    kill_group(underway.pid());
    underway.finish()?;
    require(!sandbox.work().join("run/run.json").exists(), || {
        "a killed recording is not complete".to_owned()
    })?;
    check_readable(sandbox, "./run")
}

/// The run says which signal it was, and is replayed up to there.
fn check_stopped_by(sandbox: &Sandbox, signal: Signal) -> Checked {
    check_readable(sandbox, "./run")?;
    let info = sandbox
        .run(&sandbox.refrain(["info", "--json", "./run"]))?
        .expect_status(0)?;
    let json: Value = serde_json::from_slice(&info.stdout).or_else(|e| failed(info.told(&format!("not JSON: {e}"))))?;
    let outcome = field_in(&json, "outcome").and_then(|outcome| outcome.get("signaled"));
    require(
        outcome.and_then(Value::as_i64) == Some(i64::from(signal.as_raw())),
        || info.told(&format!("it does not say that the program got {signal:?}")),
    )?;
    check_replayed(sandbox, "./run")
}

/// Whatever the recording has is replayed, and is the same.
fn check_replayed(sandbox: &Sandbox, run: &str) -> Checked {
    let line = sandbox.refrain(["replay", "--times", "3", run]).within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    require(ended.stderr_text().contains("replayed 3 of 3 identically"), || {
        ended.told("expected three of three")
    })
}

/// Only the recorder gets the signal, and passes it on.
fn recorder_asked_to_stop(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for kind in [Signal::INT, Signal::TERM, Signal::HUP] {
        let underway = Underway::start_with(sandbox, &[], &program)?;
        signal(underway.pid(), kind)?;
        finish_stopped(sandbox, underway, kind)?;
    }
    Ok(())
}

/// The recorder ends as by the signal, and the run says so.
fn finish_stopped(sandbox: &Sandbox, underway: Underway, kind: Signal) -> Checked {
    let (status, expected) = (underway.finish()?, 128 + kind.as_raw());
    require(status == expected, || {
        format!("expected exit status {expected}, got {status}")
    })?;
    check_stopped_by(sandbox, kind)
}

/// Recorder and program get it, as from a terminal.
fn group_asked_to_stop(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for kind in [Signal::INT, Signal::TERM] {
        let underway = Underway::start_with(sandbox, &[], &program)?;
        signal_group(underway.pid(), kind)?;
        finish_stopped(sandbox, underway, kind)?;
    }
    Ok(())
}

/// A signal at any moment of the start: there is no run, or one that says what happened, and no hang.
fn stopped_at_once(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let mut with_nothing = 0;
    for step in 0..40_u64 {
        let line = sandbox.refrain(["record", "-o", "run", "--"]).arg(&program);
        sandbox.note(format!("{} &   # stopped after {} µs", line.typed(), step * 250));
        let underway = Underway {
            child: line.spawn()?,
            line,
        };
        thread::sleep(Duration::from_micros(step * 250));
        signal(underway.pid(), Signal::INT)?;
        let status = underway.finish()?;
        require(status == 130, || format!("expected exit status 130, got {status}"))?;
        let run = sandbox.work().join("run");
        if !run.join("run.json").exists() && !run.join("recording.json").exists() {
            // It had not come far enough to catch signals.
            let _ = fs::remove_dir(&run);
            continue;
        }
        let info = sandbox.run(&sandbox.refrain(["info", "./run"]))?.expect_status(0)?;
        require(info.stdout_text().contains("SIGINT"), || {
            info.told("it does not say what happened")
        })?;
        let replay = sandbox.run(&sandbox.refrain(["replay", "./run"]).within(LIMIT))?;
        match replay.status {
            0 => {}
            _ => {
                replay.expect_status(3)?.expect_refusal(&["nothing to replay"])?;
                with_nothing += 1;
            }
        }
        sandbox.run(&sandbox.refrain(["rm", "./run"]))?.expect_status(0)?;
    }
    sandbox.note(format!("# {with_nothing} of 40 had nothing to replay"));
    Ok(())
}

fn time_out(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "run", &["--timeout", "0.5"], &program, LIMIT)?;
    recorded.ended.clone().expect_status(124)?;
    recorded.check_passed_through()?;
    check_readable(sandbox, "./run")
}

/// The program ran to its end although the log did not, and the run says so.
fn check_truncated(sandbox: &Sandbox, recorded: &Recorded, reason: &str) -> Checked {
    let ended = recorded.ended.clone().expect_status(0)?;
    require(ended.stdout.starts_with(b"chain "), || {
        ended.told("the program was disturbed")
    })?;
    let info = sandbox
        .run(&sandbox.refrain(["info", "--json"]).arg(&recorded.directory))?
        .expect_status(0)?;
    let json: Value = serde_json::from_slice(&info.stdout).or_else(|e| failed(info.told(&format!("not JSON: {e}"))))?;
    let is_told = field_in(&json, "truncated").is_some_and(|reason| !reason.is_null());
    require(is_told, || {
        info.told("it does not say that the recording was truncated")
    })?;
    let told = sandbox
        .run(&sandbox.refrain(["info"]).arg(&recorded.directory))?
        .expect_status(0)?;
    require(told.stdout_text().contains(reason), || {
        told.told(&format!("it does not say \"{reason}\""))
    })?;
    let run = recorded.directory.to_string_lossy();
    check_readable(sandbox, &run)?;
    check_replayed(sandbox, &run)
}

/// Failing runs are kept, whatever made them fail; others are not.
fn kept_on_failure(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let extra = ["--keep", "on-failure"];
    let underway = Underway::start_with(sandbox, &extra, &program)?;
    signal(underway.pid(), Signal::TERM)?;
    let status = underway.finish()?;
    require(status == 128 + 15, || format!("expected exit status 143, got {status}"))?;
    check_stopped_by(sandbox, Signal::TERM)?;
    let recorded = record(
        sandbox,
        "late",
        &["--keep", "on-failure", "--timeout", "0.5"],
        &program,
        LIMIT,
    )?;
    recorded.ended.clone().expect_status(124)?;
    check_replayed(sandbox, "./late")?;
    let good = Guest::read(&tool::guests().join("probes/canary.c")).or_else(failed)?;
    let program_that_succeeds = good.build(sandbox, &[])?;
    let recorded = record(sandbox, "good", &extra, &program_that_succeeds, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    require(!recorded.directory.exists(), || {
        recorded.ended.told("a run that did not fail was kept")
    })?;
    // With a campaign there is nothing to keep: being stopped is no failure of the program.
    let underway = Underway::start_with(sandbox, &["--until-failure"], &program)?;
    signal(underway.pid(), Signal::INT)?;
    let status = underway.finish()?;
    require(status == 130, || format!("expected exit status 130, got {status}"))?;
    require(!sandbox.work().join("run").exists(), || {
        "a run that did not fail was kept".to_owned()
    })
}

fn size_limit(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for kilobytes in [640, 2048] {
        let size = format!("{kilobytes}K");
        let recorded = record(sandbox, &size, &["--max-size", &size], &program, LIMIT)?;
        check_truncated(sandbox, &recorded, "--max-size was reached")?;
        // It was replayed, and what that makes of it is kept with it only if there is room.
        let bytes = disk_bytes(&recorded.directory)?;
        require(bytes <= kilobytes << 10, || {
            format!("replayed, a run with --max-size {size} takes {bytes} bytes")
        })?;
    }
    Ok(())
}

fn time_limit(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "run", &["--max-time", "0.01"], &program, LIMIT)?;
    check_truncated(sandbox, &recorded, "--max-time was reached")
}

/// A small file system that is unmounted when the test is over.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn mount(sandbox: &Sandbox, size: &str) -> Checked<SmallDisk> {
        let place = sandbox.work().join("disk");
        fs::create_dir(&place)?;
        let line = sandbox
            .other("mount", ["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&place);
        let ended = sandbox.run(&line)?;
        if ended.status != 0 {
            return skipped(format!(
                "cannot mount a small file system: {}",
                ended.stderr_text().trim()
            ));
        }
        Ok(SmallDisk(place))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nothing better can be done; a lazy unmount succeeds even while files are open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn disk_full(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let disk = SmallDisk::mount(sandbox, "400k")?;
    let run = disk.path().join("run");
    let line = sandbox
        .refrain(["record", "-o"])
        .arg(&run)
        .arg("--")
        .arg(&program)
        .within(LIMIT);
    let ended = sandbox.run(&line)?;
    check_truncated(sandbox, &Recorded { directory: run, ended }, "refused more space")
}
