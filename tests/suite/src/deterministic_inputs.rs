//! Deterministic runs: what comes in is compared with what came in when the schedule was learned. What is another thing stops the program, before it
//! does the next thing that is ordered; clocks and the like are live.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::deterministic::directory_of;
use crate::deterministic::only_listed;
use crate::deterministic::usual_cache;
use crate::failed;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::io;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// What the guest prints when nothing stops it.
const PRINTED: &str = "got it\n20\n";
/// As often as a run with the same inputs has to come back.
const TIMES: usize = 25;

/// A way in which something comes in, and how it becomes something else.
struct Way {
    how: &'static str,
    /// What the sentence says: the call, and the file.
    named: [&'static str; 2],
    /// Makes it what it was, or something else.
    set: fn(&Sandbox, is_other: bool) -> Checked,
}

const WAYS: [Way; 8] = [
    Way {
        how: "read",
        named: ["other bytes from read of ", "/data"],
        set: same_length,
    },
    Way {
        how: "pread",
        named: ["got 6 from pread64 of ", "and 4 when"],
        set: other_length,
    },
    Way {
        how: "readv",
        named: ["other bytes from readv of ", "/data"],
        set: same_length,
    },
    Way {
        how: "map",
        named: ["other bytes from mmap of ", "/data"],
        set: same_length,
    },
    Way {
        how: "stat",
        named: ["other bytes from newfstatat of ", "data"],
        set: other_length,
    },
    Way {
        how: "open",
        named: ["got No such file or directory", "from openat of data, and 0 when"],
        set: not_there,
    },
    Way {
        how: "names",
        named: ["from getdents64 of ", "/data"],
        set: other_names,
    },
    Way {
        how: "link",
        named: ["other bytes from readlink of ", "data"],
        set: other_link,
    },
];

pub fn trials() -> Result<Vec<Trial>, String> {
    let read = |name: &str| Guest::read(&tool::guests().join("deterministic").join(name));
    let mut trials = Vec::new();
    for way in WAYS {
        let guest = read("inputs.c")?;
        trials.push(trial(format!("deterministic/inputs/{}", way.how), move |s| {
            let program = guest.build(s, &["--det"])?;
            is_compared(s, &program, &way)
        }));
    }
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let others: [(&str, &str, Check); 10] = [
        ("stdin", "inputs.c", stdin),
        ("random", "inputs.c", random),
        ("live", "inputs.c", live),
        ("same", "reads.c", same),
        ("without_constraints", "inputs.c", without_constraints),
        ("sockets", "inputs.c", sockets),
        ("why", "inputs.c", why),
        ("why_damaged", "inputs.c", why_damaged),
        ("why_sealed", "inputs.c", why_sealed),
        ("annotated", "annotated.cpp", annotated),
    ];
    for (name, source, check) in others {
        let guest = read(source)?;
        trials.push(trial(format!("deterministic/inputs/{name}"), move |s| check(s, &guest)));
    }
    Ok(trials)
}

fn same_length(sandbox: &Sandbox, is_other: bool) -> Checked {
    sandbox.write("data", if is_other { "12346" } else { "12345" })?;
    Ok(())
}

fn other_length(sandbox: &Sandbox, is_other: bool) -> Checked {
    sandbox.write("data", if is_other { "1234567" } else { "12345" })?;
    Ok(())
}

fn not_there(sandbox: &Sandbox, is_other: bool) -> Checked {
    sandbox.write("data", "12345")?;
    if is_other {
        fs::remove_file(sandbox.work().join("data"))?;
    }
    Ok(())
}

fn other_names(sandbox: &Sandbox, is_other: bool) -> Checked {
    let directory = sandbox.work().join("data");
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("one"), "")?;
    let other = directory.join("other");
    match is_other {
        true => fs::write(other, "")?,
        false if other.exists() => fs::remove_file(other)?,
        false => {}
    }
    Ok(())
}

fn other_link(sandbox: &Sandbox, is_other: bool) -> Checked {
    let link = sandbox.work().join("data");
    let _ = fs::remove_file(&link);
    symlink(if is_other { "/tmp" } else { "/etc" }, link)?;
    Ok(())
}

