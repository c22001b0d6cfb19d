//! Caps are caps, other bytes than were written are told, and nothing is left behind.
use crate::Checked;
use crate::failed;
use crate::interrupted::SmallDisk;
use crate::interrupted::children;
use crate::interrupted::signal;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::time::Instant;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("kept/cap_on_loud_programs", |s| cap(s, LOUD, true)),
        trial("kept/cap_on_many_processes", |s| cap(s, MANY, true)),
        trial("kept/cap_that_is_not_reached", |s| cap(s, "echo hello", false)),
        trial("kept/cap_below_what_a_run_takes", cap_too_small),
        trial("kept/cap_on_one_process_of_several", cap_on_child),
        trial("kept/full_disks_of_families", full_disks),
        trial("kept/flipped_bits_of_what_has_checksums", flipped),
        trial("kept/killed_replays_leave_nobody", killed_replays),
        trial("kept/killed_debuggers_leave_nobody", killed_debuggers),
        trial("kept/killed_guards_are_replaced", killed_guards),
        trial("kept/killed_commands_leave_nothing", killed_commands),
        trial("kept/programs_of_killed_recorders_go_on", killed_recorders),
        trial("kept/latest_leads_somewhere", latest),
    ]
}

const LOUD: &str = "i=0; while [ $i -lt 50 ]; do head -c 200000 /dev/zero; i=$((i+1)); done";
/// How long it may take on a busy machine until all are gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// How long a step may take there.
const LONGEST: Duration = Duration::from_secs(60);
const MANY: &str = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done; echo end";

/// Bytes on the disk of all that is in a folder, and of itself.
pub fn disk_bytes(folder: &Path) -> Checked<u64> {
    let mut bytes = fs::symlink_metadata(folder)?.blocks() * 512;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => entry.metadata()?.blocks() * 512,
        };
    }
    Ok(bytes)
}

fn cap(sandbox: &Sandbox, script: &str, is_reached: bool) -> Checked {
    let shell = ["--", "/bin/sh", "-c", script];
    let whole = sandbox
        .run(&sandbox.other("/bin/sh", ["-c", script]))?
        .expect_status(0)?;
    for kilobytes in [640, 1024, 2048, 4096] {
        let name = format!("run-{kilobytes}");
        let size = format!("{kilobytes}K");
        let line = sandbox
            .refrain(["record", "--scope", "inputs", "--max-size", &size, "-o", &name])
            .args(shell);
        let ended = sandbox.run(&line)?.expect_status(0)?;
        require(ended.stdout == whole.stdout, || ended.told("the program was disturbed"))?;
        let bytes = disk_bytes(&sandbox.work().join(&name))?;
        require(bytes <= kilobytes << 10, || {
            ended.told(&format!("with --max-size {size} the run takes {bytes} bytes"))
        })?;
        let info = sandbox
            .run(&sandbox.refrain(["info", "--json"]).arg(format!("./{name}")))?
            .expect_status(0)?;
        let info: Value = serde_json::from_slice(&info.stdout).or_else(|e| failed(format!("not JSON: {e}")))?;
        require(info["truncated"].is_null() != is_reached, || {
            format!("with --max-size {size}, truncated is {}", info["truncated"])
        })?;
        let replay = sandbox.refrain(["replay", "--quiet"]).arg(format!("./{name}"));
        sandbox.run(&replay)?.expect_status(0)?;
    }
    Ok(())
}

fn cap_too_small(sandbox: &Sandbox) -> Checked {
    let line = sandbox.refrain(["record", "--scope", "inputs", "--max-size", "64K", "--", "/bin/true"]);
    let ended = sandbox.run(&line)?.expect_status(2)?;
    for words in ["--max-size", " KB"] {
        require(ended.stderr_text().contains(words), || {
            ended.told("it does not name the option and how much it takes")
        })?;
    }
    let left = fs::read_dir(sandbox.runs())?.count();
    require(left == 0, || ended.told("something is left"))
}

