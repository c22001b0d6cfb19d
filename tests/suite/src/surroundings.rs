//! What the recorder must not change about a program: where its output goes and whether that works, its terminal, its limits, its namespaces, its children.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::recording::Recorded;
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
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(60);
const INPUTS: [&str; 2] = ["--scope", "inputs"];

pub fn trials() -> Vec<Trial> {
    vec![
        trial("surroundings/reader_gone_by_signal", reader_gone_by_signal),
        trial("surroundings/reader_gone_by_error", reader_gone_by_error),
        trial("surroundings/full_device", full_device),
        trial("surroundings/full_disk_of_the_output", full_disk),
        trial("surroundings/terminal", on_terminal),
        trial("surroundings/terminal_of_a_pager", pager),
        trial("surroundings/left_running", left_running),
        trial("surroundings/double_fork", double_fork),
        trial("surroundings/few_descriptors", few_descriptors),
        trial("surroundings/unlimited_stack", unlimited_stack),
        trial("surroundings/limited_files", limited_files),
        trial("surroundings/limited_address_space", limited_address_space),
        trial("surroundings/other_pid_namespace", other_pid_namespace),
        trial("surroundings/only_linked", only_linked),
        trial("surroundings/own_thread", own_thread),
        trial("surroundings/sparse_mappings", sparse_mappings),
        trial("surroundings/signals_to_the_group", signals_to_the_group),
        trial("surroundings/ldd", ldd),
    ]
}

