//! Scope inputs: programs that nobody built with refrain.
use crate::Checked;
use crate::command::Ended;
use crate::recording::Recorded;
use crate::recording::field_in;
use crate::recording::record;
use crate::recording::without_checksum;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const INPUTS: [&str; 2] = ["--scope", "inputs"];

pub fn trials() -> Vec<Trial> {
    vec![
        trial("inputs/unmodified_guest", unmodified_guest),
        trial("inputs/several_threads", several_threads),
        trial("inputs/several_threads_built_with_refrain", built_with_refrain),
        trial("inputs/other_scopes_refuse", other_scopes_refuse),
        trial("inputs/nobody_sees_the_preload", nobody_sees_the_preload),
        trial("inputs/exit_status", exit_status),
        trial("inputs/is_a_method", is_a_method),
        trial("inputs/was_said_to_be_light", was_said_to_be_light),
        trial("inputs/shell_pipeline", shell_pipeline),
        trial("inputs/own_calls", own_calls),
        trial("inputs/cxx_plugin", |sandbox| {
            plugin(sandbox, "coverage/cxx_plugin", "clang++-22", "plugin.cpp", "-g")
        }),
        trial("inputs/openmp_plugin", |sandbox| {
            plugin(sandbox, "coverage/openmp_plugin", "clang-22", "plugin.c", "-fopenmp")
        }),
        trial("inputs/calls_without_room_are_named", calls_without_room),
        trial("inputs/io_uring_is_refused", io_uring_is_refused),
        trial("inputs/sort", |sandbox| {
            system_program(sandbox, "/usr/bin/sort", &["text"])
        }),
        trial("inputs/sort_in_parallel", |sandbox| {
            system_program(sandbox, "/usr/bin/sort", &["--parallel=4", "text"])
        }),
        trial("inputs/python", |sandbox| {
            let program = "import os, random, sys, time\n\
                           print(time.time(), random.random(), os.getpid(), sorted(os.listdir('/')))\n\
                           print(sum(map(len, open('text'))), os.urandom(9), id(sys))\n";
            system_program(sandbox, "/usr/bin/python3", &["-c", program])
        }),
    ]
}

/// A guest as any compiler makes it.
pub fn build_plainly(sandbox: &Sandbox, guest: &str) -> Checked<PathBuf> {
    let source = tool::guests().join(guest);
    let program = sandbox.work().join("plain");
    let line = sandbox
        .other("clang-22", ["-O2", "-pthread", "-o"])
        .arg(&program)
        .arg(&source)
        .within(LIMIT);
    sandbox.run(&line)?.expect_status(0)?;
    Ok(program)
}

fn unmodified_guest(sandbox: &Sandbox) -> Checked {
    let program = build_plainly(sandbox, "coverage/inputs_alone.c")?;
    for attempt in 0..2 {
        let recorded = record(sandbox, &format!("run-{attempt}"), &INPUTS, &program, LIMIT)?;
        recorded.ended.clone().expect_status(0)?;
        recorded.check_passed_through()?;
        recorded.check_replay(sandbox, 5, 0, LIMIT)?;
    }
    Ok(())
}

fn several_threads(sandbox: &Sandbox) -> Checked {
    let program = build_plainly(sandbox, "coverage/condvar.c")?;
    cannot_be_explained(sandbox, &program)
}