/// Only the log of a process that was forked is cut, and what that prints later is not replayed.
fn cap_on_child(sandbox: &Sandbox) -> Checked {
    // It reads every byte with a call of its own.
    fs::write(sandbox.work().join("numbers"), "7777777\n".repeat(8000))?;
    let script = "(echo child; while read x; do :; done < numbers; echo more); echo end";
    let line = sandbox.refrain([
        "record",
        "--scope",
        "inputs",
        "--max-size",
        "1M",
        "-o",
        "run",
        "--",
        "/bin/sh",
        "-c",
        script,
    ]);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    require(ended.stdout_text() == "child\nmore\nend\n", || {
        ended.told("the program was disturbed")
    })?;
    let why = "--max-size was reached";
    require(ended.stderr_text().contains(why), || {
        ended.told("record does not say what is cut")
    })?;
    let info = sandbox
        .run(&sandbox.refrain(["info", "--json", "./run"]))?
        .expect_status(0)?;
    let info: Value = serde_json::from_slice(&info.stdout).or_else(|e| failed(format!("not JSON: {e}")))?;
    let (whole, first) = (&info["truncated"], &info["meta"]["ending"]["truncated"]);
    let child = &info["processes"][0]["truncated"];
    require(!whole.is_null() && first.is_null() && !child.is_null(), || {
        format!("truncated: the run {whole}, the first process {first}, the other {child}")
    })?;
    let told = sandbox.run(&sandbox.refrain(["info", "./run"]))?.expect_status(0)?;
    require(told.stdout_text().contains("truncated   the log of process 1"), || {
        told.told("it does not say which log is cut")
    })?;
    let replayed = sandbox.run(&sandbox.refrain(["replay", "./run"]))?.expect_status(0)?;
    require(replayed.stdout_text() == "child\nend\n", || {
        replayed.told("it prints something else than was recorded")
    })?;
    require(replayed.stderr_text().contains(why), || {
        replayed.told("replay does not say what is cut")
    })
}

/// Disks that are full at one moment or another of a program that starts others, or when it has ended.
fn full_disks(sandbox: &Sandbox) -> Checked {
    let script = "for i in 1 2 3; do (echo child $i; /bin/true); done; echo end";
    for kilobytes in (700..1500).step_by(40) {
        let disk = SmallDisk::mount(sandbox, &format!("{kilobytes}k"))?;
        let line = sandbox.refrain([
            "record", "--scope", "inputs", "-o", "disk/run", "--", "/bin/sh", "-c", script,
        ]);
        let ended = sandbox.run(&line)?.expect_status(0)?;
        require(ended.stdout_text() == "child 1\nchild 2\nchild 3\nend\n", || {
            ended.told(&format!("a disk of {kilobytes} KB disturbs the program"))
        })?;
        sandbox
            .run(&sandbox.refrain(["replay", "--quiet", "./disk/run"]))?
            .expect_status(0)?;
        drop(disk);
        fs::remove_dir(sandbox.work().join("disk"))?;
    }
    Ok(())
}

fn flipped(sandbox: &Sandbox) -> Checked {
    let line = sandbox.refrain([
        "record",
        "--scope",
        "inputs",
        "-o",
        "run",
        "--",
        "/bin/sh",
        "-c",
        "/bin/echo hello; exit 0",
    ]);
    sandbox.run(&line)?.expect_status(0)?;
    let run = sandbox.work().join("run");
    let mut files = vec![run.join("run.json"), run.join("stdout")];
    for entry in fs::read_dir(&run)? {
        let part = entry?.path();
        let names = ["run.json", "start", "arguments", "environment"];
        files.extend(names.iter().map(|name| part.join(name)).filter(|path| path.is_file()));
    }
    require(files.len() >= 6, || format!("only {files:?}"))?;
    for path in &files {
        let whole = fs::read(path)?;
        for step in 0..8 {
            let mut damaged = whole.clone();
            let at = (whole.len() - 1) * step / 7;
            damaged[at] ^= 1 << (step % 8);
            fs::write(path, &damaged)?;
            sandbox.note(format!("# bit {} of byte {at} of {} flipped", step % 8, path.display()));
            sandbox
                .run(&sandbox.refrain(["replay", "--quiet", "./run"]))?
                .expect_status(3)?;
        }
        fs::write(path, &whole)?;
    }
    sandbox
        .run(&sandbox.refrain(["replay", "--quiet", "./run"]))?
        .expect_status(0)?;
    Ok(())
}

/// Processes in the sandbox that have not ended.
pub fn running_in(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_there = |process: &PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let is_over = stat
            .rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
        !is_over && fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(folder))
    };
    processes.filter(is_there).collect()
}

/// Children of children, that compute for a while.
const COMPUTING: &str =
    "for i in 1 2 3 4; do (n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; echo $n) & done; wait; echo end";

