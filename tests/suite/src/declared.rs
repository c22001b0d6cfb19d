//! Functions of libraries that are not instrumented, and the file that says what they do with memory (`refrain cc --functions`).
use crate::Checked;
use crate::deterministic::comes_back;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::path::PathBuf;

pub fn trials() -> Result<Vec<Trial>, String> {
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let all: [(&str, Check); 4] = [
        ("foreign_with_its_file", with_its_file),
        ("foreign_without_its_file", without_its_file),
        ("foreign_recorded", recorded),
        ("foreign_wrong_lines", wrong_lines),
    ];
    let trials = all.into_iter().map(|(name, check)| {
        let guest = Guest::read(&tool::guests().join("deterministic/foreign.c"))?;
        Ok(trial(format!("deterministic/{name}"), move |s| check(s, &guest)))
    });
    trials.collect()
}

/// The library is built without refrain, the program with it.
fn build(sandbox: &Sandbox, guest: &Guest, flags: &[&str]) -> Checked<PathBuf> {
    let library = ["-O2", "-fPIC", "-shared", "-o", "libforeign.so"];
    let line = sandbox.other(tool::plain_compiler(false), library);
    let line = line.arg(guest.source.with_file_name("foreign_library.c"));
    sandbox.run(&line)?.expect_status(0)?;
    let linked = ["-L.", "-lforeign", "-Wl,-rpath,$ORIGIN"];
    guest.build(sandbox, &[flags, &linked].concat())
}

fn file_of(guest: &Guest) -> String {
    guest.source.with_extension("functions").to_string_lossy().into_owned()
}

fn with_its_file(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = build(sandbox, guest, &["--det", "--functions", &file_of(guest)])?;
    comes_back(sandbox, &program)
}

/// Nobody sees what the library does, so nothing of it is ordered: the output is now this, now that.
fn without_its_file(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = build(sandbox, guest, &["--det"])?;
    let line = sandbox.refrain(["run", "--"]).arg(&program);
    let learned = sandbox.run(&line)?.expect_status(0)?;
    for _ in 0..60 {
        if sandbox.run(&line)?.stdout != learned.stdout {
            return Ok(());
        }
    }
    require(false, || {
        "60 runs gave the recorded output: the file is not needed".to_owned()
    })
}

/// What a recording says of the memory is true: it comes back.
fn recorded(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let functions = format!("--functions={}", file_of(guest));
    let program = build(sandbox, guest, &[&functions])?;
    for _ in 0..5 {
        let recorded = sandbox
            .run(&sandbox.refrain(["record", "--"]).arg(&program))?
            .expect_status(0)?;
        require(!recorded.stdout.is_empty(), || recorded.told("expected some output"))?;
        sandbox
            .run(&sandbox.refrain(["replay", "--times", "5"]))?
            .expect_status(0)?;
    }
    Ok(())
}

/// The sentence names the file, the line and what would be right.
fn wrong_lines(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let source = guest.source.to_string_lossy().into_owned();
    let compile = |text: &str| {
        sandbox.write("wrong.functions", text)?;
        let line = sandbox.refrain(["cc", "--functions", "wrong.functions", "-c", "-o", "wrong.o"]);
        sandbox.run(&line.arg(&source))
    };
    let cases = [
        ("\n\ncopy my_copy dst=1 src=2\n", "wrong.functions:3: len= is missing"),
        ("clone my_copy 1\n", "wrong.functions:1: \"clone\" is none of"),
        ("free my_release 0\n", "wrong.functions:1: there is no argument 0"),
    ];
    for (text, why) in cases {
        compile(text)?.expect_status(2)?.expect_refusal(&[why])?;
    }
    // These are only seen where the function is called.
    for text in [
        "copy my_copy dst=1 src=2 len=4\n",
        "reads my_sum 2 len=1\n",
        "free my_alloc 1\n",
    ] {
        let ended = compile(text)?;
        require(ended.status != 0, || ended.told("expected a refusal"))?;
        let is_said = ended
            .stderr_text()
            .contains("is not called as the file of --functions says");
        require(is_said, || ended.told("expected why"))?;
    }
    let line = sandbox.refrain(["cc", "--functions", "nowhere", "-c", "-o", "wrong.o"]);
    sandbox
        .run(&line.arg(&source))?
        .expect_status(2)?
        .expect_refusal(&["cannot read nowhere"])?;
    Ok(())
}