fn run(sandbox: &Sandbox, options: &[&str], program: &Path, arguments: &[&str]) -> Line {
    let line = sandbox.refrain(["run"]).args(options).arg("--").within(LIMIT);
    line.arg(program).args(arguments)
}

fn says(ended: &Ended, words: &str) -> Checked {
    require(ended.stderr_text().contains(words), || {
        ended.told(&format!("expected \"{words}\" on stderr"))
    })
}

fn comes_back(sandbox: &Sandbox, line: &Line) -> Checked<Ended> {
    let ended = sandbox.run(line)?.expect_status(0)?;
    require(ended.stdout_text() == PRINTED, || {
        ended.told("expected what was printed when it was learned")
    })?;
    Ok(ended)
}

/// The program is stopped before it does anything that others could see.
fn is_stopped(sandbox: &Sandbox, line: &Line, named: &[&str]) -> Checked {
    let ended = sandbox.run(line)?.expect_status(123)?;
    require(ended.stdout.is_empty(), || {
        ended.told("expected nothing of what comes after the input")
    })?;
    says(&ended, "thread 0 ")?;
    says(&ended, "learn it anew: refrain schedules rm ")?;
    named.iter().try_for_each(|words| says(&ended, words))
}

fn is_compared(sandbox: &Sandbox, program: &Path, way: &Way) -> Checked {
    (way.set)(sandbox, false)?;
    let line = run(sandbox, &[], program, &[way.how, "data"]);
    comes_back(sandbox, &line)?;
    comes_back(sandbox, &line)?;
    (way.set)(sandbox, true)?;
    is_stopped(sandbox, &line, &way.named)?;
    // Nothing was unlearned, and times and inodes do not matter.
    (way.set)(sandbox, false)?;
    comes_back(sandbox, &line)?;
    Ok(())
}

/// The same with `text` coming in at once, by a pipe.
fn piped(line: &Line, text: &str) -> Line {
    const SCRIPT: &str = r#"text=$1; shift; printf '%s' "$text" | "$@""#;
    let mut piped = Line {
        program: "sh".into(),
        arguments: Vec::new(),
        ..line.clone()
    };
    piped = piped.args(["-c", SCRIPT, "sh", text]).arg(&line.program);
    piped.args(&line.arguments)
}

fn stdin(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[], &program, &["stdin"]);
    let given = |text: &str| piped(&line, text);
    comes_back(sandbox, &given("one\ntwo\n"))?;
    comes_back(sandbox, &given("one\ntwo\n"))?;
    is_stopped(sandbox, &given("one\ntwx\n"), &["other bytes from read of "])?;
    is_stopped(sandbox, &given("one\n"), &["got 4 from read of ", "and 8 when"])?;
    comes_back(sandbox, &given("one\ntwo\n"))?;
    Ok(())
}

/// Somebody outside who gives the program other bytes, or nothing.
fn sockets(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    // The peer says its word, and stays until the program has ended.
    let answered = |how: &str, word: &str, check: &dyn Fn(&Line) -> Checked| -> Checked {
        sandbox.note(format!("# somebody at port {port} says \"{word}\""));
        let line = run(sandbox, &[], &program, &[how, &port]);
        thread::scope(|scope| {
            let peer = scope.spawn(|| -> io::Result<TcpStream> {
                let (mut stream, _) = listener.accept()?;
                stream.write_all(word.as_bytes())?;
                Ok(stream)
            });
            let checked = check(&line);
            // If the program never came, somebody else does.
            drop(TcpStream::connect(("127.0.0.1", listener.local_addr()?.port())));
            drop(peer.join());
            checked
        })?;
        // Who came after it is not to be taken for the next one.
        listener.set_nonblocking(true)?;
        while listener.accept().is_ok() {}
        Ok(listener.set_nonblocking(false)?)
    };
    let is_learned = |line: &Line| comes_back(sandbox, line).map(drop);
    let other_bytes = |name: &'static str| move |line: &Line| is_stopped(sandbox, line, &["other bytes from ", name]);
    for (how, named) in [
        ("recv", " from recvfrom of socket:"),
        ("recvmsg", " from recvmsg of socket:"),
    ] {
        answered(how, "1234", &is_learned)?;
        answered(how, "1234", &is_learned)?;
        answered(how, "1224", &other_bytes(named))?;
        answered(how, "1234", &is_learned)?;
    }
    answered("poll", "1234", &is_learned)?;
    answered("poll", "1234", &is_learned)?;
    let nothing = |line: &Line| is_stopped(sandbox, line, &["got 0 from poll, and 1 when"]);
    answered("poll", "", &nothing)
}

