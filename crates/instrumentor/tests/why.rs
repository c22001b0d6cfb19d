//! `--why FILE:LINE`: each rule by which memory is not observed, and each way in which it is, is named where it holds, and nowhere else.
mod support;

use instrumentor::driver::Language;
use instrumentor::sites::SiteKind;
use instrumentor::sites::SiteTable;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use support::directory;
use support::run_ok;
use support::source;
use support::toolchain;

/// `refrain cc` or `refrain c++` with these arguments.
fn driver(language: Language, arguments: &[&str]) -> Command {
    let tools = toolchain();
    let mut command = Command::new(env!("CARGO_BIN_EXE_instrumentor-test-driver"));
    command
        .args([&tools.pass, &tools.runtime_directory])
        .arg(if language == Language::C { "cc" } else { "c++" })
        .args(arguments)
        .env("REFRAIN_VERIFY_IR", "1");
    command
}

fn language(file: &str) -> Language {
    match file.rsplit_once('.') {
        Some((_, "cpp")) => Language::Cxx,
        _ => Language::C,
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The sentences about some lines of a file in `why/`, without what all have in common.
fn sentences(file: &str, flags: &str, lines: &[usize], settings: &[(&str, &str)]) -> Vec<(usize, String)> {
    let asked: Vec<String> = lines.iter().map(|line| format!("--why={file}:{line}")).collect();
    let mut arguments: Vec<&str> = flags.split_whitespace().collect();
    arguments.extend(asked.iter().map(String::as_str));
    arguments.extend(["-w", "-c", file, "-o", "/dev/null"]);
    let output = driver(language(file), &arguments)
        .current_dir(source("why"))
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let text = text(&output);
    text.lines()
        .map(|line| {
            let rest = line
                .strip_prefix(&format!("refrain: {file}:"))
                .unwrap_or_else(|| panic!("{text}"));
            let (place, sentence) = rest.split_once(": ").unwrap();
            let line = place.split(':').next().unwrap().parse().unwrap();
            (line, sentence.to_owned())
        })
        .collect()
}

/// Are the parts of what is expected parts of the sentence, in this order?
fn says(sentence: &str, expected: &str) -> bool {
    let parts = |text: &str| -> Vec<String> { text.replace("; ", ": ").split(": ").map(str::to_owned).collect() };
    let found = parts(sentence);
    let mut found = found.iter();
    parts(expected).iter().all(|part| {
        let is_meant = |said: &String| {
            if part == "observed" {
                said == part
            } else {
                said.contains(part)
            }
        };
        found.any(is_meant)
    })
}

/// "{-1}" is the place of the line before.
fn with_places(expected: &str, file: &str, line: usize) -> String {
    let mut parts = expected.split('{');
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (distance, rest) = part.split_once('}').unwrap();
        let distance: isize = distance.parse().unwrap();
        text += &format!("{file}:{}{rest}", line.strict_add_signed(distance));
    }
    text
}

/// What stands behind "why:" in the lines of a program is said of them, and nothing else.
fn check(file: &str) {
    let program = fs::read_to_string(source("why").join(file)).unwrap();
    let flags = program.lines().find_map(|line| line.split_once("# flags:")).unwrap().1;
    let expected: Vec<(usize, Vec<String>)> = (1..)
        .zip(program.lines())
        .filter_map(|(number, line)| {
            let marks = ["// why:", "; why:"];
            let (_, why) = marks.iter().find_map(|mark| line.split_once(mark))?;
            Some((
                number,
                why.split(" | ")
                    .map(|one| with_places(one.trim(), file, number))
                    .collect(),
            ))
        })
        .collect();
    assert!(!expected.is_empty());
    let lines: Vec<usize> = expected.iter().map(|(line, _)| *line).collect();
    let said = sentences(file, flags, &lines, &[]);
    for (line, expected) in &expected {
        let of_line: Vec<&str> = said
            .iter()
            .filter(|(l, _)| l == line)
            .map(|(_, s)| s.as_str())
            .collect();
        for one in expected {
            assert!(
                of_line.iter().any(|sentence| says(sentence, one)),
                "{file}:{line}: expected\n  {one}\nin {of_line:#?}"
            );
        }
        for sentence in &of_line {
            assert!(
                expected.iter().any(|one| says(sentence, one)),
                "{file}:{line}: not expected\n  {sentence}\nbut {expected:#?}"
            );
        }
    }
}

#[test]
fn memory_of_c() {
    check("memory.c");
}

#[test]
fn what_is_settled_before_there_are_threads() {
    check("settled.c");
}

#[test]
fn which_check_covers_what() {
    check("checks.c");
}

#[test]
fn atomics_assembly_and_functions_that_are_left_alone() {
    check("instructions.c");
}

#[test]
fn objects_of_cxx() {
    check("objects.cpp");
}

#[test]
fn what_clang_does_not_write() {
    check("types.ll");
}

/// What options and variables make of the same lines.
#[test]
fn other_builds_have_other_reasons() {
    let of = |flags: &str, lines: &[usize], settings: &[(&str, &str)]| -> Vec<String> {
        let said = sentences("checks.c", flags, lines, settings);
        said.into_iter().map(|(_, sentence)| sentence).collect()
    };
    let all = |said: &[String], expected: &str| {
        assert!(
            !said.is_empty() && said.iter().all(|sentence| says(sentence, expected)),
            "{expected}: {said:#?}"
        );
    };
    let sync_only = of("-O1", &[11, 44, 46], &[("REFRAIN_BUILD_SCOPE", "sync")]);
    all(
        &sync_only,
        "not observed (sync-only): the module is compiled for scope sync",
    );
    let apart = of("-O1", &[11, 12], &[("REFRAIN_GROUPS", "0")]);
    all(&apart, "observed: has a check of its own");
    let no_loops = of("-O1", &[28], &[("REFRAIN_LOOPS", "0")]);
    all(
        &no_loops,
        "observed: argument `a` of `loop`: has the check that covers 2",
    );
    assert!(!no_loops[0].contains("range check"), "{no_loops:?}");
    let outlined = of("-O1", &[15], &[("REFRAIN_OUTLINE", "1")]);
    all(
        &outlined,
        "observed: calls its check, in code that is not done often (REFRAIN_OUTLINE)",
    );
    let in_parts = of("-O1 --coop", &[11], &[]);
    all(
        &in_parts,
        "observed: in recordings of a part (--coop), done by the runtime if `place.x` is chosen",
    );
    // The same rules with a third version of each function.
    let counted = of("-O1 --det", &[11, 49], &[]);
    all(&counted[..2], "observed: argument `p` of `groups`");
    all(&counted[2..], "not observed (stack)");
}

#[test]
fn functions_that_were_declared_are_said_by_their_ranges() {
    let at = directory("why").join("declared");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("functions"), "reads checksum 1 len=2\n").unwrap();
    let program = "long checksum(const void *, unsigned long);\nlong ask(const char *p) {\n    char own[4] = {1};\n    \
                   return checksum(p, 4) +\n        checksum(own, 4);\n}\n";
    fs::write(at.join("ask.c"), program).unwrap();
    let arguments = "-O1 --functions=functions --why ask.c:4 --why ask.c:5 -c ask.c";
    let output = run_ok(driver(Language::C, &arguments.split(' ').collect::<Vec<_>>()).current_dir(&at));
    let said = text(&output);
    let of = |line: u32| {
        said.lines()
            .find(|s| s.contains(&format!("ask.c:{line}:")) && s.contains("checksum"))
            .unwrap_or(&said)
    };
    assert!(says(of(4), "observed: argument `p` of `ask`"), "{said}");
    assert!(
        says(of(5), "observed: stack object `own` of `ask` escapes") || says(of(5), "observed: escapes"),
        "{said}"
    );
}