fn built_with_refrain(sandbox: &Sandbox) -> Checked {
    let source = tool::guests().join("coverage/condvar.c");
    let program = sandbox.work().join("instrumented");
    let line = sandbox
        .refrain(["cc", "-O2", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(&source);
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    cannot_be_explained(sandbox, &program)
}

/// Everything but what needs to know what threads did to each other works. Whether the replay comes to the end depends on the recording.
fn cannot_be_explained(sandbox: &Sandbox, program: &Path) -> Checked {
    let recorded = record(
        sandbox,
        "run",
        &[&INPUTS[..], &["--no-sync-order"]].concat(),
        program,
        LIMIT,
    )?;
    recorded.ended.clone().expect_status(0)?;
    recorded.check_passed_through()?;
    says(&recorded.ended, "may not be enough")?;
    let solved = sandbox.run(&sandbox.refrain(["solve", "--max-time", "5", "run"]).within(LIMIT))?;
    require(matches!(solved.status, 0 | 1), || solved.told("solve did not search"))?;
    let ended = sandbox.run(&sandbox.refrain(["replay", "run"]).within(LIMIT))?;
    require(ended.status == solved.status, || {
        ended.told("a replay is the same run exactly if its order was found")
    })?;
    let ended = sandbox.run(&sandbox.refrain(["explain", "run"]).within(LIMIT))?;
    ended
        .expect_status(3)?
        .expect_refusal(&["scope inputs", "threads", "--scope sync or --scope memory"])?;
    for command in [
        &["info"][..],
        &["dump"],
        &["dump", "--inputs"],
        &["ls"],
        &["pack", "-o", "packed"],
    ] {
        let line = sandbox.refrain(command);
        let line = if command == ["ls"] { line } else { line.arg("run") };
        sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    }
    let ended = sandbox.run(&sandbox.refrain(["dump", "--inputs", "run"]).within(LIMIT))?;
    require(ended.stdout_text().contains(" at "), || {
        ended.told("expected where the program made its calls")
    })?;
    sandbox.run(&sandbox.refrain(["rm", "run"]))?.expect_status(0)?;
    Ok(())
}

fn other_scopes_refuse(sandbox: &Sandbox) -> Checked {
    for scope in ["sync", "memory"] {
        let line = sandbox.refrain(["record", "--scope", scope, "--", "/usr/bin/env"]);
        let ended = sandbox.run(&line.within(LIMIT))?.expect_status(2)?;
        says(&ended, "was not built with refrain cc")?;
        says(&ended, "--scope inputs")?;
    }
    Ok(())
}

fn nobody_sees_the_preload(sandbox: &Sandbox) -> Checked {
    let other = "libm.so.6";
    for (given, expected) in [(None, None), (Some(other), Some(format!("LD_PRELOAD={other}")))] {
        let mut line = sandbox.refrain(["record", "--scope", "inputs", "--", "/usr/bin/env"]);
        if let Some(given) = given {
            line = line.var("LD_PRELOAD", given);
        }
        let ended = sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        let found = printed.lines().find(|line| line.starts_with("LD_PRELOAD"));
        require(found == expected.as_deref(), || {
            ended.told(&format!("expected {expected:?} in the environment"))
        })?;
        sandbox
            .run(&sandbox.refrain(["replay"]).within(LIMIT))?
            .expect_status(0)?;
    }
    Ok(())
}

/// However it is asked for, and in all that is said about the run.
fn is_a_method(sandbox: &Sandbox) -> Checked {
    for (name, asked) in [("by-scope", "--scope"), ("by-method", "--method")] {
        let recorded = record(sandbox, name, &[asked, "inputs"], Path::new("/bin/true"), LIMIT)?;
        recorded.ended.clone().expect_status(0)?;
        let info = recorded.info(sandbox)?;
        let says = |field: &str| field_in(&info, field).and_then(Value::as_str) == Some("inputs");
        require(says("method") && says("scope"), || {
            format!("not of method inputs: {info}")
        })?;
    }
    for (asked, other) in [("light", "inputs"), ("inputs", "memory"), ("leap", "sync")] {
        let line = sandbox.refrain(["record", "--method", asked, "--scope", other, "--", "/bin/true"]);
        let ended = sandbox.run(&line.within(LIMIT))?;
        let words = [
            &*format!("--method {asked} observes"),
            &*format!("--scope {other} is for --method"),
        ];
        ended.expect_refusal(&words)?;
    }
    Ok(())
}

/// Runs of earlier versions call their method light.
fn was_said_to_be_light(sandbox: &Sandbox) -> Checked {
    let program = build_plainly(sandbox, "turns/queue.c")?;
    let recorded = record(sandbox, "run", &INPUTS, &program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    let path = recorded.directory.join("run.json");
    let text = without_checksum(&fs::read_to_string(&path)?);
    let earlier = text.replace("\"method\": \"inputs\"", "\"method\": \"light\"");
    require(earlier != text, || {
        format!("{} does not name its method: {text}", path.display())
    })?;
    sandbox.note(format!("say light in {}", path.display()));
    fs::write(&path, earlier)?;
    recorded.check_replay(sandbox, 2, 0, LIMIT)
}

fn exit_status(sandbox: &Sandbox) -> Checked {
    for (command, status) in [("exit 3", 3), ("kill -SEGV $$", 128 + 11), ("kill -KILL $$", 128 + 9)] {
        let line = sandbox.refrain(["record", "--scope", "inputs", "--", "/bin/sh", "-c", command]);
        sandbox.run(&line.within(LIMIT))?.expect_status(status)?;
        sandbox
            .run(&sandbox.refrain(["replay"]).within(LIMIT))?
            .expect_status(0)?;
    }
    Ok(())
}

/// The second instruction is jumped to, and nothing that can be moved is behind it: it cannot be replaced, so the recording
/// says so at once, and so does `info`.
fn calls_without_room(sandbox: &Sandbox) -> Checked {
    let source = "int main(void) { long r; \
                  __asm__ volatile(\"jmp 1f; nop; 1: syscall; jmp 2f; 2:\" : \"=a\"(r) : \"a\"(39L) : \"rcx\", \"r11\"); \
                  return r < 0; }";
    sandbox.write("raw.c", source)?;
    sandbox
        .run(&sandbox.refrain(["cc", "raw.c", "-o", "raw"]).within(LIMIT))?
        .expect_status(0)?;
    let recorded = record(sandbox, "run", &[], &sandbox.work().join("raw"), LIMIT)?;
    says(&recorded.ended, "raw: 1 system call in its code cannot be recorded")?;
    let ended = sandbox.run(&sandbox.refrain(["info", "run"]))?.expect_status(0)?;
    require(ended.stdout_text().contains("raw: 1 system call in its code"), || {
        ended.told("info does not name the file")
    })
}

/// The guest of that name, its library and its plugin as any compiler makes them, with and without fixed addresses and
/// build-ids; by itself, and as what a shell executes.
fn own_calls(sandbox: &Sandbox) -> Checked {
    let sources = tool::guests().join("coverage/own_calls");
    for (number, flags) in [
        &["-O2", "-pie", "-fPIE"][..],
        &["-O0", "-no-pie", "-fno-pie", "-Wl,--build-id=none"],
    ]
    .into_iter()
    .enumerate()
    {
        for library in ["linked", "loaded"] {
            let (level, last) = (flags[0], flags[flags.len() - 1]);
            let last = if last.starts_with("-Wl") {
                last
            } else {
                "-Wl,--build-id"
            };
            let line = sandbox
                .other(
                    "clang-22",
                    [level, last, "-fPIC", "-shared", "-o", &format!("lib{library}.so")],
                )
                .arg(sources.join(format!("{library}.c")));
            sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
        }
        let line = sandbox
            .other("clang-22", flags)
            .args(["-o", "own_calls"])
            .arg(sources.join("main.c"))
            .args(["-L.", "-llinked", "-Wl,-rpath,$ORIGIN", "-ldl"]);
        sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
        let program = sandbox.work().join("own_calls");
        let recorded = record(sandbox, &format!("run-{number}"), &INPUTS, &program, LIMIT)?;
        recorded.ended.clone().expect_status(0)?;
        require(!recorded.ended.stderr_text().contains("cannot be recorded"), || {
            recorded.ended.told("some calls are not recorded")
        })?;
        recorded.check_replay(sandbox, 5, 0, LIMIT)?;
        let line = sandbox.refrain(["record", "--scope", "inputs", "-o", &format!("shell-{number}"), "--"]);
        let line = line.args(["/bin/sh", "-c", "./own_calls; ./own_calls"]).within(LIMIT);
        let recorded = Recorded {
            ended: sandbox.run(&line)?.expect_status(0)?,
            directory: sandbox.work().join(format!("shell-{number}")),
        };
        recorded.check_replay(sandbox, 3, 0, LIMIT)?;
    }
    Ok(())
}

/// A program that loads a library which brings another, libstdc++ or libomp, whose functions nobody else sees.
fn plugin(sandbox: &Sandbox, guest: &str, compiler: &str, source: &str, flag: &str) -> Checked {
    let line = sandbox
        .other(compiler, ["-O2", flag, "-fPIC", "-shared", "-o", "libplugin.so"])
        .arg(tool::guests().join(guest).join(source));
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    let program = build_plainly(sandbox, &format!("{guest}/main.c"))?;
    let recorded = record(sandbox, "run", &INPUTS, &program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    recorded.check_passed_through()?;
    recorded.check_replay(sandbox, 5, 0, LIMIT)
}

/// A shell, what it forks, and the programs that these execute: all unmodified, all recorded, all brought back.
fn shell_pipeline(sandbox: &Sandbox) -> Checked {
    let script = "seq 1 4 | while read n; do (echo $n $$ $(date +%N)); done | sort -r; ls / | wc -l; \
                  env | grep -c LD_PRELOAD; exit 6";
    let line = sandbox.refrain([
        "record", "--scope", "inputs", "-o", "run", "--", "/bin/sh", "-c", script,
    ]);
    let recorded = Recorded {
        ended: sandbox.run(&line.within(LIMIT))?.expect_status(6)?,
        directory: sandbox.work().join("run"),
    };
    let info = recorded.info(sandbox)?;
    let processes = info["processes"].as_array().map_or(0, Vec::len);
    require(processes >= 12, || {
        format!("only {processes} other processes are recorded: {info}")
    })?;
    let printed = recorded.ended.stdout_text();
    require(printed.lines().last() == Some("0"), || {
        recorded.ended.told("a child sees LD_PRELOAD")
    })?;
    recorded.check_replay(sandbox, 5, 0, LIMIT)
}

/// A program of the distribution's, with a file of lines in its directory.
fn io_uring_is_refused(sandbox: &Sandbox) -> Checked {
    let source = "#include <errno.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
                  int main(void) { return syscall(SYS_io_uring_setup, 4, (char[256]){0}) == -1 && errno == ENOSYS ? 0 : 1; }\n";
    sandbox.write("uring.c", source)?;
    let line = sandbox.other("clang-22", ["-o", "uring", "uring.c"]);
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    let program = sandbox.work().join("uring");
    let recorded = record(sandbox, "run", &INPUTS, &program, LIMIT)?;
    says(
        &recorded.ended.clone().expect_status(0)?,
        "it asked for io_uring_setup, which refrain cannot record",
    )?;
    recorded.check_replay(sandbox, 2, 0, LIMIT)
}

fn system_program(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Checked {
    if !Path::new(program).exists() {
        return skipped(format!("there is no {program}"));
    }
    let line = |i: u64| format!("line {:x}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    sandbox.write("text", &(0..20_000).map(line).collect::<String>())?;
    let line = sandbox
        .refrain(["record", "--scope", "inputs", "-o", "run", "--", program])
        .args(arguments)
        .within(LIMIT);
    let recorded = Recorded {
        ended: sandbox.run(&line)?.expect_status(0)?,
        directory: sandbox.work().join("run"),
    };
    recorded.check_replay(sandbox, 3, 0, LIMIT)
}

fn says(ended: &Ended, words: &str) -> Checked {
    require(ended.stderr_text().contains(words), || {
        ended.told(&format!("expected \"{words}\""))
    })
}