/// A guest of this part, built with refrain.
fn build(sandbox: &Sandbox, name: &str) -> Checked<PathBuf> {
    let program = sandbox.work().join(name.trim_end_matches(".c"));
    let line = sandbox
        .refrain(["cc", "-O1", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(tool::guests().join("surroundings").join(name))
        .within(LIMIT);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(program)
}

/// A line of bash in which `$refrain` is the tool.
fn bash(sandbox: &Sandbox, script: &str) -> Checked<Ended> {
    let refrain = sandbox.refrain([""; 0]).program;
    let line = sandbox
        .other("bash", ["-c", script])
        .var("refrain", refrain)
        .within(LIMIT);
    sandbox.run(&line)
}

fn says(ended: &Ended, words: &str) -> Checked {
    require(ended.stderr_text().contains(words), || {
        ended.told(&format!("expected it to say \"{words}\""))
    })
}

fn check_replayed(sandbox: &Sandbox, run: &str) -> Checked<Ended> {
    let line = sandbox.refrain(["replay", "--times", "3", run]).within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    says(&ended, "replayed 3 of 3 identically")?;
    Ok(ended)
}

fn reader_gone_by_signal(sandbox: &Sandbox) -> Checked {
    let script = "\"$refrain\" record --scope inputs -o run -- yes | head -1; exit ${PIPESTATUS[0]}";
    let ended = bash(sandbox, script)?.expect_status(128 + 13)?;
    require(ended.stdout == b"y\n", || ended.told("head wants one line"))?;
    let kept = fs::metadata(sandbox.work().join("run/stdout"))?.len();
    require(kept < 100 << 20, || {
        format!("{kept} bytes were kept of what one line was read of")
    })?;
    check_replayed(sandbox, "./run").map(drop)
}

fn reader_gone_by_error(sandbox: &Sandbox) -> Checked {
    build(sandbox, "output.c")?;
    let script = "\"$refrain\" record -o run -- ./output | head -1; exit ${PIPESTATUS[0]}";
    let ended = bash(sandbox, script)?.expect_status(3)?;
    says(&ended, "refused: EPIPE")?;
    says(&ended, "went away")?;
    let ended = check_replayed(sandbox, "./run")?;
    says(&ended, "refused: EPIPE")
}

fn full_device(sandbox: &Sandbox) -> Checked {
    build(sandbox, "output.c")?;
    for scope in ["memory", "inputs"] {
        let script = format!("\"$refrain\" record --scope {scope} -o {scope} -- ./output > /dev/full");
        let ended = bash(sandbox, &script)?.expect_status(3)?;
        says(&ended, "refused: ENOSPC")?;
        let kept = fs::metadata(sandbox.work().join(scope).join("stdout"))?.len();
        require(kept == 0, || format!("{kept} bytes were kept of what was refused"))?;
        says(&check_replayed(sandbox, &format!("./{scope}"))?, "refused: ENOSPC")?;
    }
    // The one write of a program that writes once.
    let ended = bash(
        sandbox,
        "\"$refrain\" record --scope inputs -o echo -- /bin/echo hello > /dev/full",
    )?;
    ended.expect_status(1)?;
    check_replayed(sandbox, "./echo").map(drop)
}

fn full_disk(sandbox: &Sandbox) -> Checked {
    build(sandbox, "output.c")?;
    let script = "mkdir small && mount -t tmpfs -o size=2m none small || exit 77
        \"$refrain\" record --scope inputs -o run -- ./output > small/output";
    let line = sandbox.other("unshare", ["-Urm", "bash", "-c", script]);
    let line = line.var("refrain", sandbox.refrain([""; 0]).program).within(LIMIT);
    let ended = sandbox.run(&line)?;
    if ended.status == 77 || ended.stderr_text().contains("unshare failed") {
        return skipped("no mounts in a namespace here");
    }
    says(&ended.expect_status(3)?, "refused: ENOSPC")?;
    says(&check_replayed(sandbox, "./run")?, "refused: ENOSPC")
}

/// A terminal with a command on it; whatever still lives of that dies with this value.
struct OnTerminal {
    child: Child,
    keyboard: File,
    /// What is on it so far.
    screen: Arc<Mutex<Vec<u8>>>,
    typed: String,
}

impl OnTerminal {
    fn start(sandbox: &Sandbox, line: &Line) -> Checked<OnTerminal> {
        sandbox.note(format!("{}   # on a terminal", line.typed()));
        let open = || -> rustix::io::Result<(File, File)> {
            let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
            rustix::pty::grantpt(&ours)?;
            rustix::pty::unlockpt(&ours)?;
            let name = rustix::pty::ptsname(&ours, Vec::new())?;
            let theirs = rustix::fs::open(
                name.as_c_str(),
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY,
                rustix::fs::Mode::empty(),
            )?;
            Ok((ours.into(), theirs.into()))
        };
        let (ours, theirs) = open().or_else(|e| failed(format!("cannot make a terminal: {e}")))?;
        let mut command = Command::new(&line.program);
        command
            .args(&line.arguments)
            .current_dir(&line.directory)
            .envs(line.variables.iter().map(|(name, value)| (name, value)))
            .env("TERM", "xterm")
            .stdin(theirs.try_clone()?)
            .stdout(theirs.try_clone()?)
            .stderr(theirs)
            .process_group(0);
        let child = command.spawn()?;
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut shown, reader) = (ours.try_clone()?, Arc::clone(&screen));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error is the end of all that have the other end.
            while let Ok(bytes @ 1..) = shown.read(&mut buffer) {
                let mut screen = reader.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                screen.extend_from_slice(&buffer[..bytes]);
            }
        });
        let terminal = OnTerminal {
            child,
            keyboard: ours,
            screen,
            typed: line.typed(),
        };
        terminal.resize(33, 77)?;
        Ok(terminal)
    }

    fn resize(&self, rows: u16, columns: u16) -> Checked {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&self.keyboard, size).or_else(|e| failed(format!("cannot resize it: {e}")))
    }

    fn screen(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        String::from_utf8_lossy(&screen).into_owned()
    }

    fn wait_for(&self, words: &str) -> Checked {
        let start = Instant::now();
        while !self.screen().contains(words) {
            require(start.elapsed() < LIMIT, || {
                format!("{}: \"{words}\" does not appear in:\n{}", self.typed, self.screen())
            })?;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn type_in(&mut self, keys: &str) -> Checked {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// The exit status.
    fn finish(&mut self) -> Checked<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code().unwrap_or(-1));
            }
            require(start.elapsed() < LIMIT, || {
                format!("{} does not end:\n{}", self.typed, self.screen())
            })?;
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        kill_group(self.child.id());
        // Collected, so that no zombie keeps its number.
        let _ = self.child.wait();
    }
}