fn record_computing(sandbox: &Sandbox, script: &str) -> Checked {
    let line = sandbox.refrain([
        "record", "--scope", "inputs", "-o", "run", "--", "/bin/sh", "-c", script,
    ]);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(())
}

/// A command that is killed at the latest when the test is over.
struct Underway(Child);

impl Drop for Underway {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes that watch over a command's replays, wherever they are in the tree.
fn guards_of(command: u32) -> Vec<u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_guard = |id: &u32| {
        let words = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.starts_with(&format!("replay-guard\0guard\0{command}-"))
    };
    ids.filter(is_guard).collect()
}

/// After a kill, nobody runs on: neither what the command started, nor who watched over that.
fn nobody_is_left(sandbox: &Sandbox, command: u32, when: &str) -> Checked {
    let killed = Instant::now();
    loop {
        let (left, guards) = (running_in(sandbox.work()), guards_of(command));
        if left.is_empty() && guards.is_empty() {
            return Ok(());
        }
        require(killed.elapsed() < GONE_WITHIN, || {
            format!("killed {when}, it leaves {left:?} and the guards {guards:?}")
        })?;
        thread::sleep(Duration::from_millis(10));
    }
}

fn killed_replays(sandbox: &Sandbox) -> Checked {
    record_computing(sandbox, COMPUTING)?;
    for moment in 0..16 {
        let line = sandbox.refrain(["replay", "--times", "5", "./run"]);
        let mut child = line.spawn()?;
        thread::sleep(Duration::from_millis(5 + moment * 9));
        child.kill()?;
        child.wait()?;
        nobody_is_left(sandbox, child.id(), &format!("at moment {moment}"))?;
    }
    Ok(())
}

/// gdb, the program that it holds, and what that has forked go with the command.
fn killed_debuggers(sandbox: &Sandbox) -> Checked {
    if Command::new("gdb").arg("--version").output().is_err() {
        return skipped("there is no gdb");
    }
    record_computing(sandbox, COMPUTING)?;
    sandbox.write("commands.gdb", "run\nrun\n")?;
    let line = sandbox.refrain(["replay", "--gdb", "./run", "-x", "commands.gdb", "--", "--batch", "-nh"]);
    for moment in 0..12 {
        let mut child = line.spawn()?;
        thread::sleep(Duration::from_millis(5 + moment * 70));
        child.kill()?;
        child.wait()?;
        nobody_is_left(sandbox, child.id(), &format!("at moment {moment}"))?;
    }
    Ok(())
}

/// Whoever watches over replays is not called as the command is; killed alone, there is another one, which does as well.
fn killed_guards(sandbox: &Sandbox) -> Checked {
    // So long that it does not end by itself here.
    record_computing(sandbox, &COMPUTING.replace("20000", "300000"))?;
    for attempt in 0..3 {
        let mut underway = Underway(sandbox.refrain(["replay", "--times", "50", "./run"]).spawn()?);
        let child = &mut underway.0;
        let began = Instant::now();
        let mut guards = Vec::new();
        // Those that were forked have to be there, because the others would go without anybody's help.
        while guards.is_empty() || running_in(sandbox.work()).len() < 4 {
            require(began.elapsed() < LONGEST, || format!("attempt {attempt}: no guard"))?;
            thread::sleep(Duration::from_millis(2));
            guards = guards_of(child.id());
        }
        for guard in &guards {
            let called = |file: &str| fs::read_to_string(format!("/proc/{guard}/{file}")).unwrap_or_default();
            let (name, words) = (called("comm"), called("cmdline"));
            require(!name.contains("refrain") && !words.contains("refrain"), || {
                format!("who kills refrain by name kills its guard: {name}, {words}")
            })?;
            signal(*guard, Signal::KILL)?;
        }
        let mut others = guards.clone();
        while others.is_empty() || others.iter().any(|other| guards.contains(other)) {
            require(began.elapsed() < LONGEST, || {
                format!("attempt {attempt}: no other guard after {guards:?}")
            })?;
            thread::sleep(Duration::from_millis(2));
            others = guards_of(child.id());
        }
        child.kill()?;
        child.wait()?;
        nobody_is_left(sandbox, child.id(), &format!("in attempt {attempt}"))?;
    }
    Ok(())
}

