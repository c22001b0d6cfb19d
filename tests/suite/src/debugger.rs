//! Replays under gdb, in batch: breakpoints, watchpoints and stepping do not disturb them, and the failure is found.
use crate::Checked;
use crate::command::Ended;
use crate::failed;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// Sessions of each kind: what goes well once may have been luck.
const SESSIONS: u32 = 3;

pub fn trials() -> Result<Vec<Trial>, String> {
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let all: [(&str, Check, &str); 13] = [
        ("breakpoint", breakpoint, "bugs/use_after_free.c"),
        ("watchpoint", watchpoint, "bugs/bank.c"),
        (
            "stepping_and_running_again",
            stepping_and_running_again,
            "demo_heisenbug.c",
        ),
        ("goto_crash", goto_crash, "bugs/use_after_free.c"),
        ("goto_assertion", goto_assertion, "bugs/lazy01.c"),
        ("goto_exit", goto_exit, "bugs/bank.c"),
        (
            "goto_exit_with_destructors",
            goto_exit_with_destructors,
            "bugs/fig6_lucene_651.cpp",
        ),
        ("goto_deadlock", goto_deadlock, "bugs/deadlock01.c"),
        ("without_python", without_python, "bugs/deadlock01.c"),
        ("divergence", divergence, "demo_heisenbug.c"),
        ("other_end", other_end, "bugs/lazy01.c"),
        ("usage", usage, "bugs/lazy01.c"),
        ("own_calls", own_calls, "coverage/own_calls/main.c"),
    ];
    let mut trials = vec![
        trial("debugger/same_surroundings", same_surroundings),
        trial("debugger/goto_event_of_a_loop", goto_event_of_a_loop),
        trial("debugger/goto_waits_for_others", goto_waits_for_others),
    ];
    for (name, check, guest) in all {
        let guest = Guest::read(&tool::guests().join(guest))?;
        trials.push(trial(format!("debugger/{name}"), move |s| check(s, &guest)));
    }
    Ok(trials)
}

pub fn gdb_is_there() -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join("gdb").is_file())
}

/// Builds the guest without optimisation, so that gdb knows all variables, and records a run of it that fails.
fn record_failure(sandbox: &Sandbox, guest: &Guest) -> Checked<Recorded> {
    if !gdb_is_there() {
        return skipped("there is no gdb");
    }
    let program = guest.build(sandbox, &["-O0"])?;
    let until = format!("--until-failure={}", guest.attempts);
    let seconds = guest.timeout.as_secs_f64().to_string();
    let extra = ["--chaos=1", &until, "--timeout", &seconds];
    let recorded = record(sandbox, "failure", &extra, &program, LIMIT * 2)?;
    let status = guest.fails.map_or(1, |ending| ending.status());
    require(recorded.ended.status == status, || {
        recorded.ended.told(&format!("expected a failure with status {status}"))
    })?;
    Ok(recorded)
}

/// Runs gdb with `commands` and no settings of the user's.
fn session(sandbox: &Sandbox, run: &Path, options: &[&str], commands: &[&str]) -> Checked<Ended> {
    let script = sandbox.write("commands.gdb", &(commands.join("\n") + "\n"))?;
    let line = sandbox
        .refrain(["replay", "--gdb"])
        .args(options)
        .arg(run)
        .arg("-x")
        .arg(script)
        .args(["--", "--batch", "-nh"])
        .within(LIMIT);
    sandbox.run(&line)
}

/// All of `texts` are in gdb's output, one after the other.
fn expect_in_order(ended: &Ended, texts: &[&str]) -> Checked {
    let output = ended.stdout_text();
    let mut rest = output.as_str();
    for text in texts {
        match rest.find(text) {
            Some(at) => rest = &rest[at + text.len()..],
            None => return failed(ended.told(&format!("expected \"{text}\" on stdout, after what comes before it"))),
        }
    }
    Ok(())
}

/// The line of gdb's output that has `text`; it must be the same in every session.
fn line_with<'a>(output: &'a str, text: &str) -> Option<&'a str> {
    output.lines().find(|line| line.contains(text))
}

