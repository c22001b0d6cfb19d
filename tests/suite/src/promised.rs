//! What README and docs promise and no other part shows: each exit status exactly, replays that touch nothing, what outlives a kill, and where sizes end.
//! `docs/promises.md` says which sentence is shown by which test.
use crate::Checked;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Guest;
use crate::kept::disk_bytes;
use crate::kept::running_in;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Some make tens of thousands of files, perhaps on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

pub fn trials() -> Vec<Trial> {
    vec![
        trial("promised/statuses_of_record", statuses_of_record),
        trial("promised/statuses_until_failure", statuses_until_failure),
        trial("promised/statuses_of_replay", statuses_of_replay),
        trial("promised/statuses_of_others", statuses_of_others),
        trial("promised/replays_touch_nothing", replays_touch_nothing),
        trial("promised/programs_outlive_their_recorder", outlived),
        trial("promised/killed_recordings_are_packed", packed),
        trial("promised/unpacked_runs_have_no_cap", no_cap),
        trial("promised/more_threads_than_there_is_room_for", many_threads),
        trial("promised/more_processes_than_there_is_room_for", many_processes),
        trial("promised/more_variables_than_there_is_room_for", many_variables),
        trial("promised/who_is_passed_over_is_counted", passed_over),
        trial("promised/unobserved_functions_are_named", unobserved),
        trial("promised/calls_that_are_not_known_are_named", unknown_call),
        trial("promised/live_inputs_of_another_shape_diverge", another_shape),
    ]
}

/// That every test of the suite which `docs/promises.md` names is one of these. `cargo xtask check` looks for the names in the sources, where it takes some
/// for made that are not.
pub fn named(trials: &[Trial]) -> Trial {
    let there: BTreeSet<String> = trials.iter().map(|trial| trial.name().to_owned()).collect();
    trial("promised/tests_that_are_named_are_there", move |_| {
        let page = tool::guests().join("../../docs/promises.md");
        let page = fs::read_to_string(page)?;
        let rows = page.lines().filter(|line| line.starts_with('|'));
        let tests = rows.filter_map(|row| row.split('|').nth(2));
        let names = tests.flat_map(|tests| tests.split('`').skip(1).step_by(2));
        let names: Vec<&str> = names.filter(|name| !name.contains("::")).collect();
        require(names.len() > 100, || {
            format!("the page names only {} tests", names.len())
        })?;
        let missing: Vec<&&str> = names.iter().filter(|name| !there.contains(**name)).collect();
        require(missing.is_empty(), || {
            format!("docs/promises.md names {missing:?}, which do not exist")
        })
    })
}

/// A shell's line, recorded as it is.
fn shell(sandbox: &Sandbox, options: &[&str], script: &str) -> Line {
    let line = sandbox.refrain(["record", "--scope", "inputs"]).args(options);
    line.args(["--", "/bin/sh", "-c", script]).within(LIMIT)
}

fn says(text: &str, words: &str) -> Checked {
    require(text.contains(words), || format!("expected \"{words}\" in: {text}"))
}

/// A program's own statuses pass through, also those that mean something else of ours: then the run is named, and otherwise what is wrong.
fn statuses_of_record(sandbox: &Sandbox) -> Checked {
    for status in [0, 1, 2, 3, 77, 124, 125, 255] {
        let ended = sandbox
            .run(&shell(sandbox, &[], &format!("exit {status}")))?
            .expect_status(status)?;
        says(&ended.stderr_text(), &format!(", exit {status} in "))?;
        says(&ended.stderr_text(), "refrain: replay it with: refrain replay sh-")?;
        sandbox.run(&sandbox.refrain(["replay", "--quiet"]))?.expect_status(0)?;
    }
    let ended = sandbox
        .run(&shell(sandbox, &["--timeout", "0.3"], "sleep 100"))?
        .expect_status(124)?;
    says(&ended.stderr_text(), ", timeout in ")?;
    let script = "kill -TERM $$; sleep 100";
    sandbox.run(&shell(sandbox, &[], script))?.expect_status(128 + 15)?;
    // Not built with refrain; of 32 bits, and x32.
    let mut other = fs::read("/bin/true")?;
    let mut refused = vec![(2, sandbox.refrain(["record", "--", "/bin/true"]))];
    for (name, class, machine) in [("bits32", 1, 3), ("x32", 1, 62)] {
        (other[4], other[18]) = (class, machine);
        let path = sandbox.work().join(name);
        fs::write(&path, &other)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        refused.push((2, sandbox.refrain(["record", "--scope", "inputs", "--"]).arg(&path)));
    }
    sandbox.write("file", "not a directory\n")?;
    let nowhere = sandbox.work().join("file/runs");
    refused.push((3, shell(sandbox, &[], "echo ran").var("REFRAIN_DIR", nowhere)));
    refused.push((3, shell(sandbox, &["-o", "file/run"], "echo ran")));
    for (status, line) in refused {
        let ended = sandbox.run(&line)?.expect_status(status)?;
        require(ended.stdout.is_empty(), || ended.told("the program ran"))?;
        let text = ended.stderr_text();
        require(
            text.starts_with("refrain: ") && !text.contains("replay it with"),
            || ended.told("expected a sentence of refrain's, and no run"),
        )?;
    }
    Ok(())
}