/// The exit status, and what is said, where there is nothing to say.
#[test]
fn lines_without_an_access_are_said_to_be_such() {
    let at = directory("why").join("nothing");
    fs::create_dir_all(&at).unwrap();
    fs::write(
        at.join("a.c"),
        "int add(int a, int b) {\n    // nothing\n    return a + b;\n}\n",
    )
    .unwrap();
    fs::write(at.join("b.c"), "int shared;\nint read_it(void) { return shared; }\n").unwrap();
    let ask = |line: &str| {
        let output = driver(Language::C, &line.split(' ').collect::<Vec<_>>())
            .current_dir(&at)
            .output()
            .unwrap();
        (
            output.status.code(),
            text(&output),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    for (line, status, why) in [
        (
            "--why a.c:3 -O1 -c a.c",
            1,
            "a.c:3: no access: what this line does is done in registers",
        ),
        (
            "--why a.c:2 -O1 -c a.c",
            1,
            "a.c:2: no access: there is no code of this line",
        ),
        (
            "--why b.c:2 -O1 -c a.c",
            2,
            "b.c:2: nothing that was compiled here has code of b.c",
        ),
        (
            "--why b.c:2 -c a.c b.c",
            0,
            "b.c:2:28: 4-byte load of shared in read_it: observed",
        ),
        ("--why ./b.c:2 -c b.c", 0, "`shared` is visible outside this module"),
        (
            "--why b.c:2 -r a.o b.o -o ab.o",
            2,
            "b.c:2: this command compiled nothing",
        ),
        ("--why b.c:2 -E b.c", 2, "this command compiles none"),
        ("--why b.c:99 -c b.c", 2, "there is no line 99 in b.c: it has 2"),
        ("--why b.c -c b.c", 2, "--why is followed by FILE:LINE"),
        ("-c b.c --why", 2, "--why is followed by FILE:LINE"),
        ("--why b.c:2:5 -c b.c", 2, "without the column"),
        ("--why a.c:1 -c missing.c", 1, "no such file"),
    ] {
        let (found, said, _) = ask(line);
        assert_eq!(found, Some(status), "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
    }
    let (status, said, json) = ask("--why-json b.c:2 --why-json a.c:3 -O1 -c a.c b.c");
    assert_eq!((status, said.as_str()), (Some(1), ""));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let place = &json["places"][0];
    assert_eq!((&place["file"], &place["line"]), (&"b.c".into(), &2.into()));
    let access = &place["accesses"][0];
    assert_eq!((&access["observed"], &access["times"]), (&true.into(), &1.into()));
    assert_eq!(
        (&access["function"], &access["element"]),
        (&"read_it".into(), &"shared".into())
    );
    assert_eq!(json["places"][1]["found"], "no access");
    let (_, _, help) = ask("--help");
    assert!(help.contains("\n  --why FILE:LINE "), "{help}");
}

/// The site table has what is observed, and was written by those who do it: every line of programs of all kinds is asked about, and what is said
/// to be observed has a site there, and nothing else has.
#[test]
fn what_is_said_to_be_observed_is_what_has_a_site() {
    let at = directory("why").join("sites");
    fs::create_dir_all(&at).unwrap();
    for (file, levels) in [
        ("control.c", &["-O0", "-O2"][..]),
        ("loops.c", &["-O0", "-O2", "-O3"]),
        ("lockset.c", &["-O1"]),
        ("types.c", &["-O0", "-O2"]),
        ("strings.c", &["-O2"]),
        ("atomics.c", &["-O1"]),
        ("late_stores.c", &["-O2"]),
        ("objects.cpp", &["-O2"]),
    ] {
        for level in levels {
            compare(&at, file, level);
        }
    }
}

fn compare(at: &Path, file: &str, level: &str) {
    let program = source("programs").join(file);
    let lines = fs::read_to_string(&program).unwrap().lines().count();
    let program = program.to_str().unwrap();
    let object = at.join(format!("{file}{level}.o"));
    let mut arguments: Vec<String> = (1..=lines).map(|line| format!("--why-json={program}:{line}")).collect();
    let standard = if language(file) == Language::Cxx {
        "-std=c++20"
    } else {
        "-std=gnu2x"
    };
    let rest = [level, "-w", standard, "-c", program, "-o", object.to_str().unwrap()];
    arguments.extend(rest.iter().map(|word| word.to_string()));
    let output = driver(
        language(file),
        &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .output()
    .unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    let accesses = json["places"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|place| place["accesses"].as_array().unwrap());
    let said: BTreeSet<u64> = accesses
        .filter(|access| access["observed"] == true)
        .map(|access| access["line"].as_u64().unwrap())
        .collect();
    let table = SiteTable::read(&object).unwrap();
    let sites_of = |kinds: &[SiteKind]| -> BTreeSet<u64> {
        let all = table.iter().map(|(_, site)| site);
        all.filter(|site| kinds.contains(&site.kind) && site.file == program)
            .map(|site| u64::from(site.line))
            .collect()
    };
    let sites = sites_of(&[SiteKind::Load, SiteKind::Store, SiteKind::Atomic, SiteKind::Range]);
    // strdup both reads and allocates; malloc does not read.
    let allocations = sites_of(&[SiteKind::Allocation]);
    assert!(!sites.is_empty(), "{file} {level}");
    let said: BTreeSet<u64> = said
        .into_iter()
        .filter(|line| sites.contains(line) || !allocations.contains(line))
        .collect();
    assert_eq!(said, sites, "{file} {level}: said to be observed, and observed");
}