fn breakpoint(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = [
        "break use_after_free.c:26",
        "run",
        "backtrace",
        "print i",
        "info threads",
        "continue 5",
        "delete",
        "continue",
        "print connection->counter",
        "continue",
    ];
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &[], &commands)?.expect_status(0)?;
        expect_in_order(
            &ended,
            &[
                "Breakpoint 1",
                "use_after_free.c:2",
                "#0 ",
                "use_connection (",
                "body (argument=",
                "$1 = 0",
                "\"T0\"",
                "received signal SIGSEGV",
                "use_after_free.c:26",
                // Poison, unless the other thread has opened the connection again since.
                "$2 = (volatile uint64_t * volatile) 0x",
                "Program terminated with signal SIGSEGV",
            ],
        )?;
        let text = ended.stderr_text();
        require(text.contains("ended as recorded: SIGSEGV"), || {
            ended.told("expected the verdict on stderr")
        })?;
    }
    Ok(())
}

fn watchpoint(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = [
        "break body",
        "run",
        "delete",
        "watch accounts[3]",
        "continue",
        "continue",
        "continue",
        "print accounts[3]",
        "delete",
        "continue",
    ];
    let mut values = Vec::new();
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &[], &commands)?.expect_status(0)?;
        expect_in_order(
            &ended,
            &["atchpoint 2: accounts[3]", "Old value = ", "New value = ", "bank.c:1"],
        )?;
        expect_in_order(&ended, &["$1 = ", "exited with code 01"])?;
        let kept = recorded.kept("stderr")?;
        require(ended.stderr.windows(kept.len()).any(|part| part == kept), || {
            ended.told("the recorded stderr is missing")
        })?;
        let output = ended.stdout_text();
        let lines: Vec<&str> = output.lines().filter(|line| line.contains(" value = ")).collect();
        values.push(lines.join("\n"));
    }
    require(values.windows(2).all(|pair| pair[0] == pair[1]), || {
        format!("the watched variable took other values in other sessions: {values:?}")
    })
}

fn stepping_and_running_again(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = [
        "break finish_job",
        "run",
        "step",
        "step",
        "next",
        "stepi",
        "finish",
        "refrain-where",
        "delete",
        "continue",
        "continue",
        "run",
        "backtrace",
    ];
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &[], &commands)?.expect_status(0)?;
        let failure = "received signal SIGABRT";
        expect_in_order(
            &ended,
            &[
                "Breakpoint 1",
                "finish_job (",
                "T1 ",
                "events",
                failure,
                "in main () at",
                "Program terminated with signal SIGABRT",
                failure,
                "main () at",
            ],
        )?;
        let output = ended.stdout_text();
        let stepped = output.split(failure).next().unwrap_or_default();
        require(!stepped.contains("runtime/src/"), || {
            ended.told("stepped into the runtime")
        })?;
    }
    Ok(())
}

fn goto_crash(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = ["print connection->counter", "refrain-where", "continue"];
    let mut accounts = Vec::new();
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &commands)?.expect_status(0)?;
        expect_in_order(
            &ended,
            &[
                "fails here by SIGSEGV",
                "what it had from other threads last",
                "in use_connection",
                "use_after_free.c:26",
                // Poison, unless the other thread has opened the connection again since.
                "$1 = (volatile uint64_t * volatile) 0x",
                "T0 ",
                "at the end of its log",
                "Program terminated with signal SIGSEGV",
            ],
        )?;
        let output = ended.stdout_text();
        accounts.push(line_with(&output, "fails here").unwrap_or_default().to_owned());
    }
    require(accounts.windows(2).all(|pair| pair[0] == pair[1]), || {
        format!("other sessions ended elsewhere: {accounts:?}")
    })
}

fn goto_assertion(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = ["print data", "info locals", "backtrace", "continue", "continue"];
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &commands)?.expect_status(0)?;
        expect_in_order(
            &ended,
            &[
                "T3 is before its event",
                "mutex lock at lazy01.c:13 in body",
                "in body (argument=0x2)",
                // Both others have added: that is why it fails.
                "$1 = 3",
                "received signal SIGABRT",
                "assert(data < 3",
                "Program terminated with signal SIGABRT",
            ],
        )?;
    }
    Ok(())
}