fn statuses_until_failure(sandbox: &Sandbox) -> Checked {
    sandbox
        .run(&shell(sandbox, &["--until-failure=3"], "exit 0"))?
        .expect_status(0)?;
    let left = fs::read_dir(sandbox.runs())?.count();
    require(left == 0, || format!("no run failed, and {left} things are kept"))?;
    let script = "n=$(cat count 2> /dev/null || echo 0); echo $((n+1)) > count; [ $n -lt 2 ] || exit 7";
    sandbox
        .run(&shell(sandbox, &["--until-failure=9"], script))?
        .expect_status(7)?;
    let count = fs::read_to_string(sandbox.work().join("count"))?;
    require(count == "3\n", || {
        format!("the third run fails, and there were {count}")
    })?;
    sandbox.only_run()?;
    sandbox.run(&sandbox.refrain(["replay", "--quiet"]))?.expect_status(0)?;
    Ok(())
}

fn statuses_of_replay(sandbox: &Sandbox) -> Checked {
    fs::copy("/bin/true", sandbox.work().join("program"))?;
    let program = sandbox.work().join("program");
    let recorded = record(sandbox, "run", &["--scope", "inputs"], &program, LIMIT)?;
    let expect = |words: &[&str], status| sandbox.run(&sandbox.refrain(words))?.expect_status(status);
    expect(&["replay", "./run"], 0)?;
    expect(&["replay", "--times", "none", "./run"], 2)?;
    expect(&["replay", "--no-such-option", "./run"], 2)?;
    expect(&["replay", "no-such-run"], 3)?;
    let log = recorded.directory.join("control");
    let whole = fs::read(&log)?;
    fs::write(&log, &whole[..100])?;
    expect(&["replay", "./run"], 3)?;
    fs::write(&log, &whole)?;
    expect(&["replay", "./run"], 0)?;
    let bytes = fs::read(&program)?;
    fs::write(&program, [&bytes[..], b"x"].concat())?;
    expect(&["replay", "./run"], 3)?;
    fs::remove_file(&program)?;
    expect(&["replay", "./run"], 3)?;
    Ok(())
}

fn statuses_of_others(sandbox: &Sandbox) -> Checked {
    sandbox.run(&shell(sandbox, &[], "exit 0"))?.expect_status(0)?;
    sandbox.write("text", "not a run\n")?;
    for command in ["explain", "info", "dump", "solve", "pack", "rm", "unpack"] {
        let expect = |word: &str, status| sandbox.run(&sandbox.refrain([command, word]))?.expect_status(status);
        expect("--no-such-option", 2)?;
        for wrong in ["no-such-run", "./text"] {
            let ended = expect(wrong, 3)?;
            require(ended.stderr_text().starts_with("refrain: "), || {
                ended.told("expected a sentence")
            })?;
        }
    }
    for command in ["ls", "info", "dump", "solve", "pack"] {
        sandbox.run(&sandbox.refrain([command]))?.expect_status(0)?;
    }
    // A refusal of the compiler's driver, and clang's own status.
    sandbox.write("good.c", "int main(void) { return 0; }\n")?;
    sandbox.write("bad.c", "int main(void) { return nothing; }\n")?;
    for (words, status) in [
        (&["cc", "-static", "good.c"][..], 2),
        (&["cc", "-static-pie", "good.c"], 2),
        (&["cc", "-m32", "good.c"], 2),
        (&["cc", "-fsanitize=address", "good.c"], 2),
        (&["cc", "-c", "bad.c"], 1),
        (&["cc", "-c", "good.c"], 0),
    ] {
        sandbox
            .run(&sandbox.refrain(words).within(LIMIT))?
            .expect_status(status)?;
    }
    Ok(())
}