fn killed_commands(sandbox: &Sandbox) -> Checked {
    let record = sandbox.refrain([
        "record",
        "--scope",
        "inputs",
        "--",
        "/bin/sh",
        "-c",
        "(echo child); /bin/true; echo end",
    ]);
    sandbox.run(&record)?.expect_status(0)?;
    sandbox
        .run(&sandbox.refrain(["pack", "-o", "ready.refrain"]))?
        .expect_status(0)?;
    let temporary = sandbox.work().join("temporary");
    fs::create_dir(&temporary)?;
    let lines: [&[&str]; 6] = [
        &[
            "record",
            "--scope",
            "inputs",
            "--",
            "/bin/sh",
            "-c",
            "/bin/true; echo end",
        ],
        &["unpack", "ready.refrain"],
        &["pack", "sh-0", "-o", "other.refrain"],
        &["solve", "--again", "sh-0"],
        &["replay", "sh-0"],
        &["rm", "sh-1"],
    ];
    for round in 0..8 {
        for line in lines {
            let mut child = sandbox.refrain(line).var("TMPDIR", &temporary).spawn()?;
            thread::sleep(Duration::from_millis(1 + round * 4));
            child.kill()?;
            child.wait()?;
            while !running_in(sandbox.work()).is_empty() {
                thread::sleep(Duration::from_millis(5));
            }
            let listed = sandbox.run(&sandbox.refrain(["ls", "--json"]))?.expect_status(0)?;
            let listed: Value = serde_json::from_slice(&listed.stdout).or_else(|e| failed(format!("not JSON: {e}")))?;
            let is_listed = |name: &str| listed.as_array().into_iter().flatten().any(|run| run["name"] == name);
            for folder in [sandbox.runs(), sandbox.work(), temporary.as_path()] {
                for entry in fs::read_dir(folder)? {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    let is_right = match folder == sandbox.runs() {
                        // Where libc enters the kernel is kept for the next command, in full or not at all.
                        true => matches!(name.as_str(), "latest" | "libc-call-sites") || is_listed(&name),
                        false => {
                            !name.ends_with(".part") && !name.starts_with(".refrain") && folder != temporary.as_path()
                        }
                    };
                    require(is_right, || format!("{line:?}, killed in round {round}, leaves {name}"))?;
                }
            }
            let _ = fs::remove_file(sandbox.work().join("other.refrain"));
        }
    }
    sandbox.run(&sandbox.refrain(["rm", "--all"]))?.expect_status(0)?;
    let left: Vec<_> = fs::read_dir(sandbox.runs())?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    require(left.iter().all(|name| name == "libc-call-sites"), || {
        format!("{left:?} are left in the store")
    })
}

/// When the recorder is killed before it has answered what a program asks it, that does not wait for the answer.
fn killed_recorders(sandbox: &Sandbox) -> Checked {
    const GOES_ON: Duration = Duration::from_secs(6);
    for attempt in 0..4 {
        let line = sandbox.refrain(["record", "--scope", "inputs", "--", "/bin/sh", "-c", "exit 0"]);
        let mut recorder = line.spawn()?;
        while children(recorder.id())?.is_empty() && recorder.try_wait()?.is_none() {
            thread::sleep(Duration::from_micros(200));
        }
        signal(recorder.id(), Signal::STOP)?;
        thread::sleep(Duration::from_millis(400));
        recorder.kill()?;
        recorder.wait()?;
        let killed = Instant::now();
        while !running_in(sandbox.work()).is_empty() {
            require(killed.elapsed() < GOES_ON, || {
                format!("attempt {attempt}: still running after {:?}", killed.elapsed())
            })?;
            thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn latest(sandbox: &Sandbox) -> Checked {
    for _ in 0..2 {
        let record = sandbox.refrain(["record", "--scope", "inputs", "--", "/bin/true"]);
        sandbox.run(&record)?.expect_status(0)?;
    }
    // As a removal that was killed leaves it.
    fs::remove_dir_all(sandbox.runs().join("true-1"))?;
    sandbox.run(&sandbox.refrain(["replay", "--quiet"]))?.expect_status(0)?;
    fs::remove_dir_all(sandbox.runs().join("true-0"))?;
    sandbox.run(&sandbox.refrain(["ls"]))?.expect_status(0)?;
    require(fs::symlink_metadata(sandbox.runs().join("latest")).is_err(), || {
        "`latest` leads nowhere".to_owned()
    })
}