fn goto_exit(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = ["print sum", "continue", "print $_exitcode"];
    let mut sums = Vec::new();
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &commands)?.expect_status(0)?;
        expect_in_order(
            &ended,
            &[
                "T0 is before its event",
                "in main () at",
                "bank.c:30",
                "$1 = ",
                "exited with code 01",
                "$2 = 1",
            ],
        )?;
        let output = ended.stdout_text();
        sums.push(line_with(&output, "$1 = ").unwrap_or_default().to_owned());
    }
    let kept = String::from_utf8_lossy(&recorded.kept("stderr")?).into_owned();
    let sum = sums[0].trim_start_matches("$1 = ");
    require(kept.contains(&format!(" is {sum} instead")), || {
        format!("gdb shows {sum}, the recording said: {kept}")
    })?;
    require(sums.windows(2).all(|pair| pair[0] == pair[1]), || format!("{sums:?}"))
}

fn goto_exit_with_destructors(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    for _ in 0..SESSIONS {
        let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &["continue"])?.expect_status(0)?;
        expect_in_order(
            &ended,
            &[
                "called exit",
                "T0 is before its event",
                "in main () at",
                "fig6_lucene_651.cpp:54",
                "exited with code 01",
            ],
        )?;
    }
    Ok(())
}

fn goto_deadlock(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    // Without the option as well: gdb stops at the end in any case, and again if it is told to go on.
    for options in [&["--goto-failure"][..], &[]] {
        let mut commands = vec!["refrain-thread 2", "backtrace", "continue"];
        if options.is_empty() {
            commands.insert(0, "run");
        }
        for _ in 0..SESSIONS {
            let ended = session(sandbox, &recorded.directory, options, &commands)?.expect_status(0)?;
            let stand = "all threads stand where the recording ended";
            expect_in_order(
                &ended,
                &[
                    stand,
                    "T0 ",
                    "join",
                    "mutex lock",
                    "held by T",
                    "deadlock01.c:15 in body",
                    "mutex lock",
                    "held by T",
                    "pthread_mutex_lock(inner);",
                    // Of the other thread, and then as the first line of its backtrace.
                    "in body (argument=0x1)",
                    "in body (argument=0x1)",
                    stand,
                ],
            )?;
            require(!ended.stdout_text().contains("refrain_runtime::"), || {
                ended.told("the runtime's own frames should not be shown")
            })?;
        }
    }
    Ok(())
}

/// A search path on which gdb says that it has no Python.
fn path_without_python(sandbox: &Sandbox) -> Checked<String> {
    let path = env::var("PATH").unwrap_or_default();
    let pretender =
        "#!/bin/sh\nPATH=${PATH#*:}\ntest \"$1\" != --configuration || exec echo --without-python\nexec gdb \"$@\"\n";
    let pretender = sandbox.write("bin/gdb", pretender)?;
    fs::set_permissions(&pretender, fs::Permissions::from_mode(0o755))?;
    Ok(format!("{}:{path}", sandbox.work().join("bin").display()))
}

/// Calls that the runtime replaces have breakpoints on them from the start, those of a library that is loaded later and the
/// loader's own function included.
fn own_calls(sandbox: &Sandbox, guest: &Guest) -> Checked {
    if !gdb_is_there() {
        return skipped("there is no gdb");
    }
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "run", &[], &program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    let script = [
        "set breakpoint pending on",
        "break raw.h:13",
        "set $calls = $bpnum",
        "run",
        "backtrace",
        "tbreak loaded_inputs",
        "disable $calls",
        "continue",
        "enable $calls",
        "continue",
        "backtrace",
        "delete $calls",
        "continue",
    ];
    sandbox.write("commands.gdb", &(script.join("\n") + "\n"))?;
    for path in [env::var("PATH").unwrap_or_default(), path_without_python(sandbox)?] {
        let line = sandbox
            .refrain(["replay", "--gdb", "run", "-x", "commands.gdb", "--", "--batch", "-nh"])
            .var("PATH", path)
            .within(LIMIT);
        let ended = sandbox.run(&line)?.expect_status(0)?;
        let result = recorded.ended.stdout_text();
        expect_in_order(&ended, &["raw.h:13", "begin ", "loaded_inputs", "exited normally"])?;
        require(ended.stdout_text().contains(result.trim()), || {
            ended.told(&format!("expected {result}"))
        })?;
    }
    Ok(())
}