/// What the program made is gone, what it removed is there again: a replay changes neither.
fn replays_touch_nothing(sandbox: &Sandbox) -> Checked {
    sandbox.write("removed", "here\n")?;
    let script = "cat removed; echo written > made; mkdir folder; rm removed; cat made";
    sandbox.run(&shell(sandbox, &[], script))?.expect_status(0)?;
    fs::remove_file(sandbox.work().join("made"))?;
    fs::remove_dir(sandbox.work().join("folder"))?;
    sandbox.write("removed", "something else\n")?;
    let ended = sandbox.run(&sandbox.refrain(["replay"]))?.expect_status(0)?;
    require(ended.stdout == b"here\nwritten\n", || ended.told("another run"))?;
    for (name, is_there) in [("made", false), ("folder", false), ("removed", true)] {
        require(sandbox.work().join(name).exists() == is_there, || {
            ended.told(&format!("the replay has touched {name}"))
        })?;
    }
    Ok(())
}

/// Reads a line of what a command prints, so that it is known how far that is.
fn wait_for_line(child: &mut Child) -> Checked<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    if let Some(output) = &mut child.stdout {
        while !line.ends_with(b"\n") && output.read(&mut byte)? == 1 {
            line.push(byte[0]);
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Checked {
    let began = Instant::now();
    while !is_so() {
        require(began.elapsed() < LIMIT, || format!("waited in vain for {what}"))?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The program of a recorder that was killed goes on, until it writes where nobody reads.
fn outlived(sandbox: &Sandbox) -> Checked {
    let script =
        "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo 1 > went_on; echo more; echo 1 > went_too_far";
    let line = shell(sandbox, &["-o", "run"], script);
    sandbox.note(format!("{} &   # killed after its first line; touch go", line.typed()));
    let mut recorder = line.spawn()?;
    let begun = wait_for_line(&mut recorder)?;
    recorder.kill()?;
    recorder.wait()?;
    require(begun == "begun\n", || format!("it began with {begun:?}"))?;
    sandbox.write("go", "")?;
    wait_until("the program to end", || running_in(sandbox.work()).is_empty())?;
    let is_there = |name: &str| sandbox.work().join(name).exists();
    require(is_there("went_on"), || "the program did not go on".to_owned())?;
    require(!is_there("went_too_far"), || {
        "the program wrote where nobody reads".to_owned()
    })?;
    let info = sandbox.run(&sandbox.refrain(["info", "./run"]))?.expect_status(0)?;
    says(&info.stdout_text(), "the recording was interrupted")?;
    sandbox
        .run(&sandbox.refrain(["replay", "./run"]).within(LIMIT))?
        .expect_status(0)?;
    Ok(())
}

/// A recording of which everything was killed is packed, and replayed from there.
fn packed(sandbox: &Sandbox) -> Checked {
    let script = "echo begun; n=0; while :; do n=$((n+1)); echo $n > number; done";
    let line = shell(sandbox, &["-o", "run"], script);
    sandbox.note(format!("{} &   # killed with its program", line.typed()));
    let mut recorder = line.spawn()?;
    wait_for_line(&mut recorder)?;
    wait_until("the program to go on", || sandbox.work().join("number").exists())?;
    kill_group(recorder.id());
    recorder.wait()?;
    wait_until("all to be gone", || running_in(sandbox.work()).is_empty())?;
    for words in [
        &["pack", "./run", "-o", "packed.refrain"][..],
        &["unpack", "packed.refrain", "-o", "unpacked"],
        &["replay", "./unpacked"],
    ] {
        let ended = sandbox.run(&sandbox.refrain(words).within(LIMIT))?.expect_status(0)?;
        require(words[0] != "replay" || ended.stdout == b"begun\n", || {
            ended.told("expected what was printed before the kill")
        })?;
    }
    Ok(())
}

/// What a replay computes is kept with an unpacked run, however much it is.
fn no_cap(sandbox: &Sandbox) -> Checked {
    const CAP: u64 = 640 << 10;
    let guest = Guest::read(&tool::guests().join("probes/chatty.c")).or_else(failed)?;
    let program = guest.build(sandbox, &[])?;
    record(sandbox, "run", &["--max-size", "640K"], &program, LIMIT)?;
    for words in [
        &["pack", "./run", "-o", "packed.refrain"][..],
        &["unpack", "packed.refrain", "-o", "unpacked"],
        &["replay", "--quiet", "./unpacked"],
    ] {
        sandbox.run(&sandbox.refrain(words).within(LIMIT))?.expect_status(0)?;
    }
    let unpacked = sandbox.work().join("unpacked");
    require(unpacked.join("schedule").exists(), || {
        "the schedule is not kept".to_owned()
    })?;
    let bytes = disk_bytes(&unpacked)?;
    require(bytes > CAP, || format!("{bytes} bytes show nothing"))
}

/// Compiles a source in the sandbox: with refrain, or as any compiler does.
fn build(sandbox: &Sandbox, source: &str, is_ours: bool) -> Checked<PathBuf> {
    sandbox.write("program.c", source)?;
    let line = match is_ours {
        true => sandbox.refrain(["cc"]),
        false => sandbox.other(tool::plain_compiler(false), &[] as &[&str]),
    };
    let line = line.args(["-O1", "-pthread", "program.c", "-o", "program"]);
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    Ok(sandbox.work().join("program"))
}

fn told(sandbox: &Sandbox, recorded: &Recorded) -> Checked<String> {
    let line = sandbox.refrain(["info"]).arg(&recorded.directory);
    Ok(sandbox.run(&line)?.expect_status(0)?.stdout_text())
}

const THREADS: &str = "#include <pthread.h>\n#include <stdio.h>\n\
    static int sum;\n\
    static void *body(void *argument) { sum++; return argument; }\n\
    int main(void) {\n\
      for (int i = 0; i < 32800; i++) {\n\
        pthread_t thread;\n\
        if (pthread_create(&thread, 0, body, 0) != 0) return 9;\n\
        pthread_join(thread, 0);\n\
      }\n\
      printf(\"%d\\n\", sum); return 5; }\n";

fn many_threads(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, THREADS, true)?;
    let recorded = record(sandbox, "run", &["--scope", "sync"], &program, LIMIT)?;
    let ended = recorded.ended.clone().expect_status(5)?;
    require(ended.stdout == b"32800\n", || ended.told("the program was disturbed"))?;
    let why = "the program created more than 32768 threads";
    says(&ended.stderr_text(), why)?;
    says(&told(sandbox, &recorded)?, why)?;
    let line = sandbox.refrain(["replay"]).arg(&recorded.directory).within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    says(&ended.stderr_text(), why)
}

const PROCESSES: &str = "#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
    int main(void) {\n\
      int ended = 0;\n\
      for (int i = 0; i < 4100; i++) {\n\
        pid_t child = fork();\n\
        if (child == 0) _exit(0);\n\
        ended += waitpid(child, 0, 0) == child;\n\
      }\n\
      printf(\"%d\\n\", ended); return 5; }\n";

fn many_processes(sandbox: &Sandbox) -> Checked {
    let program = build(sandbox, PROCESSES, false)?;
    let recorded = record(sandbox, "run", &["--scope", "inputs"], &program, LIMIT)?;
    let ended = recorded.ended.clone().expect_status(5)?;
    require(ended.stdout == b"4100\n", || ended.told("the program was disturbed"))?;
    // With the first one, 4,096.
    says(&ended.stderr_text(), "4095 processes that it started are recorded")?;
    says(&ended.stderr_text(), "processes that are not recorded")?;
    let info = recorded.info(sandbox)?;
    let processes = info["processes"].as_array().map_or(0, Vec::len);
    require(processes == 4095 && info["unrecorded_processes"] == true, || {
        format!(
            "{processes} processes; unrecorded ones: {}",
            info["unrecorded_processes"]
        )
    })
}

/// With more variables than there is room for, a program goes without the recorder, and that is said.
fn many_variables(sandbox: &Sandbox) -> Checked {
    let variables: Vec<String> = (0..600).map(|number| format!("V{number}=1")).collect();
    let script = format!("env {} /bin/echo hello", variables.join(" "));
    let ended = sandbox
        .run(&shell(sandbox, &["-o", "run"], &script))?
        .expect_status(0)?;
    require(ended.stdout == b"hello\n", || ended.told("the program was disturbed"))?;
    says(&ended.stderr_text(), "processes that are not recorded")?;
    sandbox.run(&sandbox.refrain(["replay", "./run"]))?.expect_status(0)?;
    Ok(())
}

/// One thread waits for another one without any call.
fn passed_over(sandbox: &Sandbox) -> Checked {
    let source = "#include <pthread.h>\n#include <unistd.h>\n\
        static volatile int ready;\n\
        static void *body(void *argument) { usleep(1000); ready = 1; usleep(1000); return argument; }\n\
        int main(void) { pthread_t thread; pthread_create(&thread, 0, body, 0); while (!ready) {} return pthread_join(thread, 0); }\n";
    let program = build(sandbox, source, false)?;
    let recorded = record(sandbox, "run", &["--one-at-a-time"], &program, LIMIT)?;
    let why = "once a thread made no call for so long that others went on beside it";
    says(&recorded.ended.clone().expect_status(0)?.stderr_text(), why)?;
    says(&told(sandbox, &recorded)?, why)
}

fn unobserved(sandbox: &Sandbox) -> Checked {
    let source = "#include <stdio.h>\n#include <string.h>\n\
        int main(void) { char text[] = \"a b\"; return puts(strtok(text, \" \")) < 0; }\n";
    let program = build(sandbox, source, true)?;
    let recorded = record(sandbox, "run", &[], &program, LIMIT)?;
    let functions = &recorded.info(sandbox)?["unobserved_functions"];
    let is_named = |name: &str| functions.as_array().is_some_and(|all| all.contains(&Value::from(name)));
    require(is_named("strtok") && !is_named("puts"), || {
        format!("the functions that are named are {functions}")
    })
}

/// More buffers than there is room for.
fn unknown_call(sandbox: &Sandbox) -> Checked {
    let source = "#include <fcntl.h>\n#include <sys/uio.h>\n\
        int main(void) { static char bytes[100]; struct iovec parts[100];\n\
          for (int i = 0; i < 100; i++) parts[i] = (struct iovec){bytes + i, 1};\n\
          return readv(open(\"program.c\", O_RDONLY), parts, 100) == 100 ? 0 : 9; }\n";
    let program = build(sandbox, source, false)?;
    let recorded = record(sandbox, "run", &["--scope", "inputs"], &program, LIMIT)?;
    let readv = "system call 19 is not known to this version";
    says(&recorded.ended.clone().expect_status(0)?.stderr_text(), readv)?;
    says(&told(sandbox, &recorded)?, readv)
}

/// A program that locks once for each byte it reads.
fn another_shape(sandbox: &Sandbox) -> Checked {
    let source = "#include <fcntl.h>\n#include <pthread.h>\n#include <unistd.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static volatile int sum;\n\
        static void *body(void *argument) { pthread_mutex_lock(&lock); sum++; pthread_mutex_unlock(&lock); return argument; }\n\
        int main(void) { pthread_t thread; char byte; int file = open(\"letters\", O_RDONLY);\n\
          pthread_create(&thread, 0, body, 0);\n\
          while (read(file, &byte, 1) == 1) { pthread_mutex_lock(&lock); sum += byte; pthread_mutex_unlock(&lock); }\n\
          return pthread_join(thread, 0); }\n";
    let program = build(sandbox, source, true)?;
    sandbox.write("letters", "recorded")?;
    let recorded = record(sandbox, "run", &[], &program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    let line = sandbox.refrain(["replay", "--live-inputs"]).arg(&recorded.directory);
    for (letters, status) in [("sunshine", 0), ("sun", 1), ("thunderstorm", 1)] {
        sandbox.write("letters", letters)?;
        let ended = sandbox.run(&line.clone().within(LIMIT))?.expect_status(status)?;
        require(status == 0 || ended.stderr_text().contains("diverged"), || {
            ended.told("it does not say that it diverged")
        })?;
    }
    Ok(())
}