/// Random numbers are inputs like others: a program that asks for them cannot do the same twice.
fn random(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    for (arguments, named) in [
        (vec!["random"], "other bytes from getrandom than"),
        (
            vec!["read", "/dev/urandom"],
            "other bytes from read of /dev/urandom than",
        ),
    ] {
        let line = run(sandbox, &[], &program, &arguments);
        comes_back(sandbox, &line)?;
        is_stopped(sandbox, &line, &[named])?;
    }
    Ok(())
}

/// Clocks and the numbers of processes, threads and processors are live, and are named.
fn live(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &["--report"], &program, &["live"]);
    comes_back(sandbox, &line)?;
    for _ in 0..3 {
        let ended = comes_back(sandbox, &line)?;
        for name in ["clock_gettime", "getcpu", "getpid", "gettid"] {
            says(&ended, name)?;
        }
        says(&ended, "live")?;
    }
    Ok(())
}

fn same(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    sandbox.write("numbers", "10 1")?;
    let line = run(sandbox, &["--report"], &program, &["numbers"]);
    sandbox.run(&line)?.expect_status(0)?;
    for _ in 0..TIMES {
        let ended = sandbox.run(&line)?.expect_status(0)?;
        require(ended.stdout_text() == "20 1\n", || {
            ended.told("expected what was printed when it was learned")
        })?;
        says(&ended, "came in as when it was learned")?;
    }
    Ok(())
}

/// Where only the order of synchronisations is enforced, inputs are compared as well.
fn without_constraints(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    same_length(sandbox, false)?;
    let arguments = ["read", "data"];
    comes_back(sandbox, &run(sandbox, &[], &program, &arguments))?;
    let line = run(sandbox, &["--sync-only"], &program, &arguments);
    comes_back(sandbox, &line)?;
    same_length(sandbox, true)?;
    is_stopped(sandbox, &line, &["other bytes from read of "])
}

/// `refrain schedules why` names what is another thing.
fn why(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let asked = |options: &[&str], arguments: &[&str]| {
        let line = sandbox.refrain(["schedules", "why"]).args(options).arg("--");
        line.arg(&program).args(arguments)
    };
    let answer = |line: Line| -> Checked<Value> {
        let ended = sandbox.run(&line)?.expect_status(0)?;
        serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))
    };
    let is = |answer: &Value, hit: bool, reason: &str| {
        require(answer["hit"] == hit && answer["reason"] == reason, || {
            format!("expected {reason}: {answer}")
        })
    };
    is(&answer(asked(&["--json"], &["live"]))?, false, "program")?;
    comes_back(sandbox, &run(sandbox, &[], &program, &["live"]))?;
    is(&answer(asked(&["--json"], &["live"]))?, true, "hit")?;
    let other = answer(asked(&["--json"], &["live", "more"]))?;
    is(&other, false, "arguments")?;
    require(other["arguments"][0]["now"] == "more", || {
        format!("expected the other argument: {other}")
    })?;
    let other = answer(asked(&["--json"], &["live"]).var("OTHER", "1"))?;
    is(&other, false, "environment")?;
    require(other["environment"][0]["name"] == "OTHER", || {
        format!("expected the variable: {other}")
    })?;
    let ended = sandbox
        .run(&asked(&[], &["live"]).var("OTHER", "1"))?
        .expect_status(0)?;
    require(
        ended.stdout_text().contains("variable OTHER is set, and was not"),
        || ended.told("expected the variable"),
    )?;
    // The same program, built once more with something else in it.
    guest.build(sandbox, &["--det", "-O0"])?;
    is(&answer(asked(&["--json"], &["live"]))?, false, "build")
}