/// Some builds of gdb have no Python. What is left is less, but stops at the same places.
fn without_python(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let path = path_without_python(sandbox)?;
    let line = sandbox
        .refrain(["replay", "--gdb", "--goto-failure"])
        .arg(&recorded.directory)
        .args(["--", "--batch", "-nh", "-ex", "refrain-where"])
        .var("PATH", path)
        .within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    expect_in_order(
        &ended,
        &[
            "all threads stand where the recording ended",
            "T0  LWP ",
            "events  state 3",
            "T2  LWP ",
        ],
    )
}

fn divergence(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    // The workers find no more jobs, and end before all they did is done.
    let commands = [
        "break finish_job",
        "run",
        "set var queue_head = 60",
        "delete",
        "continue",
        "refrain-where",
    ];
    let ended = session(sandbox, &recorded.directory, &[], &commands)?.expect_status(1)?;
    expect_in_order(&ended, &["the replay diverged here", "T0 ", "demo_heisenbug.c:"])?;
    let text = ended.stderr_text();
    require(
        text.contains("diverged in thread") && text.contains("at the end:"),
        || ended.told("expected a report on stderr"),
    )?;
    // One that is left before anything is different has not diverged.
    let ended = session(sandbox, &recorded.directory, &[], &["break finish_job", "run"])?.expect_status(0)?;
    expect_in_order(&ended, &["Breakpoint 1"])?;
    require(!ended.stderr_text().contains("diverged"), || {
        ended.told("expected no report")
    })
}

/// A program that is kept from failing comes to an end that was not recorded.
fn other_end(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let commands = ["set var data = 0", "continue"];
    let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &commands)?.expect_status(1)?;
    require(ended.stderr_text().contains("differs in: outcome"), || {
        ended.told("expected a report on stderr")
    })
}

fn usage(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = record_failure(sandbox, guest)?;
    let without = sandbox
        .refrain(["replay", "--gdb"])
        .arg(&recorded.directory)
        .var("PATH", sandbox.work());
    let ended = sandbox.run(&without)?.expect_status(2)?;
    require(ended.stderr_text().contains("apt-get install gdb"), || {
        ended.told("expected the name of the package")
    })?;
    let quiet = sandbox.write("quiet.c", "int main(void) { return 0; }\n")?;
    let line = sandbox.refrain(["cc", "-pthread", "-o", "quiet"]).arg(quiet);
    sandbox.run(&line)?.expect_status(0)?;
    let well = record(sandbox, "well", &[], &sandbox.work().join("quiet"), LIMIT)?;
    let line = sandbox
        .refrain(["replay", "--gdb", "--goto-failure"])
        .arg(&well.directory);
    let ended = sandbox.run(&line)?.expect_status(2)?;
    require(ended.stderr_text().contains("did not fail"), || {
        ended.told("expected a sentence")
    })?;
    let ended = session(sandbox, &well.directory, &[], &["run"])?.expect_status(0)?;
    expect_in_order(&ended, &["exited normally"])?;
    // gdb has its own words for what is wrong with a script; the replay is not to blame.
    let ended = session(sandbox, &well.directory, &[], &["no-such-command"])?.expect_status(0)?;
    require(ended.stderr_text().contains("no-such-command"), || {
        ended.told("expected gdb's words")
    })
}

const LOOP: &str = r#"
#include <pthread.h>
#include <unistd.h>
long a[1000], b[1000];
static void *body(void *argument) {
    for (int i = 0; i < 1000; i++)
        a[i] = i;
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, body, 0);
    pthread_join(thread, 0);
    for (int i = 0; i < 1000; i++)
        b[i] = a[i] + 1;
    _exit(7);
}
"#;

/// Loops run without checks where they can; the last event of one must be found all the same.
fn goto_event_of_a_loop(sandbox: &Sandbox) -> Checked {
    let recorded = record_source(sandbox, LOOP)?;
    let commands = ["print b[998]", "print b[999]", "continue"];
    let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &commands)?.expect_status(0)?;
    expect_in_order(
        &ended,
        &["b[i] = a[i] + 1;", "$1 = 999", "$2 = 0", "exited with code 07"],
    )
}

