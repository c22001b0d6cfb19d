//! Every program in `programs/`, at every level of optimisation, behaves like its uninstrumented self on every path
//! through the instrumented code, and counts the same events on all of them.
//!
//! That the count does not depend on the path is what lets a replay take another path than the recording.
mod support;

use instrumentor::driver::Language;
use std::fs;
use std::path::Path;
use support::Run;
use support::directory;
use support::native;
use support::refrain;
use support::run;
use support::run_ok;
use support::source;

const LEVELS: &[&str] = &["-O0", "-O1", "-O2 -g", "-O3", "-Os", "-Og -g3 -fPIC"];
/// Compiling C++ takes long; these differ most.
const CXX_LEVELS: &[&str] = &["-O0", "-O2 -g", "-O3", "-O2 -flto -fuse-ld=lld"];

/// Directives in the head of a program: `//# link: -latomic`, `//# counts: vary` (they depend on the schedule).
fn directive(text: &str, name: &str) -> String {
    let prefix = format!("//# {name}:");
    text.lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap_or("")
        .trim()
        .to_string()
}

fn check(file: &str, levels: &[&str]) {
    let path = source("programs").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let language = if file.ends_with(".cpp") {
        Language::Cxx
    } else {
        Language::C
    };
    for level in levels {
        let out = directory("programs").join(format!("{file}{}", level.replace(' ', "")));
        let (plain, observed) = (out.with_added_extension("native"), out.with_added_extension("observed"));
        let link = directive(&text, "link");
        let standard = if language == Language::Cxx {
            "-std=c++20"
        } else {
            "-std=gnu2x"
        };
        let mut options: Vec<&str> = level.split(' ').collect();
        options.extend(["-w", "-pthread", standard, path.to_str().unwrap(), "-lm"]);
        options.extend(link.split_whitespace());
        options.push("-o");
        run_ok(native(language).args(&options).arg(&plain));
        options.push(observed.to_str().unwrap());
        // Most have one thread, before which all that they write would be settled.
        let settled = if file == "settled.c" { "1" } else { "0" };
        run_ok(refrain(language, &options).env("REFRAIN_SETTLED", settled));
        compare(&plain, &observed, directive(&text, "counts") == "vary");
    }
}

fn compare(plain: &Path, observed: &Path, counts_vary: bool) {
    let name = observed.display();
    let expected = run(plain, &[]).visible;
    let check = |settings: &[(&str, &str)]| -> Run {
        let result = run(observed, settings);
        assert_eq!(result.visible, expected, "{name} {settings:?}");
        assert_eq!(
            result.counters["unknown_sites"], 0,
            "{name} {settings:?}: calls with a site that is not in a table"
        );
        result
    };
    let unobserved = check(&[("FAKE_MEMORY", "0")]);
    assert_eq!(
        unobserved.counters["plain_calls"] + unobserved.counters["range_calls"],
        0,
        "{name}: plain accesses at scope sync"
    );
    let fast = check(&[]);
    assert_eq!(
        fast.counters["plain_calls"], 0,
        "{name}: slow calls although every chunk is ours"
    );
    let slow = check(&[("FAKE_GATE", "0")]);
    let no_loops = check(&[("FAKE_LOOPS", "0")]);
    // Gates in the middle of groups and of loops: some strips run plain, some do not.
    let gates = check(&[("FAKE_GATE", "997")]);
    assert!(fast.events() > unobserved.events(), "{name}: nothing was observed");
    if !counts_vary {
        let events = [fast.events(), slow.events(), no_loops.events(), gates.events()];
        assert_eq!(
            events,
            [fast.events(); 4],
            "{name}: events on the fast path, the slow path, without plain loops, with gates"
        );
    }
}

#[test]
fn types() {
    check("types.c", LEVELS);
}

#[test]
fn control_flow() {
    check("control.c", LEVELS);
}

#[test]
fn loops() {
    check("loops.c", LEVELS);
}

#[test]
fn atomics() {
    check("atomics.c", LEVELS);
}

#[test]
fn late_stores() {
    check("late_stores.c", LEVELS);
    for level in LEVELS {
        let program = directory("programs").join(format!("late_stores.c{}.observed", level.replace(' ', "")));
        let late = run(&program, &[]).counters["late_stores"];
        assert!(late > 10_000, "{level}: only {late} stores could wait");
    }
}

#[test]
fn strings() {
    check("strings.c", LEVELS);
}

#[test]
fn masked_vectors() {
    check("masked.c", &["-O0 -mavx2", "-O2 -mavx2"]);
}

#[test]
fn locks() {
    check("races.c", &["-O0", "-O2"]);
    check("lockset.c", &["-O0", "-O2"]);
    check("settled.c", &["-O0", "-O2", "-O2 -flto -fuse-ld=lld"]);
}

#[test]
fn cxx_objects() {
    check("objects.cpp", CXX_LEVELS);
}

#[test]
fn cxx_threads() {
    check("threads.cpp", CXX_LEVELS);
}

#[test]
fn cxx_coroutines() {
    check("coroutine.cpp", CXX_LEVELS);
}

/// The switches change how events are found together, never which events there are.
#[test]
fn switches_do_not_change_the_events() {
    let path = source("programs/loops.c");
    let events = |switch: &str| {
        let out = directory("switches").join(format!("loops-{switch}"));
        let mut build = refrain(
            Language::C,
            &["-O2", "-w", path.to_str().unwrap(), "-o", out.to_str().unwrap()],
        );
        run_ok(build.env(switch, "0"));
        run(&out, &[]).events()
    };
    let all = events("NONE");
    assert_eq!(events("REFRAIN_GROUPS"), all);
    assert_eq!(events("REFRAIN_LOOPS"), all);
}

/// Exactly the globals whose name says so are left alone, and none if the rule is switched off.
fn check_globals(file: &str, rule: &str, switch: &str) {
    let path = source(file);
    let text = fs::read_to_string(&path).unwrap();
    for level in ["-O0", "-O1", "-O2"] {
        let mut build = refrain(Language::C, &[level, "-c", path.to_str().unwrap(), "-o", "/dev/null"]);
        let output = run_ok(build.env("REFRAIN_PASS_STATS", "1"));
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut found: Vec<&str> = log
            .lines()
            .filter_map(|line| line.strip_prefix("refrain: ")?.strip_suffix(rule))
            .filter(|name| name.starts_with("yes_") || name.starts_with("no_"))
            .collect();
        found.sort_unstable();
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut expected: Vec<&str> = words
            .filter(|word| word.starts_with("yes_") && *word != "yes_field")
            .collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(found, expected, "{level}");
        let off = run_ok(build.env(switch, "0"));
        assert!(!String::from_utf8_lossy(&off.stderr).contains(rule));
    }
}

/// Lemma 4.2.
#[test]
fn consistently_locked_globals_are_recognised() {
    check_globals("programs/lockset.c", ": consistently locked", "REFRAIN_O2");
}

#[test]
fn globals_that_are_settled_before_threads_are_recognised() {
    check_globals("programs/settled.c", ": settled", "REFRAIN_SETTLED");
}
