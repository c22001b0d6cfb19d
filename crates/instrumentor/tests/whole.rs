//! `-flto`: the pass sees the program as one, once, while it is linked; what is visible outside stays as it is.
mod support;

use instrumentor::driver::Language;
use instrumentor::sites::SiteTable;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use support::Run;
use support::directory;
use support::native;
use support::refrain;
use support::run;
use support::run_ok;
use support::source;
use support::toolchain;

const OUTPUT: &str = "20 99256\n";

/// A fresh directory with main.c and part.c.
fn project(name: &str) -> PathBuf {
    let path = directory("whole").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    for file in ["main.c", "part.c"] {
        fs::copy(source("whole").join(file), path.join(file)).unwrap();
    }
    path
}

fn cc(at: &Path, line: &str) {
    let arguments: Vec<&str> = line.split(' ').collect();
    run_ok(refrain(Language::C, &arguments).current_dir(at));
}

fn observed(program: &Path) -> Run {
    let result = run(program, &[]);
    assert_eq!(result.visible, (Some(0), OUTPUT.to_string()), "{}", program.display());
    assert_eq!(run(program, &[("FAKE_GATE", "0")]).events(), result.events());
    result
}

/// `refrain cc` itself, which has options that clang has not.
fn driver(at: &Path, line: &str, settings: &[(&str, &str)]) -> Output {
    let tools = toolchain();
    Command::new(env!("CARGO_BIN_EXE_instrumentor-test-driver"))
        .args([&tools.pass, &tools.runtime_directory])
        .arg("cc")
        .args(line.split(' '))
        .envs(settings.iter().copied())
        .env("REFRAIN_VERIFY_IR", "1")
        .current_dir(at)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two threads, each of which increments `shared` ten times: what is left when all of the program is known.
const LEFT: u64 = 2 * 10 * 2 + 3;

#[test]
fn rules_hold_across_modules_and_the_pass_runs_once() {
    let at = project("rules");
    cc(&at, "-O2 -c main.c part.c");
    cc(&at, "main.o part.o -o apart");
    assert!(observed(&at.join("apart")).events() > 2000);
    cc(&at, "-O2 -flto -c main.c part.c");
    cc(&at, "-O2 -flto main.o part.o -o whole");
    let whole = observed(&at.join("whole"));
    assert_eq!(whole.events(), LEFT, "{:?}", whole.counters);
    assert_eq!((whole.counters["tables"], whole.counters["unknown_sites"]), (1, 0));
    // Sites still speak of the file they are in.
    let table = SiteTable::read(&at.join("whole")).unwrap();
    let is_there = |name: &str, line: u32| {
        table
            .iter()
            .any(|(_, site)| site.file.ends_with(name) && site.line == line)
    };
    assert!(is_there("part.c", 7) && is_there("main.c", 24));
    // In one command, by archive, and without optimisation.
    cc(&at, "-O2 -flto main.c part.c -o once");
    assert_eq!(observed(&at.join("once")).events(), LEFT);
    run_ok(
        Command::new("llvm-ar-22")
            .args(["rcs", "libpart.a", "part.o"])
            .current_dir(&at),
    );
    cc(&at, "-O2 -flto main.o -L. -lpart -o archive");
    assert_eq!(observed(&at.join("archive")).events(), LEFT);
    cc(&at, "-O0 -flto main.c part.c -o plain");
    assert!(observed(&at.join("plain")).events() < 100);
    // Bitcode that is compiled again is held again.
    cc(&at, "-O2 -flto -emit-llvm -c part.c -o part.bc");
    cc(&at, "-O2 -flto main.o part.bc -o again");
    assert_eq!(observed(&at.join("again")).events(), LEFT);
}

#[test]
fn what_others_can_see_is_observed() {
    let at = project("visible");
    cc(&at, "-O2 -c main.c -o main-plain.o");
    cc(&at, "-O2 -fPIC -c part.c -o part-plain.o");
    cc(&at, "main-plain.o part-plain.o -o apart");
    let apart = observed(&at.join("apart")).events();
    // A part that is linked in otherwise, on either side.
    cc(&at, "-O2 -flto -fPIC -c main.c part.c");
    cc(&at, "-O2 -flto main-plain.o part.o -o mixed");
    assert_eq!(observed(&at.join("mixed")).events(), apart);
    cc(&at, "-O2 -flto main.o part-plain.o -o mixed-too");
    let mixed = observed(&at.join("mixed-too")).events();
    // Only `locked_sum` has become the program's own.
    assert!(mixed < apart && mixed > 2000, "{mixed} and {apart}");
    // A shared library, and a program that shows everything.
    cc(&at, "-O2 -flto -shared part.o -o libpart.so");
    cc(
        &at,
        "-O2 -flto -rdynamic main.o -L. -lpart -Wl,-rpath,$ORIGIN -o dynamic",
    );
    assert_eq!(observed(&at.join("dynamic")).events(), apart);
    cc(&at, "-O2 -flto -rdynamic main.o part.o -o shown");
    assert!(observed(&at.join("shown")).events() > 2000);
}

#[test]
fn nothing_is_left_out_silently() {
    let at = project("refused");
    cc(&at, "-O2 -flto -c main.c part.c");
    let plain = native(Language::C)
        .args(["-flto", "-fuse-ld=lld", "main.o", "part.o", "-o", "none"])
        .current_dir(&at)
        .output()
        .unwrap();
    assert!(text(&plain).contains("__refrain_objects_of_flto_are_linked_with_refrain_cc_flto"));
    let other_scope = driver(
        &at,
        "-O2 -flto main.o part.c -o none",
        &[("REFRAIN_BUILD_SCOPE", "sync")],
    );
    assert!(
        text(&other_scope).contains("different values of REFRAIN_BUILD_SCOPE"),
        "{}",
        text(&other_scope)
    );
    let other_functions = driver(&at, "-O2 -flto --det part.c main.o -o none", &[]);
    assert!(
        text(&other_functions).contains("different values of --det"),
        "{}",
        text(&other_functions)
    );
    cc(&at, "-O2 -emit-llvm -c part.c -o part.bc");
    let done = driver(&at, "-O2 -flto main.o part.bc -o none", &[]);
    assert!(
        text(&done).contains("part.c was instrumented when it was compiled"),
        "{}",
        text(&done)
    );
    for output in [plain, other_scope, other_functions, done] {
        assert!(!output.status.success());
    }
}

#[test]
fn questions_are_answered_by_the_link() {
    let at = project("why");
    let early = driver(&at, "-O2 -flto --why part.c:12 -c part.c", &[]);
    assert_eq!(early.status.code(), Some(2));
    assert!(
        text(&early).contains("ask --why part.c:12 of the command that links it"),
        "{}",
        text(&early)
    );
    cc(&at, "-O2 -flto -c main.c part.c");
    let asked = driver(
        &at,
        "-O2 -flto --why part.c:7 --why part.c:20 --why main.c:17 main.o part.o -o whole",
        &[],
    );
    let said = text(&asked);
    assert_eq!(asked.status.code(), Some(0), "{said}");
    for expected in [
        "part.c:7:",
        "shared in add",
        "not observed (settled): `table` is written only before there is another thread",
        "not observed (locked): lock `m` is held at every access of `locked_sum`",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