fn on_terminal(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, "terminal.c")?;
    for scope in ["memory", "inputs"] {
        let line = sandbox
            .refrain(["record", "--scope", scope, "-o", scope, "--"])
            .arg(&program);
        let mut terminal = OnTerminal::start(sandbox, &line)?;
        let before = rustix::termios::tcgetattr(&terminal.keyboard).or_else(|e| failed(e.to_string()))?;
        terminal.wait_for("terminals 1 1 1")?;
        terminal.wait_for("foreground 1, /dev/tty 1")?;
        terminal.wait_for("a word on stderr")?;
        terminal.wait_for("prompt> ")?;
        terminal.type_in("some words\r")?;
        terminal.wait_for("read some words")?;
        terminal.resize(44, 88)?;
        terminal.wait_for("window 44 x 88")?;
        terminal.type_in("\x03")?;
        terminal.wait_for("interrupted")?;
        let status = terminal.finish()?;
        require(status == 7, || {
            format!("expected status 7, got {status}:\n{}", terminal.screen())
        })?;
        let after = rustix::termios::tcgetattr(&terminal.keyboard).or_else(|e| failed(e.to_string()))?;
        let modes = |t: &rustix::termios::Termios| (t.input_modes, t.output_modes, t.local_modes, t.control_modes);
        require(modes(&before) == modes(&after), || {
            "the terminal is not as it was".to_owned()
        })?;
        let replayed = check_replayed(sandbox, &format!("./{scope}"))?;
        for words in ["terminals 1 1 1", "window 44 x 88", "read some words", "interrupted"] {
            require(replayed.stdout_text().contains(words), || {
                replayed.told(&format!("the replay does not show \"{words}\""))
            })?;
        }
    }
    Ok(())
}

/// It asks its terminal for keys, whatever its input is.
fn pager(sandbox: &Sandbox) -> Checked {
    if !Path::new("/usr/bin/less").exists() {
        return skipped("no less here");
    }
    let text: String = (1..200).map(|number| format!("line {number}\n")).collect();
    sandbox.write("text", &text)?;
    let line = sandbox.refrain(["record", "--scope", "inputs", "-o", "run", "--", "less", "text"]);
    let mut terminal = OnTerminal::start(sandbox, &line)?;
    terminal.wait_for("line 20")?;
    require(!terminal.screen().contains("line 100"), || {
        "less does not page".to_owned()
    })?;
    terminal.type_in("G")?;
    terminal.wait_for("line 199")?;
    terminal.type_in("q")?;
    let status = terminal.finish()?;
    require(status == 0, || {
        format!("expected status 0, got {status}:\n{}", terminal.screen())
    })?;
    let replayed = check_replayed(sandbox, "./run")?;
    require(replayed.stdout_text().contains("line 199"), || {
        replayed.told("the replay does not show what less showed")
    })
}

fn kill(pid: &str) {
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    // It may be gone already.
    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
}

fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

/// A shell's child that goes on: the recording is over with the shell, and the child lives.
fn left_running(sandbox: &Sandbox) -> Checked {
    let line = sandbox.refrain(["record", "--scope", "inputs", "-o", "run", "--", "sh", "-c"]);
    let line = line.arg("sleep 1000 > /dev/null 2>&1 & echo $!").within(LIMIT);
    let ended = sandbox.run(&line)?;
    let pid = ended.stdout_text().to_string();
    let lives = is_running(&pid);
    let replayed = check_replayed(sandbox, "./run");
    kill(&pid);
    let ended = ended.expect_status(0)?;
    require(lives, || ended.told("the child does not live on"))?;
    says(&ended, "1 process that it started ran on")?;
    require(replayed?.stdout_text() == pid, || {
        ended.told("the replay shows something else")
    })
}