/// Builds and records a program that ends with status 7.
fn record_source(sandbox: &Sandbox, text: &str) -> Checked<Recorded> {
    if !gdb_is_there() {
        return skipped("there is no gdb");
    }
    let source = sandbox.write("program.c", text)?;
    let line = sandbox
        .refrain(["cc", "-g", "-O2", "-pthread", "-o", "program"])
        .arg(source);
    sandbox.run(&line)?.expect_status(0)?;
    let recorded = record(sandbox, "run", &[], &sandbox.work().join("program"), LIMIT)?;
    recorded.ended.clone().expect_status(7)?;
    Ok(recorded)
}

const LATE: &str = r#"
#include <pthread.h>
#include <unistd.h>
/* Apart from each other, so that no thread waits for the other because of them. */
_Alignas(64) volatile long early, late;
_Alignas(64) volatile long last;
static void *body(void *argument) {
    early = 1;
    if (access("slow", F_OK) == 0)
        usleep(900000);
    late = 2;
    for (;;)
        pause();
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, body, 0);
    usleep(300000);
    last = 3;
    _exit(7);
}
"#;

/// A thread that is late in the replay is given the time to do what it had done when the program failed.
fn goto_waits_for_others(sandbox: &Sandbox) -> Checked {
    let recorded = record_source(sandbox, LATE)?;
    sandbox.write("slow", "")?;
    let commands = ["print late", "print last", "continue"];
    let ended = session(sandbox, &recorded.directory, &["--goto-failure"], &commands)?.expect_status(0)?;
    expect_in_order(&ended, &["last = 3;", "$1 = 2", "$2 = 0", "exited with code 07"])
}

const SURROUNDINGS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
static int global;
static void *body(void *argument) {
    int local;
    printf("thread %p %p %p\n", (void *)&local, malloc(10), argument);
    return NULL;
}
int main(int count, char **arguments) {
    int local, entries = 0;
    pthread_t thread;
    for (char **entry = environ; *entry; entry++)
        printf("%d %p %s\n", entries++, (void *)*entry, *entry);
    for (int i = 0; i < count; i++)
        printf("%p %s\n", (void *)arguments[i], arguments[i]);
    pthread_create(&thread, NULL, body, &local);
    pthread_join(thread, NULL);
    printf("%p %p %p %p\n", (void *)&local, (void *)&global, (void *)body, malloc(100));
    printf("%d %d %d %s\n", isatty(1), isatty(2), dup(1), getcwd(NULL, 0));
    return 0;
}
"#;

/// Arguments, environment, directory, descriptors and addresses are those of the recording, to the last byte.
fn same_surroundings(sandbox: &Sandbox) -> Checked {
    if !gdb_is_there() {
        return skipped("there is no gdb");
    }
    let source = sandbox.write("surroundings.c", SURROUNDINGS)?;
    let line = sandbox
        .refrain(["cc", "-g", "-pthread", "-o", "surroundings"])
        .arg(source);
    sandbox.run(&line)?.expect_status(0)?;
    let line = sandbox
        .refrain([
            "record",
            "-o",
            "run",
            "--",
            "./surroundings",
            "two words",
            "",
            "$HOME",
            "it's\n",
        ])
        .var("ODD", " leading, trailing \n and 'quotes' ")
        .var("LINES", "7");
    sandbox.run(&line)?.expect_status(0)?;
    let recorded = fs::read(sandbox.work().join("run/stdout"))?;
    for _ in 0..SESSIONS {
        let commands = ["break body", "run", "run", "delete", "continue"];
        let ended = session(sandbox, &sandbox.work().join("run"), &[], &commands)?.expect_status(0)?;
        let is_there = ended.stdout.windows(recorded.len()).any(|part| part == recorded);
        require(is_there, || {
            let recorded = String::from_utf8_lossy(&recorded).into_owned();
            ended.told(&format!(
                "under gdb the program found other surroundings than: {recorded}"
            ))
        })?;
    }
    Ok(())
}
