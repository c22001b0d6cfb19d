//! Recordings that end before they should: killed, out of space, at their limit. What was logged stays readable.
use crate::Checked;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Guest;
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
    let all: [(&str, Check, &Guest); 6] = [
        ("program_killed", program_killed, &endless),
        ("everything_killed", everything_killed, &endless),
        ("recorder_asked_to_stop", recorder_asked_to_stop, &endless),
        ("time_out", time_out, &endless),
        ("size_limit", size_limit, &chatty),
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
        let line = sandbox.refrain(["record", "-o", "run", "--"]).arg(&program);
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

fn signal(pid: u32, signal: Signal) -> Checked {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return failed(format!("{pid} is no process"));
    };
    kill_process(pid, signal).or_else(|e| failed(format!("cannot send a signal to {pid:?}: {e}")))
}

/// The programs that a process has started.
fn children(pid: u32) -> Checked<Vec<u32>> {
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

fn recorder_asked_to_stop(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let underway = Underway::start(sandbox, guest)?;
    signal(underway.pid(), Signal::INT)?;
    let status = underway.finish()?;
    require(status == 128 + 2, || format!("expected exit status 130, got {status}"))?;
    check_readable(sandbox, "./run")
}

fn time_out(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "run", &["--timeout", "0.5"], &program, LIMIT)?;
    recorded.ended.clone().expect_status(124)?;
    recorded.check_passed_through()?;
    check_readable(sandbox, "./run")
}

/// The program ran to its end although the log did not, and the run says so.
fn check_truncated(sandbox: &Sandbox, recorded: &Recorded) -> Checked {
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
    check_readable(sandbox, &recorded.directory.to_string_lossy())
}

fn size_limit(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "run", &["--max-size", "64K"], &program, LIMIT)?;
    check_truncated(sandbox, &recorded)
}

/// A small file system that is unmounted when the test is over.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(sandbox: &Sandbox, size: &str) -> Checked<SmallDisk> {
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

    fn path(&self) -> &Path {
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
    check_truncated(sandbox, &Recorded { directory: run, ended })
}