fn double_fork(sandbox: &Sandbox) -> Checked {
    let text = "#include <stdio.h>\n#include <unistd.h>\n\
        int main(void) {\n\
          if (fork() == 0) { setsid(); if (fork() == 0) for (long i = 0;; i++) usleep(1000); _exit(0); }\n\
          sleep(1); puts(\"done\"); return 5; }\n";
    let source = sandbox.write("daemon.c", text)?;
    let program = sandbox.work().join("daemon");
    let line = sandbox.refrain(["cc"]).arg(&source).arg("-o").arg(&program);
    sandbox.run(&line)?.expect_status(0)?;
    let recorded = record(sandbox, "run", &[], &program, LIMIT);
    let replayed = check_replayed(sandbox, "./run");
    // By what it executes, which nobody else does.
    for entry in fs::read_dir("/proc")?.flatten() {
        if fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program) {
            kill(&entry.file_name().to_string_lossy());
        }
    }
    let ended = recorded?.ended.expect_status(5)?;
    says(&ended, "1 process that it started ran on")?;
    replayed.map(drop)
}

/// A program with threads, and one that executes others.
fn threaded(sandbox: &Sandbox) -> Checked<PathBuf> {
    let text = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        static long sum; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static void *add(void *n) { for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&lock); sum += (long)n; pthread_mutex_unlock(&lock); } return 0; }\n\
        int main(int argc, char **argv) { pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(t + i, 0, add, (void *)i);\n\
          for (int i = 0; i < 4; i++) pthread_join(t[i], 0); printf(\"sum %ld\\n\", sum); fflush(stdout);\n\
          return argc > 1 ? system(argv[1]) : 0; }\n";
    let source = sandbox.write("threaded.c", text)?;
    let program = sandbox.work().join("threaded");
    let line = sandbox.refrain(["cc", "-pthread"]).arg(&source).arg("-o").arg(&program);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(program)
}

fn few_descriptors(sandbox: &Sandbox) -> Checked {
    threaded(sandbox)?;
    for descriptors in [64, 20] {
        // Soft and hard, then the soft one alone.
        for which in ["", "-S"] {
            let run = format!("run{which}-{descriptors}");
            let script =
                format!("ulimit {which} -n {descriptors}; \"$refrain\" record -o {run} -- ./threaded ./threaded");
            let ended = bash(sandbox, &script)?.expect_status(0)?;
            require(ended.stdout_text().matches("sum 6000").count() == 2, || {
                ended.told("both programs run")
            })?;
            check_replayed(sandbox, &format!("./{run}"))?;
        }
    }
    let script = "ulimit -n 20; \"$refrain\" record --scope inputs -o limit -- sh -c 'ulimit -n; sh -c \"ulimit -n\"'";
    let ended = bash(sandbox, script)?.expect_status(0)?;
    require(ended.stdout == b"20\n20\n", || {
        ended.told("the program sees another limit")
    })?;
    check_replayed(sandbox, "./limit").map(drop)
}

fn unlimited_stack(sandbox: &Sandbox) -> Checked {
    if !bash(sandbox, "ulimit -s unlimited")?.stderr.is_empty() {
        return skipped("the stack cannot be unlimited here");
    }
    threaded(sandbox)?;
    for scope in ["memory", "sync", "inputs"] {
        let script = format!(
            "ulimit -s unlimited; \"$refrain\" record --scope {scope} -o {scope} -- ./threaded './threaded; ulimit -s'"
        );
        let ended = bash(sandbox, &script)?.expect_status(0)?;
        require(ended.stdout_text().matches("sum 6000").count() == 2, || {
            ended.told("the program does not do what it does")
        })?;
        // Under whatever limit the replay has.
        let extra = if scope == "inputs" { "unlimited" } else { "8192" };
        let ended = bash(sandbox, &format!("ulimit -S -s {extra}; \"$refrain\" replay {scope}"))?;
        ended.expect_status(0)?;
    }
    Ok(())
}

fn limited_files(sandbox: &Sandbox) -> Checked {
    threaded(sandbox)?;
    let script = "ulimit -f 100; \"$refrain\" record -o small -- ./threaded";
    let ended = bash(sandbox, script)?.expect_status(125)?;
    says(&ended, "ulimit -f")?;
    // Enough to begin with, and not for all that it reads.
    let reads = "head -c 30000000 /dev/zero | wc -c; echo done";
    let script = format!("ulimit -f 10240; \"$refrain\" record --scope inputs -o large -- sh -c '{reads}'");
    let ended = bash(sandbox, &script)?.expect_status(0)?;
    require(ended.stdout == b"30000000\ndone\n", || {
        ended.told("the limit is for the program's files, not for what is recorded")
    })?;
    let told = sandbox.run(&sandbox.refrain(["info", "./large"]))?.expect_status(0)?;
    require(told.stdout_text().contains("truncated"), || {
        told.told("it does not say that the log was cut")
    })?;
    check_replayed(sandbox, "./large").map(drop)
}

fn limited_address_space(sandbox: &Sandbox) -> Checked {
    threaded(sandbox)?;
    let script = "ulimit -v 4000000; \"$refrain\" record -o memory -- ./threaded";
    let ended = bash(sandbox, script)?.expect_status(125)?;
    says(&ended, "ulimit -v")?;
    let script = "ulimit -v 4000000; \"$refrain\" record --scope inputs -o inputs -- sh -c 'echo hello; ls -d /'";
    let ended = bash(sandbox, script)?.expect_status(0)?;
    require(ended.stdout == b"hello\n/\n", || ended.told("it prints something else"))?;
    check_replayed(sandbox, "./inputs").map(drop)
}

/// A process that a namespace gives the number of somebody outside, who has nothing to do with it.
fn other_pid_namespace(sandbox: &Sandbox) -> Checked {
    let probe = sandbox.run(&sandbox.other("unshare", ["-Urpf", "--mount-proc", "true"]))?;
    if probe.status != 0 {
        return skipped("no pid namespaces here");
    }
    // Now and then (about one time in ten) the recorder takes what runs in the namespace for ended, and does not wait for it. Nobody else is
    // killed then either, which is what this is about.
    let mut last = in_other_pid_namespace(sandbox, 1);
    for attempt in 2..=3 {
        if last.is_err() {
            last = in_other_pid_namespace(sandbox, attempt);
        }
    }
    last
}

fn in_other_pid_namespace(sandbox: &Sandbox, attempt: u32) -> Checked {
    let mut stranger = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn()?;
    let number = stranger.id();
    // The shell in the namespace stays, and so does what it has started; the first process of the run does not.
    let inside = format!(
        "echo {} > /proc/sys/kernel/ns_last_pid; sleep 1000.5 > /dev/null 2>&1 & echo inside $! {number}; wait",
        number - 1
    );
    let line = sandbox
        .refrain([
            "record",
            "--scope",
            "inputs",
            "--timeout",
            "5",
            "--wait",
            "60",
            "-o",
            &format!("run-{attempt}"),
            "--",
        ])
        .args(["sh", "-c", &format!("unshare -Urpf --mount-proc sh -c '{inside}' &")])
        .within(LIMIT);
    let ended = sandbox.run(&line);
    let is_alive = stranger.try_wait()?.is_none();
    stranger.kill()?;
    stranger.wait()?;
    let ended = ended?;
    let has_its_number = ended.stdout_text().contains(&format!("inside {number} {number}"));
    require(is_alive, || ended.told("somebody else was killed"))?;
    if !has_its_number {
        return skipped("a namespace's next number cannot be chosen here");
    }
    ended.expect_status(124).map(drop)
}

/// Compiled by somebody else, linked by us.
fn only_linked(sandbox: &Sandbox) -> Checked {
    threaded(sandbox)?;
    let line = sandbox.other("clang-22", ["-O1", "-pthread", "-c", "threaded.c", "-o", "threaded.o"]);
    sandbox.run(&line)?.expect_status(0)?;
    let line = sandbox.refrain(["cc", "-pthread", "threaded.o", "-o", "linked"]);
    sandbox.run(&line)?.expect_status(0)?;
    let recorded: Recorded = record(sandbox, "run", &[], &sandbox.work().join("linked"), LIMIT)?;
    says(&recorded.ended, "only linked")?;
    let info = sandbox.run(&sandbox.refrain(["info", "./run"]))?.expect_status(0)?;
    require(info.stdout_text().contains("only linked"), || {
        info.told("info does not say that it was only linked")
    })?;
    let whole = record(sandbox, "whole", &[], &sandbox.work().join("threaded"), LIMIT)?;
    require(!whole.ended.stderr_text().contains("compiled to be observed"), || {
        whole
            .ended
            .told("it says of a program that was built with refrain that it was not")
    })
}

/// A thread that libc does not know: it runs as it does without the recorder. At scope inputs it comes back; at others the recorder says that it did not see it.
fn own_thread(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, "own_thread.c")?;
    for scope in ["memory", "inputs"] {
        let recorded = record(sandbox, scope, &["--scope", scope], &program, LIMIT)?;
        let ended = recorded.ended.expect_status(0)?;
        require(ended.stdout == b"both are done\n", || {
            ended.told("it prints something else")
        })?;
        match scope {
            "inputs" => _ = check_replayed(sandbox, "./inputs")?,
            _ => says(&ended, "1 thread that the recorder does not know")?,
        }
    }
    Ok(())
}

