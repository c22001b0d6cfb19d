//! Deterministic runs of programs that consist of several files: a library decides what a program does, so a schedule holds for
//! the libraries that it was learned with.
use crate::Checked;
use crate::deterministic::guest;
use crate::deterministic::only_listed;
use crate::deterministic::run;
use crate::deterministic::run_delayed;
use crate::deterministic::says;
use crate::deterministic::usual_cache;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;

pub fn trials() -> Result<Vec<Trial>, String> {
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let checks: [(&str, Check); 3] = [
        ("changed_library", changed_library),
        ("library_without_det", library_without_det),
        ("unobserved_library", unobserved_library),
    ];
    let parts = guest("parts.c")?;
    let named = checks.map(|(name, check)| {
        let parts = parts.clone();
        trial(format!("deterministic/{name}"), move |s| check(s, &parts))
    });
    let small = guest("small_functions.cpp")?;
    let mut trials = Vec::from(named);
    trials.push(trial("deterministic/small_functions_apart", move |s| {
        small_functions(s, &small)
    }));
    Ok(trials)
}

/// Functions that call nothing do not pay for versions that they do not run: these are functions of their own.
fn small_functions(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let symbols = sandbox
        .run(&sandbox.other("nm", ["-C"]).arg(&program))?
        .expect_status(0)?;
    let symbols = symbols.stdout_text();
    let is_apart = |name: &str| {
        symbols
            .lines()
            .any(|line| line.contains(name) && line.contains(".versions"))
    };
    for name in ["Square::area", "Circle::area", "mixed<"] {
        require(is_apart(name), || {
            format!("{name} has no function for its versions:\n{symbols}")
        })?;
    }
    require(!is_apart("work("), || {
        "work calls others, which may change its version".to_owned()
    })
}

/// Puts another library in the place of the one that the program was linked with.
fn replace_library(sandbox: &Sandbox, guest: &Guest, compiler: &[&str], flags: &[&str]) -> Checked {
    // Another file, not the old one with other bytes.
    fs::remove_file(sandbox.work().join("libpart.so"))?;
    let line = match compiler {
        [] => sandbox.other(tool::plain_compiler(false), ["-O2"]),
        ours => sandbox.refrain(ours),
    };
    let line = line
        .args(["-g", "-O2", "-fPIC", "-shared", "-o", "libpart.so"])
        .args(flags);
    sandbox
        .run(&line.arg(guest.source.with_file_name("part.c")))?
        .expect_status(0)?;
    Ok(())
}

/// Races in a library are ordered like those of the program; and with another library, another schedule is learned.
fn changed_library(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let mut before = Vec::new();
    for (flags, first) in [(None, "miss"), (Some("-DSTEP=5"), "miss"), (Some("-DSTEP=5"), "hit")] {
        if let Some(step) = flags {
            replace_library(sandbox, guest, &["cc", "--det"], &[step])?;
        }
        let learned = sandbox
            .run(&run(sandbox, &["--report"]).arg(&program))?
            .expect_status(0)?;
        says(&learned, &format!("refrain: {first}: "))?;
        let is_told = learned.stderr_text().contains("libpart.so has changed since schedule ");
        require(is_told == (first == "miss" && flags.is_some()), || {
            learned.told("expected the library to be named if it is another one")
        })?;
        for seed in 1..=10 {
            let ended = run_delayed(sandbox, &["--report"], seed, &[&program])?.expect_status(0)?;
            says(&ended, "refrain: hit: ")?;
            require(ended.stdout == learned.stdout, || {
                ended.told("expected the learned sum")
            })?;
        }
        require(first == "hit" || before != learned.stdout, || {
            learned.told("the library made no difference")
        })?;
        before = learned.stdout;
        only_listed(sandbox, &usual_cache(sandbox))?;
    }
    Ok(())
}

/// A library that cannot count seals the schedule. With one that can, it is learned.
fn library_without_det(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    replace_library(sandbox, guest, &["cc"], &[])?;
    let line = run(sandbox, &["--report"]).arg(&program);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    says(&ended, "libpart.so was built with `refrain cc` without --det")?;
    let entry = only_listed(sandbox, &usual_cache(sandbox))?;
    require(entry["state"] == "sealed", || format!("{entry} is not sealed"))?;
    let ended = sandbox.run(&line)?.expect_status(125)?;
    says(&ended, "cannot be run deterministically")?;
    replace_library(sandbox, guest, &["cc", "--det"], &[])?;
    for word in ["miss", "hit"] {
        says(&sandbox.run(&line)?.expect_status(0)?, &format!("refrain: {word}: "))?;
    }
    Ok(())
}

/// Of a library that is not observed at all nothing can be ordered: that is said when it is learned, and kept.
fn unobserved_library(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    replace_library(sandbox, guest, &[], &[])?;
    // What threads do to each other in there is not observed: the run may not come back when it is traced, and nothing is learned from it then.
    let mut ended = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    for _ in 0..20 {
        if !ended.stderr_text().contains("no schedule was learned") {
            break;
        }
        ended = sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    }
    says(&ended, "libpart.so was not built with `refrain cc --det`")?;
    let entry = only_listed(sandbox, &usual_cache(sandbox))?;
    let name = entry["name"].as_str().unwrap_or_default();
    let info = sandbox
        .run(&sandbox.refrain(["schedules", "info", name]))?
        .expect_status(0)?;
    require(info.stdout_text().contains("libpart.so"), || {
        info.told("expected the library")
    })
}
