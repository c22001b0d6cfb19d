//! Build systems that know nothing of refrain: make, a configure script, cmake.
use crate::Checked;
use crate::command::Line;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Vec<Trial> {
    vec![
        trial("projects/make", make),
        trial("projects/configure", configure),
        trial("projects/cmake", cmake),
    ]
}

/// Copies `tests/guests/project`: a program, a static archive, a shared library in C++, and three ways to build them.
fn copy_sources(sandbox: &Sandbox) -> Checked {
    for entry in fs::read_dir(tool::guests().join("project"))? {
        let entry = entry?;
        fs::copy(entry.path(), sandbox.work().join(entry.file_name()))?;
    }
    sandbox.note("# copied tests/guests/project");
    Ok(())
}

fn check_project(sandbox: &Sandbox, program: &str) -> Checked {
    let recorded = record(sandbox, "run", &[], &sandbox.work().join(program), LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    recorded.check_replay(sandbox, 5, 0, LIMIT)
}

fn make(sandbox: &Sandbox) -> Checked {
    copy_sources(sandbox)?;
    let (cc, cxx) = (sandbox.compiler_variable("cc"), sandbox.compiler_variable("c++"));
    let line = sandbox
        .other("make", ["-j2"])
        .arg(format!("CC={cc}"))
        .arg(format!("CXX={cxx}"));
    sandbox.run(&line)?.expect_status(0)?;
    check_project(sandbox, "project")?;
    let again = sandbox.run(&line)?.expect_status(0)?;
    require(again.stdout_text().contains("up to date"), || {
        again.told("make built something a second time")
    })?;
    sandbox
        .run(&sandbox.other("touch", ["-d", "now + 2 seconds", "ring.h"]))?
        .expect_status(0)?;
    let dependent = sandbox.run(&line)?.expect_status(0)?.stdout_text();
    let is_right = dependent.contains("main.c") && !dependent.contains("census.cpp");
    require(is_right, || {
        format!("dependency files made make rebuild the wrong things:\n{dependent}")
    })
}

fn configure(sandbox: &Sandbox) -> Checked {
    copy_sources(sandbox)?;
    let answers = |line: Line| -> Checked<String> {
        sandbox.run(&line)?.expect_status(0)?;
        Ok(fs::read_to_string(sandbox.work().join("config.h"))?)
    };
    let script = || sandbox.other("sh", ["./configure"]);
    let theirs = answers(script().var("CC", tool::plain_compiler(false)))?;
    let ours = answers(script().var("CC", sandbox.compiler_variable("cc")))?;
    require(theirs.contains("#define HAVE_strnlen 1"), || {
        format!("the script is wrong: {theirs}")
    })?;
    require(theirs.contains("/* no HAVE_no_such_function */"), || {
        format!("the script is wrong: {theirs}")
    })?;
    require(ours == theirs, || {
        format!("other answers:\n{ours}\nthan clang's:\n{theirs}")
    })
}

fn cmake(sandbox: &Sandbox) -> Checked {
    if Line::new("cmake", sandbox.work()).arg("--version").run().is_err() {
        return skipped("cmake is not installed");
    }
    copy_sources(sandbox)?;
    let line = sandbox
        .other("cmake", ["-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"])
        .var("CC", sandbox.compiler_variable("cc"))
        .var("CXX", sandbox.compiler_variable("c++"));
    sandbox.run(&line)?.expect_status(0)?;
    sandbox
        .run(&sandbox.other("cmake", ["--build", "build"]))?
        .expect_status(0)?;
    check_project(sandbox, "build/project")
}