/// What is asked about is damaged, and which file of it: nothing is learned again in silence.
fn why_damaged(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    comes_back(sandbox, &run(sandbox, &[], &program, &["live"]))?;
    let directory = directory_of(&only_listed(sandbox, &usual_cache(sandbox))?);
    let ask = |options: &[&str]| {
        let line = sandbox.refrain(["schedules", "why"]).args(options).arg("--");
        sandbox.run(&line.arg(&program).arg("live"))?.expect_status(0)
    };
    for name in ["schedule", "points", "own_steps", "inputs", "schedule.json"] {
        let file = directory.join(name);
        let whole = fs::read(&file)?;
        let mut damaged = whole.clone();
        let at = damaged.len() / 2;
        damaged[at] ^= 1;
        sandbox.note(format!("# byte {at} of {} is changed", file.display()));
        fs::write(&file, damaged)?;
        let ended = ask(&["--json"])?;
        let answer: Value =
            serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))?;
        let is_told = answer["hit"] == false && answer["reason"] == "damaged";
        require(is_told, || ended.told("expected that it is damaged"))?;
        let ended = ask(&[])?;
        require(
            ended.stdout_text().starts_with("miss ") && ended.stdout_text().contains(name),
            || ended.told(&format!("expected the name of {name}")),
        )?;
        fs::write(&file, whole)?;
        require(ask(&[])?.stdout_text().starts_with("hit "), || {
            "expected a hit when it is whole again".to_owned()
        })?;
    }
    Ok(())
}

/// A schedule that cannot be used: the reason is said.
fn why_sealed(sandbox: &Sandbox, _: &Guest) -> Checked {
    const SOURCE: &str = "#include <setjmp.h>\nint shared; jmp_buf place;\nint main(void) { if (setjmp(place) == 0) { shared++; \
                          longjmp(place, 1); } return shared - 1; }\n";
    sandbox.write("jumps.c", SOURCE)?;
    let built = sandbox.refrain(["cc", "--det", "jumps.c", "-o", "jumps"]);
    sandbox.run(&built)?.expect_status(0)?;
    let program = sandbox.work().join("jumps");
    sandbox.run(&run(sandbox, &[], &program, &[]))?.expect_status(0)?;
    let ask = |options: &[&str]| {
        let line = sandbox.refrain(["schedules", "why"]).args(options).arg("--");
        sandbox.run(&line.arg(&program))?.expect_status(0)
    };
    let ended = ask(&["--json"])?;
    let answer: Value =
        serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))?;
    let is_told = answer["hit"] == false && answer["reason"] == "sealed";
    require(is_told, || ended.told("expected that it is sealed"))?;
    let ended = ask(&[])?;
    require(
        ended
            .stdout_text()
            .contains("there is one that cannot be used: a function cannot count"),
        || ended.told("expected why it is sealed"),
    )
}

/// What the program itself says has come in is recorded, brought back and compared; without its word it would not be.
fn annotated(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let silent = guest.build(sandbox, &["--det", "-DSILENT"])?;
    same_length(sandbox, false)?;
    let line = run(sandbox, &[], &silent, &["data"]);
    comes_back(sandbox, &line)?;
    same_length(sandbox, true)?;
    comes_back(sandbox, &line)?;

    let program = guest.build(sandbox, &["--det"])?;
    same_length(sandbox, false)?;
    let line = run(sandbox, &[], &program, &["data"]);
    comes_back(sandbox, &line)?;
    comes_back(sandbox, &line)?;
    same_length(sandbox, true)?;
    is_stopped(sandbox, &line, &["other bytes from refrain_input than"])?;

    // Ordinary runs have them as well, whatever the file has by then.
    let recorded = sandbox.refrain(["record", "-o", "run", "--"]).arg(&program).arg("data");
    sandbox.run(&recorded)?.expect_status(0)?;
    same_length(sandbox, false)?;
    sandbox.run(&sandbox.refrain(["replay", "./run"]))?.expect_status(0)?;

    // Without refrain the header says nothing.
    let source = "#include <refrain.h>\nint main(void) { char c = 0; refrain_input(&c, 1); return c; }\n";
    sandbox.write("plain.c", source)?;
    let include = Path::new(&sandbox.refrain([""; 0]).program).with_file_name("include");
    let plain = sandbox.other(tool::plain_compiler(false), ["plain.c", "-o", "plain", "-I"]);
    sandbox.run(&plain.arg(include))?.expect_status(0)?;
    let plain = sandbox.work().join("plain");
    sandbox
        .run(&sandbox.other(&plain.to_string_lossy(), [""; 0]))?
        .expect_status(0)?;
    Ok(())
}