/// Terabytes of which little is used.
fn sparse_mappings(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, "sparse.c")?;
    for scope in ["memory", "sync", "inputs"] {
        let recorded = record(sandbox, scope, &["--scope", scope], &program, LIMIT)?;
        let ended = recorded.ended.expect_status(0)?;
        require(ended.stdout == b"sum 28\n", || ended.told("it prints something else"))?;
        check_replayed(sandbox, &format!("./{scope}"))?;
    }
    Ok(())
}

/// What the program sends to its group comes to the recorder, too, which survives it, and passes none of it on; but what others send to the recorder.
fn signals_to_the_group(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, "group.c")?;
    for scope in ["memory", "inputs"] {
        let recorded = record(sandbox, scope, &["--scope", scope], &program, LIMIT)?;
        let ended = recorded.ended.expect_status(0)?;
        require(
            ended.stdout == b"60 signals, 0 of them not once; 0 ignored or blocked at the start\n",
            || ended.told("it prints something else"),
        )?;
        check_replayed(sandbox, &format!("./{scope}"))?;
    }
    // They come to the recorder all at once.
    let line = sandbox
        .refrain(["record", "-o", "held"])
        .args(INPUTS)
        .arg("--")
        .arg(&program)
        .arg("held");
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    check_replayed(sandbox, "./held")?;
    let waits = "trap 'echo handled; exit 3' USR1; echo ready > ready; while :; do sleep 0.05; done";
    let script = format!(
        "$refrain record --scope inputs -o run -- bash -c \"{waits}\" & recorder=$!\n\
         while [ ! -e ready ]; do sleep 0.05; done; kill -USR1 $recorder; wait $recorder"
    );
    let ended = bash(sandbox, &script)?.expect_status(3)?;
    require(ended.stdout == b"handled\n", || ended.told("it prints something else"))
}

fn ldd(sandbox: &Sandbox) -> Checked {
    let names = |text: &str| -> Vec<String> {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        text.lines().filter_map(first).collect()
    };
    let plain = sandbox
        .run(&sandbox.other("bash", ["/usr/bin/ldd", "/bin/ls"]))?
        .expect_status(0)?;
    let line = sandbox
        .refrain(["record", "-o", "run"])
        .args(INPUTS)
        .args(["--", "bash", "/usr/bin/ldd", "/bin/ls"]);
    let ended = sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    require(names(&ended.stdout_text()) == names(&plain.stdout_text()), || {
        ended.told(&format!("ldd itself says\n{}", plain.stdout_text()))
    })
}
